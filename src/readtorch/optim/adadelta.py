# Tangled from chapters/04_optim/3_adaptive_rates.py — edit there, or here and run `readtorch sync`.
"""Adadelta (Zeiler 2012)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

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


class Adadelta(Optimizer):
    """Adadelta. State: `step`, and the decaying means `square_avg` of gradients and `acc_delta` of updates, both squared."""

    _younger_options: ClassVar = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        _check_not_negative(lr=("learning rate", lr))
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        _check_not_negative(eps=("epsilon value", eps), weight_decay=("weight_decay value", weight_decay))
        defaults = {
            "lr": _to_scalar(lr),
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return self._zero_state(param, "square_avg", "acc_delta", beside_param=group["capturable"])

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            adadelta(
                params,
                grads,
                [s["square_avg"] for s in states],
                [s["acc_delta"] for s in states],
                [s["step"] for s in states],
                **{key: group[key] for key in ("lr", "rho", "eps", "weight_decay", "maximize", "capturable")},
            )
        return loss


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step on each of `params`; means and counters are updated in place."""
    if capturable:
        _check_capturable(params, state_steps)
    for i, param in enumerate(params):
        state_steps[i] += 1
        grad = _ascent(param, grads[i], maximize, weight_decay)
        param, grad, square_avg, acc_delta = _as_real(param, grad, square_avgs[i], acc_deltas[i])
        square_avg.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        std = square_avg.add(eps).sqrt()
        delta = acc_delta.add(eps).sqrt() / std * grad
        acc_delta.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta, alpha=-_get_value(lr))
