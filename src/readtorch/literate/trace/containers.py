"""Containers: seen to be as they were without describing them again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import ref as ref_to

from readtorch.literate.trace.secrets import pair
from readtorch.literate.trace.tensors import Last

if TYPE_CHECKING:
    from readtorch.literate.trace.describe import Describer

Description = tuple[Any, ...]

ITEMS = 4
"""Items of a container that are shown."""

_qualname_of = type.__dict__["__qualname__"].__get__
_module_of = type.__dict__["__module__"].__get__
_FIXED = frozenset({"scalar", "text", "module", "other"})

Look = Callable[[Any], int]
"""Gives the index of what an instance of a class looks like now."""


Watch = tuple[Look, "Callable[[Any], Any] | None", "Last | None"]
"""(how to look, and for a tensor the stamp that tells whether it is needed, what it was described as)"""


class Kind:
    """How instances of a class are described."""

    __slots__ = ("category", "detail", "fixed", "light", "look", "seen", "type")

    def __init__(self, type: type, category: str, detail: Any) -> None:
        self.type = type  # kept: its id must stay its own
        self.category = category
        self.detail = detail
        self.light = detail if category == "tensor" and detail.plain else None
        """The reader of a tensor whose facts are those of its array."""
        self.fixed = category in _FIXED
        """Whether an instance always looks the same."""
        self.seen: dict[int, Container] = {}
        """Containers by id: only good for one that is equal to what it says."""
        self.look: Look = _unset


def _unset(value: Any) -> int:
    raise NotImplementedError


class Container:
    """A container as it was described last: enough to see that it has not changed."""

    __slots__ = ("index", "items", "length", "tokens")

    def __init__(self, length: int, tokens: list[Any] | None, items: Description, index: int) -> None:
        self.length = length
        self.tokens = tokens
        """For each item shown: itself, if it cannot change; the anchor of a tensor; the kind of what is known by class alone.
        None if it would take more to tell."""
        self.items = items
        self.index = index


def look_at_container(describer: Describer, base: Any, known: dict[int, Container]) -> Look:
    """Most containers are met again unchanged: their length and first items tell, in a fraction of a description's time."""
    length_of, items_of = base.__len__, _items_of(base)
    kinds = describer.kinds.get
    full = ITEMS * (2 if base is dict else 1)

    def container(value: Any) -> int:
        last = known.get(id(value))
        if last is None or last.tokens is None:
            return describe(value, None)
        length = length_of(value)
        shown = len(last.tokens)
        if length != last.length and (shown < full or length < ITEMS):
            return describe(value, None)
        try:
            for item, token in zip(items_of(value), last.tokens, strict=False):
                if item is token:
                    continue
                kind = type(token)
                if kind is ref_to:
                    if token() is item:
                        continue
                elif kind is Kind and kinds(id(type(item))) is token:
                    continue
                return describe(value, None)
        except RuntimeError:  # another thread changes it
            return describe(value, None)
        return last.index if length == last.length else describe(value, last)

    def describe(value: Any, last: Container | None) -> int:
        """`last` if all but the length is as it was."""
        name, length = _qualname_of(type(value)), length_of(value)
        if last is None:
            tokens = _tokens(describer, value, base)
            description = (
                describer.container(value, base, 0)
                if tokens is None
                else ("c", name, length, _items(describer, tokens, base))
            )
        else:
            tokens, description = last.tokens, ("c", name, length, last.items)
        index = describer.intern(description)
        known[id(value)] = Container(description[2], tokens, description[3], index)
        return index

    return container


def _tokens(describer: Describer, value: Any, base: Any) -> list[Any] | None:
    found: list[Any] = []
    try:
        items = list(_items_of(base)(value))
    except RuntimeError:
        return None
    for item in items:
        kind = describer.kinds.get(id(type(item))) or describer.kind(type(item))
        if kind.category == "tensor":
            try:
                found.append(describer.tensors.meet(item, kind.detail)[0])
            except AttributeError:
                return None
        elif kind.category == "other":
            found.append(kind)
        elif kind.fixed:
            found.append(item)
        else:
            return None
    return found


def _items(describer: Describer, tokens: list[Any], base: Any) -> Description:
    """The descriptions that the tokens stand for, in pairs for a dict."""
    values, tensors = describer.descriptions, describer.tensors
    found = []
    for token in tokens:
        known = tensors.known.get(id(token))
        if known is not None and known[0] is token:
            found.append(values[tensors.light(known)])
        elif type(token) is Kind:
            found.append(("o", class_name(token.type)))
        else:
            found.append(values[describer.index(token)])
    half = len(found) // 2
    if base is not dict:
        return tuple(found)
    pairs = zip(found[:half], found[half:], strict=True)
    return tuple(pair(*p) for p in pairs) if describer.mask else tuple(pairs)


def _items_of(base: Any) -> Callable[[Any], Any]:
    """What gives the first items of a container, of a dict the keys and then the values of its first pairs."""
    if base is not dict:
        return lambda value: islice(base.__iter__(value), ITEMS)
    return lambda value: (*islice(dict.keys(value), ITEMS), *islice(dict.values(value), ITEMS))


def class_name(kind: type) -> str:
    module, name = _module_of(kind), _qualname_of(kind)
    return name if type(module) is not str or module in ("builtins", "__main__") else f"{module}.{name}"
