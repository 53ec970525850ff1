# Tangled from chapters/a1_operators/nn_2_pooling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Sequence
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
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.scalar_type import not_implemented, to_string


def adaptive_bounds(n: int, out: int) -> list[tuple[int, int]]:
    """(start, end) of each window along an axis."""
    return [(i * n // out, -(-(i + 1) * n // out)) for i in range(out)]


def _averaging_matrix(n: int, out: int, dtype: Any) -> Array:
    matrix = np.zeros((out, n), dtype)
    for row, (start, end) in zip(matrix, adaptive_bounds(n, out), strict=True):
        row[start:end] = 1 / (end - start)
    return matrix


def _along(x: Array, axis: int, out: int) -> Array:
    n = x.shape[axis]
    if n == out:
        return x
    if out and n % out == 0:
        axis %= x.ndim
        return x.reshape(*x.shape[:axis], out, n // out, *x.shape[axis + 1 :]).mean(axis + 1, dtype=x.dtype)
    result = np.moveaxis(np.moveaxis(x, axis, -1) @ _averaging_matrix(n, out, x.dtype).T, -1, axis)
    if np.isfinite(result).all():
        return result
    # a product lets what is not finite into every mean of its line, by 0 · ∞: window by window then
    lines = np.moveaxis(x, axis, 0)
    return np.stack([lines[start:end].mean(0, dtype=x.dtype) for start, end in adaptive_bounds(n, out)], axis)


def _back_along(dy: Array, axis: int, n: int) -> Array:
    out = dy.shape[axis]
    if n == out:
        return dy
    if out and n % out == 0:
        return np.repeat(dy / (n // out), n // out, axis)
    result = np.moveaxis(np.moveaxis(dy, axis, -1) @ _averaging_matrix(n, out, dy.dtype), -1, axis)
    if np.isfinite(result).all():
        return result
    lines = np.zeros((n, *np.moveaxis(dy, axis, 0).shape[1:]), dy.dtype)
    for share, (start, end) in zip(np.moveaxis(dy, axis, 0), adaptive_bounds(n, out), strict=True):
        lines[start:end] += share / (end - start)
    return np.moveaxis(lines, 0, axis)


@register("_adaptive_avg_pool", variants="", node="AdaptiveAvgPool2D")
def _adaptive_avg_pool(self: Array, output_size: Sequence[int]) -> Array:
    """Means over windows that divide each of the last dimensions into `output_size` parts."""
    if self.dtype.kind in "iubc":
        kernel = "adaptive_avg_pool3d_cpu" if len(output_size) == 3 else "adaptive_avg_pool2d"
        raise not_implemented(kernel, self.dtype)
    x = in_working_precision(self)
    for axis, out in enumerate(output_size, self.ndim - len(output_size)):
        x = _along(x, axis, out)
    return np.ascontiguousarray(x).astype(self.dtype, copy=x is self)


@register("_adaptive_avg_pool_backward", variants="", node="AdaptiveAvgPool2DBackward")
def _adaptive_avg_pool_backward(dy: Array, size: Sequence[int]) -> Array:
    dx = dy
    for axis, n in enumerate(size, dy.ndim - len(size)):
        dx = _back_along(dx, axis, n)
    return np.ascontiguousarray(dx).astype(dy.dtype, copy=dx is dy)


results_lie(in_suggested_format, "_adaptive_avg_pool")
derivative(
    "_adaptive_avg_pool",
    self=lambda at, grad, self, output_size: at._adaptive_avg_pool_backward(
        grad, tuple(self.shape[-len(output_size) :])
    ),
)
computes_in_opmath("_adaptive_avg_pool", "_adaptive_avg_pool_backward")
opaque("_adaptive_avg_pool")
overloads("_adaptive_avg_pool", lambda given: f"AdaptiveAvgPool{max(len(given['output_size']), 2)}DBackward0")
derivative(
    "_adaptive_avg_pool_backward",
    dy=lambda at, grad, dy_shape, size: at._adaptive_avg_pool(grad, tuple(dy_shape[-len(size) :])),
)


def adaptive_output(op: str, x: Any, output_size: Any, dims: int) -> tuple[int, ...]:
    """The output size that a call asks for. RuntimeError for what upstream refuses."""
    if not x.shape and dims == 2 and output_size in (1, (1, 1)) and to_string(x.dtype) != "Long":
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got -2)")
    if hasattr(output_size, "__index__") and not getattr(output_size, "ndim", 0):  # NumPy's and tensors' numbers too
        output_size = output_size.__index__()
    size = (output_size,) * dims if isinstance(output_size, int) else tuple(output_size)
    if len(size) == 1:
        size *= dims
    if len(size) != dims:
        raise RuntimeError(f"{op}: output_size must be {dims}")
    if min(size) < 0:
        got = ", ".join(map(str, size))
        raise RuntimeError(f"{op}: elements of output_size must be greater than or equal to 0 but received {{{got}}}")
    shape = list(x.shape)
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(f"{op}(): Expected {dims + 1}D or {dims + 2}D tensor, but got {shape}")
    examined = dims if op in ("adaptive_avg_pool1d", "adaptive_avg_pool2d") else dims + 1
    if 0 in shape[-examined:]:
        raise RuntimeError(f"{op}(): Expected input to have non-zero size for non-batch dimensions; it is {shape}")
    whole = [*shape[:-dims], *size]
    if math.prod(whole) > 1 << 40:  # before as many windows are listed
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={whole}"
            if math.prod(whole) > 1 << 60
            else f"DefaultCPUAllocator: can't allocate memory: {op} of sizes={whole}"
        )
    return size


@composite("adaptive_avg_pool1d")
def adaptive_avg_pool1d(at: Any, self: Array, output_size: Dims) -> Any:
    """Means over windows that divide the last dimension into `output_size` parts."""
    return at._adaptive_avg_pool(self, adaptive_output("adaptive_avg_pool1d", self, output_size, 1))


@composite("adaptive_avg_pool2d", module="nn")
def adaptive_avg_pool2d(at: Any, self: Array, output_size: Dims) -> Any:
    """Means over windows that divide the last two dimensions into `output_size` parts."""
    if output_size in (1, (1, 1), [1, 1]) and len(self.shape) >= 2:
        return at.mean(self, (-1, -2), True)
    size = adaptive_output("adaptive_avg_pool2d", self, output_size, 2)
    # global pooling, the head of most image networks, is a mean, in the graph too
    return at.mean(self, (-1, -2), True) if size == (1, 1) else at._adaptive_avg_pool(self, size)


@composite("adaptive_avg_pool3d", module="nn")
def adaptive_avg_pool3d(at: Any, self: Array, output_size: Dims) -> Any:
    """Means over windows that divide the last three dimensions into `output_size` parts."""
    size = adaptive_output("adaptive_avg_pool3d", self, output_size, 3)
    return at.mean(self, (-1, -2, -3), True) if size == (1, 1, 1) else at._adaptive_avg_pool(self, size)
