"""What IPython prints for a value, without IPython: containers laid out to the width of a page, the rest by `repr`.

A container that fits on its line stays there; else its elements stand one below the other. Functions, classes, exceptions and
plain objects look as IPython shows them (`<function __main__.f(x)>`), so that a page reads the same wherever it was recorded.
"""

from __future__ import annotations

import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import signature
from typing import Any

WIDTH = 79
MOST = 1000
"""Elements of a container that are shown."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Items between brackets, all on one line or each on its own."""

    opening: str
    items: list[_Node]
    closing: str


_Node = str | _Group | tuple["_Node", ...]
"""A text, a group, or nodes one behind the other."""


def pretty(value: Any) -> str:
    return _layout(_node(value, ()), 0, 0, 0)


def _layout(node: _Node, indent: int, column: int, tail: int) -> str:
    """`node` from `column` on, its further lines indented by `indent`; `tail` characters follow on its last line."""
    if isinstance(node, str):
        return node.replace("\n", "\n" + " " * indent)
    if isinstance(node, tuple):
        text = ""
        for piece in node:
            here = column + len(text) if "\n" not in text else len(text.rpartition("\n")[2])
            text += _layout(piece, indent, here, tail)
        return text
    flat = _flat(node)
    if "\n" not in flat and column + len(flat) + tail <= WIDTH:
        return flat
    inner = indent + len(node.opening)
    pieces = []
    for number, item in enumerate(node.items):
        last = number == len(node.items) - 1
        start = inner if number else column + len(node.opening)
        pieces.append(_layout(item, inner, start, len(node.closing) + tail if last else 1))
    return node.opening + (",\n" + " " * inner).join(pieces) + node.closing


def _flat(node: _Node) -> str:
    if isinstance(node, str):
        return node
    if isinstance(node, tuple):
        return "".join(map(_flat, node))
    return node.opening + ", ".join(map(_flat, node.items)) + node.closing


def _node(value: Any, above: tuple[int, ...]) -> _Node:
    for cls in type(value).__mro__:
        if cls in _PRINTERS:
            base = _PLAIN.get(cls)
            if base is not None and type(value).__repr__ is not base:
                break
            return _PRINTERS[cls](value, above)
        if cls is not object and "__repr__" in cls.__dict__:
            break
    if type(value).__repr__ is object.__repr__:
        return f"<{_class_name(type(value))} at 0x{id(value):x}>"
    return "\n".join(repr(value).splitlines())


def _sequence(opening: str, closing: str) -> Callable[[Any, tuple[int, ...]], _Node]:
    def node(value: Any, above: tuple[int, ...]) -> _Node:
        if id(value) in above:
            return f"{opening}...{closing}"
        only = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return _Group(opening, _items(value, (*above, id(value))), only + closing)

    return node


def _set(opening: str, closing: str) -> Callable[[Any, tuple[int, ...]], _Node]:
    def node(value: Any, above: tuple[int, ...]) -> _Node:
        if not value:
            return f"{type(value).__name__}()"
        items = list(value)
        if len(items) < MOST:
            try:
                items.sort()
            except TypeError:
                items.sort(key=lambda item: (type(item).__name__, repr(item)))
        return _Group(opening, _items(items, (*above, id(value))), closing)

    return node


def _mapping(opening: str, closing: str) -> Callable[[Any, tuple[int, ...]], _Node]:
    def node(value: Any, above: tuple[int, ...]) -> _Node:
        if id(value) in above:
            return "{...}"
        above = (*above, id(value))
        pairs: list[_Node] = [(_node(key, above), ": ", _node(item, above)) for key, item in list(value.items())[:MOST]]
        return _Group(opening, pairs + ["..."] * (len(value) > MOST), closing)

    return node


def _items(values: Iterable[Any], above: tuple[int, ...]) -> list[_Node]:
    every = list(values)
    return [_node(item, above) for item in every[:MOST]] + ["..."] * (len(every) > MOST)


def _call(name: str, arguments: list[Any], above: tuple[int, ...], named: dict[str, Any] | None = None) -> _Node:
    items = [_node(argument, above) for argument in arguments]
    items += [(f"{key}=", _node(item, above)) for key, item in (named or {}).items()]
    return _Group(f"{name}(", items, ")")


def _class(value: type, above: tuple[int, ...]) -> _Node:
    plain = next(c for c in type.mro(type(value)) if "__repr__" in vars(c)) is type
    return _class_name(value) if plain else repr(value)


def _class_name(value: type) -> str:
    module = getattr(value, "__module__", None)
    return value.__qualname__ if module in (None, "builtins") else f"{module}.{value.__qualname__}"


def _function(value: Any, above: tuple[int, ...]) -> _Node:
    module = value.__module__
    name = value.__qualname__ if module in (None, "builtins") else f"{module}.{value.__qualname__}"
    try:
        return f"<function {name}{signature(value)}>"
    except ValueError:
        return f"<function {name}>"


def _exception(value: BaseException, above: tuple[int, ...]) -> _Node:
    return _call(_class_name(type(value)), list(value.args), above)


_PRINTERS: dict[type, Callable[[Any, tuple[int, ...]], _Node]] = {
    list: _sequence("[", "]"),
    tuple: _sequence("(", ")"),
    set: _set("{", "}"),
    frozenset: _set("frozenset({", "})"),
    dict: _mapping("{", "}"),
    types.MappingProxyType: _mapping("mappingproxy({", "})"),
    OrderedDict: lambda v, above: _call("OrderedDict", [list(v.items())] if v else [], (*above, id(v))),
    defaultdict: lambda v, above: _call("defaultdict", [v.default_factory, dict(v)], (*above, id(v))),
    deque: lambda v, above: _call("deque", [list(v)], (*above, id(v))),
    Counter: lambda v, above: _call("Counter", [dict(v.most_common())] if v else [], (*above, id(v))),
    types.SimpleNamespace: lambda v, above: _call("namespace", [], (*above, id(v)), vars(v)),
    type: _class,
    types.FunctionType: _function,
    types.BuiltinFunctionType: _function,
    BaseException: _exception,
}
_PLAIN: dict[type, Any] = {cls: cls.__repr__ for cls in (list, tuple, set, frozenset, dict)}
"""Containers whose subclasses may bring a `__repr__` of their own, which then counts."""
