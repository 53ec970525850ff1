# Tangled from chapters/00_tensor/08_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any


def maybe_wrap_dim(dim: Any, rank: int, wrap_scalar: bool = True) -> int:
    """`dim` counted from the front. IndexError outside of [-rank, rank-1]; a 0-d tensor has one dimension here."""
    if dim.__class__ is not int:
        dim = dim.__index__()
    if rank <= 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        rank = 1
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim + rank if dim < 0 else dim
