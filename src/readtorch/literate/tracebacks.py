"""Tracebacks that pass through the package name the chapter: `→ chapters/02_module.py:123 (Module.register_buffer)`.

In a notebook every frame of the package gets that line (`install_in_ipython`, called by `live()`); in pytest the location line
of every entry does (`annotate_report`, called by the pytest plugin). `annotate` gives the lines by themselves.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from readtorch.literate.errors import LiterateError

if TYPE_CHECKING:
    from readtorch.literate.linemap import Place

_RUNNER = ("readtorch.literate.notebook.shell", "run_pending")
"""The function below which an edited cell runs; the frames down from it to the cell are ours, not the reader's."""


def place_of(filename: str, line: int | None) -> str | None:
    """`chapters/02_module.py:123 (Module.register_buffer)` for a line of the package or of an edited cell, else None."""
    if line is None:
        return None
    edited = _edited_cell(filename)
    if edited is not None:
        return edited
    place = _locate(filename, line)
    return None if place is None else str(place)


def _locate(filename: str, line: int) -> Place | None:
    """The place in the book. A book that cannot be read must not hide the error that is being shown."""
    from readtorch.literate import linemap

    try:
        return linemap.locate(filename, line)
    except (LiterateError, OSError):
        return None


def _edited_cell(filename: str) -> str | None:
    module = sys.modules.get("readtorch.literate.notebook.shell")
    hook = getattr(module, "HOOK", None)
    fragment = hook.session.cells.get(filename) if hook is not None else None
    return None if fragment is None else f"{fragment.place}, as edited in this notebook ({fragment.title})"


def arrow(filename: str, line: int | None) -> str | None:
    """The line to show below a frame, None for a frame outside the book."""
    place = place_of(filename, line)
    return None if place is None else f"→ {place}"


def annotate(frames: BaseException | TracebackType | Iterable[FrameType] | traceback.StackSummary | None) -> list[str]:
    """One `→ chapter:line (symbol)` for each frame that belongs to the book, in the order of the traceback."""
    return [text for filename, line in _places(frames) if (text := arrow(filename, line)) is not None]


def _places(frames: Any) -> Iterable[tuple[str, int | None]]:
    if isinstance(frames, BaseException):
        frames = frames.__traceback__
    if isinstance(frames, TracebackType):
        return [(f.f_code.co_filename, line) for f, line in traceback.walk_tb(frames)]
    if isinstance(frames, traceback.StackSummary):
        return [(s.filename, s.lineno) for s in frames]
    return [(f.f_code.co_filename, f.f_lineno) for f in frames or ()]


def without_runner(tb: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins in the edited cell, or all of it where no edited cell ran."""
    runner = getattr(sys.modules.get(_RUNNER[0]), _RUNNER[1], None)
    cell, inside = None, False
    at = tb
    while at is not None:
        code = at.tb_frame.f_code
        if runner is not None and code is runner.__code__:
            inside = True
        elif inside and at.tb_frame.f_globals.get("__name__", "").partition(".literate")[1] == "":
            cell = at
            break
        at = at.tb_next
    return cell if cell is not None else tb


def install_in_ipython(shell: Any) -> None:
    """Add the place in the book below every frame that IPython shows. Idempotent."""
    formatter = shell.InteractiveTB
    if getattr(formatter, "_names_chapters", False):
        return
    formatter._names_chapters = True
    format_record = formatter.format_record
    structured = formatter.structured_traceback

    def with_place(frame_info: Any) -> str:
        text = format_record(frame_info)
        line = getattr(frame_info, "lineno", None)
        filename = getattr(frame_info, "filename", None)
        note = arrow(filename, line) if filename and isinstance(line, int) else None
        return text if note is None else f"{text.rstrip()}\n{note}\n"

    def without_ours(
        etype: type,
        evalue: BaseException | None,
        etb: TracebackType | None = None,
        tb_offset: int | None = None,
        *rest: Any,
    ) -> Any:
        shown = without_runner(etb)
        if shown is not etb:
            tb_offset = 0
            if evalue is not None and evalue is getattr(sys, "last_value", None):
                sys.last_traceback = shown  # so that %debug begins in the cell, too
        parts = structured(etype, evalue, shown, tb_offset, *rest)
        if formatter.mode not in formatter.verbose_modes and isinstance(parts, list) and formatter.mode == "Plain":
            parts = [*parts, *(f"{line}\n" for line in annotate(shown))]
        return parts

    formatter.format_record = with_place
    formatter.structured_traceback = without_ours


def annotate_report(report: Any, folder: Path | None = None) -> None:
    """Add the place in the book to the location lines of a pytest report. `folder`: what its paths are relative to."""
    folder = folder or Path.cwd()
    longrepr = getattr(report, "longrepr", None)
    chain = getattr(longrepr, "chain", None)
    tracebacks = [link[0] for link in chain] if chain else [getattr(longrepr, "reprtraceback", None)]
    for shown in tracebacks:
        for entry in getattr(shown, "reprentries", None) or ():
            location = getattr(entry, "reprfileloc", None)
            if location is None:
                continue
            note = arrow(str((folder / location.path).resolve()), location.lineno)
            if note is not None and "→" not in location.message:
                location.message = f"{location.message} {note}".strip()
