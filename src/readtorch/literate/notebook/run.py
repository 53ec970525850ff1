"""Run one edited cell inside the package module it belongs to.

The cell's statements are rewritten a little before they are compiled, line numbers kept: a function passes through a hook
that gives its code to the function already there, a class statement gets the stand-in metaclass of `classes.py`, and a
plain statement that did not change is not run again, so that a sentinel stays the object others compare with and a table
keeps what later cells put in it.
"""

from __future__ import annotations
import __future__

import ast
import copy
import types
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

from readtorch.literate.notebook.book import Fragment, PackageFile
from readtorch.literate.notebook.classes import (
    METACLASS,
    Merge,
    StandIn,
    becomes_rebuilt,
    check_reopened,
    is_rebuilt,
    remove_members,
)
from readtorch.literate.notebook.errors import LiveError, restart
from readtorch.literate.notebook.functions import adopt, can_adopt, innermost, update_closures
from readtorch.literate.notebook.journal import MISSING, Journal
from readtorch.literate.notebook.tables import Registrations, merge_table
from readtorch.literate.notebook.units import FUNCTIONS, Unit, Version, reopened

FUNCTION_HOOK = "<function>"
CLASS_HOOK = "<class>"


class CellRun:
    """One cell, about to run as the next version of `fragment`. Everything it does is in `journal`."""

    def __init__(
        self, file: PackageFile, fragment: Fragment, new: Version, module: types.ModuleType, journal: Journal
    ) -> None:
        self.file = file
        self.fragment = fragment
        self.old = fragment.current
        self.new = new
        self.module = module
        self.journal = journal
        self.namespace = vars(module)
        self.before = dict(self.namespace)
        self.replaced: dict[str, tuple[Any, Any]] = {}
        """Module-level names whose object is another now: (before, after)."""
        self.messages: list[str] = []
        self._changed: set[str] = set()
        self._skipped: set[str] = set()

    def run(self, tree: ast.Module) -> None:
        """Run, merge, remove what the cell no longer defines. Raises whatever the cell raises."""
        statements = self._statements(tree)
        registrations = Registrations(self.journal, self._registering(), self.old.filename, self.before)
        stand_in = StandIn({name: partial(self._merge, name) for name in self.new.scopes}, self.journal)
        code = self._compile(statements, self.new.filename)
        self._execute(code, stand_in)
        registrations.settle(self.new)
        self._settle_names()
        self._restore_fragments_of_new_classes()
        self._remove()
        self.messages += [f"closures made before by {name} keep the old code" for name in update_closures(self.journal)]

    def _compile(self, statements: list[ast.stmt], filename: str) -> types.CodeType:
        module = ast.fix_missing_locations(ast.Module(statements, []))
        flags = __future__.annotations.compiler_flag if self.file.future else 0
        return compile(module, filename, "exec", flags=flags, dont_inherit=True)

    def _execute(self, code: types.CodeType, stand_in: StandIn) -> None:
        self.namespace[FUNCTION_HOOK] = self._function
        self.namespace[CLASS_HOOK] = stand_in
        try:
            exec(code, self.namespace)
        finally:
            del self.namespace[FUNCTION_HOOK], self.namespace[CLASS_HOOK]

    # What runs, and how

    def _statements(self, tree: ast.Module) -> list[ast.stmt]:
        units = {id(u.node): u for u in self.new.units}
        once = Counter(n for u in self.new.units if not u.scope for n in u.names)
        result: list[ast.stmt] = []
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                rewritten = self._class_statement(node, is_reopened=reopened(tree) is node)
            else:
                rewritten = self._statement(units[id(node)], once)
            if rewritten is not None:
                result.append(rewritten)
        return result

    def _statement(self, unit: Unit, once: Counter[str]) -> ast.stmt | None:
        node = unit.node
        same = unit.key in self.old.texts and not unit.uses & self._changed
        if unit.is_import:
            return node
        if isinstance(node, FUNCTIONS):
            if node.decorator_list and same and self._is_there(unit):
                self._skipped.update(unit.names)
                return None
            if once[node.name] == 1:
                node = copy.copy(node)
                hook = ast.copy_location(ast.Name(FUNCTION_HOOK, ast.Load()), node)
                node.decorator_list = [*node.decorator_list, hook]
            return node
        if same and self._is_there(unit):
            self._skipped.update(unit.names)
            return None
        self._changed.update(unit.names)
        return node

    def _is_there(self, unit: Unit) -> bool:
        return all(name in self.before and self.file.owner.get(name) is self.fragment for name in unit.names)

    def _class_statement(self, node: ast.ClassDef, is_reopened: bool) -> ast.stmt | None:
        name = node.name
        old = self.before.get(name)
        if is_reopened:
            if not isinstance(old, type):
                raise LiveError(f"{name} is re-opened, but {self.module.__name__} has no class {name}")
            check_reopened(old, self.new)
        elif not isinstance(old, type) or name not in self.file.owner:
            self._changed.add(name)
            return node
        elif is_rebuilt(old) or becomes_rebuilt(node):
            mine = [u.key for u in self.new.units if u.scope == name or (u.header and u.names[0] == name)]
            if all(key in self.old.texts for key in mine) and not self._uses(name) & self._changed:
                self._skipped.add(name)
                return None
            self._changed.add(name)
            return node
        node = copy.copy(node)
        theirs = [ast.keyword(METACLASS, k.value) if k.arg == "metaclass" else k for k in node.keywords]
        keywords = [ast.keyword("metaclass", ast.Name(CLASS_HOOK, ast.Load())), *theirs]
        node.keywords = [ast.copy_location(k, node) for k in keywords]
        return node

    def _uses(self, scope: str) -> set[str]:
        header = self.new.header(scope)
        return {n for u in self.new.members(scope) for n in u.uses} | (set(header.uses) if header else set())

    def _merge(self, name: str) -> Merge:
        """How the class statement `name` of this cell merges into the class that is there."""
        header, had = self.new.header(name), self.old.header(name)
        if header is not None and had is not None and _keywords(header.node) != _keywords(had.node):
            raise restart(f"{name}: the keywords of its class statement changed")
        members = self.new.members(name)
        changed = set(self._changed)
        keep: set[str] = set()
        for unit in members:
            if isinstance(unit.node, FUNCTIONS):
                continue
            if unit.key in self.old.texts and not unit.uses & changed:
                keep.update(unit.names)
            else:
                changed.update(unit.names)
        own = {n for u in members for n in u.names}
        earlier = (
            q.partition(".")[2]
            for q, owner in self.file.owner.items()
            if q.startswith(name + ".") and owner.order < self.fragment.order and not owner.own
        )
        old = self.before[name]
        keep = {n for n in keep if self.file.owner.get(f"{name}.{n}") is self.fragment}
        edited = frozenset(n for u in members if u.key not in self.old.texts for n in u.names)
        visible = frozenset(set(earlier) - own)
        return Merge(old, header is None, frozenset(keep), visible, edited, _made_bases(header, had))

    def _function(self, new: types.FunctionType) -> types.FunctionType:
        """The hook every function of the cell goes through first: the function already there takes over its code."""
        old = innermost(self.before.get(new.__name__))
        if old is None or not can_adopt(old, new):
            return new
        adopt(old, new, self.journal, edited=self._is_edited(new.__name__))
        return old

    def _is_edited(self, name: str) -> bool:
        return any(name in u.names and u.key not in self.old.texts for u in self.new.units if not u.scope)

    def _registering(self) -> list[Unit]:
        """Units of the present version that may have registered something and will run again or be gone."""
        found = []
        for unit in self.old.units:
            if isinstance(unit.node, FUNCTIONS):
                runs_again = bool(unit.node.decorator_list) and (bool(unit.scope) or unit.names[0] not in self._skipped)
            else:
                runs_again = not unit.names and not unit.is_import and unit.key not in self.new.texts
            if runs_again:
                found.append(unit)
        return found

    # What the run has brought

    def _settle_names(self) -> None:
        """Names that were bound to new objects: functions and tables keep theirs, everything else is replaced."""
        for name in dict.fromkeys(n for u in self.new.units if not u.scope for n in u.names):
            old, new = self.before.get(name, MISSING), self.namespace.get(name, MISSING)
            if old is MISSING or new is MISSING or new is old or name in self._skipped:
                continue
            if can_adopt(old, new):
                adopt(old, new, self.journal, edited=self._is_edited(name))
                self.namespace[name] = old
            elif merge_table(old, new, self._first_content(name)):
                self.namespace[name] = old
            else:
                self.replaced[name] = (old, new)

    def _first_content(self, name: str) -> Any:
        """What the present version of this fragment put into the table `name`, evaluated afresh."""
        for unit in self.old.units:
            value = getattr(unit.node, "value", None)
            if name in unit.names and not unit.scope and isinstance(value, ast.expr):
                expression = compile(ast.Expression(value), "<table>", "eval", dont_inherit=True)
                try:
                    return eval(expression, dict(self.before))
                except Exception as error:
                    self.messages.append(f"{name}: what other cells had added is lost ({error}); run them again")
        return MISSING

    def _restore_fragments_of_new_classes(self) -> None:
        """A class that was made anew gets the members of the other fragments that re-open it."""
        for name, (old, new) in list(self.replaced.items()):
            if not (isinstance(old, type) and isinstance(new, type)):
                continue
            for fragment in self.file.fragments:
                members = fragment.current.members(name)
                if fragment is self.fragment or not members or not isinstance(new, type):
                    continue
                visible = frozenset(q.partition(".")[2] for q in self.file.owner if q.startswith(name + "."))
                merge = Merge(new, True, frozenset(), visible)
                node = class_statement(name, members)
                again = StandIn({name: partial(_same, merge)}, self.journal)
                node.keywords = [ast.keyword("metaclass", ast.Name(CLASS_HOOK, ast.Load()))]
                ast.copy_location(node.keywords[0], node)
                self._execute(self._compile([node], fragment.current.filename), again)

    def _remove(self) -> None:
        """Remove what this fragment defined before and defines no longer, unless another cell has defined it since."""
        gone = [q for q in self.old.qualified if q not in self.new.qualified]
        by_class: dict[str, set[str]] = {}
        for qualified in gone:
            if self.file.owner.get(qualified) is not self.fragment:
                continue
            scope, _, name = qualified.rpartition(".")
            if scope:
                by_class.setdefault(scope, set()).add(name)
            elif self.namespace.get(name, MISSING) is self.before.get(name, MISSING):
                self.namespace.pop(name, None)
        for scope, names in by_class.items():
            cls = self.namespace.get(scope)
            if isinstance(cls, type):
                remove_members(cls, frozenset(names))


def class_statement(name: str, members: Iterable[Unit]) -> ast.ClassDef:
    """`class C(C):` around these members."""
    nodes = [m.node for m in members]
    node = ast.ClassDef(name, [ast.Name(name, ast.Load())], [], nodes, [])
    if "type_params" in ast.ClassDef._fields:  # 3.12
        setattr(node, "type_params", [])  # noqa: B010 - 3.11's stubs have no such attribute
    node.lineno = node.end_lineno = min(m.start for m in members)
    node.col_offset = node.end_col_offset = 0
    return ast.fix_missing_locations(node)


def tree_of(version: Version) -> ast.Module:
    """A syntax tree that runs these units, their line numbers kept (used for the book's own text)."""
    body: list[ast.stmt] = []
    for unit in version.units:
        if unit.header:
            node = copy.copy(unit.node)
            assert isinstance(node, ast.ClassDef)
            mine = [m.node for m in version.members(node.name)]
            node.body = [s for s in node.body if s in mine or s.lineno <= unit.end] or [ast.Pass()]
            body.append(ast.fix_missing_locations(node))
        elif not unit.scope:
            body.append(unit.node)
        elif version.header(unit.scope) is None and not any(
            isinstance(s, ast.ClassDef) and s.name == unit.scope for s in body
        ):
            body.append(class_statement(unit.scope, version.members(unit.scope)))
    return ast.Module(body, [])


def _made_bases(header: Unit | None, had: Unit | None) -> frozenset[int]:
    if header is None or had is None or header.text != had.text or not isinstance(header.node, ast.ClassDef):
        return frozenset()
    return frozenset(n for n, base in enumerate(header.node.bases) if isinstance(base, ast.Call))


def _same(merge: Merge) -> Merge:
    return merge


def _keywords(node: ast.stmt) -> list[str]:
    assert isinstance(node, ast.ClassDef)
    return [ast.unparse(k) for k in node.keywords if k.arg != "metaclass"]
