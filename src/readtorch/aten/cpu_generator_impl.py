# Tangled from chapters/a1_operators/8_random.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import secrets
import struct
from typing import Any

import numpy as np

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
