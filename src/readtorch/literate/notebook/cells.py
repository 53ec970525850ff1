"""A cell as it comes from the notebook: which file it goes into, what it says, what it binds."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from readtorch.literate.chapter import bound_names
from readtorch.literate.errors import Problems
from readtorch.literate.grammar import Directive, parse_directives
from readtorch.literate.notebook.errors import LiveError
from readtorch.literate.notebook.units import imported_names, reopened


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
    """The cell if it is a tangled one, else None. Raises LiterateError on a faulty directive."""
    problems = Problems()
    lines = source.split("\n")
    skipped = next((i for i, line in enumerate(lines) if line.strip()), 0)
    directives, _ = parse_directives(lines[skipped:], skipped + 1, "this cell", problems)
    into = next((d.value for d in directives if d.key == "into"), None)
    if into is None:
        return None
    problems.raise_if_any()
    return TangledCell(into, directives, source, tree, filename, cell_id)


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
