# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from readtorch import _C
from readtorch.c10.core import autograd_state
from readtorch.c10.core.tensor_impl import version_counter

Node = _C._Node


def _register(node: Any, attribute: str, hook: Callable[..., Any]) -> Any:
    from readtorch.utils.hooks import RemovableHandle

    hooks = getattr(node, attribute)
    if hooks is None:
        hooks = OrderedDict()
        setattr(node, attribute, hooks)
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_hook(self: Any, fn: Callable[..., Any]) -> Any:
    """Call `fn(grad_inputs, grad_outputs)` after this node has run; a tuple it returns replaces `grad_inputs`."""
    return _register(self, "_post_hooks", fn)


def register_prehook(self: Any, fn: Callable[..., Any]) -> Any:
    """Call `fn(grad_outputs)` before this node runs; a tuple it returns replaces them."""
    return _register(self, "_pre_hooks", fn)


Node.register_hook = register_hook  # type: ignore[attr-defined]  # added after the class
Node.register_prehook = register_prehook  # type: ignore[attr-defined]  # added after the class


class GradientEdge(NamedTuple):
    """A place in the graph: output `output_nr` of `node`."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of `tensor` flows. RuntimeError if it requires none."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge of a Tensor without requires_grad")
    return GradientEdge(*_C._split_edge(_C._gradient_edge(tensor)))


class saved_tensors_hooks:
    """Keep `pack_hook(tensor)` in place of each tensor saved inside, and `unpack_hook` of that gives it back in backward."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        for hook in self.hooks:
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks: both hooks must be functions, not {type(hook).__name__}")
        if autograd_state.state.saved_tensor_hooks_disabled is not None:
            raise RuntimeError(autograd_state.state.saved_tensor_hooks_disabled)
        self.outer = autograd_state.set_special(
            "saved_tensor_hooks", (*autograd_state.state.saved_tensor_hooks, self.hooks)
        )

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("saved_tensor_hooks", self.outer)


class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in the host's memory and bring them back to their device in backward."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Any:
    """Inside, whoever sets saved-tensor hooks gets a RuntimeError of this message, and so does this if some are set."""
    state = autograd_state.state
    if state.saved_tensor_hooks:
        raise RuntimeError(error_message)
    outer, state.saved_tensor_hooks_disabled = state.saved_tensor_hooks_disabled, error_message
    try:
        yield
    finally:
        state.saved_tensor_hooks_disabled = outer


@contextmanager
def allow_mutation_on_saved_tensors() -> Any:
    """Inside, tensors that backward needs may be written to in place: it works with their values at the time they were saved."""
    context = saved_tensors_hooks(lambda tensor: tensor.detach().clone(), lambda kept: kept)
    with context:
        yield context


def increment_version(tensor: Any) -> None:
    """Tell autograd that the memory of `tensor`, or of several, was written to by something that it did not see."""
    for one in (tensor,) if isinstance(tensor, _C.TensorBase) else tensor:
        if one.is_inference() and not autograd_state.state.inference_mode:
            raise RuntimeError("Inference tensors do not track version counter.")
        version_counter(one).bump()


def register_multi_grad_hook(tensors: Any, fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call `fn(gradients)` in each backward pass when all of `tensors` that it reaches have theirs, None for the others.

    With `mode="any"`, call `fn(gradient)` when the first arrives. ValueError for another mode.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if not hasattr(tensors, "__len__"):
        raise TypeError(f"tensors must have a length, and {type(tensors).__name__} has none")
    tensors = tuple(tensors)
    for tensor in tensors:
        if not tensor.requires_grad:
            raise AssertionError("Expected gradient function to be set: a tensor needs no gradient")
    nodes = [_C._split_edge(_C._gradient_edge(tensor))[0] for tensor in tensors]
    passes: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()

    def arrived(place: int) -> Callable[[Any], None]:
        def hook(gradient: Any) -> None:
            task = autograd_state.state.graph_task
            seen = passes.setdefault(task, [None] * len(tensors))
            seen[place] = gradient
            have = sum(value is not None for value in seen)
            if mode == "any" and have == 1:
                fn(gradient)
            elif mode == "all" and have == sum(task.will_run(node) for node in nodes):
                fn(seen)

        return hook

    handles = [tensor.register_hook(arrived(place)) for place, tensor in enumerate(tensors)]

    from readtorch.utils.hooks import RemovableHandle

    class _MultiHandle(RemovableHandle):
        """Takes back all of them."""

        __qualname__ = "_MultiHandle"

        def remove(self) -> None:
            for handle in handles:
                handle.remove()

    return _MultiHandle(OrderedDict())


def region_activation_memory_budget(budget: float) -> Any:
    """How much of a compiled region's activations are kept. RuntimeError: nothing is compiled here, as in eager mode upstream."""
    where = "torch.autograd.graph.region_activation_memory_budget"
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise TypeError(f"{where}: expects a float, got {type(budget).__name__}")
    if not 0 <= budget <= 1:
        raise ValueError(f"{where}: must be in [0, 1], got {budget}")
    raise RuntimeError(
        f"{where} can only be used inside a torch.compile region; torch.utils.checkpoint works without one"
    )


class _Switches:
    """Two settings of upstream's engine for streams. They are remembered; the engine here waits for streams in one way only."""

    warn_on_stream_mismatch = True
    override_stale_capture_stream = False


def _switch(name: str, enabled: bool) -> None:
    if not isinstance(enabled, bool):
        raise RuntimeError(f"enabled must be a bool, but got {type(enabled).__name__}")
    setattr(_Switches, name, enabled)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Whether upstream warns when a gradient was made on another stream than its leaf's. Here nothing warns of it."""
    _switch("warn_on_stream_mismatch", enabled)


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Whether upstream, while it captures a graph, replaces streams that do not belong to it. Here none is replaced."""
    _switch("override_stale_capture_stream", enabled)
