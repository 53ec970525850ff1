"""A tangled file while it is being put together: blocks of code, each from one cell, and the blank lines between them.

A block is one statement at module level (or one member of a class) with the comments above it. Blocks of one cell keep the
blank lines they have there; between blocks of different cells stand as many as `ruff format` wants.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from readtorch.literate.chapter import Cell, statement_start

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class TangledLine:
    """One line of a tangled file and where it comes from; the header and blank lines between fragments come from nowhere."""

    text: str
    part_path: str | None = None
    chapter_line: int | None = None
    cell: Cell | None = None


@dataclass(slots=True, eq=False)
class Line:
    text: str
    number: int
    """Line in the chapter."""


@dataclass(slots=True, eq=False)
class Block:
    """Code of one statement. `before` is the number of blank lines above it in its cell, `position` its place there."""

    cell: Cell
    lines: list[Line]
    before: int
    position: int
    node: ast.stmt | None
    members: list[Block] | None = field(default=None)
    """A class that has been opened up: `lines` is its header, the rest is here."""
    anchor: str | None = None

    @property
    def start(self) -> int:
        return self.lines[0].number


def split(cell: Cell, statements: list[ast.stmt], lines: list[Line], column: int) -> list[Block]:
    """Cut `lines` into one block per statement. Comments belong to the statement below them, unless they are indented

    deeper than `column` (then they end the block above) or nothing follows.
    """
    if not statements:
        kept = _trim(lines)
        return [Block(cell, kept, 0, 0, None)] if kept else []
    blocks: list[Block] = []
    first = lines[0].number
    at = 0
    for position, statement in enumerate(statements):
        end = (statement.end_lineno or statement.lineno) - first + 1
        limit = statement_start(statements[position + 1]) - first if position + 1 < len(statements) else len(lines)
        end = len(lines) if position + 1 == len(statements) else _with_inner_comments(lines, end, limit, column)
        piece = lines[at:end]
        blank = next((k for k, line in enumerate(piece) if line.text.strip()), 0)
        blocks.append(Block(cell, _trim(piece), blank, position, statement))
        at = end
    return blocks


def _with_inner_comments(lines: list[Line], end: int, limit: int, column: int) -> int:
    last = end
    for index in range(end, limit):
        text = lines[index].text
        if text.strip() and len(text) - len(text.lstrip()) > column:
            last = index + 1
        elif text.strip():
            break
    return last


def _trim(lines: list[Line]) -> list[Line]:
    start, stop = 0, len(lines)
    while start < stop and not lines[start].text.strip():
        start += 1
    while stop > start and not lines[stop - 1].text.strip():
        stop -= 1
    return lines[start:stop]


def open_class(block: Block) -> list[Block]:
    """Cut a class block into its header and its members."""
    if block.members is None:
        node = block.node
        assert isinstance(node, ast.ClassDef)
        first = block.lines[0].number
        header_end = _header_end(node, block.lines) - first + 1
        body = block.lines[header_end:]
        block.lines = block.lines[:header_end]
        block.members = split(block.cell, node.body, body, node.body[0].col_offset)
    return block.members


def _header_end(node: ast.ClassDef, lines: list[Line]) -> int:
    """The last line of `class C(...):`, the line that ends with the colon before the body."""
    after = max([node.lineno, *((e.end_lineno or 0) for e in [*node.bases, *(k.value for k in node.keywords)])])
    first = lines[0].number
    body_start = statement_start(node.body[0])
    for number in range(after, body_start):
        if lines[number - first].text.split("#")[0].rstrip().endswith(":"):
            return number
    return body_start - 1


def glue(above: Block, below: Block, top_level: bool) -> int:
    """How many blank lines stand between two neighbours from different cells (or far apart in one)."""
    if not top_level:
        return 1
    return 2 if ends_in_definition(above.node) or isinstance(below.node, DEFINITIONS) else 1


def ends_in_definition(node: ast.stmt | None) -> bool:
    """Is this a definition, or a compound statement whose last line belongs to one?"""
    if isinstance(node, DEFINITIONS):
        return True
    for name in ("finalbody", "orelse", "handlers", "body", "cases"):
        inner = getattr(node, name, None)
        if inner:
            return ends_in_definition(inner[-1])
    return False


def walk(blocks: list[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if block.members:
            yield from block.members
