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
# # Lists of tensors, views in place, old names
#
# What is left of the tensor's surface is of four kinds, and each answers a question that comes up while debugging something else. What does an optimizer call (`_foreach_`)? How can a program be rid of writes (`select_scatter`)? What became of my view when its base was transposed in place (`t_`)? And what is a `torch.FloatTensor`, if `type(x)` is never one?

# %%
import matplotlib.pyplot as plt

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## `_foreach_`: one call for many tensors
#
# A model has a hundred parameters, most of them small. Adam does some ten operations on each, and on a GPU a launch costs as much as a million additions, so a step is a thousand launches that do little. The `_foreach_` operators take *lists*: upstream's CUDA kernels pack the addresses of many tensors into the arguments of one launch. What kernels of that kind look like is [in appendix 3](../a3_kernels/5_optimizers.py).
# On a CPU there is nothing to launch, and upstream's *slow path* is a loop. So is everything here, written once for all names.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import foreach_ops_kernels as foreach_ops_kernels

# %%
#| into: aten/native/foreach_ops_kernels.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite


# %%
#| into: aten/native/foreach_ops_kernels.py
#| upstream: aten/src/ATen/native/ForeachOpsKernels.cpp#at::native::check_foreach_api_restrictions
def _rows(name: str, tensors: Sequence[Any], others: tuple) -> list[tuple]:
    """The arguments of each single call: lists are taken apart, everything else is repeated."""
    if not len(tensors):
        raise RuntimeError("Tensor list must have at least one tensor.")
    columns = []
    for other in others:
        if isinstance(other, list | tuple):
            if len(other) != len(tensors):
                raise RuntimeError(
                    f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(other)}"
                )
            columns.append(other)
        else:
            columns.append([other] * len(tensors))
    return list(zip(tensors, *columns, strict=True))


def _register_foreach(name: str) -> None:
    scaled = name.startswith("addc")  # their last operand is `value`, which the operator takes by name

    def call(operator: Any, row: Sequence[Any], options: dict[str, Any]) -> Any:
        return operator(*row[:3], value=row[3]) if scaled and len(row) == 4 else operator(*row, **options)

    def each(at: Any, self: Sequence[Any], *others: Any, **options: Any) -> Any:
        operator = getattr(at, name)
        return tuple(call(operator, row, options) for row in _rows(name, self, others))

    def each_in_place(at: Any, self: Sequence[Any], *others: Any, **options: Any) -> Any:
        operator = getattr(at, f"{name}_")
        for row in _rows(name, self, others):
            call(operator, row, options)
        return list(self)

    composite(f"_foreach_{name}")(each)
    composite(f"_foreach_{name}_")(each_in_place)


for _name in (
    *(
        "abs",
        "acos",
        "asin",
        "atan",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "expm1",
        "floor",
        "frac",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
    ),
    *("neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
    *("add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max", "addcmul", "addcdiv", "lerp"),
):
    _register_foreach(_name)


def _pairwise(name: str, bound: str) -> None:
    """`maximum` of lists and lists, and the operator that bounds by a number for a number or several."""

    def chosen(at: Any, one: Any, other: Any) -> Any:
        return getattr(at, name if hasattr(other, "dtype") else bound)(one, other)

    def each(at: Any, self: Sequence[Any], other: Any) -> Any:
        return tuple(chosen(at, *row) for row in _rows(name, self, (other,)))

    def each_in_place(at: Any, self: Sequence[Any], other: Any) -> list[Any]:
        for first, second in _rows(name, self, (other,)):
            at.copy_(first, chosen(at, first, second))
        return list(self)

    composite(f"_foreach_{name}")(each)
    composite(f"_foreach_{name}_")(each_in_place)


_pairwise("maximum", "clamp_min")
_pairwise("minimum", "clamp_max")


@composite("_foreach_norm")
def _foreach_norm(at: Any, self: Sequence[Any], ord: float = 2, dtype: Any = None) -> Any:
    """The norm of each tensor."""
    return tuple(at.linalg_vector_norm(tensor, ord, dtype=dtype) for tensor in self)


@composite("_foreach_zero_")
def _foreach_zero_(at: Any, self: Sequence[Any]) -> list[Any]:
    """Set all to zero."""
    for tensor in self:
        at.zero_(tensor)
    return list(self)


@composite("_foreach_copy_")
def _foreach_copy_(at: Any, self: Sequence[Any], src: Sequence[Any], non_blocking: bool = False) -> list[Any]:
    """Copy each source into its target."""
    for target, source in _rows("copy", self, (list(src),)):
        at.copy_(target, source)
    return list(self)


# %%
weights, gradients = [torch.ones(2), torch.ones(3)], [torch.full((2,), 0.5), torch.full((3,), 2.0)]
torch._foreach_add_(weights, gradients, alpha=-0.1)
weights, torch._foreach_norm(gradients)

# %%
#| trace: torch.aten.native layers=calls,ops values=summary title="one call, and the loop in it"
torch._foreach_mul(weights, [2.0, 3.0])


# %%
#| claim: a list of numbers is one for each tensor, a single one for all; lists must have one length and at least one tensor; results are a tuple, those in place the tensors themselves
def _(torch):
    tensors = [torch.ones(2), torch.ones(3)]
    scaled = torch._foreach_mul(tensors, [2.0, 3.0])
    assert isinstance(scaled, tuple) and [t.tolist() for t in scaled] == [[2, 2], [3, 3, 3]]
    changed = torch._foreach_add_(tensors, 1.0)
    assert all(one is other for one, other in zip(changed, tensors, strict=True)) and tensors[1].tolist() == [2, 2, 2]
    assert [t.tolist() for t in torch._foreach_maximum_(tensors, [3.0, 1.0])] == [[3, 3], [2, 2, 2]]
    for wrong, words in ((([], 1.0), "at least one tensor"), ((tensors, [torch.ones(2)]), "same number of tensors")):
        try:
            torch._foreach_add(*wrong)
        except RuntimeError as error:
            assert words in str(error)
        else:
            raise AssertionError(words)


# %% [markdown]
# ## Written into a copy
# A write through a view is hard on everybody who wants to reason about a program: a compiler, a checkpoint, `vmap`. Each write has a twin without one. `select_scatter(x, src, d, i)` is `y = x.clone(); y.select(d, i).copy_(src)`, as one step that can be differentiated: zeros where `src` covers, and the same part of the gradient for `src`. *Functionalization*, the pass of `torch.compile` that
# removes all writes, replaces `x[1] = v` by such a call and lets everybody use the result who used `x`.


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::select_scatter_symint
def _scattered(at: Any, self: Any, src: Any, part: Any) -> Any:
    """A copy of `self` with `src` where `part` looks. Written with a mask, so that both gradients come from `where`."""
    zeros = at.zeros_like(self)
    if is_one_of_many(src):  # then so is the result, and what is written to on the way to it
        zeros = zeros + at._to_copy(at.zeros_like(at.sum(src)), self.dtype)
    if tuple(src.shape) != (shape := tuple(part(at, zeros).shape)):
        raise RuntimeError(
            f"expected src to have a size equal to the part of self, {list(shape)}, but got {list(src.shape)}"
        )
    hole = at._write_part(zeros, part, at.ones_like(part(at, zeros)))
    return at.where(hole == 1, at._write_part(zeros, part, src), self)


@composite("_write_part", variants="")
def _write_part(at: Any, base: Any, part: Any, src: Any) -> Any:
    result = at.clone(base)
    if hasattr(result, "_array"):
        at.copy_(part(at, result), src)
    else:
        part(at, result)[...] = src
    return result


@composite("select_scatter", variants="function method")
def select_scatter(at: Any, self: Array, src: Array, dim: int, index: int) -> Any:
    """A copy with `src` in the place of `select(dim, index)`."""
    return _scattered(at, self, src, lambda at, x: at.select(x, dim, index))


@composite("slice_scatter", variants="function method", out=True)
def slice_scatter(
    at: Any, self: Array, src: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A copy with `src` in the place of a slice."""
    return _scattered(at, self, src, lambda at, x: at.slice(x, dim, start, end, step))


@composite("diagonal_scatter", variants="function method")
def diagonal_scatter(at: Any, self: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy with `src` on a diagonal."""
    return _scattered(at, self, src, lambda at, x: at.diagonal(x, offset, dim1, dim2))


# %%
x, row = torch.zeros(2, 3, requires_grad=True), torch.ones(3, requires_grad=True)
torch.select_scatter(x, row, dim=0, index=1)


# %%
#| claim: select_scatter has the values and the gradients of a copy that is written to, and leaves its argument alone
#| fact: aten/src/ATen/native/TensorShape.cpp#at::native::select_scatter_symint
def _(torch):
    def gradients(write):
        x, row = torch.zeros(2, 3, requires_grad=True), torch.ones(3, requires_grad=True)
        result = write(x, row)
        return [result, *torch.autograd.grad((result * torch.arange(6.0).view(2, 3)).sum(), (x, row))]

    def by_writing(x, row):
        copy = x.clone()
        copy[1] = row
        return copy

    pairs = zip(gradients(lambda x, row: torch.select_scatter(x, row, 0, 1)), gradients(by_writing), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


# %%
#| into: aten/native/tensor_shape.py
@composite("column_stack", out=True)
def column_stack(at: Any, tensors: Sequence[Array]) -> Any:
    """Joined along the second dimension, vectors as columns."""
    if not len(tensors):
        raise RuntimeError("column_stack expects a non-empty TensorList")
    return at.cat([at.reshape(t, (-1, 1)) if t.ndim <= 1 else t for t in tensors], 1)


composite("row_stack", out=True)(lambda at, tensors: at.vstack(tensors))


def _split_along(name: str, axis: int, least: int) -> None:
    def split(at: Any, self: Array, indices: Any = None, *args: int, sections: Any = None) -> Any:
        indices = _one_way(name, (indices, *args) if args else indices, sections)
        if self.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {self.ndim} dimensions!"
            )
        dim = 0 if axis == 1 and self.ndim == 1 else axis
        if isinstance(indices, int) and (indices <= 0 or self.shape[dim] % indices):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, whose size {self.shape[dim]} is not divisible by the split_size {indices}"
            )
        return at.tensor_split(self, indices, dim)

    composite(name, variants="function method")(split)


_split_along("hsplit", 1, 1)
_split_along("vsplit", 0, 2)
_split_along("dsplit", 2, 3)
composite("unsafe_chunk", variants="function method")(lambda at, self, chunks, dim=0: at.chunk(self, chunks, dim))
composite("unsafe_split", variants="function method")(
    lambda at, self, split_size, dim=0: at.split(self, split_size, dim)
)


@composite("narrow_copy", variants="function method", out=True)
def narrow_copy(at: Any, self: Array, dim: int, start: int, length: int) -> Any:
    """A copy of `narrow`."""
    return at.clone(at.narrow(self, dim, start, length))


@composite("diagflat", variants="function method")
def diagflat(at: Any, self: Array, offset: int = 0) -> Any:
    """All elements on a diagonal of zeros."""
    return at.diag(at.reshape(self, (-1,)), offset)


# %%
(
    tuple(part.tolist() for part in torch.hsplit(torch.arange(8).view(2, 4), [1, 3])),
    torch.column_stack([torch.arange(2), torch.ones(2, 2)]),
)

# %% [markdown]
# ## Further functions of numbers
#
# `ldexp` adds to an exponent, in C and upstream. Here it is a product with 2ʸ, which has left float32 when the product would not yet have.


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::ldexp
@composite("ldexp", variants="function method", inplace=True, out=True)
def ldexp(at: Any, self: Array, other: Array) -> Any:
    """X · 2ʸ."""
    kinds = [scalar_type.to_string(x.dtype) for x in (self, other)]
    scale = at.pow(2.0, other)
    if kinds[0] in ("Half", "BFloat16", "Float", "Double"):
        if kinds[1] == "Bool":
            raise not_implemented("ldexp_cpu_exp", other.dtype)
        if kinds[1] in ("Long", "Int", "Short", "Char", "Byte"):
            scale = at._to_copy(scale, self.dtype)
    return at.mul(self, scale)


# %%
#| claim: ldexp adds to the exponent: a small number takes a step that is itself no float32
#| differs: ours multiplies by a power of two, which is infinite by then
def _(torch):
    raised = torch.ldexp(torch.tensor([1e-30]), torch.tensor([200]))
    assert torch.allclose(raised, torch.tensor([1e-30 * 2.0**200]))


# %%
#| into: aten/native/binary_ops.py
@composite("float_power_", variants="method")
def float_power_(at: Any, self: Array, exponent: Array | Number) -> Any:
    """The power, in place: of double precision already."""
    complex_ = is_complex_pair(self, exponent) or isinstance(exponent, complex)
    wanted = scalar_type.complex128 if complex_ else scalar_type.float64
    if self.dtype is not wanted:
        kinds = [scalar_type.to_string(kind) for kind in (self.dtype, wanted)]
        raise RuntimeError(
            "the base given to float_power_ has dtype {} but the operation's result requires dtype {}".format(*kinds)
        )
    return at.pow_(self, at._to_copy(exponent, wanted) if hasattr(exponent, "dtype") else exponent)


@composite("float_power", variants="function method", out=True)
def float_power(at: Any, self: Array | Number, exponent: Array | Number) -> Any:
    """A power computed in double precision."""
    wide = [
        at._to_copy(v, scalar_type.complex128 if is_complex_pair(v, v) else scalar_type.float64)
        if hasattr(v, "dtype")
        else v
        for v in (self, exponent)
    ]
    return at.pow(*wide)


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/LinearAlgebra.cpp#at::native::kron
@composite("kron", variants="function method", out=True)
def kron(at: Any, self: Array, other: Array) -> Any:
    """The Kronecker product."""
    rank = max(self.ndim, other.ndim)
    a = (1,) * (rank - self.ndim) + tuple(self.shape)
    b = (1,) * (rank - other.ndim) + tuple(other.shape)
    left = at.reshape(self, tuple(value for size in a for value in (size, 1)))
    right = at.reshape(other, tuple(value for size in b for value in (1, size)))
    return at._unsafe_view(left * right, tuple(x * y for x, y in zip(a, b, strict=True)))


# %%
torch.kron(torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))

# %% [markdown]
# Covariances expect variables in *rows* and observations in columns, NumPy's way and the reverse of a batch. `cov(batch)` of 64 examples with 10 features is silently of shape (64, 64).


# %%
#| into: aten/native/linear_algebra.py
@composite("cov", variants="function method")
def cov(
    at: Any, self: Array, *, correction: int = 1, fweights: Array | None = None, aweights: Array | None = None
) -> Any:
    """The covariance matrix of variables in rows."""
    if self.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
        )
    if scalar_type.to_string(self.dtype) == "Bool":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = at.reshape(self, (1, -1)) if self.ndim < 2 else self
    x = at._true_div(x, 1)  # integers become floats
    observations = x.shape[1]
    weights = _observation_weights(at, observations, fweights, aweights)
    if weights is None:
        centred = x - at.mean(x, 1, True)
        result = at.matmul(centred, at.conj(at.t(centred))) / max(observations - correction, 0)
    else:
        total = at.sum(weights)
        if observations and not without_values(total) and not total.item():
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        centred = x - at.unsqueeze(at.sum(x * weights, 1) / total, 1)
        unbiased = total if aweights is None else total - correction * at.sum(weights * aweights) / total
        norm = total - correction if aweights is None else unbiased
        result = at.matmul(centred, at.t(at.conj(centred) * weights)) / at.clamp_min(norm, 0)
    return at.squeeze(result)


def _observation_weights(at: Any, observations: int, fweights: Any, aweights: Any) -> Any:
    """How often each observation counts (`fweights`, integers) times how much (`aweights`); None if all count once."""
    for name, weights, kinds in (("fweights", fweights, "iu"), ("aweights", aweights, "f")):
        if weights is None:
            continue
        if weights.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
            )
        if scalar_type.to_numpy_dtype(weights.dtype).kind not in kinds + ("V" if kinds == "f" else ""):
            wanted = "integral" if kinds == "iu" else "floating point"
            raise RuntimeError(
                f"cov(): expected {name} to have {wanted} dtype but got {name} with {weights.dtype} dtype"
            )
        if weights.numel() != observations:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{weights.numel()} != {observations}"
            )
        if observations and not without_values(weights) and at.amin(weights).item() < 0:
            raise RuntimeError(f"cov(): {name} cannot be negative")
    if fweights is None or aweights is None:
        return fweights if aweights is None else aweights
    return fweights * aweights


@composite("corrcoef", variants="function method")
def corrcoef(at: Any, self: Array) -> Any:
    """The matrix of correlation coefficients of variables in rows."""
    c = at.cov(self)
    if c.ndim == 0:
        return c / c
    spread = at.sqrt(at.real(at.diagonal(c, 0, 0, 1)))
    r = c / at.unsqueeze(spread, 1) / at.unsqueeze(spread, 0)
    if scalar_type.to_string(r.dtype).startswith("Complex"):
        return at.complex(at.clamp(at.real(r), -1, 1), at.clamp(at.imag(r), -1, 1))
    return at.clamp(r, -1, 1)


# %%
torch.manual_seed(0)
points = torch.randn(300, 2) @ torch.tensor([[1.5, 0.8], [0.0, 0.5]])
spread, axes_of = torch.linalg.eigh(torch.cov(points.T))
figure, axes = plt.subplots(figsize=(4, 2.6))
axes.scatter(points[:, 0].tolist(), points[:, 1].tolist(), s=4, color="0.6")
for length, direction in zip(spread.sqrt(), axes_of.T, strict=True):
    tip = 2 * length * direction
    axes.plot([-tip[0].item(), tip[0].item()], [-tip[1].item(), tip[1].item()], linewidth=2)
axes.set_aspect("equal")
axes.set_title("two standard deviations along each axis of cov", fontsize=9)
figure.tight_layout()


# %%
#| claim: cov takes rows for variables and divides by one less than their length; a constant variable has no correlation with anything, itself included
def _(torch):
    x = torch.tensor([[1.0, 2.0, 4.0], [1.0, 1.0, 1.0]])
    assert torch.cov(x).shape == (2, 2) and torch.allclose(torch.cov(x)[0, 0], x[0].var())
    assert torch.allclose(torch.cov(x[0], correction=0), x[0].var(correction=0))
    r = torch.corrcoef(x)
    assert r[0, 0] == 1 and torch.isnan(r[1, 1]) and torch.isnan(r[0, 1])


# %%
#| into: aten/native/linear_algebra.py
def _is_bool(tensor: Any) -> bool:
    return bool(scalar_type.to_string(tensor.dtype) == "Bool")


def _check_samples(name: str, y: Any, x: Any, dx: Any) -> float:
    """The distance of neighbours where no places are given. RuntimeError for bools."""
    if x is not None:
        if dx is not None:
            raise TypeError(f"{name}() received an invalid combination of arguments: either x or dx")
        if _is_bool(y) or _is_bool(x):
            raise RuntimeError(f"{name}: received a bool input for `x` or `y`, but bool is not supported")
    elif _is_bool(y):
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    elif isinstance(dx, bool | complex):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
    return 1.0 if dx is None else float(dx)


def _between(at: Any, y: Any, place: int) -> Any:
    """The sum of each sample and the next."""
    size = y.shape[place]
    return at.slice(y, place, 1, size, 1) + at.slice(y, place, 0, size - 1, 1)


@composite("trapezoid", variants="function")
def trapezoid(at: Any, y: Array, x: Array = UNSAID, *, dx: Number = None, dim: int = -1) -> Any:
    """The integral along `dim` by the trapezoidal rule. `x`: a place for each sample, in one dimension or in those of `y`."""
    place = maybe_wrap_dim(dim, y.ndim, wrap_scalar=False)
    if not y.shape[place]:  # nothing to integrate: zeros, whatever the rest of the call says
        return at.zeros_like(at.sum(y, place, dtype=y.dtype))
    distance = _check_samples("trapezoid", y, x, dx)
    if x is not None:
        return at.sum(_between(at, y, place) * _steps(at, "trapezoid", x, y, place), place) / 2
    ends = at.select(y, place, 0) + at.select(y, place, -1)
    return (at.sum(y, place) - ends * 0.5) * distance


def _steps(at: Any, name: str, x: Any, y: Any, place: int) -> Any:
    """The distances between sample points along `place`, to be multiplied with pairs of `y`."""
    if x.ndim == 1:
        if x.shape[0] != (y.shape[place] if y.ndim else 1):
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        return at.reshape(at.diff(x), (-1,) + (1,) * (y.ndim - place - 1))
    return at.diff(at.reshape(x, (1,) * (y.ndim - x.ndim) + tuple(x.shape)), 1, place)


@composite("cumulative_trapezoid", variants="function")
def cumulative_trapezoid(at: Any, y: Array, x: Array = UNSAID, *, dx: Number = None, dim: int = -1) -> Any:
    """The integral along `dim` from the first place to each of the others."""
    place = maybe_wrap_dim(dim, y.ndim)
    distance = _check_samples("cumulative_trapezoid", y, x, dx)
    if not y.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    pairs = _between(at, y, place)
    if x is None:
        return at.cumsum(pairs, place) * (distance / 2)
    return at.cumsum(pairs * _steps(at, "cumulative_trapezoid", x, y, place), place) / 2


@composite("trapz", variants="function")
def trapz(at: Any, y: Array, x: Array = UNSAID, *, dx: Number = None, dim: int = -1) -> Any:
    """`trapezoid` under NumPy's name."""
    places = () if x is None else (x,)
    return at.trapezoid(y, *places, dim=dim) if dx is None else at.trapezoid(y, *places, dx=dx, dim=dim)


@composite("pinverse", variants="function method")
def pinverse(at: Any, self: Array, rcond: float = 1e-15) -> Any:
    """The pseudo-inverse, by its old name."""
    return at.linalg_pinv(self, rcond)


@register("polar", key="CPU CUDA", variants="function", out=True)
def polar(abs: Array, angle: Array) -> Array:
    """The complex numbers of these lengths and angles."""
    kinds = [scalar_type.to_string(part.dtype) for part in (abs, angle)]
    if not set(kinds) <= {"Half", "Float", "Double"}:
        raise RuntimeError("polar: both parts must be Half, Float or Double, and are {} and {}".format(*kinds))
    if kinds[0] != kinds[1]:
        raise RuntimeError("polar: expected scalar type {} but found {} as the angle".format(*kinds))
    result = np.empty(shapes("polar", (abs, angle)), np.complex128 if abs.dtype == np.float64 else np.complex64)
    result.real, result.imag = abs * np.cos(angle), abs * np.sin(angle)
    return result


derivative(
    "polar",
    abs=lambda at, grad, result: at.real(at.conj(grad) * at.sgn(result)),
    angle=lambda at, grad, result: at.real(at.conj(grad) * (result * 1j)),
)


# %% [markdown]
# ## Turning a tensor into a view of itself
# `x.t_()` changes the object, not the memory: shape, strides and history are those of `x.t()` from now on. The views that were made before know nothing of it; they look into the memory, which is as it was. All the same it counts as a write: the version goes up, so that a node that has saved `x` notices, and a leaf that requires a gradient refuses, although nothing that it holds would change.


# %%
#| into: csrc/autograd/python_variable_methods.py
def _view_in_place(name: str) -> Any:
    """`NAME_`: this tensor becomes the view. The base of a tensor that was one already knows nothing of it."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name not in ("t", "transpose", "swapaxes", "swapdims"):
            _has_memory(self, "as_strided_")
        wants = state.grad_mode and variable.requires_grad(self)
        if wants:
            variable.check_inplace(self)
        result = getattr(dispatcher.autograd, name)(self, *args, **kwargs)
        edge = variable.gradient_edge(result) if wants else None
        version_counter(self).bump()
        self._array = result._array
        if edge is not None:
            node: Any = split_edge(edge)[0]
            node.become_inplace()
            variable.set_history(self, edge)
            variable.wake_views(self)
        else:
            variable.tell_leaf(self)
        return self

    method.__name__ = f"{name}_"
    return method


for _name in ("t", "transpose", "squeeze", "unsqueeze", "swapaxes", "swapdims", "as_strided"):
    METHODS[f"{_name}_"] = _view_in_place(_name)


def resize_as_(self: Any, template: Any, *, memory_format: Any = None) -> Any:
    """Take another tensor's shape, in place."""
    if self.is_sparse and template.is_sparse:
        return resize_as_sparse_(self, template)
    return resize_(self, template._array.shape)


def fill_diagonal_(self: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Set the diagonal to a number."""
    require("fill_diagonal_", "Number", fill_value=fill_value)
    require("fill_diagonal_", "bool", wrap=wrap)
    shape = self._array.shape
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    strides, start, length = self.stride(), self.storage_offset(), min(shape)
    at, step = dispatcher.autograd, (sum(strides),)
    at.as_strided(self, (length,), step, start).fill_(fill_value)
    height, width = shape[:2]
    if wrap and len(shape) == 2 and height > width + 1:  # below an empty row the diagonal begins again
        again = -(-height * width // (width + 1)) - length
        at.as_strided(self, (again,), step, start + strides[0] * (width + 1)).fill_(fill_value)
    return self


def apply_(self: Any, callable: Any) -> Any:
    """Replace every element by a function of it. A Python loop."""
    if self._array.__class__ is not np.ndarray:
        raise TypeError("apply_ is only implemented on CPU tensors")
    flat = self._array.reshape(-1)
    self._array[...] = np.array([callable(value) for value in flat.tolist()], dtype=self._array.dtype).reshape(
        self._array.shape
    )
    version_counter(self).bump()
    return self


def _other_elements(name: str, self: Any, other: Any) -> list[Any]:
    """The elements of another tensor of this dtype, stretched to this shape."""
    if not isinstance(other, TensorImpl):
        raise TypeError(f"{name}(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    for tensor in (self, other):
        if tensor.requires_grad:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
    if other._array.dtype != self._array.dtype:
        raise TypeError(f"{name}: expected {self.type()} for 'other' (got {other.type()})")
    if self._array.__class__ is not np.ndarray or other._array.__class__ is not np.ndarray:
        raise TypeError(f"{name} is only implemented on CPU tensors")
    return dispatcher.autograd.expand(other, self._array.shape)._array.reshape(-1).tolist()


def map_(self: Any, other: Any, callable: Any) -> Any:
    """Replace every element by a function of it and its neighbour in another tensor. A Python loop."""
    others = iter(_other_elements("map_", self, other))
    return apply_(self, lambda value: callable(value, next(others)))


def map2_(self: Any, x: Any, y: Any, callable: Any) -> Any:
    """`map_` with two other tensors."""
    pairs = zip(_other_elements("map2_", self, x), _other_elements("map2_", self, y), strict=True)
    return apply_(self, lambda value: callable(value, *next(pairs)))


METHODS.update(
    {
        "map_": map_,
        "map2_": map2_,
        "resize_as_": resize_as_,
        "fill_diagonal_": fill_diagonal_,
        "apply_": apply_,
        "is_conj": lambda self: False,
        "is_neg": lambda self: False,
        "is_distributed": lambda self: False,
        "record_stream": lambda self, stream: None,
        "dim_order": lambda self: tuple(sorted(range(self.ndim), key=lambda axis: -self.stride(axis))),
        "arctan2": lambda self, other: dispatcher.autograd.atan2(self, other),
        "arctan2_": lambda self, other: dispatcher.autograd.atan2_(self, other),
        "new": lambda self, *args: finish(
            (legacy_sparse if self.is_sparse else legacy_tensor)(
                type(self), args, scalar_type.from_numpy_dtype(self._array.dtype)
            ),
            device_of(self._array),
        ),
    }
)

# %%
x = torch.arange(6.0).reshape(2, 3)
first = x[0]
x.t_()
x.shape, x.stride(), first, x._version


# %%
#| claim: t_ keeps the memory and the views into it, counts as a write, gives a new node, and is refused by a leaf
def _(torch):
    x = torch.arange(6.0).reshape(2, 3)
    first, address = x[0], x.data_ptr()
    assert x.t_() is x and x.shape == (3, 2) and x.stride() == (1, 3)
    assert x.data_ptr() == address and x._version == first._version == 1 and first.tolist() == [0, 1, 2]
    leaf = torch.zeros(2, 3, requires_grad=True)
    inner = leaf * 2
    assert inner.t_().grad_fn.name() == "TBackward1"
    try:
        leaf.t_()
    except RuntimeError as error:
        assert "leaf Variable that requires grad" in str(error)
    else:
        raise AssertionError("turned")


# %% [markdown]
# ## `torch.FloatTensor`
# Before dtypes there was a class per element type, and a tensor *was* a `torch.FloatTensor`. Since 0.4 all tensors are of one class. The old names are still called, so they are objects that construct, and that answer `isinstance` by a question about dtype and device. They have no instances.
#
# Their constructor has the trap that `torch.tensor` was made to end. A number is a *size*: `torch.FloatTensor(3)` are three numbers that nobody has set, `torch.FloatTensor([3])` is the number 3.

# %%
#| into: csrc/tensor/__init__.py
"""The tensor types of the early days (twin of `torch/csrc/tensor/`)."""

# %%
#| into: csrc/tensor/python_tensor.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.c10.core import scalar_type, tensor_impl
from readtorch.c10.core.dispatch_key import device_of
from readtorch.c10.core.layout import LAYOUT_OF
from readtorch.c10.core.scalar_type import dtype
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.utils.tensor_new import legacy_sparse, legacy_tensor


# %%
#| into: csrc/tensor/python_tensor.py
#| upstream: torch/csrc/tensor/python_tensor.cpp#torch::tensors::initialize_python_bindings
class tensortype(type):
    """The metaclass of the legacy types: `isinstance(x, torch.FloatTensor)` asks for dtype and device."""

    _legacy_dtype: dtype
    _device_type: str
    _sparse = False

    def __instancecheck__(cls, other: Any) -> bool:
        if not isinstance(other, TensorImpl):
            return False
        return (
            scalar_type.FROM_NUMPY[other._array.dtype] is cls._legacy_dtype
            and device_of(other._array).type == cls._device_type
            and (other._array.__class__ in LAYOUT_OF) == cls._sparse
        )

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        array = (legacy_sparse if cls._sparse else legacy_tensor)(cls, args, cls._legacy_dtype)
        return tensor_impl.wrap(array)

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"

    @property
    def dtype(cls) -> dtype:
        """The element type."""
        return cls._legacy_dtype

    @property
    def is_cuda(cls) -> bool:
        return cls._device_type == "cuda"


LEGACY = {
    kind._legacy: tensortype(kind._legacy, (), {"__module__": "torch", "_legacy_dtype": kind, "_device_type": "cpu"})
    for kind in scalar_type.ALL
    if (not kind.is_complex and not kind.name.startswith("uint")) or kind.name == "uint8"
}
"""`FloatTensor` and the others, by name."""


# %%
#| into: csrc/module.py
#| upstream: torch/csrc/tensor/python_tensor.h#torch::tensors::initialize_python_bindings
@step(steps=_extension)
def initialize_python_bindings(torch: Any) -> None:
    """The legacy types, which ask for dtype and device of a `Tensor` and so need the class."""
    from readtorch.csrc.tensor import python_tensor

    torch.update(python_tensor.LEGACY)


# %%
(
    torch.FloatTensor([3]),
    torch.FloatTensor(3).shape,
    isinstance(torch.ones(1), torch.FloatTensor),
    torch.FloatTensor.__mro__,
)


# %%
#| claim: a legacy type constructs tensors of the one class; of a number it makes a size, of a list its values
def _(torch):
    made = torch.FloatTensor([3])
    assert type(made) is torch.Tensor and made.tolist() == [3.0] and torch.FloatTensor(3).shape == (3,)
    assert torch.LongTensor(2, 3).dtype is torch.int64 and torch.LongTensor(2, 3).shape == (2, 3)
    assert torch.FloatTensor.__mro__ == (torch.FloatTensor, object)


# %% [markdown]
# ## Default device and type
#
# `set_default_device` reaches what *creates*: `zeros`, `tensor`, `nn.Linear`. It does not reach what looks at memory that is there (`from_numpy`), nor what comes out of a file. Upstream it is a [mode](../00_tensor/11d_modes.py) that sees every call from Python, factory or not, as long as it is set.


# %%
#| into: __init__.py
#| upstream: torch/__init__.py#set_default_device
def set_default_device(device: _Any) -> None:
    """Where creation functions put tensors from now on; None for the CPU."""
    from readtorch.c10.core import device as devices

    devices.set_default_device(None if device is None else devices.device(device))


def get_default_device() -> _Any:
    """Where creation functions put tensors."""
    from readtorch.c10.core import device as devices

    return devices.current_default_device()


def set_default_tensor_type(t: _Any) -> None:
    """The old form of `set_default_dtype`: takes `torch.DoubleTensor` or its name."""
    import warnings

    from readtorch import _C
    from readtorch.csrc.autograd.python_variable_methods import legacy_dtype

    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    _C._set_default_dtype(legacy_dtype(t))


# %%
#| into: c10/core/device.py
def set_default_device(where: device | None) -> None:
    """The device below all those entered with `with device:`."""
    _context.default = cpu if where is None else where


# %%
#| claim: a default device holds for tensors that are created, from numbers too, and not for those that look into an array
def _(torch):
    import numpy as np

    torch.set_default_device("meta")
    try:
        devices = [x.device.type for x in (torch.zeros(2), torch.tensor([1.0]), torch.from_numpy(np.zeros(2)))]
        assert devices == ["meta", "meta", "cpu"] and torch.get_default_device() == torch.device("meta")
    finally:
        torch.set_default_device(None)
    assert torch.zeros(1).device == torch.device("cpu")


# %%
#| claim: a legacy type is no class of tensors but a question about dtype and device
def _(torch):
    assert isinstance(torch.ones(1), torch.FloatTensor)
    assert not isinstance(torch.ones(1, dtype=torch.float64), torch.FloatTensor)
    assert torch.LongTensor([1, 2]).dtype is torch.int64
    assert type(torch.FloatTensor(2, 3)) is torch.Tensor


# %% [markdown]
# ### What upstream does more
#
# * `_foreach_` operators have a fast path on CUDA, taken if all tensors have one dtype and dense strides, and fall back to the loop without a word if not. Ours on a GPU are [appendix 3's](../a3_kernels/5_optimizers.py) for the steps of optimizers, loops otherwise.
# * Results of `_foreach_` have a node each, written in C++ by hand; the loop here gives those of the single operators.
# * `select_scatter` and its like are operators with nodes of their own there, composites here: `WhereBackward0`.
