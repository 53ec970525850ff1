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
# # Checkpointing: compute again instead of keeping
#
# How much memory does `checkpoint(function, x)` save, what does it cost, and what does it silently break? What a forward
# pass saves for backward is most of what training keeps in memory. A checkpoint keeps the arguments alone, and computes
# the rest again when backward asks for it: one more forward pass, for the memory of one segment.
#
# Upstream has two ways. The older one is an `autograd.Function` whose backward runs the function again and calls
# `backward` inside of `backward` (*re-entrant*). The newer one is made of saved-tensor hooks: a placeholder is kept for
# each saved tensor, and the first one that is asked for runs the function again and fills in all of them. Both use
# nothing but what the parts before have built. So this part is also their test: the engine must nest, the hooks must see
# every saved tensor, and what runs twice must run the same.

# %%
import tracemalloc

import matplotlib.pyplot as plt

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## What is gained, and with how many segments?
#
# Sixteen layers, each of which saves its input, and the memory in use whenever a layer runs, first forward, then backward:

# %%
#| needs: a1_operators
from readtorch.utils.checkpoint import checkpoint

LAYERS, SIZE = 16, 1 << 16


def memory_over_time(segments):
    """Megabytes in use, read each time a layer runs, forward or backward."""
    seen = []

    def note(grad=None):
        seen.append(tracemalloc.get_traced_memory()[0] / 1e6)

    def run(x, count):
        for _ in range(count):
            x = x.sin()
            note()
            if x.requires_grad:
                x.register_hook(note)
        return x

    x = torch.ones(SIZE, requires_grad=True)
    tracemalloc.start()
    try:
        if segments:
            for _ in range(segments):
                x = checkpoint(run, x, LAYERS // segments, use_reentrant=False)
        else:
            x = run(x, LAYERS)
        x.sum().backward()
    finally:
        tracemalloc.stop()
    return seen


figure, axes = plt.subplots(figsize=(7, 3))
for segments, label in ((0, "no checkpoint"), (1, "1 segment"), (4, "4 segments"), (16, "16 segments")):
    axes.plot(memory_over_time(segments), label=label, linestyle="--" if segments == 16 else "-")
axes.set_xlabel("layers run")
axes.set_ylabel("MB")
axes.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# One segment only moves the peak: nothing is kept in the forward pass, and in backward all of it is there again at once.
# Sixteen segments of one layer keep sixteen arguments, which is what was to be saved. In between is the square root: with
# √*n* segments the arguments of all segments and the insides of one are about equal, and the peak grows with √*n*. The
# price is one more forward pass, which the longer curves show: about a third more time, if backward costs twice as much
# as forward. (The sixteen get it for nothing. What a layer saves here is its argument, and the second run ends when that
# is found, before anything is computed.)
#
# Real layers shift the balance. A segment's argument is one activation, while a transformer block saves a dozen. There a
# checkpoint per block is close to the best; the square root is for chains of equal parts.


# %%
#| needs: a1_operators
#| claim: a checkpointed function lets go of everything inside, runs once more per backward pass, and stops at the last tensor it saves
#| upstream: torch/utils/checkpoint.py#_StopRecomputationError
def _(torch):
    import weakref
    from importlib import import_module

    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    inside, begun, finished = [], [], []

    def function(x):
        begun.append(1)
        hidden = x * 2
        inside.append(weakref.ref(hidden))
        result = hidden.sin()
        finished.append(1)
        return result

    x = torch.ones(2, requires_grad=True)
    kept = function(x)
    assert inside.pop()() is not None and kept is not None
    y = checkpoint(function, x, use_reentrant=False)
    assert inside.pop()() is None
    begun.clear(), finished.clear()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert len(begun) == 2 and len(finished) == 0


# %%
#| into: utils/__init__.py
_MODULES.append("checkpoint")

# %%
#| into: utils/checkpoint.py
"""Activation checkpointing (twin of `torch/utils/checkpoint.py`)."""

# %%
#| into: utils/checkpoint.py
#| imports
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

# %%
#| into: utils/checkpoint.py
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

# %% [markdown]
# ## What has to be as it was?
#
# The second run must give what the first gave, and a function has more inputs than its arguments. Two of the hidden ones
# are put back: the random generator (and afterwards forward again), and autocast. Everything else is the caller's affair:
# a counter, the time, a flag that `model.eval()` has changed in between, the running statistics of a normalization layer.
#
# A device has a generator of its own, which draws that device's dropout masks: of each tensor argument that lies on one, its state is kept too.
#
# Saving the generator is not free: its state on the CPU is five kilobytes, copied at each checkpoint and set twice in
# backward. `preserve_rng_state=False` is for segments that draw no random numbers.


# %%
#| into: utils/checkpoint.py
#| upstream: torch/utils/checkpoint.py#get_device_states
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


# %%
#| into: utils/checkpoint.py
#| upstream: torch/utils/checkpoint.py#_get_autocast_kwargs
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


# %%
#| needs: a1_operators
#| claim: the state of the CPU's generator is 5056 bytes
def _(torch):
    assert torch.get_rng_state().numel() == 5056 and torch.get_rng_state().dtype is torch.uint8


# %% [markdown]
# ## The old way: backward inside of backward
#
# The segment is one node. Its forward ran without recording. Its backward makes leaves of the arguments, runs the segment
# again *with* recording, and calls `backward` on what comes out: a second walk, on a second graph, while the first one
# waits. Parameters that the segment uses are leaves of the inner graph and get their gradients there. The gradients of
# the arguments are read off the new leaves and handed to the outer walk.
#
# ```mermaid
# sequenceDiagram
#   accTitle: A re-entrant checkpoint in backward
#   accDescr: The outer walk runs the node CheckpointFunctionBackward, which runs the function again, starts an inner walk over the recorded graph, whose AccumulateGrad nodes store gradients of parameters and of the new leaves, and returns the leaves' gradients to the outer walk
#   participant O as outer walk
#   participant C as CheckpointFunctionBackward
#   participant I as inner walk
#   O->>C: gradient of the segment's output
#   C->>C: run the function again, recorded
#   C->>I: backward(outputs, gradient)
#   I->>I: gradients of parameters into .grad
#   I-->>C: gradients of the new leaves
#   C-->>O: gradients of the arguments
# ```
#
# For the engine that is nothing special: `execute` keeps its state in a `GraphTask`, and the thread's current one is put
# aside and put back. Upstream has one more worry. The C++ stack grows with each level, so at a depth of 60 the inner walk
# is handed to a thread from a pool, and the waiting thread sleeps.


# %%
#| into: utils/checkpoint.py
#| upstream: torch/utils/checkpoint.py#detach_variable
def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors among `inputs` as new leaves that require a gradient where they did. RuntimeError for anything but a tuple."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs)


# %%
#| into: utils/checkpoint.py
#| upstream: torch/utils/checkpoint.py#check_backward_validity
def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn where no tensor of `inputs` requires a gradient: none will arrive anywhere."""
    if not any(x.requires_grad for x in inputs if isinstance(x, torch.Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


# %%
#| into: utils/checkpoint.py
#| upstream: torch/utils/checkpoint.py#CheckpointFunction
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


# %% [markdown]
# ## The new way: placeholders
#
# Here the graph is the ordinary one, node for node; only what the nodes have saved is gone. Tensors are numbered in the
# order in which they are saved, and the second run saves them in the same order. It is stopped as soon as the last one is
# there, by an exception thrown out of the pack hook: what follows would only compute an output that is known. Upstream
# saves the inputs of an operator before it calls the kernel, so if a block ends in a matrix product, that product is not
# computed again.
#
# Everything that the old way cannot do follows from that graph. Only the nodes on the way run, so `autograd.grad` and `inputs=` work; the edges are real, so arguments hidden in lists and parameters alone are connected; gradients of gradients are recorded.


# %%
#| into: utils/checkpoint.py
#| upstream: torch/utils/checkpoint.py#CheckpointError
class CheckpointError(RuntimeError):
    """The second run saved something else than the first."""


# %%
#| into: utils/checkpoint.py
#| upstream: torch/utils/checkpoint.py#_StopRecomputationError
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


# %% [markdown]
# A frame is one checkpointed call. `pack` keeps a number and a description, `unpack` asks for the tensor of that number.
# The first number that is not there starts the second run, under hooks of its own that collect what it saves.


# %%
#| into: utils/checkpoint.py
#| upstream: torch/utils/checkpoint.py#_CheckpointFrame
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


# %% [markdown]
# A checkpoint inside a checkpoint is unwound by levels: the arguments of the inner one are themselves placeholders of the
# outer.


# %%
#| into: utils/checkpoint.py
#| upstream: torch/utils/checkpoint.py#checkpoint
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


# %%
#| into: utils/checkpoint.py
#| upstream: torch/utils/checkpoint.py#checkpoint_sequential
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


# %% [markdown]
# ## What do the two ways look like when they run?
#
# A function with dropout, in both ways. The new one first: `backward` reaches `ExpBackward0` and asks for its result, and
# that starts the second run. The dropout drops the same numbers.

# %%
#| needs: a1_operators
calls = []


def noisy(x):
    calls.append(x.shape)
    return torch.dropout(x, 0.5, True).exp()


x = torch.ones(6, requires_grad=True)
y = checkpoint(noisy, x, use_reentrant=False)

# %%
#| needs: a1_operators
#| trace: torch.utils.checkpoint torch.csrc.autograd.engine layers=calls,ops,autograd values=summary title="placeholders: the second run begins inside of ExpBackward0"
y.sum().backward()

# %%
#| needs: a1_operators
len(calls), y, x.grad

# %% [markdown]
# And the old one. In the calls, `execute` stands inside of `execute`.

# %%
#| needs: a1_operators
x.grad = None
y = checkpoint(noisy, x, use_reentrant=True)

# %%
#| needs: a1_operators
#| trace: torch.utils.checkpoint torch.csrc.autograd.engine layers=calls,ops,autograd values=summary title="re-entrant: a walk within a walk"
y.sum().backward()

# %%
#| needs: a1_operators
y.grad_fn, x.grad


# %%
#| needs: a1_operators
#| claim: a checkpoint gives the gradients of the plain call, and runs the function again in backward
def _(torch):
    from importlib import import_module

    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    for reentrant in (True, False):
        runs = []
        weight = torch.tensor([2.0, 3.0], requires_grad=True)

        def function(x):
            runs.append(1)
            return (x * weight).sigmoid()

        x = torch.tensor([1.0, -1.0], requires_grad=True)
        checkpoint(function, x, use_reentrant=reentrant).sum().backward()
        assert len(runs) == 2
        got = x.grad, weight.grad
        x.grad = weight.grad = None
        function(x).sum().backward()
        assert torch.equal(x.grad, got[0]) and torch.equal(weight.grad, got[1])


# %%
#| claim: `backward` may be called inside of backward, to any depth; the inner pass is over before the outer goes on, and both add to a leaf they share
#| upstream: torch/csrc/autograd/engine.h#torch::autograd::NodeTask::getReentrantDepth
def _(torch):
    order = []
    x = torch.ones(1, requires_grad=True)

    def inner(grad):
        order.append("outer pauses")
        with torch.enable_grad():
            (x * 3).backward()
        order.append(f"x.grad is {x.grad.item()}")

    y = x * 2
    y.register_hook(inner)
    y.backward()
    assert order == ["outer pauses", "x.grad is 3.0"] and x.grad.item() == 5

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            if ctx.depth:
                with torch.enable_grad():
                    leaf = torch.ones(1, requires_grad=True)
                    Nested.apply(leaf, ctx.depth - 1).backward()
                grad = grad * leaf.grad
            return grad, None

    deep = torch.ones(1, requires_grad=True)
    Nested.apply(deep, 80).backward()
    assert deep.grad.item() == 1


# %% [markdown]
# ## What does the old way break?
#
# It is still the default, with a warning that promises an exception "in version 2.9", and still does in 2.13. Four
# programs that it breaks, none with an error in the line that is to blame:
#
# **The first layer does not learn** (pytorch/pytorch#7617, huggingface/transformers#21381). A node is made if an
# *argument* requires a gradient, since the arguments are all that `apply` sees. Data does not, a frozen embedding does
# not, and the parameters inside are no arguments. So the segment comes out without a graph. Programs of the time pass a
# dummy argument, or call `requires_grad_()` on the embedding's output.
#
# **Arguments in a list are constants** (pytorch/pytorch#124725). The same, for tensors in a list or a dataclass.
#
# **`autograd.grad` is refused.** The inner walk stores into `.grad` of whatever it finds, which is the opposite of what was asked.
#
# **Hooks and DDP.** A parameter that is used in two segments is reached by two inner walks, and its hook runs twice, with partial sums; DDP's bucket was marked ready after the first (chapter 7).


# %%
#| needs: a1_operators
#| claim: checkpoint is re-entrant unless told otherwise, and warns; without an argument that requires a gradient, it ends the graph, and the other one does not
#| source: pytorch/pytorch#7617
def _(torch):
    import warnings
    from importlib import import_module

    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    weight, data = torch.ones(2, requires_grad=True), torch.ones(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert checkpoint(torch.exp, weight).grad_fn.name() == "CheckpointFunctionBackward"
        assert "use_reentrant parameter should be passed explicitly" in str(caught[0].message)
        assert not checkpoint(lambda x: x * weight, data, use_reentrant=True).requires_grad
        assert not checkpoint(lambda xs: xs[0].exp(), [weight], use_reentrant=True).requires_grad
    assert any("None of the inputs have requires_grad=True" in str(w.message) for w in caught)
    checkpoint(lambda x: x * weight, data, use_reentrant=False).sum().backward()
    assert weight.grad.tolist() == [1, 1]
    assert checkpoint(lambda xs: xs[0].exp(), [weight], use_reentrant=False).requires_grad


# %%
#| needs: a1_operators
#| claim: a re-entrant checkpoint is one node and refuses autograd.grad; the other leaves the graph as it is, and is differentiable twice
def _(torch):
    from importlib import import_module

    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    x = torch.zeros(1, requires_grad=True)
    old, new = (checkpoint(torch.exp, x, use_reentrant=reentrant) for reentrant in (True, False))
    assert old.grad_fn.name() == "CheckpointFunctionBackward" and new.grad_fn.name() == "ExpBackward0"
    (first,) = torch.autograd.grad(new, x, create_graph=True)
    assert torch.autograd.grad(first, x)[0].item() == 1
    try:
        torch.autograd.grad(old, x)
    except RuntimeError as error:
        assert "torch.utils.checkpoint is incompatible with .grad()" in str(error)
    else:
        raise AssertionError("differentiated")


# %% [markdown]
# ## What if the second run computes something else?
#
# The new way compares how many tensors were saved, and the shape, dtype and device of each. It does not compare values,
# which would mean to keep them. A function that draws its own numbers from NumPy, or reads a schedule that has moved on,
# gets the gradient of a function that was never evaluated, and no error.
#
# Side effects happen twice. The one that matters is batch normalization (pytorch/pytorch#62471, #96136). Both runs update
# its running statistics, so the momentum is in effect 1 − (1 − *m*)² instead of *m*. Loss and gradients are right, since
# in training mode the statistics are not read; the model that is evaluated later is another one.


# %%
#| needs: a1_operators
#| claim: a second run that saves other shapes is an error, one that saves other values is not; without the generator's state, dropout is such a one
#| upstream: torch/utils/checkpoint.py#CheckpointError
def _(torch):
    from importlib import import_module

    module = import_module(f"{torch.__name__}.utils.checkpoint")
    runs = []

    def other_shape(x):
        runs.append(1)
        return (x if len(runs) == 1 else x[:1]).exp()

    x = torch.zeros(2, requires_grad=True)
    try:
        module.checkpoint(other_shape, x, use_reentrant=False).sum().backward()
    except module.CheckpointError as error:
        assert "have different metadata" in str(error)
    else:
        raise AssertionError("not noticed")

    def dropped(preserve):
        x = torch.ones(1000, requires_grad=True)
        y = module.checkpoint(
            lambda x: torch.dropout(x, 0.5, True) * x, x, use_reentrant=False, preserve_rng_state=preserve
        )
        y.sum().backward()
        return bool(((y != 0) == (x.grad != 0)).all())

    assert dropped(True) and not dropped(False)


# %%
#| needs: 03_norm
#| claim: a checkpointed batch normalization updates its running statistics twice per step: a momentum of 0.1 becomes 0.19
#| source: pytorch/pytorch#62471
def _(torch):
    from importlib import import_module

    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    for reentrant in (True, False):
        norm = torch.nn.BatchNorm1d(2)
        checkpoint(norm, torch.ones(3, 2, requires_grad=True), use_reentrant=reentrant).sum().backward()
        assert norm.num_batches_tracked.item() == 2 and abs(norm.running_mean[0].item() - 0.19) < 1e-6


# %%
#| needs: a1_operators
#| claim: an argument that is written to between the runs is noticed
def _(torch):
    from importlib import import_module

    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    for reentrant in (True, False):
        hidden = torch.ones(2, requires_grad=True) * 1
        y = checkpoint(torch.exp, hidden, use_reentrant=reentrant)
        hidden.add_(1)
        try:
            y.sum().backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
        else:
            raise AssertionError("not noticed")


# %% [markdown]
# ### What upstream does more
#
# * **Choosing what to keep.** `create_selective_checkpoint_contexts` gives the two runs a mode that sees every operator.
#   The first run keeps results that are expensive to compute (matrix products, attention), and the second looks them up.
#   `CheckpointPolicy` says which.
# * **`debug=True`** records both runs, operator by operator, with stacks, and prints the two lists side by side when they
#   differ.
# * Random state and autocast are saved for every device type that occurs among the arguments, not for the CPU alone.

# %%
#| fact: torch/utils/checkpoint.py#create_selective_checkpoint_contexts
#| fact: torch/utils/checkpoint.py#CheckpointPolicy
#| fact: torch/utils/checkpoint.py#_checkpoint_without_reentrant_generator
#| fact: torch/utils/checkpoint.py#get_device_states
#| fact: torch/csrc/autograd/engine.h#torch::autograd::MAX_DEPTH
