"""Tensors and arrays in a trace: known by object, described once per version.

A tensor keeps one number for as long as it lives, so that a reader can follow it from line to line. readtorch's tensors count
their versions; a bare array is looked at again at every mention, briefly, to see whether it was written.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from itertools import count
from time import perf_counter_ns
from typing import Any, NamedTuple
from weakref import ref as ref_to

import numpy as np

HEAD = 6
"""Elements that are shown."""
EXACT = 1 << 16
"""Arrays up to this many elements are summed up exactly, larger ones from a sample of about as many."""
SMALL = 64
"""Up to here Python's own min and max are faster than NumPy's."""
BUDGET_NS = 2_000_000_000
"""Time that one recording may spend on statistics; after it tensors are shown without."""

SMALL_COPY = 256
"""Up to this many elements a copy is kept and summed up when the recording has ended: a copy takes a hundredth of the time."""
COPIES = 32 << 20
"""Bytes of copies that one recording may keep; after them arrays are summed up at once."""

Facts = tuple[Any, Any, str, str, "int | None"]
"""(dtype, shape, device, flags, version): "g" among the flags says requires grad, version None that there is none"""
Anchor = Any
"""Stands for a tensor, by identity: Python gives the same weak reference for as long as an object lives, and a kept one is never
given for another. Where there are no weak references it is the object itself, which is kept alive then."""
Known = tuple[Anchor, int, Facts]
"""A tensor met before: (its anchor, its number, facts then)"""


class Reader(NamedTuple):
    """How to read the tensors of one class."""

    facts: Callable[[Any], Facts]
    array: Callable[[Any], Any]
    """Its elements, None if they are not to be looked at."""
    stamp: Callable[[Any], Any]
    """Differs once it was written or changed its flags."""
    weak: bool = True
    """Whether there can be weak references to it."""
    plain: bool = False
    """Whether the facts of one on the host are those of its array and `edge`: read in place, they cost no call of Python code."""
    edge: Callable[[Any], Any] | None = None
    """Gives not None for a tensor that requires grad."""

    def stamp_of(self, value: Any) -> Callable[[Any], Any]:
        """`stamp`, or what does the same for this one and is quicker."""
        return np.ndarray.tobytes if self.stamp is _fingerprint and _exact(value) else self.stamp


def _exact(value: Any) -> bool:
    """Whether the bytes of an array are all there is to compare, and few."""
    return type(value) is np.ndarray and value.size <= SMALL_COPY and not value.dtype.hasobject


class Last:
    """The version of a tensor that was described last."""

    __slots__ = ("count", "index", "key", "known", "stamp")

    def __init__(self, known: Known, stamp: Callable[[Any], Any]) -> None:
        self.known = known
        self.stamp = stamp
        """Of this tensor: equal to `key` as long as it is as it was."""
        self.key: Any = None
        self.index = -1
        self.count = 0


class Tensors:
    """Describes tensors; `intern` gives a description its index in `values`."""

    def __init__(
        self, values: list[tuple[Any, ...]], intern: Callable[[tuple[Any, ...]], int], *, summary: bool
    ) -> None:
        self.known: dict[int, Known] = {}
        """By the id of the anchor."""
        self._values = values
        self._intern = intern
        self._summary = summary
        self.numbers = count(1)
        self._last: dict[int, Last] = {}
        """By the id of the anchor, as in `_lights`."""
        self._lights: dict[int, int] = {}
        self._spent = 0
        self._copies: list[tuple[int, bytes, np.dtype]] = []
        """(index, elements, dtype) of the descriptions that still lack their statistics"""
        self._room = COPIES

    def meet(self, value: Any, reader: Reader) -> Known:
        """The entry of `value`, a new one if this object was not met before."""
        anchor = ref_to(value) if reader.weak else value
        known = self.known.get(id(anchor))
        if known is None:
            known = self.known[id(anchor)] = (anchor, next(self.numbers), reader.facts(value))
        return known

    def light(self, known: Known) -> int:
        """The index of a tensor as dtype, shape and device."""
        index = self._lights.get(id(known[0]))
        if index is None:
            _, serial, (dtype, shape, device, flags, _) = known
            index = self._intern(("t", serial, 0, _name(dtype), _shape(shape), device, flags, 0, 0))
            self._lights[id(known[0])] = index
        return index

    def last(self, value: Any, reader: Reader) -> Last | None:
        """What was noted when `value` was described, with statistics."""
        return self._last.get(id(ref_to(value) if reader.weak else value))

    def look(self, reader: Reader) -> Callable[[Any], int]:
        """What gives the index of a tensor of this class as it is now, with statistics where the recording asks for them."""
        weak, last_of = reader.weak, self._last.get

        def look(value: Any) -> int:
            last = last_of(id(ref_to(value) if weak else value))
            if last is not None:
                key = last.stamp(value)
                return last.index if last.key == key else self._again(value, reader, last, key)
            known = self.meet(value, reader)
            last = self._last[id(known[0])] = Last(known, reader.stamp_of(value))
            return self._again(value, reader, last, last.stamp(value))

        return look if self._summary else lambda value: self.light(self.meet(value, reader))

    def _again(self, value: Any, reader: Reader, last: Last, key: Any) -> int:
        """Describe a tensor that was written, or is met for the first time."""
        dtype, shape, device, flags, version = last.known[2] if last.index < 0 else reader.facts(value)
        start = (
            "t",
            last.known[1],
            last.count if version is None else version,
            _name(dtype),
            _shape(shape),
            device,
            flags,
        )
        last.count += 1
        last.key = key
        array = reader.array(value)
        if type(array) is np.ndarray and 0 < array.size <= SMALL_COPY and dtype.kind in "biuf" and self._room > 0:
            self._room -= array.nbytes
            last.index = self._intern((*start, "later"))
            self._copies.append((last.index, key if type(key) is bytes else array.tobytes(), dtype))
        else:
            last.index = self._intern((*start, *self._statistics(array)))
        return last.index

    def settle(self) -> None:
        """Sum up the arrays of which copies were kept."""
        while self._copies:
            index, elements, dtype = self._copies.pop()
            self._values[index] = (*self._values[index][:7], *self._statistics(np.frombuffer(elements, dtype)))

    def _statistics(self, array: Any) -> tuple[Any, Any]:
        """((min, max, mean, flag), head), the flag "~" if sampled; (0, 0) where nothing may be said or time is spent."""
        if array is None or _is_meta(array) or self._spent > BUDGET_NS:
            return 0, 0
        if type(array).__name__ == "SparseTensorImpl":
            array = array.values
        begin = perf_counter_ns()
        try:
            return _statistics(array)
        finally:
            self._spent += perf_counter_ns() - begin


def reader_of(base: type) -> Reader | None:
    """How to read instances of `base`; None if it is no class of tensors."""
    for module, name, reader in READERS:
        if module in sys.modules and vars(sys.modules[module]).get(name) is base:
            return reader()
    return None


def _tensor_reader() -> Reader:
    """Through the slots of the base class: no override of a subclass is asked."""
    base = vars(sys.modules["readtorch.c10.core.tensor_impl"])["TensorImpl"]
    array_of, counter_of, edge_of = base._array.__get__, base._vc.__get__, base._edge.__get__
    ndarray = np.ndarray

    def facts(value: Any) -> Facts:
        array, counter = array_of(value), counter_of(value)
        return (
            array.dtype,
            array.shape,
            "cpu" if type(array) is ndarray else _device(array),
            "" if edge_of(value) is None else "g",
            0 if counter is None else counter.value,
        )

    def stamp(value: Any) -> Any:
        counter = counter_of(value)
        return (0 if counter is None else counter.value, edge_of(value) is None)

    return Reader(facts, array_of, stamp, plain=True, edge=edge_of)


def _upstream_facts(value: Any) -> Facts:
    """A tensor of the real PyTorch: never its elements."""
    base = vars(sys.modules["torch._C"])["TensorBase"]
    flags = "g" if base.requires_grad.__get__(value) else ""
    dtype = str(base.dtype.__get__(value)).removeprefix("torch.")
    return dtype, base.shape.__get__(value), str(base.device.__get__(value)), flags, base._version.__get__(value)


def _array_facts(value: Any) -> Facts:
    return np.ndarray.dtype.__get__(value), np.ndarray.shape.__get__(value), "numpy", "", None


def _plain_array(value: Any) -> np.ndarray:
    return value if type(value) is np.ndarray else np.ndarray.view(value, np.ndarray)


def _cupy_facts(value: Any) -> Facts:
    return value.dtype, value.shape, f"cupy:{value.device.id}", "", None


READERS: list[tuple[str, str, Callable[[], Reader]]] = [
    ("readtorch.c10.core.tensor_impl", "TensorImpl", _tensor_reader),
    ("torch._C", "TensorBase", lambda: Reader(_upstream_facts, lambda value: None, _upstream_facts)),
    ("numpy", "ndarray", lambda: Reader(_array_facts, _plain_array, _fingerprint)),
    ("cupy", "ndarray", lambda: Reader(_cupy_facts, lambda value: value, lambda value: "seen", weak=False)),
]
"""(module, class, maker of a reader) of the classes whose instances are tensors."""


def _device(array: Any) -> str:
    """Where an array lies that is not a plain one of the host."""
    if _is_meta(array):
        return "meta"
    number = getattr(getattr(array, "device", None), "id", None)
    if isinstance(number, int):
        return f"cuda:{number}"
    table = vars(sys.modules["readtorch.c10.core.dispatch_key"])["DEVICE_OF"]
    return str(table[type(array)](array))


def _is_meta(array: Any) -> bool:
    return type(array).__name__ == "MetaArray"


def _name(dtype: Any) -> str:
    return dtype if isinstance(dtype, str) else _dtype_name(dtype)


@cache
def _dtype_name(dtype: Any) -> str:
    """NumPy puts it together anew each time that it is asked."""
    return str(dtype.name)


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(map(int, shape))


def _statistics(array: Any) -> tuple[Any, Any]:
    kind = array.dtype.kind
    if kind not in "biufc" and "float" not in array.dtype.name:  # bfloat16 and its like have kind V
        return 0, 0
    if isinstance(array, np.ndarray) and kind in "iuf" and 0 < array.size <= SMALL:
        numbers = array.ravel().tolist()
        if all(map(math.isfinite, numbers)):
            found = (min(numbers), max(numbers), sum(numbers) / len(numbers))
            return (*map(number, found), ""), tuple(map(number, numbers[:HEAD]))
    sampled = array.size > EXACT
    head = _on_host(_head(array))
    part = _on_host(_sample(array) if sampled else array)
    if kind not in "biufc":
        head, part = head.astype(np.float32), part.astype(np.float32)
    shown = tuple(number(v) for v in head.tolist())
    if kind == "c" or not part.size:
        return 0, shown
    with np.errstate(all="ignore"):
        if kind == "b":
            part = part.view(np.uint8)  # extremes of truth values are 0 and 1
        low, high = np.minimum.reduce(part, axis=None).item(), np.maximum.reduce(part, axis=None).item()
        mean = float(np.add.reduce(part, axis=None, dtype=np.float64)) / part.size
    return (number(low), number(high), number(mean), "~" if sampled else ""), shown


def _on_host(array: Any) -> np.ndarray:
    return array if isinstance(array, np.ndarray) else array.get()


def _head(array: Any) -> Any:
    """The first elements in reading order; `flat` on an array of the host, a slice of rows elsewhere (no full copy)."""
    if isinstance(array, np.ndarray):
        return array.reshape(-1) if array.ndim == 0 else array.flat[:HEAD]
    while array.ndim > 1 and array.shape[0]:
        array = array[0] if array[0].size >= HEAD or array.ndim > 2 else array[:HEAD].reshape(-1)
    return array.reshape(-1)[:HEAD]


def _sample(array: Any) -> Any:
    """About EXACT elements spread over the array, as a view."""
    steps = []
    excess = array.size / EXACT
    for length in array.shape:
        step = max(1, min(length, math.ceil(excess)))
        steps.append(slice(None, None, step))
        excess /= step
    return array[tuple(steps)]


def _fingerprint(value: Any) -> Any:
    """Differs once an array, which has no version counter, was written (large ones are sampled)."""
    array = _plain_array(value)
    if array.dtype.hasobject:
        return "seen"
    if array.size <= SMALL_COPY:
        return array.tobytes()
    return array[tuple(slice(None, None, max(1, n // 5)) for n in array.shape)].flat[:256].tobytes()


def number(value: Any) -> Any:
    """A number that JSON can hold: four significant digits of a float, text for what is not finite."""
    if isinstance(value, int):
        return value if abs(value) < 1 << 53 else str(value)
    if isinstance(value, complex):
        return f"{value.real:.4g}{value.imag:+.4g}j"
    if math.isfinite(value):
        short = float(f"{value:.4g}")
        return int(short) if short.is_integer() and abs(short) < 1e6 else short
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
