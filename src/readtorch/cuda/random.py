# Tangled from chapters/01_import/8c_devices.py — edit there, or here and run `readtorch sync`.
"""The GPUs' random generators (twin of `torch/cuda/random.py`), as a build without CUDA shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _need_cuda() -> NoReturn:
    from readtorch import cuda

    cuda._lazy_init()


def get_rng_state(device: Any = "cuda") -> NoReturn:
    """The generator's state. AssertionError without CUDA."""
    _need_cuda()


def get_rng_state_all() -> list[Any]:
    """The state of every device's generator: none."""
    return []


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Put the generator into a state, when there will be one; nothing to do without CUDA."""


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Put every device's generator into its state."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator, when there will be one; nothing to do without CUDA."""


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator; nothing to do without CUDA."""


def seed() -> None:
    """Seed the current device's generator at random; nothing to do without CUDA."""


def seed_all() -> None:
    """Seed every device's generator at random; nothing to do without CUDA."""


def initial_seed() -> NoReturn:
    """The seed of the current device's generator. AssertionError without CUDA."""
    _need_cuda()
