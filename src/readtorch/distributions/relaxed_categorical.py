# Tangled from chapters/a4_distributions/5_composed.py — edit there, or here and run `readtorch sync`.
"""A categorical draw that can be differentiated (twin of `torch/distributions/relaxed_categorical.py`)."""

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
