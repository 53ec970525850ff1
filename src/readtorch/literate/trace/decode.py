"""A document read back: frames, steps and what each shows. The fallback list, Chrome export and comparison stand on it.

The viewer does the same in JavaScript (`viewer/model.js`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from readtorch.literate.trace.events import LETTERS

STEPS = frozenset("CLRYGEONM")
"""Kinds that a reader steps through; variables (S) and allocations (A) belong to the step they precede."""


@dataclass(slots=True)
class Frame:
    """One call. `parent` is -1 for the outermost calls of a lane; `end` is the event that left it for good, or the last."""

    number: int
    code: int
    parent: int
    lane: int
    depth: int
    begin: int
    end: int = -1
    module: int = -1
    hook: str = ""
    left: str = ""
    """R, E or "" (still running when the recording ended)."""
    result: int = -1
    sets: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """(first event, last event) between entering and leaving; several for a generator."""


@dataclass(slots=True)
class Operator:
    """One operator or autograd node."""

    event: int
    kind: str
    name: str
    inputs: list[int]
    outputs: list[int]
    took: int
    frame: int


def absolute(distances: list[int]) -> list[int]:
    """The column `value`: each entry says how far its value is below the newest so far (negative: above, and newest now)."""
    found = []
    newest = -1
    for distance in distances:
        found.append(newest - distance)
        newest = max(newest, found[-1])
    return found


class Decoded:
    """Columns by event: `kinds`, `time` (µs), `lane`, `frame` (-1: none), `line`, `detail` (an index that depends on kind)."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.strings: list[str] = document["strings"]
        self.values: list[list[Any]] = document["values"]
        columns = document["events"]
        self.kinds: str = columns["kinds"]
        count = columns["count"]
        self.time = [0] * count
        self.lane = [0] * count
        self.frame = [-1] * count
        self.line = [0] * count
        self.detail = [-1] * count
        self.frames: list[Frame] = []
        self.operators: list[Operator] = []
        self.set_values = absolute(columns.get("value", []))
        """The value of each S event, in order."""
        self._read(columns)

    def name(self, frame: Frame) -> str:
        """The qualified name of a frame's function."""
        return self.strings[self.document["code"][frame.code][0]]

    def path(self, frame: Frame) -> str:
        return self.document["files"][self.document["code"][frame.code][1]]["path"]

    @cached_property
    def steps(self) -> list[int]:
        """Events that are steps."""
        return [i for i, kind in enumerate(self.kinds) if kind in STEPS]

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Frames by the frame that called them; -1 for the outermost."""
        found: dict[int, list[int]] = defaultdict(list)
        for frame in self.frames:
            found[frame.parent].append(frame.number)
        return found

    @cached_property
    def operators_of(self) -> dict[int, list[Operator]]:
        found: dict[int, list[Operator]] = defaultdict(list)
        for operator in self.operators:
            found[operator.frame].append(operator)
        return found

    def variables(self, event: int) -> dict[str, int]:
        """The variables of the running frame at `event`: name to value."""
        if self.frame[event] < 0:
            return {}
        found: dict[str, int] = {}
        frame = self.frames[self.frame[event]]
        limit = event
        while self.kinds[event] == "C" and limit + 1 < len(self.kinds) and self.kinds[limit + 1] == "S":
            limit += 1
        for index in frame.sets:
            if index > limit:
                break
            name = self.strings[self.document["events"]["name"][self.detail[index]]]
            found[name] = self.set_values[self.detail[index]]
        return {name: value for name, value in found.items() if self.values[value][0] != "u"}

    def _read(self, columns: dict[str, Any]) -> None:
        take: dict[str, Iterator[Any]] = {name: iter(c) for name, c in columns.items() if isinstance(c, list)}
        runs = columns.get("lane", [])
        lanes = (lane for lane, length in zip(runs[::2], runs[1::2], strict=True) for _ in range(length))
        modules = dict(zip(*[iter(columns.get("module", []))] * 2, strict=True))
        hooks = dict(zip(*[iter(columns.get("hook", []))] * 2, strict=True))
        numbered = dict(zip(*[iter(columns.get("frame", []))] * 2, strict=True))
        generators: dict[int, int] = {}
        stacks: dict[int, list[int]] = defaultdict(list)
        lines: dict[int, int] = {}
        sets = now = 0
        for event, (kind, lane) in enumerate(zip(self.kinds, lanes, strict=True)):
            stack = stacks[lane]
            self.lane[event] = lane
            if kind not in "SL":
                now += next(take["time"])
            self.time[event] = now
            if kind == "C":
                number = len(self.frames)
                code = next(take["call"])
                parent = stack[-1] if stack else -1
                depth = self.frames[parent].depth + 1 if stack else 0
                frame = Frame(number, code, parent, lane, depth, event, module=modules.get(number, -1))
                frame.hook = self.strings[hooks[number]] if number in hooks else ""
                if number in numbered:
                    generators[numbered[number]] = number
                self.frames.append(frame)
                lines[number] = self.document["code"][code][2]
                frame.spans.append((event, -1))
                stack.append(number)
            elif kind == "G":
                number = generators[next(take["resume"])]
                self.frames[number].spans.append((event, -1))
                stack.append(number)
            number = stack[-1] if stack else -1
            self.frame[event] = number
            if kind == "L":
                lines[number] += next(take["line"])
            elif kind == "S":
                self.detail[event] = sets
                self.frames[number].sets.append(event)
                sets += 1
            elif kind in "RYE":
                frame = self.frames[number]
                value = next(take["leave"]) - 1
                frame.spans[-1] = (frame.spans[-1][0], event)
                if kind != "Y":
                    frame.end, frame.left, frame.result = event, kind, value
                self.detail[event] = value
                stack.pop()
            elif kind in "ON":
                self.detail[event] = len(self.operators)
                name = self.strings[next(take["op"])]
                self.operators.append(
                    Operator(event, kind, name, next(take["inputs"]), next(take["outputs"]), next(take["took"]), number)
                )
            elif kind == "M":
                self.detail[event] = next(take["mark"])
            self.line[event] = lines.get(number, 0)
        last = len(self.kinds) - 1
        for frame in self.frames:
            if frame.spans[-1][1] < 0:
                frame.spans[-1] = (frame.spans[-1][0], last)
            if frame.end < 0:
                frame.end = frame.spans[-1][1]


assert set(LETTERS) == STEPS | set("SA")
