# Tangled from chapters/a3_kernels/3_layer_norm.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda import jit_utils
from readtorch.aten.native.cuda.jit_utils import (
    VARIANTS,
    Kernel,
    accumulator,
    array_module,
    as_accumulator,
    cpp_type,
    flag,
    is_wide,
    lanes,
)
from readtorch.aten.native.cuda.rows import HELD, row_block

_FILE = "aten/native/cuda/layer_norm_kernel.cu"
_FORWARD = Kernel(_FILE, "layer_norm_forward", VARIANTS)
_BACKWARD = Kernel(_FILE, "layer_norm_backward", VARIANTS)
_SUM_SLOTS = Kernel(_FILE, "layer_norm_sum_slots", ("float", "double"))


def native_layer_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> Any:
    """Output, mean and 1 / sqrt(variance + eps) of each example. NotImplemented for other than floating dtypes, and for nothing."""
    kind = cpp_type(input)
    if kind is None or input.size == 0:
        return NotImplemented
    xp, acc = array_module(input), accumulator(input)
    leading = input.shape[: input.ndim - len(normalized_shape)]
    rows, width = math.prod(leading), math.prod(normalized_shape)
    x = xp.ascontiguousarray(input)
    y, mean, rstd = xp.empty_like(x), xp.empty(rows, acc), xp.empty(rows, acc)
    w, b = as_accumulator(weight, acc), as_accumulator(bias, acc)
    wide = is_wide(width, x, y)
    across, together = row_block(width // lanes(x, wide))
    block = (across, together)
    _FORWARD[kind, flag(wide)](-(-rows // together), block, x, y, w, b, mean, rstd, float(eps), rows, width)
    broadcast = (*leading, *(1,) * len(normalized_shape))
    return y, mean.reshape(broadcast), rstd.reshape(broadcast)


def native_layer_norm_backward(
    grad_out: Array, input: Array, normalized_shape: Sequence[int], mean: Array, rstd: Array, weight: Array | None
) -> Any:
    """The gradients with respect to input, weight and bias; NotImplemented as `native_layer_norm`."""
    kind = cpp_type(input)
    if kind is None or input.size == 0 or grad_out.dtype != input.dtype:
        return NotImplemented
    xp, acc = array_module(input), accumulator(input)
    width = math.prod(normalized_shape)
    rows = input.size // width
    x, dy = xp.ascontiguousarray(input), xp.ascontiguousarray(grad_out)
    dx = xp.empty_like(x)
    wide = width % 4 == 0 and is_wide(0, x, dy, dx)
    across, together = row_block(width // 4 if wide else width)
    slots = 512 // across * jit_utils.target.multiprocessors()
    blocks = max(1, min(slots, rows) // together)
    # columns that no thread holds are added up here, from nothing
    make = xp.empty if width <= across * HELD * (4 if wide else 1) else xp.zeros
    partial = make((blocks * together, 2 * width), acc)
    given = (as_accumulator(weight, acc), mean, rstd)
    _BACKWARD[kind, flag(wide)](blocks, (across, together), dy, x, dx, *given, partial, rows, width)
    sums = xp.empty((2, width), acc)
    columns = 2 * width
    acc_type = "double" if kind == "double" else "float"
    _SUM_SLOTS[acc_type](-(-columns // 32), (32, 8), partial, sums, len(partial), columns)
    given_type = input.dtype if weight is None else weight.dtype
    dw, db = sums.astype(given_type, copy=False).reshape(2, *normalized_shape)
    return dx, dw, db
