# Tangled from chapters/a4_distributions/5_composed.py — edit there, or here and run `readtorch sync`.
"""A Bernoulli draw that can be differentiated (twin of `torch/distributions/relaxed_bernoulli.py`)."""

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
