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
# # Factorizations
#
# Nobody computes an inverse to solve a system, one hears, and `torch.linalg.inv(A) @ b` is shorter. What is lost? Take matrices that are close to singular (Hilbert's), a right-hand side whose solution is known to be ones, and look at how well the answer fits its own equation, relative to what float64 can hold.

# %%
import matplotlib.pyplot as plt

import readtorch as torch
from readtorch.literate import live

live()

# %%
sizes, misses = range(2, 13), {"solve(A, b)": [], "inv(A) @ b": []}
for n in sizes:
    place = torch.arange(n, dtype=torch.float64)
    A = 1 / (place[:, None] + place + 1)
    b = A @ torch.ones(n, dtype=torch.float64)
    for name, x in (("solve(A, b)", torch.linalg.solve(A, b)), ("inv(A) @ b", torch.linalg.inv(A) @ b)):
        miss = (A @ x - b).norm() / (torch.linalg.matrix_norm(A, 2) * x.norm())
        misses[name].append(max(miss.item(), 1e-17))
figure, axes = plt.subplots(figsize=(7, 2.8))
for name, values in misses.items():
    axes.semilogy(sizes, values, marker=".", label=name)
axes.axhline(2**-53, color="0.6", linestyle=":", label="half a unit in the last place")
axes.set_xlabel("size of the Hilbert matrix")
axes.set_ylabel("|Ax − b| / |A| |x|")
axes.legend(frameon=False, fontsize=8)
figure.tight_layout()

# %% [markdown]
# Both answers are far from ones in the end, since the problem is as bad as that: its condition number at 12 is 10¹⁶. But the answer of `solve` *fits*, to the last bit, as an exact answer to a slightly different system would. That of the inverse fits nothing. A factorization keeps the error where it can be undone.


# %%
#| claim: solve leaves a residual at the rounding error whatever the condition; the product with an inverse does not
def _(torch):
    place = torch.arange(10, dtype=torch.float64)
    A = 1 / (place[:, None] + place + 1)
    b = A.sum(1)
    residual = lambda x: ((A @ x - b).norm() / (torch.linalg.matrix_norm(A, 2) * x.norm())).item()
    assert torch.linalg.cond(A) > 1e13
    assert residual(torch.linalg.solve(A, b)) < 1e-15 and residual(torch.linalg.inv(A) @ b) > 1e-7
    assert residual(torch.linalg.lstsq(A, b[:, None]).solution[:, 0]) < 1e-15


# %% [markdown]
# ## Elimination
#
# A linear system is solved by writing its matrix as a product of simpler ones. Upstream calls LAPACK for each of these; NumPy hands out some of LAPACK's factorizations (Cholesky, QR, SVD, eigenvalues) and keeps
# others to itself: `numpy.linalg.solve` computes an LU factorization and throws it away. So that one is written out here, over whole batches at once: the loop runs over the columns, as in the textbook, and every step is done for all matrices.
#
# | function | factors | what they are for |
# |---|---|---|
# | `lu`, `lu_factor` | A = P L U | solving the same system for many right-hand sides |
# | `cholesky_ex` | A = L Lᴴ | the same for positive definite A, and a test whether it is |
# | `eig` | A V = V Λ | any square A; the factors are complex |
# | `geqrf`, `householder_product` | A = Q R, with Q as a product of reflections | least squares |
#
# The textbook's first version subtracts multiples of the first row from the others, and so on. It fails on a matrix that is not singular at all:


# %%
def eliminated(A):
    """L and U in one matrix, without exchanging rows."""
    A = A.clone()
    for k in range(len(A) - 1):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= A[k + 1 :, k, None] * A[k, k + 1 :]
    return A


A = torch.tensor([[1e-9, 1.0], [1.0, 1.0]])
packed = eliminated(A)
L, U = packed.tril(-1) + torch.eye(2), packed.triu()
L @ U

# %% [markdown]
# One element has become 0, since 1 − 10⁹ is −10⁹ in float32 and the 1 is gone. A small *pivot* makes large multiples. So the row with the largest element of the column is brought up first, and the list of these swaps is a part of the result.


# %%
#| into: aten/native/batch_linear_algebra.py
#| upstream: aten/src/ATen/native/BatchLinearAlgebra.cpp#at::native::linalg_lu_factor_ex_out
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


# %% [markdown]
# The derivative of a factorization is found by differentiating its equation: d(P A) = dL U + L dU. Multiplied by the inverses from both sides, what lies below the diagonal can only come from dL, and the rest only from dU, so one matrix falls apart into the two.


# %%
#| into: aten/native/batch_linear_algebra.py
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


# %%
A = torch.tensor([[1e-9, 1.0], [1.0, 1.0]])
P, L, U = torch.linalg.lu(A)
L, U, P @ L @ U

# %%
#| trace: torch.aten.native.batch_linear_algebra layers=calls,lines values=summary title="three columns: find the largest, swap, subtract"
torch.linalg.lu_factor(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]]))

# %% [markdown]
# What `lu_factor` returns for the swaps is LAPACK's list, and three habits of Fortran are in it. It counts from 1. It is int32. And it is no permutation: entry *k* says with which row the row *k* was exchanged *at that moment*, so a list may name one row several times. `lu_unpack` plays the swaps through.


# %%
#| claim: pivots are a list of swaps, counted from 1, in int32; a row may stand in it several times
def _(torch):
    A = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    LU, pivots = torch.linalg.lu_factor(A)
    assert pivots.tolist() == [3, 3, 3] and pivots.dtype is torch.int32
    P, L, U = torch.lu_unpack(LU, pivots)
    assert torch.equal(P @ L @ U, A) and not torch.equal(P, torch.eye(3))


# %%
#| into: aten/native/batch_linear_algebra.py
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


# %%
#| into: aten/native/batch_linear_algebra.py
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


# %% [markdown]
# `lu_solve` is a triangular solve twice in LAPACK, at a cost of *n*² for a right-hand side, which is what the factors were kept for. NumPy has no triangular solve; ours multiplies the factors again and gains nothing. Only the triangle that was named is looked at, there and here, and the other may hold anything:


# %%
#| claim: triangular solves and Cholesky look at one triangle and do not notice what stands in the other; lu_solve agrees with solve
def _(torch):
    strange = torch.tensor([[2.0, 99.0], [1.0, 2.0]])
    lower, b = strange.tril(), torch.ones(2, 1)
    assert torch.equal(torch.linalg.solve_triangular(strange, b, upper=False), torch.linalg.solve(lower, b))
    assert torch.allclose(torch.linalg.cholesky(strange), torch.linalg.cholesky(torch.tensor([[2.0, 1.0], [1.0, 2.0]])))
    assert torch.allclose(torch.linalg.eigvalsh(strange), torch.tensor([1.0, 3.0]))
    assert torch.allclose(torch.linalg.eigvalsh(strange, UPLO="U"), torch.tensor([-97.0, 101.0]))
    assert torch.allclose(torch.linalg.lu_solve(*torch.linalg.lu_factor(strange), b), torch.linalg.solve(strange, b))


# %% [markdown]
# LAPACK was written in Fortran, which keeps the columns of a matrix together. What upstream takes from it stays so: an inverse is no
# contiguous tensor, and `torch.linalg.inv(a).view(-1)` is refused. NumPy copies LAPACK's results into rows; here they are turned back.


# %%
#| into: aten/native/batch_linear_algebra.py
def in_columns(result: Array, operand: Array) -> Array:
    """The matrices of the result with the elements of a column next to each other."""
    if result.ndim < 2 or is_in_one_piece(result.swapaxes(-2, -1)):
        return result
    return result.swapaxes(-2, -1).copy(order="C").swapaxes(-2, -1)


results_lie(in_columns, "linalg_inv", "_linalg_solve", "linalg_cholesky")
results_lie(in_one_piece, "_linalg_lu")


# %%
#| claim: inverses, solutions and Cholesky factors lie in memory column by column
def _(torch):
    a = torch.tensor([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    for matrix in (torch.linalg.inv(a), torch.linalg.solve(a, torch.ones(3, 2)), torch.linalg.cholesky(a)):
        assert matrix.stride() == (1, 3)
    try:
        torch.linalg.inv(a).view(-1)
    except RuntimeError as error:
        assert "view size is not compatible" in str(error)
    else:
        raise AssertionError("viewed")


# %% [markdown]
# ## Those that tell, and those that raise
#
# The functions with `_ex` return a number per matrix in place of an error: on a GPU raising means waiting, and in a batch one bad matrix should not lose the others.


# %%
#| into: aten/native/batch_linear_algebra.py
#| upstream: aten/src/ATen/native/BatchLinearAlgebra.cpp#at::native::linalg_cholesky_ex_out
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


# %% [markdown]
# ## Eigenvalues of any matrix
#
# A real matrix may have complex eigenvalues, so the result is complex always. Each eigenvector is determined up to a complex factor; upstream's derivative, and this one, is only for losses that do not depend on that factor.
#
# In the formula below stands a quotient by the *differences* of eigenvalues. Where two are equal, the eigenvectors are any two of a plane, and a small change of the matrix turns them by a large angle: the derivative is not there, and training that drives two eigenvalues together ends in NaN. The eigenvalues alone have no such quotient. A loss that can be written with them, or with the projector V Vᴴ, should be.


# %%
#| into: aten/native/batch_linear_algebra.py
#| upstream: torch/csrc/autograd/FunctionsManual.cpp#torch::autograd::generated::details::linalg_eig_backward
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


# %%
torch.manual_seed(0)
values = torch.linalg.eigvals(torch.randn(300, 300) / 300**0.5)
figure, axes = plt.subplots(figsize=(3.4, 3.4))
axes.scatter(values.real.tolist(), values.imag.tolist(), s=4)
axes.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.5"))
axes.set_aspect("equal")
axes.set_title("eigenvalues of a random matrix", fontsize=10)
figure.tight_layout()

# %% [markdown]
# The circle is why recurrent weights are drawn with the variance 1/*n*: then the largest factor of a step is 1.


# %%
#| claim: where eigenvalues are equal, those have gradients and the eigenvectors have NaN
def _(torch):
    A = torch.eye(2, dtype=torch.float64, requires_grad=True)
    assert torch.equal(torch.autograd.grad(torch.linalg.eigvalsh(A).sum(), A)[0], torch.eye(2, dtype=torch.float64))
    vectors = torch.linalg.eigh(A).eigenvectors
    assert torch.isnan(torch.autograd.grad(vectors[0, 0] + vectors[1, 0], A)[0]).any()
    B = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    lengths = torch.linalg.eig(B).eigenvectors.abs().square().sum()
    assert torch.autograd.grad(lengths, B)[0].abs().max() < 1e-12  # unit vectors, whatever B is


# %% [markdown]
# ## Reflections, and least squares
#
# More equations than unknowns: A X cannot be B, and the X is wanted that comes closest. With A = Q R it is a triangular system, R X = Qᴴ B, and no squares of condition numbers as with the normal equations AᴴA X = AᴴB. Householder's way to Q R turns each column onto an axis by a reflection; LAPACK keeps the reflections, not Q, in the triangle that R leaves free.


# %%
#| into: aten/native/batch_linear_algebra.py
#| upstream: aten/src/ATen/native/BatchLinearAlgebra.cpp#at::native::linalg_householder_product
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


# %%
steps = torch.linspace(0, 1, 30, dtype=torch.float64)
powers = torch.stack([steps**k for k in range(4)], 1)
noisy = torch.sin(6 * steps) + 0.1 * torch.cos(40 * steps)
fit = torch.linalg.lstsq(powers, noisy[:, None]).solution
figure, axes = plt.subplots(figsize=(6, 2.4))
axes.plot(steps.tolist(), noisy.tolist(), ".", color="0.6")
axes.plot(steps.tolist(), (powers @ fit)[:, 0].tolist())
figure.tight_layout()

# %% [markdown]
# `residuals` is empty more often than people expect. There are four drivers in LAPACK; the default, `gelsy`, does not compute them. The others do, if there are more equations than unknowns and the rank is full.


# %%
#| claim: lstsq returns residuals for a driver other than gelsy, more rows than columns, and full rank; of underdetermined systems it gives the shortest solution
def _(torch):
    lstsq, tall, wide, b = (
        torch.linalg.lstsq,
        torch.eye(3)[:, :2],
        torch.ones(1, 3),
        torch.tensor([[1.0], [2.0], [3.0]]),
    )
    assert lstsq(tall, b).residuals.shape == (0,) and lstsq(tall, b, driver="gelsd").residuals.tolist() == [9.0]
    assert lstsq(torch.ones(3, 2), b, driver="gelsd").residuals.shape == (0,)
    assert torch.allclose(lstsq(wide, torch.ones(1, 1)).solution, torch.full((3, 1), 1 / 3))
