# Tangled from chapters/00_tensor/08_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core import memory_format as formats
from readtorch.c10.core.contiguity import is_contiguous, strides_of_copy
from readtorch.c10.core.dispatch_key import geometry, meta_like, without_values
from readtorch.c10.core.memory_format import memory_format


@register("clone", key="CPU CUDA", variants="function method")
def clone(self: Array, *, memory_format: memory_format = formats.preserve_format) -> Array:
    """A copy. It keeps the order of the dimensions in memory unless told otherwise."""
    if memory_format is formats.preserve_format or memory_format is None:
        return self.copy(order="C" if 0 in self.strides else "K")
    if memory_format is formats.contiguous_format:
        return self.copy(order="C")
    return to_channels_last(self, memory_format, copy=True)


@register("clone", key="Meta")
def _clone_on_meta(self: Array, *, memory_format: memory_format = formats.preserve_format) -> Array:
    if memory_format is formats.preserve_format or memory_format is None:
        return meta_like(self)
    return (
        meta_like(self, self.shape)
        if memory_format is formats.contiguous_format
        else clone(self, memory_format=memory_format)
    )


derivative("clone", self=lambda at, grad: grad)


def to_channels_last(array: Array, wanted: memory_format, copy: bool = False) -> Array:
    """The array with its channels innermost in memory, in the same logical shape."""
    rank = 4 if wanted is formats.channels_last else 5
    if array.ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {wanted!r} format")
    order = (0, *range(2, rank), 1)
    inverse = (0, rank - 1, *range(1, rank - 1))
    inner = array.transpose(order)
    if not copy and is_in_one_piece(inner):
        return array
    return inner.copy(order="C").transpose(inverse)


def is_in_one_piece(array: Array) -> bool:
    """Do its elements follow each other, last dimension innermost?"""
    return array.flags.c_contiguous or (without_values(array) and is_contiguous(*geometry(array)))


def in_one_piece(result: Array, operand: Array) -> Array:
    """The result with its last dimension innermost."""
    return result if is_in_one_piece(result) else result.copy(order="C")


def in_order_of(result: Array, operand: Array) -> Array:
    """The result with its dimensions in the order of the operand's."""
    if result.shape != operand.shape or is_in_one_piece(operand):
        return result
    wanted = strides_of_copy(*geometry(operand))
    if geometry(result)[1] == wanted:
        return result
    order = sorted(range(result.ndim), key=lambda dim: -wanted[dim])
    return result.transpose(order).copy(order="C").transpose(sorted(range(result.ndim), key=order.__getitem__))


def in_suggested_format(result: Array, operand: Array) -> Array:
    """The result with its channels innermost if the operand's are, else with its last dimension innermost."""
    rank = operand.ndim
    if rank not in (4, 5) or result.ndim != rank or is_in_one_piece(operand):
        return in_one_piece(result, operand)
    if not is_in_one_piece(operand.transpose((0, *range(2, rank), 1))):
        return in_one_piece(result, operand)
    return to_channels_last(result, formats.channels_last if rank == 4 else formats.channels_last_3d)
