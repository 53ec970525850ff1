# Tangled from chapters/a2_layers/12_utils.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


@composite("_weight_norm")
def _weight_norm(at: Any, v: Array, g: Array, dim: int = 0) -> Any:
    """`g v / |v|`, the norm over all dimensions but `dim`."""
    return v * (g / at.norm_except_dim(v, 2, dim))


@composite("norm_except_dim")
def norm_except_dim(at: Any, v: Array, pow: int = 2, dim: int = 0) -> Any:
    """The norm over all dimensions but `dim`, which stay with size 1; over all of them if `dim` is -1."""
    rank = len(v.shape)
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"norm_except_dim(): argument 'dim' must be int, not {type(dim).__name__}")
    maybe_wrap_dim(dim, rank)
    if dim == -1:
        return at.linalg_vector_norm(v, pow, tuple(range(rank)), False)
    return at.linalg_vector_norm(v, pow, tuple(d for d in range(rank) if d != dim % rank), True)
