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
# # Products of sparse matrices
#
# A layer of a graph network is `A @ (X @ W)`: row i of the result is the sum of the rows of `X @ W` that the neighbours of node i have, each
# times the weight of the edge. For that A need never be written out.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
path = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]).to_sparse()
path @ torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])

# %% [markdown]
# ## Sparse times dense
# A loop over the entries would do it: `out[i] += value * dense[j]`. Upstream's is in C++. In NumPy a loop over 13 thousand entries costs 20 milliseconds, so the entries are taken together in
# one of two ways. Both begin with the entries in the order of their rows, as they are in a coalesced matrix.
#
# 1. *All at once*: fetch the dense row of every entry, multiply by the values, and let `np.add.reduceat` add up each stretch. It writes an array of nnz × columns, which is the
#    better way as long as that fits the cache.
# 2. *By degree*: all rows that have k entries make a batch of k × columns matrices, each multiplied by a vector of k values. That is `np.matmul`, hence BLAS, and there are few different k even
#    where there are many rows.
#
# Sorting is the dear part when the matrix is not coalesced, or when it is the transposed one, as in every backward pass. An order found once is kept (`orders`), and looked at again before it
# is used: if the entries do not ascend in it, it is none.


# %%
#| into: aten/native/sparse/sparse_blas_impl.py
#| imports
from __future__ import annotations

from itertools import pairwise

import numpy as np

from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, segment_starts


# %%
#| into: aten/native/sparse/sparse_blas_impl.py
#| upstream: aten/src/ATen/native/sparse/SparseTensorMath.cpp#at::native::addmm_out_sparse_dense_cpu
def by_rows(impl: SparseTensorImpl) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of a matrix, in the order of the rows."""
    rows, columns = impl.indices
    if impl.coalesced or (rows[1:] >= rows[:-1]).all():
        return rows, columns, impl.values
    order = impl.orders.get(impl.keys[0])
    if order is not None:
        ascending = rows[order]
        if (ascending[1:] >= ascending[:-1]).all():
            return ascending, columns[order], impl.values[order]
    order = impl.orders[impl.keys[0]] = np.argsort(rows, kind="stable")
    return rows[order], columns[order], impl.values[order]


#: numbers that all rows of the entries together may have to be fetched at once, and those of a batch of rows
AT_ONCE, BATCH = 1 << 18, 1 << 16


def sparse_times_dense(impl: SparseTensorImpl, dense: np.ndarray) -> np.ndarray:
    """`(n, m)` sparse × `(m, p)` dense, of one dtype."""
    rows, columns, values = by_rows(impl)
    width = dense.shape[1]
    result = np.zeros((impl.shape[0], width), dense.dtype)
    if not len(rows) or not width:
        return result
    starts = segment_starts(rows)
    if len(rows) * width <= AT_ONCE:
        products = dense.take(columns, 0)
        products *= values[:, None]
        result[rows[starts]] = np.add.reduceat(products, starts, axis=0)
        return result
    counts = np.diff(starts, append=len(rows))
    by_degree = np.argsort(counts, kind="stable")
    cuts = [*segment_starts(counts[by_degree]), len(counts)]
    for begin, end in pairwise(cuts):
        degree = int(counts[by_degree[begin]])
        step = max(1, BATCH // (degree * width))
        for first in range(begin, end, step):
            chosen = starts[by_degree[first : min(first + step, end)]]
            entries = chosen[:, None] + np.arange(degree)
            result[rows[chosen]] = np.matmul(values[entries][:, None, :], dense.take(columns[entries], 0))[:, 0]
    return result


# %%
#| into: aten/native/sparse/sparse_mat_mul.py
#| imports
from __future__ import annotations

import numpy as np

from readtorch.aten.native.sparse.sparse_blas_impl import by_rows
from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, coalesced

# %% [markdown]
# ## Sparse times sparse
# Entry (i, k) of the first meets each entry (k, j) of the second. The pairs are written out, with `np.repeat` in place of the inner loop, and coalesced.


# %%
#| into: aten/native/sparse/sparse_mat_mul.py
def sparse_times_sparse(a: SparseTensorImpl, b: SparseTensorImpl) -> SparseTensorImpl:
    """The product of two sparse matrices of one dtype, coalesced."""
    a = coalesced(a)
    rows, columns, values = by_rows(b)
    first = np.searchsorted(rows, a.indices[1], "left")
    counts = np.searchsorted(rows, a.indices[1], "right") - first
    left = np.repeat(np.arange(a.nnz), counts)
    right = np.arange(len(left)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    indices = np.stack([a.indices[0][left], columns[right]])
    products = a.values[left] * values[right]
    result = coalesced(SparseTensorImpl(indices, products, (a.shape[0], b.shape[1])))
    return SparseTensorImpl(result.indices, result.values, result.shape, True)


# %% [markdown]
# ## The operators
# `mm`, `mv`, `addmm` and `bmm` take a sparse matrix on the left. A sparse one on the right is the transposed problem.


# %%
#| into: aten/native/sparse/sparse_blas.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register, sparse_derivative, sparse_row
from readtorch.aten.core.dispatch.operator_entry import Array, Number
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.aten.native.sparse.sparse_blas_impl import sparse_times_dense
from readtorch.aten.native.sparse.sparse_mat_mul import sparse_times_sparse
from readtorch.aten.native.sparse.sparse_tensor import permuted
from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, coalesced, segment_starts


# %%
#| into: aten/native/sparse/sparse_blas.py
def _transposed(matrix: Any) -> Any:
    return permuted(matrix, (1, 0)) if isinstance(matrix, SparseTensorImpl) else matrix.T


def product(a: Any, b: Any) -> Any:
    """`a @ b` for two matrices of which one is sparse, or both; dense unless both are."""
    for name, matrix in (("self", a), ("mat2", b)):
        if matrix.ndim != 2:
            raise RuntimeError(f"addmm: Argument #1 ({name}): expected a matrix, got {matrix.ndim}D tensor")
        if isinstance(matrix, SparseTensorImpl) and matrix.dense_dim:
            raise RuntimeError(f"addmm: expected a tensor without dense dimensions, got {matrix.dense_dim} of them")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}")
    if not isinstance(a, SparseTensorImpl):
        return np.ascontiguousarray(product(_transposed(b), _transposed(a)).T)
    return sparse_times_sparse(a, b) if isinstance(b, SparseTensorImpl) else sparse_times_dense(a, b)


@sparse_row("mm")
def mm(self: Array, mat2: Array) -> Array:
    """A product of matrices."""
    return product(self, mat2)


@sparse_row("mv")
def mv(self: Array, vec: Array) -> Array:
    """Matrix times vector."""
    if self.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"mv: two dim tensor 'self' and one dim tensor 'vec' expected, but got {self.ndim} and {vec.ndim}"
        )
    if self.shape[1] != vec.shape[0]:
        raise RuntimeError(f"mv: expected self.size(-1) == vec.size(-1), but got {self.shape[1]} and {vec.shape[0]}")
    return product(self, vec[:, None])[:, 0]


def _scaled_sum(self: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
    if isinstance(self, SparseTensorImpl):
        raise RuntimeError("addmm_sparse_dense: expected strided result tensor, got tensor with layout Sparse")
    found = product(mat1, mat2)
    if isinstance(found, SparseTensorImpl):
        raise RuntimeError("addmm_sparse_dense: expected one dense matrix, got two sparse ones")
    if self.dtype != found.dtype:
        raise RuntimeError(
            f"addmm: self and the matrices must have the same dtype, but got: {self.dtype} != {found.dtype}"
        )
    if not is_expandable_to(self.shape, found.shape):
        raise RuntimeError(
            f"The expanded size of the tensor {list(found.shape)} must match the existing size {list(self.shape)}"
        )
    if alpha != 1:
        found *= found.dtype.type(alpha)
    if beta:
        found += self if beta == 1 else self * found.dtype.type(beta)
    return found


@sparse_row("addmm")
def addmm(self: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """`beta * self + alpha * mat1 @ mat2`."""
    return _scaled_sum(self, mat1, mat2, beta, alpha)


@sparse_row("bmm")
def bmm(self: Array, mat2: Array) -> Array:
    """A product per batch, as one product: the batch's matrices stand along the diagonal of a large one."""
    if isinstance(mat2, SparseTensorImpl):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    if self.ndim != 3 or mat2.ndim != 3 or self.shape[0] != mat2.shape[0] or self.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"bmm_sparse: cannot multiply batches of matrices of sizes {list(self.shape)} and {list(mat2.shape)}"
        )
    batch, n, m = self.shape
    b, i, j = self.indices
    flat = SparseTensorImpl(np.stack([b * n + i, b * m + j]), self.values, (batch * n, batch * m), self.coalesced)
    return sparse_times_dense(flat, mat2.reshape(batch * m, -1)).reshape(batch, n, -1)


# %% [markdown]
# ## Which gradient does A get?
# By a dense matrix, `Aᵀ @ grad`, whatever A is. By the sparse one there are two answers, and both functions exist. `torch.mm` gives the full gradient, `grad @ Xᵀ`, a dense matrix as large
# as the graph is squared. `torch.sparse.mm` gives it at the places of A alone: for entry (i, j) the inner product of row i of `grad` and row j of X, which is what
# attention over the edges of a graph wants.


# %%
#| into: aten/native/sparse/sparse_blas.py
#| upstream: torch/csrc/autograd/FunctionsManual.cpp#torch::autograd::generated::details::mm_mat1_sparse_backward
def _at_its_places(at: Any, grad: Any, mat1: Any, mat2: Any, alpha: Any = 1) -> Any:
    mat1 = at.coalesce(mat1.detach())
    rows, columns = at.unbind(mat1._indices(), 0)
    products = at.index_select(grad, 0, rows) * at.conj(at.index_select(mat2, 0, columns))
    values = at.sum(products, 1)
    values = values if alpha == 1 else values * alpha
    return at._sparse_coo_tensor_with_dims_and_tensors(values, mat1._indices(), tuple(mat1.shape), False)


@register("_sparse_addmm", variants="function", node="SparseAddmm")
def _sparse_addmm_dense(self: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """`beta * self + alpha * mat1 @ mat2`, whose gradient by a sparse `mat1` is sparse."""
    raise NotImplementedError(
        "Could not run 'aten::_sparse_addmm' with dense arguments alone: one matrix must be sparse."
    )


@sparse_row("_sparse_addmm")
def _sparse_addmm(self: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    return _scaled_sum(self, mat1, mat2, beta, alpha)


sparse_derivative(
    "_sparse_addmm",
    self=lambda at, grad, beta: grad * beta,
    mat1=lambda at, grad, mat1, mat2, alpha: _at_its_places(at, grad, mat1, mat2, alpha),
    mat2=lambda at, grad, mat1, alpha: at.mm(at.t(at.conj(mat1)), grad if alpha == 1 else grad * alpha),
)


# %%
#| into: aten/native/sparse/sparse_blas.py
#| upstream: torch/csrc/autograd/FunctionsManual.cpp#torch::autograd::generated::details::sparse_sparse_matmul_backward
@register("_sparse_sparse_matmul", variants="", node="SparseSparseMatmul")
def _sparse_sparse_matmul_dense(self: Array, other: Array) -> Array:
    raise NotImplementedError("Could not run 'aten::_sparse_sparse_matmul' with arguments from the 'CPU' backend.")


@sparse_row("_sparse_sparse_matmul")
def _sparse_sparse_matmul(self: Array, other: Array) -> Array:
    return product(self, other)


def _masked(at: Any, grad: Any, mask: Any) -> Any:
    return at.sparse_mask(grad, at.coalesce(mask.detach()))


sparse_derivative(
    "_sparse_sparse_matmul",
    self=lambda at, grad, self, other: _masked(at, at.mm(grad, at.conj(at.t(other))), self),
    other=lambda at, grad, self, other: _masked(at, at.mm(at.conj(at.t(self)), grad), other),
)


@composite("_sparse_mm", variants="function")
def _sparse_mm(at: Any, sparse: Array, dense: Array, reduce: str = "") -> Any:
    """`torch.sparse.mm`."""
    if reduce:
        raise NotImplementedError(
            "Could not run 'aten::_sparse_mm_reduce_impl' with arguments from the 'SparseCPU' backend: a `reduce` is for the CSR layout."
        )
    if sparse.is_sparse and dense.is_sparse:
        return at._sparse_sparse_matmul(sparse, dense)
    if not sparse.is_sparse:
        return at.transpose(_sparse_mm(at, at.transpose(dense, 0, 1), at.transpose(sparse, 0, 1)), 0, 1)
    return at._sparse_addmm(dense.new_zeros(()), sparse, dense, beta=0, alpha=1)


@composite("spmm", variants="function")
def spmm(at: Any, input: Array, mat2: Array) -> Any:
    """`mm`, under the name of a layout's function."""
    return at.mm(input, mat2)


@composite("dsmm", variants="function")
def dsmm(at: Any, input: Array, mat2: Array) -> Any:
    """`mm`, under another one."""
    return at.mm(input, mat2)


# %%
#| claim: the gradient of mm by its sparse argument is dense, that of sparse.mm has the argument's places
def _(torch):
    dense = torch.arange(6.0).view(3, 2)
    for function, sparse in ((torch.mm, False), (torch.sparse.mm, True)):
        a = torch.eye(3).to_sparse().requires_grad_()
        function(a, dense).sum().backward()
        assert a.grad.is_sparse == sparse
        assert a.grad.to_dense().diagonal().tolist() == [1.0, 5.0, 9.0]


# %% [markdown]
# Three functions have sparse results. `smm` and `sspaddmm` write out every element of the rows that have one; `hspmm` keeps those rows as blocks, a hybrid tensor. None has
# a derivative, and the backward pass says so.


# %%
#| into: aten/native/sparse/sparse_blas.py
#| upstream: aten/src/ATen/native/sparse/SparseTensorMath.cpp#at::native::hspmm_out_sparse_cpu
@register("hspmm", variants="function")
def _hspmm_dense(mat1: Array, mat2: Array) -> Array:
    """Sparse times dense; of the result the rows that are not empty."""
    raise NotImplementedError("Could not run 'aten::hspmm' with arguments from the 'CPU' backend.")


@sparse_row("hspmm")
def hspmm(mat1: Array, mat2: Array) -> Array:
    mat1 = coalesced(mat1)
    found = product(mat1, mat2)
    rows = mat1.indices[0][segment_starts(mat1.indices[0])]
    return SparseTensorImpl(rows[None], found[rows], found.shape)


@register("sspaddmm", variants="function method")
def _sspaddmm_dense(self: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    """`beta * self + alpha * mat1 @ mat2` for a sparse `self`, sparse."""
    raise NotImplementedError("Could not run 'aten::sspaddmm' with arguments from the 'CPU' backend.")


@sparse_row("sspaddmm")
def sspaddmm(self: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1) -> Array:
    if not isinstance(mat1, SparseTensorImpl) or isinstance(mat2, SparseTensorImpl):
        raise RuntimeError("sspaddmm: Argument #2: Expected a sparse matrix, and a dense one after it")
    found = product(mat1, mat2)
    rows = np.unique(mat1.indices[0])
    indices = np.stack([np.repeat(rows, found.shape[1]), np.tile(np.arange(found.shape[1]), len(rows))])
    values = found[rows].reshape(-1) * found.dtype.type(alpha)
    indices = np.concatenate([self.indices, indices], 1)
    return SparseTensorImpl(indices, np.concatenate([self.values * found.dtype.type(beta), values]), found.shape)


@composite("smm", variants="function method")
def smm(at: Any, self: Array, mat2: Array) -> Any:
    """Sparse times dense, sparse."""
    return at.sspaddmm(self.new_zeros((self.shape[0], mat2.shape[1])), self, mat2)


# %% [markdown]
# ## Softmax over what is there
# In `torch.sparse.softmax` a place that is not listed counts as −∞, not as zero: the numbers of a row that are listed sum to one. That is attention over neighbours again.
# The entries are sorted by all indices but the one that runs, and then each stretch is one softmax.


# %%
#| into: aten/native/sparse/soft_max.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import operators, register, sparse_derivative, sparse_row
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, coalesced, flat_places, segment_starts
from readtorch.c10.core.dispatch_key import DispatchKey
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/sparse/soft_max.py
#| upstream: aten/src/ATen/native/sparse/SoftMax.cpp#at::native::softmax_sparse_cpu
def _by_pool(self: SparseTensorImpl, dim: int, work: Callable[..., np.ndarray], *values: np.ndarray) -> np.ndarray:
    """`work(reduce, values…)` along `dim`; `reduce(ufunc, x)` gives each entry its pool's result."""
    if dim >= self.sparse_dim:
        axis = dim - self.sparse_dim + 1
        return work(lambda ufunc, x: ufunc.reduce(x, axis=axis, keepdims=True), *values)
    others = [place for place in range(self.sparse_dim) if place != dim]
    pools = flat_places(self.indices[others], tuple(self.shape[place] for place in others))
    order = np.argsort(pools, kind="stable")
    starts = segment_starts(pools[order])
    counts = np.diff(starts, append=len(order))
    found = work(lambda ufunc, x: np.repeat(ufunc.reduceat(x, starts, axis=0), counts, 0), *(x[order] for x in values))
    result = np.empty_like(found)
    result[order] = found
    return result


def _softmax(reduce: Any, x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - reduce(np.maximum, x))
    return powers / reduce(np.add, powers)


def _log_softmax(reduce: Any, x: np.ndarray) -> np.ndarray:
    shifted = x - reduce(np.maximum, x)
    return shifted - np.log(reduce(np.add, np.exp(shifted)))


def _softmax_gradient(reduce: Any, y: np.ndarray, grad: np.ndarray) -> np.ndarray:
    return y * (grad - reduce(np.add, y * grad))


def _log_softmax_gradient(reduce: Any, y: np.ndarray, grad: np.ndarray) -> np.ndarray:
    return grad - np.exp(y) * reduce(np.add, grad)


def _both(name: str, node: str, forward: Any, backward: Any) -> None:
    def dense(self: Array, dim: int) -> Array:
        raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'CPU' backend.")

    def kernel(self: Array, dim: int) -> Array:
        place = maybe_wrap_dim(dim, self.ndim)
        self = coalesced(self)
        return self.with_values(_by_pool(self, place, forward, self.values) if self.nnz else self.values)

    def dense_data(grad_output: Array, output: Array, dim: int) -> Array:
        raise NotImplementedError(f"Could not run 'aten::{name}_backward_data' with arguments from the 'CPU' backend.")

    def kernel_data(grad_output: Array, output: Array, dim: int) -> Array:
        place = maybe_wrap_dim(dim, output.ndim)
        at = operators["_values_at"].kernels[
            DispatchKey.SparseCPU if isinstance(grad_output, SparseTensorImpl) else DispatchKey.CPU
        ]
        arriving = at(grad_output, output.indices).reshape(output.values.shape)
        return output.with_values(
            _by_pool(output, place, backward, output.values, arriving) if output.nnz else arriving
        )

    register(name, variants="", node=node)(dense)
    sparse_row(name)(kernel)
    register(f"{name}_backward_data", variants="")(dense_data)
    sparse_row(f"{name}_backward_data")(kernel_data)
    sparse_derivative(
        name, self=lambda at, grad, result, dim: getattr(at, f"{name}_backward_data")(grad, result.detach(), dim)
    )


_both("_sparse_softmax", "SparseSoftmax", _softmax, _softmax_gradient)
_both("_sparse_log_softmax", "SparseLogSoftmax", _log_softmax, _log_softmax_gradient)

# %% [markdown]
# ## What upstream does more
# For the GPU there is cuSPARSE behind the same operators, and for the CPU MKL where a matrix is converted to compressed rows. Those **compressed layouts**, CSR, CSC and their blocked
# kin, are not here; a COO matrix that is coalesced holds the same entries in the same order, with the row of each entry written out.


# %%
#| into: aten/native/__init__.py
from readtorch.aten.native.sparse import sparse_tensor as sparse_tensor
from readtorch.aten.native.sparse import sparse_unary_ops as sparse_unary_ops
from readtorch.aten.native.sparse import sparse_tensor_math as sparse_tensor_math
from readtorch.aten.native.sparse import sparse_blas as sparse_blas
from readtorch.aten.native.sparse import soft_max as sparse_soft_max
