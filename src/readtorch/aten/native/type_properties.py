# Tangled from chapters/00_tensor/05_before_the_kernels.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from readtorch.c10.core import scalar_type
from readtorch.c10.core.default_dtype import get_default_complex_dtype, get_default_dtype
from readtorch.c10.core.scalar_type import COMPLEX, FLOATING, dtype, promote_types


def result_type(operands: Sequence[Any]) -> dtype:
    """The dtype an operation on these raw arrays and Python numbers is computed in."""
    ranks: list[dtype | None] = [None, None, None]
    for operand in operands:
        if hasattr(operand, "dtype"):
            rank = 0 if operand.ndim else 1
            found = scalar_type.FROM_NUMPY[operand.dtype]
        else:
            rank, found = 2, number_type(operand)
            if operand.__class__ is int and not -(1 << 63) <= operand < 1 << 64:
                raise OverflowError("int too big to convert")
        old = ranks[rank]
        ranks[rank] = found if old is None else promote_types(old, found)
    return _combine(ranks[0], _combine(ranks[1], ranks[2])) or get_default_dtype()


def number_type(number: Any) -> dtype:
    """The dtype a Python number stands for."""
    if isinstance(number, bool):
        return scalar_type.bool
    if isinstance(number, int):
        return scalar_type.int64
    return get_default_complex_dtype() if isinstance(number, complex) else get_default_dtype()


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    if higher is None or lower is None:
        return higher or lower
    if higher._category == FLOATING and lower._category == COMPLEX:
        return higher.to_complex()
    if higher._category >= FLOATING or lower._category <= higher._category:
        return higher
    return promote_types(higher, lower)
