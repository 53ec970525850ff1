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
# # Activations
#
# Pointwise, each with one line of derivative. Half-width floats are computed in float32 and rounded once. `relu`, `sigmoid` and `tanh`
# stand with the other pointwise operators.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: aten/native/activation.py
#| imports
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.native.tensor_factories import in_one_piece, in_order_of
from readtorch.aten.core.dispatch.dispatcher import (
    results_lie,
    autograd,
    composite,
    cpu,
    derivative,
    differentiates_in_opmath,
    broadcasts_on_meta,
    keeps_shape_on_meta,
    opaque,
    register,
)
from readtorch.aten.core.dispatch.operator_entry import Array, Real
from readtorch.aten.tensor_iterator import fitting
from readtorch.aten.cpu_generator_impl import engine
from readtorch.aten.native.distributions import uniform01
from readtorch.aten.op_math_type import in_working_precision
from readtorch.aten.parallel import parallel_for
from readtorch.c10.core.scalar_type import to_string


# %%
#| into: aten/native/activation.py
def _pointwise(op: str, x: Array, function: Callable[[Array], Array]) -> Array:
    """`function` of a floating array, in at least float32. NotImplementedError for other types."""
    kind = x.dtype
    if kind.kind not in "fV":
        raise not_implemented(op, kind)
    if kind.itemsize == 2:
        return function(x.astype(np.float32)).astype(kind)
    return np.asarray(function(x))


# %% [markdown]
# A formula of ten NumPy calls over a large array is ten journeys to memory. Taken over pieces of half a megabyte, its temporaries stay in the cache, and threads can [share](0_threads.py) the pieces. Smaller ones would stay nearer to the processor,
# but threads hand the interpreter to each other at each call: with pieces of 128 KB two threads took longer than one, with these SiLU's gradient takes 0.63 of the time.


# %%
#| into: aten/native/activation.py
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


# %% [markdown]
# ## Piecewise linear
#
# Their second derivative is zero wherever there is one.


# %%
#| into: aten/native/activation.py
#| upstream: aten/src/ATen/native/native_functions.yaml#leaky_relu
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


# %%
#| into: aten/native/activation.py
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

# %% [markdown]
# `prelu` has a slope per channel; the engine sums its gradient down to the slopes' shape.


# %%
#| into: aten/native/activation.py
#| upstream: aten/src/ATen/native/Activation.cpp#at::native::prelu
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

# %% [markdown]
# None of these bends, so the second derivative is zero, and whoever asks for it gets zeros: upstream's backward pass of each is an operator
# that takes the input, too. With a product by hand, `x * 2`, the gradient does not know of `x` any more, and the same question is an error.


# %%
#| claim: the second derivative of a network of ReLUs is zero, and no error
#| upstream: tools/autograd/derivatives.yaml#threshold_backward
#| needs: a2_layers
def _(torch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    x = torch.ones(3, 2, requires_grad=True)
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    assert not curvature.any()
    (slope,) = torch.autograd.grad((x * 2).sum(), x, create_graph=True)
    assert not slope.requires_grad


# %% [markdown]
# `rrelu` draws a slope for each element that is not positive, in the order of the elements.


# %%
#| into: aten/native/activation.py
#| upstream: aten/src/ATen/native/Activation.cpp#at::native::_rrelu_with_noise_train
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


# %% [markdown]
# ## Exponential linear units
#
# One kernel with three scales serves `elu`, `selu` and `celu`. Its derivative needs `exp` of the negative part alone: of a large
# positive number it would overflow and, times the zero of the mask, give NaN.


# %%
#| into: aten/native/activation.py
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


# %% [markdown]
# ## Smooth


# %%
#| into: aten/native/activation.py
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


# %%
#| into: aten/native/activation.py
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

# %% [markdown]
# GELU is `x Φ(x)`; its derivative is `Φ(x) + x φ(x)`, with the normal distribution function and density. The approximation replaces `Φ`
# by a tanh, to which the product rule applies as well.
#
# In single precision, `1 - Φ(|x|)` is a polynomial in `t = 1 / (1 + p |x|)` times `exp(-x²/2)` (Abramowitz and Stegun, 7.1.26): right to 1e-7, which is what upstream's vectorized kernel uses, and `φ` is the same exponential. With it and in pieces, forward takes a third
# of the time that an `erf` right to the last bit takes, and backward a quarter.

# %%
#| into: aten/native/activation.py
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

# %% [markdown]
# ## Gated

# %%
#| into: aten/native/gated_linear_unit.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch.dispatcher import cpu, derivative, differentiates_in_opmath, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/gated_linear_unit.py
#| upstream: aten/src/ATen/native/native_functions.yaml#glu
@register("glu", module="nn")
def glu(self: Array, dim: int = -1) -> Array:
    """The first half along `dim` times the sigmoid of the second."""
    if not self.shape:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    axis = maybe_wrap_dim(dim, len(self.shape))
    size = self.shape[axis]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    first, second = _halves(cpu, self, axis)
    return cpu.mul(first, cpu.sigmoid(second))


def _halves(at: Any, self: Any, axis: int) -> tuple[Any, Any]:
    size = self.shape[axis]
    return at.slice(self, axis, 0, size // 2, 1), at.slice(self, axis, size // 2, size, 1)


def _glu_gradient(at: Any, grad: Any, self: Any, dim: int) -> Any:
    axis = maybe_wrap_dim(dim, len(self.shape))
    first, second = _halves(at, self, axis)
    gate = at.sigmoid(second)
    passed = grad * gate
    return at.cat([passed, passed * first * (1 - gate)], axis)


derivative("glu", self=_glu_gradient)
differentiates_in_opmath("glu")


# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import gated_linear_unit as gated_linear_unit


# %%
#| claim: the exact and the approximate GELU differ by less than 0.0005 everywhere
#| needs: a2_layers
def _(torch):
    x = torch.linspace(-6, 6, 2001, dtype=torch.float64)
    F = torch.nn.functional
    assert (F.gelu(x) - F.gelu(x, approximate="tanh")).abs().max() < 5e-4


# %%
#| claim: ELU's gradient is finite for large positive inputs
#| needs: a2_layers
def _(torch):
    x = torch.tensor([1e4, -1e4], requires_grad=True)
    torch.nn.functional.elu(x).sum().backward()
    assert x.grad.tolist() == [1, 0]
