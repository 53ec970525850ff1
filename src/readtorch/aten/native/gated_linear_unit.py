# Tangled from chapters/a1_operators/nn_4_activation.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


@composite("glu", module="nn")
def glu(at: Any, self: Array, dim: int = -1) -> Any:
    """The first half along `dim` times the sigmoid of the second."""
    if not self.shape:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    axis = maybe_wrap_dim(dim, len(self.shape))
    size = self.shape[axis]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    return at.narrow(self, axis, 0, size // 2) * at.sigmoid(at.narrow(self, axis, size // 2, size // 2))
