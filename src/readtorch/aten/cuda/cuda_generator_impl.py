# Tangled from chapters/01_import/d6_cuda_backend.py — edit there, or here and run `readtorch sync`.
"""The generator of a CUDA device (twin of `aten/src/ATen/cuda/CUDAGeneratorImpl.h`)."""

from __future__ import annotations

import math
import secrets
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten import cpu_generator_impl
from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.philox_rng_engine import philox
from readtorch.aten.cpu_generator_impl import DEFAULT_SEED
from readtorch.aten.cuda.instantiate import Maker, specialise
from readtorch.aten.native import distributions
from readtorch.c10.cuda.cuda_functions import current_device
from readtorch.c10.cuda.cuda_stream import get_current_stream

_STATE = struct.Struct("<QQ")
_MASK = (1 << 64) - 1


class CUDAGeneratorImpl:
    """The engine behind a `torch.Generator` of a CUDA device: a key, and the offset of its next call."""

    __slots__ = ("initial_seed", "offset")

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> None:
        """Start over from `seed`."""
        self.initial_seed = seed & _MASK
        self.offset = 0

    def seed(self) -> int:
        """Start over from a seed of the operating system's, and return it."""
        seed = secrets.randbits(64)
        self.manual_seed(seed)
        return seed

    def random(self, count: int) -> Any:
        """32-bit draws on the current device, as uint32. NotImplementedError in a captured graph: each replay would draw the same."""
        if get_current_stream().is_capturing():
            raise NotImplementedError("random numbers cannot be drawn while a graph is captured here")
        blocks = -(-count // 4)
        words = dispatcher.cuda.maker.run("philox", philox, self.initial_seed, self.offset, blocks)
        self.offset += 1
        return words.reshape(-1)[:count]

    def random64(self, count: int) -> Any:
        """64-bit draws."""
        return self.random(2 * count).view(np.uint64)

    def get_state(self) -> np.ndarray:
        """16 bytes: the seed, and the offset, which counts words as upstream's does."""
        return np.frombuffer(_STATE.pack(self.initial_seed, 4 * self.offset), np.uint8).copy()

    def set_state(self, state: np.ndarray) -> None:
        """Go back to a state that `get_state` returned. RuntimeError on any other size."""
        if state.dtype != np.uint8 or state.size != 16:
            raise RuntimeError("RNG state is wrong size")
        self.initial_seed, offset = _STATE.unpack(state.tobytes())
        self.offset = offset // 4


_default: dict[int, CUDAGeneratorImpl] = {}
_seed = DEFAULT_SEED


def default_generator(device: int) -> CUDAGeneratorImpl:
    """The device's own generator."""
    if device not in _default:
        _default[device] = CUDAGeneratorImpl(_seed)
    return _default[device]


def seed_all(seed: int) -> None:
    """Start the generators of all devices over, of those too that are not in use yet."""
    global _seed
    _seed = seed
    for generator in _default.values():
        generator.manual_seed(seed)


@specialise(cpu_generator_impl.engine)
def _engine(maker: Maker) -> Callable[..., Any]:
    def engine(generator: Any) -> CUDAGeneratorImpl:
        """The engine of a `torch.Generator` of this device; the device's own for None."""
        if generator is None:
            return default_generator(current_device())
        if not isinstance(generator._engine, CUDAGeneratorImpl):
            raise RuntimeError(f"Expected a 'cuda' device type for generator but found '{generator.device.type}'")
        return generator._engine

    return engine


@specialise(distributions.normal)
def _normal(maker: Maker) -> Callable[..., Any]:
    numpy = maker.numpy
    uniform01 = maker.function(distributions.uniform01)

    def normal(generator: CUDAGeneratorImpl, count: int, dtype: np.dtype, mean: float = 0, std: float = 1) -> Any:
        """Normal numbers: two from two uniform ones."""
        work = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
        pairs = uniform01(generator, 2 * -(-count // 2), work).reshape(2, -1)
        radius = numpy.sqrt(numpy.log(1 - pairs[0]) * work.type(-2))
        angle = pairs[1] * work.type(2 * math.pi)
        values = numpy.concatenate([radius * numpy.cos(angle), radius * numpy.sin(angle)])
        values = values[:count]
        if std != 1 or mean != 0:
            values = values * work.type(std) + work.type(mean)
        return values.astype(dtype)

    return normal


@specialise(distributions.uniform)
def _uniform(maker: Maker) -> Callable[..., Any]:
    uniform01 = maker.function(distributions.uniform01)

    def uniform(generator: CUDAGeneratorImpl, count: int, dtype: np.dtype, low: float, high: float) -> Any:
        """Numbers in [low, high), in the type itself: the CPU's are rounded as one fused operation would."""
        values = uniform01(generator, count, dtype)
        return values if (low, high) == (0, 1) else values * dtype.type(high - low) + dtype.type(low)

    return uniform


@specialise(distributions._one_normal)
def _one_normal(maker: Maker) -> Callable[..., Any]:
    normal = maker.function(distributions.normal)
    return lambda generator: float(normal(generator, 1, np.dtype(np.float64))[0])


@specialise(distributions.permutation)
def _permutation(maker: Maker) -> Callable[..., Any]:
    def permutation(generator: CUDAGeneratorImpl, count: int) -> Any:
        """The order that sorts as many random keys."""
        return maker.numpy.argsort(generator.random64(count)).astype(np.int64)

    return permutation
