"""Edits of chapters: new code for cells, cells that go, cells that come; everything else of a chapter keeps its bytes."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from readtorch.literate.blocks import ends_in_definition
from readtorch.literate.chapter import Book, Cell, Part, parse_part
from readtorch.literate.errors import LiterateError, Problem


@dataclass(frozen=True, slots=True)
class NewCell:
    """A tangled cell to be written into the chapter below `neighbour` (or above it)."""

    neighbour: Cell
    into: str
    code: str
    imports: bool = False
    above: bool = False

    def as_cell(self) -> Cell:
        """The cell as tangle would see it, its line numbers its own."""
        text = "\n".join(self.lines()) + "\n"
        part = parse_part(text, name=self.neighbour.part, path=self.neighbour.path)
        if len(part.cells) != 1:
            raise LiterateError(())
        return part.cells[0]

    def lines(self) -> list[str]:
        return ["# %%", f"#| into: {self.into}", *(["#| imports"] if self.imports else []), *self.code.split("\n")]


@dataclass(slots=True)
class Rewrite:
    """What changes: `code` by cell (None: the cell goes), and new cells in the order in which they shall stand."""

    code: dict[tuple[str, int], str | None] = field(default_factory=dict)
    new: list[NewCell] = field(default_factory=list)

    def set(self, cell: Cell, code: str | None) -> None:
        self.code[cell.path, cell.index] = code

    def update(self, other: Rewrite) -> None:
        self.code.update(other.code)
        self.new.extend(other.new)

    def cells(self, cells: tuple[Cell, ...]) -> list[Cell]:
        """The cells of one file after the rewrite. LiterateError if a new code does not parse."""
        result: list[Cell] = []
        for cell in cells:
            near = [n for n in self.new if n.neighbour is cell]
            result.extend(n.as_cell() for n in near if n.above)
            key = (cell.path, cell.index)
            code = self.code.get(key, cell.code)
            if key not in self.code:
                result.append(cell)
            elif code is not None:
                result.append(_reread(cell, code))
            result.extend(n.as_cell() for n in near if not n.above)
        return result

    def of(self, cell: Cell) -> Cell | None:
        """The cell after the rewrite; None if it goes."""
        key = (cell.path, cell.index)
        if key not in self.code:
            return cell
        code = self.code[key]
        return None if code is None else _reread(cell, code)

    def text(self, part: Part) -> str:
        """The text of a part after the rewrite."""
        lines = part.text.split("\n")
        if lines[-1] == "":
            lines.pop()
        ends = [c.line - 1 for c in part.cells[1:]] + [len(lines)]
        for cell, end in reversed(list(zip(part.cells, ends, strict=True))):
            region = lines[cell.line - 1 : end]
            near = [n for n in self.new if (n.neighbour.path, n.neighbour.index) == (cell.path, cell.index)]
            region = self._cell(cell, region)
            for new in near:
                if new.above:
                    region = [*_spaced(new.lines(), new.code), *region]
                else:
                    region = [*_spaced(region, self.code.get((cell.path, cell.index)) or cell.code), *new.lines()]
                    region = _spaced(region, new.code)
            lines[cell.line - 1 : end] = region
        while lines and not lines[-1].strip():
            lines.pop()
        return "\n".join(lines) + "\n"

    def _cell(self, cell: Cell, region: list[str]) -> list[str]:
        key = (cell.path, cell.index)
        if key not in self.code:
            return region
        code = self.code[key]
        if code is None:
            return []
        start = cell.code_line - cell.line
        stop = start + cell.code.count("\n") + 1
        changed = [*region[:start], *code.split("\n"), *region[stop:]]
        return _spaced(changed, code) if _ends_in_definition(code) else changed


def _reread(cell: Cell, code: str) -> Cell:
    """The cell with other code, if a chapter would still hold it as one cell with the same directives."""
    part = parse_part(f"# %%\n#| into: {cell.into}\n{code}\n", name=cell.part, path=cell.path)
    if len(part.cells) != 1 or len(part.cells[0].directives) != 1:
        raise LiterateError(Problem(cell.path, cell.line, "a line of it would be read as a cell marker or a directive"))
    return replace(cell, code=code)


def _spaced(region: list[str], code: str) -> list[str]:
    """A cell and the blank lines that the formatter wants below it."""
    stop = len(region)
    while stop and not region[stop - 1].strip():
        stop -= 1
    return [*region[:stop], *[""] * (2 if _ends_in_definition(code) else 1)]


def _ends_in_definition(code: str) -> bool:
    try:
        body = ast.parse(code).body
    except SyntaxError:
        return False
    return bool(body) and ends_in_definition(body[-1])


def rewritten(book: Book, rewrite: Rewrite) -> Book:
    """The book after the rewrite, parsed anew. Parts that do not change are the same objects."""
    paths = {path for path, _ in rewrite.code} | {n.neighbour.path for n in rewrite.new}
    parts = []
    for part in book.parts:
        if part.path not in paths:
            parts.append(part)
        else:
            text = rewrite.text(part)
            parts.append(parse_part(text, name=part.name, path=part.path, file=part.file))
    return Book(book.root, tuple(parts))
