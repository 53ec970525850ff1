# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from readtorch.c10.core.device import cpu, device, meta
from readtorch.c10.core.storage_impl import FreedArray


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


class MetaArray(np.ndarray):
    """The array of a tensor on the `meta` device: a shape and a dtype over a single element.

    Arithmetic with it, as formulas of derivatives do, gives shapes and dtypes again, and nothing can be written to it.
    """

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
        if ufunc.nout == 1:
            return meta_array(shape, results.dtype)
        return tuple(meta_array(shape, result.dtype) for result in results)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Nothing is kept."""

    def copy(self, order: Any = "C") -> MetaArray:
        """The same: there is nothing to copy."""
        return meta_like(self)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> MetaArray:
        """The same shape with another dtype."""
        return meta_array(self.shape, np.dtype(dtype))


#: which column an array's class belongs to; the CUDA backend adds its own class when it is loaded
BACKENDS: dict[type, DispatchKey] = {np.ndarray: DispatchKey.CPU, MetaArray: DispatchKey.Meta}

#: how to tell the device of an array of that class
DEVICE_OF: dict[type, Any] = {np.ndarray: lambda array: cpu, MetaArray: lambda array: meta}


def device_of(array: Any) -> device:
    """The device an array lies on."""
    return DEVICE_OF[array.__class__](array)


def meta_array(shape: tuple[int, ...], dtype: np.dtype) -> MetaArray:
    """An array of that shape without data."""
    return MetaArray(shape, dtype, np.zeros((), dtype), 0, (0,) * len(shape))


def meta_like(array: Any, shape: tuple[int, ...] | None = None) -> MetaArray:
    """The dtype of `array`, and its shape or another one, without data."""
    return meta_array(array.shape if shape is None else shape, array.dtype)


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
