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
# # `torch._C`, and `import readtorch as torch`
#
# Where does a name like `torch.float32` or `torch._C._nn.gelu` come from, and when? Two modules remain of the ground
# floor: the one that upstream compiles, and the one that users import. This part is mostly for looking up; [chapter
# 1](../01_import/3_extension_module.py) tells the story of the import.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Who fills `torch._C`?
#
# Upstream `torch._C` is the extension module: a name for everything that C++ exports. One function fills it,
# `initModule`, which calls an `init` function of each subsystem in turn, and each adds its names. Chapter 1 says how that
# comes to be called and what the order is for. Here are the steps that the ground floor needs, with upstream's names and
# in upstream's order.

# %%
#| into: csrc/module.py
"""The making of `torch._C`, step by step (twin of `torch/csrc/Module.cpp`)."""

# %%
#| into: csrc/module.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

# %%
#| into: csrc/module.py
#| upstream: torch/csrc/Module.cpp#initModule
Step = Callable[[Any], None]
_steps: list[Step] = []
_done: list[str] = []


def step(before: str = "", steps: list[Step] = _steps) -> Callable[[Step], Step]:
    """Make a function, which is given the module to fill, the last of the `steps`, or that before the step of that name."""

    def add(function: Step) -> Step:
        names = [known.__name__ for known in steps]
        if function.__name__ in names:
            steps[names.index(function.__name__)] = function
        else:
            steps.insert(names.index(before) if before else len(names), function)
        return function

    return add


def initModule(module: Any = None) -> list[str]:
    """Fill `torch._C`, and return the names of the steps in their order. What has been done is not done again.

    Without a `module`, the one that `import torch._C` fills is meant.
    """
    if module is None:
        module = import_module("readtorch._C")
    module._initExtension = THPModule_initExtension
    for function in _steps:
        if function.__name__ not in _done:
            function(module)
            _done.append(function.__name__)
    return list(_done)


_extension: list[Step] = []


def THPModule_initExtension(torch: dict[str, Any]) -> list[str]:
    """The second half, called when the class `Tensor` is there: put what needs it into the namespace of `torch`."""
    for function in _extension:
        function(torch)
    return [function.__name__ for function in _extension]


# %% [markdown]
# The small types come first, because everything else has arguments of them.


# %%
#| into: csrc/module.py
#| upstream: torch/csrc/Size.h#THPSize_init
#| upstream: torch/csrc/Dtype.h#THPDtype_init
#| upstream: torch/csrc/TypeInfo.h#THPDTypeInfo_init
#| upstream: torch/csrc/Layout.h#THPLayout_init
#| upstream: torch/csrc/MemoryFormat.h#THPMemoryFormat_init
#| upstream: torch/csrc/Device.h#THPDevice_init
@step()
def THPSize_init(module: Any) -> None:
    """`torch.Size`."""
    from readtorch.csrc.size import Size

    module.Size = Size


@step()
def THPDtype_init(module: Any) -> None:
    """`torch.dtype`; its objects are handed out by `initializeDtypes`, later."""
    from readtorch.c10.core import default_dtype, scalar_type

    module.dtype = scalar_type.dtype
    module.get_default_dtype = default_dtype.get_default_dtype
    module._set_default_dtype = default_dtype.set_default_dtype


@step()
def THPDTypeInfo_init(module: Any) -> None:
    """`torch.finfo` and `torch.iinfo`."""
    from readtorch.csrc import type_info

    module.finfo, module.iinfo = type_info.finfo, type_info.iinfo


@step()
def THPLayout_init(module: Any) -> None:
    """`torch.layout`."""
    from readtorch.c10.core.layout import layout

    module.layout = layout


@step()
def THPMemoryFormat_init(module: Any) -> None:
    """`torch.memory_format`."""
    from readtorch.c10.core.memory_format import memory_format

    module.memory_format = memory_format


@step()
def THPDevice_init(module: Any) -> None:
    """`torch.device`."""
    from readtorch.c10.core.device import device

    module.device = device


# %% [markdown]
# Then the tensor: its class with all methods, and the functions of the `torch` namespace. Custom functions and the engine
# need the class, so they follow.


# %%
#| into: csrc/module.py
#| upstream: torch/csrc/autograd/python_variable.h#THPVariable_initModule
#| upstream: torch/csrc/autograd/python_function.h#THPFunction_initModule
#| upstream: torch/csrc/autograd/python_engine.h#THPEngine_initModule
@step()
def THPVariable_initModule(module: Any) -> None:
    """`TensorBase` with its methods, and the functions of `torch`."""
    from readtorch.c10.core import storage_impl
    from readtorch.c10.core.tensor_impl import TensorImpl
    from readtorch.csrc.autograd import (
        python_torch_functions,
        python_torch_functions_manual,
        python_variable_methods,
        python_variable_operators,
    )
    from readtorch.csrc.utils import tensor_new

    TensorImpl.__name__ = TensorImpl.__qualname__ = "TensorBase"
    module.TensorBase = TensorImpl
    python_torch_functions.init()
    python_variable_operators.init()
    python_variable_methods.init_methods()
    python_torch_functions_manual.init()
    module._VariableFunctions = python_torch_functions.module("")
    module._legacy_new, module._from_numpy = tensor_new.legacy_new, tensor_new.from_numpy
    module._library_of = tensor_new.library_of
    module._data_address, module._owner_of = storage_impl.data_address, storage_impl.owner_of
    _add_torch_function(module)


def _add_torch_function(module: Any) -> None:
    """Who is asked before a function does its work, and the ways to switch that off."""
    from readtorch.csrc.utils import disable_torch_function as asking
    from readtorch.csrc.utils import gates

    module.DisableTorchFunction, module.DisableTorchFunctionSubclass = (
        asking.DisableTorchFunction,
        asking.DisableTorchFunctionSubclass,
    )
    module._disabled_torch_function_impl = asking.disabled_torch_function_impl
    module._has_torch_function = asking.has_torch_function
    module._has_torch_function_unary = asking.has_torch_function_unary
    module._has_torch_function_variadic = asking.has_torch_function_variadic
    module._is_torch_function_enabled = asking.is_torch_function_enabled
    module._is_torch_function_mode_enabled = asking.is_torch_function_mode_enabled
    module._push_on_torch_function_stack, module._pop_torch_function_stack = gates.push_mode, gates.pop_mode
    module._look_at_subclass, module._add_plain = gates.look_at_subclass, asking.add_plain
    gates.gates.offer(
        vars(import_module("readtorch")), "torch", gates.COMPILED, ("is_complex", "is_floating_point", "numel")
    )


@step()
def THPFunction_initModule(module: Any) -> None:
    """What `torch.autograd.Function` is built on."""
    from readtorch.csrc.autograd import python_function

    module._FunctionBase = python_function.FunctionNode


@step()
def THPEngine_initModule(module: Any) -> None:
    """The way into the engine, its nodes, and the switch that says whether anything is recorded."""
    from readtorch.c10.core import autograd_state
    from readtorch.csrc.autograd import engine, node, python_engine, variable
    from readtorch.csrc.autograd.functions import accumulate_grad

    module._run_backward, module._queue_callback = python_engine.run_backward, engine.queue_callback
    module._Node, module._split_edge = node.Node, node.split_edge
    module._gradient_edge, module._own_edge = variable.gradient_edge, variable.own_edge
    module._has_no_node = variable.has_no_node
    module._AccumulateGrad = accumulate_grad.AccumulateGrad
    module.is_grad_enabled, module._set_grad_enabled = autograd_state.is_grad_enabled, autograd_state.set_grad_enabled


# %% [markdown]
# Then the namespaces of functions that are not directly below `torch`.


# %%
#| into: csrc/module.py
#| upstream: torch/csrc/autograd/python_nn_functions.h#torch::autograd::initNNFunctions
#| upstream: torch/csrc/autograd/python_fft_functions.h#torch::autograd::initFFTFunctions
#| upstream: torch/csrc/autograd/python_linalg_functions.h#torch::autograd::initLinalgFunctions
#| upstream: torch/csrc/autograd/python_special_functions.h#torch::autograd::initSpecialFunctions
@step()
def initNNFunctions(module: Any) -> None:
    """The functions behind `torch.nn.functional`."""
    from readtorch.csrc.autograd import python_torch_functions

    module._nn = python_torch_functions.module("nn")


@step()
def initFFTFunctions(module: Any) -> None:
    """`torch.fft`'s."""
    from readtorch.csrc.autograd import python_torch_functions

    module._fft = python_torch_functions.module("fft")


@step()
def initLinalgFunctions(module: Any) -> None:
    """`torch.linalg`'s."""
    from readtorch.csrc.autograd import python_torch_functions

    module._linalg = python_torch_functions.module("linalg")


@step()
def initSpecialFunctions(module: Any) -> None:
    """`torch.special`'s."""
    from readtorch.csrc.autograd import python_torch_functions

    module._special = python_torch_functions.module("special")


# %% [markdown]
# The *objects* of the small types, `torch.float32` and the others, are no names of `torch._C`. They go directly into
# `torch`, in a second half that the Python side calls when its class `Tensor` is there.


# %%
#| into: csrc/module.py
#| upstream: torch/csrc/utils/tensor_layouts.h#torch::utils::initializeLayouts
#| upstream: torch/csrc/utils/tensor_memoryformats.h#torch::utils::initializeMemoryFormats
#| upstream: torch/csrc/utils/tensor_dtypes.h#torch::utils::initializeDtypes
@step(steps=_extension)
def initializeLayouts(torch: Any) -> None:
    """`torch.strided` and the others."""
    from readtorch.c10.core import layout

    torch.update({name: value for name, value in vars(layout).items() if isinstance(value, layout.layout)})


@step(steps=_extension)
def initializeMemoryFormats(torch: Any) -> None:
    """`torch.contiguous_format` and the others."""
    from readtorch.c10.core import memory_format as formats

    torch.update({name: value for name, value in vars(formats).items() if isinstance(value, formats.memory_format)})


@step(steps=_extension)
def initializeDtypes(torch: Any) -> None:
    """`torch.float32`, also as `torch.float`, and the others."""
    from readtorch.c10.core import scalar_type

    torch.update({dtype.name: dtype for dtype in scalar_type.ALL})
    torch.update(scalar_type.ALIASES)


# %% [markdown]
# The module itself only calls `initModule`. The names below `TYPE_CHECKING` are for tools that read and do not run, as
# upstream's `_C/__init__.pyi` is. The first import is not among the steps: when C++'s `initModule` runs, the operators
# have registered themselves already, while the library was loaded.

# %%
#| into: _C/__init__.py
"""The face of the floors below (twin of the extension module `torch._C`)."""

import sys as _sys
import typing as _typing

import readtorch.aten.native
from readtorch.csrc import module as _module

if _typing.TYPE_CHECKING:
    from typing import Any as _Any

    from readtorch.c10.core.autograd_state import is_grad_enabled as is_grad_enabled
    from readtorch.c10.core.autograd_state import set_grad_enabled as _set_grad_enabled
    from readtorch.c10.core.default_dtype import get_default_dtype as get_default_dtype
    from readtorch.c10.core.default_dtype import set_default_dtype as _set_default_dtype
    from readtorch.c10.core.device import device as device
    from readtorch.c10.core.layout import layout as layout
    from readtorch.c10.core.memory_format import memory_format as memory_format
    from readtorch.c10.core.scalar_type import dtype as dtype
    from readtorch.c10.core.storage_impl import data_address as _data_address
    from readtorch.c10.core.storage_impl import owner_of as _owner_of
    from readtorch.c10.core.tensor_impl import TensorImpl as TensorBase
    from readtorch.csrc.autograd.engine import queue_callback as _queue_callback
    from readtorch.csrc.autograd.functions.accumulate_grad import AccumulateGrad as _AccumulateGrad
    from readtorch.csrc.autograd.node import Node as _Node
    from readtorch.csrc.autograd.node import split_edge as _split_edge
    from readtorch.csrc.autograd.python_engine import run_backward as _run_backward
    from readtorch.csrc.autograd.python_function import FunctionNode as _FunctionBase
    from readtorch.csrc.autograd.variable import gradient_edge as _gradient_edge
    from readtorch.csrc.autograd.variable import has_no_node as _has_no_node
    from readtorch.csrc.autograd.variable import own_edge as _own_edge
    from readtorch.csrc.module import THPModule_initExtension as _initExtension
    from readtorch.csrc.size import Size as Size
    from readtorch.csrc.type_info import finfo as finfo
    from readtorch.csrc.type_info import iinfo as iinfo
    from readtorch.csrc.utils.disable_torch_function import add_plain as _add_plain
    from readtorch.csrc.utils.disable_torch_function import DisableTorchFunction as DisableTorchFunction
    from readtorch.csrc.utils.disable_torch_function import DisableTorchFunctionSubclass as DisableTorchFunctionSubclass
    from readtorch.csrc.utils.disable_torch_function import (
        disabled_torch_function_impl as _disabled_torch_function_impl,
    )
    from readtorch.csrc.utils.gates import look_at_subclass as _look_at_subclass
    from readtorch.csrc.utils.gates import pop_mode as _pop_torch_function_stack
    from readtorch.csrc.utils.gates import push_mode as _push_on_torch_function_stack
    from readtorch.csrc.utils.tensor_new import from_numpy as _from_numpy
    from readtorch.csrc.utils.tensor_new import library_of as _library_of
    from readtorch.csrc.utils.tensor_new import legacy_new as _legacy_new

    _VariableFunctions: _Any
    _nn: _Any
    _fft: _Any
    _linalg: _Any
    _special: _Any

_module.initModule(_sys.modules[__name__])

# %%
from readtorch.csrc.module import initModule

initModule()

# %% [markdown]
# ## What does `import readtorch as torch` load?
#
# Next to nothing. Upstream imports nearly everything at once, which takes seconds (a few sub-packages, `torch._dynamo`
# and `torch._inductor` above all, wait until they are named). Our package loads the library when a first name is asked
# for, and each sub-package when it is named: the module's `__getattr__` looks names up in a table that each chapter
# extends. (The book's tools live in the same package, and must work, quickly, while the library is broken.)

# %%
#| into: __init__.py
"""A small PyTorch on NumPy and CuPy, tangled from a book about PyTorch's source. `import readtorch as torch`."""

import importlib as _importlib
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
    from readtorch._C import Size as Size
    from readtorch._C import device as device
    from readtorch._C import dtype as dtype
    from readtorch._tensor import Tensor as Tensor
    from readtorch.csrc.generator import Generator as Generator

newaxis = None

# %%
#| into: __init__.py
#: sub-packages and submodules, imported when first named
_MODULES = ["_C", "_tensor", "_tensor_str", "_utils", "autograd", "storage", "torch_version", "utils", "version"]

#: names that live in a submodule: `name: module`
_NAMES = {
    "TypedStorage": "storage",
    "UntypedStorage": "storage",
    "enable_grad": "autograd.grad_mode",
    "inference_mode": "autograd.grad_mode",
    "is_anomaly_check_nan_enabled": "c10.core.autograd_state",
    "is_anomaly_enabled": "c10.core.autograd_state",
    "is_inference_mode_enabled": "autograd.grad_mode",
    "set_anomaly_enabled": "c10.core.autograd_state",
    "no_grad": "autograd.grad_mode",
    "set_grad_enabled": "autograd.grad_mode",
    "set_printoptions": "_tensor_str",
}

#: names whose value is the answer of a function, asked each time
_ANSWERED: dict = {}


# %%
#| into: __init__.py
#| upstream: torch/__init__.py#__getattr__
def __getattr__(name):  # type: ignore[no-untyped-def]  # typed, it would be analysed too late for the modules it imports
    """Load what `name` needs. AttributeError as a module's if there is no such name."""
    found: _Any
    if name in _ANSWERED:
        return _ANSWERED[name](name)
    if name in _MODULES:
        found = _importlib.import_module(f"readtorch.{name}")
    elif name in _NAMES:
        _names()  # what the module makes must be of the class that `_tensor` defines
        found = getattr(_importlib.import_module(f"readtorch.{_NAMES[name]}"), name)
    else:
        found = None if name.startswith("__") and name != "__version__" else _names().get(name)
        if found is None and name.startswith("_") and not name.startswith("__"):
            found = getattr(_importlib.import_module("readtorch._C")._VariableFunctions, name, None)
        if found is None:
            raise _importlib.import_module("readtorch._not_here").missing("torch", name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Everything there is, imported or not."""
    #: the lower floors become attributes of the package when they are imported; upstream's are compiled
    return sorted({*globals(), *_names(), *_MODULES, *_NAMES} - {"aten", "c10", "csrc"})


_ground: dict = {}


def _names() -> dict:
    """The names of the ground floor: classes, dtypes and operators. Brought up at the first question, in upstream's order."""
    if not _ground:
        names: dict = {"__version__": _importlib.import_module("readtorch.torch_version").__version__}
        _C = _importlib.import_module("readtorch._C")
        names.update({name: value for name, value in vars(_C).items() if not name.startswith("_")})
        for hidden in ("TensorBase", "readtorch"):
            del names[hidden]
        names["Tensor"] = _importlib.import_module("readtorch._tensor").Tensor
        names.update(_importlib.import_module("readtorch.storage")._old_classes("torch"))
        _C._initExtension(names)
        names.update({name: value for name, value in vars(_C._VariableFunctions).items() if not name.startswith("_")})
        _importlib.import_module("readtorch.autograd.graph")  # gives nodes the methods that Python sees
        _ground.update(names)
    return _ground


# %%
#| into: __init__.py
#| upstream: torch/__init__.py#set_default_dtype
def set_default_dtype(d: _Any, /) -> None:
    """The dtype of tensors made from Python floats from now on."""
    from readtorch import _C

    _C._set_default_dtype(d)


# %% [markdown]
# ## Why is `str(torch.__version__) > "2.9"` false?
#
# Because text compares character by character, and "1" comes before "9". It has been false since 2.10, and so has every
# test that splits the string at dots and compares the pieces as text. `torch.__version__` itself is a string that
# compares as a version, with strings and with tuples.

# %%
#| into: torch_version.py
#| imports
from __future__ import annotations

from typing import Any


# %%
#| into: torch_version.py
#| upstream: torch/torch_version.py#TorchVersion
class TorchVersion(str):
    """A version string that compares as a version: `TorchVersion("1.10.0a") > "1.9"`, `> (1, 9)`."""

    __slots__ = ()

    def _key(self, other: Any) -> Any:
        if isinstance(other, str):
            return _release(other)
        if isinstance(other, tuple | list):
            return _release(".".join(map(str, other)))
        return NotImplemented

    def __lt__(self, other: Any) -> bool:
        key = self._key(other)
        return key if key is NotImplemented else _release(self) < key

    def __le__(self, other: Any) -> bool:
        key = self._key(other)
        return key if key is NotImplemented else _release(self) <= key

    def __gt__(self, other: Any) -> bool:
        key = self._key(other)
        return key if key is NotImplemented else _release(self) > key

    def __ge__(self, other: Any) -> bool:
        key = self._key(other)
        return key if key is NotImplemented else _release(self) >= key

    def __eq__(self, other: object) -> bool:
        key = self._key(other)
        return False if key is NotImplemented else _release(self) == key

    __hash__ = str.__hash__


def _release(text: str) -> tuple[int, ...]:
    """The numbers of a version, up to the first part that is none."""
    numbers: list[int] = []
    for part in text.split("+")[0].split("."):
        digits = "".join(character for character in part if character.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


__version__ = TorchVersion("2.13.0")

# %%
#| into: version.py
#| imports
from readtorch.torch_version import __version__ as __version__

# %%
#| into: version.py
#| upstream: torch/torch_version.py#TorchVersion
cuda: str | None = None
hip: str | None = None
debug = False
git_version = "readtorch"


# %%
#| claim: `torch.__version__` is a string that compares as a version
#| upstream: torch/torch_version.py#TorchVersion
def _(torch):
    assert torch.__version__ > "2.9" and torch.__version__ > (2, 9) and isinstance(torch.__version__, str)
    assert not str(torch.__version__) > "2.9"


# %% [markdown]
# ## What does `torch.zeros(3, layout=torch.sparse_coo)` make?
# A tensor without elements. A layout says how elements are stored, and creation functions can be asked for another than
# `strided`. The only one here, `sparse_coo`, lists what is not zero (a1, [*Sparse
# tensors*](../a1_operators/5c_sparse.py)). So `zeros` and `empty` have nothing to store, and `ones` and `full` refuse.


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
#| imports
from readtorch.c10.core.layout import EMPTY_OF, LAYOUT_OF, strided


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
def _kind(dtype: Any) -> np.dtype:
    return to_numpy_dtype(get_default_dtype() if dtype is None else dtype)


def _is_meta(device: Any) -> bool:
    if device is None:
        return current_default_device().type == "meta"
    return str(device) == "meta"


def _without_elements(layout: Any, shape: tuple[int, ...], kind: np.dtype, device: Any, requires_grad: bool) -> Any:
    """A tensor of a layout that stores what is not zero: it stores nothing."""
    if layout not in EMPTY_OF:
        raise NotImplementedError(f"layout {layout!r} is not here: torch.strided and torch.sparse_coo are")
    return finish(EMPTY_OF[layout](shape, kind), device, requires_grad)


def _only_strided(layout: Any) -> None:
    """RuntimeError for a layout that has no room for other elements than 0."""
    if layout is not None and layout is not strided:
        raise RuntimeError("full(...) is not implemented for sparse layout")


def _like_in(make: Any, layout: Any, array: Any, kind: np.dtype, target: Any, requires_grad: bool) -> Any:
    """`zeros_like` and its family in a layout that is given, or that of a tensor that is not strided."""
    layout = LAYOUT_OF.get(array.__class__, strided) if layout is None else layout
    if layout is strided:
        return _new(
            lambda numpy, shape, kind: make(numpy.empty(shape, kind), kind), array.shape, kind, target, requires_grad
        )
    if make is np.ones_like:
        raise NotImplementedError("Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU' backend.")
    return _without_elements(layout, array.shape, kind, target, requires_grad)


def _layout_beside(self: Any, layout: Any, function: Any) -> Any:
    """The layout of what `self.new_zeros()` and its family make."""
    if layout is None and function is ones:
        raise NotImplementedError("Could not run 'aten::fill_.Scalar' with arguments from the 'SparseCPU' backend.")
    return LAYOUT_OF.get(self._array.__class__) if layout is None else layout


# %% [markdown]
# ## What if `torch` lacks a name?
#
# Whoever asks for such a name has mistyped it, or followed a page about the real PyTorch. One more sentence helps the
# second reader, so the names that are asked for most often have an entry: what to write instead. The table is read only
# when a name was not found. The page "What is here" of this site shows the same list.

# %%
#| into: _not_here.py
"""What PyTorch has and readtorch does not, as far as people look for it, and what to use instead."""

# %%
#| into: _not_here.py
_FORWARD = "`torch.func.jvp`, `jacfwd` and `linearize`, which are two reverse passes"
_TRACED = (
    "`readtorch.literate.trace` and `readtorch trace run`: every call, operator and gradient, to be stepped through"
)
_OWN = "`torch.autograd.Function` for an operator of one's own; the built-in ones are functions of `torch`"
_COO = "`torch.sparse_coo_tensor`: a coalesced COO tensor holds the same entries in the same order"
_ROUND = "`torch.round` and `torch.clamp` by hand; there are no quantized dtypes"
_EAGER = "the code as it is: `torch.compile` and `torch.jit.script` are there and give back what they are given"
_BY_HAND = "a loop over the sizes that matter, with `torch.utils.benchmark.Timer` in it"
_TIMES = "`Timer.blocked_autorange`: there are no instructions of compiled code to count"
_HOOKS = "`__torch_function__` and `torch.overrides.TorchFunctionMode`, which see calls where Python makes them"
_DEVICES = 'the devices "cpu", "cuda" and "meta"'

NOT_HERE = {
    "func.functionalize": "the function as it is: nothing here traces it",
    "func.rearrange": "`reshape`, `permute` and `flatten`",
    "autograd.forward_ad": _FORWARD,
    "ops": _OWN,
    "library": _OWN,
    "utils._python_dispatch": _HOOKS,
    "sparse_csr_tensor": _COO,
    "sparse_csc_tensor": _COO,
    "sparse_bsr_tensor": _COO,
    "sparse_bsc_tensor": _COO,
    "sparse_compressed_tensor": _COO,
    "nested": "padding and a mask, or `torch.nn.utils.rnn.pack_padded_sequence`",
    "masked": "`torch.where` and `masked_fill`",
    "quantize_per_tensor": _ROUND,
    "quantize_per_channel": _ROUND,
    "quantization": _ROUND,
    "ao": _ROUND,
    "fx": _EAGER,
    "export": _EAGER,
    "cond": "Python's `if`",
    "cpu.amp": '`torch.autocast("cpu")` and `torch.amp`',
    "mps": _DEVICES,
    "xpu": _DEVICES,
    "mtia": _DEVICES,
    "complex32": "`torch.complex64`: NumPy has no complex numbers of two float16",
    "chalf": "`torch.complex64`: NumPy has no complex numbers of two float16",
    "utils.benchmark.Fuzzer": _BY_HAND,
    "utils.benchmark.FuzzedParameter": _BY_HAND,
    "utils.benchmark.FuzzedTensor": _BY_HAND,
    "utils.benchmark.FuzzedSparseTensor": _BY_HAND,
    "utils.benchmark.ParameterAlias": _BY_HAND,
    "utils.benchmark.CallgrindStats": _TIMES,
    "utils.benchmark.FunctionCounts": _TIMES,
    "utils.cpp_extension": "`torch.autograd.Function` around NumPy or a CuPy kernel",
    "utils.flop_counter": _TRACED,
}


def missing(module: str, name: str) -> AttributeError:
    """The error of a module that has no such name, with the way out where PyTorch's has it."""
    instead = NOT_HERE.get(f"{module}.{name}".removeprefix("torch."))
    why = f" (PyTorch has it, readtorch does not have it; use {instead})" if instead else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{why}")


# %%
#| test
def test_a_name_that_pytorch_has_is_told_from_one_that_nobody_has():
    for ask, end in (
        (lambda: torch.fx, "no attribute 'fx' (PyTorch has it, readtorch does not have it; use the code as it is"),
        (lambda: torch.autograd.forward_ad, "no attribute 'forward_ad' (PyTorch has it"),
        (lambda: torch.no_such_thing, "module 'torch' has no attribute 'no_such_thing'"),
    ):
        try:
            ask()
        except AttributeError as error:
            assert end in str(error)
        else:
            raise AssertionError(end)


# %% [markdown]
# ### What upstream does more
#
# * The real `initModule` makes some fifty such calls, and each may import Python modules of its own; [chapter 1](../01_import/4_init_module.py) has the list.
# * `torch.__getattr__` serves deprecated names and the few lazy sub-packages; every other name is there when the import has ended.

# %%
#| fact: torch/overrides.py#TorchFunctionMode
#| fact: torch/_tensor.py#_rebuild_from_type_v2
