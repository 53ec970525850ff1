# Tangled from chapters/a1_operators/nn_2_pooling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.tensor_factories import in_suggested_format


def _put(x: Array, indices: Array, size: Sequence[int]) -> Array:
    leading = x.shape[: x.ndim - len(size)]
    for number, length in enumerate(size):
        if length < 0:
            raise ValueError(f"max_unpooling: output_size[{number}] is {length}; sizes must be non-negative")
    planes, places = math.prod(leading), math.prod(size)
    if indices.dtype != np.int64:
        raise RuntimeError("elements in indices should be type int64")
    if x.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input, {list(x.shape)}, not {list(indices.shape)}"
        )
    if indices.size and not 0 <= indices.min() <= indices.max() < places:
        wrong = indices.max() if indices.max() >= places else indices.min()
        raise RuntimeError(
            f"Found an invalid max index: {wrong} (output volumes are of size {'x'.join(map(str, size))})"
        )
    out = np.zeros((planes, places), x.dtype)
    each = (planes, math.prod(x.shape[len(leading) :]))
    np.put_along_axis(out, indices.reshape(each), x.reshape(each), 1)
    return out.reshape(*leading, *size)


@register("max_unpool2d", module="nn", node="MaxUnpool2D")
def max_unpool2d(self: Array, indices: Array, output_size: Sequence[int]) -> Array:
    """Values of `self` at `indices` of a zero image of `output_size`."""
    return _put(self, indices, tuple(output_size))


@register("max_unpool3d", module="nn", node="MaxUnpool3D")
def max_unpool3d(
    self: Array, indices: Array, output_size: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Array:
    """Values of `self` at `indices` of a zero volume of `output_size`."""
    return _put(self, indices, tuple(output_size))


results_lie(in_suggested_format, "max_unpool2d")
derivative("max_unpool2d", self=lambda at, grad, indices, output_size: at._pool_gather(grad, indices, 2))
derivative("max_unpool3d", self=lambda at, grad, indices, output_size: at._pool_gather(grad, indices, 3))
