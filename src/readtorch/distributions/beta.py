# Tangled from chapters/a4_distributions/2_continuous.py — edit there, or here and run `readtorch sync`.
"""The beta distribution (twin of `torch/distributions/beta.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.dirichlet import Dirichlet
from readtorch.distributions.exp_family import ExponentialFamily
from readtorch.distributions.utils import broadcast_all


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
