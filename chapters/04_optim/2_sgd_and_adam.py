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
# # SGD and Adam: one parameter at a time
#
# Upstream writes every optimizer three times: a loop over parameters, a *foreach* version that hands whole lists to one kernel, and a *fused*
# one that makes the step a single kernel. The arithmetic is the loop's. Here the loop is all there is, so that it can be read beside the paper.

# %%
import math
from typing import Any

import readtorch as torch
from readtorch import Tensor, nn, optim
from readtorch.literate import live

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


# %%
#| into: optim/sgd.py
#| upstream: torch/optim/sgd.py#SGD
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


# %%
#| into: optim/adam.py
#| upstream: torch/optim/adam.py#Adam
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
