# Tangled from chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import (
    autograd,
    broadcasts_on_meta,
    composite,
    cpu,
    derivative,
    differentiates_in_opmath,
    keeps_shape_on_meta,
    opaque,
    register,
    results_lie,
)
from readtorch.aten.core.dispatch.operator_entry import Array, Real
from readtorch.aten.cpu_generator_impl import engine
from readtorch.aten.native.distributions import uniform01
from readtorch.aten.native.tensor_factories import in_one_piece, in_order_of
from readtorch.aten.native.unary_ops import unary
from readtorch.aten.op_math_type import in_working_precision
from readtorch.aten.parallel import parallel_for
from readtorch.aten.tensor_iterator import fitting
from readtorch.c10.core import scalar_type
from readtorch.c10.core.scalar_type import not_implemented, to_string

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


def _pointwise(op: str, x: Array, function: Callable[[Array], Array]) -> Array:
    """`function` of a floating array, in at least float32. NotImplementedError for other types."""
    kind = x.dtype
    if kind.kind not in "fV":
        raise not_implemented(op, kind)
    if kind.itemsize == 2:
        return function(x.astype(np.float32)).astype(kind)
    return np.asarray(function(x))


_PIECE = 1 << 17
"""Numbers."""


def _in_pieces(function: Callable[..., None], *arrays: Array) -> Array:
    """Call `function(out, *arrays)` for pieces of arrays of one shape; the result lies in memory like the first."""
    result = np.empty_like(arrays[0])
    flat = [result.ravel(order="K")]
    for array in arrays:
        if array.strides != result.strides:
            alike = np.empty_like(result)
            alike[...] = array
            array = alike
        flat.append(array.ravel(order="K"))

    def piece(start: int, stop: int) -> None:
        function(*(array[start:stop] for array in flat))

    parallel_for(0, result.size, _PIECE, piece)
    return result


@register("threshold", inplace=True, out=True)
def threshold(self: Array, threshold: Real, value: Real) -> Array:
    """`x` where `x > threshold`, else `value`."""
    return np.where(self <= fitting(threshold, self.dtype), fitting(value, self.dtype), self)


# NaN is on neither side of a bound: what is cut off is asked for, so that the gradient of NaN passes
derivative("threshold", self=lambda at, grad, self, threshold: at.where(self <= threshold, 0, grad))


@register("leaky_relu", module="nn", inplace=True)
def leaky_relu(self: Array, negative_slope: Real = 0.01) -> Array:
    """`x` where `x > 0`, else `negative_slope · x`."""
    return _pointwise("leaky_relu_cpu", self, lambda x: np.where(x > 0, x, x * x.dtype.type(negative_slope)))


derivative("leaky_relu", self=lambda at, grad, self, negative_slope: at.where(self > 0, grad, grad * negative_slope))


@register("hardtanh", module="nn", inplace=True)
def hardtanh(self: Array, min_val: float = -1, max_val: float = 1) -> Array:
    """`x` clamped to [min_val, max_val]; the gradient at the bounds is 0."""
    if self.dtype.kind == "b":
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if self.dtype.kind == "u" and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    lowest, highest = self.dtype.type(min_val), self.dtype.type(max_val)
    if self.dtype.kind == "V":
        return np.minimum(np.maximum(self, lowest), highest)
    return np.clip(self, lowest, highest)


derivative(
    "hardtanh", self=lambda at, grad, self, min_val, max_val: at.where((self <= min_val) | (self >= max_val), 0, grad)
)


@composite("relu6", module="nn", inplace=True)
def relu6(at: Any, self: Array) -> Any:
    """`min(max(x, 0), 6)`."""
    return at.hardtanh(self, 0, 6)


@register("hardsigmoid", module="nn", inplace=True)
def hardsigmoid(self: Array) -> Array:
    """`min(max(x + 3, 0), 6) / 6`."""
    return _pointwise("hardsigmoid", self, lambda x: np.clip(x + 3, 0, 6) / 6)


derivative("hardsigmoid", self=lambda at, grad, self: at.where((self > -3) & (self < 3), grad / 6, 0))
differentiates_in_opmath("hardsigmoid")


@register("hardswish", module="nn", inplace=True)
def hardswish(self: Array) -> Array:
    """`x · hardsigmoid(x)`."""

    def piece(out: Array, x: Array) -> None:
        np.add(x, 3, out=out)
        np.clip(out, 0, 6, out=out)
        out *= x
        out /= 6

    return _pointwise("hardswish", self, lambda x: _in_pieces(piece, x))


def _hardswish_gradient(at: Any, grad: Any, self: Any) -> Any:
    return at.where(self >= 3, grad, at.where(self <= -3, 0, grad * (self / 3 + 0.5)))


@register("hardswish_backward", variants="", node="HardswishBackward")
def hardswish_backward(grad_output: Array, self: Array) -> Array:
    """The gradient of hard swish."""

    def piece(out: Array, g: Array, x: Array) -> None:
        above = x >= 3
        np.clip(x, -3, 3, out=out)
        out /= 3
        out += 0.5
        out *= ~above  # an assignment through a mask takes several times as long
        out += above
        out *= g
        keep_where(out, out, ~(x <= -3))

    g, x = in_working_precision(grad_output), in_working_precision(self)
    return _in_pieces(piece, g, x).astype(self.dtype, copy=False)


def _hardswish_gradient_of(at: Any, grad: Any, self: Any) -> Any:
    return _hardswish_gradient(at, grad, self) if at is autograd else at.hardswish_backward(grad, self)


derivative("hardswish", self=_hardswish_gradient_of)


@register("hardshrink", variants="function method", out=True)
def hardshrink(self: Array, lambd: Real = 0.5) -> Array:
    """`x` where `|x| > lambd`, else 0."""
    if self.dtype.kind in "fV":
        fitting(lambd, self.dtype)
    return _pointwise("hardshrink_cpu", self, lambda x: np.where(np.abs(x) <= lambd, x.dtype.type(0), x))


derivative("hardshrink", self=lambda at, grad, self, lambd: at.where((self >= -lambd) & (self <= lambd), 0, grad))


@register("softshrink", module="nn", out=True)
def softshrink(self: Array, lambd: Real = 0.5) -> Array:
    """`x` moved towards 0 by `lambd`, and 0 within it."""
    if not 0 <= lambd < float("inf"):
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return _pointwise("softshrink_cpu", self, lambda x: np.sign(x) * np.maximum(np.abs(x) - x.dtype.type(lambd), 0))


derivative("softshrink", self=lambda at, grad, self, lambd: at.where((self >= -lambd) & (self <= lambd), 0, grad))


@register("_prelu_kernel", variants="", node="PreluKernel")
def _prelu_kernel(self: Array, weight: Array) -> Array:
    return np.where(self > 0, self, weight * self)


broadcasts_on_meta("_prelu_kernel")


derivative(
    "_prelu_kernel",
    self=lambda at, grad, self, weight: at.where(self > 0, grad, weight * grad),
    weight=lambda at, grad, self: at.where(self > 0, 0, grad * self),
)


@composite("prelu", variants="function method", autocast="low")
def prelu(at: Any, self: Array, weight: Array) -> Any:
    """`x` where `x > 0`, else `weight · x`; one slope, or one per channel (dimension 1)."""
    if self.dtype != weight.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {to_string(self.dtype)} and {to_string(weight.dtype)}"
        )
    if len(weight.shape) > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor; it has ndim = {len(weight.shape)}")
    count = math.prod(weight.shape)
    if count == 1:
        return at._prelu_kernel(self, at.reshape(weight, (1,) * len(self.shape)))
    channels = self.shape[1] if len(self.shape) > 1 else 1
    if not self.shape:
        raise RuntimeError("Not allow zero-dim input tensor.")
    if channels != count:
        raise RuntimeError(
            f"Mismatch of parameter numbers and input channel size: {count} slopes for {channels} channels."
        )
    return at._prelu_kernel(self, at.reshape(weight, (1, -1, *(1,) * (len(self.shape) - 2))))


opaque("relu", "threshold", "leaky_relu", "hardtanh", "hardshrink", "softshrink", "_prelu_kernel")
differentiates_in_opmath("leaky_relu", "_prelu_kernel")


@register("_rrelu_slopes", variants="")
def _rrelu_slopes(self: Array, lower: float, upper: float, generator: Any) -> Array:
    if self.dtype.kind in "iubc" or self.dtype == np.float16:
        raise not_implemented("rrelu_with_noise_out_cpu", self.dtype)
    slopes = np.ones(self.shape, self.dtype)
    bent = self <= 0
    draws = uniform01(engine(generator), int(bent.sum()), np.dtype(np.float64))
    slopes[bent] = (draws * (upper - lower) + lower).astype(self.dtype)
    return slopes


@composite("rrelu", inplace=True)
def rrelu(
    at: Any,
    self: Array,
    lower: float = 0.125,
    upper: float = 0.3333333333333333,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """`x` where `x > 0`, else a slope times `x`: drawn from U(lower, upper) in training, their mean otherwise."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound}")
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper: {lower} > {upper}")
    if not training:
        return at.leaky_relu(self, (lower + upper) / 2)
    return self * at._rrelu_slopes(self, lower, upper, generator)


@register("elu", module="nn", inplace=True)
def elu(self: Array, alpha: Real = 1, scale: Real = 1, input_scale: Real = 1) -> Array:
    """`scale · x` where `x > 0`, else `scale · alpha · (exp(input_scale · x) - 1)`."""

    def function(x: Array) -> Array:
        negative = np.expm1(np.minimum(x, 0) * input_scale) * (alpha * scale)
        return np.where(x > 0, x * scale, negative).astype(x.dtype, copy=False)

    return _pointwise("elu_cpu", self, function)


def _elu_gradient(at: Any, grad: Any, self: Any, alpha: float, scale: float, input_scale: float) -> Any:
    slope = at.exp(at.clamp(self, None, 0) * input_scale) * (alpha * scale * input_scale)
    return at.where(self <= 0, grad * slope, grad * scale)


derivative("elu", self=_elu_gradient)

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


@composite("selu", inplace=True)
def selu(at: Any, self: Array) -> Any:
    """`elu` with the constants of self-normalizing networks (Klambauer et al. 2017)."""
    return at.elu(self, _SELU_ALPHA, _SELU_SCALE)


@register("celu", inplace=True)
def celu(self: Array, alpha: Real = 1.0) -> Array:
    """`max(0, x) + min(0, alpha · (exp(x / alpha) - 1))`."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return elu(self, alpha, 1.0, 1.0 / alpha)


derivative("celu", self=lambda at, grad, self, alpha: _elu_gradient(at, grad, self, alpha, 1.0, 1.0 / alpha))
differentiates_in_opmath("elu", "celu")
broadcasts_on_meta("celu")


@register("softplus", module="nn", out=True)
def softplus(self: Array, beta: Real = 1, threshold: Real = 20) -> Array:
    """`log(1 + exp(beta · x)) / beta`; the identity where `beta · x > threshold`."""

    def function(x: Array) -> Array:
        scaled = x * x.dtype.type(beta)
        bound = threshold if threshold == threshold else math.inf
        return np.where(scaled > threshold, x, np.log1p(np.exp(np.minimum(scaled, bound))) / x.dtype.type(beta))

    return _pointwise("softplus_cpu", self, function)


def _softplus_gradient(at: Any, grad: Any, self: Any, beta: float, threshold: float) -> Any:
    return at.where(self * beta > threshold, grad, grad * at.sigmoid(self * beta))


derivative("softplus", self=_softplus_gradient)


@register("log_sigmoid", module="nn", out=True)
def log_sigmoid(self: Array) -> Array:
    """`log(sigmoid(x))`, computed without forming the sigmoid."""
    return _pointwise("log_sigmoid_cpu", self, lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))))


results_lie(in_one_piece, "log_sigmoid")
derivative("log_sigmoid", self=lambda at, grad, self: grad * at.sigmoid(-self))
differentiates_in_opmath("softplus", "log_sigmoid")


def _gate(x: Array, out: Array) -> None:
    """The sigmoid, as `½ + ½ tanh(x / 2)`."""
    np.multiply(x, 0.5, out=out)
    np.tanh(out, out=out)
    out *= 0.5
    out += 0.5


@register("silu", module="nn", inplace=True)
def silu(self: Array) -> Array:
    """`x · sigmoid(x)`."""
    if self.dtype.kind == "c":
        return np.asarray(self * cpu.sigmoid(self))

    def piece(out: Array, x: Array) -> None:
        _gate(x, out)
        out *= x

    return _pointwise("silu_cpu", self, lambda x: _in_pieces(piece, x))


def _silu_gradient(at: Any, grad: Any, self: Any) -> Any:
    gate = at.sigmoid(self)
    return grad * at.conj(gate * (1 + self * (1 - gate)))


@register("silu_backward", variants="", node="SiluBackward")
def silu_backward(grad_output: Array, self: Array) -> Array:
    """The gradient of SiLU."""
    if self.dtype.kind == "c":
        return np.asarray(_silu_gradient(cpu, grad_output, self))

    def piece(out: Array, g: Array, x: Array) -> None:
        gate = np.empty_like(x)
        _gate(x, gate)
        np.subtract(1, gate, out=out)
        out *= x
        out += 1
        out *= gate
        out *= g

    g, x = in_working_precision(grad_output), in_working_precision(self)
    return _in_pieces(piece, g, x).astype(self.dtype, copy=False)


def _silu_gradient_of(at: Any, grad: Any, self: Any) -> Any:
    return _silu_gradient(at, grad, self) if at is autograd else at.silu_backward(grad, self)


derivative("silu", self=_silu_gradient_of)


@register("mish", module="nn", inplace=True)
def mish(self: Array) -> Array:
    """`x · tanh(softplus(x))`."""
    return _pointwise("mish_cpu", self, lambda x: x * np.tanh(cpu.softplus(x)))


def _mish_gradient(at: Any, grad: Any, self: Any) -> Any:
    bend = at.tanh(at.softplus(self))
    return grad * (bend + self * at.sigmoid(self) * (1 - bend * bend))


derivative("mish", self=_mish_gradient)
differentiates_in_opmath("mish")

_CUBIC = 0.044715


def _check_approximation(approximate: str) -> bool:
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return approximate == "tanh"


_TAIL = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""Coefficients in t of 2 (1 - Φ) / exp(-x²/2), highest power first."""


def _normal_distribution(x: Array) -> tuple[Array, Array]:
    """`Φ(x)`, right to 1e-7, and `exp(-x²/2)`."""
    t = np.abs(x)
    t *= 0.3275911 * math.sqrt(0.5)
    t += 1
    np.divide(1, t, out=t)
    bell = np.square(x)
    bell *= -0.5
    np.exp(bell, out=bell)
    tail = t * (_TAIL[0] / 2)
    for coefficient in _TAIL[1:]:
        tail += coefficient / 2
        tail *= t
    tail *= bell
    return np.abs(np.subtract(x > 0, tail, out=tail), out=tail), bell


@register("gelu", module="nn", inplace=True, out=True)
def gelu(self: Array, *, approximate: str = "none") -> Array:
    """`x · Φ(x)`, Φ the normal distribution function, or its approximation by a tanh. RuntimeError for another word."""
    if _check_approximation(approximate):

        def piece(out: Array, x: Array) -> None:
            np.multiply(x, x, out=out)
            out *= _CUBIC
            out += 1
            out *= x
            out *= math.sqrt(2 / math.pi)
            np.tanh(out, out=out)
            out += 1
            out *= x
            out *= 0.5

    elif self.dtype == np.float64:

        def piece(out: Array, x: Array) -> None:
            np.multiply(x * 0.5, 1 + cpu.erf(x * math.sqrt(0.5)), out=out)

    else:

        def piece(out: Array, x: Array) -> None:
            np.multiply(x, _normal_distribution(x)[0], out=out)

    return _pointwise("GeluKernelImpl", self, lambda x: _in_pieces(piece, x))


def _gelu_gradient(at: Any, grad: Any, self: Any, approximate: str) -> Any:
    if _check_approximation(approximate):
        square = self * self
        bend = at.tanh((square * _CUBIC + 1) * self * math.sqrt(2 / math.pi))
        inner = (square * (3 * _CUBIC) + 1) * math.sqrt(2 / math.pi)
        return grad * (0.5 * (1 + bend) + 0.5 * self * (1 - bend * bend) * inner)
    distribution = 0.5 * (1 + at.erf(self * math.sqrt(0.5)))
    density = at.exp(self * self * -0.5) / math.sqrt(2 * math.pi)
    return grad * (distribution + self * density)


@register("gelu_backward", variants="", node="GeluBackward")
def gelu_backward(grad_output: Array, self: Array, approximate: str = "none") -> Array:
    """The gradient of GELU."""
    g, x = in_working_precision(grad_output), in_working_precision(self)

    def by_formula(out: Array, g: Array, x: Array) -> None:
        out[...] = _gelu_gradient(cpu, g, x, approximate)

    def in_single_precision(out: Array, g: Array, x: Array) -> None:
        distribution, bell = _normal_distribution(x)
        np.multiply(bell, x, out=out)
        out *= 1 / math.sqrt(2 * math.pi)
        out += distribution
        out *= g

    single = approximate == "none" and x.dtype == np.float32
    return _in_pieces(in_single_precision if single else by_formula, g, x).astype(self.dtype, copy=False)


def _gelu_gradient_of(at: Any, grad: Any, self: Any, approximate: str) -> Any:
    if at is autograd:
        return _gelu_gradient(at, grad, self, approximate)
    return at.gelu_backward(grad, self, approximate)


results_lie(in_order_of, "gelu")
derivative("gelu", self=_gelu_gradient_of)
broadcasts_on_meta(
    "threshold", "leaky_relu", "hardtanh", "hardsigmoid", "hardswish", "hardswish_backward", "hardshrink", "softshrink", "elu", "softplus",
    "silu", "silu_backward", "mish", "gelu", "gelu_backward",
)  # fmt: skip
keeps_shape_on_meta("log_sigmoid")
