# Tangled from chapters/00_tensor/04_engine.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import itertools
from typing import Any

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
