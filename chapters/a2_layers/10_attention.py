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
# # Attention and Transformer layers
#
# `MultiheadAttention` projects queries, keys and values (one matrix if they have one size), splits the features into heads, attends in
# each, and projects back. Encoder and decoder layers put it between residual connections, norms and two linear maps.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %% [markdown]
# ## The function
#
# Its shapes are `(T, N, E)`: time first. Heads are folded into the batch: `(N · heads, T, E / heads)`.

# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#_mha_shape_check
scaled_dot_product_attention = _nn.scaled_dot_product_attention


def _mha_shape_check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Is the query batched? Raises AssertionError where ranks do not fit."""
    rank = query.dim()
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor, not {rank}-D")
    word = "batched (3-D)" if rank == 3 else "unbatched (2-D)"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"For {word} `query`, expected `key` and `value` to be {rank}-D "
            f"but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
        if not isinstance(mask, Tensor | None):
            raise TypeError(f"{name} must be a Tensor, not {type(mask).__name__}")
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"For {word} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D "
            f"but found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"For {word} `query`, expected `attn_mask` to be `None`, 2-D or 3-D, not {attn_mask.dim()}-D"
        )
    if rank == 2 and attn_mask is not None and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {tuple(attn_mask.shape)}")
    return rank == 3


# %% [markdown]
# A mask comes as booleans (True: do *not* look, the opposite of `scaled_dot_product_attention`) or as numbers to add to the scores.
# From here on it is numbers.


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#_canonical_mask
def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Tensor | None:
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise TypeError(f"{mask_name} must be a Tensor, not {type(mask).__name__}")
    if not (mask.dtype is torch.bool or mask.is_floating_point()):
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type not in (None, mask.dtype):
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated: make both bool, or both float.",
            stacklevel=2,
        )
    if mask.dtype is torch.bool:
        return torch.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))
    return mask


def _none_or_dtype(input: Tensor | None) -> Any:
    if not isinstance(input, Tensor | None):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return None if input is None else input.dtype


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#_in_projection_packed
#| upstream: torch/nn/functional.py#_in_projection
def _in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None) -> tuple[Tensor, ...]:
    """Project by the three blocks of one matrix; in a single product for what is the same tensor."""
    size = q.size(-1)
    if k is v and q is k:
        return tuple(part.contiguous() for part in linear(q, w, b).split(size, -1))
    parts = w.chunk(3)
    biases = (None, None, None) if b is None else b.chunk(3)
    return tuple(linear(x, weight, bias) for x, weight, bias in zip((q, k, v), parts, biases, strict=True))


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> tuple[Tensor, ...]:
    size = q.size(-1)
    names = ("query", "key", "value")
    for name, x, weight, bias in zip(names, (q, k, v), weights, biases, strict=True):
        expected = (size, x.size(-1))
        if tuple(weight.shape) != expected:
            raise AssertionError(f"expecting {name} weights shape of {expected}, but got {tuple(weight.shape)}")
        if bias is not None and tuple(bias.shape) != (size,):
            raise AssertionError(f"expecting {name} bias shape of {(size,)}, but got {tuple(bias.shape)}")
    return tuple(linear(x, weight, bias) for x, weight, bias in zip((q, k, v), weights, biases, strict=True))


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#multi_head_attention_forward
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of `query (T, N, E)` to `key` and `value (S, N, ·)` in `num_heads` heads; arguments as `nn.MultiheadAttention`.

    Returns the output `(T, N, E)` and, with `need_weights`, the weights `(N, T, S)`, per head unless averaged.
    """
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, n, size = query.shape
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint, which promises what the mask is: make it with "
            "`nn.Transformer.generate_square_subsequent_mask`."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the hint alone says it all
    else:
        is_causal = False
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
    attn_mask = _per_head_mask(attn_mask, (length, key.shape[0]), n * num_heads)
    if use_separate_proj_weight:
        separate = (q_proj_weight, k_proj_weight, v_proj_weight)
        if any(weight is None for weight in separate):
            raise AssertionError("use_separate_proj_weight is True but one of the three weights is None")
        biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = _in_projection(query, key, value, separate, biases)  # type: ignore[arg-type]  # the weights are there or separate, as checked above
    else:
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)
    k, v, attn_mask, key_padding_mask = _with_bias(k, v, bias_k, bias_v, n, attn_mask, key_padding_mask)
    q, k, v = (_by_head(x, num_heads) for x in (q, k, v))
    k, v = (own if given is None else given for own, given in ((k, static_k), (v, static_v)))
    if add_zero_attn:
        k, v = (torch.cat([x, torch.zeros_like(x[:, :1])], dim=1) for x in (k, v))
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
        key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))
    attn_mask = _with_padding(attn_mask, key_padding_mask, n, num_heads, k.size(1))
    dropout_p = dropout_p if training else 0.0
    heads, weights = _attend(q, k, v, attn_mask, dropout_p, is_causal, need_weights)
    output = linear(heads.transpose(0, 1).reshape(length * n, size), out_proj_weight, out_proj_bias)
    output = output.view(length, n, output.size(1))
    if weights is not None:
        weights = weights.view(n, num_heads, length, weights.size(2))
        weights = weights.mean(dim=1) if average_attn_weights else weights
    if batched:
        return output, weights
    return output.squeeze(1), None if weights is None else weights.squeeze(0)


# %% [markdown]
# Its parts, in the order of use.


# %%
#| into: nn/functional.py
def _check_sizes(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_heads: int, separate: bool) -> None:
    size = query.size(-1)
    if size != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {size}")
    if size % num_heads:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {num_heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _per_head_mask(mask: Tensor | None, size: tuple[int, int], heads: int) -> Tensor | None:
    """The mask as `(1 or heads, T, S)`."""
    if mask is None:
        return None
    expected = size if mask.dim() == 2 else (heads, *size)
    if tuple(mask.shape) != expected:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {expected}.")
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _with_bias(
    k: Tensor,
    v: Tensor,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    n: int,
    attn_mask: Tensor | None,
    padding_mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """One more key and value, learned and the same for every sequence."""
    if bias_k is None and bias_v is None:
        return k, v, attn_mask, padding_mask
    if bias_k is None or bias_v is None:
        raise AssertionError("bias_k and bias_v must both be given or both be None")
    k, v = torch.cat([k, bias_k.repeat(1, n, 1)]), torch.cat([v, bias_v.repeat(1, n, 1)])
    attn_mask, padding_mask = (None if mask is None else pad(mask, (0, 1)) for mask in (attn_mask, padding_mask))
    return k, v, attn_mask, padding_mask


def _by_head(x: Tensor, num_heads: int) -> Tensor:
    """`(T, N, E)` as `(N · heads, T, E / heads)`."""
    length, n, size = x.shape
    return x.reshape(length, n * num_heads, size // num_heads).transpose(0, 1)


def _with_padding(mask: Tensor | None, padding: Tensor | None, n: int, num_heads: int, length: int) -> Tensor | None:
    if padding is None:
        return mask
    if tuple(padding.shape) != (n, length):
        raise AssertionError(f"Expected key_padded_mask of shape {(n, length)}, but got {tuple(padding.shape)}")
    padding = padding.view(n, 1, 1, length).expand(-1, num_heads, -1, -1).reshape(n * num_heads, 1, length)
    return padding if mask is None else mask + padding


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal), None
    scores = torch.bmm(q * math.sqrt(1.0 / q.size(-1)), k.transpose(-2, -1))
    weights = softmax(scores if mask is None else scores + mask, dim=-1)
    if dropout_p > 0.0:
        weights = dropout(weights, p=dropout_p)
    return torch.bmm(weights, v), weights


# %% [markdown]
# ## The layer

# %%
#| into: nn/modules/activation.py
#| imports
from readtorch.nn.modules.linear import NonDynamicallyQuantizableLinear


# %%
#| into: nn/modules/activation.py
#| upstream: torch/nn/modules/activation.py#MultiheadAttention
class MultiheadAttention(Module):
    """Attention in `num_heads` heads of `embed_dim / num_heads` features each (Vaswani et al. 2017).

    Inputs are `(T, N, E)`, `(N, T, E)` with `batch_first`, or `(T, E)`. `kdim` and `vdim` are the features of keys and values
    where they differ. Masks: True, or minus infinity, hides. Raises AssertionError if the heads do not divide the features.
    """

    in_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, unlike {embed_dim} and {num_heads}")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*shape: int) -> Parameter:
            return Parameter(torch.empty(shape, device=device, dtype=dtype))

        same = self._qkv_same_embed_dim
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            self.register_parameter(f"{name}_proj_weight", None if same else parameter(embed_dim, size))
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim) if same else None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            if add_bias_kv:
                setattr(self, name, parameter(1, 1, embed_dim))
            else:
                setattr(self, name, None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        weights = (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        for weight in weights:
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)  # type: ignore[arg-type]  # there is one: bias was asked for
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        turned = self.batch_first and query.dim() == 3
        if turned:
            time_first = {id(x): x.transpose(1, 0) for x in (query, key, value)}  # what is one tensor stays one
            query, key, value = (time_first[id(x)] for x in (query, key, value))
        separate = {}
        if not self._qkv_same_embed_dim:
            separate = {f"{name}_proj_weight": getattr(self, f"{name}_proj_weight") for name in "qkv"}
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            **separate,
        )
        return (output.transpose(1, 0) if turned else output), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one `(N, heads, T, T)`, and which there were: 1 padding alone, 2 with attention mask."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        n, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(n, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(n, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(n, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2


# %% [markdown]
# ## Encoder and decoder layers
#
# `x + f(norm(x))` with `norm_first`, `norm(x + f(x))` without; `f` is attention, then two linear maps with an activation between.

# %%
#| into: nn/modules/transformer.py
#| imports
from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.init import xavier_uniform_
from readtorch.nn.modules.activation import GELU, MultiheadAttention, ReLU
from readtorch.nn.modules.container import ModuleList
from readtorch.nn.modules.dropout import Dropout
from readtorch.nn.modules.linear import Linear
from readtorch.nn.modules.module import Module
from readtorch.nn.modules.normalization import LayerNorm

# %%
#| into: nn/modules/transformer.py
#| upstream: torch/nn/modules/transformer.py#_get_activation_fn
#| upstream: torch/nn/modules/transformer.py#_detect_is_causal_mask
Activation = str | Callable[[Tensor], Tensor]


def _get_activation_fn(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    return torch.triu(torch.full((sz, sz), float("-inf"), dtype=dtype, device=device), diagonal=1)


def _get_seq_len(src: Tensor, batch_first: bool) -> int:
    return src.size(1) if batch_first and src.dim() == 3 else src.size(0)


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """`is_causal` if it is given, else whether the mask is the causal one."""
    if is_causal is not None or mask is None:
        return is_causal is True
    causal = _generate_square_subsequent_mask(mask.size(-2) if size is None else size, mask.device, mask.dtype)
    return mask.size() == causal.size() and bool(torch.eq(mask, causal).all())


def _add_feed_forward(
    layer: Module, d_model: int, width: int, dropout: float, bias: bool, where: dict[str, Any]
) -> None:
    layer.linear1 = Linear(d_model, width, bias=bias, **where)
    layer.dropout = Dropout(dropout)
    layer.linear2 = Linear(width, d_model, bias=bias, **where)


# %%
#| into: nn/modules/transformer.py
#| upstream: torch/nn/modules/transformer.py#TransformerEncoderLayer
class TransformerEncoderLayer(Module):
    """Self-attention and a feed-forward block, each with dropout, residual connection and layer norm."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where
        )
        _add_feed_forward(self, d_model, dim_feedforward, dropout, bias, where)
        self.norm_first = norm_first
        for number in ("1", "2"):
            self.add_module("norm" + number, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = function = _get_activation_fn(activation)
        is_relu, is_gelu = (
            function is F.relu or isinstance(function, ReLU),
            function is F.gelu or isinstance(function, GELU),
        )
        self.activation_relu_or_gelu = 1 if is_relu else 2 * is_gelu

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        padding = F._canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", F._none_or_dtype(src_mask), "src_mask", src.dtype
        )
        mask = F._canonical_mask(src_mask, "src_mask", None, "", src.dtype, check_other=False)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        masks: dict[str, Any] = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}
        return self.dropout1(self.self_attn(x, x, x, need_weights=False, is_causal=is_causal, **masks)[0])

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


# %%
#| into: nn/modules/transformer.py
#| upstream: torch/nn/modules/transformer.py#TransformerDecoderLayer
class TransformerDecoderLayer(Module):
    """Self-attention, attention to the encoder's output, and a feed-forward block."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        attention: dict[str, Any] = {"dropout": dropout, "batch_first": batch_first, "bias": bias, **where}
        self.self_attn = MultiheadAttention(d_model, nhead, **attention)
        self.multihead_attn = MultiheadAttention(d_model, nhead, **attention)
        _add_feed_forward(self, d_model, dim_feedforward, dropout, bias, where)
        self.norm_first = norm_first
        for number in ("1", "2", "3"):
            self.add_module("norm" + number, LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("activation", F.relu)
        super().__setstate__(state)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        masks: dict[str, Any] = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}
        return self.dropout1(self.self_attn(x, x, x, is_causal=is_causal, need_weights=False, **masks)[0])

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        masks: dict[str, Any] = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}
        return self.dropout2(self.multihead_attn(x, mem, mem, is_causal=is_causal, need_weights=False, **masks)[0])

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


# %% [markdown]
# ## Stacks
#
# Every layer of a stack is a deep copy of the one given, parameters included: they start equal. `Transformer` initializes them anew; who
# builds a `TransformerEncoder` by hand and does not, trains from identical layers.


# %%
#| into: nn/modules/transformer.py
#| upstream: torch/nn/modules/transformer.py#TransformerEncoder
#| upstream: torch/nn/modules/transformer.py#TransformerDecoder
def _never_nested(layer: Any) -> str:
    """Why upstream would not run this layer on nested tensors, which drop the padding; nothing where it would."""
    if not isinstance(layer, TransformerEncoderLayer):
        return " was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = {
        ".norm_first was True": layer.norm_first,
        ".self_attn.batch_first was not True (use batch_first for better inference performance)": not attention.batch_first,
        ".self_attn._qkv_same_embed_dim was not True": not attention._qkv_same_embed_dim,
        ".self_attn was passed bias=False": attention.in_proj_bias is None,
        ".activation_relu_or_gelu was not True": not layer.activation_relu_or_gelu,
        ".norm1.eps was not equal to encoder_layer.norm2.eps": layer.norm1.eps != layer.norm2.eps,
        ".self_attn.num_heads is odd": attention.num_heads % 2 == 1,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


class TransformerEncoder(Module):
    """`num_layers` copies of `encoder_layer`, one after the other, and a final norm."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = _never_nested(encoder_layer)
        if enable_nested_tensor and reason:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because encoder_layer{reason}",
                stacklevel=2,
            )
            self.use_nested_tensor = False

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        padding = F._canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", F._none_or_dtype(mask), "mask", src.dtype
        )
        mask = F._canonical_mask(mask, "mask", None, "", src.dtype, check_other=False)
        first: Any = self.layers[0]
        causal = _detect_is_causal_mask(mask, is_causal, _get_seq_len(src, first.self_attn.batch_first))
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """`num_layers` copies of `decoder_layer`, one after the other, and a final norm."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        first: Any = self.layers[0]
        causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, _get_seq_len(tgt, first.self_attn.batch_first))
        own: dict[str, Any] = {
            "tgt_mask": tgt_mask,
            "tgt_key_padding_mask": tgt_key_padding_mask,
            "tgt_is_causal": causal,
        }
        others: dict[str, Any] = {
            "memory_mask": memory_mask,
            "memory_key_padding_mask": memory_key_padding_mask,
            "memory_is_causal": memory_is_causal,
        }
        for layer in self.layers:
            tgt = layer(tgt, memory, **own, **others)
        return tgt if self.norm is None else self.norm(tgt)


# %%
#| into: nn/modules/transformer.py
#| upstream: torch/nn/modules/transformer.py#Transformer
class Transformer(Module):
    """Encoder and decoder (Vaswani et al. 2017). Matrices start from Xavier's uniform distribution."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        if custom_encoder is None:
            encoder_layer = TransformerEncoderLayer(*layer, **where)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm)
        if custom_decoder is None:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where)
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*layer, **where), num_decoder_layers, norm)
        self.encoder = custom_encoder
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if {src.size(-1), tgt.size(-1)} != {self.d_model}:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """`(sz, sz)`: minus infinity above the diagonal, zero elsewhere."""
        return _generate_square_subsequent_mask(sz, device=device, dtype=dtype)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                xavier_uniform_(parameter)


# %%
#| claim: the layers of a TransformerEncoder start as copies of one layer
def _(torch):
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(4, 2), 3)
    first, *rest = [layer.linear1.weight for layer in encoder.layers]
    assert all(torch.equal(first, other) and first is not other for other in rest)


# %% [markdown]
# ### What upstream does more
# In evaluation, with gradients off and a few more conditions, an encoder layer runs as one fused kernel, and an encoder turns a padded
# batch into a *nested tensor* first: then outputs at padded places are exactly zero. Here they are computed like the others.

# %% [markdown]
# ## Which kernel
#
# Upstream has several kernels for scaled dot product attention, for hardware and shapes, and `torch.nn.attention.sdpa_kernel` allows only some of them for a while. They compute the same function; here there is one, and it is allowed always.

# %%
#| into: nn/__init__.py
from readtorch.nn import attention as attention

# %%
#| into: nn/attention/__init__.py
"""The choice among kernels of attention (twin of `torch/nn/attention/__init__.py`)."""

import contextlib as _contextlib
from collections.abc import Iterator as _Iterator
from enum import IntEnum as _IntEnum
from typing import Any as _Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(_IntEnum):
    """Kernels of scaled dot product attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@_contextlib.contextmanager
def sdpa_kernel(backends: _Any, set_priority: bool = False) -> _Iterator[dict[_Any, _Any]]:
    """Name the kernels that may be used. AssertionError for anything but kernels; no effect otherwise, as there is one."""
    named = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(named, list) or not all(isinstance(backend, SDPBackend) for backend in named):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    yield {}
