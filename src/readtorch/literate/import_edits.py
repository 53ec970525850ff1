"""Edits of the imports of a tangled file, brought back to the cells that its import block was merged from."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from readtorch.literate.chapter import Cell
from readtorch.literate.crosscheck import is_docstring, is_type_checking
from readtorch.literate.imports import Import, member_key, read_imports, render, section, statement_key


@dataclass(frozen=True, slots=True)
class Block:
    """The import block of a Python file: lines [start, stop), what it imports at run time, what for the type checker."""

    start: int
    stop: int
    runtime: tuple[Import, ...]
    typing: tuple[Import, ...]

    def keys(self) -> set[tuple[bool, tuple[object, ...]]]:
        return {(False, i.key) for i in self.runtime} | {(True, i.key) for i in self.typing}


def find_block(text: str) -> Block:
    """The imports at the head of a file, below its docstring. SyntaxError if it does not parse."""
    lines = text.split("\n")
    body = ast.parse(text).body
    runtime: list[Import] = []
    typing: list[Import] = []
    start = stop = None
    for node in body[1 if body and is_docstring(body[0]) else 0 :]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            runtime.extend(read_imports([node], lines, 1, above([node], lines)))
        elif isinstance(node, ast.If) and guards_imports(node):
            typing.extend(read_imports(node.body, lines, 1, above(node.body, lines)))
        else:
            break
        if start is None:
            start = node.lineno - 1 - len(above([node], lines).get(node.lineno, []))
        stop = node.end_lineno
    if start is None or stop is None:
        after = (body[0].end_lineno or 1) if body and is_docstring(body[0]) else 1
        return Block(after, after, (), ())
    return Block(start, stop, tuple(runtime), tuple(typing))


def guards_imports(node: ast.If) -> bool:
    return (
        is_type_checking(node)
        and not node.orelse
        and all(isinstance(n, ast.Import | ast.ImportFrom) for n in node.body)
    )


def above(statements: Iterable[ast.stmt], lines: list[str], first_line: int = 1) -> dict[int, list[str]]:
    """The comment lines directly above each statement, by its line; not the header of the file."""
    found: dict[int, list[str]] = {}
    for statement in statements:
        comments: list[str] = []
        at = statement.lineno - first_line - 1
        while at >= 0 and lines[at].strip().startswith("#") and not (first_line == 1 and at == 0):
            comments.insert(0, lines[at][statement.col_offset :])
            at -= 1
        if comments:
            found[statement.lineno] = comments
    return found


@dataclass(slots=True)
class _Statement:
    """One statement of an imports cell: lines [start, stop) of its code, comments above included."""

    start: int
    stop: int
    indent: str
    imports: list[Import]


def edit_cell(cell: Cell, add: list[tuple[bool, Import]], remove: set[tuple[bool, tuple[object, ...]]]) -> str:
    """The code of an imports cell with some imports taken out and others put in ("" if nothing is left).

    The flag beside an import says whether it stands under `if TYPE_CHECKING:`. Statements that are not concerned keep their
    text and place.
    """
    lines = cell.code.split("\n")
    first = cell.code_line
    groups: dict[bool, list[_Statement]] = {False: [], True: []}
    guard: ast.If | None = None
    for node in cell.tree.body:
        inner: list[ast.stmt] = []
        if isinstance(node, ast.If):
            guard, inner = node, node.body
        elif isinstance(node, ast.Import | ast.ImportFrom):
            inner = [node]
        leading = above(inner, lines, first)
        for one in inner:
            start = one.lineno - first - len(leading.get(one.lineno, []))
            stop = (one.end_lineno or one.lineno) - first + 1
            found = read_imports([one], lines, first, leading)
            groups[node is guard].append(_Statement(start, stop, " " * one.col_offset, found))
    replacements: list[tuple[int, int, list[str]]] = []
    for typing, statements in groups.items():
        wanted = [item for flag, item in add if flag is typing]
        for statement in statements:
            kept = [i for i in statement.imports if (typing, i.key) not in remove]
            joined = [i for i in wanted if _joins(kept, i)]
            wanted = [i for i in wanted if i not in joined]
            if len(kept) != len(statement.imports) or joined:
                new = _written([*kept, *joined], statement.indent) if kept or joined else []
                replacements.append((statement.start, statement.stop, new))
        left = [s for s in statements if any((typing, i.key) not in remove for i in s.imports)]
        if typing and guard is not None and not left and not wanted:
            replacements = [r for r in replacements if not _inside(guard, r, first)]
            replacements.append((guard.lineno - first, (guard.end_lineno or 0) - first + 1, []))
        elif typing and guard is None and wanted:
            block = ["", "if TYPE_CHECKING:", *(line for item in wanted for line in _written([item], "    "))]
            replacements.append((len(lines), len(lines), block))
        else:
            replacements.extend(_insertions(wanted, statements, len(lines) if not typing else None, guard, first))
    for start, stop, new in sorted(replacements, key=lambda r: (r[0], r[1]), reverse=True):
        lines[start:stop] = new
    return "\n".join(lines).strip("\n")


def _inside(guard: ast.If, replacement: tuple[int, int, list[str]], first: int) -> bool:
    return guard.lineno - first <= replacement[0] and replacement[1] <= (guard.end_lineno or 0) - first + 1


def _joins(kept: list[Import], item: Import) -> bool:
    """Can `item` become one more name of the `from` statement that these imports are kept in?"""
    return (
        bool(kept)
        and item.name is not None
        and not item.verbatim
        and all(k.module == item.module and k.name not in (None, "*") and not k.verbatim for k in kept)
    )


def _written(imports: list[Import], indent: str) -> list[str]:
    head = imports[0]
    if head.verbatim:
        return [indent + line if line else line for line in head.verbatim]
    if head.name is None:
        return [f"{indent}import " + ", ".join(f"{i.module} as {i.alias}" if i.alias else i.module for i in imports)]
    ordered = sorted(imports, key=lambda i: member_key(i.name or "", i.alias))
    return render(ordered, any(i.exploded for i in imports), indent)


def _insertions(
    wanted: list[Import], statements: list[_Statement], end: int | None, guard: ast.If | None, first: int
) -> list[tuple[int, int, list[str]]]:
    """Each new statement above the first one that sorts after it, else below the last; a blank line between sections."""
    groups: dict[int, list[Import]] = {}
    for item in sorted(wanted, key=_order):
        position = next((k for k, s in enumerate(statements) if _order(s.imports[0]) > _order(item)), len(statements))
        groups.setdefault(position, []).append(item)
    found: list[tuple[int, int, list[str]]] = []
    for position, items in groups.items():
        above = statements[position - 1].imports[0] if position else None
        below = statements[position].imports[0] if position < len(statements) else None
        if below is not None:
            at = statements[position].start
        elif above is not None:
            at = statements[-1].stop
        else:
            at = guard.lineno - first if guard is not None and end is not None else end or 0
        indent = statements[0].indent if statements else "    " if end is None else ""
        lines: list[str] = []
        for item in items:
            if above is not None and section(above.module) != section(item.module):
                lines.append("")
            lines.extend(_written([item], indent))
            above = item
        if below is not None and section(items[-1].module) != section(below.module):
            lines.append("")
        found.append((at, at, lines))
    return found


def _order(item: Import) -> tuple[object, ...]:
    return (section(item.module), *statement_key(item))
