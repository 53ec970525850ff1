# Tangled from chapters/a3_kernels/7_columns_and_embedding.py — edit there, or here and run `readtorch sync`.
"""Convolutions as products of matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.convolution import is_channels_last
from readtorch.aten.native.cuda.im2_col import _places, col2im, im2col
from readtorch.aten.native.cuda.jit_utils import array_module, cpp_type

_COLUMNS = 1 << 30
"""Bytes of columns that are made at a time."""


class _Product:
    """The sizes of a two-dimensional convolution, and its images as columns; one-dimensional ones are images of one row."""

    def __init__(
        self,
        weight_shape: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
    ) -> None:
        if len(weight_shape) == 3:
            weight_shape = (*weight_shape[:2], 1, weight_shape[2])
            stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        self.groups = groups
        self.outputs, inner, *kernel = weight_shape
        self.kernel = tuple(kernel)
        self.geometry = (self.kernel, tuple(dilation), tuple(padding), tuple(stride))
        self.height = inner * math.prod(kernel)
        self.plain = self.kernel == (1, 1) and self.geometry[2:] == ((0, 0), (1, 1))

    def places(self, size: Sequence[int]) -> tuple[int, ...]:
        return _places(size, *self.geometry)

    def matrix(self, weight: Array) -> Array:
        """`(groups, outputs of a group, height)`."""
        return array_module(weight).ascontiguousarray(weight).reshape(self.groups, -1, self.height)

    def parts(self, examples: int, places: int, itemsize: int) -> Iterator[slice]:
        step = max(1, _COLUMNS // max(1, self.groups * self.height * places * itemsize))
        return (slice(first, min(examples, first + step)) for first in range(0, examples, step))

    def columns(self, x: Array) -> Array:
        """Of images `(n, C, H, W)`: `(n, groups, height, places)`."""
        made = x if self.plain else im2col(x, *self.geometry)
        return made.reshape(len(x), self.groups, self.height, -1)


def _image(x: Array) -> Array:
    """`(N, C, H, W)`, contiguous."""
    x = array_module(x).ascontiguousarray(x)
    return x.reshape(*x.shape[:2], 1, x.shape[2]) if x.ndim == 3 else x


def _laid_out(y: Array, like: Array, shape: Sequence[int]) -> Array:
    """The result in the memory order of the input."""
    y = y.reshape(shape)
    if not is_channels_last(like):
        return y
    xp = array_module(y)
    return xp.moveaxis(xp.ascontiguousarray(xp.moveaxis(y, 1, -1)), -1, 1)


def _applies(*arrays: Array) -> bool:
    """Products of these are cuBLAS's business: floating, of one dtype, images or rows, and not empty."""
    first = arrays[0]
    return cpp_type(first) not in (None, "BFloat16") and all(
        a.ndim in (3, 4) and a.size and a.dtype == first.dtype for a in arrays
    )


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
) -> Any:
    """NotImplemented for transposed and three-dimensional ones, bfloat16, and nothing; so are the two gradients."""
    if transposed or not _applies(input, weight):
        return NotImplemented
    product = _Product(weight.shape, stride, padding, dilation, groups)
    x, xp = _image(input), array_module(input)
    places = product.places(x.shape[2:])
    if min(places) < 1:
        return NotImplemented
    count = math.prod(places)
    y = xp.empty((len(x), groups, product.outputs // groups, count), x.dtype)
    matrix = product.matrix(weight)
    for part in product.parts(len(x), count, x.itemsize):
        xp.matmul(matrix, product.columns(x[part]), out=y[part])
    if bias is not None:
        y += bias.reshape(groups, -1, 1)
    return _laid_out(y, input, (len(x), product.outputs, *places[4 - input.ndim :]))


def _conv_input(
    dy: Array,
    weight: Array,
    input_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    channels_last: bool | None = None,
) -> Any:
    """The gradient with respect to the input."""
    if not _applies(dy, weight):
        return NotImplemented
    product = _Product(weight.shape, stride, padding, dilation, groups)
    g, xp = _image(dy), array_module(dy)
    size = input_shape[2:] if len(input_shape) == 4 else (1, input_shape[2])
    if tuple(g.shape[2:]) != product.places(size):
        return NotImplemented
    count = math.prod(g.shape[2:])
    dx = xp.empty((len(g), input_shape[1], *size), g.dtype)
    matrix = product.matrix(weight).transpose(0, 2, 1)
    for part in product.parts(len(g), count, g.itemsize):
        columns = xp.matmul(matrix, g[part].reshape(-1, groups, product.outputs // groups, count))
        flat = columns.reshape(len(columns), groups * product.height, count)
        dx[part] = flat.reshape(dx[part].shape) if product.plain else col2im(flat, size, *product.geometry)
    return _laid_out(dx, dy, input_shape)


def _conv_weight(
    dy: Array,
    x: Array,
    weight_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    """The gradient with respect to the weight."""
    if not _applies(dy, x):
        return NotImplemented
    product = _Product(weight_shape, stride, padding, dilation, groups)
    g, image, xp = _image(dy), _image(x), array_module(dy)
    if tuple(g.shape[2:]) != product.places(image.shape[2:]):
        return NotImplemented
    count = math.prod(g.shape[2:])
    dw = xp.zeros((groups, product.outputs // groups, product.height), g.dtype)
    for part in product.parts(len(g), count, g.itemsize):
        columns = product.columns(image[part])
        rows = g[part].reshape(-1, groups, product.outputs // groups, count)
        dw += xp.matmul(rows, columns.transpose(0, 1, 3, 2)).sum(0)
    return dw.reshape(weight_shape)
