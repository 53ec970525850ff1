# Tangled from chapters/01_import/d3_simulated_runtime.py — edit there, or here and run `readtorch sync`.
"""Work that is noted first and done later: captures of the simulated device, and the graphs that they become."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from readtorch.c10.cuda.simulated.launch import wrap
from readtorch.c10.cuda.simulated.memory import Block, History
from readtorch.c10.cuda.simulated.stream import Clock, CUDARuntimeError, Event, RaceError, Stream, current_stream, merge


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
