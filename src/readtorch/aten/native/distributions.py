# Tangled from chapters/a1_operators/, chapters/a4_distributions/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register, unknown
from readtorch.aten.core.dispatch.operator_entry import UNSAID, Array
from readtorch.aten.cpu_generator_impl import CPUGeneratorImpl, engine
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.aten.native.math import digamma
from readtorch.aten.tensor_iterator import shapes
from readtorch.c10.core.scalar_type import from_numpy_dtype, not_implemented, to_string


def uniform01(generator: CPUGeneratorImpl, count: int, dtype: np.dtype) -> np.ndarray:
    """`count` numbers in [0, 1), of as many random bits as the mantissa of float64 or, for all narrower types, of float32 has."""
    if dtype == np.float64:
        return (generator.random64(count) & np.uint64((1 << 53) - 1)).astype(np.float64) * 2.0**-53
    numbers = (generator.random(count) & np.uint32((1 << 24) - 1)).astype(np.float32) * np.float32(2.0**-24)
    return numbers.astype(dtype, copy=False)


def uniform(generator: CPUGeneratorImpl, count: int, dtype: np.dtype, low: float, high: float) -> np.ndarray:
    """Numbers in [low, high)."""
    if dtype.itemsize == 2:
        return uniform(generator, count, np.dtype(np.float32), low, high).astype(dtype)
    values = uniform01(generator, count, dtype)
    if dtype == np.float64:
        return (values.astype(np.longdouble) * (high - low) + low).astype(np.float64)
    low, high = float(dtype.type(low)), float(dtype.type(high))
    span = float(dtype.type(high - low))
    return (values.astype(np.float64) * span + low).astype(dtype)


@register("uniform_", variants="method")
def uniform_(self: Array, from_: float = 0, to: float = 1, *, generator: Any = None) -> Array:
    """Fill with numbers drawn evenly from [from, to); of complex numbers, both parts."""
    if self.dtype.kind == "c":
        parts = np.empty((self.size, 2), self.real.dtype)
        uniform_(parts, from_, to, generator=generator)
        place = in_memory_order(self)
        place[...] = parts.view(self.dtype).reshape(place.shape)
        return self
    if self.dtype.kind not in "fV":
        raise not_implemented("check_uniform_bounds", self.dtype)
    if not from_ <= to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}")
    for name, bound in (("from", from_), ("to", to)):
        if math.isinf(bound):
            raise RuntimeError(f"{name} is out of bounds for {to_string(from_numpy_dtype(self.dtype))}")
    place = in_memory_order(self)
    place[...] = uniform(engine(generator), self.size, self.dtype, from_, to).reshape(place.shape)
    return self


derivative("uniform_", self=lambda at, grad: at.zeros_like(grad))


def normal(generator: CPUGeneratorImpl, count: int, dtype: np.dtype, mean: float = 0, std: float = 1) -> np.ndarray:
    """Normal numbers, by whichever of upstream's two ways the count asks for."""
    if count < 16:
        few = np.array([_one_normal(generator) for _ in range(count)], dtype=np.float64)
        return (few * std + mean).astype(dtype)
    whole = count - count % 16
    if (
        dtype.itemsize == 2
    ):  # computed in float32, and nothing is drawn for the part that the ragged last block will overwrite
        values = np.empty(count, np.float32)
        values[:whole] = uniform01(generator, whole, values.dtype)
    else:
        values = uniform01(generator, count, dtype)
    _box_muller(values[:whole].reshape(-1, 16))
    if count % 16:
        last = uniform01(generator, 16, values.dtype).reshape(1, 16)
        _box_muller(last)
        values[count - 16 :] = last[0]
    if std != 1 or mean != 0:
        values = values * values.dtype.type(std) + values.dtype.type(mean)
    return values.astype(dtype, copy=False)


def _box_muller(blocks: np.ndarray) -> None:
    """Turn rows of 16 uniform numbers into normal ones, in place."""
    dtype = blocks.dtype.type
    radius = np.sqrt(dtype(-2) * np.log(dtype(1) - blocks[:, :8]))
    angle = dtype(2 * math.pi) * blocks[:, 8:]
    blocks[:, :8], blocks[:, 8:] = radius * np.cos(angle), radius * np.sin(angle)


def _one_normal(generator: CPUGeneratorImpl) -> float:
    cached = generator.cached_double
    if cached is not None:
        generator.cached_double = None
        return cached
    first, second = uniform01(generator, 2, np.dtype(np.float64))
    radius = math.sqrt(-2.0 * math.log1p(-second))
    angle = 2.0 * math.pi * first
    generator.cached_double = radius * math.sin(angle)
    return radius * math.cos(angle)


def _one_by_one(generator: CPUGeneratorImpl, count: int) -> np.ndarray:
    """`count` normal numbers as `_one_normal` gives them, without a call for each."""
    values = np.empty(count)
    begin = min(count, 1 if generator.cached_double is not None else 0)
    if begin:
        values[0] = _one_normal(generator)
    even = begin + (count - begin) // 2 * 2
    first, second = uniform01(generator, even - begin, np.dtype(np.float64)).reshape(-1, 2).T
    radius, angle = np.sqrt(-2.0 * np.log1p(-second)), 2.0 * math.pi * first
    values[begin:even:2], values[begin + 1 : even : 2] = radius * np.cos(angle), radius * np.sin(angle)
    if even < count:
        values[-1] = _one_normal(generator)
    return values


def in_memory_order(array: Array) -> Array:
    """A view of all of `array` whose last index moves least in memory: the order in which upstream draws into a tensor."""
    if array.ndim < 2 or array.flags.c_contiguous:
        return array
    return array.transpose(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))


@register("normal_", variants="method")
def normal_(self: Array, mean: float = 0, std: float = 1, *, generator: Any = None) -> Array:
    """Fill with normal numbers."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if not self.size:
        return self
    if self.dtype.kind == "c":
        half = np.dtype(np.float32 if self.itemsize == 8 else np.float64)
        parts = normal(engine(generator), 2 * self.size, half, 0, std / math.sqrt(2)).reshape(*self.shape, 2)
        self.real, self.imag = parts[..., 0] + half.type(mean), parts[..., 1]
        return self
    if self.dtype.kind not in "fV":
        raise not_implemented("normal_kernel_cpu", self.dtype)
    place = in_memory_order(self)
    if self.flags.c_contiguous:
        values = normal(engine(generator), self.size, self.dtype, mean, std)
    else:
        values = _one_by_one(engine(generator), self.size) * std + mean
    place[...] = values.reshape(place.shape)
    return self


derivative("normal_", self=lambda at, grad: at.zeros_like(grad))


def integers(generator: CPUGeneratorImpl, count: int, low: int, high: int) -> np.ndarray:
    """int64 numbers in [low, high)."""
    span = high - low
    if span >= 1 << 32:
        return (generator.random64(count) % np.uint64(span)).astype(np.int64) + low
    return (
        (generator.random(count) % np.uint32(span)).astype(np.int64) + low
        if span < 1 << 32
        else generator.random(count)
    )


_WHOLE_RANGE = {"float32": 1 << 24, "float64": 1 << 53, "float16": 1 << 11, "bfloat16": 1 << 8, "bool": 2}


def above_all(kind: np.dtype) -> int:
    """One more than the largest integer of a dtype, or than the last that a floating dtype counts to without a gap."""
    if kind.kind == "b":
        return 2
    if kind.kind in "iu":
        return int(np.iinfo(kind).max) + 1
    return _WHOLE_RANGE[from_numpy_dtype(kind).name] + 1 if kind.itemsize < 8 else (1 << 53) + 1


@register("random_", variants="method")
def random_(self: Array, from_: int | None = None, to: int | None = None, *, generator: Any = None) -> Array:
    """Fill with integers: from the whole range that the dtype holds exactly, from [0, to) or from [from, to)."""
    if self.dtype.kind == "c":
        raise RuntimeError("random_ is not supported for complex dtypes")
    source = engine(generator)
    if from_ is not None and to is None:
        from_, to = 0, from_
    if from_ is not None and to is not None:
        if from_ >= to:
            raise RuntimeError(f"random_ expects 'from' to be less than 'to': [{from_}, {to}) is empty")
        if self.dtype.kind in "biu":
            lowest, highest = (0, 1) if self.dtype.kind == "b" else (np.iinfo(self.dtype).min, np.iinfo(self.dtype).max)
            for bound, value in (("from", from_), ("to - 1", to - 1)):
                if not lowest <= value <= highest:
                    raise RuntimeError(f"{bound} is out of bounds for {to_string(from_numpy_dtype(self.dtype))}")
        values = integers(source, self.size, from_, to)
    elif self.dtype.itemsize == 8 and self.dtype.kind in "iuf":
        limit = (1 << 53) + 1 if self.dtype.kind == "f" else 1 << 63
        values = (source.random64(self.size) % np.uint64(limit)).astype(self.dtype)
    else:
        name = from_numpy_dtype(self.dtype).name
        limit = _WHOLE_RANGE.get(name) or int(np.iinfo(self.dtype).max) + 1
        values = source.random(self.size) % np.uint32(limit + (1 if name.startswith(("float", "bfloat")) else 0))
    place = in_memory_order(self)
    place[...] = values.reshape(place.shape)
    return self


def permutation(generator: CPUGeneratorImpl, count: int) -> np.ndarray:
    """Fisher–Yates from the front."""
    order = list(range(count))
    draws = generator.random(max(count - 1, 0)).tolist()
    for i, draw in enumerate(draws):
        j = i + draw % (count - i)
        order[i], order[j] = order[j], order[i]
    return np.array(order, dtype=np.int64)


@register("_randperm", variants="")
def _randperm(n: int, *, generator: Any = None) -> Array:
    return permutation(engine(generator), n)


def _refuse(kinds: str, array: Array, op: str) -> None:
    if array.dtype.kind in kinds:
        raise not_implemented(op, array.dtype)


@register("_bernoulli_scalar_", variants="", node="Bernoulli")
def _bernoulli_scalar_(self: Array, p: float = 0.5, *, generator: Any = None) -> Array:
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    _refuse("c", self, "bernoulli_scalar_cpu_")
    place = in_memory_order(self)
    place[...] = (uniform01(engine(generator), self.size, np.dtype(np.float64)) < p).reshape(place.shape)
    return self


@register("_bernoulli_tensor_", variants="", node="Bernoulli")
def _bernoulli_tensor_(self: Array, p: Array, *, generator: Any = None) -> Array:
    _refuse("c", self, "bernoulli_tensor_cpu_self_")
    _refuse("biuc", p, "bernoulli_tensor_cpu_p_")
    if not is_expandable_to(p.shape, self.shape):
        raise RuntimeError(
            f"The expanded size of the tensor must match the existing size. Target sizes: {list(self.shape)}.  Tensor sizes: {list(p.shape)}"
        )
    if p.size and not ((p >= 0) & (p <= 1)).all():
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    kind = np.dtype(np.float64) if p.dtype == np.float64 else np.dtype(np.float32)
    self[...] = uniform01(engine(generator), self.size, kind).reshape(self.shape) < p
    return self


@register("bernoulli", variants="function", out=True)
def bernoulli(self: Array, p: float = UNSAID, *, generator: Any = None) -> Array:
    """0 or 1, with the probabilities in `self` (or `p`) of being 1."""
    result = np.empty(self.shape, self.dtype)
    return (
        _bernoulli_tensor_(result, self, generator=generator)
        if p is None
        else _bernoulli_scalar_(result, p, generator=generator)
    )


def _bernoulli_backward(at: Any, grad: Any, p: Any) -> Any:
    if p is not None:
        raise RuntimeError("derivative for aten::bernoulli is not implemented")
    return at.zeros_like(grad)


derivative("bernoulli", self=_bernoulli_backward)


@register("exponential_", variants="method")
def exponential_(self: Array, lambd: float = 1, *, generator: Any = None) -> Array:
    """Fill with numbers of the exponential distribution."""
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    if self.dtype.kind not in "fV":
        raise RuntimeError(
            f"Exponential distribution is a continuous probability distribution: {to_string(from_numpy_dtype(self.dtype))} cannot hold its numbers, a floating-point dtype can"
        )
    draws = uniform01(engine(generator), self.size, np.dtype(np.float64))
    place = in_memory_order(self)
    place[...] = (-np.log1p(-draws) / lambd).reshape(place.shape)
    return self


@register("geometric_", variants="method")
def geometric_(self: Array, p: float, *, generator: Any = None) -> Array:
    """Fill with how many trials of probability `p` the first success takes."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    _refuse("bc", self, "geometric_cpu")
    draws = uniform01(engine(generator), self.size, np.dtype(np.float64))
    place = in_memory_order(self)
    place[...] = np.ceil(np.log(draws) / math.log1p(-p)).reshape(place.shape)
    return self


@register("log_normal_", variants="method")
def log_normal_(self: Array, mean: float = 1, std: float = 2, *, generator: Any = None) -> Array:
    """Fill with numbers whose logarithms are normal."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    _refuse_whole(self, "log_normal_cpu")
    source = engine(generator)
    draws = np.array([_one_normal(source) for _ in range(self.size)], np.float64)
    place = in_memory_order(self)
    place[...] = np.exp(draws * std + mean).reshape(place.shape)
    return self


@register("cauchy_", variants="method")
def cauchy_(self: Array, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Array:
    """Fill with numbers of the Cauchy distribution: quotients of two normal ones."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    if self.dtype.kind not in "fV":
        raise RuntimeError(
            f"Cauchy distribution is a continuous probability distribution: {to_string(from_numpy_dtype(self.dtype))} cannot hold its numbers, a floating-point dtype can"
        )
    draws = uniform01(engine(generator), self.size, np.dtype(np.float64))
    place = in_memory_order(self)
    place[...] = (median + sigma * np.tan(math.pi * (draws - 0.5))).reshape(place.shape)
    return self


def _refuse_whole(self: Array, name: str) -> None:
    if self.dtype.kind not in "fV":
        raise not_implemented(name, self.dtype)


for _name in ("geometric_", "log_normal_", "cauchy_"):
    derivative(_name, self=lambda at, grad: at.zeros_like(grad))


@register("poisson", variants="function")
def poisson(self: Array, generator: Any = None) -> Array:
    """Numbers of events, where so many are expected."""
    _refuse_whole(self, "poisson_cpu")
    if self.size and not (self >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    source = engine(generator)
    counts = [_one_poisson(source, rate) for rate in self.reshape(-1).astype(np.float64).tolist()]
    return np.array(counts, np.float64).astype(self.dtype).reshape(self.shape)


derivative("poisson", self=lambda at, grad: at.zeros_like(grad))


def _one_poisson(generator: CPUGeneratorImpl, rate: float) -> float:
    """Below 10 by multiplying uniform numbers until they are smaller than e⁻ʳ; from there on by Hörmann's transformed rejection (1993)."""

    def draw() -> float:
        return float(uniform01(generator, 1, np.dtype(np.float64))[0])

    if rate < 10:
        if not rate:
            return 0
        count, product, limit = 0, draw(), math.exp(-rate)
        while product > limit:
            count, product = count + 1, product * draw()
        return count
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    scale = 1.1239 + 1.1328 / (b - 3.4)
    while True:
        u, v = draw() - 0.5, draw()
        near = 0.5 - abs(u)
        found = math.floor((2 * a / near + b) * u + rate + 0.43)
        if near >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return found
        if found < 0 or (near < 0.013 and v > near):
            continue
        if math.log(v) + math.log(scale) - math.log(a / near**2 + b) <= -rate + found * math.log(rate) - math.lgamma(
            found + 1
        ):
            return found


@register("multinomial", variants="function method", specimen="ones", out=True)
def multinomial(self: Array, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Array:
    """Row numbers drawn with the probabilities, up to a factor, in each row of `self`.

    Drawn as upstream does: each weight is divided by an exponential number, the largest quotients win.
    """
    if self.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    weights = self if self.ndim == 2 else self[None]
    if self.dtype.kind not in "fV":
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {to_string(from_numpy_dtype(self.dtype))}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > weights.shape[1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    wrong = not np.isfinite(weights).all() or (weights < 0).any()
    if wrong and (not replacement or num_samples == 1):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if wrong:
        what = "= infinity or NaN" if not np.isfinite(weights).all() else "< 0"
        raise RuntimeError(f"invalid multinomial distribution (encountering probability entry {what})")
    if (weights.sum(axis=1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    source = engine(generator)
    if not len(weights):
        return np.empty((0, num_samples), np.int64)
    if not replacement or num_samples == 1:
        waiting = exponential_(np.empty_like(weights), generator=generator)
        keys = weights / waiting
        if num_samples == 1:
            result = keys.argmax(axis=1, keepdims=True)
        else:
            result = np.argsort(-keys, axis=1, kind="stable")[:, :num_samples]
    else:
        totals = np.cumsum(weights, axis=1, dtype=weights.dtype)
        totals /= totals[:, -1:]
        draws = uniform01(source, weights.shape[0] * num_samples, np.dtype(np.float64)).reshape(
            weights.shape[0], num_samples
        )
        result = np.stack([np.searchsorted(row, draw, side="left") for row, draw in zip(totals, draws, strict=True)])
        result = np.minimum(result, weights.shape[1] - 1)
    return result.astype(np.int64) if self.ndim == 2 else result[0].astype(np.int64)


def _one_gamma(source: CPUGeneratorImpl, alpha: float) -> float:
    def draw() -> float:
        return float(uniform01(source, 1, np.dtype(np.float64))[0])

    scale = 1.0
    if alpha < 1:
        if alpha == 0:
            return 0.0
        scale = (1 - draw()) ** (1 / alpha)
        alpha += 1
    d = alpha - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        y = 0.0
        while y <= 0:
            x = _one_normal(source)
            y = 1 + c * x
        v = y * y * y
        u = 1 - draw()
        square = x * x
        if u < 1 - 0.0331 * square * square or math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v


@register("_standard_gamma", variants="function")
def _standard_gamma(self: Array, generator: Any = None) -> Array:
    """Numbers of the gamma distribution with these shapes and scale 1; never zero."""
    _refuse_whole(self, "gamma")
    source = engine(generator)
    draws = np.array([_one_gamma(source, alpha) for alpha in self.reshape(-1).astype(np.float64).tolist()], np.float64)
    return np.maximum(draws.astype(self.dtype), np.finfo(self.dtype).tiny).reshape(self.shape)


def _gamma_slope(x: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """dx/dα at equal quantile, for float64 `x` and `alpha` of one dimension."""
    result = np.empty_like(x)
    large = alpha > 1000
    a, y = alpha[large], x[large]
    root, cube = 1 / (3 * np.sqrt(a)), np.cbrt(y / a)
    z = (cube - 1 + 1 / (9 * a)) / root
    result[large] = y / a + 3 * a * cube**2 * (1 / (9 * a**2) - z * root / (2 * a))
    far = ~large & (x > alpha + 12 + 6 * np.sqrt(alpha))
    result[far] = _gamma_slope_far(x[far], alpha[far])
    near = ~large & ~far
    a, y = alpha[near], x[near]
    psi = digamma(a + 1)
    term = y / a  # of k = 0, over x^(α-1) e^(-x) / Γ(α)
    total, logarithm = np.zeros_like(y), np.log(y)
    k = 0.0
    while len(term) and k < 5000:
        total -= term * (logarithm - psi)
        k += 1
        psi = psi + 1 / (a + k)
        term = term * (y / (a + k))
        if (term * (1 + np.abs(logarithm - psi)) < 1e-17 * np.abs(total)).all():
            break
    result[near] = total
    return result


def _gamma_slope_far(x: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """In the upper tail: 1 - F is the density times Σ (α-1)…(α-k) / xᵏ, cut where the terms stop shrinking."""
    term, total = np.ones_like(x), np.ones_like(x)
    by_alpha, slope = np.zeros_like(x), np.zeros_like(x)
    shrinking = np.ones(x.shape, bool)
    for k in range(1, 300):
        factor = (alpha - k) / x
        by_alpha, following = by_alpha * factor + term / x, term * factor
        shrinking &= np.abs(following) < np.abs(term)
        if not shrinking.any():
            break
        term = following
        total, slope = total + np.where(shrinking, term, 0), slope + np.where(shrinking, by_alpha, 0)
    return (np.log(x) - digamma(alpha)) * total + slope


@register("_standard_gamma_grad", variants="function")
def _standard_gamma_grad(self: Array, output: Array) -> Array:
    """How the draws `output` move with the shapes `self`."""
    alpha, x = (np.broadcast_to(v, output.shape).astype(np.float64).reshape(-1) for v in (self, output))
    return _gamma_slope(x, alpha).reshape(output.shape).astype(output.dtype)


_UNKNOWN = unknown("the derivative for '_standard_gamma_grad' is not implemented.")
derivative("_standard_gamma_grad", self=_UNKNOWN, output=_UNKNOWN)
derivative("_standard_gamma", self=lambda at, grad, self, result: grad * at._standard_gamma_grad(self, result))


@register("_sample_dirichlet", variants="function")
def _sample_dirichlet(self: Array, generator: Any = None) -> Array:
    """Rows that sum to one, with these concentrations along the last dimension."""
    _refuse_whole(self, "dirichlet")
    source = engine(generator)
    draws = np.array([_one_gamma(source, a) for a in self.reshape(-1).astype(np.float64).tolist()], np.float64)
    rows = np.maximum(draws.reshape(self.shape), np.finfo(np.float64).tiny)
    rows = (rows / rows.sum(-1, keepdims=True)).astype(self.dtype)
    limits = np.finfo(self.dtype)
    return np.clip(rows, limits.tiny, 1 - limits.epsneg)


def _beta_slopes(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """-∂I/∂a and -∂I/∂b over the density, by the series in `x`; float64, one dimension."""
    term, by_a, by_b = np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    total, from_a, from_b = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    for n in range(20000):
        total, from_a, from_b = total + term, from_a + term * by_a, from_b + term * by_b
        step = 1 / (a + b + n)
        by_a, by_b = by_a + step - 1 / (a + 1 + n), by_b + step
        term = term * (a + b + n) / (a + 1 + n) * x
        if (term * (1 + np.abs(by_a) + by_b) < 1e-17 * total).all():
            break
    both = digamma(a + b)
    before = x * (1 - x) / a  # what stands before the series, over the density
    return (
        -before * (total * (np.log(x) - 1 / a - digamma(a) + both) + from_a),
        -before * (total * (np.log1p(-x) - digamma(b) + both) + from_b),
    )


@register("_dirichlet_grad", variants="function")
def _dirichlet_grad(x: Array, alpha: Array, total: Array) -> Array:
    """dx/dα of each coordinate by its own concentration, over 1 - x."""
    y, a, both = (np.broadcast_to(v, x.shape).astype(np.float64).reshape(-1) for v in (x, alpha, total))
    b = both - a
    low = y <= (a + 1) / (both + 2)
    slope = np.empty_like(y)
    slope[low] = _beta_slopes(y[low], a[low], b[low])[0]
    slope[~low] = -_beta_slopes(1 - y[~low], b[~low], a[~low])[1]
    return (slope / (1 - y)).reshape(x.shape).astype(x.dtype)


def _one_binomial(source: CPUGeneratorImpl, count: float, p: float) -> float:
    """By the gaps between successes where few are expected, else by Hörmann's transformed rejection (1993)."""
    if count <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return count
    if p > 0.5:
        return count - _one_binomial(source, count, 1 - p)

    def draw() -> float:
        return float(uniform01(source, 1, np.dtype(np.float64))[0])

    if count * p < 10:
        found, place, step = 0.0, 0.0, math.log1p(-p)
        while True:
            u = draw()
            place += math.ceil(math.log(u) / step) if u else math.inf
            if place > count:
                return found
            found += 1
    spread = math.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre, limit = count * p + 0.5, 0.92 - 4.2 / b
    odds, alpha = p / (1 - p), (2.83 + 5.1 / b) * spread
    m = math.floor((count + 1) * p)
    while True:
        u = draw() - 0.5
        v = draw()
        near = 0.5 - abs(u)
        k = math.floor((2 * a / near + b) * u + centre)
        if near >= 0.07 and v <= limit:
            return k
        if k < 0 or k > count:
            continue
        v = math.log(v * alpha / (a / (near * near) + b))
        bound = (
            (m + 0.5) * math.log((m + 1) / (odds * (count - m + 1)))
            + (count + 1) * math.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(count - m)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )
        if v <= bound:
            return k


def _stirling_tail(k: float) -> float:
    """The logarithm of k! less Stirling's approximation of it."""
    return math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))


@register("binomial", variants="function")
def binomial(count: Array, prob: Array, generator: Any = None) -> Array:
    """Numbers of successes in `count` trials of probability `prob`."""
    for name, array in (("count", count), ("prob", prob)):
        if array.dtype.kind not in "fV":
            kind = to_string(from_numpy_dtype(array.dtype))
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {kind}")
    shapes("binomial", (count, prob))
    if count.dtype.itemsize == 2:
        raise not_implemented("binomial_cpu", count.dtype)
    if count.dtype != prob.dtype:
        found, wanted = (to_string(from_numpy_dtype(array.dtype)) for array in (prob, count))
        raise RuntimeError(f"Found dtype {found} but expected {wanted}")
    source = engine(generator)
    counts, probs = np.broadcast_arrays(count, prob)
    drawn = [_one_binomial(source, n, p) for n, p in zip(counts.ravel().tolist(), probs.ravel().tolist(), strict=True)]
    return np.array(drawn, np.float64).astype(count.dtype).reshape(counts.shape)


_UNKNOWN_BINOMIAL = unknown("derivative for aten::binomial is not implemented", RuntimeError)
derivative("binomial", count=_UNKNOWN_BINOMIAL, prob=_UNKNOWN_BINOMIAL)
