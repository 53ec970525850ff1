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
# # Options for calls you do not make: `torch.utils.serialization.config`
#
# A trainer calls `torch.save` for you, a model hub calls `torch.load`, and neither passes an argument of yours on. What they do can be set from outside, in a module whose attributes are the options:
#
# | option | default | what it changes |
# |---|---|---|
# | `load.mmap` | `False` | `load` maps files when it was not told whether to |
# | `load.mmap_flags` | `MAP_PRIVATE` | with `MAP_SHARED`, a write to a mapped tensor goes into the file |
# | `load.endianness` | `None` | byte order of files that name none (the part before last) |
# | `load.calculate_storage_offsets` | `False` | places of mapped records are computed; their headers are not read |
# | `save.compute_crc32` | `True` | without it, no checksums are computed or written |
# | `save.storage_alignment` | `64` | where records begin: 4096 for direct I/O, which wants whole pages |
# | `save.use_pinned_memory_for_d2h` | `False` | storages of a GPU are copied to the host through pinned memory |

# %%
import io
import tempfile
import zipfile
from pathlib import Path

import readtorch as torch
from readtorch.literate import live

live()
folder = Path(tempfile.mkdtemp())

# %% [markdown]
# ## A module that refuses a misspelt option
#
# `config.load.mmpa = True` on an ordinary module creates an attribute that nobody reads. So the module is given a class of its own, in place of `ModuleType`, whose `__setattr__` knows the names that were there at the end of the import. `torch._dynamo.config` and `torch._inductor.config`, with hundreds of options, are made by the same function.
#
# Where does a value live? Not in the module. Each option is a `ContextVar`, so that a `patch` in one thread, or in one task of an event loop, does not change what another does at that moment.

# %%
#| into: utils/_config_module.py
"""Modules whose attributes are options: only known names, values by context, `patch` to change some for a while."""

# %%
#| into: utils/_config_module.py
#| imports
from __future__ import annotations

from collections.abc import Mapping
from contextlib import ContextDecorator
from contextvars import ContextVar
from types import ModuleType
from typing import Any

# %%
#| into: utils/_config_module.py
#| upstream: torch/utils/_config_module.py#ConfigModule
_MISSING = object()


class ConfigModule(ModuleType):
    """The class of a module after `install_config_module`. AttributeError for a name that is no option."""

    _config: dict[str, ContextVar[Any]]

    def _option(self, name: str) -> ContextVar[Any]:
        option = self.__dict__["_config"].get(name)
        if option is None:
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        return option

    def __setattr__(self, name: str, value: object) -> None:
        self._option(name).set(value)

    def __getattr__(self, name: str) -> Any:
        value = self._option(name).get()
        if value is _MISSING:
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        return value

    def __delattr__(self, name: str) -> None:
        self._option(name).set(_MISSING)

    def get_config_copy(self) -> dict[str, Any]:
        """The values of all options by their names, those of a group as `group.name`."""
        return {name: option.get() for name, option in self._config.items()}

    def load_config(self, config: Mapping[str, Any]) -> None:
        """Set the options to what `get_config_copy` returned."""
        for name, value in config.items():
            self.__setattr__(name, value)

    def patch(self, arg1: str | Mapping[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> ContextDecorator:
        """A context manager and decorator: options have these values inside, and those from before afterwards.

        Give a name and a value, or a dictionary, or keywords.
        """
        if arg1 is None:
            changes: Mapping[str, Any] = kwargs
        elif kwargs:
            raise AssertionError("expected either a name, a dictionary or keywords, not two of them")
        else:
            changes = {arg1: arg2} if isinstance(arg1, str) else arg1
        if not isinstance(changes, Mapping):
            raise AssertionError(f"expected a dictionary of options, got {type(changes)}")
        return _Patch(self, dict(changes))


class _Patch(ContextDecorator):
    def __init__(self, module: ConfigModule, changes: dict[str, Any]) -> None:
        self._module, self._changes = module, changes
        self._before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        self._before.append({name: getattr(self._module, name) for name in self._changes})
        self._module.load_config(self._changes)

    def __exit__(self, *exc: object) -> None:
        self._module.load_config(self._before.pop())


class SubConfigProxy:
    """A group of options: `config.load.mmap` is the option `load.mmap` of `config`."""

    def __init__(self, config: Any, prefix: str) -> None:
        super().__setattr__("_config", config)
        super().__setattr__("_prefix", prefix)

    def __setattr__(self, name: str, value: object) -> None:
        self._config.__setattr__(self._prefix + name, value)

    def __getattr__(self, name: str) -> Any:
        return self._config.__getattr__(self._prefix + name)

    def __delattr__(self, name: str) -> None:
        self._config.__delattr__(self._prefix + name)


# %%
#| into: utils/_config_module.py
#| upstream: torch/utils/_config_module.py#install_config_module
def install_config_module(module: ModuleType) -> None:
    """Make options of the public names of `module`, groups of options of the classes that it defines."""
    options: dict[str, ContextVar[Any]] = {}
    groups: list[str] = []
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            groups.append(name)
            for inner, default in vars(value).items():
                if not inner.startswith("_"):
                    options[f"{name}.{inner}"] = ContextVar(f"{name}.{inner}", default=default)
        elif not name.startswith("_") and isinstance(value, bool | int | float | str | None):
            options[name] = ContextVar(name, default=value)
            delattr(module, name)
    module.__class__ = ConfigModule
    proxies = {name: SubConfigProxy(module, f"{name}.") for name in groups}
    module.__dict__.update(proxies, _config=options)


# %% [markdown]
# The options themselves are written as what they look like, a module with two classes; the last line turns it into the other thing.

# %%
#| into: utils/serialization/__init__.py
"""Options of `save` and `load` (twin of `torch/utils/serialization/`)."""

from readtorch.utils.serialization import config as config

# %%
#| into: utils/serialization/config.py
"""Options of `load` and `save` for whole programs, where a call does not say."""

# %%
#| into: utils/serialization/config.py
#| imports
from __future__ import annotations

import sys
from typing import Any

from readtorch.utils._config_module import install_config_module as _install_config_module


# %%
#| into: utils/serialization/config.py
#| upstream: torch/utils/serialization/config.py#load
#| upstream: torch/utils/serialization/config.py#save
class load:
    """What `readtorch.load` does where its caller does not say."""

    mmap: bool = False
    endianness: Any = None
    mmap_flags: int | None = None if sys.platform == "win32" else 2
    calculate_storage_offsets: bool = False


class save:
    """How `readtorch.save` writes."""

    compute_crc32: bool = True
    use_pinned_memory_for_d2h: bool = False
    storage_alignment: int = 64


_install_config_module(sys.modules[__name__])

# %%
#| into: utils/__init__.py
_MODULES += ["serialization", "_config_module"]

# %%
from readtorch.utils.serialization import config

torch.save(torch.zeros(3), folder / "model.pt")
with config.patch("load.mmap", True):
    mapped = torch.load(folder / "model.pt")
type(mapped.numpy().base).__name__, config.load.mmap

# %%
try:
    config.load.mmpa = True
except AttributeError as error:
    print(error)


# %%
#| claim: an option that does not exist cannot be set; patch, as a block or as a decorator, puts the value from before back
def _(torch):
    import importlib
    from unittest import mock

    config = importlib.import_module(f"{torch.__name__}.utils.serialization.config")
    for work in (lambda: setattr(config.load, "mmpa", True), lambda: config.save.mmap, lambda: config.nothing):
        try:
            work()
        except AttributeError as error:
            assert "does not exist" in str(error)
        else:
            raise AssertionError("an unknown option")

    @config.patch("save.storage_alignment", 128)
    def inside():
        with config.patch({"save.storage_alignment": 256, "load.mmap": True}):
            yield config.save.storage_alignment, config.load.mmap
        yield config.save.storage_alignment, config.load.mmap

    with config.patch("save.storage_alignment", 128):
        assert list(inside.__wrapped__()) == [(256, True), (128, False)]
    with mock.patch.object(config.load, "mmap", True):
        assert config.load.mmap is True
    assert config.save.storage_alignment == 64 and config.load.mmap is False


# %% [markdown]
# A context variable has a side that has surprised people: a thread begins with an *empty* context. What the main thread has set is not set in it. A checkpoint that a background thread writes is written with the defaults, unless that thread sets its own.


# %%
#| claim: an option that was set holds for the thread that set it; a new thread sees the default
def _(torch):
    import importlib
    import threading

    config = importlib.import_module(f"{torch.__name__}.utils.serialization.config")
    seen = []
    with config.patch("save.storage_alignment", 4096):
        thread = threading.Thread(target=lambda: seen.append(config.save.storage_alignment))
        thread.start()
        thread.join()
        assert config.save.storage_alignment == 4096
    assert seen == [64]


# %% [markdown]
# ## Sparing checksums, and writing through a map
#
# The checksum costs one pass over memory for each record. Nobody but zip tools compares it (and this book's reader). A file written without has zeros in their place, which a zip tool takes for damage and our reader for what it means. Two options have functions of their own beside the module.


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#set_crc32_options
def get_crc32_options() -> bool:
    """Does `save` compute checksums?"""
    from readtorch.utils.serialization import config

    return config.save.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Let `save` compute checksums, or spare them: `load` reads such files, zip tools may refuse them."""
    from readtorch.utils.serialization import config

    config.save.compute_crc32 = compute_crc32


# %%
#| into: serialization.py
#| imports
import mmap as _mmap

# %%
#| into: serialization.py
#| upstream: torch/serialization.py#set_default_mmap_options
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


# %%
#| claim: without checksums a file has zeros in their place; it loads, and a zip tool takes it for damaged
def _(torch):
    import io
    import zipfile

    file = io.BytesIO()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"weight": torch.arange(300_000.0), "bias": torch.ones(2)}, file)
    finally:
        torch.serialization.set_crc32_options(True)
    assert torch.serialization.get_crc32_options()
    archive = zipfile.ZipFile(file)
    assert all(entry.CRC == 0 for entry in archive.infolist())
    assert torch.load(file := io.BytesIO(file.getvalue()))["weight"].sum() == torch.arange(300_000.0).sum()
    try:
        archive.read("archive/data/0")
    except zipfile.BadZipFile as error:
        assert "Bad CRC-32" in str(error)
    else:
        raise AssertionError("read")


# %% [markdown]
# A private map, the default, copies a page when it is written to. A shared one *is* the file:


# %%
#| claim: a tensor from a shared map writes into the file, one from a private map does not
def _(torch):
    import mmap
    import tempfile

    path = tempfile.mkdtemp() + "/weights.pt"
    torch.save(torch.zeros(3), path)
    torch.load(path, mmap=True).fill_(1)
    assert torch.load(path).tolist() == [0, 0, 0]
    with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        assert torch.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        torch.load(path, mmap=True).fill_(1)
    with open(path, "rb") as file:
        assert torch.ones(3).numpy().tobytes() in file.read()
    try:
        torch.serialization.set_default_mmap_options(mmap.MAP_SHARED | mmap.MAP_PRIVATE)
    except ValueError as error:
        assert "expected mmap.MAP_PRIVATE or mmap.MAP_SHARED" in str(error)
    else:
        raise AssertionError("set")


# %% [markdown]
# (After that write our reader refuses the file, if it is asked to read and not to map it: the checksum is that of the zeros.)
#
# ## A record that will be filled later
#
# A checkpoint of many gigabytes is best written by many threads, each at its own place of one file. For that the places must be fixed before the bytes are there. Inside `skip_data`, `save` writes everything but the elements: each record has its header and its room, and room for a checksum that nobody has computed. What `map_location="meta"` reads gives
# shapes; the directory gives the places; the rest is `seek` and `write`.
#
# The same block around `load` builds tensors over memory that is allocated and not read into. The flag is a property of the thread.


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#skip_data
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


# %%
weights = {"first": torch.arange(3.0), "second": torch.ones(2)}
with torch.serialization.skip_data():
    torch.save(weights, folder / "empty.pt")
before = torch.load(folder / "empty.pt")

from readtorch.csrc.serialize.inline_container import PyTorchStreamReader

with open(folder / "empty.pt", "r+b") as file:
    reader = PyTorchStreamReader(file)
    for key, tensor in enumerate(weights.values()):
        file.seek(reader.get_record_offset(f"data/{key}"))
        file.write(tensor.numpy().tobytes())
before, torch.load(folder / "empty.pt")


# %%
#| claim: skip_data writes a file of the same size with zeros for elements, and is refused for the format before 1.6
def _(torch):
    import tempfile
    import zipfile

    folder = tempfile.mkdtemp()
    values = {"weight": torch.arange(1.0, 1000.0), "count": torch.tensor(3)}
    torch.save(values, folder + "/model.pt")
    whole = open(folder + "/model.pt", "rb").read()
    with torch.serialization.skip_data():
        torch.save(values, folder + "/model.pt")
        try:
            torch.save(values, folder + "/old.pt", _use_new_zipfile_serialization=False)
        except RuntimeError as error:
            assert "Cannot use skip_data=True" in str(error)
        else:
            raise AssertionError("saved")
    assert len(open(folder + "/model.pt", "rb").read()) == len(whole)
    found = torch.load(folder + "/model.pt")
    assert found["weight"].shape == (999,) and not found["weight"].any() and found["count"].item() == 0
    with zipfile.ZipFile(folder + "/model.pt") as archive:
        assert [entry.CRC for entry in archive.infolist() if "/data/" in entry.filename] == [0, 0]


# %%
#| claim: with the other alignment, records begin there, the file says so, and computed places are the right ones
def _(torch):
    import importlib
    import tempfile
    import zipfile

    config = importlib.import_module(f"{torch.__name__}.utils.serialization.config")
    path = tempfile.mkdtemp() + "/model.pt"
    values = [torch.full((n,), float(n)) for n in (1, 5000, 7, 0)]
    with config.patch("save.storage_alignment", 4096):
        torch.save(values, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.read("model/.storage_alignment") == b"4096"
    assert open(path, "rb").read().index(torch.full((7,), 7.0).numpy().tobytes()) % 4096 == 0
    with config.patch({"load.mmap": True, "load.calculate_storage_offsets": True}):
        found = torch.load(path)
    assert [tensor.tolist() for tensor in found] == [tensor.tolist() for tensor in values]


# %% [markdown]
# ### What upstream does more
#
# * A module of options reads environment variables, knows aliases of options elsewhere, hashes its values for the compiler's cache and writes them as a program that sets them.
# * With `map_location="meta"`, each storage says where its record lies (`_checkpoint_offset`), so that the last example needs no reader of archives.
# * To compute places, upstream adds up sizes from the first record on, because the directory of a remote file would be one more round trip; here the directory has been read anyway, and what is spared is one read per record.
# * `skip_data(materialize_fake_tensors=True)` saves the tensors of `FakeTensorMode` as if they were real ones: a checkpoint's shell without the memory for a model.

# %%
#| fact: torch/utils/_config_module.py#ConfigModule.patch
#| fact: torch/serialization.py#_get_storage_alignment
#| fact: torch/serialization.py#skip_data
