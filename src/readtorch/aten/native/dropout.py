# Tangled from chapters/a1_operators/nn_6_linear_and_embedding.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.cpu_generator_impl import engine
from readtorch.aten.native.distributions import uniform01


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


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")


def _scaled_noise(at: Any, input: Any, p: float, per_channel: bool) -> Any:
    kept = at._kept(input, p, per_channel)
    return kept if p == 1 else kept / (1 - p)


def _is_identity(input: Any, p: float, train: bool) -> bool:
    _check(p)
    return p == 0 or not train or 0 in input.shape


@composite("dropout")
def dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    return input if _is_identity(input, p, train) else input * _scaled_noise(at, input, p, False)


@composite("dropout_")
def dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    return input if _is_identity(input, p, train) else input.mul_(_scaled_noise(at, input, p, False))


@composite("feature_dropout")
def feature_dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    return input if _is_identity(input, p, train) else input * _scaled_noise(at, input, p, True)


@composite("feature_dropout_")
def feature_dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    return input if _is_identity(input, p, train) else input.mul_(_scaled_noise(at, input, p, True))


_ALPHA = 1.7580993408473766


def _alpha_noise(at: Any, input: Any, p: float, per_channel: bool) -> tuple[Any, Any]:
    """(Factor, summand) of the affine map per element."""
    a = 1.0 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p)) if p < 1 else 0.0
    kept = at._kept(input, p, per_channel)
    return kept * a, (kept - 1) * (_ALPHA * a) + _ALPHA * a * p


@composite("alpha_dropout")
def alpha_dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    if _is_identity(input, p, train):
        return input
    factor, summand = _alpha_noise(at, input, p, False)
    return input * factor + summand


@composite("alpha_dropout_")
def alpha_dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    if _is_identity(input, p, train):
        return input
    factor, summand = _alpha_noise(at, input, p, False)
    return input.mul_(factor).add_(summand)


@composite("feature_alpha_dropout")
def feature_alpha_dropout(at: Any, input: Array, p: float, train: bool) -> Any:
    if _is_identity(input, p, train):
        return input
    factor, summand = _alpha_noise(at, input, p, True)
    return input * factor + summand


@composite("feature_alpha_dropout_")
def feature_alpha_dropout_(at: Any, input: Array, p: float, train: bool) -> Any:
    if _is_identity(input, p, train):
        return input
    factor, summand = _alpha_noise(at, input, p, True)
    return input.mul_(factor).add_(summand)
