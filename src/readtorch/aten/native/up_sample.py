# Tangled from chapters/a1_operators/nn_7_padding_and_resampling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, overloads, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.scalar_type import not_implemented


def _step(n: int, m: int, align_corners: bool, scale: float | None) -> float:
    """Input places per output place. A scale that the caller gave is used as it is, not recomputed from sizes."""
    if align_corners:
        return (n - 1) / (m - 1) if m > 1 else 0.0
    return 1 / scale if scale is not None and scale > 0 else n / m


def _triangle(x: Array) -> Array:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: Array, a: float) -> Array:
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return np.where(x < 1, near, np.where(x < 2, far, 0))


#: how many weights are kept in one piece, and 64 pieces: an image's in one, a second of sound's in many
_PIECE = 1 << 18


def _pieces(n: int, m: int, step: float) -> range:
    """Where the pieces begin of a matrix `(m, n)`, whose weights lie around a diagonal that goes down one row in `step` columns."""
    return range(0, m, m if m * n <= _PIECE else max(1, int(math.sqrt(_PIECE / max(step, 1 / m)))))


@functools.lru_cache(64)
def _weights(
    n: int,
    m: int,
    start: int,
    stop: int,
    mode: str,
    align_corners: bool,
    scale: float | None,
    antialias: bool,
    dtype: Any,
) -> tuple[int, Array]:
    """Of the matrix `(m, n)` the rows from `start` to `stop`, from the first column with a weight to the last, and which is the first.

    Cached, and not to be written to.
    """
    step, places = _step(n, m, align_corners, scale), np.arange(start, stop)
    if antialias:
        return _antialiased(n, step, start, stop, mode, dtype)
    if mode in ("nearest", "nearest-exact"):
        centre = places + (0.5 if mode == "nearest-exact" else 0.0)
        source = np.minimum(np.floor(centre.astype(np.float32) * np.float32(step)), n - 1)
        kernel: Callable[[Array], Array] = np.ones_like
        offsets = range(1)
    else:
        source = places * step if align_corners else (places + 0.5) * step - 0.5
        if mode == "linear":
            source = np.maximum(source, 0)
            kernel = _triangle
            offsets = range(2)
        else:
            kernel = functools.partial(_cubic, a=-0.75)
            offsets = range(-1, 3)
    nearest = np.floor(source)
    columns = [np.clip(nearest + offset, 0, n - 1).astype(np.int64) for offset in offsets]
    first, last = (0, n) if stop - start == m else (int(columns[0].min()), int(columns[-1].max()) + 1)
    matrix = np.zeros((stop - start, last - first))
    for offset, column in zip(offsets, columns, strict=True):
        np.add.at(matrix, (places - start, column - first), kernel(source - nearest - offset))
    return first, matrix.astype(dtype)


def _antialiased(n: int, step: float, start: int, stop: int, mode: str, dtype: Any) -> tuple[int, Array]:
    kernel: Callable[[Array], Array] = _triangle if mode == "linear" else functools.partial(_cubic, a=-0.5)
    wide = max(step, 1.0)
    support = (1.0 if mode == "linear" else 2.0) * wide
    rows = []
    for i in range(start, stop):
        centre = step * (i + 0.5)
        first, last = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), n)
        weights = kernel((np.arange(first, last) - centre + 0.5) / wide)
        rows.append((first, weights / weights.sum()))
    begin = min(first for first, _ in rows)
    matrix = np.zeros((stop - start, max(first + len(weights) for first, weights in rows) - begin))
    for row, (first, weights) in zip(matrix, rows, strict=True):
        row[first - begin : first - begin + len(weights)] = weights
    return begin, matrix.astype(dtype)


#: from where to where, around its own place, one output is read from, be the weight of the others 0
_READ = {"linear": (0, 2), "cubic": (-1, 3)}


def _product(lines: Array, matrix: Array, mode: str = "") -> Array:
    """The lines times the matrix's transpose."""
    result = lines @ matrix.T
    if not np.isfinite(
        result
    ).all():  # a product lets NaN and infinity into a whole line, by 0 · ∞: place by place then
        for place, weights in enumerate(matrix):
            taps = np.flatnonzero(weights)
            if len(taps) == 1 and mode in _READ:
                before, behind = _READ[mode]
                taps = np.arange(max(taps[0] + before, 0), min(taps[0] + behind, len(weights)))
            result[..., place] = (lines[..., taps] * weights[taps]).sum(-1)
    return result


def _along(x: Array, axis: int, m: int, how: tuple[Any, ...], scale: float | None) -> Array:
    """One dimension resized to `m`, piece by piece of the result."""
    mode, align_corners, antialias = how
    lines, n = np.moveaxis(x, axis, -1), x.shape[axis]
    starts, parts = _pieces(n, m, _step(n, m, align_corners, scale)), []
    for start in starts:
        stop = min(start + starts.step, m)
        first, matrix = _weights(n, m, start, stop, mode, align_corners, scale, antialias, x.dtype)
        parts.append(_product(lines[..., first : first + matrix.shape[1]], matrix, mode))
    return np.moveaxis(parts[0] if len(parts) == 1 else np.concatenate(parts, -1), -1, axis)


def _back_along(dy: Array, axis: int, n: int, how: tuple[Any, ...], scale: float | None) -> Array:
    """The gradient of a dimension of `n`: each piece of the result's adds its part."""
    mode, align_corners, antialias = how
    lines, m = np.moveaxis(dy, axis, -1), dy.shape[axis]
    result = np.zeros((*lines.shape[:-1], n), dy.dtype)
    starts = _pieces(n, m, _step(n, m, align_corners, scale))
    for start in starts:
        stop = min(start + starts.step, m)
        first, matrix = _weights(n, m, start, stop, mode, align_corners, scale, antialias, dy.dtype)
        result[..., first : first + matrix.shape[1]] += _product(lines[..., start:stop], matrix.T)
    return np.moveaxis(result, -1, axis)


def _node_of_resample(mode: str, dims: int, antialias: bool) -> str:
    linear = ("Linear", "Bilinear", "Trilinear")[dims - 1]
    kind = linear if mode == "linear" else mode.title().replace("-", "").replace("Cubic", "Bicubic")
    return f"Upsample{kind}{dims}D{'Aa' if antialias else ''}Backward0"


@register("_resample", module="nn", node="Upsample")
def _resample(
    self: Array,
    output_size: Sequence[int],
    mode: str,
    align_corners: bool,
    scales: Sequence[float | None],
    antialias: bool,
) -> Array:
    """The last `len(output_size)` dimensions resized."""
    if self.dtype.kind in "ibc" or (antialias and self.itemsize == 2):
        kernel = "compute_index_ranges_weights" if antialias else f"upsample_{mode}{len(output_size)}d"
        raise not_implemented(kernel, self.dtype)
    first = self.ndim - len(output_size)
    if 0 in self.shape[1:first]:
        raise RuntimeError(
            f"Non-empty {self.ndim}D data tensor expected but got a tensor with sizes {list(self.shape)}"
        )
    if self.dtype == np.uint8 and mode == "linear" and len(output_size) != 2:
        raise not_implemented("compute_indices_weights_linear", self.dtype)
    if 0 in self.shape[first:] or any(size <= 0 for size in output_size):
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, unlike {list(self.shape[first:])} to {list(output_size)}"
        )
    x = in_working_precision(self)
    for axis, (m, scale) in enumerate(zip(output_size, scales, strict=True), first):
        n = self.shape[axis]
        if mode == "nearest" and m % n == 0 and scale in (None, m / n):
            x = np.repeat(x, m // n, axis) if m != n else x
        else:
            x = _along(x, axis, m, (mode, align_corners, antialias), scale)
    return np.ascontiguousarray(x).astype(self.dtype, copy=x is self)


@register("_resample_backward", variants="", node="UpsampleBackward")
def _resample_backward(
    dy: Array,
    size: Sequence[int],
    mode: str,
    align_corners: bool,
    scales: Sequence[float | None],
    antialias: bool,
) -> Array:
    dx = in_working_precision(dy)
    first = dy.ndim - len(size)
    for axis, (n, scale) in enumerate(zip(size, scales, strict=True), first):
        m = dy.shape[axis]
        if mode == "nearest" and m % n == 0 and scale in (None, m / n):
            dx = dx.reshape(*dx.shape[:axis], n, m // n, *dx.shape[axis + 1 :]).sum(axis + 1)
        else:
            dx = _back_along(dx, axis, n, (mode, align_corners, antialias), scale)
    return np.ascontiguousarray(dx).astype(dy.dtype, copy=dx is dy)


def _resample_gradient(
    at: Any,
    grad: Any,
    self_shape: Sequence[int],
    output_size: Sequence[int],
    mode: str,
    align_corners: bool,
    scales: Sequence[float | None],
    antialias: bool,
) -> Any:
    size = tuple(self_shape[-len(output_size) :])
    return at._resample_backward(grad, size, mode, align_corners, scales, antialias)


def _resample_again(
    at: Any,
    grad: Any,
    dy_shape: Sequence[int],
    size: Sequence[int],
    mode: str,
    align_corners: bool,
    scales: Sequence[float | None],
    antialias: bool,
) -> Any:
    return at._resample(grad, tuple(dy_shape[-len(size) :]), mode, align_corners, scales, antialias)


results_lie(in_suggested_format, "_resample")
derivative("_resample", self=_resample_gradient)
overloads("_resample", lambda given: _node_of_resample(given["mode"], len(given["output_size"]), given["antialias"]))
derivative("_resample_backward", dy=_resample_again)
