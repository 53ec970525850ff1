# Tangled from chapters/a1_operators/, chapters/05_data/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings
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


def thread_safe_generator() -> Generator | None:
    """The generator of the worker thread this runs in; None in the main process and in worker processes."""
    from readtorch.utils.data import get_worker_info

    worker = get_worker_info()
    if worker is not None and worker.worker_method == "thread" and worker.rng is not None:
        return worker.rng.torch_generator
    return None
