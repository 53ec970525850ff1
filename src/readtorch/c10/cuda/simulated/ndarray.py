# Tangled from chapters/01_import/d2_simulated_arrays.py — edit there, or here and run `readtorch sync`.
"""Arrays of the simulated device, with the interface of CuPy's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from readtorch.c10.cuda.simulated import launch as device
from readtorch.c10.cuda.simulated.launch import MemoryPointer, copies, launch, no_capture, wait_for
from readtorch.c10.cuda.simulated.memory import Block
from readtorch.c10.cuda.simulated.stream import Stream, current_stream


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
