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
# # The engine: nodes, what they keep, and where they end
#
# What does a forward pass leave behind for `backward`? A graph: one node per operation, and an edge for each input that
# wants a gradient. `backward` walks it against the direction of the data. The obvious way to write that walk takes five
# lines:

# %%
import threading
import time
import warnings

import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %%
visits = 0


def walk(node, grad):
    global visits
    visits += 1
    if node is None or node.name().endswith("AccumulateGrad"):
        return
    for (next_node, _), next_grad in zip(node.next_functions, node.apply([grad], False), strict=True):
        walk(next_node, next_grad)


def doubled(times):
    y = torch.ones(1, requires_grad=True)
    for _ in range(times):
        y = y + y
    return y


for times in (5, 10, 15):
    visits = 0
    walk(doubled(times).grad_fn, np.ones(1, np.float32))
    print(f"{times} additions: {visits} visits")

# %% [markdown]
# Fifteen additions, sixty-five thousand visits. The walk reaches each node along every path from the root, and each step
# doubles the number of paths; a residual network of thirty blocks has a billion of them. The sum of all gradients that
# reach a node must be passed on *once*, so a node has to wait until the last of them has come. That is the first
# difficulty. The second:

# %% tags=["raises-exception"]
y = torch.ones(1, requires_grad=True)
for _ in range(2000):
    y = y + 1
walk(y.grad_fn, np.ones(1, np.float32))

# %% [markdown]
# A recurrent network is a chain of ten thousand nodes. The walk must not recurse. Neither must anything else that visits
# the graph, nor (in C++, where it took a bug report to find out) its destruction.
#
# So there is an engine: it counts what each node must wait for, and keeps those that are ready in a queue. This part has
# what the engine works on: the nodes, what they keep, and the leaves at which they end. [The next part](04b_the_walk.py)
# has the walk.

# %% [markdown]
# ## Is anybody asking for gradients?
#
# Whether an operation is recorded depends on the thread: `no_grad()` in one thread must not stop a training step in
# another. But reading a thread-local variable in every small operation would be felt. So a global count of the threads
# that are in a special mode stands in front of it: while it is zero, nobody looks further.

# %%
#| into: c10/core/autograd_state.py
#| imports
from __future__ import annotations

import threading
from typing import Any


# %%
#| into: c10/core/autograd_state.py
#| upstream: c10/core/AutogradState.h#c10::AutogradState
class AutogradState(threading.local):
    """The modes of one thread."""

    grad_mode = True
    inference_mode = False
    multithreading = True
    #: does a gradient get the leaf's order in memory?
    grad_layout = True
    anomaly = False
    check_nan = True
    graph_task: Any = None
    backward_depth = 0
    #: pairs (pack, unpack) of saved_tensors_hooks, innermost last
    saved_tensor_hooks: tuple = ()
    #: why there may be none, if so
    saved_tensor_hooks_disabled: str | None = None
    #: dtype by device type where autocast is on
    autocast: dict | None = None
    autocast_cache: dict | None = None
    #: the function transforms that have been entered, innermost last
    layers: tuple = ()


state = AutogradState()


class Counts:
    """How many threads are in a mode that is not the default: with gradients off, or in any other."""

    __slots__ = ("grad_off", "lock", "special")

    def __init__(self) -> None:
        self.grad_off = 0
        self.special = 0
        self.lock = threading.Lock()

    def change(self, grad_off: int = 0, special: int = 0) -> None:
        """Add to the counts, atomically."""
        with self.lock:
            self.grad_off += grad_off
            self.special += special


counts = Counts()


def set_grad_enabled(enabled: bool) -> None:
    """Record operations in this thread from now on, or stop doing so."""
    if state.grad_mode != enabled:
        state.grad_mode = enabled
        counts.change(grad_off=-1 if enabled else 1)


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode of this thread on or off."""
    set_special("anomaly", mode)
    set_special("check_nan", check_nan)


def is_anomaly_enabled() -> bool:
    """Do new nodes of this thread keep their traceback?"""
    return state.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Does anomaly mode, when it is on, look for NaN?"""
    return state.check_nan


def is_grad_enabled() -> bool:
    """Are operations of this thread recorded?"""
    return state.grad_mode


def refuse_gradient(function: str, **inputs: Any) -> None:
    """RuntimeError if one of these inputs, for which the function has no derivative, asks for a gradient: it would wait for it in vain."""
    for name, value in inputs.items():
        if state.grad_mode and getattr(value, "requires_grad", False):
            raise RuntimeError(
                f"The function '{function}' is not differentiable with respect to argument '{name}'. "
                "This input cannot have requires_grad True."
            )


def set_special(name: str, value: Any) -> Any:
    """Set another mode of this thread and return the old value. Its class attribute is the default."""
    old = getattr(state, name)
    default = getattr(AutogradState, name)
    was, is_ = old is not default and old != default, value is not default and value != default
    setattr(state, name, value)
    if was != is_:
        counts.change(special=1 if is_ else -1)
    return old


# %%
answers = {}


def ask():
    answers["thread"] = torch.is_grad_enabled(), (torch.ones(1, requires_grad=True) * 2).requires_grad


with torch.no_grad():
    answers["main"] = torch.is_grad_enabled(), (torch.ones(1, requires_grad=True) * 2).requires_grad
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
answers

# %% [markdown]
# A new thread starts with the defaults, not with the modes of the thread that started it. Web servers and thread pools
# run inference in such threads, and a `no_grad` around the server does nothing for them. Where upstream starts threads
# itself it hands its modes on explicitly, as a `ThreadLocalState`.


# %%
#| claim: a thread that is started under no_grad records; the mode is the thread's own
#| source: pytorch/pytorch#20528
#| upstream: aten/src/ATen/ThreadLocalState.h#at::ThreadLocalState
def _(torch):
    from concurrent.futures import ThreadPoolExecutor

    x = torch.ones(1, requires_grad=True)
    with ThreadPoolExecutor(1) as pool, torch.no_grad():
        assert (x * 2).grad_fn is None
        assert pool.submit(lambda: x * 2).result().grad_fn is not None


# %% [markdown]
# ## What is a node?
#
# A node is one step of the derivative. It takes the gradients of an operation's outputs and returns those of its inputs;
# its edges lead to the nodes that made the inputs. It also keeps the shape and dtype of the output it belongs to, because
# a gradient must have exactly those, and a formula may return it in a shape that broadcasting stretched.
#
# For `(a * b + a).sum()`, with leaves `a` and `b`:
#
# ```mermaid
# flowchart RL
#   accTitle: The graph of (a * b + a).sum()
#   accDescr: SumBackward0 points to AddBackward0, which points to MulBackward0 and to the AccumulateGrad of a, MulBackward0 points to the AccumulateGrad nodes of a and b
#   L["loss (a tensor)"] -- "grad_fn" --> S["SumBackward0<br/>sequence 2"]
#   S --> A["AddBackward0<br/>sequence 1"]
#   A -- "edge 0" --> M["MulBackward0<br/>sequence 0<br/>keeps a, b"]
#   A -- "edge 1" --> GA["AccumulateGrad"]
#   M -- "edge 0" --> GA
#   M -- "edge 1" --> GB["AccumulateGrad"]
#   GA -. "weak" .-> a["a (leaf)"]
#   GB -. "weak" .-> b["b (leaf)"]
# ```
#
# All solid arrows point *back*, from results to inputs. A tensor keeps the graph behind it alive, and nothing keeps what
# was computed from it. When `loss` goes, the whole graph goes, unless some other tensor (a list of losses, say) still
# holds a part of it.
#
# Upstream writes an edge as a pair (node, output number). Nearly every number is 0. So here an edge *is* the node if the
# number is 0, and a pair otherwise.

# %%
#| into: csrc/autograd/__init__.py
"""Nodes, the engine and the autograd kernels (twin of `torch/csrc/autograd/`)."""

# %%
#| into: csrc/autograd/node.py
#| imports
from __future__ import annotations

import itertools
from typing import Any

# %%
#| into: csrc/autograd/node.py
#| upstream: torch/csrc/autograd/node.h#torch::autograd::Node
#: numbers nodes in the order of their making; the engine runs the youngest ready node first
next_sequence_nr = itertools.count().__next__


class Node:
    """One step of backward: gradients of an operation's outputs in, gradients of its inputs out.

    `_edges` has one entry per differentiable input: a node, a pair (node, output number), or None. `_shape` and `_dtype` describe the output
    (lists of them where `_count`, the number of outputs, is not 1).
    """

    __slots__ = ("__dict__", "__weakref__", "_dtype", "_edges", "_sequence", "_shape")
    _edges: tuple
    _sequence: int
    _shape: Any
    _dtype: Any
    _count = 1
    #: its gradients are arrays made for the purpose, or the incoming ones: the engine may add to them in place
    _fresh = True
    #: hooks, made when first registered: on the gradient of an output (by number), before the node, after it
    _tensor_pre_hooks: dict[int, Any] | None = None
    _retains_grad: dict[int, Any] | None = None
    _pre_hooks: Any = None
    _post_hooks: Any = None
    _metadata: dict | None = None
    _released = False
    #: of an accelerator: the stream that the operation was put into, into which its backward goes too
    _stream: Any = None

    def apply(self, grads: list[Any], graph: bool) -> list[Any] | tuple[Any, ...]:
        """The gradients of the inputs, aligned with `_edges`. Raw arrays, or tensors if `graph`; None for no gradient."""
        raise NotImplementedError(type(self).__name__)

    def release_variables(self) -> None:
        """Let go of what was saved: this graph will not be walked again."""

    def output_has_counter(self, number: int, counter: Any) -> None:
        """Output `number` has just got a version counter."""

    def name(self) -> str:
        """The name upstream shows, such as `MulBackward0`."""
        return type(self.shown()).__name__

    def shown(self) -> Node:
        """This node, as it is handed out to people."""
        return self

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The edges as upstream shows them: pairs (node, output number)."""
        edges = [(None, 0) if edge is None else split_edge(edge) for edge in self._edges]
        return tuple((node and node.shown(), number) for node, number in edges)

    @property
    def metadata(self) -> dict:
        """A dictionary for the user's notes; anomaly mode keeps the traceback here."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    @property
    def requires_grad(self) -> bool:
        return True

    def _sequence_nr(self) -> int:
        return self._sequence

    def _input_metadata_at(self, number: int) -> tuple[tuple[int, ...], Any]:
        return (self._shape, self._dtype) if self._count == 1 else (self._shape[number], self._dtype[number])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    def __str__(self) -> str:
        return repr(self)


def split_edge(edge: Any) -> tuple[Node, int]:
    """An edge as a pair."""
    return edge if edge.__class__ is tuple else (edge, 0)


# %%
a = torch.tensor([1.0, 2.0], requires_grad=True)
b = torch.tensor([3.0, 4.0], requires_grad=True)
loss = (a * b + a).sum()


def show(node, depth=0):
    print(
        "  " * depth + node.name(),
        "of shape",
        node._shape,
        "" if node._sequence >> 62 else f"sequence {node._sequence}",
    )
    for next_node, _ in node.next_functions:
        show(next_node, depth + 1)


show(loss.grad_fn)

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "`loss.backward()` frees the graph." It frees what the nodes have *saved*, and the graph stays for as long as
# > `loss` does. Hence a second backward fails only if some node on the way needs what is gone: `x + x` saved nothing, and may be
# > walked as often as one likes.


# %%
#| claim: a second backward fails where something was saved and works where nothing was; the nodes are still there
def _(torch):
    x = torch.ones(1, requires_grad=True)
    added, multiplied = x + x, x * x
    added.backward()
    added.backward()
    assert x.grad.item() == 4
    multiplied.backward()
    assert multiplied.grad_fn.next_functions[0][0] is not None
    try:
        multiplied.backward()
    except RuntimeError as error:
        assert "Trying to backward through the graph a second time" in str(error)
    else:
        raise AssertionError("walked twice")


# %% [markdown]
# ## How is what a formula needs kept, and checked?
#
# Keeping a tensor for backward means remembering its version. Before use the two are compared, and a difference is the
# error that everybody has met: *one of the variables needed for gradient computation has been modified by an inplace
# operation*.
#
# There are two cases. An **input** is kept as it is. An **output** must not be: its edge leads to this very node, and the
# cycle would keep both alive until the garbage collector comes. So only the array of an output is kept, and the tensor is
# made anew when it is needed.

# %%
#| into: csrc/autograd/saved_variable.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.c10.core.autograd_state import is_grad_enabled, set_grad_enabled
from readtorch.c10.core.scalar_type import from_numpy_dtype
from readtorch.c10.core.tensor_impl import TensorImpl, current_version, is_inference
from readtorch.csrc.autograd.node import Node, split_edge
from readtorch.csrc.autograd.variable import gradient_edge


# %%
#| into: csrc/autograd/saved_variable.py
#| upstream: torch/csrc/autograd/saved_variable.cpp#torch::autograd::SavedVariable::unpack
def check_version(tensor: Any, expected: int, keeper: Node) -> None:
    """RuntimeError if the memory behind a tensor that `keeper` keeps was written to since, or if it was cut from its history."""
    counter = tensor._vc
    if counter is None:
        return
    if tensor._meta is not None and tensor._meta.get("detached", -1) > keeper._sequence:
        raise RuntimeError(
            "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not supported: the gradient that "
            "should flow on through it has nowhere to go. Use detach() instead."
        )
    if counter.value != expected:
        edge = getattr(tensor, "_edge", None)
        origin = None if edge is None else split_edge(edge)
        raise modified(tensor._array, origin, counter.value, expected)


def modified(array: Any, origin: tuple[Node, int] | None, version: int, expected: int) -> RuntimeError:
    """The error that names the tensor, where it came from, and both versions."""
    legacy = from_numpy_dtype(array.dtype)._legacy
    shape = list(array.shape)
    source = ""
    if origin is not None and len(origin[0]._edges):
        source = f", which is output {origin[1]} of {origin[0].name().removesuffix('Backward0')},"
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[torch.{legacy} {shape}]{source} is at version {version}; expected version {expected} instead. "
        "To see which forward call saved it, run under "
        "torch.autograd.set_detect_anomaly(True)."
    )


def refuse_saving(*values: Any) -> None:
    """RuntimeError if one of these was made in inference mode: nobody would notice a write to it."""
    if any(isinstance(value, TensorImpl) and is_inference(value) for value in values):
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. A clone() of one is an ordinary tensor and can; or use no_grad() in place of "
            "inference_mode() where the tensor is made."
        )


def released(name: str) -> RuntimeError:
    """The error of a second walk through a graph whose saved tensors are gone."""
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        f"been freed): {name} has let go of them when backward() or autograd.grad() ran. Specify retain_graph=True the first time "
        "if you need to backward through the graph a second time or to access saved tensors afterwards."
    )


# %% [markdown]
# The message names the operation that *made* the overwritten tensor, since that is what the tensor knows, and not the one
# that wrote to it. Read it as "the output of this operation was needed, and somebody has changed it".

# %%
#| needs: a1_operators
x = torch.zeros(2, requires_grad=True)
hidden = (x + 1).tanh()
output = hidden * 2
hidden += 1
try:
    output.sum().backward()
except RuntimeError as error:
    print(str(error).split(": ", 1)[1].split(" Hint")[0])

# %% [markdown]
# ### What do saved-tensor hooks replace?
# Most of the memory of a training step is what nodes keep. `saved_tensors_hooks` lets a program keep something else
# instead, a copy on the CPU or a file name, and bring the tensor back later. Checkpointing is made of the same hooks: its
# *pack* keeps nothing, and its *unpack* runs the forward pass again.


# %%
#| into: csrc/autograd/saved_variable.py
#| upstream: torch/csrc/autograd/saved_variable.cpp#torch::autograd::SavedVariable::set_hooks_and_pack_data
class Packed:
    """What a pack hook returned in place of a tensor, and the hook that undoes it. `edge` is where its gradient goes."""

    __slots__ = ("edge", "payload", "unpack")

    def __init__(self, tensor: Any, hooks: tuple[Any, Any]) -> None:
        pack, self.unpack = hooks
        self.edge = gradient_edge(tensor)
        given = tensor if tensor.is_leaf else tensor.detach()
        version, recording = current_version(given), is_grad_enabled()
        set_grad_enabled(False)
        try:
            self.payload = pack(given)
        finally:
            set_grad_enabled(recording)
        if current_version(given) != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place: that would change what others have saved, and the result itself"
            )

    def restore(self) -> Any:
        """The tensor again, with its place in the graph."""
        tensor = self.unpack(self.payload)
        if not hasattr(tensor, "_array"):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                + type(tensor).__name__
            )
        if self.edge is not None and not tensor.requires_grad:
            tensor = tensor.detach()
            tensor._edge = self.edge
        return tensor


# %%
#| into: csrc/autograd/saved_variable.py
#| upstream: torch/csrc/autograd/python_saved_variable_hooks.cpp#torch::autograd::PySavedVariableHooks
class SavedTensor:
    """A tensor in its place in a node, read as `node._raw_saved_NAME`: hooks can be set on this one alone."""

    __slots__ = ("_node", "_place")

    def __init__(self, node: Any, place: Any) -> None:
        self._node, self._place = node, place

    def register_hooks(self, pack_hook: Any, unpack_hook: Any) -> None:
        """Keep `pack_hook(tensor)` from now on. RuntimeError for a tensor that has hooks, is None or was freed."""
        if not (callable(pack_hook) and callable(unpack_hook)):
            raise TypeError("register_hooks(): incompatible function arguments: it takes two functions")
        if self._node._released:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed, by backward() or autograd.grad()."
            )
        kept = self._node.saved_at(self._place)
        if kept is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if kept.__class__ is Packed:
            raise RuntimeError("Calling register_hooks on a saved tensor whose hooks have already been set.")
        self._node.keep_at(self._place, Packed(kept, (pack_hook, unpack_hook)))


# %%
kept = []


def pack(tensor):
    kept.append(tensor.shape)
    return tensor.numpy(force=True).astype(np.float16)


def unpack(payload):
    return torch.from_numpy(payload.astype(np.float32))


x, w = torch.full((2,), 1.0001, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = (x * w).sum()
y.backward()
kept, w.grad

# %% [markdown]
# Both factors were kept in half the bytes, and the gradient of `w` is the `x` that float16 made of it.
#
# The context sets hooks on everything that is saved inside. A single saved tensor is reached through its node:
# `_saved_NAME` gives the tensor, `_raw_saved_NAME` an object on which hooks can be registered. Either way there is one
# pair of hooks per tensor. `pack` runs unrecorded, and it gets the original, not a copy: a write would change the
# operation's own input, so the version is compared before and after.


# %%
#| needs: a1_operators
#| claim: hooks on one saved tensor change what its node computes with, once and until it is freed; a pack hook may not write to its input
#| upstream: torch/csrc/autograd/saved_variable.cpp#torch::autograd::SavedVariable::register_hooks
def _(torch):
    x, w = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    node = (x * w).grad_fn
    saved = node._raw_saved_other
    saved.register_hooks(lambda tensor: tensor * 10, lambda packed: packed)
    assert node._saved_other.tolist() == [30, 30] and node._saved_self.tolist() == [1, 1]
    refused = [lambda: saved.register_hooks(str, str)]
    refused.append(lambda: node._raw_saved_self.register_hooks(lambda t: t.mul_(2), lambda t: t))
    (product := x * w).sum().backward()
    refused.append(lambda: product.grad_fn._raw_saved_self.register_hooks(str, str))
    for hooks, why in zip(refused, ("already been set", "modifying its input in place", "freed"), strict=True):
        try:
            hooks()
        except RuntimeError as error:
            assert why in str(error)
        else:
            raise AssertionError(why)


# %% [markdown]
# ## How does a leaf collect its gradient?
#
# The walk ends at the leaves. A leaf's node, `AccumulateGrad`, adds what arrives to `.grad`. The first gradient is taken
# over as it is if nobody else can hold it, and copied otherwise. Later ones are added in place, so that a reference to
# `p.grad` stays good across steps. Not so under `create_graph=True`: there the sum needs a history, so `.grad` becomes a
# new tensor, and the reference shows the old one.
#
# It *adds* and does not assign. Within one walk that hardly matters, since the engine has summed before it reaches the
# leaf. Across walks it makes two losses, or one batch in four pieces, as good as one backward of the sum. The price is
# that everybody must remember `zero_grad`.
#
# The leaf holds its node, and the node refers to the leaf weakly. That is no cycle, so a leaf dies when its last user
# does. Upstream does it the other way round: the node holds the leaf, the leaf refers to the node weakly, and the node is
# made anew when no graph is left. That is why DDP must keep the nodes alive itself, in a field named
# `grad_accumulators_`.

# %%
#| into: csrc/autograd/functions/__init__.py
"""Nodes that no operator makes (twin of `torch/csrc/autograd/functions/`)."""

# %%
#| into: csrc/autograd/functions/accumulate_grad.py
#| imports
from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from readtorch.aten.expand_utils import infer_size
from readtorch.c10.core import tensor_impl
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.layout import LAYOUT_OF
from readtorch.c10.core.contiguity import is_non_overlapping_and_dense
from readtorch.c10.core.dispatch_key import MetaArray, geometry, meta_array
from readtorch.csrc.autograd.node import Node
from readtorch.csrc.autograd.python_hook import check_is_tensor


# %%
#| into: csrc/autograd/functions/accumulate_grad.py
#| upstream: torch/csrc/autograd/functions/accumulate_grad.cpp#torch::autograd::AccumulateGrad
class AccumulateGrad(Node):
    """The end of the walk at a leaf: adds the gradient to the leaf's `.grad`."""

    __slots__ = ("_array", "_variable", "owned")
    _post_accumulate_hooks: Any = None
    #: has the leaf another shape than gradients that come from graphs that were there before?
    reshaped = False

    def __init__(self, leaf: Any) -> None:
        self._edges = ()
        #: runs before every other ready node: a gradient is final the moment it is complete
        self._sequence = 1 << 63
        self._variable = weakref.ref(leaf)
        self.owned = False
        self.describe(leaf._array)

    def describe(self, array: Any) -> None:
        """Follow the leaf to another array (`.data = …`)."""
        self._array = array
        self._shape = array.shape
        self._dtype = array.dtype

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    @property
    def variable(self) -> Any:
        """The leaf. Made anew around the same memory if the program has dropped it."""
        leaf = self._variable()
        if leaf is None:
            leaf = tensor_impl.wrap(self._array, self)
            self._variable = weakref.ref(leaf)
        return leaf

    def apply(self, grads: list[Any], graph: bool) -> tuple[Any, ...]:
        grad = grads[0]
        if grad is None:
            return ()
        leaf = self._variable()
        if leaf is None:
            leaf = self.variable
        try:
            ours = leaf._edge is self
        except AttributeError:
            ours = False
        if not ours and not _is_still_wanted(leaf):
            return ()
        if graph:
            leaf._grad = grad.clone() if leaf._grad is None else leaf._grad + grad
        else:
            self._accumulate(leaf, grad)
        if self._post_accumulate_hooks:
            for hook in list(self._post_accumulate_hooks.values()):
                answer = hook(leaf)
                if answer is not None:
                    check_is_tensor(answer)
        return ()

    def _accumulate(self, leaf: Any, grad: Any) -> None:
        old = leaf._grad
        if old is None:
            keep = (
                self.owned
                and not self.reshaped
                and (
                    grad.flags.c_contiguous
                    or (grad.strides == leaf._array.strides and grad.__class__ not in LAYOUT_OF)
                    or (not state.grad_layout and grad.__class__ not in LAYOUT_OF and grad.shape == leaf._array.shape)
                )
            )
            leaf._grad = tensor_impl.wrap(grad if keep else _copy_like(grad, leaf._array))
        else:
            if old._array.shape != grad.shape:
                infer_size(tuple(old._array.shape), tuple(grad.shape))
            if grad.__class__ in LAYOUT_OF or old._array.__class__ in LAYOUT_OF:
                old._array = old._array + grad
            else:
                old._array += grad
            tensor_impl.version_counter(old).bump()


def _copy_like(grad: Any, leaf: Any) -> Any:
    """A copy in the leaf's own memory order. A sparse gradient is kept, and not known to be coalesced any more."""
    if grad.__class__ in LAYOUT_OF:
        return type(grad)(grad.indices, grad.values, grad.shape)
    if grad.__class__ is MetaArray:
        dense = is_non_overlapping_and_dense(*geometry(leaf))
        return meta_array(leaf.shape, grad.dtype, leaf.steps if dense else None)
    if grad.shape != leaf.shape:
        grad = np.broadcast_to(grad, leaf.shape)
    if leaf.flags.c_contiguous or grad.ndim < 2:
        return grad.copy()
    order = sorted(range(leaf.ndim), key=lambda axis: -leaf.strides[axis])
    inverse = sorted(range(leaf.ndim), key=order.__getitem__)
    return grad.transpose(order).copy().transpose(inverse)


def _is_still_wanted(leaf: Any) -> bool:
    """Does the leaf collect a gradient? The program may have changed its mind after it made the graph.

    RuntimeError if the leaf is none any more.
    """
    if not leaf.is_leaf:
        raise RuntimeError("leaf variable has been moved into the graph interior")
    return leaf.requires_grad


# %%
p = torch.ones(2, requires_grad=True)
(p * 2).sum().backward()
held = p.grad
(p * 2).sum().backward()
held, held is p.grad


# %%
#| claim: `.grad` accumulates in place across backward passes, so that a reference to it sees later passes, unless create_graph is on; a non-leaf has none
#| source: pytorch/pytorch#13113
def _(torch):
    import warnings

    p = torch.ones(1, requires_grad=True)
    moved = p.to(torch.float64)
    (moved * 3).backward()
    held = p.grad
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert moved.grad is None
    assert "not a leaf" in str(caught[0].message)
    (p * 3).backward()
    assert held is p.grad and held.item() == 6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (p * p).backward(create_graph=True)
    assert held is not p.grad and held.item() == 6 and p.grad.item() == 8 and p.grad.requires_grad


# %% [markdown]
# Nodes, saved tensors, leaves: everything the engine works on is there. [The next part](04b_the_walk.py) runs it.
