"""Definitions that an edit of the package takes out of their cell and puts into another.

A cell is more than its code: prose speaks of it, its directives name its upstream counterpart. Where all that a cell defines goes
elsewhere, or what its directives are about, these would stay behind; where they belong only the author knows.
"""

from __future__ import annotations

import ast

from readtorch.literate.build import PACKAGE
from readtorch.literate.chapter import Cell, bound_names
from readtorch.literate.errors import Problems
from readtorch.literate.rewrite import Rewrite
from readtorch.literate.tangle import TangledFile


def moved_away(file: TangledFile, rewrite: Rewrite, target: str) -> Problems:
    """Every definition that the rewrite takes away from a cell that is about it, with both places."""
    problems = Problems()
    before = {id(cell): _lines(cell.tree) for cell in file.cells}
    after = {id(cell): _lines(now.tree) if (now := rewrite.of(cell)) else {} for cell in file.cells}
    came: dict[str, str] = {}
    for cell in file.cells:
        place = f"the one at {cell.path}:{cell.line}"
        came.update((name, place) for name in after[id(cell)] if name not in before[id(cell)])
    for new in rewrite.new:
        place = f"a new one below {new.neighbour.path}:{new.neighbour.line}"
        came.update((name, place) for name in _lines(new.as_cell().tree))
    lines = _lines(ast.parse(target)) if came and file.path.endswith(".py") else {}
    for cell in file.cells:
        left = [name for name in before[id(cell)] if name not in after[id(cell)] and name in came]
        stays = before[id(cell)].keys() & after[id(cell)].keys()
        for name in [name for name in left if _is_about(cell, name)] if stays else left:
            problems.add(
                f"{PACKAGE}/{file.path}",
                lines.get(name, 0),
                f"{name} was moved here, out of its cell at {cell.path}:{cell.line} into {came[name]}; "
                "prose and directives of its cell would stay behind",
                "move the cell in the chapter, with its prose, so that both say the same; or move the code back",
            )
    return problems


def _is_about(cell: Cell, name: str) -> bool:
    """Does a directive of the cell speak of this one of its definitions?"""
    last = name.rpartition(".")[2]
    targets = [t.partition("#")[2].replace("::", ".").rpartition(".")[2] for t in cell.get_all("upstream")]
    return last in targets or cell.get("id") == name


def _lines(tree: ast.Module) -> dict[str, int]:
    """Qualified names of definitions and members to their lines. A class that is re-opened is not defined there."""
    found: dict[str, int] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.ClassDef):
            for name in bound_names(statement):
                found.setdefault(name, statement.lineno)
            continue
        if not any(isinstance(base, ast.Name) and base.id == statement.name for base in statement.bases):
            found.setdefault(statement.name, statement.lineno)
        for member in statement.body:
            for name in bound_names(member):
                found.setdefault(f"{statement.name}.{name}", member.lineno)
    return found
