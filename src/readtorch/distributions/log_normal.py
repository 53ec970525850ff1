# Tangled from chapters/a4_distributions/5_composed.py — edit there, or here and run `readtorch sync`.
"""The lognormal distribution (twin of `torch/distributions/log_normal.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.normal import Normal
from readtorch.distributions.transformed_distribution import TransformedDistribution
from readtorch.distributions.transforms import ExpTransform


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
