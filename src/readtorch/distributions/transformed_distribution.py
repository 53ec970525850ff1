# Tangled from chapters/a4_distributions/5_composed.py — edit there, or here and run `readtorch sync`.
"""A distribution sent through transforms (twin of `torch/distributions/transformed_distribution.py`)."""

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
