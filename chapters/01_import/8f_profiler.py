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
# # Where the time goes: `torch.profiler`
#
# A profiler asks of a slow step which operators it called, how often, and how long each took *itself*, without what it called. Upstream that is a large machine: callbacks in the dispatcher, Kineto below it, CUPTI for the GPU. What the answer
# rests on is small: every operator reports when it began and when it ended ([`RecordFunction`](../00_tensor/03_dispatcher.py#who-sees-every-operator)), and intervals on one thread that lie in each other are calls in each other. This part keeps to that.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## An event, and those of one name together
#
# An event is an interval in microseconds with a name and a thread. Its *self* time is its length without that of its children. `FunctionEventAvg` adds up the events of one key.

# %%
#| into: autograd/profiler_util.py
"""What a profile holds: events, their sums by name, and the table of them."""

# %%
#| into: autograd/profiler_util.py
#| imports
from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from operator import attrgetter
from typing import Any


# %%
#| into: autograd/profiler_util.py
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


# %%
#| into: autograd/profiler_util.py
#| upstream: torch/autograd/profiler_util.py#Interval
class Interval:
    """A span of time, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Its length."""
        return self.end - self.start


# %%
#| into: autograd/profiler_util.py
#| upstream: torch/autograd/profiler_util.py#FormattedTimesMixin
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


# %%
#| into: autograd/profiler_util.py
#| upstream: torch/autograd/profiler_util.py#FunctionEvent
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


# %%
#| into: autograd/profiler_util.py
#| upstream: torch/autograd/profiler_util.py#FunctionEventAvg
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


# %% [markdown]
# ## The list
#
# Who called whom is not recorded: `_build_tree` finds it. Sorted by begin, the longer first, an event belongs to the last one that has not ended before it ends. One that calls only another of its own name (an operator and its overload)
# counts once.


# %%
#| into: autograd/profiler_util.py
#| upstream: torch/autograd/profiler_util.py#EventList
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


# %% [markdown]
# ## The table
#
# Its columns are upstream's for a CPU. `cuda` in `sort_by` is an older word for `device`; all such times are 0 here.


# %%
#| into: autograd/profiler_util.py
#| upstream: torch/autograd/profiler_util.py#_build_table
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


# %% [markdown]
# ## Recording
#
# `_Recorder` stands in the observer's slot while a profile runs, and hands on what it sees to whoever stood there before: a trace of these pages, or a profile around this one. It keeps what is cheap to keep; names, trees and sums come when
# they are asked for.
#
# `profile_memory` counts the bytes of results that an operator did not get from its inputs. (Upstream counts at the allocator, so that what an operator needs in between and gives back shows there, and not here.) A node of a backward pass
# works on raw arrays, so that there are fewer operators below it than upstream, and no step of the engine around it.

# %%
#| into: autograd/profiler.py
"""The older interface of the profiler, on which `torch.profiler` stands."""

# %%
#| into: autograd/profiler.py
#| imports
from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from readtorch import _C
from readtorch.aten import record_function as _record_function
from readtorch.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg


# %%
#| into: autograd/profiler.py
def kineto_available() -> bool:
    """False: nothing is measured but what this module measures."""
    return False


_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def _places(frame: FrameType | None) -> list[str]:
    """Where the program stands outside the library, the innermost first."""
    found = []
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found


def _shape(value: Any) -> list:
    if isinstance(value, (list, tuple)) and value and all(hasattr(each, "shape") for each in value):
        return [list(each.shape) for each in value]
    return list(getattr(value, "shape", ()))


def _allocated(inputs: tuple, outputs: Any) -> tuple[int, int]:
    """The bytes of storages of `outputs` that are none of `inputs`': on the CPU, on a device."""
    given = {storage.data_ptr() for storage in _storages(inputs)}
    fresh = {storage.data_ptr(): storage for storage in _storages(outputs)}
    sizes = [0, 0]
    for address in fresh.keys() - given:
        sizes[fresh[address].device.type != "cpu"] += fresh[address].nbytes()
    return sizes[0], sizes[1]


def _storages(value: Any) -> list[Any]:
    if isinstance(value, _C.TensorBase):
        return [] if value.is_sparse or value.is_meta else [value.untyped_storage()]
    return [storage for each in value for storage in _storages(each)] if isinstance(value, (list, tuple)) else []


def _flops(name: str, shapes: list[list]) -> int | None:
    """What upstream's formulas say of products, sums and convolutions; None for any other operator."""
    match name:
        case "aten::mm" | "aten::bmm":
            return 2 * math.prod(shapes[0]) * shapes[1][-1]
        case "aten::addmm" | "aten::baddbmm":
            return 2 * math.prod(shapes[1]) * shapes[2][-1]
        case "aten::mul" | "aten::add":
            return math.prod(shapes[0])
    return None


# %%
#| into: autograd/profiler.py
class _Recorder:
    """What a running profile has seen, and whom it stands before."""

    def __init__(self, owner: profile) -> None:
        self.owner = owner
        self.rows: list[tuple[str, int, int, int, int, list, list[str], tuple[int, int], int | None]] = []
        self.before = _record_function.observer
        self.begin = time.perf_counter_ns()

    def _keep(
        self, name: str, begin: int, end: int, scope: int, inputs: tuple, memory: tuple[int, int], flops: Any
    ) -> None:
        shapes = [_shape(value) for value in inputs] if self.owner.record_shapes else []
        stack = _places(sys._getframe(2)) if self.owner.with_stack else []
        self.rows.append((name, threading.get_ident(), begin, end, scope, shapes, stack, memory, flops))

    def operator(self, name: str, inputs: tuple, outputs: Any, begin_ns: int, end_ns: int) -> None:
        memory = _allocated(inputs, outputs) if self.owner.profile_memory else (0, 0)
        flops = _flops(name, [_shape(value) for value in inputs]) if self.owner.with_flops else None
        if name == "aten::convolution" and self.owner.with_flops:
            flops = 2 * math.prod(outputs.shape) * math.prod(inputs[1].shape[1:])
        self._keep(name, begin_ns, end_ns, 0, inputs, memory, flops)
        if self.before is not None:
            self.before.operator(name, inputs, outputs, begin_ns, end_ns)

    def node(self, node: Any, grads_in: tuple, grads_out: tuple, begin_ns: int, end_ns: int) -> None:
        memory = (0, 0)
        if self.owner.profile_memory:
            known = {id(grad) for grad in grads_in}
            memory = (sum(grad.nbytes for grad in grads_out if grad is not None and id(grad) not in known), 0)
        self._keep(node.name(), begin_ns, end_ns, 1, grads_in, memory, None)
        if self.before is not None:
            self.before.node(node, grads_in, grads_out, begin_ns, end_ns)

    def block(self, name: str, begin_ns: int, end_ns: int) -> None:
        """A block under `record_function` has ended."""
        self._keep(name, begin_ns, end_ns, 7, (), (0, 0), None)
        if isinstance(self.before, _Recorder):
            self.before.block(name, begin_ns, end_ns)

    def alloc(self, storage: Any) -> None:
        if self.before is not None:
            self.before.alloc(storage)

    def events(self) -> EventList:
        """The events in the order of their begin, with their calls."""
        owner = self.owner
        found = EventList(profile_memory=owner.profile_memory, with_flops=owner.with_flops)
        for number, (name, thread, begin, end, scope, shapes, stack, memory, flops) in enumerate(self.rows):
            start, stop = (begin - self.begin) / 1e3, (end - self.begin) / 1e3
            cpu, device = memory
            found.append(FunctionEvent(number, name, thread, start, stop, shapes, stack, scope, cpu, device, flops))
        found._build_tree()
        return found


# %% [markdown]
# `record_function` names a block of the program. It works as a decorator too, costs two readings of a clock, and leaves nothing where no profile runs.


# %%
#| into: autograd/profiler.py
#| upstream: torch/autograd/profiler.py#record_function
class record_function(contextlib.ContextDecorator):
    """A block that appears in profiles as `name`. As a decorator: each call of the function."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._begun: list[int] = []

    def __enter__(self) -> Self:
        self._begun.append(time.perf_counter_ns())
        return self

    def __exit__(self, *error: object) -> None:
        begin = self._begun.pop()
        observer = _record_function.observer
        if isinstance(observer, _Recorder) and begin >= observer.begin:
            observer.block(self.name, begin, time.perf_counter_ns())


# %%
#| into: autograd/profiler.py
#| upstream: torch/autograd/profiler.py#profile
class profile:
    """Record every operator and backward node that runs inside, with its time on the CPU.

    `record_shapes`, `with_stack`, `profile_memory` and `with_flops` keep more of each. Other options choose devices and
    forms of upstream's recording. With `enabled=False` nothing is recorded. RuntimeError when entered twice.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        **options: Any,
    ) -> None:
        self.enabled = enabled
        self.record_shapes, self.with_stack = record_shapes or with_flops, with_stack
        self.profile_memory, self.with_flops = profile_memory, with_flops
        self.entered = False
        self.profiling_start_time_ns = self.profiling_end_time_ns = 0
        self._recorder: _Recorder | None = None
        self._events: EventList | None = None
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._recorder = _Recorder(self)
        self.profiling_start_time_ns = self._recorder.begin
        _record_function.observer = self._recorder
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        recorder = self._recorder
        if recorder is not None:
            before = recorder.before
            if _record_function.observer is recorder:
                _record_function.observer = before
            self.profiling_end_time_ns = time.perf_counter_ns()

    @property
    def function_events(self) -> EventList:
        """All events, in the order of their begin."""
        if self._events is None:
            self._events = EventList() if self._recorder is None else self._recorder.events()
        return self._events

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._recorder is None else repr(self.function_events)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._recorder is None else str(self.function_events)

    def table(self, *args: Any, **kwargs: Any) -> str:
        """`EventList.table` of all events."""
        return self.function_events.table(*args, **kwargs)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """`EventList.key_averages` of all events."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """One sum over everything."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """All time that was measured, in microseconds."""
        return self.function_events.self_cpu_time_total

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """`EventList.export_stacks` of all events."""
        self.function_events.export_stacks(path, metric)

    def export_chrome_trace(self, path: Any) -> None:
        """Write the intervals for `chrome://tracing` or Perfetto; compressed if `path` ends in `.gz`."""
        events = self.function_events._trace_events(os.getpid())
        trace = {"schemaVersion": 1, "displayTimeUnit": "ms", **self._metadata, "traceEvents": events}
        text = json.dumps(trace).encode()
        Path(path).write_bytes(gzip.compress(text) if str(path).endswith(".gz") else text)


# %%
#| into: autograd/__init__.py
from readtorch.autograd import profiler as profiler

# %%
weight, images = torch.ones(4, 3, requires_grad=True), torch.ones(5, 3)
with torch.autograd.profiler.profile(record_shapes=True) as seen:
    with torch.autograd.profiler.record_function("forward"):
        loss = (images @ weight.t()).sum()
    loss.backward()
for event in seen.function_events:
    parent = event.cpu_parent.name if event.cpu_parent else "–"
    print(f"{event.name:32} {parent:14} {event.input_shapes}")


# %%
#| claim: a profile counts operators and nodes of the backward pass; a block is the parent of what ran in it
#| upstream: torch/autograd/profiler.py#profile
def _(torch):
    profiler = torch.autograd.profiler
    weight = torch.ones(4, 3, requires_grad=True)
    with profiler.profile(record_shapes=True, profile_memory=True) as seen:
        with profiler.record_function("forward"):
            loss = torch.mm(torch.ones(5, 3), weight.t()).relu().relu().sum()
        loss.backward()
    totals = {total.key: total for total in seen.key_averages()}
    assert totals["aten::relu"].count == 2 and totals["forward"].count == 1 and totals["MmBackward0"].count == 1
    assert totals["aten::mm"].cpu_memory_usage >= 5 * 4 * 4
    (product,) = [e for e in seen.function_events if e.name == "aten::mm" and e.input_shapes[0] == [5, 3]]
    assert product.input_shapes == [[5, 3], [3, 4]] and product.cpu_parent.name == "forward"
    block = totals["forward"]
    assert block.cpu_time_total >= block.self_cpu_time_total >= 0
    assert block.cpu_time_total >= product.cpu_time_total > 0
    table = seen.key_averages().table(sort_by="cpu_time_total", row_limit=3, header="three")
    assert "three" in table and "Self CPU %" in table and "Self CPU time total" in table
    assert table.count("Backward0") + table.count("aten::") + table.count("forward") <= 4
    try:
        with seen:
            pass
    except RuntimeError as error:
        assert "not reentrant" in str(error)
    else:
        raise AssertionError
    with profiler.profile(enabled=False) as none:
        pass
    assert none is None


# %%
#| claim: products count two operations for each pair of numbers; `record_function` decorates, and costs nothing to code that no profile watches
#| upstream: torch/autograd/profiler.py#record_function
def _(torch):
    @torch.autograd.profiler.record_function("twice")
    def twice(x):
        return torch.mm(torch.mm(x, x), x)

    x = torch.ones(3, 3)
    twice(x)
    with torch.autograd.profiler.profile(with_flops=True) as seen:
        twice(x)
    totals = {total.key: total for total in seen.key_averages()}
    assert totals["aten::mm"].flops == 2 * 2 * 27 and totals["twice"].count == 1
    assert seen.total_average().key == "Total" and seen.self_cpu_time_total > 0
