# Tangled from chapters/01_import/d7_torch_cuda.py — edit there, or here and run `readtorch sync`.
"""The GPUs' random generators (twin of `torch/cuda/random.py`)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

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


def _generator(device: Any) -> Any:
    """The generator of a device's own. AssertionError without CUDA."""
    from readtorch import cuda
    from readtorch.cuda._utils import _get_device_index

    cuda._lazy_init()
    from readtorch.csrc.cuda.module import generator

    return generator(_get_device_index(device, optional=True))


def get_rng_state(device: Any = "cuda") -> Any:
    """The generator's state, a tensor of bytes on the CPU. AssertionError without CUDA."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[Any]:
    """The state of every device's generator."""
    from readtorch import cuda

    return [get_rng_state(number) for number in range(cuda.device_count())]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Put the generator into a state, now or when there is one."""
    from readtorch import cuda

    state = new_state.clone()
    cuda._lazy_call(lambda: _generator(device).set_state(state))


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Put every device's generator into its state."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator, now or when there is one."""
    from readtorch import cuda

    cuda._lazy_call(lambda: _seed("cuda", seed))


def _seed(device: Any, seed: int) -> None:
    _generator(device).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator."""
    from readtorch import cuda

    def all_of_them() -> None:
        for number in range(cuda.device_count()):
            _seed(number, seed)

    cuda._lazy_call(all_of_them)


def seed() -> None:
    """Seed the current device's generator from the operating system."""
    manual_seed(secrets.randbits(63))


def seed_all() -> None:
    """Seed every device's generator from the operating system, all with one seed."""
    manual_seed_all(secrets.randbits(63))


def initial_seed() -> int:
    """The seed of the current device's generator. AssertionError without CUDA."""
    return int(_generator("cuda").initial_seed())
