"""The live package of one process: what was edited, and how a cell becomes an edit.

An edit is a transaction. What can be known from the text is checked before anything runs; then the cell runs under a
journal; then names, tables and registrations are settled and the overlay is written. An error on the way rolls everything back.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from readtorch.literate.errors import LiterateError
from readtorch.literate.notebook import rebind
from readtorch.literate.notebook.book import PACKAGE, Fragment, PackageFile, Snapshot
from readtorch.literate.notebook.cells import TangledCell, below_directives, bring_names, check_shape
from readtorch.literate.notebook.classes import is_rebuilt
from readtorch.literate.notebook.errors import LiveError
from readtorch.literate.notebook.journal import MISSING, Change, Journal
from readtorch.literate.notebook.native import NativeFile, native_file
from readtorch.literate.notebook.overlay import Overlay, edited_text
from readtorch.literate.notebook.report import EditDiff, changed_names, compare, concerns, in_short, name_of
from readtorch.literate.notebook.run import CellRun, tree_of
from readtorch.literate.notebook.units import Version, cut, imported_names


@dataclass
class _Original:
    """How a place of the package was before its first edit, and which fragments have touched it since."""

    change: Change
    fragments: list[Fragment] = field(default_factory=list)


class Session:
    """One per process, made by `live()`. `notebook` is the namespace names are brought into."""

    def __init__(self, snapshot: Snapshot, notebook: dict[str, Any]) -> None:
        self.snapshot = snapshot
        self.notebook = notebook
        self.overlay: Overlay | None = None
        self.cells: dict[str, Fragment] = {}
        """Cell filename to the fragment it was run as: for tracebacks."""
        self._originals: dict[tuple[str, int, Any], _Original] = {}
        self._imports: dict[str, dict[str, None]] = {}
        self._native: dict[str, NativeFile] = {}
        self._one_at_a_time = threading.RLock()

    # Running a cell

    def run(self, cell: TangledCell) -> str:
        """Take a tangled cell: nothing but its names where it says what runs already, else an edit. Returns a notice."""
        with self._one_at_a_time:
            return self._run(cell)

    def _run(self, cell: TangledCell) -> str:
        if not cell.into.endswith(".py"):
            return self._run_native(cell)
        file = self.snapshot.file(cell.into)
        if cell.has("imports"):
            notice = self._run_imports(file, cell)
        else:
            notice = self._run_code(file, cell)
        bring_names(cell.tree, vars(self._module(file)), self.notebook)
        return notice

    def _run_code(self, file: PackageFile, cell: TangledCell) -> str:
        check_shape(cell.tree)
        new = Version(below_directives(cell), cell.filename, cut(cell.code, cell.tree))
        fragment = file.find(new, cell.cell_id, cell.id)
        if cell.cell_id:
            for other in file.fragments:
                other.cell_ids.discard(cell.cell_id)
            fragment.cell_ids.add(cell.cell_id)
        in_place = all(file.owner.get(q) is fragment for q in new.qualified)
        if new.key == fragment.current.key and in_place:
            return ""
        if new.key == fragment.book.key and in_place:
            self._restore([fragment])
            return f"{fragment.title} is the book's again."
        changed = changed_names(fragment.current, new) or fragment.title
        messages = self._edit(file, fragment, new, cell.tree)
        self.cells[cell.filename] = fragment
        return "\n  ".join([f"{PACKAGE}/{file.into}: {changed} as in this cell", *messages])

    def _module(self, file: PackageFile) -> types.ModuleType:
        if self.snapshot.source(file.into) is None and file.module not in sys.modules:
            return _new_module(file)
        return importlib.import_module(file.module)

    def _edit(self, file: PackageFile, fragment: Fragment, new: Version, tree: ast.Module) -> list[str]:
        """One transaction. Returns what the reader should know."""
        is_new = self.snapshot.source(file.into) is None and file.module not in sys.modules
        previous = fragment.current
        text = self._overlay_text(file, fragment, new)
        module = self._module(file)
        journal = Journal(also=self._notebook_classes())
        run = CellRun(file, fragment, new, module, journal)
        try:
            run.run(tree)
            messages = run.messages + self._spread(run)
            fragment.current = new
            self._record(journal, run)
        except BaseException:
            fragment.current = previous
            journal.rollback()
            if is_new:
                sys.modules.pop(file.module, None)
            raise
        finally:
            run.before.clear()
            journal.release()
        self._own(file, fragment, previous, new)
        self._write(file.into, text)
        return messages

    def _notebook_classes(self) -> list[type]:
        return [v for v in self.notebook.values() if isinstance(v, type) and v.__module__ == "__main__"]

    def _overlay_text(self, file: PackageFile, fragment: Fragment, new: Version) -> str:
        """What the file will be. Raises LiveError where the cell does not make a valid file."""
        previous, fragment.current = fragment.current, new
        try:
            edited = [f for f in (*file.fragments, fragment) if f.edited]
            return edited_text(file, dict.fromkeys(edited), self._imports.get(file.into, ()))
        except SyntaxError as error:
            raise LiveError(f"{file.into} would not be valid Python with this cell: {error.msg}") from None
        finally:
            fragment.current = previous

    def _spread(self, run: CellRun) -> list[str]:
        """Give what could not be changed in place to everybody who holds the old object; report who keeps it."""
        self._exchange(run)
        return [text for name, (old, new) in run.replaced.items() for text in self._leftovers(run, name, old, new)]

    def _exchange(self, run: CellRun) -> None:
        exchange = rebind.Exchange()
        for name, (old, new) in run.replaced.items():
            if rebind.by_identity(old, new):
                exchange.add(old, new)
            else:
                rebind.rebind_constant(name, run.module.__name__, old, new, self.notebook)
        for change in run.journal.changes():  # entry points that a registration has made anew
            if change.kind in ("class", "object", "mapping") and rebind.is_successor(change.before, change.after):
                exchange.add(change.before, change.after)
        exchange.everywhere(run.journal, self.notebook)

    def _leftovers(self, run: CellRun, name: str, old: Any, new: Any) -> Iterator[str]:
        kind = is_rebuilt(old)
        if kind:
            yield f"{name} is {kind} and was made anew: objects made before keep the old class"
        if isinstance(old, type | types.FunctionType):
            ignore = run.journal.own_objects | {id(run.before), id(run.replaced[name]), id(run.replaced)}
            ignore |= {id(cell) for cell in getattr(new, "__closure__", None) or ()}
            holders = rebind.who_still_holds(old, ignore)
            if holders:
                yield f"the old {name} is still held by: {', '.join(holders)}"

    def _record(self, journal: Journal, run: CellRun) -> None:
        """Remember how every place was before its first edit, for `reset`."""
        names = {n for u in (*run.old.units, *run.new.units) for n in u.names if not u.scope}
        for change in journal.changes():
            if not _is_edit(change, run, names):
                continue
            original = self._originals.setdefault(change.place, _Original(change))
            if run.fragment not in original.fragments:
                original.fragments.append(run.fragment)

    def _own(self, file: PackageFile, fragment: Fragment, previous: Version, new: Version) -> None:
        for qualified in previous.qualified:
            if qualified not in new.qualified and file.owner.get(qualified) is fragment:
                del file.owner[qualified]
        for qualified in new.qualified:
            owner = file.owner.get(qualified)
            if owner is not None and owner is not fragment:
                fragment.overrides[qualified] = owner
            file.owner[qualified] = fragment
        if fragment not in file.fragments:
            file.fragments.append(fragment)

    # Imports and CUDA sources

    def _run_imports(self, file: PackageFile, cell: TangledCell) -> str:
        """Imports only add: what others import stays."""
        module = self._module(file)
        here = vars(module).keys() | file.imports
        wanted = [s for s in cell.tree.body if not here.issuperset(imported_names([s]))]
        if not wanted:
            return ""
        journal = Journal()
        try:
            exec(compile(ast.Module(wanted, []), cell.filename, "exec", dont_inherit=True), vars(module))
        except BaseException:
            journal.rollback()
            raise
        added = [ast.unparse(s) for s in wanted]
        self._imports.setdefault(file.into, {}).update(dict.fromkeys(added))
        self._write(file.into, edited_text(file, [f for f in file.fragments if f.edited], self._imports[file.into]))
        return f"imported into {PACKAGE}/{file.into}: {'; '.join(added)}"

    def _run_native(self, cell: TangledCell) -> str:
        """A CUDA source. Kernels already compiled stay as they are where the library has no loader of its own."""
        if cell.into not in self._native:
            cells = list(self.snapshot.cells(cell.into))
            self._native[cell.into] = native_file(cell.into, self.snapshot.source(cell.into), cells)
        file = self._native[cell.into]
        if not file.take(cell):
            return ""
        self._write(cell.into, file.text())
        if _forget_kernels():
            return f"{PACKAGE}/{cell.into}: as in this cell from the next launch on"
        return f"{PACKAGE}/{cell.into}: as in this cell for processes started from now on; loaded kernels stay"

    def _write(self, into: str, text: str) -> None:
        if self.overlay is None:
            self.overlay = Overlay(self.snapshot)
        self.overlay.write(into, text)

    # Back to the book

    def edited(self) -> list[Fragment]:
        return [f for file in self.snapshot.files() for f in file.fragments if f.edited]

    def reset(self, symbol: object = None) -> str:
        """Restore the book's text: of everything, or of the fragments that define `symbol`."""
        touched = (f for original in self._originals.values() for f in original.fragments)
        wanted = [f for f in dict.fromkeys([*self.edited(), *touched]) if symbol is None or concerns(f, symbol)]
        imports = [into for into in self._imports if symbol is None]
        native = [n for n in self._native.values() if n.edits and (symbol is None or n.into == symbol)]
        if not (wanted or imports or native):
            return "Nothing to reset: the package is the book's" + (f" as to {name_of(symbol)}." if symbol else ".")
        titles = [f.title for f in wanted]
        self._restore(wanted)
        for into in imports:
            self._unimport(into)
        for source in native:
            source.edits.clear()
            self._write(source.into, source.source)
            _forget_kernels()
        titles += [*imports, *(source.into for source in native)]
        return f"The book's again: {in_short(titles)}. The cells in the notebook keep your text."

    def _unimport(self, into: str) -> None:
        file = self.snapshot.file(into)
        for name in {n for s in self._imports.pop(into) for n in imported_names(ast.parse(s).body)} - file.imports:
            vars(self._module(file)).pop(name, None)
        self._rewrite(file)

    def _restore(self, fragments: list[Fragment]) -> None:
        again: list[Fragment] = []
        files = {f.into: self.snapshot.file(f.into) for f in fragments}
        for place, original in list(self._originals.items()):
            if not any(f in fragments for f in original.fragments):
                continue
            again += [f for f in original.fragments if f not in fragments and f.edited]
            self._undo(original.change)
            del self._originals[place]
        for fragment in fragments:
            self._disown(files[fragment.into], fragment)
        for fragment in dict.fromkeys(again):  # what else was edited in the same places runs once more
            file = self.snapshot.file(fragment.into)
            version, fragment.current = fragment.current, fragment.book
            self._edit(file, fragment, version, tree_of(version))
        for file in files.values():
            self._rewrite(file)

    def _disown(self, file: PackageFile, fragment: Fragment) -> None:
        for qualified in fragment.current.qualified:
            if file.owner.get(qualified) is fragment:
                previous = fragment.overrides.get(qualified)
                if previous is not None:
                    file.owner[qualified] = previous
                elif qualified not in fragment.book.qualified:
                    del file.owner[qualified]
        fragment.overrides.clear()
        fragment.current = fragment.book
        file.owner.update({q: fragment for q in fragment.book.qualified if q not in file.owner})
        if fragment.own and fragment in file.fragments:
            file.fragments.remove(fragment)

    def _undo(self, change: Change) -> None:
        """Undo one change; where it replaced an object, everybody gets the book's object back."""
        now = _value_at(change)
        change.undo()
        exchangeable = isinstance(change.before, type | types.FunctionType) and isinstance(
            now, type | types.FunctionType
        )
        if change.kind == "module" and exchangeable and now is not change.before:
            for name, value in list(self.notebook.items()):
                if value is now:
                    self.notebook[name] = change.before

    def _rewrite(self, file: PackageFile) -> None:
        if self.overlay is None:
            return
        if self.snapshot.source(file.into) is None and not any(f.edited for f in file.fragments):
            self.overlay.remove(file.into)
            sys.modules.pop(file.module, None)
            return
        imports = self._imports.get(file.into, ())
        self.overlay.write(file.into, edited_text(file, [f for f in file.fragments if f.edited], imports))

    def diff(self, symbol: object = None) -> EditDiff:
        """The reader's edits."""
        wanted = [compare(f) for f in self.edited() if symbol is None or concerns(f, symbol)]
        wanted += [d for n in self._native.values() if symbol is None or n.into == symbol for d in n.diffs()]
        imports = tuple((into, s) for into, statements in self._imports.items() for s in statements if symbol is None)
        return EditDiff(tuple(wanted), imports)


def _is_edit(change: Change, run: CellRun, names: set[str]) -> bool:
    """Tells what the cell did from what the library did meanwhile (caches filled, counters moved on)."""
    if isinstance(change.after, types.ModuleType):
        return False
    if change.kind in ("class", "function") or (change.target is run.namespace and change.key in names):
        return True
    if any(change.before is old for old, _ in run.replaced.values()):
        return True
    if any(run.namespace.get(name) is change.target for name in names):
        return True
    if change.kind in ("sequence", "set"):
        return any(callable(v) for v in (*change.before, *change.after))
    return callable(change.before) or callable(change.after)


def _value_at(change: Change) -> Any:
    if change.kind == "module":
        return change.target.get(change.key, MISSING)
    return MISSING


def _new_module(file: PackageFile) -> types.ModuleType:
    """A module for a file that the book does not have."""
    parent, _, name = file.module.rpartition(".")
    package = importlib.import_module(parent)
    module = types.ModuleType(file.module)
    module.__file__ = str(file.path)
    module.__package__ = parent
    sys.modules[file.module] = module
    setattr(package, name, module)
    return module


def make_snapshot() -> Snapshot:
    """Of the package as it is loaded here, and of the book it was made from."""
    from readtorch.literate.chapter import find_root

    package = importlib.import_module(PACKAGE)
    file = package.__file__
    folder = Path(file).parent if file else Path(next(iter(package.__path__)))
    try:
        return Snapshot(find_root(), folder)
    except LiterateError as error:
        snapshot = Snapshot(None, folder)
        snapshot.problems.append(error)
        return snapshot


def _forget_kernels() -> bool:
    """Have the library read its CUDA sources anew, if it has read any: whether it has."""
    loader = sys.modules.get(f"{PACKAGE}.aten.native.cuda.jit_utils")
    if loader is None:
        return False
    loader.forget()
    return True
