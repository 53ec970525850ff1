# Tangled from chapters/00_tensor/05a_place_in_the_graph.py — edit there, or here and run `readtorch sync`.

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
