"""A function keeps its identity when it is edited: whoever holds it, under whatever name, runs the new code."""

from __future__ import annotations

import types
from typing import Any

from readtorch.literate.notebook.journal import Journal, set_state, state


def innermost(value: Any) -> types.FunctionType | None:
    """The function as written, below what `functools.wraps`, `property` and the like have put around it."""
    seen: set[int] = set()
    while id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif hasattr(value, "__wrapped__"):
            value = value.__wrapped__
    return value if isinstance(value, types.FunctionType) else None


def can_adopt(old: Any, new: Any) -> bool:
    """Can `old` run `new`'s code? It must be made in the same module, under that name, and close over the same names."""
    return (
        type(old) is types.FunctionType
        and type(new) is types.FunctionType
        and old.__globals__ is new.__globals__
        and old.__code__.co_name == new.__code__.co_name
        and old.__code__.co_name != "<lambda>"
        and _same_cells(old, new)
    )


def _same_cells(old: types.FunctionType, new: types.FunctionType) -> bool:
    """No free variables, or those that mean the same in both: `__class__`, and names bound to the same object."""
    names = old.__code__.co_freevars
    if names != new.__code__.co_freevars:
        return False
    pairs = zip(names, old.__closure__ or (), new.__closure__ or (), strict=True)
    return all(name == "__class__" or _content(a) is _content(b) for name, a, b in pairs)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return cell  # an empty cell equals only itself


def adopt(old: types.FunctionType, new: types.FunctionType, journal: Journal) -> None:
    """Make `old` what `new` is: code, defaults, annotations, docstring, attributes."""
    if old is new:
        return
    journal.note_function(old)
    set_state(old, state(new))
