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
# # Of several variables
#
# A multivariate normal is given by its covariance, by the inverse, or by a Cholesky factor, and works with the factor: a draw is `loc + L @ noise`, and $\log\det$ and the Mahalanobis distance are a sum of logarithms and a triangular solve.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: distributions/multivariate_normal.py
"""The multivariate normal distribution (twin of `torch/distributions/multivariate_normal.py`)."""

# %%
#| into: distributions/multivariate_normal.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import _standard_normal, lazy_property


# %%
#| into: distributions/multivariate_normal.py
#| upstream: torch/distributions/multivariate_normal.py#_batch_mahalanobis
def _batch_mv(matrix: Tensor, vector: Tensor) -> Tensor:
    """Each matrix by each vector."""
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(factor: Tensor, away: Tensor) -> Tensor:
    """awayᵀ (L Lᵀ)⁻¹ away, for factors L and vectors of broadcast batches."""
    shape = torch.broadcast_shapes(factor.shape[:-1], away.shape)
    solved = torch.linalg.solve_triangular(
        factor.expand(shape + shape[-1:]), away.expand(shape).unsqueeze(-1), upper=False
    )
    return solved.squeeze(-1).pow(2).sum(-1)


def _precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse, without the inverse: that of the matrix flipped in both directions, flipped back, transposed and solved."""
    flipped = torch.linalg.cholesky(torch.flip(precision, (-2, -1)))
    upper = torch.transpose(torch.flip(flipped, (-2, -1)), -2, -1)
    identity = torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.linalg.solve_triangular(upper, identity.expand_as(upper), upper=False)


# %%
#| into: distributions/multivariate_normal.py
#| upstream: torch/distributions/multivariate_normal.py#MultivariateNormal
class MultivariateNormal(Distribution):
    """Normal vectors around `loc`. ValueError unless exactly one of the three matrices is given."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        matrices = {name: matrix for name, matrix in given.items() if matrix is not None}
        if len(matrices) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = matrices.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch_shape, -1))
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return torch.matmul(factor, factor.mT).expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Its inverse."""
        inverse = torch.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand(self._batch_shape + self._event_shape + self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(MultivariateNormal, ("loc",), batch_shape, _instance, event=1)
        for name in ("scale_tril", "covariance_matrix", "precision_matrix"):
            if name in self.__dict__:
                setattr(
                    new, name, self.__dict__[name].expand(Size(batch_shape) + self._event_shape + self._event_shape)
                )
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, self._checked(value) - self.loc)
        return -0.5 * distance - self._log_volume()

    def entropy(self) -> Tensor:
        return (self._log_volume() + 0.5 * self._event_shape[0]).expand(self._batch_shape)

    def _log_volume(self) -> Tensor:
        """Half the logarithm of |2πΣ|: that of the factor's diagonal, whose product is the root of the determinant, and √2π for each dimension."""
        widths = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1)
        return (math.sqrt(2 * math.pi) * widths).log().sum(-1)


# %%
#| into: distributions/student_t.py
"""Student's t distribution (twin of `torch/distributions/studentT.py`)."""

# %%
#| into: distributions/student_t.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.chi2 import Chi2
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import _standard_normal, broadcast_all


# %%
#| into: distributions/student_t.py
#| upstream: torch/distributions/studentT.py#StudentT
class StudentT(Distribution):
    """A normal number over the root of a chi² number of `df` degrees of freedom over `df`."""

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return torch.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        spread = self.scale.pow(2) * self.df / (self.df - 2)
        return torch.where(self.df > 2, spread, torch.where(self.df > 1, math.inf, math.nan))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(StudentT, ("df", "loc", "scale"), batch_shape, _instance)
        new._chi2 = self._chi2.expand(batch_shape)
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * (noise * torch.rsqrt(self._chi2.rsample(sample_shape) / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        y, df = (self._checked(value) - self.loc) / self.scale, self.df
        normalizer = (
            self.scale.log()
            + 0.5 * df.log()
            + 0.5 * math.log(math.pi)
            + torch.lgamma(0.5 * df)
            - torch.lgamma(0.5 * (df + 1.0))
        )
        return -0.5 * (df + 1.0) * torch.log1p(y**2.0 / df) - normalizer

    def entropy(self) -> Tensor:
        df = self.df
        log_beta = torch.lgamma(0.5 * df) + math.lgamma(0.5) - torch.lgamma(0.5 * (df + 1))
        return (
            self.scale.log()
            + 0.5 * (df + 1) * (torch.digamma(0.5 * (df + 1)) - torch.digamma(0.5 * df))
            + 0.5 * df.log()
            + log_beta
        )


# %%
#| into: distributions/mixture_same_family.py
"""Mixtures (twin of `torch/distributions/mixture_same_family.py`)."""

# %%
#| into: distributions/mixture_same_family.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.categorical import Categorical
from readtorch.distributions.distribution import Distribution


# %%
#| into: distributions/mixture_same_family.py
#| upstream: torch/distributions/mixture_same_family.py#MixtureSameFamily
class MixtureSameFamily(Distribution):
    """Draw a component, then from it. The components are the last batch dimension of `component_distribution`.

    Raises ValueError where the two do not fit each other.
    """

    arg_constraints: ClassVar[Any] = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("The Mixture distribution needs to be an instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        batch_shape = component_distribution.batch_shape[:-1]
        for ours, theirs in zip(reversed(mixture_distribution.batch_shape), reversed(batch_shape), strict=False):
            if ours != 1 and theirs != 1 and ours != theirs:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is not compatible with "
                    f"`component_distribution.batch_shape` ({component_distribution.batch_shape})"
                )
        k = mixture_distribution.logits.shape[-1]
        if component_distribution.batch_shape[-1] != k:
            raise ValueError(
                f"`mixture_distribution component` ({k}) does not equal `component_distribution.batch_shape[-1]` "
                f"({component_distribution.batch_shape[-1]})"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component, self._event_ndims = k, len(component_distribution.event_shape)
        super().__init__(batch_shape, component_distribution.event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        return self._component_distribution.support

    @property
    def mixture_distribution(self) -> Categorical:
        """Of which component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """All components."""
        return self._component_distribution

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return torch.sum(self._weights() * self._component_distribution.mean, dim=-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        weights, component = self._weights(), self._component_distribution
        within = torch.sum(weights * component.variance, dim=-1 - self._event_ndims)
        between = torch.sum(weights * (component.mean - self._pad(self.mean)).pow(2.0), dim=-1 - self._event_ndims)
        return within + between

    def cdf(self, value: Tensor) -> Tensor:
        return torch.sum(self._component_distribution.cdf(self._pad(value)) * self._mixture_distribution.probs, dim=-1)

    def log_prob(self, value: Tensor) -> Tensor:
        each = self._component_distribution.log_prob(self._pad(self._checked(value)))
        return torch.logsumexp(each + torch.log_softmax(self._mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with torch.no_grad():
            lead = len(sample_shape) + len(self._batch_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            index = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return torch.gather(drawn, lead, index).squeeze(lead)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(MixtureSameFamily, (), batch_shape, _instance)
        new._component_distribution = self._component_distribution.expand((*Size(batch_shape), self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return new

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
