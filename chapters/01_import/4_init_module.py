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
# # `initModule`: a module is filled
#
# `PyInit__C` calls `initModule` in `torch/csrc/Module.cpp`, and some fifty calls later `torch._C` has a thousand names. Walks through the source present it as the first entry of a call stack to descend into. It is better read as a *table of contents*: each line initialises one subsystem, none returns anything to the next, and what
# there is to understand is the order.

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

import readtorch as torch
from readtorch.csrc import module
from readtorch.literate import facts, live
from readtorch.literate.trace import Trace

live()

# %% [markdown]
# ## What is called, in which order?
#
# From the fact base, for the CPU build of the release (a CUDA build has some more), those that readtorch has too in bold. A name leads to its declaration where that is known, otherwise to the function that calls it.


# %%
class Calls:
    """What a function of upstream's calls, in order, each name linked; marked where readtorch has it too."""

    def __init__(self, caller: str, ours: list[str]) -> None:
        self.caller, self.ours = facts.resolve(caller), ours
        self.names = facts.calls(caller)

    def __repr__(self) -> str:
        return "\n".join(f"{i:2} {n:39} {'readtorch' * (n in self.ours)}" for i, n in enumerate(self.names, 1))

    def _repr_html_(self) -> str:
        def linked(name: str) -> str:
            to = facts.named(name) or self.caller
            link = f'<a href="{to.url}" title="{to.path}"><code>{name}</code></a>'
            return f"<strong>{link}</strong>" if name in self.ours else link

        return f"<p>{' · '.join(f'{i}&nbsp;{linked(name)}' for i, name in enumerate(self.names, 1))}</p>"


ours = module.initModule()
Calls("torch/csrc/Module.cpp#initModule", ours)

# %% [markdown]
# | number&nbsp;of&nbsp;call | what it adds |
# |---|---|
# | 1–2 | the generator's class, and the exceptions that C++ errors are translated to: from here on something can go wrong properly |
# | 3–11 | the small types, of which arguments are made: `Size`, `dtype`, `finfo`, `layout`, `memory_format`, `qscheme`, `device`, `Stream`, `Event` |
# | 12–13 | the nodes of `torch.fx` graphs, moved to C for speed |
# | 14 | **`TensorBase`** with its 600 methods, and `_VariableFunctions` with the functions of `torch` |
# | 15–16 | what `autograd.Function` is built on, and the door to the engine |
# | 17–25 | ONNX, TorchScript, the dispatcher's switches, Dynamo, functorch, the named tuples that operators return |
# | 26–31 | the operators by namespace: `_nn`, `_fft`, `_linalg`, `_nested`, `_sparse`, `_special` |
# | 32–39 | a class from before 0.4; the profiler; the C++ `nn` modules for Python; lazy tensors; export and ahead-of-time compilation; Intel's tracing |
# | 40–45 | a function called `initModule` again, one for each kind of device that the build knows; switches that make MKL and oneDNN talk |
# | 46–49 | `StorageBase`, and bindings of later years that were put at the end |
# | 50–51 | flags (`has_openmp`, `_has_cuda`, …), and the default generator |
#
# Two rules explain the order. A type must exist before a function that takes or returns it: the parser of arguments asks "is this a `torch.Size`?" by comparing with the type object. And whatever can raise an error of PyTorch's own comes behind number 2.

# %%
#| fact: torch/csrc/Module.cpp#initModule>THPGenerator_init<THPException_init<THPSize_init<THPDtype_init<THPDevice_init<THPVariable_initModule
#| fact: torch/csrc/Module.cpp#initModule>THPVariable_initModule<THPFunction_initModule<THPEngine_initModule<initReturnTypes<initNNFunctions<init_legacy_variable
#| fact: torch/csrc/Module.cpp#initModule>initONNXBindings<initJITBindings
#| fact: torch/csrc/Module.cpp#initModule>THPStorage_init<set_module_attr<THPGenerator_initDefaultGenerator
#| fact: torch/csrc/Size.h#THPSize_init
#| fact: torch/csrc/autograd/python_variable.h#THPVariable_initModule
#| fact: torch/csrc/autograd/python_engine.h#THPEngine_initModule

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "`initModule` is where the call stack begins." It runs *inside* `PyInit__C`, which runs inside `dlopen`'s caller, CPython's import of line 445; and the operators are registered by then, by static initialisers that no call stack of Python's shows ([the extension of twenty lines](../01_import/3_extension_module.py) shows it).
#
# Need one believe a list? No: a dictionary remembers in which order its keys came. `vars(torch._C)` is a protocol of `initModule`, in PyTorch as here.

# %%
[name for name in vars(torch._C) if not name.startswith("__")][4:]


# %%
#| claim: the names of torch._C stand in its dictionary in the order of the calls of initModule
#| fact: torch/csrc/Module.cpp#initModule>THPSize_init<THPDtype_init<THPDTypeInfo_init<THPLayout_init<THPMemoryFormat_init<THPDevice_init
#| fact: torch/csrc/Module.cpp#initModule>initNNFunctions<initFFTFunctions<initLinalgFunctions<initSpecialFunctions
def _(torch):
    expected = [
        "_initExtension",
        "Generator",
        "_LinAlgError",
        "OutOfMemoryError",
        "AcceleratorError",
        "Size",
        "dtype",
        "finfo",
        "iinfo",
        "layout",
    ]
    expected += [
        "memory_format",
        "device",
        "TensorBase",
        "_VariableFunctions",
        "_FunctionBase",
        "_nn",
        "_fft",
        "_linalg",
        "_special",
    ]
    expected += ["has_spectral", "has_openmp", "has_mkl", "has_lapack", "default_generator"]
    assert [name for name in vars(torch._C) if name in expected] == expected


# %% [markdown]
# The first of these, `_initExtension`, is there before any call: the methods of the module itself are given to `PyModule_Create` in one table, collected at the beginning from a dozen files.
#
# ## The exceptions
#
# Most steps of readtorch's own `initModule` stand in chapter 0, beside what they initialise ([`initModule`](../00_tensor/11b_namespace.py#initModule) behind the class `Tensor`). Two are missing. The first is what makes `except torch.OutOfMemoryError` possible.

# %%
#| into: csrc/exceptions.py
"""The exceptions that are raised for more specific reasons than a RuntimeError (twin of `torch/csrc/Exceptions.cpp`)."""


# %%
#| into: csrc/exceptions.py
#| upstream: torch/csrc/Exceptions.h#THPException_init
class OutOfMemoryError(RuntimeError):
    """A device has no memory left for an allocation."""


class AcceleratorError(RuntimeError):
    """A device reported an error of its own."""


for _error in (OutOfMemoryError, AcceleratorError):
    _error.__module__ = "torch"


# %%
#| into: csrc/module.py
#| upstream: torch/csrc/Exceptions.h#THPException_init
@step(before="THPSize_init")
def THPException_init(module: Any) -> None:
    """The classes of exceptions."""
    from readtorch.aten.native.batch_linear_algebra import LinAlgError
    from readtorch.csrc import exceptions

    module._LinAlgError = LinAlgError
    module.OutOfMemoryError = exceptions.OutOfMemoryError
    module.AcceleratorError = exceptions.AcceleratorError


# %% [markdown]
# All of them are `RuntimeError`s, because that is what was raised before they existed, and programs catch it. In C++ there are more classes (`IndexError`, `ValueError`, `TypeError`, `NotImplementedError` have twins there); those are translated to Python's own when an error crosses the border.


# %%
#| claim: the exceptions of torch are RuntimeErrors, and known by the same object in torch.cuda
#| upstream: torch/csrc/Exceptions.cpp#translate_exception_to_python
def _(torch):
    assert issubclass(torch.OutOfMemoryError, RuntimeError) and issubclass(torch.AcceleratorError, RuntimeError)
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    assert issubclass(torch.linalg.LinAlgError, RuntimeError) and not issubclass(torch.linalg.LinAlgError, ValueError)
    try:
        torch.zeros(3)[5]
    except IndexError as error:
        assert not isinstance(error, RuntimeError)
    else:
        raise AssertionError("there is no element 5")


# %% [markdown]
# ## What was this built with?
#
# The second are flags, set one by one near the end, through a small function inside `initModule` called `set_module_attr`. They answer how the library was *compiled*: `has_mkl` is about a header at build time, not about the processor. Those with an underscore were public once.


# %%
#| into: csrc/module.py
#| upstream: torch/csrc/Module.cpp#initModule
@step(before="THPGenerator_initDefaultGenerator")
def set_module_attr(module: Any) -> None:
    """How this library was made: on NumPy, whose linear algebra is LAPACK's, and without anything else."""
    module._has_cudnn = False
    module.has_spectral = module.has_openmp = module.has_mkl = False
    module.has_lapack = True
    module._has_cuda = module._has_mps = module._has_xpu = module._has_mkldnn = False


# %%
{name: getattr(torch, name) for name in ("has_lapack", "has_mkl", "has_openmp")}


# %%
#| claim: the flags of the build are plain booleans of torch._C, and the question for CUDA's presence is another one
def _(torch):
    assert torch._C._has_cuda is torch.backends.cuda.is_built()
    assert all(
        isinstance(getattr(torch, name), bool) for name in ("has_lapack", "has_mkl", "has_openmp", "has_spectral")
    )
    assert torch.cuda.is_available() <= torch._C._has_cuda


# %% [markdown]
# ## Watch it
#
# `initModule` of this process ran long ago. In a fresh one, with the operators registered and an empty module for it to fill:

# %%
PROGRAM = """
import sys, types
import readtorch.aten.native
from readtorch.csrc import module
from readtorch.literate.trace import trace

empty = types.ModuleType("readtorch._C")
with trace("torch.csrc.module", layers=("calls", "lines"), values="no", title="initModule fills an empty module") as t:
    module.initModule(empty)
t.save(sys.argv[1])
"""
with tempfile.TemporaryDirectory() as place:
    file = str(Path(place) / "initModule.json")
    subprocess.run([sys.executable, "-c", PROGRAM, file], check=True)
    recorded = Trace.load(file)
recorded

# %% [markdown]
# Each step is handed the module and hangs its names on it; the imports in the steps are where our floors come in, in upstream's order. Called again, `initModule` does nothing and gives the list of what has been done.

# %%
module.initModule() == ours, [name for name in ours if name not in facts.calls("torch/csrc/Module.cpp#initModule")]

# %% [markdown]
# ## The second half
#
# Some things cannot be done yet. `torch.FloatTensor` answers `isinstance(x, torch.FloatTensor)` for objects of the class `Tensor`, and that class is written in Python, *on top of* `TensorBase`. `torch.float32` has to be put into the module `torch`, which is being imported right now and has nothing in it. So there is
# a second function, `THPModule_initExtension`, known in Python as `_C._initExtension`, and `torch/__init__.py` calls it 1,744 lines later, when `torch._tensor` and `torch.storage` have run.

# %%
ground: dict = {}
steps = module.THPModule_initExtension(ground)
print(len(ground), "names, such as", ", ".join(list(ground)[:3] + list(ground)[-2:]))
Calls("torch/csrc/Module.cpp#THPModule_initExtension", steps)

# %%
#| fact: torch/csrc/Module.cpp#THPModule_initExtension>initializeLayouts<initializeMemoryFormats<initializeDtypes<initialize_python_bindings<libshm_init<THPStorage_postInit<THPAutograd_initFunctions
#| fact: torch/csrc/Module.cpp#THPModule_initNames
#| fact: torch/__init__.py#_manager_path
#| fact: torch/csrc/utils/tensor_dtypes.h#torch::utils::initializeDtypes
#| fact: torch/csrc/tensor/python_tensor.h#torch::tensors::initialize_python_bindings

# %% [markdown]
# Its argument is a path: that of `torch_shm_manager`, a small program that deletes shared memory when all processes that used it are dead. If it is not beside the library, the import ends with *Unable to find torch_shm_manager*, which is the sign of a half-copied installation.
#
# The seam is visible from outside. An extension gets its `__file__` when `initModule` has returned. What stands behind `__file__` in the dictionary was added later.


# %%
#| claim: behind __file__ in torch._C's dictionary stands what was added after initModule, the functions of autograd among it
#| differs: our _C is a Python file, which has its __file__ before its code runs
#| fact: torch/csrc/Module.cpp#THPModule_initExtension>THPStorage_postInit<THPAutograd_initFunctions
def _(torch):
    names = list(vars(torch._C))
    seam = names.index("__file__")
    assert names.index("default_generator") < seam
    assert {"_functions", "_autograd"} <= set(names[seam:])


# %%
#| claim: dtypes, layouts and memory formats are names of torch and not of torch._C
def _(torch):
    for name in ("float32", "strided", "contiguous_format"):
        assert hasattr(torch, name) and not hasattr(torch._C, name)
    assert torch.float32 is torch.float and isinstance(torch.float32, torch._C.dtype)


# %%
#| claim: a legacy type is no base of Tensor: it asks for class, dtype and device
def _(torch):
    assert torch.FloatTensor not in torch.Tensor.__mro__
    assert isinstance(torch.zeros(1), torch.FloatTensor) and not isinstance(torch.zeros(1).double(), torch.FloatTensor)


# %% [markdown]
# ### What upstream does more
# The first lines of `initModule` are not in the list: C++ warnings are collected and given to Python's `warnings` behind the guard that they stand in; logging of C++ begins (`TORCH_CPP_LOG_LEVEL`). CUDA builds initialise `torch::cuda` before number 40, and a few classes more behind 46; the classes are made in every build, so that
# `torch.cuda.Stream` can be *named* where there is no CUDA. And nearly a thousand docstrings come from four Python modules that `torch/__init__.py` imports for their effect behind the sub-packages (`torch/_torch_docs.py`, `_tensor_docs.py` and two small ones), each a call of `_C._add_docstr`, which refuses a function that has one already.

# %%
#| fact: torch/csrc/Module.cpp#THPModule_addDocStr
#| fact: torch/csrc/autograd/init.cpp#THPAutograd_initExtension
