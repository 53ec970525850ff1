# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import (
    broadcasts_on_meta,
    composite,
    derivative,
    differentiates_in_opmath,
    pointwise,
    register,
)
from readtorch.aten.core.dispatch.operator_entry import UNSAID, Array, Number
from readtorch.aten.native import math as special
from readtorch.aten.tensor_iterator import Pointwise, shapes
from readtorch.c10.core import scalar_type
from readtorch.c10.core.default_dtype import get_default_dtype
from readtorch.c10.core.dispatch_key import specimen, without_values
from readtorch.c10.core.scalar_type import dtype, not_implemented, to_numpy_dtype


def _operand(self: Array) -> Array: ...


def unary(
    name: str,
    ufunc: Callable[..., Any],
    promote: str = "float",
    formula: Callable[..., Any] | None = None,
    *,
    refuse: Callable[[dtype], str | None] | None = None,
    **description: Any,
) -> None:
    """Register a pointwise operator of one operand and its derivative."""
    pointwise(name, Pointwise(name, ufunc, promote, refuse), _operand, **description)
    if formula is not None:
        derivative(name, self=formula)


unary("exp", np.exp, formula=lambda at, grad, result: grad * at.conj(result), autocast="float32")


def _no_bool_negation(common: dtype) -> str | None:
    if common is scalar_type.bool:
        return "Negation, the `-` operator, on a bool tensor is not supported: a mask is inverted by `~`, or `logical_not()`."
    return None


unary("neg", np.negative, "same", lambda at, grad: -grad, refuse=_no_bool_negation)


@register("_conj_physical", key="CPU CUDA", variants="", node="Conj")
def _conj_physical(self: Array) -> Array:
    return np.conjugate(self)


derivative("_conj_physical", self=lambda at, grad: at.conj(grad))


@composite("conj", variants="function method")
def conj(at: Any, self: Array | Number) -> Any:
    """The complex conjugate; a real tensor itself. (Formulas ask for that of numbers too; the function that Python sees does not.)"""
    return at._conj_physical(self) if is_complex(self) else self


def is_complex(value: Any) -> bool:
    """Is this array, tensor or number complex?"""
    kind = getattr(value, "dtype", None)
    if kind is None:
        return isinstance(value, complex)
    return kind.kind == "c" if isinstance(kind, np.dtype) else kind.is_complex


unary("exp2", np.exp2, formula=lambda at, grad, result: grad * at.conj(result) * math.log(2))
unary("expm1", np.expm1, formula=lambda at, grad, result: grad * (at.conj(result) + 1), autocast="float32")
unary("log", np.log, formula=lambda at, grad, self: grad / at.conj(self), autocast="float32")
unary("log2", np.log2, formula=lambda at, grad, self: grad / (at.conj(self) * math.log(2)), autocast="float32")
unary("log10", np.log10, formula=lambda at, grad, self: grad / (at.conj(self) * math.log(10)), autocast="float32")
unary("log1p", np.log1p, node="Log1P", formula=lambda at, grad, self: grad / (at.conj(self) + 1), autocast="float32")
unary("sqrt", np.sqrt, formula=lambda at, grad, result: grad / (2 * at.conj(result)))


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


unary(
    "rsqrt",
    _rsqrt,
    formula=lambda at, grad, result: grad * -0.5 * at.conj(result * result * result),
    autocast="float32",
)
unary(
    "reciprocal", np.reciprocal, formula=lambda at, grad, result: -grad * at.conj(result * result), autocast="float32"
)


@composite("square", variants="function method", inplace=True, out=True)
def square(at: Any, self: Array) -> Any:
    """x²."""
    return at.pow(self, 2)


unary("sin", np.sin, formula=lambda at, grad, self: grad * at.conj(at.cos(self)))
unary("cos", np.cos, formula=lambda at, grad, self: grad * -at.conj(at.sin(self)))
unary("tan", np.tan, formula=lambda at, grad, result: grad * at.conj(1 + result * result), autocast="float32")
unary("asin", np.arcsin, formula=lambda at, grad, self: grad * at.conj(at.rsqrt(1 - self * self)), autocast="float32")
unary("acos", np.arccos, formula=lambda at, grad, self: grad * -at.conj(at.rsqrt(1 - self * self)), autocast="float32")
unary("atan", np.arctan, formula=lambda at, grad, self: grad / at.conj(self * self + 1))
unary("sinh", np.sinh, formula=lambda at, grad, self: grad * at.conj(at.cosh(self)), autocast="float32")
unary("cosh", np.cosh, formula=lambda at, grad, self: grad * at.conj(at.sinh(self)), autocast="float32")
unary("tanh", np.tanh, formula=lambda at, grad, result: grad * at.conj(1 - result * result))
unary("asinh", np.arcsinh, formula=lambda at, grad, self: grad * at.conj(at.rsqrt(self * self + 1)))
unary(
    "acosh",
    np.arccosh,
    formula=lambda at, grad, self: (
        grad * at.conj(at.rsqrt(self - 1) * at.rsqrt(self + 1))
        if is_complex(self)
        else grad * at.rsqrt(self * self - 1)
    ),
)
unary("atanh", np.arctanh, formula=lambda at, grad, self: grad / (1 - at.conj(self * self)))


def _other_name(name: str) -> Callable[..., Any]:
    return lambda at, self: getattr(at, name)(self)


for _alias, _name in (
    ("arcsin", "asin"),
    ("arccos", "acos"),
    ("arctan", "atan"),
    ("arcsinh", "asinh"),
    ("arccosh", "acosh"),
    ("arctanh", "atanh"),
):
    composite(_alias, variants="function method", inplace=True, out=True)(_other_name(_name))


def _sigmoid(x: Any) -> Any:
    """Written so that nothing overflows: 1 / (1 + e⁻ˣ) = ½ + ½ tanh(x / 2)."""
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    half = x.dtype.type(0.5)
    y = half * x
    if not y.ndim:
        return half + half * np.tanh(y)
    np.tanh(y, out=y)  # each new array of many megabytes would cost more than the tanh
    y *= half
    y += half
    return y


unary("sigmoid", _sigmoid, formula=lambda at, grad, result: grad * at.conj((1 - result) * result))


@register("logit", key="CPU CUDA", variants="function method", inplace=True, out=True)
def logit(self: Array, eps: float | None = None) -> Array:
    """ln(x / (1 − x)), the inverse of the sigmoid; `eps` keeps x away from 0 and 1."""
    x = self if self.dtype.kind in "fV" else self.astype(to_numpy_dtype(get_default_dtype()))
    kind = x.dtype
    if eps is not None and not eps < 0:
        x = np.where(x < eps, eps, np.where(x > 1 - eps, 1 - eps, x)).astype(kind)
    return np.log(x / (1 - x)).astype(kind, copy=False)


def _logit_backward(at: Any, grad: Any, self: Any, eps: float | None) -> Any:
    """Outside of [0, 1] there is no slope; where `eps` holds x, it is zero."""
    low, beyond = (0.0, math.nan) if eps is None or eps < 0 else (eps, 0.0)
    outside = at.logical_or(self < low, self > 1 - low)
    return at.where(outside, beyond, grad / (self * (1 - self)))


broadcasts_on_meta("logit")
derivative("logit", self=_logit_backward)
differentiates_in_opmath("sigmoid", "tanh", "logit")
unary("erf", special.erf, formula=lambda at, grad, self: grad * (2 / math.sqrt(math.pi)) * at.exp(-(self * self)))
unary("erfc", special.erfc, formula=lambda at, grad, self: grad * (-2 / math.sqrt(math.pi)) * at.exp(-(self * self)))
unary(
    "erfinv",
    special.erfinv,
    formula=lambda at, grad, self: grad * (math.sqrt(math.pi) / 2) * at.exp(at.square(at.erfinv(self))),
    autocast="float32",
)
unary("lgamma", special.lgamma, formula=lambda at, grad, self: grad * at.digamma(self))
unary("digamma", special.digamma)


def _flat(at: Any, grad: Any) -> Any:
    return at.zeros_like(grad)


def _no_bool(kernel: str) -> Any:
    return lambda common: f"\"{kernel}\" not implemented for 'Bool'" if common is scalar_type.bool else None


unary("floor", np.floor, "same", _flat, refuse=_no_bool("floor_vml_cpu"))
unary("ceil", np.ceil, "same", _flat, refuse=_no_bool("ceil_vml_cpu"))
unary("trunc", np.trunc, "same", _flat, refuse=_no_bool("trunc_vml_cpu"))
composite("fix", variants="function method", inplace=True, out=True)(lambda at, self: at.trunc(self))
unary("frac", lambda x: x - np.trunc(x), "same", lambda at, grad: grad)


@register("round", key="CPU CUDA", variants="function method", inplace=True, out=True)
def round(self: Array, *, decimals: int = UNSAID) -> Array:
    """To the nearest integer, halves to the even one; or to so many decimals."""
    if self.dtype.kind == "b" or (decimals is not None and self.dtype.kind in "iu"):
        raise not_implemented("round_vml_cpu", self.dtype)
    if not decimals:
        return np.round(self)
    if self.dtype.itemsize == 2:
        return round(self.astype(np.float32), decimals=decimals).astype(self.dtype)
    power = self.dtype.type(10.0 ** builtins.abs(decimals) if builtins.abs(decimals) < 308 else math.inf)
    return np.round(self / power) * power if decimals < 0 else np.round(self * power) / power


derivative("round", self=_flat)


def _sign(x: Any) -> Any:
    """−1, 0 or 1; NaN has no sign, and counts as 0."""
    if x.dtype.kind in "fV":
        result = np.sign(x)
        nan = np.isnan(x)
        return np.where(nan, 0, result).astype(x.dtype) if nan.any() else result
    return np.sign(x) if x.dtype.kind != "b" else x.copy()


def _sgn(x: Any) -> Any:
    if x.dtype.kind != "c":
        return _sign(x)
    size = np.abs(x)
    return np.where(size == 0, 0, x / np.where(size == 0, 1, size)).astype(x.dtype)


unary(
    "sign",
    _sign,
    "same",
    _flat,
    refuse=lambda c: (
        "Unlike NumPy, torch.sign doesn't allow complex tensors. Use torch.sgn instead." if c.is_complex else None
    ),
)


def _sgn_backward(at: Any, grad: Any, self: Any, result: Any) -> Any:
    """Of a complex number, the part of the change that turns it; a real one does not turn."""
    if not is_complex(self):
        return at.zeros_like(grad)
    size = at.abs(self)
    turn = (grad - at.real(grad * at.conj(result)) * result) / at.where(size == 0, at.ones_like(size), size)
    return at.where(size == 0, at.zeros_like(turn), turn)


unary("sgn", _sgn, "same", _sgn_backward)


@composite("positive", variants="function method")
def positive(at: Any, self: Array) -> Any:
    """The tensor itself, and no copy of it."""
    if scalar_type.to_string(self.dtype) == "Bool":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


unary("signbit", np.signbit, "bool", inplace=False)


@register("abs", key="CPU CUDA", variants="function method", out=True, inplace=True)
def abs(self: Array) -> Array:
    """The absolute value; of a complex number its length."""
    if self.dtype.kind == "b":
        raise not_implemented("abs_cpu", self.dtype)
    return np.abs(self)


broadcasts_on_meta("abs", "round")
derivative("abs", self=lambda at, grad, self: grad * at.sgn(self))
composite("absolute", variants="function method", inplace=True, out=True)(lambda at, self: at.abs(self))
unary(
    "bitwise_not",
    np.invert,
    "same",
    refuse=lambda c: (
        None if c._category <= 1 else f"\"bitwise_not_cpu\" not implemented for '{scalar_type.to_string(c)}'"
    ),
)
unary("logical_not", np.logical_not, "bool")
composite("negative", variants="function method", inplace=True, out=True)(lambda at, self: at.neg(self))
unary("isnan", np.isnan, "bool", inplace=False, out=False)
unary("isinf", np.isinf, "bool", inplace=False, out=False)
unary("isfinite", np.isfinite, "bool", inplace=False, out=False)
unary("isposinf", np.isposinf, "bool", inplace=False)
unary("isneginf", np.isneginf, "bool", inplace=False)
unary(
    "sinc",
    lambda x: np.sinc(x).astype(x.dtype, copy=False),
    formula=lambda at, grad, self: grad * _sinc_slope(at, self),
)


def _sinc_slope(at: Any, x: Any) -> Any:
    scaled = x * math.pi
    square = scaled * x  # 0 as soon as a square is too small for the dtype
    slope = (scaled * at.cos(scaled) - at.sin(scaled)) / at.where(square == 0, at.ones_like(x), square)
    return at.conj(at.where(square == 0, 0, slope))


unary("deg2rad", np.deg2rad, node="Deg2Rad", formula=lambda at, grad: grad * (math.pi / 180))
unary("rad2deg", np.rad2deg, node="Rad2Deg", formula=lambda at, grad: grad * (180 / math.pi))


@composite("isreal", variants="function method")
def isreal(at: Any, self: Array) -> Any:
    """Where the imaginary part is zero."""
    return at.imag(self) == 0 if is_complex(self) else at.ones_like(self, dtype=scalar_type.bool)


@register("_real", key="CPU CUDA", variants="", view="always", node="Select")
def _real(self: Array) -> Array:
    return self.read_as(specimen(self).real.dtype, self.shape) if without_values(self) else self.real


@register("_imag", key="CPU CUDA", variants="", view="always", node="Select")
def _imag(self: Array) -> Array:
    return self.read_as(specimen(self).real.dtype, self.shape, shift=1) if without_values(self) else self.imag


for _name, _part in (("_real", _real), ("_imag", _imag)):
    register(_name, key="Meta")(_part)


@register("complex", key="CPU CUDA", variants="function", out=True)
def complex_(real: Array, imag: Array) -> Array:
    """Two real tensors as the parts of a complex one."""
    kinds = [scalar_type.to_string(part.dtype) for part in (real, imag)]
    if not set(kinds) <= {"Half", "Float", "Double"}:
        raise RuntimeError("Expected both inputs to be Half, Float or Double tensors but got {} and {}".format(*kinds))
    if real.dtype != imag.dtype:
        raise RuntimeError(
            "Expected object of scalar type for argument 'imag' equal to that of argument 'real' for complex()"
        )
    result = np.empty(shapes("complex", (real, imag)), np.complex128 if real.dtype == np.float64 else np.complex64)
    result.real, result.imag = real, imag
    return result


@composite("real", variants="function")
def real(at: Any, self: Array) -> Any:
    """The real part, a view; a real tensor itself."""
    return at._real(self) if is_complex(self) else self


@composite("imag", variants="function")
def imag(at: Any, self: Array) -> Any:
    """The imaginary part, a view."""
    if not is_complex(self):
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return at._imag(self)


@composite("angle", variants="function method", out=True)
def angle(at: Any, self: Array) -> Any:
    """The argument of each number: 0 or π for real ones."""
    if is_complex(self):
        return at.atan2(at._imag(self), at._real(self))
    half_turn = at.where(self < 0, math.pi, at.zeros_like(self) * 1.0)
    return half_turn if str(self.dtype).rpartition(".")[2] == "bool" else at.where(at.isnan(self), self, half_turn)


derivative("_real", self=lambda at, grad: at.complex(grad, at.zeros_like(grad)))
derivative("_imag", self=lambda at, grad: at.complex(at.zeros_like(grad), grad))
derivative("complex", real=lambda at, grad: at.real(grad), imag=lambda at, grad: at.imag(grad))


@composite("conj_physical", variants="function method", inplace=True, out=True)
def conj_physical(at: Any, self: Array) -> Any:
    """The conjugate of each element; the tensor itself if it is real."""
    return at._conj_physical(self) if is_complex(self) else self


composite("resolve_conj", variants="function method")(lambda at, self: self)
composite("resolve_neg", variants="function method")(lambda at, self: self)

composite("_polygamma_in_place", variants="", inplace=True)(lambda at, self, n: at.polygamma(n, self))

unary("i0", special.i0, formula=lambda at, grad, self: grad * at._i1(self))
unary("_i1", special.i1, variants="", inplace=False, node="SpecialI1", formula=lambda at, grad, self, result: grad * (at.i0(self) - at.where(self == 0, 0.5, result / at.where(self == 0, 1, self))))  # fmt: skip


def _entropy(x: Any) -> Any:
    return np.where(x < 0, -np.inf, np.where(x == 0, 0, -x * np.log(x))).astype(x.dtype, copy=False)


unary(
    "_entr",
    _entropy,
    variants="",
    inplace=False,
    node="SpecialEntr",
    formula=lambda at, grad, self: grad * (-1 - at.log(self)),
)


@register("_polygamma", key="CPU CUDA", variants="", node="Polygamma")
def _polygamma(self: Array, n: int) -> Array:
    kind = self.dtype if self.dtype.kind in "fV" else np.dtype(np.float32)
    if n == 0:
        return special.digamma(self.astype(kind))
    x = self.astype(np.float64)
    factor = (1 if n % 2 else -1) * (math.factorial(n) if n < 171 else math.inf)
    if n == 1:
        result = np.where(x == 0, np.inf, special.zeta(2, np.where(x > 0, x, np.nan)))
        if not (x > 0).all():  # the reflection, which only the first of them needs no derivatives for
            mirrored = (np.pi / np.sin(np.pi * x)) ** 2 - special.zeta(2, np.where(x > 0, 1, 1 - x))
            result = np.where(x > 0, result, mirrored)
        return np.asarray(result).astype(kind)
    pole = (x <= 0) & (x == np.floor(x))
    result, place = np.zeros_like(x), np.where(np.isfinite(x) & ~pole, x, 1.0)
    while (
        below := (place < 0) & (place > -_TERMS)
    ).any():  # the terms of the series up to the first of a place above 0
        result = np.where(below, result + place ** -(n + 1.0), result)
        place = np.where(below, place + 1, place)
    result = result + special.zeta(n + 1, np.where(place > 0, place, np.nan))
    return np.asarray(np.where(pole, np.inf, np.where(np.isfinite(x), result, np.nan)) * factor).astype(kind)


#: further from 0 nobody adds up the terms
_TERMS = 10_000


derivative("digamma", self=lambda at, grad, self: grad * at._polygamma(self, 1))
broadcasts_on_meta("_polygamma")
derivative("_polygamma", self=lambda at, grad, self, n: grad * at._polygamma(self, n + 1))


@composite("polygamma", variants="function", out=True)
def polygamma(at: Any, n: int, self: Array) -> Any:
    """The n-th derivative of `digamma`."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return at._polygamma(self, n)


@composite("mvlgamma", variants="function method", inplace=True, out=True)
def mvlgamma(at: Any, self: Array, p: int) -> Any:
    """The logarithm of the gamma function of p dimensions."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if p > 1 << 24:
        raise RuntimeError(f"mvlgamma: can't allocate memory: p={p} terms for each element")
    total = at.lgamma(self)
    for number in range(1, p):
        total = total + at.lgamma(self - number / 2)
    return total + p * (p - 1) * math.log(math.pi) / 4


@register(
    "frexp",
    key="CPU CUDA",
    variants="function method",
    outputs="mantissa exponent",
    named="frexp",
    differentiable_outputs=(0,),
    out=True,
)
def frexp(self: Array) -> Any:
    """Mantissa and exponent, x = mantissa · 2^exponent, the mantissa's size from ½ up to 1."""
    if self.dtype.kind not in "fV":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    mantissa, exponent = np.frexp(self)
    return [mantissa.astype(self.dtype, copy=False), exponent.astype(np.int32)]


broadcasts_on_meta("frexp")
derivative("frexp", self=lambda at, grads, exponent: grads[0] / 2.0**exponent)
