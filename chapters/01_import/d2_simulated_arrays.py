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
# # A GPU that is not there: arrays
#
# CuPy's arrays look like NumPy's and are kept apart from them on purpose: no operation takes one of each, and nothing turns one into the other unless asked
# (`cupy.asarray`, `.get()`), because each such turn is a copy over the bus, and one in the other direction stops the host until the device is done. The simulated arrays
# keep the same distance, and a little more.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## One operation
#
# Everything that a simulated device does goes through one function. It takes the NumPy data out of the arguments, notes in the books which memory is
# read, computes, and puts the result into a block of device memory, or recognises it as a view of memory it knows.

# %%
#| into: c10/cuda/simulated/launch.py
"""How the simulated device does an operation: check, compute, and note what was read and written."""

# %%
#| into: c10/cuda/simulated/launch.py
#| imports
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from readtorch.c10.cuda.simulated.memory import Block
from readtorch.c10.cuda.simulated.stream import Stream, current, current_stream, host


# %%
#| into: c10/cuda/simulated/launch.py
class MemoryPointer(NamedTuple):
    """Where an array begins: in which block, and how many bytes from its start."""

    mem: Block
    offset: int

    @property
    def ptr(self) -> int:
        """The address."""
        return self.mem.ptr + self.offset

    @property
    def device_id(self) -> int:
        """The device whose memory it is."""
        return self.mem.device_id


class Copies:
    """How many copies went over the bus, by direction, and how many bytes."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.bytes: dict[str, int] = {}

    def add(self, direction: str, size: int) -> None:
        """Note a copy: "HtoD", "DtoH" or "PtoP"."""
        self.count[direction] = self.count.get(direction, 0) + 1
        self.bytes[direction] = self.bytes.get(direction, 0) + size


copies = Copies()

#: the class of arrays; `ndarray.py` puts it here
array_class: Any = None


def operands(values: Iterable[Any], found: list[Any], what: str) -> tuple[Any, ...]:
    """The arguments with NumPy data in place of arrays, which are added to `found`. TypeError for an array of the host."""
    raw = []
    for value in values:
        kind = value.__class__
        if kind is array_class:
            found.append(value)
            raw.append(value._data)
        elif kind is list or kind is tuple:
            raw.append(kind(operands(value, found, what)))
        elif isinstance(value, np.ndarray):
            raise TypeError(f"{what}: Unsupported type {type(value)}: an array of the host; copy it with asarray first")
        else:
            raw.append(value)
    return tuple(raw)


def launch(
    what: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, writes: Any = None,
    *, refused: bool = False,
) -> Any:  # fmt: skip
    """Run `function` on the data of the arrays among the arguments, on the current stream.

    `writes` is the array that it changes; it is then returned. `refused`: it must not be part of a captured graph.
    """
    stream = current_stream()
    if refused and stream.captured is not None and not current.in_kernel:
        raise NotImplementedError(f"{what}: calling this library during stream capture is currently unsupported")
    found: list[Any] = []
    raw = operands(args, found, what)
    keywords = dict(zip(kwargs, operands(kwargs.values(), found, what), strict=True)) if kwargs else {}
    if writes is None:
        result = function(*raw, **keywords)  # it changes nothing, so that it can be looked at before it is allowed
        if (views := as_views(result, found)) is not None:
            return views
    capture = stream.captured
    if capture is not None:
        return capture.note(what, function, raw, keywords, found, writes, None if writes is not None else result)
    number = stream.tick()
    for array in found:
        array.data.mem.touch(stream, number, False, what)
    if writes is not None:
        writes.data.mem.touch(stream, number, True, what)
        function(*raw, **keywords)
        return writes
    return wrap(result, lambda block: block.touch(stream, number, True, what))


def as_views(result: Any, found: list[Any]) -> Any:
    """The result, if it is nothing but views of the operands' memory, which are to be had without the device; else None."""
    if isinstance(result, np.ndarray):
        owner = owner_of(result)
        for array in found:
            if array.data.mem.memory is owner:
                return array_class._view(array, result if result.flags.writeable else _writeable(result))
        return None
    if result.__class__ in (tuple, list) and result:
        views = [as_views(item, found) for item in result]
        return None if any(view is None for view in views) else type(result)(views)
    return None


def wrap(result: Any, written: Callable[[Block], None]) -> Any:
    """NumPy's result as device arrays, whose memory `written` is told of. What is no array is given as it is."""
    if result.__class__ is tuple or result.__class__ is list:
        return type(result)(wrap(item, written) for item in result)
    if isinstance(result, tuple):  # np.unique and np.linalg return named ones
        return type(result)(*(wrap(item, written) for item in result))
    if isinstance(result, np.generic):
        result = np.asarray(result)
    elif not isinstance(result, np.ndarray):
        return result
    block = Block(owner_of(result))
    written(block)
    return array_class._of(result, block)


def _writeable(view: np.ndarray) -> np.ndarray:
    """The same view: CuPy's can all be written to, those that are stretched too."""
    owner = owner_of(view)
    offset = view.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    memory = owner.reshape(-1, order="A").view(np.uint8)
    return np.ndarray(view.shape, view.dtype, memory, offset, view.strides)


def owner_of(array: Any) -> Any:
    """The NumPy array that owns the memory behind `array`."""
    while (base := array.base) is not None:
        if isinstance(base, np.ndarray):
            array = base
        elif isinstance(getattr(base, "base", None), np.ndarray):  # as_strided puts an object between
            array = base.base
        else:
            break
    return array


def no_capture(stream: Stream, what: str) -> Stream:
    """`stream`. RuntimeError while it is captured: CuPy makes no copies then, and does not even ask CUDA."""
    if stream.captured is not None:
        raise RuntimeError(f"{what}: disallowed, the current stream is capturing")
    return stream


def wait_for(array: Any, what: str) -> None:
    """Stop the host until `array` is complete: its value is wanted there. RuntimeError during capture."""
    stream = no_capture(current_stream(), what)
    array.data.mem.touch(stream, stream.tick(), False, what)
    host.wait(stream.clock, what)


# %% [markdown]
# ## The array

# %%
#| into: c10/cuda/simulated/ndarray.py
"""Arrays of the simulated device, with the interface of CuPy's."""

# %%
#| into: c10/cuda/simulated/ndarray.py
#| imports
from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from readtorch.c10.cuda.simulated import launch as device
from readtorch.c10.cuda.simulated.launch import MemoryPointer, copies, launch, no_capture, wait_for
from readtorch.c10.cuda.simulated.memory import Block
from readtorch.c10.cuda.simulated.stream import Stream, current_stream


# %%
#| into: c10/cuda/simulated/ndarray.py
class Flags:
    """Memory order, and whether the memory is its own."""

    __slots__ = ("c_contiguous", "f_contiguous", "fnc", "forc", "owndata")

    def __init__(self, flags: Any, owns: bool) -> None:
        self.c_contiguous = flags.c_contiguous
        self.f_contiguous = flags.f_contiguous
        self.forc = flags.forc
        self.fnc = flags.fnc
        self.owndata = owns


class ndarray:
    """An array in the memory of a simulated device."""

    __slots__ = ("__weakref__", "_data", "base", "data")
    __array_priority__ = 100
    _data: np.ndarray
    base: ndarray | None
    data: MemoryPointer
    #: of the methods made below, the one that others here name
    astype: Any

    def __new__(
        cls, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> ndarray:
        if memptr is None:
            return launch("empty", np.empty, (shape, dtype, order))
        memory = memptr.mem.memory.reshape(-1).view(np.uint8)
        return cls._of(np.ndarray(shape, dtype, memory, memptr.offset, strides), memptr.mem)

    @classmethod
    def _of(cls, data: np.ndarray, block: Block, base: ndarray | None = None) -> ndarray:
        self = object.__new__(cls)
        self._data = data
        self.base = base
        offset = data.__array_interface__["data"][0] - block.memory.__array_interface__["data"][0] if data.size else 0
        self.data = MemoryPointer(block, offset)
        return self

    @classmethod
    def _view(cls, array: ndarray, data: np.ndarray) -> ndarray:
        """`data` looks into the memory of `array`."""
        return cls._of(data, array.data.mem, array if array.base is None else array.base)

    # what is known without asking the device

    shape = property(lambda self: self._data.shape, lambda self, shape: setattr(self._data, "shape", shape))
    strides = property(lambda self: self._data.strides)
    dtype = property(lambda self: self._data.dtype)
    ndim = property(lambda self: self._data.ndim)
    size = property(lambda self: self._data.size)
    itemsize = property(lambda self: self._data.itemsize)
    nbytes = property(lambda self: self._data.nbytes)
    flags = property(lambda self: Flags(self._data.flags, self.base is None))
    T = property(lambda self: self._view(self, self._data.T))

    @property
    def device(self) -> Any:
        """The device whose memory it is in."""
        from readtorch.c10.cuda.simulated.runtime import Device

        return Device(self.data.device_id)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise AttributeError("the memory of a simulated device cannot be handed to other libraries")

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"<simulated array of shape {self.shape}, {self.dtype}, device {self.data.device_id}>"

    # the way to the host

    def get(
        self, stream: Stream | None = None, order: str = "C", out: np.ndarray | None = None, blocking: bool = True
    ) -> np.ndarray:
        """A copy on the host. With `blocking=False` it is complete when the stream is."""
        with stream if stream is not None else current_stream():
            if blocking:
                wait_for(self, "copy to host")
            else:
                here = no_capture(current_stream(), "copy to host")
                self.data.mem.touch(here, here.tick(), False, "copy to host")
        copies.add("DtoH", self._data.nbytes)
        if out is None:
            return np.array(self._data, order=order)  # type: ignore[call-overload]  # the stubs list each order apart
        out[...] = self._data
        return out

    def set(self, arr: np.ndarray, stream: Stream | None = None) -> None:
        """Overwrite with an array of the host."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        with stream if stream is not None else current_stream():
            here = no_capture(current_stream(), "copy to device")
            self.data.mem.touch(here, here.tick(), True, "copy to device")
        copies.add("HtoD", arr.nbytes)
        self._data[...] = arr

    def item(self, *args: Any) -> Any:
        """One element as a Python number: the host waits for it."""
        wait_for(self, "item")
        copies.add("DtoH", self._data.itemsize)
        return self._data.item(*args)

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self.get().tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """The bytes."""
        return self.get().tobytes(order)  # type: ignore[arg-type]  # the stubs list each order apart

    def __bool__(self) -> bool:
        return bool(self._one("bool"))

    def __int__(self) -> int:
        return int(self._one("int"))

    def __float__(self) -> float:
        return float(self._one("float"))

    def __complex__(self) -> complex:
        return complex(self._one("complex"))

    def _one(self, what: str) -> Any:
        if self.size != 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            )
        wait_for(self, what)
        copies.add("DtoH", self._data.itemsize)
        return self._data.reshape(())[()]

    def __iter__(self) -> Iterator[ndarray]:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."
        )

    # parts

    def __getitem__(self, index: Any) -> ndarray:
        if _counts(index):
            wait_for(self, "selection by a mask")
        return launch("getitem", operator.getitem, (self, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, np.ndarray):
            raise TypeError(
                f"setitem: Unsupported type {type(value)}: an array of the host; copy it with asarray first"
            )
        launch("setitem", _assign, (self, index, value), writes=self)

    def _read_write(self, what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        launch(what, function, (self, *args), kwargs, writes=self)

    # NumPy's functions

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if getattr(np, ufunc.__name__, None) is not ufunc:
            return NotImplemented
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        if method == "at":
            return launch(f"{ufunc.__name__}.at", function, inputs, kwargs, writes=inputs[0])
        return launch_ufunc(ufunc, function, inputs, kwargs, out[0] if out else None)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from readtorch.c10.cuda.simulated import functions

        ours = functions.counterpart(function)
        return NotImplemented if ours is None else ours(*args, **kwargs)


device.array_class = ndarray


def _assign(target: Any, index: Any, value: Any) -> None:
    target[index] = value


def _counts(index: Any) -> bool:
    """Is this a mask, so that the result's shape depends on the data?"""
    parts = index if index.__class__ is tuple else (index,)
    return any(part.__class__ is ndarray and part.dtype == np.bool_ for part in parts)


def launch_ufunc(ufunc: Any, function: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """A ufunc on device arrays; `out` must be one, of a type that can hold the result."""
    if out is None:
        return launch(ufunc.__name__, function, inputs, kwargs, refused=ufunc is np.matmul)
    if out.__class__ is not ndarray:
        raise TypeError(f"{ufunc.__name__}: return arrays must be of ArrayType, not {type(out)}")
    return launch(ufunc.__name__, _into(function, out._data), inputs, kwargs, writes=out, refused=ufunc is np.matmul)


def _into(function: Any, target: np.ndarray) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        return function(*args, out=target, **kwargs)

    return run


# %% [markdown]
# Operators and methods are one line each: the name of a NumPy function and whether it writes.


# %%
#| into: c10/cuda/simulated/ndarray.py
def _binary(name: str, ufunc: np.ufunc) -> None:
    def forward(self: ndarray, other: Any) -> Any:
        return _apply(ufunc, self, other)

    def reflected(self: ndarray, other: Any) -> Any:
        return _apply(ufunc, other, self)

    def in_place(self: ndarray, other: Any) -> Any:
        return launch_ufunc(ufunc, ufunc, (self, other), {"casting": "same_kind"}, self)

    setattr(ndarray, f"__{name}__", forward)
    setattr(ndarray, f"__r{name}__", reflected)
    if ufunc is not np.matmul:
        setattr(ndarray, f"__i{name}__", in_place)


def _apply(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    for operand in (a, b):
        if isinstance(operand, np.ndarray):
            raise TypeError(f"{ufunc.__name__}: Unsupported type {type(operand)}")
        if operand.__class__ is not ndarray and not isinstance(operand, int | float | complex | np.generic):
            return NotImplemented
    return launch_ufunc(ufunc, ufunc, (a, b), {}, None)


for _name, _ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
}.items():  # fmt: skip
    _binary(_name, _ufunc)


def _comparison(name: str, ufunc: np.ufunc) -> None:
    setattr(ndarray, f"__{name}__", lambda self, other: _apply(ufunc, self, other))


for _name, _ufunc in {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}.items():  # fmt: skip
    _comparison(_name, _ufunc)


def _unary(name: str, ufunc: np.ufunc) -> None:
    setattr(ndarray, f"__{name}__", lambda self: launch(ufunc.__name__, ufunc, (self,)))


for _name, _ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
    _unary(_name, _ufunc)


#: methods that compute
_METHODS = (
    "all", "any", "argmax", "argmin", "argsort", "astype", "clip", "compress", "conj", "conjugate", "copy",
    "cumprod", "cumsum", "diagonal", "dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "reshape",
    "round", "searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose", "var", "view",
    "nonzero",
)  # fmt: skip
#: of them, those whose result has a shape that depends on the data, and those that a library computes
_WAITING, _LIBRARY = {"nonzero", "compress"}, {"dot"}


def _method(name: str) -> None:
    of_numpy = getattr(np.ndarray, name)

    def call(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        if name in _WAITING:
            wait_for(self, name)
        out = kwargs.pop("out", None)
        if out is not None:
            return launch(name, _into(of_numpy, out._data), (self, *args), kwargs, writes=out)
        return launch(name, of_numpy, (self, *args), kwargs, refused=name in _LIBRARY)

    call.__name__ = name
    setattr(ndarray, name, call)


for _name in _METHODS:
    _method(_name)

#: methods that change the array
for _name in ("fill", "sort", "partition", "put"):

    def _changing(self: ndarray, *args: Any, _name: str = _name, **kwargs: Any) -> None:
        self._read_write(_name, getattr(np.ndarray, _name), *args, **kwargs)

    setattr(ndarray, _name, _changing)


def _part(name: str) -> Any:
    def read(self: ndarray) -> ndarray:
        return launch(name, operator.attrgetter(name), (self,))

    def write(self: ndarray, value: Any) -> None:
        launch(name, lambda array, value: setattr(array, name, value), (self, value), writes=self)

    return property(read, write)


ndarray.real, ndarray.imag = _part("real"), _part("imag")  # type: ignore[attr-defined]  # added after the class


# %%
from readtorch.c10.cuda.simulated.ndarray import ndarray
import numpy as np

x = ndarray((2, 3), np.float32)
x[...] = 2
y = (x * x).T
y, y.base is not None, y.data.mem.ptr != x.data.mem.ptr, y.sum(axis=0).get()

# %% [markdown]
# Mixed with an array of the host, in either order, it refuses:

# %%
for attempt in (
    lambda: x + np.ones((2, 3)),
    lambda: np.ones((2, 3)) + x,
    lambda: np.asarray(x),
    lambda: x.__setitem__(0, np.ones(3)),
):
    try:
        attempt()
    except TypeError as error:
        print(str(error)[:78])

# %% [markdown]
# ## The module
#
# CuPy has most of NumPy's functions under their own names, but not all. The simulated module has none that CuPy lacks, so that a kernel which runs here does not fail on a
# GPU for want of a name.

# %%
#| into: c10/cuda/simulated/functions.py
"""The functions of the simulated device: NumPy's, as far as CuPy has them."""

# %%
#| into: c10/cuda/simulated/functions.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.c10.cuda.simulated.launch import copies, launch, no_capture, wait_for
from readtorch.c10.cuda.simulated.ndarray import _into, launch_ufunc, ndarray
from readtorch.c10.cuda.simulated.stream import current_stream

# %%
#| into: c10/cuda/simulated/functions.py
_ABSENT = frozenset((
    "block", "einsum_path", "errstate", "frompyfunc", "geomspace", "histogram_bin_edges", "insert", "matvec",
    "nanpercentile", "nanquantile", "ndenumerate", "nditer", "nested_iters", "polyder", "polydiv", "polyint",
    "spacing", "unstack", "vecdot", "vecmat", "memmap", "ma", "char", "rec", "strings", "matrix", "object_", "void",
    "str_", "bytes_", "longdouble", "clongdouble", "datetime64", "timedelta64",
))  # fmt: skip
"""Names of NumPy's that CuPy 14 has not."""

_FROM_SHAPES = frozenset((
    "arange", "empty", "eye", "full", "identity", "indices", "linspace", "logspace", "ones", "tri", "zeros",
    "tril_indices", "triu_indices",
))  # fmt: skip
"""They make an array out of nothing."""

_WAITING = frozenset((
    "argwhere", "bincount", "extract", "flatnonzero", "histogram", "nonzero", "unique", "unique_counts", "union1d",
))  # fmt: skip
"""The shape of their result depends on the data: the host waits for it."""

_LIBRARIES = frozenset(("dot", "einsum", "inner", "matmul", "outer", "tensordot", "vdot"))  # fmt: skip
"""cuBLAS computes them."""

_CHANGING = frozenset(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"))  # fmt: skip
"""They change their first argument."""


class Ufunc:
    """One of NumPy's ufuncs on device arrays."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc
        self.__name__ = ufunc.__name__
        self.nin, self.nout = ufunc.nin, ufunc.nout

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if len(args) > self.nin:
            *rest, out = args
            args = tuple(rest)
        return launch_ufunc(self._ufunc, self._ufunc, args, kwargs, out[0] if isinstance(out, tuple) else out)

    def at(self, array: Any, indices: Any, values: Any = None) -> None:
        """Unbuffered, in place: an index that comes twice counts twice."""
        rest = () if values is None else (values,)
        launch(f"{self.__name__}.at", self._ufunc.at, (array, indices, *rest), writes=array)

    def outer(self, a: Any, b: Any, **kwargs: Any) -> Any:
        """Each element of one with each of the other."""
        return launch(f"{self.__name__}.outer", self._ufunc.outer, (a, b), kwargs)

    def __getattr__(self, name: str) -> Any:
        allowed = {"reduce": (np.add, np.multiply), "accumulate": (np.add, np.multiply), "reduceat": (np.add,)}
        if self._ufunc not in allowed.get(name, ()):
            raise AttributeError(f"CuPy's ufunc {self.__name__} has no {name}")
        method = getattr(self._ufunc, name)
        return lambda *args, **kwargs: launch(f"{self.__name__}.{name}", method, args, kwargs)


def _function(name: str, of_numpy: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if out is not None:
            launch(name, _into(of_numpy, out._data), args, kwargs, writes=out, refused=name in _LIBRARIES)
            return out
        if name in _CHANGING:
            launch(name, of_numpy, args, kwargs, writes=args[0])
            return None
        if (
            name in _WAITING
            or (name == "where" and len(args) == 1)
            or (name == "repeat" and isinstance(args[1], ndarray))
        ):
            for arg in args:
                if arg.__class__ is ndarray:
                    wait_for(arg, name)
        elif name not in _FROM_SHAPES and not _has_arrays(args) and not _has_arrays(kwargs.values()):
            raise TypeError(f"{name}: none of the arguments is an array of the device")
        return launch(name, of_numpy, args, kwargs, refused=name in _LIBRARIES or of_numpy.__module__ == "numpy.linalg")

    call.__name__ = name
    return call


def _has_arrays(values: Any) -> bool:
    return any(
        value.__class__ is ndarray or (isinstance(value, list | tuple) and _has_arrays(value)) for value in values
    )


def array(
    obj: Any,
    dtype: Any = None,
    copy: bool = True,
    order: str = "K",
    subok: bool = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> ndarray:
    """An array on the current device. From host data it is a copy over the bus."""
    if obj.__class__ is ndarray:
        same = dtype is None or np.dtype(dtype) == obj.dtype
        return obj if same and not copy else obj.astype(obj.dtype if dtype is None else dtype)
    if isinstance(obj, list | tuple) and _has_arrays(obj):
        return launch("stack", lambda values: np.array(values, dtype), (obj,))
    data = np.array(obj, dtype=dtype, order=order, ndmin=ndmin)  # type: ignore[call-overload]  # the stubs list each order apart
    if data.dtype == object:
        raise ValueError(f"Unsupported dtype {data.dtype}")
    if isinstance(obj, np.ndarray | list | tuple):
        no_capture(current_stream(), "copy to device")
        copies.add("HtoD", data.nbytes)
    return launch("copy to device", lambda: data, ())


def asarray(a: Any, dtype: Any = None, order: str = "K", *, blocking: bool = False) -> ndarray:
    """`a` itself if it is on the device and of that type, else `array(a)`."""
    return array(a, dtype, False, order)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    """`a` with its elements in C order."""
    a = asarray(a, dtype)
    return a if a.flags.c_contiguous else a.copy(order="C")


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> np.ndarray:
    """A copy on the host."""
    return a.get(stream, order, out, blocking) if a.__class__ is ndarray else np.asarray(a)


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Do the two look into the same bytes?"""
    return bool(np.shares_memory(a._data, b._data))


def _as_it_is(function: Any) -> Any:
    """A function of shapes and types, which the host answers."""
    return function


_OWN: dict[str, Any] = {
    "array": array, "asarray": asarray, "asanyarray": asarray, "ascontiguousarray": ascontiguousarray, "asnumpy": asnumpy, "ndarray": ndarray,
    "shares_memory": shares_memory, "may_share_memory": shares_memory, "ndim": lambda a: a.ndim, "shape": lambda a: a.shape,
    "size": lambda a: a.size, "iscomplexobj": lambda a: a.dtype.kind == "c", "get_array_module": lambda *args: np,
}  # fmt: skip
for _name in (
    "broadcast_shapes",
    "can_cast",
    "promote_types",
    "result_type",
    "dtype",
    "finfo",
    "iinfo",
    "isscalar",
    "common_type",
    "issubdtype",
    "ndindex",
    "min_scalar_type",
):
    _OWN[_name] = _as_it_is(getattr(np, _name))
_OWN["result_type"] = lambda *args: np.result_type(*(arg.dtype if arg.__class__ is ndarray else arg for arg in args))


class Namespace:
    """`numpy`, `numpy.linalg` or another of its modules, on the simulated device."""

    def __init__(self, module: Any, own: dict[str, Any]) -> None:
        self._module = module
        self.__dict__.update(own)

    def __getattr__(self, name: str) -> Any:
        if name in _ABSENT or name.startswith("__"):
            raise AttributeError(f"CuPy has no {name}")
        value = getattr(self._module, name)
        if isinstance(value, np.ufunc):
            value = Ufunc(value)
        elif callable(value) and not isinstance(value, type):
            value = _function(name, value)
        self.__dict__[name] = value
        return value


linalg = Namespace(np.linalg, {"LinAlgError": np.linalg.LinAlgError})
fft = Namespace(np.fft, {})


def _as_strided(x: Any, shape: Any = None, strides: Any = None) -> Any:
    """As CuPy's, whose result does not know what it looks into."""
    view = launch("as_strided", np.lib.stride_tricks.as_strided, (x, shape, strides))
    view.base = None
    return view


stride_tricks = Namespace(np.lib.stride_tricks, {"as_strided": _as_strided})
_lib = Namespace(np.lib, {"stride_tricks": stride_tricks})
numpy = Namespace(np, {**_OWN, "linalg": linalg, "fft": fft, "lib": _lib})
_PLACES = {"numpy.linalg": linalg, "numpy.fft": fft, "numpy.lib.stride_tricks": stride_tricks}


def counterpart(function: Any) -> Any:
    """The simulated function for one of NumPy's; None if CuPy has none."""
    module = getattr(function, "__module__", "")
    place = next((found for name, found in _PLACES.items() if module.startswith(name)), numpy)
    return getattr(place, getattr(function, "__name__", ""), None)


# %%
from readtorch.c10.cuda.simulated.functions import numpy as sim

total = sim.zeros((2, 2), np.float32)
sim.add.at(total, (sim.asarray([0, 0, 1]), sim.asarray([1, 1, 0])), 1.0)
total.get(), sim.linalg.inv(total + sim.eye(2)).get(), hasattr(sim, "nditer"), hasattr(sim.maximum, "reduce")
