# Tangled from chapters/00_tensor/05_before_the_kernels.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core import tensor_impl
from readtorch.csrc.autograd.node import Node, next_sequence_nr


class CopySlices(Node):
    """The history of a base after an in-place operation on its view: `function` is the operation's node, `steps` lead to the view."""

    __slots__ = ("function", "steps")

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def __init__(self, base: Any, function: Node, steps: tuple) -> None:
        self.function = function
        self.steps = steps
        self._edges = (base._edge, *function._edges[1:])
        self._sequence = next_sequence_nr()
        self._shape = base._array.shape
        self._dtype = base._array.dtype

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        grad = grads[0]
        if grad is None:
            return [None] * len(self._edges)
        whole = dispatcher.autograd.clone(grad) if graph else tensor_impl.wrap(grad.copy())
        part = replay(whole, self.steps)
        inner = dispatcher.autograd.clone(part) if graph else part._array.copy()
        results = list(self.function.apply([inner], graph))
        if self._edges[0] is not None:
            before = results[0]
            if graph:
                dispatcher.operators["zero_" if before is None else "copy_"].call(
                    part, *([] if before is None else [before])
                )
            else:
                part._array[...] = 0 if before is None else before
            results[0] = whole if graph else whole._array
        return results

    def release_variables(self) -> None:
        self.function.release_variables()


def replay(tensor: Any, steps: tuple) -> Any:
    """Take a view again, starting from `tensor`."""
    for function, args, kwargs, *number in steps:
        tensor = function(tensor, *args, **kwargs)
        if number:
            tensor = tensor[number[0]]
    return tensor
