# Tangled from chapters/04_optim/ — edit there, or here and run `readtorch sync`.
"""Learning-rate schedulers: each step writes `group["lr"]` of an optimizer's parameter groups."""

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


class _LRScheduler(LRScheduler):
    """The name before 2.0, kept for code that derives from it."""


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


def _check_schedulers(
    owner: LRScheduler, schedulers: Sequence[LRScheduler], optimizer: Any, required: bool = False
) -> Optimizer:
    """All schedulers of a composite must step without arguments, on one optimizer, which is returned."""
    name = type(owner).__name__
    for number, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {number} should have `optimizer` as its attribute.")
        if optimizer is None and not required:
            optimizer = scheduler.optimizer
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler, whose `step` wants the metric; "
                f"the one at index {number} is of this kind."
            )
        if optimizer is not scheduler.optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer: the "
                f"{type(scheduler).__name__} at index {number} has {scheduler.optimizer}, not "
                f"the {type(optimizer).__name__} of the first."
            )
    return optimizer


class _Composite(LRScheduler):
    """State handling shared by the schedulers that own others."""

    _schedulers: Sequence[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; owned schedulers by their own state_dicts."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_Composite):
    """Schedulers one after the other; `milestones[i]` is the epoch at which scheduler i + 1 takes over, from its epoch 0."""

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self.optimizer = _check_schedulers(self, schedulers, optimizer, required=True)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers to exceed that of the milestones between them by "
                f"one, but got {len(schedulers)} schedulers "
                f"and {len(milestones)} milestones"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            _set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take back the epoch that each owned scheduler counted at construction."""
        waiting: list[Any] = [sched or self]
        while waiting:
            scheduler = waiting.pop()
            owned = getattr(scheduler, "_schedulers", None)
            if owned is None:
                scheduler.last_epoch -= 1
            else:
                waiting += owned

    def step(self) -> None:  # type: ignore[override]  # upstream takes no epoch here
        """Step the scheduler whose turn it is; at a milestone it starts at its epoch 0."""
        self.last_epoch += 1
        present = self._schedulers[bisect_right(self._milestones, self.last_epoch)]
        if self.last_epoch in self._milestones:
            present._update_lr(0)
        else:
            present.step()
        self._last_lr = present.get_last_lr()


class ChainedScheduler(_Composite):
    """Several chainable schedulers, all stepped at every step."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to be chained: the list is empty.")
        self.optimizer = _check_schedulers(self, schedulers, optimizer)
        self._schedulers = schedulers
        self._last_lr = _values(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]  # upstream takes no epoch here
        """Step every scheduler, in order."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _values(self.optimizer, "lr")


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` when a metric has not improved for more than `patience` epochs.

    `mode`: min or max; `threshold_mode`: rel or abs; after a reduction bad epochs are not counted for `cooldown` epochs;
    reductions smaller than `eps` are left out. Raises ValueError for a factor of 1 or more and for unknown modes.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.factor, self.optimizer = factor, optimizer
        groups = len(optimizer.param_groups)
        #: A single floor is remembered, for groups that are added later.
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        floors = min_lr if isinstance(min_lr, list | tuple) else [min_lr] * groups
        if len(floors) != groups:
            raise ValueError(f"expected {groups} min_lrs, got {len(floors)}")
        self.min_lrs, self.patience, self.cooldown, self.eps = list(floors), patience, cooldown, eps
        self.last_epoch, self._last_lr = 0, _values(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        worst = {"min": math.inf, "max": -math.inf}
        for what, name, known in (("mode", mode, worst), ("threshold mode", threshold_mode, ("rel", "abs"))):
            if not isinstance(name, str):
                raise TypeError(f"{what} must be a str, not {type(name).__name__}")
            if name not in known:
                raise ValueError(f"{what} {name} is unknown!")
        self.mode_worse, self.mode = worst[mode], mode
        self.threshold, self.threshold_mode = threshold, threshold_mode

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def _is_better(self, value: float, best: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        #: The relative border is a product: best starts at infinity, and inf - inf would be no number.
        relative = self.threshold_mode == "rel"
        border = best * (1.0 + sign * self.threshold) if relative else best + sign * self.threshold
        return value < border if self.mode == "min" else value > border

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs are not being counted."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]  # upstream asks for the metric first
        """Take one value of the metric, and reduce the rates if it is time."""
        value = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(
                "The epoch parameter in `scheduler.step()` is deprecated: the scheduler counts the epochs itself. "
                "Given one, it takes its closed form, where that is available.",
                UserWarning,
                stacklevel=2,
            )
        self.last_epoch = epoch
        better, resting = self._is_better(value, self.best), self.in_cooldown
        self.best = value if better else self.best
        self.cooldown_counter -= resting
        self.num_bad_epochs = 0 if better or resting else self.num_bad_epochs + 1
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.num_bad_epochs, self.cooldown_counter = 0, self.cooldown
        self._last_lr = _values(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        if len(self.optimizer.param_groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(self.optimizer.param_groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}). A group added to the optimizer needs an "
                    "entry in the `min_lrs` field too."
                )
            self.min_lrs = [self.default_min_lr] * len(self.optimizer.param_groups)
        for group, floor in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, floor)
            if old - new > self.eps:
                _set_value(group, "lr", new)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)
        self._init_is_better(mode=self.mode, threshold=self.threshold, threshold_mode=self.threshold_mode)


class _CyclesMomentum:
    """The momentum of a scheduler's optimizer, set to its maximum at first."""

    optimizer: Optimizer

    def _set_up_momentum(self, base_momentum: Any, max_momentum: Any, last_epoch: int) -> tuple[list[Any], list[Any]]:
        """The lowest and the highest momentum of each group. ValueError where the optimizer has none."""
        options = self.optimizer.defaults
        if "momentum" not in options and "betas" not in options:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in options
        lows = _format_param("base_momentum", self.optimizer, base_momentum)
        highs = _format_param("max_momentum", self.optimizer, max_momentum)
        if last_epoch == -1:
            for high, low, group in zip(highs, lows, self.optimizer.param_groups, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return lows, highs

    def _set_momentum(self, group: dict[str, Any], value: Any) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_CyclesMomentum, LRScheduler):
    """The rate between `base_lr` and `max_lr`, up in `step_size_up` steps and down in `step_size_down` (Smith 2017).

    `mode`: triangular; triangular2 halves the height each cycle; exp_range shrinks it by `gamma` each step; or `scale_fn`
    of the cycle number or of the step (`scale_mode`). With `cycle_momentum` the momentum runs the other way.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if last_epoch == -1:
            for lr, group in zip(_format_param("base_lr", optimizer, base_lr), optimizer.param_groups, strict=True):
                _set_value(group, "lr", lr)
        self.max_lrs = _format_param("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            momenta = self._set_up_momentum(base_momentum, max_momentum, last_epoch)
            self.base_momentums, self.max_momentums = momenta
        super().__init__(optimizer, last_epoch)
        self.base_lrs = _format_param("base_lr", optimizer, base_lr)

    def scale_fn(self, x: float) -> float:
        """The height of the cycle, at cycle number or step `x`."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        if self.mode == "triangular2":
            return 1 / 2.0 ** (x - 1)
        return self.gamma**x

    def get_lr(self) -> list[Any]:
        """The rates at `last_epoch`; sets the momenta beside them."""
        self._warn_unless_stepping()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = height * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = [low + (high - low) * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                self._set_momentum(group, high - (high - low) * scale)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """As the base's; a `scale_fn` that is a callable object is saved by its attributes, a function is not."""
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        plain = function is None or isinstance(function, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else function.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; the scale function stays this scheduler's."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        saved = state_dict.get("_scale_fn_custom")
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)


class CosineAnnealingWarmRestarts(LRScheduler):
    """A cosine from `initial_lr` to `eta_min` in `T_0` steps, then from the top again, each period `T_mult` times as long."""

    T_cur: float

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        for wanted, value in (("positive integer T_0", T_0), ("integer T_mult >= 1", T_mult)):
            if value < 1 or not isinstance(value, int):
                raise ValueError(f"Expected {wanted}, but got {value}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        #: `T_i` is the length of the present period, `T_cur` how far in it the schedule is.
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates at `T_cur` of the present period."""
        self._warn_unless_stepping()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (lr - self.eta_min) * height for lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance by one, or go to `epoch`, which may be a fraction (`epoch + batch / batches`)."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._enter(epoch)
        self.last_epoch = math.floor(epoch)
        with _flag(self, "_get_lr_called_within_step"):
            rates = self.get_lr()
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            _set_value(group, "lr", lr)
        self._last_lr = _values(self.optimizer, "lr")

    def _enter(self, epoch: float) -> None:
        """Set period and position for `epoch`: periods are T_0, T_0 · T_mult, T_0 · T_mult², …"""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n


class OneCycleLR(_CyclesMomentum, LRScheduler):
    """One cycle (Smith & Topin 2018): up to `max_lr` in `pct_start` of the steps, then far down.

    The length is `total_steps`, or `epochs` times `steps_per_epoch`. Starts at `max_lr / div_factor`, ends at that divided
    by `final_div_factor`. `three_phase` comes down to the start first. Raises ValueError when stepped past the end.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        self.total_steps = self._count_steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = self._phases(pct_start, three_phase)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        max_lrs = _format_param("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for high, group in zip(max_lrs, optimizer.param_groups, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_up_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _count_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
        if total_steps is not None:
            if total_steps <= 0 or not isinstance(total_steps, int):
                raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
            return total_steps
        if epochs is None or steps_per_epoch is None:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
            if not isinstance(value, int) or value <= 0:
                raise ValueError(f"Expected positive integer {name}, but got {value}")
        return epochs * steps_per_epoch

    def _phases(self, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
        """Each phase: the step it ends at, and which group entries the rate and the momentum go from and to."""

        def phase(end: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
            return {
                "end_step": end,
                "start_lr": start_lr,
                "end_lr": end_lr,
                "start_momentum": start_momentum,
                "end_momentum": end_momentum,
            }

        top = float(pct_start * self.total_steps) - 1
        up = phase(top, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        if not three_phase:
            return [up, phase(self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        return [
            up,
            phase(2 * top, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
            phase(self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
        ]

    def _anneal(self, start: Any, end: Any, done: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (1 + math.cos(math.pi * done))
        return (end - start) * done + start

    def get_lr(self) -> list[Any]:
        """The rates at `last_epoch`; sets the momenta beside them."""
        self._warn_unless_stepping()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        rates = []
        for group in self.optimizer.param_groups:
            begin: float = 0
            for number, phase in enumerate(self._schedule_phases):
                if step <= phase["end_step"] or number == len(self._schedule_phases) - 1:
                    done = (step - begin) / (phase["end_step"] - begin)
                    rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], done))
                    if self.cycle_momentum:
                        momenta = group[phase["start_momentum"]], group[phase["end_momentum"]]
                        self._set_momentum(group, self._anneal(*momenta, done))
                    break
                begin = phase["end_step"]
        return rates
