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
# # Sparse tensors
#
# A citation graph of 2,708 papers is a matrix of 7 million numbers, of which 13 thousand are not zero. A graph network multiplies by it
# in every layer; an embedding table of a million rows gets a gradient in which a few hundred rows are not zero. Both can be stored as
# they are written down on paper: a list of places, and what stands there. PyTorch calls this layout **COO**, for coordinates.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
indices = torch.tensor([[0, 1, 1], [2, 0, 2]])
values = torch.tensor([3.0, 4.0, 5.0])
torch.sparse_coo_tensor(indices, values, (2, 3))

# %% [markdown]
# Column k of `indices` says where `values[k]` stands. A value need not be a number: with fewer rows of indices than the tensor has
# dimensions, each value is a block, and the tensor is *hybrid*. The first `sparse_dim` dimensions are then looked up, the other
# `dense_dim` are stored in full. The gradient of an embedding is one of these: row numbers, and whole rows.

# %%
torch.sparse_coo_tensor([[0, 3]], [[1.0, 2.0], [3.0, 4.0]], (5, 2)).to_dense()

# %% [markdown]
# ## What holds it together?
# Upstream's tensor is a handle on a `TensorImpl`, and a sparse one is a handle on a subclass that has no storage but two tensors. Here a tensor's slot
# `_array` holds such an object in place of an array. It has a shape and a dtype like an array, and says in upstream's words what it
# has not: strides, an address, a number of bytes. Nothing in the fast paths of the other chapters asks whether a tensor is sparse. They
# ask whether the raw value is NumPy's array, for CUDA's sake, and a sparse tensor takes the same turn as one on a GPU.


# %%
#| into: aten/sparse_tensor_impl.py
#| imports
from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from readtorch.c10.core.device import cpu
from readtorch.c10.core.dispatch_key import BACKENDS, DEVICE_OF, DispatchKey
from readtorch.c10.core.layout import EMPTY_OF, LAYOUT_OF, sparse_coo


# %%
#| into: aten/sparse_tensor_impl.py
#| upstream: aten/src/ATen/SparseTensorImpl.h#at::SparseTensorImpl
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


# %% [markdown]
# `orders` is the one thing that upstream's object has not: upstream converts to compressed rows when it needs them, and so do we, but a graph network
# multiplies by one matrix a thousand times, and sorting its 13 thousand indices costs NumPy more than the product.
#
# ## Coalescing: what is it, and when is it forced?
# The same place may be listed twice, and then the values there **add up**. That rule makes the two most frequent operations
# cheap: the sum of two sparse tensors is both lists, one behind the other, and a gradient can be written down in the order in which the
# batch looked its rows up. To *coalesce* is to sort the places and to add up what stands in one: work of order n log n, put off until somebody
# needs it.

# %%
twice = torch.sparse_coo_tensor([[1, 0, 1]], [10.0, 1.0, 20.0], (3,))
twice, twice.coalesce()

# %% [markdown]
# Who needs it? Whatever is **not linear**. `2 * x` may double each entry by itself; `x ** 2` may not, since 10² + 20² is not 30². So `neg`, products by a number, `t`,
# `+`, `mm` and `to_dense` work on the list as it is, and `sqrt`, `abs`, `relu`, `x ** 2`, softmax coalesce first. `values()` refuses, because a list
# in which a place occurs twice is nobody's business but the library's; `_values()` hands it out all the same.


# %%
#| claim: linear operators leave a tensor uncoalesced, others coalesce it first
def _(torch):
    x = torch.sparse_coo_tensor(torch.tensor([[1, 0, 1]]), torch.tensor([10.0, 1.0, 20.0]), (3,))
    for linear in (-x, 2 * x, x + x, x.clone()):
        assert not linear.is_coalesced()
    for other in (x.abs(), x**2, x.sqrt(), x.relu()):
        assert other.is_coalesced()
    assert (x**2).to_dense().tolist() == [1.0, 900.0, 0.0]


# %%
#| claim: values() of a tensor that is not coalesced is refused, _values() is not
def _(torch):
    x = torch.sparse_coo_tensor(torch.tensor([[1, 0, 1]]), torch.tensor([10.0, 1.0, 20.0]), (3,))
    assert x._values().tolist() == [10.0, 1.0, 20.0]
    try:
        x.values()
    except RuntimeError as error:
        assert "coalesce() first" in str(error)
    else:
        raise AssertionError("values were given")


# %% [markdown]
# To sort by several indices is to sort by one number: the place in the tensor, counted row by row. NumPy's `reduceat` then adds up each stretch
# of equal numbers in one call.


# %%
#| into: aten/sparse_tensor_impl.py
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


# %% [markdown]
# ## The column
# A kernel of the `SparseCPU` column takes these objects where others take arrays. What comes with it is a whole call of its own: the general
# forms know the kinds of their operands, and a sparse product has other kinds. Its derivative is the operator's own unless it says otherwise, since a formula
# is written for tensors, too: `grad @ other.T` does not care how `other` is stored. What a formula cannot do with a sparse tensor, upstream cannot
# do either, and says so in the backward pass.


# %%
#| into: aten/core/dispatch/dispatcher.py
def sparse_row(name: str, *, coalesced_in_place: bool = False) -> Callable[[Kernel], Kernel]:
    """Decorator: this function is the kernel of operator `name` for calls in which a tensor is sparse.

    `coalesced_in_place`: `NAME_` refuses a tensor that is not coalesced. Derivative: `sparse_derivative`, or else the operator's.
    """

    def decorate(kernel: Kernel) -> Kernel:
        entry = operators[name]
        row = OperatorEntry(name, Schema(kernel))
        row.node_name, row.overload, row.outputs = entry.node_name, entry.overload, entry.outputs
        row.kernels[DispatchKey.CPU] = entry.kernels[DispatchKey.SparseCPU] = kernel
        row.derivative = entry.derivative if entry.schema.names == row.schema.names else None
        row.inplace = coalesced_in_place
        sparse_rows[name] = row
        for listener in _sparse_listeners:
            listener(entry, row)
        return kernel

    return decorate


def sparse_derivative(name: str, **formulas: Callable[..., Any]) -> None:
    """Give the sparse kernel of operator `name` a derivative of its own."""
    row = sparse_rows[name]
    row.derivative = Derivative(row.schema, {(key,): formula for key, formula in formulas.items()}, row.outputs)
    for listener in _sparse_listeners:
        listener(operators[name], row)


sparse_rows: dict[str, OperatorEntry] = {}
"""The kernels of the SparseCPU column, with their signatures and derivatives."""

_sparse_listeners: list[Callable[[OperatorEntry, OperatorEntry], None]] = []


def add_sparse_listener(listener: Callable[[OperatorEntry, OperatorEntry], None]) -> None:
    """Call `listener(entry, row)` for every sparse kernel there is, and for every one registered or changed later."""
    _sparse_listeners.append(listener)
    for name, row in sparse_rows.items():
        listener(operators[name], row)


# %% [markdown]
# The call itself is the shortest of all forms, because it need not be fast: it finds the raw values wherever they stand, runs the kernel and makes the
# node. The node differs from others in one thing. An ordinary backward pass runs formulas on raw arrays, to save the tensors around them; these
# formulas run on tensors, so that each step finds its own way to the dense or the sparse kernel.


# %%
#| into: csrc/autograd/variable_type.py
class TensorNode(GeneratedNode):
    """The node of an operator with sparse tensors: its formulas run on tensors always."""

    __slots__ = ()

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        return super().apply(grads, True) if graph else self._on_tensors(grads)


# %%
#| into: csrc/autograd/variable_type.py
#| upstream: torch/csrc/autograd/functions/basic_ops.h#torch::autograd::NotImplemented
class NotImplementedNode(Node):
    """Stands where a derivative is missing, and says so when it is asked for one."""

    __slots__ = ("operator",)

    def __init__(self, operator: str, edges: tuple, raw: Any) -> None:
        self.operator, self._edges, self._sequence = operator, edges, next_sequence_nr()
        self._shape, self._dtype = raw.shape, raw.dtype

    def name(self) -> str:
        return "NotImplemented"

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        raise RuntimeError(f"derivative for aten::{self.operator} is not implemented")


# %%
#| into: csrc/autograd/variable_type.py
def _form_for(entry: OperatorEntry, operands: list[Any]) -> Call | None:
    """The whole call that a column has for these operands, if it has one."""
    arrays = [operand._array for operand in operands if isinstance(operand, TensorImpl)]
    others = [array for array in arrays if array.__class__ is not ndarray]
    return entry.forms.get(common_backend(others)) if others else None


def exchange(input: Any, compute: Callable[[], Any], values: Any) -> Any:
    """An operator in place on a tensor that has no memory to write to: it holds what `compute` returns from now on."""
    refuse_inference(input)
    if state.grad_mode and any(_wants_grad(value) for value in (input, *values)):
        check_inplace(input)
    result = compute()
    check_cast(result._array.dtype, input._array.dtype)
    input._array = result._array.astype(input._array.dtype)
    version_counter(input).bump()
    if result._edge is not None:
        rebase_history(input, result._edge)
    return input


# %%
#| into: csrc/autograd/variable_type.py
class SparseForm:
    """What is called in an operator's place when one of the tensors is sparse."""

    __slots__ = ("entry", "kernel", "record", "row")

    def __init__(self, entry: OperatorEntry, row: OperatorEntry) -> None:
        self.entry, self.row = entry, row
        self.kernel = row.kernels[DispatchKey.CPU]
        self.record = Recorder(row)
        if self.record.differentiable:
            members = {"__slots__": (), "entry": row, "__module__": "torch.autograd"}
            self.record.node_class = type(row.node_name, (TensorNode,), members)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        row = self.row
        observer = record_function.observer
        begin = now() if observer is not None else 0
        values = row.schema.bind(row.name, args, kwargs)
        raw_values = [_bare(value) for value in values]
        token = ignore_floating_errors()
        try:
            raw = _call_kernel(row, self.kernel, raw_values)
        finally:
            restore_floating_errors(token)
        node = None
        if state.grad_mode and any(_wants_grad(value) for value in values):
            node = self.node(values, raw)
        result = give(row, raw, node)
        if observer is not None:
            observer.operator(f"aten::{row.name}", args, result, begin, now())
        return result

    def node(self, values: list[Any], raw: Any) -> Any:
        """The node of a call; None where nothing that could have a gradient came out."""
        if not self.record.differentiable:
            if raw.__class__ in (list, tuple) or raw.dtype.kind not in "fcV":
                return None
            edges = tuple(gradient_edge(value) for value in values if isinstance(value, TensorImpl))
            return NotImplementedNode(self.row.name, edges, raw)
        node = self.record.bound(values, raw)
        node._options = [None if isinstance(value, TensorImpl) else value for value in values]
        return node

    def in_place(self, method: str, values: list[Any]) -> Any:
        """`NAME_` on a sparse tensor."""
        if method in _NOT_IN_PLACE:
            raise NotImplementedError(f"Could not run 'aten::{method}' with arguments from the 'SparseCPU' backend.")
        if self.row.inplace and not values[0]._array.coalesced:
            raise RuntimeError(f"{method} requires coalesced input")
        values = values[: self.row.schema.positional]
        return exchange(values[0], lambda: self(*values), values)

    def into_dense(self, array: Any, other: Any) -> Any:
        """`NAME_` on a dense array, with a sparse second operand."""
        from readtorch.aten.native.sparse.sparse_tensor_math import INTO_DENSE

        if self.entry.name in INTO_DENSE:
            return INTO_DENSE[self.entry.name](array, other)
        raw = self.kernel(array, other)
        array[...] = dense_of(raw) if isinstance(raw, SparseTensorImpl) else raw
        return array


_NOT_IN_PLACE = frozenset(["pow_", "nan_to_num_", "unsqueeze_"])


def _bare(value: Any) -> Any:
    if isinstance(value, TensorImpl):
        return value._array
    return [_bare(item) for item in value] if value.__class__ in (list, tuple) else value


def _offer_sparse(entry: OperatorEntry, row: OperatorEntry) -> None:
    entry.forms[DispatchKey.SparseCPU] = SparseForm(entry, row)


add_sparse_listener(_offer_sparse)


# %%
#| into: csrc/autograd/variable_type.py
#| imports
from readtorch.aten.core.dispatch.dispatcher import add_sparse_listener
from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, dense_of
from readtorch.csrc.autograd.node import Node

# %% [markdown]
# ## Making one, and taking it apart
# `sparse_coo_tensor` copies nothing: the tensor shares the memory of the indices and values it is given. That is why it can be differentiated
# by its values, and why upstream leaves unchecked whether the indices lie within the size unless it is asked to look
# (`check_invariants=True`), which costs a pass over them; it says so once in a process.


# %%
#| into: aten/native/sparse/__init__.py
"""Kernels for tensors stored as coordinates and values (twin of `aten/src/ATen/native/sparse/`)."""


# %%
#| into: aten/native/sparse/sparse_tensor.py
#| imports
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
from readtorch.c10.core.scalar_type import to_numpy_dtype
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/sparse/sparse_tensor.py
#| upstream: aten/src/ATen/native/sparse/SparseTensor.cpp#at::native::_validate_sparse_coo_tensor_args
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


# %%
#| into: aten/native/sparse/sparse_tensor.py
#| upstream: aten/src/ATen/native/sparse/SparseTensor.cpp#at::native::new_with_dims_and_tensor_sparse_symint
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


# %% [markdown]
# The way back takes one rule more. What is the derivative of `to_dense` by a sparse tensor? Every element of the dense tensor depends on the element
# at its place, also where nothing is stored. In upstream's reading a place that is not listed is not a zero but *absent*, a **mask**, and the gradient has the
# same places as the tensor. `to_dense(masked_grad=False)` asks for the other reading, in which the gradient is as full as the dense tensor.


# %%
#| into: aten/native/sparse/sparse_tensor.py
#| upstream: aten/src/ATen/native/TensorConversions.cpp#at::native::to_dense_backward
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


# %%
#| into: aten/native/sparse/sparse_tensor.py
#| upstream: aten/src/ATen/native/sparse/SparseTensor.cpp#at::native::dense_to_sparse
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


# %%
#| claim: the gradient of to_dense() has the places of the tensor; with masked_grad=False it has all
def _(torch):
    x = torch.eye(2).to_sparse().requires_grad_()
    x.to_dense().sum().backward()
    assert x.grad.is_sparse and x.grad._nnz() == 2
    x.grad = None
    x.to_dense(masked_grad=False).sum().backward()
    assert x.grad.is_sparse and x.grad._nnz() == 4


# %% [markdown]
# `sparse_mask` takes from one tensor what stands at another's places. SparseAdam lives by it: the moments are dense, and only the rows that the batch has
# touched are read and written.


# %%
#| into: aten/native/sparse/sparse_tensor.py
#| upstream: aten/src/ATen/native/sparse/SparseTensor.cpp#at::native::sparse_mask
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


# %% [markdown]
# ## Copies, other types, other devices
# To copy is to copy both parts.


# %%
#| into: aten/native/sparse/sparse_tensor.py
#| upstream: aten/src/ATen/native/sparse/SparseTensor.cpp#at::native::clone_sparse
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


# %%
#| into: aten/native/sparse/sparse_tensor.py
#| imports
from readtorch.c10.core.dispatch_key import DispatchKey

# %%
#| into: aten/native/sparse/sparse_tensor.py
#| at: after check_invariants
_CPU = DispatchKey.CPU

# %% [markdown]
# ## Other shapes
# To transpose two sparse dimensions is to exchange two rows of indices. What works on them is exact, what would need another set of places (`reshape`, `expand`) is
# refused by upstream, and so it is here.


# %%
#| into: aten/native/sparse/sparse_tensor.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::sparse_transpose_
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


# %%
#| into: aten/native/sparse/sparse_tensor.py
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


# %% [markdown]
# Joining shifts indices; along a dense dimension the values get room on both sides.


# %%
#| into: aten/native/sparse/sparse_tensor.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::cat_sparse
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
