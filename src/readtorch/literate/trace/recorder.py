"""The recorder: what to note when code is entered, moves to a line, is left, or an operator runs.

`Recorder` is independent of how Python tells about it; `monitoring.py` and `settrace.py` are the two ways. Operators, autograd
nodes and allocations come through the library's observer slot and need neither.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable
from functools import partial
from threading import get_ident
from time import perf_counter_ns
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from readtorch.literate.trace.describe import Describer
from readtorch.literate.trace.document import Trace
from readtorch.literate.trace.events import (
    ALLOC,
    CALL,
    LINE,
    MARK,
    RESUME,
    SET,
    UNWIND,
    YIELD,
)
from readtorch.literate.trace.scope import CodeInfo, Scope, without_machine_paths


class Recorder:
    """Collects raw events until `limit` of them, or `steps` steps, are there."""

    def __init__(self, scope: Scope, layers: frozenset[str], *, values: bool, limit: int, steps: int | None) -> None:
        self.scope = scope
        self.layers = layers
        self.events: list[tuple[Any, ...] | int] = []
        self.describe = Describer(summary=values)
        self.stopped = ""
        """Why recording ended before the code did: "events", "steps" or ""."""
        self.lines = "lines" in layers
        self.values = values
        self.limit = min(limit, steps or limit)
        """Of `events`. What is no step of its own raises it, up to the hard stop."""
        self.lanes: dict[int, tuple[str, str]] = {}
        """thread: (name, kind) for the threads that were seen"""
        self.brief = not values and "alloc" not in layers
        """Every event is a step and needs no value: lines and returns of the first thread may be bare numbers."""
        self.home = get_ident()
        self.on_stop: Callable[[], None] = lambda: None
        self._hard_limit = limit
        self._frames = 0
        self._suspended: dict[int, tuple[FrameType, int]] = {}
        self._locals: dict[int, dict[str, tuple[Any, int, Any]]] = {}
        """id of a frame: name to (value if it is one that cannot change, index, number and stamp of a tensor)"""
        self._lock = threading.Lock()

    # -- frames ----------------------------------------------------------------------------------------------------------

    def call(self, info: CodeInfo, frame: FrameType) -> None:
        """A frame of recorded code begins."""
        if len(self.events) >= self.limit and self.full():
            return
        thread = get_ident()
        if thread not in self.lanes:
            self.lanes[thread] = _lane(thread)
        if info.plain and not self.scope.dispatching:
            self.events.append((CALL, thread, perf_counter_ns(), info, None, "", 0))
            return
        module = self.describe.module(frame.f_locals.get("self")) if info.method else None
        hook = ""
        if module is None and self.scope.dispatching and not info.dispatches:
            module, hook = self._hook(info.code, frame.f_back)
        number = self._number(frame) if info.suspends else 0
        self.events.append((CALL, thread, perf_counter_ns(), info, module, hook, number))
        if info.values:
            self._locals[id(frame)] = {}
            self.variables(info, frame)

    def line(self, info: CodeInfo, frame: FrameType, line: int) -> None:
        """The frame is about to run `line`."""
        if len(self.events) >= self.limit and self.full():
            return
        if info.values:
            self.variables(info, frame)
        self.events.append((LINE, get_ident(), line))

    def leave(self, kind: int, info: CodeInfo, frame: FrameType | None, value: Any) -> None:
        """The frame returns, yields or is unwound."""
        if len(self.events) >= self.limit and self.full():
            return
        index = None
        if info.values and frame is not None:
            self.variables(info, frame)
            index = self.describe.index(value)
            if kind != YIELD:
                self._locals.pop(id(frame), None)
        elif kind == UNWIND:
            index = self.describe.index(value)
        if kind != YIELD and info.suspends and frame is not None:
            self._suspended.pop(id(frame), None)
        self.events.append((kind, get_ident(), perf_counter_ns(), index))

    def resume(self, info: CodeInfo, frame: FrameType) -> None:
        """A generator or coroutine goes on. One that began before the recording did is shown as called."""
        known = self._suspended.get(id(frame))
        if known is None or known[0] is not frame:
            self.call(info, frame)
        elif not self.full():
            self.events.append((RESUME, get_ident(), perf_counter_ns(), known[1]))

    def variables(self, info: CodeInfo, frame: FrameType) -> None:
        """Note the variables of `frame` whose description has changed.

        Nearly all are as they were a line ago. An object that cannot change is known by identity, a tensor by its number and
        stamp; only the rest is described again to see.
        """
        seen = self._locals.setdefault(id(frame), {})
        space = frame.f_locals
        describe = self.describe
        kind_of, known_of, describer = describe.kinds.get, describe.tensors.known.get, describe.index
        for name in info.names:
            before = seen.get(name)
            try:
                value = space[name]
            except KeyError:
                if before is not None:
                    del seen[name]
                    self._aside((SET, get_ident(), name, describe.unbound))
                continue
            stamp: Any = None
            if before is not None:
                if before[0] is value:
                    continue
                kind = kind_of(id(type(value)))
                if kind is not None and kind.stamp is not None:
                    known = known_of(id(value))
                    if known is not None and known[0]() is value:
                        stamp = (known[1], kind.stamp(value))
                        if stamp == before[2]:
                            continue
            if type(value) is Trace:
                continue
            index = describer(value)
            if before is None or before[1] != index or stamp is not None:
                final = describe.final(value)
                seen[name] = (value if final else _CHANGEABLE, index, stamp)
            if before is None or before[1] != index:
                self._aside((SET, get_ident(), name, index))

    def _number(self, frame: FrameType) -> int:
        with self._lock:
            self._frames += 1
            self._suspended[id(frame)] = (frame, self._frames)
            return self._frames

    def _hook(self, code: CodeType, caller: FrameType | None) -> tuple[int | None, str]:
        """(module, kind of hook) if code of nn.Module is calling one: the table that it stands in, of the nearest module."""
        while caller is not None:
            info = self.scope.known(caller.f_code)
            if info is None or not info.dispatches:
                break
            owner = caller.f_locals.get("self")
            module = self.describe.module(owner)
            tables = caller.f_globals if module is None else object.__getattribute__(owner, "__dict__")
            for name, table in list(tables.items()):
                hooks = name.endswith("_hooks") and isinstance(table, dict)
                if hooks and any(_code_of(function) is code for function in list(dict.values(table))):
                    return module, name.strip("_").removesuffix("s")
            if module is not None:
                break
            caller = caller.f_back
        return None, ""

    # -- the library's observer slot -------------------------------------------------------------------------------------

    def observer(self, kind: int) -> Callable[[str, Any, Any, int, int], None]:
        """What is told of every operator (OP) or node (NODE): the shortest way, for it runs inside the dispatcher."""
        append, length, thread, lanes = self.events.append, self.events.__len__, get_ident, self.lanes
        tensors, kinds, mention = self.describe.tensors, self.describe.kinds.get, self.describe.mention
        known, numbers, ref = tensors.known, tensors.numbers, weakref.ref
        get = known.get

        def observe(name: str, inputs: Any, outputs: Any, begin: int, end: int) -> None:
            if length() >= self.limit and self.full():
                return
            lane = thread()
            if lane not in lanes:
                lanes[lane] = _lane(lane)
            given = [k if (k := get(id(v))) is not None and k[0]() is v else mention(v) for v in inputs]
            if type(outputs) is tuple:
                made = [k if (k := get(id(v))) is not None and k[0]() is v else mention(v) for v in outputs]
                append((kind, lane, end, name, given, made, begin))
                return
            number = id(outputs)
            entry: Any = get(number)
            if entry is None or entry[0]() is not outputs:
                of = kinds(id(type(outputs)))
                if of is not None and of.facts is not None:  # as Tensors.meet does, without the way there
                    entry = known[number] = (ref(outputs), next(numbers), of.facts(outputs))
                else:
                    entry = mention(outputs)
            append((kind, lane, end, name, given, entry, begin))

        look = self.describe.index

        def observe_values(name: str, inputs: Any, outputs: Any, begin: int, end: int) -> None:
            if not self.full():
                made = outputs if type(outputs) is tuple else (outputs,)
                append(
                    (kind, self._lane_of_thread(), end, name, [look(v) for v in inputs], [look(v) for v in made], begin)
                )

        return observe_values if self.values else observe

    def _lane_of_thread(self) -> int:
        thread = get_ident()
        if thread not in self.lanes:
            self.lanes[thread] = _lane(thread)
        return thread

    def alloc(self, storage: Any) -> None:
        if not self.full():
            self._aside((ALLOC, get_ident(), perf_counter_ns(), int(storage.nbytes()), str(storage.device)))

    def mark(self, label: str) -> None:
        if not self.full():
            self.events.append((MARK, get_ident(), perf_counter_ns(), label))

    # -- limits and lanes --------------------------------------------------------------------------------------------------

    def full(self) -> bool:
        """Whether nothing more is recorded; stops the recording when the limit is reached."""
        if len(self.events) < self.limit and not self.stopped:
            return False
        self.stop("events" if len(self.events) >= self._hard_limit else "steps")
        return True

    def stop(self, reason: str) -> None:
        with self._lock:
            if self.stopped:
                return
            self.stopped = reason
        self.on_stop()

    def _aside(self, event: tuple[Any, ...]) -> None:
        """Note what is no step of its own."""
        self.events.append(event)
        self.limit = min(self.limit + 1, self._hard_limit)


_CHANGEABLE = object()


def _code_of(function: Any) -> CodeType | None:
    """The code that a hook runs; hooks stand in their table alone or first in a tuple, plain or as a partial."""
    while type(function) is tuple and function:
        function = function[0]
    while type(function) in (partial, MethodType):
        function = function.func if type(function) is partial else function.__func__
    return function.__code__ if type(function) is FunctionType else None


def _lane(thread: int) -> tuple[str, str]:
    """(name, kind) of a running thread. Python's running count of threads is left out: it differs from run to run."""
    if thread == threading.main_thread().ident:
        return "main", "main"
    name = next((t.name for t in threading.enumerate() if t.ident == thread), "thread")
    automatic = re.fullmatch(r"Thread-\d+(?: \((?P<target>.*)\))?", name)
    return (automatic["target"] or "thread" if automatic else without_machine_paths(name)), "thread"
