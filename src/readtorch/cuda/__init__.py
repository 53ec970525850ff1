# Tangled from chapters/01_import/ — edit there, or here and run `readtorch sync`.
"""CUDA, as a build without it shows it (twin of `torch/cuda/__init__.py`)."""

from typing import Any as _Any
from typing import NoReturn as _NoReturn

from readtorch.csrc.exceptions import AcceleratorError as AcceleratorError
from readtorch.csrc.exceptions import OutOfMemoryError as OutOfMemoryError
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


from readtorch.cuda import random as random
from readtorch.cuda.random import get_rng_state as get_rng_state
from readtorch.cuda.random import get_rng_state_all as get_rng_state_all
from readtorch.cuda.random import initial_seed as initial_seed
from readtorch.cuda.random import manual_seed as manual_seed
from readtorch.cuda.random import manual_seed_all as manual_seed_all
from readtorch.cuda.random import seed as seed
from readtorch.cuda.random import seed_all as seed_all
from readtorch.cuda.random import set_rng_state as set_rng_state
from readtorch.cuda.random import set_rng_state_all as set_rng_state_all


class device:
    """Make a device the current one inside. A negative index chooses none; else RuntimeError on entry, without CUDA."""

    def __init__(self, device: _Any) -> None:
        if isinstance(device, str) or hasattr(device, "type"):
            kind, _, index = str(device).partition(":")
            if kind != "cuda":
                raise ValueError(f"Expected a cuda device, but got: {device}")
            device = int(index or 0)
        self.idx = device
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            raise RuntimeError("PyTorch was compiled without CUDA support")

    def __exit__(self, type: _Any, value: _Any, traceback: _Any) -> None:
        return None


class device_of(device):
    """Make the device of a tensor or storage the current one inside; one on the CPU changes nothing."""

    def __init__(self, obj: _Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class StreamContext:
    """Put kernels into `stream` inside. Without CUDA there is no stream but None, which changes nothing."""

    def __init__(self, stream: _Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _lazy_init()

    def __exit__(self, type: _Any, value: _Any, traceback: _Any) -> None:
        return None


def stream(stream: _Any) -> StreamContext:
    """A context that puts kernels into `stream`; None changes nothing."""
    return StreamContext(stream)


def set_stream(stream: _Any) -> None:
    """Put kernels into `stream` from now on; None changes nothing. AssertionError for a stream without CUDA."""
    if stream is not None:
        _lazy_init()


def default_stream(device: _Any = None) -> _NoReturn:
    """The device's first stream. AssertionError without CUDA."""
    _lazy_init()


def can_device_access_peer(device: _Any, peer_device: _Any) -> _NoReturn:
    """Can one device read the other's memory? AssertionError without CUDA."""
    _lazy_init()


def ipc_collect() -> _NoReturn:
    """Free memory that other processes let go of. AssertionError without CUDA."""
    _lazy_init()


def is_tf32_supported() -> bool:
    """Can the device multiply in TensorFloat-32?"""
    return False
