"""`readtorch show nn.Module.register_buffer`: our source, with its place in the book, beside the installed PyTorch's.

What a public name means is asked of our library (`public_names`); its text is looked up in the chapters, upstream's through the cell's
own `upstream:` line. PyTorch is never imported.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from readtorch.literate import facts
from readtorch.literate.chapter import Book, Cell, bound_names, find_root, statement_start
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.installed import UpstreamSource, upstream_file, upstream_source
from readtorch.literate.public_names import Meaning, meaning, operator_targets, registrations, text_of
from readtorch.literate.tangle import tangled_cells

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
    best = None
    if "#" not in name:
        known = meaning(name)
        shown = known and _by_meaning(known, found, book)
        if isinstance(shown, OurSource):
            return shown
        best = shown
    best = best or _pick(name, found)
    if best is None:
        raise _unknown(name, found)
    return _source(best, book)


def _by_meaning(known: Meaning, found: list[_Definition], book: Book) -> OurSource | _Definition | None:
    """What the book has of it; None if nothing."""
    if known.kind == "module":
        return _module(known.path, book)
    if known.kind == "operator":
        return _operator(known, found, book)
    definition = next((d for d in found if (d.cell.into, d.qualified) == (known.path, known.name)), None)
    if definition is None and known.line:
        ours = _lambda(known, book)
    elif definition is None or not known.public:
        return definition
    else:
        ours = _source(definition, book)
    if ours is None:
        return None
    return replace(ours, upstream=_united(ours.upstream, operator_targets(known.public, known.public.rstrip("_"), [])))


def _operator(known: Meaning, found: list[_Definition], book: Book) -> OurSource | None:
    """An operator's kernel and derivative: the statements that register it, and kernels that are defined elsewhere."""
    pieces = [(cell, s.lineno, text_of(cell, s)) for cell, s in registrations(book, known.name)]
    places = {(cell.path, line) for cell, line, _ in pieces}
    for definition in found:
        of_kernel = (definition.cell.into, definition.qualified) in known.kernels
        if of_kernel and (definition.cell.path, definition.line) not in places:
            pieces.append((definition.cell, definition.line, _text_of(definition, book)))
    if not pieces:
        return None
    texts = [pieces[0][2], *(f"# readtorch/{c.into}, {c.path}:{line}\n{text}" for c, line, text in pieces[1:])]
    first, line, _ = pieces[0]
    targets = operator_targets(known.public, known.name, [cell for cell, _, _ in pieces])
    return OurSource(known.name, first.into or "", "\n\n\n".join(texts), first.path, line, _united(targets))


def _lambda(known: Meaning, book: Book) -> OurSource | None:
    """A function without a name: the lines on which it is written."""
    from readtorch.literate.linemap import locate

    text = _package_text(known.path, book) or ""
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda) and n.lineno == known.line]
    place = locate(known.path, known.line) if found else None
    if place is None:
        return None
    source = "\n".join(text.split("\n")[known.line - 1 : found[0].end_lineno])
    return OurSource(known.public or known.name, known.path, source, place.path, place.line, ())


def _module(path: str, book: Book) -> OurSource | None:
    """A file whole."""
    cells = tangled_cells(book).get(path)
    if not cells:
        return None
    return OurSource(path, path, _package_text(path, book) or "", cells[0].path, cells[0].line, tuple(_twins(path)))


def _united(*targets: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(t for some in targets for t in some if _resolves(t)))


def _source(best: _Definition, book: Book) -> OurSource:
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
    twins = [t for path in _twins(definition.cell.into or "") if _resolves(t := f"{path}#{definition.qualified}")]
    outer = definition.qualified.rpartition(".")[0]
    if twins and outer:  # the member itself is there: the class around it would hide it
        targets = [t for t in targets if facts_last(t) != outer.rpartition(".")[2]]
    return tuple(dict.fromkeys([*twins, *targets]))


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
    text = _package_text(cell.into or "", book) or cell.code
    lines = text.split("\n")
    scope: list[ast.stmt] = ast.parse(text).body
    pieces: list[str] = []
    for name in definition.qualified.split("."):
        matching = [s for s in scope if name in bound_names(s)]
        if not matching:
            return cell.code
        scope = [inner for s in matching if isinstance(s, ast.ClassDef) for inner in s.body]
        pieces = ["\n".join(lines[statement_start(s) - 1 : s.end_lineno]) for s in matching]
    return "\n\n".join(pieces)


def _package_text(path: str, book: Book) -> str | None:
    shipped = book.root == Path(__file__).parent / "book"  # in a wheel the book lies inside the package
    file = (Path(__file__).parents[1] if shipped else book.package) / path
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _outermost(found: list[UpstreamSource]) -> list[UpstreamSource]:
    """Without the members of classes that are shown whole."""
    return [t for t in found if not any(t.path == o.path and t.name.startswith(o.name + ".") for o in found)]


def _upstream(target: str) -> UpstreamSource | None:
    return upstream_source(target) if "#" in target else upstream_file(target)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", type=_given, help="a public name such as nn.Module.register_buffer, or path#name as in `upstream:`"
    )
    parser.add_argument("--json", action="store_true", help="print both sources as JSON")
    parser.add_argument("--width", type=int, help="columns to use (default: the terminal's)")


def _given(name: str) -> str:
    if not name.strip("#. "):
        raise argparse.ArgumentTypeError(
            "give the name of a class, function or method, such as nn.Module.register_buffer"
        )
    return name


def run(args: argparse.Namespace) -> int:
    ours: OurSource | None = None
    unknown: LiterateError | None = None
    try:
        ours = our_source(args.name, Book.load(find_root()))
    except LiterateError as error:
        unknown = error
    theirs = _outermost([t for t in map(_upstream, ours.upstream if ours else [args.name]) if t is not None])
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
