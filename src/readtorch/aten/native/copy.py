# Tangled from chapters/00_tensor/08_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.c10.util.exception import warn_once


@register("copy_", variants="method", node="Copy")
def copy_(self: Array, src: Array, non_blocking: bool = False) -> Array:
    """Overwrite `self` with `src`, broadcast and converted."""
    if not is_expandable_to(src.shape, self.shape):
        shape, rank = list(src.shape), len(src.shape)
        if rank > self.ndim:
            raise RuntimeError(
                f"expand({shape}, size={list(self.shape)}): the number of sizes provided ({self.ndim}) must be greater or equal to the number of dimensions in the tensor ({rank})"
            )
        for i in range(1, rank + 1):
            if src.shape[-i] not in (1, self.shape[-i]):
                raise RuntimeError(
                    f"The size of tensor a ({self.shape[-i]}) must match the size of tensor b ({src.shape[-i]}) at non-singleton dimension {self.ndim - i}"
                )
    if src.dtype.kind == "c" and self.dtype.kind != "c":
        warn_once("Casting complex values to real discards the imaginary part", stacklevel=5)
        src = src.real
    np.copyto(self, src, casting="unsafe")
    return self


derivative("copy_", self=lambda at, grad: at.zeros_like(grad), src=lambda at, grad: grad)
