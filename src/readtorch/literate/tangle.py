"""Tangle: from the cells of the chapters to the files of the package.

Pure: `tangle(book)` returns what the files should be and where each line comes from; it reads and writes nothing. Order is
the book's: a cell's code is appended to its file, a re-opened class (`class C(C):`) to that class, an `imports` cell goes to
the head of the file. Between the pieces stand the blank lines that `ruff format` wants, so that its output is a fixed point.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from readtorch.literate.assembly import Assembly
from readtorch.literate.blocks import TangledLine
from readtorch.literate.chapter import Book, Cell
from readtorch.literate.crosscheck import check_across_files, check_cell
from readtorch.literate.errors import Problems
from readtorch.literate.garbage import collection_paused

HEADER = "Tangled from chapters/"


@dataclass(frozen=True, slots=True)
class TangledFile:
    """`path` is relative to the package; `cells` are all cells that it is made of, in the order of the book.

    `imports` is the range of lines (counted from 0) of the merged import block.
    """

    path: str
    lines: tuple[TangledLine, ...]
    cells: tuple[Cell, ...]
    imports: range = range(0)

    @property
    def text(self) -> str:
        return "".join(line.text + "\n" for line in self.lines)


def tangled_cells(book: Book) -> dict[str, list[Cell]]:
    """The cells of each file, in the order of the book."""
    files: dict[str, list[Cell]] = {}
    for part in book.parts:
        for cell in part.cells:
            if cell.into:
                files.setdefault(cell.into, []).append(cell)
    return files


def tangle(book: Book, previous: Mapping[str, TangledFile] | None = None) -> dict[str, TangledFile]:
    """Every file of the package. Raises LiterateError with all that is wrong.

    A file whose cells are the very ones that it was made of in `previous` is taken from there.
    """
    problems = Problems()
    files = tangled_cells(book)
    tangled: dict[str, TangledFile] = {}
    with collection_paused():
        for path, cells in sorted(files.items()):
            old = None if previous is None else previous.get(path)
            if old is not None and list(map(id, old.cells)) == list(map(id, cells)):
                tangled[path] = old
                continue
            with problems.collecting():
                tangled[path] = tangle_file(path, cells)
        check_across_files(files, problems)
    problems.raise_if_any()
    return tangled


def further_faults(book: Book, problems: Problems) -> None:
    """What else is wrong, besides the `problems` of reading the book, as far as its sound cells tell.

    A faulty cell may have brought any name to any file: nothing that is missed is a fault then.
    """
    from readtorch.literate.references import check_references

    check_references(book, problems)
    for path, cells in sorted(tangled_cells(book).items()):
        sound = [cell for cell in cells if not cell.faulty]
        if sound:
            with problems.collecting():
                tangle_file(path, sound, complete=False)


def tangle_file(path: str, cells: list[Cell], *, complete: bool = True) -> TangledFile:
    """One file from its cells. Raises LiterateError with all that is wrong in it.

    Where the cells are not `complete`, a class or name that they refer to and that is not there is no fault.
    """
    problems = Problems()
    for cell in list(cells):
        before = len(problems)
        check_cell(cell, path, problems)
        if len(problems) > before:
            cells, complete = [c for c in cells if c is not cell], False
    if not cells:
        raise problems.error
    head = TangledLine(_header(path, cells))
    if not path.endswith(".py"):
        lines = _native(cells, problems)
        problems.raise_if_any()
        return TangledFile(path, (head, *lines), tuple(cells))
    assembly = Assembly(path, cells, problems, complete)
    assembly.take_in()
    lines, imports = assembly.render()
    problems.raise_if_any()
    return TangledFile(path, (head, *lines), tuple(cells), imports)


def _header(path: str, cells: list[Cell]) -> str:
    comment = "#" if path.endswith(".py") else "//"
    names = list(dict.fromkeys(cell.path for cell in cells))
    text = _header_line(comment, names)
    if len(text) > 120:
        folders = list(dict.fromkeys("/".join(name.split("/")[:2]) for name in names))
        text = _header_line(comment, [f if f.endswith(".py") else f + "/" for f in folders])
    return text


def _header_line(comment: str, names: list[str]) -> str:
    return f"{comment} Tangled from {', '.join(names)} — edit there, or here and run `readtorch sync`."


def is_tangled_header(line: str) -> bool:
    """Is this the first line of a file that tangle wrote?"""
    return line.startswith(("# " + HEADER, "// " + HEADER))


def _native(cells: list[Cell], problems: Problems) -> list[TangledLine]:
    """A CUDA source: the content of one raw string literal per cell."""
    result: list[TangledLine] = []
    for cell in cells:
        content = raw_string(cell)
        if content is None:
            problems.add(
                cell.path,
                cell.code_line,
                f"a cell into {cell.into} holds one raw string literal and nothing else",
                'write r"""…""" (or NAME = r"""…"""), the source on the lines between',
            )
            continue
        if result:
            result.append(TangledLine(""))
        number, lines = content
        result.extend(TangledLine(text, cell.path, number + k, cell) for k, text in enumerate(lines))
    return result


def raw_string(cell: Cell) -> tuple[int, list[str]] | None:
    """Chapter line and lines of the text inside the raw string of a cell for a `.cu` file; None where it is none."""
    body = cell.tree.body
    if len(body) != 1:
        return None
    statement = body[0]
    value = getattr(statement, "value", None) if isinstance(statement, ast.Expr | ast.Assign) else None
    if not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
        return None
    lines = cell.code.split("\n")
    first = lines[value.lineno - cell.code_line].encode()[value.col_offset :].decode()
    last = lines[(value.end_lineno or value.lineno) - cell.code_line]
    if not first.lower().startswith(('r"""', "r'''")) or first[4:].strip() or last.strip() != first[1:4]:
        return None
    inner = lines[value.lineno - cell.code_line + 1 : (value.end_lineno or value.lineno) - cell.code_line]
    return (value.lineno + 1, inner) if any(line.strip() for line in inner) else None
