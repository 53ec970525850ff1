"""Getting back to work after a RecursionError, for `sys.settrace`.

Python removes a trace function that raises, and one raises before its first line where the stack is used up: nothing that stands
in it can prevent that. What is left to the recorder are the trace functions of single frames, which live as long as their frame.
So where the recorder sees the end of the stack coming, it gives the frame a *guard*, a function that nobody else holds: when the
error has passed and its frames are freed, the guard goes with them and what it holds calls the recorder back, in that thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from readtorch.literate.trace.events import CALL, RESUME, RETURN, UNWIND, YIELD

STEP = 10
"""Frames further out at which it is tried again where there was still no room."""

Function = Callable[[FrameType, str, Any], Any]


class _Bell:
    """Rings when it is freed."""

    __slots__ = ("guards",)
    guards: Guards

    def __del__(self) -> None:
        try:
            self.guards.ring()
        except RecursionError as error:  # still too near to the end of the stack, and no room for a call in here either
            if error.__traceback__ is not None:
                frame, left = error.__traceback__.tb_frame, STEP
                while left and frame.f_back is not None:
                    frame, left = frame.f_back, left - 1
                guards = self.guards.mutes if frame.f_trace is None else self.guards.relays
                for guard in guards[-1:]:
                    del guards[-1:]
                    frame.f_trace = guard


class Guards:
    """Guards made in advance, for there is no room to make one where it is needed; `again` is called when one goes."""

    def __init__(self, again: Callable[[], None]) -> None:
        self._again = again
        self._local: Function = _nothing
        self._open = False
        self._code: CodeType | None = None
        self.mutes: list[Function] = []
        """For frames that are not recorded."""
        self.relays: list[Function] = []
        """For frames that are: the next event puts back what was there."""

    def fill(self, local: Function) -> None:
        """Be ready; `local` is the trace function of a recorded frame."""
        self._local, self._open = local, True
        self._add()
        self._code = self.relays[0].__code__

    def end(self) -> None:
        """Nothing rings after this."""
        self._open = False
        self.mutes.clear()
        self.relays.clear()

    @property
    def out(self) -> bool:
        """Whether one stands guard at a frame."""
        return not (self.mutes and self.relays)

    def records(self, frame: FrameType, own: Iterable[Function]) -> bool:
        """Whether the events of `frame` come to one of the functions `own`, or will as soon as its guard is asked."""
        trace = frame.f_trace
        return trace is not None and (any(trace is f for f in own) or getattr(trace, "__code__", None) is self._code)

    def _add(self) -> None:
        for guards, make in ((self.mutes, _mute), (self.relays, _relay)):
            if guards:
                continue
            box: list[_Bell] = []
            guard = make(box, self._local)
            bell = object.__new__(_Bell)  # last, and by no call of Python's: one that is made in vain would ring
            bell.guards = self
            box += (bell,)
            guards += (guard,)

    def ring(self) -> None:
        """A guard is gone: call the recorder back, and have another ready."""
        if self._open:
            self._again()
            self._add()


def _nothing(frame: FrameType, event: str, value: Any) -> None:
    return None


def _mute(box: list[_Bell], local: Function) -> Function:
    def mute(frame: FrameType, event: str, value: Any, box: list[_Bell] = box) -> Any:
        return None

    return mute


def _relay(box: list[_Bell], local: Function) -> Function:
    def relay(frame: FrameType, event: str, value: Any, box: list[_Bell] = box) -> Any:
        return local(frame, event, value)

    return relay


def open_calls(events: Iterable[Any], thread: int, home: int) -> int:
    """How many calls of `thread` have begun and not ended, as the document will show them."""
    running = 0
    for event in events:
        if type(event) is int:
            if event <= 0 and thread == home:
                running = max(0, running - 1)
        elif event[1] == thread:
            if event[0] in (CALL, RESUME):
                running += 1
            elif event[0] in (RETURN, YIELD, UNWIND):
                running = max(0, running - 1)
    return running
