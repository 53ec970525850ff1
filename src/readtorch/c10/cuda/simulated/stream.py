# Tangled from chapters/01_import/d1_simulated_streams.py — edit there, or here and run `readtorch sync`.
"""Streams and events of the simulated device: what is known to have happened before what."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

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
