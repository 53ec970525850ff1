# Tangled from chapters/01_import/d6_cuda_backend.py — edit there, or here and run `readtorch sync`.
"""Copies between the host and the devices, and from device to device."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from readtorch.aten import record_function
from readtorch.aten.cuda.caching_host_allocator import empty_pinned, is_pinned, keep_until
from readtorch.c10.cuda.cuda_functions import host_waits, library, stream_synchronize
from readtorch.c10.cuda.cuda_guard import CUDAGuard, guard_of
from readtorch.c10.cuda.cuda_stream import get_current_stream


def _memory_order(array: Any) -> tuple[int, ...] | None:
    """The dimensions, the one with the longest step first, if the elements lie without gaps; else None."""
    order = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return order if array.transpose(order).flags.c_contiguous else None


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _restored(array: Any, order: tuple[int, ...] | None) -> Any:
    """`array`, whose dimensions were taken in `order`, with them in their places."""
    return array if order is None or order == tuple(range(array.ndim)) else array.transpose(_inverse(order))


traffic: dict[str, tuple[int, int]] = {}
"""By direction, "HtoD", "DtoH" or "PtoP": how many copies there were, and their bytes."""


def _told(direction: str, size: int, stream: Any, begin: int) -> None:
    copies, total = traffic.get(direction, (0, 0))
    traffic[direction] = copies + 1, total + size
    observer = record_function.observer
    told = getattr(observer, "copy", None)
    if told is not None:
        told(direction, size, stream, begin, time.perf_counter_ns())


def host_to_device(array: np.ndarray, device: int, non_blocking: bool = False) -> Any:
    """A copy on the device. The host waits for it, unless `array` is pinned and it need not."""
    begin = time.perf_counter_ns()
    order = _memory_order(array)
    source = np.ascontiguousarray(array) if order is None else array.transpose(order)
    with CUDAGuard(device):
        result = library().ndarray(source.shape, source.dtype)
        stream = get_current_stream()
        if source.size:
            result.set(source, stream)
            if non_blocking and is_pinned(source):
                keep_until(stream.record(), source)
            else:
                stream_synchronize(stream, "copy to device")
        _told("HtoD", source.nbytes, stream, begin)
        return _restored(result, order)


def device_to_host(array: Any, non_blocking: bool = False) -> np.ndarray:
    """A copy on the host. With `non_blocking` it is in pinned memory, and complete when the stream is."""
    begin = time.perf_counter_ns()
    order = _memory_order(array)
    with guard_of(array):
        stream = get_current_stream()
        source = library().ascontiguousarray(array) if order is None else array.transpose(order)
        if non_blocking and source.size:
            result = empty_pinned(source.shape, source.dtype)
            source.get(stream, out=result, blocking=False)
        else:
            host_waits("copy to host")
            result = source.get(stream)
    _told("DtoH", array.nbytes, stream, begin)
    return _restored(result, order)


def device_to_device(array: Any, device: int) -> Any:
    """A copy on another device. It runs on the source's stream; the target's waits before it and after it."""
    begin = time.perf_counter_ns()
    runtime = library().cuda.runtime
    order = _memory_order(array)
    origin = array.data.device_id
    with guard_of(array):
        source = library().ascontiguousarray(array) if order is None else array.transpose(order)
    with CUDAGuard(device):
        result = library().ndarray(source.shape, source.dtype)
        there = get_current_stream()
        ready = there.record()
    with CUDAGuard(origin):
        here = get_current_stream()
        here.wait_event(ready)
        if source.size:
            runtime.memcpyPeerAsync(result.data.ptr, device, source.data.ptr, origin, source.nbytes, here.ptr)
        done = here.record()
    with CUDAGuard(device):
        there.wait_event(done)
    _told("PtoP", source.nbytes, here, begin)
    return _restored(result, order)
