"""Values as a trace shows them: described once, briefly, and without running any code of theirs.

Everything is decided by class, looked up once per class by identity. Nothing here calls `repr`, `str`, `len`, `==`, `hash` or
an attribute of an object whose class is not built in, NumPy's or readtorch's: a `__repr__` may raise, a property may launch
a computation, a list may be endless. Subclasses are read through the methods and slots of the base they derive from.

A description is a tuple that starts with a letter for its kind (`values` of the schema):

    ("z",)                       None
    ("u",)                       no value: the name was deleted
    ("n", 3[, type])             number; text where JSON cannot hold it exactly
    ("b", True)                  bool
    ("s", text, length)          string; bytes are ("y", hexadecimal, length)
    ("c", "list", length, items) container and its first items, pairs for a dict
    ("t", tensor, version, dtype, shape, device, flags, stats, head)   tensor or array, see tensors.py
    ("m", module)                nn.Module, an index into `modules`
    ("f", name) ("k", name) ("p", name) ("d", text) ("o", class)
                                 function, class, Python module, dtype or device, any other object
    ("e", class, message)        exception
"""

from __future__ import annotations

import math
import sys
import threading
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.literate.trace.scope import without_machine_paths
from readtorch.literate.trace.tensors import Known, Tensors, number, reader_of

Description = tuple[Any, ...]

ITEMS = 4
"""Items of a container that are shown."""
TEXT = 80
EXACT_INT = 1 << 53
"""Integers from here on are text in JSON."""

_name_of = type.__dict__["__name__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_module_of = type.__dict__["__module__"].__get__


class _Kind:
    """How instances of a class are described."""

    __slots__ = ("category", "detail", "facts", "index", "stamp", "type")

    def __init__(self, type: type, category: str, detail: Any) -> None:
        self.type = type  # kept: its id must stay its own
        self.category = category
        self.detail = detail
        self.facts = detail.facts if category == "tensor" and detail.weak else None
        self.stamp = detail.stamp if category == "tensor" else None
        self.index = -1
        """Of the description that all instances share ("other")."""


class Describer:
    """Turns objects into indices of `values`; equal descriptions share one index."""

    def __init__(self, *, summary: bool) -> None:
        self.values: list[Description] = []
        self.modules: list[Any] = []
        self.tensors = Tensors(self._intern, summary=summary)
        self._index: dict[Any, int] = {}
        self._scalars: dict[Any, int] = {}
        self._containers: dict[int, tuple[Any, int]] = {}
        self._module_ids: dict[int, int] = {}
        self.kinds: dict[int, _Kind] = {}
        self._lock = threading.RLock()
        self.unbound = self._intern(("u",))

    def index(self, value: Any) -> int:
        """The index of the description of `value`."""
        kind = self.kinds.get(id(type(value))) or self._kind(type(value))
        category = kind.category
        if category == "other":
            return kind.index
        if category == "tensor":
            try:
                return self.tensors.index(value, kind.detail)
            except AttributeError:  # its slots are not filled yet: this is the frame that makes it
                return self._intern(("o", _class_name(kind.type)))
        if category == "scalar":
            # NaN is not equal to itself; 0.0 is not shown as -0.0 is
            key = (kind, repr(value) if value != value or value == 0 else value)
            found = self._scalars.get(key)
            if found is None:
                found = self._scalars[key] = self._intern(_scalar(value))
            return found
        if category == "container":
            return self._container_index(value, kind.detail)
        return self._intern(self._describe(value, 0))

    def final(self, value: Any) -> bool:
        """Whether this object will always be described as it is now (and may be kept to tell)."""
        kind = self.kinds.get(id(type(value))) or self._kind(type(value))
        return kind.category in ("scalar", "text")

    def mention(self, value: Any) -> int | Known:
        """A tensor without a look at its elements, to be described when the recording has ended; the index of all else."""
        kind = self.kinds.get(id(type(value))) or self._kind(type(value))
        return self.tensors.meet(value, kind.detail) if kind.category == "tensor" else self.index(value)

    def mentioned(self, mention: int | Known) -> int:
        """The index that a mention stands for."""
        return mention if isinstance(mention, int) else self.tensors.light(mention)

    def _container_index(self, value: Any, base: Any) -> int:
        """Most containers are met again unchanged: their length and first items tell."""
        signature = self._signature(value, base)
        known = self._containers.get(id(value))
        if known is not None and signature is not None and known[0] == signature:
            return known[1]
        index = self._intern(self._container(value, base, 0))
        self._containers[id(value)] = (signature, index)
        return index

    def _signature(self, value: Any, base: Any) -> Any:
        """Equal only if the description is; None where that would take a closer look."""
        items = _first(base.__iter__(value) if base is not dict else dict.values(value))
        found: list[Any] = [self._kind(type(value)), base.__len__(value)]
        if base is dict:
            found += _first(dict.keys(value))
            if any(type(key) is not str for key in found[2:]):
                return None
        for item in items:
            kind = self.kinds.get(id(type(item))) or self._kind(type(item))
            category = kind.category
            if category == "tensor":
                known = self.tensors.known.get(id(item))
                if known is None or known[0]() is not item:
                    return None
                found.append(known[1])
            elif category == "scalar" or type(item) is str:
                found += (kind, item)
            elif category == "other":
                found.append(kind)
            else:
                return None
        return found

    def module(self, value: Any) -> int | None:
        """The index of an nn.Module, None if `value` is no module."""
        found = self._module_ids.get(id(value))
        if found is not None:
            return found
        if self._kind(type(value)).category != "module":
            return None
        with self._lock:
            index = self._module_ids[id(value)] = len(self.modules)
            self.modules.append(value)  # kept: its id must stay its own while the recording lasts
        return index

    def _describe(self, value: Any, depth: int) -> Description:
        kind = self._kind(type(value))
        category, detail = kind.category, kind.detail
        if category == "scalar":
            return _scalar(value)
        if category == "text":
            return ("s", without_machine_paths(str.__getitem__(value, slice(TEXT))), str.__len__(value))
        if category == "tensor":
            try:
                return self.values[self.tensors.light(self.tensors.meet(value, detail))]
            except AttributeError:
                return ("o", _class_name(kind.type))
        if category == "container":
            return self._container(value, detail, depth)
        if category == "module":
            return ("m", self.module(value))
        if category == "other":
            return ("o", _class_name(kind.type))
        return detail(value)

    def _container(self, value: Any, base: Any, depth: int) -> Description:
        """Read through the methods of the built-in base, whatever a subclass makes of them."""
        name, length = _qualname_of(type(value)), base.__len__(value)
        if depth > 1:
            return ("c", name, length, ())
        if base is dict:
            items = _first(dict.items(value))
            return ("c", name, length, tuple((self._describe(k, 2), self._describe(v, depth + 1)) for k, v in items))
        return ("c", name, length, tuple(self._describe(v, depth + 1) for v in _first(base.__iter__(value))))

    def _kind(self, kind: type) -> _Kind:
        found = self.kinds.get(id(kind))
        if found is None:
            found = _Kind(kind, *self._classify(kind))
            if found.category == "other":
                found.index = self._intern(("o", _class_name(kind)))
            self.kinds[id(kind)] = found
        return found

    def _classify(self, kind: type) -> tuple[str, Any]:
        modules = _modules()
        for base in _mro_of(kind):
            if base is kind and id(base) in _SCALARS:
                return "scalar", None
            if id(base) in _CONTAINERS:
                return "container", base
            if base is str:
                return "text", None
            reader = reader_of(base)
            if reader is not None:
                return "tensor", reader
            if any(base is module for module in modules):
                return "module", None
            describe = _BY_BASE.get(id(base)) or _library_constant(base)
            if describe is not None:
                return "described", describe
        return "other", None

    def _intern(self, description: Description) -> int:
        found = self._index.get(description)
        if found is None:
            with self._lock:
                found = self._index.get(description)
                if found is None:
                    found = len(self.values)
                    self.values.append(description)
                    self._index[description] = found
        return found


def _modules() -> tuple[type, ...]:
    """nn.Module, readtorch's and the real one, as far as they are loaded."""
    names = ("readtorch.nn.modules.module", "torch.nn.modules.module")
    found = (vars(sys.modules[name]).get("Module") for name in names if name in sys.modules)
    return tuple(c for c in found if c is not None)


def _library_constant(kind: type) -> Callable[[Any], Description] | None:
    """The library's dtype, device, layout and memory format, read through their slots."""
    module = _module_of(kind)
    if type(module) is not str or not module.startswith(("readtorch.", "torch")):
        return None
    slots = type.__dict__["__dict__"].__get__(kind)
    name = _name_of(kind)
    if name == "device" and "index" in slots:
        return lambda d: ("d", f"{slots['type'].__get__(d)}{_ordinal(slots['index'].__get__(d))}")
    slot = {"dtype": "name", "layout": "_name", "memory_format": "_name"}.get(name)
    if slot is None or slot not in slots:
        return None
    return lambda d: ("d", "torch." + slots[slot].__get__(d).removeprefix("torch."))


def _ordinal(index: Any) -> str:
    return f":{index}" if type(index) is int else ""


def _first(values: Any) -> list[Any]:
    """The first few items; none where another thread changes the container meanwhile."""
    found: list[Any] = []
    try:
        for value in values:
            found.append(value)
            if len(found) == ITEMS:
                break
    except RuntimeError:
        return []
    return found


def _class_name(kind: type) -> str:
    module, name = _module_of(kind), _qualname_of(kind)
    return name if type(module) is not str or module in ("builtins", "__main__") else f"{module}.{name}"


def _scalar(value: Any) -> Description:
    if value is None:
        return ("z",)
    if value is True or value is False:
        return ("b", value)
    if type(value) is int:
        if value.bit_length() > 256:
            return ("n", f"an integer of {value.bit_length()} bits")
        return ("n", value if abs(value) < EXACT_INT else str(value))
    if type(value) is float:
        return ("n", value if math.isfinite(value) else number(value), "float")
    return ("n", number(value), "complex")


def _exception(value: BaseException) -> Description:
    args = BaseException.args.__get__(value)  # type: ignore[attr-defined]
    message = next((a for a in args[:1] if type(a) is str), "")
    return ("e", _name_of(type(value)), without_machine_paths(message[:200]))


def _numpy_scalar(value: Any) -> Description:
    plain = np.asarray(value)
    known = plain.dtype.kind in "biufc"
    return ("n", number(plain.item()), plain.dtype.name) if known else ("o", f"numpy.{plain.dtype.name}")


def _integer(value: int) -> Description:
    return _scalar(int.__int__(value))


def _function(value: Any) -> Description:
    return ("f", value.__qualname__)


def _method(value: types.MethodType) -> Description:
    inner = value.__func__
    return ("f", inner.__qualname__ if type(inner) is types.FunctionType else "method")


def _bytes(value: Any) -> Description:
    return ("y", bytes(memoryview(value)[:16]).hex(" "), len(memoryview(value)))


def _range(value: range) -> Description:
    try:
        return ("c", "range", len(value), tuple(_scalar(v) for v in value[:ITEMS]))
    except OverflowError:
        return ("o", "range")


_SCALARS = {id(kind): kind for kind in (type(None), bool, int, float, complex)}
_CONTAINERS = {id(kind): kind for kind in (dict, list, tuple, set, frozenset, deque)}
_BY_BASE: dict[int, Callable[[Any], Description]] = {
    id(BaseException): _exception,
    id(np.generic): _numpy_scalar,
    id(np.dtype): lambda d: ("d", np.dtype.name.__get__(d)),
    id(int): _integer,
    id(type): lambda k: ("k", _class_name(k)),
    id(types.FunctionType): _function,
    id(types.BuiltinFunctionType): _function,
    id(types.MethodType): _method,
    id(types.ModuleType): lambda m: ("p", _module_name(m)),
    id(bytes): _bytes,
    id(bytearray): _bytes,
    id(range): _range,
}


def _module_name(module: types.ModuleType) -> str:
    name = types.ModuleType.__getattribute__(module, "__dict__").get("__name__")
    return name[:TEXT] if type(name) is str else "module"
