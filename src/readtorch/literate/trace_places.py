"""Where a recorded line stands in the book, said when a result is used and not when it was recorded.

A result is kept while prose moves and headings change. A recording made by the executor therefore names a cell by its number
(`@3`) and a line by its place in the cell, and of the package's files the lines alone (`@`); `resolve` turns all into what the book
has now. The process that records need not read the book, which takes longer than most parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from readtorch.literate.blocks import TangledLine
from readtorch.literate.chapter import Part
from readtorch.literate.tangle import TangledFile

MIME = "application/vnd.readtorch.trace+json"


def unresolved(path: str, number: int, line: int) -> tuple[str, int, str]:
    """What the recorder is told about line `line` of the part's code cell number `number`."""
    return path, line, f"@{number}"


def in_package(file: str, line: int) -> tuple[str, int, str]:
    """What the recorder is told about line `line` of a file of the package."""
    return "", line, "@"


def resolve(document: dict[str, Any], part: Part, parts: dict[str, Part], files: dict[str, TangledFile]) -> None:
    """Fill in the chapter places of `document`, recorded in `part`, from the book's parts by path and its tangled files."""
    strings: list[str] = document["strings"]
    numbered = dict(enumerate(part.code_cells, 1))
    rows: list[list[int]] = []

    def index(text: str) -> int:
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    for file, first, last, path, name, at in document["cells"]:
        mark = strings[name]
        if mark == "@":
            tangled = files.get(document["files"][file]["path"].removeprefix("readtorch/"))
            for begin, end, place in _runs(tangled.lines, first, last, parts) if tangled is not None else ():
                rows.append([file, begin, end, index(place[0]), index(place[1]), place[2]])
        elif mark.startswith("@"):
            cell = numbered[int(mark[1:])]
            rows.append([file, first, last, index(part.path), index(part.ids[cell.index]), cell.first_line + first - 1])
        else:
            rows.append([file, first, last, path, name, at])
    document["cells"] = rows


Place = tuple[str, str, int]
"""Chapter, anchor of the cell, line."""


def _runs(
    lines: Sequence[TangledLine], first: int, last: int, parts: dict[str, Part]
) -> Iterator[tuple[int, int, Place]]:
    """Lines `first` to `last` of a tangled file, cut where they do not follow each other in one cell."""
    begin, place = 0, None
    for number in range(first, last + 2):
        line = lines[number - 1] if number <= min(last, len(lines)) else None
        now = _place(line, parts) if line is not None else None
        if place is not None and now != (place[0], place[1], place[2] + number - begin):
            yield begin, number - 1, place
            place = None
        if place is None:
            begin, place = number, now


def _place(line: TangledLine, parts: dict[str, Part]) -> Place | None:
    if line.part_path is None or line.chapter_line is None or line.cell is None:
        return None
    return line.part_path, parts[line.part_path].ids[line.cell.index], line.chapter_line
