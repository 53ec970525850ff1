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
# # The neighbours a script imports
#
# The first ten lines of a training script name more of PyTorch than its next hundred use: `torch.jit` for a decorator, `torch.onnx` for an export behind a flag, `torch.multiprocessing` for one `spawn`. None of them computes anything, but
# a script whose import fails computes nothing either. This part holds these namespaces. Each does here what it does upstream in an eager run, and what it cannot do it refuses when asked, not when imported.

# %%
import os
import tempfile

import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: __init__.py
_MODULES += ["compiler", "hub", "jit", "multiprocessing", "onnx", "types"]

# %%
#| into: utils/__init__.py
_MODULES += ["dlpack", "model_zoo"]

# %% [markdown]
# ## `torch.jit`: scripted code must mean what the Python means
#
# TorchScript compiles a subset of Python so that it runs without Python; whatever it accepts has to give the result of the plain code. Leaving the function as it is satisfies that contract on every input, and keeps it readable in a
# debugger. `is_scripting` and `is_tracing` say False, so that `if torch.jit.is_scripting():` takes the eager branch.

# %%
#| into: jit/__init__.py
"""TorchScript's decorators, which leave Python code as it is: the meaning is the same, only the interpreter differs."""

# %%
#| into: jit/__init__.py
from typing import Final as Final

from readtorch.jit._script import export as export
from readtorch.jit._script import fork as fork
from readtorch.jit._script import ignore as ignore
from readtorch.jit._script import is_scripting as is_scripting
from readtorch.jit._script import is_tracing as is_tracing
from readtorch.jit._script import script as script
from readtorch.jit._script import script_if_tracing as script_if_tracing
from readtorch.jit._script import script_method as script_method
from readtorch.jit._script import trace as trace
from readtorch.jit._script import trace_module as trace_module
from readtorch.jit._script import unused as unused
from readtorch.jit._script import wait as wait


def annotate(the_type: object, the_value: object) -> object:
    """`the_value`; the type speaks to the compiler alone."""
    return the_value


# %%
#| into: jit/_script.py
"""What marks code for TorchScript; here every function stays a Python function."""

# %%
#| into: jit/_script.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

# %%
#| into: jit/_script.py
#| upstream: torch/jit/_script.py#script
_F = TypeVar("_F")


def script(obj: _F, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> _F:
    """`obj` itself, a function, class or module. RuntimeError for anything else."""
    if not callable(obj):
        raise RuntimeError(f"script takes a function, a class or a module, but got {type(obj).__name__}")
    return obj


def script_method(fn: _F) -> _F:
    """`fn` itself."""
    return fn


def script_if_tracing(fn: _F) -> _F:
    """`fn` itself: nothing is ever traced."""
    return fn


def export(fn: _F) -> _F:
    """`fn` itself; upstream compiles it though `forward` does not call it."""
    return fn


def unused(fn: _F) -> _F:
    """`fn` itself; in a scripted module a call of it would raise."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Leave a function to Python; with or without parentheses."""
    return drop if callable(drop) else lambda fn: fn


def is_scripting() -> bool:
    """False: no code is compiled."""
    return False


def is_tracing() -> bool:
    """False: no operators are recorded for a graph."""
    return False


# %% [markdown]
# `trace` upstream runs a function once and keeps the operators that ran: branches are frozen at what the example input took. A function that stays Python takes its branches anew in each call, which differs where control flow depends on
# data. Upstream warns of exactly these functions (`TracerWarning`), and the example input is run here too, so that one that does not fit fails at the same place.


# %%
#| into: jit/_script.py
#| upstream: torch/jit/_trace.py#trace
def trace(func: Any, example_inputs: Any = None, *rest: Any, example_kwarg_inputs: Any = None, **options: Any) -> Any:
    """`func` itself, after one call with the example inputs. RuntimeError without any."""
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    if isinstance(example_inputs, (tuple, list)):
        func(*example_inputs)
    elif example_inputs is not None:
        func(example_inputs)
    else:
        func(**example_kwarg_inputs)
    return func


# %%
#| into: jit/_script.py
#| upstream: torch/jit/_trace.py#trace_module
def trace_module(mod: Any, inputs: dict[str, Any], *rest: Any, **options: Any) -> Any:
    """`mod` itself, after one call of each method that `inputs` names, with what it holds for it. AttributeError for no such method."""
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    for method, given in inputs.items():
        trace(mod if method == "forward" else getattr(mod, method), given)
    return mod


# %% [markdown]
# `fork` starts a call that may run beside what follows it, and `wait` takes the result. In an eager run upstream the forked call has run when `fork` returns, and so it has here.


# %%
#| into: jit/_script.py
class _Done(NamedTuple):
    result: Any

    def wait(self) -> Any:
        return self.result

    def value(self) -> Any:
        return self.result

    def done(self) -> bool:
        return True


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `func` now and give something to `wait` for."""
    return _Done(func(*args, **kwargs))


def wait(future: Any) -> Any:
    """The result of a forked call."""
    return future.wait()


# %%
@torch.jit.script
def shifted(x):
    return x + 1 if not torch.jit.is_scripting() else x - 1


print(shifted(torch.zeros(2)), shifted.__name__)


# %%
#| claim: a function decorated with `torch.jit.ignore` or `unused` stays an ordinary function in eager runs
def _(torch):
    @torch.jit.unused
    def one(x):
        return x + 1

    @torch.jit.ignore
    def two(x):
        return x + 2

    @torch.jit.ignore(drop=True)
    def three(x):
        return x + 3

    assert [f(1) for f in (one, two, three)] == [2, 3, 4]
    assert not torch.jit.is_scripting() and not torch.jit.is_tracing()


# %%
#| needs: 02_module
#| claim: under the stance "force_eager" compiled functions run as they are, in a block and in a decorated function
def _(torch):
    @torch.compile
    def doubled(x):
        return 2 * x

    @torch.compiler.set_stance("force_eager")
    def called():
        return doubled(torch.ones(1)).item()

    with torch.compiler.set_stance("force_eager"):
        assert doubled(torch.ones(1)).item() == called() == 2
    try:
        torch.compiler.set_stance("force_eager", force_backend="eager")
    except RuntimeError as error:
        assert "force_backend" in str(error)
    else:
        raise AssertionError


# %%
#| claim: a forked call has its result when it is waited for
def _(torch):
    assert torch.jit.wait(torch.jit.fork(torch.add, torch.ones(2), 1)).tolist() == [2.0, 2.0]


# %% [markdown]
# ## `torch.compiler` and `torch.onnx`
#
# Libraries ask `torch.compiler.is_compiling()` on hot paths and mark functions with `disable`. An ONNX export needs the `onnx` packages upstream as well; here there is none, and `export` says so.

# %%
#| into: compiler/__init__.py
"""Questions and marks for `torch.compile`, which runs code eagerly here."""

from typing import Any as _Any

from readtorch.utils._contextlib import _DecoratorContextManager


def is_compiling() -> bool:
    """False: code is run, never captured."""
    return False


def is_dynamo_compiling() -> bool:
    """False, as `is_compiling`."""
    return False


def is_exporting() -> bool:
    """False: there is no exporter."""
    return False


def disable(fn: object = None, recursive: bool = True, *, reason: str | None = None) -> object:
    """Leave a function to Python; with or without parentheses."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: object) -> object:
    """`fn` itself; a list gives a list."""
    return [allow_in_graph(each) for each in fn] if isinstance(fn, (list, tuple)) else fn


def assume_constant_result(fn: object) -> object:
    """`fn` itself."""
    return fn


def reset() -> None:
    """Nothing to forget: no compiled code is kept."""


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark: there are no captured graphs."""


class set_stance(_DecoratorContextManager):
    """When to compile: a function, a context manager or a decorator. Every stance runs code eagerly here.

    RuntimeError for a backend beside a stance other than "default".
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: _Any = None
    ) -> None:
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.stance, self.force_backend = stance, force_backend

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def clone(self) -> "set_stance":
        """Another one of the same stance."""
        return type(self)(self.stance, force_backend=self.force_backend)


def compile(*args: _Any, **kwargs: _Any) -> _Any:
    """`torch.compile`."""
    import readtorch

    return readtorch.compile(*args, **kwargs)


# %%
#| into: onnx/__init__.py
"""Importable, as scripts import it at their top; nothing is exported."""


class OnnxExporterError(RuntimeError):
    """An export failed."""


def export(model: object, args: object = (), f: object = None, **options: object) -> None:
    """OnnxExporterError: there is no exporter here."""
    raise OnnxExporterError(
        "torch.onnx.export is not part of readtorch. Save the state_dict, load it into the same model under PyTorch, and "
        "export it there"
    )


def is_in_onnx_export() -> bool:
    """False: no export ever runs."""
    return False


# %%
try:
    torch.onnx.export(None, (), "model.onnx")
except RuntimeError as error:
    print(type(error).__name__, "·", error)

# %% [markdown]
# ## `torch.hub` and `torch.utils.model_zoo`: a file from elsewhere, once
#
# `load_state_dict_from_url` is how pretrained weights reach a script. The file lands in a cache folder under the last part of its address; when its name carries the first digits of a SHA-256 (`resnet18-5c106cde.pth`), they are checked.
# It is written under a temporary name and renamed when complete, so that an interrupted download is never mistaken for a model.

# %%
#| into: hub.py
"""Downloaded checkpoints and their cache."""

# %%
#| into: hub.py
#| imports
from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
import tempfile
import urllib.parse
import urllib.request
from typing import Any

# %%
#| into: hub.py
#| upstream: torch/hub.py#get_dir
_HASH = re.compile(r"-([a-f0-9]*)\.")
_CHUNK = 128 * 1024

_hub_dir: str | None = None


def get_dir() -> str:
    """The cache folder: the one set, else below `TORCH_HOME`, `XDG_CACHE_HOME` or the user's cache."""
    if _hub_dir is not None:
        return _hub_dir
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch"))), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep downloads below `d`."""
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


# %%
#| into: hub.py
#| upstream: torch/hub.py#download_url_to_file
def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetch `url` into the file `dst`. RuntimeError if the SHA-256 of what came does not begin with `hash_prefix`."""
    request = urllib.request.Request(url, headers={"User-Agent": "torch.hub"})
    digest, dst = hashlib.sha256(), os.path.expanduser(dst)
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(dst)), suffix=".partial")
    try:
        with open(handle, "wb") as file, urllib.request.urlopen(request) as response:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                digest.update(chunk)
        found = digest.hexdigest()
        if hash_prefix and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
        os.replace(partial, dst)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


# %%
#| into: hub.py
#| upstream: torch/hub.py#load_state_dict_from_url
def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Load a checkpoint from `url`, or from the cache if it has been fetched before.

    As upstream, `weights_only` is False unless asked for: a file from an address that you do not trust needs True.
    """
    from readtorch.serialization import load

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    try:
        os.makedirs(folder)
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    filename = file_name or os.path.basename(urllib.parse.urlparse(url).path)
    cached = os.path.join(folder, filename)
    if not os.path.exists(cached):
        sys.stdout.write(f'Downloading: "{url}" to {cached}\n')
        found = _HASH.search(filename) if check_hash else None
        download_url_to_file(url, cached, found.group(1) if found else None, progress=progress)
    return load(cached, map_location=map_location, weights_only=weights_only)


# %%
#| into: utils/model_zoo.py
"""The older names of two functions of `torch.hub`."""

# %%
#| into: utils/model_zoo.py
#| imports
from readtorch.hub import download_url_to_file as _download_url_to_file  # noqa: F401 - a name of this module
from readtorch.hub import load_state_dict_from_url as load_url  # noqa: F401 - a name of this module

# %%
#| needs: 02_module
with tempfile.TemporaryDirectory() as folder:
    torch.save({"w": torch.ones(2)}, os.path.join(folder, "net-0000.pt"))
    address = f"file://{folder}/net-0000.pt"
    cache = os.path.join(folder, "cache")
    print(torch.hub.load_state_dict_from_url(address, model_dir=cache, progress=False).keys())
    print(os.listdir(cache))
    try:
        torch.hub.load_state_dict_from_url(address, model_dir=folder + "/other", progress=False, check_hash=True)
    except RuntimeError as error:
        print(str(error)[:46], "…")
    print(os.listdir(folder + "/other"), "(nothing half-written stays)")

# %% [markdown]
# ## `torch.multiprocessing`: Python's, and `spawn`
#
# The package is Python's `multiprocessing` with two additions. `spawn` starts `nprocs` processes that get their rank as first argument, waits for all, and if one fails ends the others and raises its traceback in the parent. (The other addition,
# tensors that travel between processes as references to shared memory, is [chapter 5's](../05_data/3b_crossing.py#every-other-queue).)

# %%
#| into: multiprocessing/__init__.py
"""Python's `multiprocessing`, and processes started by rank."""

# %%
#| into: multiprocessing/__init__.py
from multiprocessing import *  # noqa: F403 - this module stands for that one

from readtorch.multiprocessing.spawn import ProcessContext as ProcessContext
from readtorch.multiprocessing.spawn import ProcessExitedException as ProcessExitedException
from readtorch.multiprocessing.spawn import ProcessRaisedException as ProcessRaisedException
from readtorch.multiprocessing.spawn import SpawnContext as SpawnContext
from readtorch.multiprocessing.spawn import spawn as spawn
from readtorch.multiprocessing.spawn import start_processes as start_processes

_sharing_strategy = "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """How shared tensors are passed on; AssertionError for a name that is not offered."""
    global _sharing_strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {get_all_sharing_strategies()}"
        )
    _sharing_strategy = new_strategy


def get_sharing_strategy() -> str:
    """The strategy in use."""
    return _sharing_strategy


def get_all_sharing_strategies() -> set[str]:
    """The strategies that may be set."""
    return {"file_descriptor", "file_system"}


# %%
#| into: multiprocessing/spawn.py
"""Processes by rank, and what happens when one of them fails."""

# %%
#| into: multiprocessing/spawn.py
#| imports
from __future__ import annotations


import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import pickle
import signal
import tempfile
import traceback
from collections.abc import Callable
from typing import Any


# %%
#| into: multiprocessing/spawn.py
#| upstream: torch/multiprocessing/spawn.py#ProcessException
class ProcessException(Exception):
    """A process failed; says which."""

    __slots__ = ("error_index", "error_pid")

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = self.error_pid = pid

    def __reduce__(self) -> tuple[type, tuple]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process ended with a Python exception; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with a status other than zero."""

    __slots__ = ("exit_code", "signal_name")

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[type, tuple]:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


# %% [markdown]
# An exception cannot cross to the parent through an exit status. The child writes its traceback into a file whose name it was given, and leaves with status 1; whether the file has anything in it tells the parent an exception from `sys.exit(1)`.


# %%
#| into: multiprocessing/spawn.py
#| upstream: torch/multiprocessing/spawn.py#_wrap
def _wrap(fn: Callable[..., None], rank: int, args: tuple, error_file: str) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        try:
            fn(rank, *args)
        except Exception:
            pathlib.Path(error_file).write_bytes(pickle.dumps(traceback.format_exc()))
            raise SystemExit(1) from None


# %%
#| into: multiprocessing/spawn.py
#| upstream: torch/multiprocessing/spawn.py#ProcessContext
class ProcessContext:
    """The processes of one `start_processes`."""

    def __init__(self, processes: list[Any], error_files: list[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: rank for rank, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The process ids, by rank."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one process to end. True when all have; raises when one failed, after ending the others."""
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(self.sentinels.keys(), timeout=timeout)
        failed = None
        for sentinel in ready:
            rank = self.sentinels.pop(sentinel)
            self.processes[rank].join()
            if self.processes[rank].exitcode != 0:
                failed = rank
                break
        if failed is None:
            return not self.sentinels
        self._end_all(grace_period)
        self._raise(failed)
        return False

    def _end_all(self, grace_period: float | None) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(30.0 if grace_period is None else grace_period)
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, rank: int) -> None:
        process = self.processes[rank]
        if not os.path.getsize(self.error_files[rank]):
            if process.exitcode < 0:
                name = signal.Signals(-process.exitcode).name
                raise ProcessExitedException(
                    f"process {rank} terminated with signal {name}", rank, process.pid, process.exitcode, name
                )
            raise ProcessExitedException(
                f"process {rank} terminated with exit code {process.exitcode}", rank, process.pid, process.exitcode
            )
        with open(self.error_files[rank], "rb") as file:
            original = pickle.load(file)
        message = f"\n\n-- Process {rank} terminated with the following error:\n{original}"
        raise ProcessRaisedException(message, rank, process.pid)

    def __del__(self) -> None:
        for file in self.error_files:
            if os.path.exists(file):
                os.remove(file)


class SpawnContext(ProcessContext):
    """The same, of processes started by `spawn`."""


# %%
#| into: multiprocessing/spawn.py
#| upstream: torch/multiprocessing/spawn.py#start_processes
def start_processes(
    fn: Callable[..., None],
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    numa_options: Any = None,
) -> ProcessContext | None:
    """Run `fn(rank, *args)` in `nprocs` processes. With `join` wait for all and return None, else return their context."""
    context: Any = multiprocessing.get_context(start_method)
    processes, files = [], []
    for rank in range(nprocs):
        handle, name = tempfile.mkstemp(prefix="torch-multiprocessing-error-", suffix=".pickle")
        os.close(handle)
        process = context.Process(target=_wrap, args=(fn, rank, args, name), daemon=daemon)
        process.start()
        processes.append(process)
        files.append(name)
    started = (SpawnContext if start_method == "spawn" else ProcessContext)(processes, files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., None],
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` by a fresh interpreter each, whose `fn` is found by import: it has to stand at a module's top level."""
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


# %%
counts = torch.zeros(3).share_memory_()


def work(rank, counts):
    counts[rank] += rank + 1
    if rank == 5:
        raise ValueError("rank five")


torch.multiprocessing.start_processes(work, (counts,), nprocs=3, start_method="fork")
print(counts)

# %% [markdown]
# ## `torch.types` and `torch.utils.dlpack`

# %%
#| into: types.py
"""Names for annotations."""

# %%
#| into: types.py
#| imports
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from readtorch import Size, Tensor, storage
from readtorch.c10.core.device import device as _device

# %%
#| into: types.py
#| upstream: torch/types.py#Number
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = str | os.PathLike | IO[bytes]
Storage: TypeAlias = storage.UntypedStorage
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]

# %%
#| into: utils/dlpack.py
"""Tensors to and from other libraries without a copy."""

# %%
#| into: utils/dlpack.py
#| imports
from __future__ import annotations

from typing import Any

import readtorch


# %%
#| into: utils/dlpack.py
#| upstream: torch/utils/dlpack.py#from_dlpack
def to_dlpack(tensor: Any) -> Any:
    """A capsule that hands the memory on once."""
    return tensor.__dlpack__()


def from_dlpack(ext_tensor: Any) -> Any:
    """A tensor on the memory of `ext_tensor`, an object with `__dlpack__`."""
    return readtorch.from_dlpack(ext_tensor)


# %% [markdown]
# ## Trees of tensors
#
# A model may take and give lists of dicts of tensors. `torch.utils._pytree` takes such a nest apart into its leaves and a description of the rest, and puts it together again. The leading underscore has not kept libraries from using it.

# %%
#| into: utils/_pytree.py
"""Nests of containers, taken apart into leaves and put together again (twin of `torch/utils/_pytree.py`)."""

# %%
#| into: utils/_pytree.py
#| imports
from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple


# %%
#| into: utils/_pytree.py
#| upstream: torch/utils/_pytree.py#NodeDef
class NodeDef(NamedTuple):
    """How one type of container is taken apart (children, context) and made of children and context."""

    type: type[Any]
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]


SUPPORTED_NODES: dict[type[Any], NodeDef] = {}


def register_pytree_node(
    cls: type[Any], flatten_fn: Callable[..., Any], unflatten_fn: Callable[..., Any], **_: Any
) -> None:
    """Let `cls` be a container. ValueError if it is one already."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)


register_pytree_node(tuple, lambda nest: (list(nest), None), lambda children, _: tuple(children))
register_pytree_node(list, lambda nest: (list(nest), None), lambda children, _: list(children))
for _kind in (dict, OrderedDict):
    register_pytree_node(
        _kind,
        lambda nest: (list(nest.values()), list(nest)),
        lambda children, keys, kind=_kind: kind(zip(keys, children, strict=True)),
    )
register_pytree_node(
    defaultdict,
    lambda nest: (list(nest.values()), (nest.default_factory, list(nest))),
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
)
register_pytree_node(
    deque, lambda nest: (list(nest), nest.maxlen), lambda children, maxlen: deque(children, maxlen=maxlen)
)


def _kind_of(tree: Any) -> type[Any]:
    """Tuples with named items are tuples: those of `collections` and `typing`, and what operators with several results return."""
    return tuple if isinstance(tree, tuple) and (hasattr(tree, "_fields") or hasattr(tree, "n_fields")) else type(tree)


# %%
#| into: utils/_pytree.py
#| upstream: torch/utils/_pytree.py#TreeSpec
class TreeSpec:
    """A nest without its leaves. `type` is None for a leaf."""

    def __init__(
        self, type: type[Any] | None, context: Any = None, children_specs: list[TreeSpec] | None = None
    ) -> None:
        self.type, self.context, self.children_specs = type, context, children_specs or []
        self.num_leaves: int = 1 if type is None else sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it stands for one leaf."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and (self.type, self.context, self.children_specs) == (
            other.type,
            other.context,
            other.children_specs,
        )

    __hash__ = None  # type: ignore[assignment]  # what Python itself writes for a class with __eq__ alone

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The nest with these leaves. ValueError for another number of them."""
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec holds {self.num_leaves}"
            )
        return self._built(iter(given))

    def _built(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        children = [child._built(leaves) for child in self.children_specs]
        if hasattr(self.type, "_fields"):
            return self.type(*children)
        if hasattr(self.type, "n_fields"):
            return self.type(children)
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What stands in `tree` where this has leaves. ValueError for a nest of another form."""
        if self.type is None:
            return [tree]
        if type(tree) is not self.type:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = SUPPORTED_NODES[_kind_of(tree)].flatten_fn(tree)
        if self.type in (dict, OrderedDict) and set(context) == set(self.context):
            children, context = [tree[key] for key in self.context], self.context
        if len(children) != len(self.children_specs) or context != self.context:
            raise ValueError(f"Node arity or context mismatch; expected {self!r}, but got {tree!r}.")
        return [
            leaf
            for spec, child in zip(self.children_specs, children, strict=True)
            for leaf in spec.flatten_up_to(child)
        ]


# %%
#| into: utils/_pytree.py
#| upstream: torch/utils/_pytree.py#tree_flatten
def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, from left to right, and what is left without them. `is_leaf` may stop at a container."""
    leaves: list[Any] = []
    return leaves, _flatten_into(leaves, tree, is_leaf)


def _flatten_into(leaves: list[Any], tree: Any, is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    node = SUPPORTED_NODES.get(_kind_of(tree))
    if node is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return TreeSpec(None)
    children, context = node.flatten_fn(tree)
    return TreeSpec(type(tree), context, [_flatten_into(leaves, child, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The nest again."""
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves alone."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """What is left without the leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """A nest of the same form, of `func` of each leaf, and of what stands in its place in each of `rests`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(rest) for rest in rests)))


def tree_map_only(
    type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """`tree_map` for the leaves of a type, or of several, or those of which a function says yes; the others stay."""
    wanted = type_or_types_or_pred
    chosen = wanted if callable(wanted) and not isinstance(wanted, type) else lambda leaf: isinstance(leaf, wanted)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all leaves are such."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether one leaf is such."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


# %%
#| claim: a nest is taken apart from left to right and put together again, named tuples and ordered dicts included
def _(torch):
    from collections import OrderedDict, namedtuple

    from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

    Pair = namedtuple("Pair", "a b")
    nest = {"x": [1, (2, 3)], "y": Pair(4, OrderedDict(z=5))}
    leaves, spec = tree_flatten(nest)
    assert leaves == [1, 2, 3, 4, 5] and tree_unflatten(leaves, spec) == nest
    assert tree_map(lambda a, b: a + b, nest, nest) == {"x": [2, (4, 6)], "y": Pair(8, OrderedDict(z=10))}
