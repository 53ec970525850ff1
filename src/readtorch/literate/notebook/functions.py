"""A function keeps its identity when it is edited: whoever holds it, under whatever name, runs the new code."""

from __future__ import annotations

import gc
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


def adopt(old: types.FunctionType, new: types.FunctionType, journal: Journal, *, edited: bool) -> None:
    """Make `old` what `new` is: code, defaults, annotations, docstring, attributes.

    Where the function was `edited`, and not only stands in an edited cell, its closures are to follow.
    """
    if old is new:
        return
    journal.note_function(old)
    if edited:
        journal.inner_code.update(_inner_pairs(old.__code__, new.__code__))
    set_state(old, state(new))


def _inner_pairs(old: types.CodeType, new: types.CodeType) -> dict[types.CodeType, types.CodeType]:
    """Code of the functions defined inside `old` that changed, each with its counterpart in `new`."""
    theirs, pairs = _inner(new), {}
    for name, mine in _inner(old).items():
        for code, counterpart in zip(mine, theirs.get(name, ()), strict=False):
            if _differs(code, counterpart):
                pairs[code] = counterpart
            pairs.update(_inner_pairs(code, counterpart))
    return pairs


def _inner(code: types.CodeType) -> dict[str, list[types.CodeType]]:
    """Functions (no comprehensions, which nobody holds) defined in this code, in order, by qualified name."""
    found: dict[str, list[types.CodeType]] = {}
    for const in code.co_consts:
        if isinstance(const, types.CodeType) and (const.co_name == "<lambda>" or not const.co_name.startswith("<")):
            found.setdefault(const.co_qualname, []).append(const)
    return found


def _differs(old: types.CodeType, new: types.CodeType) -> bool:
    """Do they do something else? Line numbers do not count."""
    plain = [tuple(c for c in code.co_consts if not isinstance(c, types.CodeType)) for code in (old, new)]
    return old.co_code != new.co_code or old.co_names != new.co_names or plain[0] != plain[1]


def update_closures(journal: Journal) -> list[str]:
    """Give closures that edited functions made before the new code too. Returns the names of those that cannot take it."""
    pairs = journal.inner_code
    if not pairs:
        return []
    left: list[str] = []
    for function in gc.get_referrers(*pairs):
        if isinstance(function, types.FunctionType) and function.__code__ in pairs:
            new = pairs[function.__code__]
            if new.co_freevars == function.__code__.co_freevars:
                journal.note_function(function)
                function.__code__ = new
            else:
                left.append(new.co_qualname)
    return list(dict.fromkeys(left))
