"""CUDA kernels on a CPU: the same source text, compiled by g++, each CUDA thread a fibre.

    host = Host(source, ["scale<float>"])
    host.launch("scale<float>", 4, 256, (x, 2.0, x.size))

The blocks run one after another, the threads of a block take turns at barriers and shuffles. Every memory access is checked:
an index out of bounds, a write into a read-only array, a barrier that only some threads reach, shared memory that is read
before it is written, and two threads that touch the same bytes with no barrier between them, are errors that name the line.

What this cannot show: speed; the order in which a GPU's blocks run; rounding where the GPU's functions differ from the C
library's (a few units in the last place); an index past one array in shared memory into the next.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_HERE = Path(__file__).parent
_FLAGS = ("-std=c++17", "-O1", "-g1", "-gdwarf-4", "-fPIC", "-fno-gnu-unique", "-ffp-contract=off", "-w")
_CHECKED = ("-fsanitize=thread", "-fvisibility=hidden", "--param", "tsan-instrument-func-entry-exit=0")

Dim = int | Sequence[int]


class KernelFault(RuntimeError):
    """A kernel did what a GPU would not forgive. The message names block, thread, array and source line."""


class CompileError(RuntimeError):
    """The compiler's own words, with the lines of the CUDA sources."""


def available() -> bool:
    """Is there a g++?"""
    return shutil.which("g++") is not None


def _compile(text: str, library: Path, flags: Sequence[str] = (), libraries: Sequence[str] = ()) -> None:
    """Compile and link apart: linking with -fsanitize would bring in the library whose functions are ours here."""
    source, code = library.with_suffix(".cpp"), library.with_suffix(".o")
    source.write_text(text)
    for command in (
        ["g++", *_FLAGS, *flags, f"-I{_HERE}", "-c", "-o", str(code), str(source)],
        ["g++", "-shared", "-o", str(library), str(code), *libraries],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileError(done.stderr)


@cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="readtorch-fibres-")


@cache
def _runtime() -> ctypes.CDLL:
    library = Path(_folder().name) / "libfibres.so"
    _compile((_HERE / "runtime.cpp").read_text(), library)
    loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    loaded.fibres_launch.restype = ctypes.c_char_p
    return loaded


class Host:
    """One CUDA source, its kernels callable by their name expressions (`"scale<float>"`)."""

    def __init__(self, source: str, expressions: Sequence[str]) -> None:
        runtime = _runtime()
        entries = ",\n".join(
            f'{{"{name}", fibres::Call<{name}>::count, fibres::Call<{name}>::run}}' for name in expressions
        )
        text = (
            f'#include "device.h"\n{source}\n#line 1 "table"\n'
            '#define EXPORTED extern "C" __attribute__((visibility("default")))\n'
            "EXPORTED fibres::Entry table[];\n"
            f"fibres::Entry table[] = {{\n{entries}\n}};\n"
            'extern "C" __attribute__((visibility("hidden"))) char __bss_start[], _end[];\n'
            "EXPORTED const void* first() { return __bss_start; }\nEXPORTED const void* last() { return _end; }\n"
        )
        self._path = Path(_folder().name) / f"kernels{len(list(Path(_folder().name).glob('*.so')))}.so"
        where = _folder().name
        _compile(text, self._path, _CHECKED, [f"-L{where}", "-lfibres", f"-Wl,-rpath,{where}"])
        self._launch = runtime.fibres_launch
        self._array = runtime.fibres_array
        loaded = ctypes.CDLL(str(self._path))
        loaded.first.restype = loaded.last.restype = ctypes.c_void_p
        self._shared = (ctypes.c_void_p(loaded.first()), ctypes.c_void_p(loaded.last()))

        class Entry(ctypes.Structure):
            _fields_ = (("name", ctypes.c_char_p), ("parameters", ctypes.c_int), ("run", ctypes.c_void_p))

        rows = (Entry * len(expressions)).in_dll(loaded, "table")
        self._kernels = {row.name.decode(): (row.parameters, row.run) for row in rows}

    def launch(
        self,
        expression: str,
        grid: Dim,
        block: Dim,
        arguments: Sequence[Any],
        *,
        reached: Sequence[np.ndarray] = (),
        reverse: bool = False,
    ) -> None:
        """Run one kernel. Arrays go in as pointers, ints as `long long`, floats as `double`; `None` is a null pointer.

        `reached` are arrays that the kernel finds through pointers in memory. An array that is not writeable may not be
        written to. `reverse` lets the last thread of a block go first. Raises KernelFault.
        """
        parameters, run = self._kernels[expression]
        if len(arguments) != parameters:
            raise TypeError(f"{expression} takes {parameters} arguments, got {len(arguments)}")
        values: list[Any] = []
        regions: dict[tuple[int, int], tuple[str, int, bool]] = {}
        for number, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                values.append(ctypes.c_void_p(argument.ctypes.data))
                _add_region(regions, f"argument {number}", argument)
            elif isinstance(argument, float):
                values.append(ctypes.c_double(argument))
            else:
                values.append(ctypes.c_longlong(int(argument or 0)))
        for number, array in enumerate(reached):
            _add_region(regions, f"array {number} behind pointers", array)
        self._run(expression, run, grid, block, values, regions, reverse)

    def _run(
        self,
        expression: str,
        run: int,
        grid: Dim,
        block: Dim,
        values: list[Any],
        regions: dict[tuple[int, int], tuple[str, int, bool]],
        reverse: bool,
    ) -> None:
        names = [name.encode() for name, _, _ in regions.values()]
        for name, ((first, size), (_, granule, writable)) in zip(names, regions.items(), strict=True):
            self._array(name, ctypes.c_void_p(first), ctypes.c_size_t(size), granule, int(writable))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        fault = self._launch(
            ctypes.c_void_p(run), pointers, _three(grid), _three(block), *self._shared, int(reverse)
        )  # fmt: skip
        if fault is not None:
            raise KernelFault(f"{expression}: {self._located(fault.decode())}")

    def _located(self, fault: str) -> str:
        """The fault with `@+0x…` replaced by file and line."""
        found = re.search(r" @\+(0x[0-9a-f]+)$", fault)
        if found is None:
            return fault
        command = ["addr2line", "-e", str(self._path), found[1]]
        line = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split(" ")[0].strip()
        return f"{fault[: found.start()]} ({line.rpartition('/')[2]})" if line else fault[: found.start()]


def _three(dim: Dim) -> Any:
    sizes = (dim,) if isinstance(dim, int) else tuple(dim)
    return (ctypes.c_uint * 3)(*sizes, *(1,) * (3 - len(sizes)))


def _add_region(regions: dict[tuple[int, int], tuple[str, int, bool]], name: str, array: np.ndarray) -> None:
    """The memory of an argument; the same array given twice is one region, written to if either may be."""
    first, last = np.lib.array_utils.byte_bounds(array)
    if last > first:
        known = regions.get((first, last - first))
        name = f"{name} ({array.dtype}, {array.shape})" if known is None else known[0]
        regions[first, last - first] = (name, array.itemsize, array.flags.writeable or (known is not None and known[2]))


class OnCpu:
    """What `jit_utils.running_on` takes in place of a GPU: launches run here, on NumPy's arrays.

    `multiprocessors` is what wrappers are told when they choose a grid: a few make them cut even small arrays into pieces.
    A kernel is compiled when it is first launched, unless `hosts` already holds its expression.
    """

    def __init__(
        self, multiprocessors: int = 4, hosts: Mapping[str, Host] | None = None, *, reverse: bool = False
    ) -> None:
        self.hosts = dict(hosts or {})
        self.launches: list[tuple[str, Dim, Dim]] = []
        """Expression, grid and block of each launch."""
        self._multiprocessors = multiprocessors
        self._reverse = reverse

    def launch(self, instance: Any, grid: Dim, block: Dim, arguments: Sequence[Any], reached: Sequence[Any]) -> None:
        """Run a kernel to its end. Raises KernelFault."""
        name = instance.expression
        if name not in self.hosts:
            self.hosts[name] = host_of([instance])
        self.launches.append((name, grid, block))
        self.hosts[name].launch(name, grid, block, arguments, reached=reached, reverse=self._reverse)

    def multiprocessors(self) -> int:
        """As many as were asked for."""
        return self._multiprocessors

    def takes(self, array: Any) -> bool:
        """Is it one of NumPy's?"""
        return isinstance(array, np.ndarray)

    def beside(self, array: Any) -> AbstractContextManager[None]:
        """There is one CPU."""
        return nullcontext()


def host_of(instances: Sequence[Any]) -> Host:
    """These kernels of the package, compiled together."""
    from readtorch.aten.native.cuda.jit_utils import source_of

    paths = list(dict.fromkeys(instance.kernel.path for instance in instances))
    return Host(source_of(paths), [instance.expression for instance in instances])
