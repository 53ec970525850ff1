"""From a line of the package to the chapter line that it was written in.

In a checkout the map is computed from the chapters, once a process. A wheel carries it as JSON, made when the wheel was
built, beside the chapters; nothing is parsed then.
"""

from __future__ import annotations

import ast
import json
import sys
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from readtorch.literate.blocks import TangledLine
from readtorch.literate.chapter import Book, find_root
from readtorch.literate.errors import LiterateError
from readtorch.literate.merge3 import hunks
from readtorch.literate.tangle import TangledFile, tangle

FILE_NAME = "linemap.json"
VERSION = 1
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Place:
    """A chapter line: `path` below the book's root, and the qualified name of the definition around it ("" for none)."""

    path: str
    line: int
    symbol: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" + (f" ({self.symbol})" if self.symbol else "")


def locate(file: str | Path, line: int) -> Place | None:
    """Where line `line` (from 1) of a file of the package was written; None for files and lines that no cell made.

    `file` is absolute (as in a traceback) or relative to the package. A file that was edited since it was tangled is aligned
    with what the chapters give; lines that only the edit has are not found.
    """
    relative = relative_path(file)
    if relative is None or line < 1:
        return None
    entry = _map().get(relative)
    if entry is None:
        return None
    number = _as_tangled(relative, line)
    found = None if number is None else entry.place(number)
    if found is None:
        return None
    return Place(found[0], found[1], symbol_at(relative, line))


def positions(path: str, line: int) -> list[tuple[str, int]]:
    """The other way: (file of the package, its line) for a chapter line."""
    return [(file, number) for file, entry in _map().items() for number in entry.numbers(path, line)]


def relative_path(file: str | Path) -> str | None:
    """A path below the package, from an absolute path or one that is already relative; None outside it and in literate/."""
    path = Path(file)
    if path.is_absolute():
        for base in (_PACKAGE, *_copies):
            if path.is_relative_to(base):
                path = path.relative_to(base)
                break
        else:
            try:
                path = path.resolve().relative_to(_PACKAGE)
            except ValueError:
                return None
    text = path.as_posix()
    return None if text.startswith("literate/") else text


_copies: list[Path] = []


def also_below(folder: Path) -> None:
    """Files below `folder`, a copy of the package (a live overlay), are located as the package's own."""
    if folder not in _copies:
        _copies.append(folder)


@dataclass(frozen=True, slots=True)
class Entry:
    """The map of one file: runs (first line, number of lines, chapter path, first chapter line)."""

    runs: tuple[tuple[int, int, str, int], ...]

    def place(self, number: int) -> tuple[str, int] | None:
        at = bisect_right(self.runs, (number, sys.maxsize)) - 1
        if at < 0:
            return None
        first, count, path, line = self.runs[at]
        return (path, line + number - first) if number < first + count else None

    def numbers(self, path: str, line: int) -> list[int]:
        return [first + line - at for first, count, where, at in self.runs if where == path and at <= line < at + count]


def entry_of(lines: Iterable[TangledLine]) -> Entry:
    runs: list[tuple[int, int, str, int]] = []
    for number, line in enumerate(lines, 1):
        if line.part_path is None or line.chapter_line is None:
            continue
        if runs:
            first, count, path, at = runs[-1]
            if path == line.part_path and first + count == number and at + count == line.chapter_line:
                runs[-1] = (first, count + 1, path, at)
                continue
        runs.append((number, 1, line.part_path, line.chapter_line))
    return Entry(tuple(runs))


@cache
def _tangled() -> dict[str, TangledFile]:
    try:
        return tangle(Book.load())
    except LiterateError:
        return {}


@cache
def _map() -> dict[str, Entry]:
    shipped = _PACKAGE / "literate" / "book" / FILE_NAME
    if shipped.is_file():
        return read_map(shipped.read_text(encoding="utf-8"))
    return {path: entry_of(file.lines) for path, file in _tangled().items()}


def forget() -> None:
    """Compute the map anew at the next question: the chapters have changed."""
    for function in (_tangled, _map, _alignment, _symbols):
        function.cache_clear()


def _as_tangled(relative: str, line: int) -> int | None:
    """The line that the map knows line `line` of the file on disk by."""
    for first, stop, shift in _alignment(relative):
        if first <= line < stop:
            return line + shift
    return None


@cache
def _alignment(relative: str) -> tuple[tuple[int, int, int], ...]:
    """Ranges of lines of the file on disk that stand in the tangled file too, with how far away."""
    everything = ((1, 1 << 60, 0),)
    file = _tangled().get(relative) if not (_PACKAGE / "literate" / "book" / FILE_NAME).is_file() else None
    if file is None:
        return everything
    try:
        found = (_PACKAGE / relative).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return everything
    if found == file.text:
        return everything
    ranges = []
    old_at, new_at = 1, 1
    for hunk in hunks([line.text for line in file.lines], found.split("\n")[:-1]):
        ranges.append((new_at, hunk.new_start + 1, old_at - new_at))
        old_at, new_at = hunk.stop + 1, hunk.new_stop + 1
    ranges.append((new_at, 1 << 60, old_at - new_at))
    return tuple(ranges)


def symbol_at(relative: str, line: int) -> str:
    """The qualified name of the innermost definition around a line of a file of the package."""
    best = ""
    for start, stop, name in _symbols(relative):
        if start <= line <= stop:
            best = name
    return best


@cache
def _symbols(relative: str) -> tuple[tuple[int, int, str], ...]:
    if not relative.endswith(".py"):
        return ()
    try:
        tree = ast.parse((_PACKAGE / relative).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    found: list[tuple[int, int, str]] = []

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                found.append((start, node.end_lineno or start, prefix + node.name))
                visit(node.body, f"{prefix}{node.name}.")
            else:
                for name in ("body", "orelse", "finalbody"):
                    visit(getattr(node, name, []), prefix)

    visit(tree.body, "")
    return tuple(found)


# -- the shipped map -------------------------------------------------------------------------------------------------


def write_map(files: dict[str, TangledFile]) -> str:
    """The map as JSON, chapter paths written once."""
    paths: dict[str, int] = {}
    table = {}
    for name, file in files.items():
        runs = entry_of(file.lines).runs
        table[name] = [[a, b, paths.setdefault(path, len(paths)), c] for a, b, path, c in runs]
    return json.dumps({"version": VERSION, "chapters": list(paths), "files": table}, separators=(",", ":")) + "\n"


def read_map(text: str) -> dict[str, Entry]:
    """The map from JSON; empty if it was written by another version."""
    document = json.loads(text)
    if document.get("version") != VERSION:
        return {}
    chapters = document["chapters"]
    return {
        name: Entry(tuple((a, b, chapters[k], c) for a, b, k, c in runs)) for name, runs in document["files"].items()
    }


def chapter_file(place: Place) -> Path:
    """The file that a place lies in."""
    return find_root() / place.path
