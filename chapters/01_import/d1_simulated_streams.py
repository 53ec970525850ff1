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
# # A GPU that is not there: streams, events and memory
#
# Code for a GPU has faults that no GPU reports. A kernel on a side stream that reads what the main stream has not finished writing
# gives the right answer nearly always. Memory that was freed while another stream still read it is overwritten only when the
# allocator hands it out again. Both pass every test, and fail in the third week of a training run.
#
# The device simulated here computes with NumPy, at once, and keeps books on what a GPU would have been *allowed* to do: which
# operation was ordered before which. Where no order was established, it refuses. It has CuPy's interface, so that everything above
# it is the same code on a real device; it never says that it is one.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Who knows of whom? Vector clocks
#
# Each stream counts its operations. A *clock* says how far each stream is known to have come: `{3: 7}` means that operation 7 of
# stream 3, and all before it, are over. A stream learns from another by waiting for its event, everybody learns from the host, and the host learns by
# synchronising.

# %%
#| into: c10/cuda/__init__.py
"""The CUDA device below the operators (twin of `c10/cuda/`)."""

# %%
#| into: c10/cuda/simulated/__init__.py
"""A CUDA device simulated over NumPy, with CuPy's interface."""

# %%
#| into: c10/cuda/simulated/stream.py
"""Streams and events of the simulated device: what is known to have happened before what."""

# %%
#| into: c10/cuda/simulated/stream.py
#| imports
from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

# %%
#| into: c10/cuda/simulated/stream.py
Clock = dict[int, int]
"""By stream: the number of its last operation that is known to be over."""


class RaceError(RuntimeError):
    """Two operations of which neither is ordered before the other touch the same memory."""


class CUDARuntimeError(RuntimeError):
    """An error of the (simulated) CUDA runtime."""


def merge(clock: Clock, news: Clock) -> None:
    """Let `clock` know what `news` knows."""
    for stream, number in news.items():
        if clock.get(stream, 0) < number:
            clock[stream] = number


class Host:
    """What the host has waited for, and how often it had to."""

    def __init__(self) -> None:
        self.clock: Clock = {}
        self.version = 0
        self.waits: list[str] = []
        self.on_wait: Callable[[str], None] = lambda what: None

    def wait(self, clock: Clock, what: str) -> None:
        """The host stops until `clock` has come; `what` made it."""
        merge(self.clock, clock)
        self.version += 1
        self.waits.append(what)
        self.on_wait(what)

    def saw(self, clock: Clock) -> None:
        """The host has seen, without stopping, that all this is over."""
        merge(self.clock, clock)
        self.version += 1


host = Host()

# %% [markdown]
# A GPU has one memory and one current device per host thread; a thread has one current stream per device. New threads begin with device 0 and
# its default stream, which is a classic surprise: a worker thread that forgets `set_device` allocates on the wrong GPU.


# %%
#| into: c10/cuda/simulated/stream.py
class Current(threading.local):
    """Of one host thread: the current device, and the current stream of each device."""

    device = 0
    #: does what is computed now stand for one kernel of CUDA C++, whatever NumPy's functions it is written with?
    in_kernel = False

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


current = Current()
_numbers = itertools.count(1)
_default: dict[int, Stream] = {}


class Stream:
    """A queue of operations on one device. `Stream(null=True)` is the device's default stream."""

    def __new__(
        cls, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: Any = None
    ) -> Stream:
        if null and current.device in _default:
            return _default[current.device]
        self = super().__new__(cls)
        self.ptr = 0 if null else next(_numbers)
        self.device_id = current.device
        #: default streams of several devices are several streams
        self.key = -1 - self.device_id if null else self.ptr
        self.clock = {}
        self.priority = priority or 0
        self.captured = None
        self._heard = -1
        self._outer = []
        if null:
            _default[current.device] = self
        return self

    ptr: int
    device_id: int
    key: int
    clock: Clock
    priority: int
    captured: Any
    _heard: int
    _outer: list[Stream]

    def tick(self) -> int:
        """Begin an operation; returns its number. It comes after all that the host has waited for."""
        clock = self.clock
        if self._heard != host.version:
            merge(clock, host.clock)
            self._heard = host.version
        number = clock[self.key] = clock.get(self.key, 0) + 1
        return number

    def use(self) -> Stream:
        """Make it the current stream of its device in this thread."""
        current.streams[self.device_id] = self
        return self

    def __enter__(self) -> Stream:
        if self.device_id != current.device:
            raise RuntimeError(f"stream of device {self.device_id} entered while device {current.device} is current")
        self._outer.append(current_stream())
        return self.use()

    def __exit__(self, *exc: object) -> None:
        self._outer.pop().use()

    def record(self, event: Event | None = None) -> Event:
        """An event that comes when all operations so far are over."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let later operations wait for an event; the host goes on."""
        capture = event.captured if self.captured is None else self.captured
        if capture is None:
            merge(self.clock, event.clock)
        else:
            capture.wait(self, event)

    def synchronize(self, what: str = "synchronize") -> None:
        """Let the host wait, because of `what`."""
        if self.captured is not None:
            self.captured.refuse(what)
        host.wait(self.clock, what)

    @property
    def done(self) -> bool:
        """Is nothing left to do? Here nothing ever is; to ask is to know."""
        if self.captured is not None:
            self.captured.failed = "the stream was asked whether it is done"
            return False
        host.saw(self.clock)
        return True

    def __repr__(self) -> str:
        return f"<simulated stream {self.ptr} of device {self.device_id}>"


class Event:
    """A mark in a stream."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.clock: Clock = {}
        #: the capture in which it is a mark; it is then one of the graph's, and comes for nobody else
        self.captured: Any = None
        self.timed = not disable_timing
        self.nanoseconds = 0

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark behind the operations that are in the stream now."""
        stream = current_stream() if stream is None else stream
        self.captured = stream.captured
        if self.captured is not None:
            self.clock = self.captured.mark(stream)
            return
        stream.tick()
        self.clock = dict(stream.clock)
        self.nanoseconds = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Let the host wait for it."""
        self._check()
        host.wait(self.clock, "Event.synchronize")

    @property
    def done(self) -> bool:
        """Has it come?"""
        self._check()
        host.saw(self.clock)
        return True

    def _check(self) -> None:
        if self.captured is not None:
            self.captured.failed = "the host asked for an event of the capture"
            raise CUDARuntimeError(
                "cudaErrorCapturedEvent: operation not permitted on an event last recorded in a capturing stream"
            )

    @property
    def seen(self) -> bool:
        """Has the host waited for it already?"""
        return self.captured is None and all(
            host.clock.get(stream, 0) >= number for stream, number in self.clock.items()
        )


def current_stream(device: int | None = None) -> Stream:
    """This thread's current stream of a device, by default of the current one."""
    number = current.device if device is None else device
    found = current.streams.get(number)
    return default_stream(number) if found is None else found


def default_stream(device: int) -> Stream:
    """The stream that a device has from the start."""
    found = _default.get(device)
    if found is None:
        outer, current.device = current.device, device
        try:
            found = Stream(null=True)
        finally:
            current.device = outer
    return found


def elapsed_time(start: Event, end: Event) -> float:
    """Milliseconds between two events; of the host, for there is no other clock here."""
    if not (start.timed and end.timed):
        raise RuntimeError("the events were made with disable_timing=True")
    for event in (start, end):
        event._check()
    return (end.nanoseconds - start.nanoseconds) / 1e6


# %%
from readtorch.c10.cuda.simulated.stream import Stream, host

main, side = Stream(non_blocking=True), Stream(non_blocking=True)
main.tick(), main.tick()
event = main.record()
main.tick()
before = dict(side.clock)
side.wait_event(event)
main.clock, before, side.clock

# %% [markdown]
# After the wait the side stream knows of the first three entries of the main stream (two operations and the mark itself), and not of the
# one that came later. Upstream's own sanitizer for CUDA (`TORCH_CUDA_SANITIZER=1`) works in the same way, on a real device.

# %%
#| fact: torch/cuda/_sanitizer.py#StreamSynchronizations
#| fact: torch/cuda/_sanitizer.py#EventHandler

# %% [markdown]
# ## Memory that is handed out again
#
# Asking the driver for memory is slow and makes the device stop, so upstream's allocator and CuPy's keep what was freed and hand it out
# again. They do so *on the stream it was allocated on, at once*: whatever is launched on that stream later
# comes after whatever used the memory there before. Work on another stream is in nobody's books:

# %%
#| into: c10/cuda/simulated/memory.py
"""Memory of the simulated device: who wrote and read each block, and what becomes of freed ones."""

# %%
#| into: c10/cuda/simulated/memory.py
#| imports
from __future__ import annotations

import threading
import weakref
from typing import Any

from readtorch.c10.cuda.simulated.stream import RaceError, Stream, current, current_stream

# %%
#| into: c10/cuda/simulated/memory.py
GRAIN = 512
"""Sizes are rounded up to multiples of this, as both allocators do."""
CAPACITY = 1 << 34
"""Bytes of memory that a simulated device says it has."""


class History:
    """Who wrote and read a piece of a device's memory."""

    __slots__ = ("__weakref__", "device_id", "reads", "written")

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        #: (stream, number) of the last operation that wrote it
        self.written: tuple[int, int] | None = None
        #: by stream: the number of the last operation that read it since
        self.reads: dict[int, int] = {}

    def touch(self, stream: Any, number: int, write: bool, what: str) -> None:
        """Operation `number` of `stream` reads or writes this block. RaceError if nothing orders it after the others."""
        if stream.device_id != self.device_id:
            raise ValueError(
                f"{what}: an array of device {self.device_id} in an operation of device {stream.device_id}; "
                "copy it there first"
            )
        last = self.written
        if last is not None and last[0] != stream.key and stream.clock.get(last[0], 0) < last[1]:
            raise RaceError(
                f"{what}: {stream!r} {'writes' if write else 'reads'} memory that stream {max(last[0], 0)} wrote, "
                "without waiting for it; use wait_stream or wait_event first"
            )
        if not write:
            self.reads[stream.key] = number
            return
        for other, read in self.reads.items():
            if other != stream.key and stream.clock.get(other, 0) < read:
                raise RaceError(
                    f"{what}: {stream!r} overwrites memory that stream {max(other, 0)} may still read; "
                    "let it wait for that stream first"
                )
        self.written = (stream.key, number)
        self.reads = {}


class Block(History):
    """A piece of device memory: `memory` is the NumPy array that stands for it."""

    __slots__ = ("memory", "pool", "ptr", "size", "stream")

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.stream: Stream = current_stream()
        super().__init__(self.stream.device_id)
        self.size = -(-max(int(memory.nbytes), 1) // GRAIN) * GRAIN
        #: the pool of the graph that is being captured; nobody else is ever given memory of it
        self.pool = None if self.stream.captured is None else self.stream.captured.pool
        self.ptr = pool.take(self)

    def __del__(self) -> None:
        if pool is not None:  # at the end of the interpreter it is
            pool.give_back(self)


class Pool:
    """The allocator of all simulated devices. Freed blocks stay with the stream that allocated them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._next = 0x7000_0000_0000
        #: living blocks by address
        self.blocks: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()
        self._free: dict[tuple[int, int, int], list[int]] = {}
        #: by device and stream: what other streams did to blocks that were freed: (name of the doing, stream, number)
        self._doubtful: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        self.used: dict[int, int] = {}
        self.held: dict[int, int] = {}
        self.hooks: list[Any] = []

    def take(self, block: Block) -> int:
        """An address for a new block. RaceError if it may be one that another stream still uses."""
        device, stream, size = block.device_id, block.stream, block.size
        with self._lock:
            if block.pool is None:
                self._check(device, stream)
            if self.used.get(device, 0) + size > CAPACITY:
                raise MemoryError(f"the simulated device {device} has no {size} bytes left")
            free = None if block.pool is not None else self._free.get((device, stream.key, size))
            if free:
                address = free.pop()
            else:
                address = self._next
                self._next += size
                self.held[device] = self.held.get(device, 0) + size
            self.used[device] = self.used.get(device, 0) + size
            self.blocks[address] = block
        for hook in self.hooks:
            hook.malloc_postprocess(device_id=device, size=size, mem_size=size, mem_ptr=address, pmem_id=0)
        return address

    def _check(self, device: int, stream: Stream) -> None:
        left = self._doubtful.pop((device, stream.key), None)
        if left is None:
            return
        stream.tick()
        for what, other, number in left:
            if stream.clock.get(other, 0) < number:
                raise RaceError(
                    f"memory was freed while stream {max(other, 0)} might still {what} it, and {stream!r} allocates: it may be "
                    "given that memory; call record_stream before freeing, or wait for the stream"
                )

    def give_back(self, block: Block) -> None:
        """Take a freed block in."""
        ptr = getattr(block, "ptr", None)
        if ptr is None:  # taking it was refused
            return
        own = block.stream.key
        with self._lock:
            doubtful = [("read", other, number) for other, number in block.reads.items() if other != own]
            if block.written is not None and block.written[0] != own:
                doubtful.append(("write", *block.written))
            if block.pool is not None:
                self.held[block.device_id] -= block.size
            elif doubtful:
                self._doubtful.setdefault((block.device_id, own), []).extend(doubtful)
            if block.pool is None:
                self._free.setdefault((block.device_id, own, block.size), []).append(ptr)
            self.used[block.device_id] -= block.size
        for hook in self.hooks:
            hook.free_postprocess(device_id=block.device_id, mem_size=block.size, mem_ptr=ptr, pmem_id=0)

    def at(self, address: int) -> Block:
        """The block that an address lies in."""
        for start, block in list(self.blocks.items()):
            if start <= address < start + block.size:
                return block
        raise ValueError(f"there is nothing at the address {address:#x}")

    def free_all_blocks(self, stream: Stream | None = None) -> None:
        """Give memory that nobody uses back to the device, which has to stop for it."""
        with self._lock:
            for (device, key, size), addresses in self._free.items():
                if stream is None or key == stream.key:
                    self.held[device] -= size * len(addresses)
                    addresses.clear()
            self._doubtful.clear()

    def used_bytes(self) -> int:
        """Bytes in use on the current device."""
        return self.used.get(current.device, 0)

    def total_bytes(self) -> int:
        """Bytes held on the current device, in use or not."""
        return self.held.get(current.device, 0)


pool = Pool()


# %% [markdown]
# The fault is reported by the allocation that might be given the memory, whatever its size: a real allocator splits and merges blocks, and
# only that makes the fault rare.

# %%
from readtorch.c10.cuda.simulated.memory import Block
from readtorch.c10.cuda.simulated.stream import RaceError

block = Block(np.zeros(4))
block.touch(main := block.stream, main.tick(), True, "fill")
side.wait_event(main.record())
block.touch(side, side.tick(), False, "sum")
del block
try:
    Block(np.zeros(100))
except RaceError as error:
    print(error)

# %% [markdown]
# `Tensor.record_stream` is upstream's answer: it tells the allocator of the second stream, and the memory is kept back until an event of that stream
# has come.

# %%
#| fact: c10/cuda/CUDACachingAllocator.h#c10::cuda::CUDACachingAllocator::recordStream

# %% [markdown]
# ### What upstream does more
# * Blocks up to 1 MB share segments of 2 MB, those up to 10 MB segments of 20 MB; blocks are split and neighbours merged. `expandable_segments` maps
#   pages of one large range of addresses instead.
# * The pool of a CUDA graph can be shared with another graph, which is then given what the first has freed. Here a graph's memory is given to nobody.
# * Out of memory is not an error yet: cached blocks are given back and the allocation is tried again.
