# Tangled from chapters/a4_distributions/2_continuous.py — edit there, or here and run `readtorch sync`.
"""The Laplace distribution (twin of `torch/distributions/laplace.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.distribution import Distribution
from readtorch.distributions.utils import broadcast_all


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
