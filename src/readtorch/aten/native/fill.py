# Tangled from chapters/00_tensor/08_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.tensor_iterator import fitting


@register("_fill_scalar_", variants="", node="Fill")
def _fill_scalar_(self: Array, value: Any) -> Array:
    number = fitting(value, self.dtype)
    self[...] = number if self.__class__ is np.ndarray else value
    return self


derivative("_fill_scalar_", self=lambda at, grad: at.zeros_like(grad))


@register("_fill_tensor_", variants="", node="Fill")
def _fill_tensor_(self: Array, value: Array) -> Array:
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor; this one has {value.ndim} dimensions.")
    self[...] = value
    return self


derivative("_fill_tensor_", self=lambda at, grad: at.zeros_like(grad), value=lambda at, grad: at.sum(grad))


@register("zero_", variants="function method", node="Zero")
def zero_(self: Array) -> Array:
    """Set every element to zero."""
    self[...] = 0
    return self


derivative("zero_", self=lambda at, grad: at.zeros_like(grad))
