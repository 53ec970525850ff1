# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A rate for each coordinate: Adagrad to RAdam

# %%
import math
from typing import Any

import readtorch as torch
from readtorch import Tensor, nn, optim
from readtorch.literate import live

live()

# %% [markdown]
# ## Adagrad, Adadelta, RMSprop
#
# Three ways to divide by the size of past gradients: their sum (Adagrad, whose steps can only shrink), their decaying mean (RMSprop), and their
# decaying mean with the units restored by the mean of past updates (Adadelta).

# %%
#| into: optim/adagrad.py
"""Adagrad (Duchi, Hazan & Singer 2011)."""

# %%
#| into: optim/adagrad.py
#| imports
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


# %%
#| into: optim/adagrad.py
#| upstream: torch/optim/adagrad.py#Adagrad
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


# %%
#| into: optim/adagrad.py
#| upstream: torch/optim/adagrad.py#adagrad
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


# %%
#| into: optim/adadelta.py
"""Adadelta (Zeiler 2012)."""

# %%
#| into: optim/adadelta.py
#| imports
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


# %%
#| into: optim/adadelta.py
#| upstream: torch/optim/adadelta.py#Adadelta
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


# %%
#| into: optim/adadelta.py
#| upstream: torch/optim/adadelta.py#adadelta
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


# %%
#| into: optim/rmsprop.py
"""RMSprop (Hinton's lecture notes), with the centred form and momentum of Graves (2013)."""

# %%
#| into: optim/rmsprop.py
#| imports
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


# %%
#| into: optim/rmsprop.py
#| upstream: torch/optim/rmsprop.py#RMSprop
class RMSprop(Optimizer):
    """RMSprop. State: `step`, `square_avg`; `momentum_buffer` with momentum; `grad_avg` if centred.

    The root is taken before `eps` is added (TensorFlow adds it under the root).
    """

    _younger_options: ClassVar = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        _check_not_negative(
            lr=("learning rate", lr),
            eps=("epsilon value", eps),
            momentum=("momentum value", momentum),
            weight_decay=("weight_decay value", weight_decay),
            alpha=("alpha value", alpha),
        )
        defaults = {
            "lr": _to_scalar(lr),
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        names = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * bool(group["centered"])
        return self._zero_state(param, *names, beside_param=group["capturable"])

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            options = ("lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize", "capturable")
            rmsprop(
                params,
                grads,
                [s["square_avg"] for s in states],
                [s["grad_avg"] for s in states] if group["centered"] else [],
                [s["momentum_buffer"] for s in states] if group["momentum"] > 0 else [],
                [s["step"] for s in states],
                differentiable=group["differentiable"],
                **{key: group[key] for key in options},
            )
        return loss


# %%
#| into: optim/rmsprop.py
#| upstream: torch/optim/rmsprop.py#rmsprop
def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step on each of `params`; means, buffers and counters are updated in place."""
    if capturable:
        _check_capturable(params, state_steps)
    for i, param in enumerate(params):
        state_steps[i] += 1
        grad = _ascent(param, grads[i], maximize, weight_decay)
        param, grad, square_avg = _as_real(param, grad, square_avgs[i])
        square_avg.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if centered:
            (grad_avg,) = _as_real(grad_avgs[i])
            grad_avg.lerp_(grad, 1 - alpha)
            avg = square_avg.addcmul(grad_avg, grad_avg, value=-1).sqrt()
        else:
            avg = square_avg.sqrt()
        avg = avg.add(eps) if differentiable else avg.add_(eps)
        if momentum > 0:
            (buffer,) = _as_real(momentum_buffer_list[i])
            buffer.mul_(momentum).addcdiv_(grad, avg)
            param.add_(buffer, alpha=-_get_value(lr))
        else:
            param.addcdiv_(grad, avg, value=-_get_value(lr))


# %% [markdown]
# ## The relatives of Adam
#
# Adamax replaces the second moment by a decaying maximum; NAdam looks one momentum step ahead; RAdam leaves the division out until the second moment
# rests on enough gradients (upstream's test is $\rho_t > 5$).

# %%
#| into: optim/adamax.py
"""Adamax: Adam with the infinity norm (Kingma & Ba 2015, section 7)."""

# %%
#| into: optim/adamax.py
#| imports
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


# %%
#| into: optim/adamax.py
#| upstream: torch/optim/adamax.py#Adamax
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


# %%
#| into: optim/adamax.py
#| upstream: torch/optim/adamax.py#adamax
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


# %%
#| into: optim/nadam.py
"""NAdam: Adam with Nesterov momentum (Dozat 2016)."""

# %%
#| into: optim/nadam.py
#| imports
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


# %%
#| into: optim/nadam.py
#| upstream: torch/optim/nadam.py#NAdam
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


# %%
#| into: optim/nadam.py
#| upstream: torch/optim/nadam.py#nadam
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


# %%
#| into: optim/radam.py
"""RAdam: Adam with a rectified adaptive learning rate (Liu et al. 2020)."""

# %%
#| into: optim/radam.py
#| imports
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


# %%
#| into: optim/radam.py
#| upstream: torch/optim/radam.py#RAdam
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


# %%
#| into: optim/radam.py
#| upstream: torch/optim/radam.py#radam
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
