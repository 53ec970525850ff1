# Tangled from chapters/a1_operators/5e_sparse_products.py — edit there, or here and run `readtorch sync`.

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
