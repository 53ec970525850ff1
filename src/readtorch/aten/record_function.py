# Tangled from chapters/00_tensor/03_dispatcher.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any, Protocol


class Observer(Protocol):
    """What the slot `observer` may hold. Times are `time.perf_counter_ns()`."""

    def operator(self, name: str, inputs: tuple, outputs: object, begin_ns: int, end_ns: int) -> None:
        """An operator has returned. `name` is qualified (`aten::add`); operators called by it were reported before it."""

    def node(self, node: Any, grads_in: tuple, grads_out: tuple, begin_ns: int, end_ns: int) -> None:
        """A node of a backward pass has run. Gradients are raw arrays, tensors where the backward is itself recorded, or None."""

    def alloc(self, storage: Any) -> None:
        """A creation function has allocated a storage."""


observer: Observer | None = None
