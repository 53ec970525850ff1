"""The pieces in which live cells are compared: one statement of a module, or one member of a class.

A cell and a file of the package are cut the same way, so that what a cell says and what the package holds can be set side by
side by name and text. A class at module level is a *header* (decorators, bases, docstring) and its members; the members of a
re-opened class have no header.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from readtorch.literate.chapter import bound_names, statement_start
from readtorch.literate.crosscheck import is_docstring

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, eq=False)
class Unit:
    """`node` keeps the line numbers of the source it comes from; `start` and `end` are those of its whole lines."""

    scope: str
    """The class it belongs to, "" at module level."""
    names: tuple[str, ...]
    raw: str = field(repr=False)
    """Its lines as they stand in the source, indentation included."""
    node: ast.stmt = field(repr=False)
    start: int
    end: int
    header: bool = False

    @cached_property
    def text(self) -> str:
        return textwrap.dedent(self.raw)

    @property
    def key(self) -> tuple[str, str]:
        return self.scope, self.text

    @property
    def qualified(self) -> tuple[str, ...]:
        return tuple(f"{self.scope}.{n}" for n in self.names) if self.scope else self.names

    @property
    def is_import(self) -> bool:
        return isinstance(self.node, ast.Import | ast.ImportFrom)

    @cached_property
    def uses(self) -> frozenset[str]:
        """Names that are read when the statement itself runs: not those inside function bodies."""
        return frozenset(_read_when_run(self.node))


def _read_when_run(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load):
            yield node.id
        return
    if isinstance(node, FUNCTIONS):
        parts: list[ast.AST] = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    elif isinstance(node, ast.Lambda):
        parts = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    else:
        parts = list(ast.iter_child_nodes(node))
    for part in parts:
        yield from _read_when_run(part)


@dataclass(frozen=True, eq=False)
class Version:
    """One text of a fragment: what the book says, or what the reader ran."""

    text: str = field(repr=False)
    filename: str
    """What its functions give as their file: the package's, or the cell's."""
    units: tuple[Unit, ...]

    @cached_property
    def key(self) -> tuple[tuple[str, str], ...]:
        return tuple(u.key for u in self.units)

    @cached_property
    def texts(self) -> frozenset[tuple[str, str]]:
        return frozenset(self.key)

    @cached_property
    def qualified(self) -> tuple[str, ...]:
        """The names it defines, in order, members as `Class.member`."""
        return tuple(dict.fromkeys(name for u in self.units for name in u.qualified))

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """Classes that it opens or re-opens."""
        named = (u.names[0] if u.header else u.scope for u in self.units)
        return tuple(dict.fromkeys(name for name in named if name))

    def members(self, scope: str) -> tuple[Unit, ...]:
        return tuple(u for u in self.units if u.scope == scope)

    def header(self, scope: str) -> Unit | None:
        return next((u for u in self.units if u.header and u.names[0] == scope), None)


EMPTY = Version("", "", ())


def reopened(tree: ast.Module) -> ast.ClassDef | None:
    """The class statement of a cell that is nothing but `class C(C): ...`."""
    if len(tree.body) == 1 and isinstance(tree.body[0], ast.ClassDef) and _bases_itself(tree.body[0]):
        return tree.body[0]
    return None


def _bases_itself(node: ast.ClassDef) -> bool:
    return bool(node.bases) and isinstance(node.bases[0], ast.Name) and node.bases[0].id == node.name


def cut(source: str, tree: ast.Module) -> tuple[Unit, ...]:
    """Cut a cell or a file into units. `tree` is that of `source`, its line 1 being the source's first."""
    lines = source.split("\n")
    opened = reopened(tree)
    if opened is not None:
        return tuple(_members(opened, lines))
    return tuple(_module(tree.body, lines))


def _module(body: list[ast.stmt], lines: list[str]) -> Iterator[Unit]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield _header(statement, lines)
            yield from _members(statement, lines)
        else:
            yield _unit("", statement, lines)


def _members(node: ast.ClassDef, lines: list[str]) -> Iterator[Unit]:
    body = node.body
    if _bases_itself(node) is False and is_docstring(body[0]):
        body = body[1:]
    for statement in body:
        if statement.lineno > node.lineno:  # not `class C: pass`, which is all header
            yield _unit(node.name, statement, lines)


def _header(node: ast.ClassDef, lines: list[str]) -> Unit:
    start = statement_start(node)
    members = [s for s in node.body if not (s is node.body[0] and is_docstring(s)) and s.lineno > node.lineno]
    if is_docstring(node.body[0]) or not members:
        end = node.body[0].end_lineno or node.lineno
    else:
        end = statement_start(members[0]) - 1
        while end > start and not lines[end - 1].rstrip().endswith(":"):
            end -= 1  # comments and blank lines above the first member are not the header's
    return Unit("", (node.name,), _lines(lines, start, end), node, start, end, header=True)


def _unit(scope: str, statement: ast.stmt, lines: list[str]) -> Unit:
    start, end = statement_start(statement), statement.end_lineno or statement.lineno
    names = tuple(dict.fromkeys(bound_names(statement)))
    return Unit(scope, names, _lines(lines, start, end), statement, start, end)


def _lines(lines: list[str], start: int, end: int) -> str:
    return "\n".join(line.rstrip() for line in lines[start - 1 : end])


def only_imports(node: ast.stmt) -> bool:
    """Is it an import statement, or a block of nothing else (`if TYPE_CHECKING:`)?"""
    if isinstance(node, ast.If):
        return all(map(only_imports, [*node.body, *node.orelse]))
    return isinstance(node, ast.Import | ast.ImportFrom)


def imported_names(body: list[ast.stmt]) -> Iterator[str]:
    """Names that the import statements of a module bind, also those below `if` and `try`."""
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            yield from (a.asname or a.name for a in node.names if a.name != "*")
        elif isinstance(node, ast.Import):
            yield from (a.asname or a.name.partition(".")[0] for a in node.names)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for block in (node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])):
                yield from imported_names(block)
