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
# # Composed distributions
#
# `Independent` takes batch dimensions into the event: a diagonal normal of three dimensions is three normals whose log probabilities are added. `TransformedDistribution` sends a base distribution through transforms. Most of this part is one of the two with a name.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: distributions/independent.py
"""Batch dimensions taken into the event (twin of `torch/distributions/independent.py`)."""

# %%
#| into: distributions/independent.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import _sum_rightmost


# %%
#| into: distributions/independent.py
#| upstream: torch/distributions/independent.py#Independent
class Independent(Distribution):
    """`base_distribution` with its last `reinterpreted_batch_ndims` batch dimensions as part of the event. ValueError for more than it has."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        left = len(batch) - reinterpreted_batch_ndims
        if left < 0:
            raise ValueError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), got {reinterpreted_batch_ndims} for {batch}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(batch[:left], batch[left:] + base_distribution.event_shape, validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # asked of another object, where the base has a plain attribute
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]  # asked of another object, where the base has a plain attribute
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(Independent, (), batch_shape, _instance)
        inner = self._event_shape[: self.reinterpreted_batch_ndims]
        new.base_dist = self.base_dist.expand(Size(batch_shape) + inner)
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


# %%
#| into: distributions/transformed_distribution.py
"""A distribution sent through transforms (twin of `torch/distributions/transformed_distribution.py`)."""

# %%
#| into: distributions/transformed_distribution.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.independent import Independent
from readtorch.distributions.transforms import ComposeTransform, Transform, _stretch_along
from readtorch.distributions.utils import _sum_rightmost

# %% [markdown]
# The one subtlety is the shape of an event. A transform of vectors makes vectors out of a batch of numbers, so the base is expanded to what the transforms give, and as many of its batch dimensions are taken into the event as the transforms ask for.


# %%
#| into: distributions/transformed_distribution.py
#| upstream: torch/distributions/transformed_distribution.py#TransformedDistribution
class TransformedDistribution(Distribution):
    """What `transforms`, one after the other, make of a draw of `base_distribution`.

    Raises ValueError for something that is no transform, or for a base whose shape the first one does not take.
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(part, Transform) for part in self.transforms):
            raise ValueError(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
        shape = base_distribution.batch_shape + base_distribution.event_shape
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}."
            )
        after = whole.forward_shape(shape)
        wanted = whole.inverse_shape(after)
        if shape != wanted:
            lead = wanted[: len(wanted) - len(base_distribution.event_shape)]
            base_distribution = base_distribution.expand(lead)
        taken = whole.domain.event_dim - len(base_distribution.event_shape)
        if taken > 0:
            base_distribution = Independent(base_distribution, taken)
        self.base_dist = base_distribution
        event_dim = whole.codomain.event_dim + max(len(base_distribution.event_shape) - whole.domain.event_dim, 0)
        cut = len(after) - event_dim
        super().__init__(after[:cut], after[cut:], validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # asked of another object, where the base has a plain attribute
        return self.base_dist.has_rsample

    @constraints.dependent_property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        more = len(self._event_shape) - codomain.event_dim
        return constraints.independent(codomain, more) if more > 0 else codomain

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(TransformedDistribution, (), batch_shape, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape(Size(batch_shape) + self._event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with torch.no_grad():
            return self._forth(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._forth(self.base_dist.rsample(sample_shape))

    def _forth(self, x: Tensor) -> Tensor:
        return reduce(lambda point, transform: transform(point), self.transforms, x)

    def _back(self, y: Tensor) -> list[Tensor]:
        """The point of the base that y comes from, what each transform makes of it, and y."""
        points = accumulate(reversed(self.transforms), lambda point, transform: transform.inv(point), initial=y)
        return list(points)[::-1]

    def log_prob(self, value: Tensor) -> Tensor:
        points = self._back(self._checked(value))
        gained = sum(transform.codomain.event_dim - transform.domain.event_dim for transform in self.transforms)
        event_dim = len(self._event_shape) - gained
        stretch = _stretch_along(self.transforms, points, event_dim)
        return _sum_rightmost(self.base_dist.log_prob(points[0]), event_dim - len(self.base_dist.event_shape)) - stretch

    def _monotone(self, value: Tensor) -> Tensor:
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        x = self._back(value)[0]
        if self._validate_args:
            self.base_dist._validate_sample(x)
        return self._monotone(self.base_dist.cdf(x))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forth(self.base_dist.icdf(self._monotone(value)))


# %% [markdown]
# ## With names
#
# The lognormal is the exponential of a normal number, the half-normal its absolute value, the Gumbel twice the logarithm of a uniform one, and so on.

# %%
#| into: distributions/log_normal.py
"""The lognormal distribution (twin of `torch/distributions/log_normal.py`)."""

# %%
#| into: distributions/log_normal.py
#| imports
from __future__ import annotations

from typing import Any, ClassVar

from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.normal import Normal
from readtorch.distributions.transformed_distribution import TransformedDistribution
from readtorch.distributions.transforms import ExpTransform


# %%
#| into: distributions/log_normal.py
#| upstream: torch/distributions/log_normal.py#LogNormal
class LogNormal(TransformedDistribution):
    """Numbers whose logarithms are normal."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogNormal, _instance))

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


# %%
#| into: distributions/half_normal.py
"""The half-normal distribution (twin of `torch/distributions/half_normal.py`)."""

# %%
#| into: distributions/half_normal.py
#| imports
from __future__ import annotations

import math
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.normal import Normal
from readtorch.distributions.transformed_distribution import TransformedDistribution
from readtorch.distributions.transforms import AbsTransform


# %%
#| into: distributions/half_normal.py
#| upstream: torch/distributions/half_normal.py#HalfNormal
class HalfNormal(TransformedDistribution):
    """The absolute value of a normal number around zero."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Normal

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfNormal, _instance))

    @property
    def scale(self) -> Tensor:
        """The standard deviation before the sign was taken off."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return torch.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return torch.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


# %%
#| into: distributions/gumbel.py
"""The Gumbel distribution (twin of `torch/distributions/gumbel.py`)."""

# %%
#| into: distributions/gumbel.py
#| imports
from __future__ import annotations

import math
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.transformed_distribution import TransformedDistribution
from readtorch.distributions.transforms import AffineTransform, ExpTransform
from readtorch.distributions.uniform import Uniform
from readtorch.distributions.utils import broadcast_all, euler_constant


# %%
#| into: distributions/gumbel.py
#| upstream: torch/distributions/gumbel.py#Gumbel
class Gumbel(TransformedDistribution):
    """The largest of many: -log(-log u), scaled and moved."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = torch.finfo(self.loc.dtype)
        zeros, log = torch.zeros_like(self.loc), ExpTransform().inv
        between = Uniform(zeros + limits.tiny, zeros + (1 - limits.eps), validate_args=validate_args)
        steps = [log, AffineTransform(0, zeros - 1), log, AffineTransform(self.loc, -self.scale)]
        super().__init__(between, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return super().expand(batch_shape, new)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


# %%
#| into: distributions/pareto.py
"""The Pareto distribution (twin of `torch/distributions/pareto.py`)."""

# %%
#| into: distributions/pareto.py
#| imports
from __future__ import annotations

from typing import Any, ClassVar

from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.exponential import Exponential
from readtorch.distributions.transformed_distribution import TransformedDistribution
from readtorch.distributions.transforms import AffineTransform, ExpTransform
from readtorch.distributions.utils import broadcast_all


# %%
#| into: distributions/pareto.py
#| upstream: torch/distributions/pareto.py#Pareto
class Pareto(TransformedDistribution):
    """`scale` times the exponential of a waiting time."""

    arg_constraints: ClassVar[Any] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Pareto, _instance)
        new.scale, new.alpha = self.scale.expand(batch_shape), self.alpha.expand(batch_shape)
        return super().expand(batch_shape, new)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


# %%
#| into: distributions/weibull.py
"""The Weibull distribution (twin of `torch/distributions/weibull.py`)."""

# %%
#| into: distributions/weibull.py
#| imports
from __future__ import annotations

from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.exponential import Exponential
from readtorch.distributions.transformed_distribution import TransformedDistribution
from readtorch.distributions.transforms import AffineTransform, PowerTransform
from readtorch.distributions.utils import broadcast_all, euler_constant


# %%
#| into: distributions/weibull.py
#| upstream: torch/distributions/weibull.py#Weibull
class Weibull(TransformedDistribution):
    """A power of a waiting time."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = 1 / self.concentration
        super().__init__(
            Exponential(torch.ones_like(self.scale), validate_args),
            [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)],
            validate_args=validate_args,
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Weibull, _instance)
        for name in ("scale", "concentration", "concentration_reciprocal"):
            setattr(new, name, getattr(self, name).expand(batch_shape))
        return super().expand(batch_shape, new)

    @property
    def mean(self) -> Tensor:
        return self.scale * torch.exp(torch.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        second = torch.exp(torch.lgamma(1 + 2 * self.concentration_reciprocal))
        first = torch.exp(2 * torch.lgamma(1 + self.concentration_reciprocal))
        return self.scale.pow(2) * (second - first)

    def entropy(self) -> Tensor:
        return (
            euler_constant * (1 - self.concentration_reciprocal)
            + torch.log(self.scale * self.concentration_reciprocal)
            + 1
        )


# %% [markdown]
# ### Relaxed
#
# A category cannot move a little; a softmax can. Gumbel noise on the logits, then the largest, is a draw from the categorical; with softmax at a `temperature` in place of the largest, it is a draw that autograd follows (Jang et al., Maddison et al. 2016). At temperature zero the two meet.

# %%
#| into: distributions/relaxed_bernoulli.py
"""A Bernoulli draw that can be differentiated (twin of `torch/distributions/relaxed_bernoulli.py`)."""

# %%
#| into: distributions/relaxed_bernoulli.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.transformed_distribution import TransformedDistribution
from readtorch.distributions.transforms import SigmoidTransform
from readtorch.distributions.utils import _SuccessProbability, broadcast_all, probs_to_logits


# %%
#| into: distributions/relaxed_bernoulli.py
#| upstream: torch/distributions/relaxed_bernoulli.py#LogitRelaxedBernoulli
class LogitRelaxedBernoulli(_SuccessProbability, Distribution):
    """The log-odds of a relaxed Bernoulli draw."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(LogitRelaxedBernoulli, ("probs", "logits", "_param"), batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = probs_to_logits(torch.rand(shape, dtype=self.probs.dtype, device=self.probs.device), is_binary=True)
        return (noise + probs_to_logits(self.probs, is_binary=True)) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        away = logits - self.temperature * value
        return torch.log(self.temperature) + away - 2 * torch.log1p(torch.exp(away))


# %%
#| into: distributions/relaxed_bernoulli.py
#| upstream: torch/distributions/relaxed_bernoulli.py#RelaxedBernoulli
class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1, the nearer to them the lower the temperature."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self, temperature: Tensor, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))

    @property
    def temperature(self) -> Tensor:
        """How soft."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of 1."""
        return self.base_dist.probs


# %%
#| into: distributions/relaxed_categorical.py
"""A categorical draw that can be differentiated (twin of `torch/distributions/relaxed_categorical.py`)."""

# %%
#| into: distributions/relaxed_categorical.py
#| imports
from __future__ import annotations


import math
from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.categorical import _Rows
from readtorch.distributions.transformed_distribution import TransformedDistribution
from readtorch.distributions.transforms import ExpTransform
from readtorch.distributions.utils import broadcast_all, clamp_probs


# %%
#| into: distributions/relaxed_categorical.py
#| upstream: torch/distributions/relaxed_categorical.py#ExpRelaxedCategorical
class ExpRelaxedCategorical(_Rows):
    """The logarithms of a relaxed one-hot draw."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)
        self.temperature = temperature

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(ExpRelaxedCategorical, (), batch_shape, _instance)
        new.temperature = self.temperature
        new._categorical = self._categorical.expand(batch_shape)
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        uniforms = clamp_probs(torch.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        gumbel = -torch.log(-torch.log(uniforms))
        return torch.log_softmax((self.logits + gumbel) / self.temperature, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        temperature = torch.as_tensor(self.temperature, dtype=logits.dtype, device=logits.device)
        (n,) = self._event_shape
        constant = math.lgamma(n) + (n - 1) * torch.log(temperature)
        return torch.log_softmax(logits - temperature * value, -1).sum(-1) + constant


# %%
#| into: distributions/relaxed_categorical.py
#| upstream: torch/distributions/relaxed_categorical.py#RelaxedOneHotCategorical
class RelaxedOneHotCategorical(TransformedDistribution):
    """Probabilities near a corner, the nearer the lower the temperature."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedOneHotCategorical, _instance))

    @property
    def temperature(self) -> Tensor:
        """How soft."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities; they sum to one."""
        return self.base_dist.probs
