# Tangled from chapters/a3_kernels/2_batch_norm.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.convolution import is_channels_last
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

_FILE = "aten/native/cuda/normalization.cu"
_THREADS = 256
_PLANES, _ROWS = (
    {name: Kernel(_FILE, f"batch_norm_{name}{suffix}", VARIANTS) for name in (
        "collect_statistics", "transform_input", "backward_reduce", "backward_elemt"
    )}
    for suffix in ("", "_channels_last")
)  # fmt: skip
_MERGE_STATISTICS = Kernel(_FILE, "batch_norm_merge_statistics", ("float", "double"))
_MERGE_SUMS = Kernel(_FILE, "batch_norm_merge_sums", ("float", "double"))
_BLOCKS = 32
"""Blocks for each multiprocessor."""

_MERGED_AT_ONCE = 64
"""More pieces of a channel than these are merged by a kernel of its own."""


class _Layout:
    """How a batch lies in memory: `(N, C, P)` or, with channels last, `(N P, C)`; the grid for it."""

    def __init__(self, x: Array, *others: Array) -> None:
        self.channels = x.shape[1]
        self.last = x.ndim == 2 or is_channels_last(x)
        xp = array_module(x)
        arrays = [xp.ascontiguousarray(xp.moveaxis(a, 1, -1) if self.last else a) for a in (x, *others)]
        self.arrays = arrays
        self.inside = arrays[0].shape
        count = x.size // self.channels
        processors = jit_utils.target.multiprocessors()
        if self.last:
            wide = is_wide(self.channels, *arrays)
            groups = self.channels // lanes(x, wide)
            across = min(32, 1 << (groups - 1).bit_length())
            down = _THREADS // across
            tiles = -(-groups // across)
            self.block: jit_utils.Dim = (across, down)
            self.pieces = max(1, min(_BLOCKS * processors // tiles, -(-count // (4 * down))))
            self.grid = (tiles, self.pieces)
            self.sizes: tuple[int, ...] = (count, self.channels)
        else:
            places = math.prod(x.shape[2:])
            wide = is_wide(places, *arrays)
            vectors = count // lanes(x, wide)
            self.block = _THREADS
            self.pieces = max(1, min(_BLOCKS * processors // self.channels, -(-vectors // (4 * _THREADS))))
            self.grid = (self.channels, self.pieces)
            self.sizes = (len(x), self.channels, places)
        kernels = _ROWS if self.last else _PLANES
        kind = cpp_type(x)
        assert kind is not None
        self.kernels = {name: kernel[kind, flag(wide)] for name, kernel in kernels.items()}

    def launch(self, name: str, *arguments: Any) -> None:
        self.kernels[name](self.grid, self.block, *arguments, *self.sizes)

    def merged(self, kernel: Kernel, partial: Array) -> tuple[Array, int]:
        """Summaries of pieces, merged if they are many, and how many there are of a channel now."""
        if self.pieces <= (8 if self.last else _MERGED_AT_ONCE):
            return partial, self.pieces
        whole = array_module(partial).empty((len(partial), 1, self.channels), partial.dtype)
        kernel["double" if partial.dtype.itemsize == 8 else "float"](
            self.channels, _THREADS, partial, whole, self.pieces, self.channels
        )
        return whole, 1

    def like_input(self, y: Array) -> Array:
        """A result in the input's shape."""
        return array_module(y).moveaxis(y, -1, 1) if self.last else y


def native_batch_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Output, and in training the batch's mean and 1 / sqrt(variance + eps) per channel, else two empty arrays.

    NotImplemented where the kernels do not apply: dtypes other than floating ones, and empty inputs.
    """
    if cpp_type(input) is None or input.size == 0:
        return NotImplemented
    xp, kind = array_module(input), accumulator(input)
    layout = _Layout(input)
    (x,) = layout.arrays
    y = xp.empty_like(x)
    w, b, mean, var = (as_accumulator(a, kind) for a in (weight, bias, running_mean, running_var))
    if not training:
        layout.launch("transform_input", x, y, None, 0, mean, var, w, b, None, None, None, None, 0.0, float(eps))
        return layout.like_input(y), xp.empty(0, kind), xp.empty(0, kind)
    partial = xp.empty((3, layout.pieces, layout.channels), kind)
    save_mean, save_invstd = xp.empty(layout.channels, kind), xp.empty(layout.channels, kind)
    layout.launch("collect_statistics", x, partial)
    given = (*layout.merged(_MERGE_STATISTICS, partial), None, None, w, b)
    kept = (mean, var, save_mean, save_invstd)
    layout.launch("transform_input", x, y, *given, *kept, float(momentum), float(eps))
    for running, moved in ((running_mean, mean), (running_var, var)):
        if running is not None and running is not moved:
            running[...] = moved
    return layout.like_input(y), save_mean, save_invstd


def native_batch_norm_backward(
    grad_out: Array,
    input: Array,
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    save_mean: Array | None,
    save_invstd: Array | None,
    train: bool,
    eps: float,
) -> Any:
    """The gradients with respect to input, weight and bias; NotImplemented as `native_batch_norm`."""
    if cpp_type(input) is None or input.size == 0 or grad_out.dtype != input.dtype:
        return NotImplemented
    xp, kind = array_module(input), accumulator(input)
    layout = _Layout(input, grad_out)
    x, dy = layout.arrays
    mean, invstd = save_mean, save_invstd
    if not train:
        mean = as_accumulator(running_mean, kind)
        var = as_accumulator(running_var, kind)
        assert var is not None
        invstd = 1 / xp.sqrt(var + kind.type(eps))
    partial = xp.empty((2, layout.pieces, layout.channels), kind)
    dx, dw, db = xp.empty_like(x), xp.empty(layout.channels, kind), xp.empty(layout.channels, kind)
    layout.launch("backward_reduce", dy, x, mean, partial)
    statistics = (mean, invstd, as_accumulator(weight, kind))
    sums = layout.merged(_MERGE_SUMS, partial)
    layout.launch("backward_elemt", dy, x, dx, *sums, *statistics, dw, db, int(train))
    given = input.dtype if weight is None else weight.dtype
    return layout.like_input(dx), dw.astype(given, copy=False), db.astype(given, copy=False)
