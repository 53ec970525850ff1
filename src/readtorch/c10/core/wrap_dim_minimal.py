# Tangled from chapters/00_tensor/08_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any


def as_dim(dim: Any, name: str = "dim") -> int:
    """A NumPy integer, or whatever else counts, as an int. TypeError for what does not count; a bool is no dimension."""
    try:
        if isinstance(dim, bool) or getattr(dim, "ndim", False):
            raise TypeError
        return int(dim.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"argument '{name}' must be int, not {type(dim).__name__}") from None


def maybe_wrap_dim(dim: Any, rank: int, wrap_scalar: bool = True) -> int:
    """`dim` counted from the front. IndexError outside of [-rank, rank-1]; a 0-d tensor has one dimension here."""
    if dim.__class__ is not int:
        dim = as_dim(dim)
    if rank <= 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        rank = 1
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim + rank if dim < 0 else dim
