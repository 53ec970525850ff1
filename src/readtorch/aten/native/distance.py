# Tangled from chapters/a1_operators/nn_6_linear_and_embedding.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.expand_utils import infer_size
from readtorch.c10.core.scalar_type import to_string
from readtorch.c10.core.wrap_dim_minimal import as_dim


@composite("pairwise_distance")
def pairwise_distance(at: Any, x1: Array, x2: Array, p: float = 2, eps: float = 1e-06, keepdim: bool = False) -> Any:
    """The p-norm of `x1 - x2 + eps` over the last dimension."""
    return at.linalg_vector_norm(x1 - x2 + eps, p, -1, keepdim)


@register("_norm_at_least", key="CPU CUDA", variants="")
def _norm_at_least(norm: Array, eps: float) -> Array:
    """The norm, or eps where that is more. The gradient is the norm's everywhere, also where eps took its place."""
    return np.maximum(norm, norm.dtype.type(eps))


derivative("_norm_at_least", norm=lambda at, grad: grad)


@composite("cosine_similarity")
def cosine_similarity(at: Any, x1: Array, x2: Array, dim: int = 1, eps: float = 1e-08) -> Any:
    """`x1 · x2 / (max(|x1|, eps) max(|x2|, eps))` along `dim`."""
    dim = as_dim(dim)
    if not eps >= 0:
        raise RuntimeError(f"cosine_similarity: eps must be non-negative, got: {eps}")
    common = (x1 + at.zeros_like(x2)).dtype if x1.dtype != x2.dtype else x1.dtype
    kind = to_string(common)
    if kind not in ("Half", "BFloat16", "Float", "Double"):
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {kind}")
    floating = ("Half", "BFloat16", "Float", "Double")
    x1, x2 = (x if to_string(x.dtype) in floating else at._to_copy(x, common) for x in (x1, x2))
    if tuple(x1.shape) != tuple(x2.shape):
        shape = infer_size(tuple(x1.shape), tuple(x2.shape))
        x1, x2 = at.expand(x1, shape), at.expand(x2, shape)
    n1, n2 = (at._norm_at_least(at.linalg_vector_norm(x, 2, dim, True), eps) for x in (x1, x2))
    return at.sum((x1 / n1) * (x2 / n2), dim)
