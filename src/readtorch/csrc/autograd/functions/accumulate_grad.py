# Tangled from chapters/00_tensor/, chapters/02_module/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from readtorch.aten.expand_utils import infer_size
from readtorch.c10.core import tensor_impl
from readtorch.c10.core.autograd_state import state
from readtorch.c10.core.contiguity import is_non_overlapping_and_dense
from readtorch.c10.core.dispatch_key import MetaArray, geometry, meta_array
from readtorch.c10.core.layout import LAYOUT_OF
from readtorch.csrc.autograd.node import Node
from readtorch.csrc.autograd.python_hook import check_is_tensor


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

    def successor(self, leaf: Any) -> AccumulateGrad:
        """A node that accumulates into `leaf` and runs the hooks that were registered on the tensor."""
        node = type(self)(leaf)
        node._tensor_pre_hooks = self._tensor_pre_hooks
        node._post_accumulate_hooks = self._post_accumulate_hooks
        return node


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
