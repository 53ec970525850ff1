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
# # A GPU that is not there: the runtime
#
# What is left of CuPy's interface: devices, copies between them, the memory pool, graphs. With it, `simulate(4)` gives a module that can be used wherever `cupy` can, as far as
# this book uses it.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: c10/cuda/simulated/runtime.py
"""Devices of the simulated library, copies between them, and the module that stands for CuPy."""

# %%
#| into: c10/cuda/simulated/runtime.py
#| imports
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


# %%
#| into: c10/cuda/simulated/runtime.py
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


# %% [markdown]
# ## Graphs
#
# While a stream is *capturing*, CUDA does not run what is put into it but notes it; the finished graph is then launched any number of times, at the cost of one launch. The
# arrays are noted as addresses, so a graph always reads and writes the same memory: inputs are copied into the tensors that were captured with.
#
# NumPy cannot say the shape of a result without computing it, so here an operation with a new result is computed while it is noted, and at the end of the capture what it gave is overwritten, with bytes that make a float NaN: whoever forgets to replay gets the rubbish that a GPU would have given. What a graph *changes*, a running mean, a parameter, stays as it is until the first replay.
#
# A capture spreads. A stream that waits for an event of a capturing stream is captured from then on, and has to be waited for before the end. So a capture has clocks of its own, one for each stream in it, and books of its own for each piece of memory: a wait that is missing inside a graph is found when the graph is made.

# %%
#| into: c10/cuda/simulated/graph.py
"""Work that is noted first and done later: captures of the simulated device, and the graphs that they become."""

# %%
#| into: c10/cuda/simulated/graph.py
#| imports
from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from readtorch.c10.cuda.simulated.launch import wrap
from readtorch.c10.cuda.simulated.memory import Block, History
from readtorch.c10.cuda.simulated.stream import Clock, CUDARuntimeError, Event, RaceError, Stream, current_stream, merge


# %%
#| into: c10/cuda/simulated/graph.py
class Branch:
    """One stream's part of a capture."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.key = stream.key
        self.device_id = stream.device_id
        self.clock: Clock = {}

    def tick(self) -> int:
        """Begin an operation; returns its number."""
        number = self.clock[self.key] = self.clock.get(self.key, 0) + 1
        return number

    def __repr__(self) -> str:
        return repr(self.stream)


class Node(NamedTuple):
    """An operation of a graph."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    result: Any


class Use(NamedTuple):
    """A piece of memory that a graph uses, what it does to it, and the pool of graphs that it is from; None: everybody's."""

    block: weakref.ref[Block]
    books: History
    pool: Any


# %%
#| into: c10/cuda/simulated/graph.py
class Capture:
    """What is put into `origin`, and into streams that come to wait for it, until `origin` ends it."""

    def __init__(self, origin: Stream) -> None:
        self.origin = origin
        self.branches = {origin.key: Branch(origin)}
        self.nodes: list[Node] = []
        #: memory that it reads or writes
        self.uses: list[Use] = []
        #: stands for the pool that its own memory comes from
        self.pool = object()
        self._latest: dict[int, Use] = {}
        #: why no graph can come of it
        self.failed = ""
        self.over = False

    def note(
        self, what: str, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], found: list[Any],
        writes: Any, result: Any,
    ) -> Any:  # fmt: skip
        """Keep an operation for replay; returns its result."""
        branch = self.branches[current_stream().key]
        number = branch.tick()
        for array in found:
            self._books(array.data.mem).touch(branch, number, False, what)
        result = _as_arrays(result)
        self.nodes.append(Node(what, function, args, keywords, result))
        if writes is None:
            return wrap(result, lambda block: self._books(block).touch(branch, number, True, what))
        block = writes.data.mem
        self._books(block).touch(branch, number, True, what)
        if block.pool is self.pool:  # values of other memory are not the capture's to change
            function(*args, **keywords)
        return writes

    def _books(self, block: Block) -> History:
        use = self._latest.get(id(block))
        if use is None or use.block() is not block:
            use = self._latest[id(block)] = Use(weakref.ref(block), History(block.device_id), block.pool)
            self.uses.append(use)
        return use.books

    def mark(self, stream: Stream) -> Clock:
        """What an event recorded in `stream` now stands for."""
        branch = self.branches[stream.key]
        branch.tick()
        return dict(branch.clock)

    def wait(self, stream: Stream, event: Event) -> None:
        """`stream` waits for an event of the capture, and so becomes part of it."""
        if event.captured is not self or self.over or stream.captured not in (None, self):
            self.fail("cudaErrorStreamCaptureIsolation", "a dependency would cross the boundary of the capture")
        if stream.ptr == 0:
            self.fail("cudaErrorStreamCaptureImplicit", "the default stream cannot become part of a capture")
        if stream.captured is None:
            stream.captured = self
            self.branches[stream.key] = Branch(stream)
        merge(self.branches[stream.key].clock, event.clock)

    def refuse(self, what: str) -> NoReturn:
        """The host would have to wait for what has not been begun."""
        self.fail("cudaErrorStreamCaptureUnsupported", f"{what}: operation not permitted when stream is capturing")

    def fail(self, error: str, why: str) -> NoReturn:
        """CUDARuntimeError, now; and at the end there is no graph."""
        self.failed = why
        raise CUDARuntimeError(f"{error}: {why}")

    def end(self) -> Graph:
        """The graph. CUDARuntimeError if something was done meanwhile that must not be, or a stream was not waited for."""
        self.over = True
        for branch in self.branches.values():
            branch.stream.captured = None
        if self.failed:
            raise CUDARuntimeError(f"cudaErrorStreamCaptureInvalidated: a previous error during capture: {self.failed}")
        known = self.branches[self.origin.key].clock
        for key, branch in self.branches.items():
            if known.get(key, 0) < branch.clock.get(key, 0):
                raise CUDARuntimeError(f"cudaErrorStreamCaptureUnjoined: {branch!r} was not waited for")
        for use in self.uses:
            block = use.block()
            if block is not None and block.pool is self.pool:
                block.memory.reshape(-1, order="A").view(np.uint8).fill(0xFF)
        return Graph(self.nodes, self.uses)


# %%
#| into: c10/cuda/simulated/graph.py
class Graph:
    """A captured piece of work."""

    def __init__(self, nodes: list[Node], uses: list[Use]) -> None:
        self._nodes = nodes
        self._uses = uses

    def launch(self, stream: Stream | None = None) -> None:
        """Do it all again, in the same memory. RaceError if memory that was there before is gone."""
        with stream if stream is not None else current_stream():
            here = current_stream()
            if here.captured is not None:
                raise NotImplementedError("a graph within a graph is not simulated")
            number = here.tick()
            for use in self._uses:
                block = use.block()
                if block is not None:
                    block.touch(here, number, use.books.written is not None, "graph")
                elif use.pool is None:  # a pool of graphs keeps what is freed
                    raise RaceError(
                        "the graph uses memory that was freed after the capture; keep the tensors it was captured with"
                    )
            for node in self._nodes:
                _overwrite(node.result, node.function(*node.args, **node.keywords))

    def upload(self, stream: Stream | None = None) -> None:
        """Nothing to be uploaded."""

    def debug_dot_str(self, flags: int = 0) -> str:
        """The nodes in the language of Graphviz, in the order in which they are done here."""
        lines = [f'  {number} [label="{node.name}"];' for number, node in enumerate(self._nodes)]
        lines += [f"  {number} -> {number + 1};" for number in range(len(self._nodes) - 1)]
        return "\n".join(["digraph {", *lines, "}"])


def _as_arrays(result: Any) -> Any:
    """NumPy's single numbers as arrays, which have memory to be overwritten."""
    if result.__class__ in (tuple, list):
        return type(result)(map(_as_arrays, result))
    return np.asarray(result) if isinstance(result, np.generic) else result


def _overwrite(result: Any, again: Any) -> None:
    if isinstance(result, np.ndarray):
        if result is not again:
            result[...] = again
    elif isinstance(result, list | tuple):
        for one, other in zip(result, again, strict=True):
            _overwrite(one, other)


# %%
#| into: c10/cuda/simulated/graph.py
def begin_capture(self: Stream, mode: int | None = None) -> None:
    """Note, from now on, what is put into this stream."""
    if self.ptr == 0:
        raise RuntimeError("cannot capture on the default (legacy) stream")
    if self.captured is not None:
        self.captured.fail("cudaErrorIllegalState", "the stream is capturing already")
    self.captured = Capture(self)


def end_capture(self: Stream) -> Graph:
    """Stop noting; returns the graph."""
    capture = self.captured
    if capture is None:
        raise CUDARuntimeError("cudaErrorIllegalState: the stream is not capturing")
    if capture.origin is not self:
        capture.fail("cudaErrorStreamCaptureUnmatched", "another stream began the capture")
    return capture.end()


def is_capturing(self: Stream) -> bool:
    """Is the stream capturing?"""
    return self.captured is not None


# %%
#| into: c10/cuda/simulated/runtime.py
for _method in (begin_capture, end_capture, is_capturing):
    setattr(Stream, _method.__name__, _method)


# %% [markdown]
# ## The module


# %%
#| into: c10/cuda/simulated/runtime.py
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


# %%
from readtorch.c10.cuda.simulated.runtime import SimulatedCuPy

cupy = SimulatedCuPy(2)
stream = cupy.cuda.Stream(non_blocking=True)
with stream:
    x = cupy.zeros(3)
    stream.begin_capture()
    y = x * 2 + 1
    graph = stream.end_capture()
    x[...] = 5
    graph.launch()
    print(y.get())

# %% [markdown]
# And what a graph must not hold: a product of matrices (in CuPy cuBLAS is refused while capturing), a value that the host wants to see.

# %%
with stream:
    stream.begin_capture()
    for attempt in (lambda: x @ x, lambda: x.get()):
        try:
            attempt()
        except (NotImplementedError, RuntimeError) as error:
            print(type(error).__name__, str(error)[:90])
    stream.end_capture()
