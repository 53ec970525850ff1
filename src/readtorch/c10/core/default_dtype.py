# Tangled from chapters/00_tensor/01_dtype_and_device.py — edit there, or here and run `readtorch sync`.

from readtorch.c10.core import scalar_type

_default = [scalar_type.float32]


def get_default_dtype() -> scalar_type.dtype:
    """The floating type of tensors made from Python floats."""
    return _default[0]


def set_default_dtype(wanted: scalar_type.dtype) -> None:
    """Set it. TypeError unless it is a floating dtype."""
    if not isinstance(wanted, scalar_type.dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not wanted.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _default[0] = wanted


def get_default_complex_dtype() -> scalar_type.dtype:
    """The complex type whose parts have the default dtype."""
    return _default[0].to_complex()
