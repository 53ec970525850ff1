# Tangled from chapters/a4_distributions/6_kl.py — edit there, or here and run `readtorch sync`.
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
