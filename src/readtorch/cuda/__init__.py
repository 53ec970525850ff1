# Tangled from chapters/01_import/ — edit there, or here and run `readtorch sync`.
"""CUDA: devices, streams, memory (twin of `torch/cuda/__init__.py`). Nothing is touched before it is needed."""

import warnings as _warnings
from collections.abc import Callable as _Callable
from typing import Any as _Any

from readtorch.c10.cuda import cuda_functions as _functions
from readtorch.csrc.exceptions import AcceleratorError as AcceleratorError
from readtorch.csrc.exceptions import OutOfMemoryError as OutOfMemoryError
from readtorch.cuda import amp as amp
from readtorch.cuda._utils import _get_device_index

_queued_calls: list[_Callable[[], None]] = []


def _backend() -> _Any:
    from readtorch.csrc.cuda import module

    return module


def is_available() -> bool:
    """Can tensors be put on a CUDA device?"""
    return device_count() > 0


def device_count() -> int:
    """How many devices there are."""
    return _functions.device_count()


def is_initialized() -> bool:
    """Has CUDA been used by this process?"""
    return _functions._Loaded.library is not None and _backend().is_initialised()


def __getattr__(name: str) -> _Any:
    if name == "_initialized":  # upstream's variable, which code from before `is_initialized` reads
        return is_initialized()
    from readtorch._not_here import missing

    raise missing("torch.cuda", name)


def _is_in_bad_fork() -> bool:
    return _functions._Loaded.library is not None and _backend().is_in_bad_fork()


def _lazy_call(call: _Callable[[], None]) -> None:
    """Do it now if CUDA is in use, else when it is."""
    if is_initialized():
        call()
    else:
        _queued_calls.append(call)


def _lazy_init() -> None:
    """Prepare CUDA. AssertionError without it, RuntimeError in a forked child of a process that used it."""
    if is_initialized():
        return
    _functions.library()
    _backend().initialise()
    while _queued_calls:
        _queued_calls.pop(0)()


def init() -> None:
    """Initialise CUDA now. AssertionError without it."""
    _lazy_init()


def simulate(devices: int) -> _Any:
    """Use `devices` simulated GPUs from now on. Returns what keeps count of them: `copies`, `host_syncs`, `no_host_sync()`.

    They compute with NumPy and refuse what a GPU would only sometimes get wrong. Not upstream's: theirs need hardware.
    """
    library = _functions.simulate(devices)
    _backend().initialise()
    _lazy_init()
    return library


def current_device() -> int:
    """The number of the current device. AssertionError without CUDA."""
    _lazy_init()
    return _functions.current_device()


def set_device(device: _Any) -> None:
    """Make `device` the current one; a negative number changes nothing. AssertionError without CUDA."""
    number = _get_device_index(device) if not isinstance(device, int) else device
    if number >= 0:
        _lazy_init()
        _functions.set_device(number)


def synchronize(device: _Any = None) -> None:
    """Wait for all that a device has to do. AssertionError without CUDA."""
    _lazy_init()
    with _device(device):
        _functions.device_synchronize()


class device:
    """Make a device the current one inside. A negative number chooses none."""

    def __init__(self, device: _Any) -> None:
        self.idx = _get_device_index(device, optional=True) if not _has_none(device) else 0
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx < 0:
            return
        if not is_available():
            raise RuntimeError("PyTorch was compiled without CUDA support")
        _lazy_init()
        self.prev_idx = _functions.current_device()
        _functions.set_device(self.idx)

    def __exit__(self, type: _Any, value: _Any, traceback: _Any) -> None:
        if self.prev_idx >= 0:
            _functions.set_device(self.prev_idx)


_device = device


def _has_none(device: _Any) -> bool:
    """A device without a number, before anything can be asked for the current one."""
    if isinstance(device, int):
        return False
    number = str(device).partition(":")[2]
    if str(device).partition(":")[0] not in ("cuda", "None"):
        return False
    return not number and not is_initialized() and not is_available()


class device_of(device):
    """Make the device of a tensor or storage the current one inside; one on the CPU changes nothing."""

    def __init__(self, obj: _Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class _CudaDeviceProperties:
    """What a device is."""

    def __init__(self, values: dict[str, _Any], capability: tuple[int, int]) -> None:
        name = values["name"]
        self.name = name.decode() if isinstance(name, bytes) else str(name)
        self.major, self.minor = capability
        self.total_memory = int(values["totalGlobalMem"])
        self.multi_processor_count = int(values["multiProcessorCount"])
        self.warp_size = int(values["warpSize"])
        self.max_threads_per_multi_processor = int(values["maxThreadsPerMultiProcessor"])
        self.regs_per_multiprocessor = int(values["regsPerMultiprocessor"])
        self.shared_memory_per_block = int(values["sharedMemPerBlock"])
        self.L2_cache_size = int(values["l2CacheSize"])
        self.is_multi_gpu_board = int(values.get("isMultiGpuBoard", 0))
        self.is_integrated = int(values.get("integrated", 0))

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count})"
        )


def get_device_properties(device: _Any = None) -> _CudaDeviceProperties:
    """Name, capability, memory and size of a device. AssertionError without CUDA."""
    _lazy_init()
    number = _get_device_index(device, optional=True)
    if not 0 <= number < device_count():
        raise AssertionError("Invalid device id")
    values = _functions.library().cuda.runtime.getDeviceProperties(number)
    return _CudaDeviceProperties(values, (int(values["major"]), int(values["minor"])))


def get_device_name(device: _Any = None) -> str:
    """The device's name; a simulated one says so. AssertionError without CUDA."""
    return get_device_properties(device).name


def get_device_capability(device: _Any = None) -> tuple[int, int]:
    """The device's compute capability. AssertionError without CUDA."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device: _Any, peer_device: _Any) -> bool:
    """Can one device read the other's memory? AssertionError without CUDA."""
    _lazy_init()
    one, other = (_get_device_index(each, optional=True) for each in (device, peer_device))
    for number in (one, other):
        if not 0 <= number < device_count():
            raise AssertionError("Invalid device id")
    return bool(_functions.library().cuda.runtime.deviceCanAccessPeer(one, other))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Can the devices compute in bfloat16?"""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def is_tf32_supported() -> bool:
    """Can the device multiply in TensorFloat-32?"""
    return is_available() and get_device_capability()[0] >= 8


def get_arch_list() -> list[str]:
    """The architectures that kernels were built for: none, they are compiled when first used."""
    return []


def ipc_collect() -> None:
    """Free memory that other processes let go of; none is shared here. AssertionError without CUDA."""
    _lazy_init()


_SYNC_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What happens when the host has to wait for a device: 0 or default, nothing; 1 or warn; 2 or error."""
    _lazy_init()
    mode = _SYNC_MODES.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`"
            if isinstance(debug_mode, str)
            else "invalid value of debug_mode, expected 0, 1 or 2"
        )
    _functions.warning_state.sync_debug_mode = mode


def get_sync_debug_mode() -> int:
    """0, 1 or 2."""
    _lazy_init()
    return _functions.warning_state.sync_debug_mode


from readtorch.cuda.streams import Event as Event
from readtorch.cuda.streams import Stream as Stream


class StreamContext:
    """Put work into `stream` inside, on its device; None changes nothing."""

    def __init__(self, stream: _Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        _lazy_init()
        self._device = device(self.stream._number)
        self._device.__enter__()
        self._before = current_stream(self.stream._number)
        set_stream(self.stream)

    def __exit__(self, type: _Any, value: _Any, traceback: _Any) -> None:
        if self.stream is not None:
            set_stream(self._before)
            self._device.__exit__(type, value, traceback)


def stream(stream: _Any) -> StreamContext:
    """A context that puts work into `stream`; None changes nothing."""
    return StreamContext(stream)


def set_stream(stream: _Any) -> None:
    """Put work into `stream` from now on; None changes nothing. AssertionError for a stream without CUDA."""
    if stream is not None:
        from readtorch.c10.cuda.cuda_stream import set_current_stream

        _lazy_init()
        _functions.set_device(stream._number)
        set_current_stream(stream._queue, stream._number)


def current_stream(device: _Any = None) -> Stream:
    """The current stream of a device. AssertionError without CUDA."""
    from readtorch.c10.cuda.cuda_stream import get_current_stream

    _lazy_init()
    number = _get_device_index(device, optional=True)
    return Stream(_queue=get_current_stream(number), _number=number)


def default_stream(device: _Any = None) -> Stream:
    """The device's first stream. AssertionError without CUDA."""
    from readtorch.c10.cuda.cuda_stream import get_default_stream

    _lazy_init()
    number = _get_device_index(device, optional=True)
    return Stream(_queue=get_default_stream(number), _number=number)


from readtorch.cuda import memory as memory
from readtorch.cuda.memory import empty_cache as empty_cache
from readtorch.cuda.memory import max_memory_allocated as max_memory_allocated
from readtorch.cuda.memory import max_memory_reserved as max_memory_reserved
from readtorch.cuda.memory import mem_get_info as mem_get_info
from readtorch.cuda.memory import memory_allocated as memory_allocated
from readtorch.cuda.memory import memory_reserved as memory_reserved
from readtorch.cuda.memory import memory_stats as memory_stats
from readtorch.cuda.memory import reset_max_memory_allocated as reset_max_memory_allocated
from readtorch.cuda.memory import reset_peak_memory_stats as reset_peak_memory_stats

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

from readtorch.cuda import graphs as graphs
from readtorch.cuda.graphs import CUDAGraph as CUDAGraph
from readtorch.cuda.graphs import graph as graph
from readtorch.cuda.graphs import graph_pool_handle as graph_pool_handle
from readtorch.cuda.graphs import is_current_stream_capturing as is_current_stream_capturing
from readtorch.cuda.graphs import make_graphed_callables as make_graphed_callables
