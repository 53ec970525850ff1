# Tangled from chapters/a1_operators/nn_4_activation.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch.dispatcher import cpu, derivative, differentiates_in_opmath, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


@register("glu", module="nn")
def glu(self: Array, dim: int = -1) -> Array:
    """The first half along `dim` times the sigmoid of the second."""
    if not self.shape:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    axis = maybe_wrap_dim(dim, len(self.shape))
    size = self.shape[axis]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    first, second = _halves(cpu, self, axis)
    return cpu.mul(first, cpu.sigmoid(second))


def _halves(at: Any, self: Any, axis: int) -> tuple[Any, Any]:
    size = self.shape[axis]
    return at.slice(self, axis, 0, size // 2, 1), at.slice(self, axis, size // 2, size, 1)


def _glu_gradient(at: Any, grad: Any, self: Any, dim: int) -> Any:
    axis = maybe_wrap_dim(dim, len(self.shape))
    first, second = _halves(at, self, axis)
    gate = at.sigmoid(second)
    passed = grad * gate
    return at.cat([passed, passed * first * (1 - gate)], axis)


derivative("glu", self=_glu_gradient)
differentiates_in_opmath("glu")
