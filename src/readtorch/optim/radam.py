# Tangled from chapters/04_optim/3_adaptive_rates.py — edit there, or here and run `readtorch sync`.
"""RAdam: Adam with a rectified adaptive learning rate (Liu et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

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


class RAdam(Optimizer):
    """RAdam. State: `step`, `exp_avg`, `exp_avg_sq`."""

    _younger_options: ClassVar = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
        "decoupled_weight_decay": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
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
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return self._zero_state(param, "exp_avg", "exp_avg_sq", beside_param=group["capturable"])

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            beta1, beta2 = group["betas"]
            radam(
                params,
                grads,
                [s["exp_avg"] for s in states],
                [s["exp_avg_sq"] for s in states],
                [s["step"] for s in states],
                beta1=beta1,
                beta2=beta2,
                **{key: group[key] for key in ("lr", "weight_decay", "eps", "maximize", "capturable")},
                decoupled_weight_decay=group["decoupled_weight_decay"],
            )
        return loss


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """One step on each of `params`; moments and counters are updated in place."""
    if capturable:
        _check_capturable(params, state_steps)
    rho_inf = 2 / (1 - beta2) - 1
    for i, param in enumerate(params):
        state_steps[i] += 1
        t = _get_value(state_steps[i])
        rate = _get_value(lr)
        if decoupled_weight_decay and weight_decay != 0:
            param.mul_(1 - rate * weight_decay)
        grad = _ascent(param, grads[i], maximize, 0.0 if decoupled_weight_decay else weight_decay)
        param, grad, exp_avg, exp_avg_sq = _as_real(param, grad, exp_avgs[i], exp_avg_sqs[i])
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        bias_correction2 = 1 - beta2**t
        update = exp_avg / (1 - beta1**t) * rate
        #: rho_t is the length of the average that exp_avg_sq amounts to so far.
        rho_t = rho_inf - 2 * t * beta2**t / bias_correction2
        if rho_t > 5.0:
            rectified = ((rho_t - 4) * (rho_t - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho_t)) ** 0.5
            update = update * (bias_correction2**0.5 / exp_avg_sq.sqrt().add(eps)) * rectified
        param.add_(update, alpha=-1.0)
