# Tangled from chapters/a4_distributions/5_composed.py — edit there, or here and run `readtorch sync`.
"""The Gumbel distribution (twin of `torch/distributions/gumbel.py`)."""

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
