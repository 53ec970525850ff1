# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import (
    broadcasts_on_meta,
    composite,
    derivative,
    differentiates_in_opmath,
    operators,
    overloads,
    pointwise,
    register,
    unknown,
)
from readtorch.aten.core.dispatch.operator_entry import Array, Number
from readtorch.aten.native.math import incomplete_gamma
from readtorch.aten.native.tensor_factories import in_order_of
from readtorch.aten.tensor_iterator import Pointwise, shapes
from readtorch.c10.core import scalar_type
from readtorch.c10.core.scalar_type import dtype, not_implemented

Rule = Callable[..., Any]


def _operands(self: Array, other: Array) -> Array: ...


def _operands_alpha(self: Array, other: Array, *, alpha: float = 1) -> Array: ...


def binary(
    name: str,
    ufunc: Callable[..., Any],
    promote: str = "same",
    *,
    refuse: Callable[[dtype], str | None] | None = None,
    first: Rule | None = None,
    second: Rule | None = None,
    signature: Callable[..., Any] = _operands,
    kernel: type[Pointwise] = Pointwise,
    numbers: str = "second",
    **description: Any,
) -> None:
    """Register a pointwise operator of two operands; `first` and `second` are the derivatives by them."""
    pointwise(name, kernel(name, ufunc, promote, refuse), signature, numbers=numbers, **description)
    names = operators[name].schema.names
    formulas = {key: rule for key, rule in zip(names, (first, second), strict=False) if rule is not None}
    if formulas:
        derivative(name, formulas)


binary(
    "add",
    np.add,
    first=lambda at, grad: grad,
    second=lambda at, grad: grad,
    signature=_operands_alpha,
    numbers="first second",
)


class _Subtraction(Pointwise):
    """Differences of truth values have no meaning that everybody agrees on: refused, whichever operand is one."""

    def common(self, operands: Sequence[Any]) -> dtype:
        bools = [
            operand for operand in operands if isinstance(operand, bool) or getattr(operand, "dtype", None) == np.bool_
        ]
        if len(bools) == 2:
            raise RuntimeError(
                "Subtraction, the `-` operator, with two bool tensors is not supported: their difference is `^`, or `logical_xor()`."
            )
        if bools:
            raise RuntimeError(
                "Subtraction, the `-` operator, with a bool tensor is not supported: a mask is inverted by `~`, or `logical_not()`."
            )
        return super().common(operands)

    def refused_chars(self) -> str:
        return "?"


binary(
    "sub",
    np.subtract,
    kernel=_Subtraction,
    first=lambda at, grad: grad,
    second=lambda at, grad: -grad,
    signature=_operands_alpha,
    numbers="first second",
)

binary(
    "mul",
    np.multiply,
    first=lambda at, grad, other: grad * at.conj(other),
    second=lambda at, grad, self: grad * at.conj(self),
    numbers="first second",
    autocast="widest",
)


def times(at: Any, array: Any, number: Number) -> Any:
    """`array * number` of a formula. NumPy's product would round the number to 16-bit elements first."""
    return at.mul(array, number) if array.dtype.itemsize == 2 else array * number


binary(
    "_true_div",
    np.true_divide,
    "float",
    first=lambda at, grad, other: grad / at.conj(other),
    second=lambda at, grad, self, other: -grad * at.conj(self / other / other),
    numbers="first second",
    variants="",
    node="Div",
    inplace=True,
)
differentiates_in_opmath("mul", "_true_div.self")


@composite("div", variants="function method", inplace=True, out=True)
def div(at: Any, self: Array | Number, other: Array | Number, *, rounding_mode: str | None = None) -> Any:
    """`self / other`; rounded towards zero with `rounding_mode="trunc"`, down with "floor"."""
    if rounding_mode is None:
        return at._true_div(self, other)
    if rounding_mode == "floor":
        return at._floor_div(self, other)
    if rounding_mode == "trunc":
        return at._trunc_div(self, other)
    raise RuntimeError(f"div expected rounding_mode to be None, 'trunc' or 'floor', not '{rounding_mode}'")


for _alias in ("true_divide", "divide"):
    composite(_alias, variants="function method", inplace=True, out=True)(
        lambda at, self, other, *, rounding_mode=None: at.div(self, other, rounding_mode=rounding_mode)
    )


def _floor_divide(a: Any, b: Any, out: Any = None) -> Any:
    """Integers: division by zero is an error. Floats: rounded down, infinite for a zero divisor."""
    _no_zero(a, b)
    return np.floor_divide(a, b, out=out)


def _no_zero(a: Any, b: Any) -> None:
    if (
        getattr(a, "dtype", np.dtype(int)).kind in "iub"
        and not isinstance(a, float)
        and np.asarray(b).dtype.kind in "iub"
        and np.any(np.equal(b, 0))
    ):
        raise RuntimeError("ZeroDivisionError")


def _trunc_divide(a: Any, b: Any) -> Any:
    _no_zero(a, b)
    if np.asarray(a).dtype.kind in "iu":
        quotient = np.floor_divide(a, b)
        return quotient + ((quotient < 0) & (quotient * b != a)).astype(quotient.dtype)
    return np.trunc(np.true_divide(a, b))


def _remainder(a: Any, b: Any, out: Any = None) -> Any:
    """The sign is the divisor's, as in Python."""
    _no_zero(a, b)
    return np.remainder(a, b, out=out)


def _fmod(a: Any, b: Any, out: Any = None) -> Any:
    """The sign is the dividend's, as in C."""
    _no_zero(a, b)
    return np.fmod(a, b, out=out)


binary("floor_divide", _floor_divide, numbers="first second")
for _name, _rounded in (("_floor_div", _floor_divide), ("_trunc_div", _trunc_divide)):
    binary(
        _name,
        _rounded,
        variants="",
        numbers="first second",
        node="DivBackward2",
        first=lambda at, grad: at.zeros_like(grad),
        second=lambda at, grad: at.zeros_like(grad),
    )


_UNKNOWN = unknown("derivative for aten::floor_divide is not implemented", RuntimeError)
derivative("floor_divide", self=_UNKNOWN, other=_UNKNOWN)


def _remainder_second(at: Any, grad: Any, self: Any, other: Any) -> Any:
    """Nobody wrote it for a number divided."""
    if not hasattr(self, "dtype"):
        raise RuntimeError("derivative for aten::remainder is not implemented")
    return -grad * at._floor_div(self, other)


binary(
    "remainder",
    _remainder,
    first=lambda at, grad: grad,
    second=_remainder_second,
    numbers="first second",
)
binary(
    "fmod", _fmod, first=lambda at, grad: grad, second=lambda at, grad, self, other: -grad * at._trunc_div(self, other)
)


def _by_second(stem: str, number: int = 0) -> Any:
    """Upstream counts the form with a number first, mostly."""
    return lambda given: f"{stem}Backward{number if isinstance(given['other'], int | float | complex) else 1 - number}"


overloads("remainder", _by_second("Remainder"))
overloads("fmod", _by_second("Fmod"))


def _power(a: Any, b: Any) -> Any:
    """Powers. The common exponents are products, an order of magnitude faster than `np.power`."""
    kind = a.dtype.kind if hasattr(a, "dtype") else ""
    number = b.__class__ in (int, float) or isinstance(b, np.generic)
    if kind in "fc" and (number or (b.__class__ is np.ndarray and not b.ndim)):
        exponent = b if b.__class__ in (int, float) else b.item()
        if exponent == 2:
            return a * a
        if exponent == 3:
            return a * a * a
        if exponent == 1:
            return a.copy()
        if exponent == 0.5 and kind == "f":
            return np.sqrt(a)
        if exponent == -0.5 and kind == "f":
            return 1 / np.sqrt(a)  # NaN below zero, -∞ included
    if kind in "iub" and not isinstance(b, float) and np.any(np.less(b, 0)):
        if number:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        safe = np.where(np.less(b, 0), 0, b)
        small = np.where(a == 1, 1, np.where((a == -1), np.where(np.remainder(b, 2) == 0, 1, -1), 0))
        return np.where(np.less(b, 0), small, np.power(a, safe)).astype(a.dtype)
    return np.power(a, b)


def _power_first(at: Any, grad: Any, self: Any, exponent: Any) -> Any:
    if not hasattr(exponent, "dtype"):
        if exponent == 0:
            return at.zeros_like(grad)
        return grad * at.conj(times(at, at.pow(self, exponent - 1), exponent))
    return at.where(exponent == 0, at.zeros_like(grad), grad * at.conj(exponent * at.pow(self, exponent - 1)))


def _power_second(at: Any, grad: Any, self: Any, exponent: Any, result: Any) -> Any:
    if not hasattr(self, "dtype"):
        if self == 0:
            whole = is_complex_pair(exponent, exponent)
            stays = (at.imag(exponent) == 0) & (at.real(exponent) >= 0) if whole else exponent >= 0
            return grad * at.where(stays, 0, at.conj(result * -math.inf))
        import cmath

        if isinstance(self, complex) or (self < 0 and is_complex_pair(result, result)):
            logarithm: Any = cmath.log(self)
        else:
            logarithm = math.log(self) if self > 0 else math.nan
        return grad * at.conj(result * logarithm)
    zero = (self == 0) & (exponent >= 0) if not is_complex_pair(self, exponent) else self == 0
    if is_complex_pair(result, result) and not is_complex_pair(self, self):
        self = at._to_copy(self, result.dtype)  # numbers below zero have a logarithm there
    return at.where(zero, at.zeros_like(grad), grad * at.conj(result * at.log(self)))


def is_complex_pair(a: Any, b: Any) -> bool:
    """Is either complex?"""
    from readtorch.aten.native.unary_ops import is_complex

    return is_complex(a) or is_complex(b)


def _base_and_exponent(self: Array, exponent: Array) -> Array: ...


binary(
    "pow",
    _power,
    first=_power_first,
    second=_power_second,
    signature=_base_and_exponent,
    numbers="first second",
    autocast="float32",
)


def _which_power(given: dict[str, Any]) -> str:
    if isinstance(given["self"], int | float | complex):
        return "PowBackward2"
    return f"PowBackward{0 if isinstance(given['exponent'], int | float | complex) else 1}"


overloads("pow", _which_power)


def _unless_lost(at: Any, grad: Any, equal: Any, lost: Any) -> Any:
    """The gradient where the other did not win (over NaN nobody does); half of it where both are equal."""
    return at.where(lost, at.zeros_like(grad), at.where(equal, grad * 0.5, grad))


binary(
    "maximum",
    np.maximum,
    first=lambda at, grad, self, other: _unless_lost(at, grad, self == other, self < other),
    second=lambda at, grad, self, other: _unless_lost(at, grad, self == other, other < self),
    inplace=False,
    numbers="",
)
binary(
    "minimum",
    np.minimum,
    first=lambda at, grad, self, other: _unless_lost(at, grad, self == other, self > other),
    second=lambda at, grad, self, other: _unless_lost(at, grad, self == other, other > self),
    inplace=False,
    numbers="",
)
binary(
    "fmax",
    np.fmax,
    first=lambda at, grad, self, other: at.where((self >= other) | at.isnan(other), grad, 0),
    second=lambda at, grad, self, other: at.where((self >= other) | at.isnan(other), 0, grad),
    inplace=False,
    numbers="",
)
binary(
    "fmin",
    np.fmin,
    first=lambda at, grad, self, other: at.where((self <= other) | at.isnan(other), grad, 0),
    second=lambda at, grad, self, other: at.where((self <= other) | at.isnan(other), 0, grad),
    inplace=False,
    numbers="",
)


def _inverse_square(at: Any, a: Any, b: Any) -> Any:
    """1 / (a² + b²), and 0 at the origin, which has no direction."""
    square = at._true_div(a, 1) ** 2 + at._true_div(b, 1) ** 2  # squares of integers would leave their range
    return at.where(square == 0, square, 1 / at.where(square == 0, square + 1, square))


binary(
    "atan2",
    np.arctan2,
    "float",
    first=lambda at, grad, self, other: grad * other * _inverse_square(at, self, other),
    second=lambda at, grad, self, other: grad * -self * _inverse_square(at, self, other),
    numbers="",
)
binary(
    "hypot",
    np.hypot,
    first=lambda at, grad, self, result: grad * self / result,
    second=lambda at, grad, other, result: grad * other / result,
    numbers="",
)


def logaddexp(self: Any, other: Any) -> Any:
    """ln(eˣ + eʸ), with the larger real part drawn out; NumPy's own knows real numbers only."""
    if np.result_type(self, other).kind != "c":
        return np.logaddexp(self, other)
    larger, smaller = np.where(self.real >= other.real, (self, other), (other, self))
    return larger + np.log1p(np.exp(smaller - larger))


binary(
    "logaddexp",
    logaddexp,
    first=lambda at, grad, self, other: grad / at.conj(1 + at.exp(other - self)),
    second=lambda at, grad, self, other: grad / at.conj(1 + at.exp(self - other)),
    inplace=False,
    numbers="",
)
binary(
    "logaddexp2",
    np.logaddexp2,
    first=lambda at, grad, self, other: grad / (1 + at.exp2(other - self)),
    second=lambda at, grad, self, other: grad / (1 + at.exp2(self - other)),
    inplace=False,
    numbers="",
)
binary(
    "copysign",
    np.copysign,
    "float",
    first=lambda at, grad, self, result: grad * at.where(self == 0, 0, result / self),
    second=lambda at, grad: at.zeros_like(grad),
)
overloads("copysign", _by_second("Copysign", number=1))
binary(
    "nextafter",
    np.nextafter,
    first=lambda at, grad, self, other: grad * (self != other),
    second=lambda at, grad: at.zeros_like(grad),
    numbers="",
)


@register("heaviside", key="CPU CUDA", variants="function method", inplace=True, out=True)
def heaviside(self: Array, values: Array) -> Array:
    """0 below zero, 1 above it, and at zero what stands in `values`."""
    if "c" in (self.dtype.kind, values.dtype.kind):
        raise RuntimeError("heaviside is not implemented for complex tensors")
    if self.dtype != values.dtype:
        raise RuntimeError("heaviside is not implemented for different dtypes")
    shapes("heaviside", (self, values))
    return np.where(self == 0, values, self > 0).astype(values.dtype, copy=False)


broadcasts_on_meta("heaviside")
derivative(
    "heaviside",
    self=unknown("derivative for aten::heaviside is not implemented", RuntimeError),
    values=unknown("derivative for aten::heaviside is not implemented", RuntimeError),
)


binary("gcd", np.gcd, numbers="")
binary("lcm", np.lcm, numbers="")


def _xlogy(a: Any, b: Any) -> Any:
    if b.__class__ is float:
        b = a.dtype.type(b)
    return np.where((a == 0) & ~np.isnan(b), 0, a * np.log(b)).astype(np.result_type(a, b), copy=False)


binary(
    "xlogy",
    _xlogy,
    "float",
    first=lambda at, grad, self, other: grad * at.where((self == 0) & (other <= 0), 0, at.log(other)),
    second=lambda at, grad, self, other: grad * self / other,
    numbers="first second",
)


def _xlog1py(a: Any, b: Any) -> Any:
    if b.__class__ is float:
        b = a.dtype.type(b)
    return np.where((a == 0) & ~np.isnan(b), 0, a * np.log1p(b)).astype(np.result_type(a, b), copy=False)


binary(
    "_xlog1py",
    _xlog1py,
    "float",
    variants="",
    first=lambda at, grad, self, other: grad * at.where((self == 0) & (other <= -1), 0, at.log1p(other)),
    second=lambda at, grad, self, other: grad * self / (other + 1),
    numbers="first second",
    node="SpecialXlog1Py",
)


def _order_refused(common: dtype) -> str | None:
    return "comparison operations are not supported for complex tensors" if common.is_complex else None


_ufunc: Any
for _name, _ufunc in (("eq", np.equal), ("ne", np.not_equal)):
    binary(_name, _ufunc, "bool")
for _name, _ufunc in (("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)):
    binary(_name, _ufunc, "bool", refuse=_order_refused)


def _second_name(name: str) -> Rule:
    return lambda at, self, other: getattr(at, name)(self, other)


for _alias, _name in (
    ("less", "lt"),
    ("less_equal", "le"),
    ("greater", "gt"),
    ("greater_equal", "ge"),
    ("not_equal", "ne"),
):
    composite(_alias, variants="function method", inplace=True, out=True)(_second_name(_name))
for _name, _ufunc in (("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)):
    binary(_name, _ufunc, "bool", numbers="")
composite("subtract", variants="function method", inplace=True, out=True)(
    lambda at, self, other, *, alpha=1: at.sub(self, other, alpha=alpha)
)
composite("multiply", variants="function method", inplace=True, out=True)(lambda at, self, other: at.mul(self, other))


@composite("rsub", variants="function")
def rsub(at: Any, self: Array, other: Array | Number, alpha: float = 1) -> Any:
    """`other - alpha * self`."""
    return other - (self if alpha == 1 else self * alpha)


def _whole_numbers(kernel: str) -> Callable[[dtype], str | None]:
    def refuse(common: dtype) -> str | None:
        if common.is_floating_point or common.is_complex:
            return f"\"{kernel}\" not implemented for '{scalar_type.to_string(common)}'"
        return None

    return refuse


for _name, _kernel, _ufunc in (
    ("bitwise_and", "bitwise_and_cpu", np.bitwise_and),
    ("bitwise_or", "bitwise_or_cpu", np.bitwise_or),
    ("bitwise_xor", "bitwise_xor_cpu", np.bitwise_xor),
    ("bitwise_left_shift", "lshift_cpu", np.left_shift),
    ("bitwise_right_shift", "rshift_cpu", np.right_shift),
):
    binary(_name, _ufunc, refuse=_whole_numbers(_kernel), numbers="first second")


@composite("ldexp", variants="function method", inplace=True, out=True)
def ldexp(at: Any, self: Array, other: Array) -> Any:
    """X · 2ʸ."""
    kinds = [scalar_type.to_string(x.dtype) for x in (self, other)]
    scale = at.pow(2.0, other)
    if kinds[0] in ("Half", "BFloat16", "Float", "Double"):
        if kinds[1] == "Bool":
            raise not_implemented("ldexp_cpu_exp", other.dtype)
        if kinds[1] in ("Long", "Int", "Short", "Char", "Byte"):
            scale = at._to_copy(scale, self.dtype)
    return at.mul(self, scale)


@composite("float_power_", variants="method")
def float_power_(at: Any, self: Array, exponent: Array | Number) -> Any:
    """The power, in place: of double precision already."""
    complex_ = is_complex_pair(self, exponent) or isinstance(exponent, complex)
    wanted = scalar_type.complex128 if complex_ else scalar_type.float64
    if self.dtype is not wanted:
        kinds = [scalar_type.to_string(kind) for kind in (self.dtype, wanted)]
        raise RuntimeError(
            "the base given to float_power_ has dtype {} but the operation's result requires dtype {}".format(*kinds)
        )
    return at.pow_(self, at._to_copy(exponent, wanted) if hasattr(exponent, "dtype") else exponent)


@composite("float_power", variants="function method", out=True)
def float_power(at: Any, self: Array | Number, exponent: Array | Number) -> Any:
    """A power computed in double precision."""
    wide = [
        at._to_copy(v, scalar_type.complex128 if is_complex_pair(v, v) else scalar_type.float64)
        if hasattr(v, "dtype")
        else v
        for v in (self, exponent)
    ]
    return at.pow(*wide)


def _no_gamma(common: dtype) -> str | None:
    if common.is_floating_point:
        return None
    return f"\"igamma_cpu\" not implemented for '{scalar_type.to_string(common)}'"


def _register_gamma(name: str, sign: int) -> None:
    binary(
        name,
        lambda a, x: in_order_of(incomplete_gamma(a, x, sign < 0), a),
        refuse=_no_gamma,
        first=unknown(f"the derivative for '{name}: input' is not implemented."),
        second=lambda at, grad, self, other: grad * at.exp((self - 1) * at.log(other) - other - at.lgamma(self)) * sign,
        numbers="",
    )


_register_gamma("igamma", 1)
_register_gamma("igammac", -1)
