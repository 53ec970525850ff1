# Tangled from chapters/00_tensor/16_checkpoint.py — edit there, or here and run `readtorch sync`.
"""Activation checkpointing (twin of `torch/utils/checkpoint.py`)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import readtorch as torch
from readtorch.autograd.function import Function
from readtorch.autograd.graph import saved_tensors_hooks
from readtorch.c10.core import autograd_state

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

ContextFunction = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]


def _devices(value: Any) -> list[int]:
    if isinstance(value, torch.Tensor):
        return [] if value.device.type in ("cpu", "meta") else [value.get_device()]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [number for each in value for number in _devices(each)]


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The numbers of the devices where tensors in `args` lie, and the states of their random generators."""
    numbers = _devices(args)
    return numbers, [torch.cuda.get_rng_state(number) for number in numbers]


def set_device_states(devices: Iterable[int], states: Iterable[Any], *, device_type: str | None = None) -> None:
    """Put the generator of each device into its state."""
    for number, state in zip(devices, states, strict=False):
        torch.cuda.set_rng_state(state, number)


class _Surroundings:
    """The random states and the autocast modes of the first run; `restored()` is a context in which they hold again."""

    def __init__(self, preserve_rng_state: bool, values: Any) -> None:
        self.rng_state = torch.get_rng_state() if preserve_rng_state else None
        self.devices, self.states = get_device_states(values) if preserve_rng_state else (_devices(values), [])
        kinds = ("cpu", "cuda") if self.devices else ("cpu",)
        self.autocast = {
            kind: {
                "enabled": torch.is_autocast_enabled(kind),
                "dtype": torch.get_autocast_dtype(kind),
                "cache_enabled": torch.is_autocast_cache_enabled(),
            }
            for kind in kinds
        }

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        keep = self.rng_state is not None
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices=self.devices, enabled=keep))
            if keep:
                torch.set_rng_state(self.rng_state)
                set_device_states(self.devices, self.states)
            for kind, options in self.autocast.items():
                stack.enter_context(torch.amp.autocast(kind, **options))
            yield


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors among `inputs` as new leaves that require a gradient where they did. RuntimeError for anything but a tuple."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn where no tensor of `inputs` requires a gradient: none will arrive anywhere."""
    if not any(x.requires_grad for x in inputs if isinstance(x, torch.Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class CheckpointFunction(Function):
    """Run a function without recording, and again in backward. The gradients of what it uses besides its arguments accumulate there."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state, args)
        #: Tensors are saved the usual way, so that a change in place is noticed; their places hold None.
        ctx.others = [None if isinstance(x, torch.Tensor) else x for x in args]
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with torch.no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        task = autograd_state.state.graph_task
        if task is not None and task.needed is not None:
            raise RuntimeError(
                "With use_reentrant=True, torch.utils.checkpoint is incompatible with .grad(), and with backward(inputs=...). "
                "Pass use_reentrant=False, or let backward() run to all leaves."
            )
        inputs = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = tensor
        leaves = detach_variable(tuple(inputs))
        with ctx.surroundings.restored(), torch.enable_grad():
            outputs = ctx.run_function(*leaves)
        outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
        flowing = [
            (output, grad)
            for output, grad in zip(outputs, grads, strict=True)
            if isinstance(output, torch.Tensor) and output.requires_grad
        ]
        if not flowing:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        torch.autograd.backward([output for output, _ in flowing], [grad for _, grad in flowing])
        return (None, None, *(x.grad if isinstance(x, torch.Tensor) else None for x in leaves))


class CheckpointError(RuntimeError):
    """The second run saved something else than the first."""


class _StopRecomputationError(Exception):
    """The last saved tensor is there."""


def noop_context_fn() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """No contexts for the two runs: the default of `context_fn`."""
    return contextlib.nullcontext(), contextlib.nullcontext()


_early_stop: bool | None = None
_debug: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether the second run ends with the last saved tensor, for the forward passes inside."""
    global _early_stop
    outer, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = outer


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Overrides `debug=` inside. Here, errors always name what was saved."""
    global _debug
    outer, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = outer


def _described(tensor: Any) -> dict[str, Any]:
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


_CHECKS: dict[str, Callable[[Any], Any]] = {"default": _described, "none": lambda tensor: None}


class _Frame:
    """One checkpointed call: how to run it again, what the first run saved, and what the second has put there so far."""

    def __init__(
        self, run: Callable[[], Any], inputs: list[Any], check: Callable[[Any], Any], early_stop: bool
    ) -> None:
        self.run = run
        self.check = check
        self.early_stop = early_stop
        self.inputs = [(x, x._version) for x in inputs if isinstance(x, torch.Tensor)]
        self.saved: list[Any] = []
        self.recomputed: dict[int, Any] = {}

    def pack(self, tensor: Any) -> int:
        """The number that stands for a tensor saved by the first run."""
        self.saved.append(self.check(tensor))
        return len(self.saved) - 1

    def unpack(self, number: int) -> Any:
        """The tensor, computed again unless it is there; each is handed out once per run, and so is free afterwards."""
        if number not in self.recomputed:
            self._recompute()
        return self.recomputed.pop(number)

    def _recompute(self) -> None:
        for tensor, version in self.inputs:
            if tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: an argument of "
                    f"checkpoint() is at version {tensor._version}; expected version {version} instead."
                )
        found: list[Any] = []

        def pack(tensor: Any) -> Any:
            found.append(tensor.detach())
            if self.early_stop and len(found) == len(self.saved):
                raise _StopRecomputationError
            return found[-1]

        hooks = saved_tensors_hooks(pack, lambda tensor: tensor)
        with contextlib.suppress(_StopRecomputationError), hooks, torch.enable_grad():
            self.run()
        self._compare(found)
        self.recomputed = dict(enumerate(found))

    def _compare(self, found: list[Any]) -> None:
        if len(found) != len(self.saved):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved the second time the function ran.\n"
                f"In forward: {len(self.saved)}\n"
                f"In recomputation: {len(found)}."
            )
        different = [
            f"tensor at position {number}:\nsaved metadata: {first}\nrecomputed metadata: {self.check(second)}\n"
            for number, (first, second) in enumerate(zip(self.saved, found, strict=True))
            if first != self.check(second)
        ]
        if different:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata from those of "
                "the first run:\n" + "".join(different)
            )


def _kept(values: list[Any]) -> list[Callable[[], Any]]:
    """For each argument, how to have it again. Inside another checkpoint its tensors are saved as that one saves: by their numbers."""
    hooks = autograd_state.state.saved_tensor_hooks
    if not hooks:
        return [partial(_itself, value) for value in values]
    pack, unpack = hooks[-1]

    def keeper(value: Any) -> Callable[[], Any]:
        if not isinstance(value, torch.Tensor) or (value.is_leaf and value.requires_grad):
            return partial(_itself, value)
        packed, wants = pack(value), value.requires_grad
        return lambda: unpack(packed).detach().requires_grad_(wants)

    return [keeper(value) for value in values]


def _itself(value: Any) -> Any:
    return value


def _chosen(name: str, use_reentrant: bool | None) -> bool:
    """What the caller asked for, or the default of old, with a warning: it is to change."""
    if use_reentrant is None:
        warnings.warn(
            f"{name}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended; "
            "without it, use_reentrant=True is taken, and future versions raise.",
            stacklevel=3,
        )
    return use_reentrant is None or use_reentrant


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: ContextFunction = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, keeping its arguments instead of what it saves for backward.

    `preserve_rng_state=True` (a keyword taken from `kwargs`) lets the second run draw the first one's random numbers. ValueError for keywords or contexts
    with `use_reentrant=True`, which is the default of old and warns; CheckpointError in backward where the runs save different tensors.
    """
    use_reentrant = _chosen("torch.utils.checkpoint", use_reentrant)
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    if (debug if _debug is None else _debug) and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    if determinism_check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}")
    forward_context, recompute_context = context_fn()
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    surroundings = _Surroundings(preserve, (args, kwargs))

    arguments, names = _kept([*args, *kwargs.values()]), list(kwargs)
    inputs = [argument.args[0] for argument in arguments if isinstance(argument, partial)]
    count = len(args)

    def again() -> None:
        values = [argument() for argument in arguments]
        with surroundings.restored(), recompute_context:
            function(*values[:count], **dict(zip(names, values[count:], strict=True)))

    stop = early_stop if _early_stop is None else _early_stop
    frame = _Frame(again, inputs, _CHECKS[determinism_check], stop)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run `functions` one after the other in `segments` runs, each but the last checkpointed. ValueError for unknown keywords."""
    use_reentrant = _chosen("torch.utils.checkpoint.checkpoint_sequential", use_reentrant)
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    steps = list(functions.children()) if isinstance(functions, torch.nn.Sequential) else list(functions)

    def run(part: list[Any]) -> Callable[[Any], Any]:
        def forward(x: Any) -> Any:
            for step in part:
                x = step(x)
            return x

        return forward

    size = len(steps) // segments
    for start in range(0, size * (segments - 1), size):
        segment = run(steps[start : start + size])
        input = checkpoint(segment, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(steps[size * (segments - 1) :])(input)
