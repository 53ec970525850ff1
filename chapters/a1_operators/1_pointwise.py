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
# # Pointwise operators
#
# Reference: functions of each element. One line each: the name, NumPy's function, the rule for the type, the derivative. `grad` is ∂L/∂result; a formula gives ∂L/∂input.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Two operands
#
# | operator | by the first | by the second |
# |---|---|---|
# | a + b, a − b | g | ±g |
# | a · b | g · b | g · a |
# | a / b | g / b | −g · a / b² |
# | aᵇ | g · b · aᵇ⁻¹ | g · aᵇ · ln a |
# | max(a, b) | g where a > b, half where equal | the rest |
# | atan2(a, b) | g · b / (a² + b²) | −g · a / (a² + b²) |


# %%
#| into: aten/native/binary_ops.py
#| imports
import math

from readtorch.c10.core import scalar_type

from readtorch.aten.core.dispatch.dispatcher import broadcasts_on_meta, composite, overloads, unknown


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::div
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


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::floor_divide
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

# %% [markdown]
# ### Which way is rounded, and what is its derivative?
#
# There are two roundings, down and towards zero, and for each a quotient and a remainder: `//` goes with `%`, and `fmod` with `div(rounding_mode="trunc")`, so that quotient times divisor plus remainder is the dividend. `//` rounded towards zero until 1.13
# (pytorch/pytorch#43874), under its present name. Code of that time, and its expected values, are off by one for negative numbers.
#
# Neither quotient moves when its operands move a little, so the derivative is zero, and `div` with a rounding mode says so. `floor_divide` has no line in `derivatives.yaml`. For an operator that is missing there the generated code hangs a node of the class `NotImplemented` on the result: it looks like any recorded
# tensor, and fails in backward.


# %%
#| claim: `//` rounds down and div(rounding_mode="trunc") towards zero; the first fails in backward, the second has a derivative of zero
#| source: pytorch/pytorch#43874
#| upstream: tools/autograd/gen_variable_type.py#emit_body
def _(torch):
    seven, two = torch.tensor(-7), torch.tensor(2)
    assert (seven // two, seven % two) == (-4, 1)
    assert (torch.div(seven, two, rounding_mode="trunc"), torch.fmod(seven, two)) == (-3, -1)
    x = torch.ones(1, requires_grad=True)
    divided = x // 2
    assert divided.requires_grad
    try:
        divided.backward()
    except RuntimeError as error:
        assert "derivative for aten::floor_divide is not implemented" in str(error)
    else:
        raise AssertionError("differentiated")
    torch.div(x, 2, rounding_mode="floor").backward()
    assert x.grad.item() == 0


# %%
#| claim: integers divided by zero are an error, floats are not; integers wrap around, in abs and in the minus sign too
def _(torch):
    for divide in (lambda: torch.tensor(5) // 0, lambda: torch.tensor(5) % 0):
        try:
            divide()
        except RuntimeError as error:
            assert "ZeroDivisionError" in str(error)
        else:
            raise AssertionError("divided")
    assert (torch.tensor(5.0) // 0).item() == float("inf")
    smallest = torch.tensor(-128, dtype=torch.int8)
    assert (torch.tensor(200, dtype=torch.uint8) + 100, -smallest, smallest.abs()) == (44, -128, -128)


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#pow.Tensor_Scalar
#| upstream: torch/csrc/autograd/FunctionsManual.cpp#torch::autograd::generated::details::pow_backward
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


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::maximum
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


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#atan2
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

# %% [markdown]
# ### What is the derivative where there is none?
#
# Formulas end somewhere: at ties, at zero, at infinity. What stands there in a framework is a decision, it differs from operator to operator, and a network meets these places all the time (a ReLU at zero, two equal scores, the norm of a zero vector).
#
# | at | the gradient is |
# |---|---|
# | `maximum(a, b)` with a = b | half for each |
# | `clamp` at a bound | passed on |
# | `relu`, `hardtanh` at a bound | 0 |
# | `abs` at 0, the norm of 0, `atan2(0, 0)` | 0 |
# | `sqrt` at 0 | infinite |
# | `x ** 0` at 0 | 0 |
# | `a ** b` by b, for negative a | NaN, whether anybody wants it or not |
#
# Two consequences. `(x * x).sum().sqrt()` is `x.norm()` on paper; at zero its gradient is infinity times zero, a NaN, and the norm's is 0. And a base that may be negative must not meet an exponent that is *learned*, even if it is a whole number at present.


# %%
#| claim: at ties and corners each operator has its own derivative; the root of a sum of squares gives NaN at zero where the norm gives zero
#| upstream: torch/csrc/autograd/FunctionsManual.h#torch::autograd::generated::details::norm_backward
#| needs: a2_layers
def _(torch):
    def slopes(function, *values):
        leaves = [torch.tensor([float(value)], requires_grad=True) for value in values]
        return [grad.item() for grad in torch.autograd.grad(function(*leaves).sum(), leaves)]

    assert slopes(torch.maximum, 3, 3) == [0.5, 0.5]
    assert slopes(lambda x: x.clamp(max=1), 1) == [1] and slopes(torch.nn.functional.hardtanh, 1) == [0]
    assert slopes(torch.relu, 0) == slopes(torch.abs, 0) == slopes(torch.norm, 0) == slopes(lambda x: x**0, 0) == [0]
    assert slopes(torch.atan2, 0, 0) == [0, 0] and slopes(torch.sqrt, 0) == [float("inf")]
    (by_root,) = slopes(lambda x: (x * x).sum().sqrt(), 0)
    by_base, by_exponent = slopes(torch.pow, -2, 3)
    assert by_root != by_root and by_base == 12 and by_exponent != by_exponent


# %% [markdown]
# ## Comparison and logic
# The result is bool; there is nothing to differentiate. A NaN is unequal to everything, itself included, and every operator that orders must do something with it: `max`, `maximum`, `sort` and `argmax` take it for the largest, `fmax` passes it over, `clamp` and `relu` let it through.


# %%
#| claim: a NaN is the largest for max, sort and argmax, is passed over by fmax, and survives clamp and relu
def _(torch):
    nan = float("nan")
    x = torch.tensor([1.0, nan, 3.0])
    assert x.max().isnan() and torch.maximum(x, torch.zeros(3))[1].isnan() and x.argmax().item() == 1
    assert x.sort()[0][2].isnan() and torch.fmax(x, torch.zeros(3)).tolist() == [1, 0, 3]
    assert x.clamp(0, 1)[1].isnan() and x.relu()[1].isnan() and not (x == x).all()


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#eq.Tensor
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


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::bitwise_and
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

# %% [markdown]
# ## One operand
#
# | operator | derivative |
# |---|---|
# | eˣ | g · result |
# | ln x | g / x |
# | √x | g / (2 · result) |
# | sin x, cos x, tan x | g · cos x, −g · sin x, g · (1 + result²) |
# | tanh x | g · (1 − result²) |
# | σ(x) | g · result · (1 − result) |
# | \|x\| | g · sign x |

# %%
#| into: aten/native/unary_ops.py
#| imports
import builtins
import math

from readtorch.aten.core.dispatch.operator_entry import UNSAID

from readtorch.aten.core.dispatch.dispatcher import broadcasts_on_meta, differentiates_in_opmath
from readtorch.aten.native import math as special
from readtorch.c10.core.default_dtype import get_default_dtype
from readtorch.c10.core.dispatch_key import specimen, without_values

# %%
#| into: aten/native/unary_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#exp
#| upstream: tools/autograd/derivatives.yaml#exp
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


# %%
#| into: aten/native/unary_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#sin
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


# %% [markdown]
# NumPy has no error function. In double precision ours are the rational approximations of W. J. Cody (1969). In single precision, which every exact GELU needs twice a step, one quotient of polynomials in x² is enough: fitted to
# erf(x) / x up to 3.9375, where erf rounds to 1, with a relative error of 2.3 · 10⁻⁹, and evaluated in double precision, it gives results within 0.54 units of the last place. Both run over blocks of a few thousand
# elements: the dozens of temporaries that a formula in NumPy makes then stay in the processor's cache, and a GELU of half a million elements takes a fortieth of the time it takes over whole arrays.

# %%
#| into: aten/native/math.py
#| imports
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# %%
#| into: aten/native/math.py
#| upstream: aten/src/ATen/native/Math.h#calc_erfinv
_BLOCK = 4096
_SINGLE_END = 3.9375
_SINGLE = (
    (1.1283791697, 0.19253836740, 5.5611813905e-02, 4.2002770502e-03, 4.0668667519e-04, 6.6232275495e-06),
    (1.0, 0.50396610875, 0.11727280366, 1.6227745828e-02, 1.4099241121e-03, 7.1358285576e-05, 2.5097107141e-07),
)
"""Coefficients of the numerator and of the denominator, lowest power first."""

_SMALL = (
    (
        3.16112374387056560e00,
        1.13864154151050156e02,
        3.77485237685302021e02,
        3.20937758913846947e03,
        1.85777706184603153e-1,
    ),
    (2.36012909523441209e01, 2.44024637934444173e02, 1.28261652607737228e03, 2.84423683343917062e03),
)
_MIDDLE = (
    (5.64188496988670089e-1, 8.88314979438837594e00, 6.61191906371416295e01, 2.98635138197400131e02, 8.81952221241769090e02,
     1.71204761263407058e03, 2.05107837782607147e03, 1.23033935479799725e03, 2.15311535474403846e-8),
    (1.57449261107098347e01, 1.17693950891312499e02, 5.37181101862009858e02, 1.62138957456669019e03, 3.29079923573345963e03,
     4.36261909014324716e03, 3.43936767414372164e03, 1.23033935480374942e03),
)  # fmt: skip
_LARGE = (
    (
        3.05326634961232344e-1,
        3.60344899949804439e-1,
        1.25781726111229246e-1,
        1.60837851487422766e-2,
        6.58749161529837803e-4,
        1.63153871373020978e-2,
    ),
    (
        2.56852019228982242e00,
        1.87295284992346725e00,
        5.27905102951428412e-1,
        6.05183413124413191e-2,
        2.33520497626869185e-3,
    ),
)


def _in_blocks(function: Callable[[Any, Any], None], x: Any) -> Any:
    """`function(block, result)` over pieces of `x` that fit in the processor's first cache with all their temporaries."""
    result = np.empty_like(x, order="C" if 0 in x.strides else "K")
    lying = (x, result)
    if not result.flags.c_contiguous:
        axes = np.argsort([-step for step in result.strides], kind="stable")
        lying = (x.transpose(axes), result.transpose(axes))
    source, target = (array.reshape(-1) for array in lying)
    for start in range(0, source.size, _BLOCK):
        function(source[start : start + _BLOCK], target[start : start + _BLOCK])
    return result


def _erf_double(wide: Any, result: Any) -> None:
    size = np.abs(wide)
    small = size <= 0.46875
    square = np.where(small, wide * wide, 0)
    top, bottom = _SMALL[0][4] * square, square
    for i in range(3):
        top, bottom = (top + _SMALL[0][i]) * square, (bottom + _SMALL[1][i]) * square
    near = wide * (top + _SMALL[0][3]) / (bottom + _SMALL[1][3])
    far = np.sign(wide) * (1 - _erfc_positive(np.maximum(size, 0.46875)))
    result[...] = np.where(np.isnan(wide), wide, np.where(small, near, far))


def _erf_single(x: Any, result: Any) -> None:
    wide = np.clip(x, -_SINGLE_END, _SINGLE_END, dtype=np.float64)
    square = wide * wide
    top, bottom = square * _SINGLE[0][-1], square * _SINGLE[1][-1]
    for value, coefficients in ((top, _SINGLE[0]), (bottom, _SINGLE[1])):
        for coefficient in coefficients[-2:0:-1]:
            value += coefficient
            value *= square
        value += coefficients[0]
    top /= bottom
    np.multiply(top, wide, out=result, casting="same_kind")


def erf(x: Any) -> Any:
    """The error function of each element."""
    if x.dtype == np.float64:
        return _in_blocks(_erf_double, x)
    return _in_blocks(_erf_single, np.asarray(x, np.float32)).astype(x.dtype, copy=False)


def erfc(x: Any) -> Any:
    """1 − erf(x), accurate where erf is near 1."""
    wide = np.asarray(x, np.float64)
    positive = _erfc_positive(np.maximum(np.abs(wide), 0.46875))
    far = np.where(wide < 0, 2 - positive, positive)
    return np.where(np.isnan(wide), wide, np.where(np.abs(wide) <= 0.46875, 1 - erf(wide), far)).astype(x.dtype)


def _erfc_positive(y: np.ndarray) -> np.ndarray:
    """Erfc for y ≥ 0.46875."""
    top, bottom = _MIDDLE[0][8] * y, y
    for i in range(7):
        top, bottom = (top + _MIDDLE[0][i]) * y, (bottom + _MIDDLE[1][i]) * y
    middle = (top + _MIDDLE[0][7]) / (bottom + _MIDDLE[1][7])
    inverse = 1 / np.maximum(y * y, 1e-300)
    top, bottom = _LARGE[0][5] * inverse, inverse
    for i in range(4):
        top, bottom = (top + _LARGE[0][i]) * inverse, (bottom + _LARGE[1][i]) * inverse
    tail = (1 / math.sqrt(math.pi) - inverse * (top + _LARGE[0][4]) / (bottom + _LARGE[1][4])) / y
    cut = np.trunc(np.minimum(y, 1e8) * 16) / 16
    scale = np.exp(-cut * cut) * np.exp(-(y - cut) * (y + cut))
    return np.where(y > 26.6, 0, scale * np.where(y <= 4, middle, tail))


def erfinv(x: Any) -> Any:
    """The inverse of erf: Giles' approximation (2012), then two steps of Newton's method."""
    wide = np.asarray(x, np.float64)
    w = -np.log((1 - wide) * (1 + wide))
    a = np.where(w < 5, w - 2.5, np.sqrt(np.maximum(w, 5)) - 3)
    near = (
        2.81022636e-08,
        3.43273939e-07,
        -3.5233877e-06,
        -4.39150654e-06,
        0.00021858087,
        -0.00125372503,
        -0.00417768164,
        0.246640727,
        1.50140941,
    )
    far = (
        -0.000200214257,
        0.000100950558,
        0.00134934322,
        -0.00367342844,
        0.00573950773,
        -0.0076224613,
        0.00943887047,
        1.00167406,
        2.83297682,
    )
    p, q = np.full_like(wide, near[0]), np.full_like(wide, far[0])
    for i in range(1, 9):
        p, q = near[i] + p * a, far[i] + q * a
    y = np.where(w < 5, p, q) * wide
    inside = np.abs(wide) < 1
    for _ in range(2):
        step = (erf(np.where(inside, y, 0)) - wide) / (2 / math.sqrt(math.pi) * np.exp(-(np.where(inside, y, 0) ** 2)))
        y = np.where(inside, y - step, y)
    edge = np.where(np.abs(wide) == 1, np.sign(wide) * np.inf, np.nan)
    return np.where(inside, y, edge).astype(x.dtype)


def _lanczos(x: np.ndarray) -> np.ndarray:
    """Ln Γ(x) for x ≥ 0.5, by Lanczos' series (g = 7, n = 9)."""
    coefficients = (
        0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
        -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
    )  # fmt: skip
    z = x - 1
    total = np.full_like(z, coefficients[0])
    for i, coefficient in enumerate(coefficients[1:], 1):
        total = total + coefficient / (z + i)
    t = z + 7.5
    return 0.5 * math.log(2 * math.pi) + (z + 0.5) * np.log(t) - t + np.log(total)


def lgamma(x: Any) -> Any:
    """Ln |Γ(x)|."""
    wide = np.asarray(x, np.float64)
    reflected = np.log(np.pi / np.abs(np.sin(np.pi * np.where(wide < 0.5, wide, 0.25)))) - _lanczos(
        np.where(wide < 0.5, 1 - wide, 1.0)
    )
    result = np.where(wide < 0.5, reflected, _lanczos(np.maximum(wide, 0.5)))
    result = np.where((wide == 1) | (wide == 2), 0.0, result)
    pole = (wide <= 0) & (wide == np.floor(wide))
    return np.where(np.isinf(wide) | pole, np.inf, result).astype(x.dtype)


def digamma(x: Any) -> Any:
    """The derivative of ln Γ: recurrence up to 10, then the asymptotic series; reflection below 0."""
    wide = np.asarray(x, np.float64)
    negative = wide <= 0
    y = np.where(negative, 1 - wide, wide)
    result = np.zeros_like(y)
    for _ in range(10):
        low = y < 10
        result = np.where(low, result - 1 / y, result)
        y = np.where(low, y + 1, y)
    inverse = 1 / (y * y)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse * (1 / 132)))))
    result = result + np.log(y) - 0.5 / y - series
    pole = negative & (wide == np.floor(wide))
    reflected = result - np.pi / np.tan(np.pi * wide)
    result = np.where(
        negative, np.where(pole, np.where(wide == 0, -np.copysign(np.inf, wide), np.nan), reflected), result
    )
    return result.astype(x.dtype)


# %%
#| into: aten/native/unary_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#erf
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

# %% [markdown]
# ### Rounding and signs
# Their derivative is zero almost everywhere, and zero is what they give.


# %%
#| into: aten/native/unary_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#floor
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


# %% [markdown]
# ### Complex numbers


# %%
#| into: aten/native/unary_ops.py
#| upstream: aten/src/ATen/native/UnaryOps.cpp#at::native::real
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
