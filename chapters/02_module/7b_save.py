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
# # Writing it: `torch.save`
#
# The container takes named records, the machine that reads knows a dozen callables. What is left for the writer: turn any object into a pickle that this machine can run, with the bytes of its tensors beside it. And it must be *PyTorch's* pickle: the file is to load there, with `weights_only=True`, and nothing in it may say that
# readtorch wrote it.

# %%
import io

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## What does a plain pickle do with a tensor?
#
# It works, and writes the bytes of the tensor into the stream. Two tensors that look into one memory are two independent ones afterwards, each with a copy:

# %%
import pickle

matrix = torch.zeros(2, 2)
plain = pickle.loads(pickle.dumps({"matrix": matrix, "row": matrix[0]}))
plain["row"].fill_(1)

saved = io.BytesIO()
torch.save({"matrix": matrix, "row": matrix[0]}, saved)
saved.seek(0)
loaded = torch.load(saved)
loaded["row"].fill_(1)

plain["matrix"].tolist(), loaded["matrix"].tolist()

# %% [markdown]
# Pickle has a hook for this, the **persistent id**: before an object is written, the pickler asks a function for a name to write in its place. `torch.save` gives each storage a number and writes that; the tensor beside it is a call to `_rebuild_tensor_v2` with the reference, an offset, shape and strides. So two views of one storage cost
# one record and share it again after loading, and so saving ten elements of a large tensor writes the large one.
#
# ## Which device was it on?
#
# The reference names the storage's type, its number, its *location* and its size. A location is a name like `cpu` or `cuda:1`. Which names there are is open: a backend registers a pair of functions, one that names a storage's place and one that brings a storage to a named place, and they are asked in order of priority.

# %%
#| into: serialization.py
"""`save` and `load`: PyTorch's own file format, both ways."""

# %%
#| into: serialization.py
#| imports
from __future__ import annotations

import copyreg
import functools
import io
import operator
import os
import pickle
import re
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any, BinaryIO, ClassVar

import numpy as np

import readtorch as torch
from readtorch import _weights_only_unpickler
from readtorch.aten.map_allocator import map_file
from readtorch.csrc.serialize.inline_container import PyTorchStreamReader, PyTorchStreamWriter
from readtorch.storage import TypedStorage, UntypedStorage, _dtype_to_storage_type, _storage_type_to_dtype

# %%
#| into: serialization.py
#| upstream: torch/serialization.py#location_tag
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


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#default_restore_location
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


# %%
[torch.serialization.location_tag(torch.ones(1, device=device).untyped_storage()) for device in ("cpu", "meta")]


# %%
#| claim: register_package teaches save and load the name of a place; the package with the smallest number is asked first
def _(torch):
    import io

    asked = []
    serialization = torch.serialization
    before = list(serialization._package_registry)
    serialization.register_package(
        1, lambda storage: "attic", lambda storage, tag: asked.append(tag) or (storage if tag == "attic" else None)
    )
    try:
        file = io.BytesIO()
        torch.save(torch.arange(3), file)
        file.seek(0)
        assert torch.load(file).tolist() == [0, 1, 2] and asked == ["attic"]
    finally:
        serialization._package_registry[:] = before
    file.seek(0)
    try:
        torch.load(file)
    except RuntimeError as error:
        assert "don't know how to restore data location" in str(error) and "attic" in str(error)
    else:
        raise AssertionError("restored")


# %% [markdown]
# ## The pickler
#
# The names in the file are upstream's. Whoever loads it, readtorch or PyTorch, looks for `torch._utils._rebuild_tensor_v2`; so the pickler writes `torch.` where our module is called `readtorch.`, and the reader maps back. Python's pickler has two implementations, and only the one written in Python lets a subclass decide
# under which name a global goes into the stream. It is slower by an order of magnitude. Nearly everything in a checkpoint is a tensor, though, and all tensors look alike; `save_tensor` writes what the general method would, instruction for instruction, with the parts that repeat taken from a table.


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#_save
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


# %% [markdown]
# Protocol 2, of Python 2.3, is written to this day: the machine of `weights_only` knows the instructions of no later one (it warns, and goes on as long as none occurs), and neither do the loaders of other languages that people wrote for these files.
#
# One thing a reference cannot express is two dtypes for one storage. `FloatStorage` *is* the dtype, from the time when a storage had one, so the second dtype that comes with the same address is refused (the bugs in [Files in use](8c_files_in_use.py) tell its story).
#
# What is left is the order: the pickle first, since pickling is what finds out which storages there are; then each storage under its number. The options that are read on the way have [a part of their own](8d_options.py).


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#save
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


# %% [markdown]
# Which names does a file hold? Nothing in it says that readtorch wrote it:

# %%
import pickletools
import zipfile

file = io.BytesIO()
torch.save({"weight": torch.ones(2), "steps": torch.tensor(3), "head": torch.nn.Parameter(torch.ones(1))}, file)
for operation, argument, _ in pickletools.genops(zipfile.ZipFile(file).read("archive/data.pkl")):
    if operation.name == "GLOBAL":
        print(argument)


# %%
#| claim: a file names the rebuilding functions and storage classes of torch, under these names, in pickle protocol 2
def _(torch):
    import io
    import pickletools
    import zipfile

    file = io.BytesIO()
    torch.save([torch.ones(2), torch.nn.Parameter(torch.ones(1)), torch.ones(2, 2).size(), torch.float16], file)
    found = list(pickletools.genops(zipfile.ZipFile(file).read("archive/data.pkl")))
    assert found[0][0].name == "PROTO" and found[0][1] == 2
    assert [argument for operation, argument, _ in found if operation.name == "GLOBAL"] == [
        "torch._utils _rebuild_tensor_v2",
        "torch FloatStorage",
        "collections OrderedDict",
        "torch._utils _rebuild_parameter",
        "torch Size",
        "torch float16",
    ]


# %% [markdown]
# What is *not* in a file is worth a list, since each item has surprised someone: `.grad` of any tensor; hooks on tensors; if it holds a `state_dict`, hooks on modules, `training` and every other plain attribute (a module saved whole has them); the optimizer's mapping from parameters to state by *name* (it counts them); the state of random generators. A checkpoint that is to resume a run bit for bit saves those itself.


# %%
#| claim: a saved tensor comes back without its gradient and its hooks, as a leaf with its requires_grad
def _(torch):
    import io

    weight = torch.nn.Parameter(torch.ones(2))
    weight.sum().backward()
    called = []
    weight.register_post_accumulate_grad_hook(called.append)
    file = io.BytesIO()
    torch.save({"weight": weight, "result": weight.detach().requires_grad_()}, file)
    file.seek(0)
    found = torch.load(file)
    assert found["weight"].grad is None and found["weight"].requires_grad and found["result"].is_leaf
    found["weight"].sum().backward()
    assert called == []


# %% [markdown]
# For hooks there is at least a warning, if they were registered with `register_hook`. And a tensor *with* history is saved without it: what is written for `weight * 2` is its values and `requires_grad=True`, so that it comes back as a leaf. (A deep copy refuses such a tensor; a file does not.)


# %%
#| claim: the result of a computation is saved as a leaf that requires a gradient, without a word; of a hook on a tensor there is a warning
def _(torch):
    import io
    import warnings

    result = torch.ones(2, requires_grad=True) * 2
    file = io.BytesIO()
    torch.save(result, file)
    file.seek(0)
    found = torch.load(file)
    assert result.grad_fn is not None and found.grad_fn is None and found.is_leaf and found.requires_grad
    result.register_hook(lambda gradient: gradient)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.save(result, io.BytesIO())
    assert len(seen) == 1 and "will not be serialized" in str(seen[0].message)


# %% [markdown]
# ## The format before 1.6
#
# One stream of pickles: a magic number, the protocol, facts about the machine, the object, the list of storage keys; then each storage, its length first. A storage's bytes stand behind everything before them, so nothing can be mapped and nothing skipped. It is still read, and still written when asked for, because many published
# checkpoints are in it.

# %%
#| into: serialization.py
#| upstream: torch/serialization.py#_legacy_save
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


# %%
old = io.BytesIO()
torch.save({"weight": torch.ones(2)}, old, _use_new_zipfile_serialization=False)
old.seek(0)
[pickle.load(old) for _ in range(2)], old.getvalue()[:2], saved.getvalue()[:2]

# %% [markdown]
# The first bytes tell the two apart: `\x80\x02` opens a pickle of protocol 2, `PK` a zip archive.
#
# ### What upstream does more
#
# * It warns where the source code of a pickled module class has changed since it was saved, in the old format only, which kept that source (`dump_patches`).
# * `torch.distributed.checkpoint` writes one model from many ranks, in a layout of its own: several files, and a plan of what is where.

# %%
#| fact: torch/serialization.py#_legacy_save
#| fact: torch/serialization.py#register_package
