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
# # Pooling
#
# A window slides over the image; each output is the largest or the mean value under it. With kernel `K`, stride `s`, padding `p`,
# dilation `d`, an axis of `n` places gives `(n + 2p - d (K - 1) - 1) / s + 1`, rounded down, or up under `ceil_mode` (but no window may
# start in the padding behind).
#
# Both are separable: the maximum over a rectangle is the maximum over rows of the maxima over columns, and so is the sum. Pooling
# `K × K` takes `2 (K - 1)` passes of `np.maximum` over shrinking arrays instead of `K² - 1`.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: aten/native/pooling.py
#| imports
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, opaque, overloads, register, results_lie
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array, Dims
from readtorch.aten.parallel import parallel_for
from readtorch.c10.core.scalar_type import not_implemented, to_string


# %% [markdown]
# ## Geometry


# %%
#| into: aten/native/pooling.py
#| upstream: aten/src/ATen/native/Pool.h#at::native::pooling_output_shape
class Window(NamedTuple):
    """How a window slides over the last dimensions of an array; one entry per dimension."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool = False

    def output_size(self, size: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            _pooled(n, k, s, p, d, self.ceil_mode)
            for n, k, s, p, d in zip(size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        )

    def slices(self, axis: int, out: int) -> list[slice]:
        """For each kernel element of one axis: the padded places that it meets."""
        stride, step = self.stride[axis], self.dilation[axis]
        return [slice(k * step, k * step + stride * (out - 1) + 1, stride) for k in range(self.kernel[axis])]

    def region(self, place: Sequence[int]) -> tuple[slice, ...]:
        """The padded places that one output meets."""
        return tuple(
            slice(i * s, i * s + d * (k - 1) + 1, d)
            for i, k, s, d in zip(place, self.kernel, self.stride, self.dilation, strict=True)
        )

    def sides(self, size: Sequence[int]) -> list[tuple[int, int]]:
        """Padding (before, after) per axis; after may exceed `padding` where ceil_mode adds a window."""
        both = []
        for axis, (n, out) in enumerate(zip(size, self.output_size(size), strict=True)):
            end = (out - 1) * self.stride[axis] + self.dilation[axis] * (self.kernel[axis] - 1) + 1
            before = self.padding[axis]
            both.append((before, max(0, end - n - before)))
        return both


def _pooled(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    out = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
    return out - 1 if ceil_mode and (out - 1) * s >= n + p else out


def padded(x: Array, window: Window, value: Any) -> tuple[Array, Any]:
    """`x` surrounded by `value`, and where it lies in that; `x` itself if no window leaves it."""
    dims = len(window.kernel)
    size = x.shape[-dims:]
    sides = window.sides(size)
    inside = tuple(slice(before, before + n) for (before, _), n in zip(sides, size, strict=True))
    if not any(map(any, sides)):
        return x, (..., *inside)
    shape = (*x.shape[:-dims], *(before + n + after for (before, after), n in zip(sides, size, strict=True)))
    out: Array = np.full_like(x, value, shape=shape)
    out[(..., *inside)] = x
    return out, (..., *inside)


# %%
#| into: aten/native/pooling.py
def axis_slice(rank: int, axis: int, part: slice) -> tuple[slice, ...]:
    """An index that takes `part` of one axis and all of the others."""
    return (*(slice(None),) * (axis % rank), part)


def _over_windows(combine: np.ufunc, x: Array, window: Window, out: Sequence[int]) -> Array:
    """Reduce each window of the padded `x`, one axis after the other."""
    dims = len(window.kernel)
    for axis in range(dims):
        parts = [x[axis_slice(x.ndim, axis - dims, part)] for part in window.slices(axis, out[axis])]
        if len(parts) == 1:
            x = parts[0].copy(order="K")
        else:
            x = combine(parts[0], parts[1])
            for part in parts[2:]:
                combine(x, part, out=x)
    return x


# %% [markdown]
# ## Maximum
#
# Padding is minus infinity: it never wins. Backward needs to know which element won; storing indices in forward costs more than the
# maxima themselves, so backward finds the winners again by comparing each element with the maximum of its window. Among equals (after
# a ReLU: often) the first in reading order wins, as upstream. Upstream keeps the indices, and lets you write to the maxima; `remakes` says that here, too, backward can do without them: it pools once more where they were overwritten.
#
# NumPy walks over an image with a loop per row, and rows of pooled images are short: a dozen numbers, for which a loop has hardly begun. So backward turns a few hundred images at a time until the same place of all of them lies side by side. The copy costs less than the
# nine visits to each place that a window of 3 by 3 makes. Windows that tile the image visit it once, and stay in its order.


# %%
#| into: aten/native/pooling.py
def _lowest(dtype: Any) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -np.inf


def _window(kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Window:
    return Window(tuple(kernel_size), tuple(stride), tuple(padding), tuple(dilation), bool(ceil_mode))


@register("_max_pool", variants="", node="MaxPool2DWithIndices", remakes=True)
def _max_pool(
    x: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Array:
    """Maxima of the windows over the last `len(kernel_size)` dimensions."""
    window = _window(kernel_size, stride, padding, dilation, ceil_mode)
    dims = len(window.kernel)
    held, _ = padded(x, window, _lowest(x.dtype))
    return _over_windows(np.maximum, held, window, window.output_size(x.shape[-dims:]))


def may_hold_nan(y: Array) -> bool:
    """Is there a NaN, which equals nothing, not even itself?"""
    return bool(np.isnan(y).any())


# %%
#| into: aten/native/pooling.py
def _winners(x: Array, y: Array, window: Window) -> Any:
    """For each kernel element, in reading order: where it lies in `x` and which windows it wins: the first maximum, or the last NaN."""
    out = y.shape[-len(window.kernel) :]
    open_windows = np.ones_like(y, bool)
    elements = list(itertools.product(*(window.slices(axis, n) for axis, n in enumerate(out))))
    nans = _last_nans(x, elements) if y.dtype.kind in "fcV" and may_hold_nan(y) else []
    for parts in elements:
        wins = x[(..., *parts)] == y
        wins &= open_windows
        open_windows ^= wins
        if nans:
            wins |= nans.pop()
        yield parts, wins


def _last_nans(x: Array, elements: Sequence[Any]) -> list[Array]:
    """For each kernel element, from the last to the first: the windows in which it is NaN and none after it is."""
    found: list[Array] = []
    later: Any = False
    for parts in reversed(elements):
        nan = np.isnan(x[(..., *parts)])
        found.append(nan & ~np.asarray(later))
        later = later | nan
    return found


@register("_max_pool_backward", variants="", node="MaxPool2DWithIndicesBackward")
def _max_pool_backward(
    dy: Array,
    x: Array,
    y: Array | None,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Array:
    """Each output gradient, at the place of its window's maximum. `y` is made again where it is None."""
    window = _window(kernel_size, stride, padding, dilation, ceil_mode)
    if y is None:
        y = _max_pool(x, kernel_size, stride, padding, dilation, ceil_mode)
    dims = len(window.kernel)
    size, out = x.shape[-dims:], y.shape[-dims:]
    if window.kernel == window.stride and set(window.dilation) == {1} and _tiles(size, out, window):
        dx = np.empty(x.shape, dy.dtype)  # windows tile the image: each place is written exactly once
        for parts, wins in _winners(x, y, window):
            dx[(..., *parts)] = _kept(wins, dy)
        return dx
    planes = math.prod(x.shape[:-dims])
    in_planes = x.flags.c_contiguous and planes > 0
    images, tops, grads = (array.reshape(planes, *array.shape[-dims:]) if in_planes else array for array in (x, y, dy))
    turned = planes_innermost if in_planes else np.asarray
    dx = np.empty(images.shape, dy.dtype)

    def give_back(start: int, stop: int) -> None:
        held, inside = padded(turned(images[start:stop]), window, _lowest(x.dtype))
        grad, given = turned(grads[start:stop]), np.zeros_like(held, dy.dtype)
        for parts, wins in _winners(held, turned(tops[start:stop]), window):
            given[(..., *parts)] += _kept(wins, grad)
        dx[start:stop] = given[inside]

    parallel_for(0, len(images), planes_in_block(len(images), x.nbytes // max(len(images), 1)), give_back)
    return dx.reshape(x.shape)


def planes_in_block(count: int, bytes_each: int) -> int:
    """How many of `count` images are worked on at once: what stays in the processor's second cache."""
    return max(1, min(count, (1 << 19) // max(bytes_each, 1)))


def planes_innermost(images: Array) -> Array:
    """A copy in which the same place of all images lies side by side."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(images, 0, -1)), -1, 0)


def _kept(wins: Array, values: Array) -> Array:
    """The values that win, and zeros, by a mask of bits: a product would make NaN of zero times infinity."""
    mask = np.negative(wins.view(np.int8)).astype(f"i{values.itemsize}")
    return np.bitwise_and(mask, values.view(mask.dtype), out=mask).view(values.dtype)


def _tiles(size: Sequence[int], out: Sequence[int], window: Window) -> bool:
    return not any(window.padding) and all(n == o * k for n, o, k in zip(size, out, window.kernel, strict=True))


# %% [markdown]
# Indices count places of the unpadded image, flattened over the pooled dimensions. Two small operators move values along them, each
# the other's derivative.


# %%
#| into: aten/native/pooling.py
@register("_max_pool_indices", variants="")
def _max_pool_indices(
    x: Array,
    y: Array | None,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Array:
    """Where each maximum was: a number into the flattened last dimensions of `x`."""
    window = _window(kernel_size, stride, padding, dilation, ceil_mode)
    if y is None:
        y = _max_pool(x, kernel_size, stride, padding, dilation, ceil_mode)
    dims = len(window.kernel)
    size = x.shape[-dims:]
    held, _ = padded(x, window, _lowest(x.dtype))
    indices = np.zeros(y.shape, np.int64)
    for parts, wins in _winners(held, y, window):
        places = [np.arange(held.shape[axis - dims])[part] - window.padding[axis] for axis, part in enumerate(parts)]
        flat = reduce(lambda total, axis: np.add.outer(total * size[axis], places[axis]), range(dims), np.int64(0))
        np.copyto(indices, flat, where=wins)
    return indices


@register("_pool_scatter", variants="")
def _pool_scatter(dy: Array, indices: Array, input_shape: Sequence[int], dims: int) -> Array:
    """Add each `dy` to the place that its index names, in zeros of shape `input_shape`."""
    planes = math.prod(input_shape[:-dims])
    out = np.zeros((planes, math.prod(input_shape[-dims:])), dy.dtype)
    each = (planes, math.prod(dy.shape[dy.ndim - dims :]))
    np.add.at(out, (np.arange(planes)[:, None], indices.reshape(each)), dy.reshape(each))
    return out.reshape(tuple(input_shape))


@register("_pool_gather", variants="")
def _pool_gather(x: Array, indices: Array, dims: int) -> Array:
    """The values of `x` at `indices`."""
    planes = math.prod(x.shape[:-dims])
    values, places = (array.reshape(planes, math.prod(array.shape[array.ndim - dims :])) for array in (x, indices))
    flat = np.take_along_axis(values, places, 1)
    return flat.reshape(indices.shape)


derivative("_pool_scatter", dy=lambda at, grad, indices, dims: at._pool_gather(grad, indices, dims))
derivative("_pool_gather", x=lambda at, grad, indices, x_shape, dims: at._pool_scatter(grad, indices, x_shape, dims))
results_lie(in_suggested_format, "_max_pool", "_max_pool_indices")
derivative(
    "_max_pool",
    x=lambda at, grad, x, result, kernel_size, stride, padding, dilation, ceil_mode: at._max_pool_backward(
        grad, x, result, kernel_size, stride, padding, dilation, ceil_mode
    ),
)
opaque("_max_pool")
overloads("_max_pool", lambda given: f"MaxPool{max(len(given['kernel_size']), 2)}DWithIndicesBackward0")
derivative(
    "_max_pool_backward",
    dy=lambda at, grad, x, y, kernel_size, stride, padding, dilation, ceil_mode: at._pool_gather(
        grad, at._max_pool_indices(x, y, kernel_size, stride, padding, dilation, ceil_mode), len(kernel_size)
    ),
)

# %% [markdown]
# ## Arguments

# %%
#| into: aten/native/pooling.py
_NUMBERS = {1: "one int", 2: "two ints", 3: "three ints"}


def per_dimension(value: Any, dims: int, op: str, name: str) -> tuple[int, ...]:
    """One number per dimension. RuntimeError for a list of another length."""
    if not isinstance(value, Sequence):
        return (int(value),) * dims
    if len(value) == 1:
        return (int(value[0]),) * dims
    if len(value) != dims:
        raise RuntimeError(f"{op}: {name} must either be a single int, or a tuple of {_NUMBERS[dims]}")
    return tuple(map(int, value))


def _is_empty_list(value: Any) -> bool:
    return value is None or (isinstance(value, Sequence) and not len(value))


def checked_window(
    op: str, x: Any, dims: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Window:
    """The window that a pooling call describes. RuntimeError for what upstream refuses."""
    kernel = per_dimension(kernel_size, dims, op, "kernel_size")
    steps = kernel if _is_empty_list(stride) else per_dimension(stride, dims, op, "stride")
    window = Window(
        kernel,
        steps,
        per_dimension(padding, dims, op, "padding"),
        per_dimension(dilation, dims, op, "dilation"),
        bool(ceil_mode),
    )
    _check_window(op, window)
    _check_image(op, x, dims, window)
    return window


def _check_window(op: str, window: Window) -> None:
    if 0 in window.stride:
        raise RuntimeError("stride should not be zero")
    if min(window.stride) < 0:
        raise RuntimeError(f"stride should be greater than zero, but got {op} with stride={list(window.stride)}")
    if min(window.kernel) <= 0:
        raise RuntimeError(
            f"kernel size should be greater than zero, but got {op} with kernel_size={list(window.kernel)}"
        )
    if min(window.dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {op} with dilation={list(window.dilation)}")
    if min(window.padding) < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {min(window.padding)}")
    for k, p, d in zip(window.kernel, window.padding, window.dilation, strict=True):
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"{op}: pad should be at most half of effective kernel size, "
                f"but got pad={p}, where kernel_size={k}, dilation={d}"
            )


def _check_image(op: str, x: Any, dims: int, window: Window) -> None:
    shape = list(x.shape)
    batched = len(shape) == dims + 2
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(f"{op}: Expected {dims + 1}D or {dims + 2}D (batch mode) tensor for input, but got: {shape}")
    if 0 in shape[1 if batched else 0 :]:
        raise RuntimeError(
            f"Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with optional 0 dim batch size, no other dimension empty, "
            f"but got:{shape}"
        )
    out = window.output_size(shape[-dims:])
    if min(out) < 1:
        channels = shape[-dims - 1]
        given, made = ("x".join(map(str, (channels, *sizes))) for sizes in (shape[-dims:], out))
        raise RuntimeError(f"Given input size: ({given}). Calculated output size: ({made}). Output size is too small")


# %% [markdown]
# ## The max-pool operators


# %%
#| into: aten/native/pooling.py
#| upstream: aten/src/ATen/native/Pooling.cpp#at::native::max_pool2d
#| upstream: aten/src/ATen/native/Pooling.cpp#at::native::max_pool3d
@composite("max_pool1d")
def max_pool1d(
    at: Any,
    self: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,
    dilation: Dims = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest value of each window of `(N, C, L)` or `(C, L)`; NaN wins. RuntimeError where padding exceeds half the kernel."""
    window = checked_window("max_pool1d", self, 1, kernel_size, stride, padding, dilation, ceil_mode)
    if to_string(self.dtype) in ("Bool", "Byte", "Char", "Short", "Int", "Long"):
        raise not_implemented("max_pool1d_impl", self.dtype)
    return at._max_pool(self, *window)


@composite("max_pool2d")
def max_pool2d(
    at: Any,
    self: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,
    dilation: Dims = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest value of each window of `(N, C, H, W)` or `(C, H, W)`; NaN wins. RuntimeError where padding exceeds half the kernel."""
    return at._max_pool(self, *checked_window("max_pool2d", self, 2, kernel_size, stride, padding, dilation, ceil_mode))


@composite("max_pool3d")
def max_pool3d(
    at: Any,
    self: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,
    dilation: Dims = 1,
    ceil_mode: bool = False,
) -> Any:
    """The largest value of each window of `(N, C, D, H, W)` or `(C, D, H, W)`; NaN wins. RuntimeError where padding exceeds half the kernel."""
    return at._max_pool(self, *checked_window("max_pool3d", self, 3, kernel_size, stride, padding, dilation, ceil_mode))


# %%
#| into: aten/native/pooling.py
#| upstream: aten/src/ATen/native/DilatedMaxPool2d.cpp#at::native::max_pool2d_with_indices_out_cpu
#| upstream: aten/src/ATen/native/DilatedMaxPool3d.cpp#at::native::max_pool3d_with_indices_cpu
def _with_indices(at: Any, op: str, self: Any, dims: int, *arguments: Any) -> tuple[Any, Any]:
    window = checked_window(op, self, dims, *arguments)
    result = at._max_pool(self, *window)
    return result, at._max_pool_indices(self, result, *window)


@composite("max_pool1d_with_indices")
def max_pool1d_with_indices(
    at: Any,
    self: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,
    dilation: Dims = 1,
    ceil_mode: bool = False,
) -> Any:
    """`max_pool1d`, and where each maximum was, as a number into the flattened image."""
    return _with_indices(at, "max_pool1d", self, 1, kernel_size, stride, padding, dilation, ceil_mode)


@composite("max_pool2d_with_indices", module="nn")
def max_pool2d_with_indices(
    at: Any,
    self: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,
    dilation: Dims = 1,
    ceil_mode: bool = False,
) -> Any:
    """`max_pool2d`, and where each maximum was, as a number into the flattened image."""
    return _with_indices(at, "max_pool2d", self, 2, kernel_size, stride, padding, dilation, ceil_mode)


@composite("max_pool3d_with_indices", module="nn")
def max_pool3d_with_indices(
    at: Any,
    self: Array,
    kernel_size: Dims,
    stride: Dims | None = None,
    padding: Dims = 0,
    dilation: Dims = 1,
    ceil_mode: bool = False,
) -> Any:
    """`max_pool3d`, and where each maximum was, as a number into the flattened image."""
    return _with_indices(at, "max_pool3d", self, 3, kernel_size, stride, padding, dilation, ceil_mode)


# %% [markdown]
# Unpooling puts values back where the maxima came from. Where two windows shared a maximum the later value stays.

# %%
#| into: aten/native/max_unpooling.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register, results_lie
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array


# %%
#| into: aten/native/max_unpooling.py
#| upstream: aten/src/ATen/native/MaxUnpooling.cpp#at::native::max_unpooling2d_forward_cpu
def _put(x: Array, indices: Array, size: Sequence[int]) -> Array:
    leading = x.shape[: x.ndim - len(size)]
    for number, length in enumerate(size):
        if length < 0:
            raise ValueError(f"max_unpooling: output_size[{number}] is {length}; sizes must be non-negative")
    planes, places = math.prod(leading), math.prod(size)
    if indices.dtype != np.int64:
        raise RuntimeError("elements in indices should be type int64")
    if x.shape != indices.shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input, {list(x.shape)}, not {list(indices.shape)}"
        )
    if indices.size and not 0 <= indices.min() <= indices.max() < places:
        wrong = indices.max() if indices.max() >= places else indices.min()
        raise RuntimeError(
            f"Found an invalid max index: {wrong} (output volumes are of size {'x'.join(map(str, size))})"
        )
    out = np.zeros((planes, places), x.dtype)
    each = (planes, math.prod(x.shape[len(leading) :]))
    np.put_along_axis(out, indices.reshape(each), x.reshape(each), 1)
    return out.reshape(*leading, *size)


@register("max_unpool2d", module="nn", node="MaxUnpool2D")
def max_unpool2d(self: Array, indices: Array, output_size: Sequence[int]) -> Array:
    """Values of `self` at `indices` of a zero image of `output_size`."""
    return _put(self, indices, tuple(output_size))


@register("max_unpool3d", module="nn", node="MaxUnpool3D")
def max_unpool3d(
    self: Array, indices: Array, output_size: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Array:
    """Values of `self` at `indices` of a zero volume of `output_size`."""
    return _put(self, indices, tuple(output_size))


results_lie(in_suggested_format, "max_unpool2d")
derivative("max_unpool2d", self=lambda at, grad, indices, output_size: at._pool_gather(grad, indices, 2))
derivative("max_unpool3d", self=lambda at, grad, indices, output_size: at._pool_gather(grad, indices, 3))

# %% [markdown]
# ## Mean
#
# The sum over the window divided by its size. What the size is where the window leaves the image is a matter of arguments: all of it,
# what lies in the padded image (the last window under `ceil_mode` reaches beyond), what lies in the image
# (`count_include_pad=False`), or a given number.

# %%
#| into: aten/native/average_pool2d.py
#| imports
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
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array, Dims
from readtorch.aten.native.pooling import Window, _over_windows, checked_window, padded
from readtorch.c10.core.scalar_type import not_implemented, to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/average_pool2d.py
#| upstream: aten/src/ATen/native/native_functions.yaml#avg_pool2d
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


# %%
#| into: aten/native/average_pool2d.py
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


# %%
#| into: aten/native/average_pool2d.py
#| upstream: aten/src/ATen/native/AveragePool3d.cpp#at::native::avg_pool3d_out_frame
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


# %% [markdown]
# ## Adaptive
#
# Output place `i` of `m` averages the inputs from `floor(i n / m)` to `ceil((i + 1) n / m)`. Along one axis that is a small matrix
# `A (m, n)`: the operator is a product with `A` per axis, its derivative a product with `A` transposed. Where `m` divides `n` the
# windows tile the axis and a reshape does it.

# %%
#| into: aten/native/adaptive_average_pooling.py
#| imports
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
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array, Dims
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.scalar_type import not_implemented, to_string


# %%
#| into: aten/native/adaptive_average_pooling.py
#| upstream: aten/src/ATen/native/AdaptivePooling.h#at::native::start_index
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


# %%
#| into: aten/native/adaptive_average_pooling.py
#| upstream: aten/src/ATen/native/AdaptiveAveragePooling.cpp#at::native::adaptive_avg_pool2d_symint
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


# %% [markdown]
# The adaptive maximum has no such shortcut: each window is looked through.

# %%
#| into: aten/native/adaptive_max_pooling2d.py
#| imports
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, opaque, overloads, register, results_lie
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.core.dispatch.operator_entry import Array, Dims
from readtorch.aten.native.adaptive_average_pooling import adaptive_bounds, adaptive_output


# %%
#| into: aten/native/adaptive_max_pooling2d.py
#| upstream: aten/src/ATen/native/native_functions.yaml#adaptive_max_pool2d
@register("_windowed_max", variants="", outputs="result indices", differentiable_outputs=(0,), node="AdaptiveMaxPool2D")
def _windowed_max(self: Array, bounds: Sequence[Sequence[tuple[int, int]]]) -> tuple[Array, Array]:
    """Maxima, and where they were, of the windows that `bounds` gives per axis as (start, end)."""
    dims = len(bounds)
    leading, size = self.shape[:-dims], self.shape[-dims:]
    out = tuple(map(len, bounds))
    result: Array = np.empty((*leading, *out), self.dtype)
    indices: Array = np.empty((*leading, *out), np.int64)
    for place in itertools.product(*map(range, out)):
        spans = [bounds[axis][i] for axis, i in enumerate(place)]
        part = self[(..., *(slice(*span) for span in spans))]
        flat = part.reshape(*leading, math.prod(part.shape[len(leading) :]))
        winner = flat.argmax(-1)
        if flat.dtype.kind in "fV" and np.isnan(flat).any():  # the last NaN of a window wins
            nan = np.isnan(flat)
            winner = np.where(nan.any(-1), flat.shape[-1] - 1 - nan[..., ::-1].argmax(-1), winner)
        result[(..., *place)] = np.take_along_axis(flat, winner[..., None], -1)[..., 0]
        where = np.unravel_index(winner, part.shape[len(leading) :])
        indices[(..., *place)] = np.ravel_multi_index(
            tuple(w + span[0] for w, span in zip(where, spans, strict=True)), size
        )
    return result, indices


results_lie(in_suggested_format, "_windowed_max")
derivative(
    "_windowed_max",
    self=lambda at, grads, indices, self, bounds: at._pool_scatter(grads[0], indices, self.shape, len(bounds)),
)
opaque("_windowed_max")
overloads("_windowed_max", lambda given: f"AdaptiveMaxPool{max(len(given['bounds']), 2)}DBackward0")


def _adaptive_max(at: Any, op: str, self: Any, output_size: Any, dims: int) -> Any:
    size = adaptive_output(op, self, output_size, dims)
    return at._windowed_max(self, [adaptive_bounds(n, m) for n, m in zip(self.shape[-dims:], size, strict=True)])


@composite("adaptive_max_pool1d")
def adaptive_max_pool1d(at: Any, self: Array, output_size: Dims) -> Any:
    """Maxima over windows that divide the last dimension into `output_size` parts, and where they were."""
    return _adaptive_max(at, "adaptive_max_pool1d", self, output_size, 1)


@composite("adaptive_max_pool2d", module="nn")
def adaptive_max_pool2d(at: Any, self: Array, output_size: Dims) -> Any:
    """Maxima over windows that divide the last two dimensions into `output_size` parts, and where they were."""
    return _adaptive_max(at, "adaptive_max_pool2d", self, output_size, 2)


@composite("adaptive_max_pool3d", module="nn")
def adaptive_max_pool3d(at: Any, self: Array, output_size: Dims) -> Any:
    """Maxima over windows that divide the last three dimensions into `output_size` parts, and where they were."""
    return _adaptive_max(at, "adaptive_max_pool3d", self, output_size, 3)


# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import pooling as pooling
from readtorch.aten.native import max_unpooling as max_unpooling
from readtorch.aten.native import average_pool2d as average_pool2d
from readtorch.aten.native import adaptive_average_pooling as adaptive_average_pooling
from readtorch.aten.native import adaptive_max_pooling2d as adaptive_max_pooling2d


# %%
#| claim: among equal elements of a window the first in reading order gets the gradient
#| needs: a2_layers
def _(torch):
    x = torch.zeros(1, 1, 2, 2, requires_grad=True)
    torch.nn.functional.max_pool2d(x, 2).backward(torch.ones(1, 1, 1, 1))
    assert x.grad.flatten().tolist() == [1, 0, 0, 0]


# %%
#| needs: a2_layers
#| claim: an infinite gradient reaches the winner of its window and nobody else
def _(torch):
    x = torch.tensor([[[1.0, 3.0, 2.0, 0.0]]], requires_grad=True)
    for stride in (1, 2):
        (grad,) = torch.autograd.grad(torch.nn.functional.max_pool1d(x, 2, stride).sum() * float("inf"), x)
        assert grad.isnan().sum() == 0 and grad[0, 0, 1] == float("inf") and grad[0, 0, 0] == grad[0, 0, 3] == 0


# %%
#| claim: under ceil_mode a window never starts in the padding behind the image
#| needs: a2_layers
def _(torch):
    x = torch.ones(1, 1, 4)
    assert torch.nn.functional.max_pool1d(x, 2, stride=3, ceil_mode=True).shape[-1] == 2
    assert torch.nn.functional.max_pool1d(x, 1, stride=4, ceil_mode=True).shape[-1] == 1


# %%
#| claim: adaptive windows may overlap
#| needs: a2_layers
def _(torch):
    x = torch.tensor([[[1.0, 2.0, 3.0]]])
    assert torch.nn.functional.adaptive_avg_pool1d(x, 2).tolist() == [[[1.5, 2.5]]]
