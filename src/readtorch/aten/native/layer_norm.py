# Tangled from chapters/a1_operators/nn_3_normalization.py — edit there, or here and run `readtorch sync`.

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
