# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`.

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
        """Address of the first byte; 0 if there is none."""
        return data_address(self.owner) if self.owner.nbytes else 0

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
    if array.__class__ is FreedArray:
        return array.storage
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


class FreedArray(np.ndarray):
    """Shape, strides and place of a tensor whose bytes have been given up. `storage` is where they will be again, if at all."""

    storage: StorageImpl

    def __array_finalize__(self, source: Any) -> None:
        if source.__class__ is FreedArray:
            self.storage = source.storage

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        raise _without_bytes()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in _LOOKS:
            raise _without_bytes()
        return super().__array_function__(function, types, args, kwargs)


def _without_bytes() -> RuntimeError:
    return RuntimeError(
        "The tensor has a non-zero number of elements, but its data is not allocated: its storage was resized, and is too "
        "small for it. Give the storage its size back with resize_()"
    )


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise _without_bytes()


#: functions that compute with shapes, and methods that give views
_LOOKS = {np.broadcast_to, np.expand_dims, np.moveaxis, np.ndim, np.reshape, np.shape, np.size, np.squeeze, np.swapaxes}
_LOOKS |= {np.empty_like, np.lib.stride_tricks.as_strided, np.result_type, np.transpose}
_VIEWS = {"diagonal", "reshape", "squeeze", "swapaxes", "transpose", "view"}
_PUBLIC = [name for name in dir(np.ndarray) if name[0] != "_" and callable(getattr(np.ndarray, name))]
for _name in (*_PUBLIC, "__bool__", "__complex__", "__copy__", "__deepcopy__", "__float__", "__int__", "__setitem__"):
    if _name not in _VIEWS:
        setattr(FreedArray, _name, _refuse)


def reserve(storage: StorageImpl, nbytes: int) -> FreedArray:
    """Room for tensors that reach beyond the end of their storage."""
    room = _rooms[id(storage)] = np.zeros(nbytes, np.uint8)
    room.flags.writeable = False
    return freed(room, storage)


_rooms: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()


def has_freed(storage: StorageImpl) -> bool:
    """Are there tensors that reach beyond the end of a storage?"""
    return id(storage) in _rooms


def freed(array: np.ndarray, storage: StorageImpl) -> FreedArray:
    """`array` as one whose elements are in a storage that is too small."""
    view = array.view(FreedArray)
    view.storage = storage
    return view


def looks_into(array: Any, storage: StorageImpl) -> bool:
    """Is this the memory, or the place, of an array?"""
    return array.storage is storage if array.__class__ is FreedArray else owner_of(array) is storage.owner


def exchange(storage: StorageImpl, owner: Any) -> None:
    """Let a storage own other bytes."""
    _alive.pop(id(storage.owner), None)
    storage.owner = owner
    _alive[id(owner)] = storage
