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
# # The engine: nodes, saved tensors, and the order in which they run
#
# A forward pass leaves a graph behind: one node per operation, an edge for each input that wants a gradient. `backward` walks it
# against the direction of the data. The obvious way to write that walk takes five lines:

# %%
import threading
import time
import warnings

import numpy as np

import readtorch as torch
from readtorch.csrc.autograd import engine
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
# Fifteen additions, sixty-five thousand visits. Each node is reached along every path from the root, and the number of paths doubles at
# every step; a residual network of thirty blocks has a thousand million of them. The sum of all gradients that reach a node must be passed on *once*, so a node
# has to wait until the last of them has come. That is the first difficulty. The second:

# %% tags=["raises-exception"]
y = torch.ones(1, requires_grad=True)
for _ in range(2000):
    y = y + 1
walk(y.grad_fn, np.ones(1, np.float32))

# %% [markdown]
# A recurrent network is a chain ten thousand nodes long. The walk must not recurse, neither must anything else that visits the
# graph, and (in C++, where it took a bug report to find out) neither must its destruction.
#
# So there is an engine: it counts what each node must wait for, and keeps those that are ready in a queue. This part has the nodes,
# what they keep, and the walk.

# %% [markdown]
# ## Is anybody asking for gradients?
#
# Whether an operation is recorded depends on the thread: `no_grad()` in one thread must not stop a training step in another.
# Reading a thread-local costs as much as a third of a small operation, so a global count of threads in a special mode
# stands in front of it: while it is zero, nobody looks further.

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
# A new thread starts with the defaults, not with the modes of the thread that started it. Web servers and thread pools run inference in such
# threads, and a `no_grad` around the server does nothing for them. Upstream hands its modes on explicitly where it starts threads itself,
# as a `ThreadLocalState`.


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
# ## A node
#
# A node is one step of the derivative: it takes the gradients of an operation's outputs and returns those of its inputs. Its
# edges lead to the nodes that made the inputs. It also keeps the shape and dtype of the output it belongs to, because a
# gradient must have exactly those, and broadcasting in a formula may have changed them.
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
# All solid arrows point *back*, from results to inputs. A tensor keeps the graph behind it alive and nothing keeps what was computed
# from it: when `loss` goes, so does the whole graph, unless some other tensor (a list of losses, say) still holds on to a part.
#
# Upstream writes an edge as a pair (node, output number). Nearly every number is 0, so here an edge *is* the node then, and
# a pair otherwise.

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
# ## What a formula needs is kept, and checked
#
# Keeping a tensor for backward means remembering its version. At use the two are compared, and a difference is the error that
# everybody has met: *one of the variables needed for gradient computation has been modified by an inplace operation*. Two
# cases are different. An **input** is kept as it is. An **output** must not be: the output's edge leads to this very node,
# and the circle would keep both alive until the garbage collector comes. So of an output only the array is kept, and the
# tensor is made anew at need.

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
# The message names the operation that *made* the overwritten tensor, since that is what the tensor knows, and not the one that wrote into it.
# Read it as "the output of this operation was needed, and somebody has changed it".

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
# ### Packing
# Most of the memory of a training step is what nodes keep. `saved_tensors_hooks` lets a program replace it, by a copy on the
# CPU or a file name, and bring it back later. Checkpointing is made of the same hooks: its *pack* keeps nothing, and its *unpack*
# runs the forward again.


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
# The context sets hooks on whatever is saved inside. One saved tensor alone is reached through its node, as `_raw_saved_NAME`, where `_saved_NAME` gives the tensor itself. Either way there is one pair of hooks to a tensor, `pack` runs unrecorded, and it gets the original,
# not a copy: a write would change the operation's own input, so the version is compared before and after.


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
# ## Leaves
#
# The walk ends at the leaves. A leaf's node adds what arrives to `.grad`. The first gradient is taken as it is if nobody
# else can hold it, else copied; later ones are added in place, so that a reference to `p.grad` stays good across steps. Under `create_graph=True`
# they are not: the sum must have a history, so `.grad` becomes a new tensor, and the reference shows the old one.
#
# *Adds*, and does not assign. Within one walk it hardly matters, since the engine has summed before the leaf is reached. Across walks it is
# what makes two losses, or one batch in four pieces, as good as one backward of the sum; the price is that everybody
# must remember `zero_grad`.
#
# The leaf holds its node, the node refers to the leaf weakly: no circle, so a leaf dies when its last user does. (Upstream
# holds them the other way round and makes the node anew for each graph, which is why DDP must keep `grad_accumulators_` alive
# by hand.)

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
                    grad.flags.c_contiguous or (grad.strides == leaf._array.strides and grad.__class__ not in LAYOUT_OF)
                )
            )
            leaf._grad = tensor_impl.wrap(grad if keep else _copy_like(grad, leaf._array))
        elif getattr(old, "_edge", self) is not None:
            leaf._grad = tensor_impl.wrap(old._array + grad)
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
# ## The walk
#
# 1. **Count.** From the roots, follow all edges once and count how many arrive at each node. That many gradients it must
#    wait for.
# 2. **Run.** A heap holds the ready nodes, youngest first. Take one, run it, add each result to the input buffer of the node
#    at the other end of the edge, subtract one from that node's count, and when it reaches zero put it on the heap.
#
# Youngest first means: in the reverse order of the forward pass, as far as the counts leave a choice. Nothing depends on it
# for correctness; memory does, since what was made last is freed first. `AccumulateGrad` has the highest number of all, so
# a leaf's gradient is stored the moment it is complete. Data-parallel training lives on that: the gradients of the last layer travel
# over the network while the first layers are still being computed.

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
# `autograd.grad(y, [w])` wants the gradient at `w` alone, and nodes that do not lead there should not run. Which ones do is found by one more walk, children before parents.


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
counts = engine.compute_dependencies(loss.grad_fn)
[(node.name(), count) for node, count in counts.items()]

# %% [markdown]
# Two gradients must come before `a`'s can be stored, one along each path; all others wait for one.


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
# Running a node has a fixed order, and users hang hooks on every joint of it: hooks on the *tensor* see the gradient first,
# then it is captured (that is where `autograd.grad` and `retain_grad` read), then come the node's pre-hooks, the formula, and the
# node's post-hooks.


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
    given = [id(grad) for grad in incoming]
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
# The last line of the loop is the whole of the scheduling. Everything above it is about handing over a gradient in the form that the receiver
# needs, and about not copying it: `owned` follows an array that nobody else holds until it meets another gradient or a leaf, which then adds to it or keeps it instead of allocating. Upstream asks `use_count()` the same
# question; Python counts references too. A view passes the ownership of its memory on, so the gradient of a linear layer's weight, computed as a product and handed through the derivative of `t()`, becomes `.grad` without a copy.
#
# The pieces it uses: where gradients wait,

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
# what a gradient must look like,

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
# and what reads a gradient on its way. (The hooks themselves, and what they may return, are in [the part on starting the engine](10b_starting_the_engine.py).)


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
# ## One backward, step by step
#
# The graph of the diagram. First it is recorded, three operators; then `execute` counts and runs. Follow `heap` and `buffers`: the gradient
# of `a` waits for its second part while `MulBackward0` runs, and `AccumulateGrad` is taken as soon as it can be.

# %%
a.grad = b.grad = None

# %%
#| trace: torch.csrc.autograd.engine torch.csrc.autograd.input_buffer torch.csrc.autograd.functions layers=ops,autograd,calls,lines values=summary title="(a * b + a).sum().backward()"
(a * b + a).sum().backward()

# %%
a.grad, b.grad

# %% [markdown]
# And the order of the hooks, on one tensor and its node:

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
# A NaN in backward is born far from the forward operation that is to blame. The traceback of the error ends in `backward()`, where
# all of them end. Anomaly mode keeps the stack of the forward call on each node and shows it when the node fails.

# %%
#| into: csrc/autograd/anomaly_mode.py
#| imports
from __future__ import annotations

import traceback
import warnings
from typing import Any

import numpy as np

from readtorch.csrc.autograd.node import Node

# %%
#| into: csrc/autograd/anomaly_mode.py
#| upstream: torch/csrc/autograd/python_anomaly_mode.cpp#torch::autograd::PyAnomalyMetadata
TRACEBACK = "traceback_"


def store_stack(node: Node) -> None:
    """Remember the Python stack of the forward call that made `node`."""
    node.metadata[TRACEBACK] = traceback.format_stack()[:-3]


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
# The derivative of the square root at 0 is infinite, the gradient that arrived was 0, and the product of the two is no number. Nothing in the forward
# pass was wrong. Outside anomaly mode the NaN would have travelled on to every parameter before this layer.
#
# It is a tool for looking and not for training: every operation formats a stack, and every gradient is searched.


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
