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
# # Triangles, and solving
#
# What remains of the everyday functions of matrices: parts of them, and systems of equations. [The factorizations](5b_factorizations.py) come after.

# %%
import readtorch as torch
from readtorch.literate import live

live()


# %% [markdown]
# ## Triangles, crosses, traces

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import triangular_ops as triangular_ops

# %%
#| into: aten/native/triangular_ops.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, cpu, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import not_implemented, to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim

from readtorch.aten.tensor_iterator import in_order


# %%
#| into: aten/native/triangular_ops.py
#| upstream: aten/src/ATen/native/TriangularOps.cpp#at::native::tril_cpu
def _check_rank(name: str, self: Array) -> None:
    if self.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


@register("tril", key="CPU CUDA", variants="function method", inplace=True, out=True)
def tril(self: Array, diagonal: int = 0) -> Array:
    """Zeros above a diagonal."""
    _check_rank("tril", self)
    return in_order(np.tril(self, diagonal))


@register("triu", key="CPU CUDA", variants="function method", inplace=True, out=True)
def triu(self: Array, diagonal: int = 0) -> Array:
    """Zeros below a diagonal."""
    _check_rank("triu", self)
    return in_order(np.triu(self, diagonal))


derivative("tril", self=lambda at, grad, diagonal: at.tril(grad, diagonal))
derivative("triu", self=lambda at, grad, diagonal: at.triu(grad, diagonal))


@register("trace", key="CPU CUDA", variants="function method")
def trace(self: Array) -> Array:
    """The sum of the diagonal."""
    if self.ndim != 2:
        raise RuntimeError("trace: expected a matrix")
    return cpu.sum(cpu.diagonal(self, 0, 0, 1))


def _trace_backward(at: Any, grad: Any, shape: tuple[int, ...]) -> Any:
    return at.diagonal_backward(at.expand(grad, (min(shape),)), shape, 0, 0, 1)


derivative("trace", self=lambda at, grad, self_shape: _trace_backward(at, grad, self_shape))


@composite("cross", variants="function method", out=True)
def cross(at: Any, self: Array, other: Array, dim: int | None = None) -> Any:
    """The cross product of vectors of three along `dim`."""
    if dim is None:
        dim = next((axis for axis, size in enumerate(self.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    if self.ndim != other.ndim:
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions. Got {self.ndim} and {other.ndim}"
        )
    place = maybe_wrap_dim(dim, self.ndim, wrap_scalar=False)
    if self.shape[place] != 3 or other.shape[place] != 3:
        sizes = f"{self.shape[place]} and {other.shape[place]}"
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes}")
    if to_string(self.dtype) == "Bool":
        raise not_implemented("cross", self.dtype)
    if self.dtype != other.dtype:
        raise RuntimeError(f"expected scalar type {to_string(self.dtype)} but found {to_string(other.dtype)}")
    a, b = [[at.select(x, dim, i) for i in range(3)] for x in (self, other)]
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    return at.stack(parts, dim)


# %% [markdown]
# ## Solving
#
# | operator | derivative |
# |---|---|
# | inv A | −A⁻ᴴ G A⁻ᴴ |
# | solve A x = b | for b: x̄ = A⁻ᴴ G; for A: −x̄ xᴴ |
# | det A | G · det A · A⁻ᴴ |
# | cholesky, qr, svd, eigh | the standard adjoints (Giles 2008; Seeger et al. 2017) |

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import batch_linear_algebra as batch_linear_algebra

# %%
#| into: aten/native/batch_linear_algebra.py
#| imports
from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.native.tensor_factories import in_one_piece, is_in_one_piece
from readtorch.c10.core.dispatch_key import values_for, without_values
from readtorch.c10.core.scalar_type import int32, not_implemented, to_numpy_dtype, to_string
from readtorch.aten.native.unary_ops import is_complex
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/batch_linear_algebra.py
#| upstream: aten/src/ATen/native/BatchLinearAlgebra.cpp#at::native::linalg_inv_ex_out
class LinAlgError(RuntimeError):
    """A matrix cannot be inverted, factorised or decomposed. Known as `torch.linalg.LinAlgError`."""


LinAlgError.__module__ = "torch._C"
LinAlgError.__qualname__ = LinAlgError.__name__ = "_LinAlgError"


def _converged(name: str, decompose: Any, A: Array, *args: Any, **options: Any) -> Any:
    """The decomposition. LinAlgError where the iteration does not end, as with NaN in the matrix."""
    try:
        return decompose(A, *args, **options)
    except np.linalg.LinAlgError:
        why = "is ill-conditioned" if np.isfinite(A).all() else "holds non-finite values"
        raise LinAlgError(f"{name}: failed to converge, for the matrix {why}") from None


def _matrices(name: str, self: Array) -> None:
    if self.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")


def _square(name: str, self: Array) -> None:
    _matrices(f"linalg.{name}", self)
    if self.shape[-1] != self.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: A must be batches of square matrices, but they are {self.shape[-2]} by {self.shape[-1]} matrices"
        )


def _has_pivot(matrix: Array, order: int) -> bool:
    return bool(np.linalg.matrix_rank(matrix[:, :order]) == order)


def _has_factor(matrix: Array, order: int) -> bool:
    try:
        np.linalg.cholesky(matrix[:order, :order])
    except np.linalg.LinAlgError:
        return False
    return True


def _first_failing(A: Array, test: Callable[[Array, int], bool]) -> tuple[str, int]:
    """Which matrix of a batch, in words, and the number of its first column, from 1, at which a factorization comes to its end."""
    for number, matrix in enumerate(A.reshape(-1, *A.shape[-2:])):
        for order in range(1, len(matrix) + 1):
            if not test(matrix, order):
                return f"(Batch element {number}): " if A.ndim > 2 else "", order
    return "", A.shape[-1]


def solvable(name: str, A: Any, B: Any, left: bool = True) -> None:
    """RuntimeError if A X = B (X A = B) makes no sense for matrices of these shapes."""
    if B.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    if A.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )


def _adjoint(at: Any, x: Any) -> Any:
    return at.conj(at.transpose(x, -2, -1))


@register(
    "linalg_inv",
    specimen="identity",
    module="linalg",
    key="CPU CUDA",
    variants="function",
    out=True,
    node="LinalgInvEx",
)
def linalg_inv(A: Array) -> Array:
    """The inverse."""
    _square("inv", A)
    try:
        return np.linalg.inv(A)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"linalg.inv: {_first_failing(A, _has_pivot)[0]}The diagonal element {_first_failing(A, _has_pivot)[1]} is zero, the "
            "inversion could not be completed because the input matrix is singular."
        ) from None


derivative(
    "linalg_inv", A=lambda at, grad, result: -at.matmul(_adjoint(at, result), at.matmul(grad, _adjoint(at, result)))
)
composite("inverse", variants="function method", out=True)(lambda at, self: at.linalg_inv(self))


@register("_linalg_solve", specimen="identity", key="CPU CUDA", variants="", node="LinalgSolveEx")
def _linalg_solve(A: Array, B: Array) -> Array:
    _square("solve", A)
    solvable("linalg.solve", A, B)
    try:
        return np.linalg.solve(A, B)
    except np.linalg.LinAlgError:
        raise LinAlgError("torch.linalg.solve: The solver failed because the input matrix is singular.") from None


def _solve_backward(at: Any, grad: Any, A: Any, result: Any, mask: tuple[bool, ...]) -> Any:
    to_b = at._linalg_solve(_adjoint(at, A), grad)
    return -at.matmul(to_b, _adjoint(at, result)) if mask[0] else None, to_b


derivative("_linalg_solve", {"A, B": lambda at, grad, A, result, mask: _solve_backward(at, grad, A, result, mask)})


@composite("linalg_solve", module="linalg", variants="function", out=True)
def linalg_solve(at: Any, A: Array, B: Array, *, left: bool = True) -> Any:
    """X with A X = B (or X A = B with `left=False`); B may be a vector."""
    if A.dtype != B.dtype:
        names = [to_string(x.dtype) for x in (A, B)]
        raise RuntimeError(f"linalg.solve: Expected A and B to have the same dtype, not {names[0]} and {names[1]}")
    _square("solve", A)
    is_vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape)[:-1])
    B = at.unsqueeze(B, -1) if is_vector else B
    solvable("linalg.solve", A, B, left)
    result = at._linalg_solve(A, B) if left else _right_solve(at, B, A)
    return at.squeeze(result, -1) if is_vector else result


@register("linalg_det", module="linalg", key="CPU CUDA", variants="function", out=True)
def linalg_det(A: Array) -> Array:
    """The determinant."""
    _square("det", A)
    return np.asarray(np.linalg.det(A))


derivative(
    "linalg_det",
    A=lambda at, grad, A, result: (
        at.unsqueeze(at.unsqueeze(grad * at.conj(result), -1), -1) * _adjoint(at, at.linalg_inv(A))
    ),
)
composite("det", variants="function method")(lambda at, self: at.linalg_det(self))


@register(
    "linalg_slogdet",
    module="linalg",
    key="CPU CUDA",
    variants="function",
    outputs="sign logabsdet",
    named="linalg_slogdet",
    out=True,
)
def linalg_slogdet(A: Array) -> Any:
    """Sign and logarithm of the size of the determinant."""
    _square("slogdet", A)
    sign, size = np.linalg.slogdet(A)
    return [np.asarray(sign), np.asarray(size)]


derivative(
    "linalg_slogdet",
    A=lambda at, grads, A: (
        None if grads[1] is None else at.unsqueeze(at.unsqueeze(grads[1], -1), -1) * _adjoint(at, at.linalg_inv(A))
    ),
)
composite("slogdet", variants="function method", named="slogdet", outputs="sign logabsdet", out=True)(
    lambda at, self: at.linalg_slogdet(self)
)
composite("logdet", variants="function method")(lambda at, self: at.log(at.linalg_det(self)))


# %%
#| into: aten/native/batch_linear_algebra.py
#| upstream: aten/src/ATen/native/BatchLinearAlgebra.cpp#at::native::linalg_cholesky_ex_out
@register(
    "linalg_cholesky",
    specimen="identity",
    module="linalg",
    key="CPU CUDA",
    variants="function",
    node="LinalgCholeskyEx",
    out=True,
)
def linalg_cholesky(A: Array, *, upper: bool = False) -> Array:
    """The triangle L with A = L Lᴴ."""
    _square("cholesky", A)
    try:
        lower = np.linalg.cholesky(np.conj(np.swapaxes(A, -1, -2)) if upper else A)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"linalg.cholesky: {_first_failing(A, _has_factor)[0]}The factorization could not be completed because the input is not "
            f"positive-definite (the leading minor of order {_first_failing(A, _has_factor)[1]} is not positive-definite)."
        ) from None
    return np.conj(np.swapaxes(lower, -1, -2)) if upper else lower


def _cholesky_backward(at: Any, grad: Any, upper: bool, result: Any) -> Any:
    L, G = (_adjoint(at, result), _adjoint(at, grad)) if upper else (result, grad)
    phi = at.tril(at.matmul(_adjoint(at, L), at.tril(G)))
    half = phi + _adjoint(at, at.tril(phi, -1))
    inverse = at.linalg_inv(L)
    return at.matmul(_adjoint(at, inverse), at.matmul(half, inverse)) * 0.5


derivative("linalg_cholesky", A=_cholesky_backward)


@composite("cholesky", variants="function method", out=True)
def cholesky(at: Any, self: Array, upper: bool = False) -> Any:
    """The old name of `linalg.cholesky`, which did not ask what shape nothing has."""
    return self if 0 in tuple(self.shape) else at.linalg_cholesky(self, upper=upper)


@register(
    "_linalg_qr",
    key="CPU CUDA",
    variants="",
    outputs="Q R",
    named="linalg_qr",
    node="LinalgQr",
)
def _linalg_qr(A: Array, mode: str) -> Any:
    _matrices("linalg.qr", A)
    decompose: Any = np.linalg.qr
    found = decompose(A, mode)
    return [np.empty(0, A.dtype), found] if mode == "r" else list(found)


def _qr_backward(at: Any, grads: Any, Q: Any, R: Any) -> Any:
    """RuntimeError if Q was not computed, or has columns that are any complement. Q of a wide A turns, to keep the first columns triangular, and R with it."""
    to_q, to_r = grads
    rows, columns = R.shape[-2:]
    if Q.ndim < 2:
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced')"
        )
    if rows > columns:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    if rows < columns:
        turned = None if to_q is None else at.matmul(_adjoint(at, Q), to_q)
        if to_r is not None:
            part = at.matmul(to_r, _adjoint(at, R))
            turned = -part if turned is None else turned - part
        skew = turned - _adjoint(at, turned)
        below = at.tril(skew, -1)
        if is_complex(skew):
            below = below + at.diag_embed(at.diagonal(skew, 0, -2, -1)) / 2
        core = _right_solve(at, below, _adjoint(at, at.narrow(R, -1, 0, rows)))
        core = at.constant_pad_nd(core, [0, columns - rows])
        return at.matmul(Q, core if to_r is None else core + to_r)
    m = None if to_r is None else at.matmul(R, _adjoint(at, to_r))
    if to_q is not None:
        part = at.matmul(_adjoint(at, to_q), Q)
        m = -part if m is None else m - part
    triangle = at.tril(m)
    symmetric = triangle + _adjoint(at, at.tril(m, -1))
    right = at.matmul(Q, symmetric)
    if to_q is not None:
        right = right + to_q
    return _adjoint(at, at.linalg_solve(R, _adjoint(at, right)))


derivative("_linalg_qr", A=lambda at, grads, Q, R: _qr_backward(at, grads, Q, R))


@composite("linalg_qr", module="linalg", variants="function", out=True)
def linalg_qr(at: Any, A: Array, mode: str = "reduced") -> Any:
    """A = Q R with orthonormal Q and upper triangular R."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}': there are 'reduced' (the default), 'complete' and 'r'"
        )
    return at._linalg_qr(A, mode)


@composite("qr", variants="function method", named="qr", outputs="Q R", out=True)
def qr(at: Any, self: Array, some: bool = True) -> Any:
    """The old form of `linalg.qr`."""
    return at.linalg_qr(self, "reduced" if some else "complete")


# %%
#| into: aten/native/batch_linear_algebra.py
#| upstream: aten/src/ATen/native/BatchLinearAlgebra.cpp#at::native::linalg_svd_out
@register(
    "_linalg_svd",
    key="CPU CUDA",
    variants="",
    outputs="U S Vh",
    named="linalg_svd",
    node="LinalgSvd",
)
def _linalg_svd(A: Array, full_matrices: bool) -> Any:
    _matrices("linalg.svd", A)
    if np.isfinite(A).all():
        return list(_converged("linalg.svd", np.linalg.svd, A, full_matrices=full_matrices))
    if np.isnan(A).any():
        raise LinAlgError(
            "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values."
        )
    lost = np.isinf(A).any(axis=(-1, -2))  # LAPACK's iteration may not end there
    found = np.linalg.svd(np.where(lost[..., None, None], A.dtype.type(0), A), full_matrices=full_matrices)
    for part in found:
        part[lost] = np.nan
    return list(found)


def _svd_backward(at: Any, grads: Any, U: Any, S: Any, Vh: Any) -> Any:
    to_u, to_s, to_v = grads
    count = S.shape[-1]
    U, to_u = (None if x is None else at.narrow(x, -1, 0, count) for x in (U, to_u))  # the rest: any complement
    Vh, to_v = (None if x is None else at.narrow(x, -2, 0, count) for x in (Vh, to_v))
    V, to_v = _adjoint(at, Vh), to_v
    row, column = at.unsqueeze(S, -2), at.unsqueeze(S, -1)
    square = row * row - column * column
    eye = at.diag_embed(at.ones_like(S))
    F = at.where(eye == 1, 0, 1 / at.where(eye == 1, at.ones_like(square), square))
    middle = at.diag_embed(to_s) if to_s is not None else at.diag_embed(at.zeros_like(S))
    if to_u is not None:
        part = at.matmul(_adjoint(at, U), to_u)
        middle = middle + (part - _adjoint(at, part)) * F * row
    if to_v is not None:
        part = at.matmul(Vh, _adjoint(at, to_v))
        middle = middle + column * ((part - _adjoint(at, part)) * F)
    result = at.matmul(U, at.matmul(middle, Vh))
    if to_u is not None and U.shape[-2] > count:
        outside = to_u / row - at.matmul(U, at.matmul(_adjoint(at, U), to_u / row))
        result = result + at.matmul(outside, Vh)
    if to_v is not None and V.shape[-2] > count:
        right = to_v / column
        result = result + at.matmul(U, right - at.matmul(at.matmul(right, V), Vh))
    return result


derivative("_linalg_svd", A=lambda at, grads, U, S, Vh: _svd_backward(at, grads, U, S, Vh))


def _no_driver(driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


@composite("linalg_svd", module="linalg", variants="function", out=True)
def linalg_svd(at: Any, A: Array, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """A = U diag(S) Vᴴ."""
    _no_driver(driver)
    return at._linalg_svd(A, full_matrices)


@register("_no_vectors", key="CPU CUDA", variants="", outputs="U V", differentiable_outputs=())
def _no_vectors(self: Array) -> Any:
    """Zeros, square, where singular vectors would be."""
    return [np.zeros((*self.shape[:-2], size, size), self.dtype) for size in self.shape[-2:]]


@composite("svd", variants="function method", named="svd", outputs="U S V", out=True)
def svd(at: Any, self: Array, some: bool = True, compute_uv: bool = True) -> Any:
    """The old form: V in place of Vᴴ."""
    if compute_uv:
        U, S, Vh = at._linalg_svd(self, not some)
        return U, S, _adjoint(at, Vh)
    U, V = at._no_vectors(self)
    return U, at.linalg_svdvals(self), V


@composite("linalg_svdvals", module="linalg", variants="function", out=True)
def linalg_svdvals(at: Any, A: Array, *, driver: str | None = None) -> Any:
    """The singular values."""
    _no_driver(driver)
    return at._linalg_svd(A, False)[1]


@register(
    "linalg_eigh",
    module="linalg",
    key="CPU CUDA",
    variants="function",
    outputs="eigenvalues eigenvectors",
    named="linalg_eigh",
    out=True,
)
def linalg_eigh(A: Array, UPLO: str = "L") -> Any:
    """Eigenvalues, ascending, and eigenvectors of a Hermitian matrix."""
    _square("eigh", A)
    if UPLO[:1].upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    decompose: Any = np.linalg.eigh
    return list(decompose(A, UPLO))


def _refuse_phases(at: Any, part: Any) -> None:
    """RuntimeError if a loss changes when complex eigenvectors are multiplied by numbers of length 1, up to which alone they are given."""
    if not is_complex(part) or without_values(part) or is_one_of_many(part):
        return
    own = at.imag(at.diagonal(part, 0, -2, -1))
    if not bool(at.all(at.abs(own) <= 1e-2)):
        raise RuntimeError(
            "linalg_eig_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. "
            "The specified loss function depends on this quantity, so it is ill-defined."
        )


def _eigh_backward(at: Any, grads: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    to_values, to_vectors = grads
    V = eigenvectors
    middle = at.diag_embed(to_values) if to_values is not None else at.diag_embed(at.zeros_like(eigenvalues))
    if to_vectors is not None:
        distance = at.unsqueeze(eigenvalues, -2) - at.unsqueeze(eigenvalues, -1)
        eye = at.diag_embed(at.ones_like(eigenvalues))
        part = at.matmul(_adjoint(at, V), to_vectors)
        _refuse_phases(at, part)
        part = (part - _adjoint(at, part)) / 2  # eigenvectors stay orthonormal: they can turn, and nothing else
        middle = middle + at.where(eye == 1, 0, part / at.where(eye == 1, at.ones_like(distance), distance))
    return at.matmul(V, at.matmul(at._to_copy_like(middle, V), _adjoint(at, V)))


derivative(
    "linalg_eigh", A=lambda at, grads, eigenvalues, eigenvectors: _eigh_backward(at, grads, eigenvalues, eigenvectors)
)


def _tolerances(at: Any, A: Any, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """The absolute and the relative tolerance. A relative one that nobody gave is rounding's, or none beside an absolute one."""
    if rtol is None:
        if to_string(A.dtype) not in ("Float", "Double", "ComplexFloat", "ComplexDouble"):
            raise RuntimeError("This function doesn't handle types other than float and double")
        kind = A.dtype if isinstance(A.dtype, np.dtype) else to_numpy_dtype(A.dtype)
        rounding = max(A.shape[-2:]) * float(np.finfo(kind).eps)
        given = 0 if atol is None else atol
        rtol = at.where(given > 0, 0.0, rounding) if hasattr(given, "dtype") else 0.0 if given > 0 else rounding
    for name, value in (("atol", atol), ("rtol", rtol)):
        if hasattr(value, "dtype") and to_string(value.dtype).startswith("Complex"):
            raise RuntimeError(f"linalg: {name} tensor of complex type is not supported.")
    return 0.0 if atol is None else atol, rtol


def _limit(at: Any, sizes: Any, atol: Any, rtol: Any) -> Any:
    """Below what a singular value counts as zero, per matrix."""
    relative = at.amax(sizes, -1) * rtol
    limit = at.maximum(relative, atol) if hasattr(atol, "dtype") else at.clamp_min(relative, float(atol))
    return at.unsqueeze(limit, -1)


@composite("linalg_matrix_rank", module="linalg", variants="function", out=True)
def linalg_matrix_rank(
    at: Any,
    self: Array,
    tol: Array | float | None = None,
    hermitian: bool = False,
    *,
    atol: Array | float | None = None,
    rtol: Array | float | None = None,
) -> Any:
    """How many singular values are larger than the tolerance: `tol`, or the larger of `atol` and `rtol` times the largest of them."""
    _matrices("torch.linalg.matrix_rank", self)
    atol, rtol = (tol, 0.0) if tol is not None else _tolerances(at, self, atol, rtol)
    if 0 in tuple(self.shape):
        return at.sum(at.narrow(self, -1, 0, 0) != 0, (-2, -1))
    sizes = at.abs(at.linalg_eigh(self)[0]) if hermitian else at.linalg_svdvals(self)
    return at.sum(sizes > _limit(at, sizes, atol, rtol), -1)


@register("_linalg_pinv", key="CPU CUDA", variants="")
def _linalg_pinv(A: Array, atol: float, rtol: float, hermitian: bool) -> Array:
    if not A.size:
        return np.zeros((*A.shape[:-2], A.shape[-1], A.shape[-2]), A.dtype)
    if hermitian:
        decompose: Any = np.linalg.eigh
        values, right = _converged("linalg.eigh", decompose, A)
        left, sizes = right, np.abs(values)
    else:
        left, values, adjoint = _linalg_svd(A, False)
        right, sizes = np.conj(adjoint.swapaxes(-1, -2)), values
    kept = sizes > np.maximum(atol, rtol * sizes.max(axis=-1, keepdims=True))
    inverse = np.where(kept, 1 / np.where(kept, values, 1), 0).astype(A.dtype)
    return (right * inverse[..., None, :]) @ np.conj(left.swapaxes(-1, -2))


def _pinv_backward(at: Any, grad: Any, A: Any, result: Any) -> Any:
    """For P of A: dP = -P dA P, and what dAᴴ moves in the null spaces that I - P A and I - A P project onto."""
    P, PH, GH = result, _adjoint(at, result), _adjoint(at, grad)
    inner, outer = at.matmul(at.matmul(PH, P), GH), at.matmul(at.matmul(GH, P), PH)
    return (
        inner
        - at.matmul(at.matmul(inner, P), A)
        + outer
        - at.matmul(A, at.matmul(P, outer))
        - at.matmul(PH, at.matmul(grad, PH))
    )


derivative("_linalg_pinv", A=_pinv_backward)


@composite("linalg_pinv", module="linalg", variants="function", out=True)
def linalg_pinv(
    at: Any,
    self: Array,
    rcond: Array | float | None = None,
    hermitian: bool = False,
    *,
    atol: Array | float | None = None,
    rtol: Array | float | None = None,
) -> Any:
    """The pseudo-inverse. Singular values up to `rcond` (`rtol`) times the largest, or up to `atol`, count as zero."""
    if self.ndim < 2:
        raise RuntimeError(
            "linalg.pinv: expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
        )
    if hermitian and 0 not in tuple(self.shape):
        _square("eigh", self)
    atol, rtol = _tolerances(at, self, atol, rcond if rcond is not None else rtol)
    if not hasattr(atol, "dtype") and not hasattr(rtol, "dtype"):
        return at._linalg_pinv(self, float(atol), float(rtol), hermitian)
    if hermitian:
        values, right = at.linalg_eigh(self)
        left, sizes = right, at.abs(values)
    else:
        left, values, adjoint = at.linalg_svd(self, False)
        right, sizes = _adjoint(at, adjoint), values
    kept = sizes > _limit(at, sizes, atol, rtol)
    inverse = at.where(kept, 1 / at.where(kept, values, at.ones_like(values)), at.zeros_like(values))
    return at.matmul(right * at._to_copy_like(at.unsqueeze(inverse, -2), right), _adjoint(at, left))


@register("linalg_lstsq_solution", key="CPU CUDA", variants="")
def linalg_lstsq_solution(A: Array, B: Array) -> Array:
    """The least-squares solution of A X = B."""
    return np.linalg.lstsq(A, B, rcond=None)[0]


@composite("linalg_matrix_power", module="linalg", variants="function", out=True)
def linalg_matrix_power(at: Any, A: Any, n: int) -> Any:
    """A multiplied by itself."""
    _square("matrix_power", A)
    if n < 0:
        return at.linalg_matrix_power(at.linalg_inv(A), -n)
    if n == 0:
        return at._eye_rows(A)
    half = at.linalg_matrix_power(A, n // 2) if n > 1 else A
    square = at.matmul(half, half) if n > 1 else A
    return at.matmul(square, A) if n > 1 and n % 2 else square


composite("matrix_power", variants="function method", out=True)(lambda at, self, n: at.linalg_matrix_power(self, n))


@register("_block_exponential", key="CPU CUDA", variants="", node="LinalgMatrixExp")
def _block_exponential(A: Array) -> Array:
    """eᴬ by scaling and squaring of a Taylor series of degree 18. Half precision is computed in single."""
    _square("matrix_exp", A)
    if A.itemsize == 2:
        return _block_exponential(A.astype(np.float32)).astype(A.dtype)
    size = np.abs(A).sum(axis=-1).max() if A.size else 0.0
    squarings = max(0, math.ceil(math.log2(size)) + 1) if size > 0.5 else 0
    scaled = A / A.dtype.type(2**squarings)
    term = result = np.broadcast_to(np.eye(A.shape[-1], dtype=A.dtype), A.shape).copy()
    for k in range(1, 19):
        term = term @ scaled / A.dtype.type(k)
        result = result + term
    for _ in range(squarings):
        result = result @ result
    return result


def _matrix_exp_backward(at: Any, grad: Any, A: Any) -> Any:
    """The derivative of eᴬ in direction G, read from e of the block matrix [[Aᴴ, G], [0, Aᴴ]]."""
    n, H = A.shape[-1], _adjoint(at, A)
    block = at.cat([at.cat([H, grad], -1), at.cat([at.zeros_like(H), H], -1)], -2)
    return at.slice(at.slice(at._block_exponential(block), -2, 0, n, 1), -1, n, 2 * n, 1)


derivative("_block_exponential", A=_matrix_exp_backward)
composite("matrix_exp", variants="function method")(lambda at, self: at._block_exponential(self))
composite("linalg_matrix_exp", module="linalg", variants="function")(lambda at, A: at._block_exponential(A))
