# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Bounds, blends, and activations that are operators
#
# Reference, continued: functions of each element that take limits or a third operand.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Bounds
# `clamp` passes the gradient where the element was inside, bounds included ([other corners](1_pointwise.py) are decided otherwise). Where the lower bound lies above the upper one, the upper one wins.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import pointwise_ops as pointwise_ops
from readtorch.aten.native import tensor_compare as tensor_compare

# %%
#| into: aten/native/tensor_compare.py
#| imports
from __future__ import annotations


import builtins
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import broadcasts_on_meta, composite, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array, Number
from readtorch.aten.expand_utils import infer_size
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.tensor_iterator import common_dtype, fitting
from readtorch.c10.core.device_guard import number_beside
from readtorch.c10.core.dispatch_key import values_for
from readtorch.c10.core.scalar_type import from_numpy_dtype, not_implemented, to_numpy_dtype
from readtorch.c10.core.scalar_type import largest, to_string


# %%
#| into: aten/native/tensor_compare.py
#| upstream: aten/src/ATen/native/TensorCompare.cpp#at::native::clamp_out
@register("_clamp_scalar", key="CPU CUDA", variants="", node="ClampBackward1")
def _clamp_scalar(self: Array, min: Any, max: Any) -> Array:
    if self.dtype.kind not in "fV" and (isinstance(min, complex) or isinstance(max, complex)):
        raise NotImplementedError("clamp is not supported for complex types")
    wanted = to_numpy_dtype(result_type([value for value in (self, min, max) if value is not None]))
    wanted = self.dtype if wanted.kind == "c" else wanted
    if wanted.kind == "b":
        raise not_implemented("clamp_scalar_cpu", wanted)
    values = self.astype(wanted, copy=False)
    if min is not None:
        values = np.maximum(values, fitting(min, wanted))
    return values if max is None else np.minimum(values, fitting(max, wanted))


def _inside(self: Any, min: Any, max: Any) -> Any:
    inside = self >= min if min is not None else None
    if max is not None:
        inside = self <= max if inside is None else inside & (self <= max)
    return inside


broadcasts_on_meta("_clamp_scalar")
derivative("_clamp_scalar", self=lambda at, grad, self, min, max: at.where(_inside(self, min, max), grad, 0))


@register("_clamp_tensor", key="CPU CUDA", variants="", node="Clamp")
def _clamp_tensor(self: Array, min: Array | None, max: Array | None) -> Array:
    shape = self.shape
    for bound in (min, max):
        shape = shape if bound is None else infer_size(shape, bound.shape)
    bounds = [bound for bound in (min, max) if bound is not None]
    kind = common_dtype(self, *bounds)
    if kind.kind == "b" and len(bounds) == 2:
        raise not_implemented("clamp_cpu", kind)
    self, *bounds = [operand.astype(kind, copy=False) for operand in (self, *bounds)]
    values = self if min is None else np.maximum(self, bounds.pop(0))
    return values if max is None else np.minimum(values, bounds.pop())


def _clamp_bound(at: Any, grad: Any, self: Any, min: Any, max: Any) -> Any:
    """To the input inside, to the lower bound below it (unless the upper is lower still), to the upper one above."""
    below = self < min if min is not None else None
    above = self > max if max is not None else None
    zero = at.zeros_like(grad)
    to_min = to_max = None
    if min is not None:
        to_min = at.where(below & (min < max) if max is not None else below, grad, zero)
    if max is not None:
        to_max = at.where(above | (max < min) if min is not None else above, grad, zero)
    return at.where(_inside(self, min, max), grad, zero), to_min, to_max


broadcasts_on_meta("_clamp_tensor")
derivative("_clamp_tensor", {"self, min, max": _clamp_bound})


@composite("clamp", variants="function method", inplace=True, out=True)
def clamp(at: Any, self: Array, min: Array | Number | None = None, max: Array | Number | None = None) -> Any:
    """Each element held between two bounds, numbers or tensors, of which one may be missing."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if hasattr(min, "dtype") or hasattr(max, "dtype"):
        if isinstance(min, np.generic) or isinstance(max, np.generic):  # NumPy's numbers are numbers
            return at.clamp(self, *(b.item() if isinstance(b, np.generic) else b for b in (min, max)))
        if isinstance(min, float | int) or isinstance(max, float | int):
            other: Any = max if isinstance(min, float | int) else min
            if other.ndim:
                raise TypeError("clamp(): 'min' and 'max' must both be tensors or both be numbers")
            bounds: list[Any] = [min, max]
            return at._clamp_scalar(self, *(bound.item() if hasattr(bound, "dtype") else bound for bound in bounds))
        if self.ndim and not any(getattr(bound, "ndim", 0) for bound in (min, max)):
            kinds = [_category(x.dtype) for x in (self, min, max) if x is not None]
            if kinds[0] >= builtins.max(kinds[1:]):  # a 0-d bound has no say in the dtype
                min, max = (None if bound is None else at._to_copy_like(bound, self) for bound in (min, max))
        return at._clamp_tensor(self, _as_like(self, min), _as_like(self, max))
    return at._clamp_scalar(self, min, max)


def _category(kind: Any) -> int:
    return (from_numpy_dtype(kind) if isinstance(kind, np.dtype) else kind)._category


def _as_like(like: Any, value: Any) -> Any:
    if value is None or hasattr(value, "dtype"):
        return value
    from readtorch.c10.core.tensor_impl import TensorImpl, wrap

    tensors = isinstance(like, TensorImpl)
    raw = like._array if tensors else like
    array = number_beside(np.asarray(value).astype(raw.dtype)[()], raw.dtype, raw)
    return wrap(array) if tensors else array


composite("clip", variants="function method", inplace=True, out=True)(
    lambda at, self, min=None, max=None: at.clamp(self, min, max)
)


@composite("clamp_min", variants="function method", inplace=True, out=True)
def clamp_min(at: Any, self: Array, min: Array | Number) -> Any:
    """No element below `min`."""
    if min.__class__ is complex:
        raise NotImplementedError("clamp is not supported for complex types")
    return at.clamp(self, min, None)


@composite("clamp_max", variants="function method", inplace=True, out=True)
def clamp_max(at: Any, self: Array, max: Array | Number) -> Any:
    """No element above `max`."""
    if max.__class__ is complex:
        raise NotImplementedError("clamp is not supported for complex types")
    return at.clamp(self, None, max)


@register("nan_to_num", key="CPU CUDA", variants="function method", inplace=True, out=True)
def nan_to_num(
    self: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """NaN made 0, infinities the largest numbers, or what is given instead."""
    if self.dtype.kind == "V":
        limit = largest(self.dtype)
        posinf, neginf = limit if posinf is None else posinf, -limit if neginf is None else neginf
        return nan_to_num(self.astype(np.float32), nan, posinf, neginf).astype(self.dtype)
    return np.nan_to_num(self, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


broadcasts_on_meta("nan_to_num")
derivative("nan_to_num", self=lambda at, grad, self: grad * at.isfinite(self))


@composite("isclose", variants="function method")
def isclose(
    at: Any, self: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """|self − other| ≤ atol + rtol · |other|, elementwise."""
    if self.dtype != other.dtype:
        raise RuntimeError(f"{self.dtype} did not match {other.dtype}")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {tolerance:g}")
    close = at.eq(self, other)
    if equal_nan:
        close = close | (at.isnan(self) & at.isnan(other))
    if (rtol == 0 and atol == 0) or str(self.dtype).endswith("bool"):
        return close
    distance = at.abs(self - other)
    return close | (at.isfinite(distance) & (distance <= atol + at.abs(rtol * other)))


@composite("allclose", variants="function method")
def allclose(
    at: Any, self: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Are all elements close?"""
    return bool(at.all(at.isclose(self, other, rtol, atol, equal_nan)))


@composite("equal", variants="function method")
def equal(at: Any, self: Array, other: Array) -> bool:
    """Same shape and same elements?"""
    values_for("equal", self)
    return self.shape == other.shape and bool(at.all(at.eq(self, other)))


@composite("isin", variants="function", out=True)
def isin(
    at: Any,
    elements: Array | Number = None,
    test_elements: Array | Number = None,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    element: Number = None,
    test_element: Number = None,
) -> Any:
    """Which elements occur among the others. A number is called `element` or `test_element`."""
    elements = element if elements is None else elements
    test_elements = test_element if test_elements is None else test_elements
    elements, test_elements = (x.item() if isinstance(x, np.generic) else x for x in (elements, test_elements))
    tensors = [operand for operand in (elements, test_elements) if hasattr(operand, "dtype")]
    if not tensors or elements is None or test_elements is None:
        raise TypeError("isin(): argument 'elements' must be Tensor, unless 'test_elements' is")
    for number in (elements, test_elements):
        if isinstance(number, bool | complex):
            kind = "Bool" if isinstance(number, bool) else "ComplexDouble"
            raise RuntimeError(f"Unsupported input type encountered for isin(): {kind}")
    if isinstance(elements, float) or isinstance(test_elements, float):  # among integers no fraction occurs
        tensors = [at._true_div(tensors[0], 1) if _category(tensors[0].dtype) < 2 else tensors[0]]
    elements, test_elements = (_as_like(tensors[0], operand) for operand in (elements, test_elements))
    for operand in (elements, test_elements):
        kind = to_string(operand.dtype)
        if kind == "Bool" or kind.startswith("Complex"):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {kind}")
    return at._isin(elements, test_elements, invert)


@register("_isin", key="CPU CUDA", variants="")
def _isin(elements: Array, test_elements: Array, invert: bool) -> Array:
    return np.isin(elements, test_elements, invert=invert)


composite("is_nonzero", variants="function method")(lambda at, self: bool(self))

# %% [markdown]
# ## Three operands
# The updates of optimizers.

# %%
#| into: aten/native/pointwise_ops.py
#| imports
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


# %%
#| into: aten/native/pointwise_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#addcmul
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


# %%
#| into: aten/native/pointwise_ops.py
#| upstream: aten/src/ATen/native/Lerp.cpp#at::native::lerp
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

# %% [markdown]
# ## Activations that are operators
# `relu`, `sigmoid`, `tanh` and `softmax` are in the tensor namespace; the others belong to `nn.functional`.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import activation as activation

# %%
#| into: aten/native/activation.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.unary_ops import unary
from readtorch.c10.core import scalar_type
from readtorch.c10.core.scalar_type import not_implemented


# %%
#| into: aten/native/activation.py
#| upstream: aten/src/ATen/native/Activation.cpp#at::native::relu
_MANY = 1 << 19
"""Numbers. Half as many are done by one thread before another has woken up."""


def _rectify(out: Array, x: Array) -> None:
    np.maximum(x, 0, out=out)


def _relu(x: Any) -> Any:
    if x.size >= _MANY and x.__class__ is np.ndarray and x.dtype.kind == "f":
        return _in_pieces(_rectify, x)
    return np.maximum(x, 0 if x.dtype.kind == "f" else x.dtype.type(0))


_FEW = 1000
"""Numbers. Above as many, a product with a mask is faster than an assignment through it."""

_BITS = {size: np.dtype(f"i{size}") for size in (2, 4, 8)}


def bit_pattern(x: Array) -> Array:
    """The same memory, read as integers."""
    return x.view(_BITS[x.itemsize])


def keep_where(out: Array, x: Array, kept: Array) -> None:
    """`x` where `kept`, else 0. Times a truth value goes the number's bit pattern: 0 · ∞ would be NaN."""
    np.multiply(bit_pattern(x), kept, out=bit_pattern(out))


def _pass_where_positive(out: Array, grad: Array, result: Array) -> None:
    keep_where(out, grad, result.astype(np.bool_))


def _relu_gradient(at: Any, grad: Any, result: Any) -> Any:
    """The gradient where the result is not 0: NaN is not, and passes it on."""
    if grad.__class__ is not np.ndarray:
        return at.where(result <= 0, 0, grad)
    if grad.size <= _FEW:
        passed = result.copy("K")
        np.putmask(passed, result, grad)
        return passed
    if grad.size >= _MANY and grad.shape == result.shape:
        return _in_pieces(_pass_where_positive, grad, result)
    passed = np.empty_like(result)
    _pass_where_positive(passed, grad, result)
    return passed


unary(
    "relu",
    _relu,
    "same",
    _relu_gradient,
    out=False,
    refuse=lambda common: "Boolean inputs not supported for relu" if common is scalar_type.bool else None,
)

# %% [markdown]
# ## What is close, and what is equal?
#
# `isclose(a, b)` measures by |b|: the two are not exchangeable, the second is the one that is trusted. A NaN is close to nothing and equal to nothing, itself included, unless `equal_nan` says so; so `torch.equal(x, x)` may be false. `nan_to_num` makes of an infinity the largest number, not zero. And a bound of `clamp` takes part in promotion: integers held
# above 1.5 come out as floats.


# %%
#| claim: isclose is not symmetric; a tensor with a NaN does not equal itself; a float bound makes clamp's result float, and the upper bound wins
def _(torch):
    one, more = torch.tensor(1.0), torch.tensor(1.1)
    assert torch.isclose(one, more, rtol=0.095, atol=0) and not torch.isclose(more, one, rtol=0.095, atol=0)
    broken = torch.tensor([float("nan"), float("inf")])
    assert not torch.equal(broken, broken) and torch.allclose(broken, broken, equal_nan=True)
    assert broken.nan_to_num().tolist() == [0, torch.finfo(torch.float32).max]
    assert torch.tensor([1, 2]).clamp(min=1.5).tolist() == [1.5, 2] and torch.tensor([0.0, 5.0]).clamp(
        3, 1
    ).tolist() == [1, 1]
