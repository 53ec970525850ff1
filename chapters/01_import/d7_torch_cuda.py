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
# # `torch.cuda`
#
# What scripts see of it all. The module is there in every build, and answers without a GPU: how many devices (none), how much memory is in use (none); seeds are accepted and noted for later, because a script that calls
# `manual_seed_all` should run anywhere. Whatever would have to *look at* a device needs one, and says how to get it.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Lazily
#
# `_lazy_init` is called by everything that needs a device, and does its work once. What could not be done before, such as seeding a generator that does not exist, waits in a list of calls.
#
# A forked child inherits the parent's memory but not its CUDA context. Upstream notes the fork and raises in the child at the next use, with the way out: start processes by *spawn*. Otherwise the first call would fail inside the driver with a message about
# initialization.

# %%
#| into: cuda/_utils.py
"""Numbers of devices (twin of `torch/cuda/_utils.py`)."""

# %%
#| into: cuda/_utils.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.c10.core.device import device as Device
from readtorch.c10.cuda import cuda_functions


# %%
#| into: cuda/_utils.py
#| upstream: torch/cuda/_utils.py#_get_device_index
def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number that a device, a string or a number means; -1 for the CPU where that is allowed.

    None, or a device without a number, is the current one where `optional`. ValueError for what is no CUDA device.
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, str):
        device = Device(device)
    if isinstance(device, Device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        raise ValueError(f"Expected a torch.device with an index, or an integer, but got: {device}")
    if not optional:
        raise ValueError(f"Expected a torch.device with an index, or an integer, but got: {device}")
    return cuda_functions.current_device()


# %%
#| into: cuda/__init__.py
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


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#is_available
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


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#_lazy_init
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


# %%
#| into: cuda/__init__.py
def simulate(devices: int) -> _Any:
    """Use `devices` simulated GPUs from now on. Returns what keeps count of them: `copies`, `host_syncs`, `no_host_sync()`.

    They compute with NumPy and refuse what a GPU would only sometimes get wrong. Not upstream's: theirs need hardware.
    """
    library = _functions.simulate(devices)
    _backend().initialise()
    _lazy_init()
    return library


# %%
import subprocess
import sys

program = """
import readtorch as torch
print(torch.cuda.is_initialized(), "cupy" in __import__("sys").modules)
torch.cuda.simulate(2)
x = torch.ones(3, device="cuda:1")
print(x + x, torch.cuda.is_initialized(), torch.cuda.get_device_name())
import os
child = os.fork()
if child == 0:
    try:
        x + 1, torch.ones(1, device="cuda")
    except RuntimeError as error:
        print(error)
    os._exit(0)
os.waitpid(child, 0)
"""
print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout)

# %% [markdown]
# ## Devices


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#current_device
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


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#device
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


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#device_of
class device_of(device):
    """Make the device of a tensor or storage the current one inside; one on the CPU changes nothing."""

    def __init__(self, obj: _Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#get_device_properties
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


# %% [markdown]
# ## Host and device out of step
#
# A launch returns at once, so a Python program runs ahead of the GPU; that is how the GPU is kept busy. Every `item()`, every `print` of a tensor, every `if loss < best` makes the host wait for all that was launched, and the GPU then waits for the host. `set_sync_debug_mode` finds these places.

# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#set_sync_debug_mode
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


# %%
torch.cuda.simulate(2)
x = torch.rand(1000, device="cuda")
torch.cuda.set_sync_debug_mode("error")
mean = x.mean()
try:
    mean.item()
except RuntimeError as error:
    print(error)
torch.cuda.set_sync_debug_mode("default")

# %% [markdown]
# ## Streams and events

# %%
#| into: cuda/streams.py
"""Queues of work and marks in them (twin of `torch/cuda/streams.py`)."""

# %%
#| into: cuda/streams.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.c10.core.device import device as Device
from readtorch.c10.cuda import cuda_functions, cuda_stream
from readtorch.c10.cuda.cuda_guard import CUDAGuard
from readtorch.cuda._utils import _get_device_index


# %%
#| into: cuda/streams.py
def _need_cuda() -> None:
    from readtorch import cuda

    cuda._lazy_init()


# %%
#| into: cuda/streams.py
#| upstream: torch/cuda/streams.py#Stream
class Stream:
    """One of the device's 32 queues of that priority; work in different ones may overlap. `priority` -1 goes before 0."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        cuda_functions.require("torch.cuda.Stream")
        _need_cuda()
        queue = kwargs.get("_queue")
        number = _get_device_index(device, optional=True) if queue is None else kwargs["_number"]
        self._number = number
        self._queue = cuda_stream.get_stream_from_pool(number, priority) if queue is None else queue
        self.priority = min(priority, 0)

    @property
    def device(self) -> Device:
        """The device it belongs to."""
        return Device("cuda", self._number)

    @property
    def device_index(self) -> int:
        """The number of that device."""
        return self._number

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return int(self._queue.ptr)

    stream_id = cuda_stream

    def wait_event(self, event: Event) -> None:
        """Let later work wait for `event`; the host goes on."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let later work wait for all that is in `stream` now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Put a mark behind what is in the stream now."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Is nothing left to do?"""
        return bool(self._queue.done)

    def synchronize(self) -> None:
        """Let the host wait for it."""
        cuda_functions.stream_synchronize(self._queue, "synchronize")

    def __enter__(self) -> Stream:
        from readtorch import cuda

        self.__dict__.setdefault("_contexts", []).append(cuda.StreamContext(self))
        self._contexts[-1].__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._contexts.pop().__exit__(*exc)

    _contexts: list[Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self._number, self.cuda_stream) == (other._number, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self._number, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


# %%
#| into: cuda/streams.py
#| upstream: torch/cuda/streams.py#Event
class Event:
    """A mark in a stream, to wait for or to take the time at. It belongs to the device on which it is first recorded."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        cuda_functions.require("torch.cuda.Event")
        self._options = {"block": blocking, "disable_timing": not enable_timing, "interprocess": interprocess}
        self._mark: Any = None

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark behind what is in `stream`, by default the current one, now."""
        _need_cuda()
        queue = cuda_stream.get_current_stream() if stream is None else stream._queue
        number = cuda_functions.current_device() if stream is None else stream._number
        with CUDAGuard(number):
            if self._mark is None:
                self._mark = cuda_functions.library().cuda.Event(**self._options)
            self._mark.record(queue)

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work of `stream`, by default the current one, wait for the mark."""
        _need_cuda()
        if self._mark is not None:
            queue = cuda_stream.get_current_stream() if stream is None else stream._queue
            queue.wait_event(self._mark)

    def query(self) -> bool:
        """Has everything before the mark been done?"""
        return self._mark is None or bool(self._mark.done)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to another. RuntimeError unless both were made with `enable_timing` and recorded."""
        for event in (self, end_event):
            if event._options["disable_timing"]:
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if event._mark is None:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(cuda_functions.library().cuda.get_elapsed_time(self._mark, end_event._mark))

    def synchronize(self) -> None:
        """Let the host wait for the mark."""
        if self._mark is not None:
            self._mark.synchronize()

    @property
    def cuda_event(self) -> int:
        """The driver's handle; 0 before the first record."""
        return int(getattr(self._mark, "ptr", 0) or 0)

    def __repr__(self) -> str:
        return (
            f"<torch.cuda.Event {self.cuda_event:#x}>" if self._mark is not None else "<torch.cuda.Event uninitialized>"
        )


# %%
#| into: cuda/__init__.py
from readtorch.cuda.streams import Event as Event
from readtorch.cuda.streams import Stream as Stream


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#StreamContext
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


# %% [markdown]
# The three faults that streams make possible, as the simulated device reports them. A wait that is missing:

# %%
side = torch.cuda.Stream()
x = torch.rand(1000, device="cuda")
with torch.cuda.stream(side):
    try:
        y = x + 1
    except RuntimeError as error:
        print(error)
    side.wait_stream(torch.cuda.default_stream())
    y = x + 1

# %% [markdown]
# Memory freed too early. `x` was made on the default stream and is read by the side stream; when it dies, the default stream may be given its memory at once:

# %%
del x
try:
    z = torch.zeros(10, device="cuda")
except RuntimeError as error:
    print(error)

# %%
torch.cuda.synchronize()
x = torch.rand(1000, device="cuda")
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    y = x + 1
x.record_stream(side)
del x
z = torch.zeros(10, device="cuda")

# %% [markdown]
# And devices that are mixed up, which CuPy alone would allow:

# %%
try:
    torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## Memory

# %%
#| into: cuda/memory.py
"""What is in use of a device's memory (twin of `torch/cuda/memory.py`)."""

# %%
#| into: cuda/memory.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.c10.cuda import cuda_functions
from readtorch.c10.cuda.cuda_guard import CUDAGuard
from readtorch.cuda._utils import _get_device_index

# %%
#| into: cuda/memory.py
__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
]


def _allocator(device: Any) -> tuple[Any, int] | None:
    """The allocator and a device's number; None where CUDA is not in use."""
    from readtorch import cuda

    if not cuda.is_initialized():
        return None
    from readtorch.c10.cuda import cuda_caching_allocator

    return cuda_caching_allocator, _get_device_index(device, optional=True)


# %%
#| into: cuda/memory.py
#| upstream: torch/cuda/memory.py#memory_allocated
def memory_allocated(device: Any = None) -> int:
    """Bytes in use by tensors; 0 while CUDA is not in use."""
    found = _allocator(device)
    return 0 if found is None else found[0].allocated(found[1])


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were in use since the last `reset_peak_memory_stats`."""
    found = _allocator(device)
    return 0 if found is None else found[0].peak(found[1])


def memory_reserved(device: Any = None) -> int:
    """Bytes that the allocator holds, in use or not."""
    found = _allocator(device)
    return 0 if found is None else found[0].reserved(found[1])


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the allocator held; it gives none back before `empty_cache`."""
    return max(memory_reserved(device), max_memory_allocated(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin a new measurement of the most bytes in use."""
    found = _allocator(device)
    if found is not None:
        found[0].reset_peak(found[1])


reset_max_memory_allocated = reset_peak_memory_stats


def memory_stats(device: Any = None) -> dict[str, Any]:
    """The same figures under upstream's names; empty while CUDA is not in use."""
    if _allocator(device) is None:
        return {}
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
        "reserved_bytes.all.peak": max_memory_reserved(device),
    }


def empty_cache() -> None:
    """Give what is held and not in use back to the devices."""
    found = _allocator(0)
    if found is not None:
        found[0].empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device. AssertionError without CUDA."""
    from readtorch import cuda

    cuda._lazy_init()
    with CUDAGuard(_get_device_index(device, optional=True)):
        free, total = cuda_functions.library().cuda.runtime.memGetInfo()
    return int(free), int(total)


# %%
#| into: cuda/__init__.py
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

# %%
torch.cuda.reset_peak_memory_stats()
before = torch.cuda.memory_allocated()
x = torch.zeros(1024, 1024, device="cuda")
y = (x + 1) * 2
torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before

# %% [markdown]
# Two tensors of 4 MB are alive at the end; while the product was made there were three.

# %% [markdown]
# ## Random numbers

# %%
#| into: cuda/random.py
"""The GPUs' random generators (twin of `torch/cuda/random.py`)."""

# %%
#| into: cuda/random.py
#| imports
from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

# %%
#| into: cuda/random.py
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


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#get_rng_state
def get_rng_state(device: Any = "cuda") -> Any:
    """The generator's state, a tensor of bytes on the CPU. AssertionError without CUDA."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[Any]:
    """The state of every device's generator."""
    from readtorch import cuda

    return [get_rng_state(number) for number in range(cuda.device_count())]


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#set_rng_state
def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Put the generator into a state, now or when there is one."""
    from readtorch import cuda

    state = new_state.clone()
    cuda._lazy_call(lambda: _generator(device).set_state(state))


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Put every device's generator into its state."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#manual_seed
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


# %%
#| into: cuda/__init__.py
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

# %%
torch.manual_seed(7)
a = torch.rand(3, device="cuda:0")
torch.manual_seed(7)
b, c = torch.rand(3, device="cuda:1"), torch.rand(3)
a, b, c

# %% [markdown]
# One seed, the same numbers on every GPU, and others on the CPU: as upstream.

# %% [markdown]
# ## Found by the tensor's methods
#
# Last, what tensors themselves offer: the way to `cuda`, pinned memory, `record_stream`. The method that starts it all is a line in a table.


# %%
#| into: __init__.py
def _initialise_cuda() -> None:
    from readtorch import cuda

    cuda._lazy_init()


from readtorch.csrc.utils.device_lazy_init import INITIALISERS as _INITIALISERS

_INITIALISERS["cuda"] = _initialise_cuda


def _find_cuda() -> None:
    from readtorch.c10.core.device import ACCELERATORS
    from readtorch.c10.cuda.cuda_functions import device_count

    if device_count():
        ACCELERATORS.append("cuda")


from readtorch.c10.core.device import FINDERS as _FINDERS

_FINDERS.append(_find_cuda)


# %%
#| into: _tensor.py
class Tensor(Tensor):
    def pin_memory(self, device: Any = None) -> Any:
        """This tensor in page-locked memory. RuntimeError where there is no device that could read it."""
        from readtorch.csrc.cuda import module

        return module.pin_memory(self, device)

    def is_pinned(self, device: Any = None) -> bool:
        """Is this tensor in page-locked memory?"""
        from readtorch.csrc.cuda import module

        return module.is_pinned(self, device)

    def record_stream(self, stream: Any) -> None:
        """Do not reuse this tensor's memory, once it is freed, before `stream` has done what it is to do by then."""
        from readtorch.csrc.cuda import module

        module.record_stream(self, stream)


# %%
#| claim: without CUDA, seeding works, choosing nothing works, and looking at a device raises
def _(torch):
    if torch.cuda.is_available():
        return
    torch.cuda.manual_seed_all(3)
    torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    with torch.cuda.stream(None), torch.cuda.device(-1), torch.accelerator.device_index(None):
        pass
    try:
        torch.cuda.initial_seed()
    except AssertionError as error:
        assert "Torch not compiled with CUDA enabled" in str(error)
    else:
        raise ValueError("there is a GPU here")


# %% [markdown]
# ### What upstream does more
# * A deferred call remembers where it was made, so that an error in it names that line.
# * `torch.cuda.memory` can record every allocation with its stack (`_record_memory_history`) and draw it.
# * NVML answers questions about temperature, power and load; `cudart()` and `nccl` hand out the libraries below.

# %%
#| fact: torch/cuda/__init__.py#DeferredCudaCallError
#| fact: torch/cuda/memory.py#_record_memory_history
