# Tangled from chapters/02_module/ — edit there, or here and run `readtorch sync`.
"""`save` and `load`: PyTorch's own file format, both ways."""

from __future__ import annotations

import contextlib
import copyreg
import functools
import io
import mmap as _mmap
import operator
import os
import pickle
import pickletools
import re
import shutil
import struct
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import FunctionType
from typing import Any, BinaryIO, ClassVar

import numpy as np

import readtorch as torch
from readtorch import _weights_only_unpickler
from readtorch._utils import _import_dotted_name
from readtorch.aten.map_allocator import map_file
from readtorch.csrc.serialize.inline_container import PyTorchStreamReader, PyTorchStreamWriter
from readtorch.storage import TypedStorage, UntypedStorage, _dtype_to_storage_type, _storage_type_to_dtype

DEFAULT_PROTOCOL = 2
MAP_LOCATION = Callable[[Any, str], Any] | torch.device | str | dict[str, str] | None
_UNSAFE = (
    "Since PyTorch 2.6 the default value of the `weights_only` argument in `torch.load` is `True`, no longer `False`. With "
    "`weights_only` set to `False` it will likely read the file, and can be made by it to run arbitrary code: "
    "do it only where you trusted the source."
)


class StorageType:
    """What `torch.FloatStorage` in a file stands for: the dtype of a storage."""

    def __init__(self, name: str) -> None:
        self._dtype = _storage_type_to_dtype()[name]
        self.__name__ = name

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the elements."""
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self._dtype})"


_Package = tuple[int, Callable[[Any], str | None], Callable[[Any, str], Any]]
_package_registry: list[_Package] = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Teach saving and loading a kind of device: `tagger(storage)` names it, `deserializer(storage, tag)` moves there.

    Packages are asked in ascending priority; the first answer that is not None counts.
    """
    _package_registry.append((priority, tagger, deserializer))
    _package_registry.sort(key=lambda package: package[0])


def location_tag(storage: Any) -> str:
    """The name under which the device of `storage` goes into a file. RuntimeError if no package knows it."""
    tag = next(filter(None, (tagger(storage) for _, tagger, _ in _package_registry)), None)
    if tag is None:
        raise RuntimeError(f"don't know how to determine data location of {torch.typename(storage)}")
    return tag


def default_restore_location(storage: Any, location: str) -> Any:
    """`storage` on the device called `location`. RuntimeError if no package knows it."""
    answers = (restore(storage, location) for *_, restore in _package_registry)
    moved = next((answer for answer in answers if answer is not None), None)
    if moved is None:
        kind = torch.typename(storage)
        raise RuntimeError(f"don't know how to restore data location of {kind} (tagged with {location})")
    return moved


def _restore_on_accelerator(storage: Any, location: str) -> Any:
    if not location.startswith("cuda"):
        return None
    if not torch.cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. Where there is no "
            "GPU, torch.load(..., map_location=torch.device('cpu')) brings its storages to the CPU."
        )
    return storage.to(device=torch.device(location))


def _tag_of_device(kind: str) -> Callable[[Any], str | None]:
    return lambda storage: str(storage.device) if storage.device.type == kind else None


register_package(
    10,
    lambda storage: "cpu" if storage.device.type == "cpu" else None,
    lambda storage, location: storage if location == "cpu" else None,
)
register_package(20, _tag_of_device("cuda"), _restore_on_accelerator)
register_package(
    22,
    lambda storage: "meta" if storage.device.type == "meta" else None,
    lambda storage, location: UntypedStorage(storage.nbytes(), device="meta") if location == "meta" else None,
)


def _restorer(map_location: MAP_LOCATION) -> Callable[[Any, str], Any]:
    """The function that moves a storage just read to where the caller wants it."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        table = map_location
        return lambda storage, location: default_restore_location(storage, table.get(location, location))
    if isinstance(map_location, str | torch.device):
        target = str(map_location)
        return lambda storage, location: default_restore_location(storage, target)
    function = map_location

    def ask(storage: Any, location: str) -> Any:
        result = function(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return ask


_PurePickler: Any = pickle._Pickler
"""Python's pickler written in Python: the one in C does not let `save_global` be replaced."""


_COMMON_ARGUMENTS = 6
"""Of `_rebuild_tensor_v2`. The third version has one more, the dtype; a tensor without elements has fewer."""


class _Pickler(_PurePickler):
    """Writes tensors as calls to rebuild functions, storages as persistent ids, and our modules under upstream's names."""

    def __init__(self, file: BinaryIO, protocol: int, reference: Callable[[Any, Any], tuple]) -> None:
        super().__init__(file, protocol)
        self._reference = reference
        self._heads: dict[StorageType, bytes] = {}
        """How a tensor begins, by the type of its storage, once all of it has a number in the memo."""

    def persistent_id(self, obj: Any) -> tuple | None:
        if isinstance(obj, TypedStorage):
            return self._reference(obj._untyped_storage, obj.dtype)
        if isinstance(obj, UntypedStorage):
            return self._reference(obj, None)
        return None

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = "readtorch" if isinstance(obj, StorageType) else getattr(obj, "__module__", None) or ""
        name = name or getattr(obj, "__qualname__", None) or obj.__name__
        if module.split(".")[0] != "readtorch":
            super().save_global(obj, name)
            return
        #: Public names are written as such: upstream's Size says that it lives in `torch`, not in `torch/csrc`.
        is_public = isinstance(obj, StorageType) or getattr(torch, name, None) is obj is not UntypedStorage
        module = "torch" if is_public else "torch" + module.removeprefix("readtorch")
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    def save_tensor(self, tensor: Any) -> None:
        """What `save_reduce` would do with a plain tensor, byte for byte: there are many, and all look the same."""
        rebuild, content = tensor.__reduce_ex__(self.proto)[:2]
        if tensor.__dict__ or len(content) != _COMMON_ARGUMENTS:
            self.save_reduce(rebuild, content, obj=tensor)
            return
        storage, offset, size, stride, requires_grad, hooks = content
        tag, kind, key, location, numel, *more = self._reference(storage._untyped_storage, storage.dtype)
        head = self._heads.get(kind)
        if head is None:
            self._save_known(rebuild)
            self.write(pickle.MARK + pickle.MARK)
            self._save_known(tag)
            self._save_known(kind)
            again = [self.get(self.memo[id(each)][0]) for each in (rebuild, tag, kind)]
            self._heads[kind] = again[0] + pickle.MARK + pickle.MARK + again[1] + again[2]
        else:
            self.write(head)
        self._save_known(key)
        self._save_known(location)
        self.write(_number(numel))
        for each in more:
            self.save(each)
        self.write(
            pickle.TUPLE
            + self._next_put()
            + pickle.BINPERSID
            + _number(offset)
            + _numbers(size)
            + (self._next_put() if size else b"")
            + _numbers(stride)
            + (self._next_put() if stride else b"")
            + (pickle.NEWTRUE if requires_grad else pickle.NEWFALSE)
        )
        self._save_known(type(hooks))
        self.write(
            pickle.EMPTY_TUPLE + pickle.REDUCE + self._next_put() + pickle.TUPLE + self._next_put() + pickle.REDUCE
        )
        self.memoize(tensor)

    def _save_known(self, obj: Any) -> None:
        known = self.memo.get(id(obj))
        if known is not None:
            self.write(self.get(known[0]))
        elif type(obj) is str:
            self.save_str(obj)
        else:
            self.save(obj)

    def _next_put(self) -> bytes:
        """Numbers an object that nothing will refer to again; the key is one that no `id` can be."""
        number = len(self.memo)
        self.memo[-1 - number] = (number, None)
        return self.put(number)

    dispatch: ClassVar[dict[Any, Any]] = {
        **_PurePickler.dispatch,
        StorageType: save_global,
        FunctionType: save_global,
        torch.Tensor: save_tensor,
    }


@functools.lru_cache(4096)
def _number(number: int) -> bytes:
    """The instruction that pushes this number."""
    if 0 <= number < 1 << 8:
        return pickle.BININT1 + bytes([number])
    if 0 <= number < 1 << 16:
        return pickle.BININT2 + struct.pack("<H", number)
    if -(1 << 31) <= number < 1 << 31:
        return pickle.BININT + struct.pack("<i", number)
    digits = pickle.encode_long(number)
    return pickle.LONG1 + bytes([len(digits)]) + digits


@functools.lru_cache(1024)
def _numbers(numbers: tuple[int, ...]) -> bytes:
    """The instructions that push this tuple."""
    pushed = b"".join(map(_number, numbers))
    if len(numbers) > 3:
        return pickle.MARK + pushed + pickle.TUPLE
    return pushed + (pickle.EMPTY_TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)[len(numbers)]


def _get_layout(name: str) -> Any:
    """What a layout is pickled as: a call with its name."""
    kinds = (torch.strided, torch.sparse_coo, torch.sparse_csr)
    found = {repr(kind): kind for kind in kinds}
    if name not in found:
        raise pickle.UnpicklingError(f"a layout {name!r:.40} is not known")
    return found[name]


copyreg.pickle(torch.layout, lambda layout: (_get_layout, (repr(layout),)))


class _State(threading.local):
    """What `skip_data` says, to the thread that said it."""

    skip_data = False
    materialize_fake_tensors = False


_serialization_tls = _State()


class _Storages:
    """The storages met while pickling, numbered in that order."""

    def __init__(self) -> None:
        self.by_key: dict[str, Any] = {}
        self._key_of: dict[int, str] = {}
        self._dtype_of: dict[int, Any] = {}
        self._types = {name: StorageType(name) for name in _storage_type_to_dtype()}

    def reference(self, storage: Any, dtype: Any) -> tuple:
        """The persistent id. RuntimeError if the same bytes were met as another dtype: a file cannot say that.

        Without a dtype they are bytes, and whoever refers to them knows what they mean.
        """
        key = self._key_of.setdefault(storage._cdata, str(len(self._key_of)))
        self.by_key[key] = storage
        if dtype is None:
            return ("storage", UntypedStorage, key, location_tag(storage), storage.nbytes())
        address = storage.data_ptr()
        if storage.device.type != "meta" and address != 0 and self._dtype_of.setdefault(address, dtype) != dtype:
            raise RuntimeError(
                "Cannot save multiple tensors that view the same data as different types: save one, or clones"
            )
        kind = self._types[_dtype_to_storage_type()[dtype]]
        return ("storage", kind, key, location_tag(storage), storage.nbytes() // dtype.itemsize)


def _bytes_on_cpu(storage: Any, through_pinned_memory: bool = False) -> memoryview:
    """The bytes of a storage, without a copy where it lies on the CPU."""
    if through_pinned_memory and storage.device.type == "cuda":
        pinned = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=True).untyped_storage()
        pinned.copy_(storage)
        torch.cuda.current_stream(storage.device.index).synchronize()
        storage = pinned
    return memoryview(storage.cpu()._array()).cast("B")


def _check_pickle_module(module: Any, wanted: str) -> None:
    if not hasattr(module, "__name__") or not hasattr(module, wanted):
        raise AttributeError(f"pickle_module must be a module with a {wanted}, not {type(module).__name__}")


def save(
    obj: object,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write `obj` to `f`, a path or a writable binary file, in PyTorch's format.

    Tensors keep their storages whole and shared. AttributeError if `f` is neither path nor file, RuntimeError
    if the path is in no directory. `pickle_module` is looked at and not used: what is written is Python's own pickle.
    """
    _check_pickle_module(pickle_module, "Pickler")
    if pickle_protocol is not None:
        pickle_protocol = operator.index(pickle_protocol)
    if not isinstance(f, str | os.PathLike) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or an object that has a 'write' attribute")
    if isinstance(f, str | os.PathLike) and not Path(f).parent.is_dir():
        raise RuntimeError(f"Parent directory {Path(f).parent} does not exist.")
    from readtorch.utils.serialization import config

    with _opened(f, "wb", _use_new_zipfile_serialization) as stream:
        if _use_new_zipfile_serialization:
            folder = Path(os.fspath(f)).stem if isinstance(f, str | os.PathLike) else "archive"
            writer = PyTorchStreamWriter(stream, folder, config.save.compute_crc32, config.save.storage_alignment)
            _save(obj, writer, pickle_protocol, _disable_byteorder_record)
        else:
            _legacy_save(obj, stream, pickle_protocol)


def _open(f: Any, mode: str, writes_zip: bool) -> Any:
    try:
        return open(f, mode)
    except OSError as error:
        if not writes_zip:
            raise
        raise RuntimeError(f"open file failed with strerror: {error.strerror} ({os.fspath(f)})") from error


@contextmanager
def _opened(f: Any, mode: str, writes_zip: bool = False) -> Iterator[Any]:
    if isinstance(f, str | os.PathLike):
        with _open(f, mode, writes_zip) as stream:
            yield stream
    else:
        yield f
        if "w" in mode and hasattr(f, "flush"):
            f.flush()


def _save(obj: object, writer: PyTorchStreamWriter, protocol: int, without_byteorder: bool) -> None:
    from readtorch.utils.serialization import config

    storages = _Storages()
    pickled = io.BytesIO()
    _Pickler(pickled, protocol, storages.reference).dump(obj)
    writer.write_record("data.pkl", pickled.getbuffer())
    writer.write_record(".format_version", b"1")
    writer.write_record(".storage_alignment", str(config.save.storage_alignment).encode())
    if not without_byteorder:
        writer.write_record("byteorder", sys.byteorder.encode())
    skipped, pinned = _serialization_tls.skip_data, config.save.use_pinned_memory_for_d2h
    for key, storage in storages.by_key.items():
        if skipped:
            writer.write_record_metadata(f"data/{key}", storage.nbytes())
        else:
            writer.write_record(f"data/{key}", _bytes_on_cpu(storage, pinned))
    writer.write_end_of_file()


MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001


def _legacy_save(obj: object, stream: BinaryIO, protocol: int) -> None:
    if _serialization_tls.skip_data:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
    storages = _Storages()

    def reference(storage: Any, dtype: Any) -> tuple:
        return (*storages.reference(storage, dtype), None)

    sizes = {"short": 2, "int": 4, "long": 4}
    machine = {"protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little", "type_sizes": sizes}
    for header in (MAGIC_NUMBER, PROTOCOL_VERSION, machine):
        pickle.dump(header, stream, protocol=protocol)
    _Pickler(stream, protocol, reference).dump(obj)
    pickle.dump(list(storages.by_key), stream, protocol=protocol)
    for storage in storages.by_key.values():
        itemsize = storages._dtype_of.get(storage.data_ptr(), torch.uint8).itemsize
        stream.write(struct.pack("<q", storage.nbytes() // itemsize))
        stream.write(_bytes_on_cpu(storage))


def load(
    f: Any,
    map_location: MAP_LOCATION = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save` (or PyTorch) wrote to `f`, a path or a seekable binary file.

    By default (`weights_only=True`) only tensors, plain containers and allow-listed types are built and no code of the
    file's choosing runs; `weights_only=False` unpickles anything and is for trusted files. `map_location` says where
    storages go; `mmap=True` maps them from the file instead of reading them (copy on write, paths only).

    Raises pickle.UnpicklingError for what is not allowed, RuntimeError for damaged files, EOFError for empty ones.
    """
    if pickle_module is not None:
        _check_pickle_module(pickle_module, "Unpickler")
    weights_only = _wants_weights_only(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if pickle_load_args and weights_only:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    from readtorch.utils.serialization import config

    is_path = isinstance(f, str | os.PathLike)
    mmap = config.load.mmap if mmap is None else mmap
    if is_path and os.fspath(f).endswith(".safetensors"):
        return _load_safetensors(os.fspath(f), map_location)
    with _opened(f, "rb") as stream:
        _check_seekable(stream)
        try:
            if _is_zipfile(stream):
                if mmap and not is_path:
                    raise ValueError("f must be a file path where mmap=True: an open file object cannot be mapped")
                shared = config.load.mmap_flags == MAP_SHARED
                whole = map_file(f, shared, os.path.getsize(f)) if mmap else None
                return _load(PyTorchStreamReader(stream), map_location, weights_only, whole, pickle_load_args)
            if mmap:
                raise RuntimeError(
                    "mmap can only be used with files in the zip format of torch.save "
                    "(_use_new_zipfile_serialization=True, its default): save this one again."
                )
            return _legacy_load(stream, map_location, weights_only, pickle_load_args)
        except pickle.UnpicklingError as error:
            if not weights_only:
                raise
            raise pickle.UnpicklingError(_advice(str(error))) from None


def _wants_weights_only(given: bool | None, pickle_module: Any) -> bool:
    truths = ("1", "y", "yes", "true")
    force, forbid = (
        os.environ.get(name, "0").lower() in truths
        for name in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    )
    if force and forbid:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` can be obeyed, "
            "and both are set."
        )
    if force:
        return True
    if forbid and given is None:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected: "
            "this torch.load, called without `weights_only`, runs with weights_only=False.",
            stacklevel=3,
        )
        return False
    return pickle_module is None if given is None else given


def _advice(message: str) -> str:
    if re.search(r"GLOBAL (\S+) was not an allowed global by default", message):
        return (
            "Weights only load failed. You have two options, \033[1mboth for a file "
            f"whose source you trust\033[0m.\n\t(1) {_UNSAFE}\n\t(2) Load "
            f"it with `weights_only=True` after the steps that the following message names.\n\tWeightsUnpickler "
            f"error: {message}"
        )
    return f"Weights only load failed. {_UNSAFE}\n\nWeightsUnpickler error: {message}"


def _check_seekable(stream: Any) -> None:
    try:
        stream.seek(stream.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable: read this one into an "
            "io.BytesIO, and load that."
        ) from None


def _is_zipfile(stream: BinaryIO) -> bool:
    start = stream.tell()
    magic = stream.read(4)
    stream.seek(start)
    return magic == b"PK\x03\x04"


def _load_safetensors(path: str, map_location: MAP_LOCATION) -> dict[str, Any]:
    if isinstance(map_location, dict) or callable(map_location):
        raise RuntimeError(
            "A dict or callable map_location is not supported for a safetensors file: pass a torch.device or its name."
        )
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise RuntimeError(
            "A safetensors file, but safetensors is not installed. It comes with `pip install safetensors`"
        ) from None
    device = "cpu" if map_location is None else map_location
    return {name: torch.from_numpy(array).to(device) for name, array in load_file(path).items()}


class _TrustingUnpickler(pickle.Unpickler):
    """Python's own, for trusted files: anything importable, with upstream's names mapped to ours."""

    persistent_load: Callable[[Any], Any]

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" or module.startswith("torch."):
            if module == "torch" and name in _storage_type_to_dtype():
                return StorageType(name)
            module = "readtorch" + module.removeprefix("torch")
        return super().find_class(module, name)


def _unpickler(stream: Any, weights_only: bool, persistent_load: Callable[[Any], Any], arguments: dict) -> Any:
    arguments = {"encoding": "utf-8", **arguments}
    kind = _weights_only_unpickler.Unpickler if weights_only else _TrustingUnpickler
    machine = kind(stream, **arguments)
    machine.persistent_load = persistent_load  # type: ignore[method-assign]  # pickle looks it up on the instance
    return machine


def _checked_reference(reference: Any, length: int) -> tuple[Any, str, str, int]:
    """Storage type, key, location and number of elements of a persistent id; UnpicklingError if it is none of ours."""
    if type(reference) is not tuple or len(reference) < length or reference[0] not in ("storage", b"storage"):
        raise pickle.UnpicklingError(
            f"unknown typename for persistent_load, expected 'storage' but got {reference!r:.80}"
        )
    kind, key, location, numel = reference[1:5]
    if kind is not UntypedStorage and not isinstance(kind, StorageType):
        raise pickle.UnpicklingError(f"a storage of type {kind!r:.80} is not known")
    if not isinstance(key, str) or not isinstance(location, str) or type(numel) is not int or numel < 0:
        raise pickle.UnpicklingError(f"malformed storage reference {reference[2:5]!r:.80}")
    return (kind.dtype if isinstance(kind, StorageType) else torch.uint8), key, location, numel


def _load(
    reader: PyTorchStreamReader, map_location: MAP_LOCATION, weights_only: bool, whole: Any, arguments: dict
) -> Any:
    if reader.has_record("constants.pkl"):
        raise RuntimeError("this is a TorchScript archive; readtorch has no TorchScript, load it with torch.jit.load")
    from readtorch.utils.serialization import config

    restore = _restorer(map_location)
    without_elements = str(map_location) == "meta"
    offset_of = reader.get_record_offset
    if config.load.calculate_storage_offsets and reader.has_record(".format_version"):
        offset_of = functools.partial(reader.get_record_offset_no_read, alignment=_alignment(reader))
    order = reader.get_record("byteorder") if reader.has_record("byteorder") else _fallback_byte_order()
    if order not in (b"little", b"big"):
        raise ValueError(f"Unknown endianness type: {order!r:.20}")
    swapped = order.decode() != sys.byteorder
    loaded: dict[str, Any] = {}

    def persistent_load(reference: Any) -> Any:
        dtype, key, location, numel = _checked_reference(reference, 5)
        if key not in loaded:
            name, size = f"data/{key}", numel * dtype.itemsize
            if reader.get_record_size(name) != size:
                raise pickle.UnpicklingError(
                    f"record {name} has {reader.get_record_size(name)} bytes where {size} were announced"
                )
            if without_elements:
                storage = UntypedStorage(size, device="meta")
            elif _serialization_tls.skip_data:
                storage = restore(UntypedStorage(size), location)
            else:
                if whole is not None:
                    begin = offset_of(name)
                    data = whole[begin : begin + size]
                else:
                    data = reader.get_array(name)
                if swapped and dtype.itemsize > 1:
                    data = np.ascontiguousarray(data.reshape(-1, dtype.itemsize)[:, ::-1]).reshape(-1)
                storage = restore(UntypedStorage._from_array(data), location)
            loaded[key] = TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)
        return loaded[key]

    pickled = io.BytesIO(reader.get_record("data.pkl"))
    try:
        result = _unpickler(pickled, weights_only, persistent_load, arguments).load()
    except IndexError as error:
        raise pickle.UnpicklingError(f"data.pkl is malformed: {error}") from error
    reader.check()
    return result


def _alignment(reader: PyTorchStreamReader) -> int:
    """What the file says its records are aligned to. RuntimeError if that is no sensible number."""
    said = reader.get_record(".storage_alignment") if reader.has_record(".storage_alignment") else b"64"
    if not said.isdigit() or not 0 < len(said) < 10 or int(said) == 0:
        raise RuntimeError(f"PytorchStreamReader failed reading file .storage_alignment: {said!r:.20} is no alignment")
    return int(said)


def _legacy_load(stream: BinaryIO, map_location: MAP_LOCATION, weights_only: bool, arguments: dict) -> Any:
    if not stream.read(1):
        raise EOFError("Ran out of input")
    stream.seek(-1, os.SEEK_CUR)
    if _is_tar(stream):
        raise RuntimeError(
            "this file is a tar archive, as PyTorch wrote them before 0.1.10, which readtorch does not read: load it with "
            "PyTorch (torch.load(f, weights_only=False)) and save it again"
        )
    restore = _restorer(map_location)
    pending: dict[str, tuple[Any, str, int, Any]] = {}
    announced = 0

    def refuse(reference: Any) -> Any:
        raise pickle.UnpicklingError("unsupported persistent id encountered")

    def persistent_load(reference: Any) -> Any:
        nonlocal announced
        if isinstance(reference, tuple) and reference and reference[0] in ("module", b"module"):
            return reference[1]
        dtype, key, location, numel = _checked_reference(reference, 6)
        if reference[5] is not None:
            raise pickle.UnpicklingError("views of storages in legacy files (before PyTorch 0.4) are not supported")
        if key not in pending:
            announced += numel * dtype.itemsize
            _check_room(stream, announced)
            storage = restore(UntypedStorage(numel * dtype.itemsize), location)
            pending[key] = (dtype, location, numel, TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True))
        return pending[key][3]

    def read_pickle(load: Callable[[Any], Any]) -> Any:
        try:
            return _unpickler(stream, weights_only, load, arguments).load()
        except IndexError as error:
            raise IndexError(f"{error}: neither an archive nor a stream of pickles, or damaged") from error

    if read_pickle(refuse) != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = read_pickle(refuse)
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {version}")
    read_pickle(refuse)
    result = read_pickle(persistent_load)
    keys = read_pickle(refuse)
    if type(keys) is not list or not all(isinstance(key, str) for key in keys) or sorted(keys) != sorted(pending):
        raise RuntimeError(f"legacy file is damaged: it lists the storages {keys!r:.80}, others are referred to")
    if _serialization_tls.skip_data:
        return result
    for key in keys:
        dtype, _, numel, typed = pending[key]
        header = stream.read(8)
        if len(header) != 8 or struct.unpack("<q", header)[0] != numel:
            raise RuntimeError(f"legacy file is damaged: storage {key!r:.40} does not have {numel} elements")
        data = stream.read(numel * dtype.itemsize)
        if len(data) != numel * dtype.itemsize:
            raise RuntimeError(f"legacy file is damaged: storage {key!r:.40} ends early")
        typed._untyped_storage.copy_(UntypedStorage._from_array(np.frombuffer(bytearray(data), np.uint8)))
    return result


def _is_tar(stream: BinaryIO) -> bool:
    start = stream.tell()
    head = stream.read(262)
    stream.seek(start)
    return head[257:] == b"ustar"


def _check_room(stream: BinaryIO, wanted: int) -> None:
    """Refuse storages larger than what is left of the file, before memory is allocated for them."""
    here = stream.tell()
    left = stream.seek(0, os.SEEK_END) - here
    stream.seek(here)
    if wanted > left:
        raise pickle.UnpicklingError(f"storages of {wanted} bytes are announced, and the file has {left} more")


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Let `load(weights_only=True)` use these classes and functions; a pair (object, name) allows it under that name."""
    _weights_only_unpickler._safe_globals.update(safe_globals)


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has allowed."""
    return list(_weights_only_unpickler._safe_globals)


def clear_safe_globals() -> None:
    """Allow nothing beyond the defaults again."""
    _weights_only_unpickler._safe_globals.clear()


class safe_globals:
    """Context manager: `add_safe_globals` inside the block; behind it, nothing of this is allowed."""

    def __init__(self, safe_globals: list[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exc: object) -> None:
        _weights_only_unpickler._safe_globals.difference_update(self.safe_globals)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in a checkpoint that `load(weights_only=True)` would refuse now. Nothing of it is loaded or run.

    Raises ValueError for what is no zip archive.
    """
    with _opened(f, "rb") as stream:
        if not _is_zipfile(stream):
            raise ValueError("Expected input to be a checkpoint returned by torch.save, in the zip format")
        pickled = PyTorchStreamReader(stream).get_record("data.pkl")
    allowed = {**_weights_only_unpickler._allowed_globals(), **_weights_only_unpickler._user_allowed_globals()}
    try:
        named = [str(argument) for operation, argument, _ in pickletools.genops(pickled) if operation.name == "GLOBAL"]
    except ValueError as error:
        raise pickle.UnpicklingError(f"data.pkl is malformed: {error}") from None
    return sorted({".".join(name.split(" ")) for name in named} - allowed.keys())


class LoadEndianness(Enum):
    """The byte order of a file that names none."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order taken for files that name none; None stands for little-endian."""
    from readtorch.utils.serialization import config

    return config.load.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Take this byte order for files that name none. TypeError for anything but a LoadEndianness or None."""
    from readtorch.utils.serialization import config

    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    config.load.endianness = endianness


def _fallback_byte_order() -> bytes:
    default = get_default_load_endianness()
    if default is LoadEndianness.NATIVE:
        return sys.byteorder.encode()
    return b"big" if default is LoadEndianness.BIG else b"little"


def get_crc32_options() -> bool:
    """Does `save` compute checksums?"""
    from readtorch.utils.serialization import config

    return config.save.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Let `save` compute checksums, or spare them: `load` reads such files, zip tools may refuse them."""
    from readtorch.utils.serialization import config

    config.save.compute_crc32 = compute_crc32


MAP_PRIVATE, MAP_SHARED = (getattr(_mmap, name, None) for name in ("MAP_PRIVATE", "MAP_SHARED"))  # not on Windows


def get_default_mmap_options() -> int | None:
    """`mmap.MAP_PRIVATE` or `mmap.MAP_SHARED`: what a write to a tensor loaded with `mmap=True` changes."""
    from readtorch.utils.serialization import config

    return config.load.mmap_flags


class set_default_mmap_options:
    """Set what `load` maps files as: from the call on, or, as a context manager, in a block.

    ValueError for anything but `mmap.MAP_PRIVATE` and `mmap.MAP_SHARED`.
    """

    def __init__(self, flags: int) -> None:
        if MAP_SHARED is None:
            raise RuntimeError("Changing the default mmap options is currently not supported for Windows")
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(f"set_default_mmap_options: expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got {flags}")
        self.prev = self._swap(flags)

    @staticmethod
    def _swap(flags: Any) -> Any:
        """Set the flags; returns those before."""
        from readtorch.utils.serialization import config

        before, config.load.mmap_flags = config.load.mmap_flags, flags
        return before

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self._swap(self.prev)


class skip_data:
    """Context manager: `save` leaves room for elements and does not write them; `load` allocates and does not read.

    `materialize_fake_tensors` is for tensors of upstream's tracer, which readtorch has not; it changes nothing here.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        state = _serialization_tls
        self._before = state.skip_data, state.materialize_fake_tensors
        state.skip_data, state.materialize_fake_tensors = True, self.materialize_fake_tensors

    def __exit__(self, *exc: object) -> None:
        _serialization_tls.skip_data, _serialization_tls.materialize_fake_tensors = self._before


class SourceChangeWarning(Warning):
    """The source of a saved module's class is another one than when it was saved; files do not hold it any more."""


@contextlib.contextmanager
def mkdtemp() -> Iterator[str]:
    """A folder for the time of a block."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """Is a module of this version or a later one? RuntimeError, or a warning, where its version cannot be compared."""
    try:
        parts = module.__version__.split(".")
        found = tuple(type(wanted)(parts[place]) for place, wanted in enumerate(req_version_tuple))
        return found >= req_version_tuple
    except Exception as error:
        message = f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared with tuple {req_version_tuple}"
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(f"{message}, but continuing assuming that requirement is met", stacklevel=2)
        return True


def _validate_device(location: Any, kind: str) -> torch.device:
    """The device, with a number. ValueError for one of another kind, RuntimeError for one that is not there."""
    where = torch.device(str(location))
    if where.type != kind:
        raise ValueError(f"Expected a {kind} device, but got: {where.type}")
    if kind != "cuda" or not torch.cuda.is_available():
        name = kind.upper()
        raise RuntimeError(
            f"Attempting to deserialize object on a {name} device but torch.{kind}.is_available() is False: "
            "torch.load(..., map_location=torch.device('cpu')) brings its storages to the CPU"
        )
    number = torch.cuda.current_device() if where.index is None else where.index
    if number >= torch.cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {number} but torch.cuda.device_count() is {torch.cuda.device_count()}"
        )
    return torch.device(kind, number)


def validate_cuda_device(location: Any) -> int:
    """The number of the device that a file names. RuntimeError if there is none such."""
    return int(_validate_device(location, "cuda").index or 0)


def validate_hpu_device(location: Any) -> int:
    """RuntimeError: there is no such device here."""
    return int(_validate_device(location, "hpu").index or 0)


def normalize_storage_type(storage_type: type) -> Any:
    """The old class of this name in `torch`."""
    return getattr(torch, storage_type.__name__)


def storage_to_tensor_type(storage: Any) -> Any:
    """The tensor type beside a storage's class."""
    kind = type(storage)
    return getattr(_import_dotted_name(kind.__module__), kind.__name__.replace("Storage", "Tensor"))
