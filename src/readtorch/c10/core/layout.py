# Tangled from chapters/00_tensor/01_dtype_and_device.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class layout:
    """How elements are stored: `strided` in memory, or as a list of places and values."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")

#: the layout of tensors that hold an object of this class in place of an array; all others are strided
LAYOUT_OF: dict[Any, layout] = {}

#: for such a layout, what makes an object without elements: (shape, dtype)
EMPTY_OF: dict[layout, Callable[[tuple[int, ...], Any], Any]] = {}
