# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import enum
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from readtorch.c10.core import storage_impl
from readtorch.c10.core.contiguity import Ints, contiguous_strides, strides_of_copy, strides_of_result, strides_of_view
from readtorch.c10.core.device import cpu, device, meta
from readtorch.c10.core.storage_impl import FreedArray, StorageImpl, data_address


class DispatchKey(enum.IntEnum):
    """The columns, in the order of priority: a call meets the highest first."""

    Undefined = 0
    CPU = 1
    CUDA = 2
    Meta = 3
    SparseCPU = 4
    Autograd = 5
    Autocast = 6
    FuncTorchBatched = 7
    FuncTorchGradWrapper = 8


_NOWHERE = np.empty((), np.dtype([]))


def outline(shape: Ints, strides: Ints, offset: int = 0) -> np.ndarray:
    """Shape, strides and place of elements that are not there."""
    start = as_strided(_NOWHERE, (offset + 1,), (1,))[offset:] if offset else _NOWHERE
    return as_strided(start, shape, strides)


class MetaArray(np.ndarray):
    """The array of a tensor on the `meta` device: a shape, a dtype and strides over a single element.

    Arithmetic with it, as formulas of derivatives do, gives shapes, dtypes and strides again, and nothing can be written to it.
    """

    _outline: np.ndarray | None = None
    _storage: StorageImpl | None = None

    @property
    def outline(self) -> np.ndarray:
        """What NumPy's views are taken of."""
        if self._outline is None:
            self._outline = outline(self.shape, contiguous_strides(self.shape))
        return self._outline

    @property
    def steps(self) -> Ints:
        """The strides, in elements."""
        return contiguous_strides(self.shape) if self._outline is None else self._outline.strides

    @property
    def offset(self) -> int:
        """How many elements lie between the storage's start and the first element."""
        return 0 if self._outline is None else data_address(self._outline) - data_address(_NOWHERE)

    @property
    def storage(self) -> StorageImpl:
        """The storage of this array and its views: a number of bytes and no more."""
        if self._storage is None:
            extent = 1 + sum((n - 1) * step for n, step in zip(self.shape, self.steps, strict=True)) if self.size else 0
            self._storage = storage_impl.Storage.__new__(storage_impl.Storage)
            self._storage.owner = np.broadcast_to(np.zeros((), np.uint8), (extent * self.itemsize,))
            self._storage.device = meta
        return self._storage

    def seen_as(self, outline: np.ndarray, dtype: np.dtype | None = None) -> MetaArray:
        """A view: the same storage through another outline."""
        view = MetaArray(outline.shape, dtype or self.dtype, self.base, 0, (0,) * outline.ndim)
        view._outline, view._storage = outline, self.storage
        return view

    def read_as(self, dtype: Any, shape: Ints, drop: int = 0, tail: Ints = (), shift: int = 0) -> MetaArray:
        """A view of the bytes as other elements: without the last `drop` strides, with others in their place, from `shift` on."""
        kind = np.dtype(dtype)
        steps, offset = ([n * self.itemsize // kind.itemsize for n in ns] for ns in (self.steps, (self.offset,)))
        return self.seen_as(outline(shape, (*steps[: self.ndim - drop], *tail), offset[0] + shift), kind)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if out is not None:
            return out[0] if len(out) == 1 else out
        if method == "at":
            return None
        if method != "__call__" or ufunc.signature is not None:
            found = getattr(ufunc, method)(*(specimen(x) for x in inputs), **options)
            return meta_like(found) if isinstance(found, np.ndarray | np.generic) else found
        options.pop("where", None)
        results = ufunc(*(specimen(x, 1, whole=False) for x in inputs), **options)
        shape = np.broadcast_shapes(*(np.shape(x) for x in inputs))
        strides = strides_of_result(shape, [geometry(x) for x in inputs])
        if ufunc.nout == 1:
            return meta_array(shape, results.dtype, strides)
        return tuple(meta_array(shape, result.dtype, strides) for result in results)

    def __getitem__(self, index: Any) -> Any:
        if any(isinstance(item, list | np.ndarray) for item in (index if isinstance(index, tuple) else (index,))):
            return meta_like(specimen(self)[index])
        return self.seen_as(np.asarray(self.outline[(*index, ...) if isinstance(index, tuple) else (index, ...)]))

    def __setitem__(self, index: Any, value: Any) -> None:
        """Nothing is kept."""

    @property
    def T(self) -> MetaArray:
        """The dimensions in reverse order."""
        return self.seen_as(self.outline.T)

    def transpose(self, *axes: Any) -> MetaArray:
        """The dimensions in another order."""
        return self.seen_as(self.outline.transpose(*axes))

    def swapaxes(self, axis1: Any, axis2: Any) -> MetaArray:
        """Two dimensions exchanged."""
        return self.seen_as(self.outline.swapaxes(axis1, axis2))

    def reshape(self, *shape: Any, order: Any = "C") -> MetaArray:  # type: ignore[override]  # NumPy's overloads take fewer forms of a shape
        """The same elements in another shape: a view where the strides allow it."""
        wanted = np.broadcast_to(np.int8(0), self.shape).reshape(*shape, order=order).shape
        steps = strides_of_view(self.shape, self.steps, wanted) if order == "C" else None
        return meta_array(wanted, self.dtype) if steps is None else self.seen_as(outline(wanted, steps, self.offset))

    def copy(self, order: Any = "C") -> MetaArray:
        """Another that has as few elements."""
        return meta_array(self.shape, self.dtype, strides_of_copy(self.shape, self.steps) if order == "K" else None)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> MetaArray:
        """The same shape and order with another dtype."""
        return meta_array(self.shape, np.dtype(dtype), strides_of_copy(self.shape, self.steps))


#: which column an array's class belongs to; the CUDA backend adds its own class when it is loaded
BACKENDS: dict[type, DispatchKey] = {np.ndarray: DispatchKey.CPU, MetaArray: DispatchKey.Meta}

#: how to tell the device of an array of that class
DEVICE_OF: dict[type, Any] = {np.ndarray: lambda array: cpu, MetaArray: lambda array: meta}


def device_of(array: Any) -> device:
    """The device an array lies on."""
    return DEVICE_OF[array.__class__](array)


def meta_array(shape: Ints, dtype: np.dtype, strides: Ints | None = None) -> MetaArray:
    """An array of that shape without data. Strides count elements; without them it is in one piece."""
    array = MetaArray(shape, dtype, np.zeros(_LARGEST, np.uint8), 0, (0,) * len(shape))
    if strides is not None:
        array._outline = outline(shape, strides)
    return array


_LARGEST = np.dtype(np.complex128).itemsize


def meta_in(storage: StorageImpl, dtype: np.dtype, shape: Ints, strides: Ints, offset: int) -> MetaArray:
    """An array that looks into a storage without data."""
    array = meta_array(shape, dtype)
    array._outline, array._storage = outline(shape, strides, offset), storage
    return array


def meta_like(array: Any, shape: Ints | None = None) -> MetaArray:
    """The dtype of `array`, and its shape and order or another shape, without data."""
    if shape is not None:
        return meta_array(shape, array.dtype)
    return meta_array(array.shape, array.dtype, strides_of_copy(*geometry(array)))


def on_meta(array: Any) -> MetaArray:
    """What was made of meta arrays, as one of them."""
    return array if array.__class__ is MetaArray else meta_like(array)


def geometry(array: Any) -> tuple[Ints, Ints]:
    """Shape, and strides in elements; of a number, those of a tensor without dimensions."""
    if array.__class__ is MetaArray:
        return array.shape, array.steps
    shape = np.shape(array)
    itemsize = getattr(array, "itemsize", 1)
    return shape, tuple(step // itemsize for step in array.strides) if shape else ()


def specimen(array: Any, fill: int = 0, *, whole: bool = True) -> Any:
    """For a meta array, an array of NumPy's to try a kernel on: `fill` everywhere, in a single element.

    It may be written to. Unless `whole`, all sizes are 1; as many dimensions stay, since they matter for the dtype of a result.
    Other arguments are returned as they are, arrays among them shrunk alike.
    """
    if not isinstance(array, np.ndarray) or (whole and array.__class__ is not MetaArray):
        return array
    dtype = array.dtype
    element = np.zeros((), dtype) if not fill or dtype.kind == "V" else np.ones((), dtype)
    sizes = array.shape if whole else (1,) * array.ndim
    return np.ndarray(sizes, dtype, element, 0, (0,) * array.ndim)


def identity(array: Any) -> Any:
    """A specimen that can be inverted and decomposed: for matrices the unit matrix, one for all of a batch."""
    if array.__class__ is not MetaArray or array.ndim < 2 or array.dtype.kind == "V":
        return specimen(array, 1)
    one = np.eye(*array.shape[-2:], dtype=array.dtype)
    return np.ndarray(array.shape, array.dtype, one, 0, (0,) * (array.ndim - 2) + one.strides)


def without_values(tensor: Any) -> bool:
    """Does it lie on `meta`, where nothing can be asked of its elements?"""
    return getattr(tensor, "_array", tensor).__class__ is MetaArray


def values_for(operator: str, tensor: Any) -> None:
    """NotImplementedError for an operator that has nothing to say without the elements of `tensor`."""
    if without_values(tensor):
        raise NotImplementedError(
            f"aten::{operator} has no kernel for Meta tensors: its result is made of their elements"
        )


BACKENDS[FreedArray] = DispatchKey.CPU
DEVICE_OF[FreedArray] = lambda array: array.storage.device
