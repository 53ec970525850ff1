# Tangled from chapters/04_optim/4b_muon.py — edit there, or here and run `readtorch sync`.
"""Muon (Jordan et al. 2024): momentum whose update is made orthogonal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch import Size, Tensor
from readtorch.optim.optimizer import Optimizer, ParamsT, _check_lr_tensor

EPS = 1e-7
DEFAULT_A, DEFAULT_B, DEFAULT_C = 3.4445, -4.7750, 2.0315
DEFAULT_NS_STEPS = 5


def _zeropower_via_newtonschulz(
    grad: Tensor, ns_coefficients: tuple[float, float, float], ns_steps: int, eps: float
) -> Tensor:
    """Roughly U Vᵀ of `grad` = U Σ Vᵀ, in bfloat16. ValueError for another shape than (rows, columns), or too many steps."""
    if ns_steps >= 100:
        raise ValueError(f"Number of steps must be less than 100, got {ns_steps}")
    if grad.dim() != 2:
        raise ValueError(f"the gradient must be a 2D matrix, got {grad.dim()} dimensions")
    if len(ns_coefficients) != 3:
        raise ValueError(f"Coefficients must be a tuple of exactly 3 values, got {len(ns_coefficients)}")
    a, b, c = ns_coefficients
    tall = grad.size(0) > grad.size(1)
    x = grad.bfloat16()
    x = x.T if tall else x
    #: Divided by its Frobenius norm, no singular value exceeds 1.
    x = x / x.norm().clamp(min=eps)
    for _ in range(ns_steps):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def _adjust_lr(lr: float, adjust_lr_fn: str | None, param_shape: Size) -> float:
    """The rate for a matrix of this shape: an orthogonal matrix has entries that shrink as it grows."""
    rows, columns = param_shape[:2]
    if adjust_lr_fn is None or adjust_lr_fn == "original":
        return lr * math.sqrt(max(1, rows / columns))
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr


class Muon(Optimizer):
    """Muon for matrices. State: `momentum_buffer`.

    Raises ValueError for values out of range and for a parameter that is not two-dimensional.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (DEFAULT_A, DEFAULT_B, DEFAULT_C),
        eps: float = EPS,
        ns_steps: int = DEFAULT_NS_STEPS,
        adjust_lr_fn: str | None = None,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        for name, value in {"Learning rate": lr, "momentum": momentum, "weight decay": weight_decay}.items():
            if not value >= 0.0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(f"Muon only supports 2D parameters, and found one of size {tuple(param.size())}")

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if torch.is_complex(param):
            raise RuntimeError("Muon does not support complex parameters")
        return {"momentum_buffer": torch.zeros_like(param.grad, memory_format=torch.preserve_format)}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            options = {key: value for key, value in group.items() if key in self.defaults}
            muon(params, grads, [s["momentum_buffer"] for s in states], has_complex=False, **options)
        return loss


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """One step on each of `params`, in place. RuntimeError with `foreach=True`, ValueError for complex parameters."""
    if foreach:
        raise RuntimeError("Foreach is not supported for Muon yet")
    if has_complex:
        raise ValueError("Complex parameters are not supported")
    rate = float(lr)
    for param, grad, average in zip(params, grads, muon_momentum_bufs, strict=True):
        average.lerp_(grad, 1 - momentum)
        update = grad.lerp(average, momentum) if nesterov else average
        update = _zeropower_via_newtonschulz(update, ns_coefficients, ns_steps, eps)
        param.mul_(1 - rate * weight_decay)
        param.add_(update.to(param.dtype), alpha=-_adjust_lr(rate, adjust_lr_fn, param.shape))
