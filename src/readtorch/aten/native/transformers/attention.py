# Tangled from chapters/a1_operators/nn_9_attention.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, keeps_shape_on_meta, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.expand_utils import infer_size
from readtorch.c10.core.scalar_type import to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


def _check(query: Any, key: Any, value: Any, mask: Any, is_causal: bool) -> None:
    if not query.dtype == key.dtype == value.dtype:
        names = ", ".join(
            f"{n}.dtype: {to_string(t.dtype)}" for n, t in (("query", query), ("key", key), ("value", value))
        )
        raise RuntimeError(f"Expected query, key, and value to have the same dtype. {names}")
    if min(len(t.shape) for t in (query, key, value)) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got "
            + ", ".join(f"{n}.dim: {len(t.shape)}" for n, t in (("query", query), ("key", key), ("value", value)))
        )
    if mask is not None:
        shape = (*query.shape[:-1], key.shape[-2])
        if len(shape) == 4:  # the kernel for these looks at both dimensions of a mask
            for place in (-2, -1):
                maybe_wrap_dim(place, len(mask.shape), wrap_scalar=False)
        if infer_size(shape, tuple(mask.shape))[-2:] != shape[-2:]:
            raise RuntimeError(
                f"output with shape {list(shape)} doesn't match the broadcast shape {list(infer_size(shape, tuple(mask.shape)))}"
            )
        kind = to_string(mask.dtype)
        if kind != "Bool" and kind not in (to_string(query.dtype), "Float"):
            raise RuntimeError(
                f"Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {kind}"
            )
        if is_causal:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )


@register("_causal_mask", variants="")
def _causal_mask(query: Array, key: Array) -> Array:
    """`(L, S)`: may place `i` of the query see place `j` of the key?"""
    return np.tri(query.shape[-2], key.shape[-2], dtype=bool)


@register("_additive_mask", variants="")
def _additive_mask(mask: Array, query: Array) -> Array:
    """0 where `mask` is True, minus infinity elsewhere, in the query's dtype."""
    return np.where(mask, 0, -np.inf).astype(query.dtype)


@composite("scaled_dot_product_attention", module="nn", autocast="low")
def scaled_dot_product_attention(
    at: Any,
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`(*, L, E)`, `(*, S, E)`, `(*, S, V)` to `(*, L, V)`.

    `attn_mask` broadcasts to `(*, L, S)`: True may be seen, or numbers are added. `scale` defaults to `1 / √E`. With
    `enable_gqa` the heads (dimension -3) of key and value are repeated to those of the query.
    """
    _check(query, key, value, attn_mask, is_causal)
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1: {dropout_p} is not")
    if enable_gqa:
        key, value = (_repeated_heads(at, t, query.shape[-3]) for t in (key, value))
    # the root of the scale on both factors: half-precision scores overflow later
    usual = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else math.inf
    root = math.sqrt(usual if scale is None else abs(scale))
    signed = -root if scale is not None and scale < 0 else root
    scores = at.matmul(query * signed, at.transpose(key, -2, -1) * root)
    mask = at._causal_mask(query, key) if is_causal else attn_mask
    if mask is not None:
        scores = scores + (at._additive_mask(mask, query) if to_string(mask.dtype) == "Bool" else mask)
    weights = _rows_of_nothing_as_zero(at, at._softmax(scores, -1), mask)
    if dropout_p > 0:
        weights = at.dropout(weights, dropout_p, True)
    return at.matmul(weights, value)


def _repeated_heads(at: Any, t: Any, heads: int) -> Any:
    own = t.shape[-3]
    if heads % own:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in query")
    return t if own == heads else at.repeat_interleave(t, heads // own, -3)


def _rows_of_nothing_as_zero(at: Any, weights: Any, mask: Any) -> Any:
    """A query that may see nothing gets zeros and not the NaN of its softmax."""
    if mask is None or to_string(mask.dtype) != "Bool":
        return weights
    return at._zero_where_nan(weights)


@register("_zero_where_nan", variants="", node="MaskedFill")
def _zero_where_nan(self: Array) -> Array:
    missing = np.isnan(self)
    return np.where(missing, self.dtype.type(0), self) if missing.any() else self.copy()


keeps_shape_on_meta("_zero_where_nan")
derivative("_zero_where_nan", self=lambda at, grad: grad)
