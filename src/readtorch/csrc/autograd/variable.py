# Tangled from chapters/00_tensor/05_before_the_kernels.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.c10.core import autograd_state
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.tensor_impl import VariableVersion, version_counter
from readtorch.c10.util.exception import warn_once
from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad
from readtorch.csrc.autograd.functions.tensor import CopySlices
from readtorch.csrc.autograd.node import split_edge

DEFAULT, IN_CUSTOM_FUNCTION, MULTI_OUTPUT_NODE, NO_GRAD_MODE, INFERENCE_MODE = range(5)
"""Under which circumstances a view was made. All but the first forbid writing through it while gradients are recorded."""


def make_view(view: Any, source: Any, step: tuple, creation: int = DEFAULT) -> None:
    """Note that `view` looks into `source`'s memory. `step` is (function, args, kwargs[, number]): how to take it again."""
    counter = source._vc
    if counter is None:
        counter = version_counter(source)
    view._vc = counter
    above = source._view
    if autograd_state.counts.grad_off and not state.grad_mode:
        view._view = (
            source if above is None else above[0],
            (),
            INFERENCE_MODE if state.inference_mode else NO_GRAD_MODE,
        )
        return
    if above is None:
        view._view = (source, (step,), creation)
    else:
        view._view = (above[0], (*above[1], step), creation or above[2])
    counter.register_view(view)


def check_inplace(tensor: Any) -> None:
    """RuntimeError if writing to `tensor` while gradients are recorded would falsify them."""
    view = tensor._view
    if view is not None:
        base, _, creation = view
        if creation != DEFAULT:
            raise RuntimeError(_forbidden(tensor, creation))
        if base._edge.__class__ is AccumulateGrad:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if tensor._edge.__class__ is AccumulateGrad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


_WHY = {
    IN_CUSTOM_FUNCTION: "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
    "handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. "
    "Clone the output of the custom Function to get around this.",
    MULTI_OUTPUT_NODE: "This view is the output of a function that returns multiple views, and those are not open to writes in place: "
    "call the out-of-place form of the operation.",
}


def _forbidden(tensor: Any, creation: int) -> str:
    if creation in _WHY:
        if tensor._edge is None:
            return f"A view is being modified inplace. {_WHY[creation]}"
        node, number = split_edge(tensor._edge)
        name = node.name().rpartition("Backward")[0]
        return f"Output {number} of {name} is a view and is being modified inplace. {_WHY[creation]}"
    mode = "no_grad" if creation == NO_GRAD_MODE else "inference_mode"
    return (
        f"A view was created in {mode} mode and is being modified inplace with grad mode enabled. Whether the gradient should flow "
        f"is ambiguous: move both the view and the inplace operation either inside the {mode} block or out of it."
    )


def rebase_history(tensor: Any, node: Any) -> None:
    """`tensor` was written to in place by the operation of `node`: that is its history from now on, and its aliases follow."""
    view = tensor._view
    if view is None:
        _set_edge(tensor, node)
        _refresh_views(tensor)
        return
    base, steps, _ = view
    _set_edge(base, CopySlices(base, node, steps))
    _refresh_views(base)


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


def _refresh_views(base: Any) -> None:
    """Give every living view of `base` the history that leads through the base's new one."""
    from readtorch.csrc.autograd.functions.tensor import replay

    counter: VariableVersion | None = base._vc
    if counter is None or counter.views is None:
        return
    enabled = state.grad_mode
    autograd_state.set_grad_enabled(True)
    living, counter.views = counter.views, None
    try:
        for reference in living:
            view = reference()
            if view is not None and view._view is not None and view._view[0] is base and view._view[1]:
                view._edge = replay(base, view._view[1])._edge
    finally:
        counter.views = living
        autograd_state.set_grad_enabled(enabled)


def set_requires_grad(tensor: Any, wanted: bool) -> None:
    """Make `tensor` a leaf that collects gradients, or stop it being one. RuntimeError if it is no leaf."""
    edge = tensor._edge
    if edge is not None and edge.__class__ is not AccumulateGrad:
        if wanted:
            return
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that "
            "doesn't require differentiation use var_no_grad = var.detach()."
        )
    if not wanted:
        tensor._edge = None
    elif edge is None:
        if tensor._array.dtype.kind not in "fc" and tensor._array.dtype.kind != "V":
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        if tensor._meta is not None and tensor._meta.get("inference") and not state.inference_mode:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        tensor._edge = AccumulateGrad(tensor)


def grad_fn(tensor: Any) -> Any:
    """The node that made `tensor`; None for leaves."""
    edge = tensor._edge
    if edge is None or edge.__class__ is AccumulateGrad:
        return None
    return split_edge(edge)[0].shown()


def warn_of_gradient(tensor: Any) -> None:
    """UserWarning, once, that a number knows nothing of the graph that it comes from."""
    if tensor._edge is not None and state.grad_mode:
        warn_once(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior: no gradient will flow "
            "through the number. Write x.detach() or x.item() where that is meant.",
            stacklevel=4,
        )


def is_leaf(tensor: Any) -> bool:
    """Was it made by the user, not by a recorded operation?"""
    return tensor._edge is None or tensor._edge.__class__ is AccumulateGrad
