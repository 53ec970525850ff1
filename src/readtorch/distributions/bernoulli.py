# Tangled from chapters/a4_distributions/3_discrete.py — edit there, or here and run `readtorch sync`.
"""The Bernoulli distribution (twin of `torch/distributions/bernoulli.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.exp_family import ExponentialFamily
from readtorch.distributions.utils import _SuccessProbability, broadcast_all
from readtorch.nn.functional import binary_cross_entropy_with_logits


class Bernoulli(_SuccessProbability, ExponentialFamily):
    """1 with probability `probs`, which may be given as log-odds `logits`. ValueError unless one of the two is."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likelier = (self.probs > 0.5).to(self.probs)
        return torch.where(self.probs == 0.5, torch.nan, likelier)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Bernoulli, ("probs", "logits", "_param"), batch_shape, _instance)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, self._checked(value))
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._numbered(self._param.new_tensor([0, 1]), expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (torch.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return torch.log1p(torch.exp(x))
