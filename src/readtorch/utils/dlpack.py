# Tangled from chapters/01_import/8b_neighbours.py — edit there, or here and run `readtorch sync`.
"""Tensors to and from other libraries without a copy."""

from __future__ import annotations

from typing import Any

import readtorch


def to_dlpack(tensor: Any) -> Any:
    """A capsule that hands the memory on once."""
    return tensor.__dlpack__()


def from_dlpack(ext_tensor: Any) -> Any:
    """A tensor on the memory of `ext_tensor`, an object with `__dlpack__`."""
    return readtorch.from_dlpack(ext_tensor)
