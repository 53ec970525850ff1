# Tangled from chapters/04_optim/4_averages_and_signs.py — edit there, or here and run `readtorch sync`.
"""SparseAdam: Adam for sparse gradients, of which readtorch has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch import Tensor
from readtorch.optim.optimizer import Optimizer, ParamsT, _check_betas


class SparseAdam(Optimizer):
    """Lazy Adam for sparse gradients. Its `step` raises RuntimeError for a dense one, as upstream's does."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if not lr > 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        _check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Raise RuntimeError at the first parameter with a gradient; returns the closure's loss where there is none."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            if any(param.grad is not None for param in group["params"]):
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        return loss
