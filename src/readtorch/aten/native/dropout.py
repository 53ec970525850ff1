# Tangled from chapters/a1_operators/nn_6_linear_and_embedding.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.cpu_generator_impl import engine
from readtorch.aten.native.distributions import uniform01
from readtorch.c10.core.dispatch_key import BACKENDS, DispatchKey, meta_like
from readtorch.c10.core.scalar_type import to_string


@register("_kept", variants="")
def _kept(self: Array, p: float, per_channel: bool) -> Array:
    """1 with probability `1 - p`, else 0: one draw per element of `self`, or one per example and channel."""
    if per_channel and self.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    shape = (*self.shape[:2], *(1,) * (self.ndim - 2)) if per_channel else self.shape
    draws = uniform01(engine(None), math.prod(shape), np.dtype(np.float64))
    # drawn in the order of memory, which for a transposed tensor is not that of the elements
    in_order = per_channel or 0 in self.strides
    kept = np.empty(shape, self.dtype) if in_order else np.empty_like(self)
    kept.ravel(order="K")[...] = draws < 1 - p
    return kept


@register("_kept", key="Meta")
def _kept_on_meta(self: Array, p: float, per_channel: bool) -> Array:
    return meta_like(self, (*self.shape[:2], *(1,) * (self.ndim - 2)) if per_channel else self.shape)


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")


def _scaled_noise(at: Any, input: Any, p: float, per_channel: bool) -> Any:
    """The factor of each element; nothing is drawn where none is to be kept."""
    return False if p == 1 else at._kept(input, p, per_channel) / (1 - p)


def _is_identity(input: Any, p: float, train: bool) -> bool:
    _check(p)
    return p == 0 or not train or 0 in input.shape


@composite("dropout")
def dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    """Zero elements with probability `p` and divide the others by `1 - p`, if `train`. RuntimeError unless 0 ≤ p ≤ 1."""
    if _is_identity(input, p, train):
        return input
    if p < 1 and _is_on_gpu(input):
        return at.native_dropout(input, p, train)[0]
    return input * _scaled_noise(at, input, p, False)


def _is_on_gpu(input: Any) -> bool:
    """There a kernel draws and multiplies at once."""
    return BACKENDS.get(getattr(input, "_array", input).__class__) is DispatchKey.CUDA


@composite("dropout_")
def dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    """`dropout`, written to its argument."""
    return input if _is_identity(input, p, train) else input.mul_(_scaled_noise(at, input, p, False))


@composite("feature_dropout")
def feature_dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    """`dropout` of whole channels, `(N, C, *)`."""
    return input if _is_identity(input, p, train) else input * _scaled_noise(at, input, p, True)


@composite("feature_dropout_")
def feature_dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    """`feature_dropout`, written to its argument."""
    return input if _is_identity(input, p, train) else input.mul_(_scaled_noise(at, input, p, True))


@register("native_dropout", outputs="result mask", differentiable_outputs=(0,), node="NativeDropout")
def native_dropout(input: Array, p: float, train: bool | None) -> tuple[Array, Array]:
    """`input` with elements zeroed with probability `p` and the others divided by `1 - p`; and the mask of what was kept."""
    if not input.size:
        return input.copy(), np.empty_like(input)
    if train is False:
        return input.copy(), np.ones(input.shape, np.bool_)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={1 - p}")
    if input.dtype.kind in "biu":
        raise RuntimeError(f"result type Float can't be cast to the desired output type {to_string(input.dtype)}")
    mask = _kept(input, p, False).astype(np.bool_)
    return (input * mask * _scale(p, train)).astype(input.dtype, copy=False), mask


def _scale(p: float, train: bool | None) -> float:
    return 1.0 if train is False else 0.0 if p == 1 else 1 / (1 - p)


@register("native_dropout_backward", variants="", node="NativeDropoutBackward")
def native_dropout_backward(grad_output: Array, mask: Array, scale: float) -> Array:
    """`grad_output * mask * scale`."""
    return (grad_output * mask * scale).astype(grad_output.dtype, copy=False)


derivative(
    "native_dropout",
    input=lambda at, grads, mask, p, train: at.native_dropout_backward(grads[0], mask, _scale(p, train)),
)
derivative(
    "native_dropout_backward", grad_output=lambda at, grad, mask, scale: at.native_dropout_backward(grad, mask, scale)
)

_ALPHA = 1.7580993408473766


def _alpha_noise(at: Any, input: Any, p: float, per_channel: bool) -> tuple[Any, Any]:
    """(Factor, summand) of the affine map per element."""
    if p == 1:
        return False, False
    a = 1.0 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    kept = at._kept(input, p, per_channel)
    return kept * a, (kept - 1) * (_ALPHA * a) + _ALPHA * a * p


def _alpha_dropout(at: Any, input: Any, p: float, train: bool, per_channel: bool) -> Any:
    if _is_identity(input, p, train):
        return input
    factor, summand = _alpha_noise(at, input, p, per_channel)
    return input * factor if p == 1 else input * factor + summand


def _alpha_dropout_(at: Any, input: Any, p: float, train: bool, per_channel: bool) -> Any:
    if _is_identity(input, p, train):
        return input
    factor, summand = _alpha_noise(at, input, p, per_channel)
    return input.mul_(factor) if p == 1 else input.mul_(factor).add_(summand)


@composite("alpha_dropout")
def alpha_dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    """Dropout to the value that SELU saturates at, and an affine map, so that mean 0 and variance 1 stay (Klambauer et al. 2017)."""
    return _alpha_dropout(at, input, p, train, per_channel=False)


@composite("alpha_dropout_")
def alpha_dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    """`alpha_dropout`, written to its argument."""
    return _alpha_dropout_(at, input, p, train, per_channel=False)


@composite("feature_alpha_dropout")
def feature_alpha_dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    """`alpha_dropout` of whole channels, `(N, C, *)`."""
    return _alpha_dropout(at, input, p, train, per_channel=True)


@composite("feature_alpha_dropout_")
def feature_alpha_dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    """`feature_alpha_dropout`, written to its argument."""
    return _alpha_dropout_(at, input, p, train, per_channel=True)
