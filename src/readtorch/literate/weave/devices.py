"""Outputs of one cell on several devices, as tabs that need no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from readtorch.literate.chapter import Part
from readtorch.literate.record.archive import Recording
from readtorch.literate.record.make import code_digest

HERE = "CPU, this build"


def recorded(
    part: Part, anchor: str, code: str, recordings: Sequence[Recording]
) -> list[tuple[Recording, dict[str, Any], bool]]:
    """(recording, the cell's entry, whether the cell is still the one that was recorded) of each that has this cell."""
    found = []
    for recording in recordings:
        cell = recording.parts.get(part.name, {}).get("cells", {}).get(anchor)
        if cell is not None:
            found.append((recording, cell, cell["code"] == code_digest(code)))
    return found


def provenance(recording: Recording, current: bool) -> str:
    """Where and when, in a sentence."""
    versions = recording.provenance["versions"]
    names = {"cuda": "CUDA", "driver": "driver", "cupy": "CuPy", "numpy": "NumPy"}
    known = ", ".join(f"{text} {versions[name]}" for name, text in names.items() if name in versions)
    text = f"Recorded on {recording.device} on {recording.provenance['date']} ({known})"
    old = "" if current else " with an earlier revision of this cell"
    return f'<p class="rt-recorded">{escape(text + old)}.</p>'


def tabs(stem: str, panels: Sequence[tuple[str, str]]) -> str:
    """Panels (label, HTML), the first one shown. One alone is no tab."""
    if len(panels) == 1:
        return panels[0][1]
    head, body = [], []
    for number, (label, html) in enumerate(panels):
        name = f"{stem}-device-{number}"
        checked = "" if number else " checked"
        head.append(
            f'<input type="radio" name="{stem}-device" id="{name}"{checked}><label for="{name}">{escape(label)}</label>'
        )
        body.append(f'<div class="rt-device">{html}</div>')
    return f'<div class="rt-devices" role="group" aria-label="outputs by device">{"".join(head)}{"".join(body)}</div>'
