"""Export to the Chrome trace event format, which Perfetto and chrome://tracing open.

Calls are B/E pairs on one thread per lane, operators and autograd nodes complete events (X), marks instants (i).
"""

from __future__ import annotations

from typing import Any

from readtorch.literate.trace.decode import Decoded, Frame
from readtorch.literate.trace.words import value_text


def chrome_trace(decoded: Decoded) -> dict[str, Any]:
    """The object form, so that what was recorded, by what and how far, travels along."""
    document = decoded.document
    events: list[dict[str, Any]] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "readtorch"}}]
    for lane, entry in enumerate(document["lanes"]):
        events.append({"ph": "M", "pid": 1, "tid": lane + 1, "name": "thread_name", "args": {"name": entry["name"]}})
        events.append({"ph": "M", "pid": 1, "tid": lane + 1, "name": "thread_sort_index", "args": {"sort_index": lane}})
    stacks: dict[int, list[Frame]] = {lane: [] for lane in range(len(document["lanes"]))}
    for event, kind in enumerate(decoded.kinds):
        lane = decoded.lane[event]
        place = {"pid": 1, "tid": lane + 1, "ts": decoded.time[event]}
        if kind in "CG":
            frame = decoded.frames[decoded.frame[event]]
            stacks[lane].append(frame)
            events.append(
                {"ph": "B", **place, "name": decoded.name(frame), "cat": "call", "args": _where(decoded, frame)}
            )
        elif kind in "RYE":
            frame = stacks[lane].pop()
            events.append({"ph": "E", **place, "name": decoded.name(frame), "cat": "call"})
        elif kind in "ON":
            operator = decoded.operators[decoded.detail[event]]
            begin = max(0, decoded.time[event] - operator.took)
            sides = {
                side: [value_text(decoded.values[v], document["modules"]) for v in indices]
                for side, indices in (("inputs", operator.inputs), ("outputs", operator.outputs))
            }
            category = "operator" if kind == "O" else "autograd"
            entry = {"name": operator.name, "cat": category, "dur": operator.took, "args": sides}
            events.append({"ph": "X", **place, "ts": begin, **entry})
        elif kind == "M":
            events.append({"ph": "i", **place, "s": "t", "name": decoded.strings[decoded.detail[event]], "cat": "mark"})
    for lane, name, begin, length, _, detail in document["spans"]:
        args = {"detail": decoded.strings[detail]}
        timed = {"pid": 1, "tid": lane + 1, "ts": begin, "dur": length}
        events.append({"ph": "X", **timed, "name": decoded.strings[name], "cat": "gpu", "args": args})
    end = decoded.time[-1] if decoded.time else 0
    for lane, stack in stacks.items():
        place = {"pid": 1, "tid": lane + 1, "ts": end}
        events.extend({"ph": "E", **place, "name": decoded.name(f), "cat": "call"} for f in reversed(stack))
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": _texts(document["meta"])}


def _where(decoded: Decoded, frame: Frame) -> dict[str, Any]:
    code = decoded.document["code"][frame.code]
    found: dict[str, Any] = {"file": decoded.path(frame), "line": code[2]}
    if frame.module >= 0:
        path, kind, _ = decoded.document["modules"][frame.module]
        found["module"] = f"{path} ({kind})" if path else kind
    if frame.hook:
        found["hook"] = frame.hook
    return found


def _texts(meta: dict[str, Any]) -> dict[str, str]:
    return {key: ", ".join(value) if isinstance(value, list) else str(value) for key, value in meta.items()}
