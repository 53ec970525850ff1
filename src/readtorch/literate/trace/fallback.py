"""A trace as an ordered list: for readers without JavaScript, with a screen reader, or in an untrusted notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from readtorch.literate.trace.decode import Decoded, Frame, Operator
from readtorch.literate.trace.words import counted, value_text

DEPTH = 4
ENTRIES = 150


def render_fallback(document: dict[str, Any]) -> str:
    """HTML inside one `<div>`, without blank lines (Markdown would end the block at one)."""
    return _Fallback(Decoded(document)).html()


class _Fallback:
    def __init__(self, decoded: Decoded) -> None:
        self._decoded = decoded
        self._left = ENTRIES

    def html(self) -> str:
        document = self._decoded.document
        meta = document["meta"]
        calls, operators = len(self._decoded.frames), len(self._decoded.operators)
        title = f"<strong>{escape(meta['title'])}</strong>. " if meta["title"] else ""
        summary = (
            f"Recorded execution: {counted(len(self._decoded.steps), 'step')}, {counted(calls, 'call')}, "
            f"{counted(operators, 'operator')}."
        )
        if meta["truncated"]:
            summary += f" The recording ended before the code did (limit: {escape(meta['truncated'])})."
        body = "".join(self._lane(lane) for lane in range(len(document["lanes"])))
        return f'<div class="readtorch-trace-fallback"><p>{title}{summary}</p>{body}</div>'

    def _lane(self, lane: int) -> str:
        decoded = self._decoded
        name = escape(decoded.document["lanes"][lane]["name"])
        roots: list[Frame | Operator] = [f for f in decoded.frames if f.lane == lane and f.parent < 0]
        roots += [o for o in decoded.operators if o.frame < 0 and decoded.lane[o.event] == lane]
        head = f"<p>Lane <code>{name}</code></p>" if len(decoded.document["lanes"]) > 1 else ""
        return head + self._list(roots, 0)

    def _list(self, entries: list[Frame | Operator], depth: int) -> str:
        if not entries:
            return ""
        entries = sorted(entries, key=lambda e: e.begin if isinstance(e, Frame) else e.event)
        items = []
        for position, entry in enumerate(entries):
            if self._left <= 0 or depth >= DEPTH:
                items.append(f"<li>… {len(entries) - position} more</li>")
                break
            self._left -= 1
            items.append(self._call(entry, depth) if isinstance(entry, Frame) else self._operator(entry))
        return f"<ol>{''.join(items)}</ol>"

    def _call(self, frame: Frame, depth: int) -> str:
        decoded = self._decoded
        code = decoded.document["code"][frame.code]
        modules = decoded.document["modules"]
        text = f"<code>{escape(decoded.name(frame))}</code>"
        if frame.module >= 0:
            path, kind, _ = modules[frame.module]
            text += f" of <code>{escape(path or kind)}</code>"
        if frame.hook:
            text += f" as {escape(frame.hook.replace('_', ' '))}"
        text += f" <small>{escape(decoded.path(frame))}:{code[2]}</small>"
        if frame.left == "E":
            text += f" raises {escape(self._value(frame.result))}" if frame.result >= 0 else " raises"
        elif frame.result >= 0 and decoded.values[frame.result][0] != "z":
            text += f" → {escape(self._value(frame.result))}"
        inner: list[Frame | Operator] = [decoded.frames[n] for n in decoded.children[frame.number]]
        inner += decoded.operators_of[frame.number]
        return f"<li>{text}{self._list(inner, depth + 1)}</li>"

    def _operator(self, operator: Operator) -> str:
        kind = "operator" if operator.kind == "O" else "backward of"
        sides = [", ".join(self._value(v) for v in side) for side in (operator.inputs, operator.outputs)]
        return f"<li>{kind} <code>{escape(operator.name)}</code> {escape(sides[0])} → {escape(sides[1])}</li>"

    def _value(self, index: int) -> str:
        return value_text(self._decoded.values[index], self._decoded.document["modules"])
