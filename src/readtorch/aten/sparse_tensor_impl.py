# Tangled from chapters/a1_operators/5c_sparse.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from readtorch.c10.core.device import cpu
from readtorch.c10.core.dispatch_key import BACKENDS, DEVICE_OF, DispatchKey
from readtorch.c10.core.layout import EMPTY_OF, LAYOUT_OF, sparse_coo


class SparseTensorImpl:
    """What a sparse tensor holds in place of an array: `indices (sparse_dim, nnz)`, `values (nnz, *dense shape)`, the shape.

    `coalesced`: no place occurs twice, and the places are in order. Never changed once made: an operator in place makes another.
    """

    __slots__ = ("coalesced", "indices", "keys", "orders", "shape", "values")

    #: NumPy's operators leave a sum or product with one of these to it
    __array_ufunc__ = None
    #: of arrays, the one that a view looks into
    base = None
    flags = SimpleNamespace(c_contiguous=False, f_contiguous=False, writeable=True)

    def __init__(
        self, indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...], coalesced: bool = False
    ) -> None:
        self.indices = indices
        self.values = values
        self.shape = tuple(shape)
        self.coalesced = coalesced or values.shape[0] < 2
        #: for a sparse dimension, an order in which its indices ascend: what a product by the same matrix needs again and again.
        #: A transposed matrix shares the dictionary, and `keys` says under which number each of its dimensions stands there.
        self.orders: dict[int, np.ndarray] = {}
        self.keys = tuple(range(indices.shape[0]))

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def itemsize(self) -> int:
        return self.values.itemsize

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements the dense tensor has."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def strides(self) -> tuple[int, ...]:
        return (0,) * len(self.shape)

    @property
    def nnz(self) -> int:
        """How many values are stored; zeros among them count."""
        return self.values.shape[0]

    @property
    def sparse_dim(self) -> int:
        return self.indices.shape[0]

    @property
    def dense_dim(self) -> int:
        return self.values.ndim - 1

    @property
    def nbytes(self) -> int:
        raise RuntimeError(
            "nbytes is not defined for sparse tensors: add up the nbytes of indices and values, or multiply the dense "
            "tensor's number of elements by their size."
        )

    @property
    def __array_interface__(self) -> NoReturn:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def with_values(self, values: np.ndarray) -> SparseTensorImpl:
        """Other values at the same places."""
        other = SparseTensorImpl(self.indices, values, self.shape, self.coalesced)
        other.orders, other.keys = self.orders, self.keys
        return other

    def copy(self, order: Any = None) -> SparseTensorImpl:
        return SparseTensorImpl(self.indices.copy(), self.values.copy(), self.shape, self.coalesced)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> SparseTensorImpl:
        return self if dtype == self.dtype else self.with_values(self.values.astype(dtype))

    def item(self) -> Any:
        """The one element there is."""
        return self.values.sum().item()

    def tolist(self) -> NoReturn:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def __add__(self, other: Any) -> Any:
        """The sum of two gradients, in the engine: sparse if both are."""
        from readtorch.aten.native.sparse.sparse_tensor_math import add_dense, add_sparse

        return add_sparse(self, other) if isinstance(other, SparseTensorImpl) else add_dense(other, self)

    __radd__ = __add__


BACKENDS[SparseTensorImpl] = DispatchKey.SparseCPU
DEVICE_OF[SparseTensorImpl] = lambda array: cpu
LAYOUT_OF[SparseTensorImpl] = sparse_coo


def flat_places(indices: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """For each column of indices its place, counted row by row."""
    if len(sizes) == 1:
        return indices[0]
    places = np.zeros(indices.shape[1], np.int64)
    for row, size in zip(indices, sizes, strict=True):
        places *= size
        places += row
    return places


def segment_starts(ascending: np.ndarray) -> np.ndarray:
    """Where in an ascending array each new number begins."""
    if not len(ascending):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate(([True], ascending[1:] != ascending[:-1])))


def coalesced(impl: SparseTensorImpl) -> SparseTensorImpl:
    """The same tensor with each place listed once, in order; itself if it is so."""
    if impl.coalesced:
        return impl
    places = flat_places(impl.indices, impl.shape[: impl.sparse_dim])
    if not len(places) or (places[1:] > places[:-1]).all():
        return SparseTensorImpl(impl.indices, impl.values, impl.shape, True)
    order = np.argsort(places, kind="stable")
    starts = segment_starts(places[order])
    add = np.logical_or if impl.dtype.kind == "b" else np.add
    values = np.asarray(add.reduceat(impl.values[order], starts, axis=0)).astype(impl.dtype, copy=False)
    return SparseTensorImpl(impl.indices[:, order[starts]], values, impl.shape, True)


def dense_of(impl: SparseTensorImpl) -> np.ndarray:
    """The array with all its zeros."""
    impl = coalesced(impl)
    result = np.zeros(impl.shape, impl.dtype)
    result[tuple(impl.indices)] = impl.values if impl.sparse_dim else impl.values.sum(0)
    return result


def sparse_of(array: np.ndarray, sparse_dim: int) -> SparseTensorImpl:
    """The blocks of an array that are not all zero, by the first `sparse_dim` indices."""
    filled = array != 0
    if sparse_dim < array.ndim:
        filled = filled.any(axis=tuple(range(sparse_dim, array.ndim)))
    if not sparse_dim:
        kept = array[None][np.asarray(filled).reshape(1)]
        return SparseTensorImpl(np.zeros((0, len(kept)), np.int64), kept, array.shape, True)
    indices = np.stack(filled.nonzero()) if array.ndim else np.zeros((0, 1), np.int64)
    return SparseTensorImpl(indices, array[tuple(indices)], array.shape, True)


def empty_sparse(shape: tuple[int, ...], dtype: np.dtype, sparse_dim: int | None = None) -> SparseTensorImpl:
    """Nothing but zeros."""
    sparse_dim = len(shape) if sparse_dim is None else sparse_dim
    values = np.zeros((0, *shape[sparse_dim:]), dtype)
    return SparseTensorImpl(np.zeros((sparse_dim, 0), np.int64), values, shape, True)


EMPTY_OF[sparse_coo] = empty_sparse
