# Tangled from chapters/04_optim/2_sgd_and_adam.py — edit there, or here and run `readtorch sync`.
"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from readtorch import Tensor, is_grad_enabled
from readtorch.aten.native import fused_sgd
from readtorch.optim.optimizer import (
    Optimizer,
    ParamsT,
    _ascent,
    _check_implementations,
    _check_lr_tensor,
    _to_scalar,
    _use_grad_for_differentiable,
)


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum (Polyak 1964) or Nesterov momentum (Sutskever et al. 2013).

    State: `momentum_buffer`, of the parameter's shape, once `momentum` is not 0.
    """

    _refuses_sparse: ClassVar = ""
    _younger_options: ClassVar = {
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        #: Unlike the other optimizers' checks, these let NaN pass, as upstream's do.
        for what, value in (("learning rate", lr), ("momentum value", momentum), ("weight_decay value", weight_decay)):
            if value < 0:
                raise ValueError(f"Invalid {what}: {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": _to_scalar(lr),
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        _check_implementations(foreach, fused, differentiable)

    def _remembers(self, group: dict[str, Any]) -> bool:
        return bool(group["momentum"] != 0)

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            buffers = [state.get("momentum_buffer") for state in states]
            sgd(
                params,
                grads,
                buffers,
                **{key: group[key] for key in ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize")},
                foreach=group["foreach"],
                fused=group["fused"],
            )
            if group["momentum"] != 0:
                for state, buffer in zip(states, buffers, strict=True):
                    state["momentum_buffer"] = buffer
        return loss


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step on each of `params`; a missing momentum buffer is made and put into `momentum_buffer_list`."""
    number = lr if not isinstance(lr, Tensor) else None if lr.requires_grad else lr.item()
    done: frozenset[int] = frozenset()
    if number is not None and not is_grad_enabled():
        options: dict[str, Any] = {
            "weight_decay": weight_decay,
            "momentum": momentum,
            "lr": number,
            "dampening": dampening,
        }
        options |= {"nesterov": nesterov, "maximize": maximize}
        done = fused_sgd.sgd_on_device(params, d_p_list, momentum_buffer_list, **options)
        done |= fused_sgd.sgd(params, d_p_list, momentum_buffer_list, **options)
    for i, (param, d_p) in enumerate(zip(params, d_p_list, strict=True)):
        if i in done:
            continue
        buffer = momentum_buffer_list[i] if momentum != 0 else None
        d_p = _ascent(param, d_p, maximize, weight_decay)
        if momentum != 0:
            if buffer is None:
                buffer = momentum_buffer_list[i] = d_p.detach().clone()
            else:
                buffer.mul_(momentum).add_(d_p, alpha=1 - dampening)
            d_p = d_p.add(buffer, alpha=momentum) if nesterov else buffer
        if isinstance(lr, Tensor) and lr.requires_grad:
            param.addcmul_(d_p, lr, value=-1)
        else:
            param.add_(d_p, alpha=-float(lr))
