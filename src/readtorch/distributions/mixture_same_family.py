# Tangled from chapters/a4_distributions/5b_several_variables.py — edit there, or here and run `readtorch sync`.
"""Mixtures (twin of `torch/distributions/mixture_same_family.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Size
from readtorch._tensor import Tensor
from readtorch.distributions import constraints
from readtorch.distributions.categorical import Categorical
from readtorch.distributions.distribution import Distribution


class MixtureSameFamily(Distribution):
    """Draw a component, then from it. The components are the last batch dimension of `component_distribution`.

    Raises ValueError where the two do not fit each other.
    """

    arg_constraints: ClassVar[Any] = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("The Mixture distribution needs to be an instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        batch_shape = component_distribution.batch_shape[:-1]
        for ours, theirs in zip(reversed(mixture_distribution.batch_shape), reversed(batch_shape), strict=False):
            if ours != 1 and theirs != 1 and ours != theirs:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is not compatible with "
                    f"`component_distribution.batch_shape` ({component_distribution.batch_shape})"
                )
        k = mixture_distribution.logits.shape[-1]
        if component_distribution.batch_shape[-1] != k:
            raise ValueError(
                f"`mixture_distribution component` ({k}) does not equal `component_distribution.batch_shape[-1]` "
                f"({component_distribution.batch_shape[-1]})"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component, self._event_ndims = k, len(component_distribution.event_shape)
        super().__init__(batch_shape, component_distribution.event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        return self._component_distribution.support

    @property
    def mixture_distribution(self) -> Categorical:
        """Of which component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """All components."""
        return self._component_distribution

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return torch.sum(self._weights() * self._component_distribution.mean, dim=-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        weights, component = self._weights(), self._component_distribution
        within = torch.sum(weights * component.variance, dim=-1 - self._event_ndims)
        between = torch.sum(weights * (component.mean - self._pad(self.mean)).pow(2.0), dim=-1 - self._event_ndims)
        return within + between

    def cdf(self, value: Tensor) -> Tensor:
        return torch.sum(self._component_distribution.cdf(self._pad(value)) * self._mixture_distribution.probs, dim=-1)

    def log_prob(self, value: Tensor) -> Tensor:
        each = self._component_distribution.log_prob(self._pad(self._checked(value)))
        return torch.logsumexp(each + torch.log_softmax(self._mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with torch.no_grad():
            lead = len(sample_shape) + len(self._batch_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            index = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return torch.gather(drawn, lead, index).squeeze(lead)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._expanded(MixtureSameFamily, (), batch_shape, _instance)
        new._component_distribution = self._component_distribution.expand((*Size(batch_shape), self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return new

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
