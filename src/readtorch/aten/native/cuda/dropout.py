# Tangled from chapters/a3_kernels/6_dropout.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import VARIANTS, Kernel, array_module, cpp_type, flag, pointer

_DROPOUT = Kernel("aten/native/cuda/dropout.cu", "fused_dropout", VARIANTS)
_MASKED_SCALE = Kernel("aten/native/cuda/dropout.cu", "masked_scale", VARIANTS)

COUNTED = 4
"""How far a call moves the generator's offset."""


def _aligned(*arrays: Array) -> str:
    """Shall groups of four be read at once?"""
    return flag(all(pointer(a) % (4 * a.itemsize) == 0 and a.dtype != np.float64 for a in arrays))


def native_dropout(input: Array, p: float, seed: int, offset: int) -> Any:
    """`input` with elements zeroed with probability `p < 1` and the others divided by `1 - p`; and the mask of what was kept.

    NotImplemented for other than floating dtypes.
    """
    kind = cpp_type(input)
    if kind is None:
        return NotImplemented
    xp = array_module(input)
    x = xp.ascontiguousarray(input)
    y, mask = xp.empty_like(x), xp.empty(x.shape, np.bool_)
    if x.size:
        signed = seed - (1 << 64) if seed >= 1 << 63 else seed
        blocks = -(-x.size // 1024)
        _DROPOUT[kind, _aligned(x, y, mask)](blocks, 256, x, y, mask, 1.0 - p, signed, offset, x.size)
    return y, mask


def native_dropout_backward(grad_output: Array, mask: Array, scale: float) -> Any:
    """`grad_output * mask * scale`."""
    kind = cpp_type(grad_output)
    if kind is None:
        return NotImplemented
    xp = array_module(grad_output)
    dy, mask = xp.ascontiguousarray(grad_output), xp.ascontiguousarray(mask)
    dx = xp.empty_like(dy)
    if dy.size:
        blocks = -(-dy.size // 1024)
        _MASKED_SCALE[kind, _aligned(dy, dx, mask)](blocks, 256, dy, mask, dx, float(scale), dy.size)
    return dx
