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
# # Averages, signs and factors: ASGD, Rprop, Adafactor, SparseAdam

# %%
import math
from typing import Any

import readtorch as torch
from readtorch import Tensor, nn, optim
from readtorch.literate import live

live()

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


# %%
#| into: optim/asgd.py
#| upstream: torch/optim/asgd.py#ASGD
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


# %%
#| into: optim/rprop.py
#| upstream: torch/optim/rprop.py#Rprop
class Rprop(Optimizer):
    """Resilient backpropagation. State: `step`, the previous gradient `prev`, and one `step_size` per element."""

    _younger_options: ClassVar = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

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
from readtorch.optim.optimizer import Optimizer, ParamsT, _ascent, _check_lr_tensor, _get_value, _to_scalar


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
# ## SparseAdam: rows that the batch did not touch
#
# The gradient of an embedding made with `sparse=True` lists the rows that the batch looked up (a1, *Sparse tensors as Python sees them*). SparseAdam is Adam on those rows, and on no others: neither their moments nor they
# themselves move, though Adam's would, since moments decay whether a gradient comes or not. The step count is one for the whole table, so a row that is seen rarely is corrected for a bias that it has only
# in part. Moments are dense tensors as large as the table; what is saved is time, not memory.
#
# The gradient has to be coalesced first, for squares do not add up; from then on a row is one index, and three tensors are read and written there.

# %%
#| into: optim/sparse_adam.py
"""SparseAdam: Adam on the rows that a sparse gradient lists."""

# %%
#| into: optim/sparse_adam.py
#| imports
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch import Tensor
from readtorch.optim.optimizer import Optimizer, ParamsT, _at_places_of, _check_betas


# %%
#| into: optim/sparse_adam.py
#| upstream: torch/optim/sparse_adam.py#SparseAdam
class SparseAdam(Optimizer):
    """Lazy Adam for sparse gradients. State per parameter: `step`, an int; `exp_avg` and `exp_avg_sq`, dense."""

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
        sparse, complex_ = [], []
        for number, group in enumerate(self.param_groups):
            for place, param in enumerate(group["params"]):
                sparse += [[number, place]] * param.is_sparse
                complex_ += [[number, place]] * param.is_complex()
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        if complex_:
            raise ValueError(f"Complex params at indices {complex_}: SparseAdam does not support complex parameters")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Do one step; returns the closure's loss, or None. RuntimeError for a dense gradient."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            lr = float(group["lr"])
            for param in group["params"]:
                if param.grad is None:
                    continue
                if not param.grad.is_sparse:
                    raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
                state = self.state[param]
                if not state:
                    state["step"] = 0
                    for name in ("exp_avg", "exp_avg_sq"):
                        state[name] = torch.zeros_like(param, memory_format=torch.preserve_format)
                state["step"] += 1
                grad = (-param.grad if group["maximize"] else param.grad).coalesce()
                if grad._nnz():
                    _step_on_rows(param, grad, state, lr, group["betas"], group["eps"])
        return loss


def _step_on_rows(
    param: Tensor, grad: Tensor, state: dict[str, Any], lr: float, betas: tuple[float, float], eps: float
) -> None:
    """Adam's formulas at the places that the coalesced `grad` lists."""
    values = grad._values()
    moments = []
    for name, beta, wanted in zip(("exp_avg", "exp_avg_sq"), betas, (values, values * values), strict=True):
        old = state[name].sparse_mask(grad)._values()
        change = (wanted - old) * (1 - beta)
        state[name].add_(_at_places_of(grad, change))
        moments.append(old + change)
    average, square = moments
    beta1, beta2 = betas
    correction1, correction2 = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
    size = lr * math.sqrt(correction2) / correction1
    param.add_(_at_places_of(grad, -size * (average / (square.sqrt() + eps))))
