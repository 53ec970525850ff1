# Tangled from chapters/04_optim/3_adaptive_rates.py — edit there, or here and run `readtorch sync`.
"""Adamax: Adam with the infinity norm (Kingma & Ba 2015, section 7)."""

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
    _check_betas,
    _check_capturable,
    _check_lr_tensor,
    _check_not_negative,
    _get_value,
    _to_scalar,
    _use_grad_for_differentiable,
)


class Adamax(Optimizer):
    """Adamax. State: `step`, `exp_avg`, and `exp_inf`, the decaying maximum of gradient magnitudes."""

    _younger_options: ClassVar = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        _check_not_negative(lr=("learning rate", lr), eps=("epsilon value", eps))
        _check_betas(betas)
        _check_not_negative(weight_decay=("weight_decay value", weight_decay))
        defaults = {
            "lr": _to_scalar(lr),
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return self._zero_state(param, "exp_avg", "exp_inf", beside_param=group["capturable"])

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            beta1, beta2 = group["betas"]
            adamax(
                params,
                grads,
                [s["exp_avg"] for s in states],
                [s["exp_inf"] for s in states],
                [s["step"] for s in states],
                beta1=beta1,
                beta2=beta2,
                **{key: group[key] for key in ("eps", "lr", "weight_decay", "maximize", "capturable")},
            )
        return loss


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """One step on each of `params`; moments and counters are updated in place."""
    if capturable:
        _check_capturable(params, state_steps)
    for i, param in enumerate(params):
        state_steps[i] += 1
        grad = _ascent(param, grads[i], maximize, weight_decay)
        param, grad, exp_avg, exp_inf = _as_real(param, grad, exp_avgs[i], exp_infs[i])
        exp_avg.lerp_(grad, 1 - beta1)
        exp_inf.copy_(torch.maximum(exp_inf * beta2, grad.abs() + eps))
        bias_correction = 1 - beta1 ** _get_value(state_steps[i])
        param.addcdiv_(exp_avg, exp_inf, value=-_get_value(lr) / bias_correction)
