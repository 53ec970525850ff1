# Tangled from chapters/a4_distributions/1_foundations.py — edit there, or here and run `readtorch sync`.
"""Densities whose logarithm is linear in their natural parameters (twin of `torch/distributions/exp_family.py`)."""

from __future__ import annotations

from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.distributions.distribution import Distribution


class ExponentialFamily(Distribution):
    """Subclasses give the natural parameters, the log normalizer, and the mean of log h(x)."""

    _mean_carrier_measure: float = 0.0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """A − η · ∇A − E[log h], the gradient by autograd."""
        natural = [parameter.detach().requires_grad_() for parameter in self._natural_params]
        with torch.enable_grad():
            log_normalizer = self._log_normalizer(*natural)
            gradients = torch.autograd.grad(log_normalizer.sum(), natural, create_graph=True)
        result = log_normalizer - self._mean_carrier_measure
        for parameter, gradient in zip(natural, gradients, strict=True):
            product = parameter * gradient
            result = result - product.reshape((*self._batch_shape, -1)).sum(-1)
        return result
