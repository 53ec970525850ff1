# Tangled from chapters/04_optim/4_averages_and_signs.py — edit there, or here and run `readtorch sync`.
"""SparseAdam: Adam on the rows that a sparse gradient lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch import Tensor
from readtorch.optim.optimizer import Optimizer, ParamsT, _at_places_of, _check_betas


class SparseAdam(Optimizer):
    """Lazy Adam for sparse gradients. State per parameter: `step`, an int; `exp_avg` and `exp_avg_sq`, dense."""

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
        sparse, complex_ = [], []
        for number, group in enumerate(self.param_groups):
            for place, param in enumerate(group["params"]):
                sparse += [[number, place]] * param.is_sparse
                complex_ += [[number, place]] * param.is_complex()
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        if complex_:
            raise ValueError(f"Complex params at indices {complex_}: SparseAdam does not support complex parameters")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None. RuntimeError for a dense gradient."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            lr = float(group["lr"])
            for param in group["params"]:
                if param.grad is None:
                    continue
                if not param.grad.is_sparse:
                    raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
                state = self.state[param]
                if not state:
                    state["step"] = 0
                    for name in ("exp_avg", "exp_avg_sq"):
                        state[name] = torch.zeros_like(param, memory_format=torch.preserve_format)
                state["step"] += 1
                grad = (-param.grad if group["maximize"] else param.grad).coalesce()
                if grad._nnz():
                    _step_on_rows(param, grad, state, lr, group["betas"], group["eps"])
        return loss


def _step_on_rows(
    param: Tensor, grad: Tensor, state: dict[str, Any], lr: float, betas: tuple[float, float], eps: float
) -> None:
    """Adam's formulas at the places that the coalesced `grad` lists."""
    values = grad._values()
    moments = []
    for name, beta, wanted in zip(("exp_avg", "exp_avg_sq"), betas, (values, values * values), strict=True):
        old = state[name].sparse_mask(grad)._values()
        change = (wanted - old) * (1 - beta)
        state[name].add_(_at_places_of(grad, change))
        moments.append(old + change)
    average, square = moments
    beta1, beta2 = betas
    correction1, correction2 = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
    size = lr * math.sqrt(correction2) / correction1
    param.add_(_at_places_of(grad, -size * (average / (square.sqrt() + eps))))
