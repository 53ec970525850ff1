# Tangled from chapters/a1_operators/nn_5_softmax_and_losses.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, keeps_shape_on_meta, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.tensor_factories import in_one_piece
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.scalar_type import not_implemented
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


def _floating(op: str, x: Array) -> Array:
    if x.dtype.kind not in "fV":
        raise not_implemented(op, x.dtype)
    return in_working_precision(x)


def _shifted(x: Array, axis: int) -> Array:
    """`x - max(x)` along `axis`, in fresh memory, the last dimension innermost."""
    return np.subtract(x, x.max(axis, keepdims=True), order="C")


def _trivial(x: Array) -> bool:
    """Nothing to reduce: no dimensions, or no elements."""
    return x.ndim == 0 or x.size == 0


@register("_softmax", variants="", node="Softmax")
def _softmax(self: Array, dim: int) -> Array:
    axis = maybe_wrap_dim(dim, self.ndim)
    x = _floating("softmax_lastdim_kernel_impl", self)
    if _trivial(x):
        return np.ones_like(self)
    y = _shifted(x, axis)
    np.exp(y, out=y)
    total = y.sum(axis, keepdims=True)
    # upstream's kernel for the other dimensions stores the powers
    if x is not self and axis != self.ndim - 1:
        y = in_working_precision(y.astype(self.dtype))
    y /= total
    return (y if y.ndim == 1 else in_one_piece(y, self)).astype(self.dtype, copy=False)


@register("_log_softmax", variants="", node="LogSoftmax")
def _log_softmax(self: Array, dim: int) -> Array:
    axis = maybe_wrap_dim(dim, self.ndim)
    x = _floating("log_softmax_lastdim_kernel_impl", self)
    if _trivial(x):
        return np.zeros_like(self)
    y = _shifted(x, axis)
    total = np.exp(y).sum(axis, keepdims=True)
    # upstream's kernel for the last dimension stores the sum and its logarithm
    if x is not self and axis == self.ndim - 1:
        y -= np.log(total.astype(self.dtype)).astype(x.dtype)
    else:
        y -= np.log(total)
    return (y if y.ndim == 1 else in_one_piece(y, self)).astype(self.dtype, copy=False)


@register("_softmax_backward_data", variants="", node="SoftmaxBackwardData")
def _softmax_backward_data(grad_output: Array, output: Array, dim: int) -> Array:
    if _trivial(output):
        return np.zeros_like(grad_output)
    g, y = in_working_precision(grad_output), in_working_precision(output)
    if maybe_wrap_dim(dim, y.ndim) == y.ndim - 1:
        dx = g - np.vecdot(g, y)[..., None]
    else:
        dx = g - (g * y).sum(dim, keepdims=True)
    dx *= y
    return dx.astype(grad_output.dtype, copy=False)


@register("_log_softmax_backward_data", variants="", node="LogSoftmaxBackwardData")
def _log_softmax_backward_data(grad_output: Array, output: Array, dim: int) -> Array:
    if _trivial(output):
        return np.zeros_like(grad_output)
    g, y = in_working_precision(grad_output), in_working_precision(output)
    dx = np.exp(y)
    dx *= g.sum(dim, keepdims=True)
    np.subtract(g, dx, out=dx)
    return dx.astype(grad_output.dtype, copy=False)


def _softmax_second(at: Any, grad: Any, grad_output: Any, output: Any, dim: int) -> Any:
    return grad * (grad_output - at.sum(grad_output * output, dim, True)) - grad_output * at.sum(
        grad * output, dim, True
    )


keeps_shape_on_meta("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data")
derivative("_softmax", self=lambda at, grad, result, dim: at._softmax_backward_data(grad, result, dim))
derivative("_log_softmax", self=lambda at, grad, result, dim: at._log_softmax_backward_data(grad, result, dim))
derivative(
    "_softmax_backward_data",
    grad_output=lambda at, grad, output, dim: at._softmax_backward_data(grad, output, dim),
    output=_softmax_second,
)
derivative(
    "_log_softmax_backward_data",
    grad_output=lambda at, grad, output, dim: grad - at.sum(grad * at.exp(output), dim, True),
    output=lambda at, grad, grad_output, output, dim: -grad * at.exp(output) * at.sum(grad_output, dim, True),
)


@composite("softmax", variants="function method", autocast="float32", out=True)
def softmax(at: Any, self: Array, dim: int, dtype: Any = None) -> Any:
    """`exp(x) / Σ exp(x)` along `dim`; the argument is cast to `dtype` first, if it is given."""
    return at._softmax(self if dtype is None else at._to_copy(self, dtype), dim)


@composite("log_softmax", variants="function method", autocast="float32", out=True)
def log_softmax(at: Any, self: Array, dim: int, dtype: Any = None) -> Any:
    """`x - log Σ exp(x)` along `dim`; the argument is cast to `dtype` first, if it is given."""
    return at._log_softmax(self if dtype is None else at._to_copy(self, dtype), dim)
