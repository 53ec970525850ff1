# Tangled from chapters/04_optim/3_adaptive_rates.py — edit there, or here and run `readtorch sync`.
"""Adagrad (Duchi, Hazan & Singer 2011)."""

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
    _at_places_of,
    _check_implementations,
    _check_lr_tensor,
    _check_not_negative,
    _get_value,
    _to_scalar,
    _use_grad_for_differentiable,
)


class Adagrad(Optimizer):
    """Adagrad. State, made by the constructor and not at the first step: `step` and `sum` of squared gradients."""

    _refuses_sparse: ClassVar = ""
    _younger_options: ClassVar = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        _check_not_negative(
            lr=("learning rate", lr),
            lr_decay=("lr_decay value", lr_decay),
            weight_decay=("weight_decay value", weight_decay),
            initial=("initial_accumulator_value value", initial_accumulator_value),
            eps=("epsilon value", eps),
        )
        defaults = {
            "lr": _to_scalar(lr),
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        _check_implementations(foreach, fused, differentiable)
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param] = self._init_state(param, group)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = group["initial_accumulator_value"]
        if torch.is_complex(param):
            start = complex(start, start)
        return {
            "step": torch.tensor(0.0, dtype=torch.float32),
            "sum": torch.full_like(param, start, memory_format=torch.preserve_format),
        }

    def share_memory(self) -> None:
        """Move the accumulated sums into shared memory (for Hogwild training)."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            adagrad(
                params,
                grads,
                [s["sum"] for s in states],
                [s["step"] for s in states],
                **{key: group[key] for key in ("lr", "weight_decay", "lr_decay", "eps", "maximize", "differentiable")},
            )
        return loss


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step on each of `params`; sums and counters are updated in place."""
    if not all(isinstance(step, Tensor) for step in state_steps):
        raise RuntimeError("API has changed: `state_steps` must be a list of tensors of one element each")
    for param, grad, total, step in zip(params, grads, state_sums, state_steps, strict=True):
        step += 1
        if grad.is_sparse and weight_decay != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = _ascent(param, grad, maximize, weight_decay)
        clr = lr / (1 + (_get_value(step) - 1) * lr_decay)
        if grad.is_sparse:
            grad = grad.coalesce()  # squares do not add up
            values = grad._values()
            total.add_(_at_places_of(grad, values * values))
            sums = total.sparse_mask(grad)._values()
            param.add_(_at_places_of(grad, values / (sums.sqrt() + eps)), alpha=-_get_value(clr))
            continue
        param, grad, total = _as_real(param, grad, total)
        total.addcmul_(grad, grad, value=1)
        std = total.sqrt() + eps if differentiable else total.sqrt().add_(eps)
        param.addcdiv_(grad, std, value=-_get_value(clr))
