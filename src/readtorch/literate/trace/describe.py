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

from readtorch.literate.trace.containers import ITEMS, Description, Kind, Look, Watch, class_name, look_at_container
from readtorch.literate.trace.scope import without_machine_paths
from readtorch.literate.trace.secrets import masked, pair, without_passwords
from readtorch.literate.trace.tensors import Anchor, Tensors, number, reader_of

TEXT = 80
EXACT_INT = 1 << 53
"""Integers from here on are text in JSON."""

_name_of = type.__dict__["__name__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_module_of = type.__dict__["__module__"].__get__


class Describer:
    """Turns objects into indices of `values`; equal descriptions share one index."""

    def __init__(self, *, summary: bool, mask: bool = True) -> None:
        self.descriptions: list[Description] = []
        """Some of them without statistics yet: `values` completes them."""
        self.modules: list[Any] = []
        self.tensors = Tensors(self.descriptions, self.intern, summary=summary)
        self._index: dict[Any, int] = {}
        self._module_ids: dict[int, int] = {}
        self.mask = mask
        self.kinds: dict[int, Kind] = {}
        self._lock = threading.RLock()
        self.unbound = self.intern(("u",))

    @property
    def values(self) -> list[Description]:
        """All descriptions so far, complete."""
        self.tensors.settle()
        return self.descriptions

    def index(self, value: Any) -> int:
        """The index of the description of `value`."""
        return (self.kinds.get(id(type(value))) or self.kind(type(value))).look(value)

    def mention(self, value: Any) -> int | Anchor:
        """The anchor of a tensor, to be described when the recording has ended; the index of all else."""
        kind = self.kinds.get(id(type(value))) or self.kind(type(value))
        return self.tensors.meet(value, kind.detail)[0] if kind.category == "tensor" else kind.look(value)

    def mentioned(self, mention: int | Anchor) -> int:
        """The index that a mention stands for."""
        return mention if type(mention) is int else self.tensors.light(self.tensors.known[id(mention)])

    # -- a way to look for each category ------------------------------------------------------------------------------------

    def _look(self, kind: Kind) -> Look:
        if kind.category == "other":
            index = self.intern(("o", class_name(kind.type)))
            return lambda value: index
        if kind.category == "tensor":
            return self._look_at_tensor(kind)
        if kind.category == "scalar":
            return self._look_at_scalar()
        if kind.category == "container":
            return look_at_container(self, kind.detail, kind.seen)
        if kind.type is types.FunctionType:
            return self._look_at_function()
        return lambda value: self.intern(self._describe(value, 0))

    def watch(self, value: Any, kind: Kind) -> Watch | None:
        """How to see later whether `value`, just described, has changed; None if it cannot."""
        if kind.fixed:
            return None
        if kind.category == "tensor":
            last = self.tensors.last(value, kind.detail)
            if last is not None:
                return kind.look, last.stamp, last
        if kind.detail is tuple and kind.seen[id(value)].tokens is not None:
            return None  # neither it nor what it holds is going to look otherwise
        return kind.look, None, None

    def _look_at_function(self) -> Look:
        known: dict[str, int] = {}

        def function(value: Any) -> int:
            name = value.__qualname__
            found = known.get(name)
            if found is None:
                found = known[name] = self.intern(_function(value))
            return found

        return function

    def _look_at_tensor(self, kind: Kind) -> Look:
        look = self.tensors.look(kind.detail)

        def tensor(value: Any) -> int:
            try:
                return look(value)
            except AttributeError:  # its slots are not filled yet: this is the frame that makes it
                return self.intern(("o", class_name(kind.type)))

        return tensor

    def _look_at_scalar(self) -> Look:
        known: dict[Any, int] = {}

        def scalar(value: Any) -> int:
            # NaN is not equal to itself; 0.0 is not shown as -0.0 is
            key = repr(value) if value != value or value == 0 else value
            found = known.get(key)
            if found is None:
                found = known[key] = self.intern(_scalar(value))
            return found

        return scalar

    def module(self, value: Any) -> int | None:
        """The index of an nn.Module, None if `value` is no module."""
        found = self._module_ids.get(id(value))
        if found is not None:
            return found
        if self.kind(type(value)).category != "module":
            return None
        with self._lock:
            index = self._module_ids[id(value)] = len(self.modules)
            self.modules.append(value)  # kept: its id must stay its own while the recording lasts
        return index

    def _describe(self, value: Any, depth: int) -> Description:
        kind = self.kind(type(value))
        category, detail = kind.category, kind.detail
        if category == "scalar":
            return _scalar(value)
        if category == "text":
            text = str.__getitem__(value, slice(TEXT * 4))  # more than is shown, to see where a password ends
            return ("s", without_machine_paths(self.clean(text)[:TEXT]), str.__len__(value))
        if category == "tensor":
            try:
                return self.descriptions[self.tensors.light(self.tensors.meet(value, detail))]
            except AttributeError:
                return ("o", class_name(kind.type))
        if category == "container":
            return self.container(value, detail, depth)
        if category == "module":
            return ("m", self.module(value))
        if category == "other":
            return ("o", class_name(kind.type))
        try:
            found = detail(value)
            return ("e", found[1], self.clean(found[2])) if found[0] == "e" else found
        except AttributeError:  # a constant of the library that is being made
            return ("o", class_name(kind.type))

    def clean(self, text: str) -> str:
        """Without the passwords of addresses."""
        return without_passwords(text) if self.mask else text

    def hidden(self, index: int) -> int:
        """The index of what is shown in place of a value whose name says that it is secret."""
        return self.intern(masked(self.descriptions[index]))

    def container(self, value: Any, base: Any, depth: int) -> Description:
        """Read through the methods of the built-in base, whatever a subclass makes of them."""
        name, length = _qualname_of(type(value)), base.__len__(value)
        if depth > 1:
            return ("c", name, length, ())
        if base is dict:
            items = _first(dict.items(value))
            pairs = ((self._describe(k, 2), self._describe(v, depth + 1)) for k, v in items)
            return ("c", name, length, tuple(pair(*p) for p in pairs) if self.mask else tuple(pairs))
        return ("c", name, length, tuple(self._describe(v, depth + 1) for v in _first(base.__iter__(value))))

    def kind(self, kind: type) -> Kind:
        found = self.kinds.get(id(kind))
        if found is None:
            found = Kind(kind, *self._classify(kind))
            found.look = self._look(found)
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

    def intern(self, description: Description) -> int:
        found = self._index.get(description)
        if found is None:
            with self._lock:
                found = self._index.get(description)
                if found is None:
                    found = len(self.descriptions)
                    self.descriptions.append(description)
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
    args = BaseException.args.__get__(value)  # type: ignore[attr-defined]  # a slot, which subclasses may hide
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
    id(type): lambda k: ("k", class_name(k)),
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
