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
    Autograd = 4
    Autocast = 5


class MetaArray(np.ndarray):
    """The array of a tensor on the `meta` device: a shape and a dtype over a single element."""

    def copy(self, order: Any = "C") -> MetaArray:
        """The same: there is nothing to copy."""
        return meta_like(self)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> MetaArray:
        """The same shape with another dtype."""
        return meta_like(np.empty((), dtype), self.shape)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        """What NumPy's functions make of it: shape and dtype, by one element of each operand. Nothing is written."""
        if out is not None:
            return out[0] if len(out) == 1 else out
        shapes = [value.shape for value in inputs if isinstance(value, np.ndarray)]
        if method != "__call__" or ufunc.signature is not None:
            values = [
                np.broadcast_to(np.zeros((), x.dtype), x.shape) if isinstance(x, np.ndarray) else x for x in inputs
            ]
            return meta_like(np.asarray(getattr(ufunc, method)(*values, **options)))
        shape = np.broadcast_shapes(*shapes)
        result = ufunc(
            *(np.zeros((1,) * x.ndim, x.dtype) if isinstance(x, np.ndarray) else x for x in inputs), **options
        )
        if isinstance(result, tuple):
            return tuple(meta_like(one, shape) for one in result)
        return meta_like(result, shape)


#: which column an array's class belongs to; the CUDA backend adds its own class when it is loaded
BACKENDS: dict[type, DispatchKey] = {np.ndarray: DispatchKey.CPU, MetaArray: DispatchKey.Meta}

#: how to tell the device of an array of that class
DEVICE_OF: dict[type, Any] = {np.ndarray: lambda array: cpu, MetaArray: lambda array: meta}


def device_of(array: Any) -> device:
    """The device an array lies on."""
    return DEVICE_OF[array.__class__](array)


def meta_like(array: Any, shape: tuple[int, ...] | None = None) -> MetaArray:
    """The dtype of `array`, and its shape or another one, without data."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape if shape is None else shape).view(MetaArray)


BACKENDS[FreedArray] = DispatchKey.CPU
DEVICE_OF[FreedArray] = lambda array: array.storage.device
