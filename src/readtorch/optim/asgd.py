# Tangled from chapters/04_optim/4_averages_and_signs.py — edit there, or here and run `readtorch sync`.
"""Averaged stochastic gradient descent (Polyak & Juditsky 1992)."""

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


class ASGD(Optimizer):
    """Averaged SGD: steps as SGD does, and keeps in state `ax` the average that is the result.

    Further state: `step`, the decayed rate `eta`, and `mu`, the weight of the newest point in the average (1 until `t0`).
    """

    _younger_options: ClassVar = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        _check_not_negative(lr=("learning rate", lr), weight_decay=("weight_decay value", weight_decay))
        defaults = {
            "lr": _to_scalar(lr),
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        device = param.device
        return {
            "step": torch.zeros((), device=device, dtype=torch.float32),
            "eta": torch.as_tensor(_get_value(group["lr"]), device=device, dtype=torch.float32).clone(),
            "mu": torch.ones((), device=device, dtype=torch.float32),
            "ax": torch.zeros_like(param, memory_format=torch.preserve_format),
        }

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            asgd(
                params,
                grads,
                [s["ax"] for s in states],
                [s["mu"] for s in states],
                [s["eta"] for s in states],
                [s["step"] for s in states],
                **{key: group[key] for key in ("lambd", "lr", "t0", "alpha", "weight_decay", "maximize", "capturable")},
            )
        return loss


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float | Tensor,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step on each of `params`; averages, rates and counters are updated in place."""
    if capturable:
        _check_capturable(params, state_steps)
    rate = _get_value(lr)
    for i, param in enumerate(params):
        state_steps[i] += 1
        t = _get_value(state_steps[i])
        grad = _ascent(param, grads[i], maximize, weight_decay)
        param, grad, average = _as_real(param, grad, axs[i])
        eta = _get_value(etas[i])
        param.mul_(1 - lambd * eta)
        param.add_(grad, alpha=-eta)
        mu = _get_value(mus[i])
        if mu != 1:
            average.add_((param - average) * mu)
        else:
            average.copy_(param)
        etas[i].fill_(rate / (1 + lambd * rate * t) ** alpha)
        mus[i].fill_(1 / max(1, t - t0))
