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
# # Several threads in one operator
#
# Python runs one thread at a time, and yet an operator can keep two cores busy: NumPy lets go of the interpreter's lock while it loops over an array, and so does `ctypes` during a call. Two threads that spend their time in such loops get in each other's
# way for microseconds only. What an operator has to do is to cut its work into pieces that touch different memory. Upstream cuts with `at::parallel_for`, and so does this part. The first question is how many threads there may be.

# %%
import threading

import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: aten/parallel.py
"""How many threads an operator uses, and loops that are shared among them (twin of `aten/src/ATen/Parallel.h`)."""

# %%
#| into: aten/parallel.py
#| imports
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

# %% [markdown]
# ## How many threads compute?
#
# NumPy hands matrix products to a BLAS library with threads of its own. The common one, OpenBLAS, lets itself be told how many; it is found among the libraries that this process has mapped. Its number is also the one for the loops below, so that there is
# a single truth, `threadpoolctl` and `OPENBLAS_NUM_THREADS` included. Where there is no OpenBLAS, one thread is what is reported and used.

# %%
#| into: aten/parallel.py
#| upstream: aten/src/ATen/Parallel.h#at::set_num_threads
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


# %%
#| into: __init__.py
_NAMES.update(
    dict.fromkeys(
        ("get_num_interop_threads", "get_num_threads", "set_num_interop_threads", "set_num_threads"), "aten.parallel"
    )
)

# %%
before = torch.get_num_threads()
torch.set_num_threads(1)
after = torch.get_num_threads()
torch.set_num_threads(before)
after

# %% [markdown]
# ## Sharing a loop
#
# `parallel_for(begin, end, grain_size, function)` calls `function(start, stop)` for piece after piece of a range. The caller works too; helpers join it, one fewer than there are threads. Nobody is assigned pieces beforehand: whoever is done takes the next one
# from a common iterator (taking is one step of the interpreter, so no two get the same). On a machine with other work this matters more than on paper, where equal shares take equal time: half the range for each means to wait for the thread that was
# interrupted.
#
# For the same reason a helper that has not begun when the caller finds the range used up is called off and not waited for. A thread that was asleep takes some fifty microseconds to wake, and the work may be done by then.
#
# While a loop is shared, BLAS is told to use one thread. Two callers that each ask for two threads would wait for one another in OpenBLAS, which serves one product at a time. And only one loop is shared at a time: one that is met inside another, or from
# another thread of the program, runs where it is.
#
# A helper sees what the caller's *context* holds, and NumPy's error settings are kept there: a division that is silent in one thread must not warn in another. What is thread-local is not seen, grad mode for one. So a `function` works on arrays, not on tensors.

# %%
#| into: aten/parallel.py
#| upstream: aten/src/ATen/Parallel.h#at::parallel_for
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


# %% [markdown]
# A child of `fork` has one thread, the one that forked. The helpers are gone, a lock that another thread held is held for ever, and the queue may have been caught in the middle. So a child begins anew. Data loader workers are such children.


# %%
#| into: aten/parallel.py
def _begin_anew() -> None:
    """In a child process: no helpers, no loop under way."""
    global _jobs, _lent, _sharing, _started
    if _lent:
        count, _lent = _lent, 0
        set_num_threads(count)
    _sharing, _jobs, _started = threading.Lock(), queue.SimpleQueue(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)

# %% [markdown]
# Who computed what depends on the machine and the moment; that every piece is computed once does not.

# %%
from readtorch.aten.parallel import parallel_for

x = np.random.default_rng(0).random(1 << 22, np.float32)
y, by = np.empty_like(x), {}


def root(start: int, stop: int) -> None:
    np.sqrt(x[start:stop], out=y[start:stop])
    by.setdefault(threading.current_thread().name, []).append(start)


parallel_for(0, x.size, 1 << 17, root)
print(
    f"{sum(map(len, by.values()))} pieces by {len(by)} of {torch.get_num_threads()} threads; right: {np.array_equal(y, np.sqrt(x))}"
)

# %% [markdown]
# ### What upstream does more
#
# Upstream's loops run on OpenMP's threads or on a pool of its own (a build-time choice), and each thread gets one share of equal size, which costs less than an iterator and suits machines that do nothing else. Nearly every operator is written so, from `add` upwards;
# here the lock and its hand-over set the limit, and only those with milliseconds of work are: optimizer steps, normalization, convolution, stacking. `at::parallel_reduce` combines what the threads return.


# %%
#| claim: get_num_threads says what set_num_threads asked for, and zero threads are refused
def _(torch):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    try:
        torch.set_num_threads(0)
    except RuntimeError as error:
        assert "positive integer" in str(error)
    else:
        raise AssertionError("zero threads were accepted")
