"""What a cell printed, returned, drew or raised, as HTML."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any

from readtorch.literate.weave.sanitize import clean

TRACE = "application/vnd.readtorch.trace+json"
IMPORTS = "application/vnd.readtorch.imports+json"
LONG = 24
"""Lines of text above which an output is shown in a box that scrolls."""

_ANSI = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def render_outputs(
    outputs: Iterable[Mapping[str, Any]],
    figure: Callable[[str, bytes], str],
    trace: Callable[[dict[str, Any]], str],
    alt: str,
) -> str:
    """The outputs of one cell.

    `figure(suffix, data)` stores an image and gives its address; `trace(document)` gives the HTML of the element of a trace or a
    recorded import.
    """
    return "\n".join(filter(None, (_render(o, figure, trace, alt) for o in _joined(outputs))))


def _joined(outputs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Consecutive stream outputs of the same name made one."""
    result: list[dict[str, Any]] = []
    for output in outputs:
        if (
            result
            and output["output_type"] == "stream" == result[-1]["output_type"]
            and output["name"] == result[-1]["name"]
        ):
            result[-1] = {**result[-1], "text": text_of(result[-1]["text"]) + text_of(output["text"])}
        else:
            result.append(dict(output))
    return result


def text_of(value: Any) -> str:
    """The text of a field; nbformat allows a list of lines wherever it allows a text."""
    return "".join(value) if isinstance(value, list) else str(value)


def _render(
    output: Mapping[str, Any],
    figure: Callable[[str, bytes], str],
    trace: Callable[[dict[str, Any]], str],
    alt: str,
) -> str:
    kind = output["output_type"]
    if kind == "stream":
        return _text(text_of(output["text"]), "rt-stderr" if output["name"] == "stderr" else "rt-stdout")
    if kind == "error":
        return _error(output)
    data = output.get("data", {})
    recorded = TRACE if TRACE in data else IMPORTS
    if recorded in data:
        document = data[recorded]
        return trace(json.loads(document) if isinstance(document, str) else document)
    if "image/png" in data:
        address = figure("png", base64.b64decode(text_of(data["image/png"])))
        return _figure(address, alt, output)
    if "image/svg+xml" in data:
        return _figure(figure("svg", text_of(data["image/svg+xml"]).encode()), alt, output)
    if "text/html" in data:
        return f'<div class="rt-rich md-typeset__scrollwrap">{clean(text_of(data["text/html"]))}</div>'
    if "text/plain" in data:
        return _text(text_of(data["text/plain"]), "rt-result" if kind == "execute_result" else "rt-stdout")
    return ""


def _figure(address: str, alt: str, output: Mapping[str, Any]) -> str:
    meta = output.get("metadata", {}).get("image/png", {})
    size = "".join(f' {k}="{int(meta[k])}"' for k in ("width", "height") if isinstance(meta.get(k), int))
    return f'<figure class="rt-figure"><img src="{escape(address)}" alt="{escape(alt)}" loading="lazy"{size}></figure>'


def _text(text: str, css: str) -> str:
    text = _last_states(text).rstrip("\n")
    if not text.strip():
        return ""
    tall = " rt-tall" if text.count("\n") >= LONG else ""
    focus = ' tabindex="0"' if tall else ""
    return f'<pre class="rt-out {css}{tall}"{focus}>{ansi(text)}</pre>'


def _error(output: Mapping[str, Any]) -> str:
    last = escape(f"{output['ename']}: {output['evalue']}", quote=False)
    trace = "\n".join(text_of(line) for line in output.get("traceback", []))
    body = f"<pre>{ansi(trace)}</pre>" if trace.strip() else ""
    if not body:
        return f'<pre class="rt-out rt-error">{last}</pre>'
    unfolded = " open" if output.get("unfolded") else ""
    return f'<details class="rt-out rt-error"{unfolded}><summary><code>{last}</code></summary>{body}</details>'


def _last_states(text: str) -> str:
    """What a terminal would show of a line that was written over with carriage returns: its last state."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def ansi(text: str) -> str:
    """Text with the SGR colours of a terminal as spans; other escape sequences are dropped."""
    out: list[str] = []
    position, is_open = 0, False
    for match in _ANSI.finditer(text):
        out.append(escape(text[position : match.start()], quote=False))
        position = match.end()
        if match[2] != "m":
            continue
        if is_open:
            out.append("</span>")
            is_open = False
        css = _sgr(match[1])
        if css:
            out.append(f'<span class="{css}">')
            is_open = True
    out.append(escape(text[position:], quote=False))
    return "".join(out) + ("</span>" if is_open else "")


def _sgr(codes: str) -> str:
    names = []
    numbers = [int(c) for c in codes.split(";") if c.isdigit()]
    if 38 in numbers or 48 in numbers:  # 256 colours: the book has one palette
        numbers = [n for n in numbers if n == 1]
    for number in numbers:
        if number == 1:
            names.append("ansi-bold")
        elif 30 <= number <= 37 or 90 <= number <= 97:
            names.append(f"ansi-{_COLOURS[number % 10]}")
    return " ".join(names)
