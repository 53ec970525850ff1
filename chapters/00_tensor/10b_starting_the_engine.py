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
# # Starting the engine: what `backward` asks before anything runs
#
# *element 0 of tensors does not require grad and does not have a grad_fn*: where was it lost? `loss.backward()` hands the
# engine edges, not tensors. Between the two are the checks that most scripts meet before they meet the engine, and two
# questions that scripts rarely ask: in which thread will this run, and in which mode?

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Where was the graph cut?
#
# The most frequent autograd error is raised here, before anything has run. The engine was given a tensor without an edge.
# It cannot say where the edge was lost, because what is not recorded leaves no trace. But there are few ways to lose it,
# and each can be tested:

# %%
#| needs: a1_operators
w = torch.ones(3, requires_grad=True)
cuts = {
    "detach()": lambda: w.detach() * 2,
    ".data": lambda: w.data * 2,
    "a number taken out": lambda: torch.tensor((w * 2).sum().item()),
    "NumPy in between": lambda: torch.from_numpy(np.exp(w.detach().numpy())),
    "no_grad()": lambda: torch.no_grad()(lambda: w * 2)(),
    "argmax, a comparison": lambda: w.argmax() + (w > 0).sum(),
    "long()": lambda: w.long(),
    "a new tensor's shape alone": lambda: torch.zeros_like(w),
    "round(), sign()": lambda: w.round() + w.sign(),
}
for name, make in cuts.items():
    print(f"{name:28} requires_grad={make().requires_grad}")

# %% [markdown]
# The last line is no cut, and worse: the graph goes on, and the gradient is zero everywhere. To find the place of a cut,
# walk *forward* from the parameters and print `requires_grad`: the graph is whole up to the first `False`.

# %%
#| into: csrc/autograd/python_engine.py
#| imports
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


# %% [markdown]
# First a small tool. Some warnings would drown the program's own output if they came at every step; upstream gives those
# once per process.

# %%
#| into: c10/util/__init__.py
"""What the floors share (twin of `c10/util/`)."""

# %%
#| into: c10/util/exception.py
#| imports
from __future__ import annotations

import warnings

# %%
#| into: c10/util/exception.py
_said: set[str] = set()
_always = False


# %%
#| into: c10/util/exception.py
#| upstream: c10/util/Exception.h#c10::WarningUtils::get_warnAlways
def warn_once(text: str, stacklevel: int = 2, about: str = "") -> None:
    """A UserWarning that a process gives one time only; also in other words if it is `about` the same.

    Under `set_warn_always(True)` it is given every time, and the one time is still to come.
    """
    if not _always:
        if (about or text) in _said:
            return
        _said.add(about or text)
    warnings.warn(text, stacklevel=stacklevel + 1)


def set_warn_always(b: bool, /) -> None:
    """Shall warnings that come once in a process come every time?"""
    global _always
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _always = b


def is_warn_always_enabled() -> bool:
    """Do warnings that come once in a process come every time?"""
    return _always


# %% [markdown]
# `run_backward` is what `backward` and `grad` both call. It turns tensors into edges, checks each, and starts [the
# walk](04b_the_walk.py).


# %%
#| needs: 01_import
#| claim: after set_warn_always(True) such a warning comes every time, and none of these counts as the one of the process
def _(torch):
    import warnings

    def said(always):
        torch.set_warn_always(always)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.ones((), requires_grad=True).backward(create_graph=True)
        return len(seen)

    assert [said(always) for always in (True, True, False, False, True)] == [1, 1, 1, 0, 1]


# %%
#| into: csrc/autograd/python_engine.py
#| upstream: torch/csrc/autograd/python_engine.cpp#THPEngine_run_backward
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


# %%
#| needs: a1_operators
#| claim: what gives integers or truth values ends the graph; round and sign keep it and send back zeros
def _(torch):
    w = torch.tensor([0.4, 1.6], requires_grad=True)
    for cut in (w.argmax(), w > 1, w.long(), w.detach(), torch.zeros_like(w)):
        assert not cut.requires_grad
    (w.round() + w.sign()).sum().backward()
    assert w.grad.tolist() == [0, 0]


# %% [markdown]
# ## In which thread, and in which mode, does backward run?
#
# On a CPU, in the thread that called it. Upstream keeps worker threads for accelerators only, one per device. CPU nodes
# go to a ready queue of the calling thread, which serves it until its own task is done. So several threads can call
# `backward` at once, on graphs that share leaves or even nodes. A leaf's node takes a lock while it adds (ours relies on
# CPython's), and nobody promises the order of the additions.
#
# The mode depends on the call, not on what surrounds it. Inside backward, recording is on if `create_graph` was given and
# off if not, also in hooks and in the `backward` of a custom function. A `no_grad` around `loss.backward()` changes
# nothing.


# %%
#| claim: threads may run backward at the same time over shared nodes and leaves, and no gradient is lost
#| upstream: torch/csrc/autograd/engine.h#torch::autograd::Engine::init_local_ready_queue
def _(torch):
    import threading

    w = torch.ones(1, requires_grad=True)
    shared = w * 1.0
    for _ in range(20):
        shared = shared * 1.0

    def train():
        for _ in range(50):
            shared.backward(retain_graph=True)
            (w * 1.0).backward()

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert w.grad.item() == 400


# %%
#| claim: hooks run in the thread that called backward, and record only under create_graph, whatever mode surrounds the call
def _(torch):
    import threading
    import warnings

    x = torch.ones(1, requires_grad=True)
    y = x * x
    seen = []
    y.register_hook(lambda grad: seen.append((torch.is_grad_enabled(), threading.current_thread().name)))
    other = threading.Thread(target=y.backward, args=(None, True), name="other")
    other.start()
    other.join()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y.backward(retain_graph=True)
        y.backward(create_graph=True)
    here = threading.current_thread().name
    assert seen == [(False, "other"), (False, here), (True, here)]


# %% [markdown]
# Other thread-local modes (autocast, hooks on saved tensors, the profiler) are copied by hand to a device's worker thread
# at the start of the pass, as a `ThreadLocalState`. A Python thread-local of your own is not among them: code in the
# `backward` of a custom function finds it set on a CPU and empty on a GPU.


# %% [markdown]
# ## What may a hook return?
#
# A hook stands between two nodes that agreed on shape and dtype in the forward pass. It may replace a gradient by another
# value of the same kind, and nothing else: a float64 that slipped through would be cast back silently at the next node
# or, at a leaf, end up in `.grad`. So every answer is compared with what the hook was given. Hooks on nodes see all
# gradients of the node at once, and answer with as many, in a tuple. Where there was no gradient they cannot invent one.
#
# A node's post-hook is called with what the node hands on: after the gradient of a broadcast operand has been summed to the operand's shape.

# %%
#| into: csrc/autograd/python_hook.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.c10.core import tensor_impl


# %%
#| into: csrc/autograd/python_hook.py
#| upstream: torch/csrc/autograd/python_hook.cpp#operator()
#| upstream: torch/csrc/autograd/engine.cpp#torch::autograd::call_tensor_pre_hooks
def as_tensor(grad: Any, graph: bool) -> Any:
    """A gradient as hooks see it; in a walk that is recorded it is a tensor already."""
    return grad if graph or grad is None else tensor_impl.wrap(grad)


def _as_grad(value: Any, graph: bool) -> Any:
    return value if graph or value is None else value._array


def call_tensor_pre_hooks(hooks_of: dict[int, Any], grads: list[Any], graph: bool) -> None:
    """The hooks of a node's outputs, by number of the output. `grads` gets their answers."""
    for number, hooks in hooks_of.items():
        for hook in list(hooks.values()):
            given = as_tensor(grads[number], graph)
            if given is None:
                continue
            result = hook(given)
            if result is not None:
                _check_single(hook, given, result)
                grads[number] = _as_grad(result, graph)


def call_pre_hooks(hooks: dict[int, Any], grads: list[Any], graph: bool) -> list[Any]:
    """A node's hooks on what arrives: the gradients of its outputs."""
    values = tuple(as_tensor(grad, graph) for grad in grads)
    for hook in list(hooks.values()):
        values = _checked(hook, values, hook(values))
    return [_as_grad(value, graph) for value in values]


def call_post_hooks(hooks: dict[int, Any], outputs: Any, grads: list[Any], graph: bool) -> list[Any]:
    """A node's hooks on what it hands on: the gradients of its inputs. They also see those of its outputs."""
    values = tuple(as_tensor(_array_again(output), graph) for output in outputs)
    incoming = tuple(as_tensor(grad, graph) for grad in grads)
    for hook in list(hooks.values()):
        values = _checked(hook, values, hook(values, incoming))
    return [_as_grad(value, graph) for value in values]


def _array_again(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value


# %% [markdown]
# The comparison itself. Its messages name the hook, because the traceback ends in `backward()`.


# %%
#| into: csrc/autograd/python_hook.py
#| upstream: torch/csrc/autograd/python_hook.cpp#check_result
def _checked(hook: Any, given: tuple, result: Any) -> tuple:
    """The answer of a hook on several gradients; what it was given if it answers nothing."""
    if result is None:
        return given
    if not isinstance(result, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(result).__name__}'")
    if len(result) != len(given):
        raise RuntimeError(
            f"hook '{_name(hook)}' has returned an incorrect number of values (got {len(result)}, but expected {len(given)})"
        )
    for before, after in zip(given, result, strict=True):
        if after is not None:
            _check_single(hook, before, after)
    return result


def _check_single(hook: Any, given: Any, result: Any) -> None:
    """TypeError or RuntimeError unless `result` may stand in place of `given`."""
    check_is_tensor(result)
    if given is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if result.dtype != given.dtype or result.device != given.device or result.is_sparse != given.is_sparse:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the type of value (was {given.type()} got {result.type()})"
        )
    if result.shape != given.shape:
        raise RuntimeError(
            f"hook '{_name(hook)}' has changed the size of value: from {list(given.shape)} to {list(result.shape)}"
        )


def check_is_tensor(result: Any) -> None:
    """TypeError unless a hook returned a tensor."""
    if not isinstance(result, tensor_impl.TensorImpl):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", "<unknown>")


# %%
#| claim: a hook may not change a gradient's dtype, shape or presence, and a node's hook must return all of them in a tuple
def _(torch):
    def refused(register, kind, *words):
        x, w = torch.ones(2, requires_grad=True), torch.ones(2)
        y = x * w
        register(x, y)
        try:
            y.sum().backward()
        except kind as error:
            assert all(word in str(error) for word in words), str(error)
        else:
            raise AssertionError("accepted")

    refused(
        lambda x, y: y.register_hook(lambda g: g.double()), RuntimeError, "changed the type of value", "DoubleTensor"
    )
    refused(lambda x, y: x.register_hook(lambda g: g.reshape(2, 1)), RuntimeError, "changed the size of value")
    refused(lambda x, y: y.register_hook(lambda g: 3), TypeError, "expected Variable", "'int'")
    refused(lambda x, y: y.grad_fn.register_prehook(lambda g: g[0]), TypeError, "expected tuple")
    refused(lambda x, y: y.grad_fn.register_hook(lambda to, of: to[:1]), RuntimeError, "incorrect number of values")
    refused(lambda x, y: y.grad_fn.register_hook(lambda to, of: to[:1] * 2), RuntimeError, "can't replace a None")


# %%
#| claim: a node's post-hook sees the gradient of a broadcast operand in the operand's shape
def _(torch):
    bias, rows = torch.ones(2, requires_grad=True), torch.ones(3, 2, requires_grad=True)
    total, seen = bias + rows, []
    total.grad_fn.register_hook(lambda to, of: seen.extend(tuple(g.shape) for g in to))
    total.sum().backward()
    assert seen == [(2,), (3, 2)] and bias.grad.tolist() == [3, 3]


# %% [markdown]
# ### What upstream does more
#
# * `set_multithreading_enabled(False)` runs the whole pass, accelerators included, in the calling thread: for debuggers, and for thread-locals.

# %%
#| fact: torch/autograd/grad_mode.py#set_multithreading_enabled
#| fact: aten/src/ATen/ThreadLocalState.h#at::ThreadLocalState
