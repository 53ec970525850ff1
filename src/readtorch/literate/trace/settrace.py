"""Calls and lines through `sys.settrace` (Python 3.11, or on demand)."""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from types import FrameType
from typing import Any

from readtorch.literate.trace.events import CALL, RETURN, UNWIND, YIELD
from readtorch.literate.trace.guards import Guards, open_calls
from readtorch.literate.trace.recorder import Recorder
from readtorch.literate.trace.scope import CodeInfo

NAME = "sys.settrace"

_RETURN_OPS = frozenset(dis.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in dis.opmap)
_YIELD_OPS = frozenset({dis.opmap["YIELD_VALUE"], dis.opmap["RESUME"]})
"""Where a suspended frame stands: at the yield, from 3.13 on at what follows it."""


class SetTrace:
    """Feeds a recorder while started. Threads started meanwhile are recorded; those already running are not."""

    name = NAME

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._active = False
        self._frame: FrameType | None = None
        self._before: tuple[Any, Any] = (None, None)
        self._errors: dict[int, tuple[BaseException, FrameType, int, int]] = {}
        """by thread: the last exception, the frame that saw it, its instruction, the number of events then"""
        self.lost = ""
        """Why the recording ended unasked: Python had removed the trace function, and nothing put it back."""
        self._guards = Guards(self._again)
        self._call, self._home_call, self._local, self._brief = self._functions()
        self._guards.fill(self._local)

    def start(self, frame: FrameType | None) -> None:
        """Begin with the next event; `frame` is recorded too although it is running already."""
        self._active = True
        self._before = (sys.gettrace(), threading.gettrace())
        if frame is not None:
            self._frame = frame
            info = self._recorder.scope.add(frame.f_code)
            self._recorder.call(info, frame, running=True)
            frame.f_trace_lines = self._recorder.lines
            frame.f_trace = self._local if info.suspends else self._brief
        threading.settrace(self._call)
        sys.settrace(self._home_call)

    def stop(self) -> None:
        """No event after this (other threads stop at their next event). May be called twice."""
        if not self._active:
            return
        own, others = self._before
        current = sys.gettrace()
        if current is self._call or current is self._home_call:
            sys.settrace(own)
        elif current is None and get_ident() == self._recorder.home:
            self._close_lost(get_ident())
            self.lost = "recursion" if self._guards.out else "tracer"
        self._active = False
        self._guards.end()
        threading.settrace(others)
        if self._frame is not None:
            self._frame.f_trace = None
            self._frame = None

    def _again(self) -> None:
        """Go on in a thread whose trace function Python has removed, as it does with one that found no room on the stack."""
        if not self._active or sys.gettrace() is not None:
            return
        thread = get_ident()
        self._close_lost(thread)
        sys.settrace(self._home_call if thread == self._recorder.home else self._call)

    def _close_lost(self, thread: int) -> None:
        """End the calls whose end was not told: those noted as running in `thread` that are not on its stack."""
        running = open_calls(self._recorder.events, thread, self._recorder.home)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            running -= self._guards.records(frame, (self._local, self._brief))
            frame = frame.f_back
        ends = [(UNWIND, thread, perf_counter_ns(), None)] * running
        self._recorder.events += ends

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        """What is told of calls, of those in the thread that began, of events in a frame, of those in a plain frame of it."""
        recorder, scope = self._recorder, self._recorder.scope
        known, events, lines = scope.by_id, recorder.events, recorder.lines
        errors, mutes = self._errors, self._guards.mutes

        def call(frame: FrameType, event: str, value: Any) -> Any:
            try:
                if not self._active:
                    sys.settrace(None)
                    return None
                code = frame.f_code
                try:
                    info = known[id(code)]
                except KeyError:
                    info = scope.info(code, frame)
                if info is None:
                    return None
                if not lines:
                    frame.f_trace_lines = False
                if info.suspends:
                    recorder.resume(info, frame)
                    return local
                recorder.call(info, frame)
                return local
            except RecursionError:  # nothing was noted, and nothing is of this frame
                frame.f_trace = None  # a generator has one from its last run
                for guard in mutes[-1:]:  # without any call: there is no room for one
                    del mutes[-1:]
                    return guard
                return None

        def local(frame: FrameType, event: str, value: Any) -> Any:
            try:
                if event == "line":
                    recorder.line(known[id(frame.f_code)], frame, frame.f_lineno)  # type: ignore[arg-type]  # an object of code that was entered has an entry
                elif event == "return":
                    left(known[id(frame.f_code)], frame, value)  # type: ignore[arg-type]  # an object of code that was entered has an entry
                elif event == "exception":
                    errors[get_ident()] = (value[1], frame, frame.f_lasti, len(events))
            except RecursionError:
                if event == "return":  # the bare event, as exactly as can be told here
                    operation = known[id(frame.f_code)].bytecode[frame.f_lasti]  # type: ignore[union-attr]  # code that was entered has an entry
                    kind = RETURN if operation in _RETURN_OPS else YIELD if operation in _YIELD_OPS else UNWIND
                    events.append((kind, get_ident(), perf_counter_ns(), None))
            return local

        def left(info: CodeInfo, frame: FrameType, value: Any) -> None:
            """Python reports a return of None when an exception leaves a frame; the instruction tells which it is."""
            operation = info.bytecode[frame.f_lasti]
            if operation in _RETURN_OPS:
                recorder.leave(RETURN, info, frame, value)
                return
            last = errors.get(get_ident())
            if operation in _YIELD_OPS and (last is None or last[1:] != (frame, frame.f_lasti, len(events))):
                recorder.leave(YIELD, info, frame, value)
            else:
                recorder.leave(UNWIND, info, frame, last[0] if last else None)

        if not recorder.brief:
            return call, call, local, local
        brief = self._brief_local(local)
        return call, self._brief_call(call, local, brief), local, brief

    def _brief_call(
        self, call: Callable[..., Any], local: Callable[..., Any], brief: Callable[..., Any]
    ) -> Callable[..., Any]:
        """As `call`, the shortest way to where it leads nearly always; what is out of the ordinary goes the long one."""
        recorder, scope, home, limit = self._recorder, self._recorder.scope, get_ident(), self._recorder.limit
        events, now = recorder.events, perf_counter_ns  # `len(events)` and `events.append` are quicker than both bound
        known, lanes, lines, mutes = scope.by_id.get, recorder.lanes, recorder.lines, self._guards.mutes

        def brief_call(frame: FrameType, event: str, value: Any) -> Any:
            try:
                info = known(id(frame.f_code), _UNKNOWN)
                if info is None:
                    return None
                if info.plain and not scope.dispatching and len(events) < limit and home in lanes:
                    events.append((CALL, home, now(), info, None, "", 0))
                    if not lines:
                        frame.f_trace_lines = False
                    return brief
                found = call(frame, event, value)
            except RecursionError:
                frame.f_trace = None
                for guard in mutes[-1:]:
                    del mutes[-1:]
                    return guard
                return None
            return brief if found is local and not known(id(frame.f_code)).suspends else found  # type: ignore[union-attr]  # code that was entered has an entry

        return brief_call

    def _brief_local(self, local: Callable[..., Any]) -> Callable[..., Any]:
        """For frames of the thread that began the recording where no values are wanted: lines and returns, nearly all events."""
        recorder, limit = self._recorder, self._recorder.limit
        events, now = recorder.events, perf_counter_ns  # `len(events)` and `events.append` are quicker than both bound
        known = recorder.scope.by_id

        def brief(frame: FrameType, event: str, value: Any) -> Any:
            if len(events) >= limit:
                try:
                    recorder.full()
                except RecursionError:  # the next event tries again
                    return brief
                return None
            if event == "line":
                events.append(frame.f_lineno)
            elif event == "return" and (
                value is not None  # which it is when an exception leaves the frame; no generator comes here
                or known[id(frame.f_code)].bytecode[frame.f_lasti] in _RETURN_OPS  # type: ignore[union-attr]  # code that was entered has an entry
            ):
                events.append(-now())
            else:
                local(frame, event, value)
            return brief

        return brief


_UNKNOWN = CodeInfo.unknown()
