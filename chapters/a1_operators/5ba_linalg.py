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
# # `torch.linalg`, and a few singular values
#
# `torch.linalg.inv` is the operator `linalg_inv`, and much of the module is no more than that: short names for what the last parts have registered. What is left for Python are functions that are *made* of others, norms above all, which choose a formula by the type of an argument and the number of dimensions. And an algorithm that upstream keeps in Python since it is
# two products and a small SVD.

# %%
import matplotlib.pyplot as plt

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Short names
#
# First those of the products, systems and norms, then the factorizations.


# %%
#| into: linalg/__init__.py
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


# %%
#| into: __init__.py
_MODULES.append("linalg")


# %%
A = torch.tensor([[3.0, 0.0], [4.0, 5.0]])
norm = torch.linalg.norm
{"norm(A)": norm(A), "norm(A, 2)": norm(A, 2), "norm(A, 1)": norm(A, 1), "norm(A, 2, dim=1)": norm(A, 2, dim=1)}

# %% [markdown]
# One function and three meanings. Without an `ord` it takes all elements for one vector, of whatever rank the tensor is. With an `ord` and a matrix, `2` is the largest stretch (a singular value, at the price of an SVD), `1` the largest column sum. With one `dim` it is of vectors again. And a tensor of three dimensions with an `ord` and no `dim` is refused: the old `torch.norm(x, 2)` flattens it.


# %%
#| claim: linalg.norm of a matrix is Frobenius' without an order, the largest singular value with 2; torch.norm with 2 is of all elements
def _(torch):
    A = torch.tensor([[3.0, 0.0], [4.0, 5.0]])
    norm = torch.linalg.norm
    assert torch.allclose(norm(A), A.square().sum().sqrt()) and torch.allclose(torch.norm(A, 2), norm(A))
    assert torch.allclose(norm(A, 2), torch.linalg.svdvals(A)[0]) and norm(A, 1) == 7
    assert torch.allclose(norm(A, 2, dim=1), A.square().sum(1).sqrt())
    try:
        norm(torch.ones(2, 2, 2), 2)
    except RuntimeError as error:
        assert "1D or 2D" in str(error)
    else:
        raise AssertionError("flattened")


# %%
#| claim: QR and SVD are unique up to signs only: a factor times its sign flipped twice is as good, and the sign of R's diagonal is the library's
def _(torch):
    A = torch.tensor([[3.0, 1.0], [4.0, 2.0]])
    Q, R = torch.linalg.qr(A)
    flip = torch.diag(torch.tensor([-1.0, 1.0]))
    assert torch.allclose(Q @ R, A) and torch.allclose((Q @ flip) @ (flip @ R), A)
    assert R[0, 0] < 0  # a textbook would make it positive


# %% [markdown]
# ## Written with the others


# %%
#| into: linalg/__init__.py
#| upstream: torch/linalg/__init__.py#cond
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


# %%
companion = torch.diag(torch.ones(2), -1)
companion[:, -1] = torch.tensor([6.0, -11.0, 6.0])  # of x³ - 6 x² + 11 x - 6
torch.linalg.eigvals(companion), torch.linalg.eigvals(torch.tensor([[0.0, -1.0], [1.0, 0.0]]))


# %%
#| claim: an `_ex` function returns where its namesake raises, and says at which matrix it failed
#| upstream: aten/src/ATen/native/BatchLinearAlgebra.cpp#at::native::linalg_cholesky_ex_out
def _(torch):
    batch = torch.stack([torch.eye(2), -torch.eye(2)])
    L, info = torch.linalg.cholesky_ex(batch)
    assert torch.equal(L[0], torch.eye(2)) and info[0] == 0 and info[1] != 0
    try:
        torch.linalg.cholesky(batch)
    except torch.linalg.LinAlgError:
        pass
    else:
        raise AssertionError("no error")


# %% [markdown]
# ## A few singular values of a large matrix
#
# A full SVD of an m × n matrix costs m n min(m, n) operations, however few of the singular values are wanted. `svd_lowrank` guesses the space in which the large ones live: A is multiplied with `q` random vectors, and what comes out leans towards the directions that A stretches most. The rest is an
# SVD of a matrix of q rows. Each of the `niter` rounds of multiplication with Aᴴ and A makes the lean stronger, by the square of the ratio of the singular values. `pca_lowrank` does this to the columns less their means.


# %%
#| into: _lowrank.py
#| imports
from __future__ import annotations

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.csrc.utils.python_arg_parser import checked

# %%
#| into: _lowrank.py
#| upstream: torch/_lowrank.py#svd_lowrank
__all__ = ["pca_lowrank", "svd_lowrank"]


def get_approximate_basis(A: Tensor, q: int, niter: int | None = 2, M: Tensor | None = None) -> Tensor:
    """`q` orthonormal columns that nearly span the range of `A`, or of `A - M`: (*, m, q)."""
    matrix = A if M is None else A - M
    kind = A.dtype if A.is_floating_point() or A.is_complex() else torch.float32
    basis = torch.linalg.qr(matrix @ torch.randn(A.shape[-1], q, dtype=kind, device=A.device)).Q
    for _ in range(2 if niter is None else niter):
        basis = torch.linalg.qr(matrix.mH @ basis).Q
        basis = torch.linalg.qr(matrix @ basis).Q
    return basis


@checked
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The `q` largest singular values of `A - M` and their vectors, nearly: (*, m, q), (*, q), (*, n, q). Draws random numbers."""
    matrix = A if M is None else A - M.broadcast_to(A.size())
    wide = A.shape[-2] < A.shape[-1]
    matrix = matrix.mH if wide else matrix
    basis = get_approximate_basis(matrix, 6 if q is None else q, niter)
    U, S, Vh = torch.linalg.svd(basis.mH @ matrix, full_matrices=False)
    left, right = basis @ U, Vh.mH
    return (right, S, left) if wide else (left, S, right)


@checked
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """The `q` principal components of the rows of `A`, as `svd_lowrank` of the centred matrix. ValueError for q over min(m, n)."""
    rows, columns = A.shape[-2:]
    most = min(rows, columns)
    if q is None:
        q = min(6, most)
    elif not 0 <= q <= most:
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={most}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, q, niter)


# %%
#| into: __init__.py
_NAMES.update(dict.fromkeys(("pca_lowrank", "svd_lowrank"), "_lowrank"))


# %%
#| claim: each round of multiplication brings the guess nearer to the true singular values; a matrix of rank q is found exactly
#| upstream: torch/_lowrank.py#get_approximate_basis
def _(torch):
    torch.manual_seed(0)
    A = torch.randn(60, 40, dtype=torch.float64)
    true = torch.linalg.svdvals(A)[:6]
    errors = [(torch.svd_lowrank(A, 6, niter)[1] - true).abs().max().item() for niter in (0, 2, 8, 64)]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 1e-3 < errors[0]
    thin = A[:, :5] @ A[:5]
    U, S, V = torch.svd_lowrank(thin, 5, niter=0)
    assert torch.allclose(U @ torch.diag(S) @ V.mT, thin)


# %%
torch.manual_seed(0)
A = torch.randn(200, 100) @ torch.diag(0.93 ** torch.arange(100.0)) @ torch.randn(100, 100) / 10
figure, axes = plt.subplots(figsize=(7, 2.8))
axes.plot(range(1, 21), torch.linalg.svdvals(A)[:20].tolist(), "k.", label="true")
for niter in (0, 1, 3):
    axes.plot(range(1, 21), torch.svd_lowrank(A, 20, niter)[1].tolist(), label=f"niter={niter}")
axes.set_xlabel("singular value, of which 20 were asked for")
axes.set_ylim(0)
axes.legend(frameon=False, fontsize=8)
figure.tight_layout()

# %% [markdown]
# Asked for twenty, the first ten are good without any further round and the last are not. Ask for more than you need (`q` + 5 is the usual advice) and take the first.
#
# ### What upstream does more
#
# * On a GPU each function has two or three libraries to choose from (cuSOLVER, MAGMA, cuBLAS for batches), by size and shape, and `torch.backends.cuda.preferred_linalg_library` to overrule the choice. There `lstsq` has one driver, and it takes full rank for granted.
# * `lu_solve` and `solve_triangular` solve with the triangles; see above.
# * Forward-mode derivatives of all of them.
