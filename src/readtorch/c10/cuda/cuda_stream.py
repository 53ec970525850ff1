# Tangled from chapters/01_import/d4_cuda_runtime.py — edit there, or here and run `readtorch sync`.
"""Streams (twin of `c10/cuda/CUDAStream.h`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from readtorch.c10.cuda.cuda_functions import library
from readtorch.c10.cuda.cuda_guard import CUDAGuard

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
