# Tangled from chapters/a2_layers/02_linear.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch._tensor import Tensor
from readtorch.nn.modules.module import Module


class Flatten(Module):
    """Dimensions `start_dim` to `end_dim` become one; by default all but the first."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension becomes several. Raises TypeError if `unflattened_size` is no tuple or list of integers."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        self._require_tuple_int(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _require_tuple_int(self, input: Any) -> None:
        if not isinstance(input, tuple | list):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(input).__name__}")
        for place, element in enumerate(input):
            if not isinstance(element, int):
                found = type(element).__name__
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {found} at pos {place}"
                )

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
