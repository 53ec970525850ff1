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
# # Reading it back: `torch.load`
#
# Three kinds of file arrive at `load`: today's archive, the stream of pickles that PyTorch wrote before 1.6, and `.safetensors`. It tells them apart by their first bytes and their name, and trusts none of them.

# %%
import io
import os
import pickle
import tempfile
import warnings
from pathlib import Path

import readtorch as torch
from readtorch.literate import live

live()
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## Which of three?
#
# The decision is made in `load`, in this order: the ending `.safetensors`; a first word `PK`; otherwise a stream of pickles. Whatever else arrives, a web page that says "not found", a Git LFS pointer, is taken for such a stream, whose first instruction is then a letter. The function's other business is to say what it
# will *not* do: restrict a `pickle_module` that it does not know, map a file that has no path, read what cannot be sought in.


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#load
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


# %% [markdown]
# `weights_only` has three sources, and the environment is one of them: an administrator can forbid what a program asks for, and whoever cannot change an old program can give it the old default, but not override a choice that the program made.


# %%
#| into: serialization.py
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


# %%
def outcome(environment, **options):
    file = io.BytesIO()
    torch.save(torch.nn.Module(), file)
    file.seek(0)
    os.environ.update(environment)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return type(torch.load(file, **options)).__name__
    except (pickle.UnpicklingError, RuntimeError) as error:
        return type(error).__name__
    finally:
        for name in environment:
            del os.environ[name]


FORCE, FORBID = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
for environment in ({}, {FORCE: "1"}, {FORBID: "1"}, {FORCE: "1", FORBID: "1"}):
    results = [outcome(environment, **options) for options in ({}, {"weights_only": True}, {"weights_only": False})]
    print(f"{', '.join(environment) or 'neither':66} {results}")


# %%
#| claim: the environment can force weights_only on against the program, and off only where the program has not chosen
def _(torch):
    import io
    import os
    import pickle
    import warnings

    def loads(environment, **options):
        file = io.BytesIO()
        torch.save(torch.nn.Module(), file)
        file.seek(0)
        os.environ.update(environment)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.load(file, **options)
        except pickle.UnpicklingError:
            return False
        finally:
            for name in environment:
                del os.environ[name]
        return True

    force, forbid = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}, {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    assert loads({}, weights_only=False) and not loads(force, weights_only=False)
    assert not loads({}) and loads(forbid) and not loads(forbid, weights_only=True)


# %% [markdown]
# The rest of the first step: what cannot be sought in is refused with a way out, the first word is looked at, and safetensors is left to its library.


# %%
#| into: serialization.py
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


# %%
#| claim: an empty file is EOFError; a file that was cut off has no central directory; a Git LFS pointer or a web page is taken for a pickle whose first instruction is a letter
def _(torch):
    import io
    import pickle

    file = io.BytesIO()
    torch.save(torch.ones(1000), file)
    pointer, page = b"version https://git-lfs.github.com/spec/v1\n", b"<!DOCTYPE html>"
    for data, kind, phrase in (
        (b"", EOFError, ""),
        (file.getvalue()[:3000], RuntimeError, "failed finding central directory"),
        (pointer, pickle.UnpicklingError, f"Unsupported operand {ord('v')}"),
        (page, pickle.UnpicklingError, f"Unsupported operand {ord('<')}"),
    ):
        try:
            torch.load(io.BytesIO(data))
        except kind as error:
            assert phrase in str(error), str(error)
        else:
            raise AssertionError(data[:20])


# %%
#| claim: what mmap cannot map and what cannot be sought in is refused, with the way out
def _(torch):
    import io
    import tempfile

    class Pipe:
        def read(self, count=-1):
            return b""

        def readline(self):
            return b""

    file, folder = io.BytesIO(), tempfile.mkdtemp()
    torch.save(torch.ones(2), file)
    torch.save(torch.ones(2), folder + "/old.pt", _use_new_zipfile_serialization=False)
    for work, kind, phrase in (
        (lambda: torch.load(io.BytesIO(file.getvalue()), mmap=True), ValueError, "f must be a file path"),
        (lambda: torch.load(folder + "/old.pt", mmap=True), RuntimeError, "mmap can only be used with files"),
        (lambda: torch.load(Pipe()), AttributeError, "You can only torch.load from a file that is seekable"),
    ):
        try:
            work()
        except kind as error:
            assert phrase in str(error), str(error)
        else:
            raise AssertionError(phrase)


# %% [markdown]
# ## The archive: a storage when it is first asked for
#
# The pickle runs, and each `BINPERSID` hands the reference to `persistent_load`. It reads the record the first time and gives the same storage every time after: aliases are aliases again. Everything in the reference comes from the file and is compared before it is used; the number of elements against the size of the record, too.
#
# Elements are read unless nobody wants them: storages for `meta` have none, and `skip_data` leaves them to the caller.
#
# For a trusted file Python's own unpickler does the work, and only names are mapped: `torch.` in the file is `readtorch.` here. A whole `nn.Linear` that PyTorch wrote is one of ours when it arrives.


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#_load
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


# %% [markdown]
# A file says which byte order it has, and a machine of the other kind turns the bytes of each element round after reading. An archive without that record is older than it; what is then assumed has a part of its own, the next.


# %%
#| into: serialization.py
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


# %%
torch.save({"matrix": torch.arange(6.0).reshape(2, 3), "twice": [torch.ones(1)] * 2}, folder / "model.pt")

# %%
#| trace: torch.serialization torch._utils torch.csrc.serialize layers=calls values=summary title="load: a record when the pickle asks for it"
found = torch.load(folder / "model.pt")

# %%
found["twice"][0] is found["twice"][1], found["matrix"].untyped_storage().nbytes()


# %%
#| claim: an archive of the other byte order is turned round when it is read
def _(torch):
    import io
    import sys
    import zipfile

    file, other = io.BytesIO(), io.BytesIO()
    values = torch.tensor([1, 256, 65536], dtype=torch.int32)
    torch.save(values, file)
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("byteorder"):
                data = b"big" if sys.byteorder == "little" else b"little"
            if name.endswith("data/0"):
                data = values.numpy().byteswap().tobytes()
            target.writestr(name, data)
    assert torch.load(io.BytesIO(other.getvalue())).tolist() == [1, 256, 65536]


# %% [markdown]
# ## The stream: storages first, elements later
#
# In the old format the bytes stand *behind* the object, in the order of a list of keys. So the pickle builds tensors over storages that are allocated and still empty, and these are filled at the end. That is the dangerous moment for memory: 50 bytes may announce any number of elements. Nothing is allocated beyond what is left of the file.
# (With a truncated file upstream allocates what is announced, and then reports that the bytes are missing.)


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#_legacy_load
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


# %%
torch.save(torch.ones(3), folder / "old.pt", _use_new_zipfile_serialization=False)
data = (folder / "old.pt").read_bytes()
for changed in (data, data[:-4], data.replace(b"K\x03", b"J\xff\xff\xff\x7f")):
    try:
        print(torch.load(io.BytesIO(changed)))
    except (RuntimeError, pickle.UnpicklingError) as error:
        print(str(error).splitlines()[-1])

# %% [markdown]
# ## Allowing a type of one's own
#
# The list can be made longer by the program that loads. An entry is an object, found in files under its own name, or a pair of an object and the name that files use: that is how a class that has moved reads its old checkpoints. The list is a set without an order or a count: the context manager takes away what it was given, also what had been allowed before the block or by a block around it.


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#add_safe_globals
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


# %%
#| claim: a pair allows a class under the name that an old file calls it by
def _(torch):
    import io
    import sys
    import types

    home = sys.modules["old_home"] = types.ModuleType("old_home")
    Old = home.Settings = type("Settings", (), {"__module__": "old_home", "__qualname__": "Settings"})
    try:
        file = io.BytesIO()
        settings = Old()
        settings.width = 3
        torch.save(settings, file)
    finally:
        del sys.modules["old_home"]

    class New:
        pass

    file.seek(0)
    with torch.serialization.safe_globals([(New, "old_home.Settings")]):
        found = torch.load(file)
    assert type(found) is New and found.width == 3


# %%
#| claim: after a safe_globals block its classes are refused, also those that had been allowed before it
def _(torch):
    class Settings:
        pass

    allowed = torch.serialization.get_safe_globals
    torch.serialization.add_safe_globals([Settings])
    assert Settings in allowed()
    with torch.serialization.safe_globals([Settings]):
        with torch.serialization.safe_globals([Settings]):
            pass
        assert Settings not in allowed()
    assert Settings not in allowed()


# %% [markdown]
# Before deciding, one would like to know what a file asks for. The names stand in the pickle; they can be read without running it.

# %%
#| into: serialization.py
#| imports
import pickletools


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#get_unsafe_globals_in_checkpoint
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


# %%
#| claim: what a checkpoint needs beyond the list can be asked for without loading it
def _(torch):
    import argparse
    import io

    file = io.BytesIO()
    torch.save({"args": argparse.Namespace(lr=0.1), "layer": torch.nn.Module(), "weight": torch.ones(1)}, file)
    file.seek(0)
    found = torch.serialization.get_unsafe_globals_in_checkpoint(file)
    assert {"argparse.Namespace", "torch.nn.modules.module.Module"} <= set(found)
    assert not any("rebuild" in name for name in found)
    file.seek(0)
    with torch.serialization.safe_globals([argparse.Namespace]):
        assert "argparse.Namespace" not in torch.serialization.get_unsafe_globals_in_checkpoint(file)


# %%
#| into: __init__.py
_MODULES += ["_weights_only_unpickler", "serialization"]
_NAMES.update({"load": "serialization", "save": "serialization"})

# %% [markdown]
# ### What upstream does more
#
# * Reading goes through C++ (`PyTorchFileReader`), which asks a Python file object for bytes; records are checked for size and not for content.
# * It reads three more kinds: TorchScript archives (handed to `torch.jit.load`, with a warning), tar archives from before 0.1.10 (`weights_only=False` only), and files of quantised, sparse, nested and distributed tensors. Ours names the first two and says what to do.

# %%
#| fact: torch/serialization.py#get_unsafe_globals_in_checkpoint
