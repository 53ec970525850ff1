# Tangled from chapters/04_optim/4_averages_and_signs.py — edit there, or here and run `readtorch sync`.
"""Adafactor (Shazeer & Stern 2018): second moments of a matrix kept as row and column means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch import Tensor
from readtorch.optim.optimizer import Optimizer, ParamsT, _ascent, _check_lr_tensor, _get_value, _to_scalar


class Adafactor(Optimizer):
    """Adafactor. State of a matrix: `row_var` and `col_var`, O(rows + columns); of a vector: `variance`; and `step`."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        eps1, eps2 = eps[0], eps[1]
        for rule, value, holds in (
            ("Learning rate should be >= 0", lr, lr >= 0),
            ("beta2_decay should be <= 0", beta2_decay, beta2_decay <= 0),
            ("epsilon1 should be >= 0", eps1, eps1 is None or eps1 >= 0),
            ("epsilon2 should be >= 0", eps2, eps2 >= 0),
            ("Clipping threshold d should be >= 1", d, d >= 1),
            ("weight_decay should be >= 0", weight_decay, weight_decay >= 0),
        ):
            if not holds:
                raise ValueError(f"{rule} but is: {value}")
        defaults = {
            "lr": _to_scalar(lr),
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if torch.is_complex(param):
            raise RuntimeError("Adafactor does not support complex parameters")
        grad = param.grad
        state = {"step": torch.zeros((), dtype=torch.float32)}
        if grad.dim() > 1:
            state["row_var"] = grad.new_zeros([*grad.shape[:-1], 1])
            state["col_var"] = grad.new_zeros([*grad.shape[:-2], 1, grad.shape[-1]])
        else:
            state["variance"] = torch.zeros_like(grad, memory_format=torch.preserve_format)
        return state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            eps1, eps2 = group["eps"]
            adafactor(
                params,
                grads,
                [s.get("row_var") for s in states],
                [s.get("col_var") for s in states],
                [s.get("variance") for s in states],
                [s["step"] for s in states],
                eps1=eps1,
                eps2=eps2,
                **{key: group[key] for key in ("d", "lr", "beta2_decay", "weight_decay", "maximize")},
            )
        return loss


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """One step on each of `params`; row, column and element variances and counters are updated in place."""
    rate = _get_value(lr)
    for i, param in enumerate(params):
        state_steps[i] += 1
        t = _get_value(state_steps[i])
        grad = _ascent(param, grads[i], maximize)
        floor = torch.finfo(param.dtype).eps if eps1 is None else eps1
        #: The step is relative to the parameter's own root mean square.
        alpha = max(eps2, param.norm(2).item() / param.numel() ** 0.5) * min(rate, t**-0.5)
        if weight_decay != 0:
            param.mul_(1 - rate * weight_decay)
        estimate = _second_moment(grad, row_vars[i], col_vars[i], variances[i], t**beta2_decay, floor)
        update = estimate.clamp_(min=floor * floor).rsqrt_().mul_(grad)
        clipped = max(1.0, update.norm(2).item() / (update.numel() ** 0.5 * d))
        param.add_(update, alpha=-alpha / clipped)


def _second_moment(
    grad: Tensor, row_var: Tensor | None, col_var: Tensor | None, variance: Tensor | None, weight: float, floor: float
) -> Tensor:
    """Update the running second moment with `weight` on the new gradient and return its estimate, in grad's shape."""
    if variance is not None:
        return variance.lerp_(grad * grad, weight).clone()
    assert row_var is not None
    assert col_var is not None
    row_var.lerp_(grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1)), weight)
    col_var.lerp_(grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2)), weight)
    return (row_var @ col_var).div_(row_var.mean(dim=-2, keepdim=True).clamp_(min=floor))
