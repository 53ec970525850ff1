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
# # Typed storages: the class that cannot die
#
# Why does a checkpoint written today say `torch.FloatStorage`, a class that warns of its own deprecation? Once a storage
# had a type, and there was one class for each: `FloatStorage`, `HalfStorage`, `cuda.LongStorage`. Two things are left of
# them: one class that wraps bytes and a dtype, and the old names, by which every file says what its bytes are. To read a
# file means to map the name back to a dtype; to write one means to go on using the name. This part is for looking up.

# %%
import warnings

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## What do bytes know of numbers?
#
# Not much, but some methods of untyped storages want a dtype. `from_buffer` reads numbers that may be in the other byte
# order. `float()` and its relatives take each *byte* for a number and convert it. `type` makes a storage of another class
# by its size, which is why it works only for classes of one byte.

# %%
#| into: storage.py
#| imports
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, ParamSpec, TypeVar

from readtorch.c10.core import scalar_type
from readtorch.c10.core.default_dtype import get_default_dtype
from readtorch.c10.core.scalar_type import dtype, to_numpy_dtype


# %%
#| into: storage.py
#| upstream: torch/storage.py#_StorageBase
class UntypedStorage(UntypedStorage):
    is_sparse = False
    is_sparse_csr = False

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        dtype: Any = None,
    ) -> UntypedStorage:
        """A copy of `count` elements of a dtype, from byte `offset` on; all that follow, if `count` is negative.

        `byte_order` is "native", "big" or "little"; types of one byte need none. ValueError where the buffer is too short.
        """
        if not isinstance(dtype, scalar_type.dtype):
            raise RuntimeError(f"argument 'dtype' must be torch.dtype, and cannot be None; got {type(dtype).__name__}")
        if byte_order is None and dtype not in (scalar_type.uint8, scalar_type.int8):
            raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
        if byte_order not in (None, "native", "big", "little"):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
        given = np.frombuffer(buffer, np.uint8) if len(memoryview(buffer)) else np.empty(0, np.uint8)
        if not 0 <= offset <= given.size:
            raise ValueError(
                f"offset must be non-negative and no greater than buffer length ({given.size}), but got {offset}"
            )
        left = given.size - offset
        if count < 0 and left % dtype.itemsize:
            raise ValueError(f"buffer size ({given.size}) must be a multiple of element size ({dtype.itemsize})")
        if count * dtype.itemsize > left:
            raise ValueError(f"buffer has only {left} elements after offset {offset}, but specified a size of {count}")
        found = given[offset:] if count < 0 else given[offset : offset + count * dtype.itemsize]
        storage = cls._from_array((found != 0).astype(np.uint8) if dtype is scalar_type.bool else found.copy())
        if byte_order not in (None, "native", sys.byteorder):
            storage.byteswap(dtype)
        return storage

    def new(self) -> UntypedStorage:
        """An empty storage on the same device."""
        return type(self)(device=self.device)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class; with a class or its name, a copy in a storage of that class and of as many elements as there are bytes."""
        from readtorch._utils import _type

        return _type(self, dtype, non_blocking)

    def get_device(self) -> int | None:
        """The number of the device, None for the CPU."""
        return self.device.index

    def hpu(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """AssertionError: there is no such device here."""
        return self.to(device="hpu")

    def mps(self) -> UntypedStorage:
        """RuntimeError: there is no such device here."""
        return type(self)(self.nbytes(), device="mps")

    @property
    def is_hpu(self) -> bool:
        """Is it on such a device? It never is."""
        return self.device.type == "hpu"

    @property
    def filename(self) -> str | None:
        """The file whose bytes these are, None if there is none."""
        return _file_of(self.owner)

    def is_pinned(self, device: Any = None) -> bool:
        """Does it lie in page-locked memory?"""
        return bool(_tensor_on(self, scalar_type.uint8).is_pinned(device))

    def pin_memory(self, device: Any = None) -> UntypedStorage:
        """A copy in page-locked memory. RuntimeError where no device could read it, TypeError unless it is in host memory."""
        if self.device.type != "cpu":
            raise TypeError(f"cannot pin '{self.type()}' only CPU memory can be pinned")
        return _tensor_on(self, scalar_type.uint8).pin_memory(device).untyped_storage()

    def __iter__(self) -> Iterator[int]:
        return iter(self[place] for place in range(self.nbytes()))

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self.nbytes()


# %%
#| into: storage.py
def _tensor_on(storage: UntypedStorage, kind: dtype) -> Any:
    """A tensor of one dimension that looks at all of a storage."""
    from readtorch.csrc.autograd.python_variable_methods import array_of_storage

    return wrap(array_of_storage(storage, to_numpy_dtype(kind), 0, (storage.nbytes() // kind.itemsize,), (1,)))


def _file_of(owner: Any) -> str | None:
    while (base := getattr(owner, "base", None)) is not None or isinstance(owner, memoryview):
        owner = owner.obj if isinstance(owner, memoryview) else base
        if isinstance(owner, np.memmap):
            return None if owner.filename is None else str(owner.filename)
    return None


# %%
#| into: _utils.py
#| imports
from importlib import import_module


# %%
#| into: _utils.py
#| upstream: torch/_utils.py#_type
def _type(storage: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """What `storage.type()` does for bytes."""
    if dtype is None:
        return f"torch.{type(storage).__module__.partition('.')[2]}.{type(storage).__name__}"
    if isinstance(dtype, str):
        dtype = _import_dotted_name(dtype)
    if dtype is type(storage):
        return storage
    if not isinstance(dtype, type):
        raise AttributeError(f"type() takes a class of storages or its name, and {dtype!r} is neither")
    return dtype(storage.size()).copy_(storage, non_blocking)


def _import_dotted_name(name: str) -> Any:
    """What `torch.cuda.FloatStorage` stands for."""
    found: Any = import_module("readtorch")
    for word in name.split(".")[1:]:
        found = getattr(found, word)
    return found


# %%
#| claim: a storage reads numbers of either order of bytes, and bytes become numbers one by one
#| upstream: torch/storage.py#_StorageBase.from_buffer
def _(torch):
    two = b"\x00\x01\x00\x02"
    big = torch.UntypedStorage.from_buffer(two, "big", dtype=torch.int16)
    assert torch.empty(0, dtype=torch.int16).set_(big, 0, (2,)).tolist() == [1, 2]
    assert torch.UntypedStorage.from_buffer(two, "big", 1, 2, torch.int16).nbytes() == 2
    assert torch.UntypedStorage([1, 2, 3]).type() == "torch.storage.UntypedStorage"


# %% [markdown]
# ## What is a `TypedStorage`?
#
# A storage and a dtype beside it. It knows how many elements there are and what they are; whatever reads or writes them
# makes a tensor on the bytes and asks that. Each method says once per process that the class is deprecated. Those that
# the library itself needs have a twin with an underscore that does not.


# %%
#| into: storage.py
#| upstream: torch/storage.py#_storage_type_to_dtype_map
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


def _get_dtype_from_pickle_storage_type(pickle_storage_type: str) -> dtype:
    """The dtype of `FloatStorage`. KeyError for a name that no class had."""
    try:
        return _storage_type_to_dtype()[pickle_storage_type]
    except KeyError as error:
        raise KeyError(f'pickle storage type "{pickle_storage_type}" is not recognized') from error


_said: list[bool] = []


def _warn_typed_storage() -> None:
    if not _said:  # once, `set_warn_always` or not
        _said.append(True)
        warnings.warn(
            "TypedStorage is deprecated. Tensors are backed by an UntypedStorage, to be had from tensor.untyped_storage()",
            stacklevel=4,
        )


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _deprecated(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """The method, which first says that its class is deprecated."""

    @functools.wraps(method)
    def warning(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        _warn_typed_storage()
        return method(*args, **kwargs)

    return warning


# %%
#| into: storage.py
#| upstream: torch/storage.py#TypedStorage
class TypedStorage:
    """A storage with a dtype. Deprecated; kept because saved files are made of it.

    Of a number of elements, of a sequence of them, or around an untyped storage, which then needs a dtype.
    """

    is_sparse = False

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
        if wrap_storage is not None:
            self.dtype, self._untyped_storage = _wrapped(args, wrap_storage, dtype, device)
            return
        self.dtype = get_default_dtype() if dtype is None else dtype
        where = cpu if device is None else _device(device)
        if len(args) > 1:
            _refuse("TypedStorage.__init__", RuntimeError, "Too many positional arguments")
        given = args[0] if args else 0
        if isinstance(given, int | np.integer):
            self._untyped_storage = UntypedStorage(int(given) * self.dtype.itemsize, device=where)
        elif isinstance(given, Sequence):
            from readtorch import tensor

            self._untyped_storage = tensor(given, dtype=self.dtype, device=where).untyped_storage()
        else:
            _refuse("TypedStorage.__init__", TypeError, f"Argument type not recognized: {type(given)}")

    def _new_wrapped_storage(self, storage: UntypedStorage) -> TypedStorage:
        return type(self)(wrap_storage=storage, dtype=self.dtype, _internal=True)

    @property
    def _dtype(self) -> Any:
        return self.dtype

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    @property
    def filename(self) -> str | None:
        """The file whose bytes these are, None if there is none."""
        return self._untyped_storage.filename

    @property
    @_deprecated
    def device(self) -> Any:
        """Where the bytes lie."""
        return self._untyped_storage.device

    @property
    @_deprecated
    def is_cuda(self) -> bool:
        """Is it in the memory of a GPU?"""
        return self._untyped_storage.is_cuda

    @property
    @_deprecated
    def is_hpu(self) -> bool:
        """Is it on such a device? It never is."""
        return self._untyped_storage.is_hpu

    @_deprecated
    def untyped(self) -> UntypedStorage:
        """The bytes behind it."""
        return self._untyped_storage

    def _size(self) -> int:
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    def _nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def _element_size(self) -> int:
        return self.dtype.itemsize

    def _data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def _is_shared(self) -> bool:
        return self._untyped_storage.is_shared()

    @_deprecated
    def __len__(self) -> int:
        return self._size()

    @_deprecated
    def size(self) -> int:
        """The number of elements."""
        return self._size()

    @_deprecated
    def nbytes(self) -> int:
        """Size in bytes."""
        return self._nbytes()

    @_deprecated
    def element_size(self) -> int:
        """Bytes of an element."""
        return self._element_size()

    @_deprecated
    def data_ptr(self) -> int:
        """Address of the first byte."""
        return self._data_ptr()

    @_deprecated
    def get_device(self) -> int | None:
        """The number of the device, None for the CPU."""
        return self._untyped_storage.get_device()

    @_deprecated
    def is_shared(self) -> bool:
        """Can other processes see it?"""
        return self._is_shared()

    @_deprecated
    def resizable(self) -> bool:
        """May its size change?"""
        return self._untyped_storage.resizable()

    def _getitem(self, index: Any) -> Any:
        if self._untyped_storage.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if type(index) is not int:
            wrong = TypeError if isinstance(index, bool) else RuntimeError
            raise wrong(f"can't index a {type(self)} with {type(index)}")
        if not -self._size() <= index < self._size():
            raise IndexError(f"index {index} out of range for storage of size {self._size()}")
        return _tensor_on(self._untyped_storage, self.dtype)[index].item()

    def _setitem(self, index: Any, value: Any) -> None:
        if not isinstance(index, int | slice):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if isinstance(value, UntypedStorage | TypedStorage):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        _tensor_on(self._untyped_storage, self.dtype)[index] = value

    @_deprecated
    def __getitem__(self, index: Any) -> Any:
        return self._getitem(index)

    @_deprecated
    def __setitem__(self, index: Any, value: Any) -> None:
        self._setitem(index, value)

    @_deprecated
    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        self._setitem(slice(0, self._size()), value)
        return self

    @_deprecated
    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Overwrite with the bytes of another storage, typed or not, of as many bytes."""
        self._untyped_storage.copy_(getattr(source, "_untyped_storage", source), non_blocking)
        return self

    @_deprecated
    def __iter__(self) -> Iterator[Any]:
        return iter(self._getitem(place) for place in range(self._size()))

    @_deprecated
    def tolist(self) -> list[Any]:
        """The elements as a list."""
        return list(self)

    @_deprecated
    def clone(self) -> TypedStorage:
        """A copy with its own memory."""
        return self._new_wrapped_storage(self._untyped_storage.clone())

    @_deprecated
    def __copy__(self) -> TypedStorage:
        return self._new_wrapped_storage(self._untyped_storage.clone())

    @_deprecated
    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return self._new_wrapped_storage(self._untyped_storage.__deepcopy__(memo))

    def __sizeof__(self) -> int:
        return super().__sizeof__() + self._nbytes()

    @_deprecated
    def cpu(self) -> TypedStorage:
        """This storage in host memory."""
        return self._new_wrapped_storage(self._untyped_storage.cpu())

    @_deprecated
    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """This storage on a GPU."""
        return self._new_wrapped_storage(self._untyped_storage.cuda(device, non_blocking))

    @_deprecated
    def hpu(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """AssertionError: there is no such device here."""
        return self._new_wrapped_storage(self._untyped_storage.hpu(device, non_blocking))

    @_deprecated
    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """This storage on a device."""
        return self._new_wrapped_storage(self._untyped_storage.to(device=device, non_blocking=non_blocking))

    @_deprecated
    def is_pinned(self, device: Any = None) -> bool:
        """Does it lie in page-locked memory?"""
        return self._untyped_storage.is_pinned(device)

    @_deprecated
    def pin_memory(self, device: Any = None) -> TypedStorage:
        """A copy in page-locked memory. RuntimeError where no device could read it."""
        return self._new_wrapped_storage(self._untyped_storage.pin_memory(device))

    def _share_memory_(self) -> TypedStorage:
        self._untyped_storage.share_memory_()
        return self

    @_deprecated
    def share_memory_(self) -> TypedStorage:
        """Move the bytes to memory that other processes can have too."""
        return self._share_memory_()

    def _resize_(self, size: int) -> None:
        self._untyped_storage.resize_(size * self.dtype.itemsize)

    @_deprecated
    def resize_(self, size: int) -> None:
        """Another number of elements."""
        self._resize_(size)

    def _pickle_storage_type(self) -> str:
        try:
            return _dtype_to_storage_type()[self.dtype]
        except KeyError as error:
            raise KeyError(f"dtype {self.dtype} is not recognized") from error

    @_deprecated
    def pickle_storage_type(self) -> str:
        """The name that files use for this dtype. KeyError if no class had it."""
        return self._pickle_storage_type()

    @classmethod
    def from_buffer(cls, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> TypedStorage:
        """Elements out of a buffer, as `UntypedStorage.from_buffer` reads it; by default of the default dtype."""
        _warn_typed_storage()
        if cls is not TypedStorage:
            if dtype is not None or device is not None or len(args) == 5:
                raise RuntimeError(
                    "from_buffer: 'dtype' and 'device' can only be specified in UntypedStorage.from_buffer and TypedStorage.from_buffer"
                )
            dtype = cls._dtype
        elif device is not None and _device(device).type != "cpu":
            raise RuntimeError(f"TypedStorage.from_buffer: Not available for device {_device(device).type}")
        kind = get_default_dtype() if dtype is None else dtype
        storage = UntypedStorage.from_buffer(*args, **{**kwargs, "dtype": kind})
        return TypedStorage(wrap_storage=storage, dtype=kind, _internal=True)

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, size: int = 0) -> TypedStorage:
        """`size` elements of a file, of the class's dtype. RuntimeError if the class has none."""
        _warn_typed_storage()
        if cls is TypedStorage:
            raise RuntimeError("from_file can only be called on derived classes")
        storage = UntypedStorage.from_file(filename, shared, size * cls._dtype.itemsize)  # type: ignore[attr-defined]  # every subclass has one
        return cls(wrap_storage=storage)

    @_deprecated
    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the old class for this dtype and device; with a class or its name, what `UntypedStorage.type` does."""
        if dtype is not None:
            return self._untyped_storage.type(dtype, non_blocking)
        legacy = self._get_legacy_storage_class()
        return "torch.storage.TypedStorage" if legacy is None else repr(legacy).split("'")[1]

    def _get_legacy_storage_class(self) -> Any:
        name, where = _dtype_to_storage_type().get(self.dtype), self._untyped_storage.device.type
        if name is None or where not in ("cpu", "cuda"):
            return None
        return _old_classes("torch" if where == "cpu" else "torch.cuda")[name]

    @_deprecated
    def __repr__(self) -> str:
        where = self._untyped_storage.device
        said = _elements(None if where.type == "meta" else list(self))
        return f"{said}\n[torch.storage.TypedStorage(dtype={self.dtype}, device={where}) of size {self._size()}]"

    def __reduce__(self) -> tuple[Any, ...]:
        #: Bytes and not the storage as an object: each storage is written as often as it occurs, as upstream does it.
        return (_typed_storage, (*self._untyped_storage.__reduce__(), self.dtype))


def _typed_storage(rebuild: Callable[..., UntypedStorage], args: tuple[Any, ...], kind: dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=rebuild(*args), dtype=kind, _internal=True)


def _wrapped(args: tuple[Any, ...], storage: Any, kind: Any, device: Any) -> tuple[dtype, UntypedStorage]:
    """Dtype and bytes of a typed storage that is made around others' bytes."""
    name = "TypedStorage.__init__"
    if args:
        _refuse(name, RuntimeError, "No positional arguments should be given when using 'wrap_storage'")
    if kind is None:
        _refuse(name, RuntimeError, "Argument 'dtype' must be specified")
    if not isinstance(kind, dtype):
        _refuse(name, TypeError, f"Argument 'dtype' must be torch.dtype, not {type(kind)}")
    if device is not None:
        _refuse(name, RuntimeError, "Argument 'device' should not be specified when 'wrap_storage' is given")
    if not isinstance(storage, UntypedStorage):
        _refuse(name, TypeError, f"Argument 'wrap_storage' must be UntypedStorage, but got {type(storage)}")
    return kind, storage


def _refuse(name: str, wrong: type[Exception], why: str) -> NoReturn:
    raise wrong(
        f"{name} received an invalid combination of arguments: a size, a sequence or wrap_storage is expected. {why}"
    )


# %% [markdown]
# A conversion is the tensor's; the result never shares memory with what was converted, whatever the dtype.


# %%
#| into: storage.py
#| upstream: torch/storage.py#TypedStorage._to
def _to(self: Any, dtype: Any) -> TypedStorage:
    """A typed storage with these elements, or these bytes, as another dtype."""
    if not isinstance(dtype, scalar_type.dtype):
        raise TypeError(f"Argument 'dtype' must be torch.dtype, not {type(dtype)}")
    typed = isinstance(self, TypedStorage)
    old = _tensor_on(self._untyped_storage, self.dtype) if typed else _tensor_on(self, scalar_type.uint8)
    new = old.clone() if old.dtype == dtype else old.to(dtype)
    return TypedStorage(wrap_storage=new.untyped_storage(), dtype=dtype, _internal=True)


def _conversion(name: str, kind: dtype) -> Callable[[Any], TypedStorage]:
    def convert(self: Any) -> TypedStorage:
        if isinstance(self, TypedStorage):
            _warn_typed_storage()
        return _to(self, kind)

    convert.__name__, convert.__qualname__ = name, f"TypedStorage.{name}"
    convert.__doc__ = f"A typed storage of {kind} with the same elements."
    return convert


for _name, _kind in {
    "double": scalar_type.float64,
    "float": scalar_type.float32,
    "half": scalar_type.float16,
    "bfloat16": scalar_type.bfloat16,
    "long": scalar_type.int64,
    "int": scalar_type.int32,
    "short": scalar_type.int16,
    "char": scalar_type.int8,
    "byte": scalar_type.uint8,
    "bool": scalar_type.bool,
    "complex_double": scalar_type.complex128,
    "complex_float": scalar_type.complex64,
}.items():
    for _class in (UntypedStorage, TypedStorage):
        setattr(_class, _name, _conversion(_name, _kind))
UntypedStorage._to = TypedStorage._to = _to  # type: ignore[attr-defined]  # added after the class


# %%
#| needs: a1_operators
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    halves = torch.TypedStorage([1.5, 2.5], dtype=torch.float16)
    print(halves.float().tolist(), halves.untyped().float().tolist())

# %% [markdown]
# ## What does `torch.FloatStorage(3)` make?
#
# A `TypedStorage`. The old class has no instances. It is there to be called, to be named, and to answer `isinstance`, for
# which its metaclass looks at dtype and device.


# %%
#| into: storage.py
#| upstream: torch/storage.py#_LegacyStorageMeta
class _LegacyStorageMeta(type):
    """The metaclass of the old classes: calling one makes a `TypedStorage`, and one is its instance if dtype and device agree."""

    dtype: Any
    _device_type: str

    def __instancecheck__(cls, instance: Any) -> bool:
        if type(instance) is not TypedStorage or cls is _LegacyStorage:
            return False
        return instance.dtype == cls.dtype and instance._untyped_storage.device.type == cls._device_type

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__.replace('readtorch', 'torch', 1)}.{cls.__name__}'>"

    def __call__(
        cls, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None, **kwargs: Any
    ) -> Any:
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        for name, given in (("device", device), ("dtype", dtype)):
            if given is not None:
                _refuse(f"{cls}.__new__", RuntimeError, f"Keyword argument '{name}' cannot be specified")
        if wrap_storage is None:
            return TypedStorage(*args, dtype=cls.dtype, device=cls._device_type)
        where = getattr(getattr(wrap_storage, "device", None), "type", None)
        if isinstance(wrap_storage, UntypedStorage) and where != cls._device_type:
            _refuse(
                f"{cls}.__new__", RuntimeError, f"Device of 'wrap_storage' must be {cls._device_type}, but got {where}"
            )
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype)


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """What the old classes have in common: nothing but that nobody is to make one."""


@functools.cache
def _old_classes(module: str) -> dict[str, _LegacyStorageMeta]:
    """`FloatStorage` and the others of `torch` or of `torch.cuda`, by name."""
    where = {"__module__": module.replace("torch", "readtorch", 1), "_device_type": module.partition(".")[2] or "cpu"}
    return {
        name: _LegacyStorageMeta(name, (_LegacyStorage,), {**where, "dtype": kind, "_dtype": kind})
        for name, kind in _storage_type_to_dtype().items()
    }


# %% [markdown]
# Which of them `torch.Storage` is depends on the default dtype at the moment of asking.


# %%
#| into: __init__.py
#| upstream: torch/__init__.py#FloatStorage
def _storage_class(name: str) -> _Any:
    from readtorch import storage

    return storage._old_classes("torch")[storage._dtype_to_storage_type()[storage.get_default_dtype()]]


_ANSWERED["Storage"] = _storage_class


# %%
#| needs: a1_operators
#| claim: an old class makes a TypedStorage, and isinstance asks for dtype and device
#| upstream: torch/storage.py#_LegacyStorage
def _(torch):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.FloatStorage([1, 2])
        assert type(made) is torch.TypedStorage and isinstance(made, torch.FloatStorage)
        assert not isinstance(torch.tensor([1]).storage(), torch.FloatStorage)
        assert torch.tensor([1]).storage().type() == "torch.LongStorage" and torch.Storage is torch.FloatStorage
        assert made.byte().tolist() == [1, 2] and made.untyped().byte().tolist()[2:] == [128, 63, 0, 0, 0, 64]


# %%
#| needs: 02_module
#| claim: a saved file names a typed storage class, which exists for that purpose, and the function that rebuilds a tensor
#| upstream: torch/_utils.py#_rebuild_tensor_v2
def _(torch):
    import io
    import pickletools
    import zipfile

    buffer = io.BytesIO()
    torch.save(torch.ones(2, dtype=torch.float16), buffer)
    archive = zipfile.ZipFile(buffer)
    (name,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
    named = [argument for code, argument, _ in pickletools.genops(archive.read(name)) if code.name == "GLOBAL"]
    assert "torch HalfStorage" in named and "torch._utils _rebuild_tensor_v2" in named


# %% [markdown]
# ### What upstream does more
#
# * Five more dtypes have names of old classes, the quantized ones, and four dtypes of eight bits have conversions (`float8_e5m2()`). NumPy has no such dtypes.
# * A storage can be shared with another process as a handle of CUDA or a file descriptor by methods of its own (`_share_fd_cpu_`); here that is the business of `torch.multiprocessing`.
