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

from readtorch.literate.trace.events import CALL, RETURN, UNWIND, YIELD
from readtorch.literate.trace.recorder import Recorder
from readtorch.literate.trace.scope import CodeInfo, Scope

NAME = "sys.monitoring"


class Monitoring:
    """Feeds a recorder while started."""

    name = NAME
    lost = ""
    """Why the recording ended unasked: nothing ends this one."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]  # new in 3.12
        self._watched: list[CodeType] = []
        self._tool = -1
        self._alone = False
        """Only the thread that began the recording has run recorded code."""

    def start(self, frame: FrameType | None) -> None:
        """Begin with the next event; `frame` is recorded too although it is running already."""
        monitoring, events = self._monitoring, self._monitoring.events
        self._tool = self._free_tool()
        monitoring.use_tool_id(self._tool, "readtorch.trace")
        self._alone = self._recorder.brief and not _others_inside(self._recorder.scope)
        for event, callback in self._callbacks(events).items():
            monitoring.register_callback(self._tool, event, callback)
        local = events.PY_RETURN | events.PY_YIELD
        self._local = local | events.LINE if self._recorder.lines else local
        self._recorder.scope.on_wider = monitoring.restart_events
        monitoring.restart_events()  # what an earlier recording did not want may be wanted by this one
        if frame is not None:
            info = self._recorder.scope.add(frame.f_code)
            self._recorder.call(info, frame, running=True)
            info.watched = True
            self._watch(frame.f_code)
        everywhere = events.PY_START | events.PY_RESUME | events.PY_THROW | events.PY_UNWIND
        monitoring.set_events(self._tool, everywhere)

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
        recorder, scope, home = self._recorder, self._recorder.scope, get_ident()
        disable, frame_of = self._monitoring.DISABLE, sys._getframe
        known, noted = scope.by_id, recorder.events

        def wanted(code: CodeType, frame: FrameType) -> CodeInfo | None:
            info = known.get(id(code), _UNKNOWN)
            if info is _UNKNOWN:
                info = scope.info(code, frame)
            if info is not None:
                if not info.watched and self._tool >= 0:
                    info.watched = True
                    self._watch(code)
                if self._alone and get_ident() != home:
                    self._share()
            return info

        # Where the stack has no room for more than the callback itself, it notes the bare event: see Recorder.

        def start(code: CodeType, offset: int) -> Any:
            try:
                info = wanted(code, frame_of(1))
                if info is None:
                    return disable
                recorder.call(info, frame_of(1))
            except RecursionError:
                info = known.get(id(code))
                if info is not None and info.watched:
                    noted.append((CALL, get_ident(), perf_counter_ns(), info, None, "", 0))
            return None

        def resume(code: CodeType, offset: int) -> Any:
            try:
                info = wanted(code, frame_of(1))
                if info is None:
                    return disable
                recorder.resume(info, frame_of(1))
            except RecursionError:
                info = known.get(id(code))
                if info is not None and info.watched:
                    noted.append((CALL, get_ident(), perf_counter_ns(), info, None, "", 0))
            return None

        def throw(code: CodeType, offset: int, error: BaseException) -> None:
            try:
                info = wanted(code, frame_of(1))
                if info is not None:
                    recorder.resume(info, frame_of(1))
            except RecursionError:
                info = known.get(id(code))
                if info is not None and info.watched:
                    noted.append((CALL, get_ident(), perf_counter_ns(), info, None, "", 0))

        def suspend(code: CodeType, offset: int, value: object) -> None:
            try:
                recorder.leave(YIELD, known[id(code)], frame_of(1), value)  # type: ignore[arg-type]  # an object of code that was entered has an entry
            except RecursionError:
                noted.append((YIELD, get_ident(), perf_counter_ns(), None))

        def unwind(code: CodeType, offset: int, error: BaseException) -> None:
            info = known.get(id(code))
            if info is None or not info.watched:
                return
            try:
                recorder.leave(UNWIND, info, frame_of(1), error)
            except RecursionError:
                noted.append((UNWIND, get_ident(), perf_counter_ns(), None))

        line, leave = self._alone_callbacks() if self._alone else self._full_callbacks()
        return {
            events.PY_START: start,
            events.PY_RESUME: resume,
            events.PY_THROW: throw,
            events.LINE: line,
            events.PY_RETURN: leave,
            events.PY_YIELD: suspend,
            events.PY_UNWIND: unwind,
        }

    def _full_callbacks(self) -> tuple[Any, Any]:
        recorder, known, frame_of = self._recorder, self._recorder.scope.by_id, sys._getframe

        def line(code: CodeType, number: int) -> None:
            try:
                recorder.line(known[id(code)], frame_of(1), number)  # type: ignore[arg-type]  # an object of code that was entered has an entry
            except RecursionError:
                return

        def leave(code: CodeType, offset: int, value: object) -> None:
            try:
                recorder.leave(RETURN, known[id(code)], frame_of(1), value)  # type: ignore[arg-type]  # an object of code that was entered has an entry
            except RecursionError:
                recorder.events.append((RETURN, get_ident(), perf_counter_ns(), None))

        return line, leave

    def _alone_callbacks(self) -> tuple[Any, Any]:
        """For lines and returns, which are nearly all events, as long as one thread is recorded and no values are wanted."""
        recorder, limit = self._recorder, self._recorder.limit
        events, now = recorder.events, perf_counter_ns  # `len(events)` and `events.append` are quicker than both bound

        def line(code: CodeType, number: int) -> None:
            if len(events) < limit:
                events.append(number)
                return
            try:
                recorder.full()
            except RecursionError:  # the next event tries again
                return

        def leave(code: CodeType, offset: int, value: object) -> None:
            if len(events) < limit:
                events.append(-now())
                return
            try:
                recorder.full()
            except RecursionError:
                return

        return line, leave

    def _share(self) -> None:
        """Another thread runs recorded code: from now on every event says whose it is."""
        self._alone = False
        line, leave = self._full_callbacks()
        events = self._monitoring.events
        if self._tool >= 0:
            self._monitoring.register_callback(self._tool, events.LINE, line)
            self._monitoring.register_callback(self._tool, events.PY_RETURN, leave)


def _others_inside(scope: Scope) -> bool:
    """Whether another thread is in recorded code already."""
    here = get_ident()
    for thread, innermost in sys._current_frames().items():
        frame: FrameType | None = innermost if thread != here else None
        while frame is not None:
            if scope.info(frame.f_code, frame) is not None:
                return True
            frame = frame.f_back
    return False


_UNKNOWN = CodeInfo.unknown()
