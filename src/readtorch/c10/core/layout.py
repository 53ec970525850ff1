# Tangled from chapters/00_tensor/01_dtype_and_device.py — edit there, or here and run `readtorch sync`.


class layout:
    """How elements are stored; every tensor here is `strided`."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
