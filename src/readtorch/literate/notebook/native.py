"""Cells into CUDA sources: one string whose content is a part of a `.cu` or `.cuh` file.

They hold no names to merge. What a reader edits is put into the overlay's file, in the place of the book's text of that cell.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass, field

from readtorch.literate.chapter import Cell
from readtorch.literate.notebook.cells import TangledCell
from readtorch.literate.notebook.errors import LiveError
from readtorch.literate.notebook.report import FragmentDiff, compare_texts
from readtorch.literate.tangle import raw_string


@dataclass
class NativeFile:
    """One CUDA source: its text in the package, the texts of its cells, and the reader's texts of them."""

    into: str
    source: str
    cells: tuple[tuple[str, str], ...]
    """(place, text) of the book's cells."""
    edits: dict[int, str] = field(default_factory=dict)
    """The reader's text by cell number; the number after the last is a cell of the reader's own."""
    known: dict[str, int] = field(default_factory=dict)

    def take(self, cell: TangledCell) -> bool:
        """Take in what a cell says; True if that changed the file."""
        text = content_of(cell)
        number = self._number(text, cell.cell_id)
        if cell.cell_id:
            self.known[cell.cell_id] = number
        before = self.edits.get(number, self.cells[number][1] if number < len(self.cells) else None)
        if number < len(self.cells) and text == self.cells[number][1]:
            self.edits.pop(number, None)
        else:
            self.edits[number] = text
        return before != text

    def _number(self, text: str, cell_id: str | None) -> int:
        """Which of the cells this is a text of: as the front end says, by its text, by likeness."""
        if cell_id in self.known:
            return self.known[cell_id]
        texts = [book for _, book in self.cells]
        if text in texts:
            return texts.index(text)
        likeness = [
            difflib.SequenceMatcher(None, self.edits.get(n, book), text).ratio() for n, book in enumerate(texts)
        ]
        best = max(range(len(likeness)), key=likeness.__getitem__, default=len(texts))
        return best if likeness and likeness[best] > 0.4 else len(texts)

    def text(self) -> str:
        result = self.source
        for number, new in self.edits.items():
            if number == len(self.cells):
                result = result.rstrip("\n") + f"\n\n{new}\n" if result else f"{new}\n"
            elif self.cells[number][1] in result:
                result = result.replace(self.cells[number][1], new, 1)
            else:
                raise LiveError(f"{self.into} is not what its chapter says; run `readtorch tangle`, restart the kernel")
        return result

    def diffs(self) -> list[FragmentDiff]:
        return [
            compare_texts(self.into, self.into, *(self.cells[n] if n < len(self.cells) else ("your cell", "")), text)
            for n, text in self.edits.items()
        ]


def native_file(into: str, source: str | None, cells: list[Cell]) -> NativeFile:
    found = [(f"{cell.path}:{cell.first_line}", raw_string(cell)) for cell in cells]
    return NativeFile(into, source or "", tuple((place, "\n".join(c[1])) for place, c in found if c is not None))


def content_of(cell: TangledCell) -> str:
    """The text inside the string of a cell, without the lines of the quotes."""
    statement = cell.tree.body[0] if len(cell.tree.body) == 1 else None
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    if not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
        raise LiveError(f"a cell into {cell.into} holds one raw string and nothing else")
    return value.value.removeprefix("\n").removesuffix("\n")
