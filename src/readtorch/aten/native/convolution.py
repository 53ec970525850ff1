# Tangled from chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, opaque, register
from readtorch.aten.core.dispatch.operator_entry import Array, Dims
from readtorch.aten.native.unary_ops import is_complex
from readtorch.aten.op_math_type import in_working_precision
from readtorch.aten.parallel import get_num_threads, parallel_for
from readtorch.c10.core.dispatch_key import meta_like
from readtorch.c10.core.scalar_type import cpp_type, not_implemented, to_string
from readtorch.c10.core.wrap_dim_minimal import as_dim


class Geometry(NamedTuple):
    """How a kernel slides: one entry per spatial dimension."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def output_size(self, size: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        """Spatial sizes of the output for an input of `size`."""
        return tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(size, kernel, self.stride, self.padding, self.dilation, strict=True)
        )

    def transposed_size(self, size: Sequence[int], kernel: Sequence[int], extra: Sequence[int]) -> tuple[int, ...]:
        """Spatial sizes of a transposed convolution's output; `extra` is its output padding."""
        return tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + e + 1
            for n, k, s, p, d, e in zip(size, kernel, self.stride, self.padding, self.dilation, extra, strict=True)
        )

    def padded(self, size: Sequence[int]) -> tuple[int, ...]:
        return tuple(n + 2 * p for n, p in zip(size, self.padding, strict=True))

    def interior(self, size: Sequence[int]) -> tuple[slice, ...]:
        """Where the input lies inside its padded copy."""
        return tuple(slice(p, p + n) for n, p in zip(size, self.padding, strict=True))

    def tap(self, offset: Sequence[int], out: Sequence[int]) -> tuple[slice, ...]:
        """The padded inputs that kernel element `offset` meets over all `out` output places."""
        return tuple(
            slice(k * d, k * d + s * (n - 1) + 1, s)
            for k, d, s, n in zip(offset, self.dilation, self.stride, out, strict=True)
        )


def is_channels_last(array: Array) -> bool:
    """Are the channels (dimension 1) of this image batch contiguous in memory, and not also the plain order?"""
    return array.ndim > 3 and not array.flags.c_contiguous and np.moveaxis(array, 1, -1).flags.c_contiguous


_held = threading.local()
_HELD_MOST = 1 << 25  # larger buffers are not kept between calls


def _buffer(name: str, shape: Sequence[int], dtype: Any) -> Array:
    """Uninitialised memory that the next call from this thread will get again."""
    count = math.prod(shape) * dtype.itemsize
    held = getattr(_held, name, None)
    if held is None or held.nbytes < count:
        held = np.empty(count, np.uint8)
        if count <= _HELD_MOST:
            setattr(_held, name, held)
    return held[:count].view(dtype).reshape(shape)


_PAGE = 4096
_WAYS = 8
_BLOCK = 1 << 20
"""Bytes. What is less is done by one thread, and what is more piece by piece."""


def copy_transposed(target: Array, source: Array) -> None:
    """`target[...] = source`, where the last dimension is contiguous in `target` and far apart in `source`."""
    channels = source.shape[-1]
    step = _WAYS if channels > _WAYS and source.strides[-1] % _PAGE == 0 else max(channels, 1)

    def copy(start: int, stop: int) -> None:
        for first in range(0, channels, step):
            target[start:stop, ..., first : first + step] = source[start:stop, ..., first : first + step]

    parallel_for(0, len(source), max(1, len(source) * _BLOCK // max(source.nbytes, 1)), copy)


def _in_plain_order(source: Array) -> Array:
    """The array itself, or a copy of it, in C's order. Threads share the copying, as of weights it is megabytes."""
    if source.flags.c_contiguous:
        return source
    out = np.empty(source.shape, source.dtype)
    copy_transposed(out, source)
    return out


def _padded_last(x: Array, geometry: Geometry) -> Array:
    """`x (N, C, *size)` as `(N, *padded, C)` in contiguous memory that the next call will overwrite."""
    last = np.moveaxis(x, 1, -1)
    if not any(geometry.padding):
        return last if last.flags.c_contiguous else as_channels_last(x)
    n, c, *size = x.shape
    padded = _buffer("padded", (n, *geometry.padded(size), c), x.dtype)

    def clear_borders(start: int, stop: int) -> None:
        for axis, p in enumerate(geometry.padding, 1):
            if p:
                before: tuple[slice, ...] = (slice(start, stop), *(slice(None),) * (axis - 1))
                padded[(*before, slice(p))] = 0
                padded[(*before, slice(-p, None))] = 0

    parallel_for(0, n, max(1, n * _BLOCK // max(padded.nbytes, 1)), clear_borders)
    copy_transposed(padded[(slice(None), *geometry.interior(size))], last)
    return padded


def as_channels_last(x: Array) -> Array:
    """`x (N, C, *size)` copied to `(N, *size, C)`."""
    last = np.moveaxis(x, 1, -1)
    out = np.empty(last.shape, x.dtype)
    copy_transposed(out, last)
    return out


def _padded_first(x: Array, geometry: Geometry) -> Array:
    if not any(geometry.padding):
        return x
    n, c, *size = x.shape
    padded = np.zeros((n, c, *geometry.padded(size)), x.dtype)
    padded[(slice(None), slice(None), *geometry.interior(size))] = x
    return padded


def _windows_last(padded: Array, kernel: Sequence[int], geometry: Geometry, out: Sequence[int]) -> Array:
    """`(N, *padded, C)` seen as `(N, *out, *kernel, C)`."""
    outer, *spatial, inner = padded.strides
    steps = [b * s for b, s in zip(spatial, geometry.stride, strict=True)]
    taps = [b * d for b, d in zip(spatial, geometry.dilation, strict=True)]
    return as_strided(padded, (len(padded), *out, *kernel, padded.shape[-1]), (outer, *steps, *taps, inner))


def _windows_first(padded: Array, kernel: Sequence[int], geometry: Geometry, out: Sequence[int]) -> Array:
    """`(N, C, *padded)` seen as `(N, C, *kernel, *out)`."""
    outer, inner, *spatial = padded.strides
    steps = [b * s for b, s in zip(spatial, geometry.stride, strict=True)]
    taps = [b * d for b, d in zip(spatial, geometry.dilation, strict=True)]
    return as_strided(padded, (*padded.shape[:2], *kernel, *out), (outer, inner, *taps, *steps))


def _blocks(images: int, rows: int, row_bytes: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Cut a batch of images of `rows` rows each into (images, rows) of at most `most` bytes, or a single row."""
    per_image = max(rows * row_bytes, 1)
    if per_image <= most or rows <= 1:
        step = max(1, most // per_image)
        for first in range(0, images, step):
            yield slice(first, min(images, first + step)), slice(0, rows)
        return
    pieces = math.ceil(rows / max(1, most // row_bytes))
    step = math.ceil(rows / pieces)
    for image in range(images):
        for first in range(0, rows, step):
            yield slice(image, image + 1), slice(first, min(rows, first + step))


def _row_blocks(images: int, rows: int, row_bytes: int, weight_bytes: int) -> list[tuple[slice, slice]]:
    """Blocks large enough for the weights, and if possible one for each thread."""
    share = images * rows * row_bytes // get_num_threads()
    return list(_blocks(images, rows, row_bytes, max(_BLOCK, min(4 * weight_bytes, share))))


def _im2row(windows: Array, blocks: Sequence[tuple[slice, slice]]) -> Iterator[tuple[slice, slice, Array]]:
    """Blocks of `windows (N, *out, *kernel, C)` as matrices `(places, kernel · C)`, each valid until the next."""
    dims = (windows.ndim - 2) // 2
    length = math.prod(windows.shape[1 + dims :])
    for images, rows in blocks:
        part = windows[images, rows]
        if not part.flags.c_contiguous:
            columns = _buffer("columns", part.shape, part.dtype)
            np.copyto(columns, part)
            part = columns
        yield images, rows, part.reshape(-1, length)


def _column_blocks(windows: Array) -> list[tuple[slice, slice]]:
    """Blocks for `_im2col`, none of them of more than one image."""
    dims = (windows.ndim - 2) // 2
    rows = windows.shape[2 + dims]
    row_bytes = math.prod(windows.shape[1 : 2 + dims]) * math.prod(windows.shape[3 + dims :]) * windows.dtype.itemsize
    return list(_blocks(len(windows), rows, row_bytes, min(_BLOCK, max(rows * row_bytes, 1))))


def _im2col(windows: Array, blocks: Sequence[tuple[slice, slice]]) -> Iterator[tuple[int, slice, Array]]:
    """Blocks of `windows (N, C, *kernel, *out)` as matrices `(C · kernel, places)` within one image."""
    dims = (windows.ndim - 2) // 2
    rest = windows.shape[3 + dims :]
    length = math.prod(windows.shape[1 : 2 + dims])
    for images, part in blocks:
        view = windows[images.start][(*(slice(None),) * (1 + dims), part)]
        if not view.flags.c_contiguous:
            columns = _buffer("columns", view.shape, view.dtype)
            np.copyto(columns, view)
            view = columns
        inner = math.prod(rest)
        yield images.start, slice(part.start * inner, part.stop * inner), view.reshape(length, -1)


def _few_channels(x: Array, kernel: Sequence[int]) -> bool:
    """Columns from planes rather than rows from channels? Measured from 1 to 512 channels, sizes 4 to 32."""
    return x.shape[1] <= 4 or (math.prod(kernel) == 1 and math.prod(x.shape[2:]) >= 64 and not is_channels_last(x))


def _forward(x: Array, weight: Array, geometry: Geometry, channels_last: bool) -> Array:
    kernel = weight.shape[2:]
    out = geometry.output_size(x.shape[2:], kernel)
    if _few_channels(x, kernel) and not channels_last:
        return _forward_first(x, weight, geometry, out)
    n, o = len(x), len(weight)
    windows = _windows_last(_padded_last(x, geometry), kernel, geometry, out)
    matrix = _as_matrix(weight)
    y = np.empty((n, *out, o) if channels_last else (n, o, *out), x.dtype)
    last = y if channels_last else np.moveaxis(y, 1, -1)
    row_bytes = math.prod(windows.shape[2:]) * windows.dtype.itemsize
    blocks = _row_blocks(n, windows.shape[1], row_bytes, weight.nbytes)

    def multiply(start: int, stop: int) -> None:
        for images, rows, block in _im2row(windows, blocks[start:stop]):
            target = last[images, rows]
            if channels_last:
                np.matmul(block, matrix, out=target.reshape(-1, o))
            else:
                product = _buffer("product", (len(block), o), x.dtype)
                np.matmul(block, matrix, out=product)
                target[...] = product.reshape(target.shape)

    parallel_for(0, len(blocks), 1, multiply)
    return np.moveaxis(y, -1, 1) if channels_last else y


def _as_matrix(weight: Array) -> Array:
    """`(O, C, *kernel)` as `(kernel · C, O)`, stored in that order where it is small or `O` lies closer together than `C`: turned weights."""
    last = np.moveaxis(weight, 1, -1)
    if weight.size <= 1 << 18 or weight.strides[0] < weight.strides[1]:
        return _in_plain_order(np.moveaxis(last, 0, -1)).reshape(-1, len(weight))
    return _in_plain_order(last).reshape(len(weight), -1).T


def _forward_first(x: Array, weight: Array, geometry: Geometry, out: Sequence[int]) -> Array:
    windows = _windows_first(_padded_first(x, geometry), weight.shape[2:], geometry, out)
    matrix = np.ascontiguousarray(weight).reshape(len(weight), math.prod(weight.shape[1:]))
    y = np.empty((len(x), len(weight), math.prod(out)), x.dtype)
    blocks = _column_blocks(windows)

    def multiply(start: int, stop: int) -> None:
        for image, places, columns in _im2col(windows, blocks[start:stop]):
            np.matmul(matrix, columns, out=y[image][:, places])

    parallel_for(0, len(blocks), 1, multiply)
    return y.reshape(len(x), len(weight), *out)


def _weight_gradient(dy: Array, x: Array, kernel: Sequence[int], geometry: Geometry) -> Array:
    o, c, out = dy.shape[1], x.shape[1], dy.shape[2:]
    if _few_channels(x, kernel):
        windows = _windows_first(_padded_first(x, geometry), kernel, geometry, out)
        planes = np.ascontiguousarray(dy).reshape(len(dy), o, math.prod(out))
        columns_of = _column_blocks(windows)

        def by_columns(start: int, stop: int) -> Iterator[tuple[Array, Array]]:
            for image, places, columns in _im2col(windows, columns_of[start:stop]):
                yield planes[image][:, places], columns.T

        return _summed(len(columns_of), by_columns, (o, c * math.prod(kernel)), x.dtype).reshape(o, c, *kernel)
    windows = _windows_last(_padded_last(x, geometry), kernel, geometry, out)
    last = np.moveaxis(dy, 1, -1)
    if not last.flags.c_contiguous:
        last = as_channels_last(dy)
    size = o * c * math.prod(kernel)
    row_bytes = math.prod(windows.shape[2:]) * windows.dtype.itemsize
    blocks = _row_blocks(len(windows), windows.shape[1], row_bytes, size * x.dtype.itemsize)

    def by_rows(start: int, stop: int) -> Iterator[tuple[Array, Array]]:
        for images, rows, block in _im2row(windows, blocks[start:stop]):
            yield last[images, rows].reshape(-1, o).T, block

    total = _summed(len(blocks), by_rows, (o, size // max(o, 1)), x.dtype)
    return _in_plain_order(np.moveaxis(total.reshape(o, *kernel, c), -1, 1))


def _summed(
    count: int, pairs: Callable[[int, int], Iterator[tuple[Array, Array]]], shape: tuple[int, ...], dtype: Any
) -> Array:
    """The sum of the matrix products of `count` pairs; `pairs(start, stop)` makes some of them."""
    share = max(1, -(-count // get_num_threads()))
    sums: list[Array] = [np.zeros(shape, dtype)] * -(-count // share)

    def add_up(start: int, stop: int) -> None:
        total = part = None
        for left, right in pairs(start, stop):
            if total is None:
                total = left @ right
            else:
                part = np.empty(shape, dtype) if part is None else part
                total += np.matmul(left, right, out=part)
        sums[start // share] = total

    parallel_for(0, count, share, add_up)
    if not sums:
        return np.zeros(shape, dtype)
    for other in sums[1:]:
        sums[0] += other
    return sums[0]


def _input_gradient(dy: Array, weight: Array, size: Sequence[int], geometry: Geometry, channels_last: bool) -> Array:
    kernel = weight.shape[2:]
    reach = tuple(d * (k - 1) - p for d, k, p in zip(geometry.dilation, kernel, geometry.padding, strict=True))
    if min(reach) >= 0 and set(geometry.stride) == {1} and _gathering_is_faster(weight, size, dy.shape[2:]):
        flipped = np.flip(weight, tuple(range(2, weight.ndim))).swapaxes(0, 1)
        return _forward(dy, flipped, Geometry(geometry.stride, reach, geometry.dilation), channels_last)
    return _scatter(dy, weight, size, geometry, channels_last)


def _gathering_is_faster(weight: Array, size: Sequence[int], out: Sequence[int]) -> bool:
    """Compare estimates in ns for one image: 50 multiply-adds, 5 copied or about 1 added number per ns."""
    o, c = weight.shape[:2]
    taps = math.prod(weight.shape[2:])
    gather = math.prod(size) * taps * o * (c / 50 + 0.21) + weight.size / 15
    scatter = math.prod(out) * taps * c * (o / 50 + (0.8 if c >= 32 else 2.5))
    return gather <= scatter


def _scatter(dy: Array, weight: Array, size: Sequence[int], geometry: Geometry, channels_last: bool) -> Array:
    (n, o), out, c, kernel = dy.shape[:2], dy.shape[2:], weight.shape[1], weight.shape[2:]
    last = np.moveaxis(dy, 1, -1)
    if not last.flags.c_contiguous:
        last = as_channels_last(dy)
    matrix = _in_plain_order(np.moveaxis(weight, 1, -1)).reshape(o, -1)
    padded = np.zeros((n, *geometry.padded(size), c), dy.dtype)
    row_bytes = math.prod(out[1:]) * matrix.shape[1] * dy.dtype.itemsize
    blocks = _row_blocks(n, out[0], row_bytes, weight.nbytes)

    def scatter(start: int, stop: int) -> None:
        for images, rows in blocks[start:stop]:
            part = last[images, rows]
            columns = _buffer("columns", (*part.shape[:-1], *kernel, c), dy.dtype)
            np.matmul(part.reshape(-1, o), matrix, out=columns.reshape(-1, matrix.shape[1]))
            first = rows.start * geometry.stride[0]
            for offset in itertools.product(*map(range, kernel)):
                where = geometry.tap(offset, part.shape[1:-1])
                where = (slice(where[0].start + first, where[0].stop + first, where[0].step), *where[1:])
                padded[(images, *where)] += columns[(*(slice(None),) * (1 + len(out)), *offset)]

    whole_images = all(rows.stop - rows.start == out[0] for _, rows in blocks)
    parallel_for(0, len(blocks), 1 if whole_images else max(len(blocks), 1), scatter)
    dx = np.moveaxis(padded[(slice(None), *geometry.interior(size))], -1, 1)
    return dx if channels_last else _in_plain_order(dx)


def _group(array: Array, axis: int, groups: int, number: int) -> Array:
    width = array.shape[axis] // groups
    return array[(*(slice(None),) * axis, slice(number * width, (number + 1) * width))]


def _wants_channels_last(*arrays: Array) -> bool:
    return any(is_channels_last(array) for array in arrays)


@register("convolution", autocast="low")
def convolution(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Array:
    """Convolution, or its transpose, of `(N, C, *size)`; every other argument has one entry per dimension of `size`."""
    for other in (weight, bias):
        if other is not None and other.dtype is not input.dtype and other.dtype != input.dtype:
            raise RuntimeError(f"expected scalar type {to_string(input.dtype)} but found {to_string(other.dtype)}")
    geometry = Geometry(tuple(stride), tuple(padding), tuple(dilation))
    x, weight = in_working_precision(input), in_working_precision(weight)
    if transposed:
        size = geometry.transposed_size(input.shape[2:], weight.shape[2:], output_padding)
        y = _conv_input(x, weight, (len(input), weight.shape[1] * groups, *size), stride, padding, dilation, groups)
    else:
        y = _convolve(x, weight, geometry, groups, _wants_channels_last(input, weight))
    if bias is not None:
        y += bias.reshape(-1, *(1,) * (input.ndim - 2))
    return y.astype(input.dtype, copy=False)


def _convolve(x: Array, weight: Array, geometry: Geometry, groups: int, channels_last: bool) -> Array:
    if groups == 1:
        return _forward(x, weight, geometry, channels_last)
    if _are_narrow(weight.shape, groups):
        y = _grouped_forward(_in_planes(x), weight, geometry, groups)
        return np.moveaxis(as_channels_last(y), -1, 1) if channels_last else y
    parts = [
        _forward(_group(x, 1, groups, i), _group(weight, 0, groups, i), geometry, channels_last) for i in range(groups)
    ]
    return _joined(parts, channels_last)


def _joined(parts: list[Array], channels_last: bool) -> Array:
    if not channels_last:
        return np.concatenate(parts, 1)
    return np.moveaxis(np.concatenate([np.moveaxis(part, 1, -1) for part in parts], -1), -1, 1)


@register("_conv_input", variants="", node="Convolution")
def _conv_input(
    dy: Array,
    weight: Array,
    input_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    channels_last: bool | None = None,
) -> Array:
    """The gradient `(N, C, *size)` with respect to the input, given the output's; stored like it unless told otherwise."""
    geometry, size = Geometry(tuple(stride), tuple(padding), tuple(dilation)), tuple(input_shape[2:])
    channels_last = _wants_channels_last(dy, weight) if channels_last is None else channels_last
    d, w = in_working_precision(dy), in_working_precision(weight)
    if groups == 1:
        dx = _input_gradient(d, w, size, geometry, channels_last)
    elif _are_narrow(w.shape, groups):
        dx = _grouped_input_gradient(_in_planes(d), w, size, geometry, groups)
        dx = np.moveaxis(as_channels_last(dx), -1, 1) if channels_last else dx
    else:
        pieces = ((_group(d, 1, groups, i), _group(w, 0, groups, i)) for i in range(groups))
        dx = _joined([_input_gradient(*piece, size, geometry, channels_last) for piece in pieces], channels_last)
    return dx.astype(dy.dtype, copy=False)


@register("_conv_weight", variants="", node="Convolution")
def _conv_weight(
    dy: Array,
    x: Array,
    weight_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """The gradient `(O, C / groups, *kernel)` with respect to the weights, given the output's."""
    geometry, kernel = Geometry(tuple(stride), tuple(padding), tuple(dilation)), tuple(weight_shape[2:])
    d, a = in_working_precision(dy), in_working_precision(x)
    if groups == 1:
        dw = _weight_gradient(d, a, kernel, geometry)
    elif _are_narrow(weight_shape, groups):
        dw = _grouped_weight_gradient(_in_planes(d), _in_planes(a), weight_shape, geometry, groups)
    else:
        pieces = ((_group(d, 1, groups, i), _group(a, 1, groups, i)) for i in range(groups))
        dw = np.concatenate([_weight_gradient(*piece, kernel, geometry) for piece in pieces])
    return dw.astype(dy.dtype, copy=False)


def _convolution_gradients(
    at: Any,
    grad: Any,
    input: Any,
    weight: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
    mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    if is_complex(grad):
        input, weight = at.conj(input), at.conj(weight)
    slide = (stride, padding, dilation)
    over_places = (0, *range(2, len(grad.shape)))
    bias = at.sum(grad, over_places) if mask[2] else None
    if transposed:
        none = (0,) * len(stride)
        dx = at.convolution(grad, weight, None, *slide, False, none, groups) if mask[0] else None
        return dx, at._conv_weight(input, grad, weight.shape, *slide, groups) if mask[1] else None, bias
    plain = grad.__class__ is np.ndarray and not _wants_channels_last(grad, weight)
    if plain and mask[0] and mask[1] and groups == 1 and not _few_channels(input, weight.shape[2:]):
        grad = np.moveaxis(as_channels_last(grad), -1, 1)
    dx = at._conv_input(grad, weight, input.shape, *slide, groups, False if plain else None) if mask[0] else None
    return dx, at._conv_weight(grad, input, weight.shape, *slide, groups) if mask[1] else None, bias


@register("convolution", key="Meta")
def _convolution_on_meta(
    input: Array, weight: Array, bias: Array | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Array:  # fmt: skip
    geometry = Geometry(tuple(stride), tuple(padding), tuple(dilation))
    if transposed:
        size = geometry.transposed_size(input.shape[2:], weight.shape[2:], output_padding)
        return meta_like(input, (len(input), weight.shape[1] * groups, *size))
    return meta_like(input, (len(input), len(weight), *geometry.output_size(input.shape[2:], weight.shape[2:])))


register("_conv_input", key="Meta")(lambda dy, weight, input_shape, *slide: meta_like(dy, tuple(input_shape)))
register("_conv_weight", key="Meta")(lambda dy, x, weight_shape, *slide: meta_like(dy, tuple(weight_shape)))
derivative("convolution", {"input, weight, bias": _convolution_gradients})
opaque("convolution", zero=False)
derivative(
    "_conv_input",
    dy=lambda at, grad, weight, stride, padding, dilation, groups: at.convolution(
        grad, weight, None, stride, padding, dilation, False, (0,) * len(stride), groups
    ),
    weight=lambda at, grad, dy, weight_shape, stride, padding, dilation, groups: at._conv_weight(
        dy, grad, weight_shape, stride, padding, dilation, groups
    ),
)
derivative(
    "_conv_weight",
    dy=lambda at, grad, x, stride, padding, dilation, groups: at.convolution(
        x, grad, None, stride, padding, dilation, False, (0,) * len(stride), groups
    ),
    x=lambda at, grad, dy, x_shape, stride, padding, dilation, groups: at._conv_input(
        dy, grad, x_shape, stride, padding, dilation, groups
    ),
)


def _per_dimension(value: Any, dims: int, name: str) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, Sequence) else (value,)
    values = tuple(number if number.__class__ is int else as_dim(number, name) for number in values)
    if len(values) == 1:
        return values * dims
    if len(values) != dims:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {dims} values to match the convolution "
            f"dimensions, but got {name}={list(values)}"
        )
    return values


def _check(input: Any, weight: Any, bias: Any, geometry: Geometry, groups: int, transposed: bool, op: str) -> None:
    dims = len(geometry.stride)
    _check_numbers(geometry, groups)
    kind = to_string(input.dtype)
    if kind in _SMALL_INTEGERS and (transposed or max(geometry.dilation) > 1):
        kernel = f"slow_conv_transpose{max(dims, 2)}d_out_cpu" if transposed else "slow_conv_dilated<>"
        raise not_implemented(kernel, input.dtype)
    if bias is not None and bias.dtype != input.dtype:
        ours, theirs = cpp_type(input.dtype), cpp_type(bias.dtype)
        raise RuntimeError(f"Input type ({ours}) and bias type ({theirs}) should be the same")
    if weight.dtype != input.dtype and to_string(input.dtype) != "Bool":
        raise RuntimeError(f"expected scalar type {to_string(input.dtype)} but found {to_string(weight.dtype)}")
    shape, size = list(weight.shape), list(input.shape)
    if len(shape) != dims + 2:
        raise RuntimeError(f"{op}: expected a {dims + 2}-dimensional weight, but got weight of size {shape}")
    if shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{shape}] instead"
        )
    inputs, outputs = (shape[0], shape[1] * groups) if transposed else (shape[1] * groups, shape[0])
    if size[1] != inputs:
        given = "transposed=1" if transposed else f"groups={groups}"
        raise RuntimeError(
            f"Given {given}, weight of size {shape}, expected input{size} to have {inputs} channels, "
            f"but got {size[1]} channels instead"
        )
    if to_string(input.dtype) == "Bool":
        raise not_implemented(f"slow_{op}_cpu", input.dtype)
    if bias is not None and list(bias.shape) != [outputs]:
        raise RuntimeError(
            f"Given weight of size {shape}, expected bias to be 1-dimensional with {outputs} elements, "
            f"but got bias of size {list(bias.shape)} instead"
        )
    if 0 in shape[2:] or (0 in shape and not transposed):
        raise RuntimeError(f"kernel size should be greater than zero, but got weight of size {shape}")
    if 0 in size[2:]:
        raise RuntimeError(f"Only zero batch or zero channel inputs are supported, but got input shape: {size}")
    if not transposed:
        _check_kernel_fits(size[2:], shape[2:], geometry)


_SMALL_INTEGERS = frozenset(["Byte", "Char", "Short", "Int"])


def _check_numbers(geometry: Geometry, groups: int) -> None:
    if min(geometry.padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(geometry.stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(geometry.dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(geometry.dilation)}")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")


def _check_kernel_fits(size: Sequence[int], kernel: Sequence[int], geometry: Geometry) -> None:
    padded = geometry.padded(size)
    reach = [d * (k - 1) + 1 for d, k in zip(geometry.dilation, kernel, strict=True)]
    if any(r > n for r, n in zip(reach, padded, strict=True)):
        have, need = (" x ".join(map(str, sizes)) for sizes in (padded, reach))
        raise RuntimeError(
            f"Calculated padded input size per channel: ({have}). Kernel size: ({need}). "
            "Kernel size can't be greater than actual input size"
        )


def _slide(
    at: Any,
    op: str,
    dims: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """The body of conv1d, conv2d and conv3d."""
    x, batched = _batched(at, input, dims, op)
    stride = _per_dimension(stride, dims, "stride")
    dilation = _per_dimension(dilation, dims, "dilation")
    if isinstance(padding, str):
        x, padding = _resolve_padding(at, padding, x, weight.shape[2:], stride, dilation)
    padding = _per_dimension(padding, dims, "padding")
    _check(x, weight, bias, Geometry(stride, padding, dilation), groups, False, op)
    y = at.convolution(x, weight, bias, stride, padding, dilation, False, (0,) * dims, groups)
    return y if batched else at.squeeze(y, 0)


def _batched(at: Any, input: Any, dims: int, op: str) -> tuple[Any, bool]:
    rank = len(input.shape)
    if rank not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {op}, "
            f"but got input of size: {list(input.shape)}"
        )
    return (input, True) if rank == dims + 2 else (at.unsqueeze(input, 0), False)


def _resolve_padding(
    at: Any, word: str, x: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[Any, tuple[int, ...]]:
    """The number of zeros on both sides; odd ones are added to the input here."""
    if len(kernel) != len(stride):
        rank = len(kernel) + 2
        raise RuntimeError(
            f"Expected {rank}-dimensional input for {rank}-dimensional weight, but got {len(x.shape)}-dimensional input"
        )
    if word == "valid":
        return x, (0,) * len(kernel)
    if word != "same":
        raise RuntimeError(f"Invalid padding string: '{word}'")
    if any(step != 1 for step in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    if any(t % 2 for t in total):
        behind = [side for t in reversed(total) for side in (0, t % 2)]
        x = at.constant_pad_nd(x, behind, 0)
    return x, tuple(t // 2 for t in total)


@composite("conv1d")
def conv1d(
    at: Any,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Dims = 1,
    padding: Any = 0,
    dilation: Dims = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation of `(N, C, L)` or `(C, L)` with `weight (O, C / groups, K)`.

    `padding` is a number, "same" or "valid". RuntimeError where channels, dtypes or sizes do not fit.
    """
    return _slide(at, "conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@composite("conv2d")
def conv2d(
    at: Any,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Dims = 1,
    padding: Any = 0,
    dilation: Dims = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation of `(N, C, H, W)` or `(C, H, W)` with `weight (O, C / groups, K, L)`; the rest as `conv1d`."""
    return _slide(at, "conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@composite("conv3d")
def conv3d(
    at: Any,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Dims = 1,
    padding: Any = 0,
    dilation: Dims = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation of `(N, C, D, H, W)` or `(C, D, H, W)` with `weight (O, C / groups, J, K, L)`; the rest as `conv1d`."""
    return _slide(at, "conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _slide_back(
    at: Any,
    op: str,
    dims: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    """The body of the three transposed convolutions."""
    x, batched = _batched(at, input, dims, op)
    stride = _per_dimension(stride, dims, "stride")
    dilation = _per_dimension(dilation, dims, "dilation")
    padding = _per_dimension(padding, dims, "padding")
    extra = _per_dimension(output_padding, dims, "output_padding")
    _check(x, weight, bias, Geometry(stride, padding, dilation), groups, True, op)
    if any(e < 0 for e in extra):
        raise RuntimeError("negative output_padding is not supported")
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, "
            f"but got output_padding: {list(extra)} stride: {list(stride)} dilation: {list(dilation)}"
        )
    if any(padding):
        sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, extra, strict=True)
        made = [(n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, k, s, p, d, e in sizes]
        if min(made) < 1:
            had, got = (" x ".join(map(str, each)) for each in (x.shape[2:], made))
            raise RuntimeError(
                f"Given input size per channel: ({had}). Calculated output size per channel: ({got}). Output size is too small"
            )
    y = at.convolution(x, weight, bias, stride, padding, dilation, True, extra, groups)
    return y if batched else at.squeeze(y, 0)


@composite("conv_transpose1d")
def conv_transpose1d(
    at: Any,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Dims = 1,
    padding: Dims = 0,
    output_padding: Dims = 0,
    groups: int = 1,
    dilation: Dims = 1,
) -> Any:
    """The input gradient of `conv1d` as an operator: `(N, C, L)` or `(C, L)` with `weight (C, O / groups, K)`."""
    return _slide_back(
        at, "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@composite("conv_transpose2d")
def conv_transpose2d(
    at: Any,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Dims = 1,
    padding: Dims = 0,
    output_padding: Dims = 0,
    groups: int = 1,
    dilation: Dims = 1,
) -> Any:
    """The input gradient of `conv2d` as an operator: `(N, C, H, W)` or `(C, H, W)` with `weight (C, O / groups, K, L)`."""
    return _slide_back(
        at, "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@composite("conv_transpose3d")
def conv_transpose3d(
    at: Any,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Dims = 1,
    padding: Dims = 0,
    output_padding: Dims = 0,
    groups: int = 1,
    dilation: Dims = 1,
) -> Any:
    """The input gradient of `conv3d` as an operator: `(N, C, D, H, W)` or `(C, D, H, W)` with `weight (C, O / groups, J, K, L)`."""
    return _slide_back(
        at, "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


class _Shift(NamedTuple):
    """The move `target[i] = source[i + distance]` over flattened images of one size."""

    target: slice
    source: slice
    starved: tuple[tuple[Any, ...], ...]
    """Regions of an image whose source lies beyond its edge; a flat move reads something else there."""
    orphaned: tuple[tuple[Any, ...], ...]
    """Regions of the source that are moved over an edge."""

    @property
    def moves(self) -> bool:
        return bool(self.starved)

    def reversed(self) -> _Shift:
        return _Shift(self.source, self.target, self.orphaned, self.starved)


def _shift(distances: Sequence[int], size: Sequence[int]) -> _Shift:
    flat = 0
    starved, orphaned = [], []
    for axis, (q, n) in enumerate(zip(distances, size, strict=True)):
        flat = flat * n + q
        head, tail = slice(0, min(abs(q), n)), slice(max(n - abs(q), 0), n)
        behind = (slice(None),) * (len(size) - 1 - axis)
        if q:
            starved.append((..., tail if q > 0 else head, *behind))
            orphaned.append((..., head if q > 0 else tail, *behind))
    ahead, back = slice(max(flat, 0), None), slice(None, -flat if flat > 0 else None)
    if flat < 0:
        ahead, back = slice(None, flat), slice(-flat, None)
    return _Shift(back, ahead, tuple(starved), tuple(orphaned))


class _Phase(NamedTuple):
    """The share of a kernel that meets one phase of the input."""

    places: tuple[Any, ...]
    """Selects the phase from an input."""
    taps: tuple[Any, ...]
    """Selects the kernel elements, from an array that ends in `kernel`."""
    rows: tuple[_Shift, ...]
    """One per element of the kernel without its last dimension."""
    columns: tuple[_Shift, ...]


@functools.lru_cache(256)
def _phases(kernel: tuple[int, ...], geometry: Geometry, size: tuple[int, ...]) -> tuple[_Phase, ...]:
    """For images laid out with `size`, which has room for every phase of the input and for the output."""
    along = []
    for k, *slide in zip(kernel, *geometry, strict=True):
        stride, padding, dilation = slide
        phases: dict[int, list[tuple[int, int]]] = {}
        for tap in range(k):
            distance, phase = divmod(tap * dilation - padding, stride)
            phases.setdefault(phase, []).append((tap, distance))
        along.append([(slice(phase, None, stride), *zip(*found, strict=True)) for phase, found in phases.items()])
    whole = []
    for chosen in itertools.product(*along):
        places, taps, distances = zip(*chosen, strict=True)
        *above, last = distances
        rows = tuple(_shift((*q, 0), size) for q in itertools.product(*above))
        columns = tuple(_shift((*(0,) * len(above), q), size) for q in last)
        whole.append(_Phase((..., *places), (..., *np.ix_(*taps)), rows, columns))
    return tuple(whole)


def _stack(name: str, x: Array, shifts: Sequence[_Shift], size: Sequence[int]) -> Array:
    """`x (g, C, N, *own)` shifted in each of these ways, with zeros around it: `(g, shifts, C, N, *size)`."""
    g, c, n, *own = x.shape
    stack = _buffer(name, (g, len(shifts), c, n, *size), x.dtype)
    still = next((i for i, shift in enumerate(shifts) if not shift.moves), None)
    image = _buffer("image", (g, c, n, *size), x.dtype) if still is None else stack[:, still]
    if own != list(size):
        image[...] = 0
    image[(..., *map(slice, own))] = x
    source, target = image.reshape(g, c, -1), stack.reshape(g, len(shifts), c, -1)
    for number, shift in enumerate(shifts):
        if number != still:
            target[:, number, :, shift.target] = source[..., shift.source]
            for region in shift.starved:
                stack[:, number][region] = 0
    return stack


def _add_shifted(products: Array, shifts: Sequence[_Shift]) -> Array:
    """The sum of `products (g, shifts, O, N, *size)`, each shifted in its way; they are overwritten."""
    g, _, o, *size = products.shape
    still = next((i for i, shift in enumerate(shifts) if not shift.moves), None)
    total = np.zeros((g, o, *size), products.dtype) if still is None else products[:, still]
    target, source = total.reshape(g, o, -1), products.reshape(g, len(shifts), o, -1)
    for number, shift in enumerate(shifts):
        if number != still:
            for region in shift.orphaned:
                products[:, number][region] = 0
            part = target[..., shift.target]
            part += source[:, number, :, shift.source]
    return total


def _correlate(
    x: Array, matrix: Array, rows: Sequence[_Shift], columns: Sequence[_Shift], size: Sequence[int]
) -> Array:
    """Stack, multiply, add: `x (g, C, N, *own)` to `(g, O, N, *size)`, in memory that the next call will overwrite."""
    stack = _stack("columns", x, columns, size)
    g, n, length = len(x), x.shape[2], matrix.shape[1]
    products = _buffer("product", (g, length, n * math.prod(size)), x.dtype)
    flat = stack.reshape(g, matrix.shape[2], -1)
    # an outer product by matmul is ten times slower: it is too thin for BLAS
    (np.multiply if matrix.shape[2] == 1 else np.matmul)(matrix, flat, out=products)
    return _add_shifted(products.reshape(g, len(rows), length // len(rows), n, *size), rows)


class _Groups:
    """A convolution in `groups`, for inputs and outputs of given sizes: how they are laid out and cut into blocks."""

    def __init__(
        self, size: Sequence[int], out: Sequence[int], weight_shape: Sequence[int], geometry: Geometry, groups: int
    ) -> None:
        o, self.inputs, *kernel = weight_shape
        self.groups, self.outputs, self.kernel = groups, o // groups, tuple(kernel)
        self.size = tuple(max(-(-n // s), m) for n, s, m in zip(size, geometry.stride, out, strict=True))
        self.phases = _phases(self.kernel, geometry, self.size)

    def split(self, array: Array) -> Array:
        """`(N, channels, *size)` as `(groups, channels of one, N, *size)`."""
        n, c, *size = array.shape
        return np.moveaxis(array.reshape(n, self.groups, c // self.groups, *size), 0, 2)

    def blocks(self, images: int, itemsize: int) -> tuple[list[slice], list[slice]]:
        """Groups and images that stay in the cache with their stacks and products; images are cut only if one group is too much."""
        copies = max(self.inputs * len(phase.columns) + self.outputs * len(phase.rows) for phase in self.phases)
        each = max(1, math.prod(self.size) * copies * itemsize)
        together = max(1, min(images, _GROUPS_BLOCK // each))
        step = max(1, _GROUPS_BLOCK // (each * together)) if together == images else 1
        return _cut(self.groups, step), _cut(images, together)

    def matrices(self, weight: Array, to_input: bool) -> list[Array]:
        """For each phase the `(rows · outputs, columns · inputs)` of every group, or with outputs and inputs exchanged."""
        weight = weight.reshape(self.groups, self.outputs, self.inputs, *self.kernel)
        if to_input:
            weight = weight.swapaxes(1, 2)
        found = []
        for phase in self.phases:
            part = weight[phase.taps]
            part = part.reshape(*part.shape[:3], len(phase.rows), len(phase.columns)).transpose(0, 3, 1, 4, 2)
            found.append(np.ascontiguousarray(part).reshape(self.groups, part.shape[1] * part.shape[2], -1))
        return found


_GROUPS_BLOCK = 3 << 20
"""Bytes of stack and products. Half of it is no faster in one thread, and in two it is a third slower: each block is a dozen calls."""


def _cut(count: int, step: int) -> list[slice]:
    return [slice(first, min(count, first + step)) for first in range(0, count, step)]


def _are_narrow(weight_shape: Sequence[int], groups: int) -> bool:
    """Is a product for each group worth less than one copy for each column of the kernel?"""
    return max(weight_shape[1], weight_shape[0] // groups) <= _NARROW


_NARROW = 32
"""Channels per group. Measured from 1 to 64: at 32 both ways take the same time."""


def _in_planes(x: Array) -> Array:
    """`x (N, C, *size)` with a channel's numbers beside each other, which they are not in channels-last memory."""
    if not is_channels_last(x):
        return x
    planes = np.empty((*x.shape[:2], math.prod(x.shape[2:])), x.dtype)
    copy_transposed(planes, x.reshape(planes.shape))
    return planes.reshape(x.shape)


def _grouped_forward(x: Array, weight: Array, geometry: Geometry, groups: int) -> Array:
    out = geometry.output_size(x.shape[2:], weight.shape[2:])
    plan = _Groups(x.shape[2:], out, weight.shape, geometry, groups)
    y = np.empty((len(x), len(weight), *out), x.dtype)
    source, target, matrices = plan.split(x), plan.split(y), plan.matrices(weight, to_input=False)
    own = (..., *map(slice, out))
    blocks = list(itertools.product(*plan.blocks(len(x), x.itemsize)))

    def correlate(start: int, stop: int) -> None:
        for part, images in blocks[start:stop]:
            for number, (phase, matrix) in enumerate(zip(plan.phases, matrices, strict=True)):
                block = source[part, :, images][phase.places]
                value = _correlate(block, matrix[part], phase.rows, phase.columns, plan.size)[own]
                if number:
                    target[part, :, images] += value
                else:
                    target[part, :, images] = value

    parallel_for(0, len(blocks), 1, correlate)
    return y


def _grouped_input_gradient(dy: Array, weight: Array, size: Sequence[int], geometry: Geometry, groups: int) -> Array:
    plan = _Groups(size, dy.shape[2:], weight.shape, geometry, groups)
    skipped = len(plan.phases) < math.prod(geometry.stride)
    dx = (np.zeros if skipped else np.empty)((len(dy), plan.groups * plan.inputs, *size), dy.dtype)
    source, target, matrices = plan.split(dy), plan.split(dx), plan.matrices(weight, to_input=True)
    blocks = list(itertools.product(*plan.blocks(len(dy), dy.itemsize)))
    back = [
        ([shift.reversed() for shift in phase.rows], [shift.reversed() for shift in phase.columns])
        for phase in plan.phases
    ]

    def correlate(start: int, stop: int) -> None:
        for part, images in blocks[start:stop]:
            block = source[part, :, images]
            for phase, matrix, shifts in zip(plan.phases, matrices, back, strict=True):
                value = _correlate(block, matrix[part], *shifts, plan.size)
                gradient = target[part, :, images][phase.places]
                gradient[...] = value[(..., *map(slice, gradient.shape[3:]))]

    parallel_for(0, len(blocks), 1, correlate)
    return dx


def _grouped_weight_gradient(
    dy: Array, x: Array, weight_shape: Sequence[int], geometry: Geometry, groups: int
) -> Array:
    plan = _Groups(x.shape[2:], dy.shape[2:], weight_shape, geometry, groups)
    dw = np.zeros((groups, plan.outputs, plan.inputs, *plan.kernel), x.dtype)
    source, gradient = plan.split(x), plan.split(dy)
    parts, batches = plan.blocks(len(x), x.itemsize)

    def add_up(start: int, stop: int) -> None:
        for part, images, phase in itertools.product(parts[start:stop], batches, plan.phases):
            block, grad = source[part, :, images][phase.places], gradient[part, :, images]
            stack = _stack("columns", block, phase.columns, plan.size)
            above = _stack("product", grad, [shift.reversed() for shift in phase.rows], plan.size)
            left = above.reshape(len(above), len(phase.rows) * plan.outputs, -1)
            right = stack.reshape(len(stack), len(phase.columns) * plan.inputs, -1)
            product = (left @ right.swapaxes(1, 2)).reshape(
                len(left), len(phase.rows), plan.outputs, len(phase.columns), plan.inputs
            )
            total = dw[part][phase.taps]
            dw[part][phase.taps] = total + product.transpose(0, 2, 4, 1, 3).reshape(total.shape)

    parallel_for(0, len(parts), 1, add_up)
    return dw.reshape(weight_shape)
