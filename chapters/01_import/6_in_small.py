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
# # The same in small: `import readtorch`
#
# readtorch has to go through the same stations, and has a reader who pays for each: the command line tools live in the same package, every worker process of a data loader imports it, and so does each of the book's own runs. What is the least that makes a namespace?

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

import readtorch as torch
from readtorch.csrc import module
from readtorch.literate import live
from readtorch.literate.trace import Trace
from readtorch.literate.trace.imports import record_import

live()

# %% [markdown]
# ## What would everything at once cost?
#
# The obvious `__init__.py` imports all of it, as upstream's does. Each number is a fresh process: the bare package; the package and one tensor; the package and every sub-package that it has.

# %%
EVERYTHING = [name for name in torch._MODULES if name not in ("as_torch",)]
times = {}
for label, touch in (("import readtorch", []), ("and zeros", ["zeros"]), ("and everything", EVERYTHING)):
    run = record_import("readtorch", touch=touch)
    times[label] = run.total
    print(f"{label:17} {len(run.own()):4} of its modules")
print(
    "everything takes at least five times as long as the bare package:",
    times["and everything"] > 5 * times["import readtorch"],
)

# %% [markdown]
# So the package's file does next to nothing, and its [`__getattr__`](../00_tensor/11b_namespace.py) does the rest when a first name is asked for. This is the choice that upstream did not make. What it costs is written [where laziness is](../01_import/5_after_the_extension.py): side effects come late. What makes it possible here is that there are few of them, and that each floor is loaded *whole* and in order.
#
# ## The order did not go away
#
# It moved into one function, `_names`, which is called once. Upstream's lines and ours:
#
# | `torch/__init__.py` | lines | `readtorch/__init__.py` |
# |---|---|---|
# | the version | 61 | `_names`, first line |
# | `from torch._C import *` | 445 | `_names`: `readtorch._C` is imported, which calls `initModule`; its public names are taken |
# | `TensorBase` is taken out again | 1094 | `_names`: deleted from what was taken |
# | utilities in Python | 1126–1920 | this part |
# | `from torch._tensor import Tensor` | 1931 | `_names` |
# | `_C._initExtension(…)` | 2189 | `_names`, with the same name |
# | `_VariableFunctions` | 2209–2226 | `_names` |
# | `from torch.functional import *` | 2255 | the table `_NAMES`, which is asked before |
# | the sub-packages | 2291–2341 | the table `_MODULES` |
# | `__getattr__` | 2940 | the same, with more to do |
#
# Watch it in a fresh process, where `torch.zeros` is the first thing that anybody asks for. The files have been read before, so that what remains is the order.

# %%
PROGRAM = """
import sys
import readtorch as torch
import readtorch._C, readtorch._tensor, readtorch.autograd.graph
from readtorch.literate.trace import trace

with trace("torch", layers=("calls", "lines"), title="torch.zeros is asked for, the first time") as t:
    torch.zeros
t.save(sys.argv[1])
"""
with tempfile.TemporaryDirectory() as place:
    file = str(Path(place) / "zeros.json")
    subprocess.run([sys.executable, "-c", PROGRAM, file], check=True)
    first_name = Trace.load(file)
first_name

# %% [markdown]
# The last thing `__getattr__` does is to put the answer into the module's dictionary. The second `torch.zeros` is an ordinary attribute, and costs what one costs.


# %%
def looked_up() -> bool:
    vars(torch).pop("ones", None)
    torch.ones
    return "ones" in vars(torch)


looked_up()

# %% [markdown]
# ## What is this object?
#
# The utilities come between `_C` and `Tensor`, and upstream's first is `typename`. It names an object's type for messages, and knows that a tensor's class says little: its type, in the old sense, tells dtype and device.

# %%
#| into: __init__.py
from typing import TypeGuard as _TypeGuard

if TYPE_CHECKING:
    from readtorch._tensor import Tensor as _Tensor


# %%
#| into: __init__.py
#| upstream: torch/__init__.py#typename
def typename(obj: object) -> str:
    """The type of `obj` with its module; for tensors the name of their type (`torch.FloatTensor`)."""
    if is_tensor(obj):
        return obj.type()
    owner: _Any = obj if hasattr(obj, "__qualname__") else type(obj)
    name: str = getattr(owner, "__name__", "")
    if isinstance(owner, type) and _names().get(name) is owner:
        return f"torch.{name}"
    where = getattr(owner, "__module__", "") or ""
    where = where.replace("readtorch", "torch", 1) if where.split(".")[0] == "readtorch" else where
    return owner.__qualname__ if where in ("", "builtins") else f"{where}.{owner.__qualname__}"


# %%
#| into: __init__.py
#| upstream: torch/__init__.py#is_tensor
#| upstream: torch/__init__.py#is_storage
def is_tensor(obj: object) -> _TypeGuard["_Tensor"]:
    """Is it a tensor?"""
    return isinstance(obj, _names()["Tensor"])


def is_storage(obj: object) -> bool:
    """Is it a storage?"""
    from readtorch import storage

    return isinstance(obj, storage.UntypedStorage | storage.TypedStorage)


def _asked(name: str, input: object) -> "_Tensor":
    if not is_tensor(input):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input


def is_floating_point(input: "_Tensor") -> bool:
    """Has it a floating dtype?"""
    return _asked("is_floating_point", input).is_floating_point()


def is_complex(input: "_Tensor") -> bool:
    """Has it a complex dtype?"""
    return _asked("is_complex", input).is_complex()


def numel(input: "_Tensor") -> int:
    """The number of elements."""
    return _asked("numel", input).numel()


# %%
#| into: __init__.py
#| upstream: torch/__init__.py#_check_with
def _assert(condition: _Any, message: _Any) -> None:
    """`assert` that a tracer can see. AssertionError with `message`."""
    if not condition:
        raise AssertionError(message)


def _check_with(error_type: type[Exception], cond: bool, message: _Any = None) -> None:
    """Raise `error_type` with what `message()` returns unless `cond`, which must be a bool: TypeError for a tensor."""
    #: `bool` would be a dtype here, once a program has asked for `torch.bool`
    if cond is not True and cond is not False:
        kind = "a Tensor; torch._check_tensor_all() takes one" if is_tensor(cond) else str(type(cond))
        raise TypeError(f"cond must be a bool, but got {kind}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error_type("Expected cond to be True, but got False." if message is None else str(message()))


def _check(cond: bool, message: _Any = None) -> None:
    """RuntimeError unless `cond`."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: _Any = None) -> None:
    """IndexError unless `cond`."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: _Any = None) -> None:
    """ValueError unless `cond`."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: _Any = None) -> None:
    """TypeError unless `cond`."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: _Any = None) -> None:
    """NotImplementedError unless `cond`."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all(cond: "_Tensor", message: _Any = None) -> None:
    """RuntimeError unless all elements of a bool tensor are true."""
    if not is_tensor(cond):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != _names()["bool"]:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(RuntimeError, cond.all().item() is True, message)


# %%
[torch.typename(x) for x in (torch.zeros(1), torch.zeros(1, dtype=torch.int64), 3, torch.float32, torch.Size())]


# %%
#| claim: typename tells dtype and device of a tensor, the class of anything else, and a class or function itself by its own name
#| upstream: torch/__init__.py#typename
def _(torch):
    names = [
        torch.typename(torch.ones(1)),
        torch.typename(torch.ones(1, dtype=torch.long)),
        torch.typename(torch.ones(1, dtype=torch.bool)),
    ]
    assert names == ["torch.FloatTensor", "torch.LongTensor", "torch.BoolTensor"]
    assert torch.typename(3) == torch.typename(int) == "int"
    assert torch.typename(torch.float32) == "torch.dtype" and torch.typename(torch.device("cpu")) == "torch.device"
    assert (
        torch.is_tensor(torch.ones(1))
        and not torch.is_tensor([1])
        and torch.is_storage(torch.ones(1).untyped_storage())
    )


# %% [markdown]
# ## Names that are answered by a function
#
# Old flags are the last to be dealt with. They have no value of their own any more, so they are not put into the dictionary either: each access warns, and asks.


# %%
#| into: __init__.py
#| upstream: torch/__init__.py#__getattr__
def _deprecated(name: str) -> _Any:
    """Warn, and give the value under the name that took the place of `name`."""
    import warnings

    if name == "set_vital":
        warnings.warn(f"'{name}' is deprecated, please do not call", stacklevel=3)
        return lambda *args: None
    backend, function = _REPLACED[name]
    warnings.warn(f"'{name}' is deprecated, please use 'torch.backends.{backend}.{function}()'", stacklevel=3)
    return getattr(_importlib.import_module(f"readtorch.backends.{backend}"), function)()


#: the old name of a flag: backend and function that answer today
_REPLACED = {
    "has_mps": ("mps", "is_built"),
    "has_cuda": ("cuda", "is_built"),
    "has_cudnn": ("cudnn", "is_available"),
    "has_mkldnn": ("mkldnn", "is_available"),
}
_ANSWERED.update(dict.fromkeys((*_REPLACED, "set_vital"), _deprecated))

# %%
torch.has_cuda, "has_cuda" in vars(torch)

# %% [markdown]
# ## What may `import readtorch` load?
#
# A lazy package stays lazy only if somebody looks. One `import numpy` at the head of one file that is on the way, and every command of the tools is a third of a second slower. So the list of modules that the bare import may load is a test, and so are its figures: less than 60 ms on top of NumPy, and at most an eighth of what PyTorch takes in the same
# run. One module more than its own file is allowed: the table in which a kind of device says how it is initialised, thirty lines, so that CUDA can be asked for before anything else was.

# %%
record_import("readtorch")


# %%
#| test
def test_the_import_loads_its_own_file_and_the_tables_of_devices():
    run = record_import("readtorch")
    tables = ["readtorch.csrc.utils.device_lazy_init", "readtorch.c10.core.device"]
    packages = ["readtorch", "readtorch.csrc", "readtorch.csrc.utils", "readtorch.c10", "readtorch.c10.core"]
    assert run.outcome == "imported"
    assert sorted(run.own()) == sorted(packages + tables)
    assert "numpy" not in run.names() and set(run.names()) >= {"readtorch", "importlib"}


def test_the_first_name_loads_the_floors_in_order():
    names = record_import("readtorch", touch=["zeros"]).own()
    order = [
        "readtorch",
        "readtorch._C",
        "readtorch.aten.native",
        "readtorch.csrc.module",
        "readtorch.csrc.size",
        "readtorch._tensor",
    ]
    assert [name for name in names if name in order] == order


# %%
#| needs: 04_optim
#| claim: dir() and attribute access agree: what dir(torch) lists can be had
def _(torch):
    import warnings

    listed = [name for name in dir(torch) if not name.startswith("_")]
    assert {"zeros", "nn", "float32", "Tensor", "optim", "manual_seed"} <= set(listed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [name for name in listed if not hasattr(torch, name)] == []


# %% [markdown]
# ### What upstream does more
# It does all of it, and at once. What has been put off was put off one by one, ONNX, Dynamo and Inductor as modules, pandas as a dependency (pytorch/pytorch#71313), each time after somebody had looked at a picture like those above (#97106, #110174).
