# Tangled from chapters/a1_operators/0_threads.py — edit there, or here and run `readtorch sync`.
"""How many threads an operator uses, and loops that are shared among them (twin of `aten/src/ATen/Parallel.h`)."""

from __future__ import annotations

import contextvars
import ctypes
import functools
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PREFIXES = ("scipy_openblas_", "openblas_")
_SUFFIXES = ("64_", "")


def _mapped_libraries() -> list[str]:
    maps = Path("/proc/self/maps")
    if not maps.exists():
        folder = Path(sys.modules["numpy"].__file__ or "").parent
        return [str(file) for file in folder.parent.glob("numpy.libs/*openblas*")]
    return sorted({line.split()[-1] for line in maps.read_text().splitlines() if "openblas" in line})


@functools.cache
def _openblas() -> tuple[Any, Any] | None:
    """The functions that set and get the number of OpenBLAS's threads; None without OpenBLAS."""
    import numpy as np  # noqa: F401  (its import maps the library)

    for path in _mapped_libraries():
        library = ctypes.CDLL(path)
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                setter = getattr(library, f"{prefix}set_num_threads{suffix}", None)
                getter = getattr(library, f"{prefix}get_num_threads{suffix}", None)
                if setter is not None and getter is not None:
                    return setter, getter
    return None


_lent = 0
"""While a loop is shared, BLAS has one thread: how many it gets back afterwards. Otherwise 0."""


def set_num_threads(count: int, /) -> None:
    """Let operators use `count` threads. RuntimeError unless it is positive."""
    global _lent
    if not isinstance(count, int) or isinstance(count, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    blas = _openblas()
    if _lent:
        _lent = count
    elif blas is not None:
        blas[0](count)


def get_num_threads() -> int:
    """How many threads operators use."""
    blas = _openblas()
    return _lent or (1 if blas is None else int(blas[1]()))


def set_num_interop_threads(count: int, /) -> None:
    """Accepted and without effect: whole operators are never run beside each other here."""
    if count <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


def get_num_interop_threads() -> int:
    """1: operators are not run beside each other."""
    return 1


_sharing = threading.Lock()
_jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
_started = 0


class _Job:
    """A helper's part in a loop: either begun, and then it is waited for, or called off."""

    __slots__ = ("begun", "context", "ended", "error", "work")

    def __init__(self, work: Callable[[], None]) -> None:
        self.work: Callable[[], None] | None = work
        self.context = contextvars.copy_context()
        self.begun, self.ended = threading.Lock(), threading.Lock()
        self.ended.acquire()
        self.error: BaseException | None = None

    def run(self) -> None:
        if not self.begun.acquire(blocking=False):
            return
        assert self.work is not None
        try:
            self.context.run(self.work)
        except BaseException as error:
            self.error = error
        finally:
            self.work = None
            self.ended.release()

    def join(self) -> None:
        if self.begun.acquire(blocking=False):
            self.work = None  # it may lie in the queue for long: let go of the arrays
        else:
            self.ended.acquire()


def _help(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        jobs.get().run()


def parallel_for(begin: int, end: int, grain_size: int, function: Callable[[int, int], None]) -> None:
    """Call `function(start, stop)` for pieces of at most `grain_size` of a range, in `get_num_threads()` threads, in any order.

    The pieces must not depend on each other, and work on arrays alone. What one of them raises is raised here, once all have ended.
    """
    starts = iter(range(begin, end, grain_size))

    def work() -> None:
        for start in starts:
            function(start, min(start + grain_size, end))

    pieces = -(-(end - begin) // grain_size)
    helpers = min(get_num_threads(), pieces) - 1 if pieces > 1 else 0
    if helpers <= 0 or not _sharing.acquire(blocking=False):
        work()
        return
    try:
        _share(work, helpers)
    finally:
        _sharing.release()


def _share(work: Callable[[], None], helpers: int) -> None:
    global _lent, _started
    while _started < helpers:
        _started += 1
        name = f"readtorch-parallel-{_started}"
        threading.Thread(target=_help, args=(_jobs,), name=name, daemon=True).start()
    blas = _openblas()
    jobs = [_Job(work) for _ in range(helpers)]
    _lent = get_num_threads()
    if blas is not None:
        blas[0](1)
    try:
        for job in jobs:
            _jobs.put(job)
        work()
    finally:
        for job in jobs:
            job.join()
        if blas is not None:
            blas[0](_lent)
        _lent = 0
    for job in jobs:
        if job.error is not None:
            raise job.error


def _begin_anew() -> None:
    """In a child process: no helpers, no loop under way."""
    global _jobs, _lent, _sharing, _started
    if _lent:
        count, _lent = _lent, 0
        set_num_threads(count)
    _sharing, _jobs, _started = threading.Lock(), queue.SimpleQueue(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
