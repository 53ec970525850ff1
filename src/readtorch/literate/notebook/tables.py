"""Tables that cells fill: registries of operators, collate maps, reducers, hooks.

What a fragment has registered is recognised by where the registered function was written (its code's file and lines). When
the fragment runs again its old entries are withdrawn first, so that registering anew replaces: no entry is there twice, and a
table that refuses a second entry for one key has nothing to refuse.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from readtorch.literate.notebook.functions import innermost
from readtorch.literate.notebook.journal import MAPPINGS, SEQUENCES, SETS, Journal
from readtorch.literate.notebook.units import Unit, Version


@dataclass(frozen=True)
class _Entry:
    kind: str
    table: Any
    key: Any
    value: Any
    unit: Unit
    """The statement of the fragment's present version that registered it."""


class Registrations:
    """What a fragment's present version registered, taken out while its next version runs."""

    def __init__(self, journal: Journal, units: Iterable[Unit], filename: str, namespace: Mapping[str, Any]) -> None:
        """`units` are those that will run again or be gone, as they stand in the present version, from `filename`."""
        self._entries: list[_Entry] = []
        sources = [_Source(unit, filename, namespace) for unit in units]
        if not sources:
            return
        for kind, table, before in journal.tables():
            if kind == "object":
                continue
            for key, value in before.items() if isinstance(before, dict) else enumerate(before):
                unit = next((s.unit for s in sources if s.made(value)), None)
                if unit is not None:
                    self._entries.append(_Entry(kind, table, key, value, unit))
        for entry in self._entries:
            if entry.kind == "mapping":
                entry.table.pop(entry.key, None)
            elif entry.value in entry.table:
                entry.table.remove(entry.value)

    def settle(self, new: Version) -> None:
        """Put back what the new version did not mean to take away, and list entries in their old places."""
        lists: dict[int, list[_Entry]] = {}
        for entry in self._entries:
            if entry.kind == "mapping":
                if entry.key not in entry.table and not _means(entry.unit, entry.key, new):
                    entry.table[entry.key] = entry.value
            elif entry.kind == "sequence":
                lists.setdefault(id(entry.table), []).append(entry)
        for entries in lists.values():
            _into_place(entries)


def _into_place(entries: list[_Entry]) -> None:
    table = entries[0].table
    names = {f.__name__ for e in entries for f in functions_in(e.value)}
    positions = sorted(e.key for e in entries)
    added = [v for v in table if any(f.__name__ in names for f in functions_in(v))][-len(positions) :]
    rest = [v for v in table if not any(v is a for a in added)]
    for position, value in zip(positions, added, strict=False):
        rest.insert(position, value)
    table.clear()
    table.extend(rest)


class _Source:
    """Tells which table entries a unit has made: its own function, or functions that a plain statement names."""

    def __init__(self, unit: Unit, filename: str, namespace: Mapping[str, Any]) -> None:
        self.unit = unit
        self._filename = filename
        names = () if unit.scope else unit.names or unit.uses
        self._objects = {id(f) for f in (innermost(namespace.get(name)) for name in names) if f is not None}

    def made(self, value: Any) -> bool:
        return any(
            id(f) in self._objects
            or (
                bool(self.unit.names)
                and f.__code__.co_filename == self._filename
                and self.unit.start <= f.__code__.co_firstlineno <= self.unit.end
            )
            for f in functions_in(value)
        )


def _means(unit: Unit, key: Any, new: Version) -> bool:
    """Did the statement give this key itself, and does the new version no longer? Then the entry was meant to go."""
    return any(p.search(unit.text) and not any(p.search(u.text) for u in new.units) for p in _patterns(key))


def _patterns(key: Any) -> Iterator[re.Pattern[str]]:
    """How a key is written in source: a string as a literal, anything else by its name."""
    if isinstance(key, tuple):
        for part in key:
            yield from _patterns(part)
    elif isinstance(key, str):
        yield re.compile(rf"""(["']){re.escape(key)}\1""")
    else:
        name = getattr(key, "__name__", None) or str(key).rpartition(".")[2]
        yield re.compile(rf"\b{re.escape(name)}\b")


def functions_in(value: Any, depth: int = 0) -> Iterator[types.FunctionType]:
    """The functions that a table entry consists of."""
    if isinstance(value, types.FunctionType):
        yield value
        if hasattr(value, "__wrapped__") and depth < 3:
            yield from functions_in(value.__wrapped__, depth + 1)
    elif isinstance(value, functools.partial):
        yield from functions_in(value.func, depth + 1)
    elif isinstance(value, types.MethodType | classmethod | staticmethod):
        yield from functions_in(value.__func__, depth + 1)
    elif isinstance(value, tuple) and depth < 2:
        for inner in value:
            yield from functions_in(inner, depth + 1)


def merge_table(old: Any, new: Any, first: Any) -> bool:
    """Give the table `old` the content of `new`, and keep what other cells had added to it since it held `first`.

    False where the two are not tables of one kind.
    """
    if type(old) is not type(new):
        return False
    if isinstance(old, MAPPINGS):
        had = dict(first) if isinstance(first, MAPPINGS) else {}
        added = {k: v for k, v in old.items() if k not in had or (k in new and had[k] == new[k])}
        content = {**new, **added}
        old.clear()
        old.update(content)
        return True
    if isinstance(old, SEQUENCES):
        had_items = list(first) if isinstance(first, SEQUENCES) else []
        rest = [item for item in old if not _contains(had_items, item) and not _contains(new, item)]
        content_items = [*new, *rest]
        old.clear()
        old.extend(content_items)
        return True
    if isinstance(old, SETS):
        had_set = set(first) if isinstance(first, SETS) else set()
        rest_set = {item for item in old if item not in had_set}
        old.clear()
        old.update(new)
        old.update(rest_set)
        return True
    return False


def _contains(items: Iterable[Any], wanted: Any) -> bool:
    return any(item is wanted or (type(item) is type(wanted) and item == wanted) for item in items)
