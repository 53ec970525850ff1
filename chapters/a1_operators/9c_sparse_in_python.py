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
# # Sparse tensors as Python sees them
#
# The constructor, the methods that only sparse tensors have, `torch.sparse`, and the two places where sparse tensors come from without anybody
# calling a constructor: the gradients of embeddings, and old programs.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## `torch.sparse_coo_tensor`
# Without a size, the largest index says how large the tensor is. Whether indices lie inside is checked on request, by `check_invariants=True` or inside
# `torch.sparse.check_sparse_tensor_invariants()`; who has never said which is told once that nobody looks.


# %%
#| into: csrc/utils/tensor_new.py
#| upstream: torch/csrc/utils/tensor_new.cpp#torch::utils::sparse_coo_tensor_ctor
class _Invariants:
    """Are the parts of sparse tensors checked? None: nobody has said."""

    checked: bool | None = None


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Any:
    """A sparse tensor that has `values[k]` at `indices[:, k]`, or, given a size alone, zeros.

    `indices (sparse_dim, nnz)`, `values (nnz, *)`; a place may occur several times, and then its values add up. No memory is copied.
    """
    from readtorch.aten.native.sparse import sparse_tensor as parts

    where = _sparse_device(device)
    if values is None:
        if (indices is None) == (size is None):
            raise TypeError(
                "sparse_coo_tensor() received an invalid combination of arguments: indices and values, or a size"
            )
        shape = tuple(indices if size is None else size)
        return finish_on(where, parts.empty_sparse(shape, _default_kind(dtype)), requires_grad)
    places = _index_array(indices)
    held = values if isinstance(values, TensorImpl) else wrap(array_from_data(values, dtype, copy=False))
    if dtype is not None and held._array.dtype != to_numpy_dtype(dtype):
        held = held.to(dtype)
    if not held._array.ndim:
        held = dispatcher.autograd.reshape(held, (1,))
    shape = _inferred_size(places, held._array) if size is None else tuple(int(number) for number in size)
    parts.check_size(places, held._array, shape)
    checked = _checks() if check_invariants is None else check_invariants
    if checked:
        parts.check_invariants(places, shape, is_coalesced)
    make = dispatcher.autograd._sparse_coo_tensor_with_dims_and_tensors
    result = make(held if state.grad_mode else held.detach(), wrap(places), shape, bool(is_coalesced))
    if requires_grad and result._edge is None:
        set_requires_grad(result, True)
    return result


def _checks() -> bool:
    if _Invariants.checked is None:
        warn_once(
            "Sparse invariant checks are implicitly disabled: indices outside of the size are not noticed. Say which you want: "
            "torch.sparse.check_sparse_tensor_invariants.enable() or .disable()",
            stacklevel=4,
        )
    return bool(_Invariants.checked)


def _sparse_device(where: Any) -> device:
    target = target_device(where)
    if target.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if target.type != "cpu":
        raise RuntimeError(f"sparse tensors are on the CPU: there are no kernels for {target.type} devices")
    return target


def _index_array(indices: Any) -> np.ndarray:
    array = array_from_data(indices, None, copy=False)
    if array.dtype != np.int64:
        array = array.astype(np.int64)
    return array


def _inferred_size(places: np.ndarray, held: np.ndarray) -> tuple[int, ...]:
    if places.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if not places.shape[1]:
        return (0,) * places.shape[0] + held.shape[1:]
    if places.size and places.min() < 0:
        raise RuntimeError(f"found negative index {places.min()} for dim {int(np.argwhere(places < 0)[0][0])}")
    return tuple(int(row.max()) + 1 for row in places) + held.shape[1:]


def _default_kind(wanted: dtype | None) -> np.dtype:
    from readtorch.c10.core.default_dtype import get_default_dtype

    return to_numpy_dtype(get_default_dtype() if wanted is None else wanted)


def legacy_sparse(cls: type, args: tuple, wanted: dtype) -> Any:
    """What `torch.sparse.FloatTensor(indices, values, size)` holds; of the values' dtype, whatever the name says."""
    from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, empty_sparse

    if len(args) in (2, 3) and all(isinstance(arg, TensorImpl) for arg in args[:2]):
        return sparse_coo_tensor(args[0], args[1].detach(), *args[2:], check_invariants=False)._array
    if len(args) == 1 and isinstance(args[0], TensorImpl):
        return args[0]._array
    if len(args) == 1 and isinstance(args[0], tuple | list):
        args = tuple(args[0])
    if not all(isinstance(arg, int) for arg in args):
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({', '.join(type(a).__name__ for a in args)})"
        )
    kind = to_numpy_dtype(wanted)
    return (
        empty_sparse(args, kind)
        if args
        else SparseTensorImpl(np.zeros((1, 0), np.int64), np.zeros(0, kind), (0,), True)
    )


# %%
#| into: csrc/utils/tensor_new.py
#| imports
from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core.autograd_state import state
from readtorch.c10.util.exception import warn_once


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
def init_sparse() -> None:
    """Offer the constructor of sparse tensors."""
    from readtorch.csrc.utils.tensor_new import sparse_coo_tensor

    gates.attach(module(""), "sparse_coo_tensor", sparse_coo_tensor)


further.append(init_sparse)

# %%
torch.sparse_coo_tensor([[0, 2]], [1.0, 5.0], requires_grad=True)

# %% [markdown]
# ## The methods
# `to_sparse` and `to_dense` go there and back. Those with an underscore in front show the parts of a tensor that is not coalesced. They are outside of autograd: `values()` is an
# operator, `_values()` is a look under the bonnet.


# %%
#| into: csrc/autograd/python_variable_methods.py
def _sparse(self: Any, name: str) -> Any:
    """The raw value of a sparse tensor. NotImplementedError for another."""
    if self._array.__class__ not in LAYOUT_OF:
        raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'CPU' backend.")
    return self._array


def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """This tensor in the strided layout; itself if it is. `masked_grad`: is the gradient to have the same places (by default it is)?"""
    if self._array.__class__ not in LAYOUT_OF:
        return self if dtype is None else to(self, dtype)
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return dispatcher.autograd._to_dense(self, masked_grad)


def to_sparse(
    self: Any, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
) -> Any:
    """The elements that are not zero, by their places. Of the layouts there is `torch.sparse_coo`."""
    if layout is not None and layout is not layouts.sparse_coo:
        raise NotImplementedError(f"to_sparse(layout={layout!r}): torch.sparse_coo is the sparse layout that is here")
    if blocksize is not None:
        raise RuntimeError("to_sparse: conversion to Sparse does not use the specified blocksize")
    if dense_dim is not None:
        sparse_dim = self._array.ndim - dense_dim
    if self._array.__class__ in LAYOUT_OF and sparse_dim in (None, self._array.sparse_dim):
        return self
    return dispatcher.autograd.to_sparse(self, sparse_dim)


def coalesce(self: Any) -> Any:
    """Each place once, in order; itself if it is so."""
    if self._array.__class__ in LAYOUT_OF and self._array.coalesced:
        return self
    return dispatcher.autograd.coalesce(self)


def is_coalesced(self: Any) -> bool:
    """Does no place occur twice, and are they in order?"""
    if self._array.__class__ not in LAYOUT_OF:
        raise RuntimeError("is_coalesced expected sparse coordinate tensor layout but got Strided")
    return self._array.coalesced


def _coalesced_(self: Any, coalesced: bool) -> Any:
    """Say so without looking."""
    impl = _sparse(self, "_coalesced_")
    self._array = type(impl)(impl.indices, impl.values, impl.shape, coalesced)
    return self


# %%
#| into: csrc/autograd/python_variable_methods.py
#| upstream: aten/src/ATen/SparseTensorImpl.h#at::SparseTensorImpl
def sparse_resize_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Another size, in place. Values stay where they are, so no dimension may shrink, nor change its kind, unless there are none."""
    impl, shape = _sparse(self, "sparse_resize_"), tuple(size)
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    if not impl.nnz:
        return sparse_resize_and_clear_(self, shape, sparse_dim, dense_dim)
    for kind, old, wanted in (("sparse", impl.sparse_dim, sparse_dim), ("dense", impl.dense_dim, dense_dim)):
        if old != wanted:
            raise RuntimeError(
                f"changing the number of {kind} dimensions (from {old} to {wanted}) on a non-empty sparse tensor is not supported."
            )
    if any(new < old for old, new in zip(impl.shape, shape, strict=True)):
        first, second = list(impl.shape), list(shape)
        raise RuntimeError(
            f"shrinking the size of sparse dimensions (from {first} to {second}) on a non-empty sparse tensor is not supported."
        )
    room = [(0, 0), *((0, new - old) for old, new in zip(impl.shape[sparse_dim:], shape[sparse_dim:], strict=True))]
    self._array = type(impl)(
        impl.indices, np.pad(impl.values, room) if dense_dim else impl.values, shape, impl.coalesced
    )
    return self


def sparse_resize_and_clear_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Another size, and no values."""
    impl, shape = _sparse(self, "sparse_resize_and_clear_"), tuple(size)
    values = np.zeros((0, *shape[sparse_dim:]), impl.dtype)
    self._array = type(impl)(np.zeros((sparse_dim, 0), np.int64), values, shape, True)
    return self


def resize_as_sparse_(self: Any, the_template: Any) -> Any:
    """The size of another sparse tensor."""
    other = _sparse(the_template, "resize_as_sparse_")
    return sparse_resize_(self, other.shape, other.sparse_dim, other.dense_dim)


@dispatcher.sparse_row("_to_device")
def _sparse_to_device(self: Array, target: device, source: device, non_blocking: bool = False) -> Array:
    if target.type == "meta":
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    library_of(target)  # says if there is no such device
    raise NotImplementedError(f"sparse tensors are on the CPU: there are no kernels for {target.type} devices")


def type_as(self: Any, other: Any) -> Any:
    """This tensor in the dtype and on the device of another, whose layout it must have."""
    if self.is_sparse != _tensor("type_as", other).is_sparse:
        raise RuntimeError(
            "to(options) doesn't support converting to a different layout: to_dense() and to_sparse() do, "
            f"and self.layout is {self.layout}, options.layout {other.layout}"
        )
    return to(self, other)


METHODS.update(
    {
        "type_as": type_as,
        "to_dense": to_dense,
        "to_sparse": to_sparse,
        "to_sparse_coo": lambda self: to_sparse(self),
        "coalesce": coalesce,
        "is_coalesced": is_coalesced,
        "_coalesced_": _coalesced_,
        "sparse_resize_": sparse_resize_,
        "sparse_resize_and_clear_": sparse_resize_and_clear_,
        "resize_as_sparse_": resize_as_sparse_,
        "_indices": lambda self: wrap(_sparse(self, "_indices").indices),
        "_values": lambda self: wrap(_sparse(self, "_values").values),
        "_nnz": lambda self: _sparse(self, "_nnz").nnz,
        "sparse_dim": lambda self: self._array.sparse_dim if self.is_sparse else 0,
        "dense_dim": lambda self: self._array.dense_dim if self.is_sparse else self._array.ndim,
    }
)


# %%
#| into: csrc/autograd/python_variable_methods.py
#| imports
from readtorch.c10.core import layout as layouts
from readtorch.c10.core.tensor_impl import wrap
from readtorch.csrc.utils.tensor_new import legacy_sparse

# %% [markdown]
# ## `torch.sparse`
# A handful of functions, and the types of the early days. Old programs on graphs write `torch.sparse.FloatTensor(indices, values, torch.Size([n, n]))`.


# %%
#| into: csrc/tensor/python_tensor.py
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


# %%
#| into: sparse/__init__.py
#| imports
"""Functions of sparse tensors (twin of `torch/sparse/__init__.py`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from readtorch import Tensor, _C, sparse_coo, sparse_coo_tensor
from readtorch.csrc.tensor.python_tensor import SPARSE as _SPARSE
from readtorch.csrc.utils.gates import COMPILED, Public, face, gates
from readtorch.csrc.utils.tensor_new import _Invariants


# %%
#| into: sparse/__init__.py
#| upstream: torch/sparse/__init__.py#sum
#| upstream: torch/sparse/__init__.py#mm
#| upstream: torch/sparse/__init__.py#softmax
#| upstream: torch/sparse/__init__.py#spdiags
_at = _C._VariableFunctions
mm = face(_at._sparse_mm)
addmm = face(_at._sparse_addmm)
globals().update(_SPARSE)


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """The sum over `dim` (everything for None), dense if no sparse dimension is left. Its gradient has the places of `input`."""
    if dtype is not None:
        input = input.to(dtype)
    if dim is None:
        return input.coalesce().values().sum()
    return _sparse_at._sparse_sum_dim(input, dim)


def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Softmax along `dim` over the elements that are listed; the others count as −∞."""
    return _sparse_at._sparse_softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`."""
    return _sparse_at._sparse_log_softmax(input if dtype is None else input.to(dtype), dim)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None) -> Tensor:
    """A matrix with the rows of `diagonals` as its diagonals, `offsets` from the main one; of a row counts what lies in a column that is there."""
    if layout not in (None, sparse_coo):
        raise NotImplementedError(f"spdiags: {layout} is not here, torch.sparse_coo is")
    diagonals, offsets = (diagonals[None], offsets.reshape(1)) if diagonals.dim() == 1 else (diagonals, offsets)
    if diagonals.dim() != 2 or len(offsets) != len(diagonals):
        raise RuntimeError(
            f"Number of diagonals ({len(diagonals)}) does not match the number of offsets ({len(offsets)})"
        )
    if len(set(offsets.tolist())) != len(offsets):
        raise RuntimeError("Offset tensor contains duplicate values")
    rows, columns = shape
    places, values = [], []
    for offset, diagonal in zip(offsets.tolist(), diagonals, strict=True):
        for column in range(max(offset, 0), min(columns, rows + offset, len(diagonal))):
            places.append((column - offset, column))
            values.append(diagonal[column])
    if not places:
        return sparse_coo_tensor(size=(rows, columns), dtype=diagonals.dtype)
    at = diagonals.new_tensor(places, dtype=offsets.dtype).t().contiguous()
    return sparse_coo_tensor(at, _at.stack(values), (rows, columns))


# %%
#| into: sparse/__init__.py
#| imports
from readtorch.aten.core.dispatch.dispatcher import autograd as _sparse_at


# %%
#| into: sparse/__init__.py
#| upstream: torch/sparse/__init__.py#check_sparse_tensor_invariants
class check_sparse_tensor_invariants:
    """Check the parts of sparse tensors when they are made: a context manager, a decorator, and three functions."""

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Are they checked?"""
        return bool(_Invariants.checked)

    @staticmethod
    def enable() -> None:
        """Check from now on."""
        _Invariants.checked = True

    @staticmethod
    def disable() -> None:
        """Do not check from now on."""
        _Invariants.checked = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError("This context manager instance is already activated: use another one to nest them.")
        self.saved_state = self.is_enabled()
        _Invariants.checked = self.state

    def __exit__(self, *exception: object) -> None:
        _Invariants.checked, self.saved_state = self.saved_state, None

    def __call__(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return method(*args, **kwargs)

        return checked


# %% [markdown]
# `gradcheck` compares derivatives with difference quotients, element by element, and knows arrays only. `as_sparse_gradcheck` lets it see the values of a sparse
# argument as a dense one. With `masked=True` the places stay as they are; without, every place is listed first, and then a gradient that has only
# the original places is found wanting. That is the reading of zeros again which `to_dense` asks about.


# %%
#| into: sparse/__init__.py
#| upstream: torch/sparse/__init__.py#as_sparse_gradcheck
def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """A `gradcheck` that takes sparse tensors, and functions of and to them. It has one option more, `masked`."""

    def check(func: Callable[..., Any], inputs: Any, *, masked: bool = False, **options: Any) -> bool:
        inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        parts: list[Any] = []
        shown: list[Any] = []
        for value in inputs:
            if not (isinstance(value, Tensor) and value.is_sparse and value.requires_grad):
                parts.append(None)
                shown.append(value)
                continue
            impl = value.detach()
            if not masked:
                impl = impl.to_dense().sparse_mask(_at.ones_like(impl.to_dense()).to_sparse(impl.sparse_dim()))
            parts.append((impl._indices(), tuple(impl.shape), impl.is_coalesced()))
            shown.append(impl._values().clone().requires_grad_())

        def dense(*values: Any) -> Any:
            restored = [
                value
                if part is None
                else sparse_coo_tensor(part[0], value, part[1], is_coalesced=part[2], check_invariants=False)
                for part, value in zip(parts, values, strict=True)
            ]
            outputs = func(*restored)
            several = outputs if isinstance(outputs, tuple | list) else (outputs,)
            strided = tuple(
                o.to_dense(masked_grad=masked) if isinstance(o, Tensor) and o.is_sparse else o for o in several
            )
            return strided if several is outputs else strided[0]

        return gradcheck(dense, tuple(shown), **options)

    return check


gates.offer(globals(), "torch.sparse", COMPILED, Public(globals()))

# %%
#| into: __init__.py
_MODULES.append("sparse")

# %%
check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
a = torch.eye(3, dtype=torch.float64).to_sparse().requires_grad_()
b = torch.arange(6, dtype=torch.float64).view(3, 2).requires_grad_()
check(torch.sparse.mm, (a, b), masked=True)

# %% [markdown]
# ## Why is the gradient of an embedding sparse?
# An embedding looks up rows. The gradient of the table is zero in every row that was not looked up, and where the table has a million rows and a batch names a thousand, writing down the zeros
# costs more than everything else in the step. With `sparse=True` nothing is written but what came in: the row numbers of the batch are the indices, and the incoming gradient is
# the values, in the same order, not even copied. A number that the batch names twice stands twice in the list, which is why the gradient is not coalesced.

# %%
#| needs: a2_layers
table = torch.nn.Embedding(1_000_000, 2, sparse=True)
table(torch.tensor([7, 3, 7])).sum().backward()
table.weight.grad


# %% [markdown]
# In the trace, the backward pass makes the list in `embedding_sparse_backward`; the leaf's node keeps it as it is, and the optimizer's one `add_` reaches two rows.

# %%
#| needs: 04_optim
#| trace: torch.optim layers=calls,ops values=summary title="A gradient that is a list, and the step it is for"
small = torch.nn.Embedding(5, 2, sparse=True)
steps = torch.optim.SGD(small.parameters(), lr=0.1)
small(torch.tensor([3, 1])).sum().backward()
steps.step()

# %% [markdown]
# What an optimizer may do with it follows from the two laws. Plain SGD is linear: it adds the list into the table, coalesced or not. Adagrad and SparseAdam square the gradient, so they coalesce. Adam
# itself is out: its moments decay in *every* row at every step, and a row that was not looked up would move all the same. That is what it means when it
# "does not support sparse gradients, please consider SparseAdam instead". SparseAdam leaves those rows alone, and so is another algorithm, not Adam in a faster form.


# %%
#| needs: 04_optim
#| claim: a row that is not looked up moves under Adam and stays under SparseAdam
def _(torch):
    for optimizer, sparse, moves in ((torch.optim.Adam, False, True), (torch.optim.SparseAdam, True, False)):
        table = torch.nn.Parameter(torch.ones(3, 2))
        steps = optimizer([table], lr=0.1)
        for row in (0, 1):
            steps.zero_grad()
            torch.nn.functional.embedding(torch.tensor([row]), table, sparse=sparse).sum().backward()
            before = table.detach().clone()
            steps.step()
        assert bool((table[0] != before[0]).all()) == moves


# %% [markdown]
# A gradient that arrives a second time is added to the first, and the sum is sparse while both are. Once a dense gradient comes to the same table, from a projection that shares the weight, say, the sum is dense and stays so.


# %%
#| needs: a2_layers
#| claim: sparse gradients add up to a sparse one, and to a dense one once a dense one has come
def _(torch):
    table = torch.ones(4, 2, requires_grad=True)

    def look():
        return torch.nn.functional.embedding(torch.tensor([1, 3]), table, sparse=True).sum()

    look().backward()
    look().backward()
    assert table.grad.is_sparse
    table.sum().backward()
    assert not table.grad.is_sparse
    look().backward()
    assert table.grad.tolist() == [[1.0, 1.0], [4.0, 4.0], [1.0, 1.0], [4.0, 4.0]]


# %% [markdown]
# ## What upstream does more
# The compressed layouts have constructors of their own (`sparse_csr_tensor` and three more), with which `torch.sparse.mm` can also take the mean or the
# maximum over neighbours; there are semi-structured matrices for tensor cores, and sparse tensors on the GPU. None of that is here.
