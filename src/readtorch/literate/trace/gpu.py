"""What a GPU did while the code ran: kernels and copies on their streams, from the best source at hand.

Three sources, in order of preference: CUPTI, NVIDIA's own tracing interface, which knows every kernel, its grid and its time; CUDA
events, one behind each operator, which know how long the device took for it; and the host's clock, which knows when the operator
was launched and no more, and is all there is on a simulated device. A document says which it was (`meta.clock`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from time import perf_counter_ns
from typing import Any, Protocol

COPY_KINDS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
"""CUPTI's numbers for the directions of a copy."""


@dataclass
class Work:
    """A kernel, a copy or a fill on a stream; times by the device's clock. `correlation` is the launch's number."""

    name: str
    detail: str
    device: int
    stream: int
    begin: int
    end: int
    correlation: int = -1


@dataclass
class Launch:
    """A call of the CUDA runtime on the host, by CUPTI's clock."""

    correlation: int
    begin: int


@dataclass
class Span:
    """`Work` on the host's clock; `cause` is the index of the event that launched it, -1 if none is known."""

    name: str
    detail: str
    device: int
    stream: int
    begin: int
    end: int
    cause: int = -1


@dataclass
class Clock:
    """From one clock to another, by two moments that were read on both."""

    pairs: list[tuple[int, int]] = field(default_factory=list)

    def add(self, theirs: int, host: int) -> None:
        """Both clocks now."""
        self.pairs.append((theirs, host))

    def to_host(self, theirs: int) -> int:
        """A moment of the other clock on the host's."""
        (a, x), (b, y) = self.pairs[0], self.pairs[-1]
        return x + (theirs - a if a == b else round((theirs - a) * (y - x) / (b - a)))


def short_name(name: str) -> str:
    """A kernel's name without return type, template arguments and parameters."""
    plain = name.split("(")[0]
    while (shorter := re.sub(r"<[^<>]*>", "", plain)) != plain:
        plain = shorter
    return plain.split("<")[0].split()[-1].split("::")[-1] if plain.split() else name[:60]


def join(
    work: Iterable[Work], launches: Iterable[Launch], operators: Sequence[tuple[int, int, int]], clock: Clock
) -> list[Span]:
    """Put each piece of work under the operator whose call launched it.

    `operators` are (begin, end, event) of the host. A launch belongs to the innermost operator that was running: of those that
    contain its moment the one that ended first, since operators are noted when they end.
    """
    when = {launch.correlation: clock.to_host(launch.begin) for launch in launches}
    ended = sorted(operators, key=lambda operator: operator[1])
    ends = [end for _, end, _ in ended]
    spans = []
    for piece in work:
        moment = when.get(piece.correlation)
        cause = -1
        if moment is not None:
            for begin, _, event in ended[bisect_right(ends, moment) :]:
                if begin <= moment:
                    cause = event
                    break
        begin, end = clock.to_host(piece.begin), clock.to_host(piece.end)
        spans.append(Span(piece.name, piece.detail, piece.device, piece.stream, begin, end, cause))
    return sorted(spans, key=lambda span: span.begin)


class Source(Protocol):
    """Where spans come from. `clock` is its name in a document."""

    clock: str

    def start(self) -> None:
        """Begin to note."""

    def operator(self, name: str, outputs: Any, begin: int, end: int, event: int) -> None:
        """An operator has returned; `event` is its place among the recorder's events."""

    def copy(self, direction: str, size: int, stream: Any, begin: int, end: int, event: int) -> None:
        """A copy has been put into a stream."""

    def stop(self) -> list[Span]:
        """Everything since `start`."""


def device_array(outputs: Any) -> Any:
    """The first array of a GPU among an operator's outputs; None if there is none."""
    for output in outputs if type(outputs) in (tuple, list) else (outputs,):
        array = getattr(output, "_array", None)
        pointer = getattr(array, "data", None)
        if hasattr(pointer, "device_id"):
            return array
    return None


class HostClock:
    """When work was launched, and how long that took the host."""

    clock = "host"

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def start(self) -> None: ...

    def operator(self, name: str, outputs: Any, begin: int, end: int, event: int) -> None:
        array = device_array(outputs)
        if array is not None:
            device = array.data.device_id
            self.spans.append(Span(name, "launched in", device, current_stream(device), begin, end, event))

    def copy(self, direction: str, size: int, stream: Any, begin: int, end: int, event: int) -> None:
        device = max(getattr(stream, "device_id", 0), 0)
        self.spans.append(Span(f"copy {direction}", f"{size} bytes", device, int(stream.ptr), begin, end, event))

    def stop(self) -> list[Span]:
        return self.spans


class Events(HostClock):
    """A CUDA event behind each operator: what lies between two is the device's time for the later one."""

    clock = "events"

    def __init__(self, cuda: Any) -> None:
        super().__init__()
        self._cuda = cuda
        self._marks: dict[tuple[int, int], tuple[Any, int]] = {}
        self._noted: list[tuple[str, str, tuple[int, int], Any, int]] = []

    def operator(self, name: str, outputs: Any, begin: int, end: int, event: int) -> None:
        array = device_array(outputs)
        if array is not None:
            self._note(name, "", (array.data.device_id, current_stream(array.data.device_id)), begin, event)

    def copy(self, direction: str, size: int, stream: Any, begin: int, end: int, event: int) -> None:
        device = max(getattr(stream, "device_id", 0), 0)
        self._note(f"copy {direction}", f"{size} bytes", (device, int(stream.ptr)), begin, event)

    def _note(self, name: str, detail: str, queue: tuple[int, int], begin: int, event: int) -> None:
        with self._cuda.Device(queue[0]):
            mark = self._cuda.Event()
            mark.record(self._cuda.get_current_stream())
            if queue not in self._marks:
                self._marks[queue] = (mark, begin)
        self._noted.append((name, detail, queue, mark, event))

    def stop(self) -> list[Span]:
        spans, last = [], dict.fromkeys(self._marks, 0)
        for name, detail, queue, mark, event in self._noted:
            first, host = self._marks[queue]
            mark.synchronize()
            now = round(self._cuda.get_elapsed_time(first, mark) * 1e6)
            spans.append(Span(name, detail, *queue, host + last[queue], host + now, event))
            last[queue] = now
        return spans


class Cupti:
    """NVIDIA's activity records (package `cupti-python`)."""

    clock = "cupti"
    KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET", "RUNTIME", "DRIVER")

    def __init__(self, cupti: Any, synchronize: Any) -> None:
        self._cupti = cupti
        self._synchronize = synchronize
        self.work: list[Work] = []
        self.launches: list[Launch] = []
        self.operators: list[tuple[int, int, int]] = []
        self._clock = Clock()

    def start(self) -> None:
        self._cupti.activity_register_callbacks(lambda: (8 << 20, 0), self.take)
        for kind in self.KINDS:
            self._cupti.activity_enable(getattr(self._cupti.ActivityKind, kind))
        self._clock.add(int(self._cupti.get_timestamp()), perf_counter_ns())

    def operator(self, name: str, outputs: Any, begin: int, end: int, event: int) -> None:
        self.operators.append((begin, end, event))

    def copy(self, direction: str, size: int, stream: Any, begin: int, end: int, event: int) -> None:
        self.operators.append((begin, end, event))

    def take(self, records: Iterable[Any]) -> None:
        """Copy out what is wanted of activity records: their memory is reused."""
        kinds = self._cupti.ActivityKind
        for record in records:
            kind = record.kind
            if kind == kinds.CONCURRENT_KERNEL:
                sizes = (
                    f"{of} ({', '.join(str(getattr(record, f'{of}_{axis}')) for axis in 'xyz')})"
                    for of in ("grid", "block")
                )
                detail = " ".join(sizes)
                self._work(record, short_name(record.name), detail)
            elif kind in (kinds.MEMCPY, kinds.MEMCPY2):
                self._work(record, f"copy {COPY_KINDS.get(int(record.copy_kind), '?')}", f"{record.bytes} bytes")
            elif kind == kinds.MEMSET:
                self._work(record, "fill", f"{record.bytes} bytes")
            elif kind in (kinds.RUNTIME, kinds.DRIVER):
                self.launches.append(Launch(int(record.correlation_id), int(record.start)))

    def _work(self, record: Any, name: str, detail: str) -> None:
        self.work.append(
            Work(
                name, detail, int(record.device_id), int(record.stream_id), int(record.start), int(record.end),
                int(record.correlation_id),
            )
        )  # fmt: skip

    def stop(self) -> list[Span]:
        self._synchronize()
        self._cupti.activity_flush_all(1)
        for kind in self.KINDS:
            self._cupti.activity_disable(getattr(self._cupti.ActivityKind, kind))
        self._clock.add(int(self._cupti.get_timestamp()), perf_counter_ns())
        return join(self.work, self.launches, self.operators, self._clock)


def current_stream(device: int) -> int:
    """The number of this thread's current stream of a device."""
    from readtorch.c10.cuda.cuda_stream import get_current_stream

    return int(get_current_stream(device).ptr)


def source() -> Source | None:
    """The best there is; None where no GPU is in use or to be had."""
    try:
        from readtorch.c10.cuda import cuda_functions
    except ImportError:
        return None
    if not cuda_functions.device_count():
        return None
    if cuda_functions.is_simulated():
        return HostClock()
    cuda = cuda_functions.library().cuda
    try:
        from cupti import cupti
    except ImportError:
        return Events(cuda)
    return Cupti(cupti, cuda.runtime.deviceSynchronize)


class Watch:
    """Stands between the library's observer slot and a source."""

    def __init__(self, source: Source, count: Any) -> None:
        self.source = source
        self._count = count
        self._home = get_ident()

    def operator(self, name: str, outputs: Any, begin: int, end: int) -> None:
        """Told after the recorder has noted the operator, which is then the last of its events."""
        self.source.operator(name, outputs, begin, end, self._count() - 1)

    def copy(self, direction: str, size: int, stream: Any, begin: int, end: int) -> None:
        """The same for a copy."""
        self.source.copy(direction, size, stream, begin, end, self._count())
