"""The book as the running package knows it: which cell each piece of a loaded file comes from.

The measure is the *package*, as its files were when `live()` was called, not the chapters on disk: JupyterLab saves a
chapter while it is being edited, and a cell that was saved but never tangled is still an edit. The chapters only say where
one fragment ends and the next begins.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from readtorch.literate.chapter import Cell, parse_part, part_files
from readtorch.literate.errors import LiterateError
from readtorch.literate.notebook.units import EMPTY, Unit, Version, cut, imported_names, only_imports

PACKAGE = "readtorch"


def module_name(into: str) -> str:
    """`nn/modules/module.py` to `readtorch.nn.modules.module`."""
    parts = into.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join([PACKAGE, *parts])


@dataclass(eq=False)
class Fragment:
    """One tangled cell: what the book says (`book`) and what runs now (`current`)."""

    into: str
    place: str
    """`chapters/02_module.py:123`, or "your cell" for a cell that the book does not have."""
    book: Version
    order: int
    directive_id: str = ""
    current: Version = EMPTY
    cell_ids: set[str] = field(default_factory=set)
    overrides: dict[str, Fragment] = field(default_factory=dict)
    """Names that another fragment defines and this one, a cell of the reader's own, defines anew."""

    @property
    def edited(self) -> bool:
        return self.current.key != self.book.key

    @property
    def own(self) -> bool:
        """Is it a cell of the reader's own?"""
        return self.book is EMPTY

    @property
    def title(self) -> str:
        """What it defines, in short: `Module.register_buffer`, or `relu and 3 more`."""
        names = (self.book if self.current is EMPTY else self.current).qualified
        scopes = [n for n in names if "." not in n]
        shown = scopes or list(names)
        if not shown:
            return self.into
        return shown[0] if len(shown) == 1 else f"{shown[0]} and {len(shown) - 1} more"


@dataclass(eq=False)
class PackageFile:
    """One file of the package, its units and fragments."""

    into: str
    path: Path
    text: str
    units: tuple[Unit, ...]
    fragments: list[Fragment]
    imports_cells: tuple[Cell, ...]
    future: bool
    """Does it say `from __future__ import annotations`? Cells compile as it does."""
    owner: dict[str, Fragment]

    @property
    def module(self) -> str:
        return module_name(self.into)

    @property
    def imports(self) -> frozenset[str]:
        return frozenset(imported_names([u.node for u in self.units if not u.scope and not u.header]))

    def find(self, version: Version, cell_id: str | None, directive_id: str) -> Fragment:
        """The fragment that a cell is a text of; a new one for a cell of the reader's own.

        What the front end calls the cell decides first, then its `id:`, then its text, then the names it defines. A cell
        that defines a part of what a fragment of *another* cell defines is the reader's own and overrides just that.
        """
        alike = [f for f in self.fragments if _headers(version) >= _headers(f.current)]
        known = [f for f in alike if cell_id and cell_id in f.cell_ids]
        same = [f for f in self.fragments if version.key in (f.current.key, f.book.key)]
        named = [f for f in alike if directive_id and f.directive_id == directive_id]
        for candidates in ([f for f in same if f in known], same, named, known):
            if candidates:
                return candidates[0]
        alike = [f for f in alike if not _of_another_cell(f, cell_id) or _has_all(version, f)]
        return _most_alike(version, alike) or _new(self.into, len(self.fragments), directive_id)


def _new(into: str, order: int, directive_id: str) -> Fragment:
    return Fragment(into, "your cell", EMPTY, order, directive_id)


def _most_alike(version: Version, fragments: list[Fragment]) -> Fragment | None:
    """The fragment that this is most likely a new text of: half of what it holds must be here, by text or by name."""
    best: tuple[float, Fragment | None] = 0.0, None
    for fragment in fragments:
        current = fragment.current
        kept = sum(u.key in version.texts or any(q in version.qualified for q in u.qualified) for u in current.units)
        share = kept / max(len(current.units), len(version.units), 1)
        if 2 * kept >= len(current.units) and share > best[0]:
            best = share, fragment
    if best[1] is None and not version.qualified:  # statements without a name are told by their likeness
        for fragment in fragments:
            ratio = difflib.SequenceMatcher(None, fragment.current.text, version.text).ratio()
            if not fragment.current.qualified and ratio > max(best[0], 0.6):
                best = ratio, fragment
    return best[1]


def _has_all(version: Version, fragment: Fragment) -> bool:
    return bool(version.qualified) and set(version.qualified) >= set(fragment.current.qualified)


def _headers(version: Version) -> set[str]:
    """Classes it opens. A cell that re-opens a class is never an edit of the one that opens it."""
    return {u.names[0] for u in version.units if u.header}


def _of_another_cell(fragment: Fragment, cell_id: str | None) -> bool:
    return bool(cell_id and fragment.cell_ids and cell_id not in fragment.cell_ids)


class Snapshot:
    """The texts of the chapters and of the package, read once; a file is taken apart when a cell of it is first run."""

    def __init__(self, root: Path | None, package: Path) -> None:
        self.root = root
        self.package = package
        self.problems: list[LiterateError] = []
        self._chapters = self._read_chapters()
        self._sources = {
            file.relative_to(package).as_posix(): file.read_text(encoding="utf-8")
            for file in package_files(package)
            if file.suffix in (".py", ".cu", ".cuh")
        }
        self._files: dict[str, PackageFile] = {}
        self._parts: dict[str, tuple[Cell, ...]] = {}

    def _read_chapters(self) -> list[tuple[str, str, str]]:
        """Name, path and text of every part."""
        if self.root is None:
            return []
        chapters = self.root / "chapters"
        found = []
        for file in part_files(chapters):
            name = file.relative_to(chapters).with_suffix("").as_posix()
            found.append((name, file.relative_to(self.root).as_posix(), file.read_text(encoding="utf-8")))
        return found

    def source(self, into: str) -> str | None:
        return self._sources.get(into)

    def files(self) -> Iterable[PackageFile]:
        """The files of which a cell has been run."""
        return self._files.values()

    def file(self, into: str) -> PackageFile:
        if into not in self._files:
            self._files[into] = self._take_apart(into)
        return self._files[into]

    def _take_apart(self, into: str) -> PackageFile:
        text = self._sources.get(into, "")
        path = self.package / into
        tree = ast.parse(text)
        units = cut(text, tree)
        future = any(isinstance(s, ast.ImportFrom) and s.module == "__future__" for s in tree.body)
        cells = list(self.cells(into))
        fragments = _fragments(into, [c for c in cells if not c.has("imports")], units, str(path))
        owner: dict[str, Fragment] = {}
        for fragment in fragments:
            owner.update(dict.fromkeys(fragment.book.qualified, fragment))
        imports = tuple(c for c in cells if c.has("imports"))
        return PackageFile(into, path, text, units, fragments, imports, future, owner)

    def cells(self, into: str) -> Iterable[Cell]:
        """The book's cells for a file, in the order of the book."""
        wanted = re.compile(rf"^# ?\| *into *: *{re.escape(into)} *$", re.MULTILINE)
        for name, path, text in self._chapters:
            if wanted.search(text):
                yield from (cell for cell in self._part_cells(name, path, text) if cell.into == into)

    def _part_cells(self, name: str, path: str, text: str) -> tuple[Cell, ...]:
        if name not in self._parts:
            try:
                self._parts[name] = parse_part(text, name=name, path=path).cells
            except LiterateError as error:
                self.problems.append(error)
                self._parts[name] = ()
        return self._parts[name]


def package_files(package: Path) -> Iterable[Path]:
    """The files of the package, the hand-written tools left out."""
    for entry in sorted(package.iterdir()):
        if entry.name == "literate" or entry.name.startswith("__pycache__"):
            continue
        if entry.is_dir():
            yield from package_files(entry)
        elif entry.is_file():
            yield entry


def _fragments(into: str, cells: list[Cell], units: tuple[Unit, ...], filename: str) -> list[Fragment]:
    """Share the units of a file out among its cells: by text, then by name; what nobody claims goes to its neighbour."""
    wanted = [cut(cell.code, ast.parse(cell.code)) for cell in cells]
    claim: dict[Unit, int] = {}
    by_text: dict[tuple[str, str], list[Unit]] = {}
    for unit in units:
        by_text.setdefault(unit.key, []).append(unit)
    unmatched: list[tuple[int, Unit]] = []
    for index, mine in enumerate(wanted):
        for unit in mine:
            found = next((u for u in by_text.get(unit.key, ()) if u not in claim), None)
            if found is None:
                unmatched.append((index, unit))
            else:
                claim[found] = index
    by_name: dict[str, list[Unit]] = {}
    for unit in units:
        for name in unit.qualified:
            by_name.setdefault(name, []).append(unit)
    for index, unit in unmatched:
        for found in itertools.chain.from_iterable(by_name.get(name, ()) for name in unit.qualified):
            claim.setdefault(found, index)
    _claim_the_rest(units, claim, alone=len(cells))
    shares: dict[int, list[Unit]] = {}
    for unit in units:
        if unit in claim:
            shares.setdefault(claim[unit], []).append(unit)
    fragments: list[Fragment] = []
    for index in sorted({*range(len(cells)), *shares}):
        share = tuple(shares.get(index, ()))
        cell = cells[index] if index < len(cells) else None
        same = cell is not None and [u.key for u in share] == [u.key for u in wanted[index]]
        text = cell.code if cell is not None and same else text_of(share)
        place = f"{cell.path}:{cell.first_line}" if cell else f"{PACKAGE}/{into}:{share[0].start}"
        version = Version(text, filename, share)
        directive_id = (cell.get("id") or "") if cell else ""
        fragments.append(Fragment(into, place, version, len(fragments), directive_id, version))
    return fragments


def _claim_the_rest(units: tuple[Unit, ...], claim: dict[Unit, int], alone: int) -> None:
    """A unit that no cell has (its cell was edited and saved, or cannot be read) goes where its neighbour above went.

    Units with no neighbour become fragments of their own, one each, numbered from `alone`; imports and the docstring at the
    head belong to no fragment.
    """
    last: dict[str, int] = {}
    for unit in units:
        if unit not in claim and not unit.scope and only_imports(unit.node):
            continue
        if unit not in claim and unit.scope in last:
            claim[unit] = last[unit.scope]
        if unit in claim:
            last[unit.scope] = claim[unit]
            if unit.header:
                last[unit.names[0]] = claim[unit]
        elif unit.names:
            claim[unit] = alone
            alone += 1


def text_of(units: Iterable[Unit]) -> str:
    """A cell's text for these units, as the book would write it."""
    pieces: list[str] = []
    scope = ""
    for unit in units:
        if unit.scope and unit.scope != scope:
            pieces.append(f"class {unit.scope}({unit.scope}):")
        scope = unit.names[0] if unit.header else unit.scope
        pieces.append(unit.raw)
    return "\n\n".join(pieces).replace("):\n\n", "):\n")
