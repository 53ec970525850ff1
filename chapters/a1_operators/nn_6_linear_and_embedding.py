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
# # Linear maps, embeddings, dropout, distances

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Linear
#
# `y = x Wᵀ + b`. With a bias, dimensions before the last are folded into one, so that the whole is a single `addmm`.

# %%
#| into: aten/native/linear.py
#| imports
from __future__ import annotations

import math
from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import to_string


# %%
#| into: aten/native/linear.py
#| upstream: aten/src/ATen/native/Linear.cpp#at::native::linear
@composite("linear", module="nn", out=True)
def linear(at: Any, input: Array, weight: Array, bias: Array | None = None) -> Any:
    """`x Wᵀ + b`: `(*, in)` and `weight (out, in)` to `(*, out)`."""
    if bias is None:
        return at.matmul(input, at.t(weight))
    shape = tuple(input.shape)
    if len(shape) == 2:
        return at.addmm(bias, input, at.t(weight))
    if shape and len(weight.shape) == 2:
        rows = at.reshape(input, (math.prod(shape[:-1]), shape[-1]))
        return at.reshape(at.addmm(bias, rows, at.t(weight)), (*shape[:-1], weight.shape[0]))
    if not shape:
        raise RuntimeError(f"both arguments to linear need to be at least 1D, but they are 0D and {len(weight.shape)}D")
    return at.matmul(input, at.t(weight)) + bias


# %%
#| into: aten/native/linear.py
#| upstream: aten/src/ATen/native/Linear.cpp#at::native::bilinear
@composite("bilinear")
def bilinear(at: Any, input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Any:
    """`y[k] = x1ᵀ W[k] x2 + b[k]` over the last dimensions."""
    kinds = [to_string(value.dtype) for value in (input1, input2, weight, bias) if value is not None]
    if len(set(kinds)) > 1:
        raise RuntimeError(f"All tensors must have the same dtype, got {', '.join(kinds)}")
    if len(weight.shape) < 3:
        rank = max(len(weight.shape), 1)
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {rank})")
    if len(weight.shape) > 3:
        raise RuntimeError(f"bilinear(): expected a 3-dimensional weight, but got {list(weight.shape)}")
    out, in1, in2 = weight.shape
    _check_bilinear(input1, input2, weight, bias)
    left = at.matmul(input1, at.reshape(at.permute(weight, (1, 0, 2)), (in1, out * in2)))
    left = at.reshape(left, (*input1.shape[:-1], out, in2))
    y = at.sum(left * at.unsqueeze(input2, -2), -1, dtype=input1.dtype)
    return y if bias is None else y + bias


def _check_bilinear(input1: Any, input2: Any, weight: Any, bias: Any) -> None:
    if len(input1.shape) != len(input2.shape):
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {len(input1.shape)} and {len(input2.shape)}"
        )
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError("bilinear(): input batch dimensions do not match")
    for number, (value, size) in enumerate(((input1, weight.shape[1]), (input2, weight.shape[2])), 1):
        if value.shape[-1] != size:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got {value.shape[-1]} but expected {size}"
            )
    if bias is not None and not bias.shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {weight.shape[0]}"
        )


# %% [markdown]
# ## Embedding
#
# Forward is a lookup. Backward adds rows that belong to the same index: sorting the indices first makes that one `add.reduceat` over
# contiguous runs.

# %%
#| into: aten/native/embedding.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.sparse_tensor_impl import SparseTensorImpl
from readtorch.c10.core.dispatch_key import meta_array, specimen
from readtorch.c10.core.scalar_type import from_numpy_dtype, to_string


# %%
#| into: aten/native/embedding.py
def _check_indices(indices: Array, rows: int, op: str) -> None:
    if indices.dtype.kind != "i" or indices.dtype.itemsize < 4:
        found = f"torch.{from_numpy_dtype(indices.dtype)._legacy}"
        raise RuntimeError(
            f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {found} instead (in {op})"
        )
    if indices.size and not 0 <= indices.min() <= indices.max() < rows:
        raise IndexError("index out of range in self")


@register("embedding")
def embedding(
    weight: Array,
    indices: Array,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    """Rows of `weight` by number."""
    if not weight.ndim and weight.dtype.kind != "i":  # what saves its size for backward comes first
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if not len(weight) and indices.size:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    _check_indices(indices, len(weight), "embedding")
    return weight[indices]


# %%
#| into: aten/native/embedding.py
#| upstream: aten/src/ATen/native/Embedding.cpp#at::native::embedding_dense_backward_cpu
@register("embedding_dense_backward", variants="", node="EmbeddingDenseBackward")
def embedding_dense_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """The table's gradient: rows of `grad_output` added up by index; nothing at `padding_idx`."""
    flat = indices.reshape(-1)
    rows = grad_output.reshape(len(flat), grad_output.shape[-1])
    dw = np.zeros((num_weights, rows.shape[1]), grad_output.dtype)
    if not len(flat):
        return dw
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sums = np.add.reduceat(rows[order], starts, axis=0)
    if scale_grad_by_freq:
        counts = np.diff(np.append(starts, len(flat)))
        sums /= counts[:, None].astype(sums.dtype)
    dw[ordered[starts]] = sums
    if padding_idx >= 0:
        dw[padding_idx] = 0
    return dw


@register("embedding", key="Meta")
def _embedding_on_meta(weight: Array, indices: Array, *options: Any) -> Array:
    row = embedding(specimen(weight), specimen(indices, whole=False), *options)
    return meta_array((*indices.shape, weight.shape[1]), row.dtype)


register("embedding_dense_backward", key="Meta")(
    lambda grad, indices, num_weights, *options: meta_array((num_weights, grad.shape[-1]), grad.dtype)
)


@register("embedding_sparse_backward", variants="", node="EmbeddingSparseBackward")
def embedding_sparse_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """The table's gradient as a list: the numbers looked up, and the rows of `grad_output`."""
    if scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    width = grad_output.shape[-1]
    flat = indices.reshape(-1).astype(np.int64, copy=False)
    rows = grad_output.reshape(len(flat), width)
    if padding_idx >= 0:
        kept = flat != padding_idx
        flat, rows = flat[kept], rows[kept]
    return SparseTensorImpl(flat[None], rows, (num_weights, width))


def _lookup_gradient(
    at: Any, grad: Any, indices: Any, weight_shape: Any, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Any:
    if sparse:
        return at.embedding_sparse_backward(grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq)
    return at.embedding_dense_backward(grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq)


def _lookup_again(at: Any, grad: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    if scale_grad_by_freq:
        raise RuntimeError("double backward is not supported for embedding with scale_grad_by_freq")
    rows = at.embedding(grad, indices)
    return rows if padding_idx < 0 else rows * at.unsqueeze(indices != padding_idx, -1)


derivative("embedding", weight=_lookup_gradient)
derivative("embedding_dense_backward", grad_output=_lookup_again)


# %%
#| into: aten/native/embedding.py
#| upstream: aten/src/ATen/native/Embedding.cpp#at::native::embedding_renorm_cpu_
@register("embedding_renorm_")
def embedding_renorm_(self: Array, indices: Array, max_norm: float, norm_type: float) -> Array:
    """Scale down, in place, the rows looked up whose norm exceeds `max_norm`."""
    if self.ndim != 2:
        raise RuntimeError(
            f"Expected 2-dimensional tensor, but got {self.ndim}-dimensional tensor (in embedding_renorm_)"
        )
    if self.dtype.kind not in "fVc":
        kind = to_string(self.dtype)
        raise RuntimeError(f"norm(): input dtype should be either floating point or complex. Got {kind} instead.")
    _check_indices(indices, len(self), "embedding_renorm_")
    rows = np.unique(indices)
    norms = np.linalg.norm(self[rows], norm_type, axis=1)
    scale = np.where(norms > max_norm, max_norm / (norms + 1e-7), 1)
    self[rows] *= scale[:, None].astype(self.dtype)
    return self


# %% [markdown]
# ## Bags of embeddings
#
# A bag is a run of consecutive lookups, given by where it starts. Sum, mean and maximum over a run are reductions by segment.

# %%
#| into: aten/native/embedding_bag.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register, unknown
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.c10.core.dispatch_key import without_values
from readtorch.c10.core.scalar_type import float32, to_string


# %%
#| into: aten/native/embedding_bag.py
#| upstream: aten/src/ATen/native/native_functions.yaml#_embedding_bag
@register("_bag_of_rows", variants="")
def _bag_of_rows(offsets: Array, rows: int) -> Array:
    """For each of `rows` lookups the number of its bag."""
    marks = np.zeros(rows + 1, np.int64)
    np.add.at(marks, offsets, 1)
    return np.cumsum(marks[:rows]) - 1


@register("_segment_sum", variants="")
def _segment_sum(rows: Array, bag: Array, bags: int) -> Array:
    """The sum of the rows of each bag; zero for an empty one."""
    out = np.zeros((bags, *rows.shape[1:]), rows.dtype)
    if len(rows):
        starts = np.flatnonzero(np.concatenate(([True], bag[1:] != bag[:-1])))
        out[bag[starts]] = np.add.reduceat(rows, starts, axis=0)
    return out


derivative("_segment_sum", rows=lambda at, grad, bag: at.index_select(grad, 0, bag))


# %%
#| into: aten/native/embedding_bag.py
@register("_segment_max", variants="", outputs="result winners", differentiable_outputs=(0,))
def _segment_max(rows: Array, bag: Array, bags: int) -> tuple[Array, Array]:
    """The largest value of each column of each bag (zero for an empty bag) and the row it stood in."""
    out = np.zeros((bags, rows.shape[1]), rows.dtype)
    winners = np.zeros((bags, rows.shape[1]), np.int64)
    for number in np.unique(bag):
        first, last = np.searchsorted(bag, [number, number + 1])
        winners[number] = first + rows[first:last].argmax(0)
        out[number] = rows[first:last].max(0)
    return out, winners


@register("_segment_max_backward", variants="")
def _segment_max_backward(dy: Array, winners: Array, bag: Array) -> Array:
    out = np.zeros((len(bag), dy.shape[1]), dy.dtype)
    filled = np.unique(bag)
    np.add.at(out, (winners[filled], np.arange(dy.shape[1])), dy[filled])
    return out


derivative("_segment_max_backward", dy=unknown("the derivative for '_embedding_bag_backward' is not implemented."))
derivative("_segment_max", rows=lambda at, grads, winners, bag: at._segment_max_backward(grads[0], winners, bag))


# %%
#| into: aten/native/embedding_bag.py
#| upstream: aten/src/ATen/native/EmbeddingBag.cpp#at::native::embedding_bag
def _check_bags(at: Any, weight: Any, indices: Any, offsets: Any) -> None:
    for what, places in (("indices", indices), ("offsets", offsets)):
        if (kind := to_string(places.dtype)) not in ("Long", "Int"):
            raise RuntimeError(
                f"Expected tensor for argument '{what}' to have one of the following scalar types: Long, Int; but got {kind}"
            )
    name = to_string(weight.dtype)
    if name not in ("Half", "BFloat16", "Float", "Double"):
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: "
            f"Half, BFloat16, Float, Double; but got {name}"
        )
    for what, whole in (("indices", indices), ("offsets", offsets)):
        kind = to_string(whole.dtype)
        if kind in ("Half", "BFloat16", "Float", "Double", "ComplexFloat", "ComplexDouble"):
            raise RuntimeError(
                f"Expected tensor for argument #1 '{what}' to have one of the following scalar types: Long, Int; but got {kind}"
            )
    count, rows = indices.shape[0], weight.shape[0]
    if without_values(indices) or is_one_of_many(indices) or is_one_of_many(offsets):
        return
    if offsets.shape[0]:
        first, last = int(offsets[0]), int(offsets[-1])
        if first:
            raise RuntimeError(
                f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {first}"
            )
        if last > count:
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {last}"
            )
    if count:
        for found in (int(at.amin(indices)), int(at.amax(indices))):
            if not 0 <= found < rows:
                raise RuntimeError(f"embedding_bag: index {found} is not in the valid range [0, {rows})")


@composite("_embedding_bag_reduced", module="nn")
def _embedding_bag_reduced(
    at: Any,
    weight: Array,
    indices: Array,
    offsets: Array,
    mode: str,
    per_sample_weights: Array | None,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool = False,
) -> Any:
    """`(B, D)` from the lookups `indices (L,)` that start a new bag at each of `offsets (B,)`."""
    count, bags = indices.shape[0], offsets.shape[0]
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        kinds = to_string(weight.dtype), to_string(per_sample_weights.dtype)
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; "
            "but type {} does not equal {}".format(*kinds)
        )
    _check_bags(at, weight, indices, offsets)
    rows = at.embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
    bag = at._bag_of_rows(offsets, count)
    if padding_idx >= 0:
        kept = at.reshape(at.nonzero(indices != padding_idx), (-1,))
        rows, bag = at.index_select(rows, 0, kept), at.index_select(bag, 0, kept)
        if per_sample_weights is not None:
            per_sample_weights = at.index_select(per_sample_weights, 0, kept)
    if per_sample_weights is not None:
        rows = rows * at.unsqueeze(per_sample_weights, 1)
    if mode == "max":
        return at._segment_max(rows, bag, bags)[0]
    kind = rows.dtype
    if kind.itemsize == 2:
        rows = at._to_copy(rows, float32)
    total = at._segment_sum(rows, bag, bags)
    if mode != "sum":
        total = total / at._bag_sizes(bag, bags)
    return total if total.dtype == kind else at._to_copy(total, kind)


@register("_bag_sizes", variants="")
def _bag_sizes(bag: Array, bags: int) -> Array:
    """`(bags, 1)`: how many rows each bag has, 1 for an empty one."""
    return np.maximum(np.bincount(bag, minlength=bags), 1)[:, None]


# %% [markdown]
# ## Dropout
#
# On the CPU dropout is a product with a random tensor of zeros and `1 / (1 - p)`, and the graph says so: its node is `MulBackward0`. The
# numbers are drawn in the order of the elements, 53 bits each, so that a mask is upstream's mask.

# %%
#| into: aten/native/dropout.py
#| imports
from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.cpu_generator_impl import engine
from readtorch.aten.native.distributions import uniform01
from readtorch.c10.core.dispatch_key import BACKENDS, DispatchKey, meta_like
from readtorch.c10.core.scalar_type import to_string


# %%
#| into: aten/native/dropout.py
#| upstream: aten/src/ATen/native/Dropout.cpp#at::native::make_feature_noise
@register("_kept", variants="")
def _kept(self: Array, p: float, per_channel: bool) -> Array:
    """1 with probability `1 - p`, else 0: one draw per element of `self`, or one per example and channel."""
    if per_channel and self.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    shape = (*self.shape[:2], *(1,) * (self.ndim - 2)) if per_channel else self.shape
    draws = uniform01(engine(None), math.prod(shape), np.dtype(np.float64))
    # drawn in the order of memory, which for a transposed tensor is not that of the elements
    in_order = per_channel or 0 in self.strides
    kept = np.empty(shape, self.dtype) if in_order else np.empty_like(self)
    kept.ravel(order="K")[...] = draws < 1 - p
    return kept


@register("_kept", key="Meta")
def _kept_on_meta(self: Array, p: float, per_channel: bool) -> Array:
    return meta_like(self, (*self.shape[:2], *(1,) * (self.ndim - 2)) if per_channel else self.shape)


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")


def _scaled_noise(at: Any, input: Any, p: float, per_channel: bool) -> Any:
    """The factor of each element; nothing is drawn where none is to be kept."""
    return False if p == 1 else at._kept(input, p, per_channel) / (1 - p)


def _is_identity(input: Any, p: float, train: bool) -> bool:
    _check(p)
    return p == 0 or not train or 0 in input.shape


# %%
#| into: aten/native/dropout.py
#| upstream: aten/src/ATen/native/Dropout.cpp#at::native::dropout
@composite("dropout")
def dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    """Zero elements with probability `p` and divide the others by `1 - p`, if `train`. RuntimeError unless 0 ≤ p ≤ 1."""
    if _is_identity(input, p, train):
        return input
    if p < 1 and _is_on_gpu(input):
        return at.native_dropout(input, p, train)[0]
    return input * _scaled_noise(at, input, p, False)


def _is_on_gpu(input: Any) -> bool:
    """There a kernel draws and multiplies at once."""
    return BACKENDS.get(getattr(input, "_array", input).__class__) is DispatchKey.CUDA


@composite("dropout_")
def dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    """`dropout`, written to its argument."""
    return input if _is_identity(input, p, train) else input.mul_(_scaled_noise(at, input, p, False))


@composite("feature_dropout")
def feature_dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    """`dropout` of whole channels, `(N, C, *)`."""
    return input if _is_identity(input, p, train) else input * _scaled_noise(at, input, p, True)


@composite("feature_dropout_")
def feature_dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    """`feature_dropout`, written to its argument."""
    return input if _is_identity(input, p, train) else input.mul_(_scaled_noise(at, input, p, True))


# %% [markdown]
# On a GPU one kernel draws, multiplies and keeps the mask: the operator `native_dropout`, whose node keeps the mask and not the product's factors. It has a kernel for the CPU too.


# %%
#| into: aten/native/dropout.py
#| upstream: aten/src/ATen/native/Dropout.cpp#at::native::native_dropout_cpu
@register("native_dropout", outputs="result mask", differentiable_outputs=(0,), node="NativeDropout")
def native_dropout(input: Array, p: float, train: bool | None) -> tuple[Array, Array]:
    """`input` with elements zeroed with probability `p` and the others divided by `1 - p`; and the mask of what was kept."""
    if not input.size:
        return input.copy(), np.empty_like(input)
    if train is False:
        return input.copy(), np.ones(input.shape, np.bool_)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={1 - p}")
    if input.dtype.kind in "biu":
        raise RuntimeError(f"result type Float can't be cast to the desired output type {to_string(input.dtype)}")
    mask = _kept(input, p, False).astype(np.bool_)
    return (input * mask * _scale(p, train)).astype(input.dtype, copy=False), mask


def _scale(p: float, train: bool | None) -> float:
    return 1.0 if train is False else 0.0 if p == 1 else 1 / (1 - p)


@register("native_dropout_backward", variants="", node="NativeDropoutBackward")
def native_dropout_backward(grad_output: Array, mask: Array, scale: float) -> Array:
    """`grad_output * mask * scale`."""
    return (grad_output * mask * scale).astype(grad_output.dtype, copy=False)


derivative(
    "native_dropout",
    input=lambda at, grads, mask, p, train: at.native_dropout_backward(grads[0], mask, _scale(p, train)),
)
derivative(
    "native_dropout_backward", grad_output=lambda at, grad, mask, scale: at.native_dropout_backward(grad, mask, scale)
)

# %% [markdown]
# Alpha dropout does not drop to zero but to the value that SELU saturates at, and then maps affinely, so that mean and variance stay.

# %%
#| into: aten/native/dropout.py
_ALPHA = 1.7580993408473766


def _alpha_noise(at: Any, input: Any, p: float, per_channel: bool) -> tuple[Any, Any]:
    """(Factor, summand) of the affine map per element."""
    if p == 1:
        return False, False
    a = 1.0 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    kept = at._kept(input, p, per_channel)
    return kept * a, (kept - 1) * (_ALPHA * a) + _ALPHA * a * p


def _alpha_dropout(at: Any, input: Any, p: float, train: bool, per_channel: bool) -> Any:
    if _is_identity(input, p, train):
        return input
    factor, summand = _alpha_noise(at, input, p, per_channel)
    return input * factor if p == 1 else input * factor + summand


def _alpha_dropout_(at: Any, input: Any, p: float, train: bool, per_channel: bool) -> Any:
    if _is_identity(input, p, train):
        return input
    factor, summand = _alpha_noise(at, input, p, per_channel)
    return input.mul_(factor) if p == 1 else input.mul_(factor).add_(summand)


@composite("alpha_dropout")
def alpha_dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    """Dropout to the value that SELU saturates at, and an affine map, so that mean 0 and variance 1 stay (Klambauer et al. 2017)."""
    return _alpha_dropout(at, input, p, train, per_channel=False)


@composite("alpha_dropout_")
def alpha_dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    """`alpha_dropout`, written to its argument."""
    return _alpha_dropout_(at, input, p, train, per_channel=False)


@composite("feature_alpha_dropout")
def feature_alpha_dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    """`alpha_dropout` of whole channels, `(N, C, *)`."""
    return _alpha_dropout(at, input, p, train, per_channel=True)


@composite("feature_alpha_dropout_")
def feature_alpha_dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    """`feature_alpha_dropout`, written to its argument."""
    return _alpha_dropout_(at, input, p, train, per_channel=True)


# %%
#| claim: dropout's mask is the generator's next 53-bit numbers compared with 1 - p, in the order of the elements
#| needs: a2_layers
def _(torch):
    torch.manual_seed(3)
    y = torch.nn.functional.dropout(torch.ones(6), 0.4)
    torch.manual_seed(3)
    draws = torch.rand(6, dtype=torch.float64)
    assert torch.equal(y > 0, draws < 0.6)
    assert torch.allclose(y[y > 0], torch.tensor(1 / 0.6))


# %% [markdown]
# ## Distances

# %%
#| into: aten/native/distance.py
#| imports
from __future__ import annotations

from typing import Any


import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.expand_utils import infer_size
from readtorch.c10.core.scalar_type import to_string
from readtorch.c10.core.wrap_dim_minimal import as_dim


# %%
#| into: aten/native/distance.py
#| upstream: aten/src/ATen/native/Distance.cpp#at::native::pairwise_distance
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


# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import linear as linear
from readtorch.aten.native import embedding as embedding
from readtorch.aten.native import embedding_bag as embedding_bag
from readtorch.aten.native import distance as distance
from readtorch.aten.native import dropout as dropout
