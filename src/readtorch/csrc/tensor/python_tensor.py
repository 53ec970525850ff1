# Tangled from chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.c10.core import scalar_type, tensor_impl
from readtorch.c10.core.dispatch_key import device_of
from readtorch.c10.core.layout import LAYOUT_OF
from readtorch.c10.core.scalar_type import dtype
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.utils.tensor_new import legacy_sparse, legacy_tensor


class tensortype(type):
    """The metaclass of the legacy types: `isinstance(x, torch.FloatTensor)` asks for dtype and device."""

    _legacy_dtype: dtype
    _device_type: str
    _sparse = False

    def __instancecheck__(cls, other: Any) -> bool:
        if not isinstance(other, TensorImpl):
            return False
        return (
            scalar_type.FROM_NUMPY[other._array.dtype] is cls._legacy_dtype
            and device_of(other._array).type == cls._device_type
            and (other._array.__class__ in LAYOUT_OF) == cls._sparse
        )

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        array = (legacy_sparse if cls._sparse else legacy_tensor)(cls, args, cls._legacy_dtype)
        return tensor_impl.wrap(array)

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"

    @property
    def dtype(cls) -> dtype:
        """The element type."""
        return cls._legacy_dtype

    @property
    def is_cuda(cls) -> bool:
        return cls._device_type == "cuda"


LEGACY = {
    kind._legacy: tensortype(kind._legacy, (), {"__module__": "torch", "_legacy_dtype": kind, "_device_type": "cpu"})
    for kind in scalar_type.ALL
    if (not kind.is_complex and not kind.name.startswith("uint")) or kind.name == "uint8"
}
"""`FloatTensor` and the others, by name."""

SPARSE = {
    name: tensortype(
        name,
        (),
        {"__module__": "torch.sparse", "_legacy_dtype": kind._legacy_dtype, "_device_type": "cpu", "_sparse": True},
    )
    for name, kind in LEGACY.items()
    if name != "BoolTensor"
}
"""`torch.sparse.FloatTensor` and the others, by name."""
