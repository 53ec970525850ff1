# Tangled from chapters/a1_operators/nn_2_pooling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, opaque, overloads, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array, Dims
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.aten.parallel import parallel_for
from readtorch.c10.core.scalar_type import not_implemented, to_string


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
