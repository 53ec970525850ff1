"""A cell as it comes from the notebook: which file it goes into, what it says, what it binds."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from readtorch.literate.chapter import bound_names
from readtorch.literate.errors import Problems
from readtorch.literate.grammar import Directive, parse_directives
from readtorch.literate.notebook.errors import LiveError
from readtorch.literate.notebook.units import imported_names, reopened

_DIRECTIVE = re.compile(r"^# ?\|", re.MULTILINE)
_INTO = re.compile(r"\s*%%[^\n]*\n(?:# ?\|[^\n]*\n)*# ?\| *into *:")


@dataclass(frozen=True)
class TangledCell:
    """A cell that was run and says `into:`."""

    into: str
    directives: tuple[Directive, ...]
    code: str
    tree: ast.Module
    """The code's tree, its line numbers those of the cell."""
    filename: str
    cell_id: str | None

    def has(self, key: str) -> bool:
        return any(d.key == key for d in self.directives)

    @property
    def id(self) -> str:
        return next((d.value for d in self.directives if d.key == "id"), "")


def read_cell(source: str, tree: ast.Module, filename: str, cell_id: str | None = None) -> TangledCell | None:
    """The cell if it is a tangled one, else None. Raises LiterateError on a faulty directive, as tangle would."""
    directives, problems = _directives(source)
    problems.raise_if_any()
    into = next((d.value for d in directives if d.key == "into"), None)
    if into is None:
        return None
    return TangledCell(into, directives, source, tree, filename, cell_id)


def concerns_the_package(source: str) -> bool:
    """Does the cell go into a file, or is something wrong with what it says? Then `read_cell` has a word on it."""
    if not _DIRECTIVE.search(source):
        return False
    if source.lstrip().startswith(
        "%%"
    ):  # the text of a cell magic is not ours, unless it begins as a tangled cell does
        return _INTO.match(source) is not None
    directives, problems = _directives(source)
    return len(problems) > 0 or any(d.key == "into" for d in directives)


def _directives(source: str) -> tuple[tuple[Directive, ...], Problems]:
    problems = Problems()
    directives, _ = parse_directives(source.split("\n"), 1, "this cell", problems)
    return directives, problems


def below_directives(cell: TangledCell) -> str:
    lines = cell.code.split("\n")
    first = min((s.lineno for s in cell.tree.body), default=len(lines) + 1)
    while first > 1 and not lines[first - 2].lstrip().startswith("#|") and lines[first - 2].strip():
        first -= 1
    return "\n".join(lines[first - 1 :]).rstrip()


def check_shape(tree: ast.Module) -> None:
    if reopened(tree) is None:
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and reopened(ast.Module([node], [])) is not None:
                raise LiveError(f"a cell that re-opens class {node.name} holds nothing else: split the cell")


def bring_names(tree: ast.Module, source: dict[str, Any], notebook: dict[str, Any]) -> None:
    """Bind in the notebook what running the cell there would have bound, from the module."""
    for name in [*imported_names(tree.body), *(n for s in tree.body for n in bound_names(s))]:
        if name in source and not (name.startswith("__") and name.endswith("__")):
            notebook[name] = source[name]
