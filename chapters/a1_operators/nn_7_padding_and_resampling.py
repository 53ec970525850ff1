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
# # Padding, shuffles, resampling, patches

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Padding with a constant
#
# The list of paddings starts with the *last* dimension: (before, after), then the one before it. Negative numbers crop. The derivative of
# padding is cropping, that is, padding with the negated numbers.

# %%
#| into: aten/native/constant_pad_nd.py
#| imports
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register, results_lie
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array


# %%
#| into: aten/native/constant_pad_nd.py
#| upstream: aten/src/ATen/native/PadNd.cpp#at::native::constant_pad_nd
@register("constant_pad_nd", node="ConstantPadNd")
def constant_pad_nd(self: Array, pad: Sequence[int], value: float = 0) -> Array:
    """Pad with `value` by (before, after) of the last dimension, then of the one before it; negative numbers crop."""
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * self.ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions, one number for either end of each: "
            f"here {len(pad)} for {self.ndim}."
        )
    sides = [(0, 0)] * (self.ndim - len(pad) // 2) + list(zip(pad[-2::-2], pad[::-2], strict=True))
    shape = []
    for n, (before, after) in zip(self.shape, sides, strict=True):
        if n + before + after < 0:
            raise RuntimeError(
                f"The input size {n} cannot give up negative padding {before} and {after}: that resulted in a negative output size"
            )
        shape.append(n + before + after)
    out = np.full(shape, value, self.dtype)
    inner = [slice(max(b, 0), max(n - max(a, 0), 0)) for n, (b, a) in zip(shape, sides, strict=True)]
    outer = [slice(max(-b, 0), max(n - max(-a, 0), 0)) for n, (b, a) in zip(self.shape, sides, strict=True)]
    out[tuple(inner)] = self[tuple(outer)]
    return out


results_lie(in_suggested_format, "constant_pad_nd")


derivative("constant_pad_nd", self=lambda at, grad, pad: at.constant_pad_nd(grad, [-p for p in pad], 0))

# %% [markdown]
# ## Padding from the image itself
#
# Along each axis the output reads the input at a list of places: mirrored without repeating the edge, the edge again and again, or
# around the other side. Backward adds each strip where it was read from.

# %%
#| into: aten/native/pad_nd.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, overloads, register, results_lie
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import not_implemented, to_string


# %%
#| into: aten/native/pad_nd.py
#| upstream: aten/src/ATen/native/ReflectionPad.cpp#at::native::reflection_pad2d_out_template
#| upstream: aten/src/ATen/native/native_functions.yaml#replication_pad2d
def _places(mode: str, n: int, before: int, after: int) -> Array:
    """The input place that each output place of an axis reads. Around goes what is left after negative padding cut off its part."""
    wanted = np.arange(-before, n + after)
    if mode == "replicate":
        return np.clip(wanted, 0, n - 1)
    if mode == "circular":
        first, last = max(-before, 0), n - max(-after, 0)
        return first + np.arange(-max(before, 0), last - first + max(after, 0)) % max(last - first, 1)
    wanted = np.abs(wanted)
    return np.where(wanted >= n, 2 * (n - 1) - wanted, wanted)


def _axes(pad: Sequence[int], rank: int) -> list[tuple[int, int, int]]:
    """(axis, before, after) for each padded axis."""
    return [(rank - 1 - i, pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]


@register("_pad_from_inside", variants="", node="Pad")
def _pad_from_inside(self: Array, pad: Sequence[int], mode: str) -> Array:
    out = self
    for axis, before, after in _axes(pad, self.ndim):
        out = out.take(_places(mode, self.shape[axis], before, after), axis)
    return out


@register("_pad_from_inside_backward", variants="", node="PadBackward")
def _pad_from_inside_backward(dy: Array, shape: Sequence[int], pad: Sequence[int], mode: str) -> Array:
    for axis, before, after in reversed(_axes(pad, dy.ndim)):
        n = shape[axis]
        places = _places(mode, n, before, after)
        rows = np.moveaxis(dy, axis, 0)
        low, high = max(before, 0), max(before, 0) + n - max(-before, 0) - max(-after, 0)
        dx = np.zeros((n, *rows.shape[1:]), dy.dtype)
        first = max(-before, 0)  # which is places[low]
        dx[first : first + high - low] = rows[low:high]
        for i in (*range(low), *range(high, len(places))):
            dx[places[i]] += rows[i]
        dy = np.moveaxis(dx, 0, axis)
    return np.ascontiguousarray(dy)


results_lie(in_suggested_format, "_pad_from_inside")
derivative(
    "_pad_from_inside",
    self=lambda at, grad, self_shape, pad, mode: at._pad_from_inside_backward(grad, self_shape, pad, mode),
)
_PADS = {"reflect": "Reflection", "replicate": "Replication"}
overloads(
    "_pad_from_inside",
    lambda given: (
        f"{_PADS[given['mode']]}Pad{len(given['pad']) // 2}DBackward0" if given["mode"] in _PADS else "PadBackward0"
    ),
)
derivative("_pad_from_inside_backward", dy=lambda at, grad, pad, mode: at._pad_from_inside(grad, pad, mode))


# %%
#| into: aten/native/pad_nd.py
#| upstream: aten/src/ATen/native/PadNd.cpp#at::native::_pad_enum_symint
def _check_inside(mode: str, shape: Sequence[int], pad: Sequence[int]) -> None:
    rank, dims = len(shape), len(pad) // 2
    if not (dims in (1, 2, 3) and rank in (dims + 1, dims + 2)):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {rank}D input tensor. Supported combinations for non-constant "
            "padding: size 2 with 2D or 3D, size 4 with 3D or 4D, size 6 with 4D or 5D input."
        )
    if mode != "circular" and 0 in shape[rank - dims - 1 :]:
        raise RuntimeError(
            f"Expected {dims + 1}D or {dims + 2}D (batch mode) tensor, empty in no dimension but the batch, "
            f"for input, but got: {list(shape)}"
        )
    for axis, before, after in _axes(pad, rank):
        n = shape[axis]
        if mode == "reflect" and (before >= n or after >= n):
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension: "
                f"({before}, {after}) is not, at dimension {axis} of {list(shape)}"
            )
        if mode == "circular" and (before > n or after > n):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if n + before + after < (0 if mode == "circular" else 1):
            raise RuntimeError(f"input (size: {n}) is too small for padding ({before}, {after}) at dimension {axis}")


@composite("pad", module="nn")
def pad(at: Any, self: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """`self` padded by (before, after) of the last dimension, then of the one before, and so on."""
    rank = len(self.shape)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * rank:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension "
            f"but got padding length {len(pad)} and input of dimension {rank}"
        )
    if mode == "constant":
        return at.constant_pad_nd(self, tuple(pad), 0.0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    _check_inside(mode, self.shape, pad)
    if mode != "circular" and to_string(self.dtype) == "Bool":
        kernel = {"reflect": "reflection", "replicate": "replication"}[mode]
        raise not_implemented(f"{kernel}_pad{len(pad) // 2}d", self.dtype)
    if mode == "circular" and min(pad, default=0) < 0:  # what is cut off does not come round again
        for axis, before, after in _axes(pad, rank):
            self = at.narrow(self, axis, max(-before, 0), self.shape[axis] - max(-before, 0) - max(-after, 0))
        pad = [max(one, 0) for one in pad]
    return at._pad_from_inside(self, tuple(pad), mode)


# %% [markdown]
# ## Shuffles
#
# Moving channels into space, back, and among each other: a reshape, a permutation, a reshape.

# %%
#| into: aten/native/pixel_shuffle.py
#| imports
from __future__ import annotations

from readtorch.aten.core.dispatch.dispatcher import derivative, register, results_lie
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array


# %%
#| into: aten/native/pixel_shuffle.py
#| upstream: aten/src/ATen/native/PixelShuffle.cpp#at::native::math_pixel_shuffle
@register("pixel_shuffle")
def pixel_shuffle(self: Array, upscale_factor: int) -> Array:
    """`(*, C r², H, W)` to `(*, C, H r, W r)`."""
    r = upscale_factor
    if len(self.shape) < 3:
        raise RuntimeError(f"pixel_shuffle expects input to have at least 3 dimensions; it has {len(self.shape)}")
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = self.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={c} is not divisible by {r * r}"
        )
    n = len(lead)
    x = self.reshape((*lead, c // (r * r), r, r, h, w))
    x = x.transpose((*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return x.copy(order="C").reshape((*lead, c // (r * r), h * r, w * r))


results_lie(in_suggested_format, "pixel_shuffle")
derivative("pixel_shuffle", self=lambda at, grad, upscale_factor: at.pixel_unshuffle(grad, upscale_factor))


@register("pixel_unshuffle")
def pixel_unshuffle(self: Array, downscale_factor: int) -> Array:
    """`(*, C, H r, W r)` to `(*, C r², H, W)`."""
    r = downscale_factor
    if len(self.shape) < 3:
        raise RuntimeError(f"pixel_unshuffle expects input to have at least 3 dimensions; it has {len(self.shape)}")
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = self.shape
    for name, size in (("height", h), ("width", w)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but {size} is not by {r}"
            )
    n = len(lead)
    x = self.reshape((*lead, c, h // r, r, w // r, r))
    x = x.transpose((*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return x.copy(order="C").reshape((*lead, c * r * r, h // r, w // r))


results_lie(in_suggested_format, "pixel_unshuffle")
derivative("pixel_unshuffle", self=lambda at, grad, downscale_factor: at.pixel_shuffle(grad, downscale_factor))


# %%
#| into: aten/native/chanel_shuffle.py
#| imports
from __future__ import annotations

from readtorch.aten.core.dispatch.dispatcher import derivative, register, results_lie
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array


# %%
#| into: aten/native/chanel_shuffle.py
#| upstream: aten/src/ATen/native/ChanelShuffle.cpp#at::native::channel_shuffle
@register("channel_shuffle")
def channel_shuffle(self: Array, groups: int) -> Array:
    """Channels `(g, C / g)` reordered as `(C / g, g)` (Zhang et al. 2018)."""
    if len(self.shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(self.shape)}")
    n, c, *size = self.shape
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive, unlike {groups}")
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups, as {c} by {groups} is not.")
    x = self.reshape((n, groups, c // groups, *size))
    return x.swapaxes(1, 2).copy(order="C").reshape((n, c, *size))


results_lie(in_suggested_format, "channel_shuffle")
derivative(
    "channel_shuffle", self=lambda at, grad, self_shape, groups: at.channel_shuffle(grad, self_shape[1] // groups)
)


# %% [markdown]
# ## Resampling
#
# Along one axis, resizing from `n` to `m` places is a matrix `A (m, n)` whose row `i` holds the weights of the inputs that output `i`
# reads: one 1 (nearest), two (linear), four (cubic), or, with `antialias`, as many as the output place covers. An image is resized axis
# by axis. The derivative is the product with `A` transposed.
#
# Where does output `i` lie on the input's axis? With `align_corners` the first and last places coincide, `i (n - 1) / (m - 1)`;
# without, places are intervals and their centres correspond, `(i + ½) n / m - ½`.
#
# An image's `A` is small. That of a second of sound would have two billion numbers, nearly all of them zeros: the weights lie around a diagonal. A long
# axis is therefore resized in pieces of the result, each of which reads a few columns.

# %%
#| into: aten/native/up_sample.py
#| imports
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, overloads, register, results_lie
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.scalar_type import not_implemented


# %%
#| into: aten/native/up_sample.py
#| upstream: aten/src/ATen/native/UpSample.h#at::native::area_pixel_compute_source_index
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


# %%
#| into: aten/native/up_sample.py
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


# %%
#| into: aten/native/up_sample.py
#| upstream: aten/src/ATen/native/UpSampleBilinear2d.cpp#at::native::upsample_bilinear2d
#| upstream: aten/src/ATen/native/UpSampleNearest2d.cpp#at::native::upsample_nearest2d
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

# %% [markdown]
# ## Patches
#
# `unfold` writes the windows of a convolution out as columns; `fold` adds columns back to where they came from. Each is the other's
# derivative.

# %%
#| into: aten/native/im2_col.py
#| imports
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.convolution import Geometry, _padded_first, _windows_first
from readtorch.c10.core.scalar_type import not_implemented
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/im2_col.py
#| upstream: aten/src/ATen/native/Im2Col.cpp#at::native::im2col_out_cpu_template
def _geometry(kernel_size: Sequence[int], dilation: Any, padding: Any, stride: Any) -> Geometry:
    for name, values in (
        ("kernel_size", kernel_size),
        ("dilation", dilation),
        ("padding", padding),
        ("stride", stride),
    ):
        _two(name, values)
    for name, values in (("kernel size", kernel_size), ("dilation", dilation), ("stride", stride)):
        if min(values) <= 0:
            raise RuntimeError(f"{name} should be greater than zero, but got {list(values)}")
    if min(padding) < 0:
        raise RuntimeError(f"padding should be non-negative, but got {list(padding)}")
    return Geometry(tuple(stride), tuple(padding), tuple(dilation))


def _two(name: str, values: Sequence[int]) -> None:
    if len(values) != 2:
        raise RuntimeError(f"{name} needs 2 numbers, one per dimension, not {len(values)}")


def _no_integers(name: str, x: Array) -> None:
    if x.dtype.kind in "iu":
        raise not_implemented(f"{name}_out_cpu", x.dtype)


@register("im2col", module="nn", node="Im2Col")
def im2col(
    self: Array, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Array:
    """`(N, C, H, W)` to `(N, C · kernel, places)`."""
    if not self.ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    if self.ndim < 3:
        maybe_wrap_dim(self.ndim, self.ndim)  # upstream looks for the image's rows
    geometry = _geometry(kernel_size, dilation, padding, stride)
    if self.ndim not in (3, 4):
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor, empty in no dimension but the batch, for input, "
            f"but got: {list(self.shape)}"
        )
    _no_integers("im2col", self)
    x = self if self.ndim == 4 else self[None]
    out = geometry.output_size(x.shape[2:], kernel_size)
    if min(out) < 1:
        raise RuntimeError(
            f"Given input with spatial size {list(x.shape[2:])}, kernel_size={list(kernel_size)}, "
            f"calculated shape of the array of sliding blocks as {list(out)}, but its components must be at least one."
        )
    windows = _windows_first(_padded_first(x, geometry), kernel_size, geometry, out)
    columns = np.ascontiguousarray(windows).reshape(len(x), x.shape[1] * math.prod(kernel_size), math.prod(out))
    return columns if self.ndim == 4 else columns[0]


# %%
#| into: aten/native/im2_col.py
#| upstream: aten/src/ATen/native/Col2Im.cpp#at::native::col2im_out_cpu_template
@register("col2im", module="nn", node="Col2Im")
def col2im(
    self: Array,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Array:
    """`(N, C · kernel, places)` added up to `(N, C, *output_size)`."""
    _two("output_size", output_size)
    geometry = _geometry(kernel_size, dilation, padding, stride)
    taps = math.prod(kernel_size)
    if self.ndim not in (2, 3) or 0 in self.shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, "
            f"but got: {list(self.shape)}"
        )
    columns = self if self.ndim == 3 else self[None]
    if columns.shape[1] % taps:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={columns.shape[1]} and kernel_size={list(kernel_size)}."
        )
    out = geometry.output_size(output_size, kernel_size)
    if columns.shape[2] != math.prod(out):
        raise RuntimeError(
            f"Given output_size={list(output_size)}, kernel_size={list(kernel_size)}, expected size of input's "
            f"dimension 2 to match the calculated number of sliding blocks {math.prod(out)}, "
            f"but got input.size(2)={columns.shape[2]}."
        )
    _no_integers("col2im", self)
    c = columns.shape[1] // taps
    blocks = columns.reshape(len(columns), c, *kernel_size, *out)
    padded = np.zeros((len(columns), c, *geometry.padded(output_size)), self.dtype)
    for offset in itertools.product(*map(range, kernel_size)):
        padded[(slice(None), slice(None), *geometry.tap(offset, out))] += blocks[(slice(None), slice(None), *offset)]
    image = np.ascontiguousarray(padded[(slice(None), slice(None), *geometry.interior(output_size))])
    return image if self.ndim == 3 else image[0]


def _fold(
    at: Any, grad: Any, self_shape: Sequence[int], kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Any:
    return at.col2im(grad, tuple(self_shape[-2:]), kernel_size, dilation, padding, stride)


derivative("im2col", self=_fold)
derivative(
    "col2im",
    self=lambda at, grad, kernel_size, dilation, padding, stride: at.im2col(
        grad, kernel_size, dilation, padding, stride
    ),
)

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import constant_pad_nd as constant_pad_nd
from readtorch.aten.native import pad_nd as pad_nd
from readtorch.aten.native import pixel_shuffle as pixel_shuffle
from readtorch.aten.native import chanel_shuffle as chanel_shuffle
from readtorch.aten.native import up_sample as up_sample
from readtorch.aten.native import im2_col as im2_col


# %%
#| claim: reflection padding does not repeat the edge, replication does
#| needs: a2_layers
def _(torch):
    x = torch.tensor([[1.0, 2.0, 3.0]])
    pad = torch.nn.functional.pad
    assert pad(x, (2, 1), mode="reflect").tolist() == [[3, 2, 1, 2, 3, 2]]
    assert pad(x, (2, 1), mode="replicate").tolist() == [[1, 1, 1, 2, 3, 3]]
    assert pad(x, (2, 1), mode="circular").tolist() == [[2, 3, 1, 2, 3, 1]]


# %%
#| claim: fold after unfold counts how often each place lies in a window
#| needs: a2_layers
def _(torch):
    F = torch.nn.functional
    x = torch.ones(1, 1, 3, 3)
    back = F.fold(F.unfold(x, 2), (3, 3), 2)
    assert back[0, 0].tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
