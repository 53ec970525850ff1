# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Scaled dot-product attention
#
# `softmax(Q Kᵀ / √d + mask) V`. Upstream chooses among kernels that never hold the matrix of scores (flash attention) and this formula;
# here it is this formula, by operators, so that its derivatives of all orders are the chain rule's.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: aten/native/transformers/__init__.py
"""Attention (twin of `aten/src/ATen/native/transformers/`)."""

# %%
#| into: aten/native/transformers/attention.py
#| imports
from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, keeps_shape_on_meta, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.expand_utils import infer_size
from readtorch.c10.core.scalar_type import to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/transformers/attention.py
#| upstream: aten/src/ATen/native/transformers/attention.cpp#at::native::scaled_dot_product_attention
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


# %%
#| into: aten/native/transformers/attention.py
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


# %%
#| into: aten/native/transformers/attention.py
#| imports
from readtorch.aten.core.dispatch.dispatcher import derivative


# %%
#| into: aten/native/transformers/attention.py
@register("_zero_where_nan", variants="", node="MaskedFill")
def _zero_where_nan(self: Array) -> Array:
    missing = np.isnan(self)
    return np.where(missing, self.dtype.type(0), self) if missing.any() else self.copy()


keeps_shape_on_meta("_zero_where_nan")
derivative("_zero_where_nan", self=lambda at, grad: grad)

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native.transformers import attention as attention


# %%
#| claim: causal attention lets the first query see the first key alone
#| needs: a2_layers
def _(torch):
    q = k = torch.ones(1, 3, 2)
    v = torch.tensor([[[1.0], [2.0], [3.0]]])
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(out, torch.tensor([[[1.0], [1.5], [2.0]]]))


# %% [markdown]
# ## What a mask means
#
# True means *may be seen* here, and *is hidden* in `nn.MultiheadAttention`, its key padding mask, and the Transformer layers. The two came from different houses and meet in one program ([the layer](../a2_layers/10_attention.py) turns its masks round before it calls this function). A mask of the wrong polarity is no error: a causal one lets every
# place see its future, and the training loss is wonderful.
#
# With `is_causal` and fewer queries than keys, the diagonal begins at the *upper left* corner: query i sees keys 0 to i. A decoder that keeps its keys and asks with one new query wants the lower right (query i sees all that came before it), and must pass a mask, or none.
#
# A query that may see nothing has a softmax over nothing, NaN by the formula. Since 2.5 its output is 0 here; the layer, where the weights are computed, still gives NaN.


# %%
#| claim: True lets a place be seen, the opposite of MultiheadAttention; is_causal starts at the upper left; a query that sees nothing gives 0 here and NaN there
#| source: pytorch/pytorch#103963
#| needs: a2_layers
def _(torch):
    attend = torch.nn.functional.scaled_dot_product_attention
    query, keys, values = torch.ones(1, 2, 1), torch.ones(1, 3, 1), torch.tensor([[[1.0], [2.0], [4.0]]])
    mask = torch.tensor([[True, False, False], [False, False, False]])
    assert attend(query, keys, values, attn_mask=mask).flatten().tolist() == [1, 0]
    assert torch.allclose(attend(query, keys, values, is_causal=True).flatten(), torch.tensor([1.0, 1.5]))
    layer, x = torch.nn.MultiheadAttention(2, 1, batch_first=True), torch.ones(1, 2, 2)
    _, weights = layer(x, x, x, attn_mask=torch.tensor([[True, True], [False, True]]))
    assert weights[0, 0].isnan().all() and weights[0, 1].tolist() == [1, 0]
