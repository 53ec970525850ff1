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
# # Normalization
#
# All of them compute `x̂ = (x - μ) / sqrt(σ² + ε)` and then, perhaps, `w x̂ + b`. They differ in what `μ` and `σ²` are taken over. With
# `m` elements per mean and `g` the gradient with respect to `x̂`, the derivative through `μ` and `σ²` is
#
# `∂L/∂x = (g - mean(g) - x̂ · mean(g x̂)) / sqrt(σ² + ε)`.
#
# The arithmetic is nothing, the memory traffic is all. Each function below works through the input in blocks that stay in the
# second-level cache and writes its result in place; temporaries are of the block's size. Sums of products are dot products
# (`vecdot`, `einsum`, matrix-vector products), never a product array that is then reduced, and never `x.var()`, which makes an
# array of the input's size.
#
# Blocks do not depend on each other, so several threads [share](0_threads.py) them. Where all of them contribute to one sum, each leaves its part in a row of its own
# and the rows are added at the end: added as they come, in whatever order that is, they would give another last bit in every run.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: aten/native/normalization.py
#| imports
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import autograd, composite, derivative, opaque, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.convolution import _buffer, is_channels_last
from readtorch.aten.op_math_type import in_working_precision
from readtorch.aten.parallel import parallel_for
from readtorch.c10.core.dispatch_key import meta_like
from readtorch.c10.core.scalar_type import not_implemented, to_string


# %% [markdown]
# ## Batch normalization
#
# A mean per channel. Seen as `(N, C, P)`, `P` places, the plain layout is cut into groups of channels. With channels last, and for
# `(N, C)`, it is a matrix `(N P, C)`; there the statistics take one pass over blocks of rows, the result another.

# %%
#| into: aten/native/normalization.py
_BLOCK = 1 << 20


def check_floats(kernel: str, input: Array, *parameters: Array | None) -> None:
    """RuntimeError where the parameters are not of the input's dtype, nor float32 beside half precision; integers are refused."""
    for given in parameters:
        if given is not None and given.dtype != input.dtype and not (input.itemsize == 2 and given.dtype == np.float32):
            if any(each is not None and each.dtype != np.float32 for each in parameters):
                raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
            raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    if input.dtype.kind in "iubc":
        raise not_implemented(kernel, input.dtype)


def as_kept(statistic: Array, input: Array, weight: Array | None) -> Array:
    """What is kept of a statistic: beside parameters of 16 bits it is rounded to them, beside float32 parameters it is not."""
    mixed = weight is not None and weight.dtype != input.dtype
    return statistic if input.itemsize > 2 or mixed else statistic.astype(input.dtype)


def rows_in_block(count: int, bytes_each: int) -> int:
    """How many of `count` rows make a block."""
    return max(1, min(count, _BLOCK // max(bytes_each, 1)))


def in_blocks(count: int, bytes_each: int, function: Callable[[slice], None]) -> None:
    """Call `function` for blocks of `count` rows, in several threads where there are several blocks."""
    parallel_for(0, count, rows_in_block(count, bytes_each), lambda start, stop: function(slice(start, stop)))


def sums_in_blocks(rows: Array, sums: int, function: Callable[[slice, Array], None]) -> Array:
    """`(sums, C)` for a matrix of `C` columns: `function(part, own)` fills `own (sums, C)` for each block, and those are added in order."""
    count, c = rows.shape
    step = rows_in_block(count, c * rows.itemsize)
    own = np.empty((-(-count // step), sums, c), rows.dtype)
    in_blocks(count, c * rows.itemsize, lambda part: function(part, own[part.start // step]))
    return np.add.reduce(own, 0)


def _as_rows(x: Array) -> Array | None:
    """`(N P, C)` sharing `x`'s memory, where its layout allows."""
    if x.ndim == 2:
        return np.ascontiguousarray(x)
    return np.moveaxis(x, 1, -1).reshape(-1, x.shape[1]) if is_channels_last(x) else None


def _as_planes(x: Array) -> Array:
    """`(N, C, P)`."""
    n, c, *size = x.shape
    return np.ascontiguousarray(x).reshape(n, c, math.prod(size))


def _like_rows(rows: Array, x: Array) -> Array:
    if x.ndim == 2:
        return rows
    return np.moveaxis(rows.reshape(len(x), *x.shape[2:], x.shape[1]), -1, 1)


# %% [markdown]
# ### Forward, in training
#
# The centred block is kept in the output's memory, its square summed, and then scaled in place.


# %%
#| into: aten/native/normalization.py
def _normalize_batch(x: Array, weight: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    """Output, mean and biased variance per channel."""
    rows = _as_rows(x)
    if rows is not None:
        y, mean, var = _normalize_rows_by_column(rows, weight, bias, eps)
        return _like_rows(y, x), mean, var
    planes = _as_planes(x)
    n, c, p = planes.shape
    y, mean, var = np.empty_like(planes), np.empty(c, x.dtype), np.empty(c, x.dtype)
    count = n * p

    def normalize(part: slice) -> None:
        block, out = planes[:, part], y[:, part]
        mu = np.einsum("ncp->c", block)
        mu /= count
        np.subtract(block, mu[:, None], out=out)
        sigma = np.einsum("ncp,ncp->c", out, out)
        sigma /= count
        mean[part], var[part] = mu, sigma
        scale = 1 / np.sqrt(sigma + x.dtype.type(eps))
        if weight is not None:
            scale *= weight[part]
        out *= scale[:, None]
        if bias is not None:
            out += bias[part, None]

    in_blocks(c, count * x.itemsize, normalize)
    return y.reshape(x.shape), mean, var


def _normalize_rows_by_column(
    rows: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    count, c = rows.shape
    y = np.empty_like(rows)
    mean = np.full(count, 1 / count, rows.dtype) @ rows

    def centre(part: slice, own: Array) -> None:
        out = np.subtract(rows[part], mean, out=y[part])
        np.einsum("ij,ij->j", out, out, out=own[0])

    var = sums_in_blocks(rows, 1, centre)[0]
    var /= count
    scale = 1 / np.sqrt(var + rows.dtype.type(eps))
    if weight is not None:
        scale *= weight

    def stretch(part: slice) -> None:
        out = y[part]
        out *= scale
        if bias is not None:
            out += bias

    in_blocks(count, c * rows.itemsize, stretch)
    return y, mean, var


# %% [markdown]
# ### Backward, in training
#
# Per channel the gradient is `a g + b (x - μ) + c` with `a = w / σ`, `b = -a mean(g (x - μ)) / σ²`, `c = -a mean(g)`: the two sums first,
# then three in-place operations.


# %%
#| into: aten/native/normalization.py
def _batch_gradients(
    dy: Array, x: Array, weight: Array | None, mean: Array, invstd: Array
) -> tuple[Array, Array, Array]:
    """The gradients with respect to input, weight and bias."""
    scale = invstd if weight is None else weight * invstd
    rows = _as_rows(x)
    if rows is not None:
        gradients = np.moveaxis(dy, 1, -1).reshape(-1, x.shape[1])
        dx, dot, total = _batch_gradients_by_column(gradients, rows, scale, mean, invstd)
        return _like_rows(dx, x), dot * invstd, total
    planes, gradients = _as_planes(x), _as_planes(dy)
    n, c, p = planes.shape
    count = n * p
    dx, dw, db = np.empty_like(planes), np.empty(c, x.dtype), np.empty(c, x.dtype)

    def differentiate(part: slice) -> None:
        block, out = gradients[:, part], dx[:, part]
        np.subtract(planes[:, part], mean[part, None], out=out)
        total, dot = np.einsum("ncp->c", block), np.einsum("ncp,ncp->c", block, out)
        db[part], dw[part] = total, dot * invstd[part]
        a = scale[part]
        out *= (dot * a * invstd[part] ** 2 / -count)[:, None]
        out += np.multiply(block, a[:, None], out=_buffer("block", out.shape, out.dtype))
        out -= (a * total / count)[:, None]

    in_blocks(c, count * x.itemsize, differentiate)
    return dx.reshape(x.shape), dw, db


def _batch_gradients_by_column(
    dy: Array, rows: Array, scale: Array, mean: Array, invstd: Array
) -> tuple[Array, Array, Array]:
    count, c = rows.shape
    dx = np.empty_like(rows)
    total = np.ones(count, rows.dtype) @ dy

    def centre(part: slice, own: Array) -> None:
        out = np.subtract(rows[part], mean, out=dx[part])
        np.einsum("ij,ij->j", dy[part], out, out=own[0])

    dot = sums_in_blocks(rows, 1, centre)[0]
    b, shift = dot * scale * invstd**2 / -count, scale * total / count

    def combine(part: slice) -> None:
        out = dx[part]
        out *= b
        out += dy[part] * scale
        out -= shift

    in_blocks(count, c * rows.itemsize, combine)
    return dx, dot, total


# %% [markdown]
# ### The operator
#
# Upstream's name for it is `native_batch_norm`. In training it normalizes by the batch and moves the running statistics towards the
# batch's, with the *unbiased* variance; in evaluation it normalizes by the running statistics. It writes into the running arrays
# themselves, below autograd: their version counters do not move, and a model may be called twice before `backward`.


# %%
#| into: aten/native/normalization.py
#| upstream: aten/src/ATen/native/Normalization.cpp#at::native::batch_norm_cpu
@register("native_batch_norm", outputs="output save_mean save_invstd", differentiable_outputs=(0,), out=True)
def native_batch_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Output, and in training the batch's mean and 1 / sqrt(variance + eps) per channel, else two empty arrays."""
    check_floats("batch_norm", input)
    check_floats("batch_norm", input, weight, bias)
    for statistic in (running_mean, running_var):
        if statistic is None or statistic.dtype == input.dtype:
            continue
        if input.itemsize != 2 or statistic.dtype != np.float32:
            raise RuntimeError(
                "mixed dtype (CPU): all inputs must share same datatype. "
                f"expected scalar type {to_string(input.dtype)} but found {to_string(statistic.dtype)}"
            )
    weight, bias = (None if parameter is None else parameter.reshape(-1) for parameter in (weight, bias))
    x = in_working_precision(input)
    if not training:
        assert running_mean is not None
        assert running_var is not None
        #: as in training, the output lies in the input's memory format, which a transposed matrix does not have
        x = x if x.ndim > 2 else np.ascontiguousarray(x)
        y = _apply_running(x, weight, bias, running_mean, running_var, eps)
        none = np.empty(0, x.dtype)
        return y.astype(input.dtype, copy=False), none, none
    y, mean, var = _normalize_batch(x, weight, bias, eps)
    count = x.size // x.shape[1] if x.shape[1] else 0
    if running_mean is not None:
        running_mean += (momentum * (mean - running_mean)).astype(running_mean.dtype, copy=False)
    if running_var is not None:
        unbiased = var * (count / (count - 1)) if count > 1 else np.full_like(var, np.nan)
        running_var += (momentum * (unbiased - running_var)).astype(running_var.dtype, copy=False)
    invstd = 1 / np.sqrt(var + x.dtype.type(eps))
    if x is not input:  # of 16 bits: the output is made with the statistics as they are kept
        mean, invstd = as_kept(mean, input, weight), as_kept(invstd, input, weight)
        shape = (-1, *(1,) * (x.ndim - 2))
        factor = in_working_precision(invstd)
        factor = factor if weight is None else factor * in_working_precision(weight)
        term = -in_working_precision(mean) * factor
        y = x * factor.reshape(shape) + (term if bias is None else term + in_working_precision(bias)).reshape(shape)
    return y.astype(input.dtype, copy=False), mean, invstd


@register("native_batch_norm", key="Meta")
def _batch_norm_on_meta(input: Array, *more: Any) -> tuple[Array, Array, Array]:
    training = more[4]
    statistics = meta_like(as_kept(in_working_precision(input), input, more[0]), (input.shape[1] if training else 0,))
    return meta_like(input), statistics, statistics


def _apply_running(
    x: Array, weight: Array | None, bias: Array | None, running_mean: Array, running_var: Array, eps: float
) -> Array:
    scale = 1 / np.sqrt(running_var + running_var.dtype.type(eps))
    if weight is not None:
        scale = scale * weight
    shift = -running_mean * scale
    if bias is not None:
        shift = shift + bias
    shape = (-1, *(1,) * (x.ndim - 2))
    y = x * scale.astype(x.dtype, copy=False).reshape(shape)
    y += shift.astype(x.dtype, copy=False).reshape(shape)
    return y


# %%
#| into: aten/native/normalization.py
#| upstream: aten/src/ATen/native/Normalization.cpp#at::native::batch_norm_backward_cpu
@register("native_batch_norm_backward", variants="", outputs="input weight bias")
def native_batch_norm_backward(
    grad_out: Array,
    input: Array,
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    save_mean: Array | None,
    save_invstd: Array | None,
    train: bool,
    eps: float,
) -> tuple[Array, Array, Array]:
    """The gradients with respect to input, weight and bias."""
    x, dy = in_working_precision(input), in_working_precision(grad_out)
    if train:
        assert save_mean is not None
        assert save_invstd is not None
        dx, dw, db = _batch_gradients(dy, x, weight, in_working_precision(save_mean), in_working_precision(save_invstd))
    else:
        assert running_mean is not None
        assert running_var is not None
        shape = (-1, *(1,) * (x.ndim - 2))
        places = (0, *range(2, x.ndim))
        invstd = (1 / np.sqrt(running_var + running_var.dtype.type(eps))).astype(x.dtype, copy=False)
        scale = invstd if weight is None else invstd * weight
        dx = dy * scale.reshape(shape)
        dw = (dy * (x - running_mean.astype(x.dtype, copy=False).reshape(shape))).sum(places) * invstd
        db = dy.sum(places)
    kind = input.dtype if weight is None else weight.dtype
    return dx.astype(input.dtype, copy=False), dw.astype(kind, copy=False), db.astype(kind, copy=False)


@register("native_batch_norm_backward", key="Meta")
def _batch_norm_backward_on_meta(grad_out: Array, input: Array, weight: Array | None, *more: Any) -> Any:
    parameter = meta_like(input if weight is None else weight, (input.shape[1],))
    return meta_like(input, input.shape), parameter, parameter


# %% [markdown]
# Under `create_graph=True` the gradient itself is to be differentiated. Then it is written with operators, from the input on, so that
# whatever order is asked for follows by the chain rule.


# %%
#| into: aten/native/normalization.py
#| upstream: torch/csrc/autograd/FunctionsManual.cpp#torch::autograd::generated::details::batchnorm_double_backward
def _batch_norm_gradients(
    at: Any,
    grads: Sequence[Any],
    input: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    save_mean: Any,
    save_invstd: Any,
    training: bool,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    dy = grads[0]
    if at is not autograd:
        return at.native_batch_norm_backward(
            dy, input, weight, running_mean, running_var, save_mean, save_invstd, training, eps
        )
    places = (0, *range(2, len(input.shape)))
    shape = (1, -1, *(1,) * (len(input.shape) - 2))
    if training:
        centred = input - at.mean(input, places, True)
        invstd = at.rsqrt(at.mean(centred * centred, places, True) + eps)
    else:
        centred = input - at.reshape(running_mean, shape)
        invstd = at.rsqrt(at.reshape(running_var, shape) + eps)
    normal = centred * invstd
    g = dy if weight is None else dy * at.reshape(weight, shape)
    if training:
        dx = (g - at.mean(g, places, True) - normal * at.mean(g * normal, places, True)) * invstd
    else:
        dx = g * invstd
    return dx, at.sum(dy * normal, places) if mask[1] else None, at.sum(dy, places) if mask[2] else None


derivative("native_batch_norm", {"input, weight, bias": _batch_norm_gradients})
opaque("native_batch_norm", zero=False)

# %% [markdown]
# ### What users call


# %%
#| into: aten/native/normalization.py
#| upstream: aten/src/ATen/native/Normalization.cpp#at::native::check_dims_match_num_input_features
def _check_features(name: str, wanted: int, value: Any) -> None:
    if value is not None and math.prod(value.shape) != wanted:
        raise RuntimeError(f"{name} should contain {wanted} elements not {math.prod(value.shape)}")
    if value is not None and name.startswith("running") and len(value.shape) != 1:
        raise RuntimeError(f"{name}: TensorAccessor expected 1 dims but tensor has {len(value.shape)}")


# %%
#| into: aten/native/normalization.py
#| upstream: aten/src/ATen/native/Normalization.cpp#at::native::batch_norm
@composite("batch_norm")
def batch_norm(
    at: Any,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """`(x - mean) / sqrt(var + eps) · weight + bias` per channel of `(N, C, *)`.

    In training with the batch's mean and variance, towards which the running ones are moved in place; else with the running ones.
    """
    if len(input.shape) < 2 and training and running_mean is None:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    features = input.shape[1] if len(input.shape) > 1 else 0
    for name, value in (("running_mean", running_mean), ("running_var", running_var)):
        if value is None and not training:
            raise RuntimeError(f"{name} must be defined in evaluation mode")
        _check_features(name, features, value)
    _check_features("weight", features, weight)
    _check_features("bias", features, bias)
    if (running_mean is None) is not (running_var is None):
        raise ValueError("batch_norm: one of running_mean and running_var is None and the other is not")
    if 0 in input.shape:
        over = (-1, *(1,) * (len(input.shape) - 2))
        y = at.clone(input) if weight is None else input * at.reshape(weight, over)
        return y if bias is None else y + at.reshape(bias, over)
    rest = (running_mean, running_var, training, momentum, eps)
    return at.native_batch_norm(input, weight, bias, *rest)[0]


# %% [markdown]
# Instance normalization is batch normalization of one example with `N C` channels; running statistics, if any, are the mean over the
# batch of what each example had.


# %%
#| into: aten/native/normalization.py
@register("_keep_mean", variants="")
def _keep_mean(kept: Array, moved: Array) -> Array:
    """Write into `kept (C)` the mean over examples of `moved (N C)`: below autograd, as `native_batch_norm` does."""
    kept[...] = moved.reshape(-1, len(kept)).mean(0)
    return kept


# %%
#| into: aten/native/normalization.py
#| upstream: aten/src/ATen/native/Normalization.cpp#at::native::instance_norm
@composite("instance_norm")
def instance_norm(
    at: Any,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """`batch_norm` of each example by itself, `(N, C, *)`, with its own statistics unless `use_input_stats` is False."""
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    n, c, *size = input.shape
    if not n and any(value is not None for value in (weight, bias, running_mean, running_var)):
        raise IndexError("select(): index 0 out of range for tensor of size [0] at dimension 0")
    repeated = [None if v is None else at.repeat(v, (n,)) for v in (weight, bias, running_mean, running_var)]
    folded = at.reshape(input, (1, n * c, *size))
    y = at.batch_norm(folded, *repeated, use_input_stats, momentum, eps, cudnn_enabled)
    if use_input_stats:
        for kept, moved in zip((running_mean, running_var), repeated[2:], strict=True):
            if kept is not None:
                at._keep_mean(kept, moved)
    return at.reshape(y, tuple(input.shape))


# %% [markdown]
# ## Layer normalization
#
# A mean per example, over the last dimensions taken together. Mean and variance of a row come from a matrix-vector product and from
# row-wise dot products; the sums over rows that the parameters' gradients need are matrix-vector products from the other side.
#
# What broadcasts, a column of means or a row of weights, makes NumPy begin its inner loop anew in every row, and costs nearly twice what two
# arrays of one shape do. So numbers are spread over a block first: bias once for all blocks, a column by a copy, which is cheap, and
# the two factors `w / σ` together, as a matrix product of two columns with two rows. The second pair adds nothing: it is there because
# NumPy leaves a product to BLAS only where something is summed.

# %%
#| into: aten/native/layer_norm.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import autograd, composite, derivative, opaque, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.convolution import _buffer
from readtorch.aten.native.normalization import (
    as_kept,
    check_floats,
    in_blocks,
    rows_in_block,
    sums_in_blocks,
)
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.dispatch_key import meta_like
from readtorch.c10.core.scalar_type import dtype, float32, from_numpy_dtype, not_implemented, to_string
from readtorch.c10.util.exception import warn_once


# %%
#| into: aten/native/layer_norm.py
_FEW = 4096
"""Numbers. With fewer, the time goes into NumPy calls and not into memory: none is made to save a pass."""

_LONG = 4096
"""Numbers in a row. In longer ones a column may broadcast."""


def _spread(values: Array | None, rows: int, dtype: Any) -> Array | None:
    """`values` for each of `rows` rows: repeated in memory, or as one row that broadcasts where the rows are few."""
    if values is None:
        return None
    row = values.reshape(1, -1).astype(dtype, copy=False)
    return row if rows * row.size <= _FEW else np.tile(row, (rows, 1))


def _column(values: Array, out: Array) -> Array:
    """A number per row, for all of the row: in `out`, or as a column that broadcasts where the rows are long."""
    column = values[:, None]
    if out.shape[1] < _LONG:
        np.copyto(out, column)
        return out
    return column


def _outer(values: Array, row: Array | None, out: Array) -> Array:
    """A number per row times `row`, which stands for ones where it is None."""
    if row is None:
        return _column(values, out)
    pairs = np.ones((len(values), 2), out.dtype)
    pairs[:, 0] = values
    return np.matmul(pairs, np.stack((row, np.zeros_like(row))), out=out)


def _normalize_rows(x: Array, weight: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    """Of a matrix: output, mean and 1 / sqrt(variance + eps) per row."""
    count, d = x.shape
    if 0 < x.size <= _FEW:
        y, mean, rstd = _normalize_few(x, weight, bias, eps)
        return y, mean[:, 0], rstd[:, 0]
    y, mean, rstd = np.empty_like(x), np.empty(count, x.dtype), np.empty(count, x.dtype)
    average = np.full(d, 1 / d, x.dtype)
    w = None if weight is None else weight.reshape(-1).astype(x.dtype, copy=False)
    b = _spread(bias, rows_in_block(count, d * x.itemsize), x.dtype)

    def normalize(part: slice) -> None:
        block, out = x[part], y[part]
        mu = np.matmul(block, average, out=mean[part])
        np.subtract(block, _column(mu, out), out=out)
        scale = np.vecdot(out, out)
        scale /= d
        scale += x.dtype.type(eps)
        np.divide(1, np.sqrt(scale, out=scale), out=scale)
        rstd[part] = scale
        out *= _outer(scale, w, _buffer("block", out.shape, out.dtype))
        if b is not None:
            out += b[: len(out)]

    in_blocks(count, d * x.itemsize, normalize)
    return y, mean, rstd


@lru_cache(64)
def _average(d: int, dtype: Any) -> Array:
    """A product with it is the mean of `d` numbers."""
    return np.full(d, 1 / d, dtype)


def _normalize_few(x: Array, weight: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    """What `_normalize_rows` gives, of the last dimension of any two or more, in as few calls as possible; means keep theirs."""
    average = _average(x.shape[-1], x.dtype)
    mean = x.dot(average)[..., None]
    y = x - mean
    scale = (y * y).dot(average)[..., None]
    scale += eps
    scale **= -0.5
    y *= scale
    if weight is not None:
        y *= weight if weight.ndim == 1 else weight.reshape(-1)
    if bias is not None:
        y += bias if bias.ndim == 1 else bias.reshape(-1)
    return y, mean, scale


def _normalize_one(x: Array, weight: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    """The same of a vector: one scale, for which Python's root is done sooner than NumPy has begun."""
    average = _average(x.size, x.dtype)
    mean = x[None].dot(average)
    y = x - mean
    rstd = (y * y)[None].dot(average)
    variance = rstd.item() + eps
    scale = 1 / math.sqrt(variance) if variance > 0 else float(np.float64(variance) ** -0.5)
    rstd.fill(scale)
    y *= scale
    if weight is not None:
        y *= weight
    if bias is not None:
        y += bias
    return y, mean, rstd


def _row_gradients(dy: Array, x: Array, weight: Array | None, mean: Array, rstd: Array) -> tuple[Array, Array, Array]:
    """The gradients with respect to input, weight and bias, of the same shapes as in `_normalize_rows`."""
    if 0 < x.size <= _FEW:
        return _few_gradients(dy, x, weight, mean[:, None], rstd[:, None])
    d = x.shape[1]
    dx = np.empty_like(x)
    w = None if weight is None else weight.reshape(-1).astype(x.dtype, copy=False)
    factors = np.ones(d, x.dtype) if w is None else w

    def differentiate(part: slice, own: Array) -> None:
        g, r, c = dy[part], rstd[part], dx[part]
        np.subtract(x[part], _column(mean[part], c), out=c)
        p = np.multiply(g, c, out=_buffer("block", c.shape, c.dtype))
        np.matmul(r, p, out=own[0])
        np.matmul(np.ones(len(g), x.dtype), g, out=own[1])
        mean_gx = p @ factors
        mean_gx *= r**3 / d
        mean_g = g @ factors
        mean_g *= r / d
        c *= _column(mean_gx, p)
        c += _column(mean_g, p)
        np.multiply(g, _outer(r, w, p), out=p)
        np.subtract(p, c, out=c)

    dw, db = sums_in_blocks(x, 2, differentiate)
    return dx, dw, db


def _few_gradients(dy: Array, x: Array, weight: Array | None, mean: Array, rstd: Array) -> tuple[Array, Array, Array]:
    """What `_row_gradients` gives, in as few calls as possible; mean and rstd are columns."""
    average = _average(x.shape[1], x.dtype)
    normal = x - mean
    normal *= rstd
    product = dy * normal
    dw, db = np.add.reduce(product), np.add.reduce(dy)
    g = dy if weight is None else dy * weight.reshape(-1)
    dx = g - g.dot(average)[:, None]
    normal *= (product if weight is None else g * normal).dot(average)[:, None]
    dx -= normal
    dx *= rstd
    return dx, dw, db


# %%
#| into: aten/native/layer_norm.py
#| upstream: aten/src/ATen/native/layer_norm.cpp#at::native::layer_norm_cpu
@register("native_layer_norm", outputs="output mean rstd", differentiable_outputs=(0,))
def native_layer_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Output, and mean and 1 / sqrt(variance + eps) of each example, in the shape that broadcasts over the input."""
    check_floats("LayerNormKernelImpl", input, weight, bias)
    if input.shape[-len(normalized_shape) :] != tuple(normalized_shape):
        _check_normalized_shape(input, normalized_shape)
    if len(normalized_shape) == 1 and 0 < input.size <= _FEW and input.itemsize > 2:
        if input.ndim == 1:
            return _normalize_one(input, weight, bias, eps)
        rows = input if input.flags.c_contiguous else np.ascontiguousarray(input)
        return _normalize_few(rows, weight, bias, eps)
    leading = input.shape[: input.ndim - len(normalized_shape)]
    if not input.size and input.shape[len(leading) :] == tuple(normalized_shape):
        statistics = np.zeros((*leading, *(1,) * len(normalized_shape)), in_working_precision(input).dtype)
        return np.empty_like(input), statistics, statistics
    x = in_working_precision(np.ascontiguousarray(input)).reshape(math.prod(leading), math.prod(normalized_shape))
    y, mean, rstd = _normalize_rows(x, weight, bias, eps)
    broadcast = (*leading, *(1,) * len(normalized_shape))
    y = y.reshape(input.shape).astype(input.dtype, copy=False)
    mean, rstd = (as_kept(one, input, weight) for one in (mean, rstd))
    return y, mean.reshape(broadcast), rstd.reshape(broadcast)


@register("native_layer_norm_backward", variants="", outputs="input weight bias")
def native_layer_norm_backward(
    grad_out: Array,
    input: Array,
    normalized_shape: Sequence[int],
    mean: Array,
    rstd: Array,
    weight: Array | None,
) -> tuple[Array, Array, Array]:
    """The gradients with respect to input, weight and bias."""
    d = math.prod(normalized_shape)
    kind = input.dtype if weight is None else weight.dtype
    if not input.size:
        nothing = np.zeros(tuple(normalized_shape), kind)
        return np.empty_like(input), nothing, nothing.copy()
    x = in_working_precision(np.ascontiguousarray(input)).reshape(-1, d)
    dy = in_working_precision(np.ascontiguousarray(grad_out)).reshape(-1, d)
    mean, rstd = (in_working_precision(one.reshape(-1)) for one in (mean, rstd))
    dx, dw, db = _row_gradients(dy, x, weight, mean, rstd)
    shape = tuple(normalized_shape)
    dw, db = dw.reshape(shape).astype(kind, copy=False), db.reshape(shape).astype(kind, copy=False)
    return dx.reshape(input.shape).astype(input.dtype, copy=False), dw, db


# %%
#| into: aten/native/layer_norm.py
@register("native_layer_norm", key="Meta")
def _layer_norm_on_meta(input: Array, normalized_shape: Sequence[int], *parameters: Any) -> Any:
    check_floats("LayerNormKernelImpl", input, *parameters[:2])
    leading = input.shape[: input.ndim - len(normalized_shape)]
    statistics = meta_like(
        as_kept(in_working_precision(input), input, parameters[0]), (*leading, *(1,) * len(normalized_shape))
    )
    return meta_like(input, input.shape), statistics, statistics


@register("native_layer_norm_backward", key="Meta")
def _layer_norm_backward_on_meta(
    grad_out: Array, input: Array, normalized_shape: Sequence[int], mean: Array, rstd: Array, weight: Array | None
) -> Any:
    parameter = meta_like(input if weight is None else weight, tuple(normalized_shape))
    return meta_like(input, input.shape), parameter, parameter


def _layer_norm_gradients(
    at: Any,
    grads: Sequence[Any],
    input: Any,
    normalized_shape: Sequence[int],
    mean: Any,
    rstd: Any,
    weight: Any,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    dy = grads[0]
    if at is not autograd:
        return at.native_layer_norm_backward(dy, input, normalized_shape, mean, rstd, weight)
    rank = len(input.shape)
    own = tuple(range(rank - len(normalized_shape), rank))
    leading = tuple(range(rank - len(normalized_shape)))
    centred = input - at.mean(input, own, True)
    scale = at.rsqrt(at.mean(centred * centred, own, True) + eps)
    normal = centred * scale
    g = dy if weight is None else dy * weight
    dx = (g - at.mean(g, own, True) - normal * at.mean(g * normal, own, True)) * scale
    over = (lambda value: at.sum(value, leading)) if leading else (lambda value: value)
    return dx, over(dy * normal) if mask[1] else None, over(dy) if mask[2] else None


derivative("native_layer_norm", {"input, weight, bias": _layer_norm_gradients})
opaque("native_layer_norm", zero=False)


# %%
#| into: aten/native/layer_norm.py
#| upstream: aten/src/ATen/native/layer_norm.cpp#at::native::layer_norm_symint
def _check_normalized_shape(input: Any, normalized_shape: Sequence[int], **parameters: Any) -> None:
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
            f"but got normalized_shape = {list(shape)}"
        )
    for name, value in parameters.items():
        if value is not None and value.shape != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(value.shape)} and normalized_shape = {list(shape)}"
            )
    size = input.shape
    if size[-len(shape) :] != shape:
        wanted = ", ".join(map(str, shape))
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {wanted}], "
            f"but got input of size{list(size)}"
        )


@composite("layer_norm", autocast="float32")
def layer_norm(
    at: Any,
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Any:
    """`(x - mean) / sqrt(var + eps) · weight + bias` over the last dimensions, which must be `normalized_shape`."""
    _check_normalized_shape(input, normalized_shape, weight=weight, bias=bias)
    return at.native_layer_norm(input, tuple(normalized_shape), weight, bias, eps)[0]


# %% [markdown]
# RMS normalization leaves the mean alone: `x / sqrt(mean(x²) + ε)`. Where no `ε` is given, it is the working type's.


# %%
#| into: aten/native/layer_norm.py
#| upstream: aten/src/ATen/native/layer_norm.cpp#at::native::rms_norm_symint
@composite("rms_norm", autocast="float32")
def rms_norm(
    at: Any, input: Array, normalized_shape: Sequence[int], weight: Array | None = None, eps: float | None = None
) -> Any:
    """`x / sqrt(mean(x²) + eps) · weight` over the last dimensions, which must be `normalized_shape`."""
    if weight is not None:
        _check_normalized_shape(weight, normalized_shape, weight=weight)
    if len(input.shape) < len(normalized_shape):
        raise ValueError(f"rms_norm over {len(normalized_shape)} dimensions of an input that has {len(input.shape)}")
    _check_normalized_shape(input, normalized_shape)
    if weight is not None and weight.dtype != input.dtype:
        warn_once(
            f"Mismatch dtype between input and weight: input dtype = {to_string(input.dtype)}, weight dtype = "
            f"{to_string(weight.dtype)}, Cannot dispatch to fused implementation."
        )
    rank = len(input.shape)
    own = tuple(range(rank - len(normalized_shape), rank))
    kind = input.dtype if isinstance(input.dtype, dtype) else from_numpy_dtype(input.dtype)
    if not (kind.is_floating_point or kind.is_complex):
        raise not_implemented("rms_norm", kind)
    x = at._to_copy(input, float32) if kind.itemsize == 2 else input
    if eps is None:
        eps = float(np.finfo(np.float64 if kind.to_real().itemsize == 8 else np.float32).eps)
    y = x * at.rsqrt(at.mean(x * x, own, True) + eps)
    if weight is not None:
        y = y * weight
    return y if y.dtype == input.dtype else at._to_copy(y, kind)


# %% [markdown]
# ## Group normalization
#
# A mean per example and group of channels. Rows are then groups, and the parameters belong to channels: the row statistics of layer
# normalization, and an affine map per channel.

# %%
#| into: aten/native/group_norm.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import autograd, composite, derivative, register, results_lie
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.layer_norm import _normalize_rows, _row_gradients
from readtorch.aten.native.normalization import as_kept, check_floats
from readtorch.aten.op_math_type import in_working_precision


# %%
#| into: aten/native/group_norm.py
#| upstream: aten/src/ATen/native/group_norm.cpp#at::native::native_group_norm
@register("native_group_norm", outputs="output mean rstd", differentiable_outputs=(0,))
def native_group_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Output, and mean and 1 / sqrt(variance + eps), each `(N, group)`."""
    check_floats("GroupNormKernelImpl", input, weight, bias)
    if not input.size:
        return input.copy(), np.zeros((N, group), input.dtype), np.zeros((N, group), input.dtype)
    x = in_working_precision(np.ascontiguousarray(input)).reshape(N * group, C // group * HxW)
    y, mean, rstd = _normalize_rows(x, None, None, eps)
    y = y.reshape(N, C, HxW)
    if weight is not None:
        y *= weight[:, None]
    if bias is not None:
        y += bias[:, None]
    mean, rstd = (as_kept(one, input, weight).reshape(N, group) for one in (mean, rstd))
    return y.reshape(input.shape).astype(input.dtype, copy=False), mean, rstd


@register("native_group_norm_backward", variants="", outputs="input weight bias")
def native_group_norm_backward(
    grad_out: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
) -> tuple[Array, Array, Array]:
    """The gradients with respect to input, weight and bias."""
    x = in_working_precision(np.ascontiguousarray(input)).reshape(N * group, C // group * HxW)
    dy = in_working_precision(np.ascontiguousarray(grad_out)).reshape(N, C, HxW)
    mean, rstd = in_working_precision(mean), in_working_precision(rstd)
    db = np.einsum("ncp->c", dy)
    # Σ g (x - μ) / σ over places, group by group: from two sums per example and channel
    dots = np.einsum("ncp,ncp->nc", dy, x.reshape(N, C, HxW)).reshape(N, group, C // group)
    sums = np.einsum("ncp->nc", dy).reshape(N, group, C // group)
    dw = ((dots - sums * mean[:, :, None]) * rstd[:, :, None]).sum(0).reshape(C)
    g = dy if weight is None else dy * weight[:, None]
    dx, _, _ = _row_gradients(g.reshape(x.shape), x, None, mean.reshape(-1), rstd.reshape(-1))
    kind = input.dtype if weight is None else weight.dtype
    dx = dx.reshape(input.shape).astype(input.dtype, copy=False)
    return dx, dw.astype(kind, copy=False), db.astype(kind, copy=False)


# %%
#| into: aten/native/group_norm.py
def _group_norm_gradients(
    at: Any,
    grads: Sequence[Any],
    input: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    dy = grads[0]
    if at is not autograd:
        return at.native_group_norm_backward(dy, input, mean, rstd, weight, N, C, HxW, group)
    x = at.reshape(input, (N, group, C // group * HxW))
    centred = x - at.mean(x, (2,), True)
    scale = at.rsqrt(at.mean(centred * centred, (2,), True) + eps)
    normal = centred * scale
    by_channel = at.reshape(dy, (N, C, HxW))
    g = by_channel if weight is None else by_channel * at.reshape(weight, (1, C, 1))
    g = at.reshape(g, tuple(x.shape))
    dx = (g - at.mean(g, (2,), True) - normal * at.mean(g * normal, (2,), True)) * scale
    dw = at.sum(by_channel * at.reshape(normal, (N, C, HxW)), (0, 2)) if mask[1] else None
    return at.reshape(dx, tuple(input.shape)), dw, at.sum(by_channel, (0, 2)) if mask[2] else None


results_lie(in_suggested_format, "native_group_norm")
derivative("native_group_norm", {"input, weight, bias": _group_norm_gradients})


# %%
#| into: aten/native/group_norm.py
#| upstream: aten/src/ATen/native/group_norm.cpp#at::native::group_norm
@composite("group_norm", autocast="float32")
def group_norm(
    at: Any,
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Any:
    """`(x - mean) / sqrt(var + eps) · weight + bias` per example and group of channels of `(N, C, *)`; weight and bias are per channel."""
    shape = list(input.shape)
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    n, c, *size = shape
    if c % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups: "
            f"an input of {shape} has no {num_groups} equal groups"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and list(value.shape) != [c]:
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(value.shape)} and input of shape {shape}"
            )
    places = int(np.prod(size)) if size else 1
    return at.native_group_norm(input, weight, bias, n, c, places, num_groups, eps)[0]


# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import normalization as normalization
from readtorch.aten.native import layer_norm as layer_norm
from readtorch.aten.native import group_norm as group_norm


# %%
#| claim: running_var moves towards the unbiased variance while the batch is normalized by the biased one
#| needs: a2_layers
def _(torch):
    x = torch.tensor([[1.0], [3.0]])
    mean, var = torch.zeros(1), torch.zeros(1)
    y = torch.nn.functional.batch_norm(x, mean, var, training=True, momentum=1.0, eps=1e-12)
    assert torch.allclose(y, torch.tensor([[-1.0], [1.0]]))
    assert var.item() == 2.0 and mean.item() == 2.0


# %%
#| claim: updating running statistics does not move their version counters, so a batch norm may run twice before backward
#| needs: a2_layers
def _(torch):
    norm = torch.nn.BatchNorm1d(1)
    x = torch.tensor([[1.0], [2.0]], requires_grad=True)
    before = norm.running_mean._version
    (norm(x) + norm(x)).sum().backward()
    assert norm.running_mean._version == before


# %%
#| claim: normalizations can be differentiated twice
#| needs: a2_layers
def _(torch):
    F = torch.nn.functional
    x = torch.tensor([[[1.0, 2.0, 4.0], [0.5, -1.0, 3.0]]], dtype=torch.float64, requires_grad=True)
    w = torch.tensor([1.5, -0.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x, w: F.batch_norm(x, None, None, w, w, training=True), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: F.group_norm(x, 1, w, w), (x, w))
    v = torch.tensor([1.5, -0.5, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x, v: F.layer_norm(x, (3,), v, v), (x, v))
