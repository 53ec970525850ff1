# Tangled from chapters/04_optim/4_averages_and_signs.py — edit there, or here and run `readtorch sync`.
"""Rprop (Riedmiller & Braun 1993): only the sign of the gradient counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Tensor
from readtorch.optim.optimizer import (
    Optimizer,
    ParamsT,
    _as_real,
    _ascent,
    _check_capturable,
    _check_lr_tensor,
    _check_not_negative,
    _get_value,
    _to_scalar,
    _use_grad_for_differentiable,
)


class Rprop(Optimizer):
    """Resilient backpropagation. State: `step`, the previous gradient `prev`, and one `step_size` per element."""

    _younger_options: ClassVar = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        _check_not_negative(lr=("learning rate", lr))
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": _to_scalar(lr),
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        rate = _get_value(group["lr"])
        device = param.device if group["capturable"] else None
        return {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "prev": torch.zeros_like(param, memory_format=torch.preserve_format),
            "step_size": torch.full_like(param.grad, complex(rate, rate) if torch.is_complex(param) else rate),
        }

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            etaminus, etaplus = group["etas"]
            step_size_min, step_size_max = group["step_sizes"]
            rprop(
                params,
                grads,
                [s["prev"] for s in states],
                [s["step_size"] for s in states],
                [s["step"] for s in states],
                step_size_min=step_size_min,
                step_size_max=step_size_max,
                etaminus=etaminus,
                etaplus=etaplus,
                maximize=group["maximize"],
                capturable=group["capturable"],
            )
        return loss


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step on each of `params`; step sizes, previous gradients and counters are updated in place."""
    if capturable:
        _check_capturable(params, state_steps)
    for i, param in enumerate(params):
        state_steps[i] += 1
        grad = _ascent(param, grads[i], maximize)
        param, grad, prev, step_size = _as_real(param, grad, prevs[i], step_sizes[i])
        agreement = grad.mul(prev).sign()
        factor = torch.ones_like(agreement)
        factor[agreement > 0] = etaplus
        factor[agreement < 0] = etaminus
        step_size.mul_(factor).clamp_(step_size_min, step_size_max)
        #: Where the sign flipped, the step was too long: no move now, and no comparison with this gradient next time.
        grad = grad.clone()
        grad[agreement < 0] = 0
        param.addcmul_(grad.sign(), step_size, value=-1)
        prev.copy_(grad)
