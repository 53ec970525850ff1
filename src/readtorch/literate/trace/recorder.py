"""The recorder: what to note when code is entered, moves to a line, is left, or an operator runs.

`Recorder` is independent of how Python tells about it; `monitoring.py` and `settrace.py` are the two ways. Operators, autograd
nodes and allocations come through the library's observer slot and need neither.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from functools import partial
from threading import get_ident
from time import perf_counter_ns
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any
from weakref import ref as ref_to

import numpy as np

from readtorch.literate.trace.containers import Look, Watch
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
from readtorch.literate.trace.scope import BEGUN, ENTERED, RUNNING, CodeInfo, Scope, without_machine_paths


class Recorder:
    """Collects raw events until `limit` of them, or `steps` steps, are there.

    It runs on the stack of the code that it records, which may be all but used up. A RecursionError in here is ours and none of
    that code's: `call` and `leave` raise it only before they have noted their event, and their callers see to it that for each
    call that was noted its end is.
    """

    def __init__(
        self, scope: Scope, layers: frozenset[str], *, values: bool, limit: int, steps: int | None, mask: bool = True
    ) -> None:
        self.scope = scope
        self.layers = layers
        self.events: list[tuple[Any, ...] | int] = []
        self.describe = Describer(summary=values, mask=mask)
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
        self._locals: dict[int, _Locals] = {}
        """By the id of the frame."""
        self._lock = threading.Lock()

    # -- frames ----------------------------------------------------------------------------------------------------------

    def call(self, info: CodeInfo, frame: FrameType, *, running: bool = False) -> None:
        """A frame of recorded code begins, or is found running."""
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
            try:
                seen = self._locals[id(frame)] = _Locals(len(info.names))
                if running:
                    self.variables(info, frame, RUNNING)
                else:
                    seen.line = ENTERED
                    self.variables(info, frame, BEGUN)
            except RecursionError:  # the call is noted, and whoever calls this must not think otherwise
                return

    def line(self, info: CodeInfo, frame: FrameType, line: int) -> None:
        """The frame is about to run `line`."""
        if len(self.events) >= self.limit and self.full():
            return
        if info.values:
            self.variables(info, frame, line)
        self.events.append((LINE, get_ident(), line))

    def leave(self, kind: int, info: CodeInfo, frame: FrameType | None, value: Any) -> None:
        """The frame returns, yields or is unwound."""
        if len(self.events) >= self.limit and self.full():
            return
        index = None
        try:
            if info.values and frame is not None:
                self.variables(info, frame, RUNNING)
                index = self.describe.index(value)
                if info.secret_result:
                    index = self.describe.hidden(index)
                if kind != YIELD:
                    self._locals.pop(id(frame), None)
            elif kind == UNWIND:
                index = self.describe.index(value)
        except RecursionError:
            index = None
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

    def variables(self, info: CodeInfo, frame: FrameType, line: int) -> None:
        """Note the variables of `frame` whose description has changed; it is about to run `line`.

        Nearly all are as they were a line ago. Only names that the last line may have bound are read, for reading them is slow
        in every Python, and of the others only those are looked at whose objects can change.
        """
        seen = self._locals.get(id(frame))
        if seen is None:
            seen = self._locals[id(frame)] = _Locals(len(info.names))
        bound = info.stores.get(seen.line, seen.all)
        seen.line = line
        looks, indices = seen.looks, seen.indices
        changed: list[int] = []
        for i, (look, stamp, last) in looks.items():
            if i not in bound:
                value = seen.objects[i]
                if stamp is not None and last.key == stamp(value):  # type: ignore[union-attr]  # both are there: one is kept for the other
                    index = last.index  # type: ignore[union-attr]  # both are there: one is kept for the other
                else:
                    index = look(value)
                if index != indices[i]:
                    indices[i] = index
                    changed.append(i)
        if bound:
            self._bound(info, frame.f_locals, seen, bound, changed)
        if changed:
            thread, append = get_ident(), self.events.append
            changed.sort()
            for i in changed:
                append((SET, thread, info.names[i], indices[i]))
            self.limit = min(self.limit + len(changed), self._hard_limit)

    def _bound(self, info: CodeInfo, space: Any, seen: _Locals, bound: Iterable[int], changed: list[int]) -> None:
        """Look at the variables that may have been bound or unbound; adds to `changed`."""
        names, objects, indices, looks = info.names, seen.objects, seen.indices, seen.looks
        kinds, get, secret = self.describe.kinds, space.get, info.secret
        for i in bound:
            value = get(names[i], _UNBOUND)
            if value is objects[i]:
                if i not in looks:
                    continue
                index = looks[i][0](value)
            elif value is _UNBOUND:
                index = self.describe.unbound
                looks.pop(i, None)
            elif type(value) is Trace:
                continue
            else:
                kind = kinds.get(id(type(value))) or self.describe.kind(type(value))
                index = kind.look(value)
                watch = None if kind.fixed else self.describe.watch(value, kind)
                if secret and i in secret:
                    index = self.describe.hidden(index)
                    watch = None if watch is None else (_hiding(self.describe.hidden, kind.look), None, None)
                if watch is not None:
                    looks[i] = watch
                elif i in looks:
                    del looks[i]
            objects[i] = value
            if index != indices[i]:
                indices[i] = index
                changed.append(i)

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
        events, thread, lanes = self.events, get_ident, self.lanes
        tensors, kinds, mention = self.describe.tensors, self.describe.kinds.get, self.describe.mention
        known, ref, ndarray = tensors.known, ref_to, np.ndarray

        def observe(name: str, inputs: Any, outputs: Any, begin: int, end: int) -> None:
            try:
                if len(events) >= self.limit and self.full():
                    return
                lane = thread()
                if lane not in lanes:
                    lanes[lane] = _lane(lane)
                given: Any
                try:
                    given = tuple(map(ref, inputs))
                except TypeError:  # some are no objects that there are references to
                    given = tuple(map(mention, inputs))
                else:
                    for anchor in given:
                        if id(anchor) not in known:
                            given = tuple(map(mention, inputs))
                            break
                if type(outputs) is tuple:
                    events.append((kind, lane, end, name, given, list(map(mention, outputs)), begin))
                    return
                of = kinds(id(type(outputs)))
                if of is None or of.light is None:
                    events.append((kind, lane, end, name, given, mention(outputs), begin))
                    return
                made = ref(outputs)
                number = id(made)  # its own as long as the recording keeps it; the document numbers tensors anew
                if number not in known:  # as Tensors.meet does, without the way there
                    light = of.light
                    array = light.array(outputs)
                    if type(array) is ndarray:
                        edge = light.edge
                        flags = "" if edge is None or edge(outputs) is None else "g"
                        known[number] = (made, number, (array.dtype, array.shape, "cpu", flags, None))
                    else:
                        mention(outputs)
                events.append((kind, lane, end, name, given, made, begin))
            except RecursionError:  # the code that is recorded shall not see it
                return

        look = self.describe.index

        def observe_values(name: str, inputs: Any, outputs: Any, begin: int, end: int) -> None:
            try:
                if not self.full():
                    made = outputs if type(outputs) is tuple else (outputs,)
                    events.append(
                        (
                            kind,
                            self._lane_of_thread(),
                            end,
                            name,
                            [look(v) for v in inputs],
                            [look(v) for v in made],
                            begin,
                        )
                    )
            except RecursionError:
                return

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
        try:
            self._locals.clear()
            self.on_stop()
        except RecursionError:
            self.stopped = ""  # the next event tries again
            raise

    def _aside(self, event: tuple[Any, ...]) -> None:
        """Note what is no step of its own."""
        self.events.append(event)
        self.limit = min(self.limit + 1, self._hard_limit)


class _Locals:
    """The variables of one frame as they were noted last, by position in `CodeInfo.names`."""

    __slots__ = ("all", "indices", "line", "looks", "objects")

    def __init__(self, count: int) -> None:
        self.all = range(count)
        self.objects: list[Any] = [_UNBOUND] * count
        self.indices = [-1] * count
        self.looks: dict[int, Watch] = {}
        """How to look again, for those that can change."""
        self.line = RUNNING
        """Which has been running since."""


_UNBOUND = object()


def _hiding(hidden: Callable[[int], int], look: Look) -> Look:
    return lambda value: hidden(look(value))


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
