"""A class is edited where it stands: the members of a cell's class statement go into the class object that everybody has.

The class statement of a cell runs with a stand-in for its metaclass. Python asks that for the namespace of the body and hands
it back filled; no second class is ever made, so `__init_subclass__` does not fire and there is nothing to convert: the one
`__class__` cell of the body, which `super()` reads in every function and closure made there, is pointed at the real class.
"""

from __future__ import annotations

import abc
import ast
import enum
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from readtorch.literate.notebook.errors import LiveError, restart
from readtorch.literate.notebook.functions import adopt, can_adopt
from readtorch.literate.notebook.journal import MISSING, Journal
from readtorch.literate.notebook.units import FUNCTIONS, Version

METACLASS = "<metaclass>"
"""The keyword under which a rewritten class statement passes on its real metaclass."""

_MADE_BY_PYTHON = frozenset(
    [
        "__module__",
        "__qualname__",
        "__firstlineno__",
        "__static_attributes__",
        "__classcell__",
        "__classdictcell__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__conditional_annotations__",
        "__type_params__",
        "__orig_bases__",
        "__dict__",
        "__weakref__",
        "__doc__",
        "__slots__",
    ]
)


def is_rebuilt(cls: Any) -> str | None:
    """What kind of class it is, if one that is built from its body as a whole and so can only be made anew."""
    if not isinstance(cls, type):
        return None
    if isinstance(cls, enum.EnumMeta):
        return "an enum"
    own = vars(cls)
    if "__dataclass_fields__" in own or "__attrs_attrs__" in own:
        return "a dataclass"
    if issubclass(cls, tuple) and "_fields" in own:
        return "a NamedTuple"
    if own.get("_is_protocol"):
        return "a Protocol"
    return "a TypedDict" if "__required_keys__" in own else None


def becomes_rebuilt(node: ast.ClassDef) -> bool:
    """Will this class statement make a dataclass or a NamedTuple, whatever stood there before?"""
    called = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    names = [n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in (*called, *node.bases)]
    return any(n in ("dataclass", "NamedTuple", "TypedDict") for n in names)


@dataclass(frozen=True)
class Merge:
    """How the class statement of one cell goes into the class `old`."""

    old: type
    reopens: bool
    keep: frozenset[str]
    """Plain members whose statement did not change: what the class has now, tables with all that was added, stays."""
    visible: frozenset[str]
    """Members of earlier fragments, which the body may use by name, as in the whole class."""
    edited: frozenset[str] = frozenset()
    """Members whose text changed."""
    made_bases: frozenset[int] = frozenset()
    """Bases by position that an unchanged header makes anew each time it runs, as in `class Pair(namedtuple(...))`."""


class _Body(dict[str, Any]):
    """The namespace of a class body. Names of earlier fragments are found in the class."""

    def __init__(self, merge: Merge) -> None:
        super().__init__()
        self._merge = merge

    def __missing__(self, name: str) -> Any:
        if name in self._merge.visible:
            return vars(self._merge.old)[name]
        raise KeyError(name)


class StandIn:
    """Stands in for the metaclass in the class statements of one cell."""

    def __init__(self, plans: Mapping[str, Callable[[], Merge]], journal: Journal) -> None:
        self._plans = plans
        self._journal = journal
        self.merged: list[type] = []

    def __prepare__(self, name: str, bases: tuple[type, ...], **keywords: Any) -> _Body:
        return _Body(self._plans[name]())

    def __call__(self, name: str, bases: tuple[type, ...], body: _Body, **keywords: Any) -> type:
        merge = body._merge
        metaclass = keywords.pop(METACLASS, None)
        _check_layout(merge, name, bases, metaclass, body)
        old = merge.old
        for cell_name, content in (("__classcell__", old), ("__classdictcell__", dict(vars(old)))):
            cell = body.get(cell_name)
            if cell is not None:
                cell.cell_contents = content
        merge_members(old, body, merge, self._journal)
        self.merged.append(old)
        return old


def _check_layout(merge: Merge, name: str, bases: tuple[type, ...], metaclass: Any, body: Mapping[str, Any]) -> None:
    old = merge.old
    if merge.reopens:
        if bases != (old,) or metaclass is not None:
            raise LiveError(f"{name} is re-opened with other bases: write `class {name}({name}):`")
        if "__slots__" in body:
            raise LiveError(f"{name}: __slots__ belongs in the cell that opens the class")
        if "__doc__" in body:
            raise LiveError(f"{name}: its docstring belongs in the cell that opens the class")
    else:
        mixed = tuple(
            had if position in merge.made_bases else base
            for position, (base, had) in enumerate(zip_longest(bases or (object,), old.__bases__))
        )
        if mixed != old.__bases__:
            raise restart(f"{name}: bases changed from {_names(old.__bases__)} to {_names(bases or (object,))}")
        winner = metaclass or type
        for base in mixed:
            winner = type(base) if issubclass(type(base), winner) else winner
        if winner is not type(old):
            raise restart(f"{name}: metaclass changed from {type(old).__name__} to {winner.__name__}")
        before, after = _slots(vars(old).get("__slots__")), _slots(body.get("__slots__"))
        if before != after:
            raise restart(f"{name}: slot layout changed from {_shown(before)} to {_shown(after)}")
    for slot in _slots(vars(old).get("__slots__")) or ():
        if slot in body:
            raise restart(f"{name}: slot {slot!r} became a class attribute")


def _slots(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)


def _names(classes: tuple[type, ...]) -> str:
    return "(" + ", ".join(c.__name__ for c in classes) + ")"


def _shown(slots: tuple[str, ...] | None) -> str:
    return "none" if slots is None else "(" + ", ".join(slots) + ")"


def merge_members(old: type, body: Mapping[str, Any], merge: Merge, journal: Journal) -> None:
    """Put the members of `body` into `old`. Functions keep their identity, so that aliases and bound methods follow."""
    have = vars(old)
    members = {k: v for k, v in body.items() if k not in _MADE_BY_PYTHON and not (k in merge.keep and k in have)}
    stands_for: dict[int, Any] = {}
    for name, value in members.items():
        if getattr(value, "__name__", None) == name and can_adopt(have.get(name), value):
            adopt(have[name], value, journal, edited=name in merge.edited)
            stands_for[id(value)] = have[name]
    for name, value in members.items():
        value = stands_for.get(id(value), _as_type_would(name, value))
        if have.get(name, MISSING) is not value:
            type.__setattr__(old, name, value)
            bound = getattr(type(value), "__set_name__", None)
            if bound is not None:
                bound(value, old, name)
    if "__eq__" in members and "__hash__" not in body and have.get("__hash__", MISSING) is MISSING:
        type.__setattr__(old, "__hash__", None)
    if body.get("__doc__", old.__doc__) != old.__doc__ or (not merge.reopens and "__doc__" not in body and old.__doc__):
        type.__setattr__(old, "__doc__", body.get("__doc__"))
    _merge_annotations(old, body)
    if isinstance(old, abc.ABCMeta):
        _update_abstract(old)


def _as_type_would(name: str, value: Any) -> Any:
    """What `type.__new__` does to a few functions."""
    if isinstance(value, types.FunctionType):
        if name == "__new__":
            return staticmethod(value)
        if name in ("__init_subclass__", "__class_getitem__"):
            return classmethod(value)
    return value


def _merge_annotations(old: type, body: Mapping[str, Any]) -> None:
    new = body.get("__annotations__")
    if new:
        type.__setattr__(old, "__annotations__", {**vars(old).get("__annotations__", {}), **new})


def _update_abstract(cls: type) -> None:
    abc.update_abstractmethods(cls)
    subclasses: list[type] = type.__subclasses__(cls)
    for subclass in subclasses:
        _update_abstract(subclass)


def remove_members(cls: type, names: frozenset[str]) -> None:
    """Remove members and annotations of these names."""
    for name in names:
        if name in vars(cls):
            type.__delattr__(cls, name)
    annotations = vars(cls).get("__annotations__")
    if annotations and names & annotations.keys():
        kept = {k: v for k, v in annotations.items() if k not in names}
        type.__setattr__(cls, "__annotations__", kept)


def check_reopened(cls: type, version: Version) -> None:
    """Methods can be added to a dataclass or an enum; fields and members cannot."""
    kind = is_rebuilt(cls)
    for unit in version.members(cls.__name__) if kind else ():
        if not isinstance(unit.node, FUNCTIONS):
            raise restart(f"{cls.__name__} is {kind}: a field or member was added to it after it was made")
