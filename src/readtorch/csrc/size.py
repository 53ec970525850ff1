# Tangled from chapters/00_tensor/02_storage_and_views.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any, SupportsIndex


class Size(tuple[int, ...]):
    """A shape: a tuple of ints whose slices and sums are shapes again."""

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> Size:
        values = tuple(sizes)
        for position, value in enumerate(values):
            if value.__class__ is not int:
                try:
                    values = (*values[:position], value.__index__(), *values[position + 1 :])
                except (AttributeError, TypeError):
                    kind = type(value).__name__
                    raise TypeError(f"torch.Size() takes an iterable of 'int' (item {position} is '{kind}')") from None
        return tuple.__new__(cls, values)

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return tuple.__new__(Size, found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return Size(tuple.__add__(tuple(other), self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> Size:
        return tuple.__new__(Size, tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))
