# Tangled from chapters/a1_operators/5a_triangles_and_solving.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, cpu, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.tensor_iterator import in_order
from readtorch.c10.core.scalar_type import not_implemented, to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


def _check_rank(name: str, self: Array) -> None:
    if self.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


@register("tril", key="CPU CUDA", variants="function method", inplace=True, out=True)
def tril(self: Array, diagonal: int = 0) -> Array:
    """Zeros above a diagonal."""
    _check_rank("tril", self)
    return in_order(np.tril(self, diagonal))


@register("triu", key="CPU CUDA", variants="function method", inplace=True, out=True)
def triu(self: Array, diagonal: int = 0) -> Array:
    """Zeros below a diagonal."""
    _check_rank("triu", self)
    return in_order(np.triu(self, diagonal))


derivative("tril", self=lambda at, grad, diagonal: at.tril(grad, diagonal))
derivative("triu", self=lambda at, grad, diagonal: at.triu(grad, diagonal))


@register("trace", key="CPU CUDA", variants="function method")
def trace(self: Array) -> Array:
    """The sum of the diagonal."""
    if self.ndim != 2:
        raise RuntimeError("trace: expected a matrix")
    return cpu.sum(cpu.diagonal(self, 0, 0, 1))


def _trace_backward(at: Any, grad: Any, shape: tuple[int, ...]) -> Any:
    return at.diagonal_backward(at.expand(grad, (min(shape),)), shape, 0, 0, 1)


derivative("trace", self=lambda at, grad, self_shape: _trace_backward(at, grad, self_shape))


@composite("cross", variants="function method", out=True)
def cross(at: Any, self: Array, other: Array, dim: int | None = None) -> Any:
    """The cross product of vectors of three along `dim`."""
    if dim is None:
        dim = next((axis for axis, size in enumerate(self.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    if self.ndim != other.ndim:
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions. Got {self.ndim} and {other.ndim}"
        )
    place = maybe_wrap_dim(dim, self.ndim, wrap_scalar=False)
    if self.shape[place] != 3 or other.shape[place] != 3:
        sizes = f"{self.shape[place]} and {other.shape[place]}"
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes}")
    if to_string(self.dtype) == "Bool":
        raise not_implemented("cross", self.dtype)
    if self.dtype != other.dtype:
        raise RuntimeError(f"expected scalar type {to_string(self.dtype)} but found {to_string(other.dtype)}")
    a, b = [[at.select(x, dim, i) for i in range(3)] for x in (self, other)]
    parts = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    return at.stack(parts, dim)
