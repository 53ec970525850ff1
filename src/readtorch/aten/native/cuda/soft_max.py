# Tangled from chapters/a3_kernels/4_softmax_and_loss.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import (
    FLAGS,
    FLOATING,
    VARIANTS,
    Kernel,
    array_module,
    cpp_type,
    flag,
    is_wide,
    lanes,
)
from readtorch.aten.native.cuda.rows import row_block
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim

_FILE = "aten/native/cuda/soft_max.cu"
_FORWARD = Kernel(_FILE, "softmax_forward", VARIANTS, FLAGS)
_BACKWARD = Kernel(_FILE, "softmax_backward", VARIANTS, FLAGS)
_SPATIAL_FORWARD = Kernel(_FILE, "softmax_spatial_forward", FLOATING, FLAGS)
_SPATIAL_BACKWARD = Kernel(_FILE, "softmax_spatial_backward", FLOATING, FLAGS)


def _forward(x: Array, dim: int, log: bool) -> Any:
    kind = cpp_type(x)
    if kind is None or x.size == 0 or x.ndim == 0:
        return NotImplemented
    xp = array_module(x)
    axis = maybe_wrap_dim(dim, x.ndim)
    x = xp.ascontiguousarray(x)
    y = xp.empty_like(x)
    width, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    rows = x.size // width
    if inner > 1:
        _SPATIAL_FORWARD[kind, flag(log)](-(-rows // 256), 256, x, y, rows // inner, width, inner)
        return y
    wide = is_wide(width, x, y)
    across, together = row_block(width // lanes(x, wide))
    _FORWARD[kind, flag(wide), flag(log)](-(-rows // together), (across, together), x, y, rows, width)
    return y


def _backward(grad_output: Array, output: Array, dim: int, log: bool) -> Any:
    kind = cpp_type(output)
    if kind is None or output.size == 0 or output.ndim == 0 or grad_output.dtype != output.dtype:
        return NotImplemented
    xp = array_module(output)
    axis = maybe_wrap_dim(dim, output.ndim)
    dy, y = xp.ascontiguousarray(grad_output), xp.ascontiguousarray(output)
    dx = xp.empty_like(y)
    width, inner = y.shape[axis], math.prod(y.shape[axis + 1 :])
    rows = y.size // width
    if inner > 1:
        _SPATIAL_BACKWARD[kind, flag(log)](-(-rows // 256), 256, dy, y, dx, rows // inner, width, inner)
        return dx
    wide = width % 4 == 0 and is_wide(0, dy, y, dx)
    across, together = row_block(width // 4 if wide else width)
    _BACKWARD[kind, flag(wide), flag(log)](-(-rows // together), (across, together), dy, y, dx, rows, width)
    return dx


def _softmax(self: Array, dim: int) -> Any:
    """NotImplemented for other than floating dtypes, and for nothing; so are the three below."""
    return _forward(self, dim, log=False)


def _log_softmax(self: Array, dim: int) -> Any:
    return _forward(self, dim, log=True)


def _softmax_backward_data(grad_output: Array, output: Array, dim: int) -> Any:
    return _backward(grad_output, output, dim, log=False)


def _log_softmax_backward_data(grad_output: Array, output: Array, dim: int) -> Any:
    return _backward(grad_output, output, dim, log=True)
