# Tangled from chapters/01_import/d3_simulated_runtime.py — edit there, or here and run `readtorch sync`.
"""Devices of the simulated library, copies between them, and the module that stands for CuPy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from readtorch.c10.cuda.simulated import functions
from readtorch.c10.cuda.simulated.graph import Graph, begin_capture, end_capture, is_capturing
from readtorch.c10.cuda.simulated.launch import copies, launch
from readtorch.c10.cuda.simulated.memory import CAPACITY, pool
from readtorch.c10.cuda.simulated.ndarray import ndarray
from readtorch.c10.cuda.simulated.stream import (
    CUDARuntimeError,
    Event,
    Stream,
    current,
    current_stream,
    default_stream,
    elapsed_time,
    host,
)


class _State:
    """How many devices there are, and which process began to use them."""

    devices = 0
    process: int | None = None
    streams: list[Stream] = []  # noqa: RUF012  (shared on purpose)


class Device:
    """A device; as a context, the current one inside."""

    def __init__(self, device: Any = None) -> None:
        self.id = current.device if device is None else int(getattr(device, "id", device))
        self._outer: list[int] = []

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def use(self) -> Device:
        """Make it this thread's current device."""
        set_device(self.id)
        return self

    def __enter__(self) -> Device:
        self._outer.append(current.device)
        return self.use()

    def __exit__(self, *exc: object) -> None:
        set_device(self._outer.pop())

    def synchronize(self) -> None:
        """Let the host wait for everything on the device."""
        with self:
            device_synchronize()

    @property
    def compute_capability(self) -> str:
        """There is none."""
        return "00"

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        with self:
            return memory_info()


def device_count() -> int:
    """How many devices there are."""
    _check_process()
    return _State.devices


def set_device(number: int) -> None:
    """Make a device this thread's current one."""
    _check_process()
    if not 0 <= number < _State.devices:
        raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
    current.device = number


def _check_process() -> None:
    if _State.process != os.getpid():
        if _State.process is not None:
            raise CUDARuntimeError("cudaErrorInitializationError: initialization error (the process was forked)")
        _State.process = os.getpid()


def _make_stream(null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: Any = None) -> Stream:
    stream = Stream(null, non_blocking, ptds, priority)
    _State.streams.append(stream)
    return stream


def device_synchronize() -> None:
    """Let the host wait for every stream of the current device."""
    clock: dict[int, int] = {}
    for stream in [*_State.streams, default_stream(current.device)]:
        if stream.device_id == current.device:
            if stream.captured is not None:
                stream.captured.refuse("device synchronize")
            for number, time in stream.clock.items():
                clock[number] = max(clock.get(number, 0), time)
    host.wait(clock, "device synchronize")


def memory_info() -> tuple[int, int]:
    """Free and total bytes of the current device."""
    return CAPACITY - pool.total_bytes(), CAPACITY


def device_properties(number: int) -> dict[str, Any]:
    """What the runtime says of a device."""
    if not 0 <= number < _State.devices:
        raise CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
    return {
        "name": b"Simulated CUDA device (NumPy)", "major": 0, "minor": 0, "totalGlobalMem": CAPACITY, "multiProcessorCount": 1,
        "warpSize": 32, "maxThreadsPerMultiProcessor": 1024, "regsPerMultiprocessor": 65536, "l2CacheSize": 0,
        "sharedMemPerBlock": 48 << 10, "isMultiGpuBoard": 0, "integrated": 0, "pciBusID": number, "pciDeviceID": 0, "pciDomainID": 0,
    }  # fmt: skip


def copy_between_devices(dst: int, dst_device: int, src: int, src_device: int, size: int, stream: int) -> None:
    """Copy bytes from device to device, on a stream of the source's."""
    here = current.device  # default streams of several devices have one address
    known = (found for found in _State.streams if (found.ptr, found.device_id) == (stream, here))
    queue = next(known, default_stream(here))
    if queue.captured is not None:
        raise NotImplementedError("copies between devices in a captured graph are not simulated")
    target, source = pool.at(dst), pool.at(src)
    number = queue.tick()
    if (source.device_id, target.device_id) != (src_device, dst_device):
        raise ValueError("an address is not of the device it was said to be of")
    source.touch(queue, number, False, "copy between devices")
    target.device_id = queue.device_id  # the one operation that may touch memory of another device
    try:
        target.touch(queue, number, True, "copy between devices")
    finally:
        target.device_id = dst_device
    copies.add("PtoP", size)
    _bytes(target)[dst - target.ptr :][:size] = _bytes(source)[src - source.ptr :][:size]


def _bytes(block: Any) -> np.ndarray:
    return block.memory.reshape(-1, order="A").view(np.uint8)


for _method in (begin_capture, end_capture, is_capturing):
    setattr(Stream, _method.__name__, _method)


class MemoryHook:
    """Told of what the allocator does; subclasses say what to do about it."""

    def __enter__(self) -> MemoryHook:
        pool.hooks.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        pool.hooks.remove(self)

    def malloc_postprocess(self, **what: Any) -> None:
        """Memory was given out."""

    def free_postprocess(self, **what: Any) -> None:
        """Memory was taken back."""


def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray:
    """Page-locked memory of the host; here, memory like any other."""
    return np.empty(shape, dtype, order)  # type: ignore[call-overload]  # the stubs list each order apart


class SimulatedCuPy:
    """Stands for the module `cupy`: NumPy's functions on the device, and `cuda`."""

    def __init__(self, devices: int) -> None:
        if not 1 <= devices <= 8:
            raise ValueError(f"1 to 8 devices can be simulated, not {devices}")
        _State.devices = devices
        self.__name__ = "simulated CuPy"
        self.ndarray = ndarray
        self.linalg = functions.linalg
        self.host, self.copies, self.pool = host, copies, pool
        self.cuda = SimpleNamespace(
            Device=Device,
            Stream=_make_stream,
            Event=Event,
            MemoryHook=MemoryHook,
            MemoryPool=lambda: SimpleNamespace(malloc=None),
            using_allocator=lambda allocator: nullcontext(),
            Graph=Graph,
            get_current_stream=lambda device_id=-1: current_stream(None if device_id < 0 else device_id),
            get_elapsed_time=elapsed_time,
            is_available=lambda: True,
            runtime=SimpleNamespace(
                getDeviceCount=device_count,
                getDevice=lambda: current.device,
                setDevice=set_device,
                deviceSynchronize=device_synchronize,
                memGetInfo=memory_info,
                getDeviceProperties=device_properties,
                deviceCanAccessPeer=lambda one, other: int(one != other),
                memcpyPeerAsync=copy_between_devices,
                CUDARuntimeError=CUDARuntimeError,
            ),
        )

    def run_as_kernel(self, name: str, function: Any, *args: Any) -> Any:
        """Let one kernel compute what a function of NumPy's arrays does."""
        return launch(name, function, args)

    def as_one_kernel(self, function: Any) -> Any:
        """`function`, which on a GPU is one kernel of CUDA C++: no library is called in it."""

        def run(*args: Any, **kwargs: Any) -> Any:
            before, current.in_kernel = current.in_kernel, True
            try:
                return function(*args, **kwargs)
            finally:
                current.in_kernel = before

        return run

    @property
    def host_syncs(self) -> int:
        """How often the host has had to wait for a device."""
        return len(host.waits)

    @contextmanager
    def no_host_sync(self) -> Iterator[None]:
        """Inside, the host must not wait. AssertionError at the end says what it waited for."""
        before = len(host.waits)
        yield
        found = host.waits[before:]
        if found:
            raise AssertionError(f"the host waited {len(found)} times: {', '.join(found)}")

    def get_default_memory_pool(self) -> Any:
        """The allocator."""
        return pool

    def __getattr__(self, name: str) -> Any:
        return getattr(functions.numpy, name)
