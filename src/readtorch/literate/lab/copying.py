"""The book for someone who has the wheel and no checkout: copied to a folder of theirs, never over what they have edited."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from readtorch.literate._version import __version__

RECORD = ".readtorch-book.json"
"""In the copy: which version each file was written from, so that the reader's edits can be told."""


@dataclass
class Copied:
    """What happened to the files of the book, paths relative to the folder."""

    written: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    beside: list[tuple[str, str]] = field(default_factory=list)
    """Edited by the reader and changed in the book: (their file, the new version put beside it)."""

    def report(self, folder: Path) -> str:
        lines = []
        if self.written:
            lines.append(f"{len(self.written)} files written to {folder}")
        if self.updated:
            lines.append(f"{len(self.updated)} files brought to version {__version__}: {', '.join(self.updated)}")
        lines += [f"kept as you edited it: {path}" for path in self.kept]
        lines += [f"kept as you edited it: {path} (the book's new version: {new})" for path, new in self.beside]
        return "\n".join(lines)


def copy_book(source: Path, folder: Path) -> Copied:
    """Bring the book below `source` (a folder that holds `chapters/`) to `folder`."""
    record = folder / RECORD
    known: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))["files"] if record.exists() else {}
    result = Copied()
    for file in book_files(source):
        path = file.relative_to(source).as_posix()
        target = folder / path
        new = file.read_bytes()
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(new)
            result.written.append(path)
        elif target.read_bytes() != new:
            if _digest(target.read_bytes()) == known.get(path):
                target.write_bytes(new)
                result.updated.append(path)
            elif known.get(path) == _digest(new):
                result.kept.append(path)
                continue
            else:
                beside = target.with_name(f"{target.stem}.book-{__version__}{target.suffix}")
                beside.write_bytes(new)
                result.beside.append((path, beside.relative_to(folder).as_posix()))
        known[path] = _digest(new)
    record.write_text(json.dumps({"version": __version__, "files": known}, indent=1) + "\n", encoding="utf-8")
    return result


def book_files(source: Path) -> Iterable[Path]:
    for file in sorted((source / "chapters").rglob("*")):
        below = file.relative_to(source).parts
        if file.is_file() and not any(name == "__pycache__" or name.startswith(".") for name in below):
            yield file


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
