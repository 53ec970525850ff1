# Tangled from chapters/a1_operators/, chapters/05_data/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from readtorch.csrc.generator import SEEDED, last_seed
from readtorch.csrc.generator import Generator as Generator
from readtorch.csrc.generator import default_generator as default_generator


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


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: Any = None,
) -> Iterator[None]:
    """Put the generator's state back at the end."""
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def thread_safe_generator() -> Generator | None:
    """The generator of the worker thread this runs in; None in the main process and in worker processes."""
    from readtorch.utils.data import get_worker_info

    worker = get_worker_info()
    if worker is not None and worker.worker_method == "thread" and worker.rng is not None:
        return worker.rng.torch_generator
    return None
