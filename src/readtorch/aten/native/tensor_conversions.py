# Tangled from chapters/00_tensor/08_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import to_numpy_dtype


@register("_to_copy", key="CPU CUDA", variants="", node="ToCopy")
def _to_copy(self: Array, dtype: Any) -> Array:
    """A copy in another dtype."""
    wanted = dtype if isinstance(dtype, np.dtype) else to_numpy_dtype(dtype)
    if self.dtype.kind == "c" and wanted.kind != "c":
        return self.real.astype(wanted)
    if self.dtype.kind == "f" and wanted.kind in "iu":
        return _saturating(self, wanted)
    return _cast(self, wanted)


@register("_to_copy", key="Meta")
def _to_copy_of_nothing(self: Array, dtype: Any) -> Array:
    wanted = dtype if isinstance(dtype, np.dtype) else to_numpy_dtype(dtype)
    return self.astype(wanted)


def _saturating(array: Array, wanted: np.dtype) -> Array:
    """Float to integer as the processor does it: to 32 bits, of which a narrower type keeps the last. 300.0 becomes 44 in uint8, 3e9 the least int32."""
    through = np.dtype(np.int32 if wanted.itemsize < 4 or wanted == np.int32 else np.int64)
    return _cast(array, through).astype(wanted, copy=False)


def _cast(array: Array, wanted: np.dtype) -> Array:
    """Elements that lie as they did, except that an expanded dimension tells no order."""
    return array.astype(wanted, order="C" if 0 in array.strides else "K")


derivative("_to_copy", self=lambda at, grad, self_dtype: at._to_copy(grad, self_dtype))
