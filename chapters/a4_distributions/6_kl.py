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
# # Divergences
#
# $\mathrm{KL}(p\,\|\,q)$ has a closed form for many pairs and no general formula. Upstream keeps a table of pairs of classes, filled by a decorator, and looks up the *closest* pair of base classes: a subclass of `Normal` needs no entry of its own.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: distributions/kl.py
"""Kullback–Leibler divergences by pairs of classes (twin of `torch/distributions/kl.py`)."""

# %%
#| into: distributions/kl.py
#| imports
from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions.bernoulli import Bernoulli
from readtorch.distributions.beta import Beta
from readtorch.distributions.binomial import Binomial
from readtorch.distributions.categorical import Categorical
from readtorch.distributions.cauchy import Cauchy
from readtorch.distributions.dirichlet import Dirichlet
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.exponential import Exponential
from readtorch.distributions.gamma import Gamma
from readtorch.distributions.geometric import Geometric
from readtorch.distributions.half_normal import HalfNormal
from readtorch.distributions.independent import Independent
from readtorch.distributions.laplace import Laplace
from readtorch.distributions.log_normal import LogNormal
from readtorch.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis
from readtorch.distributions.normal import Normal
from readtorch.distributions.one_hot_categorical import OneHotCategorical
from readtorch.distributions.pareto import Pareto
from readtorch.distributions.poisson import Poisson
from readtorch.distributions.transformed_distribution import TransformedDistribution
from readtorch.distributions.uniform import Uniform
from readtorch.distributions.utils import _sum_rightmost

# %%
#| into: distributions/kl.py
#| upstream: torch/distributions/kl.py#register_kl
_KL_REGISTRY: dict[tuple[type, type], Callable[..., Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the divergence of a `type_p` from a `type_q`. TypeError for other classes than distributions."""
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorate


# %% [markdown]
# Closest by the left class, or by the right one? Where the two disagree, nothing says which is meant: the left wins, with a warning.


# %%
#| into: distributions/kl.py
#| upstream: torch/distributions/kl.py#_dispatch_kl
def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The entry of the closest pair of classes, or NotImplemented."""
    fitting = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not fitting:
        return NotImplemented

    def distance(pair: tuple[type, type]) -> tuple[int, int]:
        return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])

    left = min(fitting, key=distance)
    right = min(fitting, key=lambda pair: distance(pair)[::-1])
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """E_p[log p - log q], of the batch shape. NotImplementedError for a pair without an entry."""
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _dispatch_kl(*pair)
    function = _KL_MEMOIZE[pair]
    if function is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return function(p, q)


# %% [markdown]
# ## The table
#
# Pairs of one family first.


# %%
#| into: distributions/kl.py
#| upstream: torch/distributions/kl.py#_kl_normal_normal
@register_kl(Normal, Normal)
def _kl_normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    softplus = torch.nn.functional.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    one = one.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    zero = zero.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)
    return one + zero


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    each = p.probs * (p.logits - q.logits)
    never = (q.probs == 0).expand_as(each)
    return each.masked_fill(never, math.inf).masked_fill((p.probs == 0).expand_as(each), 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    each = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return each.masked_fill(p.total_count > q.total_count, math.inf)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


# %%
#| into: distributions/kl.py
#| upstream: torch/distributions/kl.py#_kl_gamma_gamma
@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + torch.lgamma(b)
        - torch.lgamma(a)
        + (a - b) * torch.digamma(a)
        + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Beta, q: Beta) -> Tensor:
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    return (
        total.lgamma()
        - b.sum(-1).lgamma()
        - (a.lgamma() - b.lgamma()).sum(-1)
        + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)
    )


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * torch.exp(-away / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = p.scale / q.scale
    alpha = q.alpha / p.alpha
    return (q.alpha * ratio.log() - alpha.log() + alpha - 1).masked_fill(p.scale < q.scale, math.inf)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    widths = ((q.high - q.low) / (p.high - p.low)).log()
    return widths.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


# %%
#| into: distributions/kl.py
#| upstream: torch/distributions/kl.py#_kl_multivariatenormal_multivariatenormal
@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    ours, theirs = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    half_log_dets = theirs.diagonal(dim1=-2, dim2=-1).log().sum(-1) - ours.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    shape = torch.broadcast_shapes(ours.shape, theirs.shape)
    inner = torch.linalg.solve_triangular(theirs.expand(shape), ours.expand(shape), upper=False)
    trace = inner.pow(2).sum((-2, -1))
    return half_log_dets + 0.5 * (trace + _batch_mahalanobis(theirs, q.loc - p.loc) - p.event_shape[0])


# %% [markdown]
# Wrapped in the same way, two distributions are as far apart as what is wrapped: the same transforms leave the divergence alone, and independent events add theirs.


# %%
#| into: distributions/kl.py
#| upstream: torch/distributions/kl.py#_kl_transformed_transformed
@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(LogNormal, LogNormal)
def _kl_lognormal_lognormal(p: LogNormal, q: LogNormal) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# %% [markdown]
# Two families, as far as they are in use: a bounded one measured by an unbounded one, and back, which is infinite.


# %%
#| into: distributions/kl.py
#| upstream: torch/distributions/kl.py#_kl_uniform_normal
@register_kl(Uniform, Normal)
def _kl_uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    spread = (width / q.scale).pow(2) / 12 + ((p.high + p.low - 2 * q.loc) / (2 * q.scale)).pow(2)
    return (math.sqrt(math.pi * 2) * q.scale / width).log() + 0.5 * spread


@register_kl(Laplace, Normal)
def _kl_laplace_normal(p: Laplace, q: Normal) -> Tensor:
    ratio = p.scale.pow(2) / q.scale.pow(2)
    return (
        -0.5 * (2 * ratio / math.pi).log()
        + ratio
        + 0.5 * (p.loc.pow(2) + q.loc.pow(2)) / q.scale.pow(2)
        - p.loc * q.loc / q.scale.pow(2)
        - 1
    )


@register_kl(Exponential, Normal)
def _kl_exponential_normal(p: Exponential, q: Normal) -> Tensor:
    variance = q.scale.pow(2)
    rate = p.rate
    first = 0.5 * torch.log(rate.pow(2) * variance * 2 * math.pi) - 1
    return first + rate.pow(-2) / variance - q.loc / (rate * variance) + 0.5 * q.loc.pow(2) / variance


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    ratio, a = q.rate / p.rate, q.concentration
    return -a * ratio.log() + ratio + a.lgamma() + a * 0.57721566490153286060 - (1 + 0.57721566490153286060)


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    a = p.concentration
    return -p.entropy() - q.rate.log() + q.rate * a / p.rate


@register_kl(Normal, Uniform)
@register_kl(Normal, Exponential)
@register_kl(Normal, Gamma)
@register_kl(Normal, Beta)
@register_kl(Laplace, Uniform)
@register_kl(Laplace, Exponential)
@register_kl(Exponential, Uniform)
@register_kl(Gamma, Uniform)
@register_kl(Poisson, Bernoulli)
@register_kl(Poisson, Binomial)
def _kl_infinity(p: Any, q: Any) -> Tensor:
    return torch.full(torch.broadcast_shapes(p.batch_shape, q.batch_shape), math.inf)


# %% [markdown]
# ## The namespace

# %%
#| into: __init__.py
_MODULES.append("distributions")

# %%
#| into: distributions/__init__.py
"""Probability distributions (twin of `torch/distributions/__init__.py`)."""

from readtorch.distributions import constraints as constraints
from readtorch.distributions import transforms as transforms
from readtorch.distributions.bernoulli import Bernoulli
from readtorch.distributions.beta import Beta
from readtorch.distributions.binomial import Binomial
from readtorch.distributions.categorical import Categorical
from readtorch.distributions.cauchy import Cauchy
from readtorch.distributions.chi2 import Chi2
from readtorch.distributions.constraint_registry import biject_to, transform_to
from readtorch.distributions.dirichlet import Dirichlet
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.exp_family import ExponentialFamily
from readtorch.distributions.exponential import Exponential
from readtorch.distributions.gamma import Gamma
from readtorch.distributions.geometric import Geometric
from readtorch.distributions.gumbel import Gumbel
from readtorch.distributions.half_normal import HalfNormal
from readtorch.distributions.independent import Independent
from readtorch.distributions.kl import kl_divergence, register_kl
from readtorch.distributions.laplace import Laplace
from readtorch.distributions.log_normal import LogNormal
from readtorch.distributions.mixture_same_family import MixtureSameFamily
from readtorch.distributions.multinomial import Multinomial
from readtorch.distributions.multivariate_normal import MultivariateNormal
from readtorch.distributions.negative_binomial import NegativeBinomial
from readtorch.distributions.normal import Normal
from readtorch.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from readtorch.distributions.pareto import Pareto
from readtorch.distributions.poisson import Poisson
from readtorch.distributions.relaxed_bernoulli import RelaxedBernoulli
from readtorch.distributions.relaxed_categorical import RelaxedOneHotCategorical
from readtorch.distributions.student_t import StudentT
from readtorch.distributions.transformed_distribution import TransformedDistribution
from readtorch.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from readtorch.distributions.uniform import Uniform
from readtorch.distributions.weibull import Weibull

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "Laplace",
    "LogNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "Weibull",
    "biject_to",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
]


# %%
#| claim: KL of two normals is asked of the closest pair of classes, so a subclass needs no entry
def _(torch):
    class Noise(torch.distributions.Normal):
        pass

    p, q = Noise(0.0, 1.0), torch.distributions.Normal(1.0, 2.0)
    x = p.sample((50000,))
    exact = torch.distributions.kl_divergence(p, q)
    assert abs((p.log_prob(x) - q.log_prob(x)).mean() - exact) < 0.02


# %% [markdown]
# ## What upstream does more
#
# * Ten further distributions: `ContinuousBernoulli`, `FisherSnedecor`, `GeneralizedPareto`, `HalfCauchy`, `InverseGamma`, `Kumaraswamy`, `LKJCholesky`, `LogisticNormal`, `LowRankMultivariateNormal`, `VonMises`, `Wishart`; transforms of correlation matrices, `CatTransform`, `StackTransform`.
# * The divergences of most pairs of two families.
# * Draws on a GPU of gamma, Dirichlet and binomial, by kernels of their own.
# * The distribution function of gamma and chi², and those that rest on it.
# * The gradients of gamma and Dirichlet draws by polynomial approximations, good to about three digits and quicker than the series here.
