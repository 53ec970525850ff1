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
# # The engine: the walk
#
# In which order do nodes run, and what may happen between two of them? [The nodes](04_engine.py) are there, with what
# they have kept and the leaves at which they end. This part is the algorithm of `backward`, and the places in it where
# others take part: hooks, `autograd.grad`, anomaly mode, a backward inside a backward.

# %%
import time
import warnings

import numpy as np

import readtorch as torch
from readtorch.csrc.autograd import engine
from readtorch.literate import live

live()


# %% [markdown]
# ## How does the engine know that a node is ready?
#
# 1. **Count.** From the roots, follow all edges once and count how many arrive at each node. The node must wait for that
#    many gradients.
# 2. **Run.** A heap has the ready nodes, youngest first. Take one and run it. Add each result to the input buffer of the
#    node at the other end of the edge, and subtract one from that node's count. When the count reaches zero, put that
#    node on the heap.
#
# Youngest first means the reverse order of the forward pass, as far as the counts leave a choice. Correctness does not
# depend on it, but memory does: what was made last is freed first. `AccumulateGrad` has the highest number of all, so a
# leaf's gradient is stored as soon as it is complete. Data-parallel training depends on that: the gradients of the last
# layer travel over the network while those of the first are still being computed.

# %%
#| into: csrc/autograd/engine.py
#| imports
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


# %%
#| into: csrc/autograd/engine.py
#| upstream: torch/csrc/autograd/engine.cpp#torch::autograd::Engine::compute_dependencies
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


# %% [markdown]
# `autograd.grad(y, [w])` wants the gradient at `w` alone, and nodes that do not lead there should not run. One more walk
# finds out which do, children before parents.


# %%
#| into: csrc/autograd/engine.py
#| upstream: torch/csrc/autograd/engine.cpp#torch::autograd::GraphTask::init_to_execute
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


# %%
#| into: csrc/autograd/engine.py
#| upstream: torch/csrc/autograd/graph_task.h#torch::autograd::GraphTask
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


# %%
a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (a * b + a).sum()
counts = engine.compute_dependencies(loss.grad_fn)
[(node.name(), count) for node, count in counts.items()]

# %% [markdown]
# Two gradients must arrive before that of `a` can be stored, one along each path. All other nodes wait for one.


# %%
#| into: csrc/autograd/engine.py
#| upstream: torch/csrc/autograd/engine.cpp#torch::autograd::Engine::execute
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


# %% [markdown]
# Running a node has a fixed order, and users hang hooks on every joint of it. Hooks on the *tensor* see the gradient
# first. Then it is captured, which is where `autograd.grad` reads it. Then `retain_grad` stores it. Then come the node's
# pre-hooks, the formula, and the node's post-hooks.


# %%
#| into: csrc/autograd/engine.py
#| upstream: torch/csrc/autograd/engine.cpp#torch::autograd::Engine::evaluate_function
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


# %% [markdown]
# What the node returned is handed on here. For each edge: one gradient less to wait for, the gradient in the receiver's
# shape and dtype, and, if it was the last one, the receiver onto the heap.


# %%
#| into: csrc/autograd/engine.py
#| upstream: torch/csrc/autograd/engine.cpp#torch::autograd::validate_outputs
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


# %%
#| into: csrc/autograd/engine.py
def _is_sole_view(grad: Any) -> bool:
    """Is `grad` all of an array that only `grad` refers to? (`.base` makes the second reference of the two counted.)"""
    if grad.__class__ is not np.ndarray or sys.getrefcount(grad.base) != 2:
        return False
    base = grad.base
    return base.__class__ is np.ndarray and base.base is None and grad.size == base.size


# %% [markdown]
# The last line of the loop is all of the scheduling. What stands above it hands a gradient over in the form that the
# receiver needs, and avoids copying it. `owned` follows an array that nobody else holds until it meets another gradient
# or a leaf; the leaf then keeps it, or the other gradient is added to it, and nothing is allocated. Upstream asks
# `use_count()` the same question, and Python counts references too. A view passes the ownership of its memory on: the
# gradient of a linear layer's weight is computed as a product, goes through the derivative of `t()`, and becomes `.grad`
# without a copy.
#
# Three small files serve that loop. The first is where gradients wait, the *input buffer*:

# %%
#| into: csrc/autograd/input_buffer.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.c10.core.device_guard import GUARDS, device_guard


# %%
#| into: csrc/autograd/input_buffer.py
#| upstream: torch/csrc/autograd/input_buffer.cpp#torch::autograd::InputBuffer::add
def add(buffer: list[Any], number: int, count: int, grad: Any, owned: bool) -> None:
    """Add `grad` to entry `number`. The second half of a buffer says which entries are arrays that nobody else holds."""
    if grad is None:
        return
    old = buffer[number]
    if old is None:
        buffer[number] = grad
        buffer[count + number] = owned
    elif grad.__class__ in GUARDS:
        with device_guard(grad):
            buffer[number] = old + grad
        buffer[count + number] = False
    elif buffer[count + number] and old.__class__ is grad.__class__ and old.shape == grad.shape:
        old += grad
        buffer[number] = old  # a sparse sum is another object
    elif owned and old.__class__ is grad.__class__:
        grad += old
        buffer[number] = grad
        buffer[count + number] = True
    else:
        total = old + grad
        buffer[number] = np.asarray(total) if isinstance(total, np.generic) else total
        buffer[count + number] = isinstance(total, np.ndarray | np.generic)


# %% [markdown]
# The second knows what a gradient must look like. Formulas may return it in a shape that broadcasting stretched, or in
# another dtype; here it is brought to those of the output it belongs to, or refused. This is the place of *Function …
# returned an invalid gradient at index …*:

# %%
#| into: csrc/autograd/input_metadata.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.expand_utils import is_expandable_to, sum_to
from readtorch.c10.core.device_guard import device_guard
from readtorch.csrc.autograd.node import Node


# %%
#| into: csrc/autograd/input_metadata.py
#| upstream: torch/csrc/autograd/input_metadata.h#torch::autograd::InputMetadata
def fit_array(node: Node, index: int, grad: Any, target: Node, number: int) -> Any:
    """`grad` in the shape and dtype of output `number` of `target`."""
    if isinstance(grad, np.generic):
        grad = np.asarray(grad)
    shape, dtype = target._input_metadata_at(number)
    if grad.shape == shape and grad.dtype == dtype:
        return grad
    with device_guard(grad):
        if grad.shape != shape:
            if not is_expandable_to(shape, grad.shape):
                raise _invalid(node, index, f"got {list(grad.shape)} but expected shape compatible with {list(shape)}")
            grad = sum_to(grad, shape)
        if grad.dtype != dtype:
            grad = _real_or_not(grad, dtype).astype(dtype)
    return grad


def fit_tensor(node: Node, index: int, grad: Any, target: Node, number: int) -> Any:
    """The same for a tensor, through operators, so that the step can be differentiated."""
    shape, dtype = target._input_metadata_at(number)
    array = grad._array
    if array.shape != shape:
        if not is_expandable_to(shape, array.shape):
            raise _invalid(node, index, f"got {list(array.shape)} but expected shape compatible with {list(shape)}")
        grad = dispatcher.autograd.sum_to_size(grad, shape)
    if array.dtype != dtype:
        if array.dtype.kind == "c" and dtype.kind != "c":
            grad = dispatcher.autograd.real(grad)
        grad = dispatcher.autograd._to_copy(grad, dtype)
    return grad


def _real_or_not(grad: Any, dtype: Any) -> Any:
    return grad.real if grad.dtype.kind == "c" and dtype.kind != "c" else grad


def _invalid(node: Node, index: int, what: str) -> RuntimeError:
    return RuntimeError(f"Function {node.name()} returned an invalid gradient at index {index} - {what}")


# %% [markdown]
# The third, back in the engine, is what reads a gradient on its way: post-hooks, `retain_grad`, captures. (The hooks
# themselves, and what they may return, are in [the part on starting the engine](10b_starting_the_engine.py).)


# %%
#| into: csrc/autograd/engine.py
#| upstream: torch/csrc/autograd/engine.cpp#torch::autograd::validate_outputs
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


# %%
#| into: csrc/autograd/engine.py
#| upstream: torch/csrc/autograd/engine.cpp#torch::autograd::Engine::queue_callback
def queue_callback(callback: Callable[[], None]) -> None:
    """Call `callback` when the backward pass that is running has finished. RuntimeError outside of one."""
    if state.graph_task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    state.graph_task.callbacks.append(callback)


# %% [markdown]
# ## What does one backward look like, step by step?
#
# Take the graph of the diagram in the part before. It is recorded first, three operators; then `execute` counts and runs.
# Follow `heap` and `buffers`: the gradient of `a` waits for its second part while `MulBackward0` runs, and
# `AccumulateGrad` is taken as soon as it can be.

# %%
a.grad = b.grad = None

# %%
#| trace: torch.csrc.autograd.engine torch.csrc.autograd.input_buffer torch.csrc.autograd.functions layers=ops,autograd,calls,lines values=summary title="(a * b + a).sum().backward()"
(a * b + a).sum().backward()

# %%
a.grad, b.grad

# %% [markdown]
# The order of the hooks, on one tensor and its node:

# %%
order = []
x = torch.ones(1, requires_grad=True)
y = x * 2
y.register_hook(lambda grad: order.append("tensor hook"))
y.retain_grad()
y.grad_fn.register_prehook(lambda grads: order.append(f"node pre-hook, y.grad is {y.grad.item()}"))
y.grad_fn.register_hook(lambda grads_in, grads_out: order.append("node post-hook"))
x.register_hook(lambda grad: order.append("tensor hook of x"))
x.register_post_accumulate_grad_hook(lambda leaf: order.append(f"post-accumulate, x.grad is {leaf.grad.item()}"))
(y * 3).backward()
order


# %%
#| claim: a tensor's hooks run before its node's pre-hooks, these before the formula, post-hooks after it; the leaf's post-accumulate hook is last
def _(torch):
    order = []
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    assert isinstance(y.grad_fn, torch.autograd.graph.Node)
    y.grad_fn.register_hook(lambda *_: order.append("post"))
    y.grad_fn.register_prehook(lambda *_: order.append("pre"))
    y.register_hook(lambda _: order.append("tensor"))
    x.register_post_accumulate_grad_hook(lambda _: order.append("accumulated"))
    x.register_hook(lambda _: order.append("leaf"))
    (y * 3).backward()
    assert order == ["tensor", "pre", "post", "leaf", "accumulated"]


# %%
#| claim: nodes run youngest first, except that a leaf's gradient is stored as soon as it is complete
#| upstream: torch/csrc/autograd/engine.h#torch::autograd::ReadyQueue::CompareNodeTaskTime
def _(torch):
    order = []
    early, late = (torch.ones(1, requires_grad=True) for _ in range(2))
    first = early * 2
    second = late * 2
    third = second + first
    for name, tensor in {"first": first, "second": second, "early": early, "late": late}.items():
        tensor.register_hook(lambda _, name=name: order.append(name))
    third.backward()
    assert order == ["second", "late", "first", "early"]


# %%
#| claim: a chain of a hundred thousand nodes is walked, and freed, without recursion
#| source: pytorch/pytorch#5534
def _(torch):
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.backward()
    assert x.grad.item() == 1
    del y


# %% [markdown]
# ### What upstream does more
#
# * **Threads.** Backward of nodes on a GPU runs in a worker thread, one for each device, with a ready queue of its own; nodes on
#   the CPU run in the thread that called `backward`. So several threads can work on one `GraphTask`, whose maps
#   are guarded by a mutex.
# * **Re-entrance.** A node that calls `backward` itself (checkpointing of the older kind) starts a second task on top of the first. Past a
#   depth limit the inner one is handed to another thread, for the sake of the C++ stack. Ours nests Python calls.
# * **Streams.** A node runs on the CUDA stream that its forward ran on, and the engine makes the streams wait for each other.
# * **Freeing.** A chain of shared pointers is destroyed recursively, and a long one overflowed the stack. Nodes have
#   a deleter that gathers them in a list. CPython limits the nesting of deallocations by itself.

# %%
#| fact: torch/csrc/autograd/engine.h#torch::autograd::Engine::thread_main
#| fact: torch/csrc/autograd/engine.h#torch::autograd::NodeTask::getReentrantDepth
#| fact: torch/csrc/autograd/engine.h#torch::autograd::ReadyQueue::push

# %% [markdown]
# ## Where was this made?
#
# A NaN in backward appears far from the forward operation that is to blame, and the traceback of the error ends in
# `backward()`, like all of them. Anomaly mode keeps the stack of the forward call on each node, and shows it when the
# node fails.

# %%
#| into: csrc/autograd/anomaly_mode.py
#| imports
from __future__ import annotations

import runpy
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from readtorch.csrc.autograd.node import Node

# %%
#| into: csrc/autograd/anomaly_mode.py
#| upstream: torch/csrc/autograd/python_anomaly_mode.cpp#torch::autograd::PyAnomalyMetadata
TRACEBACK = "traceback_"

#: what is C++ upstream has no frames in a Python stack
_COMPILED = tuple(str(Path(__file__).parents[2] / name) for name in ("aten", "csrc"))
_LAUNCHERS = ("<frozen runpy>", runpy.__file__, str(Path(__file__).parents[2] / "as_torch.py"))


def store_stack(node: Node) -> None:
    """Remember the Python stack of the forward call that made `node`: from the program's first line to the one that called an operator."""
    stack = traceback.extract_stack()
    while stack and stack[-1].filename.startswith(_COMPILED):
        stack.pop()
    while stack and stack[0].filename in _LAUNCHERS:
        del stack[0]
    node.metadata[TRACEBACK] = stack.format()


def report_forward(node: Node) -> None:
    """Warn with the stack of the forward call."""
    stack = node.metadata.get(TRACEBACK)
    if stack is None:
        warnings.warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during forward pass for more information.",
            stacklevel=2,
        )
        return
    text = "".join(stack)
    warnings.warn(
        f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{text}", stacklevel=2
    )


def check_finite(node: Node, outputs: Any) -> None:
    """RuntimeError if a gradient holds a NaN."""
    for number, output in enumerate(outputs):
        array = getattr(output, "_array", output)
        if array is not None and array.dtype.kind in "fc" and bool(np.isnan(array).any()):
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {number}th output.")


# %%
#| needs: a1_operators
x = torch.zeros(1, requires_grad=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        with torch.autograd.detect_anomaly():
            y = (x * 0).sqrt() * x
            y.sum().backward()
    except RuntimeError as error:
        print(error)
print([line.strip() for line in str(caught[-1].message).splitlines() if "sqrt" in line][-1])

# %% [markdown]
# The derivative of the square root at 0 is infinite, the gradient that arrived was 0, and their product is not a number.
# Nothing in the forward pass was wrong. Without anomaly mode the NaN would have travelled on to every parameter before
# this layer.
#
# It is a tool for looking, not for training: every operation formats a stack, and every gradient is searched.


# %%
def timed(anomaly):
    x = torch.ones(10, requires_grad=True)
    begin = time.perf_counter()
    with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(anomaly):
        warnings.simplefilter("ignore")
        for _ in range(100):
            (x * 2 + 1).sum().backward()
    return time.perf_counter() - begin


timed(False)
f"{timed(True) / timed(False):.0f} times slower"

# %% [markdown]
# Nodes come from operators. The next parts build the layer that makes them, beginning with [what all operators share](05_before_the_kernels.py).
# On the main line, go on to [a tensor's place in the graph](05a_place_in_the_graph.py).
