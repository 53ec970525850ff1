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
# # Storages as objects, and how a tensor is pickled
#
# What do two processes share when they share a tensor? How can the memory of a tensor be freed while the tensor lives?
# What does pickle write? The storage that [is behind every array](02_storage_and_views.py#StorageImpl) has a public face,
# `tensor.untyped_storage()`: bytes without a dtype. It is where a tensor is shared between processes, freed behind
# everybody's back, and written to files, and where one goes to see bits. Its older relative, `TypedStorage`, has [a part
# of its own](15b_typed_storage.py).

# %%
import pickle

import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## What is a storage good for?
#
# **Identity.** Asking twice gives the same object, for every view of the memory. (`==` is Python's default, and means the
# same.) **Size.** It tells what a tensor keeps alive, as opposed to what it shows. **Bits.** It shows them below any
# dtype: is this a signalling NaN, a negative zero, a number that some other tool has written byte-swapped?

# %%
#| needs: a1_operators
x = torch.tensor([1.0, -0.0, float("nan")])
s = x.untyped_storage()
s is x[1:].untyped_storage(), [bytes(s.tolist()[i : i + 4]).hex() for i in (0, 4, 8)]

# %% [markdown]
# It is *not* good for writing. A storage knows no version counter, so whoever writes to bytes goes around autograd
# altogether.


# %%
#| needs: a1_operators
#| claim: views have one storage object; a write to its bytes is not counted and gives a wrong gradient
#| upstream: torch/storage.py#UntypedStorage
def _(torch):
    x = torch.zeros(4)
    assert x.untyped_storage() is x[2:].untyped_storage() and x.untyped_storage() is not x.clone().untyped_storage()
    leaf = torch.ones(1, requires_grad=True)
    y = leaf * 1
    z = y * y
    for place, byte in enumerate(b"\x00\x00\x00\x40"):
        y.untyped_storage()[place] = byte
    assert y.item() == 2 and y._version == 0
    z.backward()
    assert leaf.grad.item() == 4


# %% [markdown]
# The bytes of a storage may be those of a file. Pages are read when they are touched. What is written stays private, or
# reaches the file if it was opened shared.

# %%
#| into: aten/map_allocator.py
#| imports
from __future__ import annotations

import mmap
import os
import weakref

import numpy as np


# %%
#| into: aten/map_allocator.py
#| upstream: aten/src/ATen/MapAllocator.cpp#at::MapAllocator::MapAllocator
def map_file(filename: str | os.PathLike[str], shared: bool, nbytes: int) -> np.ndarray:
    """The first bytes of a file as an array. Writes reach the file if it is `shared`, which also makes it large enough."""
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < nbytes:
                file.truncate(nbytes)
    if not nbytes:
        return np.empty(0, np.uint8)
    if not os.path.exists(filename):
        raise RuntimeError(f"unable to open file <{filename}> in read-only mode: No such file or directory (2)")
    if (have := os.path.getsize(filename)) < nbytes:
        raise RuntimeError(f"file <{filename}> size <{have}> is smaller than the required mapping size <{nbytes}>")
    mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,))
    #: Through a memoryview, the new array's base is no array: it owns its bytes as far as storages are concerned.
    return np.frombuffer(mapped.data, np.uint8)


# %%
#| into: storage.py
"""Storages: runs of bytes (UntypedStorage), and the deprecated face that knows a dtype (TypedStorage)."""

# %%
#| into: storage.py
#| imports
from __future__ import annotations

import functools
import gc
import mmap
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.map_allocator import SharedMemory, map_file
from readtorch.c10.core import storage_impl
from readtorch.c10.core.device import cpu, device
from readtorch.c10.core.device_guard import device_guard
from readtorch.c10.core.device_guard import with_index
from readtorch.c10.core.dispatch_key import device_of
from readtorch.c10.core.scalar_type import dtype
from readtorch.c10.core.storage_impl import StorageImpl, data_address, owner_of
from readtorch.c10.core.tensor_impl import TensorImpl, wrap


# %% [markdown]
# The class adds the public methods to [`StorageImpl`](02_storage_and_views.py#StorageImpl). Its elements are bytes,
# whatever tensors make of them.


# %%
#| into: storage.py
#| upstream: torch/storage.py#UntypedStorage
class UntypedStorage(StorageImpl):
    """A run of bytes: of a given size (not initialised), or from a sequence of byte values.

    `storage[i]` is a byte, `storage[a:b]` another storage on the same memory.
    """

    __slots__ = ()

    def __init__(self, *args: Any, device: Any = None) -> None:
        where = cpu if device is None else _device(device)
        if len(args) > 1:
            raise TypeError("torch.UntypedStorage() takes a size in bytes or a sequence of bytes, not both")
        if where.type not in ("cpu", "cuda", "meta"):
            raise RuntimeError(f"torch.UntypedStorage(): Storage device not recognized: {where.type}")
        given = args[0] if args else 0
        if where.type == "meta":
            super().__init__(np.broadcast_to(np.zeros((), np.uint8), (int(given),)), where)
        else:
            super().__init__(_bytes_of(given), cpu)
            if where.type != "cpu":
                self.owner, self.device = _moved(self.owner, where)

    @classmethod
    def _from_array(cls, array: np.ndarray) -> UntypedStorage:
        """A storage on the bytes of a contiguous array, without a copy."""
        storage = cls.__new__(cls)
        if not isinstance(array, np.ndarray):
            storage.owner, storage.device = array, device_of(array)
            return storage
        #: Through a memoryview, the new array's base is no array: it owns its bytes as far as storages are concerned.
        storage.owner = np.frombuffer(array.data.cast("B"), np.uint8) if array.size else np.empty(0, np.uint8)
        storage.device = cpu
        return storage

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """A storage on a file's bytes. Writes reach the file if it is `shared`, which also makes it large enough."""
        return cls._from_array(map_file(filename, shared, nbytes))

    def _array(self) -> np.ndarray:
        return self.bytes()

    @property
    def _cdata(self) -> int:
        """A number that identifies the storage while it lives."""
        return id(self.owner)

    def __len__(self) -> int:
        return self.nbytes()

    def size(self) -> int:
        """Size in bytes."""
        return self.nbytes()

    def element_size(self) -> int:
        """1: the elements are bytes."""
        return 1

    def __getitem__(self, index: Any) -> Any:
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(index, slice):
            return type(self)._from_array(self.bytes()[_whole_steps(index)])
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return int(self.bytes()[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
        if not isinstance(index, slice) and not -len(self) <= index < len(self):
            raise RuntimeError(f"out of bounds: {index} of a storage of size {len(self)}")
        self.bytes()[_whole_steps(index)] = value & 0xFF

    def tolist(self) -> list[int]:
        """The bytes as a list."""
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        return self.bytes().tolist()

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> UntypedStorage:
        """Overwrite with the bytes of another storage of this size."""
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        with device_guard(self.owner):
            self.bytes()[:] = _moved(source.bytes(), self.device)[0]
        return self

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte."""
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
        if self.device.type != "meta":
            with device_guard(self.owner):
                self.bytes()[:] = value & 0xFF
        return self

    def byteswap(self, dtype: dtype) -> None:
        """Turn the order of the bytes within each element of a type; of a complex one, within both parts."""
        width = dtype.itemsize // (2 if dtype.is_complex else 1)
        if width > 1:
            rows = self.bytes()[: len(self) // width * width].reshape(-1, width)
            rows[:] = rows[:, ::-1].copy()

    def clone(self) -> UntypedStorage:
        """A copy with its own memory."""
        if self.device.type == "meta":
            return type(self)(self.nbytes(), device=self.device)
        with device_guard(self.owner):
            return type(self)._from_array(self.bytes().copy())

    def cpu(self) -> UntypedStorage:
        """This storage if it is in host memory, else a copy there."""
        return self.to(device=cpu)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """This storage if it is on that GPU, by default the current one, else a copy there."""
        return self.to(device="cuda" if device is None else device)

    @property
    def is_cuda(self) -> bool:
        """Is it in the memory of a GPU?"""
        return self.device.type == "cuda"

    def to(self, *, device: Any, non_blocking: bool = False) -> UntypedStorage:
        """This storage if it is on `device`, else a copy there."""
        target = with_index(_device(device))
        if target == self.device:
            return self
        if target.type not in ("cpu", "cuda"):
            raise AssertionError(f"{target.type.upper()} device module is not loaded")
        return type(self)._from_array(_moved(self.bytes(), target)[0])

    def is_shared(self) -> bool:
        """Can other processes see it?"""
        return _mapping_of(self.owner) is not None or _is_file(self.owner)

    def share_memory_(self) -> UntypedStorage:
        """Move the bytes to memory that other processes can have too. Tensors move along."""
        if self.device.type != "cpu":
            raise RuntimeError(f"share_memory_: memory of {self.device} cannot be shared, only that of the CPU")
        if not isinstance(_mapping_of(self.owner), SharedMemory):
            _move(self, _shared_copy(self.bytes()))
        return self

    def resizable(self) -> bool:
        """May its size change? Not that of a file's bytes."""
        return not _is_file(self.owner)

    def resize_(self, size: int, /) -> UntypedStorage:
        """Another size in bytes. What fits is kept; tensors that reach beyond the end keep their shapes and cannot be read."""
        if isinstance(size, bool) or not isinstance(size, int):
            raise RuntimeError(f"resize_ expects an int, but got {type(size).__name__}")
        if size < 0:
            raise RuntimeError(f"resize_: a storage cannot have a negative number of bytes, {size}")
        self._resize(size)
        return self

    def _resize(self, size: int, asking: Any = None) -> None:
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable: its bytes are a file's")
        if self.device.type == "meta":
            self.owner = np.broadcast_to(np.zeros((), np.uint8), (size,))
        elif size != self.nbytes():
            only = asking if asking is not None and is_alone(asking) else None
            _move(self, _resized(self.bytes(), size, self.device), only)

    def __repr__(self) -> str:
        said = _elements(None if self.device.type == "meta" else self.bytes().tolist())
        return f"{said}\n[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        return memo.setdefault(id(self), self.clone())

    def __reduce__(self) -> tuple[Any, ...]:
        if self.device.type == "meta":
            return (_meta_storage, (self.nbytes(),))
        where = () if self.device.type == "cpu" else (str(self.device),)
        return (_storage_from_bytes, (self.cpu().bytes().tobytes(), *where))

    def untyped(self) -> UntypedStorage:
        """This storage."""
        return self


storage_impl.Storage = UntypedStorage


def _moved(data: Any, where: device) -> tuple[Any, device]:
    """Bytes on a device, and the device with its number."""
    from readtorch.csrc.utils.tensor_new import place

    array = place(data, where)
    return array, device_of(array)


def _device(given: Any) -> device:
    return given if isinstance(given, device) else device(given)


def _bytes_of(given: Any) -> np.ndarray:
    """So many bytes, or these, of which each is taken modulo 256. RuntimeError for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer | Sequence):
        raise RuntimeError(f"torch.UntypedStorage(): Expected a sequence type, but got {type(given).__name__}")
    if not isinstance(given, Sequence):
        if given < 0:
            raise RuntimeError(f"torch.UntypedStorage(): a storage cannot have a negative number of bytes, {given}")
        return np.empty(given, np.uint8)
    for item in given:
        if not isinstance(item, int | np.integer):
            raise RuntimeError(
                f"torch.UntypedStorage(): tried to construct a storage from a sequence ({type(given).__name__}), "
                f"but one of the items was of type {type(item).__name__} instead of int"
            )
    return np.array([item & 0xFF for item in given], np.uint8)


def _whole_steps(index: Any) -> Any:
    if isinstance(index, slice) and index.step not in (None, 1):
        raise RuntimeError(f"Trying to slice with a step of {index.step}, but only a step of 1 is supported")
    return index


def _elements(values: list[Any] | None) -> str:
    """How a storage shows its elements: one in a line; None for a device without any."""
    return "..." if values is None else " " + "\n ".join(map(str, values))


def _meta_storage(nbytes: int) -> UntypedStorage:
    return UntypedStorage(nbytes, device="meta")


def _storage_from_bytes(data: bytes, where: str = "cpu") -> UntypedStorage:
    return UntypedStorage._from_array(np.frombuffer(bytearray(data), np.uint8)).to(device=where)


# %% [markdown]
# ## What moves when a storage moves?
#
# Upstream a tensor holds its storage, and the storage holds the bytes. Exchange the bytes, and every tensor follows,
# because all of them look through the storage. Here a tensor holds an array, and the array has the address in it. That
# saves a step in every operator, and has to be paid for when bytes move: by a walk over all objects that the garbage
# collector knows, in search of the tensors that look into this memory. It takes some milliseconds, for two methods that
# are hardly ever called. If the reference count of the bytes says that nobody else is there, nobody is looked for.


# %%
#| into: storage.py
#| upstream: c10/core/StorageImpl.h#c10::StorageImpl
def _move(storage: UntypedStorage, owner: Any, only: Any = None) -> None:
    """Let a storage have other bytes, and the tensors that look into it too; `only` that one, if it is known to be alone."""
    tensors = [only] if only is not None else _tensors_on(storage)
    views = [tensor._array for tensor in tensors]
    starts = [data_address(array) - data_address(owner_of(array)) if array.size else 0 for array in views]
    ends = [start + _extent(array) for start, array in zip(starts, views, strict=True)]
    storage_impl.exchange(storage, owner)
    reserved = None
    for tensor, array, start, end in zip(tensors, views, starts, ends, strict=True):
        if end > storage.nbytes() and reserved is None:
            reserved = storage_impl.reserve(storage, max(ends))
        memory = owner if end <= storage.nbytes() else reserved
        tensor._array = _array_on(memory, array.dtype, start, array.shape, array.strides)


def _extent(array: Any) -> int:
    """Bytes from the first element's start to the last one's end."""
    if not array.size:
        return 0
    return array.itemsize + sum((size - 1) * step for size, step in zip(array.shape, array.strides, strict=True))


def _array_on(memory: Any, kind: np.dtype, start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    if isinstance(memory, np.ndarray):
        array = np.ndarray(shape, kind, memory, start, strides)
        return storage_impl.freed(array, memory.storage) if isinstance(memory, storage_impl.FreedArray) else array
    from readtorch.csrc.utils.tensor_new import library_of

    numpy, guard = library_of(device_of(memory))
    with guard:
        elements = memory[start : start + (memory.size - start) // kind.itemsize * kind.itemsize].view(kind)
        return numpy.lib.stride_tricks.as_strided(elements, shape, strides)


def _resized(data: Any, size: int, where: device) -> Any:
    from readtorch.csrc.utils.tensor_new import library_of

    numpy, guard = library_of(where)
    with guard:
        grown = numpy.empty(size, np.uint8)
        kept = min(size, data.size)
        grown[:kept] = data[:kept]
    return grown


def _tensors_on(storage: UntypedStorage) -> list[Any]:
    """The tensors that look into a storage."""
    fresh = UntypedStorage._from_array(np.empty(storage.nbytes(), np.uint8))
    if sys.getrefcount(storage.owner) == sys.getrefcount(fresh.owner) and not storage_impl.has_freed(storage):
        return []
    found = []
    for thing in gc.get_objects():
        if issubclass(type(thing), TensorImpl):
            array = getattr(thing, "_array", None)
            if array is not None and storage_impl.looks_into(array, storage):
                found.append(thing)
    return found


def is_alone(tensor: Any) -> bool:
    """Does nothing but this tensor, and its storage, refer to the memory? A no may be wrong, a yes is not."""
    owner = owner_of(tensor._array)
    if tensor._array.__class__ is not np.ndarray:
        return False
    if tensor._array is owner:
        like = wrap(np.empty(1))
    elif tensor._array.base is owner:
        like = wrap(np.empty(2)[:1])
    else:
        return False
    del owner
    return _counts(tensor) == _counts(like)


def _counts(tensor: Any) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return sys.getrefcount(tensor._array), sys.getrefcount(storage.owner)


# %% [markdown]
# What is left of a tensor whose bytes are gone? Its shape, its strides, its place. For upstream that is nothing new,
# because a tensor never had more than that; reading it follows a null pointer. An array without memory does not exist in
# NumPy. So the tensor gets an array of zeros that nobody has touched, which takes up addresses and no memory, of a class
# that refuses to be read.


# %%
#| into: c10/core/storage_impl.py
#| upstream: c10/core/TensorImpl.h#c10::TensorImpl::data
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


# %%
#| into: c10/core/dispatch_key.py
#| imports
from readtorch.c10.core.storage_impl import FreedArray


# %%
#| into: c10/core/dispatch_key.py
#| upstream: c10/core/TensorImpl.h#c10::TensorImpl::data
BACKENDS[FreedArray] = DispatchKey.CPU
DEVICE_OF[FreedArray] = lambda array: array.storage.device


# %% [markdown]
# Fully sharded training depends on that: the parameters of a layer exist as objects all the time, and as memory only
# while the layer runs.

# %%
#| needs: a1_operators
x = torch.arange(4.0)
half, storage = x[2:], x.untyped_storage()
storage.resize_(0)
x.shape, half.storage_offset(), storage.nbytes()

# %% tags=["raises-exception"]
#| needs: a1_operators
x + 1

# %%
#| needs: a1_operators
storage.resize_(16)
x.fill_(3)
half, half.untyped_storage() is storage


# %%
#| claim: a storage can be resized to nothing and back; its tensors keep their shapes, and see what is written afterwards
#| needs: a1_operators
#| upstream: torch/storage.py#_StorageBase.resize_
def _(torch):
    x = torch.ones(4)
    view = x[1:]
    x.untyped_storage().resize_(0)
    assert x.shape == (4,) and x.untyped_storage().nbytes() == 0
    x.untyped_storage().resize_(16)
    assert x.fill_(3).sum().item() == 12 and view.tolist() == [3, 3, 3]


# %%
#| claim: a tensor that is resized beyond its storage makes the storage larger, for all that look into it; a smaller one leaves it as it is
#| needs: a1_operators
#| upstream: aten/src/ATen/native/Resize.h#at::native::maybe_resize_storage_cpu
def _(torch):
    x = torch.arange(4.0)
    view = x[2:]
    assert x.resize_(2).untyped_storage().nbytes() == 16
    assert x.resize_(8).untyped_storage() is view.untyped_storage() and view.untyped_storage().nbytes() == 32
    x[3] = 9
    assert view.tolist() == [2, 9]


# %% [markdown]
# Upstream, reading such a tensor at the wrong moment is a crash, or an error from deep inside about a tensor whose shape
# looks perfectly good. One thing is different here: what the graph has saved for backward is an array, and keeps the old
# bytes alive until it has been used.
#
# ## What do two processes share?
#
# The bytes, and nothing else. `share_memory_()` moves the bytes to a mapping that other processes can have too. Shape,
# strides, `requires_grad`, the version counter and `.grad` belong to each process's own tensor object. A write in one
# process changes numbers in the other, under a graph that has no way to know.
#
# A process that is forked afterwards has the mapping with everything else. Any other process must be given something to
# map. Upstream's default on Linux, and what is done here, is a *file descriptor* of a file that has no name, passed
# through a socket. Nothing can be left behind, and the memory is gone with the last process that has it. But each storage
# is then an open file. A loader that collects many small tensors runs into the limit of open files, and the message,
# *received 0 items of ancdata*, is what Python says when a socket had a descriptor to deliver and the process no room for
# it (pytorch/pytorch#973). The strategy `file_system` passes names instead, and leaves files behind when a process is
# killed; a helper process (`torch_shm_manager`) is there to sweep.
#
# When the table of open files is full, or the system has no such files, the mapping made here is anonymous: forked
# processes share it and no others, and [sending it](../05_data/3b_crossing.py) is refused. Python's `mmap` holds a
# duplicate of the descriptor, so a storage counts twice.


# %%
#| into: aten/map_allocator.py
#| upstream: aten/src/ATen/MapAllocator.h#at::MapAllocator
class SharedMemory(mmap.mmap):
    """Memory without a name. Processes forked later share it, and those that are given its descriptor."""

    #: -1 for memory that only forked processes can share
    descriptor = -1

    @classmethod
    def of_size(cls, nbytes: int) -> SharedMemory:
        """New memory, full of zeros."""
        descriptor = -1
        try:
            descriptor = os.memfd_create("readtorch")
            os.ftruncate(descriptor, nbytes)
            return cls.behind(descriptor)
        except (AttributeError, OSError):
            if descriptor >= 0:
                os.close(descriptor)
            return cls(-1, nbytes)

    @classmethod
    def behind(cls, descriptor: int) -> SharedMemory:
        """What a descriptor stands for; it belongs to the mapping from now on."""
        memory = cls(descriptor, 0)
        memory.descriptor = descriptor
        weakref.finalize(memory, os.close, descriptor).atexit = False
        return memory


# %%
#| into: storage.py
def _shared_copy(data: np.ndarray) -> np.ndarray:
    if not data.size:
        return data
    shared = np.frombuffer(SharedMemory.of_size(data.nbytes), np.uint8)
    shared[:] = data
    return shared


def _mapping_of(owner: Any) -> mmap.mmap | None:
    """The mapping that an array of bytes looks into."""
    base = getattr(owner, "base", None)
    memory = base.obj if isinstance(base, memoryview) else base
    return memory if isinstance(memory, mmap.mmap) else None


def _is_file(owner: Any) -> bool:
    """Are these bytes mapped from a file with a name?"""
    while (base := getattr(owner, "base", None)) is not None or isinstance(owner, memoryview):
        owner = owner.obj if isinstance(owner, memoryview) else base
        if isinstance(owner, np.memmap):
            return True
    return False


# %%
#| claim: a forked process writes to shared memory for both, to other memory for itself; the parent's version counter knows nothing of it
#| upstream: torch/storage.py#_StorageBase.share_memory_
def _(torch):
    import os
    import warnings

    shared, own = torch.zeros(2).share_memory_(), torch.zeros(2)
    assert shared.is_shared() and not own.is_shared()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        shared.fill_(5)
        own.fill_(5)
        os._exit(0)
    os.waitpid(child, 0)
    assert shared.tolist() == [5, 5] and own.tolist() == [0, 0] and shared._version == 0


# %%
#| needs: a1_operators
#| claim: `share_memory_` moves the storage, so that all views made before move along
#| upstream: torch/storage.py#_StorageBase.share_memory_
def _(torch):
    x = torch.ones(4)
    view = x[1:]
    x.share_memory_()
    x[1] = 5
    assert view[0].item() == 5 and view.is_shared()


# %%
#| claim: a storage on a file, opened shared, writes to the file
#| upstream: torch/storage.py#_StorageBase.from_file
def _(torch):
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        storage = torch.UntypedStorage.from_file(file.name, shared=True, nbytes=8)
        tensor = torch.empty(0).set_(storage, 0, (2,), (1,))
        tensor.fill_(1)
        del tensor, storage
        assert file.read().hex() == "0000803f" * 2


# %% [markdown]
# `torch.load(…, mmap=True)` is made of this: a checkpoint is opened, not read, and pages come in as they are touched.
#
# The class must be known before the first tensor is asked for its storage, so `_tensor` imports the module.

# %%
#| into: _tensor.py
#| imports
from readtorch import storage as storage

# %% [markdown]
# ## What does pickle write for a tensor?
#
# A function and its arguments: the storage, where in it the tensor begins, shape, strides, and whether it wants
# gradients.

# %%
x = torch.arange(6.0).reshape(2, 3).t()
function, arguments = x.__reduce_ex__(2)
function.__name__, arguments[1:]

# %% [markdown]
# `torch.save` puts a reference in the storage's place, one for each piece of memory, so two views are views of one memory
# again after loading. Plain `pickle` has no such list: each tensor brings a copy of its whole storage, and what was
# shared is not any more. (Upstream's pickle of a storage is a `torch.save` archive, as a string within the pickle, and
# unpickling it calls `torch.load` *without* the safe mode. A pickle of tensors from a stranger is as dangerous as any
# pickle.)
#
# The arguments come from a file, so they are checked: a shape and strides that reach beyond the storage would read other
# people's memory. Upstream does not read it either. It makes the storage larger, and the new part is whatever the
# allocator had at hand: a damaged file loads, with noise in it.

# %%
#| into: _utils.py
#| imports
from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


# %%
#| into: _utils.py
#| upstream: torch/_utils.py#_rebuild_tensor
def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Any:
    """A tensor on a typed storage. RuntimeError if it would reach outside."""
    from readtorch.c10.core.scalar_type import to_numpy_dtype
    from readtorch.c10.core.tensor_impl import wrap
    from readtorch.csrc.autograd.python_variable_methods import array_of_storage
    from readtorch.csrc.utils.tensor_new import finish

    size, stride = tuple(size), tuple(stride)
    numbers = (storage_offset, *size, *stride)
    if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in numbers):
        raise RuntimeError(f"a tensor cannot have offset {storage_offset!r}, size {size!r} and stride {stride!r}")
    untyped, itemsize = storage._untyped_storage, storage.dtype.itemsize
    needed = 0 if 0 in size else storage_offset + 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if needed * itemsize > untyped.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(size)} with strides {list(stride)} from offset {storage_offset} (itemsize "
            f"{itemsize}) need {needed * itemsize} bytes, and are out of bounds for storage of size {untyped.nbytes()}"
        )
    if untyped.device.type == "meta":
        return wrap(array_of_storage(untyped, to_numpy_dtype(storage.dtype), storage_offset, size, stride))
    kind = to_numpy_dtype(storage.dtype)
    if not needed:
        return finish(np.empty(size, kind), untyped.device)
    return wrap(array_of_storage(untyped, kind, storage_offset, size, stride))


# %%
#| into: _utils.py
#| upstream: torch/_utils.py#_rebuild_tensor_v2
def _rebuild_tensor_v2(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: OrderedDict[int, Any],
    metadata: Any = None,
) -> Any:
    """What pickles since 0.4 call. Hooks are not restored; they were never meant to be saved."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    #: What upstream notes on a tensor and has not yet done to its elements.
    if isinstance(metadata, dict) and metadata.get("conj"):
        tensor = tensor.conj().resolve_conj()
    if isinstance(metadata, dict) and metadata.get("neg"):
        tensor = -tensor
    if requires_grad:
        tensor.requires_grad_()
    return tensor


def _rebuild_tensor_v3(
    storage: Any,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
    backward_hooks: OrderedDict[int, Any],
    dtype: Any,
    metadata: Any = None,
) -> Any:
    """The same for a dtype that no storage class is named after: the storage is bytes, and the dtype is an argument."""
    from readtorch.c10.core import scalar_type
    from readtorch.storage import TypedStorage

    if not isinstance(dtype, scalar_type.dtype):
        raise RuntimeError(f"a tensor cannot have the dtype {dtype!r:.80}")
    untyped = getattr(storage, "_untyped_storage", storage)
    typed = TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)
    return _rebuild_tensor_v2(typed, storage_offset, size, stride, requires_grad, backward_hooks)


def _rebuild_sparse_tensor(layout: Any, data: tuple) -> Any:
    """A tensor of a list of places and values. RuntimeError if they do not belong together."""
    from readtorch import sparse_coo, sparse_coo_tensor

    if layout is not sparse_coo or len(data) not in (3, 4):
        raise NotImplementedError(f"rebuilding sparse tensor for layout {layout!r:.40}: readtorch has sparse_coo alone")
    #: Files from before the flag was written have three parts.
    indices, values, size, *coalesced = data
    return sparse_coo_tensor(indices, values, size, check_invariants=True, is_coalesced=any(coalesced) or None)


def _rebuild_meta_tensor_no_storage(dtype: Any, size: Sequence[int], stride: Sequence[int], requires_grad: bool) -> Any:
    """A tensor on the meta device: there are no elements, so a file needs no record for them."""
    from readtorch import empty_strided
    from readtorch.c10.core import scalar_type

    size, stride = tuple(size), tuple(stride)
    if not isinstance(dtype, scalar_type.dtype) or len(size) != len(stride):
        raise RuntimeError(f"a tensor cannot have dtype {dtype!r:.80}, size {size!r:.80} and stride {stride!r:.80}")
    return empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def _reduce_tensor(tensor: Any) -> tuple[Callable[..., Any], tuple]:
    """Function and arguments that rebuild `tensor`. RuntimeError for one that is not a leaf."""
    from readtorch.storage import TypedStorage, _new_dtypes

    if tensor.requires_grad:
        from readtorch.utils.hooks import warn_if_has_hooks

        warn_if_has_hooks(tensor)
    if tensor.is_sparse:
        parts = (tensor._indices(), tensor._values(), tensor.size(), tensor.is_coalesced())
        return _rebuild_sparse_tensor, (tensor.layout, parts)
    offset, size, stride = tensor.storage_offset(), tuple(tensor.size()), tuple(tensor.stride())
    if tensor.device.type == "meta":
        from readtorch.serialization import _serialization_tls

        if _serialization_tls.skip_data:
            warnings.warn(
                "Serializing tensors on the meta device under skip_data context manager is a no-op", stacklevel=3
            )
        return _rebuild_meta_tensor_no_storage, (tensor.dtype, size, stride, tensor.requires_grad)
    hooks: OrderedDict[int, Any] = OrderedDict()
    if tensor.dtype in _new_dtypes():
        untyped = tensor.untyped_storage()
        return _rebuild_tensor_v3, (untyped, offset, size, stride, tensor.requires_grad, hooks, tensor.dtype)
    storage = TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)
    return _rebuild_tensor_v2, (storage, offset, size, stride, tensor.requires_grad, hooks)


# %% [markdown]
# A tensor with attributes, or of a subclass, is rebuilt as a plain one first. The function stands in `_tensor.py` because files name it there.


# %%
#| into: _tensor.py
#| upstream: torch/_tensor.py#_rebuild_from_type_v2
def _rebuild_from_type_v2(function: Callable[..., Any], new_type: type, args: tuple, state: Any) -> Any:
    """A tensor of a subclass, or one with attributes: rebuilt by `function(*args)`, then given its class and state."""
    result = function(*args)
    if type(result) is not new_type:
        result = result.as_subclass(new_type)
    if isinstance(state, dict):
        result.__dict__.update(state)
    elif hasattr(result, "__setstate__"):
        result.__setstate__(state)
    return result


# %%
#| claim: a tensor that does not fit its storage makes the storage larger when it is rebuilt
#| differs: readtorch refuses it
#| upstream: torch/_utils.py#_rebuild_tensor
def _(torch):
    import importlib

    rebuild = importlib.import_module(f"{torch.__name__}._utils")._rebuild_tensor_v2
    storage = torch.zeros(4).storage()
    assert storage.nbytes() == 16
    assert rebuild(storage, 1, (3, 2), (2, 1), False, None).shape == (3, 2) and storage.nbytes() == 28


# %%
#| into: _utils.py
#| upstream: torch/storage.py#_StorageBase.share_memory_
def _share_memory(tensor: Any) -> None:
    """Move the tensor's storage to shared memory."""
    from readtorch.storage import SharedMemory, _mapping_of, _move, _shared_copy, is_alone

    storage = tensor.untyped_storage()
    #: Other processes can open a GPU's memory. A loader's batch is shared, but its memory will be used again: it moves too.
    if storage.device.type != "cpu" or isinstance(_mapping_of(storage.owner), SharedMemory):
        return
    only = tensor if is_alone(tensor) else None
    _move(storage, _shared_copy(storage.bytes()), only)


def _is_shared(tensor: Any) -> bool:
    return tensor.untyped_storage().is_shared()


# %% [markdown]
# The round trip. What is not in the arguments is lost: the version, `.grad`, the graph, hooks (with a warning upstream,
# since nobody could have meant to send them).

# %%
#| needs: a1_operators
#| trace: torch._tensor torch._utils torch.storage layers=calls values=summary title="pickle, there and back"
again = pickle.loads(pickle.dumps(x))

# %%
#| needs: a1_operators
again, again.stride() == x.stride()

# %%
#| needs: a1_operators
x = torch.arange(1000.0)
len(pickle.dumps(x)), len(pickle.dumps(x[:1]))


# %%
#| claim: pickle writes the whole storage for every view of it, and the views no longer share memory afterwards
#| needs: a1_operators
def _(torch):
    import pickle

    x = torch.arange(1000.0)
    assert len(pickle.dumps(x[:1])) > 4000
    a, b = pickle.loads(pickle.dumps([x, x[1:]]))
    a[1] = 9.0
    assert b[0].item() == 1.0


# %% [markdown]
# The answer to both is to clone before you pickle: `x[:1].clone()` has a storage of its own, of four bytes.

# %% [markdown]
# ## What is `torch.utils`?
#
# A drawer. Its sub-packages have little in common, and some of them are large, so each is imported when it is first named.

# %%
#| into: utils/__init__.py
import importlib as _importlib
from typing import Any as _Any

_MODULES = ["hooks"]


def __getattr__(name: str) -> _Any:
    """Import the sub-package `name`. AttributeError if there is none."""
    if name not in _MODULES:
        raise _importlib.import_module("readtorch._not_here").missing("torch.utils", name)
    return _importlib.import_module(f"readtorch.utils.{name}")


# %% [markdown]
# ### What upstream does more
#
# * A storage's bytes may be mapped lazily, allocated by a plugin, copied at the first write (`COW`), or live on a device; each storage knows the function that frees it.
# * CUDA tensors cross between processes as IPC handles, with a reference counter in shared memory so that the giver keeps the block alive.
# * `torch.serialization` can write to and load from any file object, maps devices, and knows aligned records (chapter 2 has the format).

# %%
#| fact: torch/multiprocessing/reductions.py#reduce_tensor
#| fact: torch/multiprocessing/__init__.py#set_sharing_strategy
#| fact: aten/src/ATen/MapAllocator.h#at::MapAllocator
#| fact: torch/storage.py#_load_from_bytes
