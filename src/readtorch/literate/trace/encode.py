"""Raw events into a document: names into a string table, events into columns of small numbers.

Columns compress far better than records, and most of what they hold repeats: a line is kept as its distance from the line before
it in the same frame, times as microseconds since the event before.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from readtorch.literate.trace.events import (
    ALLOC,
    CALL,
    LETTERS,
    LINE,
    MARK,
    MAX_BYTES,
    NODE,
    OP,
    RESUME,
    RETURN,
    SCHEMA,
    SET,
    UNWIND,
    YIELD,
    dumps,
)
from readtorch.literate.trace.gpu import Span
from readtorch.literate.trace.recorder import Recorder
from readtorch.literate.trace.scope import CodeInfo, Paths
from readtorch.literate.trace.sources import cell_ranges, file_entry


def encode(recorder: Recorder, meta: dict[str, Any], begin_ns: int, spans: Sequence[Span] = ()) -> dict[str, Any]:
    """The document; cut down, and said to be, until it is within MAX_BYTES gzipped. `spans` are what a GPU did meanwhile."""
    events = recorder.events
    truncated = recorder.stopped
    while True:
        text = dumps(_Encoder(recorder, begin_ns, spans).document(events, meta, truncated))
        size = _gzipped(text)
        if size <= MAX_BYTES or len(events) < 100:
            return json.loads(text)
        events = events[: int(len(events) * min(0.9, 0.97 * MAX_BYTES / size))]
        truncated = "bytes"


def gzipped_size(document: dict[str, Any]) -> int:
    return _gzipped(dumps(document))


def _gzipped(text: str) -> int:
    return len(gzip.compress(text.encode(), 6, mtime=0))


class _Table:
    """Numbers things in order of appearance."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self._index: dict[Any, int] = {}

    def __call__(self, entry: Any) -> int:
        found = self._index.get(entry)
        if found is None:
            found = self._index[entry] = len(self.entries)
            self.entries.append(entry)
        return found


class _Frame:
    __slots__ = ("info", "line")

    def __init__(self, info: CodeInfo) -> None:
        self.info = info
        self.line = info.first


class _Encoder:
    def __init__(self, recorder: Recorder, begin_ns: int, spans: Sequence[Span]) -> None:
        self._recorder = recorder
        self._given = spans
        self._begin = begin_ns
        self._now = 0
        self._strings = _Table()
        self._codes = _Table()
        self._lanes = _Table()
        self._values = _Table()
        self._tensors = _Table()
        self._modules = _Table()
        self._stacks: dict[int, list[_Frame]] = defaultdict(list)
        self._suspended: dict[int, _Frame] = {}
        self._importing: dict[int, int] = {}
        """By thread: how many frames deep inside an import."""
        self._lines: dict[str, set[int]] = defaultdict(set)
        self._column: dict[str, list[Any]] = {
            name: []
            for name in (
                "time", "lane", "call", "module", "hook", "frame", "line", "leave", "resume",
                "name", "value", "op", "inputs", "outputs", "took", "bytes", "device", "mark",
            )
        }  # fmt: skip
        self._kinds: list[str] = []
        self._newest = -1

    def document(self, events: list[tuple[Any, ...] | int], meta: dict[str, Any], truncated: str) -> dict[str, Any]:
        encoders = {
            CALL: self._call,
            LINE: self._line,
            RETURN: self._leave,
            YIELD: self._leave,
            RESUME: self._resume,
            UNWIND: self._leave,
            SET: self._set,
            OP: self._op,
            NODE: self._op,
            ALLOC: self._alloc,
            MARK: self._mark,
        }
        kept = 0
        home = self._recorder.home
        numbers: list[int] = []
        """Of each raw event: the event of the document that it is, or the last before it."""
        for event in events:
            numbers.append(kept)
            if isinstance(event, int):
                event = (LINE, home, event) if event > 0 else (RETURN, home, -event, None)
            if event[1] in self._importing and self._hidden(event):
                continue
            if encoders[event[0]](event):
                kept += 1
                self._kinds.append(LETTERS[event[0]])
                self._lane(event[1])
        spans = self._spans(numbers, kept)
        files, codes, cells = self._sources()
        trimmed = {name: column for name, column in self._column.items() if column}
        return {
            "schema": SCHEMA,
            "meta": {**meta, "truncated": truncated, "duration_us": self._now},
            "strings": self._strings.entries,
            "lanes": [self._lane_entry(thread) for thread in self._lanes.entries],
            "files": files,
            "cells": cells,
            "code": codes,
            "modules": self._module_entries(),
            "values": self._values.entries,
            "flows": [],
            "spans": spans,
            "events": {"count": kept, "kinds": "".join(self._kinds), **trimmed},
        }

    def _hidden(self, event: tuple[Any, ...]) -> bool:
        """Whether the event is inside an import, which is one call here; its end is not."""
        kind, thread = event[:2]
        self._importing[thread] += (kind in (CALL, RESUME)) - (kind in (RETURN, YIELD, UNWIND))
        if self._importing[thread]:
            return True
        del self._importing[thread]
        return False

    # -- one event each; False: it belongs to nothing that was recorded --------------------------------------------------

    def _call(self, event: tuple[Any, ...]) -> bool:
        _, thread, ns, info, module, hook, frame = event
        entry = _Frame(info)
        column = self._column
        number = len(column["call"])
        self._stacks[thread].append(entry)
        if frame:
            self._suspended[frame] = entry
            column["frame"] += (number, frame)
        if module is not None:
            column["module"] += (number, self._module(module))
        if hook:
            column["hook"] += (number, self._strings(hook))
        column["call"].append(self._codes(info))
        if info.opaque:
            self._importing[thread] = 1
        self._time(ns)
        return True

    def _line(self, event: tuple[Any, ...]) -> bool:
        _, thread, line = event
        stack = self._stacks[thread]
        if not stack:
            return False
        frame = stack[-1]
        self._lines[frame.info.code.co_filename].add(line)
        self._column["line"].append(line - frame.line)
        frame.line = line
        return True

    def _leave(self, event: tuple[Any, ...]) -> bool:
        _, thread, ns, value = event
        stack = self._stacks[thread]
        if not stack:
            return False
        stack.pop()
        self._column["leave"].append(0 if value is None else self._value(value) + 1)
        self._time(ns)
        return True

    def _resume(self, event: tuple[Any, ...]) -> bool:
        _, thread, ns, frame = event
        if frame not in self._suspended:
            return False
        self._stacks[thread].append(self._suspended[frame])
        self._column["resume"].append(frame)
        self._time(ns)
        return True

    def _set(self, event: tuple[Any, ...]) -> bool:
        _, thread, name, value = event
        if not self._stacks[thread]:
            return False
        self._column["name"].append(self._strings(name))
        self._column["value"].append(self._since_newest(self._value(value)))
        return True

    def _since_newest(self, value: int) -> int:
        """How far below the newest value that a variable had, or, negative, how far above it: most are near."""
        distance = self._newest - value
        self._newest = max(self._newest, value)
        return distance

    def _op(self, event: tuple[Any, ...]) -> bool:
        _, _, end, name, inputs, outputs, begin = event
        column = self._column
        mentioned = self._recorder.describe.mentioned
        column["op"].append(self._strings(name))
        column["inputs"].append([self._value(mentioned(v)) for v in inputs])
        column["outputs"].append([self._value(mentioned(v)) for v in (outputs if type(outputs) is list else [outputs])])
        column["took"].append(max(0, end - begin) // 1000)
        self._time(end)
        return True

    def _alloc(self, event: tuple[Any, ...]) -> bool:
        _, _, ns, size, device = event
        self._column["bytes"].append(size)
        self._column["device"].append(self._strings(device))
        self._time(ns)
        return True

    def _mark(self, event: tuple[Any, ...]) -> bool:
        _, _, ns, label = event
        self._column["mark"].append(self._strings(label))
        self._time(ns)
        return True

    def _time(self, ns: int) -> None:
        now = max(self._now, (ns - self._begin) // 1000)
        self._column["time"].append(now - self._now)
        self._now = now

    def _lane(self, thread: int) -> None:
        runs, lane = self._column["lane"], self._lanes(thread)
        if runs and runs[-2] == lane:
            runs[-1] += 1
        else:
            runs += (lane, 1)

    # -- tables --------------------------------------------------------------------------------------------------------------

    def _value(self, index: int) -> int:
        return self._values(self._renumbered(self._recorder.describe.values[index]))

    def _renumbered(self, description: tuple[Any, ...]) -> tuple[Any, ...]:
        """Tensors and modules numbered by appearance in what is kept, so that equal runs give equal documents."""
        if description[0] == "t":
            return ("t", self._tensors(description[1]), *description[2:])
        if description[0] == "m":
            return ("m", self._module(description[1]))
        if description[0] == "c":
            items = tuple(
                self._renumbered(i) if isinstance(i[0], str) else tuple(map(self._renumbered, i))
                for i in description[3]
            )
            return (*description[:3], items)
        return description

    def _module(self, index: int) -> int:
        return self._modules(index)

    def _module_entries(self) -> list[list[Any]]:
        """[path, class, parent]: the path from the outermost module met, as `named_modules` spells it."""
        describe = self._recorder.describe
        met = [describe.modules[i] for i in self._modules.entries]
        number = {id(m): i for i, m in enumerate(met)}
        children = {id(c) for m in met for c in _children(m).values()}
        names: dict[int, tuple[str, int]] = {}
        for root in met:
            if id(root) not in children:
                _name(root, "", -1, number, names)
        return [[*names.get(i, ("", -1))[:1], type(m).__name__, names.get(i, ("", -1))[1]] for i, m in enumerate(met)]

    def _spans(self, numbers: list[int], kept: int) -> list[list[int]]:
        """[lane, name, begin, length, the event that launched it, detail]; what was launched after the end is left out."""
        found = []
        for span in self._given:
            begin = max(0, (span.begin - self._begin) // 1000)
            if not kept or span.cause >= len(numbers):
                continue
            lane = self._lanes((span.device, span.stream))
            cause = min(numbers[span.cause], kept - 1) if span.cause >= 0 else self._event_at(begin)
            length = max(0, span.end - span.begin) // 1000
            found.append([lane, self._strings(span.name), begin, length, cause, self._strings(span.detail)])
        return found

    def _event_at(self, moment: int) -> int:
        """The last event, of those that have a time, at or before a moment."""
        now = event = 0
        times = iter(self._column["time"])
        for number, kind in enumerate(self._kinds):
            if kind not in "SL":
                now += next(times)
                if now > moment:
                    break
                event = number
        return event

    def _lane_entry(self, thread: Any) -> dict[str, str]:
        if isinstance(thread, tuple):
            device, stream = thread
            return {"name": f"cuda:{device} stream {stream}" if stream else f"cuda:{device}", "kind": "stream"}
        name, kind = self._recorder.lanes.get(thread, ("thread", "thread"))
        return {"name": name, "kind": kind}

    def _sources(self) -> tuple[list[dict[str, Any]], list[list[int]], list[Any]]:
        paths, files = Paths(self._recorder.scope.locate), _Table()
        codes = [[self._strings(i.code.co_qualname), files(i.code.co_filename), i.first] for i in self._codes.entries]
        starts: dict[str, list[tuple[str, int]]] = defaultdict(list)
        embed: dict[str, bool] = {}
        for info in self._codes.entries:
            embed.setdefault(info.code.co_filename, False)
            if info.opaque or info.upstream:
                continue
            starts[info.code.co_filename].append((info.code.co_name, info.first))
            embed[info.code.co_filename] = True
        entries = [file_entry(paths.name(f), f, starts[f], embed=embed[f]) for f in files.entries]
        lines = {
            i: (f, self._lines[f] | {line for _, line in starts[f]}) for i, f in enumerate(files.entries) if embed[f]
        }
        cells = [
            [f, first, last, self._strings(path), self._strings(cell), line]
            for f, first, last, path, cell, line in cell_ranges(lines, self._recorder.scope.locate)
        ]
        return entries, codes, cells


def _children(module: Any) -> dict[str, Any]:
    found = object.__getattribute__(module, "__dict__").get("_modules")
    return {k: m for k, m in found.items() if m is not None} if isinstance(found, dict) else {}


def _name(module: Any, path: str, parent: int, number: dict[int, int], names: dict[int, tuple[str, int]]) -> None:
    index = number.get(id(module))
    if index is not None:
        if index in names:
            return
        names[index] = (path, parent)
        parent = index
    for name, child in _children(module).items():
        _name(child, f"{path}.{name}" if path else name, parent, number, names)
