# Tangled from chapters/00_tensor/10b_starting_the_engine.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.device_guard import device_guard
from readtorch.c10.core.dispatch_key import MetaArray
from readtorch.c10.core.tensor_impl import TensorImpl, wrap
from readtorch.c10.util.exception import warn_once
from readtorch.csrc.autograd import engine, variable
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
from readtorch.csrc.autograd.node import Node, split_edge


def run_backward(
    tensors: Sequence[Any],
    grad_tensors: Sequence[Any],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[Any] = (),
    allow_unreachable: bool = False,
    accumulate_grad: bool = False,
) -> tuple[Any, ...]:
    """Check the roots, run the engine, wrap what it captured."""
    edges: list[Any] = []
    grads: list[Any] = []
    transformed = False
    for number, (tensor, grad) in enumerate(zip(tensors, grad_tensors, strict=True)):
        edge = variable.gradient_edge(tensor) if isinstance(tensor, TensorImpl) else gradient_edge(tensor)
        if isinstance(tensor, TensorImpl) and is_wrapped(tensor._array):
            transformed = True
        if edge is None:
            raise RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn")
        edges.append(edge)
        grads.append(grad)
    if create_graph and accumulate_grad:
        warn_once(
            "backward() with create_graph=True leaves a reference cycle between each parameter and its gradient, hence "
            "a memory leak, until .grad is set to None. autograd.grad() makes no such cycle.",
            stacklevel=4,
        )
    graph = create_graph or transformed  # a formula of such tensors is computed by operators, which know the levels
    if accumulate_grad and (transformed or state.layers):
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported: use torch.func.grad or vjp, or call "
            "backward() outside of the transform."
        )
    if not graph:
        grads = [grad if grad is None else grad._array for grad in grads]
    targets = [_target(tensor, accumulate_grad) for tensor in inputs]
    captured = engine.execute(tuple(edges), grads, keep_graph, graph, targets or None, accumulate_grad)
    if accumulate_grad or not targets:
        return ()
    results: list[Any] = []
    for number, grad in enumerate(captured):
        if grad is None and not allow_unreachable:
            raise RuntimeError(
                f"The differentiated Tensor at index {number} appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."
            )
        if graph and not create_graph and grad is not None:
            grad = grad.detach()
        results.append(grad if grad is None or graph else wrap(_detached(grad, grads)))
    return tuple(results)


def _detached(grad: Any, given: list[Any]) -> Any:
    """A captured gradient nobody else holds: not the array the caller passed in, not a stretched view. It keeps its order in memory."""
    if grad.__class__ is MetaArray or (grad.base is None and all(grad is not other for other in given)):
        return grad
    with device_guard(grad):
        return grad.copy(order="C" if 0 in grad.strides else "K")


def _target(tensor: Any, accumulate: bool) -> tuple[Node, int]:
    if not isinstance(tensor, TensorImpl):
        return split_edge(gradient_edge(tensor))
    if not variable.requires_grad(tensor):
        if accumulate:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    edge = variable.gradient_edge(tensor)
    if accumulate and edge is not None and edge.__class__ is not AccumulateGrad:
        tensor.retain_grad()
    return (Node(), 0) if edge is None else split_edge(edge)


def gradient_edge(edge: Any) -> Any:
    """A `GradientEdge(node, output_nr)` as the engine writes edges."""
    node, number = edge[0], edge[1]
    return node if number == 0 else (node, number)
