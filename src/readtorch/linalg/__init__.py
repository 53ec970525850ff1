# Tangled from chapters/a1_operators/5_matrices.py — edit there, or here and run `readtorch sync`.
"""Linear algebra (twin of `torch/linalg/__init__.py`)."""

from typing import Any

from readtorch import _C
from readtorch.aten.native.batch_linear_algebra import LinAlgError as LinAlgError
from readtorch.c10.core.scalar_type import to_string

_at = _C._linalg
cholesky = _at.linalg_cholesky
det = _at.linalg_det
eigh = _at.linalg_eigh
inv = _at.linalg_inv
matrix_exp = _at.linalg_matrix_exp
matrix_power = _at.linalg_matrix_power
matrix_rank = _at.linalg_matrix_rank
pinv = _at.linalg_pinv
qr = _at.linalg_qr
slogdet = _at.linalg_slogdet
solve = _at.linalg_solve
svd = _at.linalg_svd
svdvals = _at.linalg_svdvals
vector_norm = _at.linalg_vector_norm


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, out: Any = None, dtype: Any = None) -> Any:
    """The norm of vectors or, with two dimensions and an `ord`, of matrices."""
    if ord is None or isinstance(dim, int) or (dim is None and A.ndim == 1 and not isinstance(ord, str)):
        return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)


def matrix_norm(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Any:
    """The norm of matrices: "fro", "nuc", inf, -inf, 1, -1, 2 or -2."""
    if not (A.is_floating_point() or A.is_complex()):
        name = to_string(A.dtype)
        raise RuntimeError(f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {name}")
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    A = A if dtype is None else A.to(dtype)
    if ord == "fro":
        return vector_norm(A, 2, dim, keepdim)
    rows, columns = (axis % A.ndim for axis in dim)
    if ord in ("nuc", 2, -2):
        values = svdvals(A.movedim((rows, columns), (-2, -1)))
        result = values.sum(-1) if ord == "nuc" else values.amax(-1) if ord == 2 else values.amin(-1)
        for axis in sorted((rows, columns)) if keepdim else ():
            result = result.unsqueeze(axis)
        return result
    summed, searched = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = A.abs().sum(summed, keepdim=True)
    result = sums.amax(searched, keepdim=True) if ord > 0 else sums.amin(searched, keepdim=True)
    return result if keepdim else result.squeeze((rows, columns))


def cross(input: Any, other: Any, *, dim: Any = -1) -> Any:
    """The cross product along `dim`."""
    return _C._VariableFunctions.cross(input, other, dim)


def multi_dot(tensors: Any, *, out: Any = None) -> Any:
    """A product of several matrices, in order."""
    result = tensors[0]
    for tensor in tensors[1:]:
        result = result @ tensor
    return result


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal of the last two dimensions."""
    return _C._VariableFunctions.diagonal(A, offset, dim1, dim2)


def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of a Hermitian matrix."""
    return eigh(A, UPLO)[0]
