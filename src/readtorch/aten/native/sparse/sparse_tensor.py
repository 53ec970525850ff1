# Tangled from chapters/a1_operators/5c_sparse.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import (
    derivative,
    operators,
    register,
    sparse_derivative,
    sparse_row,
)
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.sparse_tensor_impl import (
    SparseTensorImpl,
    coalesced,
    dense_of,
    empty_sparse,
    flat_places,
    sparse_of,
)
from readtorch.aten.wrap_dim_utils import sizes
from readtorch.c10.core import memory_format as formats
from readtorch.c10.core.dispatch_key import DispatchKey
from readtorch.c10.core.scalar_type import to_numpy_dtype
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


def check_size(indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> None:
    """RuntimeError unless these belong together."""
    if indices.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if len(shape) != indices.shape[0] + values.ndim - 1:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = {indices.shape[0]}, "
            f"dense_dim = {values.ndim - 1}"
        )
    if indices.shape[1] != values.shape[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from values: {values.shape[0]}"
        )
    wanted = (values.shape[0], *shape[indices.shape[0] :])
    if values.shape != wanted:
        raise RuntimeError(f"values has incorrect size, expected {list(wanted)}, got {list(values.shape)}")


def check_invariants(indices: np.ndarray, shape: tuple[int, ...], is_coalesced: bool | None) -> None:
    """RuntimeError if an index lies outside, or if what is said to be coalesced is not."""
    for dim, row in enumerate(indices):
        if not len(row):
            continue
        if row.min() < 0:
            raise RuntimeError(f"found negative index {row.min()} for dim {dim}")
        if row.max() >= shape[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {shape[dim]} but found index {row.max()}"
            )
    if is_coalesced:
        places = flat_places(indices, shape[: len(indices)])
        if not (places[1:] > places[:-1]).all():
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")


_CPU = DispatchKey.CPU


@register("_sparse_coo_tensor_with_dims_and_tensors", variants="", node="SparseCooTensorWithDimsAndTensors")
def _sparse_coo_tensor_with_dims_and_tensors(values: Array, indices: Array, size: tuple, is_coalesced: bool) -> Array:
    """A sparse tensor of these parts."""
    return SparseTensorImpl(indices, values, size, is_coalesced)


@register("_values_at", variants="")
def _values_at(self: Array, indices: Array) -> Array:
    """What a tensor holds at these places."""
    return self[tuple(indices)]


@sparse_row("_values_at")
def _values_at_sparse(self: Array, indices: Array) -> Array:
    self = coalesced(self)
    shape = self.shape[: self.sparse_dim]
    here, wanted = flat_places(self.indices, shape), flat_places(indices, shape)
    found = np.zeros((len(wanted), *self.values.shape[1:]), self.dtype)
    if len(here):
        at = np.minimum(np.searchsorted(here, wanted), len(here) - 1)
        hit = here[at] == wanted
        found[hit] = self.values[at[hit]]
    return found


derivative("_sparse_coo_tensor_with_dims_and_tensors", values=lambda at, grad, indices: at._values_at(grad, indices))


def _values_at_backward(at: Any, grad: Any, indices: Any, self_shape: Any) -> Any:
    return at._sparse_coo_tensor_with_dims_and_tensors(grad, indices, tuple(self_shape), False)


derivative("_values_at", self=_values_at_backward)
sparse_derivative("_values_at", self=_values_at_backward)


@register("_to_dense", variants="", node="ToDense")
def _to_dense(self: Array, masked_grad: Any = None) -> Array:
    """The same elements in the strided layout."""
    return self


@sparse_row("_to_dense")
def _to_dense_sparse(self: Array, masked_grad: Any = None) -> Array:
    return dense_of(self)


derivative("_to_dense", self=lambda at, grad: grad)


def _to_dense_backward(at: Any, grad: Any, self: Any, masked_grad: Any) -> Any:
    if masked_grad is None or masked_grad:
        return at.sparse_mask(grad, at.coalesce(self.detach()))
    return at.to_sparse(grad, self._array.sparse_dim)


sparse_derivative("_to_dense", self=_to_dense_backward)


@register("to_sparse", variants="", node="ToSparse")
def to_sparse(self: Array, sparse_dim: int | None = None) -> Array:
    """The elements that are not zero, as a sparse tensor; `sparse_dim` indices each (all of them by default)."""
    if sparse_dim is None:
        sparse_dim = self.ndim
    if self.ndim and not sparse_dim > 0:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    if not sparse_dim <= self.ndim:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{self.ndim}] range, but {sparse_dim} is given"
        )
    return sparse_of(self, sparse_dim)


@sparse_row("to_sparse")
def _to_sparse_sparse(self: Array, sparse_dim: int | None = None) -> Array:
    if sparse_dim not in (None, self.sparse_dim):
        raise RuntimeError(
            "to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not supported"
        )
    return self


derivative("to_sparse", self=lambda at, grad: at._to_dense(grad))
operators["to_sparse"].overload = lambda given: f"ToSparseBackward{1 if given['sparse_dim'] is None else 0}"


def _expects_sparse(name: str, layout: str = "sparse coordinate tensor layout") -> Any:
    def refuse(self: Array) -> Array:
        raise RuntimeError(f"{name} expected {layout} but got Strided")

    return refuse


for _name in ("coalesce", "indices"):
    register(_name, variants="method")(_expects_sparse(_name))
register("values", variants="method")(_expects_sparse("values", "sparse tensor layout"))


@sparse_row("coalesce")
def coalesce(self: Array) -> Array:
    """Each place once, in order."""
    return coalesced(self)


sparse_derivative("coalesce", self=lambda at, grad: grad)


def _coalesced_already(name: str, self: Array) -> None:
    if not self.coalesced:
        raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")


@sparse_row("values")
def values(self: Array) -> Array:
    """The values of a coalesced tensor."""
    _coalesced_already("values", self)
    return self.values


sparse_derivative(
    "values",
    self=lambda at, grad, self: at._sparse_coo_tensor_with_dims_and_tensors(
        grad, self._indices(), tuple(self.shape), True
    ),
)


@sparse_row("indices")
def indices(self: Array) -> Array:
    """The indices of a coalesced tensor."""
    _coalesced_already("indices", self)
    return self.indices


def _check_mask(self: Array, mask: Array) -> None:
    if not isinstance(mask, SparseTensorImpl):
        raise NotImplementedError(
            "Could not run 'aten::sparse_mask' with arguments from the 'CPU' backend: the mask must be sparse."
        )
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size {list(mask.shape)}"
        )


@register("sparse_mask", variants="method", node="SparseMask")
def sparse_mask(self: Array, mask: Array) -> Array:
    """What `self` holds at the places of the sparse tensor `mask`."""
    _check_mask(self, mask)
    return self


@sparse_row("sparse_mask")
def _sparse_mask_sparse(self: Array, mask: Array) -> Array:
    _check_mask(self, mask)
    found = _values_at_sparse(self, mask.indices) if isinstance(self, SparseTensorImpl) else self[tuple(mask.indices)]
    return mask.with_values(found.reshape(mask.values.shape))


def _sparse_mask_backward(at: Any, grad: Any, mask: Any, self_geometry: Any) -> Any:
    masked = at.sparse_mask(grad, mask)
    return masked if not any(self_geometry[1]) and len(self_geometry[0]) else at._to_dense(masked)


sparse_derivative("sparse_mask", self=_sparse_mask_backward)


@sparse_row("clone")
def clone(self: Array, *, memory_format: Any = formats.preserve_format) -> Array:
    """Copies of the indices and values."""
    if memory_format is not formats.preserve_format:
        raise RuntimeError("unsupported memory format option Contiguous: it is for strided tensors")
    return self.copy()


@sparse_row("_to_copy")
def _to_copy(self: Array, dtype: Any) -> Array:
    """Values of another type."""
    values = operators["_to_copy"].kernels[_CPU](self.values, dtype)
    return SparseTensorImpl(self.indices.copy(), values, self.shape, self.coalesced)


@sparse_row("copy_")
def copy_(self: Array, src: Array, non_blocking: bool = False) -> Array:
    """The parts of another sparse tensor."""
    if not isinstance(src, SparseTensorImpl):
        raise mixed_copy("sparse", "dense")
    return src.copy()


def mixed_copy(self: str, source: str) -> RuntimeError:
    """The error of a copy between layouts."""
    return RuntimeError(
        f"copy_() between dense and sparse Tensors is not implemented! Found self {self} and src {source}"
    )


@sparse_row("zero_")
def zero_(self: Array) -> Array:
    """Nothing is stored any more."""
    return empty_sparse(self.shape, self.dtype, self.sparse_dim)


def permuted(impl: SparseTensorImpl, order: tuple[int, ...]) -> SparseTensorImpl:
    """The dimensions in another order; sparse and dense ones stay what they are."""
    count = impl.sparse_dim
    if order == tuple(range(impl.ndim)):
        return SparseTensorImpl(impl.indices, impl.values, impl.shape, impl.coalesced)
    if any((dim < count) != (place < count) for place, dim in enumerate(order)):
        raise RuntimeError(
            "sparse transpose: transposed dimensions must be sparse or dense both: "
            f"Got sparse_dim: {count}, dense_dim: {impl.dense_dim}, order: {list(order)}"
        )
    values = impl.values
    if order[count:] != tuple(range(count, impl.ndim)):
        values = values.transpose(0, *(dim - count + 1 for dim in order[count:]))
    shape = tuple(impl.shape[dim] for dim in order)
    sorted_still = impl.coalesced and order[:count] == tuple(range(count))
    result = SparseTensorImpl(impl.indices[list(order[:count])], values, shape, sorted_still)
    result.orders, result.keys = impl.orders, tuple(impl.keys[dim] for dim in order[:count])
    return result


@sparse_row("transpose")
def transpose(self: Array, dim0: int, dim1: int) -> Array:
    """Two dimensions exchanged."""
    first, second = maybe_wrap_dim(dim0, self.ndim), maybe_wrap_dim(dim1, self.ndim)
    order = list(range(self.ndim))
    order[first], order[second] = second, first
    if {first < self.sparse_dim, second < self.sparse_dim} == {True, False}:
        raise RuntimeError(
            f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {self.sparse_dim}, d0: {first}, d1: {second}"
        )
    return permuted(self, tuple(order))


@sparse_row("t")
def t(self: Array) -> Array:
    """A matrix transposed."""
    if self.ndim > 2 or self.dense_dim:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {self.sparse_dim} sparse and {self.dense_dim} dense"
        )
    return permuted(self, tuple(range(self.ndim))[::-1])


@sparse_row("permute")
def permute(self: Array, *dims: Any) -> Array:
    """The dimensions in a new order."""
    order = tuple(maybe_wrap_dim(dim, self.ndim) for dim in sizes(dims, "dims"))
    if len(order) != self.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions: input.dim() = {self.ndim}, len(dims) = {len(order)}"
        )
    if len(set(order)) != len(order):
        raise RuntimeError("permute(sparse_coo): duplicate dims are not allowed.")
    return permuted(self, order)


@sparse_row("unsqueeze")
def unsqueeze(self: Array, dim: int) -> Array:
    """A dimension of size 1."""
    place = maybe_wrap_dim(dim, self.ndim + 1)
    shape = (*self.shape[:place], 1, *self.shape[place:])
    if place <= self.sparse_dim:
        indices = np.concatenate([self.indices[:place], np.zeros_like(self.indices[:1]), self.indices[place:]])
        return SparseTensorImpl(indices, self.values, shape)
    return SparseTensorImpl(self.indices, np.expand_dims(self.values, place - self.sparse_dim + 1), shape)


def _no_reshape(self: Array, *shape: Any) -> Array:
    raise RuntimeError("reshape is not implemented for sparse tensors")


def _no_expand(self: Array, *size: Any, implicit: bool = False) -> Array:
    raise RuntimeError("expand is unsupported for Sparse tensors")


def _no_alias(self: Array) -> Array:
    raise NotImplementedError("Cannot access storage of SparseTensorImpl: a sparse tensor has no views")


def _no_repeat(self: Array, *repeats: Any) -> Array:
    raise RuntimeError("expand is unsupported for Sparse tensors")


sparse_row("reshape")(_no_reshape)
sparse_row("expand")(_no_expand)
sparse_row("repeat")(_no_repeat)
sparse_row("alias")(_no_alias)


@sparse_row("select")
def select(self: Array, dim: int, index: int) -> Array:
    """One slice. Where no sparse dimension is left, a dense tensor."""
    if not self.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    place = maybe_wrap_dim(dim, self.ndim)
    size = self.shape[place]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {place}"
        )
    index %= size
    shape = self.shape[:place] + self.shape[place + 1 :]
    if place >= self.sparse_dim:
        values = np.take(self.values, index, axis=place - self.sparse_dim + 1)
        return SparseTensorImpl(self.indices, values, shape, self.coalesced)
    kept = np.flatnonzero(self.indices[place] == index)
    values = self.values[kept]
    if self.sparse_dim == 1:
        return np.asarray(values.sum(axis=0)).astype(self.dtype, copy=False)
    return SparseTensorImpl(np.delete(self.indices[:, kept], place, axis=0), values, shape, self.coalesced)


@sparse_row("unbind")
def unbind(self: Array, dim: int = 0) -> list[Array]:
    """All slices."""
    return [select(self, dim, number) for number in range(self.shape[maybe_wrap_dim(dim, self.ndim)])]


@sparse_row("index_select")
def index_select(self: Array, dim: int, index: Array) -> Array:
    """The slices with these numbers, some perhaps several times."""
    place = maybe_wrap_dim(dim, self.ndim)
    size = self.shape[place] if self.ndim else 1
    if index.ndim != 1 or index.dtype.kind != "i":
        raise IndexError("index_select(): expected 1-D and Long index tensor")
    if len(index) and not (-size <= index.min() and index.max() < size):
        raise IndexError(
            f"index_select(): index contains an index that is out of range for tensor of size {size} at dimension {place}"
        )
    index = index % max(size, 1)
    shape = (*self.shape[:place], len(index), *self.shape[place + 1 :])
    if place >= self.sparse_dim:
        return SparseTensorImpl(
            self.indices, self.values.take(index, place - self.sparse_dim + 1), shape, self.coalesced
        )
    order = np.argsort(self.indices[place], kind="stable")
    entries = self.indices[place][order]
    first = np.searchsorted(entries, index, "left")
    counts = np.searchsorted(entries, index, "right") - first
    which = np.repeat(np.arange(len(index)), counts)
    taken = order[np.arange(len(which)) + np.repeat(first - (np.cumsum(counts) - counts), counts)]
    if place:  # the entries stay in their order
        back = np.argsort(taken, kind="stable")
        which, taken = which[back], taken[back]
    indices = self.indices[:, taken]
    indices[place] = which
    return SparseTensorImpl(indices, self.values[taken], shape)


@sparse_row("narrow_copy")
def narrow_copy(self: Array, dim: int, start: int, length: int) -> Array:
    """`length` slices from `start` on."""
    place = maybe_wrap_dim(dim, self.ndim)
    size = self.shape[place]
    start = start + size if start < 0 else start
    if not (start >= 0 and length >= 0 and start + length <= size):
        raise RuntimeError(f"Invalid range [{start}, {start + length}) for dimension {place} of size {size}")
    shape = (*self.shape[:place], length, *self.shape[place + 1 :])
    if place >= self.sparse_dim:
        cut = [slice(None)] * self.values.ndim
        cut[place - self.sparse_dim + 1] = slice(start, start + length)
        return SparseTensorImpl(self.indices, self.values[tuple(cut)].copy(), shape, self.coalesced)
    kept = (self.indices[place] >= start) & (self.indices[place] < start + length)
    indices = self.indices[:, kept]
    indices[place] -= start
    return SparseTensorImpl(indices, self.values[kept], shape, self.coalesced)


@sparse_row("cat")
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """One after another along `dim`."""
    _all_sparse("Concatenating", tensors)
    first = tensors[0]
    place = maybe_wrap_dim(dim, first.ndim)
    for number, other in enumerate(tensors):
        if other.sparse_dim != first.sparse_dim or other.dense_dim != first.dense_dim:
            raise RuntimeError(
                f"All tensors must have the same: sparse_dim ({first.sparse_dim}) and dense_dim ({first.dense_dim}); tensor at position {number} differs"
            )
        if any(a != b for axis, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)) if axis != place):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.shape)}; at position {number} {list(other.shape)}"
            )
    ends = np.cumsum([other.shape[place] for other in tensors])
    shape = (*first.shape[:place], int(ends[-1]), *first.shape[place + 1 :])
    kind = to_numpy_dtype(result_type([other.values for other in tensors]))
    all_indices, all_values = [], []
    for other, end in zip(tensors, ends, strict=True):
        begin = end - other.shape[place]
        indices, values = other.indices.copy(), other.values.astype(kind, copy=False)
        if place < first.sparse_dim:
            indices[place] += begin
        else:
            room = [(0, 0)] * values.ndim
            room[place - first.sparse_dim + 1] = (begin, ends[-1] - end)
            values = np.pad(values, room)
        all_indices.append(indices)
        all_values.append(values)
    return SparseTensorImpl(np.concatenate(all_indices, 1), np.concatenate(all_values), shape)


def _all_sparse(what: str, tensors: Sequence[Array]) -> None:
    for number, other in enumerate(tensors):
        if not isinstance(other, SparseTensorImpl):
            raise RuntimeError(f"{what} sparse tensors, but a dense tensor was found at position {number}.")


@sparse_row("stack")
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Along a new dimension."""
    _all_sparse("Stacking", tensors)
    if any(other.shape != tensors[0].shape for other in tensors):
        raise RuntimeError("stack expects each tensor to be equal size")
    place = maybe_wrap_dim(dim, tensors[0].ndim + 1)
    return cat([unsqueeze(other, place) for other in tensors], place)
