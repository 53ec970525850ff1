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
# # Arithmetic with sparse tensors
#
# The operators of the `SparseCPU` column, in the order of what they cost: those that touch the values alone, those that merge two lists of places, and
# products of matrices, which are what the layout is for.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Functions that keep zero
# A function may be applied to the stored values alone if it maps 0 to 0. `sqrt` does, `exp` and `cos` do not: their results are dense, and upstream has no
# kernel for them. That shows in the backward pass, too. The derivative of `sin` is `cos`, so a sparse tensor can go through `sin`, and its gradient cannot come back.


# %%
#| into: aten/native/sparse/sparse_unary_ops.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import operators, sparse_derivative, sparse_row
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.sparse_tensor_impl import coalesced
from readtorch.c10.core.dispatch_key import DispatchKey


# %%
#| into: aten/native/sparse/sparse_unary_ops.py
def on_values(name: str, *operands: Any) -> np.ndarray:
    """The dense kernel of an operator."""
    return np.asarray(operators[name].kernels[DispatchKey.CPU](*operands))


def _keeps_zero(name: str) -> None:
    def kernel(self: Array) -> Array:
        self = coalesced(self)
        return self.with_values(on_values(name, self.values))

    kernel.__name__ = name
    sparse_row(name, coalesced_in_place=True)(kernel)


KEEP_ZERO = (
    *("abs", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1"),
    *("floor", "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p", "rad2deg", "relu", "sgn"),
    *("sign", "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)

for _name in KEEP_ZERO:
    if operators[_name].composite is None:
        _keeps_zero(_name)


@sparse_row("round", coalesced_in_place=True)
def round(self: Array, *, decimals: int = 0) -> Array:
    """To the nearest whole number."""
    self = coalesced(self)
    return self.with_values(np.asarray(operators["round"].kernels[DispatchKey.CPU](self.values, decimals=decimals)))


@sparse_row("nan_to_num")
def nan_to_num(self: Array, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Array:
    """Numbers in the place of what is none."""
    self = coalesced(self)
    return self.with_values(on_values("nan_to_num", self.values, nan, posinf, neginf))


def _linear(name: str) -> None:
    def kernel(self: Array) -> Array:
        return self.with_values(on_values(name, self.values))

    kernel.__name__ = name
    sparse_row(name)(kernel)


for _name in ("neg", "_conj_physical"):
    _linear(_name)


def no_way_back(name: str, operator: str) -> None:
    """The derivative of sparse `name` needs `operator`, which has no sparse kernel."""

    def refuse(at: Any, grad: Any) -> Any:
        raise NotImplementedError(f"Could not run 'aten::{operator}' with arguments from the 'SparseCPU' backend.")

    sparse_derivative(name, self=refuse)


no_way_back("tanh", "tanh_backward")
#: these two upstream has by hand
sparse_derivative("log1p", self=lambda at, grad, self: grad * (1 / (at._to_dense(self) + 1)))
sparse_derivative("relu", self=lambda at, grad, result: grad * at.sign(result))


# %%
#| claim: a function that does not map 0 to 0 has no kernel for sparse tensors
def _(torch):
    x = torch.eye(2).to_sparse()
    assert x.sqrt().is_sparse
    for function in (torch.exp, torch.cos, torch.sigmoid):
        try:
            function(x)
        except NotImplementedError as error:
            assert "SparseCPU" in str(error)
        else:
            raise AssertionError("it has one")


# %% [markdown]
# ## Sums
# Two coalesced tensors are merged, and stay coalesced. Otherwise the lists are put one behind the other, unless they name the same places in the same order, as two gradients of one
# batch do. A dense tensor plus a sparse one is dense; the other order, which would ask for the same, is refused. The price of `dense.add_(sparse)` is what makes
# an optimizer's step on an embedding of a million rows affordable: only the listed rows are touched.


# %%
#| into: aten/native/sparse/sparse_tensor_math.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import operators, register, sparse_derivative, sparse_row
from readtorch.aten.core.dispatch.operator_entry import Array, Number
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.aten.native.sparse.sparse_unary_ops import no_way_back, on_values
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.sparse_tensor_impl import (
    SparseTensorImpl,
    coalesced,
    dense_of,
    flat_places,
)
from readtorch.aten.wrap_dim_utils import reduced_dims
from readtorch.c10.core.scalar_type import to_numpy_dtype


# %%
#| into: aten/native/sparse/sparse_tensor_math.py
#| upstream: aten/src/ATen/native/sparse/SparseTensorMath.cpp#at::native::add_out_sparse_cpu
def _common(a: Any, b: Any) -> np.dtype:
    """The dtype two operands are computed in; a sparse one counts with its number of dimensions."""
    return to_numpy_dtype(result_type([a, b]))


def add_sparse(a: SparseTensorImpl, b: SparseTensorImpl) -> SparseTensorImpl:
    """The sum of two sparse tensors."""
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}"
        )
    if a.sparse_dim != b.sparse_dim:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same number of sparse dimensions, but got {a.sparse_dim} and {b.sparse_dim}"
        )
    kind = _common(a, b)
    first, second = a.values.astype(kind, copy=False), b.values.astype(kind, copy=False)
    contiguous = a.values.flags.c_contiguous and b.values.flags.c_contiguous
    if contiguous and (a.indices is b.indices or np.array_equal(a.indices, b.indices)):
        return SparseTensorImpl(a.indices, first + second, a.shape, a.coalesced and b.coalesced)
    both = SparseTensorImpl(np.concatenate([a.indices, b.indices], 1), np.concatenate([first, second]), a.shape)
    return coalesced(both) if a.coalesced and b.coalesced else both


def _same_size(dense: np.ndarray, sparse: SparseTensorImpl) -> None:
    if dense.shape != sparse.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(dense.shape)} while other has size "
            f"{list(sparse.shape)} (FYI: op2-sparse addition does not currently support broadcasting)"
        )


def _add_into(dense: np.ndarray, sparse: SparseTensorImpl, sign: int = 1) -> np.ndarray:
    """Add to an array in place: only the listed places are touched."""
    _same_size(dense, sparse)
    sparse = coalesced(sparse)
    at = tuple(sparse.indices)
    values = sparse.values if sparse.sparse_dim else sparse.values.sum(0)
    if dense.dtype.kind == "b":
        dense[at] |= values.astype(bool)
    elif sign > 0:
        dense[at] += values.astype(dense.dtype, copy=False)
    else:
        dense[at] -= values.astype(dense.dtype, copy=False)
    return dense


def add_dense(dense: np.ndarray, sparse: SparseTensorImpl, sign: int = 1) -> np.ndarray:
    """The sum of a dense and a sparse tensor."""
    _same_size(dense, sparse)
    return _add_into(dense.astype(_common(dense, sparse)), sparse, sign)


def _sum(self: Any, other: Any, sign: int) -> Any:
    if not isinstance(other, SparseTensorImpl):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if isinstance(self, SparseTensorImpl):
        return add_sparse(self, other if sign > 0 else other.with_values(on_values("neg", other.values)))
    if not isinstance(self, np.ndarray):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    return add_dense(self, other, sign)


@sparse_row("add")
def add(self: Array, other: Array, *, alpha: Number = 1) -> Array:
    """A sum."""
    return _sum(self, other, 1)


@sparse_row("sub")
def sub(self: Array, other: Array, *, alpha: Number = 1) -> Array:
    """A difference."""
    return _sum(self, other, -1)


# %% [markdown]
# ## Products and quotients
# A product is zero wherever one factor is, so its places are those that both have: `intersection` looks the places of one up in the sorted list of the other. With a dense factor nothing
# is looked up; it is read at the listed places. A divisor must be a number: 0/0 would stand everywhere else.


# %%
#| into: aten/native/sparse/sparse_tensor_math.py
#| upstream: aten/src/ATen/native/sparse/SparseTensorMath.cpp#at::native::mul_sparse
def intersection(a: SparseTensorImpl, b: SparseTensorImpl) -> SparseTensorImpl:
    """The product of two sparse tensors. The one whose order survives is searched for in the other, which is coalesced."""
    if a.shape != b.shape:
        raise RuntimeError(
            f"mul: expected 'self' and 'other' to have same sizes, but {list(a.shape)} != {list(b.shape)}"
        )
    kind = _common(a, b)
    if a.sparse_dim != b.sparse_dim:
        raise RuntimeError("mul: operands have incompatible sparse and dense dimensions")
    if a.coalesced == b.coalesced:
        table, source = (a, b) if a.nnz >= b.nnz else (b, a)
    else:
        table, source = (a, b) if a.coalesced else (b, a)
    table = coalesced(table.astype(kind))
    sizes = a.shape[: a.sparse_dim]
    known, wanted = flat_places(table.indices, sizes), flat_places(source.indices, sizes)
    at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    hit = np.flatnonzero(known[at] == wanted) if len(known) else np.zeros(0, np.int64)
    left = source.values[hit].astype(kind, copy=False)
    right = table.values[at[hit]]
    return SparseTensorImpl(source.indices[:, hit], left * right, a.shape, source.coalesced)


def _times_dense(sparse: SparseTensorImpl, dense: np.ndarray) -> SparseTensorImpl:
    if not is_expandable_to(dense.shape, sparse.shape):
        raise RuntimeError(
            f"mul(sparse, dense): a dense tensor of size {list(dense.shape)} does not stretch to the sparse tensor's {list(sparse.shape)}"
        )
    kind = _common(sparse, dense)
    factors = np.broadcast_to(dense, sparse.shape)[tuple(sparse.indices)] if dense.ndim else dense
    values = sparse.values.astype(kind, copy=False) * factors.astype(kind, copy=False)
    return sparse.with_values(np.asarray(values))


def _scaled(name: str, sparse: SparseTensorImpl, number: Any) -> SparseTensorImpl:
    """The values and a number: the dense kernel promotes as if the values were the tensor."""
    shaped = sparse.values if sparse.values.ndim else sparse.values[None]
    return sparse.with_values(on_values(name, shaped, number))


@sparse_row("mul")
def mul(self: Array, other: Array) -> Array:
    """A product."""
    if not isinstance(self, SparseTensorImpl):
        self, other = other, self
    if isinstance(other, SparseTensorImpl):
        return intersection(self, other)
    return _times_dense(self, other) if isinstance(other, np.ndarray) else _scaled("mul", self, other)


# %% [markdown]
# The gradient of a factor that was stretched has to be summed back, and the engine can do that for arrays only; so it is done here. It goes through the sparse `sum`, and
# ends dense when no sparse dimension is left.


# %%
#| into: aten/native/sparse/sparse_tensor_math.py
def _to_factor(at: Any, grad: Any, factor: Any) -> Any:
    """The gradient of a factor in a product, in the factor's shape."""
    if not hasattr(factor, "shape") or tuple(grad.shape) == tuple(factor.shape):
        return grad
    if not factor.ndim:
        return at.sum(grad)
    lead = grad.ndim - factor.ndim
    stretched = [lead + dim for dim, size in enumerate(factor.shape) if size == 1 != grad.shape[lead + dim]]
    return at.reshape(at.sum(at._to_dense(grad), [*range(lead), *stretched], True), tuple(factor.shape))


sparse_derivative(
    "mul",
    self=lambda at, grad, self, other: _to_factor(at, grad * at.conj(other), self),
    other=lambda at, grad, self, other: _to_factor(at, grad * at.conj(self), other),
)


def _divisor(other: Any) -> Any:
    if isinstance(other, SparseTensorImpl) or (isinstance(other, np.ndarray) and other.ndim):
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {list(other.shape)} for divisor)"
        )
    return other


def _dividend(self: Any) -> SparseTensorImpl:
    if not isinstance(self, SparseTensorImpl):
        raise NotImplementedError("Could not run 'aten::reciprocal' with arguments from the 'SparseCPU' backend.")
    return self


@sparse_row("_true_div")
def _true_div(self: Array, other: Array) -> Array:
    """A quotient."""
    if isinstance(self, np.ndarray):
        _divisor(other)
    return _scaled("_true_div", _dividend(self), _divisor(other))


sparse_derivative(
    "_true_div",
    self=lambda at, grad, other: grad / at.conj(other),
    other=lambda at, grad, self, other: _to_factor(at, (grad * at.conj(self)) * (-1 / at.conj(other * other)), other),
)


@sparse_row("floor_divide")
def floor_divide(self: Array, other: Array) -> Array:
    """A quotient, rounded down."""
    return _scaled("floor_divide", coalesced(_dividend(self)), _divisor(other))


def _rounded(name: str) -> None:
    def kernel(self: Array, other: Array) -> Array:
        return _scaled(name, coalesced(_dividend(self)), _divisor(other))

    kernel.__name__ = name
    sparse_row(name)(kernel)


for _name in ("_floor_div", "_trunc_div"):
    _rounded(_name)


@sparse_row("pow")
def pow(self: Array, exponent: Array) -> Array:
    """A power of each value; x⁰ would be 1 everywhere."""
    if not isinstance(self, SparseTensorImpl) or hasattr(exponent, "dtype"):
        raise NotImplementedError(
            "Could not run 'aten::pow.Tensor_Tensor' with arguments from the 'SparseCPU' backend."
        )
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    return _scaled("pow", coalesced(self), exponent)


def _mul_into(dense: np.ndarray, sparse: Any) -> np.ndarray:
    dense[...] = dense_of(mul(dense, sparse))
    return dense


INTO_DENSE = {"add": _add_into, "sub": lambda dense, sparse: _add_into(dense, sparse, -1), "mul": _mul_into}
"""What `NAME_` does to a dense array when the second operand is sparse."""

# %%
a = torch.eye(3).to_sparse()
b = torch.arange(9.0).view(3, 3)
a * b, b + a

# %% [markdown]
# ## Reductions
# Over the sparse dimensions a sum forgets rows of indices and lets coalescing add up what falls together; over the dense ones it sums the values.


# %%
#| into: aten/native/sparse/sparse_tensor_math.py
#| upstream: aten/src/ATen/native/sparse/SparseTensorMath.cpp#at::native::_sparse_sum
def summed(self: SparseTensorImpl, dims: tuple[int, ...]) -> Any:
    """The sum over some dimensions: dense if none of the sparse ones is left."""
    values = self.values
    dense = tuple(dim - self.sparse_dim + 1 for dim in dims if dim >= self.sparse_dim)
    if dense:
        values = values.sum(axis=dense)
    left = [dim for dim in range(self.sparse_dim) if dim not in dims]
    if not left:
        return np.asarray(values.sum(axis=0))
    shape = tuple(size for dim, size in enumerate(self.shape) if dim not in dims)
    result = SparseTensorImpl(self.indices[left], values, shape, self.coalesced and len(left) == self.sparse_dim)
    return coalesced(result)


@sparse_row("sum")
def sum(self: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Array:
    """The sum of the elements."""
    kind = np.dtype(np.int64) if self.dtype.kind in "biu" else self.dtype
    self = self.astype(kind if dtype is None else to_numpy_dtype(dtype))
    dims = reduced_dims(dim, self.ndim)
    result = summed(self, dims)
    if not keepdim:
        return result
    for axis in sorted(dims):
        if isinstance(result, SparseTensorImpl):
            result = operators["unsqueeze"].kernels[_SPARSE](result, axis)
        else:
            result = np.expand_dims(result, axis)
    return result


@sparse_row("any")
def any(self: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Is one of the values true?"""
    if dim is not None:
        raise NotImplementedError("Could not run 'aten::any.dim' with arguments from the 'SparseCPU' backend.")
    return np.asarray(self.values.any())


@sparse_row("norm")
def norm(self: Array, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Array:
    """The norm of all elements."""
    if dim is not None and len(reduced_dims(dim, self.ndim)) != self.ndim:
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input"
        )
    values = coalesced(self).values.reshape(-1)
    return operators["_vector_norm"].kernels[_CPU](values, 2 if p in ("fro", None) else p, (0,), False)


no_way_back("norm", "masked_fill_.Scalar")
no_way_back("narrow_copy", "as_strided")


# %%
#| into: aten/native/sparse/sparse_tensor_math.py
#| imports
from readtorch.c10.core.dispatch_key import DispatchKey

# %%
#| into: aten/native/sparse/sparse_tensor_math.py
#| at: after _common
_CPU, _SPARSE = DispatchKey.CPU, DispatchKey.SparseCPU

# %% [markdown]
# `torch.sparse.sum` is the same sum with a derivative that keeps to the places of its argument, as `to_dense` does.


# %%
#| into: aten/native/sparse/sparse_tensor_math.py
#| upstream: aten/src/ATen/native/sparse/SparseTensorMath.cpp#at::native::_sparse_sum_backward_cpu
@register("_sparse_sum_dim", variants="", node="SparseSum")
def _sparse_sum_dim_dense(self: Array, dim: Any) -> Array:
    raise NotImplementedError("Could not run 'aten::_sparse_sum' with arguments from the 'CPU' backend.")


@sparse_row("_sparse_sum_dim")
def _sparse_sum_dim(self: Array, dim: Any) -> Array:
    return summed(self, reduced_dims(dim, self.ndim))


@register("_sparse_sum_backward", variants="")
def _sparse_sum_backward_dense(grad_output: Array, input: Array, dim: Any) -> Array:
    raise NotImplementedError("Could not run 'aten::_sparse_sum_backward' with arguments from the 'CPU' backend.")


@sparse_row("_sparse_sum_backward")
def _sparse_sum_backward(grad_output: Array, input: Array, dim: Any) -> Array:
    """At each place of `input` the gradient of the sum that it went into."""
    input = coalesced(input)
    dims = reduced_dims(dim, input.ndim)
    left = [axis for axis in range(input.sparse_dim) if axis not in dims]
    places = input.indices[left]
    if isinstance(grad_output, SparseTensorImpl):
        rows = operators["_values_at"].kernels[_SPARSE](grad_output, places)
    else:
        rows = grad_output[tuple(places)] if left else np.broadcast_to(grad_output, (input.nnz, *grad_output.shape))
    for axis in sorted(dims):
        if axis >= input.sparse_dim:
            rows = np.expand_dims(rows, axis - input.sparse_dim + 1)
    return input.with_values(np.broadcast_to(rows, input.values.shape).copy())


sparse_derivative("_sparse_sum_dim", self=lambda at, grad, self, dim: at._sparse_sum_backward(grad, self.detach(), dim))
