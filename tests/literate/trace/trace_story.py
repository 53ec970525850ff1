"""A recording read back as short texts, for assertions."""

from __future__ import annotations

import sys

from readtorch.literate.trace import Trace

MECHANISMS = ["sys.settrace", "sys.monitoring"] if sys.version_info >= (3, 12) else ["sys.settrace"]


def story(t: Trace, lane: int = 0) -> list[str]:
    """The recording as text: calls, lines relative to their function, how calls end."""
    decoded = t.decoded
    found = []
    for event, kind in enumerate(decoded.kinds):
        frame = decoded.frame[event]
        if decoded.lane[event] != lane or frame < 0 or kind == "S":
            continue
        name = decoded.name(decoded.frames[frame])
        first = decoded.document["code"][decoded.frames[frame].code][2]
        found.append(f"{name}+{decoded.line[event] - first}" if kind == "L" else f"{kind} {name}")
    return found


def calls(t: Trace) -> list[str]:
    return [t.decoded.name(f) for f in t.decoded.frames]


def variables(t: Trace, name: str, line: int) -> dict[str, list]:
    """The variables when line `line` (relative) of function `name` is first about to run."""
    decoded = t.decoded
    for event, kind in enumerate(decoded.kinds):
        if kind == "L":
            frame = decoded.frames[decoded.frame[event]]
            if decoded.name(frame) == name and decoded.line[event] - decoded.document["code"][frame.code][2] == line:
                return {key: decoded.values[v] for key, v in decoded.variables(event).items()}
    raise AssertionError(f"{name}+{line} never ran; there is {story(t)}")
