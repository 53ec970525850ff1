"""`readtorch show nn.Module.register_buffer`: our source, with its place in the book, beside the installed PyTorch's.

Neither library is imported: ours is looked up in the chapters, upstream's through the cell's own `upstream:` line.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path

from readtorch.literate import facts
from readtorch.literate.chapter import Book, Cell, bound_names, find_root
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.installed import UpstreamSource, upstream_source

__all__ = ["OurSource", "UpstreamSource", "add_arguments", "our_source", "run", "upstream_source"]

TWO_COLUMNS = 150
"""Terminal width from which the two sources stand side by side."""


@dataclass(frozen=True)
class OurSource:
    """A definition of the book. `upstream` are the targets that its cell names, else its file's twin."""

    name: str
    path: str
    """Below `src/readtorch/`."""
    source: str
    chapter: str
    line: int
    upstream: tuple[str, ...]

    @property
    def heading(self) -> str:
        return f"readtorch/{self.path}, {self.chapter}:{self.line}"


@dataclass(frozen=True)
class _Definition:
    cell: Cell
    qualified: str
    line: int
    """In the chapter."""

    @property
    def dotted(self) -> list[str]:
        """Every name by which a reader may ask for it: the file's path, then the name."""
        return [p for p in (self.cell.into or "").removesuffix(".py").split("/") if p != "__init__"] + (
            self.qualified.split(".")
        )


def our_source(name: str, book: Book) -> OurSource:
    """The definition meant by a dotted name (`nn.Module.register_buffer`), or by `path#name` as in `upstream:`.

    Raises LiterateError that names near misses.
    """
    found = list(_definitions(book))
    best = _pick(name, found)
    if best is None:
        raise _unknown(name, found)
    return OurSource(
        best.qualified,
        best.cell.into or "",
        _text_of(best, book),
        best.cell.path,
        best.line,
        _targets(best),
    )


def _definitions(book: Book) -> Iterator[_Definition]:
    for part in book.parts:
        for cell in part.code_cells:
            if cell.into and cell.into.endswith(".py") and not cell.has("imports"):
                for statement in cell.tree.body:
                    yield from _in_statement(cell, statement)


def _in_statement(cell: Cell, statement: ast.stmt) -> Iterator[_Definition]:
    if isinstance(statement, ast.ClassDef):
        if cell.reopens != statement.name:
            yield _Definition(cell, statement.name, statement.lineno)
        for member in statement.body:
            for name in dict.fromkeys(bound_names(member)):
                yield _Definition(cell, f"{statement.name}.{name}", member.lineno)
    else:
        for name in dict.fromkeys(bound_names(statement)):
            yield _Definition(cell, name, statement.lineno)


def _pick(name: str, found: list[_Definition]) -> _Definition | None:
    if "#" in name:
        exact = [d for d in found if name in d.cell.get_all("upstream")]
        last = facts_last(name)
        named = [d for d in exact if d.qualified.rpartition(".")[2] == last]
        return next(iter([*named, *exact]), None)
    wanted = name.removeprefix("readtorch.").removeprefix("torch.").split(".")
    scored = [(score, d) for d in found if (score := _agreement(wanted, d)) > 0]
    return max(scored, key=lambda pair: (pair[0], -len(pair[1].dotted)))[1] if scored else None


def facts_last(target: str) -> str:
    """The last component of the name in `path#a.b` or `path#ns::b`."""
    return target.partition("#")[2].replace("::", ".").rpartition(".")[2]


def _agreement(wanted: list[str], definition: _Definition) -> int:
    """How well a dotted name fits: its tail must be the definition's name, what stands before is looked for in the path."""
    names = definition.qualified.split(".")
    if wanted[-len(names) :] != names:
        return 0
    before, path = wanted[: -len(names)], definition.dotted[: -len(names)]
    for component in before:
        if component not in path:
            return 0
        path = path[path.index(component) + 1 :]
    return 1 + len(before)


def _unknown(name: str, found: list[_Definition]) -> LiterateError:
    names = sorted({d.qualified for d in found})
    last = name.partition("#")[2] or name
    close = get_close_matches(last.removeprefix("torch."), names, n=3, cutoff=0.5)
    close += [n for n in names if n.rpartition(".")[2] == last.rpartition(".")[2]][:3]
    hint = (
        f"did you mean {', '.join(dict.fromkeys(close))}?" if close else "give a name such as nn.Module.register_buffer"
    )
    return LiterateError(Problem("chapters", 0, f"the book defines no {name!r}", hint))


def _targets(definition: _Definition) -> tuple[str, ...]:
    """The cell's `upstream:` lines, the one of the same name first; without any, the file's twin."""
    last = definition.qualified.rpartition(".")[2]
    targets = sorted(definition.cell.get_all("upstream"), key=lambda t: facts_last(t) != last)
    if targets and (facts_last(targets[0]) == last or "." not in definition.qualified):
        return tuple(targets)
    twins = [f"{path}#{definition.qualified}" for path in _twins(definition.cell.into or "")]
    return tuple(dict.fromkeys([*(t for t in twins if _resolves(t)), *targets]))


def _twins(into: str) -> Iterator[str]:
    stem = facts.twin(into)
    for suffix in (".py", ".h", ".cpp", ".cu") if stem else ():
        yield f"{stem}{suffix}"


def _resolves(target: str) -> bool:
    try:
        facts.resolve(target)
    except facts.Unresolved:
        return False
    return True


def _text_of(definition: _Definition, book: Book) -> str:
    """The definition as it stands in the package: a class whole, from all its fragments."""
    cell = definition.cell
    shipped = book.root == Path(__file__).parent / "book"  # in a wheel the book lies inside the package
    file = (Path(__file__).parents[1] if shipped else book.package) / (cell.into or "")
    text = file.read_text(encoding="utf-8") if file.is_file() else cell.code
    lines = text.split("\n")
    scope: list[ast.stmt] = ast.parse(text).body
    pieces: list[str] = []
    for name in definition.qualified.split("."):
        matching = [s for s in scope if name in bound_names(s)]
        if not matching:
            return cell.code
        scope = [inner for s in matching if isinstance(s, ast.ClassDef) for inner in s.body]
        pieces = ["\n".join(lines[_first_line(s) - 1 : s.end_lineno]) for s in matching]
    return "\n\n".join(pieces)


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])


def _outermost(found: list[UpstreamSource]) -> list[UpstreamSource]:
    """Without the members of classes that are shown whole."""
    return [t for t in found if not any(t.path == o.path and t.name.startswith(o.name + ".") for o in found)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="a public name such as nn.Module.register_buffer, or path#name as in `upstream:`")
    parser.add_argument("--json", action="store_true", help="print both sources as JSON")
    parser.add_argument("--width", type=int, help="columns to use (default: the terminal's)")


def run(args: argparse.Namespace) -> int:
    ours: OurSource | None = None
    unknown: LiterateError | None = None
    try:
        ours = our_source(args.name, Book.load(find_root()))
    except LiterateError as error:
        unknown = error
    theirs = _outermost([t for t in map(upstream_source, ours.upstream if ours else [args.name]) if t is not None])
    if ours is None and not theirs:
        assert unknown is not None
        raise unknown
    if args.json:
        said = {"name": args.name, "ours": asdict(ours) if ours else None, "upstream": [asdict(t) for t in theirs]}
        print(json.dumps(said, indent=1))
        return 0
    from readtorch.literate.columns import print_sources

    width = args.width or shutil.get_terminal_size((100, 40)).columns
    print_sources(ours, theirs, width, sys.stdout, two_columns=width >= TWO_COLUMNS)
    return 0
