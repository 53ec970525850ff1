# Tangled from chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

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
from readtorch.aten.native.unary_ops import is_complex
from readtorch.c10.core.dispatch_key import values_for, without_values
from readtorch.c10.core.scalar_type import int32, not_implemented, to_numpy_dtype, to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


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


def _eliminate(A: Array) -> tuple[Array, Array, Array]:
    """L and U in one matrix, the row that was swapped to each place (counted from 1, as LAPACK does), and the order of the rows."""
    _matrices("torch.lu_factor", A)
    packed = np.array(A)
    rows, columns = A.shape[-2:]
    steps = min(rows, columns)
    flat = packed.reshape(math.prod(A.shape[:-2]), rows, columns)
    every = np.arange(len(flat))
    pivots = np.empty((len(flat), steps), np.int32)
    order = np.broadcast_to(np.arange(rows), (len(flat), rows)).copy()
    for k in range(steps):
        largest = np.abs(flat[:, k:, k]).argmax(axis=1) + k
        pivots[:, k] = largest + 1
        for target in (flat, order):
            target[every, k], target[every, largest] = target[every, largest], target[every, k].copy()
        pivot = flat[:, k, k][:, None]
        flat[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
        flat[:, k + 1 :, k + 1 :] -= flat[:, k + 1 :, k, None] * flat[:, k, None, k + 1 :]
    batch = A.shape[:-2]
    return flat.reshape(A.shape), pivots.reshape(*batch, steps), order.reshape(*batch, rows)


@register("_linalg_lu", key="CPU CUDA", variants="", outputs="L U P", node="LinalgLu", differentiable_outputs=(0, 1))
def _linalg_lu(A: Array) -> Any:
    packed, _, order = _eliminate(A)
    steps = min(A.shape[-2:])
    P = np.swapaxes(np.eye(A.shape[-2], dtype=A.dtype)[order], -2, -1)
    L = np.tril(packed[..., :, :steps], -1) + np.eye(A.shape[-2], steps, dtype=A.dtype)
    return [L, np.triu(packed[..., :steps, :]), P]


def _lu_backward(at: Any, grads: Any, P: Any, L: Any, U: Any) -> Any:
    """Differentiate P A = L U: what lies below the diagonal belongs to L, the rest to U."""
    to_l, to_u = grads
    to_l = at.zeros_like(L) if to_l is None else to_l
    to_u = at.zeros_like(U) if to_u is None else to_u
    steps = L.shape[-1]
    tall, wide = L.shape[-2] - steps, U.shape[-1] - steps
    top, left = at.narrow(L, -2, 0, steps), at.narrow(U, -1, 0, steps)
    grad_top, grad_left = at.narrow(to_l, -2, 0, steps), at.narrow(to_u, -1, 0, steps)
    below = right = None
    if tall:
        below = _right_solve(at, at.narrow(to_l, -2, steps, tall), _adjoint(at, left))
        grad_left = grad_left - at.matmul(_adjoint(at, at.narrow(L, -2, steps, tall)), below)
    if wide:
        right = at._linalg_solve(_adjoint(at, top), at.narrow(to_u, -1, steps, wide))
        grad_top = grad_top - at.matmul(right, _adjoint(at, at.narrow(U, -1, steps, wide)))
    inner = at.tril(at.matmul(_adjoint(at, top), grad_top), -1) + at.triu(at.matmul(grad_left, _adjoint(at, left)))
    result = at._linalg_solve(_adjoint(at, top), _right_solve(at, inner, _adjoint(at, left)))
    if below is not None:
        result = at.cat([result, below], -2)
    if right is not None:
        result = at.cat([result, right], -1)
    return at.matmul(P, result)


def _right_solve(at: Any, B: Any, A: Any) -> Any:
    """X with X A = B."""
    return at.transpose(at._linalg_solve(at.transpose(A, -2, -1), at.transpose(B, -2, -1)), -2, -1)


derivative("_linalg_lu", A=lambda at, grads, L, U, P: _lu_backward(at, grads, P, L, U))


@composite("linalg_lu", module="linalg", variants="function", outputs="P L U", named="linalg_lu", out=True)
def linalg_lu(at: Any, A: Array, *, pivot: bool = True) -> Any:
    """A = P L U, with a permutation P, ones on the diagonal of L. RuntimeError for `pivot=False`, which only CUDA has."""
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    L, U, P = at._linalg_lu(A)
    return P, L, U


@register("_eye_rows", key="CPU CUDA", variants="")
def _eye_rows(self: Array) -> Array:
    """For each matrix the unit matrix with as many rows."""
    rows = self.shape[-2]
    return np.broadcast_to(np.eye(rows, dtype=self.dtype), (*self.shape[:-2], rows, rows)).copy()


@register("_pivots", key="CPU CUDA", variants="")
def _pivots(A: Array) -> Array:
    return _eliminate(A)[1]


@composite(
    "linalg_lu_factor", module="linalg", variants="function", outputs="LU pivots", named="linalg_lu_factor", out=True
)
def linalg_lu_factor(at: Any, A: Array, *, pivot: bool = True) -> Any:
    """L and U in one matrix, and the swaps of rows."""
    _, L, U = at.linalg_lu(A, pivot=pivot)
    zeros: Any = () if without_values(A) or is_one_of_many(A) else at.nonzero(at.diagonal(U, 0, -2, -1) == 0)
    if len(zeros):
        place = int(zeros[0][-1]) + 1
        raise RuntimeError(
            f"torch.linalg.lu_factor: U[{place},{place}] is zero and using it on lu_solve would result in a division by zero. "
            "linalg.lu() does not mind."
        )
    lower = at.tril(L, -1)
    rows, columns = A.shape[-2:]
    if rows < columns:
        lower = at.constant_pad_nd(lower, [0, columns - rows])
    upper = at.constant_pad_nd(U, [0, 0, 0, rows - columns]) if rows > columns else U
    return lower + upper, at._pivots(A)


@composite("lu", variants="method")
def lu(at: Any, self: Array, pivot: bool = True, get_infos: bool = False) -> Any:
    """What `linalg.lu_factor` gives, by its old name, and with `get_infos` a zero for each matrix."""
    warnings.warn(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex.", stacklevel=3
    )
    factors, pivots = at.linalg_lu_factor(self, pivot=pivot)
    if not get_infos:
        return factors, pivots
    return factors, pivots, at.zeros_like(at.select(at.select(self, -1, 0), -1, 0), dtype=int32)


@register("_order_of", key="CPU CUDA", variants="")
def _order_of(pivots: Array, rows: int) -> Array:
    """The permutation that a list of swaps amounts to, as rows of a matrix."""
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    order = np.broadcast_to(np.arange(rows), (len(flat), rows)).copy()
    every = np.arange(len(flat))
    for k in range(flat.shape[1]):
        other = flat[:, k] - 1
        order[every, k], order[every, other] = order[every, other], order[every, k].copy()
    return order.reshape(*pivots.shape[:-1], rows)


@composite("lu_unpack", variants="function", outputs="P L U", named="lu_unpack", out=True)
def lu_unpack(at: Any, LU_data: Array, LU_pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """P, L and U out of what `lu_factor` gives; of what is not unpacked, tensors of no elements."""
    if LU_data.ndim < 2:
        raise RuntimeError(
            f"torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: {list(LU_data.shape)} instead"
        )
    if unpack_pivots and to_string(LU_pivots.dtype) != "Int":
        raise RuntimeError(
            f"torch.lu_unpack: LU_pivots is expected to be a tensor of torch.int32 dtype, as lu_factor gives it, not of {to_string(LU_pivots.dtype)}"
        )
    rows, columns = LU_data.shape[-2:]
    steps = min(rows, columns)
    eye = at._eye_rows(LU_data)
    nothing = at.reshape(at.narrow(at.reshape(eye, (-1,)), 0, 0, 0), (0,))
    P = _permutations(at, eye, LU_pivots, rows) if unpack_pivots else nothing
    if not unpack_data:
        return P, nothing, nothing
    L = at.tril(at.narrow(LU_data, -1, 0, steps), -1) + at.narrow(eye, -1, 0, steps)
    return P, L, at.triu(at.narrow(LU_data, -2, 0, steps))


def _permutations(at: Any, eye: Any, pivots: Any, rows: int) -> Any:
    if not without_values(pivots) and not is_one_of_many(pivots) and not bool(at.all((pivots >= 1) & (pivots <= rows))):
        raise RuntimeError(
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive. Did you properly pass the result of lu_factor?"
        )
    pivots = at.expand(pivots, (*tuple(eye.shape)[:-2], pivots.shape[-1]))
    order = at._order_of(pivots, rows)
    index = at.expand(at.unsqueeze(order, -1), (*order.shape, rows))
    return at.transpose(at.gather(eye, -2, index), -2, -1)


@composite("linalg_lu_solve", module="linalg", variants="function", out=True)
def linalg_lu_solve(at: Any, LU: Array, pivots: Array, B: Array, *, left: bool = True, adjoint: bool = False) -> Any:
    """X with A X = B (or X A = B), A given by its factors."""
    name = "linalg.lu_solve"
    _matrices(f"torch.{name}", LU)
    if LU.shape[-1] != LU.shape[-2]:
        raise RuntimeError(
            f"torch.{name}: A must be batches of square matrices, but they are {LU.shape[-2]} by {LU.shape[-1]} matrices"
        )
    if LU.dtype != B.dtype:
        kinds = to_string(LU.dtype), to_string(B.dtype)
        raise RuntimeError("{}: Expected LU and B to have the same dtype, but found {} and {}".format(name, *kinds))
    if to_string(pivots.dtype) != "Int":
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    solvable(name, LU, B, left)
    if tuple(pivots.shape) != tuple(LU.shape)[:-1]:
        raise RuntimeError(
            f"{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape {list(pivots.shape)} instead"
        )
    P, L, U = at.lu_unpack(LU, pivots)
    A = at.matmul(P, at.matmul(L, U))
    return at.linalg_solve(_adjoint(at, A) if adjoint else A, B, left=left)


@composite("linalg_solve_triangular", module="linalg", variants="function", out=True)
def linalg_solve_triangular(
    at: Any, self: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """X with A X = B; of A only the triangle is looked at. B counts as of A's dtype."""
    _square("solve_triangular", self)
    solvable("linalg.solve_triangular", self, B, left)
    name = to_string(self.dtype)
    if name not in ("Float", "Double", "ComplexFloat", "ComplexDouble"):
        raise not_implemented("triangular_solve_cpu", self.dtype)
    if B.dtype != self.dtype:
        B = at._to_copy_like(B, self)
    A = at.triu(self, int(unitriangular)) if upper else at.tril(self, -int(unitriangular))
    if unitriangular:
        A = A + at._eye_rows(self)
    return at._linalg_solve(A, B) if left else _right_solve(at, B, A)


def in_columns(result: Array, operand: Array) -> Array:
    """The matrices of the result with the elements of a column next to each other."""
    if result.ndim < 2 or is_in_one_piece(result.swapaxes(-2, -1)):
        return result
    return result.swapaxes(-2, -1).copy(order="C").swapaxes(-2, -1)


results_lie(in_columns, "linalg_inv", "_linalg_solve", "linalg_cholesky")
results_lie(in_one_piece, "_linalg_lu")


def _failures(A: Array, attempt: Any) -> Array:
    """1 for each matrix at which `attempt` raises LinAlgError."""
    found = np.zeros(A.shape[:-2], np.int32)
    for place in np.ndindex(A.shape[:-2]):
        try:
            attempt(A[place])
        except np.linalg.LinAlgError:
            found[place] = 1
    return found


@register("_cholesky_info", key="CPU CUDA", variants="")
def _cholesky_info(self: Array) -> Array:
    """0, or the order of the smallest leading block that is not positive-definite, per matrix."""
    found = _failures(self, np.linalg.cholesky)
    for place in np.ndindex(found.shape):
        if not found[place]:
            continue
        found[place] = next(
            order
            for order in range(1, self.shape[-1] + 1)
            if _failures(self[place][None, :order, :order], np.linalg.cholesky)[0]
        )
    return found


@register("_cholesky_until", key="CPU CUDA", variants="")
def _cholesky_until(self: Array) -> Array:
    """Column by column, the factor up to the first column that has none, and what lies there then."""
    result = np.tril(self)
    for place in np.ndindex(self.shape[:-2]):
        L = result[place]
        for j in range(len(L)):
            L[j:, j] -= L[j:, :j] @ np.conj(L[j, :j])
            if not L[j, j].real > 0:
                L[j + 1 :, j] = self[place][j + 1 :, j]
                break
            L[j:, j] /= np.sqrt(L[j, j])
    return result


@register("_inverse_info", key="CPU CUDA", variants="")
def _inverse_info(self: Array) -> Array:
    return _failures(self, np.linalg.inv)


def _unless(at: Any, info: Any, A: Any, check_errors: bool, function: Any) -> Any:
    """`function(A)`; where `info` tells of a failure, of the unit matrix in place of A."""
    if check_errors and not without_values(info) and not is_one_of_many(info) and at.any(info != 0):
        return function(A)
    failed = at.unsqueeze(at.unsqueeze(info != 0, -1), -1)
    return function(at.where(failed, at._eye_rows(A), A))


@composite(
    "linalg_cholesky_ex", module="linalg", variants="function", outputs="L info", named="linalg_cholesky_ex", out=True
)
def linalg_cholesky_ex(at: Any, self: Array, *, upper: bool = False, check_errors: bool = False) -> Any:
    """The Cholesky factor, and 0 for each matrix that has one."""
    _square("cholesky", self)
    triangle = _adjoint(at, self) if upper else self
    info = at._cholesky_info(triangle)
    factor = _unless(at, info, triangle, check_errors, at.linalg_cholesky)
    if not without_values(info) and not is_one_of_many(info) and bool(at.any(info != 0)):
        factor = at.where(at.unsqueeze(at.unsqueeze(info, -1), -1) != 0, at._cholesky_until(triangle), factor)
    return _adjoint(at, factor) if upper else factor, info


@composite(
    "linalg_inv_ex", module="linalg", variants="function", outputs="inverse info", named="linalg_inv_ex", out=True
)
def linalg_inv_ex(at: Any, A: Array, *, check_errors: bool = False) -> Any:
    """The inverse, and 0 for each matrix that has one."""
    _square("inv", A)
    info = at._inverse_info(A)
    return _unless(at, info, A, check_errors, at.linalg_inv), info


@composite(
    "linalg_solve_ex", module="linalg", variants="function", outputs="result info", named="linalg_solve_ex", out=True
)
def linalg_solve_ex(at: Any, A: Array, B: Array, *, left: bool = True, check_errors: bool = False) -> Any:
    """The solution, and 0 for each matrix that is regular."""
    _square("solve", A)
    if A.dtype != B.dtype:
        names = [to_string(x.dtype) for x in (A, B)]
        raise RuntimeError(f"linalg.solve: Expected A and B to have the same dtype, not {names[0]} and {names[1]}")
    info = at._inverse_info(A)
    return _unless(at, info, A, check_errors, lambda A: at.linalg_solve(A, B, left=left)), info


@register("_cholesky_solve", specimen="identity", key="CPU CUDA", variants="", node="CholeskySolve")
def _cholesky_solve(self: Array, input2: Array, upper: bool) -> Array:
    L = np.conj(np.triu(input2).swapaxes(-1, -2)) if upper else np.tril(input2)
    return np.linalg.solve(np.conj(L.swapaxes(-1, -2)), np.linalg.solve(L, self))


def _to_factor(at: Any, common: Any, factor: Any, upper: bool) -> Any:
    """What reaches a Cholesky factor, out of what reaches half of the matrix. Its other half is not looked at, and gets a gradient."""
    both = common + _adjoint(at, common)
    return -at.matmul(factor, both) if upper else -at.matmul(both, factor)


def _cholesky_solve_backward(at: Any, grad: Any, input2: Any, upper: bool, result: Any, mask: tuple[bool, ...]) -> Any:
    to_b = at._cholesky_solve(grad, input2, upper)
    return to_b, _to_factor(at, at.matmul(to_b, _adjoint(at, result)), input2, upper) if mask[1] else None


derivative(
    "_cholesky_solve",
    {
        "self, input2": lambda at, grad, input2, upper, result, mask: _cholesky_solve_backward(
            at, grad, input2, upper, result, mask
        )
    },
)


@register("_cholesky_inverse", specimen="identity", key="CPU CUDA", variants="", node="CholeskyInverse")
def _cholesky_inverse(self: Array, upper: bool) -> Array:
    L = np.conj(np.triu(self).swapaxes(-1, -2)) if upper else np.tril(self)
    inverse = np.linalg.inv(L)
    return np.conj(inverse.swapaxes(-1, -2)) @ inverse


results_lie(in_columns, "_cholesky_solve", "_cholesky_inverse")
derivative(
    "_cholesky_inverse",
    self=lambda at, grad, self, upper, result: _to_factor(at, at.matmul(result, at.matmul(grad, result)), self, upper),
)


@composite("cholesky_solve", variants="function method", out=True)
def cholesky_solve(at: Any, self: Array, input2: Array, upper: bool = False) -> Any:
    """X with A X = `self`, A given by its Cholesky factor."""
    if self.dtype != input2.dtype:
        kinds = to_string(self.dtype), to_string(input2.dtype)
        raise RuntimeError("cholesky_solve: b and A must have the same dtype, and are of {} and {}".format(*kinds))
    name = to_string(self.dtype)
    if name not in ("Float", "Double", "ComplexFloat", "ComplexDouble"):
        raise not_implemented("cholesky_solve_cpu", self.dtype)
    _square("cholesky_solve", input2)
    solvable("cholesky_solve", input2, self)
    return at._cholesky_solve(self, input2, upper)


@composite("cholesky_inverse", variants="function method", out=True)
def cholesky_inverse(at: Any, self: Array, upper: bool = False) -> Any:
    """The inverse of the matrix whose Cholesky factor this is."""
    _square("cholesky_inverse", self)
    return at._cholesky_inverse(self, upper)


@composite(
    "triangular_solve",
    variants="function method",
    outputs="solution cloned_coefficient",
    named="triangular_solve",
    out=True,
)
def triangular_solve(
    at: Any, self: Array, A: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """The old form of `solve_triangular`."""
    if self.dtype != A.dtype:
        kinds = to_string(self.dtype), to_string(A.dtype)
        raise RuntimeError(
            "Expected b and A to have the same dtype, but found b of type {} and A of type {}".format(*kinds)
        )
    turned = at.transpose(A, -2, -1) if transpose else A
    solution = at.linalg_solve_triangular(turned, self, upper=upper != transpose, unitriangular=unitriangular)
    return solution, at.clone(at.expand(A, (*tuple(solution.shape)[:-2], *tuple(A.shape)[-2:])))


@register("_linalg_eig", key="CPU CUDA", variants="", outputs="eigenvalues eigenvectors", node="LinalgEig")
def _linalg_eig(self: Array) -> Any:
    _square("eig", self)
    if not np.isfinite(self).all():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    kind = np.result_type(self.dtype, np.complex64)
    values, vectors = np.linalg.eig(self)
    return [values.astype(kind), vectors.astype(kind)]


def _eig_backward(at: Any, grads: Any, self: Any, eigenvalues: Any, eigenvectors: Any) -> Any:
    to_values, to_vectors = grads
    V, VH = eigenvectors, _adjoint(at, eigenvectors)
    to_values = at.zeros_like(eigenvalues) if to_values is None else to_values
    middle = at.diag_embed(to_values)
    if to_vectors is not None:
        part = at.matmul(VH, to_vectors)
        _refuse_phases(at, part)
        own = at.diagonal(part, 0, -2, -1)
        part = part - at.matmul(at.matmul(VH, V), at.diag_embed(at._to_copy_like(at.real(own), own)))
        distance = at.conj(at.unsqueeze(eigenvalues, -2) - at.unsqueeze(eigenvalues, -1))
        eye = at.diag_embed(at.ones_like(eigenvalues)) == 1
        middle = middle + at.where(eye, 0, part / at.where(eye, at.ones_like(distance), distance))
    result = at._linalg_solve(VH, at.matmul(middle, VH))
    return result if is_complex(self) else at.real(result)


derivative(
    "_linalg_eig",
    self=lambda at, grads, self, eigenvalues, eigenvectors: _eig_backward(at, grads, self, eigenvalues, eigenvectors),
)


@composite(
    "linalg_eig", module="linalg", variants="function", outputs="eigenvalues eigenvectors", named="linalg_eig", out=True
)
def linalg_eig(at: Any, self: Array) -> Any:
    """Eigenvalues and eigenvectors of a square matrix, complex."""
    return at._linalg_eig(self)


@composite("linalg_eigvals", module="linalg", variants="function", out=True)
def linalg_eigvals(at: Any, self: Array) -> Any:
    """The eigenvalues of a square matrix, complex."""
    return at._linalg_eig(self)[0]


@register("geqrf", key="CPU CUDA", variants="function method", outputs="a tau", named="geqrf", out=True)
def geqrf(self: Array) -> Any:
    """QR as LAPACK leaves it: R above the diagonal, the reflections below, and their factors."""
    _matrices("torch.geqrf", self)
    raw: Any = np.linalg.qr(self, mode="raw")
    return [np.ascontiguousarray(np.swapaxes(raw[0], -2, -1)), raw[1]]


def _check_reflections(name: str, input: Any, tau: Any) -> None:
    """RuntimeError unless `tau` has a factor for each reflection of each matrix in `input`."""
    maybe_wrap_dim(-1, tau.ndim, wrap_scalar=False)
    if tau.ndim != input.ndim - 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and input.ndim is equal to {input.ndim}"
        )
    if tuple(tau.shape)[:-1] != tuple(input.shape)[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {list(tau.shape)[:-1]}"
        )
    if tau.dtype != input.dtype:
        kinds = to_string(tau.dtype), to_string(input.dtype)
        raise RuntimeError("{}: tau dtype {} does not match input dtype {}".format(name, *kinds))


@composite("linalg_householder_product", module="linalg", variants="function", out=True)
def linalg_householder_product(at: Any, input: Array, tau: Array) -> Any:
    """The first columns of the product of reflections 1 - τ v vᴴ, the v below the diagonal of `input`."""
    if input.ndim < 2:
        raise RuntimeError("torch.linalg.householder_product: input must have at least 2 dimensions.")
    rows, columns = input.shape[-2:]
    if rows < columns:
        raise RuntimeError(
            "torch.linalg.householder_product: input must have at least as many rows (shape[-2]) as columns (shape[-1])"
        )
    _check_reflections("torch.linalg.householder_product", input, tau)
    count = tau.shape[maybe_wrap_dim(-1, tau.ndim, wrap_scalar=False)]
    if count > columns:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    eye = at._eye_rows(input)
    result = at.narrow(eye, -1, 0, columns)
    lower = at.tril(at.narrow(input, -1, 0, count), -1) + at.narrow(eye, -1, 0, count)
    for number in reversed(range(count)):
        v = at.narrow(lower, -1, number, 1)
        factor = at.unsqueeze(at.narrow(tau, -1, number, 1), -1)
        result = result - factor * at.matmul(v, at.matmul(_adjoint(at, v), result))
    return result


composite("orgqr", variants="function method", out=True)(
    lambda at, self, input2: at.linalg_householder_product(self, input2)
)


@composite("ormqr", variants="function method", out=True)
def ormqr(at: Any, self: Array, input2: Array, input3: Array, left: bool = True, transpose: bool = False) -> Any:
    """The product of `input3` with the whole Q of a QR factorization, or its adjoint."""
    if self.ndim < 2:
        raise RuntimeError("torch.ormqr: input must have at least 2 dimensions.")
    if input3.ndim < 2:
        raise RuntimeError("torch.ormqr: other must have at least 2 dimensions.")
    if input3.ndim != self.ndim:
        raise RuntimeError(
            f"torch.ormqr: Expected other to have the same number of dimensions as input, but got other.ndim equal to {input3.ndim} and input.ndim is equal to {self.ndim}"
        )
    rows, columns = self.shape[-2:]
    side = -2 if left else -1
    _check_reflections("torch.ormqr", self, input2)
    if input3.dtype != self.dtype:
        kinds = to_string(self.dtype), to_string(input3.dtype)
        raise RuntimeError("torch.ormqr: Expected input and other to have the same dtype, not {} and {}".format(*kinds))
    if input3.shape[side] < input2.shape[-1]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    if input3.shape[side] != rows:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if input2.shape[-1] != min(input3.shape[side], columns):
        raise RuntimeError(f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    wide = at.constant_pad_nd(self, [0, rows - columns]) if rows > columns else self
    Q = at.linalg_householder_product(at.narrow(wide, -1, 0, rows), input2)
    Q = _adjoint(at, Q) if transpose else Q
    return at.matmul(Q, input3) if left else at.matmul(input3, Q)


@register("_lstsq_rest", key="CPU CUDA", variants="")
def _lstsq_rest(A: Array, rcond: float | None) -> Any:
    """The rank and the singular values."""
    values = np.linalg.svd(A, compute_uv=False)
    limit = max(A.shape[-2:]) * np.finfo(A.dtype).eps if rcond is None or not 0 < rcond < 1 else rcond
    rank = (values > limit * values.max(axis=-1, keepdims=True, initial=0)).sum(axis=-1)
    return [np.asarray(rank, np.int64), values]


@composite(
    "linalg_lstsq",
    module="linalg",
    variants="function",
    outputs="solution residuals rank singular_values",
    named="linalg_lstsq",
    out=True,
)
def linalg_lstsq(at: Any, self: Array, b: Array, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The X that makes A X closest to B; of several the smallest."""
    if self.ndim < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    if self.ndim < b.ndim or self.ndim - b.ndim > 1:
        raise RuntimeError(
            "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
        )
    is_vector = b.ndim == 1 or (b.ndim == self.ndim - 1 and tuple(b.shape) == tuple(self.shape)[:-1])
    B = at.unsqueeze(b, -1) if is_vector else b
    if B.ndim < 2 or B.shape[-2] != self.shape[-2]:
        raise RuntimeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    if self.dtype != b.dtype:
        raise RuntimeError("torch.linalg.lstsq: Expected input and other to have the same dtype")
    if to_string(self.dtype) not in ("Float", "Double", "ComplexFloat", "ComplexDouble"):
        if rcond is None:
            raise RuntimeError("This function doesn't handle types other than float and double")
        raise not_implemented("linalg_lstsq_cpu", self.dtype)
    driver = driver or "gelsy"
    values_for("linalg_lstsq", self)
    many = is_one_of_many(self) or is_one_of_many(b)
    if not many and not (bool(at.all(at.isfinite(self))) and bool(at.all(at.isfinite(b)))):
        raise RuntimeError("torch.linalg.lstsq: the matrices must not contain infs or NaNs")
    rows, columns = self.shape[-2:]
    rank, values = at._lstsq_rest(self, rcond)
    known = not many and not without_values(rank)
    if known and rows >= columns and bool(at.all(rank == columns)):
        Q, R = at.linalg_qr(self)
        solution = at._linalg_solve(R, at.matmul(_adjoint(at, Q), B))
    else:
        solution = at.matmul(at.linalg_pinv(self, rcond if rcond is not None and 0 < rcond < 1 else None), B)
    empty = at.reshape(at.narrow(at.reshape(values, (-1,)), 0, 0, 0), (0,))
    residuals = empty
    if rows > columns and driver != "gelsy" and (many or driver == "gels" or bool(at.all(rank == columns))):
        difference = at.matmul(self, solution) - B
        residuals = at.sum(at.abs(difference) ** 2, -2)
    return (
        at.squeeze(solution, -1) if is_vector else solution,
        residuals,
        at.reshape(at.narrow(at.reshape(rank, (-1,)), 0, 0, 0), (0,)) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else empty,
    )
