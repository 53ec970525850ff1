# Tangled from chapters/01_import/8f_profiler.py — edit there, or here and run `readtorch sync`.
"""What a profile holds: events, their sums by name, and the table of them."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from operator import attrgetter
from typing import Any


class DeviceType(enum.Enum):
    """Where an event took its time. Every event here is one of the CPU: it began and ended there."""

    CPU = 0
    CUDA = 1


def _time(us: float, unit: str | None = None) -> str:
    if unit is None:
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    return f"{us / {'s': 1e6, 'ms': 1e3, 'us': 1}[unit]:.3f}{unit}"


def _memory(count: int) -> str:
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


class Interval:
    """A span of time, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Its length."""
        return self.end - self.start


class FormattedTimesMixin:
    """Times as text, and the mean of a total."""

    count: int

    @property
    def cpu_time(self) -> float:
        """The mean time of one call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """The mean time of one call on a device."""
        return self.device_time_total / self.count if self.count else 0.0

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_str") and "time" in name:
            return _time(getattr(self, name.removesuffix("_str")))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class FunctionEvent(FormattedTimesMixin):
    """One call: of an operator, of a node of a backward pass, or of a block under `record_function`.

    `scope` tells them apart (0, 1 and 7). Nothing is timed on a device, so that every time of one is 0.
    """

    device_type = DeviceType.CPU
    is_async = is_remote = is_legacy = False
    device_time_total = self_device_time_total = 0.0

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        input_shapes: list | None = None,
        stack: list[str] | None = None,
        scope: int = 0,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        flops: int | None = None,
    ) -> None:
        self.id, self.trace_name, self.thread = id, name, thread
        self.name = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        self.time_range = Interval(start_us, end_us)
        self.count = 1
        self.input_shapes, self.stack, self.scope = input_shapes, stack or [], scope
        self.cpu_memory_usage, self.device_memory_usage, self.flops = cpu_memory_usage, device_memory_usage, flops
        self.is_user_annotation = scope == 7
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []

    @property
    def key(self) -> str:
        """What it is counted under: its name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """From its begin to its end."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        """Without what it called."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes without those of what it called."""
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """Bytes on a device without those of what it called."""
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


_SUMS = (
    "count",
    "cpu_time_total",
    "self_cpu_time_total",
    "device_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "self_cpu_memory_usage",
    "device_memory_usage",
    "self_device_memory_usage",
)


class FunctionEventAvg(FormattedTimesMixin):
    """The sums over all events of one key; `cpu_time` is their mean."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.input_shapes: Any = None
        self.stack: list[str] = []
        self.scope = 0
        self.cpu_parent: FunctionEvent | None = None
        self.is_user_annotation, self.device_type = False, DeviceType.CPU
        self.cpu_time_total = self.self_cpu_time_total = self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.count = self.flops = 0

    def add(self, other: Any) -> FunctionEventAvg:
        """Count an event, or the events of another sum."""
        if self.key is None:
            self.key, self.input_shapes, self.stack = other.key, other.input_shapes, other.stack
            self.scope, self.cpu_parent = other.scope, other.cpu_parent
            self.is_user_annotation = other.is_user_annotation
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops += other.flops or 0
        return self

    def __iadd__(self, other: Any) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list):
    """Events, or sums of them, and what can be asked of them together."""

    def __init__(self, events: Iterable[Any] = (), profile_memory: bool = False, with_flops: bool = False) -> None:
        super().__init__(events)
        self._profile_memory, self._with_flops = profile_memory, with_flops

    def __str__(self) -> str:
        return self.table()

    def _build_tree(self) -> None:
        self.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
        open_calls: dict[int, list[FunctionEvent]] = {}
        kept: list[FunctionEvent] = []
        for event in self:
            stack = open_calls.setdefault(event.thread, [])
            while stack and event.time_range.end > stack[-1].time_range.end:
                stack.pop()
            if stack:
                event.cpu_parent = stack[-1]
                stack[-1].cpu_children.append(event)
            stack.append(event)
        for event in self:
            parent = event.cpu_parent
            if parent is not None and parent.name == event.name and len(parent.cpu_children) == 1:
                parent.cpu_children = event.cpu_children
                for child in event.cpu_children:
                    child.cpu_parent = parent
            else:
                kept.append(event)
        self[:] = kept

    @property
    def self_cpu_time_total(self) -> float:
        """All time that was measured, each microsecond once."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """The sums by name: apart by the shapes of the inputs too, or by the last `group_by_stack_n` places of the program."""
        sums: dict[tuple, FunctionEventAvg] = {}
        for event in self:
            key = [event.key]
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            key += event.stack[:group_by_stack_n]
            sums.setdefault(tuple(key), FunctionEventAvg()).add(event)
        for total in sums.values():
            total.stack = total.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                total.input_shapes = ""
        return EventList(sums.values(), self._profile_memory, self._with_flops)

    def total_average(self) -> FunctionEventAvg:
        """One sum over everything."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, the largest `sort_by` first (`cpu_time_total`, `self_cpu_time_total`, `count`, …). `row_limit` -1: all."""
        return _build_table(
            self,
            sort_by,
            row_limit,
            (max_name_column_width, max_shapes_column_width, max_src_column_width),
            header,
            top_level_events_only,
            time_unit,
        )

    def export_chrome_trace(self, path: Any) -> None:
        """Write the intervals for `chrome://tracing` or Perfetto."""
        with open(path, "w") as file:
            json.dump(self._trace_events("CPU functions"), file)

    def _trace_events(self, process: Any) -> list[dict[str, Any]]:
        return [
            {
                "ph": "X",
                "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
                "name": event.trace_name,
                "pid": process,
                "tid": event.thread,
                "ts": event.time_range.start,
                "dur": event.time_range.elapsed_us(),
                "args": {"Input Dims": event.input_shapes} if event.input_shapes else {},
            }
            for event in self
        ]

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write each stack and its time as one line, as flame graph tools read them. ValueError for another metric."""
        known = ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]
        if metric not in known:
            raise ValueError(f"metric should be one of: {known}")
        with open(path, "w") as file:
            for event in self:
                time = int(event.self_cpu_time_total) if metric == known[0] else 0
                if event.stack and time > 0:
                    places = (place.translate(str.maketrans(" ;\t\n", "____")) for place in reversed(event.stack))
                    file.write(f"{';'.join(places)} {time}\n")


def _cut(text: str, width: int) -> str:
    return text if width <= 0 or len(text) <= width else text[: max(width - 3, 0)] + "..."


def _build_table(
    events: EventList,
    sort_by: str | None,
    row_limit: int,
    widths: tuple[int, int, int],
    header: str | None,
    top_level_events_only: bool,
    unit: str | None,
) -> str:
    if not events:
        return ""
    total = events.self_cpu_time_total
    shown: list[Any] = list(events)
    if sort_by is not None:
        name = sort_by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
        shown.sort(key=attrgetter(name), reverse=True)
    if top_level_events_only:
        shown = [event for event in shown if event.cpu_parent is None]
    if row_limit >= 0:
        shown = shown[:row_limit]

    def share(us: float) -> str:
        return f"{us * 100 / total:.2f}%" if total else "NaN"

    columns: list[tuple[str, Any]] = [
        ("Name", lambda e: _cut(e.key, widths[0])),
        ("Self CPU %", lambda e: share(e.self_cpu_time_total)),
        ("Self CPU", lambda e: _time(e.self_cpu_time_total, unit)),
        ("CPU total %", lambda e: share(e.cpu_time_total)),
        ("CPU total", lambda e: _time(e.cpu_time_total, unit)),
        ("CPU time avg", lambda e: _time(e.cpu_time, unit)),
    ]
    if events._profile_memory:
        columns += [
            ("CPU Mem", lambda e: _memory(e.cpu_memory_usage)),
            ("Self CPU Mem", lambda e: _memory(e.self_cpu_memory_usage)),
        ]
    columns.append(("# of Calls", lambda e: str(e.count)))
    if any(event.input_shapes for event in events):
        columns.append(("Input Shapes", lambda e: _cut(str(e.input_shapes), widths[1])))
    if any(event.stack for event in events):
        columns.append(("Source Location", lambda e: _cut(e.stack[0] if e.stack else "", widths[2])))
    if events._with_flops:
        columns.append(("Total FLOPs", lambda e: str(e.flops) if e.flops else "--"))
    rows = [[name for name, _ in columns], *([cell(event) for _, cell in columns] for event in shown)]
    sizes = [max(12, *(len(row[at]) for row in rows)) for at in range(len(columns))]
    rule = "  ".join("-" * size for size in sizes)
    lines = ["  ".join(text.rjust(size) for text, size in zip(row, sizes, strict=True)) for row in rows]
    top = ["=" * len(rule), header] if header is not None else []
    return "\n".join([*top, rule, lines[0], rule, *lines[1:], rule, f"Self CPU time total: {_time(total, unit)}", ""])
