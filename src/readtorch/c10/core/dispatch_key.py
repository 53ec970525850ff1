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


#: which column an array's class belongs to; the CUDA backend adds its own class when it is loaded
BACKENDS: dict[type, DispatchKey] = {np.ndarray: DispatchKey.CPU, MetaArray: DispatchKey.Meta}

#: how to tell the device of an array of that class
DEVICE_OF: dict[type, Any] = {np.ndarray: lambda array: cpu, MetaArray: lambda array: meta}


def device_of(array: Any) -> device:
    """The device an array lies on."""
    return DEVICE_OF[array.__class__](array)


def meta_like(array: Any) -> MetaArray:
    """The shape and dtype of `array`, without its data."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape).view(MetaArray)


BACKENDS[FreedArray] = DispatchKey.CPU
DEVICE_OF[FreedArray] = lambda array: array.storage.device
