# Tangled from chapters/01_import/d4_cuda_runtime.py — edit there, or here and run `readtorch sync`.
"""What is in use, and memory held for other streams (twin of `c10/cuda/CUDACachingAllocator.h`)."""

from __future__ import annotations

import weakref
from typing import Any

from readtorch.c10.core.storage_impl import owner_of
from readtorch.c10.cuda.cuda_functions import current_device, library
from readtorch.c10.cuda.cuda_guard import CUDAGuard

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
