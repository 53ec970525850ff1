# Tangled from chapters/00_tensor/13_functions_and_graph.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

from readtorch import _C
from readtorch.c10.core import autograd_state

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


Node.register_hook = register_hook  # type: ignore[attr-defined]
Node.register_prehook = register_prehook  # type: ignore[attr-defined]


class GradientEdge(NamedTuple):
    """A place in the graph: output `output_nr` of `node`."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """Where the gradient of `tensor` flows. RuntimeError if it requires none."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*_C._split_edge(tensor._edge))


class saved_tensors_hooks:
    """Keep `pack_hook(tensor)` in place of each tensor saved inside, and `unpack_hook` of that gives it back in backward."""

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
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
    """Forbid saved-tensor hooks inside, with this message."""
    outer = autograd_state.set_special("saved_tensor_hooks", (error_message,))
    try:
        yield
    finally:
        autograd_state.set_special("saved_tensor_hooks", outer)
