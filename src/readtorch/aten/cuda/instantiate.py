# Tangled from chapters/01_import/d5_cuda_kernels.py — edit there, or here and run `readtorch sync`.
"""Kernels for the device, made from the text of those for the CPU."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import OperatorEntry
from readtorch.aten.cuda.array_library import ArrayLibrary, counterpart
from readtorch.aten.tensor_iterator import Pointwise
from readtorch.c10.core.dispatch_key import DispatchKey
from readtorch.c10.cuda.cuda_functions import is_simulated
from readtorch.c10.cuda.cuda_guard import guarded

#: what stands for a function of the operator library on the device: (the maker) -> the function
SPECIALISED: dict[Callable[..., Any], Callable[[Maker], Callable[..., Any]]] = {}


def specialise(function: Any) -> Callable[[Callable[[Maker], Any]], Callable[[Maker], Any]]:
    """Decorator: `made(maker)` returns what stands for `function` on the device, where its own text will not do."""

    def decorate(made: Callable[[Maker], Any]) -> Callable[[Maker], Any]:
        SPECIALISED[function] = made
        return made

    return decorate


class Maker:
    """Makes functions for one array library."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.numpy = ArrayLibrary(library)
        #: operators that are kernels of CUDA C++ on a GPU; `csrc/cuda/module.py` names them
        self.in_cpp: frozenset[str] = frozenset()
        self._made: dict[Any, Any] = {np: self.numpy, np.linalg: self.numpy.linalg, np.lib: self.numpy.lib}

    # operators

    def kernel(self, entry: OperatorEntry) -> Callable[..., Any]:
        """The CUDA kernel of an operator: its own if it has one, and one made from the CPU's where that is NotImplemented.

        A simulated device runs no CUDA C++, so there it is always the latter.
        """
        if entry.composite is not None:
            return functools.partial(self.function(entry.composite), dispatcher.cuda)
        own, host = entry.kernels.get(DispatchKey.CUDA), entry.kernels[DispatchKey.CPU]
        made = self.value(host)
        if is_simulated():
            return guarded(self.library.as_one_kernel(made) if entry.name in self.in_cpp else made)
        if own is None or _root(own) is _root(host):
            return guarded(made)

        def first_own(*args: Any, **kwargs: Any) -> Any:
            result = own(*args, **kwargs)
            return made(*args, **kwargs) if result is NotImplemented else result

        return guarded(first_own)

    def run(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """The result of a function of the library's arrays; where it is simulated, as one kernel of that name."""
        if is_simulated():
            return self.library.run_as_kernel(name, function, *args)
        return self.function(function)(*args)

    # values

    def value(self, value: Any) -> Any:
        """What a global, a default or a cell of a closure is on the device."""
        if isinstance(value, FunctionType):
            return self.function(value) if _ours(value) else self._numpy_function(value)
        if value is np.ndarray:
            return self.library.ndarray
        if value is dispatcher.cpu:
            return dispatcher.cuda
        if isinstance(value, np.ufunc):
            name = value.__name__
            return getattr(self.numpy, name) if getattr(np, name, None) is value else value
        if isinstance(value, Pointwise):
            return self._once(value, self._pointwise)
        if isinstance(value, ModuleType):
            if value in self._made:
                return self._made[value]
            return self._once(value, self._module) if value.__name__.startswith("readtorch.aten.native") else value
        if isinstance(value, functools.partial):
            return functools.partial(self.value(value.func), *map(self.value, value.args), **value.keywords)
        if isinstance(value, dict) and any(map(_changes, value.values())):
            return {key: self.value(item) for key, item in value.items()}
        if type(value) in (list, tuple) and any(map(_changes, value)):
            return type(value)(map(self.value, value))
        if hasattr(value, "cache_info"):  # a cache would hold arrays of one device
            return self.value(value.__wrapped__)
        if isinstance(value, BuiltinFunctionType) or callable(value):
            return self._numpy_function(value)
        return value

    def _numpy_function(self, value: Any) -> Any:
        module = getattr(value, "__module__", None) or ""
        known = module.split(".")[0] == "numpy" and not isinstance(value, type)
        return counterpart(self.numpy, value) if known and hasattr(value, "__name__") else value

    def _once(self, key: Any, make: Callable[[Any], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make(key)
        return self._made[key]

    def _module(self, module: ModuleType) -> Any:
        return _Lazily(self, module)

    def _pointwise(self, kernel: Pointwise) -> Callable[..., Any]:
        call = self.function(Pointwise.__call__)
        same = {name: getattr(kernel, name) for name in ("name", "boolean", "common", "keeps_numbers")}
        face = SimpleNamespace(ufunc=self.value(kernel.ufunc), **same)
        return functools.partial(call, face)

    # functions

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same code with globals in which NumPy is the device's library."""
        found = self._made.get(function)
        if found is not None:
            return found
        if function in SPECIALISED:
            made = self._made[function] = SPECIALISED[function](self)
            return made
        return self.copied(function) if isinstance(function, FunctionType) else self.value(function)

    def copied(self, function: Any) -> Callable[..., Any]:
        """The same code, specialised or not."""
        space: dict[str, Any] = {"__builtins__": builtins, "__name__": function.__module__}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made = FunctionType(function.__code__, space, function.__name__, None, cells)
        self._made[function] = made  # before what it calls is made: it may call itself
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = self.value(original.cell_contents)
        made.__defaults__ = self.value(function.__defaults__)
        made.__kwdefaults__ = self.value(function.__kwdefaults__)
        for name in _names(function.__code__):
            if name in function.__globals__:
                space[name] = self.value(function.__globals__[name])
        return made


class _Lazily:
    """A module of the operator library on the device: its functions are made when asked for."""

    def __init__(self, maker: Maker, module: ModuleType) -> None:
        self._maker = maker
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return self._maker.value(getattr(self._module, name))


def _ours(function: FunctionType) -> bool:
    """Is this code that computes on arrays: of the operator library, or of a chapter that adds to it?"""
    module = function.__module__ or ""
    if module.startswith(("readtorch.aten.core", "readtorch.aten.cuda")):
        return False
    return module.startswith("readtorch.aten.") or not module.startswith(("readtorch", "numpy"))


def _changes(value: Any) -> bool:
    return isinstance(value, FunctionType | np.ufunc | functools.partial | Pointwise | dict | list | tuple)


def _names(code: CodeType) -> Iterator[str]:
    """Every global that the code, or a function defined inside it, may name."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _root(kernel: Any) -> Any:
    while hasattr(kernel, "__wrapped__"):
        kernel = kernel.__wrapped__
    return kernel
