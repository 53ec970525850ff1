# Tangled from chapters/a4_distributions/2_continuous.py — edit there, or here and run `readtorch sync`.
"""The gamma distribution (twin of `torch/distributions/gamma.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.exp_family import ExponentialFamily
from readtorch.distributions.utils import broadcast_all


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
