# Tangled from chapters/a3_kernels/1_launching.py — edit there, or here and run `readtorch sync`.
"""CUDA sources, compiled when a kernel of theirs is first launched."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array

PACKAGE = Path(__file__).parents[3]

_INCLUDE = re.compile(r'#include "([\w/.]+)"')


@cache
def source(path: str) -> str:
    """The text of a CUDA source of the package, with what it includes in the place of each `#include`."""
    return source_of((path,))


def _file(path: str) -> Path:
    """The file in the first package of this name on `sys.path`."""
    places = (Path(place) / PACKAGE.name / path for place in sys.path)
    return next((place for place in places if place.is_file()), PACKAGE / path)


def source_of(paths: Sequence[str]) -> str:
    """Several sources as one text; what two of them include stands there once."""
    seen: set[str] = set()
    return "\n".join(line for path in paths for line in _lines(path, seen)) + "\n"


def _lines(path: str, seen: set[str]) -> Iterator[str]:
    if path in seen:
        return
    seen.add(path)
    yield f'#line 1 "{path}"'
    for number, line in enumerate(_file(path).read_text(encoding="utf-8").splitlines(), 1):
        found = _INCLUDE.match(line)
        if found is None:
            yield line
        else:
            yield from _lines(found[1], seen)
            yield f'#line {number + 1} "{path}"'


Dim = int | tuple[int, ...]

KERNELS: list[Kernel] = []
"""All there are; the modules beside this one add theirs when they are imported."""


class Kernel:
    """A kernel template of a CUDA source of the package, and what each of its parameters (or several together) can be.

    `kernel["float", "true"]` is an instance; `instance(grid, block, *arguments)` launches it.
    """

    def __init__(self, path: str, name: str, *choices: Sequence[str | tuple[str, ...]]) -> None:
        self.path = path
        self.name = name
        self.choices = choices
        self._instances: dict[tuple[str, ...], Instance] = {}
        KERNELS.append(self)

    def __repr__(self) -> str:
        return f"<Kernel {self.name} of {self.path}>"

    def __getitem__(self, chosen: str | tuple[str, ...]) -> Instance:
        names = (chosen,) if isinstance(chosen, str) else chosen
        found = self._instances.get(names)
        if found is None:
            found = self._instances[names] = Instance(self, f"{self.name}<{', '.join(names)}>")
        return found

    def made(self) -> Iterable[Instance]:
        """Those that were asked for so far."""
        return self._instances.values()

    def instances(self) -> list[Instance]:
        """One for every choice."""
        return [
            self[tuple(name for part in parts for name in ((part,) if isinstance(part, str) else part))]
            for parts in product(*self.choices)
        ]


class Instance:
    """One kernel, with its template's parameters chosen."""

    __slots__ = ("expression", "functions", "kernel")

    def __init__(self, kernel: Kernel, expression: str) -> None:
        self.kernel = kernel
        self.expression = expression
        self.functions: dict[int, Any] = {}
        """The compiled function, by device."""

    def __call__(self, grid: Dim, block: Dim, *arguments: Any, reached: Sequence[Array] = ()) -> None:
        """Launch. Arrays become pointers, ints `long long`, floats `double`, None a null pointer.

        `reached` are the arrays that the kernel finds through pointers in memory; they have to outlive it.
        """
        target.launch(self, grid, block, arguments, reached)


class Target(Protocol):
    """Where kernels run."""

    def launch(
        self, instance: Instance, grid: Dim, block: Dim, arguments: tuple[Any, ...], reached: Sequence[Array]
    ) -> None:
        """Start a kernel."""

    def multiprocessors(self) -> int:
        """How many blocks' worth of hardware there is."""

    def takes(self, array: Array) -> bool:
        """Can kernels that run here reach this array?"""

    def beside(self, array: Array) -> AbstractContextManager[Any]:
        """Where launches go to the device of this array."""


class Device:
    """The current GPU, through CuPy."""

    def launch(
        self, instance: Instance, grid: Dim, block: Dim, arguments: tuple[Any, ...], reached: Sequence[Array]
    ) -> None:
        """Start a kernel on the current stream. RuntimeError without CuPy, TypeError on arrays that lie elsewhere."""
        runtime = _cupy().cuda.runtime
        number = runtime.getDevice()
        function = instance.functions.get(number)
        if function is None:
            if any(isinstance(a, np.ndarray) for a in arguments):
                raise TypeError(f"{instance.expression} is a CUDA kernel and takes CuPy's arrays, not NumPy's")
            function = instance.functions[number] = self._compiled(instance, number)
        function(_three(grid), _three(block), tuple(0 if a is None else a for a in arguments))

    def multiprocessors(self) -> int:
        """Of the current device."""
        cuda = _cupy().cuda
        return _multiprocessors(cuda.runtime.getDevice())

    def takes(self, array: Array) -> bool:
        """Is it one of CuPy's?"""
        return type(array).__module__.split(".")[0] == "cupy"

    def beside(self, array: Array) -> AbstractContextManager[Any]:
        """Makes the array's device the current one."""
        return _cupy().cuda.Device(array.data.device_id)

    def _compiled(self, instance: Instance, number: int) -> Any:
        text = source(instance.kernel.path)
        key = (number, hashlib.sha256(text.encode()).hexdigest(), instance.expression)
        if key not in _functions:
            module = _cupy().RawModule(code=text, options=("-std=c++17",), name_expressions=(instance.expression,))
            _functions[key] = module.get_function(instance.expression)
        return _functions[key]


_functions: dict[tuple[int, str, str], Any] = {}


def forget() -> None:
    """Read sources anew at the next launch; what was compiled from a text that is still the same is kept."""
    source.cache_clear()
    for kernel in KERNELS:
        for instance in kernel.made():
            instance.functions.clear()


target: Target = Device()


def _cupy() -> Any:
    try:
        import cupy
    except ImportError:
        raise RuntimeError(
            "CUDA kernels need CuPy and an NVIDIA GPU: pip install 'readtorch[cuda13]' (or 'readtorch[cuda12]')"
        ) from None
    return cupy


@cache
def _multiprocessors(number: int) -> int:
    return _cupy().cuda.Device(number).attributes["MultiProcessorCount"]


def _three(dim: Dim) -> tuple[int, ...]:
    return (dim,) if isinstance(dim, int) else dim


@contextmanager
def running_on(other: Target) -> Iterator[None]:
    """Kernels launched inside run there."""
    global target
    before, target = target, other
    try:
        yield
    finally:
        target = before


FLOATING = ("float", "double", "Half", "BFloat16")
FLAGS = ("false", "true")
VARIANTS = (("double", "false"), *((kind, wide) for kind in ("float", "Half", "BFloat16") for wide in FLAGS))
"""Types, and whether 16 bytes are read at a time."""

_TYPES = {"float32": "float", "float64": "double", "float16": "Half", "bfloat16": "BFloat16"}


def cpp_type(array: Array) -> str | None:
    """The C++ name of an array's floating-point type; None of any other."""
    return _TYPES.get(array.dtype.name)


def accumulator(array: Array) -> np.dtype:
    """What kernels compute in: float64 for float64, float32 for everything else."""
    return np.dtype(np.float64) if array.dtype == np.float64 else np.dtype(np.float32)


def array_module(array: Array) -> Any:
    """The library that an array is of: CuPy, or NumPy where kernels run on the CPU."""
    return np if isinstance(array, np.ndarray | np.generic) else _cupy()


def pointer(array: Array) -> int:
    """Where an array begins."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def is_wide(length: int, *arrays: Array | None) -> bool:
    """Shall rows of `length` numbers of all these arrays be read 16 bytes at a time?"""
    return all(
        a is None or (length * a.itemsize % 16 == 0 and pointer(a) % 16 == 0 and a.dtype != np.float64) for a in arrays
    )


def flag(value: bool) -> str:
    """As C++ writes it."""
    return "true" if value else "false"


def as_accumulator(array: Array | None, kind: np.dtype) -> Array | None:
    """Contiguous and in the type of the arithmetic. What a kernel takes so is small beside its input: weights, statistics."""
    return None if array is None else array_module(array).ascontiguousarray(array, kind)


def lanes(array: Array, wide: bool) -> int:
    """How many numbers a thread takes at once."""
    return 16 // array.itemsize if wide else 1
