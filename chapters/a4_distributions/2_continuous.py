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
# # Draws that can be differentiated
#
# A draw from a normal distribution is `loc + scale * noise`: the parameters are in a formula, and autograd has nothing special to do. That is *reparametrization*, `rsample`. A categorical draw is a number of a category; no formula carries a gradient
# through it, and there is `sample` alone. Between them lies the gamma distribution: it is drawn by rejection, which is no formula, and still its draws move smoothly with the shape parameter. This part has the kernels for it, and the distributions of one variable.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Gamma
#
# Marsaglia and Tsang (2000): a cube of a shifted normal number is nearly gamma distributed, and is kept with a probability near one. Shapes below 1 are drawn with one more and scaled down. The numbers of the generator are used in upstream's order, so the draws are upstream's.


# %%
#| into: aten/native/distributions.py
#| imports
from readtorch.aten.core.dispatch.dispatcher import unknown
from readtorch.aten.native.math import digamma


# %%
#| into: aten/native/distributions.py
#| upstream: aten/src/ATen/native/Distributions.cpp#at::native::_s_gamma_cpu
def _one_gamma(source: CPUGeneratorImpl, alpha: float) -> float:
    def draw() -> float:
        return float(uniform01(source, 1, np.dtype(np.float64))[0])

    scale = 1.0
    if alpha < 1:
        if alpha == 0:
            return 0.0
        scale = (1 - draw()) ** (1 / alpha)
        alpha += 1
    d = alpha - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        y = 0.0
        while y <= 0:
            x = _one_normal(source)
            y = 1 + c * x
        v = y * y * y
        u = 1 - draw()
        square = x * x
        if u < 1 - 0.0331 * square * square or math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v


@register("_standard_gamma", variants="function")
def _standard_gamma(self: Array, generator: Any = None) -> Array:
    """Numbers of the gamma distribution with these shapes and scale 1; never zero."""
    _refuse_whole(self, "gamma")
    source = engine(generator)
    draws = np.array([_one_gamma(source, alpha) for alpha in self.reshape(-1).astype(np.float64).tolist()], np.float64)
    return np.maximum(draws.astype(self.dtype), np.finfo(self.dtype).tiny).reshape(self.shape)


# %% [markdown]
# ### Its derivative
#
# Move the shape $\alpha$ a little and keep the *quantile* of the draw: then $F(x(\alpha); \alpha)$ does not change, and
#
# $$\frac{dx}{d\alpha} = -\frac{\partial F / \partial \alpha}{p(x)}$$
#
# (Figurnov et al. 2018). The density is known; what is missing is the derivative of the incomplete gamma function by its parameter. Its series has positive terms only, $F = \sum_k x^{\alpha+k} e^{-x} / \Gamma(\alpha+k+1)$, and each term is differentiated by hand:
# times $\log x - \psi(\alpha+k+1)$. In $dx/d\alpha$ the factor $x^{\alpha-1}e^{-x}$ cancels. Far above the mean the terms of $\partial F$ cancel too, and the tail $1 - F$ has a series of its own; from $\alpha = 1000$ on a draw is the cube of a normal number (Wilson and Hilferty), whose derivative is elementary.


# %%
#| into: aten/native/distributions.py
#| upstream: aten/src/ATen/native/Distributions.cpp#at::native::_standard_gamma_grad_cpu
def _gamma_slope(x: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """dx/dα at equal quantile, for float64 `x` and `alpha` of one dimension."""
    result = np.empty_like(x)
    large = alpha > 1000
    a, y = alpha[large], x[large]
    root, cube = 1 / (3 * np.sqrt(a)), np.cbrt(y / a)
    z = (cube - 1 + 1 / (9 * a)) / root
    result[large] = y / a + 3 * a * cube**2 * (1 / (9 * a**2) - z * root / (2 * a))
    far = ~large & (x > alpha + 12 + 6 * np.sqrt(alpha))
    result[far] = _gamma_slope_far(x[far], alpha[far])
    near = ~large & ~far
    a, y = alpha[near], x[near]
    psi = digamma(a + 1)
    term = y / a  # of k = 0, over x^(α-1) e^(-x) / Γ(α)
    total, logarithm = np.zeros_like(y), np.log(y)
    k = 0.0
    while len(term) and k < 5000:
        total -= term * (logarithm - psi)
        k += 1
        psi = psi + 1 / (a + k)
        term = term * (y / (a + k))
        if (term * (1 + np.abs(logarithm - psi)) < 1e-17 * np.abs(total)).all():
            break
    result[near] = total
    return result


def _gamma_slope_far(x: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """In the upper tail: 1 - F is the density times Σ (α-1)…(α-k) / xᵏ, cut where the terms stop shrinking."""
    term, total = np.ones_like(x), np.ones_like(x)
    by_alpha, slope = np.zeros_like(x), np.zeros_like(x)
    shrinking = np.ones(x.shape, bool)
    for k in range(1, 300):
        factor = (alpha - k) / x
        by_alpha, following = by_alpha * factor + term / x, term * factor
        shrinking &= np.abs(following) < np.abs(term)
        if not shrinking.any():
            break
        term = following
        total, slope = total + np.where(shrinking, term, 0), slope + np.where(shrinking, by_alpha, 0)
    return (np.log(x) - digamma(alpha)) * total + slope


@register("_standard_gamma_grad", variants="function")
def _standard_gamma_grad(self: Array, output: Array) -> Array:
    """How the draws `output` move with the shapes `self`."""
    alpha, x = (np.broadcast_to(v, output.shape).astype(np.float64).reshape(-1) for v in (self, output))
    return _gamma_slope(x, alpha).reshape(output.shape).astype(output.dtype)


_UNKNOWN = unknown("the derivative for '_standard_gamma_grad' is not implemented.")
derivative("_standard_gamma_grad", self=_UNKNOWN, output=_UNKNOWN)
derivative("_standard_gamma", self=lambda at, grad, self, result: grad * at._standard_gamma_grad(self, result))

# %% [markdown]
# ## Dirichlet and beta
#
# Gamma draws divided by their sum are a Dirichlet draw, with two of them a beta draw. The same argument gives the derivative of one coordinate by its own parameter, with the distribution function of beta in place of gamma's:
#
# $$I_x(a, b) = \frac{x^a (1-x)^b}{a\,B(a,b)} \sum_n \frac{(a+b)_n}{(a+1)_n} x^n,$$
#
# positive terms again, quick for small $x$; for large $x$ it is $1 - I_{1-x}(b, a)$, differentiated by its second parameter.


# %%
#| into: aten/native/distributions.py
#| upstream: aten/src/ATen/native/Distributions.cpp#at::native::_s_dirichlet_cpu
@register("_sample_dirichlet", variants="function")
def _sample_dirichlet(self: Array, generator: Any = None) -> Array:
    """Rows that sum to one, with these concentrations along the last dimension."""
    _refuse_whole(self, "dirichlet")
    source = engine(generator)
    draws = np.array([_one_gamma(source, a) for a in self.reshape(-1).astype(np.float64).tolist()], np.float64)
    rows = np.maximum(draws.reshape(self.shape), np.finfo(np.float64).tiny)
    rows = (rows / rows.sum(-1, keepdims=True)).astype(self.dtype)
    limits = np.finfo(self.dtype)
    return np.clip(rows, limits.tiny, 1 - limits.epsneg)


def _beta_slopes(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-∂I/∂a and -∂I/∂b over the density, by the series in `x`; float64, one dimension."""
    term, by_a, by_b = np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    total, from_a, from_b = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    for n in range(20000):
        total, from_a, from_b = total + term, from_a + term * by_a, from_b + term * by_b
        step = 1 / (a + b + n)
        by_a, by_b = by_a + step - 1 / (a + 1 + n), by_b + step
        term = term * (a + b + n) / (a + 1 + n) * x
        if (term * (1 + np.abs(by_a) + by_b) < 1e-17 * total).all():
            break
    both = digamma(a + b)
    before = x * (1 - x) / a  # what stands before the series, over the density
    return (
        -before * (total * (np.log(x) - 1 / a - digamma(a) + both) + from_a),
        -before * (total * (np.log1p(-x) - digamma(b) + both) + from_b),
    )


@register("_dirichlet_grad", variants="function")
def _dirichlet_grad(x: Array, alpha: Array, total: Array) -> Array:
    """dx/dα of each coordinate by its own concentration, over 1 - x."""
    y, a, both = (np.broadcast_to(v, x.shape).astype(np.float64).reshape(-1) for v in (x, alpha, total))
    b = both - a
    low = y <= (a + 1) / (both + 2)
    slope = np.empty_like(y)
    slope[low] = _beta_slopes(y[low], a[low], b[low])[0]
    slope[~low] = -_beta_slopes(1 - y[~low], b[~low], a[~low])[1]
    return (slope / (1 - y)).reshape(x.shape).astype(x.dtype)


# %%
#| into: aten/native/distributions.py
#| upstream: aten/src/ATen/native/Distributions.cpp#at::native::_s_binomial_cpu
def _one_binomial(source: CPUGeneratorImpl, count: float, p: float) -> float:
    """By the gaps between successes where few are expected, else by Hörmann's transformed rejection (1993)."""
    if count <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return count
    if p > 0.5:
        return count - _one_binomial(source, count, 1 - p)

    def draw() -> float:
        return float(uniform01(source, 1, np.dtype(np.float64))[0])

    if count * p < 10:
        found, place, step = 0.0, 0.0, math.log1p(-p)
        while True:
            u = draw()
            place += math.ceil(math.log(u) / step) if u else math.inf
            if place > count:
                return found
            found += 1
    spread = math.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre, limit = count * p + 0.5, 0.92 - 4.2 / b
    odds, alpha = p / (1 - p), (2.83 + 5.1 / b) * spread
    m = math.floor((count + 1) * p)
    while True:
        u = draw() - 0.5
        v = draw()
        near = 0.5 - abs(u)
        k = math.floor((2 * a / near + b) * u + centre)
        if near >= 0.07 and v <= limit:
            return k
        if k < 0 or k > count:
            continue
        v = math.log(v * alpha / (a / (near * near) + b))
        bound = (
            (m + 0.5) * math.log((m + 1) / (odds * (count - m + 1)))
            + (count + 1) * math.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(count - m)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )
        if v <= bound:
            return k


def _stirling_tail(k: float) -> float:
    """The logarithm of k! less Stirling's approximation of it."""
    return math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))


@register("binomial", variants="function")
def binomial(count: Array, prob: Array, generator: Any = None) -> Array:
    """Numbers of successes in `count` trials of probability `prob`."""
    for name, array in (("count", count), ("prob", prob)):
        if array.dtype.kind not in "fV":
            kind = to_string(from_numpy_dtype(array.dtype))
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {kind}")
    shapes("binomial", (count, prob))
    if count.dtype.itemsize == 2:
        raise not_implemented("binomial_cpu", count.dtype)
    if count.dtype != prob.dtype:
        found, wanted = (to_string(from_numpy_dtype(array.dtype)) for array in (prob, count))
        raise RuntimeError(f"Found dtype {found} but expected {wanted}")
    source = engine(generator)
    counts, probs = np.broadcast_arrays(count, prob)
    drawn = [_one_binomial(source, n, p) for n, p in zip(counts.ravel().tolist(), probs.ravel().tolist(), strict=True)]
    return np.array(drawn, np.float64).astype(count.dtype).reshape(counts.shape)


_UNKNOWN_BINOMIAL = unknown("derivative for aten::binomial is not implemented", RuntimeError)
derivative("binomial", count=_UNKNOWN_BINOMIAL, prob=_UNKNOWN_BINOMIAL)

# %% [markdown]
# ## Location and scale
#
# The distributions with two parameters of that kind differ in three formulas. Common to all: broadcast parameters, `expand` by broadcasting them again.

# %%
#| into: distributions/normal.py
"""The normal distribution (twin of `torch/distributions/normal.py`)."""

# %%
#| into: distributions/normal.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.exp_family import ExponentialFamily
from readtorch.distributions.utils import _standard_normal, broadcast_all


# %%
#| into: distributions/normal.py
#| upstream: torch/distributions/normal.py#Normal
class Normal(ExponentialFamily):
    """`loc` ± `scale`."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Normal, ("loc", "scale"), batch_shape, _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        distance = (self._checked(value) - self.loc) ** 2 / (2 * self.scale**2)
        return -distance - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + torch.erf((self._checked(value) - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.pow(2) / y + 0.5 * torch.log(-math.pi / y)


# %%
#| into: distributions/laplace.py
"""The Laplace distribution (twin of `torch/distributions/laplace.py`)."""

# %%
#| into: distributions/laplace.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import broadcast_all


# %%
#| into: distributions/laplace.py
#| upstream: torch/distributions/laplace.py#Laplace
class Laplace(Distribution):
    """Two exponential distributions back to back at `loc`."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Laplace, ("loc", "scale"), batch_shape, _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(torch.finfo(self.loc.dtype).eps - 1, 1)
        return self._at(u)

    def _at(self, u: Tensor) -> Tensor:
        """The number with (1 + u) / 2 of the probability below it, for u between -1 and 1."""
        return self.loc - self.scale * u.sign() * torch.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        return -torch.log(2 * self.scale) - torch.abs(self._checked(value) - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * torch.expm1(-away.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        return self._at(2 * value - 1)

    def entropy(self) -> Tensor:
        return 1 + torch.log(2 * self.scale)


# %%
#| into: distributions/cauchy.py
"""The Cauchy distribution (twin of `torch/distributions/cauchy.py`)."""

# %%
#| into: distributions/cauchy.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import broadcast_all


# %%
#| into: distributions/cauchy.py
#| upstream: torch/distributions/cauchy.py#Cauchy
class Cauchy(Distribution):
    """The quotient of two normal numbers, around `loc`. It has no mean and no variance: NaN and infinity."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return torch.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return torch.full_like(self.loc, math.inf)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Cauchy, ("loc", "scale"), batch_shape, _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - (((self._checked(value) - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return torch.atan((self._checked(value) - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


# %%
#| into: distributions/uniform.py
"""The uniform distribution (twin of `torch/distributions/uniform.py`)."""

# %%
#| into: distributions/uniform.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import broadcast_all


# %%
#| into: distributions/uniform.py
#| upstream: torch/distributions/uniform.py#Uniform
class Uniform(Distribution):
    """Any number of [low, high) alike. ValueError, if checking is on, where low is not below high."""

    has_rsample = True

    @property
    def arg_constraints(self) -> Any:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).pow(2) / 12

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Uniform, ("low", "high"), batch_shape, _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        rand = torch.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + rand * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        inside = self.low.le(value) & self.high.gt(value)
        return torch.log(inside.type_as(self.low)) - torch.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return torch.log(self.high - self.low)


# %% [markdown]
# ## Rates
#
# The exponential distribution and the gamma family over it. The draws of chi² and beta are those of gamma and Dirichlet.

# %%
#| into: distributions/exponential.py
"""The exponential distribution (twin of `torch/distributions/exponential.py`)."""

# %%
#| into: distributions/exponential.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.exp_family import ExponentialFamily
from readtorch.distributions.utils import broadcast_all


# %%
#| into: distributions/exponential.py
#| upstream: torch/distributions/exponential.py#Exponential
class Exponential(ExponentialFamily):
    """Waiting times, `rate` events in one unit of time."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return torch.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Exponential, ("rate",), batch_shape, _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return 1 - torch.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -torch.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - torch.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -torch.log(-x)


# %%
#| into: distributions/gamma.py
"""The gamma distribution (twin of `torch/distributions/gamma.py`)."""

# %%
#| into: distributions/gamma.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.exp_family import ExponentialFamily
from readtorch.distributions.utils import broadcast_all


# %%
#| into: distributions/gamma.py
#| upstream: torch/distributions/gamma.py#Gamma
class Gamma(ExponentialFamily):
    """The sum of `concentration` waiting times, where that is a whole number."""

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Gamma, ("concentration", "rate"), batch_shape, _instance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = torch._standard_gamma(self.concentration.expand(shape)) / self.rate
        value.detach().clamp_(min=torch.finfo(value.dtype).tiny)  # not recorded: the gradient passes a value of zero
        return value

    def log_prob(self, value: Any) -> Tensor:
        value = torch.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        value = self._checked(value)
        a, rate = self.concentration, self.rate
        return torch.xlogy(a, rate) + torch.xlogy(a - 1, value) - rate * value - torch.lgamma(a)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - torch.log(self.rate) + torch.lgamma(a) + (1.0 - a) * torch.digamma(a)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.lgamma(x + 1) + (x + 1) * torch.log(-y.reciprocal())


# %%
#| into: distributions/chi2.py
"""The chi² distribution (twin of `torch/distributions/chi2.py`)."""

# %%
#| into: distributions/chi2.py
#| imports
from __future__ import annotations

from typing import Any, ClassVar

from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.gamma import Gamma


# %%
#| into: distributions/chi2.py
#| upstream: torch/distributions/chi2.py#Chi2
class Chi2(Gamma):
    """The sum of `df` squares of normal numbers."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


# %%
#| into: distributions/dirichlet.py
"""The Dirichlet distribution (twin of `torch/distributions/dirichlet.py`)."""

# %%
#| into: distributions/dirichlet.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd import Function
from readtorch.autograd.function import once_differentiable
from readtorch.distributions import constraints
from readtorch.distributions.exp_family import ExponentialFamily

# %% [markdown]
# The gradient of a Dirichlet draw is taken coordinate by coordinate, and what one coordinate gains the others lose in proportion: the last line of `backward`.


# %%
#| into: distributions/dirichlet.py
#| upstream: torch/distributions/dirichlet.py#_Dirichlet
class _Dirichlet(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        x = torch._sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        x, concentration = ctx.saved_tensors
        slope = torch._dirichlet_grad(x, concentration, concentration.sum(-1, True).expand_as(concentration))
        return slope * (grad_output - (x * grad_output).sum(-1, True))


# %%
#| into: distributions/dirichlet.py
#| upstream: torch/distributions/dirichlet.py#Dirichlet
class Dirichlet(ExponentialFamily):
    """Probabilities along the last dimension, drawn around `concentration` over its sum."""

    arg_constraints: ClassVar[Any] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        nowhere = (self.concentration < 1).all(dim=-1)
        corner = torch.nn.functional.one_hot(mode.nan_to_num().argmax(dim=-1), self.concentration.shape[-1])
        return torch.where(nowhere.unsqueeze(-1), corner.to(mode), mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Dirichlet, ("concentration",), batch_shape, _instance, event=1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return _Dirichlet.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        a = self.concentration
        return torch.xlogy(a - 1.0, value).sum(-1) + torch.lgamma(a.sum(-1)) - torch.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        k, a = self.concentration.size(-1), self.concentration
        total = a.sum(-1)
        return (
            torch.lgamma(a).sum(-1)
            - torch.lgamma(total)
            - (k - total) * torch.digamma(total)
            - ((a - 1.0) * torch.digamma(a)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - torch.lgamma(x.sum(-1))


# %%
#| into: distributions/beta.py
"""The beta distribution (twin of `torch/distributions/beta.py`)."""

# %%
#| into: distributions/beta.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.dirichlet import Dirichlet
from readtorch.distributions.exp_family import ExponentialFamily
from readtorch.distributions.utils import broadcast_all


# %%
#| into: distributions/beta.py
#| upstream: torch/distributions/beta.py#Beta
class Beta(ExponentialFamily):
    """The first coordinate of a Dirichlet distribution of two."""

    arg_constraints: ClassVar[Any] = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        pair = torch.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """The weight of 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The weight of 0."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self.mean * (1 - self.mean) / (self.concentration1 + self.concentration0 + 1)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(Beta, (), batch_shape, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return self._dirichlet.log_prob(torch.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()


# %%
#| claim: a gamma draw has a gradient by its shape: where the quantile stays, the draw moves
def _(torch):
    torch.manual_seed(0)
    shape = torch.tensor([0.5, 2.0, 30.0], dtype=torch.float64, requires_grad=True)
    draws = torch.distributions.Gamma(shape, torch.ones_like(shape)).rsample((20000,))
    (slope,) = torch.autograd.grad(draws.mean(0).sum(), shape)
    assert torch.allclose(slope, torch.ones_like(slope), atol=0.05)  # the mean of a gamma distribution is its shape
