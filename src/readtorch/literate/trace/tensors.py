"""Tensors and arrays in a trace: known by object, described once per version.

A tensor keeps one number for as long as it lives, so that a reader can follow it from line to line. readtorch's tensors count
their versions; a bare array is looked at again at every mention, briefly, to see whether it was written.
"""

from __future__ import annotations

import math
import sys
import threading
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

HEAD = 6
"""Elements that are shown."""
EXACT = 1 << 16
"""Arrays up to this many elements are summed up exactly, larger ones from a sample of about as many."""
BUDGET_NS = 2_000_000_000
"""Time that one recording may spend on statistics; after it tensors are shown without."""


class Fields(NamedTuple):
    """What can be said of a tensor without looking at its elements."""

    array: Any
    version: int | None
    dtype: str
    shape: tuple[int, ...]
    device: str
    flags: str
    """"g": requires grad."""


Reader = Callable[[Any], Fields]


class _Known:
    """A tensor or array met before; `ref()` is the object while it lives."""

    __slots__ = ("light", "ref", "serial", "versions")

    def __init__(self, ref: Callable[[], Any], serial: int) -> None:
        self.ref = ref
        self.serial = serial
        self.light: int | None = None
        self.versions: dict[Any, int] = {}


class Tensors:
    """Describes tensors; `intern` gives a description its index."""

    def __init__(self, intern: Callable[[tuple[Any, ...]], int], *, summary: bool) -> None:
        self._intern = intern
        self._summary = summary
        self._known: dict[int, _Known] = {}
        self._serial = 0
        self._spent = 0
        self._lock = threading.Lock()

    def reader(self, base: type) -> Reader | None:
        """How to read instances of `base`; None if it is no class of tensors."""
        for module, name, reader in (
            ("readtorch._C", "TensorBase", _read_tensor),
            ("torch._C", "TensorBase", _read_upstream),
            ("numpy", "ndarray", _read_array),
            ("cupy", "ndarray", _read_cupy),
        ):
            if module in sys.modules and vars(sys.modules[module]).get(name) is base:
                return reader
        return None

    def light(self, value: Any, reader: Reader) -> int:
        """The index of `value` described by shape, dtype and device."""
        known = self._known.get(id(value))
        if known is not None and known.light is not None and known.ref() is value:
            return known.light
        known = self._identify(value)
        fields = reader(value)
        known.light = self._intern(
            ("t", known.serial, 0, fields.dtype, fields.shape, fields.device, fields.flags, 0, 0)
        )
        return known.light

    def index(self, value: Any, reader: Reader) -> int:
        """The index of `value` as it is now, with statistics where the recording asks for them."""
        if not self._summary:
            return self.light(value, reader)
        known = self._identify(value)
        fields = reader(value)
        key = (fields.version if fields.version is not None else _fingerprint(fields.array), fields.flags)
        index = known.versions.get(key)
        if index is None:
            version = len(known.versions) if fields.version is None else fields.version
            index = known.versions[key] = self._intern(
                (
                    "t",
                    known.serial,
                    version,
                    fields.dtype,
                    fields.shape,
                    fields.device,
                    fields.flags,
                    *self._statistics(fields.array),
                )
            )
        return index

    def _identify(self, value: Any) -> _Known:
        known = self._known.get(id(value))
        if known is not None and known.ref() is value:
            return known
        try:
            ref: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            ref = lambda: value  # noqa: E731  kept alive: without weak references its id would not stay its own
        with self._lock:
            self._serial += 1
            known = self._known[id(value)] = _Known(ref, self._serial)
        return known

    def _statistics(self, array: Any) -> tuple[Any, Any]:
        """((min, max, mean, flag), head), the flag "~" if sampled; (0, 0) where nothing may be said or time is spent."""
        if array is None or self._spent > BUDGET_NS:
            return 0, 0
        begin = perf_counter_ns()
        try:
            return _statistics(array)
        finally:
            self._spent += perf_counter_ns() - begin


def _read_tensor(value: Any) -> Fields:
    base = vars(sys.modules["readtorch._C"])["TensorBase"]
    array = base._array.__get__(value)
    flags = "g" if base.requires_grad.__get__(value) else ""
    device = str(base.device.__get__(value))
    dtype = str(base.dtype.__get__(value)).removeprefix("torch.")
    return Fields(array, base._version.__get__(value), dtype, array.shape, device, flags)


def _read_upstream(value: Any) -> Fields:
    """A tensor of the real PyTorch: its shape, never its elements."""
    base = vars(sys.modules["torch._C"])["TensorBase"]
    flags = "g" if base.requires_grad.__get__(value) else ""
    dtype = str(base.dtype.__get__(value)).removeprefix("torch.")
    shape = tuple(int(n) for n in base.shape.__get__(value))
    return Fields(None, base._version.__get__(value), dtype, shape, str(base.device.__get__(value)), flags)


def _read_array(value: Any) -> Fields:
    plain = value if type(value) is np.ndarray else np.ndarray.view(value, np.ndarray)
    return Fields(plain, None, plain.dtype.name, plain.shape, "numpy", "")


def _read_cupy(value: Any) -> Fields:
    return Fields(value, None, value.dtype.name, value.shape, f"cupy:{value.device.id}", "")


def _statistics(array: Any) -> tuple[Any, Any]:
    kind = array.dtype.kind
    if kind not in "biufc" and "float" not in array.dtype.name:  # bfloat16 and its like have kind V
        return 0, 0
    sampled = array.size > EXACT
    head = _on_host(_head(array))
    part = _on_host(_sample(array) if sampled else array)
    if kind not in "biufc":
        head, part = head.astype(np.float32), part.astype(np.float32)
    shown = tuple(number(v) for v in head.tolist())
    if kind == "c" or not part.size:
        return 0, shown
    with np.errstate(all="ignore"):
        found = (part.min(), part.max(), part.mean(dtype=np.float64))
    return (*(number(v.item()) for v in found), "~" if sampled else ""), shown


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


def _fingerprint(array: Any) -> Any:
    """Differs once an array that has no version counter was written (large ones are sampled)."""
    if not isinstance(array, np.ndarray) or array.dtype.hasobject:
        return "seen"
    if array.size <= 256:
        return array.shape, array.tobytes()
    return array.shape, array[tuple(slice(None, None, max(1, n // 5)) for n in array.shape)].flat[:256].tobytes()


def number(value: Any) -> Any:
    """A number that JSON can hold: five significant digits of a float, text for what is not finite."""
    if isinstance(value, int):
        return value if abs(value) < 1 << 53 else str(value)
    if isinstance(value, complex):
        return f"{value.real:.5g}{value.imag:+.5g}j"
    if math.isfinite(value):
        short = float(f"{value:.5g}")
        return int(short) if short.is_integer() and abs(short) < 1e6 else short
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
