"""What an edit changes in the running package, so that it can be undone.

A cell runs in the module's own dictionary, since a function keeps for good the dictionary it is made in as its globals. What
makes the run a transaction is this journal: a shallow copy of every namespace and table of the loaded package, taken before.
Comparing afterwards gives the changes, to roll back after an error or for `reset()` later.
"""

from __future__ import annotations

import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from readtorch.literate.notebook.book import PACKAGE


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING: Final = _Missing()

MAPPINGS = (dict, OrderedDict, defaultdict, WeakKeyDictionary, WeakValueDictionary)
SEQUENCES = (list, deque)
SETS = (set, WeakSet)
TABLES = (*MAPPINGS, *SEQUENCES, *SETS)

LARGEST_TABLE = 20_000
"""Tables above this many entries are data, not registrations, and are not watched."""

_ANNOTATIONS = "__annotate__" if sys.version_info >= (3, 14) else "__annotations__"  # 3.14 evaluates them when asked
FUNCTION_STATE = ("__code__", "__defaults__", "__kwdefaults__", _ANNOTATIONS, "__doc__", "__dict__", "__name__")


def loaded_modules() -> list[types.ModuleType]:
    """The loaded modules of the library (not of its tools)."""
    tools = PACKAGE + ".literate"
    return [
        module
        for name, module in list(sys.modules.items())
        if (name == PACKAGE or (name.startswith(PACKAGE + ".") and not name.startswith(tools)))
        and isinstance(module, types.ModuleType)
        and module.__name__ == name
    ]


def of_package(cls: type) -> bool:
    """Is this a class of the library? Some say that they live in `torch`, so that pickles are upstream's."""
    return str(cls.__module__).partition(".")[0] in (PACKAGE, "torch")


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One changed place. `kind`: module, class, object or mapping (by key), function (a state), sequence or set (whole)."""

    kind: str
    target: Any
    key: Any
    before: Any
    after: Any

    @property
    def place(self) -> tuple[str, int, Any]:
        return self.kind, id(self.target), self.key if self.kind in ("module", "class", "object", "mapping") else None

    def undo(self) -> None:
        put(self.kind, self.target, self.key, self.before)


def put(kind: str, target: Any, key: Any, value: Any) -> None:
    """Set one place to `value`, or empty it."""
    if kind == "function":
        set_state(target, value)
    elif kind == "class":
        if value is not MISSING:
            type.__setattr__(target, key, value)
        elif key in vars(target):
            type.__delattr__(target, key)
    elif kind == "object":
        if value is not MISSING:
            object.__setattr__(target, key, value)
        elif hasattr(target, key):
            object.__delattr__(target, key)
    elif kind in ("module", "mapping"):
        if value is not MISSING:
            target[key] = value
        else:
            target.pop(key, None)
    else:
        target.clear()
        target.update(value) if kind == "set" else target.extend(value)


def state(function: types.FunctionType) -> tuple[Any, ...]:
    return tuple(dict(v) if isinstance(v, dict) else v for v in (getattr(function, n) for n in FUNCTION_STATE))


def set_state(function: types.FunctionType, values: tuple[Any, ...]) -> None:
    for name, value in zip(FUNCTION_STATE, values, strict=True):
        setattr(function, name, dict(value) if isinstance(value, dict) else value)


class Journal:
    """The namespaces and tables of the loaded package as they are when it is made."""

    def __init__(self, also: Iterable[type] = ()) -> None:
        self._namespaces: list[tuple[str, Any, dict[Any, Any]]] = []
        self._collections: list[tuple[str, Any, list[Any]]] = []
        self._functions: dict[int, tuple[types.FunctionType, tuple[Any, ...]]] = {}
        self._seen: set[int] = set()
        self.inner_code: dict[types.CodeType, types.CodeType] = {}
        """Code of closures that edited functions make: what existing ones run, and what new ones will."""
        self.classes: list[type] = []
        modules = loaded_modules()
        for module in modules:
            self._seen.add(id(vars(module)))
        for module in modules:
            self._namespace("module", vars(module))
        for cls in also:
            self._class(cls)

    def _namespace(self, kind: str, target: Any) -> None:
        copy = vars(target).copy() if kind == "class" else target.copy()
        self._namespaces.append((kind, target, copy))
        for value in copy.values():
            self._visit(value, depth=0)

    def _class(self, cls: type) -> None:
        if id(cls) not in self._seen:
            self._seen.add(id(cls))
            self.classes.append(cls)
            self._namespace("class", cls)

    def _visit(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind in TABLES:
            self._table(value, depth)
        elif isinstance(value, type):
            if of_package(value):
                self._class(value)
        elif id(value) not in self._seen and (kind is types.SimpleNamespace or (depth and of_package(kind))):
            self._object(value, depth)

    def _table(self, table: Any, depth: int) -> None:
        if id(table) in self._seen or depth > 3 or len(table) > LARGEST_TABLE:
            return
        self._seen.add(id(table))
        if isinstance(table, MAPPINGS):
            entries = dict(table)
            self._namespaces.append(("mapping", table, entries))
            inner: Iterable[Any] = entries.values()
        else:
            inner = list(table)
            self._collections.append(("set" if isinstance(table, SETS) else "sequence", table, list(inner)))
        for value in inner:
            self._visit(value, depth + 1)

    def _object(self, value: Any, depth: int) -> None:
        """A namespace, or an entry of a table that is an object of the library, such as an operator with its kernels."""
        self._seen.add(id(value))
        attributes = attributes_of(value)
        self._namespaces.append(("object", value, attributes))
        for inner in attributes.values():
            if type(inner) in TABLES:
                self._table(inner, depth + 1)

    def note_function(self, function: types.FunctionType) -> None:
        """To be called before a function is changed in place."""
        self._functions.setdefault(id(function), (function, state(function)))

    def changes(self) -> list[Change]:
        """Everything that is no longer as it was."""
        return list(self._changes())

    def _changes(self) -> Iterator[Change]:
        for function, noted in self._functions.values():
            yield Change("function", function, None, noted, state(function))
        for kind, target, before in self._namespaces:
            after = _entries(kind, target)
            gone = 0
            for key, old in before.items():
                new = after.get(key, MISSING)
                if new is not old:
                    gone += new is MISSING
                    yield Change(kind, target, key, old, new)
            if len(after) > len(before) - gone:
                for key in [k for k in after if k not in before]:
                    yield Change(kind, target, key, MISSING, after[key])
        for kind, target, items in self._collections:
            now = list(target)
            if len(now) != len(items) or any(a is not b for a, b in zip(now, items, strict=True)):
                yield Change(kind, target, None, items, now)

    def rollback(self) -> None:
        """Put everything back. Modules that were imported meanwhile stay: importing is no edit."""
        for change in self.changes():
            if not isinstance(change.after, types.ModuleType):
                change.undo()

    def tables(self) -> Iterator[tuple[str, Any, Any]]:
        """Every watched table or entry object as (kind, target, entries before)."""
        for kind, target, before in self._namespaces:
            if kind in ("mapping", "object"):
                yield kind, target, before
        yield from self._collections

    @property
    def own_objects(self) -> set[int]:
        """Ids of the journal's own containers, which hold on to everything."""
        copies = {id(copy) for _, _, copy in (*self._namespaces, *self._collections)}
        return copies | {id(noted) for noted in self._functions.values()}

    def release(self) -> None:
        """Let go of everything: a traceback that is kept for `%debug` must not keep the old package alive."""
        for entries in (self._namespaces, self._collections, self._functions, self.classes, self.inner_code):
            entries.clear()


def _entries(kind: str, target: Any) -> dict[Any, Any]:
    if kind == "class":
        return cast(dict[Any, Any], vars(target))
    return attributes_of(target) if kind == "object" else target if type(target) is dict else dict(target)


def attributes_of(value: Any) -> dict[str, Any]:
    """Instance attributes, slots included."""
    found = dict(getattr(value, "__dict__", ()))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                inner = getattr(value, name, MISSING)
                if inner is not MISSING:
                    found[name] = inner
    return found
