# Tangled from chapters/00_tensor/15_storage.py — edit there, or here and run `readtorch sync`.
"""Storages: runs of bytes (UntypedStorage), and the deprecated face that knows a dtype (TypedStorage)."""

from __future__ import annotations

import functools
import gc
import mmap
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten.map_allocator import SharedMemory, map_file
from readtorch.c10.core import scalar_type, storage_impl
from readtorch.c10.core.device import cpu, device
from readtorch.c10.core.device_guard import device_guard, with_index
from readtorch.c10.core.dispatch_key import device_of
from readtorch.c10.core.scalar_type import dtype, to_numpy_dtype
from readtorch.c10.core.storage_impl import StorageImpl, data_address, owner_of
from readtorch.c10.core.tensor_impl import TensorImpl, wrap
from readtorch.c10.util.exception import warn_once


class UntypedStorage(StorageImpl):
    """A run of bytes: of a given size (not initialised), or from a sequence of byte values.

    `storage[i]` is a byte, `storage[a:b]` another storage on the same memory.
    """

    __slots__ = ()

    def __init__(self, *args: Any, device: Any = None) -> None:
        where = cpu if device is None else _device(device)
        if len(args) > 1 or (args and not isinstance(args[0], int | Sequence)):
            raise TypeError("UntypedStorage() takes a size in bytes or a sequence of bytes")
        given = args[0] if args else 0
        if where.type == "meta":
            super().__init__(np.broadcast_to(np.zeros((), np.uint8), (int(given),)), where)
        else:
            data = np.empty(given, np.uint8) if isinstance(given, int) else np.array(list(given), np.uint8)
            super().__init__(data, cpu)
            if where.type != "cpu":
                self.owner, self.device = _moved(data, where)

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
        if isinstance(index, slice):
            return type(self)._from_array(self.bytes()[index])
        return int(self.bytes()[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.bytes()[index] = value

    def tolist(self) -> list[int]:
        """The bytes as a list."""
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
        with device_guard(self.owner):
            self.bytes()[:] = value
        return self

    def byteswap(self, dtype: dtype) -> None:
        """Turn the order of the bytes within each element of a type; of a complex one, within both parts."""
        width = dtype.itemsize // (2 if dtype.is_complex else 1)
        if width > 1:
            rows = self.bytes()[: len(self) // width * width].reshape(-1, width)
            rows[:] = rows[:, ::-1].copy()

    def clone(self) -> UntypedStorage:
        """A copy with its own memory."""
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
        if self.device.type == "meta":
            head = "...\n"
        else:
            head = "".join(f" {byte}\n" for byte in self.bytes()[:1000].tolist())
        return f"{head}[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

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


def _meta_storage(nbytes: int) -> UntypedStorage:
    return UntypedStorage(nbytes, device="meta")


def _storage_from_bytes(data: bytes, where: str = "cpu") -> UntypedStorage:
    return UntypedStorage._from_array(np.frombuffer(bytearray(data), np.uint8)).to(device=where)


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


@functools.cache
def _storage_type_to_dtype() -> dict[str, dtype]:
    """`FloatStorage` and its relatives: the names by which files call dtypes."""
    return {
        "DoubleStorage": scalar_type.float64,
        "FloatStorage": scalar_type.float32,
        "HalfStorage": scalar_type.float16,
        "BFloat16Storage": scalar_type.bfloat16,
        "LongStorage": scalar_type.int64,
        "IntStorage": scalar_type.int32,
        "ShortStorage": scalar_type.int16,
        "CharStorage": scalar_type.int8,
        "ByteStorage": scalar_type.uint8,
        "BoolStorage": scalar_type.bool,
        "ComplexDoubleStorage": scalar_type.complex128,
        "ComplexFloatStorage": scalar_type.complex64,
    }


@functools.cache
def _dtype_to_storage_type() -> dict[dtype, str]:
    return {kind: name for name, kind in _storage_type_to_dtype().items()}


@functools.cache
def _new_dtypes() -> frozenset[dtype]:
    """The dtypes that came after storages had lost theirs, and have no class."""
    return frozenset({scalar_type.uint16, scalar_type.uint32, scalar_type.uint64})


def _warn_typed_storage() -> None:
    warn_once(
        "TypedStorage is deprecated. Tensors are backed by an UntypedStorage, to be had from tensor.untyped_storage()",
        stacklevel=3,
    )


class TypedStorage:
    """A storage with a dtype. Deprecated; kept because saved files are made of it."""

    def __init__(
        self,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: dtype | None = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        if not _internal:
            _warn_typed_storage()
        self.dtype = scalar_type.float32 if dtype is None else dtype
        if wrap_storage is not None:
            if args:
                raise RuntimeError("No positional arguments should be given when using 'wrap_storage'")
            self._untyped_storage = wrap_storage
        else:
            given = args[0] if args else 0
            kind = to_numpy_dtype(self.dtype)
            data = np.empty(given, kind) if isinstance(given, int) else np.array(list(given), kind)
            self._untyped_storage = UntypedStorage._from_array(data)

    def untyped(self) -> UntypedStorage:
        """The bytes behind it."""
        return self._untyped_storage

    @property
    def device(self) -> Any:
        """Where the bytes lie."""
        return self._untyped_storage.device

    def _typed_array(self) -> np.ndarray:
        return self._untyped_storage.bytes().view(to_numpy_dtype(self.dtype))

    def __len__(self) -> int:
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    def size(self) -> int:
        """The number of elements."""
        return len(self)

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return self._untyped_storage.data_ptr()

    def __getitem__(self, index: Any) -> Any:
        _warn_typed_storage()
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._typed_array()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        _warn_typed_storage()
        self._typed_array()[index] = value

    def tolist(self) -> list[Any]:
        """The elements as a list."""
        return self._typed_array().tolist()

    def clone(self) -> TypedStorage:
        """A copy with its own memory."""
        return type(self)(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype, _internal=True)

    def cpu(self) -> TypedStorage:
        """This storage in host memory."""
        return type(self)(wrap_storage=self._untyped_storage.cpu(), dtype=self.dtype, _internal=True)

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """This storage on a GPU."""
        moved = self._untyped_storage.cuda(device)
        return type(self)(wrap_storage=moved, dtype=self.dtype, _internal=True)

    def is_shared(self) -> bool:
        """Can other processes see it?"""
        return self._untyped_storage.is_shared()

    def resize_(self, size: int) -> None:
        """Another number of elements."""
        _warn_typed_storage()
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    def pickle_storage_type(self) -> str:
        """The name that files use for this dtype."""
        return _dtype_to_storage_type()[self.dtype]

    def __repr__(self) -> str:
        head = "".join(f" {value}\n" for value in self._typed_array()[:1000].tolist())
        kind = f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"
        return f"{head}[{kind} of size {len(self)}]"

    def __reduce__(self) -> tuple[Any, ...]:
        #: Bytes and not the storage as an object: each storage is written as often as it occurs, as upstream does it.
        return (_typed_storage, (*self._untyped_storage.__reduce__(), self.dtype))


def _typed_storage(rebuild: Callable[..., UntypedStorage], args: tuple[Any, ...], kind: dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=rebuild(*args), dtype=kind, _internal=True)
