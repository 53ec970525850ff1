"""The parity table: one line per operator. `t` is the library, `a`, `b`, `c` the inputs described after the expression.

Each line is run on both libraries, forward, backward and twice backward, for each layout and dtype that `test_operators.py` lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Input:
    """A tensor to make: shape, range of values, and whether it is of floats (differentiable), integers or bools."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    kind: str = "float"


def F(*shape: int, lo: float = -2.0, hi: float = 2.0) -> Input:
    return Input(shape, lo, hi)


def P(*shape: int) -> Input:
    """Positive floats, away from zero."""
    return Input(shape, 0.5, 2.5)


def U(*shape: int) -> Input:
    """Floats inside of (-1, 1)."""
    return Input(shape, -0.9, 0.9)


def N(*shape: int, lo: int = -5, hi: int = 6) -> Input:
    return Input(shape, lo, hi, "int")


def B(*shape: int) -> Input:
    return Input(shape, 0, 2, "bool")


@dataclass(frozen=True)
class Case:
    expression: str
    inputs: tuple[Input, ...]
    grad: bool = True
    double: bool = True
    tolerance: float = 1.0
    layouts: tuple[str, ...] = ("contiguous", "strided", "scalar", "empty")

    @property
    def id(self) -> str:
        return self.expression.replace(" ", "")


@dataclass
class Table:
    cases: list[Case] = field(default_factory=list)

    def __call__(self, expression: str, *inputs: Input, **options: Any) -> None:
        self.cases.append(Case(expression, inputs, **options))


op = Table()
SHAPED = ("contiguous", "strided")
NO_SCALAR = ("contiguous", "strided", "empty")

# arithmetic, and what broadcasts
for name in ("add", "sub", "mul"):
    op(f"t.{name}(a, b)", F(3, 4), F(3, 4))
    op(f"t.{name}(a, b)", F(3, 1, 4), F(5, 1), layouts=SHAPED)
    op(f"t.{name}(a, b)", F(3, 4), F(), layouts=SHAPED)
    op(f"a.{name}(2.5)", F(3, 4))
    op(f"a.{name}(3)", F(3, 4))
op("t.add(a, b, alpha=2.5)", F(3, 4), F(4), layouts=SHAPED)
op("t.sub(a, b, alpha=2)", F(3, 4), F(4), layouts=SHAPED)
op("a + b", F(3, 4), N(3, 4))
op("a * b", N(3, 4), F(4), layouts=SHAPED)
op("a / b", F(3, 4), P(3, 4))
op("a / b", F(3, 4), P(4), layouts=SHAPED)
op("a / 4", F(3, 4))
op("3 - a", F(3, 4))
op("3 / a", P(3, 4))
op("1.5 - a", F(3, 4))
op("a // b", F(3, 4), P(3, 4), grad=False)
op("a // b", N(3, 4), N(3, 4, lo=1), grad=False)
op("a // 2", F(3, 4), grad=False)
op("t.div(a, b, rounding_mode='trunc')", F(3, 4), P(3, 4))
op("t.div(a, b, rounding_mode='trunc')", N(3, 4), N(3, 4, lo=1), grad=False)
op("t.div(a, b, rounding_mode='floor')", F(3, 4), P(3, 4), grad=False)
op("a % b", F(3, 4), P(3, 4))
op("a % b", N(3, 4), N(3, 4, lo=1), grad=False)
op("a % 1.5", F(3, 4))
op("t.fmod(a, b)", F(3, 4), P(3, 4))
op("t.fmod(a, 1.5)", F(3, 4))
op("a ** b", P(3, 4), F(3, 4))
op("a ** 2", F(3, 4))
op("a ** 3", F(3, 4))
op("a ** 0.5", P(3, 4))
op("a ** -1", P(3, 4))
op("a ** -1.5", P(3, 4))
op("a ** 0", F(3, 4))
op("2 ** a", F(3, 4))
op("2.5 ** a", F(3, 4))
op("t.pow(a, b)", P(3, 4), F(4), layouts=SHAPED)
op("-a", F(3, 4))
op("abs(a)", F(3, 4))
op("t.rsub(a, b)", F(3, 4), F(3, 4))
op("t.maximum(a, b)", F(3, 4), F(3, 4))
op("t.minimum(a, b)", F(3, 4), F(4), layouts=SHAPED)
op("t.maximum(a, a)", F(3, 4))
op("t.fmax(a, b)", F(3, 4), F(3, 4))
op("t.fmin(a, b)", F(3, 4), F(3, 4))
op("t.atan2(a, b)", F(3, 4), P(3, 4))
op("t.hypot(a, b)", F(3, 4), P(3, 4))
op("t.logaddexp(a, b)", F(3, 4), F(3, 4))
op("t.logaddexp2(a, b)", F(3, 4), F(3, 4))
op("t.copysign(a, b)", P(3, 4), F(3, 4))
op("t.xlogy(a, b)", P(3, 4), P(3, 4))
op("t.gcd(a, b)", N(3, 4), N(3, 4), grad=False)
op("t.lcm(a, b)", N(3, 4), N(3, 4), grad=False)
op("t.heaviside(a, b)", F(3, 4), F(3, 4), grad=False)

# comparison and logic
for symbol in ("==", "!=", "<", "<=", ">", ">="):
    op(f"a {symbol} b", F(3, 4), F(3, 4), grad=False)
    op(f"a {symbol} 1", F(3, 4), grad=False)
    op(f"a {symbol} b", N(3, 4), F(4), grad=False, layouts=SHAPED)
for symbol in ("&", "|", "^"):
    op(f"a {symbol} b", N(3, 4), N(3, 4), grad=False)
    op(f"a {symbol} b", B(3, 4), B(3, 4), grad=False)
op("~a", N(3, 4), grad=False)
op("~a", B(3, 4), grad=False)
op("a << b", N(3, 4, lo=0), N(3, 4, lo=0, hi=4), grad=False)
op("a >> 1", N(3, 4), grad=False)
for name in ("logical_and", "logical_or", "logical_xor"):
    op(f"t.{name}(a, b)", F(3, 4), B(3, 4), grad=False)
op("t.logical_not(a)", N(3, 4, lo=0, hi=2), grad=False)
op("t.isclose(a, b)", F(3, 4), F(3, 4), grad=False)
op("t.equal(a, a.clone())", F(3, 4), grad=False)
op("t.allclose(a, a + 1e-9)", F(3, 4), grad=False)
for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf"):
    op(f"t.{name}(a / (a > 0))", F(3, 4), grad=False)
op("t.isin(a, b)", N(3, 4), N(3), grad=False, layouts=SHAPED)
op("t.isreal(a)", F(3, 4), grad=False)

# functions of one number
for name in (
    "exp",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "sinh",
    "cosh",
    "tanh",
    "sigmoid",
    "atan",
    "asinh",
    "erf",
    "erfc",
    "sinc",
    "square",
):
    op(f"t.{name}(a)", F(3, 4))
op("t.tan(a)", U(3, 4))
for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"):
    op(f"t.{name}(a)", P(3, 4))
for name in ("lgamma", "digamma"):
    op(f"t.{name}(a)", P(3, 4), grad=name == "lgamma", double=False)
for name in ("asin", "acos", "atanh", "erfinv"):
    op(f"t.{name}(a)", U(3, 4))
op("t.acosh(a)", F(3, 4, lo=1.5, hi=3.0))
op("t.logit(a)", F(3, 4, lo=0.1, hi=0.9))
op("t.logit(a, 0.2)", F(3, 4, lo=0.1, hi=0.9))
for name in ("floor", "ceil", "trunc", "round", "sign", "sgn", "abs", "positive", "frac"):
    op(f"t.{name}(a)", F(3, 4))
op("t.round(a, decimals=1)", F(3, 4), grad=False)
op("t.signbit(a)", F(3, 4), grad=False)
op("t.relu(a)", F(3, 4))
op("t.deg2rad(a)", F(3, 4))
op("t.rad2deg(a)", F(3, 4))
op("t.angle(a)", F(3, 4), grad=False)
op("t.nan_to_num(a / 0)", F(3, 4), grad=False)
op("a.clamp(-1, 1)", F(3, 4))
op("a.clamp(min=0.5)", F(3, 4))
op("a.clamp(max=0.5)", F(3, 4))
op("t.clamp(a, b, c)", F(3, 4), F(3, 4, lo=-1.0, hi=0.0), F(3, 4, lo=0.5, hi=1.0))
op("t.clamp_min(a, 0.5)", F(3, 4))
op("t.addcmul(a, b, c, value=0.5)", F(3, 4), F(3, 4), F(3, 4))
op("t.addcmul(a, b, c)", F(3, 4), F(4), F(3, 1), layouts=SHAPED)
op("t.addcdiv(a, b, c, value=0.5)", F(3, 4), F(3, 4), P(3, 4))
op("t.lerp(a, b, 0.3)", F(3, 4), F(3, 4))
op("t.gradient(a)[1]", F(3, 4))
op("t.gradient(a, dim=0, edge_order=2, spacing=0.5)[0]", F(4, 3))
op("t.gradient(a, dim=1, spacing=(t.tensor([1.0, 2.0, 4.0, 8.0], dtype=t.float64).to(a.dtype),))[0]", F(3, 4))
op("t.gradient(a, dim=1, spacing=(t.tensor([1.0, 2.0, 4.0, 8.0], dtype=t.float64),), edge_order=2)[0]", F(3, 4))
op("t.igamma(a.detach(), b)", P(3, 4), P(3, 4))
op("t.igammac(a.detach(), b)", P(3, 4), P(3, 4))
op("t.frobenius_norm(a, [0, 1])", F(3, 4))
op("t.nonzero_static(a > 0, size=5)", F(3, 4))
op("t.unsafe_split_with_sizes(a, [1, 3], 1)[1]", F(3, 4))
op("t.lerp(a, b, c)", F(3, 4), F(3, 4), F(3, 4))

# reductions
for name in ("sum", "mean", "prod", "amax", "amin", "nansum"):
    dims = "1" if name == "prod" else "(0, 2)"
    op(f"a.{name}()", F(2, 3, 4))
    op(f"a.{name}(1)", F(2, 3, 4), layouts=SHAPED)
    op(f"a.{name}({dims}, keepdim=True)", F(2, 3, 4), layouts=SHAPED)
op("a.sum(-1, dtype=t.float64)", F(2, 3, 4), layouts=SHAPED)
op("a.sum((), keepdim=True)", F(2, 3))
op("a.mean([])", F(2, 3))
op("a.prod()", Input((3, 2), 0, 2.9))
op("(a.round()).prod(1)", F(4, 3, lo=-1.4, hi=1.4), layouts=SHAPED)
op("(a * 0).prod(0)", F(3, 2), layouts=SHAPED)
for name in ("var", "std"):
    op(f"a.{name}()", F(3, 4), layouts=SHAPED)
    op(f"a.{name}(1)", F(3, 4), layouts=SHAPED)
    op(f"a.{name}((0, 1), unbiased=False, keepdim=True)", F(3, 4, 2), layouts=SHAPED)
    op(f"a.{name}(0, correction=0)", F(3, 4), layouts=SHAPED)
    op(f"a.{name}(False)", F(3, 4), layouts=SHAPED)
    op(f"t.{name}_mean(a, 1)", F(3, 4), layouts=SHAPED)
op("t.logsumexp(a, 1)", F(3, 4), layouts=SHAPED)
op("t.logsumexp(a, (0, 1), keepdim=True)", F(3, 4), layouts=SHAPED)
for name in ("max", "min"):
    op(f"a.{name}()", F(3, 4))
    op(f"a.{name}(1)", F(3, 4), layouts=NO_SCALAR)
    op(f"a.{name}(0, keepdim=True)", F(3, 4), layouts=SHAPED)
    op(f"t.{name}(a, b)", F(3, 4), F(3, 4))
    op(f"a.round().{name}()", F(3, 4, lo=-1, hi=1))
op("a.round().amax(0)", F(4, 3, lo=-1, hi=1), layouts=SHAPED)
op("t.aminmax(a, dim=1)", F(3, 4), layouts=SHAPED)
for name in ("argmax", "argmin"):
    op(f"a.{name}()", F(3, 4), grad=False)
    op(f"a.{name}(1)", F(3, 4), grad=False)
    op(f"a.{name}(0, keepdim=True)", F(3, 4), grad=False)
for name in ("all", "any"):
    op(f"(a > 0).{name}()", F(3, 4), grad=False)
    op(f"(a > 0).{name}(1)", F(3, 4), grad=False)
    op(f"a.{name}(0, keepdim=True)", N(3, 4), grad=False)
op("t.count_nonzero(a)", N(3, 4, lo=-1, hi=2), grad=False)
op("t.count_nonzero(a, 1)", N(3, 4, lo=-1, hi=2), grad=False, layouts=SHAPED)
op("a.cumsum(1)", F(3, 4), layouts=SHAPED)
op("a.cumsum(0)", F(3))
op("a.cumprod(1)", F(3, 4), layouts=SHAPED)
op("(a.round()).cumprod(0)", F(4, 3, lo=-1.4, hi=1.4), layouts=SHAPED)
op("t.logcumsumexp(a, 1)", F(3, 4), layouts=SHAPED)
op("a.cummax(1)", F(3, 4), layouts=SHAPED)
op("a.cummin(0)", F(3, 4), layouts=SHAPED)
op("t.diff(a)", F(3, 4), layouts=SHAPED)
op("t.diff(a, n=2, dim=0)", F(4, 3), layouts=SHAPED)
for p in ("2", "1", "0", "3", "float('inf')", "-float('inf')", "0.5"):
    op(f"t.linalg.vector_norm(a, {p})", P(3, 4), layouts=SHAPED, double=p not in ("0",))
    op(f"a.norm({p}, 1)", P(3, 4), layouts=SHAPED)
op("a.norm()", F(3, 4), layouts=SHAPED)
op("(a * 0).norm()", F(3, 4), layouts=SHAPED, double=False)
op("t.dist(a, b)", F(3, 4), F(3, 4), layouts=SHAPED)
op("t.renorm(a, 2, 0, 1.0)", F(3, 4), layouts=SHAPED)

# shapes
op("a.reshape(4, 3)", F(3, 4), layouts=SHAPED)
op("a.reshape(-1)", F(3, 4))
op("a.reshape((2, -1, 2))", F(3, 4), layouts=SHAPED)
op("a.contiguous().view(2, 6)", F(3, 4), layouts=SHAPED)
op("a.t().contiguous()", F(3, 4), layouts=SHAPED)
op("a.flatten()", F(2, 3, 4))
op("a.flatten(1)", F(2, 3, 4), layouts=SHAPED)
op("a.unflatten(1, (2, -1))", F(3, 4), layouts=SHAPED)
op("a.transpose(0, 2)", F(2, 3, 4), layouts=SHAPED)
op("a.t()", F(3, 4), layouts=NO_SCALAR)
op("a.T", F(3, 4), layouts=NO_SCALAR)
op("a.mT", F(2, 3, 4), layouts=SHAPED)
op("a.permute(2, 0, 1)", F(2, 3, 4), layouts=SHAPED)
op("a.permute((1, 0))", F(2, 3), layouts=SHAPED)
op("t.movedim(a, 0, -1)", F(2, 3, 4), layouts=SHAPED)
op("t.movedim(a, (0, 1), (1, 2))", F(2, 3, 4), layouts=SHAPED)
op("t.swapaxes(a, 0, 1)", F(2, 3), layouts=SHAPED)
op("a.squeeze()", F(1, 3, 1))
op("a.squeeze(0)", F(1, 3, 1), layouts=SHAPED)
op("a.squeeze((0, 2))", F(1, 3, 1), layouts=SHAPED)
op("a.unsqueeze(1)", F(3, 4), layouts=NO_SCALAR)
op("a.unsqueeze(-1)", F(3, 4))
op("a.expand(5, 3, 4)", F(3, 4), layouts=SHAPED)
op("a.expand(-1, 4)", F(3, 1), layouts=SHAPED)
op("a.expand_as(b)", F(1, 4), F(3, 4), layouts=SHAPED)
op("t.broadcast_to(a, (2, 3, 4))", F(3, 1), layouts=SHAPED)
op("a.repeat(2, 3)", F(3, 4), layouts=NO_SCALAR)
op("a.repeat(2, 1, 3)", F(3, 4), layouts=NO_SCALAR)
op("t.tile(a, (2,))", F(3, 4))
op("a.repeat_interleave(2)", F(3, 4))
op("a.repeat_interleave(3, 1)", F(3, 4), layouts=SHAPED)
op("a.repeat_interleave(t.tensor([1, 0, 2]), 0)", F(3, 4), layouts=SHAPED)
op("a.flip(0)", F(3, 4), layouts=SHAPED)
op("a.flip((0, 1))", F(3, 4), layouts=SHAPED)
op("a.roll(1)", F(3, 4))
op("a.roll((1, -2), (0, 1))", F(3, 4), layouts=SHAPED)
op("t.rot90(a)", F(3, 4), layouts=SHAPED)
op("a.diagonal()", F(3, 4), layouts=SHAPED)
op("a.diagonal(1, 0, 2)", F(3, 2, 4), layouts=SHAPED)
op("t.diag(a)", F(3), layouts=NO_SCALAR)
op("t.diag(a, 1)", F(3, 4), layouts=SHAPED)
op("t.diag_embed(a)", F(2, 3), layouts=SHAPED)
op("a.unfold(1, 2, 1)", F(3, 4), layouts=SHAPED)
op("a.unfold(0, 2, 2)", F(5, 2), layouts=SHAPED)
op("a.as_strided((2, 2), (1, 2))", F(3, 4), layouts=("contiguous",))
op("a.narrow(1, 1, 2)", F(3, 4), layouts=SHAPED)
op("t.split(a, 2)", F(5, 2), layouts=SHAPED)
op("t.split(a, [1, 3], 1)", F(3, 4), layouts=SHAPED)
op("a.chunk(3)", F(5, 2), layouts=SHAPED)
op("a.unbind(1)", F(3, 4), layouts=SHAPED)
op("t.tensor_split(a, 3)", F(5, 2), layouts=SHAPED)
op("a.select(1, 2)", F(3, 4), layouts=SHAPED)
op("t.cat([a, b])", F(3, 4), F(2, 4), layouts=SHAPED)
op("t.cat([a, b, a], 1)", F(3, 4), F(3, 1), layouts=SHAPED)
op("t.cat([a, b])", F(3), N(2), layouts=SHAPED)
op("t.stack([a, b], 1)", F(3, 4), F(3, 4))
op("t.hstack([a, b])", F(3, 4), F(3, 4), layouts=SHAPED)
op("t.vstack([a, b])", F(4), F(3, 4), layouts=SHAPED)
op("t.dstack([a, b])", F(3, 4), F(3, 4), layouts=SHAPED)
op("t.tril(a)", F(3, 4), layouts=NO_SCALAR)
op("t.triu(a, 1)", F(2, 3, 4), layouts=SHAPED)
op("t.meshgrid(a, b, indexing='ij')", F(3), F(4), layouts=SHAPED)
op("t.meshgrid(a, b, indexing='xy')", F(3), F(4), layouts=SHAPED)
op("t.broadcast_tensors(a, b)", F(3, 1), F(4), layouts=SHAPED)
op("t.block_diag(a, b)", F(2, 3), F(1, 2), layouts=SHAPED)
op("t.cartesian_prod(a, b)", F(2), F(3), layouts=SHAPED)
op("t.combinations(a, 2)", F(4), layouts=SHAPED)
op("t.atleast_2d(a)", F(4))
op("a.detach() * a", F(3, 4))
op("a.clone()", F(3, 4))
op("a.double()", F(3, 4))
op("a.half().float()", F(3, 4))
op("a.long()", F(3, 4), grad=False)
op("a.to(t.uint8)", P(3, 4), grad=False)
op("a.bool()", F(3, 4), grad=False)

# indexing
op("a[1]", F(3, 4), layouts=SHAPED)
op("a[-1, 2]", F(3, 4), layouts=SHAPED)
op("a[1:]", F(3, 4), layouts=NO_SCALAR)
op("a[::2, 1:3]", F(3, 4), layouts=SHAPED)
op("a[..., 0]", F(2, 3, 4), layouts=SHAPED)
op("a[None, :, None]", F(3, 4), layouts=NO_SCALAR)
op("a[...]", F(3, 4))
op("a[[0, 2]]", F(3, 4), layouts=SHAPED)
op("a[t.tensor([0, 0, 2])]", F(3, 4), layouts=SHAPED)
op("a[t.tensor([[0, 1], [2, 2]])]", F(3, 4), layouts=SHAPED)
op("a[:, [1, 1, 3]]", F(3, 4), layouts=SHAPED)
op("a[[0, 1], [2, 3]]", F(3, 4), layouts=SHAPED)
op("a[0, :, [1, 2]]", F(2, 3, 4), layouts=SHAPED)
op("a[[0, 1], :, [1, 2]]", F(2, 3, 4), layouts=SHAPED)
op("a[:, [0, 1], [1, 2]]", F(2, 3, 4), layouts=SHAPED)
op("a[a > 0]", F(3, 4))
op("a[a.sum(1) > 0]", F(3, 4), layouts=SHAPED)
op("a[:, t.tensor([True, False, True, False])]", F(3, 4), layouts=SHAPED)
op("a[True]", F(3, 4))
op("a[t.tensor(1)]", F(3, 4), layouts=SHAPED)
op("a.index_select(1, b)", F(3, 4), N(3, lo=0, hi=4), layouts=SHAPED)
op("a.gather(1, b)", F(3, 4), N(3, 2, lo=0, hi=4), layouts=SHAPED)
op("a.gather(0, b)", F(3, 4), N(2, 4, lo=0, hi=3), layouts=SHAPED)
op("a.scatter(1, b, c)", F(3, 4), N(3, 1, lo=0, hi=4), F(3, 1), layouts=SHAPED)
op("a.scatter(1, b, 2.5)", F(3, 4), N(3, 2, lo=0, hi=4), layouts=SHAPED)
op("a.scatter_add(1, b, c)", F(3, 4), N(3, 5, lo=0, hi=4), F(3, 5), layouts=SHAPED)
for reduce in ("sum", "mean", "amax", "amin", "prod"):
    op(
        f"a.scatter_reduce(1, b, c, '{reduce}')",
        P(3, 4),
        N(3, 5, lo=0, hi=4),
        P(3, 5),
        layouts=SHAPED,
    )
    op(
        f"a.scatter_reduce(1, b, c, '{reduce}', include_self=False)",
        P(3, 4),
        N(3, 5, lo=0, hi=4),
        P(3, 5),
        layouts=SHAPED,
    )
op("a.index_add(0, b, c)", F(3, 4), N(2, lo=0, hi=3), F(2, 4), layouts=SHAPED)
op("a.index_add(0, b, c, alpha=2.5)", F(3, 4), N(2, lo=0, hi=3), F(2, 4), layouts=SHAPED)
op("a.index_copy(0, t.tensor([2, 0]), b)", F(3, 4), F(2, 4), layouts=SHAPED)
op("a.index_fill(1, t.tensor([2, 0]), 1.5)", F(3, 4), layouts=SHAPED)
op("a.index_put((t.tensor([0, 2]),), b)", F(3, 4), F(2, 4), layouts=SHAPED)
op("a.index_put((t.tensor([0, 0]), t.tensor([1, 1])), b, accumulate=True)", F(3, 4), F(2), layouts=SHAPED)
op("a.masked_fill(a > 0, 1.5)", F(3, 4))
op("a.masked_fill(b, c)", F(3, 4), B(3, 4), F(), layouts=SHAPED)
op("a.masked_select(a > 0)", F(3, 4))
op("a.masked_select(b)", F(3, 4), B(4), layouts=SHAPED)
op("a.masked_scatter(b, c)", F(3, 4), B(3, 4), F(12), layouts=SHAPED)
op("t.where(a > 0, a, b)", F(3, 4), F(3, 4))
op("t.where(a > 0, a, 0.0)", F(3, 4))
op("t.where(a > 0, 1.0, a)", F(3, 4))
op("t.where(b, a, c)", F(3, 1), B(3, 4), F(4), layouts=SHAPED)
op("t.where(a > 0)", F(3, 4), grad=False, layouts=NO_SCALAR)
op("t.nonzero(a > 0)", F(3, 4), grad=False)
op("t.take_along_dim(a, b, 1)", F(3, 4), N(3, 2, lo=0, hi=4), layouts=SHAPED)
op("t.take(a, b)", F(3, 4), N(5, lo=0, hi=12), layouts=SHAPED)

# sorting
op("a.sort()", F(3, 4))
op("a.sort(0, descending=True)", F(3, 4), layouts=SHAPED)
op("a.round().sort(stable=True)", F(3, 9, lo=-1, hi=1), layouts=SHAPED)
op("a.argsort(1)", F(3, 4), grad=False, layouts=SHAPED)
op("a.topk(2)", F(3, 4), layouts=SHAPED)
op("a.topk(2, 0, largest=False)", F(3, 4), layouts=SHAPED)
op("a.kthvalue(2, 1)", F(3, 4), layouts=SHAPED)
op("a.median()", F(3, 5))
op("a.median(1)", F(3, 4), layouts=SHAPED)
op("t.quantile(a, 0.3)", F(3, 4), layouts=SHAPED)
op("t.quantile(a, t.tensor([0.1, 0.5]).to(a.dtype), 1)", F(3, 4), layouts=SHAPED)
op("a.mode(1)", N(3, 6, lo=0, hi=3), grad=False, layouts=SHAPED)
op("t.unique(a)", N(3, 6, lo=0, hi=3), grad=False)
op("t.unique(a, return_inverse=True, return_counts=True)", N(3, 6, lo=0, hi=3), grad=False)
op("t.unique(a, dim=0)", N(3, 2, lo=0, hi=2), grad=False, layouts=SHAPED)
op("t.unique_consecutive(a)", N(12, lo=0, hi=2), grad=False)
op("t.bincount(a)", N(12, lo=0, hi=5), grad=False)
op("t.bincount(a, b)", N(12, lo=0, hi=5), F(12), grad=False, layouts=SHAPED)
op("t.histc(a, 4)", F(12), grad=False, layouts=SHAPED)
op("t.searchsorted(a.sort()[0], b)", F(6), F(3), grad=False, layouts=SHAPED)
op("t.bucketize(a, t.tensor([-1.0, 0.0, 1.0]))", F(3, 4), grad=False)

# matrices
op("t.mm(a, b)", F(3, 4), F(4, 5), layouts=SHAPED)
op("t.mm(a, b)", N(3, 4), N(4, 5), grad=False, layouts=SHAPED)
op("t.bmm(a, b)", F(2, 3, 4), F(2, 4, 5), layouts=SHAPED)
op("t.mv(a, b)", F(3, 4), F(4), layouts=SHAPED)
op("t.dot(a, b)", F(4), F(4), layouts=SHAPED)
op("t.outer(a, b)", F(3), F(4), layouts=SHAPED)
op("a @ b", F(3, 4), F(4, 5), layouts=SHAPED)
op("a @ b", F(4), F(4, 5), layouts=SHAPED)
op("a @ b", F(3, 4), F(4), layouts=SHAPED)
op("a @ b", F(4), F(4), layouts=SHAPED)
op("a @ b", F(2, 3, 4), F(4, 5), layouts=SHAPED)
op("a @ b", F(2, 3, 4), F(4), layouts=SHAPED)
op("a @ b", F(4), F(2, 4, 3), layouts=SHAPED)
op("a @ b", F(2, 1, 3, 4), F(5, 4, 2), layouts=SHAPED)
op("t.addmm(a, b, c)", F(3, 5), F(3, 4), F(4, 5), layouts=SHAPED)
op("t.addmm(a, b, c, beta=0.5, alpha=2)", F(5), F(3, 4), F(4, 5), layouts=SHAPED)
op("t.baddbmm(a, b, c, beta=0.5, alpha=2)", F(2, 3, 5), F(2, 3, 4), F(2, 4, 5), layouts=SHAPED)
op("t.addmv(a, b, c)", F(3), F(3, 4), F(4), layouts=SHAPED)
op("t.einsum('ij,jk->ik', a, b)", F(3, 4), F(4, 5), layouts=SHAPED)
op("t.einsum('bij,bjk->bik', a, b)", F(2, 3, 4), F(2, 4, 5), layouts=SHAPED)
op("t.einsum('ii', a)", F(3, 3), layouts=SHAPED)
op("t.einsum('ij->ji', a)", F(3, 4), layouts=SHAPED)
op("t.einsum('...ij,...jk', a, b)", F(2, 3, 4), F(4, 5), layouts=SHAPED)
op("t.einsum('i,j,k->ijk', a, b, c)", F(2), F(3), F(4), layouts=SHAPED)
op("t.einsum('bhid,bhjd->bhij', a, b)", F(2, 2, 3, 4), F(2, 2, 5, 4), layouts=SHAPED)
op("t.einsum('ij,ij->', a, b)", F(3, 4), F(3, 4), layouts=SHAPED)
op("t.tensordot(a, b, 2)", F(2, 3, 4), F(3, 4, 5), layouts=SHAPED)
op("t.tensordot(a, b, ([0, 1], [1, 0]))", F(3, 4, 5), F(4, 3, 2), layouts=SHAPED)
op("t.trace(a)", F(3, 4), layouts=SHAPED)
op("t.linalg.cross(a, b)", F(2, 3), F(2, 3), layouts=SHAPED)
op("t.cdist(a, b)", F(3, 2), F(4, 2), layouts=SHAPED, double=False)
EYE = "(a @ a.mT + 3 * t.eye(3, dtype=a.dtype))"
op(f"t.linalg.inv({EYE})", F(3, 3), layouts=SHAPED)
op(f"t.linalg.solve({EYE}, b)", F(3, 3), F(3, 2), layouts=SHAPED)
op(f"t.linalg.solve({EYE}, b)", F(3, 3), F(3), layouts=SHAPED)
op(f"t.linalg.det({EYE})", F(3, 3), layouts=SHAPED)
op(f"t.linalg.slogdet({EYE})", F(3, 3), layouts=SHAPED)
op(f"t.logdet({EYE})", F(3, 3), layouts=SHAPED)
op(f"t.linalg.cholesky({EYE})", F(3, 3), layouts=SHAPED)
op("t.linalg.svdvals(a)", F(3, 4), layouts=SHAPED)
op(f"t.linalg.eigh({EYE})[0]", F(3, 3), layouts=SHAPED)
op("t.linalg.qr(a)[1].abs()", F(4, 3), layouts=SHAPED)
op("t.linalg.matrix_norm(a)", F(3, 4), layouts=SHAPED)
op("t.linalg.matrix_norm(a, 1)", F(3, 4), layouts=SHAPED)
op("t.linalg.matrix_power(a, 3)", F(3, 3), layouts=SHAPED)
op("t.matrix_exp(a)", U(3, 3), layouts=SHAPED)
op("t.linalg.pinv(a)", F(3, 4), layouts=SHAPED, grad=False)
op("t.linalg.matrix_rank(a)", F(3, 4), layouts=SHAPED, grad=False)
op(f"t.linalg.lu({EYE})", F(3, 3), layouts=SHAPED)
op("t.linalg.lu(a + t.eye(4, 3).to(a.dtype))", F(4, 3), layouts=SHAPED)
op("t.linalg.lu(a)[1:]", F(2, 3, 4), layouts=SHAPED)
op("t.linalg.lu_factor(a)", F(3, 4), layouts=SHAPED)
op("t.lu_unpack(*t.linalg.lu_factor(a))", F(2, 3, 3), layouts=SHAPED)
op(f"t.linalg.lu_solve(*t.linalg.lu_factor({EYE}), b)", F(3, 3), F(3, 2), layouts=SHAPED)
op(f"t.linalg.solve_triangular({EYE}, b, upper=True)", F(3, 3), F(3, 2), layouts=SHAPED)
op(
    f"t.linalg.solve_triangular({EYE}, b, upper=False, left=False, unitriangular=True)",
    F(3, 3),
    F(2, 3),
    layouts=SHAPED,
)
op(f"t.triangular_solve(b, {EYE}, upper=False, transpose=True)[0]", F(3, 3), F(3, 2), layouts=SHAPED)
op(f"t.cholesky_solve(b, t.linalg.cholesky({EYE}))", F(3, 3), F(3, 2), layouts=SHAPED)
op(f"t.cholesky_inverse(t.linalg.cholesky({EYE}))", F(3, 3), layouts=SHAPED)
op(f"t.linalg.cholesky_ex({EYE})", F(3, 3), layouts=SHAPED)
op(f"t.linalg.inv_ex({EYE})", F(3, 3), layouts=SHAPED)
op("t.linalg.eigvals(t.diag(t.arange(3).to(a.dtype)) + a / 9).real.sort()[0]", F(3, 3), layouts=SHAPED)
op("t.linalg.eig(t.diag(t.arange(3).to(a.dtype)) + a / 9)[1].abs()", F(3, 3), layouts=SHAPED, double=False)
op("t.linalg.lstsq(a, b)[0]", F(4, 2), F(4, 3), layouts=SHAPED, grad=False)
op("t.linalg.householder_product(a, b)", F(4, 3), F(3), layouts=SHAPED)
op("t.geqrf(a + t.eye(4, 3).to(a.dtype))[0].abs()", F(4, 3), layouts=SHAPED, grad=False)
op("t.ormqr(a, b, c)", F(4, 3), F(3), F(4, 2), layouts=SHAPED)
op(f"t.linalg.cond({EYE})", F(3, 3), layouts=SHAPED)
op(f"t.linalg.cond({EYE}, 1)", F(3, 3), layouts=SHAPED, grad=False)
op("t.linalg.tensorinv(t.eye(6, dtype=a.dtype).reshape(6, 2, 3) + a, 1)", U(6, 2, 3), layouts=SHAPED)
op("t.linalg.tensorsolve(t.eye(6, dtype=a.dtype).reshape(2, 3, 6) * 3 + a, b)", U(2, 3, 6), F(2, 3), layouts=SHAPED)
op("t.linalg.vander(a)", F(2, 3), layouts=SHAPED)
op("t.linalg.vecdot(a, b)", F(3, 4), F(3, 4), layouts=SHAPED)
op("a.put(b, c)", F(3, 4), N(5, lo=0, hi=12), F(5), layouts=SHAPED, grad=False)
op("a.put(b, c, accumulate=True)", F(3, 4), N(5, lo=0, hi=12), F(5), layouts=SHAPED)
op("a.put(t.tensor([0, 5]), c)", F(3, 4), F(1), F(2), layouts=SHAPED)
for reduce in ("prod", "mean", "amax", "amin"):
    op(f"a.index_reduce(0, b, c, '{reduce}')", P(3, 4), N(4, lo=0, hi=3), P(4, 4), layouts=SHAPED)
op("t.nanquantile(a, 0.3)", F(3, 4), layouts=SHAPED)
op("t.nanquantile(a.masked_fill(a > 1, float('nan')), 0.4, 1, keepdim=True)", F(3, 4), layouts=SHAPED, grad=False)
op("t.cumulative_trapezoid(a, dx=0.5)", F(3, 4), layouts=SHAPED)
op("t.cumulative_trapezoid(a, b, dim=0)", F(3, 4), F(3, 4), layouts=SHAPED)
op("t.histogram(a, 4)", F(12), layouts=SHAPED, grad=False)
op("t.histogram(a * 1.0, 4, range=(-1.0, 1.0), weight=b * 1.0, density=True)", F(12), P(12), layouts=SHAPED, grad=False)
op("t.histogram(a, t.tensor([-1.0, 0.0, 2.0]).to(a.dtype))", F(12), layouts=SHAPED, grad=False)

# Fourier transforms, windows, special functions
R = "t.view_as_real"
for norm in ("None", "'ortho'", "'forward'"):
    op(f"{R}(t.fft.fft(a, norm={norm}))", F(3, 4), layouts=SHAPED)
    op(f"t.fft.irfft(a, norm={norm})", F(3, 5), layouts=SHAPED)
op(f"{R}(t.fft.ifft(a, 6, 0).resolve_conj())", F(3, 4), layouts=SHAPED)
op(f"{R}(t.fft.rfft(a))", F(3, 4), layouts=SHAPED)
op(f"{R}(t.fft.rfft(a, 5, 0))", F(3, 4), layouts=SHAPED)
op("t.fft.irfft(a, 7)", F(3, 4), layouts=SHAPED)
op(f"{R}(t.fft.fft2(a))", F(2, 3, 4), layouts=SHAPED)
op(f"{R}(t.fft.rfftn(a, dim=(0, 2)))", F(2, 3, 4), layouts=SHAPED)
op("t.fft.irfft2(a, (3, 5))", F(2, 3, 4), layouts=SHAPED)
op("t.fft.hfft(a)", F(5), layouts=SHAPED)
op("t.fft.fftshift(a)", F(3, 4), layouts=SHAPED)
op(f"{R}(t.stft(a, 8, 3, window=b, return_complex=True))", F(2, 32), F(8), layouts=SHAPED)
op(
    "t.istft(t.stft(a, 8, 2, window=t.hann_window(8, dtype=a.dtype), return_complex=True), 8, 2, window=t.hann_window(8, dtype=a.dtype))",
    F(2, 32),
    layouts=SHAPED,
)
for name in ("hann", "hamming", "bartlett", "blackman", "kaiser"):
    op(f"t.{name}_window(9, dtype=a.dtype) * a", F(9), layouts=("contiguous",))
op("t.i0(a)", F(3, 4))
op("t.special.i1(a)", F(3, 4), layouts=SHAPED, grad=False)
op("t.polygamma(1, a)", P(3, 4), layouts=SHAPED, tolerance=1e5)
op("t.polygamma(2, a)", P(3, 4), layouts=SHAPED, tolerance=1e3)
op("t.mvlgamma(a, 2)", P(3, 4), layouts=SHAPED)
op("t.frexp(a)", F(3, 4), layouts=SHAPED, double=False)
op("t.special.entr(a)", P(3, 4), layouts=SHAPED)
op("t.special.ndtr(a)", F(3, 4), layouts=SHAPED)

# in place, on a copy that is not a leaf
for name, rest in {
    "add_": "b", "sub_": "b", "mul_": "b", "div_": "b + 3", "pow_": "2", "clamp_": "-1, 1", "exp_": "", "neg_": "", "sigmoid_": "", "tanh_": "",
    "relu_": "", "abs_": "", "sin_": "", "copy_": "b", "fill_": "1.5", "zero_": "", "masked_fill_": "b > 0, 0.5", "lerp_": "b, 0.3",
    "addcmul_": "b, b", "mul_ ": "a", "tril_": "", "square_": "", "cumsum_": "0",
}.items():  # fmt: skip
    op(f"a.clone().{name.strip()}({rest})", F(3, 4), *([F(3, 4)] if "b" in rest else []), layouts=SHAPED)
op("(lambda x: (x[0].mul_(2), x)[1])(a.clone())", F(3, 4), layouts=SHAPED)
op("(lambda x: (x[:, 1:].copy_(b), x)[1])(a.clone())", F(3, 4), F(3, 3), layouts=SHAPED)
op("(lambda x: (x.__setitem__((slice(None), 1), b), x)[1])(a * 2)", F(3, 4), F(3), layouts=SHAPED)
op("(lambda x: (x.__setitem__(x > 0, 0.5), x)[1])(a * 2)", F(3, 4), layouts=SHAPED)
op("(lambda x: (x.__setitem__([0, 2], b), x)[1])(a * 2)", F(3, 4), F(2, 4), layouts=SHAPED)
op("(lambda x, v: (x.mul_(3), v * 2)[1])(*(lambda x: (x, x[1]))(a * 2))", F(3, 4), layouts=SHAPED)
op("(lambda x: (x.t().add_(b), x.sum(0))[1])(a * 2)", F(3, 4), F(3), layouts=SHAPED)

# lists, parts written into copies, further functions
op("t._foreach_add([a, b], 2.0)", F(3), F(2, 2), layouts=SHAPED)
op("t._foreach_mul([a, b], [b, a])", F(3, 4), F(3, 4), layouts=SHAPED)
op("t._foreach_addcdiv([a], [b], [c], value=0.5)", F(3), F(3), P(3), layouts=SHAPED)
op("t._foreach_norm([a, b])", F(3), F(2, 2), layouts=SHAPED)
op("t._foreach_sqrt([a, b])", P(3), P(2, 2), layouts=SHAPED)
op("t.select_scatter(a, b, 0, 1)", F(3, 4), F(4), layouts=SHAPED)
op("t.slice_scatter(a, b, 1, 1, 4, 2)", F(3, 4), F(3, 2), layouts=SHAPED)
op("t.diagonal_scatter(a, b)", F(3, 4), F(3), layouts=SHAPED)
op("t.column_stack([a, b])", F(3), F(3, 2), layouts=SHAPED)
op("t.hsplit(a, 2)", F(3, 4), layouts=SHAPED)
op("t.kron(a, b)", F(2, 3), F(2, 2), layouts=SHAPED)
op("t.cov(a)", F(3, 4), layouts=SHAPED)
op("t.corrcoef(a)", F(3, 4), layouts=SHAPED)
op("t.trapezoid(a, dx=0.5)", F(3, 4), layouts=SHAPED)
op("t.ldexp(a, b)", F(3, 4), N(3, 4, lo=0, hi=3), layouts=SHAPED)
op("t.float_power(a, 1.5)", P(3, 4), layouts=SHAPED)
op("a.clone().t_()", F(3, 4), layouts=SHAPED)
op("a.clone().unsqueeze_(0)", F(3, 4), layouts=SHAPED)
