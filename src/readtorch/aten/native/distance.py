# Tangled from chapters/a1_operators/nn_6_linear_and_embedding.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import to_string
from readtorch.c10.core.wrap_dim_minimal import as_dim


@composite("pairwise_distance")
def pairwise_distance(at: Any, x1: Array, x2: Array, p: float = 2, eps: float = 1e-06, keepdim: bool = False) -> Any:
    """The p-norm of `x1 - x2 + eps` over the last dimension."""
    return at.linalg_vector_norm(x1 - x2 + eps, p, -1, keepdim)


@composite("cosine_similarity")
def cosine_similarity(at: Any, x1: Array, x2: Array, dim: int = 1, eps: float = 1e-08) -> Any:
    """`x1 · x2 / (max(|x1|, eps) max(|x2|, eps))` along `dim`."""
    dim = as_dim(dim)
    x1, x2 = x1 + at.zeros_like(x2), x2 + at.zeros_like(x1)  # of one shape and dtype
    kind = to_string(x1.dtype)
    if kind not in ("Half", "BFloat16", "Float", "Double"):
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {kind}")
    n1 = at.clamp(at.linalg_vector_norm(x1, 2, dim, True), eps, None)
    n2 = at.clamp(at.linalg_vector_norm(x2, 2, dim, True), eps, None)
    return at.sum((x1 / n1) * (x2 / n2), dim)
