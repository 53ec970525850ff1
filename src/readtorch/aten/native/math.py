# Tangled from chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

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


def incomplete_gamma(a: Any, x: Any, upper: bool) -> Any:
    """P(a, x), or 1 - P(a, x) if `upper`, of arrays of one dtype."""
    kind = np.result_type(a, x)
    shape, y = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    with np.errstate(all="ignore"):
        kept = (shape >= 0) & (y >= 0) & ~((shape == 0) & (y == 0)) & ~(np.isinf(shape) & np.isinf(y))
        found = np.where(kept, ((shape == 0) | np.isinf(y)) != upper, np.nan)
        result = np.array(np.add(shape, y))  # lies in memory as the result of any pointwise operator
        result[...] = found
        usual = kept & (shape > 0) & (y > 0) & np.isfinite(shape) & np.isfinite(y)
        small = usual & (y < shape + 1)
        for where, series in ((small, True), (usual & ~small, False)):
            if where.any():
                part = (_gamma_series if series else _gamma_fraction)(shape[where], y[where])
                result[where] = part if series != upper else 1 - part
    return result.astype(kind)


def _gamma_density(a: Any, x: Any) -> Any:
    """Xᵃ e⁻ˣ / Γ(a)."""
    return np.exp(a * np.log(x) - x - lgamma(a))


def _gamma_series(a: Any, x: Any) -> Any:
    """P by Σ xᵏ / (a (a+1) … (a+k))."""
    term, k = 1 / a, 0
    total = term
    while k < 20000 and (term > 1e-17 * total).any():
        k += 1
        term = term * (x / (a + k))
        total = total + term
    return total * _gamma_density(a, x)


def _gamma_fraction(a: Any, x: Any) -> Any:
    """1 - P by Lentz' evaluation of its continued fraction."""
    tiny = 1e-300
    b = x + 1 - a
    c, d = np.full_like(x, 1 / tiny), 1 / np.where(b == 0, tiny, b)
    total = d
    for k in range(1, 20000):
        b = b + 2
        step = -k * (k - a)
        d = step * d + b
        c = b + step / c
        d, c = 1 / np.where(d == 0, tiny, d), np.where(c == 0, tiny, c)
        change = d * c
        total = total * change
        if (np.abs(change - 1) < 1e-16).all():
            break
    return total * _gamma_density(a, x)


def _circle() -> Any:
    return np.cos(2 * np.pi * np.arange(256) / 256)


def _bessel(order: int, x: Any) -> Any:
    """Iₙ for n of 0 or 1."""
    wide = np.abs(np.asarray(x, np.float64))
    circle = _circle()
    weights = np.exp(wide[..., None] * (circle - 1))
    mean = (weights * (circle if order else 1)).mean(axis=-1) * np.exp(wide)
    return (np.where(wide == 0, x, np.copysign(mean, x)) if order else mean).astype(x.dtype)


def i0(x: Any) -> Any:
    """The modified Bessel function of order 0."""
    return _bessel(0, x)


def i1(x: Any) -> Any:
    """The modified Bessel function of order 1."""
    return _bessel(1, x)


def zeta(s: float, x: Any) -> Any:
    """Hurwitz' Σ 1/(x + k)ˢ for x > 0, by Euler and Maclaurin: ten terms, then an integral and its corrections."""
    wide = np.asarray(x, np.float64)
    total = sum((wide + k) ** -s for k in range(10))
    tail = wide + 10
    total = total + tail ** (1 - s) / (s - 1) + 0.5 * tail**-s
    factor, power = s, tail ** (-s - 1)
    for number, bernoulli in enumerate(
        (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000), 1
    ):
        total = total + bernoulli * factor * power
        factor *= (s + 2 * number - 1) * (s + 2 * number)
        power = power / tail**2
    return total
