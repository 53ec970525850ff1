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
# # Tools that a checkpoint's reader needs, and others
#
# Reference: functions of `torch._utils`, `torch.serialization` and their neighbours that libraries built on PyTorch import, though most begin with an underscore somewhere.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %% [markdown]
# ## `torch._utils`
#
# A module's property that belongs to the class, a list of functions to be told of something, an import that may fail, and what a call looks like in a log.


# %%
#| into: _utils.py
#| imports
import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, Generic, ParamSpec

# %%
#| into: _utils.py
#| upstream: torch/_utils.py#classproperty
_P = ParamSpec("_P")


class _ClassProperty:
    """What `classproperty` makes."""

    def __init__(self, function: classmethod | staticmethod) -> None:
        self.fget = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self.fget.__get__(instance, type(instance) if owner is None else owner)()


def classproperty(func: Any) -> Any:
    """Decorator: a property that is read from the class."""
    return _ClassProperty(func if isinstance(func, classmethod | staticmethod) else classmethod(func))


class CallbackRegistry(Generic[_P]):
    """Functions to be called when something of that name happens. An error in one is logged, and the others are called."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.callback_list: list[Callable[_P, None]] = []

    def add_callback(self, cb: Callable[_P, None]) -> None:
        """Call this one, too, from now on."""
        self.callback_list.append(cb)

    def fire_callbacks(self, *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Call them all."""
        for callback in self.callback_list:
            try:
                callback(*args, **kwargs)
            except Exception:
                logging.getLogger(__name__).exception(
                    "Exception in callback for %s registered with gpu trace", self.name
                )


def try_import(module_name: str) -> ModuleType | None:
    """The module, or None if there is none of that name."""
    if module_name not in sys.modules and importlib.util.find_spec(module_name) is None:
        return None
    return importlib.import_module(module_name)


def cpu_count() -> int | None:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def get_current_device_index() -> int:
    """The number of the current CUDA device, -1 if there is none."""
    from readtorch import cuda

    return cuda.current_device() if cuda.device_count() else -1


def is_compiling() -> bool:
    """Is the program being compiled? Deprecated: `torch.compiler.is_compiling` is asked."""
    from readtorch import compiler

    warnings.warn("`torch._utils.is_compiling` is deprecated. Use `torch.compiler.is_compiling` instead.", stacklevel=2)
    return compiler.is_compiling()


def render_call(fn: Any, args: Any, kwargs: dict[str, Any]) -> str:
    """A call as one line, tensors by their shapes."""
    from readtorch import _tensor_str, overrides

    with _tensor_str.printoptions(threshold=0, edgeitems=0):
        shown = [*(repr(arg) for arg in args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return f"{overrides.resolve_name(fn) or fn}({', '.join(shown)})"


def get_tensor_metadata(tensor: Any) -> dict[str, bool]:
    """What a file would have to say of a tensor besides its elements: nothing here, where a conjugate is computed at once."""
    from readtorch import Tensor

    if not isinstance(tensor, Tensor):
        raise AssertionError(f"expected torch.Tensor, got {type(tensor).__name__}")
    return {name: True for name, noted in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if noted}


def set_tensor_metadata(tensor: Any, metadata: dict[str, bool]) -> None:
    """Do to the elements what a file says of them besides."""
    from readtorch import Tensor

    if not isinstance(metadata, dict):
        raise AssertionError(f"expected dict, got {type(metadata).__name__}")
    if not isinstance(tensor, Tensor):
        raise AssertionError(f"expected torch.Tensor, got {type(tensor).__name__}")
    if metadata.get("conj"):
        tensor.conj_physical_()
    if metadata.get("neg"):
        tensor.neg_()


# %%
#| needs: a2_layers
torch._utils.render_call(torch.add, (torch.ones(3),), {"other": 2})

# %% [markdown]
# ## `torch.serialization`
#
# Checks of versions, places and types. `get_globals_in_pkl` reads a pickle's instructions without carrying one out, which is how one learns what a checkpoint would import.


# %%
#| into: serialization.py
#| imports
import contextlib
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

from readtorch._utils import _import_dotted_name


# %%
#| into: serialization.py
#| upstream: torch/serialization.py#SourceChangeWarning
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


# %%
#| into: _weights_only_unpickler.py
#| upstream: torch/_weights_only_unpickler.py#get_globals_in_pkl
def get_globals_in_pkl(file: BinaryIO) -> set[str]:
    """The names that a pickle would import. Nothing is imported or run; UnpicklingError for instructions that `load` would not take."""
    found = set()
    allowed = {chr(code) for code in _OPCODES} | {"."}
    try:
        for operation, argument, _ in pickletools.genops(file):
            if operation.code not in allowed:
                raise UnpicklingError(f"Unsupported operand {ord(operation.code)}")
            if operation.name == "GLOBAL":
                found.add(str(argument).replace(" ", "."))
    except ValueError as error:
        if "exhausted" in str(error):
            raise EOFError(str(error)) from None
        raise UnpicklingError(f"Unsupported operand: {error}") from None
    return found


def load(file: BinaryIO, *, encoding: str = "ASCII") -> Any:
    """The object in a pickle that names allowed things only, and no storages."""
    return Unpickler(file, encoding=encoding).load()


# %%
#| into: _weights_only_unpickler.py
#| imports
import pickletools

# %% [markdown]
# ## Keyword arguments of layers, and leaves that hold several models
#
# `factory_kwargs` tells apart, in a layer's keyword arguments, those which go to the functions that make its tensors. `construct_stacked_leaf` is the step of `torch.func.stack_module_state` that joins one parameter of many models.


# %%
#| into: nn/__init__.py
#| upstream: torch/nn/__init__.py#factory_kwargs
from typing import Any as _Any


def factory_kwargs(kwargs: dict[str, _Any] | None) -> dict[str, _Any]:
    """The `device`, `dtype` and `memory_format` in a layer's keyword arguments, or in their `factory_kwargs`.

    TypeError for any others, and for one that is given in both places.
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    if strange := kwargs.keys() - simple - {"factory_kwargs"}:
        raise TypeError(f"unexpected kwargs {strange}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in simple & kwargs.keys():
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found


# %%
#| into: _functorch/functional_call.py
#| upstream: torch/_functorch/functional_call.py#construct_stacked_leaf
def construct_stacked_leaf(tensors: Sequence[Tensor], name: str) -> Tensor:
    """One leaf of the same parameter of many models. RuntimeError if only some of them are trained."""
    trained = {tensor.requires_grad for tensor in tensors}
    if len(trained) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    joined = stack(tuple(tensors))
    return joined.detach().requires_grad_() if True in trained else joined


# %%
#| claim: layers' keyword arguments are checked, and those for their tensors may come in a dictionary of their own
#| upstream: torch/nn/__init__.py#factory_kwargs
def _(torch):
    assert torch.nn.factory_kwargs({"dtype": torch.half, "factory_kwargs": {"device": "cpu"}}) == {
        "dtype": torch.half,
        "device": "cpu",
    }
    for wrong in ({"bias": True}, {"dtype": torch.half, "factory_kwargs": {"dtype": torch.half}}):
        try:
            torch.nn.factory_kwargs(wrong)
        except TypeError as error:
            assert "unexpected kwargs" in str(error) or "specified twice" in str(error)
        else:
            raise AssertionError


# %%
nn.factory_kwargs({"device": "meta"})

# %% [markdown]
# ## Classes that ask for TorchScript
#
# A class may ask for compilation itself: it derives from `ScriptModule` and marks its methods with `script_method`. [As everything of `torch.jit`](../01_import/8b_neighbours.py#torchjit-scripted-code-must-mean-what-the-python-means) it stays
# Python here, an ordinary module. `freeze` upstream folds the weights of an evaluating module into its code, and refuses one that trains.


# %%
#| into: jit/_script.py
#| imports
from typing import NamedTuple

from readtorch.nn.modules.module import Module


# %%
#| into: jit/_script.py
#| upstream: torch/jit/_script.py#ScriptModule
class ScriptModule(Module):
    """A module whose methods upstream compiles; here a `Module`."""


class Attribute(NamedTuple):
    """A value with the type that upstream's compiler should take it for."""

    value: Any
    type: Any


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """`mod` itself. RuntimeError for what is no module, and for one that is training."""
    if not isinstance(mod, Module):
        raise RuntimeError(f"Freezing expects a ScriptModule as input, but got {type(mod).__name__}")
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode: call `.eval()` first")
    return mod


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """`mod` itself; one that is training is refused as by `freeze`."""
    return freeze(mod)


# %%
#| into: jit/__init__.py
from readtorch.jit._script import Attribute as Attribute
from readtorch.jit._script import ScriptModule as ScriptModule
from readtorch.jit._script import freeze as freeze
from readtorch.jit._script import optimize_for_inference as optimize_for_inference


# %%
#| claim: a class that derives from `ScriptModule` is a module, and one that trains cannot be frozen
#| upstream: torch/jit/_script.py#ScriptModule
def _(torch):
    class Twice(torch.jit.ScriptModule):
        @torch.jit.script_method
        def forward(self, x):
            return 2 * x

    module = Twice()
    assert isinstance(module, torch.nn.Module) and module(torch.ones(2)).tolist() == [2.0, 2.0]
    assert torch.jit.Attribute(1, int).value == 1
    for wrong in (module, torch.ones(1)):
        try:
            torch.jit.freeze(wrong)
        except RuntimeError as error:
            assert "Freezing" in str(error)
        else:
            raise AssertionError
    assert torch.jit.freeze(module.eval())(torch.ones(1)).item() == 2
