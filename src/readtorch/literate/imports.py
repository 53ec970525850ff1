"""The imports of a tangled file: read from its cells, merged, and set in the order that ruff's isort rules give.

A file's imports come from several cells, often from several chapters. They are merged to one block that `ruff check
--select I` and `ruff format` leave alone, so that nobody has to think about their order while writing a chapter.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass

FIRST_PARTY = "readtorch"
LINE_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: `import module [as alias]` where `name` is None, else `from module import name [as alias]`.

    `verbatim` holds the lines of a statement that carries comments: it is moved as it stands and never merged with another.
    """

    module: str
    name: str | None = None
    alias: str | None = None
    exploded: bool = False
    verbatim: tuple[str, ...] = ()
    line: int = 0
    """The chapter line of the statement (not part of what the import is)."""

    @property
    def key(self) -> tuple[object, ...]:
        """What is imported, whatever the layout."""
        if self.verbatim:
            return (self.verbatim,)
        return (self.module, self.name, self.alias)

    @property
    def what(self) -> str:
        """The dotted name of what is imported."""
        return self.module if self.name is None else f"{self.module}.{self.name}"

    @property
    def binds(self) -> str:
        return self.alias or self.name or self.module.split(".")[0]


def read_imports(
    statements: Iterable[ast.stmt], lines: list[str], first_line: int, leading: dict[int, list[str]] | None = None
) -> list[Import]:
    """The names that import statements bring in. `lines[0]` is line `first_line` of the syntax tree's numbering.

    `leading` gives the comment lines directly above a statement, by the statement's line.
    """
    found: list[Import] = []
    for statement in statements:
        assert isinstance(statement, ast.Import | ast.ImportFrom)
        text = lines[statement.lineno - first_line : (statement.end_lineno or statement.lineno) - first_line + 1]
        above = (leading or {}).get(statement.lineno, [])
        indent = statement.col_offset
        verbatim: tuple[str, ...] = ()
        if above or any("#" in line for line in text):
            verbatim = tuple(
                line[indent:] if line[:indent].isspace() or not indent else line for line in [*above, *text]
            )
        exploded = bool(re.search(r",\s*\)\s*$", "\n".join(text)))
        at = statement.lineno
        names = statement.names[:1] if verbatim else statement.names
        for alias in names:
            if isinstance(statement, ast.Import):
                found.append(Import(alias.name, None, alias.asname, False, verbatim, at))
            else:
                module = "." * statement.level + (statement.module or "")
                found.append(Import(module, alias.name, alias.asname, exploded, verbatim, at))
    return found


def section(module: str) -> int:
    """Where a module's imports stand: 0 `__future__`, 1 standard library, 2 third party, 3 readtorch, 4 relative."""
    top = module.split(".")[0]
    if module.startswith("."):
        return 4
    if top == "__future__":
        return 0
    if top in sys.stdlib_module_names:
        return 1
    return 3 if top == FIRST_PARTY else 2


_NATURAL = re.compile(r"(\d+)")


def _natural(text: str) -> tuple[object, ...]:
    """Digits compare as numbers. Each piece is tagged so that a number and a word can be compared."""
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in _NATURAL.split(text) if p)


def member_key(name: str, alias: str | None) -> tuple[object, ...]:
    """CONSTANTS, then Classes, then the rest; each alphabetical without regard to case."""
    if len(name) > 1 and name.isupper():
        kind = 0
    else:
        kind = 1 if name[:1].isupper() else 2
    return (name != "*", kind, _natural(name.lower()), _natural(name), _natural(alias or ""))


def _module_key(module: str) -> tuple[object, ...]:
    return (_natural(module.lower()), _natural(module))


@dataclass(slots=True, eq=False)
class Statement:
    """One rendered import statement and the chapter line of its first contributor."""

    lines: list[str]
    imports: list[Import]


def merge(imports: Iterable[Import], indent: str = "") -> list[list[Statement]]:
    """The sections of the merged import block, in order; within each, its statements in order."""
    plain: dict[tuple[object, ...], Import] = {}
    members: dict[tuple[object, ...], list[Import]] = {}
    for item in imports:
        if item.verbatim or item.name is None:
            plain.setdefault(item.key, item)
        elif item.alias is not None or item.name == "*":
            members.setdefault((item.module, item.name, item.alias), []).append(item)
        else:
            members.setdefault((item.module,), []).append(item)
    keyed: list[tuple[tuple[object, ...], Statement]] = []
    for item in plain.values():
        if item.verbatim:
            lines = [indent + line if line else line for line in item.verbatim]
        else:
            lines = [f"{indent}import {item.module}" + (f" as {item.alias}" if item.alias else "")]
        keyed.append((statement_key(item), Statement(lines, [item])))
    for group in members.values():
        unique: dict[str, Import] = {}
        for item in group:
            assert item.name is not None
            unique.setdefault(item.name, item)
        ordered = sorted(unique.values(), key=lambda i: member_key(i.name or "", i.alias))
        statement = Statement(render(ordered, any(i.exploded for i in group), indent), ordered)
        keyed.append((statement_key(ordered[0]), statement))
    keyed.sort(key=lambda pair: pair[0])
    sections: dict[int, list[Statement]] = {}
    for _, statement in keyed:
        sections.setdefault(section(statement.imports[0].module), []).append(statement)
    return [sections[key] for key in sorted(sections)]


def statement_key(item: Import) -> tuple[object, ...]:
    is_from = item.name is not None
    first = member_key(item.name, item.alias) if item.name is not None else ()
    # `import x` stands above `from x import y`; relative imports go from the farthest package to the nearest.
    distance = len(item.module) - len(item.module.lstrip("."))
    return (is_from, -distance, *_module_key(item.module), first, _natural(item.alias or ""))


def render(members: list[Import], exploded: bool, indent: str) -> list[str]:
    names = [f"{i.name} as {i.alias}" if i.alias else str(i.name) for i in members]
    head = f"{indent}from {members[0].module} import "
    flat = head + ", ".join(names)
    if names == ["*"] or (len(flat) <= LINE_LENGTH and not exploded):
        return [flat]
    return [f"{head}(", *(f"{indent}    {name}," for name in names), f"{indent})"]
