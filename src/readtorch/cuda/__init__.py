# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""CUDA, as a build without it shows it (twin of `torch/cuda/__init__.py`)."""

from typing import Any as _Any
from typing import NoReturn as _NoReturn

from readtorch.cuda import amp as amp

_MISSING = "Torch not compiled with CUDA enabled"


def is_available() -> bool:
    """Can tensors be put on a CUDA device?"""
    return False


def device_count() -> int:
    """How many devices there are."""
    return 0


def is_initialized() -> bool:
    """Has CUDA been used by this process?"""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Can the device compute in bfloat16?"""
    return False


def _lazy_init() -> _NoReturn:
    raise AssertionError(_MISSING)


def init() -> _NoReturn:
    """Initialise CUDA now. AssertionError without it."""
    _lazy_init()


def current_device() -> _NoReturn:
    """The number of the current device. AssertionError without CUDA."""
    _lazy_init()


def set_device(device: _Any) -> _NoReturn:
    """Make `device` the current one. AssertionError without CUDA."""
    _lazy_init()


def get_device_name(device: _Any = None) -> _NoReturn:
    """The device's name. AssertionError without CUDA."""
    _lazy_init()


def get_device_capability(device: _Any = None) -> _NoReturn:
    """The device's compute capability. AssertionError without CUDA."""
    _lazy_init()


def get_device_properties(device: _Any = None) -> _NoReturn:
    """The device's properties. AssertionError without CUDA."""
    _lazy_init()


def synchronize(device: _Any = None) -> _NoReturn:
    """Wait for the device. AssertionError without CUDA."""
    _lazy_init()


def current_stream(device: _Any = None) -> _NoReturn:
    """The current stream. AssertionError without CUDA."""
    _lazy_init()


def mem_get_info(device: _Any = None) -> _NoReturn:
    """Free and total memory. AssertionError without CUDA."""
    _lazy_init()


def get_rng_state(device: _Any = "cuda") -> _NoReturn:
    """The generator's state. AssertionError without CUDA."""
    _lazy_init()


def get_rng_state_all() -> list:
    """The state of every device's generator: none."""
    return []


def manual_seed(seed: int) -> None:
    """Seed the current device's generator, when there will be one; nothing to do without CUDA."""


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator; nothing to do without CUDA."""


def seed() -> None:
    """Seed the current device's generator at random; nothing to do without CUDA."""


def seed_all() -> None:
    """Seed every device's generator at random; nothing to do without CUDA."""


def empty_cache() -> None:
    """Give unused memory back; nothing to do without CUDA."""


def memory_allocated(device: _Any = None) -> int:
    """Bytes in use: none."""
    return 0


def max_memory_allocated(device: _Any = None) -> int:
    """The most bytes that were in use: none."""
    return 0


def memory_reserved(device: _Any = None) -> int:
    """Bytes held by the allocator: none."""
    return 0


def max_memory_reserved(device: _Any = None) -> int:
    """The most bytes that the allocator held: none."""
    return 0


def get_arch_list() -> list:
    """The architectures that kernels were built for: none."""
    return []
