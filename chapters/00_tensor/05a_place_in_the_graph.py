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
# # Views, writes, and a tensor's place in the graph
#
# Two tensors share memory, and one of them is written to in the middle of a recorded computation. Which history does the
# other one have now? Why are some such writes refused, with words about leaves and views that are not in your program?
# This part has the answers, and with them the object that records a single operator: its node.

# %%
import readtorch as torch
from readtorch.literate import live

live()


# %% [markdown]
# ## What happens to a view when its base is written to?
#
# Writing to one tensor can change the value, and the history, of *another* one:

# %%
#| needs: a1_operators
leaf = torch.ones(2, requires_grad=True)
base = leaf * 1
view = base[0]
base.mul_(10)
view.item(), torch.autograd.grad(view, leaf)

# %% [markdown]
# The view was taken before the multiplication, and its derivative is right nevertheless. It shows the product now, so its
# history must go through the multiplication. A tensor that looks into another's memory therefore remembers its base, and
# what leads from the base to it. After a write to the base it gets a new history, made when somebody asks for it.
#
# ```mermaid
# flowchart RL
#   accTitle: A view before and after its base is written to
#   accDescr: Before the write the view's node is SelectBackward on the first MulBackward, after it the base's node is the second MulBackward and the view's is AsStridedBackward on that
#   subgraph after["after base.mul_(10)"]
#     V2["view"] --> S2["AsStridedBackward0"] --> N2["MulBackward0 (× 10)"] --> M2["MulBackward0 (× 1)"]
#     B2["base"] --> N2
#   end
#   subgraph before
#     V1["view"] --> S1["SelectBackward0"] --> M1["MulBackward0 (× 1)"]
#     B1["base"] --> M1
#   end
# ```
#
# The new history does not repeat the steps that made the view. One node on the base knows shape, strides and offset:
# `AsStridedBackward0`. That is how this name gets into the graphs of people who have never called `as_strided`. The steps
# are repeated only where strides cannot describe the view, for instance between a real and a complex tensor.


# %%
#| needs: a1_operators
#| claim: after a write to the base a view's node is AsStridedBackward0, whatever operator had made the view
#| upstream: torch/csrc/autograd/variable.h#torch::autograd::DifferentiableViewMeta
def _(torch):
    base = torch.ones(2, requires_grad=True) * 1
    view = base[0]
    assert view.grad_fn.name() == "SelectBackward0"
    base.mul_(10)
    assert view.grad_fn.name() == "AsStridedBackward0"


# %%
#| into: csrc/autograd/variable.py
#| imports
from __future__ import annotations


import sys
from functools import cache
from typing import Any


from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core import autograd_state
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.tensor_impl import is_inference, version_counter
from readtorch.c10.util.exception import warn_once
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
from readtorch.csrc.autograd.functions.tensor import CopySlices, Path, path_to
from readtorch.csrc.autograd.node import next_sequence_nr, split_edge

# %%
#| into: csrc/autograd/variable.py
#| upstream: torch/csrc/autograd/variable.h#torch::autograd::CreationMeta
DEFAULT, IN_CUSTOM_FUNCTION, MULTI_OUTPUT_NODE, NO_GRAD_MODE, INFERENCE_MODE = range(5)
"""Under which circumstances a view was made. All but the first forbid writing through it while gradients are recorded."""


def make_view(view: Any, source: Any, step: tuple, creation: int = DEFAULT) -> None:
    """Note that `view` looks into `source`'s memory. `step` is (function, args, kwargs[, number]): how to take it again."""
    if source._meta is not None and is_inference(source):
        return
    counter = source._vc
    if counter is None:
        counter = version_counter(source)
    view._vc = counter
    recording = not autograd_state.counts.grad_off or state.grad_mode
    if not recording:
        creation = INFERENCE_MODE if state.inference_mode else NO_GRAD_MODE
    above = source._view
    if above is None:
        base = source
        view._view = (base, (step,), creation)
    else:
        base, steps, before, *_ = above
        view._view = (base, (*steps, step), before if not creation or before == INFERENCE_MODE else creation)
    if view._edge is None and base._edge is not None:
        del view._edge
    counter.register_view(view)


def requires_grad(tensor: Any) -> bool:
    """Are operations on `tensor` recorded? A view's are if its base's are."""
    try:
        return tensor._edge is not None
    except AttributeError:
        return own_edge(tensor) is not None or tensor._view[0]._edge is not None


def gradient_edge(tensor: Any) -> Any:
    """Where the gradient of `tensor` goes: a node, a pair (node, output number), or None.

    The edge of a view whose memory was written to leads through the base's new history. RuntimeError if that would leave out what
    made the view.
    """
    try:
        return tensor._edge
    except AttributeError:
        return _edge_of_view(tensor)


def _edge_of_view(view: Any) -> Any:
    base, _, creation, *behind = view._view
    own = behind[0] if behind else None
    if base._edge is None and (own is None or own.__class__ is AccumulateGrad):
        view._edge = own
        return own
    if not behind:
        return None
    if creation != DEFAULT:
        raise RuntimeError(_forbidden(creation, own, "its base or another view of its base has been"))
    set_history(view, _edge_through_base(view, base, path_to(view, base)))
    return view._edge


def own_edge(tensor: Any) -> Any:
    """The edge that `tensor` has, or had before its memory was written to; nobody is asked."""
    try:
        return tensor._edge
    except AttributeError:
        return tensor._view[3] if len(tensor._view) == 4 else None


@cache
def _as_strided() -> Any:
    from readtorch.csrc.autograd.generated_node import node_class

    return node_class(dispatcher.operators["as_strided"])


def _edge_through_base(view: Any, base: Any, path: Path) -> Any:
    """What `as_strided(base, …)` would have for an edge, if it gave `view`."""
    if path.is_geometry and not autograd_state.counts.special:
        (shape, strides, offset), origin = path.where, base.storage_offset()
        node = _as_strided()()
        node._edges = (base._edge,)
        node._sequence = next_sequence_nr()
        node._options = ((shape, strides, offset + origin), {})
        node._saved = ((base._array.shape, base.stride(), origin),)
        node._versions = node._result = None
        node._shape, node._dtype = shape, view._array.dtype
        return node
    enabled = state.grad_mode
    autograd_state.set_grad_enabled(True)
    try:
        return path.follow(base, base.storage_offset())._edge
    finally:
        autograd_state.set_grad_enabled(enabled)


# %%
#| into: csrc/autograd/variable.py
#| upstream: torch/csrc/autograd/VariableTypeUtils.h#torch::autograd::check_inplace
def check_inplace(tensor: Any) -> None:
    """RuntimeError if writing to `tensor` while gradients are recorded would falsify them."""
    view = tensor._view
    if view is not None:
        if view[2] != DEFAULT:
            raise RuntimeError(_forbidden(view[2], own_edge(tensor), "is being"))
        if requires_grad(tensor) and has_no_node(view[0]):
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if requires_grad(tensor) and has_no_node(tensor):
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


_WHY = {
    IN_CUSTOM_FUNCTION: "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
    "handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. "
    "Clone the output of the custom Function to get around this.",
    MULTI_OUTPUT_NODE: "This view is the output of a function that returns multiple views, and those are not open to writes in place: "
    "call the out-of-place form of the operation.",
}


def _forbidden(creation: int, own: Any, what: str) -> str:
    if creation in _WHY:
        if own is None:
            return f"A view was created in no_grad mode and {what} modified inplace with grad mode enabled. {_WHY[creation]}"
        node, number = split_edge(own)
        name = node.name().rpartition("Backward")[0]
        return f"Output {number} of {name} is a view and {what} modified inplace. {_WHY[creation]}"
    mode = "no_grad" if creation == NO_GRAD_MODE else "inference_mode"
    return (
        f"A view was created in {mode} mode and {what} modified inplace with grad mode enabled. Whether the gradient should flow "
        f"is ambiguous: move both the view and the inplace operation either inside the {mode} block or out of it."
    )


# %% [markdown]
# ### Whose gradient is it, if nobody recorded the view?
#
# A view may be taken while nothing is recorded. Ask it afterwards whether it requires a gradient:

# %%
#| needs: a1_operators
w = torch.ones(2, 3, requires_grad=True)
with torch.no_grad():
    row = w[0]
row.requires_grad, row.is_leaf, row.grad_fn, (row * 2).grad_fn.next_functions

# %% [markdown]
# It does, since a write to `row` is a write to `w`, and `w` requires one. But no node leads from one to the other: the
# product has a node whose edge goes nowhere. The same holds for a view whose base began to require a gradient after the
# view was taken.
#
# Now let `row` be written to. Under `no_grad` that is what initializers and optimizers do. With recording on it could
# mean two things. Either the write is a step of the computation, and `w` becomes the result of a `CopySlices`. Or nothing
# about this view was to be recorded, or why was it taken under `no_grad`? Either answer gives somebody a wrong gradient
# and no message, so the write is refused.
#
# Two other kinds of view are refused as well. Those that one node made together (`unbind`, `chunk`): the new history
# would be that of one output, and the node belongs to all of them. And those that a custom function returned: its
# `backward` would be left out. A number that each view is made with, upstream's `CreationMeta`, tells these cases apart;
# a view of a view inherits it.
#
# The refusal has a second half, which surprises more. Write to the *base*, in whichever mode. What the view knew of its
# history is now wrong, and a new history must not be made, for the reasons above. Nothing happens until somebody asks:

# %% tags=["raises-exception"]
#| needs: a1_operators
with torch.no_grad():
    w.mul_(2)
row.sin()


# %%
#| needs: a1_operators
#| claim: a view taken under no_grad requires a gradient as its base does, and has nowhere to send one; so does an older view of a tensor that becomes a leaf
#| upstream: torch/csrc/autograd/variable.h#torch::autograd::DifferentiableViewMeta
def _(torch):
    w, late = torch.ones(3, requires_grad=True), torch.ones(3)
    with torch.no_grad():
        view = w.view(3)
    older = late.view(3)
    late.requires_grad_()
    for one in (view, older):
        assert one.requires_grad and one.is_leaf and one.grad_fn is None
        product = one * 2
        assert product.grad_fn.next_functions[0] == (None, 0)
        product.sum().backward()
        assert w.grad is None and late.grad is None and one.grad is None


# %%
#| needs: a1_operators
#| claim: views from no_grad, and several views of one node, are not written to while recording, nor used once their memory was; with recording off they are
#| upstream: torch/csrc/autograd/VariableTypeUtils.h#torch::autograd::check_inplace
def _(torch):
    def refused(call):
        try:
            call()
        except RuntimeError as error:
            return "modified inplace" in str(error)
        return False

    w = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        silent = w[0]
    first, _ = (w * 1).unbind(0)
    for view in (silent, first):
        assert refused(lambda view=view: view.mul_(2))
        with torch.no_grad():
            view.mul_(2)
        assert view.requires_grad and refused(lambda view=view: view.grad_fn) and refused(lambda view=view: view.sin())
        assert view.detach().sin().shape == (3,)


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "A view follows its base, whatever is written to it." It does when it is *read*. The check
# > before a *write* looks at the history that the view had when it was last asked for, and a view of a tensor that
# > required nothing had none. If the base has got a history since, the first write to such a view is refused, with words
# > about a leaf, although neither is one. Read `view.grad_fn` once, and the write is allowed.


# %%
#| needs: a1_operators
#| claim: whether a view may be written to whose base got its history later depends on whether its own was asked for
#| upstream: torch/csrc/autograd/VariableTypeUtils.h#torch::autograd::check_inplace
def _(torch):
    base, w = torch.zeros(3), torch.ones(3, requires_grad=True)
    view = base.view(3)
    base.add_(w)
    try:
        view.mul_(2)
    except RuntimeError as error:
        assert "a leaf Variable that requires grad" in str(error)
    else:
        raise AssertionError("written")
    assert not view.is_leaf  # this asks
    view.mul_(2)
    assert torch.autograd.grad(base.sum(), w)[0].tolist() == [2, 2, 2]


# %% [markdown]
# ### What happens to the base when a view is written to?
#
# `v.mul_(2)` on a view `v` of `b` changes `b`. From then on `b` is the result of "everything as before, except this
# part". The node of that operation is `CopySlices`. It cuts the part out of the gradient, sends it through the derivative
# of the in-place operation, and puts what comes out back in its place.

# %%
#| into: csrc/autograd/functions/tensor.py
#| imports
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core import tensor_impl
from readtorch.c10.core.dispatch_key import MetaArray
from readtorch.c10.core.memory_format import contiguous_format
from readtorch.c10.core.storage_impl import data_address
from readtorch.csrc.autograd.node import Node, next_sequence_nr


# %%
#| into: csrc/autograd/functions/tensor.py
#| upstream: torch/csrc/autograd/functions/tensor.cpp#torch::autograd::CopySlices
class CopySlices(Node):
    """The history of a base after an in-place operation on its view. `function` is the operation's node."""

    __slots__ = ("function", "layout", "path")

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def __init__(self, base: Any, path: Path, function: Node) -> None:
        self.function = function
        self.path = path
        self.layout = None if base._array.flags.c_contiguous else (tuple(base._array.shape), base.stride())
        self._edges = (base._edge, *function._edges[1:])
        self._sequence = next_sequence_nr()
        self._shape = base._array.shape
        self._dtype = base._array.dtype

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        grad = grads[0]
        if self._released:
            from readtorch.csrc.autograd.saved_variable import released  # which needs this module

            raise released(self.name())
        if grad is None:
            return [None] * len(self._edges)
        if not graph and grad.__class__ is np.ndarray and self.layout is None and self.path.is_geometry:
            return self._apply_to_array(grad)
        whole = self._laid_out(grad if graph else tensor_impl.wrap(grad))
        part = self.path.follow(whole, 0)
        inner = dispatcher.autograd.clone(part) if graph else part._array.copy()
        results = list(self.function.apply([inner], graph))
        if self._edges[0] is not None:
            before = results[0]
            if before is None:
                dispatcher.operators["zero_"].call(part)
            else:
                dispatcher.operators["copy_"].call(part, before if graph else tensor_impl.wrap(before))
            results[0] = whole if graph else whole._array
        return results

    def _apply_to_array(self, grad: np.ndarray) -> list[Any]:
        shape, strides, offset = self.path.where
        whole = grad.copy()
        steps = tuple([step * whole.itemsize for step in strides])
        try:
            part = np.ndarray(shape, whole.dtype, whole if whole.size else None, offset * whole.itemsize, steps)
        except (TypeError, ValueError) as error:
            raise RuntimeError("the view that was written to looks into other memory (`set_`) by now") from error
        results = list(self.function.apply([part.copy()], False))
        if self._edges[0] is not None:
            before = results[0]
            part[...] = 0 if before is None else before
            results[0] = whole
        return results

    def _laid_out(self, grad: Any) -> Any:
        """A copy of `grad` whose elements lie in memory as the base's did, so that the view's strides find them."""
        if self.layout is None:
            return dispatcher.autograd.clone(grad, memory_format=contiguous_format)
        shape, strides = self.layout
        room = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if all(shape) else 0
        whole = dispatcher.autograd.as_strided(grad.new_zeros((room,)), shape, strides, 0)
        return dispatcher.operators["copy_"].call(whole, grad)

    def release_variables(self) -> None:
        self.function.release_variables()
        self._released = True


class Path(NamedTuple):
    """How to get a view out of a tensor that lies in memory as its base does."""

    #: shape, strides and offset, the last counted from the base's first element; or the operators that took the view
    where: Any
    is_geometry: bool

    def follow(self, tensor: Any, origin: int) -> Any:
        """The view of `tensor`, whose first element is number `origin` of its memory."""
        if not self.is_geometry:
            return replay(tensor, self.where)
        shape, strides, offset = self.where
        return dispatcher.autograd.as_strided(tensor, shape, strides, offset + origin)


def path_to(view: Any, base: Any) -> Path:
    """Shape, strides and offset say where a view looks, whatever views were taken on the way.

    If the elements are read as another type, or lie nowhere, the views have to be taken again, one by one.
    """
    part, whole = view._array, base._array
    if part.dtype != whole.dtype or part.__class__ is MetaArray or is_wrapped(part):
        return Path(view._view[1], False)
    itemsize = whole.itemsize
    offset = (data_address(part) - data_address(whole)) // itemsize if part.size else 0
    return Path((part.shape, tuple([step // itemsize for step in part.strides]), offset), True)


def replay(tensor: Any, steps: tuple) -> Any:
    """Take a view again, starting from `tensor`."""
    for function, args, kwargs, *number in steps:
        tensor = function(tensor, *args, **kwargs)
        if number:
            tensor = tensor[number[0]]
    return tensor


# %%
#| into: csrc/autograd/variable.py
#| upstream: torch/csrc/autograd/variable.cpp#torch::autograd::impl::rebase_history
def rebase_history(tensor: Any, edge: Any) -> None:
    """`tensor` was written to in place by the operation of `edge`: that is its history from now on, and its aliases follow."""
    if tensor._view is None:
        _set_edge(tensor, edge)
        wake_views(tensor)
        return
    node, number = split_edge(edge)
    if number or node._count != 1:
        raise RuntimeError("Functions which modify views in-place must return a single Variable")
    base = tensor._view[0]
    path = path_to(tensor, base)
    _set_edge(base, CopySlices(base, path, node))
    wake_views(base)
    set_history(tensor, _edge_through_base(tensor, base, path))


def set_history(tensor: Any, edge: Any) -> None:
    """`edge` is the history of `tensor` alone, and right as of now."""
    view = tensor._view
    if view is not None and len(view) == 4:
        tensor._edge = view[3]  # the request to keep its gradient is there
        tensor._view = view[:3]
        tensor._vc.behind.pop(id(tensor), None)
        tensor._vc.register_view(tensor)
    elif view is not None and not hasattr(tensor, "_edge"):
        tensor._edge = None
    _set_edge(tensor, edge)


def _set_edge(tensor: Any, edge: Any) -> None:
    """Give `tensor` a new history. What `retain_grad` asked for is the gradient of the tensor as it is, so the request moves along."""
    old, tensor._edge = tensor._edge, edge
    if old is None:
        return
    node, number = split_edge(old)
    if node._retains_grad is not None and number in node._retains_grad and node._retains_grad[number]() is tensor:
        reference = node._retains_grad.pop(number)
        node, number = split_edge(edge)
        node._retains_grad = {**(node._retains_grad or {}), number: reference}


def wake_views(base: Any) -> None:
    """`base` requires gradients: so do its views from now on, and each has to ask where they go."""
    counter = base._vc
    if counter is not None and (counter.views or counter.behind):
        for view in counter.living_views():
            if view._view[0] is base and (getattr(view, "_edge", None) is None or len(view._view) == 4):
                view.forget_edge()


# %% [markdown]
# In the graph below, a row is multiplied in place. `CopySlices` calls the node of the multiplication itself, so that node
# has no place of its own in the walk.

# %%
#| needs: a1_operators
leaf = torch.ones(3, requires_grad=True)
base = leaf * 1
base[0].mul_(10)
base.grad_fn.name(), [node.name() for node, _ in base.grad_fn.next_functions if node]

# %%
#| needs: a1_operators
#| trace: torch.csrc.autograd.functions.tensor torch.csrc.autograd.generated_node layers=calls,ops,autograd values=summary title="CopySlices: cut out, differentiate, put back"
(gradient,) = torch.autograd.grad(base.sum(), leaf)

# %%
#| needs: a1_operators
gradient


# %%
#| needs: a1_operators
#| claim: a write through a view gives the base a CopySlices node, and every other view the new history
#| upstream: torch/csrc/autograd/functions/tensor.h#torch::autograd::CopySlices
def _(torch):
    leaf = torch.ones(3, requires_grad=True)
    base = leaf * 1
    first, tail = base[0], base[1:]
    tail.mul_(5)
    assert base.grad_fn.name().endswith("CopySlices")
    assert torch.autograd.grad(base.sum(), leaf, retain_graph=True)[0].tolist() == [1, 5, 5]
    assert torch.autograd.grad(first, leaf, retain_graph=True)[0].tolist() == [1, 0, 0]
    first.mul_(2)
    assert torch.autograd.grad(base.sum(), leaf)[0].tolist() == [2, 5, 5]


# %% [markdown]
# ### How does a tensor become a leaf, or stop being one?
#
# `x.requires_grad_()` gives the tensor an `AccumulateGrad` node. That needs a dtype that can have gradients and a tensor
# without a history. The other functions of this cell ask who made a tensor, and are what `x.grad_fn` and `x.is_leaf`
# call.


# %%
#| into: csrc/autograd/variable.py
#| upstream: torch/csrc/autograd/variable.cpp#torch::autograd::VariableHooks::requires_grad_
def set_requires_grad(tensor: Any, wanted: bool) -> None:
    """Make `tensor` a leaf that collects gradients, or stop it being one. RuntimeError if it is no leaf."""
    if not has_no_node(tensor):
        if wanted:
            return
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that "
            "doesn't require differentiation use var_no_grad = var.detach()."
        )
    edge = own_edge(tensor)
    if not wanted:
        _become_leaf(tensor, None)
    elif edge is None:
        if tensor._array.dtype.kind not in "fc" and tensor._array.dtype.kind != "V":
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        if tensor._meta is not None and tensor._meta.get("inference") and not state.inference_mode:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        _become_leaf(tensor, AccumulateGrad(tensor))


def _become_leaf(tensor: Any, edge: AccumulateGrad | None) -> None:
    tensor._edge = edge
    view = tensor._view
    if view is None:
        if edge is not None:
            wake_views(tensor)
        return
    behind = len(view) == 4
    if behind:
        tensor._view = (*view[:3], edge)
    if view[0]._edge is not None and (behind or edge is None):
        del tensor._edge


def tell_leaf(tensor: Any) -> None:
    """Its shape is another now. A graph that leads to the leaf already goes on expecting gradients of the old one, as upstream's does."""
    edge = own_edge(tensor)
    if edge.__class__ is AccumulateGrad:
        if sys.getrefcount(edge) == _HELD_BY_LEAF_ALONE:
            edge.describe(tensor._array)
        else:
            edge._array, edge.reshaped = tensor._array, edge._shape != tensor._array.shape


#: the leaf, the variable above, and the argument of `getrefcount`
_HELD_BY_LEAF_ALONE = 3


def grad_fn(tensor: Any) -> Any:
    """The node that made `tensor`; None for leaves."""
    edge = gradient_edge(tensor)
    if edge is None or edge.__class__ is AccumulateGrad:
        return None
    return split_edge(edge)[0].shown()


def warn_of_gradient(tensor: Any) -> None:
    """UserWarning, once, that a number knows nothing of the graph that it comes from."""
    if state.grad_mode and requires_grad(tensor):
        warn_once(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior: no gradient will flow "
            "through the number. Write x.detach() or x.item() where that is meant.",
            stacklevel=4,
        )


def has_no_node(tensor: Any) -> bool:
    """Was it a leaf when it was last asked? The checks before a write ask this."""
    edge = own_edge(tensor)
    return edge is None or edge.__class__ is AccumulateGrad


def is_leaf(tensor: Any) -> bool:
    """Was it made by the user, not by a recorded operation?"""
    edge = gradient_edge(tensor)
    return edge is None or edge.__class__ is AccumulateGrad


# %% [markdown]
# ## What does an operator's node keep?
#
# There is one class per operator, so that the graph prints as upstream's does. What an instance keeps was decided by the
# names in the formulas. `apply` is where [the engine](04b_the_walk.py) calls it: collect what the formulas name, run each
# formula that somebody wants, put the results beside the edges.

# %%
#| into: csrc/autograd/generated_node.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import TENSOR_LIST, OperatorEntry
from readtorch.aten.op_math_type import FLOAT32, REDUCED, in_working_precision
from readtorch.c10.core import tensor_impl
from readtorch.c10.core.dispatch_key import BACKENDS, DispatchKey
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.autograd.node import Node, next_sequence_nr
from readtorch.csrc.autograd.saved_variable import Packed, SavedTensor, check_version, modified, released
from readtorch.csrc.autograd.variable import gradient_edge, requires_grad
from readtorch.csrc.utils.disable_torch_function import DisableTorchFunction, state
from readtorch.csrc.utils.gates import gates


# %%
#| into: csrc/autograd/generated_node.py
#| upstream: torch/csrc/autograd/node.h#torch::autograd::TraceableFunction
class GeneratedNode(Node):
    """The node of a registered operator; `entry` is the operator.

    `_saved`: the tensors and then the shapes and dtypes that the formulas name; `_versions`: the versions of the tensors, None if all were 0;
    `_result`: the kept output arrays; `_options`: (args, kwargs) after the leading tensors, or the bound list of everything.
    """

    __slots__ = ("_options", "_result", "_saved", "_versions")
    entry: OperatorEntry
    _options: Any
    _result: Any
    _saved: Any
    _versions: Any
    _counters: dict[int, Any] | None = None
    _expected = 0
    _plan: list[tuple[tuple[int, ...] | None, Any, tuple[str, ...], bool]] | None = None

    def output_has_counter(self, number: int, counter: Any) -> None:
        if self.entry.derivative is not None and self.entry.derivative.outputs:
            self._counters = {**(self._counters or {}), number: counter}

    def release_variables(self) -> None:
        rule = self.entry.derivative
        assert rule is not None
        kept = any(value is not None for value in self._saved[: len(rule.saved)])
        kept = kept or (bool(rule.outputs) and self._result is not None)
        if kept:  # what is not needed by the gradients that were asked for was not kept: such a node can run again
            self._saved = self._result = None
            self._released = True

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        edges = self._edges
        first = grads[0] if len(grads) == 1 else next((grad for grad in grads if grad is not None), None)
        if first is None:
            return [None] * len(edges)
        if self._released:
            raise released(self.name())
        if graph and gates.up and state.subclasses:
            with DisableTorchFunction():  # a formula's operators are none that the user called
                return self.apply(grads, graph)
        key = DispatchKey.Autograd if graph else BACKENDS[first.__class__]
        at = dispatcher.autograd if graph else dispatcher.columns(key)
        if at is None:
            return self._on_tensors(grads)
        values = self._values(grads, graph)
        rule = self.entry.derivative
        assert rule is not None
        results: list[Any] = [None] * len(edges)
        for positions, formula, names, in_opmath in self._plan or self.plan():
            if key is DispatchKey.CUDA:
                formula = dispatcher.cuda.maker.function(formula)
            elif key is DispatchKey.Meta:
                formula = dispatcher.formula_on_meta(formula)
            if positions is not None and len(positions) > 1 and "mask" not in self.entry.schema.names:
                values["mask"] = tuple(edges[i] is not None for i in positions)
            arguments: Any = map(values.__getitem__, names)
            if in_opmath and (narrow := (first._array if graph else first).dtype).itemsize == 2:
                arguments = [_widened(at, value) for value in arguments]
                formula = _rounding(formula, narrow)
            if positions is None:
                return list(formula(at, *arguments))
            if len(positions) == 1:
                position = positions[0]
                if edges[position] is not None:
                    results[position] = formula(at, *arguments)
            elif any(edges[i] is not None for i in positions):
                for i, grad in zip(positions, formula(at, *arguments), strict=True):
                    results[i] = grad if edges[i] is not None else None
        if graph and rule.opaque is not None:
            kept = [*rule.saved, *[self.entry.outputs[i] for i in rule.outputs]]
            return leading_to(self, results, [values[name] for name in kept], rule.opaque)
        return results

    def _on_tensors(self, grads: list[Any]) -> list[Any]:
        """The formulas on tensors, for raw values that know no arithmetic. Nothing is recorded: the engine has switched that off."""
        results = self.apply([None if grad is None else tensor_impl.wrap(grad) for grad in grads], True)
        return [None if result is None else result._array for result in results]

    @classmethod
    def plan(cls) -> list[tuple[tuple[int, ...] | None, Any, tuple[str, ...], bool]]:
        """For each formula: which edges it serves (None: all of them, one per tensor of a list), the names it wants, and whether it is one kernel."""
        if cls._plan is None:
            rule, schema = cls.entry.derivative, cls.entry.schema
            assert rule is not None
            order = [name for name in schema.names if name in rule.differentiable]
            found = []
            for key, formula in rule.formulas.items():
                is_list = len(key) == 1 and schema.kinds[schema.names.index(key[0])] is TENSOR_LIST
                positions = None if is_list else tuple(order.index(name) for name in key)
                found.append((positions, formula, rule.needs[key], key in rule.in_opmath))
            cls._plan = found  # at once: another thread may walk a graph with such nodes, too
        return cls._plan


# %% [markdown]
# Collecting is where kept tensors are checked. An input is compared with the version that it had. An output was kept as
# an array, and becomes a tensor again if the formula runs on tensors.


# %%
#| into: csrc/autograd/generated_node.py
class GeneratedNode(GeneratedNode):
    def _values(self, grads: list[Any], graph: bool) -> dict[str, Any]:
        entry, rule = self.entry, self.entry.derivative
        assert rule is not None
        values: dict[str, Any] = {"grad": grads[0], "grads": grads}
        versions = self._versions
        for i, name in enumerate(rule.saved):
            values[name] = _unpack(self._saved[i], 0 if versions is None else versions[i], graph, self)
        if rule.metas:
            for (name, what), value in zip(rule.metas, self._saved[len(rule.saved) :], strict=True):
                values[f"{name}_{what}"] = value
        for i, number in enumerate(rule.outputs):
            array = self._result[i] if len(rule.outputs) > 1 else self._result
            values[entry.outputs[number]] = self._output(array, number, graph)
        if rule.options:
            bound = self._bound_options()
            for name in bound:
                values.setdefault(name, bound[name])
        return values

    def _bound_options(self) -> dict[str, Any]:
        schema, options = self.entry.schema, self._options
        names = schema.names if schema.var_positional is None else (*schema.names, schema.var_positional)
        if options is None:
            values: list[Any] = schema.bind(self.entry.name, (None,) * (schema.leading or 0), {})
        elif options.__class__ is tuple:
            values = schema.bind(self.entry.name, (None,) * (schema.leading or 0) + options[0], options[1])
        else:
            values = options
        return dict(zip(names, values, strict=True))

    def _output(self, array: Any, number: int, graph: bool) -> Any:
        if array is None:  # not kept, since no formula that will be asked uses it: it may have been written to
            return None
        packed = array.__class__ is Packed
        if packed:  # a hook may give back anything, so no version is compared
            array = array.restore()._array
        counter = self._counters.get(number) if self._counters and not packed else None
        if counter is not None and counter.value != self._expected:
            if self.entry.remakes:
                return None
            raise modified(array, (self, number), counter.value, self._expected)
        if not graph:
            return array
        shown = self.entry.differentiable_outputs
        differentiable = array.dtype.kind in "fcV" and (shown is None or number in shown)
        return tensor_impl.wrap(array, (self if self._count == 1 else (self, number)) if differentiable else None)


# %% [markdown]
# The rest of the class is for people who look at the graph: the node's name, which upstream numbers by overload
# (`SumBackward1` is a sum over a dimension), and the attributes `_saved_NAME` and `_raw_saved_NAME`.


# %%
#| into: csrc/autograd/generated_node.py
class GeneratedNode(GeneratedNode):
    def shown(self) -> Node:
        """This node. Upstream counts the overloads of an operator: `x.sum(0)` leaves a `SumBackward1`."""
        choose = self.entry.overload
        if choose is not None and not self._released:
            rule = self.entry.derivative
            saved = {} if rule is None else dict(zip(rule.saved, self._saved, strict=False))
            self.__class__ = _overload_class(type(self), choose({**self._bound_options(), **saved}))
        return self

    def become_inplace(self) -> None:
        """Upstream numbers the in-place forms of a view after the others: `x.t_()` leaves a `TBackward1`."""
        cls: Any = type(self.shown())
        name, number = cls.__name__[:-1], int(cls.__name__[-1])
        forms = 3 if name == "SqueezeBackward" else 1
        self.__class__ = _overload_class(cls, f"{name}{number + forms}", shown=lambda self: self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            return self._saved_attribute(name.removeprefix("_saved_"))
        if name.startswith("_raw_saved_"):
            return self._raw_saved_attribute(name.removeprefix("_raw_saved_"))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def _saved_attribute(self, name: str) -> Any:
        if self._released:
            raise released(self.name())
        values = self._values([None] * self._count, True)
        if name not in values or name in ("grad", "grads", "mask"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '_saved_{name}'")
        return values[name]

    def _raw_saved_attribute(self, name: str) -> SavedTensor:
        rule = self.entry.derivative
        assert rule is not None
        if name in rule.saved:
            return SavedTensor(self, rule.saved.index(name))
        for place, number in enumerate(rule.outputs, len(rule.saved)):
            if self.entry.outputs[number] == name:
                return SavedTensor(self, place)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '_raw_saved_{name}'")

    def saved_at(self, place: int) -> Any:
        """What is kept for an input, or for an output, whose places come after those of the inputs."""
        rule = self.entry.derivative
        assert rule is not None
        output = place - len(rule.saved)
        if output < 0:
            return self._saved[place]
        kept = self._result[output] if len(rule.outputs) > 1 else self._result
        if kept is None or kept.__class__ is Packed:
            return kept
        return self._output(kept, rule.outputs[output], True)

    def keep_at(self, place: int, kept: Packed) -> None:
        """Put it there instead."""
        rule = self.entry.derivative
        assert rule is not None
        output = place - len(rule.saved)
        if output < 0:
            self._saved = (*self._saved[:place], kept, *self._saved[place + 1 :])
        elif len(rule.outputs) > 1:
            self._result[output] = kept
        else:
            self._result = kept


# %% [markdown]
# What is left is small: unpacking a kept value, making the classes, and one more node, for gradients of gradients.
# Upstream, the backward of a few operators is a single operator that takes all kept tensors. Its results lead to those
# tensors even where they do not depend on them, and `OpaqueNode` does the same.


# %%
#| into: csrc/autograd/generated_node.py
def _unpack(value: Any, version: Any, graph: bool, keeper: Node) -> Any:
    if value.__class__ is Packed:
        value = value.restore()
    elif isinstance(value, tensor_impl.TensorImpl):
        check_version(value, version, keeper)
    elif value.__class__ is list:
        return [_unpack(*pair, graph, keeper) for pair in zip(value, version or repeat(0), strict=False)]
    else:
        return value
    return value if graph else value._array


def _widened(at: Any, value: Any) -> Any:
    """What one kernel computes with: floats of 16 bits as float32."""
    if value.__class__ is list:
        return [_widened(at, one) for one in value]
    if isinstance(value, tensor_impl.TensorImpl):
        return at._to_copy(value, FLOAT32) if value._array.dtype in REDUCED else value
    return in_working_precision(value) if hasattr(value, "astype") else value


def _rounding(formula: Callable[..., Any], narrow: Any) -> Callable[..., Any]:
    """The formula, with its result rounded to 16 bits; several results are left to the engine."""

    def rounded(at: Any, *arguments: Any) -> Any:
        result = formula(at, *arguments)
        return result if isinstance(result, tuple | list) else at._to_copy(result, narrow)

    return rounded


_overload_classes: dict[tuple[Any, str], type[GeneratedNode]] = {}


def _overload_class(cls: type[GeneratedNode], name: str, **members: Any) -> type[GeneratedNode]:
    if cls.__name__ == name:
        return cls
    found = _overload_classes.get((cls, name))
    if found is None:
        found = type(name, (cls,), {"__slots__": (), "__module__": "torch.autograd", **members})
        _overload_classes[cls, name] = found
    return found


def node_class(entry: OperatorEntry) -> type[GeneratedNode]:
    """The class of the operator's nodes."""
    return type(entry.node_name, (GeneratedNode,), {"__slots__": (), "entry": entry, "__module__": "torch.autograd"})


class OpaqueNode(Node):
    """Leads from a gradient to tensors that it does not change with, where upstream's does; see the dispatcher's `opaque`."""

    __slots__ = ("forward", "kept", "zero")

    def __init__(self, forward: str, gradient: Any, kept: list[Any], zero: bool) -> None:
        self.forward, self.kept, self.zero = forward, kept, zero
        self._edges = tuple(gradient_edge(tensor) for tensor in (gradient, *kept))
        self._sequence = next_sequence_nr()
        self._shape, self._dtype = gradient._array.shape, gradient._array.dtype

    def name(self) -> str:
        return self.forward.replace("Backward", "BackwardBackward")

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        if self._released:
            raise released(self.name())
        grad = grads[0]
        if grad is None or not self.zero:
            return [grad, *[None] * len(self.kept)]
        if graph:
            return [grad, *[dispatcher.autograd.zeros_like(tensor) for tensor in self.kept]]
        at = dispatcher.columns(BACKENDS[grad.__class__])
        assert at is not None
        return [grad, *[at.zeros_like(tensor._array) for tensor in self.kept]]

    def release_variables(self) -> None:
        self.kept, self._released = [], True


def leading_to(node: Node, gradients: list[Any], kept: list[Any], zero: bool) -> list[Any]:
    """The gradients that `node` computed, each with a path to those of the kept tensors that require a gradient."""
    kept = [value for value in kept if isinstance(value, TensorImpl) and requires_grad(value)]
    if not kept:
        return gradients
    return [
        None if one is None else tensor_impl.wrap(one._array, OpaqueNode(node.name(), one, kept, zero))
        for one in gradients
    ]


# %% [markdown]
# What such nodes keep. `y` wants no gradient, so the product need not keep `x` for it; the sum keeps a shape and lets the
# tensor go:

# %%
#| needs: a1_operators
x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])
(
    (x * y).grad_fn._saved_self,
    (x * y).grad_fn._saved_other,
    x.exp().grad_fn._saved_result,
    x.sum().grad_fn._saved_self_shape,
)


# %%
#| needs: a1_operators
#| claim: what a node keeps can be read as _saved_NAME; an input that no formula wants is not kept, for want of a gradient too
def _(torch):
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    node = (x * y).grad_fn
    assert node._saved_other is not None and node._saved_self is None
    assert torch.equal(x.exp().grad_fn._saved_result, x.exp())


# %% [markdown]
# A node is made after a kernel has run, and a kernel runs only if the call made sense. [The next part](05b_arguments.py) is about who checks that.
