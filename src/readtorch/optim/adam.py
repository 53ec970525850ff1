# Tangled from chapters/04_optim/2_sgd_and_adam.py — edit there, or here and run `readtorch sync`.
"""Adam (Kingma & Ba 2015) and, by `decoupled_weight_decay`, AdamW (Loshchilov & Hutter 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import readtorch as torch
from readtorch import Tensor, is_grad_enabled
from readtorch.aten.native import fused_adam
from readtorch.optim.optimizer import (
    Optimizer,
    ParamsT,
    _as_real,
    _ascent,
    _check_betas,
    _check_capturable,
    _check_implementations,
    _check_lr_tensor,
    _check_not_negative,
    _get_value,
    _to_scalar,
    _use_grad_for_differentiable,
)


class Adam(Optimizer):
    """Adam, with L2 regularisation or (`decoupled_weight_decay`) decoupled decay; `amsgrad` keeps the largest second moment.

    State per parameter: `step` (a float32 0-d tensor on the CPU), `exp_avg`, `exp_avg_sq`, `max_exp_avg_sq` with amsgrad.
    """

    _refuses_sparse: ClassVar = "Adam does not support sparse gradients, please consider SparseAdam instead"
    _younger_options: ClassVar = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        _check_lr_tensor(lr, foreach, capturable)
        _check_not_negative(lr=("learning rate", lr), eps=("epsilon value", eps))
        _check_betas(betas)
        _check_not_negative(weight_decay=("weight_decay value", weight_decay))
        if not any(isinstance(betas[0], kind) and isinstance(betas[1], kind) for kind in (float, Tensor)):
            raise ValueError("betas must be either both floats or both Tensors")
        for index, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                if foreach and not capturable:
                    raise ValueError(
                        f"betas[{index}] as a Tensor is not supported with foreach=True, unless capturable=True"
                    )
                if beta.numel() != 1:
                    raise ValueError(f"Tensor betas[{index}] must be 1-element")
        defaults = {
            "lr": _to_scalar(lr),
            "betas": tuple(map(_to_scalar, betas)),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        _check_implementations(foreach, fused, differentiable)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        names = ["exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * bool(group["amsgrad"])
        return self._zero_state(param, *names, beside_param=group["capturable"] or group["fused"], host="cpu")

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            beta1, beta2 = group["betas"]
            adam(
                params,
                grads,
                [s["exp_avg"] for s in states],
                [s["exp_avg_sq"] for s in states],
                [s["max_exp_avg_sq"] for s in states] if group["amsgrad"] else [],
                [s["step"] for s in states],
                beta1=beta1,
                beta2=beta2,
                **{key: group[key] for key in ("amsgrad", "lr", "weight_decay", "eps", "maximize", "foreach", "fused")},
                capturable=group["capturable"],
                differentiable=group["differentiable"],
                decoupled_weight_decay=group["decoupled_weight_decay"],
            )
        return loss


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step on each of `params`; moments and counters are updated in place."""
    if not all(isinstance(step, Tensor) for step in state_steps):
        raise RuntimeError("API has changed: `state_steps` must be a list of tensors of one element each")
    if capturable and not fused:
        _check_capturable(params, state_steps)
    numbers: dict[str, Any] | None = None
    if not (capturable or differentiable):
        numbers = {"lr": _get_value(lr), "beta1": _get_value(beta1), "beta2": _get_value(beta2)}
        numbers |= {"weight_decay": weight_decay, "eps": eps, "maximize": maximize, "decoupled": decoupled_weight_decay}
    for step in state_steps:
        step += 1
    if is_grad_enabled():
        numbers = None
    done: frozenset[int] = frozenset()
    if numbers is not None:
        most_of = max_exp_avg_sqs if amsgrad else None
        lists = (params, grads, exp_avgs, exp_avg_sqs, most_of)
        done = fused_adam.adam_on_device(*lists, state_steps, **numbers)
        counts = [0.0 if i in done or t.is_cuda else t.item() for i, t in enumerate(state_steps)]
        done |= fused_adam.adam(*lists, counts, **numbers)
    for i, param in enumerate(params):
        if i in done:
            continue
        step = state_steps[i]
        if decoupled_weight_decay and weight_decay != 0:
            param.mul_(1 - lr * weight_decay)
        grad = _ascent(param, grads[i], maximize, 0.0 if decoupled_weight_decay else weight_decay)
        param, grad, exp_avg, exp_avg_sq = _as_real(param, grad, exp_avgs[i], exp_avg_sqs[i])
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        second = exp_avg_sq
        if amsgrad:
            (second,) = _as_real(max_exp_avg_sqs[i])
            second.copy_(torch.maximum(second, exp_avg_sq))
        if capturable or differentiable or step.is_cuda:  # the host must not wait for its value
            _step_with_tensor_counter(param, exp_avg, second, step, lr=lr, beta1=beta1, beta2=beta2, eps=eps)
            continue
        t = _get_value(step)
        bias_correction1 = 1 - beta1**t
        bias_correction2 = 1 - beta2**t
        denom = (second.sqrt() / bias_correction2**0.5).add_(eps)
        param.addcdiv_(exp_avg, denom, value=-_get_value(lr / bias_correction1))


def _step_with_tensor_counter(
    param: Tensor,
    exp_avg: Tensor,
    second: Tensor,
    step: Tensor,
    *,
    lr: float | Tensor,
    beta1: float | Tensor,
    beta2: float | Tensor,
    eps: float,
) -> None:
    """The update with `step` kept a tensor: no value is read on the host, and gradients can flow through `lr`."""
    bias_correction1 = 1 - beta1**step
    bias_correction2_sqrt = (1 - beta2**step).sqrt()
    step_size_neg = -(lr / bias_correction1)
    denom = (second.sqrt() / (bias_correction2_sqrt * step_size_neg)).add(eps / step_size_neg)
    param.addcdiv_(exp_avg, denom)
