# Tangled from chapters/a4_distributions/3_discrete.py — edit there, or here and run `readtorch sync`.
"""Categories as rows with a single one (twin of `torch/distributions/one_hot_categorical.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.categorical import _Rows


class OneHotCategorical(_Rows):
    """A categorical whose draws are one-hot rows."""

    arg_constraints: ClassVar[Any] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return torch.nn.functional.one_hot(self.probs.argmax(dim=-1), self._event_shape[-1]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(OneHotCategorical, (), batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample(Size(sample_shape))
        return torch.nn.functional.one_hot(drawn, self._event_shape[-1]).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(self._checked(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._numbered(torch.eye(self._event_shape[0]).to(self._param), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws with the gradient of the probabilities (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())
