# Tangled from chapters/a1_operators/nn_7_padding_and_resampling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.tensor_factories import in_suggested_format


@register("constant_pad_nd", node="ConstantPadNd")
def constant_pad_nd(self: Array, pad: Sequence[int], value: float = 0) -> Array:
    """Pad with `value` by (before, after) of the last dimension, then of the one before it; negative numbers crop."""
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * self.ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions, one number for either end of each: "
            f"here {len(pad)} for {self.ndim}."
        )
    sides = [(0, 0)] * (self.ndim - len(pad) // 2) + list(zip(pad[-2::-2], pad[::-2], strict=True))
    shape = []
    for n, (before, after) in zip(self.shape, sides, strict=True):
        if n + before + after < 0:
            raise RuntimeError(
                f"The input size {n} cannot give up negative padding {before} and {after}: that resulted in a negative output size"
            )
        shape.append(n + before + after)
    out = np.full(shape, value, self.dtype)
    inner = [slice(max(b, 0), max(n - max(a, 0), 0)) for n, (b, a) in zip(shape, sides, strict=True)]
    outer = [slice(max(-b, 0), max(n - max(-a, 0), 0)) for n, (b, a) in zip(self.shape, sides, strict=True)]
    out[tuple(inner)] = self[tuple(outer)]
    return out


results_lie(in_suggested_format, "constant_pad_nd")


derivative("constant_pad_nd", self=lambda at, grad, pad: at.constant_pad_nd(grad, [-p for p in pad], 0))
