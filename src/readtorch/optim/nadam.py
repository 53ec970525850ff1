# Tangled from chapters/04_optim/3_adaptive_rates.py — edit there, or here and run `readtorch sync`.
"""NAdam: Adam with Nesterov momentum (Dozat 2016)."""

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


class NAdam(Optimizer):
    """NAdam. State: `step`, `exp_avg`, `exp_avg_sq`, and `mu_product`, the product of the momentum schedule so far."""

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
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        _check_not_negative(
            weight_decay=("weight_decay value", weight_decay), momentum_decay=("momentum_decay value", momentum_decay)
        )
        defaults = {
            "lr": _to_scalar(lr),
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        device = param.device if group["capturable"] else None
        return {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "mu_product": torch.ones((), dtype=torch.float32, device=device),
            "exp_avg": torch.zeros_like(param, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(param, memory_format=torch.preserve_format),
        }

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            beta1, beta2 = group["betas"]
            options = (
                "lr",
                "weight_decay",
                "momentum_decay",
                "eps",
                "maximize",
                "capturable",
                "decoupled_weight_decay",
            )
            nadam(
                params,
                grads,
                [s["exp_avg"] for s in states],
                [s["exp_avg_sq"] for s in states],
                [s["mu_product"] for s in states],
                [s["step"] for s in states],
                beta1=beta1,
                beta2=beta2,
                **{key: group[key] for key in options},
            )
        return loss


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step on each of `params`; moments, momentum products and counters are updated in place."""
    if capturable:
        _check_capturable(params, state_steps)
    for i, param in enumerate(params):
        state_steps[i] += 1
        t = _get_value(state_steps[i])
        if decoupled_weight_decay and weight_decay != 0:
            param.mul_(1 - lr * weight_decay)
        grad = _ascent(param, grads[i], maximize, 0.0 if decoupled_weight_decay else weight_decay)
        param, grad, exp_avg, exp_avg_sq = _as_real(param, grad, exp_avgs[i], exp_avg_sqs[i])
        #: The momentum is warmed up: mu grows from beta1 / 2 towards beta1.
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (t * momentum_decay))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * momentum_decay))
        mu_products[i] *= mu
        product = _get_value(mu_products[i])
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        denom = exp_avg_sq.div(1 - beta2**t).sqrt().add(eps)
        rate = _get_value(lr)
        param.addcdiv_(grad, denom, value=-rate * (1.0 - mu) / (1.0 - product))
        param.addcdiv_(exp_avg, denom, value=-rate * mu_next / (1.0 - product * mu_next))
