# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # One text, two devices: how the CUDA column is filled
#
# Six hundred operators have kernels written with NumPy. CuPy has the same functions under the same names, and most of its functions can be called as NumPy's: `np.exp(x)` of a CuPy
# array runs on the GPU. But a kernel that *makes* an array (`np.zeros(shape)`) makes it on the host whatever the arguments were, and the next line fails.
#
# Writing every kernel a second time is what upstream does, where it has to: `native/cuda/*.cu` beside `native/cpu/*.cpp`. Where it need not, it has templates: one text, compiled for each type. A Python function can be
# treated like a template too. Its code is constant; what `np` means is looked up in its *globals* at each use. A function with the same code and other globals, in which `np` is the device's library, is the kernel for the device.

# %%
import types

import numpy as np

import readtorch as torch
from readtorch.c10.cuda.cuda_functions import simulate
from readtorch.literate import live

live()


# %%
def kernel(x):
    return np.zeros(x.shape, x.dtype) + x


library = simulate(2)
x = library.ones(3)
try:
    kernel(x)
except TypeError as error:
    print(str(error)[:60])
types.FunctionType(kernel.__code__, {"np": library})(x)

# %% [markdown]
# What is missing between the two libraries is little: a few names, and methods of ufuncs.

# %%
#| into: aten/cuda/__init__.py
"""CUDA for the operators (twin of `aten/src/ATen/cuda/`)."""

# %%
#| into: aten/cuda/array_library.py
"""NumPy's names on the device: the library's own, and here what it lacks."""

# %%
#| into: aten/cuda/array_library.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from readtorch.c10.core.storage_impl import owner_of, remember_base


# %%
#| into: aten/cuda/array_library.py
class ArrayLibrary:
    """Looks like the module `numpy`; its arrays are on the device."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.generic = np.generic
        self.ufunc = np.ufunc
        self.dtype = np.dtype
        self.lib = SimpleNamespace(stride_tricks=_StrideTricks(library.lib.stride_tricks))
        self.linalg = library.linalg
        for name in ("maximum", "minimum", "logaddexp"):
            setattr(self, name, _Ufunc(self, getattr(library, name)))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name)
        self.__dict__[name] = found
        return found

    def errstate(self, **settings: Any) -> Any:
        """Devices never warn."""
        return nullcontext()

    def vecdot(self, a: Any, b: Any, axis: int = -1) -> Any:
        """Products of vectors along an axis."""
        return (self._library.conj(a) * b).sum(axis=axis)

    def tri(self, n: int, m: int | None = None, k: int = 0, dtype: Any = float) -> Any:
        """Ones on and below a diagonal."""
        rows, columns = self._library.arange(n)[:, None], self._library.arange(n if m is None else m)
        return (columns <= rows + k).astype(dtype)


class _StrideTricks:
    """Views with strides of any kind. CuPy's do not say what they look into, so that is noted."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def as_strided(self, x: Any, shape: Any = None, strides: Any = None) -> Any:
        """The memory from the first element of `x` on, in another shape and with other strides (in bytes)."""
        view = self._module.as_strided(x, shape, strides)
        remember_base(view, owner_of(x))
        return view

    def sliding_window_view(self, x: Any, window_shape: Any, axis: Any = None, writeable: bool = True) -> Any:
        """All windows of a shape, as views, which can always be written to."""
        view = self._module.sliding_window_view(x, window_shape, axis)
        remember_base(view, owner_of(x))
        return view


class _Ufunc:
    """A ufunc with the methods that the library's lacks."""

    def __init__(self, numpy: ArrayLibrary, ufunc: Any) -> None:
        self._numpy = numpy
        self._ufunc = ufunc
        self.__name__ = ufunc.__name__
        self._reduction = {"maximum": "max", "minimum": "min"}.get(self.__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._ufunc(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ufunc, name)

    def reduce(self, array: Any, axis: Any = 0, **options: Any) -> Any:
        """The greatest or least along an axis."""
        if self._reduction is None:
            raise AttributeError(f"{self.__name__} has no reduce on the device")
        return getattr(array, self._reduction)(axis=axis, **options)

    def accumulate(self, array: Any, axis: int = 0) -> Any:
        """Running results: log₂ n passes, each of which joins runs of twice the length."""
        result = self._numpy.moveaxis(array, axis, -1).copy()
        count, step = result.shape[-1], 1
        while step < count:
            joined = result.copy()
            joined[..., step:] = self._ufunc(result[..., step:], result[..., :-step])
            result, step = joined, step * 2
        return self._numpy.moveaxis(result, -1, axis)


def counterpart(library: Any, function: Callable[..., Any]) -> Any:
    """The library's function for one of NumPy's."""
    place = library
    for name in (getattr(function, "__module__", "") or "numpy").split(".")[1:]:
        if not name.startswith("_"):
            place = getattr(place, name, place)
    return getattr(place, function.__name__)


# %% [markdown]
# ## Instantiation
#
# A kernel calls other functions, and these mean NumPy too. So the copy goes along the calls: each global that is a function of the operator library is replaced by its copy, made once.

# %%
#| into: aten/cuda/instantiate.py
"""Kernels for the device, made from the text of those for the CPU."""

# %%
#| into: aten/cuda/instantiate.py
#| imports
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

# %%
#| into: aten/cuda/instantiate.py
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


# %%
from readtorch.aten.cuda.instantiate import Maker

made = Maker(library).function(kernel)
made(x).get(), made.__code__ is kernel.__code__

# %% [markdown]
# ## Where the same text will not do
#
# Templates have specialisations. A few functions of the operator library mean the host when they say so: a number becomes a scalar of NumPy's, which every CuPy function takes, and not an array; buffers that are kept between calls stay the host's.

# %%
#| into: aten/cuda/specialisations.py
"""Functions of the operator library that are others on the device."""

# %%
#| into: aten/cuda/specialisations.py
#| imports
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten import parallel, tensor_iterator
from readtorch.aten.cuda.instantiate import Maker, specialise
from readtorch.aten.native import (
    average_pool2d,
    batch_linear_algebra,
    binary_ops,
    convolution,
    loss_nll,
    pooling,
    tensor_shape,
)


# %%
#| into: aten/cuda/specialisations.py
@specialise(tensor_iterator.cast)
def _cast(maker: Maker) -> Callable[..., Any]:
    def cast(operand: Any, wanted: np.dtype) -> Any:
        """An operand in the common type; a number as a scalar of the host, which goes with the launch."""
        if hasattr(operand, "dtype"):
            return operand if operand.dtype == wanted else operand.astype(wanted)
        value = tensor_iterator.cast(operand, wanted)
        return maker.library.asarray(value) if wanted.kind == "V" else value[()]

    return cast


@specialise(batch_linear_algebra._eliminate)
def _eliminate(maker: Maker) -> Callable[..., Any]:
    def eliminate(A: Any) -> Any:
        """On the host: a row is exchanged for every column, and each time the host would have to wait for its number."""
        return tuple(maker.library.asarray(found) for found in batch_linear_algebra._eliminate(A.get()))

    return eliminate


@specialise(loss_nll.check_targets)
def _check_targets(maker: Maker) -> Callable[..., Any]:
    return lambda classes, count: (
        None
    )  # to look at them the host would have to wait; upstream's kernel stops the device


@specialise(binary_ops._power)
def _power(maker: Maker) -> Callable[..., Any]:
    numpy, of_numbers = maker.numpy, maker.copied(binary_ops._power)

    def power(a: Any, b: Any) -> Any:
        """By a number of the host as there. An exponent on the device is not looked at: the host would have to wait."""
        if not isinstance(b, maker.library.ndarray):
            return of_numbers(a, b)
        if not hasattr(a, "dtype") or a.dtype.kind not in "iub":
            return numpy.power(a, b)
        negative = b < 0
        small = numpy.where(a == 1, 1, numpy.where(a == -1, numpy.where(b % 2 == 0, 1, -1), 0))
        return numpy.where(negative, small, numpy.power(a, numpy.where(negative, 0, b))).astype(a.dtype)

    return power


@specialise(pooling.may_hold_nan)
def _may_hold_nan(maker: Maker) -> Callable[..., Any]:
    return lambda y: True  # the same


@specialise(pooling.planes_in_block)
def _planes_in_block(maker: Maker) -> Callable[..., Any]:
    return lambda count, bytes_each: max(count, 1)  # there is no cache to stay in


@specialise(pooling.planes_innermost)
def _planes_innermost(maker: Maker) -> Callable[..., Any]:
    return lambda images: images


@specialise(average_pool2d._divisor)
def _divisor(maker: Maker) -> Callable[..., Any]:
    def divisor(*sizes: Any) -> Any:
        """Shapes decide it, so the host computes it."""
        found = average_pool2d._divisor(*sizes)
        return maker.library.asarray(found) if isinstance(found, np.ndarray) else found

    return divisor


@specialise(tensor_shape.strided_view)
def _strided_view(maker: Maker) -> Callable[..., Any]:
    def strided_view(array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return maker.library.broadcast_to(array, shape)

    return strided_view


@specialise(convolution._buffer)
def _buffer(maker: Maker) -> Callable[..., Any]:
    def buffer(name: str, shape: Sequence[int], dtype: Any) -> Any:
        """Memory of the device's own pool, which keeps it between calls."""
        return maker.library.empty(tuple(shape), dtype)

    return buffer


@specialise(parallel.get_num_threads)
def _get_num_threads(maker: Maker) -> Callable[..., Any]:
    return lambda: 1  # the host's; the device has its own


@specialise(parallel.parallel_for)
def _parallel_for(maker: Maker) -> Callable[..., Any]:
    def parallel_for(begin: int, end: int, grain_size: int, function: Callable[[int, int], None]) -> None:
        """In the calling thread, whose device and stream are the current ones."""
        for start in range(begin, end, grain_size):
            function(start, min(start + grain_size, end))

    return parallel_for


@specialise(convolution.copy_transposed)
def _copy_transposed(maker: Maker) -> Callable[..., Any]:
    def copy_transposed(target: Any, source: Any) -> None:
        target[...] = source

    return copy_transposed
