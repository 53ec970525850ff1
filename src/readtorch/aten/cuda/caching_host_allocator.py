# Tangled from chapters/01_import/d6_cuda_backend.py — edit there, or here and run `readtorch sync`.
"""Page-locked memory of the host (twin of `aten/src/ATen/cuda/CachingHostAllocator.h`)."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from readtorch.c10.core.storage_impl import owner_of
from readtorch.c10.cuda.cuda_functions import is_simulated, library

_pinned: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()
_in_flight: list[tuple[Any, np.ndarray]] = []


def empty_pinned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Uninitialised page-locked memory as an array of the host."""
    library()
    if is_simulated():
        from readtorch.c10.cuda.simulated.runtime import empty_pinned as simulated

        array = simulated(shape, dtype)
    else:
        import cupyx

        array = cupyx.empty_pinned(shape, dtype)
    owner = owner_of(array)
    _pinned[id(owner)] = owner
    return array


def pin(array: np.ndarray) -> np.ndarray:
    """A copy in page-locked memory; the array itself if it is there."""
    if is_pinned(array):
        return array
    copy = empty_pinned(array.shape, array.dtype)
    copy[...] = array
    return copy


def is_pinned(array: Any) -> bool:
    """Does an array of the host lie in page-locked memory?"""
    if not isinstance(array, np.ndarray):
        return False
    owner = owner_of(array)
    return _pinned.get(id(owner)) is owner


def keep_until(event: Any, array: np.ndarray) -> None:
    """The device may read `array` until `event` comes: hold it that long."""
    _in_flight[:] = [(earlier, held) for earlier, held in _in_flight if not _come(earlier)]
    _in_flight.append((event, array))


def _come(event: Any) -> bool:
    seen = getattr(event, "seen", None)
    return event.done if seen is None else seen
