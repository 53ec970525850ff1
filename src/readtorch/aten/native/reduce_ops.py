# Tangled from chapters/00_tensor/6_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.wrap_dim_utils import reduced_dims
from readtorch.c10.core.scalar_type import dtype, to_numpy_dtype


@register("sum", key="CPU CUDA", variants="function method", out=True, autocast="float32")
def sum(self: Array, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Array:
    """The sum over `dim` (an int, several, or None for all). Integers are summed as int64."""
    kind = self.dtype.kind
    accumulate = to_numpy_dtype(dtype) if dtype is not None else np.dtype(np.int64) if kind in "biu" else None
    if dim is None and not keepdim:
        if accumulate is None and kind == "f" and self.itemsize >= 4:
            return np.add.reduce(self, axis=None)
        return _add_up(self, tuple(range(self.ndim)), False, accumulate)
    return _add_up(self, reduced_dims(dim, self.ndim), keepdim, accumulate)


def _add_up(array: Array, axes: tuple[int, ...], keepdim: bool, dtype: np.dtype | None) -> Array:
    """Half-width floats are summed in float32 and rounded once, as upstream's kernels do."""
    result_dtype = array.dtype if dtype is None else dtype
    if not axes:
        return array.astype(result_dtype)
    if result_dtype.itemsize == 2 and result_dtype.kind in "fV":
        return np.asarray(array.astype(np.float32).sum(axis=axes, keepdims=keepdim)).astype(result_dtype)
    return array.sum(axis=axes, keepdims=keepdim, dtype=dtype)


def spread(at: Any, grad: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """The gradient of a reduction, stretched back over the reduced dimensions."""
    if not keepdim and len(shape):
        for axis in sorted(reduced_dims(dim, len(shape))):
            grad = at.unsqueeze(grad, axis)
    return at.expand(grad, shape)


derivative("sum", self=lambda at, grad, self_shape, dim, keepdim: spread(at, grad, self_shape, dim, keepdim))


@register("sum_to_size", key="CPU CUDA", variants="method")
def sum_to_size(self: Array, *size: Any) -> Array:
    """Sum down to `size`, which broadcasting would stretch to the shape of `self`."""
    from readtorch.aten.expand_utils import is_expandable_to, sum_to
    from readtorch.aten.wrap_dim_utils import sizes

    shape = sizes(size)
    if not is_expandable_to(shape, self.shape):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(self.shape)}}}.")
    return sum_to(self, shape)


derivative("sum_to_size", self=lambda at, grad, self_shape: at.expand(grad, self_shape))
