# Tangled from chapters/a1_operators/nn_3_normalization.py — edit there, or here and run `readtorch sync`.

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


def _check_features(name: str, wanted: int, value: Any) -> None:
    if value is not None and math.prod(value.shape) != wanted:
        raise RuntimeError(f"{name} should contain {wanted} elements not {math.prod(value.shape)}")
    if value is not None and name.startswith("running") and len(value.shape) != 1:
        raise RuntimeError(f"{name}: TensorAccessor expected 1 dims but tensor has {len(value.shape)}")


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


@register("_keep_mean", variants="")
def _keep_mean(kept: Array, moved: Array) -> Array:
    """Write into `kept (C)` the mean over examples of `moved (N C)`: below autograd, as `native_batch_norm` does."""
    kept[...] = moved.reshape(-1, len(kept)).mean(0)
    return kept


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
