# Tangled from chapters/00_tensor/01_dtype_and_device.py — edit there, or here and run `readtorch sync`.


class memory_format:
    """The order of dimensions in memory that `contiguous`, `clone` and `to` can be asked for."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
