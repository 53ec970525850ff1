# Tangled from chapters/00_tensor/05a_place_in_the_graph.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.functorch.tensor_wrapper import is_wrapped
from readtorch.c10.core import tensor_impl
from readtorch.c10.core.dispatch_key import MetaArray
from readtorch.c10.core.memory_format import contiguous_format
from readtorch.c10.core.storage_impl import data_address
from readtorch.csrc.autograd.node import Node, next_sequence_nr


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
