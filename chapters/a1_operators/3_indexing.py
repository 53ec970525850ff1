# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Indexing: taking and putting by number and by mask
#
# Reference. The derivative of taking is adding back at the same places: adding, since an element may have been taken twice.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Taking elements by number
# `index` serves `x[[0, 2], :, mask]`; its derivative is `index_put` with accumulation, and the derivative of that is `index` again.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import tensor_advanced_indexing as tensor_advanced_indexing

# %%
#| into: aten/native/tensor_advanced_indexing.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import (
    broadcasts_on_meta,
    composite,
    derivative,
    register,
    results_lie,
    writes,
)
from readtorch.aten.core.dispatch.operator_entry import UNSAID, Array, Number
from readtorch.aten.expand_utils import infer_size, is_expandable_to
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.native.tensor_factories import in_one_piece, in_order_of
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.tensor_iterator import fitting
from readtorch.c10.core.device_guard import number_beside
from readtorch.c10.core.dispatch_key import device_of, without_values
from readtorch.c10.core.scalar_type import not_implemented, cpp_type, from_numpy_dtype, to_numpy_dtype, to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim

from readtorch.aten.tensor_iterator import in_order


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/native_functions.yaml#index.Tensor
def _key(self: Array, indices: Sequence[Array | None]) -> tuple:
    """Index arrays as NumPy wants them, checked against the sizes. IndexError names the value that is out of bounds."""
    key: list[Any] = []
    dim = -1
    for index in indices:
        dim += 1
        if index is None:
            key.append(slice(None))
            continue
        if index.dtype == np.uint8:  # a mask of the days before torch.bool
            index = index.astype(bool)
        kind = index.dtype.kind
        if kind not in "bi" or len(indices) > self.ndim:
            raise _wrong_indices(self, indices)
        if kind == "b":
            if index.shape != self.shape[dim : dim + index.ndim]:
                raise _wrong_mask(self, index, dim)
            dim += index.ndim - 1
        elif dim >= self.ndim:
            raise IndexError(f"too many indices for tensor of dimension {self.ndim}: masks stand for several")
        elif index.size:
            size = self.shape[dim]
            low, high = int(index.min()), int(index.max())
            if low < -size or high >= size:
                wrong = low if low < -size else high
                raise IndexError(f"index {wrong} is out of bounds for dimension {dim} with size {size}")
        key.append(index)
    return tuple(key)


def _wrong_indices(self: Array, indices: Sequence[Array | None]) -> IndexError:
    if any(index is not None and index.dtype.kind not in "bi" and index.dtype != np.uint8 for index in indices):
        return IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return IndexError(f"too many indices for tensor of dimension {self.ndim} (got {len(indices)})")


def _wrong_mask(self: Array, mask: Array, dim: int) -> IndexError:
    for axis, size in enumerate(mask.shape):
        if dim + axis >= self.ndim:
            break
        if size != self.shape[dim + axis]:
            return IndexError(
                f"The shape of the mask {list(mask.shape)} at index {axis} does not match the shape of the indexed tensor "
                f"{list(self.shape)} at index {dim + axis}"
            )
    return IndexError(f"too many indices for tensor of dimension {self.ndim}: the mask alone has {mask.ndim}")


def fills_by_mask_only() -> RuntimeError:
    """One value for all places of a mask goes to `masked_fill_`, which is stricter than an index is."""
    return RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")


@register("index", key="CPU CUDA", variants="")
def index(self: Array, indices: Sequence[Array | None]) -> Array:
    """Elements at the given positions; index tensors broadcast against each other."""
    key = _key(self, indices)
    try:
        found = self[key]
        return found if key[0].__class__ is not slice else in_order(found)
    except IndexError as error:
        raise _apart(indices) from error


def _apart(indices: Sequence[Any]) -> IndexError:
    shapes = ", ".join(str(list(index.shape)) for index in indices if hasattr(index, "shape"))
    return IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}")


@register("_index_put_zeros", key="CPU CUDA", variants="", node="IndexPut")
def _index_put_zeros(grad_output: Array, shape: tuple[int, ...], indices: Sequence[Array | None]) -> Array:
    """Zeros of `shape` with `grad_output` added at the positions."""
    result = np.zeros(shape, grad_output.dtype)
    _add_at(result, tuple(slice(None) if i is None else i for i in indices), grad_output)
    return result


def _add_at(target: Array, key: tuple, values: Array) -> None:
    if len(key) == 1 and target.ndim and key[0].__class__ is np.ndarray and key[0].dtype.kind in "iu":
        scatter_rows(target, key[0].reshape(-1), values.reshape(key[0].size, *target.shape[1:]))
        return
    np.add.at(target, key, values)


def scatter_rows(target: Array, rows: Array, values: Array) -> None:
    """`target[rows] += values` with every repetition counted.

    Sorting the row numbers and summing runs is faster than `np.add.at` where rows repeat and are more than a few numbers long.
    """
    if target.ndim == 1 or values.size < 256:
        np.add.at(target, rows, values)
        return
    rows = np.where(rows < 0, rows + target.shape[0], rows)
    order = np.argsort(rows, kind="stable")
    sorted_rows = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_rows[1:] != sorted_rows[:-1])))
    target[sorted_rows[starts]] += np.add.reduceat(values[order], starts, axis=0)


derivative("index", self=lambda at, grad, self_shape, indices: at._index_put_zeros(grad, self_shape, indices))
derivative("_index_put_zeros", grad_output=lambda at, grad, indices: at.index(grad, indices))


def _check_put(self: Array, key: tuple, values: Array) -> tuple[int, ...]:
    """The shape of the places to be written to. RuntimeError if the values do not go there."""
    try:
        target: tuple[int, ...] = self[key].shape
    except IndexError as error:
        raise _apart(key) from error
    if values.dtype != self.dtype:
        names = [to_string(from_numpy_dtype(x.dtype)) for x in (self, values)]
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {names[0]} for the destination and {names[1]} for the source."
        )
    if not is_expandable_to(values.shape, target) and values.size != 1:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of shape {list(target)}"
        )
    return target


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::index_put_
@register("index_put", key="CPU CUDA", variants="function method", inplace=True)
def index_put(self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False) -> Array:
    """A copy with `values` written, or added, at the positions."""
    result = self.copy(order="K")
    _index_put_(result, indices, values, accumulate)
    return result


@writes("index_put")
def _index_put_(self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool) -> None:
    if not indices:
        raise RuntimeError("index_put(): expected at least one index")
    try:
        key = _key(self, indices)
    except IndexError as error:
        if "out of bounds" in str(error) and self.size:  # found last upstream, when the elements are written
            _check_put(self, tuple(slice(None) if x is None else x * 0 for x in indices), values)
        raise
    if values.size == 1 and not accumulate and any(index is not None and index.dtype == np.uint8 for index in indices):
        raise fills_by_mask_only()
    target = _check_put(self, key, values)
    if accumulate:
        _add_at(self, key, np.broadcast_to(values.reshape(() if values.ndim > len(target) else values.shape), target))
    else:
        self[key] = values if values.ndim <= len(target) else values.reshape(())


def _without(at: Any, grad: Any, indices: Sequence[Any], accumulate: bool) -> Any:
    """The gradient with zeros where the values were overwritten."""
    if accumulate:
        return grad
    hole = at.zeros_like(at.index(grad, indices))
    return at.index_put(grad, indices, hole, False)


derivative(
    "index_put",
    self=lambda at, grad, indices, accumulate: _without(at, grad, indices, accumulate),
    values=lambda at, grad, indices: at.index(grad, indices),
)


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::index_select_out_cpu_
@register("index_select", key="CPU CUDA", variants="function method", out=True)
def index_select(self: Array, dim: int, index: Array) -> Array:
    """The slices along `dim` with the numbers in the 1-d `index`."""
    place = maybe_wrap_dim(dim, self.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype.kind not in "iu" or index.itemsize < 4:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    size = self.shape[place] if self.ndim else 1
    if not self.ndim and index.size != 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
    if not size and index.size:
        if self.ndim == 1:
            raise IndexError("index out of range in self")
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    if index.size and (int(index.min()) < 0 or int(index.max()) >= size):
        if place:
            raise RuntimeError(f"INDICES element is out of DATA bounds, axis_dim={size}")
        raise IndexError("index out of range in self")
    return np.take(self, index.reshape(-1), axis=place) if self.ndim else self.copy()


derivative(
    "index_select", self=lambda at, grad, self_shape, dim, index: at._index_add_zeros(grad, self_shape, dim, index)
)


@register("_index_add_zeros", key="CPU CUDA", variants="", node="IndexAdd")
def _index_add_zeros(grad_output: Array, shape: tuple[int, ...], dim: int, index: Array) -> Array:
    result = np.zeros(shape, grad_output.dtype)
    if not shape:
        return result + grad_output
    moved = np.moveaxis(result, dim, 0)
    scatter_rows(moved, index.reshape(-1), np.moveaxis(grad_output, dim, 0))
    return result


derivative("_index_add_zeros", grad_output=lambda at, grad, dim, index: at.index_select(grad, dim, index))


@composite("index_select_array", variants="")
def index_select_array(at: Any, self: Any, dim: int, index: np.ndarray) -> Any:
    """`index_select` by a raw array of numbers."""
    from readtorch.c10.core.tensor_impl import wrap

    if not hasattr(self, "_array"):
        return at.index_select(self, dim, index)
    here, there = device_of(index), device_of(self._array)
    numbers = wrap(index)
    return at.index_select(self, dim, numbers if here == there else at._to_device(numbers, there, here, True))


@register("index_of_repeats", key="CPU CUDA", variants="")
def index_of_repeats(repeats: Array) -> Array:
    """For counts [2, 0, 1]: [0, 0, 2]."""
    if repeats.dtype.kind != "i":
        raise not_implemented("repeat_interleave_cpu", repeats.dtype)
    if repeats.size and repeats.min() < 0:
        raise RuntimeError("repeats can not be negative")
    return np.repeat(np.arange(repeats.size), repeats)


def _check_vector(name: str, index: Any) -> None:
    """IndexError for an index of several dimensions."""
    if index.ndim > 1:
        kind, shape = to_string(index.dtype), list(index.shape)
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim} with type: {kind} and size: {shape}"
        )


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::index_add_cpu_out
def _check_index_add(self: Array, place: int, index: Array, source: Array, alpha: Number) -> None:
    if index.dtype.kind != "i":
        name = to_string(from_numpy_dtype(index.dtype))
        raise RuntimeError(f"index_add_(): Expected dtype int32/int64 for index but got: {name}")
    if self.ndim and not source.ndim:
        raise IndexError(f"Dimension specified as {place} but tensor has no dimensions")
    rest = [shape[:place] + shape[place + 1 :] for shape in (self.shape, source.shape)]
    if self.ndim != source.ndim or rest[0] != rest[1]:
        raise RuntimeError(
            "source tensor shape must match self tensor shape in all dimensions but dim. "
            f"They are {list(source.shape)} and {list(self.shape)}"
        )
    length = source.shape[place] if source.ndim else 1
    if index.size != length:
        raise RuntimeError(
            f"index_add_(): Number of indices ({index.size}) should be equal to source.size(dim): ({length}), for dim: {place}"
        )
    size = self.shape[place] if self.ndim else 1
    if index.size and self.size and not 0 <= index.min() <= index.max() < size:
        if self.ndim < 2 or alpha != 1:
            raise IndexError("index out of range in self")
        wrong = int(index.min()) if index.min() < 0 else int(index.max())
        raise RuntimeError(f"index {wrong} is out of bounds for dimension {place} with size {size}")


@register("index_add", key="CPU CUDA", variants="function method", inplace=True, out=True)
def index_add(self: Array, dim: int, index: Array, source: Array, *, alpha: Number = 1) -> Array:
    """A copy with `alpha * source` added to the slices numbered by `index`."""
    result = self.copy()
    _index_add_(result, dim, index, source, alpha=alpha)
    return result


@writes("index_add")
def _index_add_(self: Array, dim: int, index: Array, source: Array, *, alpha: Number = 1) -> None:
    place = maybe_wrap_dim(dim, self.ndim)
    _check_vector("index_add_", index)
    if isinstance(alpha, complex) and self.dtype.kind != "c":
        raise RuntimeError("value cannot be converted to type float without overflow")
    if source.dtype != self.dtype:
        raise RuntimeError(
            "index_add_(): self and source expected to have the same dtype, but got (self) "
            f"{to_string(from_numpy_dtype(self.dtype))} and (source) {to_string(from_numpy_dtype(source.dtype))}"
        )
    _check_index_add(self, place, index, source, alpha)
    if not self.size:
        return
    values = source if alpha == 1 else source * self.dtype.type(alpha)
    if self.ndim:
        scatter_rows(np.moveaxis(self, place, 0), index.reshape(-1), np.moveaxis(values, place, 0))
    else:
        self += values.sum()


derivative(
    "index_add",
    self=lambda at, grad: grad,
    source=lambda at, grad, source, dim, index, alpha: (
        at.reshape(at.index_select(grad, dim, index), source.shape) * alpha
    ),
)


@register("index_copy", key="CPU CUDA", variants="function method", inplace=True, out=True)
def index_copy(self: Array, dim: int, index: Array, source: Array) -> Array:
    """A copy with the slices numbered by `index` replaced by those of `source`."""
    result = self.copy()
    _index_copy_(result, dim, index, source)
    return result


@writes("index_copy")
def _index_copy_(self: Array, dim: int, index: Array, source: Array) -> None:
    place = maybe_wrap_dim(dim, self.ndim)
    _check_index_copy(self, place, index, source)
    lines, rows = [np.moveaxis(x if x.ndim else x.reshape(1), place, 0) for x in (self, source)]
    lines[index] = rows[0] if not index.ndim else rows


def _check_index_copy(self: Array, place: int, index: Array, source: Array) -> None:
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if not source.ndim and index.size != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {index.size})")
    if source.ndim and self.ndim and source.ndim != self.ndim:
        raise IndexError(
            "index_copy_(): the dimensionality of source and destination must match when they are not scalars: "
            f"{source.ndim} and {self.ndim}"
        )
    if index.dtype != np.int64:
        name = to_string(from_numpy_dtype(index.dtype))
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {name}")
    if self.dtype != source.dtype:
        raise RuntimeError("index_copy_(): self and source expected to have the same dtype")
    mine, theirs = [list(shape[:place] + shape[place + 1 :]) for shape in (self.shape, source.shape)]
    if mine != theirs:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes: "
            f"without dimension {place}, {theirs} does not go into {mine}."
        )
    if source.ndim and index.size != source.shape[place]:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.size}) should be equal to source.size(dim) ({source.shape[place]})"
        )
    size = self.shape[place] if self.ndim else 1
    if index.size and not size:
        raise RuntimeError(f"index_copy_(): dimension {place} has no elements to be written to")
    for number in index.reshape(-1):
        if not 0 <= number < size:
            raise IndexError(f"index_copy_(): index {number} is out of bounds for dimension {place} with size {size}")


derivative(
    "index_copy",
    self=lambda at, grad, dim, index: at.index_fill(grad, dim, index, 0),
    source=lambda at, grad, source, dim, index: at.reshape(at.index_select(grad, dim, index), tuple(source.shape)),
)


@composite("index_fill", variants="function method", inplace=True)
def index_fill(at: Any, self: Array, dim: int, index: Array, value: Array | Number) -> Any:
    """A copy with the slices numbered by `index` set to `value`, a number or a 0-d tensor."""
    if not hasattr(value, "dtype") or isinstance(value, np.generic):
        return at._index_fill_scalar(self, dim, index, value)
    if value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor; this one has {value.ndim} dimension(s)."
        )
    return at._index_fill_tensor(self, dim, index, value)


@register("_index_fill_tensor", key="CPU CUDA", variants="", node="IndexFillBackward1")
def _index_fill_tensor(self: Array, dim: int, index: Array, value: Array) -> Array:
    return _index_fill_scalar(self, dim, index, value[()])


@register("_index_fill_scalar", key="CPU CUDA", variants="", node="IndexFill")
def _index_fill_scalar(self: Array, dim: int, index: Array, value: Any) -> Array:
    if index.dtype != np.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if isinstance(value, complex) and self.dtype.kind != "c":
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if index.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    place = maybe_wrap_dim(dim, self.ndim)
    size = self.shape[place] if self.ndim else 1
    if index.size and not size:
        raise RuntimeError(f"index_fill_(): dimension {place} has no elements to be filled")
    if index.size and not -size <= index.min() <= index.max() < size:
        wrong = int(index.min()) if index.min() < -size else int(index.max())
        raise IndexError(f"index {wrong} is out of bounds for dimension {place} with size {size}")
    result = self.copy(order="K")
    lines = np.moveaxis(result, place, 0) if self.ndim else result.reshape(1)
    lines[index] = fitting(value, self.dtype)
    return result


results_lie(in_order_of, "_index_fill_scalar", "_index_fill_tensor", "index_put")
derivative("_index_fill_scalar", self=lambda at, grad, dim, index: at._index_fill_scalar(grad, dim, index, 0))
derivative(
    "_index_fill_tensor",
    self=lambda at, grad, dim, index: at._index_fill_scalar(grad, dim, index, 0),
    value=lambda at, grad, dim, index: at.sum(at.index_select(grad, dim, index)),
)

# %% [markdown]
# ### gather and scatter
# `gather(x, d, i)[..., j, ...] = x[..., i[..., j, ...], ...]`. Its derivative is `scatter_add`, and the other way round.


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::scatter_add
def _grid(index: Array, dim: int) -> tuple:
    """`index` along `dim`, the own position along all others."""
    key: list[Any] = [
        np.arange(size).reshape((-1,) + (1,) * (index.ndim - axis - 1)) for axis, size in enumerate(index.shape)
    ]
    key[dim] = index
    return tuple(key)


def _check_gather(name: str, self: Array, dim: int, index: Array, source: Array | None = None) -> int:
    place = maybe_wrap_dim(dim, self.ndim)
    if index.size == 0:
        return place
    if index.dtype != np.int64 and index.dtype != np.int32:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if (self.ndim or 1) != (index.ndim or 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    if source is not None and (source.ndim or 1) != (index.ndim or 1):
        for axis, size in enumerate(index.shape if source.ndim else ()):
            if size > source.shape[maybe_wrap_dim(axis, source.ndim)]:
                break
        raise RuntimeError("Index tensor must have the same number of dimensions as src")
    ours: tuple[int, ...] = self.shape or (1,)  # a number has one dimension here
    theirs: tuple[int, ...] = (self if source is None else source).shape or (1,)
    for axis in range(index.ndim):
        limit = ours[axis] if source is None else min(theirs[axis], ours[axis] if axis != place else theirs[axis])
        if (axis != place or source is not None) and index.shape[axis] > limit:
            other = "input" if source is None else "src"
            raise RuntimeError(
                f"Size does not match at dimension {axis} expected index {list(index.shape)} to be no larger than {other} {list((self if source is None else source).shape)} apart from dimension {place}"
            )
    size = self.shape[place] if self.ndim else 1
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= size:
        wrong = low if low < 0 else high
        raise RuntimeError(f"index {wrong} is out of bounds for dimension {place} with size {size}")
    return place


@register("gather", key="CPU CUDA", variants="function method", out=True)
def gather(self: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """Elements of `self` at the numbers in `index` along `dim`; the result has the shape of `index`."""
    place = _check_gather("gather", self, dim, index)
    if not index.size:
        return np.empty(index.shape, self.dtype)
    if not self.ndim or not index.ndim:
        return self.reshape(-1)[index]
    return self[_grid(index, place)]


results_lie(in_one_piece, "gather")
derivative("gather", self=lambda at, grad, self, dim, index: at._scatter_add_zeros(grad, self.shape, dim, index))


@register("_scatter_add_zeros", key="CPU CUDA", variants="", node="ScatterAdd")
def _scatter_add_zeros(grad_output: Array, shape: tuple[int, ...], dim: int, index: Array) -> Array:
    return scatter_add(np.zeros(shape, grad_output.dtype), dim, index, grad_output)


derivative("_scatter_add_zeros", grad_output=lambda at, grad, dim, index: at.gather(grad, dim, index))


@register("scatter_add", key="CPU CUDA", variants="function method", inplace=True, out=True)
def scatter_add(self: Array, dim: int, index: Array, src: Array) -> Array:
    """A copy with `src` added at the numbers in `index` along `dim`."""
    result = self.copy()
    _scatter_add_(result, dim, index, src)
    return result


@writes("scatter_add")
def _scatter_add_(self: Array, dim: int, index: Array, src: Array) -> None:
    place = _check_gather("scatter", self, dim, index, src)
    if self.dtype != src.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if not index.size:
        return
    if not self.ndim or not index.ndim:
        np.add.at(self.reshape(1) if not self.ndim else self, index.reshape(-1), src.reshape(-1)[: index.size])
        return
    np.add.at(self, _grid(index, place), src[tuple(slice(size) for size in index.shape)])


derivative("scatter_add", self=lambda at, grad: grad, src=lambda at, grad, dim, index: at.gather(grad, dim, index))


@register("_scatter_src", key="CPU CUDA", variants="", node="Scatter")
def _scatter_src(self: Array, dim: int, index: Array, src: Array) -> Array:
    place = _check_gather("scatter", self, dim, index, src)
    if self.dtype != src.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    result = self.copy()
    if index.size and index.ndim:
        result[_grid(index, place)] = src[tuple(slice(size) for size in index.shape)]
    elif index.size:
        result = result.copy()
        result.reshape(-1)[index] = src.reshape(-1)[0]
    return result


@register("_scatter_value", key="CPU CUDA", variants="", node="ScatterBackward1")
def _scatter_value(self: Array, dim: int, index: Array, value: Any) -> Array:
    place = _check_gather("scatter", self, dim, index)
    result = self.copy()
    if index.size and index.ndim:
        result[_grid(index, place)] = fitting(value, self.dtype)
    elif index.size:
        result.reshape(-1)[index] = fitting(value, self.dtype)
    return result


derivative(
    "_scatter_src",
    self=lambda at, grad, dim, index: at._scatter_value(grad, dim, index, 0),
    src=lambda at, grad, dim, index: at.gather(grad, dim, index),
)
derivative("_scatter_value", self=lambda at, grad, dim, index: at._scatter_value(grad, dim, index, 0))


@composite("scatter", variants="function method", inplace=True, out=True)
def scatter(
    at: Any,
    self: Array,
    dim: int,
    index: Array,
    src: Array | Number | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Any:
    """A copy with `src`, a tensor or a number, written at the numbers in `index` along `dim`; `reduce` "add" or "multiply" combines instead."""
    src = value if src is None else src
    if src is None:
        raise TypeError('scatter() missing 1 required positional arguments: "src"')
    src = src.item() if isinstance(src, np.generic) else src
    is_number = not hasattr(src, "dtype")
    if reduce not in (None, "add", "multiply"):
        maybe_wrap_dim(dim, self.ndim)
        raise RuntimeError("reduce argument must be either add or multiply.")
    if reduce == "add" and not is_number:
        return at.scatter_add(self, dim, index, src)
    if reduce is not None:
        if is_number:
            src = at.zeros_like(at.gather(self, dim, index)) + src
        return at.scatter_reduce(self, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])
    return at._scatter_value(self, dim, index, src) if is_number else at._scatter_src(self, dim, index, src)


#: what upstream's parser of names takes besides, for old programs
_OLD_REDUCTIONS = {"max": "amax", "min": "amin"}


@register("scatter_reduce", key="CPU CUDA", variants="function method", inplace=True, out=True)
def scatter_reduce(self: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True) -> Array:
    """A copy with `src` combined into it along `dim`: "sum", "prod", "mean", "amax" or "amin"."""
    place = _check_gather("scatter_reduce", self, dim, index, src)
    if self.dtype != src.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    functions = {"sum": np.add, "prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}
    reduce = _OLD_REDUCTIONS.get(reduce, reduce)
    if reduce not in functions:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    if reduce == "mean" and self.dtype.kind == "b":
        raise not_implemented("scatter_gather_tensor_cpu_reduce_mean", self.dtype)
    if index.size and not (self.ndim and index.ndim):  # numbers, as vectors of one
        parts = (x.reshape(x.shape or (1,)) for x in (self, index, src))
        line, places, values = parts
        return scatter_reduce(line, 0, places, values, reduce, include_self=include_self).reshape(self.shape)
    result = self.copy()
    if not index.size:
        return result
    key, values = _grid(index, place), src[tuple(slice(size) for size in index.shape)]
    if not include_self:
        start = {"sum": 0, "mean": 0, "prod": 1, "amax": -math.inf, "amin": math.inf}[reduce]
        if self.dtype.kind == "b":
            start = bool(start > 0)
        elif self.dtype.kind in "iu" and reduce in ("amax", "amin"):
            start = np.iinfo(self.dtype).min if reduce == "amax" else np.iinfo(self.dtype).max
        result[key] = start
    functions[reduce].at(result, key, values)
    if reduce == "mean":
        count = np.full(self.shape, 1 if include_self else 0, np.int64)
        np.add.at(count, key, 1)
        result = (result // np.maximum(count, 1) if self.dtype.kind in "iu" else result / np.maximum(count, 1)).astype(
            self.dtype
        )
    return result


def _scatter_reduce_backward(
    at: Any, grad: Any, self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, result: Any
) -> Any:
    if reduce in _OLD_REDUCTIONS:
        raise RuntimeError(f"Expected 'reduce' to be one of 'sum', 'prod', 'mean', 'amax' or 'amin' but got {reduce}.")
    if reduce == "sum":
        to_self, to_src = grad, at.gather(grad, dim, index)
    elif reduce == "mean":
        count = at.scatter_add(
            at.ones_like(self) if include_self else at.zeros_like(self), dim, index, at.ones_like(src)
        )
        share = grad / at.clamp(count, 1)
        to_self, to_src = share, at.gather(share, dim, index)
    elif reduce in ("amax", "amin"):
        hit_self = at._to_copy_like(self == result, grad)
        hit_src = at._to_copy_like(src == at.gather(result, dim, index), grad)
        total = at.scatter_add(hit_self, dim, index, hit_src)
        share = grad / total
        to_self, to_src = share * hit_self, at.gather(share, dim, index) * hit_src
    else:
        to_self, to_src = _product_backward(at, grad, self, dim, index, src, include_self, result)
    if not include_self:
        to_self = at._scatter_value(to_self, dim, index, 0)
    return to_self, to_src


def _product_backward(
    at: Any, grad: Any, self: Any, dim: int, index: Any, src: Any, include_self: bool, result: Any
) -> tuple[Any, Any]:
    """For each factor the product of the others: the result divided by it, or made again without a zero that is alone in its place."""
    one = at.masked_fill(self, self == 0, 1)
    to_self = grad * at.scatter_reduce(one, dim, index, src, "prod", include_self=include_self) / one
    zero = src == 0
    count = at.scatter_add(at.zeros_like(self), dim, index, at._to_copy_like(zero, src))
    alone = at.logical_and(zero, at.gather(count, dim, index) == 1)
    without = at.scatter_reduce(self, dim, index, at.masked_fill(src, alone, 1), "prod", include_self=include_self)
    others = at.gather(grad * result, dim, index) / at.masked_fill(src, zero, 1)
    return to_self, at.where(alone, at.gather(grad * without, dim, index), others)


derivative(
    "scatter_reduce",
    {
        "self, src": lambda at, grad, self, dim, index, src, reduce, include_self, result: _scatter_reduce_backward(
            at, grad, self, dim, index, src, reduce, include_self, result
        )
    },
)


@composite("_to_copy_like", variants="")
def _to_copy_like(at: Any, self: Any, other: Any) -> Any:
    """`self` in the dtype of `other`."""
    return at._to_copy(self, other.dtype)


@composite("take_along_dim", variants="function method", out=True)
def take_along_dim(at: Any, self: Array, indices: Array, dim: int | None = None) -> Any:
    """`gather` whose index broadcasts."""
    if to_string(indices.dtype) != "Long":
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {to_string(indices.dtype)}"
        )
    if dim is None:
        return at.gather(at.reshape(self, (-1,)), 0, at.reshape(indices, (-1,)))
    if self.ndim != indices.ndim:
        raise RuntimeError(
            f"torch.take_along_dim(): input and indices should have the same number of dimensions; they have {self.ndim} and {indices.ndim}"
        )
    place = maybe_wrap_dim(dim, self.ndim)
    ones = tuple(1 if axis == place else size for axis, size in enumerate(self.shape))
    index_ones = tuple(1 if axis == place else size for axis, size in enumerate(indices.shape))
    shape = infer_size(ones, index_ones)
    grown = at.expand(self, tuple(self.shape[place] if axis == place else size for axis, size in enumerate(shape)))
    index = at.expand(
        indices, tuple(indices.shape[place] if axis == place else size for axis, size in enumerate(shape))
    )
    return at.gather(grown, place, index)


@composite("take", variants="function method", out=True)
def take(at: Any, self: Array, index: Array) -> Any:
    """Elements by their number in the flattened tensor."""
    if str(index.dtype).rpartition(".")[2] != "int64":
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {to_string(index.dtype)}")
    flat = at.reshape(self, (-1,))
    return at.reshape(at.index(flat, [at.reshape(index, (-1,))]), tuple(index.shape))


# %% [markdown]
# A place that is named twice gets one of two sources, and which one is nobody's promise. The gradient does not know which it was: it is gathered by the same index, so *both* sources are told that they had an influence. Upstream documents that and keeps it (pytorch/pytorch#146299), since the
# right answer would cost a look at the index for everybody. With `scatter_add`, where both do have an influence, it is right.


# %%
#| claim: the gradient of a scatter with a repeated index goes to the source that was overwritten, too
#| source: pytorch/pytorch#146299
#| upstream: tools/autograd/derivatives.yaml#scatter.src
def _(torch):
    source = torch.tensor([1.0, 2.0], requires_grad=True)
    written = torch.zeros(2).scatter(0, torch.tensor([0, 0]), source)
    assert written.tolist() in ([1, 0], [2, 0])
    written.sum().backward()
    assert source.grad.tolist() == [1, 1]
