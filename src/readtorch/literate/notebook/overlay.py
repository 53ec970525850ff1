"""The package as the reader has changed it, on disk, for processes that are started from the notebook.

A full copy of the package stands first on `sys.path` (which `multiprocessing` hands to spawned and forkserver children) and on
PYTHONPATH (for subprocesses and launchers). What the reader edits is written there; the installed package is never touched.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from readtorch.literate.notebook.book import PACKAGE, Fragment, PackageFile, Snapshot
from readtorch.literate.notebook.units import Unit, Version, imported_names


class Overlay:
    """Made at the first edit; removed when the process that made it ends."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PACKAGE}-live-"))
        self.package = self.folder / PACKAGE
        self._clock = 0
        self._process = os.getpid()
        _copy(snapshot.package, self.package)
        sys.path.insert(0, str(self.folder))
        inherited = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(self.folder), inherited]))
        atexit.register(self._remove)

    def write(self, into: str, text: str) -> None:
        """Replace one file. A child that compiles it must never take a stale cache for it."""
        file = self.package / into
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_name(file.name + ".new")
        scratch.write_text(text, encoding="utf-8")
        # A cached .pyc is told by size and whole seconds: two edits within one second need two times.
        self._clock = max(self._clock + 1, int(time.time()))
        os.utime(scratch, (self._clock, self._clock))
        scratch.replace(file)
        if into.endswith(".py"):
            Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)

    def remove(self, into: str) -> None:
        (self.package / into).unlink(missing_ok=True)

    def _remove(self) -> None:
        if os.getpid() == self._process:  # a forked child must leave it to its parent
            shutil.rmtree(self.folder, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    """Copy the package; the hand-written tools are linked where links can be made, so that they find their book."""
    target.mkdir()
    for entry in source.iterdir():
        if entry.name == "literate":
            try:
                (target / entry.name).symlink_to(entry.resolve(), target_is_directory=True)
            except OSError:
                shutil.copytree(entry, target / entry.name)
        elif entry.is_dir():
            shutil.copytree(entry, target / entry.name)
        else:
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(entry, target / entry.name)


def edited_text(file: PackageFile, fragments: Iterable[Fragment], imports: Iterable[str]) -> str:
    """The file with these fragments as they are now, and with these further import statements. Raises SyntaxError."""
    splice = _Splice(file)
    for fragment in fragments:
        splice.take(fragment.book, fragment.current)
    text = _with_imports(splice.text(), file, imports)
    ast.parse(text)
    return text


class _Splice:
    """Replaces units of a file: by name and text, keeping every line that is not edited."""

    def __init__(self, file: PackageFile) -> None:
        self._file = file
        self._by_name = {name: u for u in file.units for name in u.qualified}
        self._replaced: dict[Unit, list[str]] = {}
        self._inserted: dict[tuple[int, bool], list[str]] = {}
        """Lines to go below a line; at the end of a class, those that belong to it stand above those that do not."""

    def take(self, book: Version, now: Version) -> None:
        by_key = {u.key: u for u in book.units}
        taken: set[Unit] = set()
        at: dict[str, int] = {}
        fresh: set[str] = set()
        for unit in now.units:
            if unit.scope in fresh:
                continue
            match = by_key.get(unit.key) or next((self._by_name[q] for q in unit.qualified if q in self._by_name), None)
            if match is None or match in taken:
                lines = _lines(unit, unit.scope)
                if unit.header:
                    fresh.add(unit.names[0])
                    lines = [line for u in (unit, *now.members(unit.names[0])) for line in _lines(u, u.scope)]
                place = at.get(unit.scope) or self._end_of(unit.scope), not unit.scope
                self._inserted.setdefault(place, []).extend(["", *lines])
                continue
            taken.add(match)
            at[unit.scope] = match.end
            if unit.header:
                at[unit.scope] = match.node.end_lineno or match.end
                at[unit.names[0]] = match.end
            if match.key != unit.key:
                self._replaced[match] = _lines(unit, unit.scope)
        for unit in book.units:
            if unit not in taken:
                self._replaced[unit] = ["    pass"] if unit.scope else []

    def _end_of(self, scope: str) -> int:
        header = self._by_name.get(scope)
        if header is not None and header.header:
            return header.node.end_lineno or header.end
        return len(self._file.text.rstrip("\n").split("\n"))

    def text(self) -> str:
        lines = self._file.text.split("\n")
        edits = [(u.start - 1, u.end, False, new) for u, new in self._replaced.items()]
        edits += [(line, line, outside, new) for (line, outside), new in self._inserted.items()]
        for start, end, _, new in sorted(edits, key=lambda e: e[:3], reverse=True):
            lines[start:end] = new
        return "\n".join(lines).rstrip("\n") + "\n"


def _lines(unit: Unit, scope: str) -> list[str]:
    """The unit's lines, a member indented by four spaces as everywhere in the package."""
    if not scope or (unit.raw.startswith("    ") and not unit.raw.startswith("     ")):
        return unit.raw.split("\n")
    return ["    " + line if line else line for line in unit.text.split("\n")]


def _with_imports(text: str, file: PackageFile, imports: Iterable[str]) -> str:
    added = [line for line in imports if not set(imported_names(ast.parse(line).body)) <= file.imports]
    if not added:
        return text
    lines = text.split("\n")
    heads = [u for u in file.units if u.is_import and not u.scope]
    at = next((u.end for u in heads if isinstance(u.node, ast.ImportFrom) and u.node.module == "__future__"), None)
    if at is None:
        at = heads[0].start - 1 if heads else min(1, len(lines))
    lines[at:at] = added
    return "\n".join(lines)
