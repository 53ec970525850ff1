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
# # Random numbers
#
# Reference: the generator of the CPU, the distributions drawn from it, and the functions of `torch.random`. A program seeded like PyTorch's draws the same numbers here, bit for bit except where noted.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## The generator
# MT19937, seeded as `std::mt19937` is. NumPy carries the same engine. Each *draw* below takes 32 bits; a double takes two.

# %%
#| into: aten/cpu_generator_impl.py
#| imports
from __future__ import annotations

import secrets
import struct
from typing import Any

import numpy as np

# %%
#| into: aten/cpu_generator_impl.py
#| upstream: aten/src/ATen/CPUGeneratorImpl.cpp#at::CPUGeneratorImpl
_STATE = struct.Struct("<Qii Q 624Q ddd i4x f?3x".replace(" ", ""))
DEFAULT_SEED = 67280421310721


class CPUGeneratorImpl:
    """The engine behind `torch.Generator`, with the second half of the last pair of normal numbers."""

    __slots__ = ("bits", "cached_double", "cached_float", "initial_seed")

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self.bits = np.random.MT19937()
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> None:
        """Start over from `seed`, of which the engine takes 32 bits."""
        self.initial_seed = seed & 0xFFFFFFFFFFFFFFFF
        self.bits._legacy_seeding(seed & 0xFFFFFFFF)
        self.cached_double: float | None = None
        self.cached_float: float | None = None

    def seed(self) -> int:
        """Start over from a seed of the operating system's, and return it."""
        seed = secrets.randbits(64)
        self.manual_seed(seed)
        return seed

    def random(self, count: int) -> np.ndarray:
        """32-bit draws, as uint32."""
        return self.bits.random_raw(count).astype(np.uint32)

    def random64(self, count: int) -> np.ndarray:
        """64-bit draws: the first of each pair is the upper half."""
        pairs = self.bits.random_raw(2 * count).reshape(-1, 2)
        return (pairs[:, 0] << np.uint64(32)) | pairs[:, 1]

    def get_state(self) -> np.ndarray:
        """5056 bytes, laid out as upstream's `CPUGeneratorImplState`."""
        state = self.bits.state["state"]
        position = int(state["pos"])
        left = 625 - position
        cached = self.cached_double
        packed = _STATE.pack(
            self.initial_seed, left, 1, 0 if left == 1 and position == 624 and self._untouched() else position,
            *(int(word) for word in state["key"]), 0.0, 0.0 if cached is None else cached, 0.0, cached is not None,
            self.cached_float or 0.0, self.cached_float is not None,
        )  # fmt: skip
        return np.frombuffer(packed, np.uint8).copy()

    def _untouched(self) -> bool:
        fresh = np.random.MT19937()
        fresh._legacy_seeding(self.initial_seed & 0xFFFFFFFF)
        return bool(np.array_equal(fresh.state["state"]["key"], self.bits.state["state"]["key"]))

    def set_state(self, state: np.ndarray) -> None:
        """Go back to a state that `get_state` returned, here or upstream. RuntimeError on any other size."""
        if state.size not in (5056, 5048):
            raise RuntimeError(f"RNG state is wrong size: expected 5056 bytes, got {state.size}")
        raw = state.tobytes().ljust(5056, b"\0")
        seed, left, _, position, *rest = _STATE.unpack(raw)
        if not 0 < left <= 624 or position > 624:
            raise RuntimeError("Invalid mt19937 state")
        key, (_, normal_y, _, valid, cached_float, float_valid) = rest[:624], rest[624:]
        self.initial_seed = seed
        position = 624 if left == 1 else position
        self.bits.state = {"bit_generator": "MT19937", "state": {"key": np.array(key, np.uint32), "pos": position}}
        self.cached_double = normal_y if valid else None
        self.cached_float = cached_float if float_valid else None


default = CPUGeneratorImpl()
default.seed()


def engine(generator: Any) -> CPUGeneratorImpl:
    """The engine of a `torch.Generator`; the default one for None."""
    if generator is None:
        return default
    if not hasattr(generator, "_engine"):
        raise TypeError(f"argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return generator._engine


# %% [markdown]
# ## Distributions
#
# | distribution | draws per number | formula |
# |---|---|---|
# | uniform float32 | 1 | low 24 bits · 2⁻²⁴ |
# | uniform float64 | 2 | low 53 bits · 2⁻⁵³ |
# | uniform in [a, b) | as above | u · (b − a) + a, rounded once (a fused multiply-add) |
# | integers below n | 1, or 2 from n = 2³² on | draw mod n |
# | permutation of n | n − 1 | Fisher–Yates from the front, draw mod (n − i) |
# | Bernoulli, scalar p | 2 | float64 uniform < p |
# | Bernoulli, tensor p | 1 | float32 uniform < p |
# | normal, below 16 numbers | 4 per pair | Box–Muller in double precision; the second of a pair is kept for the next call |
# | normal, 16 and more | 1 | float32 Box–Muller on blocks of 16, number j paired with j + 8; a ragged last block is drawn anew |

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import distributions as distributions

# %%
#| into: aten/native/distributions.py
#| imports
from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.cpu_generator_impl import CPUGeneratorImpl, engine
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.aten.core.dispatch.operator_entry import UNSAID
from readtorch.aten.tensor_iterator import shapes
from readtorch.c10.core.scalar_type import not_implemented, from_numpy_dtype, to_string


# %%
#| into: aten/native/distributions.py
#| upstream: aten/src/ATen/core/DistributionsHelper.h#at::uniform_real_distribution
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


# %%
#| into: aten/native/distributions.py
#| upstream: aten/src/ATen/native/cpu/DistributionTemplates.h#at::native::templates::cpu::normal_fill
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


# %%
#| into: aten/native/distributions.py
#| upstream: aten/src/ATen/native/Distributions.cpp#at::native::random_
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


# %%
#| into: aten/native/distributions.py
#| upstream: aten/src/ATen/native/Distributions.cpp#at::native::bernoulli_
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


# %% [markdown]
# ## The functions

# %%
#| into: csrc/generator.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten import cpu_generator_impl
from readtorch.aten.cpu_generator_impl import CPUGeneratorImpl
from readtorch.c10.core.device import device as Device
from readtorch.c10.core.tensor_impl import wrap


# %%
#| into: csrc/generator.py
#| upstream: torch/csrc/Generator.cpp#THPGenerator_pynew
class Generator:
    """A source of random numbers with a state of its own. Pass it as `generator=`."""

    __slots__ = ("_engine", "device")

    def __init__(self, device: Any = "cpu") -> None:
        self.device = Device(device)
        if self.device.type not in ENGINES:
            kind = self.device.type.upper()
            raise RuntimeError(f"Cannot get {kind} generator without a backend for {kind}, and there is none here.")
        self._engine = ENGINES[self.device.type](self.device)

    def manual_seed(self, seed: int) -> Generator:
        """Start over from `seed`; returns the generator."""
        self._engine.manual_seed(checked_seed(seed))
        return self

    def seed(self) -> int:
        """Start over from a seed of the operating system's, and return it."""
        return self._engine.seed()

    def initial_seed(self) -> int:
        """The seed it last started from."""
        return self._engine.initial_seed

    def get_state(self) -> Any:
        """The state as a tensor of bytes."""
        return wrap(self._engine.get_state())

    def set_state(self, new_state: Any) -> Generator:
        """Go back to a state from `get_state`."""
        if not hasattr(new_state, "_array"):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state._array.dtype.name != "uint8":
            raise TypeError("RNG state must be a torch.ByteTensor")
        self._engine.set_state(new_state._array)
        return self

    def clone_state(self) -> Generator:
        """A generator in the same state."""
        other = Generator(self.device)
        other.set_state(self.get_state())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        #: a CUDA generator has an offset in the second place
        return (Generator, (self.device,), (self.initial_seed(), None, self.get_state()))

    def __setstate__(self, state: tuple[int, int | None, Any]) -> None:
        self.set_state(state[2])


#: the engine of a device type; the CUDA backend adds its own
ENGINES: dict[str, Any] = {"cpu": lambda device: CPUGeneratorImpl()}


def checked_seed(seed: Any) -> int:
    """A seed as an unsigned number. RuntimeError for what is no whole number, ValueError out of the range of 64 bits."""
    if not hasattr(seed, "__index__"):
        raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
    seed = int(seed)
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError(f"Overflow when unpacking long long: seed {seed} does not fit 64 bits")
    return seed + (1 << 64) if seed < 0 else seed


#: told of every seed that is for the generators of all devices; the CUDA backend adds its own
SEEDED: list[Any] = []
last_seed: list[int] = []

default_generator = Generator.__new__(Generator)
default_generator.device = Device("cpu")
default_generator._engine = cpu_generator_impl.default


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
#| upstream: aten/src/ATen/native/TensorFactories.cpp#at::native::rand
def _column(numpy: Any, name: str) -> Any:
    """The raw kernel of an operator for the arrays of this library."""
    return getattr(dispatcher.cpu if numpy is np else dispatcher.cuda, name)


def _random(name: str) -> Any:
    def make(
        *size: Any, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        shape = sizes(size)
        if state.layers:
            options = {"dtype": dtype, "device": device, "requires_grad": requires_grad, "generator": generator}
            return drawn(lambda shape: make(*shape, **options) if shape else make((), **options), shape)
        return _new(
            lambda numpy, shape, kind: _column(numpy, name)(numpy.empty(shape, kind), generator=generator),
            shape,
            _kind(dtype),
            device,
            requires_grad,
        )

    return make


rand = _random("uniform_")
randn = _random("normal_")


def randint(
    *args: Any, low: int | None = None, high: int | None = None, size: Any = None, generator: Any = None, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Integers from [low, high), or [0, high): `randint(high, size)`, `randint(low, high, size)`."""
    rest = list(args)
    if len(rest) > 3:
        raise TypeError(f"randint() takes from 2 to 3 positional arguments but {len(rest)} were given")
    if size is None and rest:
        size = rest.pop()
    if rest and high is None:
        high = rest.pop()
    if rest and low is None:
        low = rest.pop()
        require("randint", "int", low=low)
    low = 0 if low is None else low
    require("randint", "int", low=low, high=high)
    if not isinstance(size, list | tuple | TensorImpl):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    bounds: list[Any] = [low, high]
    low, high = (bound.__index__() for bound in bounds)
    if high >= 1 << 63 or low < -(1 << 63):
        raise ValueError("randint(): Overflow when unpacking long long")
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to': [{low}, {high}) is empty")
    if state.layers:
        options = {"generator": generator, "dtype": dtype, "device": device, "requires_grad": requires_grad}
        return drawn(lambda shape: randint(low, high, shape, **options), sizes((size,)))
    kind = np.dtype(np.int64) if dtype is None else to_numpy_dtype(dtype)
    return _new(
        lambda numpy, shape, kind: _column(numpy, "random_")(numpy.empty(shape, kind), low, high, generator=generator),
        sizes((size,)),
        kind,
        device,
        requires_grad,
    )


def randperm(
    n: int, *, generator: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The numbers below `n` in random order."""
    require("randperm", "int", n=n)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if state.layers:

        def permutations(shape: tuple[int, ...]) -> Any:
            if len(shape) > 1:
                return dispatcher.autograd.stack([permutations(shape[1:]) for _ in range(shape[0])], 0)
            return randperm(n, generator=generator, dtype=dtype, device=device, requires_grad=requires_grad)

        return drawn(permutations, (n,))
    kind = np.dtype(np.int64) if dtype is None else to_numpy_dtype(dtype)

    def make(numpy: Any, shape: tuple[int, ...], kind: np.dtype) -> Any:
        from readtorch.aten.native.distributions import above_all

        if kind.kind in "bc":
            raise not_implemented("randperm", kind)
        if kind.itemsize == 2 and kind.kind in "fV" and n > above_all(kind):
            raise RuntimeError(f"n cannot be greater than {above_all(kind)} for {to_string(kind)} type.")
        if kind.kind in "iu":
            fitting(n, kind)
        order = _column(numpy, "_randperm")(n, generator=generator)
        return order if order.dtype == kind else order.astype(kind)

    return _new(make, (n,), kind, device, requires_grad)


def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """Normal numbers with the means and deviations of tensors, or of two numbers and a size."""
    if size is not None:
        mean, std = (v.item() if isinstance(v, TensorImpl) and not v._array.ndim else v for v in (mean, std))
    for name, value in (("mean", mean), ("std", std)):
        if not is_float(value) and (size is not None or not isinstance(value, TensorImpl)):
            raise TypeError(f"normal(): argument '{name}' must be float, not {type(value).__name__}")
    if size is None and (dtype is not None or layout is not None or device is not None):
        raise TypeError("normal() takes dtype, layout and device together with a size alone")
    if isinstance(std, TensorImpl) and std._array.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    if isinstance(std, TensorImpl):
        if (
            std._array.size
            and not without_values(std)
            and not is_one_of_many(std)
            and not (on_host(std._array) >= 0).all()
        ):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if size is not None:
        return randn(together(size), generator=generator, dtype=dtype, device=device) * std + mean
    shape = shapes("normal", [value._array for value in (mean, std) if isinstance(value, TensorImpl)])
    if not any(isinstance(value, TensorImpl) for value in (mean, std)):
        raise TypeError('normal() missing 1 required positional arguments: "size"')
    like = next(value for value in (mean, std) if isinstance(value, TensorImpl))
    kind = from_numpy_dtype(like._array.dtype)
    drawn = randn(shape, generator=generator, dtype=kind, device=device_of(like._array)) * std + mean
    return drawn if drawn._array.dtype == like._array.dtype else dispatcher.autograd._to_copy(drawn, kind)


def _bound(value: Any) -> Any:
    """A bound of `randint_like`: an int, or what a tensor of no dimensions holds of one."""
    if not isinstance(value, TensorImpl):
        return value
    if value._array.ndim:
        raise RuntimeError("high must be a scalar tensor and on CPU")
    return int(value.item())


def _random_like(function: Any) -> Any:
    def like(
        input: Array, *, generator: Any = None, dtype: dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        array = input._array
        strided = array.__class__ is np.ndarray and not array.flags.c_contiguous and 0 not in array.strides
        if strided and memory_format in (None, formats.preserve_format) and device in (None, "cpu"):
            result = finish(np.empty_like(array, array.dtype if dtype is None else to_numpy_dtype(dtype), order="K"))
            fill = dispatcher.autograd.normal_ if function is randn else dispatcher.autograd.uniform_
            return fill(result, generator=generator).requires_grad_(requires_grad)
        return _drawn_like(input, (), function, generator, dtype, device, requires_grad, memory_format)

    return like


def randint_like(
    input: Array, *args: Any, low: Any = UNSAID, high: Any = UNSAID, generator: Any = None, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Integers from [low, high), or [0, high), in the shape and dtype of `input`."""
    bounds = [*args, *(value for value in (low, high) if value is not None)]
    if not 1 <= len(bounds) <= 2 or (low is not None and len(bounds) == 1):
        raise TypeError('randint_like() missing 1 required positional arguments: "high"')
    bounds = [_bound(value) for value in bounds]
    for value in bounds:
        require("randint_like", "int", high=value)
    return _drawn_like(input, tuple(bounds), randint, generator, dtype, device, requires_grad, memory_format)


def _drawn_like(
    input: Any, bounds: tuple, function: Any, generator: Any, dtype: Any, device: Any, requires_grad: bool, memory_format: Any
) -> Any:  # fmt: skip
    array = input._array
    kind = from_numpy_dtype(array.dtype) if dtype is None else dtype
    where = device_of(array) if device is None else device
    if str(where) == "meta":
        return empty_like(input, dtype=kind, device=where, requires_grad=requires_grad)
    if memory_format in (formats.channels_last, formats.channels_last_3d):
        _empty_in(memory_format)(np, array.shape, np.dtype(np.bool_))  # says if there are not as many dimensions
    return function(*bounds, array.shape, dtype=kind, device=where, requires_grad=requires_grad, generator=generator)


def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """Fill with 0 and 1; `p`, a number or a tensor, is the probability of 1."""
    name = "_bernoulli_tensor_" if isinstance(p, TensorImpl) else "_bernoulli_scalar_"
    return dispatcher.operators[name].call(self, p, generator=generator)


def init_random() -> None:
    """Offer the random functions."""
    namespace = module("")
    for name, function in {
        "rand": rand, "randn": randn, "randint": randint, "randperm": randperm, "normal": normal, "rand_like": _random_like(rand),
        "randn_like": _random_like(randn), "randint_like": randint_like,
    }.items():  # fmt: skip
        if hasattr(function, "__code__"):
            function.__name__ = name
        gates.attach(namespace, name, checked(function))
    gates.attach(TensorImpl, "bernoulli_", bernoulli_)
    gates.attach(TensorImpl, "bernoulli", dispatcher.autograd.bernoulli)
    _rename_from("uniform_")
    _rename_from("random_")


def _rename_from(name: str) -> None:
    """`from` is no name in Python: as a keyword it arrives here."""
    from readtorch.aten.native.distributions import above_all

    method = getattr(TensorImpl, name)

    def renamed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "from" in kwargs:
            kwargs["from_"] = kwargs.pop("from")
        given = (*args, *(kwargs[key] for key in ("from_", "to") if key in kwargs))
        if name == "random_" and len(given) == 2 and given[1] is None:
            return method(self, given[0], above_all(self._array.dtype), generator=kwargs.get("generator"))
        if name == "random_" and len(given) == 2 and given[0] is None:
            raise TypeError("random_(): argument 'from' (position 1) must be int, not NoneType")
        return method(self, *args, **kwargs)

    renamed.__name__ = name
    gates.attach(TensorImpl, name, renamed)


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
further.append(init_random)


# %%
#| into: csrc/module.py
#| upstream: torch/csrc/Generator.h#THPGenerator_init
#| upstream: torch/csrc/Generator.h#THPGenerator_initDefaultGenerator
@step(before="THPSize_init")
def THPGenerator_init(module: Any) -> None:
    """`torch.Generator`."""
    from readtorch.csrc.generator import Generator

    module.Generator = Generator


@step()
def THPGenerator_initDefaultGenerator(module: Any) -> None:
    """The generator that is meant where none is named."""
    from readtorch.csrc.generator import default_generator

    module.default_generator = default_generator


# %%
#| into: random.py
#| imports
from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from readtorch.csrc.generator import Generator as Generator
from readtorch.csrc.generator import SEEDED, last_seed
from readtorch.csrc.generator import default_generator as default_generator


# %%
#| into: random.py
#| upstream: torch/random.py#manual_seed
def manual_seed(seed: int) -> Generator:
    """Seed the generators of all devices; returns the CPU's."""
    default_generator.manual_seed(int(seed))
    last_seed[:] = [default_generator.initial_seed()]
    for told in SEEDED:
        told(last_seed[0])
    return default_generator


def seed() -> int:
    """Seed them from the operating system; returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the CPU's generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the CPU's generator, a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Set it."""
    default_generator.set_state(new_state)


_warned = False


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: Any = None,
) -> Iterator[None]:
    """Put the states of the CPU's generator and of the devices' back at the end; `devices` None: of all devices there are."""
    if not enabled or device_type == "meta":
        yield
        return
    cuda: Any = None if device_type == "cpu" or devices == [] else _devices_module()
    if devices is None and cuda is not None:
        global _warned
        count = cuda.device_count()
        if count > 1 and not _warned:
            _warned = True
            warnings.warn(
                f"{_caller} copies the states of all {count} devices; name those in use by {_devices_kw}=[...]",
                stacklevel=4,
            )
        devices = range(count)
    numbers = [] if cuda is None or devices is None else list(devices)
    state, device_states = get_rng_state(), [cuda.get_rng_state(number) for number in numbers]
    try:
        yield
    finally:
        set_rng_state(state)
        for number, device_state in zip(numbers, device_states, strict=True):
            cuda.set_rng_state(device_state, number)


def _devices_module() -> Any:
    import readtorch

    return getattr(readtorch, "cuda", None)


# %%
#| into: __init__.py
_MODULES.append("random")
_NAMES.update(dict.fromkeys(("get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"), "random"))

# %% [markdown]
# ## Evidence


# %%
#| claim: seeded alike, both libraries draw the same numbers
def _(torch):
    torch.manual_seed(0)
    assert torch.rand(3).tolist() == [0.49625658988952637, 0.7682217955589294, 0.08847743272781372]
    assert torch.randperm(5).tolist() == [0, 4, 2, 1, 3]
    assert torch.randint(0, 10, (5,)).tolist() == [3, 7, 3, 1, 6]


# %%
#| claim: a state can be carried to another generator, in the middle of a pair of normal numbers
def _(torch):
    first = torch.Generator().manual_seed(3)
    torch.randn(3, generator=first)
    second = torch.Generator()
    second.set_state(first.get_state())
    assert torch.randn(3, generator=first).tolist() == torch.randn(3, generator=second).tolist()


# %% [markdown]
# ### Is one call of eight the same as two of four?
# For `rand` it is: each number is one draw. `randn` has two ways, and the number of elements chooses. Below 16 the pairs are drawn one by one and the second of a pair is kept, so that calls may be cut as one likes. From 16 on blocks are filled at once: `randn(16)` and two times `randn(8)` are different numbers,
# and the generator stands elsewhere afterwards. A test that draws its data in smaller pieces than the code it checks compares nothing.


# %%
#| claim: rand may be cut into several calls; randn may below 16 numbers and not from there on
#| upstream: aten/src/ATen/native/cpu/DistributionTemplates.h#at::native::templates::cpu::normal_fill
def _(torch):
    def same_in_halves(draw, count):
        torch.manual_seed(0)
        whole = draw(count)
        torch.manual_seed(0)
        return torch.equal(whole, torch.cat([draw(count // 2), draw(count // 2)]))

    assert same_in_halves(torch.rand, 8) and same_in_halves(torch.rand, 32)
    assert same_in_halves(torch.randn, 8) and not same_in_halves(torch.randn, 16)
