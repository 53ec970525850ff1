# Tangled from chapters/05_data/4_worker.py — edit there, or here and run `readtorch sync`.
"""Copying a batch into page-locked memory, whatever containers it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from readtorch import Tensor
from readtorch.utils.data._utils.collate import _mapping_like, _sequence_like


def pin_memory(data: Any, device: Any = None) -> Any:
    """`data` with every tensor, and every object that has a `pin_memory` method, pinned. Tuples stay tuples."""
    if isinstance(data, Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, str | bytes):
        return data
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: pin_memory(value, device) for key, value in data.items()})
    if isinstance(data, tuple) and not hasattr(data, "_fields"):
        return type(data)(pin_memory(value, device) for value in data)
    if isinstance(data, Sequence):
        return _sequence_like(data, [pin_memory(value, device) for value in data])
    return data
