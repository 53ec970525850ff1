# Tangled from chapters/00_tensor/03a_meta.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from readtorch.c10.core.device import device
from readtorch.c10.core.dispatch_key import MetaArray, meta_array

NOTHING: AbstractContextManager[Any] = nullcontext()

#: for a class of arrays, how to make their device the current one; the CUDA backend adds its own
GUARDS: dict[type, Callable[[Any], AbstractContextManager[Any]]] = {}


#: for a class of arrays, the current stream of their device; the CUDA backend adds its own
STREAMS: dict[type, Callable[[Any], Any]] = {}

#: for a class of arrays, the context for a node of a backward pass: (stream of the forward, gradient); the CUDA backend adds its own
BACKWARD: dict[type, Callable[[Any, Any], AbstractContextManager[Any]]] = {}


#: the current device of a kind; the CUDA backend adds its own
CURRENT: dict[str, Callable[[], int]] = {}


def with_index(wanted: device) -> device:
    """The device with its number: where none is given, the current one is meant."""
    if wanted.index is not None or wanted.type not in CURRENT:
        return wanted
    return device(wanted.type, CURRENT[wanted.type]())


#: how an array of a class gets to the host, which has to wait for it; the CUDA backend adds its own
TO_HOST: dict[type, Callable[[Any], Any]] = {}


def on_host(array: Any) -> Any:
    """The array, or its copy on the host."""
    mover = TO_HOST.get(array.__class__)
    return array if mover is None else mover(array)


#: for a class of arrays, a 0-d array of a number on the device of another array; the CUDA backend adds its own
NUMBERS: dict[type, Callable[[Any, np.dtype, Any], Any]] = {
    MetaArray: lambda value, dtype, like: meta_array((), np.asarray(value, dtype).dtype)
}


def number_beside(value: Any, dtype: np.dtype, like: Any) -> Any:
    """A number as a 0-d array on the device of `like`, without a copy over the bus."""
    make = NUMBERS.get(like.__class__)
    return np.asarray(value, dtype) if make is None else make(value, dtype, like)


def device_guard(array: Any) -> AbstractContextManager[Any]:
    """The context in which an array's device is the current one. NumPy's have none to choose."""
    guard = GUARDS.get(array.__class__)
    return NOTHING if guard is None else guard(array)
