"""Is this a trace? The schema, where `jsonschema` is installed, and what no schema can say: that every index leads somewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from readtorch.literate.errors import Problem
from readtorch.literate.trace.decode import absolute
from readtorch.literate.trace.events import SCHEMA

WORTH_TELLING = 20
"""Problems of one document; a broken file has thousands."""


def problems(document: Any, name: str) -> list[Problem]:
    """What is wrong with `document`; `name` is the file it came from."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        seen = document.get("schema") if isinstance(document, dict) else type(document).__name__
        return [
            Problem(name, 0, f"is no trace of this version: schema is {seen!r}, expected {SCHEMA!r}", "record it again")
        ]
    found = list(_against_schema(document))[:WORTH_TELLING]
    if not found:
        try:
            found = list(_indices(document))[:WORTH_TELLING]
        except (KeyError, TypeError, IndexError, ValueError) as error:
            found = [f"is malformed: {type(error).__name__}: {error}"]
    return [Problem(name, 0, message) for message in found]


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of a trace."""
    return json.loads((files(__package__) / "schema.json").read_text(encoding="utf-8"))


def _against_schema(document: dict[str, Any]) -> Iterator[str]:
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        return
    for error in Draft202012Validator(schema()).iter_errors(document):
        yield f"{error.json_path}: {error.message[:200]}"


def _indices(document: dict[str, Any]) -> Iterator[str]:
    """Indices out of range and columns whose length does not answer to the kinds."""
    size = {table: len(document[table]) for table in ("strings", "files", "code", "modules", "values", "lanes")}
    events = document["events"]
    count = {kind: events["kinds"].count(kind) for kind in set(events["kinds"])}
    if len(events["kinds"]) != events["count"]:
        yield f"events: count is {events['count']}, but there are {len(events['kinds'])} kinds"
    for column, kinds in _LENGTHS.items():
        wanted = sum(count.get(kind, 0) for kind in kinds)
        if len(events.get(column, ())) != wanted:
            yield f"events.{column}: has {len(events.get(column, ()))} entries, expected {wanted}"
    lanes = events.get("lane", [])
    if sum(lanes[1::2]) != events["count"]:
        yield f"events.lane: covers {sum(lanes[1::2])} of {events['count']} events"
    calls = count.get("C", 0)
    for where, indices, limit in (
        ("events.lane", lanes[::2], size["lanes"]),
        ("events.call", events.get("call", ()), size["code"]),
        ("events.module", events.get("module", ())[::2], calls),
        ("events.module", events.get("module", ())[1::2], size["modules"]),
        ("events.hook", events.get("hook", ())[1::2], size["strings"]),
        ("events.leave", events.get("leave", ()), size["values"] + 1),
        ("events.name", events.get("name", ()), size["strings"]),
        ("events.value", absolute(events.get("value", [])), size["values"]),
        ("events.op", events.get("op", ()), size["strings"]),
        ("events.device", events.get("device", ()), size["strings"]),
        ("events.mark", events.get("mark", ()), size["strings"]),
        ("events.inputs", [v for side in events.get("inputs", ()) for v in side], size["values"]),
        ("events.outputs", [v for side in events.get("outputs", ()) for v in side], size["values"]),
        ("code", [name for name, _, _ in document["code"]], size["strings"]),
        ("code", [file for _, file, _ in document["code"]], size["files"]),
        ("cells", [cell[0] for cell in document["cells"]], size["files"]),
        ("cells", [s for cell in document["cells"] for s in cell[3:5]], size["strings"]),
        ("spans", [s[0] for s in document["spans"]], size["lanes"]),
        ("spans", [i for s in document["spans"] for i in (s[1], s[5])], size["strings"]),
        ("spans", [s[4] for s in document["spans"]], events["count"]),
        ("values", [v[1] for v in document["values"] if v[0] == "m"], size["modules"]),
    ):
        yield from _outside(where, indices, limit)
    yield from _nesting(document)


_LENGTHS = {
    "time": "CRYGEONAM",
    "call": "C",
    "line": "L",
    "leave": "RYE",
    "resume": "G",
    "name": "S",
    "value": "S",
    "op": "ON",
    "inputs": "ON",
    "outputs": "ON",
    "took": "ON",
    "bytes": "A",
    "device": "A",
    "mark": "M",
}


def _outside(where: str, indices: Sequence[int], limit: int) -> Iterator[str]:
    worst = next((i for i in indices if not 0 <= i < limit), None)
    if worst is not None:
        yield f"{where}: index {worst} leads nowhere, there are {limit}"


def _nesting(document: dict[str, Any]) -> Iterator[str]:
    """Nothing is left, moved on or resumed that was not entered."""
    events = document["events"]
    frames = set(events.get("frame", ())[1::2])
    unknown = set(events.get("resume", ())) - frames
    if unknown:
        yield f"events.resume: frame {min(unknown)} was never called"
    depth = [0] * len(document["lanes"])
    runs = events.get("lane", [])
    lanes = (lane for lane, length in zip(runs[::2], runs[1::2], strict=False) for _ in range(length))
    for event, (kind, lane) in enumerate(zip(events["kinds"], lanes, strict=False)):
        if lane >= len(depth):
            return
        if kind in "LSRYE" and depth[lane] == 0:
            yield f"event {event}: {kind} outside of every call"
            return
        depth[lane] += (kind in "CG") - (kind in "RYE")
