"""Calls and lines through `sys.monitoring` (Python 3.12 and later).

Events of lines and returns are switched on for recorded code alone, and code that is not recorded is asked about once: the rest
of the program runs at full speed.
"""

from __future__ import annotations

import sys
from threading import get_ident
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

from readtorch.literate.trace.events import LINE, RETURN, UNWIND, YIELD
from readtorch.literate.trace.recorder import Recorder
from readtorch.literate.trace.scope import CodeInfo

NAME = "sys.monitoring"


class Monitoring:
    """Feeds a recorder while started."""

    name = NAME

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        self._watched: list[CodeType] = []
        self._tool = -1

    def start(self, frame: FrameType | None) -> None:
        """Begin with the next event; `frame` is recorded too although it is running already."""
        monitoring, events = self._monitoring, self._monitoring.events
        self._tool = self._free_tool()
        monitoring.use_tool_id(self._tool, "readtorch.trace")
        for event, callback in self._callbacks(events).items():
            monitoring.register_callback(self._tool, event, callback)
        local = events.PY_RETURN | events.PY_YIELD | events.PY_RESUME
        self._local = local | events.LINE if self._recorder.lines else local
        monitoring.restart_events()  # what an earlier recording did not want may be wanted by this one
        if frame is not None:
            info = self._recorder.scope.add(frame.f_code)
            self._recorder.call(info, frame)
            self._watch(frame.f_code)
        monitoring.set_events(self._tool, events.PY_START | events.PY_UNWIND | events.PY_THROW)

    def stop(self) -> None:
        """No event after this. May be called from a callback, and twice."""
        tool, self._tool = self._tool, -1
        if tool < 0:
            return
        self._monitoring.set_events(tool, 0)
        for code in self._watched:
            self._monitoring.set_local_events(tool, code, 0)
        self._monitoring.free_tool_id(tool)

    def _free_tool(self) -> int:
        for tool in (4, 3, 5, 2):
            if self._monitoring.get_tool(tool) is None:
                return tool
        raise RuntimeError("trace: every tool id of sys.monitoring is taken by another tool")

    def _watch(self, code: CodeType) -> None:
        self._watched.append(code)
        self._monitoring.set_local_events(self._tool, code, self._local)

    def _callbacks(self, events: Any) -> dict[int, Any]:
        recorder, scope = self._recorder, self._recorder.scope
        disable, frame_of = self._monitoring.DISABLE, sys._getframe
        known = scope.by_id

        def start(code: CodeType, offset: int) -> Any:
            info = known.get(id(code), _UNKNOWN)
            if info is None:
                return disable
            frame = frame_of(1)
            if info is _UNKNOWN:
                info = scope.info(code, frame)
                if info is None:
                    return disable
            if self._tool >= 0:
                if not info.watched:
                    info.watched = True
                    self._watch(code)
                recorder.call(info, frame)
            return None

        def resume(code: CodeType, offset: int) -> None:
            info = known.get(id(code))
            if info is not None:
                recorder.resume(info, frame_of(1))

        def throw(code: CodeType, offset: int, error: BaseException) -> None:
            resume_from = known.get(id(code))
            if resume_from is not None:
                recorder.resume(resume_from, frame_of(1))

        def line(code: CodeType, number: int) -> None:
            recorder.line(known[id(code)], frame_of(1), number)  # type: ignore[arg-type]

        def leave(code: CodeType, offset: int, value: object) -> None:
            recorder.leave(RETURN, known[id(code)], frame_of(1), value)  # type: ignore[arg-type]

        def suspend(code: CodeType, offset: int, value: object) -> None:
            recorder.leave(YIELD, known[id(code)], frame_of(1), value)  # type: ignore[arg-type]

        def unwind(code: CodeType, offset: int, error: BaseException) -> None:
            info = known.get(id(code))
            if info is not None:
                recorder.leave(UNWIND, info, frame_of(1), error)

        brief_line, brief_leave = self._brief()
        return {
            events.PY_START: start,
            events.PY_RESUME: resume,
            events.PY_THROW: throw,
            events.LINE: line if recorder.values else brief_line,
            events.PY_RETURN: leave if recorder.values else brief_leave,
            events.PY_YIELD: suspend,
            events.PY_UNWIND: unwind,
        }

    def _brief(self) -> tuple[Any, Any]:
        """The callbacks for lines and returns where no values are wanted: most events, so they take the shortest way."""
        recorder = self._recorder
        events, append = recorder.events, recorder.events.append

        def line(code: CodeType, number: int) -> None:
            if len(events) < recorder.limit:
                append((LINE, get_ident(), perf_counter_ns(), number))
            else:
                recorder.full()

        def leave(code: CodeType, offset: int, value: object) -> None:
            if len(events) < recorder.limit:
                append((RETURN, get_ident(), perf_counter_ns(), None))
            else:
                recorder.full()

        return line, leave


_UNKNOWN = CodeInfo.unknown()
