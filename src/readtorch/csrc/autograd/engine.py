# Tangled from chapters/00_tensor/04b_the_walk.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import numpy as np

from readtorch.aten import record_function
from readtorch.aten.tensor_iterator import ignore_floating_errors, restore_floating_errors
from readtorch.c10.core import autograd_state, tensor_impl
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.device_guard import BACKWARD, GUARDS, NOTHING
from readtorch.csrc.autograd.anomaly_mode import check_finite, report_forward
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
from readtorch.csrc.autograd.input_buffer import add
from readtorch.csrc.autograd.input_metadata import fit_array, fit_tensor
from readtorch.csrc.autograd.node import Node
from readtorch.csrc.autograd.python_hook import as_tensor, call_post_hooks, call_pre_hooks, call_tensor_pre_hooks


def compute_dependencies(root: Node) -> dict[Node, int]:
    """For each node reachable from `root`: the number of edges that arrive at it."""
    counts: dict[Node, int] = {}
    stack = [root]
    while stack:
        for edge in stack.pop()._edges:
            if edge is None:
                continue
            node = edge[0] if edge.__class__ is tuple else edge
            if node in counts:
                counts[node] += 1
            else:
                counts[node] = 1
                stack.append(node)
    return counts


def needed_nodes(root: Node, captures: dict[Node, list[tuple[int, int]]]) -> set[Node]:
    """The nodes from which an edge path leads to a node in `captures`."""
    needed: set[Node] = set()
    done: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, children_done = stack.pop()
        children = [edge[0] if edge.__class__ is tuple else edge for edge in node._edges if edge is not None]
        if children_done:
            if any(child in needed or child in captures for child in children):
                needed.add(node)
        elif node not in done:
            done.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child in children if child not in done)
    return needed


class GraphTask:
    """One call of backward: what has arrived, what is ready, what the caller wants back."""

    __slots__ = (
        *("__weakref__", "buffers", "callbacks", "captured", "captures", "dependencies"),
        *("graph", "heap", "keep", "needed"),
    )

    def __init__(self, keep: bool, graph: bool, captures: dict[Node, list[tuple[int, int]]], size: int) -> None:
        self.keep = keep
        self.graph = graph
        self.dependencies: dict[Node, int] = {}
        self.buffers: dict[Node, list[Any]] = {}
        self.heap: list[tuple[int, int, Node]] = []
        self.callbacks: list[Callable[[], None]] = []
        self.captures = captures
        self.captured: list[Any] = [None] * size
        self.needed: set[Node] | None = None

    def will_run(self, node: Node) -> bool:
        """Does this pass reach `node`?"""
        return node in self.dependencies and (self.needed is None or node in self.needed)


class GraphRoot(Node):
    """The node before the first: its edges lead to the roots, its result is the gradients given to backward."""

    __slots__ = ("grads",)
    _fresh = False

    def __init__(self, edges: tuple, grads: list[Any]) -> None:
        self._edges = edges
        self._sequence = 1 << 62
        self.grads = grads

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        return self.grads


def execute(
    edges: tuple,
    grads: list[Any],
    keep: bool,
    graph: bool,
    inputs: list[tuple[Node, int]] | None = None,
    accumulate: bool = True,
) -> list[Any]:
    """Walk the graph from `edges`, to which `grads` flow in.

    With `graph`, gradients are tensors and the walk is itself recorded; else they are raw arrays. With `inputs`, only nodes that lead to those (node, output number)
    run, and their gradients are returned, or with `accumulate` added to the leaves' `.grad`.
    """
    captures: dict[Node, list[tuple[int, int]]] = {}
    for index, (node, number) in enumerate(inputs or ()):
        captures.setdefault(node, []).append((number, index))
    root = GraphRoot(edges, grads)
    task = GraphTask(keep, graph, {} if accumulate else captures, len(inputs or ()))
    task.dependencies = compute_dependencies(root)
    if inputs is not None:
        task.needed = needed_nodes(root, captures)
        if accumulate:
            task.needed.update(captures)
    outer_task, outer_mode = state.graph_task, state.grad_mode
    state.graph_task = task
    autograd_state.set_grad_enabled(graph)
    state.backward_depth += 1
    token = ignore_floating_errors()
    try:
        _propagate(task, root, grads)
        heap = task.heap
        evaluate = _evaluate_on_device if GUARDS else _evaluate
        while heap:
            evaluate(task, heappop(heap)[2])
        for callback in task.callbacks:
            callback()
    finally:
        restore_floating_errors(token)
        state.backward_depth -= 1
        state.graph_task = outer_task
        autograd_state.set_grad_enabled(outer_mode)
    return task.captured


def _evaluate(task: GraphTask, node: Node) -> None:
    buffer = task.buffers.pop(node)
    count = node._count
    grads = buffer[:count]
    if node._tensor_pre_hooks is not None:
        call_tensor_pre_hooks(node._tensor_pre_hooks, grads, task.graph)
        buffer[count:] = [False] * count
    if task.captures and node in task.captures:
        _capture(task, node, grads)
        buffer[count:] = [False] * count
        if task.needed is not None and node not in task.needed:
            return
    if node._retains_grad is not None:
        _retain(node, grads, task.graph)
        buffer[count:] = [False] * count
    if node.__class__ is AccumulateGrad:
        node.owned = buffer[1]
    outputs = _call_function(task, node, grads)
    if not task.keep:
        node.release_variables()
    if node._edges:
        _propagate(task, node, outputs, grads, count == 1 and buffer[1] and not (node._pre_hooks or node._post_hooks))


def _evaluate_on_device(task: GraphTask, node: Node) -> None:
    """`_evaluate` where an accelerator is in use: on the device of the node's gradients and the stream of its forward."""
    buffer = task.buffers[node]
    grad = next((grad for grad in buffer[: node._count] if grad is not None), None)
    array = grad._array if task.graph and grad is not None else grad
    enter = BACKWARD.get(array.__class__)
    with NOTHING if enter is None else enter(node._stream, array):
        _evaluate(task, node)


def _call_function(task: GraphTask, node: Node, grads: list[Any]) -> Any:
    observer = record_function.observer
    begin = time.perf_counter_ns() if observer is not None else 0
    graph = task.graph
    if node._pre_hooks:
        grads[:] = call_pre_hooks(node._pre_hooks, grads, graph)
    if state.anomaly:
        outputs = _apply_watched(node, grads, graph)
    else:
        outputs = node.apply(grads, graph)
    if node._post_hooks and len(outputs) == len(node._edges):
        outputs = call_post_hooks(node._post_hooks, _fitted(node, outputs, graph), grads, graph)
    if observer is not None:
        observer.node(node, tuple(grads), tuple(outputs), begin, time.perf_counter_ns())
    return outputs


def _apply_watched(node: Node, grads: list[Any], graph: bool) -> Any:
    try:
        outputs = node.apply(grads, graph)
        if state.check_nan:
            check_finite(node, outputs)
    except Exception:
        report_forward(node)
        raise
    return outputs


def _propagate(task: GraphTask, node: Node, outputs: Any, incoming: Any = (), owned_input: bool = False) -> None:
    """Hand each gradient to the node its edge leads to, in the shape and dtype that node's output has.

    `owned_input`: the one incoming gradient is an array that nobody else holds.
    """
    edges = node._edges
    if len(outputs) != len(edges):
        raise RuntimeError(
            f"Function {node.name()} returned an invalid number of gradients - expected {len(edges)}, but got {len(outputs)}"
        )
    graph = task.graph
    fresh = node._fresh and not graph
    buffers, dependencies, needed = task.buffers, task.dependencies, task.needed
    given = list(map(id, incoming))
    for index, edge in enumerate(edges):
        if edge is None:
            continue
        if edge.__class__ is tuple:
            target, number = edge
        else:
            target, number = edge, 0
        left = dependencies[target] = dependencies[target] - 1
        if needed is not None and target not in needed and target not in task.captures:
            continue
        count = target._count
        grad = outputs[index]
        owned = False
        if grad is not None:
            if graph:
                grad = fit_tensor(node, index, grad, target, number)
            elif (
                count != 1
                or grad.__class__ is not np.ndarray
                or grad.shape != target._shape
                or grad.dtype is not target._dtype
            ):
                grad = fit_array(node, index, grad, target, number)
            if fresh:
                if grad.base is None:
                    owned = id(grad) not in given
                elif owned_input and len(edges) == 1 and (grad.base is incoming[0] or grad.base is incoming[0].base):
                    owned = grad.size == grad.base.size
                else:
                    owned = id(grad) not in given and _is_sole_view(grad)
            given.append(id(grad))
        buffer = buffers.get(target)
        if buffer is None:
            if count == 1:
                buffers[target] = [grad, owned]
            else:
                buffer = buffers[target] = [None] * count + [False] * count
                add(buffer, number, count, grad, owned)
        else:
            add(buffer, number, count, grad, owned)
        if left == 0:
            heappush(task.heap, (-target._sequence, id(target), target))


def _is_sole_view(grad: Any) -> bool:
    """Is `grad` all of an array that only `grad` refers to? (`.base` makes the second reference of the two counted.)"""
    if grad.__class__ is not np.ndarray or sys.getrefcount(grad.base) != 2:
        return False
    base = grad.base
    return base.__class__ is np.ndarray and base.base is None and grad.size == base.size


def _fitted(node: Node, outputs: Any, graph: bool) -> list[Any]:
    """What `_propagate` would make of a node's outputs: its post-hooks see it."""
    fit = fit_tensor if graph else fit_array
    edges = [edge if edge.__class__ is tuple else (edge, 0) for edge in node._edges]
    return [
        grad if grad is None or edge[0] is None else fit(node, index, grad, *edge)
        for index, (grad, edge) in enumerate(zip(outputs, edges, strict=True))
    ]


def _retain(node: Node, grads: list[Any], graph: bool) -> None:
    assert node._retains_grad is not None
    for number, reference in node._retains_grad.items():
        tensor = reference()
        if tensor is None or grads[number] is None:
            continue
        grad = as_tensor(grads[number], graph)
        if tensor._grad is None:
            tensor._grad = grad if graph else tensor_impl.wrap(grad._array.copy())
        else:
            tensor._grad = tensor._grad + grad


def _capture(task: GraphTask, node: Node, grads: list[Any]) -> None:
    for number, index in task.captures[node]:
        task.captured[index] = grads[number]


def queue_callback(callback: Callable[[], None]) -> None:
    """Call `callback` when the backward pass that is running has finished. RuntimeError outside of one."""
    if state.graph_task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    state.graph_task.callbacks.append(callback)
