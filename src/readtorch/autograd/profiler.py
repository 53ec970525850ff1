# Tangled from chapters/01_import/8f_profiler.py — edit there, or here and run `readtorch sync`.
"""The older interface of the profiler, on which `torch.profiler` stands."""

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
