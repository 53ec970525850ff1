# Tangled from chapters/a1_operators/nn_2_pooling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import (
    composite,
    computes_in_opmath,
    derivative,
    opaque,
    overloads,
    register,
    results_lie,
)
from readtorch.aten.core.dispatch.operator_entry import Array, Dims
from readtorch.aten.native.pooling import Window, _over_windows, checked_window, padded
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.c10.core.scalar_type import not_implemented, to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


def _divisor(window: Window, size: Sequence[int], include_pad: bool, override: int | None) -> Any:
    """What each window's sum is divided by: a number, or one per output place."""
    if override is not None:
        return override
    counts = []
    for axis, (n, out) in enumerate(zip(size, window.output_size(size), strict=True)):
        start = np.arange(out) * window.stride[axis] - window.padding[axis]
        end = np.minimum(start + window.kernel[axis], n + window.padding[axis])
        if not include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, n)
        counts.append(end - start)
    if all((count == count[0]).all() for count in counts):
        return reduce(lambda product, count: product * int(count[0]), counts, 1)
    return reduce(np.multiply.outer, counts)


def _divided(array: Array, divisor: Any) -> Array:
    if array.dtype.kind in "iu":
        return np.trunc(array / divisor).astype(array.dtype)  # towards zero, as in C
    if isinstance(divisor, int):
        return array / divisor
    return array / divisor.astype(array.dtype)


@register("_avg_pool", variants="", node="AvgPool2D")
def _avg_pool(
    self: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    """Means of the windows over the last `len(kernel_size)` dimensions."""
    window = Window(tuple(kernel_size), tuple(stride), tuple(padding), tuple(dilation), ceil_mode)
    size = self.shape[-len(window.kernel) :]
    x, _ = padded(self, window, 0)
    total = _over_windows(np.add, x, window, window.output_size(size))
    return _divided(total, _divisor(window, size, count_include_pad, divisor_override)).astype(self.dtype, copy=False)


@register("_avg_pool_backward", variants="", node="AvgPool2DBackward")
def _avg_pool_backward(
    dy: Array,
    input_shape: Sequence[int],
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    """Each output gradient, in equal shares, to all places of its window."""
    window = Window(tuple(kernel_size), tuple(stride), tuple(padding), tuple(dilation), ceil_mode)
    size = tuple(input_shape[-len(window.kernel) :])
    share = _divided(dy, _divisor(window, size, count_include_pad, divisor_override)).astype(dy.dtype, copy=False)
    before_after = window.sides(size)
    shape = (*dy.shape[: -len(size)], *(n + b + a for n, (b, a) in zip(size, before_after, strict=True)))
    dx: Array = np.zeros(shape, dy.dtype)
    out = dy.shape[-len(size) :]
    if math.prod(out) < math.prod(window.kernel):  # few large windows, as in a global mean
        for place in itertools.product(*map(range, out)):
            dx[(..., *window.region(place))] += share[(..., *(slice(i, i + 1) for i in place))]
    else:
        for parts in itertools.product(*(window.slices(axis, n) for axis, n in enumerate(out))):
            dx[(..., *parts)] += share
    return dx[(..., *(slice(b, b + n) for n, (b, _) in zip(size, before_after, strict=True)))]


def _mean_gradient(
    at: Any,
    grad: Any,
    self: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    return at._avg_pool_backward(
        grad, self.shape, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad, divisor_override
    )


def _mean_again(
    at: Any,
    grad: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    return at._avg_pool(grad, kernel_size, stride, padding, dilation, ceil_mode, count_include_pad, divisor_override)


results_lie(in_suggested_format, "_avg_pool")
derivative("_avg_pool", self=_mean_gradient)
computes_in_opmath("_avg_pool")
opaque("_avg_pool")
overloads("_avg_pool", lambda given: f"AvgPool{max(len(given['kernel_size']), 2)}DBackward0")
derivative("_avg_pool_backward", dy=_mean_again)


def _average(at: Any, op: str, self: Any, dims: int, kernel_size: Any, stride: Any, padding: Any, *rest: Any) -> Any:
    ceil_mode, count_include_pad, divisor_override = rest
    if dims == 2:
        maybe_wrap_dim(-3, len(self.shape), wrap_scalar=False)
    window = checked_window(op, self, dims, kernel_size, stride, padding, 1, ceil_mode)
    if dims == 3 and to_string(self.dtype) in ("Half", "BFloat16"):
        raise not_implemented("avg_pool3d_out_frame", self.dtype)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    return at._avg_pool(self, *window, bool(count_include_pad), divisor_override)


@composite("avg_pool1d")
def avg_pool1d(
    at: Any,
    self: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of `(N, C, L)` or `(C, L)`; padding counts as zeros unless `count_include_pad` is False."""
    return _average(at, "avg_pool1d", self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@composite("avg_pool2d", module="nn", out=True)
def avg_pool2d(
    at: Any,
    self: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of `(N, C, H, W)` or `(C, H, W)`; padding counts as zeros unless `count_include_pad` is False."""
    rest = ceil_mode, count_include_pad, divisor_override
    return _average(at, "avg_pool2d", self, 2, kernel_size, stride, padding, *rest)


@composite("avg_pool3d", module="nn", out=True)
def avg_pool3d(
    at: Any,
    self: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of `(N, C, D, H, W)` or `(C, D, H, W)`; padding counts as zeros unless `count_include_pad` is False."""
    rest = ceil_mode, count_include_pad, divisor_override
    return _average(at, "avg_pool3d", self, 3, kernel_size, stride, padding, *rest)
