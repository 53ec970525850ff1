"""Where a recorded line stands in the book, said when a result is used and not when it was recorded.

A result is kept while prose moves and headings change. A recording made by the executor therefore names a cell by its number
(`@3`) and a line by its place in the cell; `resolve` turns both, and the lines of package files, into what the book has now.
"""

from __future__ import annotations

from typing import Any

from readtorch.literate.chapter import Part
from readtorch.literate.tangle import TangledFile

MIME = "application/vnd.readtorch.trace+json"


def unresolved(path: str, number: int, line: int) -> tuple[str, int, str]:
    """What the recorder is told about line `line` of the part's code cell number `number`."""
    return path, line, f"@{number}"


def resolve(document: dict[str, Any], part: Part, parts: dict[str, Part], files: dict[str, TangledFile]) -> None:
    """Fill in the chapter places of `document`, recorded in `part`, from the book's parts by path and its tangled files."""
    strings: list[str] = document["strings"]
    numbered = dict(enumerate(part.code_cells, 1))

    def index(text: str) -> int:
        if text not in strings:
            strings.append(text)
        return strings.index(text)

    for row in document["cells"]:
        file, first, _, _, cell_name, _ = row
        mark = strings[cell_name]
        if mark.startswith("@"):
            cell = numbered[int(mark[1:])]
            row[3:] = [index(part.path), index(part.ids[cell.index]), cell.first_line + first - 1]
            continue
        tangled = files.get(document["files"][file]["path"].removeprefix("readtorch/"))
        if tangled is not None and first <= len(tangled.lines):
            line = tangled.lines[first - 1]
            if line.part_path is not None and line.chapter_line is not None and line.cell is not None:
                name = parts[line.part_path].ids[line.cell.index]
                row[3:] = [index(line.part_path), index(name), line.chapter_line]
