# Tangled from chapters/a1_operators/nn_7_padding_and_resampling.py — edit there, or here and run `readtorch sync`.

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
