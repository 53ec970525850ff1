# Tangled from chapters/a3_kernels/4_softmax_and_loss.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import (
    FLOATING,
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
from readtorch.aten.native.cuda.rows import row_block
from readtorch.aten.native.loss_nll import MEAN, NONE

_FILE = "aten/native/cuda/loss.cu"
_NLL_FORWARD = Kernel(_FILE, "nll_loss_forward", FLOATING)
_NLL_BACKWARD = Kernel(_FILE, "nll_loss_backward", FLOATING)
_FORWARD = Kernel(_FILE, "cross_entropy_forward", VARIANTS)
_BACKWARD = Kernel(_FILE, "cross_entropy_backward", VARIANTS)


def _example_weights(classes: Array, weight: Array | None, ignore_index: int) -> Array:
    """What each example counts for: its class's weight, nothing if it is to be ignored."""
    kept = classes != ignore_index
    return kept if weight is None else weight[array_module(classes).where(kept, classes, 0)] * kept


def nll_loss_forward(self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int) -> Any:
    """Loss and sum of weights of log-probabilities `(N, C, *)` and classes `(N, *)`. NotImplemented for other than floating dtypes, and for nothing."""
    kind = cpp_type(self)
    if kind is None or self.size == 0:
        return NotImplemented
    xp, acc = array_module(self), accumulator(self)
    x, classes = xp.ascontiguousarray(self), xp.ascontiguousarray(target, np.int64)
    losses = xp.empty(target.shape, self.dtype) if reduction == NONE else None
    sums = xp.zeros(2, acc)
    blocks = -(-classes.size // 1024) if losses is not None else 1
    weights = as_accumulator(weight, acc)
    sizes = (ignore_index, classes.size, x.shape[1], math.prod(x.shape[2:]))
    _NLL_FORWARD[kind](blocks, 1024, x, classes, weights, losses, sums, int(reduction == MEAN), *sizes)
    given = sums.astype(self.dtype, copy=False)
    return given[0] if losses is None else losses, given[1]


def nll_loss_backward(
    grad_output: Array, self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> Any:
    """The gradient with respect to the log-probabilities; NotImplemented as `nll_loss_forward`."""
    kind = cpp_type(self)
    if kind is None or self.size == 0 or grad_output.dtype != self.dtype:
        return NotImplemented
    xp, acc = array_module(self), accumulator(self)
    dy, classes = xp.ascontiguousarray(grad_output), xp.ascontiguousarray(target, np.int64)
    weights = as_accumulator(weight, acc)
    total = None
    if reduction == MEAN:
        total = as_accumulator(_example_weights(classes, weights, ignore_index).sum(dtype=acc), acc)
    dx = xp.zeros(self.shape, self.dtype)
    sizes = (ignore_index, classes.size, self.shape[1], math.prod(self.shape[2:]))
    each = int(reduction == NONE)
    _NLL_BACKWARD[kind](-(-classes.size // 256), 256, dy, classes, weights, total, dx, each, *sizes)
    return dx


def cross_entropy_forward(x: Array, target: Array, weight: Array | None, ignore_index: int) -> tuple[Array, Array]:
    """Loss and log(sum(exp)) of each row of logits `(N, C)`, before any reduction, in the type of the arithmetic."""
    xp, acc = array_module(x), accumulator(x)
    kind = cpp_type(x)
    assert kind is not None
    x = xp.ascontiguousarray(x)
    rows, width = x.shape
    losses, log_sums = xp.empty(rows, acc), xp.empty(rows, acc)
    wide = is_wide(width, x)
    across, together = row_block(width // lanes(x, wide))
    given = (x, xp.ascontiguousarray(target, np.int64), as_accumulator(weight, acc))
    grid = -(-rows // together)
    _FORWARD[kind, flag(wide)](grid, (across, together), *given, losses, log_sums, ignore_index, rows, width)
    return losses, log_sums


def cross_entropy_backward(shares: Array, x: Array, target: Array, log_sums: Array, ignore_index: int) -> Array:
    """The gradient of the logits; `shares` is what arrives at each example's loss, its weight included."""
    xp, acc = array_module(x), accumulator(x)
    kind = cpp_type(x)
    assert kind is not None
    x = xp.ascontiguousarray(x)
    rows, width = x.shape
    dx = xp.empty_like(x)
    wide = is_wide(width, x, dx)
    across, together = row_block(width // lanes(x, wide))
    given = (as_accumulator(shares, acc), x, xp.ascontiguousarray(target, np.int64), log_sums)
    _BACKWARD[kind, flag(wide)](-(-rows // together), (across, together), *given, dx, ignore_index, rows, width)
    return dx


def _cross_entropy(self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int) -> Any:
    """Loss, sum of weights and log(sum(exp)) of each row. NotImplemented for other than floating dtypes, and for nothing."""
    if cpp_type(self) is None or self.size == 0:
        return NotImplemented
    xp, acc = array_module(self), accumulator(self)
    classes = xp.ascontiguousarray(target, np.int64)
    losses, log_sums = cross_entropy_forward(self, classes, weight, ignore_index)
    total = _example_weights(classes, as_accumulator(weight, acc), ignore_index).sum(dtype=acc)
    if reduction != NONE:
        losses = losses.sum()
    if reduction == MEAN:
        losses = losses / total
    return losses.astype(self.dtype, copy=False), total, log_sums


def _cross_entropy_backward(
    grad_output: Array, self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int,
    total_weight: Array, log_sums: Array,
) -> Any:  # fmt: skip
    """The gradient of the logits. NotImplemented as `_cross_entropy`."""
    if cpp_type(self) is None or self.size == 0 or grad_output.dtype != self.dtype:
        return NotImplemented
    xp, acc = array_module(self), accumulator(self)
    classes = xp.ascontiguousarray(target, np.int64)
    shares = grad_output.astype(acc, copy=False) * _example_weights(classes, as_accumulator(weight, acc), ignore_index)
    if reduction == MEAN:
        shares = shares / total_weight
    return cross_entropy_backward(shares, self, classes, log_sums, ignore_index)
