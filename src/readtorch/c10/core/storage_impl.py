# Tangled from chapters/00_tensor/02_storage_and_views.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from readtorch.c10.core.device import cpu, device


class StorageImpl:
    """A flat run of bytes. `owner` is the array that owns them; every view's array leads to it through `.base`."""

    __slots__ = ("__weakref__", "device", "owner")

    def __init__(self, owner: Any, where: device = cpu) -> None:
        self.owner = owner
        self.device = where

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return data_address(self.owner)

    def nbytes(self) -> int:
        """Size in bytes."""
        return int(self.owner.nbytes)

    def bytes(self) -> np.ndarray:
        """The bytes as a flat uint8 array that shares the memory."""
        owner = self.owner
        if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
            raise RuntimeError("this storage wraps a strided array that owns no contiguous memory")
        return owner.reshape(-1, order="A").view(np.uint8)


#: the class of every storage that is handed out; `storage` puts `UntypedStorage` here when it is imported
Storage: type[StorageImpl] = StorageImpl
_alive: weakref.WeakValueDictionary[int, StorageImpl] = weakref.WeakValueDictionary()


def owner_of(array: Any) -> Any:
    """The array that owns the memory `array` looks into."""
    kinds = (np.ndarray, array.__class__)
    while (base := array.base) is not None:
        if not isinstance(base, kinds):
            base = getattr(base, "base", None)  # as_strided puts an object of its own between
            if not isinstance(base, kinds):
                break
        array = base
    return _BASES.get(id(array), array)


#: for arrays whose library does not say what they look into
_BASES: dict[int, Any] = {}


def remember_base(view: Any, base: Any) -> None:
    """Let `owner_of(view)` be `base`."""
    _BASES[id(view)] = base
    weakref.finalize(view, _BASES.pop, id(view)).atexit = False


def storage_of(array: Any, where: device) -> StorageImpl:
    """The storage behind an array: the same object for all views of it, as long as somebody holds it."""
    owner = owner_of(array)
    found = _alive.get(id(owner))
    if found is None or found.owner is not owner:
        found = _alive[id(owner)] = Storage.__new__(Storage)
        found.owner, found.device = owner, where
    return found


def data_address(array: Any) -> int:
    """Address of an array's first element."""
    host = getattr(array, "__array_interface__", None)
    return int(array.data.ptr if host is None else host["data"][0])
