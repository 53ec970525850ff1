"""`trace(…)`: the context manager that records."""

from __future__ import annotations

import datetime
import gc
import os
import platform
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import perf_counter_ns
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from readtorch.literate.trace import gpu
from readtorch.literate.trace.document import Trace
from readtorch.literate.trace.encode import encode
from readtorch.literate.trace.events import LINE, MAX_EVENTS, NODE, OP, RETURN, SET
from readtorch.literate.trace.recorder import Recorder
from readtorch.literate.trace.scope import LITERATE, Locate, Scope, find_roots

LAYERS = ("calls", "lines", "ops", "autograd", "alloc", "queues", "comm", "kernels")
DEFAULT = ("calls", "lines", "ops", "autograd")

_running = threading.Lock()


class _FewerCollections:
    """Keeps the garbage collector from running for the recorder's sake.

    It runs when so many objects more were made than freed, and a recording keeps several per event: the collector would run many
    times as often as it does without, and take a quarter of the time that recording operators costs.
    """

    FACTOR = 16

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        self._raised = (self._before[0] * self.FACTOR, *self._before[1:])
        gc.set_threshold(*self._raised)

    def end(self) -> None:
        """As before, unless the recorded code has set it itself. May be called twice."""
        if gc.get_threshold() == self._raised:
            gc.set_threshold(*self._before)


class Recording:
    """What `trace` returns: records while entered, and leaves a `Trace`."""

    def __init__(
        self,
        packages: tuple[str, ...],
        layers: Iterable[str],
        values: str,
        steps: int | None,
        title: str,
        namespace: Mapping[str, Any] | None,
        locate: Locate | None,
        script: str | Path | None,
        mechanism: str | None,
        mask: bool = True,
    ) -> None:
        chosen = frozenset(layers)
        unknown = chosen - set(LAYERS)
        if unknown:
            raise ValueError(f"trace: no layer {sorted(unknown)[0]!r} (there are {', '.join(LAYERS)})")
        if values not in ("no", "summary"):
            raise ValueError(f"trace: values is 'no' or 'summary', got {values!r}")
        if steps is not None and steps < 1:
            raise ValueError(f"trace: steps is a positive number, got {steps}")
        for name in packages:
            find_roots(name)
        self._packages = packages
        self._layers = chosen | {"calls"} if "lines" in chosen else chosen
        self._values = values
        self._steps = steps
        self._title = title
        self._namespace = namespace
        self._locate = locate
        self._script = None if script is None else str(Path(script).resolve())
        self._mechanism = mechanism
        self._mask = mask
        self._trace = Trace()

    def __enter__(self) -> Trace:
        if not _running.acquire(blocking=False):
            raise RuntimeError("trace: a recording is already running; end it before beginning another")
        try:
            self._start(sys._getframe(1))
        except BaseException:
            _running.release()
            raise
        return self._trace

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._finish(isinstance(error, RecursionError))
        finally:
            _running.release()

    def _start(self, caller: FrameType) -> None:
        own = self._namespace is None and self._script is None
        frame = _outside(caller) if own else None
        namespace = frame.f_globals if frame is not None else self._namespace
        self._frame, self._line = frame, frame.f_lineno if frame is not None else 0
        scope = Scope(
            self._packages,
            values=self._values == "summary",
            namespace=namespace,
            script=self._script,
            locate=self._locate,
            mask=self._mask,
        )
        recorder = Recorder(
            scope, self._layers, values=self._values == "summary", limit=MAX_EVENTS, steps=self._steps, mask=self._mask
        )
        self._recorder = recorder
        self._source = _mechanism(self._mechanism)(recorder) if "calls" in self._layers else None
        self._slot: Any = _observer_slot() if self._layers & {"ops", "autograd", "alloc", "kernels"} else None
        self._gpu = gpu.source() if "kernels" in self._layers else None
        self._observer = _Observer(recorder, self._layers, self._gpu)
        if self._gpu is not None:
            self._gpu.start()
        recorder.on_stop = self._stop
        self._collections = _FewerCollections()
        self._begin = perf_counter_ns()
        if self._slot is not None:
            self._slot.observer = self._observer
        if self._source is not None:
            try:
                self._source.start(frame)
            except BaseException:
                self._stop()
                raise

    def _stop(self) -> None:
        self._collections.end()
        if self._source is not None:
            self._source.stop()
        if self._slot is not None and self._slot.observer is self._observer:
            self._slot.observer = None

    def _finish(self, overflow: bool) -> None:
        """`overflow`: a RecursionError ends the block, after which there was nothing left to record."""
        recorder = self._recorder
        self._stop()
        if self._source is not None and self._source.lost and not overflow:
            recorder.stopped = recorder.stopped or self._source.lost
        if self._frame is not None and self._source is not None and not recorder.stopped:
            self._close_caller(recorder.events)
        spans = [] if self._gpu is None else self._gpu.stop()
        self._trace.document = encode(recorder, self._meta(), self._begin, spans)
        del self._recorder, self._frame

    def _close_caller(self, events: list[Any]) -> None:
        """The `with` statement is passed once more on the way out: show the end of the block there instead."""
        home = self._recorder.home
        at = len(events) - 1
        while at >= 0 and isinstance(events[at], tuple) and events[at][0] == SET:
            at -= 1
        if at >= 0 and events[at] in (self._line, (LINE, home, self._line)):
            del events[at]
        events.append((RETURN, home, perf_counter_ns(), None))

    def _meta(self) -> dict[str, Any]:
        from readtorch.literate._version import __version__

        return {
            "title": self._title,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "readtorch": __version__,
            "recorder": self._source.name if self._source is not None else "observer",
            "clock": "host" if self._gpu is None else self._gpu.clock,
            **_device(self._gpu),
            "packages": list(self._recorder.scope.packages),
            "layers": [layer for layer in LAYERS if layer in self._layers],
            "values": self._values,
        }


class _Observer:
    """Hands on what the chosen layers want; the library calls these four for everything."""

    def __init__(self, recorder: Recorder, layers: frozenset[str], source: gpu.Source | None) -> None:
        self.operator = recorder.observer(OP) if "ops" in layers else _ignore
        self.copy = _ignore
        if source is not None:
            watch = gpu.Watch(source, recorder.events.__len__)
            self._recorded, self._watch = self.operator, watch
            self.operator, self.copy = self._operator, watch.copy
        self._node = recorder.observer(NODE)
        self.node = self._named if "autograd" in layers else _ignore
        self.alloc = recorder.alloc if "alloc" in layers else _ignore

    def _operator(self, name: str, inputs: Any, outputs: Any, begin_ns: int, end_ns: int) -> None:
        self._recorded(name, inputs, outputs, begin_ns, end_ns)
        self._watch.operator(name, outputs, begin_ns, end_ns)

    def _named(self, node: Any, grads_in: Any, grads_out: Any, begin_ns: int, end_ns: int) -> None:
        self._node(node.name(), grads_in, grads_out, begin_ns, end_ns)


def _device(source: gpu.Source | None) -> dict[str, str]:
    if source is None:
        return {}
    from readtorch import cuda

    return {"device": cuda.get_device_name()}


def _ignore(*args: Any) -> None:
    return None


def _observer_slot() -> Any:
    """The module of the library that holds `observer`, None as long as there is none."""
    try:
        from readtorch.aten import record_function
    except ImportError:
        return None
    return record_function


def _mechanism(name: str | None) -> Any:
    from readtorch.literate.trace.settrace import SetTrace

    wanted = name or os.environ.get("READTORCH_TRACE_RECORDER") or "sys.monitoring"
    if wanted == SetTrace.name or sys.version_info < (3, 12):
        return SetTrace
    if wanted != "sys.monitoring":
        raise ValueError(f"trace: no recorder {wanted!r} (there are sys.monitoring and sys.settrace)")
    from readtorch.literate.trace.monitoring import Monitoring

    return Monitoring


def _outside(frame: FrameType) -> FrameType:
    """The frame whose `with` this is, past the standard library's ExitStack."""
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(LITERATE) or frame.f_globals.get("__name__") == "contextlib"
    ):
        frame = frame.f_back
    return frame
