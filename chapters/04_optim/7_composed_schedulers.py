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
# # Schedules that are composed, that listen, that go round

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

# %% [markdown]
# ## Schedulers of schedulers
#
# `ChainedScheduler` steps all of them every time; the recurrences multiply. `SequentialLR` hands over at milestones, and there the initial steps of the
# constructors are in the way: each scheduler has already set its own first rate. It puts the initial rates back, undoes the counters, and performs
# the initial step again for the one scheduler whose turn it is.


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#SequentialLR
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


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#ChainedScheduler
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


# %% [markdown]
# ## ReduceLROnPlateau: patience is counted in bad epochs, and one more
#
# The rate falls at the epoch at which `num_bad_epochs` *exceeds* `patience`. So `patience=2` tolerates two epochs without improvement and acts on the third;
# an epoch counts as improvement only beyond the threshold, relative by default.


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#ReduceLROnPlateau
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


# %% [markdown]
# ## Cycles


# %% [markdown]
# Two schedules move the momentum against the rate: high rate, low momentum. For the Adam family that is the first beta.


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#CyclicLR
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


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#CyclicLR
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


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#CosineAnnealingWarmRestarts
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


# %%
#| into: optim/lr_scheduler.py
#| upstream: torch/optim/lr_scheduler.py#OneCycleLR
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


# %%
#| claim: with patience=2 ReduceLROnPlateau reduces at the third epoch without improvement
def _(torch):
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
    rates = []
    for metric in (3.0, 3.0, 3.0, 3.0):
        scheduler.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1.0, 1.0, 1.0, 0.5]
