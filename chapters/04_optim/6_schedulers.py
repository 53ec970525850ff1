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
# # Schedulers: who moves the learning rate, and when
#
# A scheduler writes `group["lr"]`. That is all; the optimizer does not know that it exists. Most questions about schedulers are therefore about *order*:
# the constructor already performs one step, and the schedule counts its own steps, not the optimizer's.

# %%
import math
import types
import warnings
from collections import Counter
from typing import Any

import readtorch as torch
from readtorch import nn, optim
from readtorch.literate import live
from readtorch.optim.lr_scheduler import *

live()

# %%
#| into: optim/lr_scheduler.py
"""Learning-rate schedulers: each step writes `group["lr"]` of an optimizer's parameter groups."""

# %%
#| into: optim/lr_scheduler.py
#| imports
from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any
from weakref import ref

from readtorch import Tensor
from readtorch.optim.optimizer import Optimizer, _to_scalar

# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#LRScheduler
__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

_ORDER = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _values(optimizer: Optimizer, key: str) -> list[Any]:
    """`key` of every group; tensors are cloned, so that nobody changes a rate through the answer."""
    return [group[key].clone() if isinstance(group[key], Tensor) else group[key] for group in optimizer.param_groups]


def _set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Write `value`; a tensor is filled in place, because a captured or compiled step reads that very tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(_to_scalar(value))
    else:
        group[key] = value


def _format_param(name: str, optimizer: Optimizer, param: Any) -> list[Any]:
    """One value for each group; ValueError where a list has another length."""
    count = len(optimizer.param_groups)
    if isinstance(param, list | tuple):
        if len(param) != count:
            raise ValueError(
                f"{name} must have the same length as optimizer.param_groups: {len(param)} values for {count} groups."
            )
        values = list(param)
    else:
        values = [param] * count
    return [value.clone() if isinstance(value, Tensor) else value for value in values]


class LRScheduler:
    """Base of the schedulers: `get_lr` of a subclass gives the rates for `last_epoch`, one for each group.

    With `last_epoch=-1` the present rates become `initial_lr` and the schedule starts; otherwise it resumes, and every group
    must have `initial_lr`. Raises TypeError if `optimizer` is none, KeyError if `initial_lr` is missing.
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}], which a scheduler that resumes "
                    "(last_epoch >= 0) starts from. Either\n"
                    "1. load the optimizer's state before the scheduler is made, or\n"
                    "2. begin a fresh run with last_epoch=-1"
                )
        self.base_lrs: list[Any] = _values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _track_calls_of_step(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """The step that the constructor performs: it sets the rate of epoch 0."""
        self._step_count = 0
        with _flag(self, "_is_initial"):
            self.step()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set, one for each group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates for `last_epoch`. To be called by `step`; users want `get_last_lr`."""
        raise NotImplementedError


# %%
#| into: optim/lr_scheduler.py
@contextmanager
def _flag(scheduler: LRScheduler, name: str) -> Iterator[None]:
    setattr(scheduler, name, True)
    try:
        yield
    finally:
        setattr(scheduler, name, False)


def _track_calls_of_step(optimizer: Optimizer) -> None:
    """Let `optimizer.step` note that it was called; once per optimizer, by a method on the instance."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function = optimizer.step.__func__  # type: ignore[attr-defined]  # a bound method here
    #: A weak reference: a strong one would make optimizer and wrapper keep each other alive.
    owner = ref(optimizer)

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        instance = owner()
        instance._opt_called = True  # type: ignore[union-attr]  # a mark on the optimizer
        return function.__get__(instance, type(instance))(*args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # a mark on the function
    optimizer.step = step  # type: ignore[method-assign]  # replaced in this instance only


# %% [markdown]
# ## "Detected call of `lr_scheduler.step()` before `optimizer.step()`"
#
# Until 1.1 the scheduler was stepped first; today that skips the first rate of the schedule. The check costs nothing later: it looks once, at
# the scheduler's first real step, whether the optimizer has moved at all.


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#LRScheduler.step
class LRScheduler(LRScheduler):
    def step(self, epoch: int | None = None) -> None:
        """Advance by one and set the rates. `epoch` jumps there instead; it is deprecated."""
        if self._step_count == 1:
            self._warn_about_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(
                "The epoch parameter in `scheduler.step()` is deprecated: the scheduler counts the epochs itself. "
                "Given one, it takes its closed form, where that is available.",
                UserWarning,
                stacklevel=2,
            )
        self._update_lr(epoch)

    def _warn_about_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden since the scheduler was made, so the scheduler cannot tell "
                f"whether `optimizer.step()` runs before `lr_scheduler.step()`, as it must. See {_ORDER}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite order: "
                "since PyTorch 1.1.0 the first value of the learning rate schedule is skipped otherwise. "
                f"See more details at {_ORDER}",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        with _flag(self, "_get_lr_called_within_step"):
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
                rates = closed_form()
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            _set_value(group, "lr", lr)
        self._last_lr = _values(self.optimizer, "lr")

    def _warn_unless_stepping(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "The rate that the scheduler last set is in `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _scaled(self, factor: float) -> list[Any]:
        """The present rates times `factor`."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _present(self) -> list[Any]:
        return _values(self.optimizer, "lr")


# %%
#| into: optim/lr_scheduler.py
class _LRScheduler(LRScheduler):
    """The name before 2.0, kept for code that derives from it."""


# %% [markdown]
# ## Closed form or recurrence?
#
# A rate can be computed from the epoch alone, or from the rate before. The second is *chainable*: two schedulers on one optimizer multiply, and a rate
# that the user changed by hand stays changed. Nearly all schedulers use it, and keep the closed form for the deprecated `step(epoch)`.


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#LambdaLR
class LambdaLR(LRScheduler):
    """`initial_lr` times `lr_lambda(epoch)`; one function, or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if isinstance(lr_lambda, list | tuple):
            if len(lr_lambda) != count:
                raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * count
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """As the base's, with the attributes of callable objects; plain functions and lambdas are not saved."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [
            None if isinstance(function, types.FunctionType) else function.__dict__.copy()
            for function in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; the functions themselves stay this scheduler's."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                function.__dict__.update(saved)

    def get_lr(self) -> list[Any]:
        """Base rate times the function's value at `last_epoch`."""
        self._warn_unless_stepping()
        return [lr * function(self.last_epoch) for function, lr in zip(self.lr_lambdas, self.base_lrs, strict=True)]


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#MultiplicativeLR
class MultiplicativeLR(LambdaLR):
    """The present rate times `lr_lambda(epoch)` at every step."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        for function in lr_lambda if isinstance(lr_lambda, list | tuple) else [lr_lambda]:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present rate times the function's value, the present rate at construction."""
        self._warn_unless_stepping()
        if self._is_initial:
            return self._present()
        groups = self.optimizer.param_groups
        return [g["lr"] * function(self.last_epoch) for function, g in zip(self.lr_lambdas, groups, strict=True)]


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#StepLR
class StepLR(LRScheduler):
    """The rate times `gamma` every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present rate, times gamma at multiples of `step_size`."""
        self._warn_unless_stepping()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._present()
        return self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#MultiStepLR
class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of `milestones`; a milestone that stands twice counts twice."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present rate, times gamma for each milestone at this epoch."""
        self._warn_unless_stepping()
        if self.last_epoch not in self.milestones:
            return self._present()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [lr * self.gamma**passed for lr in self.base_lrs]


def _check_factor(which: str, factor: float, zero_too: bool = True) -> None:
    if factor > 1 or factor < 0 or (factor == 0 and not zero_too):
        allowed = "between 0 and 1" if zero_too else "greater than 0 and at most 1"
        raise ValueError(f"{which} multiplicative factor expected to be {allowed}.")


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#ConstantLR
class ConstantLR(LRScheduler):
    """The rate times `factor` for the first `total_iters` steps, then as it was."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        _check_factor("Constant", factor)
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Times `factor` at the start, divided by it at `total_iters`."""
        self._warn_unless_stepping()
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        if self.last_epoch != self.total_iters:
            return self._present()
        return self._scaled(1.0 / self.factor)

    def _get_closed_form_lr(self) -> list[Any]:
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [lr * factor for lr in self.base_lrs]


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#LinearLR
class LinearLR(LRScheduler):
    """A factor that goes linearly from `start_factor` to `end_factor` in `total_iters` steps (a warm-up, usually)."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        _check_factor("Starting", start_factor, zero_too=False)
        _check_factor("Ending", end_factor)
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present rate, times the ratio of this factor to the one before."""
        self._warn_unless_stepping()
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        rise = self.end_factor - self.start_factor
        return self._scaled(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * (self.start_factor + (self.end_factor - self.start_factor) * done) for lr in self.base_lrs]


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#ExponentialLR
class ExponentialLR(LRScheduler):
    """The rate times `gamma` at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present rate times gamma; at construction the present rate."""
        self._warn_unless_stepping()
        return self._present() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#PolynomialLR
class PolynomialLR(LRScheduler):
    """A polynomial of degree `power` that reaches zero after `total_iters` steps."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present rate, times the ratio of this value of the polynomial to the one before."""
        self._warn_unless_stepping()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        now, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return self._scaled((now / before) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * left**self.power for lr in self.base_lrs]


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#CosineAnnealingLR
class CosineAnnealingLR(LRScheduler):
    """Half a cosine from `initial_lr` to `eta_min` in `T_max` steps, then back up (Loshchilov & Hutter 2017, no restarts)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The recurrence; where it would divide by zero (just after the minimum), the step that the cosine takes there."""
        self._warn_unless_stepping()
        if self._is_initial:
            return self._present()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        groups = self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [g["lr"] + (lr - self.eta_min) * rise for lr, g in zip(self.base_lrs, groups, strict=True)]
        now, before = (1 + math.cos(math.pi * e / self.T_max) for e in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (g["lr"] - self.eta_min) + self.eta_min for g in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (lr - self.eta_min) * height for lr in self.base_lrs]


# %%
#| claim: a scheduler's constructor already sets the rate of epoch 0
def _(torch):
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=1.0)
    torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=3)
    assert optimizer.param_groups[0]["lr"] == 0.5


# %%
#| claim: CosineAnnealingLR climbs again after T_max
def _(torch):
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    rates = []
    for _ in range(8):
        optimizer.step()
        scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert abs(rates[3]) < 1e-6
    assert abs(rates[7] - 1.0) < 1e-6
