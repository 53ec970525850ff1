# Tangled from chapters/00_tensor/10_indexing_and_operators.py — edit there, or here and run `readtorch sync`.
"""Nodes of operations that have no derivative (twin of `torch/csrc/autograd/functions/basic_ops.cpp`)."""

from __future__ import annotations

from typing import Any

from readtorch.csrc.autograd.node import Node, next_sequence_nr


class NotImplementedNode(Node):
    """The node of an operation that has no derivative and whose result requires one: it raises when backward arrives."""

    __slots__ = ("operation",)

    def __init__(self, operation: str, edges: tuple) -> None:
        self.operation = operation
        self._edges = edges
        self._sequence = next_sequence_nr()

    def describe(self, array: Any) -> None:
        """What the operation left in its result."""
        self._shape, self._dtype = array.shape, array.dtype

    def name(self) -> str:
        return "torch::autograd::NotImplemented"

    def apply(self, grads: list[Any], graph: bool) -> list[Any]:
        raise RuntimeError(f"derivative for {self.operation} is not implemented")
