"""Where an object could not be changed in place, everyone who holds the old one is given the new one, or named."""

from __future__ import annotations

import ast
import gc
import inspect
import sys
import types
from collections import Counter
from collections.abc import Mapping
from typing import Any

from readtorch.literate.notebook.journal import SEQUENCES, SETS, Journal, loaded_modules, put

_SHOWN = 4


def by_identity(old: Any, new: Any) -> bool:
    """May every reference to `old` be replaced? Of numbers, strings and the like there is one object for many meanings."""
    if isinstance(old, int | float | complex | str | bytes | tuple | frozenset | type(None) | types.ModuleType):
        return False
    return isinstance(old, type | types.FunctionType) or callable(old) or type(old) is type(new)


class Exchange:
    """Old objects and what takes their place."""

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[Any, Any]] = {}

    def add(self, old: Any, new: Any) -> None:
        self._pairs[id(old)] = (old, new)

    def __bool__(self) -> bool:
        return bool(self._pairs)

    def __contains__(self, value: object) -> bool:
        return id(value) in self._pairs

    def __getitem__(self, value: Any) -> Any:
        """What takes the place of `value`: itself, if nothing does."""
        return self._pairs.get(id(value), (value, value))[1]

    def everywhere(self, journal: Journal, notebook: dict[str, Any]) -> None:
        """Exchange them in loaded modules, classes, watched tables and the notebook."""
        if not self:
            return
        for module in loaded_modules():
            self._in_namespace("module", vars(module), vars(module))
        for cls in journal.classes:
            self._in_namespace("class", cls, vars(cls))
        for kind, target, entries in journal.tables():
            if isinstance(target, SEQUENCES):
                content = [self[v] for v in target]
                if any(v in self for v in target):
                    target.clear()
                    target.extend(content)
            elif isinstance(target, SETS):
                for value in [v for v in target if v in self]:
                    target.discard(value)
                    target.add(self[value])
            elif kind == "object":
                self._in_namespace(kind, target, {k: getattr(target, k, None) for k in entries})
            else:
                self._in_namespace(kind, target, target)
        self._in_namespace("module", notebook, notebook)

    def _in_namespace(self, kind: str, target: Any, entries: Mapping[Any, Any]) -> None:
        for key, value in list(entries.items()):
            if id(value) in self._pairs:
                put(kind, target, key, self[value])
            elif kind == "class" and isinstance(value, property):
                get, set_, delete = self[value.fget], self[value.fset], self[value.fdel]
                if (get, set_, delete) != (value.fget, value.fset, value.fdel):
                    put(kind, target, key, property(get, set_, delete, value.__doc__))


def is_successor(old: Any, new: Any) -> bool:
    """Has a function been replaced by its next version?"""
    return (
        isinstance(old, types.FunctionType)
        and isinstance(new, types.FunctionType)
        and old is not new
        and old.__qualname__ == new.__qualname__
    )


def rebind_constant(name: str, source: str, old: Any, new: Any, notebook: dict[str, Any]) -> None:
    """Give the modules that say `from source import name` the new value."""
    for module in loaded_modules():
        space = vars(module)
        for local, value in list(space.items()):
            if value is old and local in _imported_as(module, source, name):
                space[local] = new
    if notebook.get(name) is old:
        notebook[name] = new


def _imported_as(module: types.ModuleType, source: str, name: str) -> set[str]:
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return set()
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == source
        for alias in node.names
        if alias.name == name
    }


def who_still_holds(old: Any, ignore: set[int]) -> list[str]:
    """What still refers to `old`, described for the reader."""
    mine = {id(sys._getframe()), *ignore}
    found: Counter[str] = Counter()
    for referrer in gc.get_referrers(old):
        if id(referrer) not in mine and not isinstance(referrer, types.FrameType):
            text = _describe(referrer, old)
            if text:
                found[text] += 1
    lines = [text if n == 1 else f"{text} ({n} times)" for text, n in found.most_common(_SHOWN)]
    return [*lines, "and more"] if len(found) > _SHOWN else lines


def _describe(referrer: Any, old: Any) -> str:
    if isinstance(referrer, type):
        bases = referrer.__bases__
        return f"the subclass {referrer.__qualname__}" if old in bases else ""
    if isinstance(referrer, dict):
        return "" if referrer.get("__name__") or "__builtins__" in referrer else _container(referrer, "dictionary")
    if isinstance(referrer, types.CellType):
        return _closure(referrer)
    if isinstance(referrer, types.MethodType):
        return f"a bound method of {type(referrer.__self__).__qualname__}"
    if isinstance(referrer, types.FunctionType):
        return f"the function {referrer.__qualname__}" if referrer.__dict__ else ""
    if isinstance(referrer, list | set | tuple):
        return "" if _of_class_machinery(referrer, old) else _container(referrer, type(referrer).__name__)
    if isinstance(old, type):
        return f"an instance of {old.__qualname__}" if type(referrer) is old else ""
    return f"an instance of {type(referrer).__qualname__}" if hasattr(referrer, "__dict__") else ""


def _container(held: Any, kind: str) -> str:
    """A table by its name, where a module or a class of the library, or the notebook, has one for it."""
    notebook = sys.modules.get("__main__")
    for module in (*loaded_modules(), *([notebook] if notebook is not None else [])):
        where = "the notebook's" if module is notebook else f"the {kind}"
        prefix = f"{kind} " if module is notebook else f"{module.__name__}."
        for name, value in list(vars(module).items()):
            if value is held:
                return f"{where} {prefix}{name}"
            if isinstance(value, type) and value.__module__ == module.__name__:
                for attribute, inner in list(vars(value).items()):
                    if inner is held:
                        return f"{where} {prefix}{value.__qualname__}.{attribute}"
    return f"a {kind}"


def _closure(cell: types.CellType) -> str:
    """A closure, unless it is the `__class__` of the old class's own methods."""
    for function in gc.get_referrers(cell):
        if isinstance(function, tuple):
            for owner in gc.get_referrers(function):
                if isinstance(owner, types.FunctionType) and owner.__closure__ is function:
                    names = dict(zip(owner.__code__.co_freevars, function, strict=False))
                    if names.get("__class__") is not cell:
                        return f"the closure of {owner.__qualname__}"
    return ""


def _of_class_machinery(container: Any, old: Any) -> bool:
    """Is this the method resolution order or the bases of a class?"""
    return isinstance(container, tuple) and isinstance(old, type) and any(isinstance(c, type) for c in container)
