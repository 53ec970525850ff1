# Tangled from chapters/a3_kernels/7_columns_and_embedding.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import FLOATING, Kernel, array_module, cpp_type

_FILE = "aten/native/cuda/im2_col.cu"
_IM2COL = Kernel(_FILE, "im2col", FLOATING)
_COL2IM = Kernel(_FILE, "col2im", FLOATING)


def _places(size: Sequence[int], kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple[int, ...]:
    """How many windows fit, by dimension."""
    return tuple((size[d] + 2 * padding[d] - dilation[d] * (kernel_size[d] - 1) - 1) // stride[d] + 1 for d in range(2))


def _launch(
    kernel: Kernel, given: Array, made: Array, planes: int, size: Sequence[int], threads: int, *geometry: Sequence[int]
) -> None:
    kernel_size, out, padding, stride, dilation = geometry
    numbers = (planes, *size, *kernel_size, *out, *padding, *stride, *dilation)
    kind = cpp_type(given)
    assert kind is not None
    kernel[kind]((-(-threads // 256), min(planes, 65535)), 256, given, made, *(int(number) for number in numbers))


def im2col(
    self: Array, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Any:
    """`(N, C, H, W)` or `(C, H, W)` to `(N, C · kernel, places)`. NotImplemented for what is no image, and for other than floating dtypes."""
    if cpp_type(self) is None or self.size == 0 or self.ndim not in (3, 4) or min(*kernel_size, *dilation, *stride) < 1:
        return NotImplemented
    out = _places(self.shape[-2:], kernel_size, dilation, padding, stride)
    if min(out) < 1 or min(padding) < 0:
        return NotImplemented
    xp = array_module(self)
    *batch, channels, height, width = self.shape
    columns = xp.empty((*batch, channels * math.prod(kernel_size), math.prod(out)), self.dtype)
    geometry = (kernel_size, out, padding, stride, dilation)
    planes = math.prod(batch) * channels
    _launch(_IM2COL, xp.ascontiguousarray(self), columns, planes, (height, width), math.prod(out), *geometry)
    return columns


def col2im(
    self: Array,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Any:
    """`(N, C · kernel, places)` added up to `(N, C, *output_size)`; NotImplemented as `im2col`."""
    if cpp_type(self) is None or self.size == 0 or self.ndim not in (2, 3) or min(*kernel_size, *dilation, *stride) < 1:
        return NotImplemented
    out = _places(output_size, kernel_size, dilation, padding, stride)
    taps = math.prod(kernel_size)
    if self.shape[-2] % taps or self.shape[-1] != math.prod(out) or min(padding) < 0:
        return NotImplemented
    xp = array_module(self)
    *batch, rows, _ = self.shape
    image = xp.empty((*batch, rows // taps, *output_size), self.dtype)
    geometry = (kernel_size, out, padding, stride, dilation)
    planes = math.prod(batch) * (rows // taps)
    _launch(_COL2IM, xp.ascontiguousarray(self), image, planes, output_size, math.prod(output_size), *geometry)
    return image
