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
# # CUDA, the day it is first used
#
# `import torch` does not touch a GPU. The driver would take memory on it (a context costs some hundred megabytes), and a process that has used CUDA cannot be forked any more,
# which the workers of a DataLoader are. So everything waits for the first call that needs a device: `_lazy_init`.
#
# This part is the floor below: devices, streams, memory, spoken to through CuPy. Its module is loaded here, once; on the simulated device it is another module with the same face.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: c10/cuda/cuda_functions.py
"""Devices: how many, which is current, and the library that speaks to them (twin of `c10/cuda/CUDAFunctions.h`)."""

# %%
#| into: c10/cuda/cuda_functions.py
#| imports
from __future__ import annotations

import os
import warnings
from typing import Any

# %%
#| into: c10/cuda/cuda_functions.py
MISSING = "Torch not compiled with CUDA enabled"


class _Loaded:
    """The array library: CuPy, the simulated one, or None before the first use."""

    library: Any = None
    simulated = 0
    #: may numbers of devices be read without loading anything? Found once
    count: int | None = None
    why = ""


def simulate(devices: int) -> Any:
    """Use a simulated library with so many devices. RuntimeError if a real one is in use."""
    if _Loaded.library is not None and not _Loaded.simulated:
        raise RuntimeError("a real GPU is in use in this process; simulated devices cannot be added")
    if _Loaded.simulated == devices:
        return _Loaded.library
    from readtorch.c10.cuda.simulated.runtime import SimulatedCuPy

    fresh = SimulatedCuPy(devices)
    fresh.host.on_wait = warn_or_error_on_sync
    _Loaded.library, _Loaded.simulated, _Loaded.count = fresh, devices, devices
    return fresh


def is_simulated() -> bool:
    """Are the devices simulated?"""
    return bool(_Loaded.simulated)


def library() -> Any:
    """CuPy, or what stands for it. AssertionError, with the way out, if no device can be used."""
    if _Loaded.library is None:
        if device_count() == 0:
            raise AssertionError(f"{MISSING}: {_Loaded.why}")
        if _Loaded.library is None:
            import cupy

            _Loaded.library = cupy
    return _Loaded.library


# %%
#| into: c10/cuda/cuda_functions.py
#| upstream: c10/cuda/CUDAFunctions.h#c10::cuda::device_count
def require(what: str) -> None:
    """RuntimeError, with the way out, if no device can be used: `what` is of no use then."""
    if device_count() == 0:
        raise RuntimeError(f"{what} requires CUDA support: {_Loaded.why}")


def device_count() -> int:
    """How many devices there are; 0 if CUDA cannot be used. Never raises, and makes no context."""
    if _Loaded.count is None:
        _Loaded.count = _count()
    return _Loaded.count


def _count() -> int:
    wanted = os.environ.get("READTORCH_SIM_CUDA")
    if wanted and wanted != "0":
        simulate(int(wanted))
        return int(wanted)
    try:
        import cupy
    except ImportError:
        _Loaded.why = "CuPy is not installed; pip install 'readtorch[cuda13]' (or cuda12), or READTORCH_SIM_CUDA=1"
        return 0
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        _Loaded.why = f"CuPy finds no device ({error}); READTORCH_SIM_CUDA=1 simulates one"
        return 0


# %%
#| into: c10/cuda/cuda_functions.py
#| upstream: c10/cuda/CUDAFunctions.h#c10::cuda::current_device
def current_device() -> int:
    """This thread's current device."""
    return int(_Loaded.library.cuda.runtime.getDevice())


def set_device(number: int) -> None:
    """Make a device this thread's current one. RuntimeError if there is none of that number."""
    if not 0 <= number < device_count():
        raise RuntimeError("CUDA error: invalid device ordinal")
    _Loaded.library.cuda.runtime.setDevice(number)


def device_synchronize() -> None:
    """Let the host wait for all streams of the current device."""
    _Loaded.library.cuda.runtime.deviceSynchronize()


# %%
#| into: c10/cuda/cuda_functions.py
#| upstream: c10/cuda/CUDAFunctions.h#c10::cuda::WarningState
class WarningState:
    """What to do when the host has to wait: 0 nothing, 1 warn, 2 raise."""

    sync_debug_mode = 0
    #: how often the host had to
    waits = 0


warning_state = WarningState()


def warn_or_error_on_sync(what: str = "") -> None:
    """The host is about to wait for the device."""
    warning_state.waits += 1
    if what.startswith(("synchronize", "device", "Event")):  # asked for
        return
    if warning_state.sync_debug_mode == 2:
        raise RuntimeError(f"called a synchronizing CUDA operation ({what})")
    if warning_state.sync_debug_mode == 1:
        warnings.warn(f"called a synchronizing CUDA operation ({what})", stacklevel=2)


def stream_synchronize(stream: Any, what: str) -> None:
    """Let the host wait for a stream, because of `what`."""
    if _Loaded.simulated:
        stream.synchronize(what)
    else:
        warn_or_error_on_sync(what)
        stream.synchronize()


def host_waits(what: str) -> None:
    """Note that the host waits for a real device; a simulated one notes it itself."""
    if not _Loaded.simulated:
        warn_or_error_on_sync(what)


# %%
from readtorch.c10.cuda import cuda_functions

cuda_functions.device_count()

# %% [markdown]
# ## The current device, for the length of an operation
#
# A CUDA kernel runs on the *current* device, whatever its arguments' addresses are. Upstream therefore wraps the code of every operator in a guard that makes the tensors' device the current one and restores it afterwards.

# %%
#| into: c10/cuda/cuda_guard.py
"""Contexts in which a device is the current one (twin of `c10/cuda/CUDAGuard.h`)."""

# %%
#| into: c10/cuda/cuda_guard.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from readtorch.c10.core.device_guard import NOTHING
from readtorch.c10.cuda.cuda_functions import current_device, library, set_device


# %%
#| into: c10/cuda/cuda_guard.py
#| upstream: c10/cuda/CUDAGuard.h#c10::cuda::CUDAGuard
class CUDAGuard:
    """Device `number` is the current one inside."""

    __slots__ = ("_before", "number")

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> CUDAGuard:
        self._before = current_device()
        if self._before != self.number:
            set_device(self.number)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before != self.number:
            set_device(self._before)


def guard_of(array: Any) -> AbstractContextManager[Any]:
    """The context in which an array's device is the current one; nothing to do if it is."""
    number = array.data.device_id
    return NOTHING if number == current_device() else CUDAGuard(number)


def guarded(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel`, run on the device of the first array among its arguments."""
    kind = library().ndarray

    def run(*args: Any, **kwargs: Any) -> Any:
        for arg in args:
            if arg.__class__ is list and arg:
                arg = arg[0]
            if arg.__class__ is kind:
                number = arg.data.device_id
                if number != current_device():
                    with CUDAGuard(number):
                        return kernel(*args, **kwargs)
                break
        return kernel(*args, **kwargs)

    run.__wrapped__ = kernel  # type: ignore[attr-defined]  # what inspect looks for
    return run


# %% [markdown]
# ## Streams
#
# `torch.cuda.Stream()` makes no stream: it takes one of 32 that exist per device and priority, in turn. The 33rd is the first again, so two that a program
# believes independent may be one queue. They do not wait for the default stream, nor it for them.

# %%
#| into: c10/cuda/cuda_stream.py
"""Streams (twin of `c10/cuda/CUDAStream.h`)."""

# %%
#| into: c10/cuda/cuda_stream.py
#| imports
from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from readtorch.c10.cuda.cuda_functions import library
from readtorch.c10.cuda.cuda_guard import CUDAGuard

# %%
#| into: c10/cuda/cuda_stream.py
#| upstream: c10/cuda/CUDAStream.h#c10::cuda::getStreamFromPool
STREAMS_PER_POOL = 32
_pools: dict[tuple[int, int], list[Any]] = {}
_turns: dict[tuple[int, int], Iterator[int]] = {}


def get_stream_from_pool(device: int, priority: int = 0) -> Any:
    """The next of the device's 32 streams of that priority."""
    key = device, min(priority, 0)
    with CUDAGuard(device):
        pool = _pools.setdefault(key, [])
        number = next(_turns.setdefault(key, itertools.count())) % STREAMS_PER_POOL
        if number == len(pool):
            pool.append(library().cuda.Stream(non_blocking=True, priority=key[1] or None))
    return pool[number]


def get_default_stream(device: int) -> Any:
    """The stream that a device has from the start."""
    with CUDAGuard(device):
        return library().cuda.Stream(null=True)


def get_current_stream(device: int | None = None) -> Any:
    """This thread's current stream of a device, by default of the current device."""
    return library().cuda.get_current_stream(-1 if device is None else device)


def set_current_stream(stream: Any, device: int) -> None:
    """Make a stream this thread's current one of its device."""
    with CUDAGuard(device):
        stream.use()


# %% [markdown]
# The backward of an operation goes into the stream that the operation was in; the user who put the forward of two branches into two streams gets the same of the backward, without saying so. Where the gradients of both
# meet, somebody has to wait. Here each node waits for what came before it and is waited for by what comes after: right, and without overlap between streams.


# %%
#| into: c10/cuda/cuda_stream.py
class BackwardGuard:
    """For a node of a backward pass: the device of its gradient, and the stream of its forward, inside."""

    __slots__ = ("_caller", "_guard", "_stream")

    def __init__(self, stream: Any, array: Any) -> None:
        self._guard = CUDAGuard(array.data.device_id)
        self._stream = stream

    def __enter__(self) -> None:
        self._guard.__enter__()
        self._caller = get_current_stream()
        stream = self._stream
        if stream is None or stream.ptr == self._caller.ptr or stream.device_id not in (-1, self._guard.number):
            self._stream = None
        else:
            stream.wait_event(self._caller.record())
            stream.use()

    def __exit__(self, *exc: object) -> None:
        if self._stream is not None:
            self._caller.wait_event(self._stream.record())
            self._caller.use()
        self._guard.__exit__(*exc)


# %% [markdown]
# ### What upstream does more
# Only a gradient that crosses from one stream to another makes the second one wait, for an event behind that gradient; the caller's stream waits for the streams of the leaves, once, at the end. Two branches overlap in backward as they did in forward.

# %%
#| fact: torch/csrc/autograd/input_buffer.h#torch::autograd::InputBuffer
#| fact: torch/csrc/autograd/engine.h#torch::autograd::Engine

# %% [markdown]
# ## Memory that outlives its tensor
#
# CuPy's allocator hands freed memory out again at once, and knows nothing of other streams; it has no `record_stream`. It can be had from outside: when the array that owns the memory dies, an
# event goes into each stream that was named, and the memory is held until all have come.

# %%
#| into: c10/cuda/cuda_caching_allocator.py
"""What is in use, and memory held for other streams (twin of `c10/cuda/CUDACachingAllocator.h`)."""

# %%
#| into: c10/cuda/cuda_caching_allocator.py
#| imports
from __future__ import annotations

import weakref
from typing import Any

from readtorch.c10.core.storage_impl import owner_of
from readtorch.c10.cuda.cuda_functions import current_device, library
from readtorch.c10.cuda.cuda_guard import CUDAGuard

# %%
#| into: c10/cuda/cuda_caching_allocator.py
#| upstream: c10/cuda/CUDACachingAllocator.h#c10::cuda::CUDACachingAllocator::recordStream
_held: list[tuple[Any, list[Any]]] = []
_unmarked: list[tuple[Any, list[tuple[Any, int]]]] = []


class _Key:
    """Stands for an owner in a table of weak references: arrays compare by element and cannot be keys."""

    __slots__ = ("__weakref__", "streams")

    def __init__(self) -> None:
        self.streams: list[tuple[Any, int]] = []


_keys: dict[int, _Key] = {}


def record_stream(array: Any, stream: Any, device: int) -> None:
    """Keep the memory behind `array`, when it is freed, until `stream` of `device` has done what it is to do by then."""
    release_held()
    owner = owner_of(array)
    key = _keys.get(id(owner))
    if key is None:
        key = _keys[id(owner)] = _Key()
        weakref.finalize(owner, _freed, id(owner), owner.data.mem).atexit = False
    if all((stream.ptr, device) != (known.ptr, number) for known, number in key.streams):
        key.streams.append((stream, device))


def _freed(number: int, memory: Any) -> None:
    streams = _keys.pop(number).streams
    if any(stream.is_capturing() for stream, _ in streams):
        _unmarked.append((memory, streams))  # an event would become part of the graph, and could not be asked for
    else:
        _hold(memory, streams)


def _hold(memory: Any, streams: list[tuple[Any, int]]) -> None:
    events = []
    for stream, device in streams:
        with CUDAGuard(device):
            events.append(stream.record())
    _held.append((memory, events))


def release_held() -> None:
    """Let go of memory whose streams are done with it."""
    for number in reversed(range(len(_unmarked))):
        if not any(stream.is_capturing() for stream, _ in _unmarked[number][1]):
            _hold(*_unmarked.pop(number))
    _held[:] = [(memory, events) for memory, events in _held if not all(map(_done, events))]


def _done(event: Any) -> bool:
    seen = getattr(event, "seen", None)  # a simulated event must not be asked: to ask is to know
    return event.done if seen is None else seen


# %%
#| into: c10/cuda/cuda_caching_allocator.py
class Statistics:
    """Bytes in use by device, and the most that were."""

    def __init__(self) -> None:
        self.current: dict[int, int] = {}
        self.peak: dict[int, int] = {}
        self.hook: Any = None

    def watch(self) -> None:
        """Follow the allocations of this thread."""
        statistics = self

        class Watcher(library().cuda.MemoryHook):  # type: ignore[misc]  # a base known at run time only
            """Adds up what is given out and taken back."""

            name = "readtorch statistics"

            def malloc_postprocess(self, **what: Any) -> None:
                device = what["device_id"]
                now = statistics.current[device] = statistics.current.get(device, 0) + what["mem_size"]
                if now > statistics.peak.get(device, 0):
                    statistics.peak[device] = now

            def free_postprocess(self, **what: Any) -> None:
                statistics.current[what["device_id"]] = statistics.current.get(what["device_id"], 0) - what["mem_size"]

        if self.hook is not None:
            self.hook.__exit__(None, None, None)
        self.hook = Watcher()
        self.hook.__enter__()


statistics = Statistics()


def allocated(device: int) -> int:
    """Bytes in use on a device."""
    release_held()
    with CUDAGuard(device):
        used = statistics.current[device] = int(library().get_default_memory_pool().used_bytes())
    statistics.peak[device] = max(statistics.peak.get(device, 0), used)
    return used


def reserved(device: int) -> int:
    """Bytes that the allocator holds on a device."""
    with CUDAGuard(device):
        return int(library().get_default_memory_pool().total_bytes())


def peak(device: int) -> int:
    """The most bytes that were in use since the last reset."""
    return max(allocated(device), statistics.peak.get(device, 0))


def reset_peak(device: int) -> None:
    """Begin a new measurement."""
    statistics.peak[device] = 0
    allocated(device)


def empty_cache() -> None:
    """Give what is not in use back to the devices."""
    release_held()
    pool = library().get_default_memory_pool()
    here = current_device()
    for device in range(library().cuda.runtime.getDeviceCount()):
        with CUDAGuard(device if device != here else here):
            pool.free_all_blocks()
