# Tangled from chapters/04_optim/8_swa.py — edit there, or here and run `readtorch sync`.
"""Stochastic weight averaging (Izmailov et al. 2018) and exponential moving averages of models."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import readtorch as torch
from readtorch import Tensor
from readtorch.aten.native import foreach_ops_kernels
from readtorch.nn import Module
from readtorch.optim.lr_scheduler import LRScheduler, _format_param
from readtorch.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided: it is a fraction, from 0 to 1.")


def _averages_exactly(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or torch.is_complex(tensor)


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A function of (average, new, count) that gives the exponential moving average with `decay`."""
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A function of (average, new, count) that gives the equal average."""

    @torch.no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[list[Tensor], list[Tensor], Any], None]:
    """`get_ema_avg_fn` on whole lists, in place."""
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param_list: list[Tensor], current_param_list: list[Tensor], _: Any) -> None:
        done = foreach_ops_kernels.lerp_on_device(ema_param_list, current_param_list, 1 - decay)
        for i, (average, new) in enumerate(zip(ema_param_list, current_param_list, strict=True)):
            if i in done:
                continue
            if _averages_exactly(average):
                average.lerp_(new, 1 - decay)
            else:
                average.copy_(average * decay + new * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[list[Tensor], list[Tensor], Any], None]:
    """`get_swa_avg_fn` on whole lists, in place."""

    @torch.no_grad()
    def swa_update(averaged_param_list: list[Tensor], current_param_list: list[Tensor], num_averaged: Any) -> None:
        weight = 1 / (float(num_averaged) + 1)
        done = foreach_ops_kernels.lerp_on_device(averaged_param_list, current_param_list, weight)
        for i, (average, new) in enumerate(zip(averaged_param_list, current_param_list, strict=True)):
            if i in done:
                continue
            if _averages_exactly(average):
                average.lerp_(new, weight)
            else:
                average.addcdiv_(
                    new - average, torch.as_tensor(num_averaged + 1)
                )  #: refuses integers, as upstream does

    return swa_update


class AveragedModel(Module):
    """A copy of `model` whose parameters are averages of the values they took at each `update_parameters`.

    The average is equal-weighted, unless `avg_fn(average, new, count)` for one tensor or `multi_avg_fn` for lists of them
    says otherwise. Buffers are copied from the model, or averaged too with `use_buffers`. The number of averaged models is
    a buffer, `n_averaged` (int64), and so part of the state_dict.

    Raises AssertionError if both functions are given.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[list[Tensor], list[Tensor], Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        if not (avg_fn is None or multi_avg_fn is None):
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        super().__init__()
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers
        copied = deepcopy(model)
        self.module = copied if device is None else copied.to(device)
        self.register_buffer("n_averaged", torch.zeros((), dtype=torch.int64, device=device))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's output."""
        return self.module(*args, **kwargs)

    def _tensors_of(self, module: Module) -> Iterable[Tensor]:
        if self.use_buffers:
            return itertools.chain(module.parameters(), module.buffers())
        return module.parameters()

    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of `model` into the average; the first call copies them."""
        pairs = list(zip(self._tensors_of(self.module), self._tensors_of(model), strict=False))
        averages = [average.detach() for average, _ in pairs]
        news = [new.detach().to(average.device) for average, new in pairs]
        if self.n_averaged == 0:
            for average, new in zip(averages, news, strict=True):
                average.copy_(new)
        elif self.multi_avg_fn is not None:
            #: The user's function may assume one dtype and device, as upstream's callers always had it.
            for kind in dict.fromkeys((a.device, a.dtype) for a in averages):
                chosen = [i for i, a in enumerate(averages) if (a.device, a.dtype) == kind]
                count = self.n_averaged.to(kind[0])
                self.multi_avg_fn([averages[i] for i in chosen], [news[i] for i in chosen], count)
        else:
            average_of = self.avg_fn or get_swa_avg_fn()
            for average, new in zip(averages, news, strict=True):
                average.copy_(average_of(average, new, self.n_averaged.to(average.device)))
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(theirs.detach().to(mine.device))
        self.n_averaged += 1


@torch.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of every batch norm in `model` by one pass over `loader`.

    A batch that is a list or a tuple contributes its first element. Batches of unequal size weigh the same. Training mode
    and each momentum are put back; without batch-norm layers nothing is run.
    """
    from readtorch.nn.modules.batchnorm import _BatchNorm

    momenta = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for norm in momenta:
        norm.reset_running_stats()
        norm.momentum = None
    for batch in loader:
        inputs = batch[0] if isinstance(batch, list | tuple) else batch
        model(inputs if device is None else inputs.to(device))
    for norm, momentum in momenta.items():
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the rate of each group to `swa_lr` in `anneal_epochs` steps, by a cosine or linearly, and keeps it there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        targets = _format_param("swa_lr", optimizer, swa_lr)
        self._set_anneal_func(anneal_strategy)
        if not (isinstance(anneal_epochs, int) and anneal_epochs >= 0):
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, target in zip(optimizer.param_groups, targets, strict=True):
            group["swa_lr"] = target
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, strategy: str) -> None:
        shares = {"cos": _cosine_share, "linear": _linear_share}
        if strategy not in shares:
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {strategy}")
        self._anneal_strategy, self.anneal_func = strategy, shares[strategy]

    def get_lr(self) -> list[Any]:
        """Undo the share of `swa_lr` that the last step mixed in, then mix in this step's."""
        self._warn_unless_stepping()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        length = max(1, self.anneal_epochs)
        before, now = (self.anneal_func(max(0, min(1, s / length))) for s in (step - 1, step))
        rates = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            start = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the function, which is restored from its name."""
        return {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "anneal_func")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.__dict__.update(state_dict)
        self._set_anneal_func(self._anneal_strategy)


def _linear_share(t: float) -> float:
    return t


def _cosine_share(t: float) -> float:
    return (1 - math.cos(math.pi * t)) / 2
