# Tangled from chapters/00_tensor/08_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core import memory_format as formats
from readtorch.c10.core.memory_format import memory_format


@register("clone", key="CPU CUDA", variants="function method")
def clone(self: Array, *, memory_format: memory_format = formats.preserve_format) -> Array:
    """A copy. It keeps the order of the dimensions in memory unless told otherwise."""
    if memory_format is formats.preserve_format:
        return self.copy(order="C" if 0 in self.strides else "K")
    if memory_format is formats.contiguous_format:
        return self.copy(order="C")
    return to_channels_last(self, memory_format, copy=True)


derivative("clone", self=lambda at, grad: grad)


def to_channels_last(array: Array, wanted: memory_format, copy: bool = False) -> Array:
    """The array with its channels innermost in memory, in the same logical shape."""
    rank = 4 if wanted is formats.channels_last else 5
    if array.ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {wanted!r} format")
    order = (0, *range(2, rank), 1)
    inverse = (0, rank - 1, *range(1, rank - 1))
    inner = array.transpose(order)
    if inner.flags.c_contiguous and not copy:
        return array
    return inner.copy(order="C").transpose(inverse)
