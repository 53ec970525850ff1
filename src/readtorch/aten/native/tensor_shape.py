# Tangled from chapters/00_tensor/6_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.wrap_dim_utils import sizes
from readtorch.c10.core.scalar_type import to_numpy_dtype
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


def inferred(shape: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """`shape` with its -1 filled in. RuntimeError if the number of elements does not fit."""
    if -1 not in shape:
        if math.prod(shape) == numel and (not shape or builtins.min(shape) >= 0):
            return shape
        if shape and builtins.min(shape) < -1:
            raise RuntimeError(f"invalid shape dimension {builtins.min(shape)}")
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    known = math.prod(size for size in shape if size != -1)
    if known == 0:
        if numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 can be any value and is ambiguous"
            )
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    if numel % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if size == -1 else size for size in shape)


@register("reshape", key="CPU CUDA", variants="function method", view="maybe", node="View")
def reshape(self: Array, *shape: Any) -> Array:
    """The same elements in another shape: a view where the strides allow it, else a copy."""
    return self.reshape(inferred(sizes(shape, "shape"), self.size))


derivative("reshape", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


@register("_view", key="CPU CUDA", variants="", view="always", node="View")
def _view(self: Array, shape: tuple[int, ...]) -> Array:
    wanted = inferred(shape, self.size)
    result = self.reshape(wanted)
    if self.size and result.base is not self and (self.base is None or result.base is not self.base) and result is not self:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return result


derivative("_view", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


@register("expand", key="CPU CUDA", variants="method", view="always")
def expand(self: Array, *size: Any, implicit: bool = False) -> Array:
    """Stretch dimensions of size 1 without copying; -1 keeps a size."""
    shape = list(sizes(size))
    lead = len(shape) - self.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand({list(self.shape)}, size={shape}): the number of sizes provided ({len(shape)}) must be greater or equal to the number of dimensions in the tensor ({self.ndim})"
        )
    for i, wanted in enumerate(shape):
        have = self.shape[i - lead] if i >= lead else 1
        if wanted == -1:
            if i < lead:
                raise RuntimeError(f"expand({list(self.shape)}, size={shape}): the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}")
            shape[i] = have
        elif have not in (1, wanted):
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) must match the existing size ({have}) at non-singleton dimension {i}.  Target sizes: {shape}.  Tensor sizes: {list(self.shape)}"
            )
    return _writeable(self, np.broadcast_to(self, tuple(shape)))


def _writeable(source: Array, result: Array) -> Array:
    """NumPy marks broadcast arrays read-only; upstream leaves writing to them to the program's conscience."""
    if result.__class__ is np.ndarray and source.flags.writeable:
        return np.lib.stride_tricks.as_strided(source, result.shape, result.strides)
    return result


derivative("expand", self=lambda at, grad: grad)


@register("unsqueeze", key="CPU CUDA", variants="function method", view="always", inplace=False)
def unsqueeze(self: Array, dim: int) -> Array:
    """A dimension of size 1 put in front of dimension `dim`."""
    place = maybe_wrap_dim(dim, self.ndim + 1)
    return self.reshape(*self.shape[:place], 1, *self.shape[place:]) if self.flags.c_contiguous else self[(slice(None),) * place + (None,)]


derivative("unsqueeze", self=lambda at, grad, dim: at.squeeze(grad, dim))


@register("squeeze", key="CPU CUDA", variants="function method", view="always")
def squeeze(self: Array, dim: Any = None) -> Array:
    """Drop dimensions of size 1: all, or those in `dim`."""
    if dim is None:
        wanted = tuple(range(self.ndim))
    elif isinstance(dim, tuple | list):
        wanted = tuple(maybe_wrap_dim(d, self.ndim) for d in dim)
    else:
        wanted = (maybe_wrap_dim(dim, self.ndim),)
    return self[tuple(0 if axis in wanted and size == 1 else slice(None) for axis, size in enumerate(self.shape)) + (...,)]


derivative("squeeze", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


@register("transpose", key="CPU CUDA", variants="function method", view="always")
def transpose(self: Array, dim0: int, dim1: int) -> Array:
    """Two dimensions exchanged."""
    rank = self.ndim
    return self.swapaxes(maybe_wrap_dim(dim0, rank), maybe_wrap_dim(dim1, rank)) if rank else self


derivative("transpose", self=lambda at, grad, dim0, dim1: at.transpose(grad, dim0, dim1))


@register("t", key="CPU CUDA", variants="function method", view="always")
def t(self: Array) -> Array:
    """A matrix transposed; vectors and scalars as they are."""
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self.T


derivative("t", self=lambda at, grad: at.t(grad))


@register("permute", key="CPU CUDA", variants="function method", view="always")
def permute(self: Array, *dims: Any) -> Array:
    """All dimensions in a new order."""
    order = sizes(dims, "dims")
    if len(order) != self.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = {self.ndim} is not equal to len(dims) = {len(order)}"
        )
    wrapped = tuple(maybe_wrap_dim(dim, self.ndim) for dim in order)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return self.transpose(wrapped)


def _permute_backward(at: Any, grad: Any, dims: tuple) -> Any:
    order = sizes(dims, "dims")
    wrapped = [dim % len(order) for dim in order] if order else []
    return at.permute(grad, sorted(range(len(wrapped)), key=wrapped.__getitem__))


derivative("permute", self=lambda at, grad, dims: _permute_backward(at, grad, dims))
