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
# # The algorithms: one parameter at a time
#
# Upstream writes every optimizer three times: a loop over parameters, a *foreach* version that hands whole lists to one kernel, and a *fused*
# one that makes the step a single kernel. The arithmetic is the loop's. Here the loop is all there is, so that it can be read beside the paper;
# where the parameters are ordinary arrays, `SGD` and `Adam` run the same operations block by block (the last section says what that gains).

# %%
import math
from typing import Any

import readtorch as torch
from readtorch import Tensor, nn, optim
from readtorch.literate import live
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

live()

# %% [markdown]
# ## SGD
#
# $$ b_t = \mu\, b_{t-1} + (1-\tau)\, g_t, \qquad \theta_t = \theta_{t-1} - \gamma\, b_t $$
#
# Two details set it apart from textbooks. The learning rate is outside the velocity, so that changing $\gamma$ takes effect at once. And the first
# velocity is the gradient itself: dampening $\tau$ does not apply to step one.

# %%
#| into: optim/sgd.py
"""Stochastic gradient descent with momentum."""

# %%
#| into: optim/sgd.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readtorch import Tensor
from readtorch.optim.optimizer import (
    Optimizer,
    ParamsT,
    _ascent,
    _check_implementations,
    _check_lr_tensor,
    _check_not_negative,
    _to_scalar,
    _use_grad_for_differentiable,
)


# %%
#| into: optim/sgd.py
#| upstream: torch/optim/sgd.py#SGD
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum (Polyak 1964) or Nesterov momentum (Sutskever et al. 2013).

    State: `momentum_buffer`, of the parameter's shape, once `momentum` is not 0.
    """

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
        _check_not_negative(
            lr=("learning rate", lr),
            momentum=("momentum value", momentum),
            weight_decay=("weight_decay value", weight_decay),
        )
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)
            group.setdefault("maximize", False)
            group.setdefault("foreach", None)
            group.setdefault("differentiable", False)
            group.setdefault("fused", False)

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


# %%
#| into: optim/sgd.py
#| upstream: torch/optim/sgd.py#sgd
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
    for i, (param, d_p) in enumerate(zip(params, d_p_list, strict=True)):
        d_p = _ascent(param, d_p, maximize, weight_decay)
        if momentum != 0:
            buffer = momentum_buffer_list[i]
            if buffer is None:
                buffer = momentum_buffer_list[i] = d_p.detach().clone()
            else:
                buffer.mul_(momentum).add_(d_p, alpha=1 - dampening)
            d_p = d_p.add(buffer, alpha=momentum) if nesterov else buffer
        if isinstance(lr, Tensor) and lr.requires_grad:
            param.addcmul_(d_p, lr, value=-1)
        else:
            param.add_(d_p, alpha=-float(lr))


# %%
#| claim: the first momentum buffer is the gradient itself, whatever the dampening
def _(torch):
    p = torch.nn.Parameter(torch.zeros(1))
    p.grad = torch.ones(1)
    optimizer = torch.optim.SGD([p], lr=1.0, momentum=0.9, dampening=0.5)
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].item() == 1.0
    optimizer.step()
    assert abs(optimizer.state[p]["momentum_buffer"].item() - (0.9 + 0.5)) < 1e-6


# %% [markdown]
# ## Adam and AdamW
#
# $$ m_t = \beta_1 m_{t-1} + (1-\beta_1) g_t, \quad v_t = \beta_2 v_{t-1} + (1-\beta_2) g_t^2, \quad
#    \theta_t = \theta_{t-1} - \frac{\gamma}{1-\beta_1^t}\, \frac{m_t}{\sqrt{v_t}/\sqrt{1-\beta_2^t} + \epsilon} $$
#
# `Adam`'s `weight_decay` is added to the gradient and so passes through both moments: large gradients shrink the decay with everything else.
# `AdamW` multiplies the parameter by $1-\gamma\lambda$ before the step. Since 2.6 the second is a subclass of the first with one flag set.

# %%
#| into: optim/adam.py
"""Adam (Kingma & Ba 2015) and, by `decoupled_weight_decay`, AdamW (Loshchilov & Hutter 2019)."""

# %%
#| into: optim/adam.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch import Tensor
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


# %%
#| into: optim/adam.py
#| upstream: torch/optim/adam.py#Adam
class Adam(Optimizer):
    """Adam, with L2 regularisation or (`decoupled_weight_decay`) decoupled decay; `amsgrad` keeps the largest second moment.

    State per parameter: `step` (a float32 0-d tensor on the CPU), `exp_avg`, `exp_avg_sq`, `max_exp_avg_sq` with amsgrad.
    """

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
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        for index, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                if foreach and not capturable:
                    raise ValueError(
                        f"betas[{index}] as a Tensor is not supported for capturable=False and foreach=True"
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("amsgrad", False)
            group.setdefault("maximize", False)
            group.setdefault("foreach", None)
            group.setdefault("capturable", False)
            group.setdefault("differentiable", False)
            group.setdefault("decoupled_weight_decay", False)
            group.setdefault("fused", None)
            for param in group["params"]:
                own = self.state.get(param)
                if own and not isinstance(own["step"], Tensor):
                    own["step"] = torch.tensor(float(own["step"]), dtype=torch.float32)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        device = param.device if group["capturable"] or group["fused"] else None
        state = {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "exp_avg": torch.zeros_like(param, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(param, memory_format=torch.preserve_format),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = torch.zeros_like(param, memory_format=torch.preserve_format)
        return state

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


# %%
#| into: optim/adam.py
#| upstream: torch/optim/adam.py#adam
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
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if capturable:
        _check_capturable(params, state_steps)
    for i, param in enumerate(params):
        step = state_steps[i]
        step += 1
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
        if capturable or differentiable:
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


# %%
#| into: optim/adamw.py
"""AdamW: Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

# %%
#| into: optim/adamw.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch import Tensor
from readtorch.optim.adam import Adam, adam
from readtorch.optim.optimizer import ParamsT


# %%
#| into: optim/adamw.py
#| upstream: torch/optim/adamw.py#AdamW
class AdamW(Adam):
    """Adam whose weight decay multiplies the parameter instead of entering the gradient."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


# %%
#| into: optim/adamw.py
#| upstream: torch/optim/adamw.py#adamw
def adamw(
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
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """`adam` with decoupled weight decay."""
    adam(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        max_exp_avg_sqs,
        state_steps,
        foreach,
        capturable,
        differentiable,
        fused,
        grad_scale,
        found_inf,
        has_complex,
        decoupled_weight_decay=True,
        amsgrad=amsgrad,
        beta1=beta1,
        beta2=beta2,
        lr=lr,
        weight_decay=weight_decay,
        eps=eps,
        maximize=maximize,
    )


# %%
#| claim: with a zero gradient AdamW decays by lr × weight_decay and Adam's decay is normalised away to a step of lr
def _(torch):
    def after_one_step(cls):
        p = torch.nn.Parameter(torch.tensor([4.0]))
        p.grad = torch.zeros(1)
        cls([p], lr=0.1, weight_decay=0.5).step()
        return p.item()

    assert abs(after_one_step(torch.optim.AdamW) - 4.0 * (1 - 0.1 * 0.5)) < 1e-6
    assert abs(after_one_step(torch.optim.Adam) - (4.0 - 0.1)) < 1e-5


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
from typing import Any

import readtorch as torch
from readtorch import Tensor
from readtorch.optim.optimizer import (
    Optimizer,
    ParamsT,
    _as_real,
    _ascent,
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            group.setdefault("maximize", False)
            group.setdefault("differentiable", False)
            group.setdefault("fused", None)
        for own in self.state.values():
            if own and not isinstance(own["step"], Tensor):
                own["step"] = torch.tensor(float(own["step"]), dtype=torch.float32)

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
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    for param, grad, total, step in zip(params, grads, state_sums, state_steps, strict=True):
        step += 1
        grad = _ascent(param, grad, maximize, weight_decay)
        clr = lr / (1 + (_get_value(step) - 1) * lr_decay)
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
from typing import Any

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


# %%
#| into: optim/adadelta.py
#| upstream: torch/optim/adadelta.py#Adadelta
class Adadelta(Optimizer):
    """Adadelta. State: `step`, and the decaying means `square_avg` of gradients and `acc_delta` of updates, both squared."""

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
        device = param.device if group["capturable"] else None
        return {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "square_avg": torch.zeros_like(param, memory_format=torch.preserve_format),
            "acc_delta": torch.zeros_like(param, memory_format=torch.preserve_format),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            group.setdefault("maximize", False)
            group.setdefault("differentiable", False)
            group.setdefault("capturable", False)

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
from typing import Any

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


# %%
#| into: optim/rmsprop.py
#| upstream: torch/optim/rmsprop.py#RMSprop
class RMSprop(Optimizer):
    """RMSprop. State: `step`, `square_avg`; `momentum_buffer` with momentum; `grad_avg` if centred.

    The root is taken before `eps` is added (TensorFlow adds it under the root).
    """

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
        device = param.device if group["capturable"] else None
        state = {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "square_avg": torch.zeros_like(param, memory_format=torch.preserve_format),
        }
        if group["momentum"] > 0:
            state["momentum_buffer"] = torch.zeros_like(param, memory_format=torch.preserve_format)
        if group["centered"]:
            state["grad_avg"] = torch.zeros_like(param, memory_format=torch.preserve_format)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("momentum", 0)
            group.setdefault("centered", False)
            group.setdefault("foreach", None)
            group.setdefault("maximize", False)
            group.setdefault("differentiable", False)
            group.setdefault("capturable", False)

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
from typing import Any

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
        device = param.device if group["capturable"] else None
        return {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "exp_avg": torch.zeros_like(param, memory_format=torch.preserve_format),
            "exp_inf": torch.zeros_like(param, memory_format=torch.preserve_format),
        }

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
from typing import Any

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
from typing import Any

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
#| into: optim/radam.py
#| upstream: torch/optim/radam.py#RAdam
class RAdam(Optimizer):
    """RAdam. State: `step`, `exp_avg`, `exp_avg_sq`."""

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
        device = param.device if group["capturable"] else None
        return {
            "step": torch.zeros((), dtype=torch.float32, device=device),
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


# %% [markdown]
# ## Averaged SGD, Rprop, Adafactor

# %%
#| into: optim/asgd.py
"""Averaged stochastic gradient descent (Polyak & Juditsky 1992)."""

# %%
#| into: optim/asgd.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


# %%
#| into: optim/asgd.py
#| upstream: torch/optim/asgd.py#ASGD
class ASGD(Optimizer):
    """Averaged SGD: steps as SGD does, and keeps in state `ax` the average that is the result.

    Further state: `step`, the decayed rate `eta`, and `mu`, the weight of the newest point in the average (1 until `t0`).
    """

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


# %%
#| into: optim/asgd.py
#| upstream: torch/optim/asgd.py#asgd
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


# %%
#| into: optim/rprop.py
"""Rprop (Riedmiller & Braun 1993): only the sign of the gradient counts."""

# %%
#| into: optim/rprop.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


# %%
#| into: optim/rprop.py
#| upstream: torch/optim/rprop.py#Rprop
class Rprop(Optimizer):
    """Resilient backpropagation. State: `step`, the previous gradient `prev`, and one `step_size` per element."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_lr_tensor(lr, foreach=False)
        _check_not_negative(lr=("learning rate", lr))
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": _to_scalar(lr),
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _init_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        rate = _get_value(group["lr"])
        device = param.device if group["capturable"] else None
        return {
            "step": torch.zeros((), dtype=torch.float32, device=device),
            "prev": torch.zeros_like(param, memory_format=torch.preserve_format),
            "step_size": torch.full_like(param.grad, complex(rate, rate) if torch.is_complex(param) else rate),
        }

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads, states = self._gather(group)
            etaminus, etaplus = group["etas"]
            step_size_min, step_size_max = group["step_sizes"]
            rprop(
                params,
                grads,
                [s["prev"] for s in states],
                [s["step_size"] for s in states],
                [s["step"] for s in states],
                step_size_min=step_size_min,
                step_size_max=step_size_max,
                etaminus=etaminus,
                etaplus=etaplus,
                maximize=group["maximize"],
                capturable=group["capturable"],
            )
        return loss


# %%
#| into: optim/rprop.py
#| upstream: torch/optim/rprop.py#rprop
def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step on each of `params`; step sizes, previous gradients and counters are updated in place."""
    if capturable:
        _check_capturable(params, state_steps)
    for i, param in enumerate(params):
        state_steps[i] += 1
        grad = _ascent(param, grads[i], maximize)
        param, grad, prev, step_size = _as_real(param, grad, prevs[i], step_sizes[i])
        agreement = grad.mul(prev).sign()
        factor = torch.ones_like(agreement)
        factor[agreement > 0] = etaplus
        factor[agreement < 0] = etaminus
        step_size.mul_(factor).clamp_(step_size_min, step_size_max)
        #: Where the sign flipped, the step was too long: no move now, and no comparison with this gradient next time.
        grad = grad.clone()
        grad[agreement < 0] = 0
        param.addcmul_(grad.sign(), step_size, value=-1)
        prev.copy_(grad)


# %%
#| into: optim/_adafactor.py
"""Adafactor (Shazeer & Stern 2018): second moments of a matrix kept as row and column means."""

# %%
#| into: optim/_adafactor.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch import Tensor
from readtorch.optim.optimizer import Optimizer, ParamsT, _ascent, _get_value, _to_scalar


# %%
#| into: optim/_adafactor.py
#| upstream: torch/optim/_adafactor.py#Adafactor
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
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        for number, value in enumerate(eps, start=1):
            if value is not None and not value >= 0:
                raise ValueError(f"epsilon{number} should be >= 0 but is: {value}")
        if not d >= 1:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
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


# %%
#| into: optim/_adafactor.py
#| upstream: torch/optim/_adafactor.py#adafactor
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


# %% [markdown]
# ## SparseAdam has nothing to optimize here
#
# It updates only the rows that a sparse gradient touches. readtorch has no sparse layout, so every gradient is dense and every `step` ends in the
# message that upstream gives for one.

# %%
#| into: optim/sparse_adam.py
"""SparseAdam: Adam for sparse gradients, of which readtorch has none."""

# %%
#| into: optim/sparse_adam.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch import Tensor
from readtorch.optim.optimizer import Optimizer, ParamsT, _check_betas


# %%
#| into: optim/sparse_adam.py
#| upstream: torch/optim/sparse_adam.py#SparseAdam
class SparseAdam(Optimizer):
    """Lazy Adam for sparse gradients. Its `step` raises RuntimeError for a dense one, as upstream's does."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if not lr > 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        _check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Raise RuntimeError at the first parameter with a gradient; returns the closure's loss where there is none."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            if any(param.grad is not None for param in group["params"]):
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        return loss
