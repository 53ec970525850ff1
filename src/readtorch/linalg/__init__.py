# Tangled from chapters/a1_operators/ — edit there, or here and run `readtorch sync`.
"""Linear algebra (twin of `torch/linalg/__init__.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from readtorch import _C
from readtorch._tensor import Tensor
from readtorch.aten.core.dispatch.operator_entry import Dims
from readtorch.aten.native.batch_linear_algebra import LinAlgError as LinAlgError
from readtorch.c10.core.scalar_type import dtype, to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim
from readtorch.csrc.utils.python_arg_parser import checked, is_number, require

_at = _C._linalg
cholesky = _at.linalg_cholesky
det = _at.linalg_det
eigh = _at.linalg_eigh
inv = _at.linalg_inv
matrix_exp = _at.linalg_matrix_exp
matrix_norm = _at.linalg_matrix_norm
matrix_power = _at.linalg_matrix_power
matrix_rank = _at.linalg_matrix_rank
pinv = _at.linalg_pinv
qr = _at.linalg_qr
slogdet = _at.linalg_slogdet
solve = _at.linalg_solve
svd = _at.linalg_svd
svdvals = _at.linalg_svdvals
vector_norm = _at.linalg_vector_norm


@checked
def norm(
    A: Tensor,
    ord: Any = None,
    dim: Dims | None = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
) -> Any:
    """The norm of vectors or, with two dimensions and an `ord`, of matrices."""
    if ord is not None and not isinstance(ord, str) and not is_number(ord):
        raise TypeError(f"linalg_norm(): argument 'ord' must be Number, not {type(ord).__name__}")
    ord = ord.item() if isinstance(ord, Tensor) else ord
    dims = dim if isinstance(dim, list | tuple) or dim is None else (dim,)
    if ord is None:
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if dims is None and A.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if not isinstance(ord, str) and (A.ndim < 2 if dims is None else len(dims) == 1):
        return vector_norm(A, ord, dims, keepdim, dtype=dtype)
    return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)


@checked
def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Any:
    """The cross product along `dim`."""
    require("linalg_cross", "int", dim=dim)
    return _C._VariableFunctions.cross(input, other, dim)


@checked
def multi_dot(tensors: Any, *, out: Any = None) -> Any:
    """A product of several matrices, in order."""
    if not isinstance(tensors, list | tuple):
        kind = type(tensors).__name__
        raise TypeError(f"linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not {kind}")
    for number, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected Tensor as element {number} in argument 0, but got {type(tensor).__name__}")
        inner = 0 < number < len(tensors) - 1
        if tensor.ndim != 2 and (inner or tensor.ndim != 1):
            wanted = "2D" if inner else "1D or 2D"
            raise RuntimeError(f"multi_dot(): tensor {number} is {tensor.ndim}D and must be {wanted}")
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): a product needs at least 2 tensors, not {len(tensors)}")
    result = tensors[0]
    for tensor in tensors[1:]:
        result = result @ tensor
    return result


@checked
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal of the last two dimensions."""
    return _C._VariableFunctions.diagonal(A, offset, dim1, dim2)


@checked
def eigvalsh(input: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Any:
    """The eigenvalues of a Hermitian matrix."""
    return eigh(input, UPLO)[0]


cholesky_ex = _at.linalg_cholesky_ex
eig = _at.linalg_eig
eigvals = _at.linalg_eigvals
householder_product = _at.linalg_householder_product
inv_ex = _at.linalg_inv_ex
lstsq = _at.linalg_lstsq
lu = _at.linalg_lu
lu_factor = _at.linalg_lu_factor
lu_solve = _at.linalg_lu_solve
solve_ex = _at.linalg_solve_ex
solve_triangular = _at.linalg_solve_triangular


@checked
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
    """`torch.matmul` by another name."""
    return _C._VariableFunctions.matmul(input, other, out=out)


@checked
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Any:
    """The dot products of vectors along `dim`; the first of each is conjugated."""
    if not (x.is_floating_point() or x.is_complex()):
        kind = to_string(x.dtype)
        raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {kind}")
    if not isinstance(y, Tensor):
        raise TypeError(f"linalg_vecdot(): argument 'y' (position 2) must be Tensor, not {type(y).__name__}")
    require("linalg_vecdot", "int", dim=dim)
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found {to_string(x.dtype)} and {to_string(y.dtype)}"
        )
    if x.ndim == y.ndim == 1:
        return _C._VariableFunctions.vdot(x, y)
    return (x.conj() * y).sum(dim)


@checked
def vander(x: Tensor, *, N: int | None = None) -> Any:
    """The powers 0 to N - 1 of each element, along a new last dimension."""
    kind = to_string(x.dtype)
    if kind in ("Bool", "Half", "BFloat16"):
        raise RuntimeError(f"linalg.vander supports floating point, complex, and integer tensors, but got {kind}")
    x = x if x.is_floating_point() or x.is_complex() else x.long()
    x = x if x.ndim else x.unsqueeze(0)
    count = x.shape[-1] if N is None else N
    if count < 2:
        raise RuntimeError("N must be greater than 1.")
    if count >= 1 << 63:
        raise ValueError("linalg_vander(): argument 'N': Overflow when unpacking long long")
    stack = _C._VariableFunctions.stack
    return stack([x**power for power in range(count)], -1)


@checked
def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Any:
    """The condition number: how much an error in the right-hand side can grow."""
    if A.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor A must have at least 2 dimensions.")
    if p in (None, 2, -2):
        values = svdvals(A)
        if not values.shape[-1]:
            return values.sum(-1)
        first, last = values[..., 0], values[..., -1]
        return last / first if p == -2 else first / last
    return matrix_norm(A, p) * matrix_norm(inv(A), p)


@checked
def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Any:
    """The inverse under `tensordot` with `ind` dimensions. RuntimeError unless the dimensions on both sides have the same product."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    if ind > A.ndim:
        raise RuntimeError(f"tensorinv: 'ind' is {ind}, and the tensor has {A.ndim} dimensions")
    first, last = A.shape[:ind], A.shape[ind:]
    rows, columns = first.numel(), _C.Size(last).numel()
    if rows != columns:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {columns} != {rows}"
        )
    return inv(A.reshape(rows, columns)).reshape(*last, *first)


@checked
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None) -> Any:
    """X with `tensordot(A, X, X.ndim) = B`."""
    if dims is not None:
        moved = [maybe_wrap_dim(dim, A.ndim) for dim in dims]
        A = A.permute(*(axis for axis in range(A.ndim) if axis not in moved), *moved)
    last = A.shape[B.ndim :]
    if _C.Size(last).numel() != B.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim])"
        )
    return solve(A.reshape(B.numel(), -1), B.flatten()).reshape(last)


from readtorch.csrc.utils.gates import COMPILED, Public, gates

gates.offer(globals(), "torch.linalg", COMPILED, Public(globals()))
