# Tangled from chapters/a1_operators/1b_bounds_and_blends.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import (
    broadcasts_on_meta,
    composite,
    computes_in_opmath,
    derivative,
    differentiates_in_opmath,
    register,
)
from readtorch.aten.core.dispatch.operator_entry import Array, Number
from readtorch.aten.tensor_iterator import common_dtype, fitting
from readtorch.c10.core.scalar_type import cpp_type, not_implemented


def _check_sizes(self: Array, *others: Array) -> None:
    """RuntimeError unless the shapes broadcast together."""
    from readtorch.aten.expand_utils import infer_size

    shape = self.shape
    for other in others:
        shape = infer_size(shape, other.shape)


def _together(arrays: Sequence[Array], value: Number) -> list[Array]:
    """The arrays in the type they are computed in, which must hold the number."""
    kind = common_dtype(*arrays)
    fitting(value, kind)
    return [array if array.dtype == kind else array.astype(kind) for array in arrays]


@register("addcmul", key="CPU CUDA", variants="function method", inplace=True, out=True, autocast="widest")
def addcmul(self: Array, tensor1: Array, tensor2: Array, *, value: Number = 1) -> Array:
    """Self + value · tensor1 · tensor2."""
    _check_sizes(self, tensor1, tensor2)
    self, tensor1, tensor2 = _together((self, tensor1, tensor2), value)
    if self.dtype.kind == "b":
        raise not_implemented("addcmul_cpu_out", self.dtype)
    product = tensor1 * tensor2
    return self + (product if value == 1 else product * fitting(value, product.dtype))


derivative(
    "addcmul",
    self=lambda at, grad: grad,
    tensor1=lambda at, grad, tensor2, value: grad * at.conj(tensor2 * value),
    tensor2=lambda at, grad, tensor1, value: grad * at.conj(tensor1 * value),
)


@register("addcdiv", key="CPU CUDA", variants="function method", inplace=True, out=True, autocast="widest")
def addcdiv(self: Array, tensor1: Array, tensor2: Array, *, value: Number = 1) -> Array:
    """Self + value · tensor1 / tensor2."""
    _check_sizes(self, tensor1, tensor2)
    if tensor1.dtype.kind in "iub" and tensor2.dtype.kind in "iub":
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported: make tensor1 and tensor2 floating-point for a true division, or divide by torch.div(..., rounding_mode=...) first."
        )
    self, tensor1, tensor2 = _together((self, tensor1, tensor2), value)
    quotient = tensor1 / tensor2
    return self + (quotient if value == 1 else quotient * fitting(value, quotient.dtype))


derivative(
    "addcdiv",
    self=lambda at, grad: grad,
    tensor1=lambda at, grad, tensor2, value: grad * at.conj(value / tensor2),
    tensor2=lambda at, grad, tensor1, tensor2, value: -grad * at.conj(value * tensor1 / (tensor2 * tensor2)),
)


@composite("lerp", variants="function method", inplace=True, out=True)
def lerp(at: Any, self: Array, end: Array, weight: Array | Number) -> Any:
    """Self + weight · (end − self)."""
    return at._lerp_tensor(self, end, weight) if hasattr(weight, "dtype") else at._lerp_scalar(self, end, weight)


@register("_lerp_scalar", key="CPU CUDA", variants="", node="Lerp")
def _lerp_scalar(self: Array, end: Array, weight: Number) -> Array:
    if self.dtype != end.dtype:
        raise RuntimeError(f"expected dtype {cpp_type(self.dtype)} for `end`, but got dtype {cpp_type(end.dtype)}")
    _check_sizes(self, end)
    fitted = fitting(weight, self.dtype)
    near = abs(weight) < 0.5  # asked of Python's number: one on a device would have to be waited for
    return self + fitted * (end - self) if near else end - (end - self) * (1 - fitted)


@register("_lerp_tensor", key="CPU CUDA", variants="", node="LerpBackward1")
def _lerp_tensor(self: Array, end: Array, weight: Array) -> Array:
    _check_sizes(self, end, weight)
    if end.dtype != self.dtype:
        raise RuntimeError(f"expected dtype {cpp_type(self.dtype)} for `end` but got dtype {cpp_type(end.dtype)}")
    if weight.dtype != self.dtype:
        if weight.ndim:
            raise RuntimeError(
                f"expected dtype {cpp_type(self.dtype)} for `weight` but got dtype {cpp_type(weight.dtype)}"
            )
        weight = weight.astype(self.dtype)
    near, change = np.abs(weight) < 0.5, end - self
    return np.where(near, self + weight * change, end - change * (1 - weight))


derivative(
    "_lerp_scalar",
    self=lambda at, grad, weight: grad * (1 - weight.conjugate()),
    end=lambda at, grad, weight: grad * weight.conjugate(),
)
computes_in_opmath("addcmul", "addcdiv", "_lerp_scalar", "_lerp_tensor")
broadcasts_on_meta("addcmul", "addcdiv", "_lerp_scalar", "_lerp_tensor")
derivative(
    "_lerp_tensor",
    self=lambda at, grad, weight: grad * at.conj(1 - weight),
    end=lambda at, grad, weight: grad * at.conj(weight),
    weight=lambda at, grad, self, end: grad * at.conj(end - self),
)
differentiates_in_opmath("_lerp_scalar")
