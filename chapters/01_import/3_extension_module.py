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
# # `from torch._C import *`: a module that is a library
#
# Behind the dot stands a file of nine kilobytes. It exports one function, and that function's only statement calls another. Where is PyTorch? This part takes extension modules apart: a real one, then one of our own, twenty lines long, whose start can be watched.

# %%
import ctypes
import importlib.machinery
import importlib.util
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy._core._multiarray_umath as umath

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## What is an extension on disk?
#
# A shared library in a folder where modules are looked for, with a name that says for which Python it was compiled. The finder takes a file if its name is the module's with one of these endings:

# %%
importlib.machinery.EXTENSION_SUFFIXES[-1], len(importlib.machinery.EXTENSION_SUFFIXES)

# %% [markdown]
# The first, longest ending names version and platform (`.cpython-311-x86_64-linux-gnu.so`), so that one folder can hold builds for several. There is no search for "a `_C` that fits": under another Python the file is invisible, and the error is *No module named 'torch._C'* for a file that is plainly there
# (pytorch/pytorch#574 collects years of it).
#
# > [!NOTE]
# > **Often told otherwise.** Walks through the source show `site-packages` of a Python 3.8. PyTorch 2.13 needs 3.10, and nothing of what they list is in that file any more: `torch/_C.cpython-3xx-….so` is a stub that links `libtorch_python.so`, where the code is. The split exists because a module
# > is loaded under one name for one Python, while C++ extensions of others link against the same code, as a library.


# %%
#| claim: the file of torch._C is a stub of a few kilobytes beside a library of megabytes
#| differs: readtorch's _C is a Python file
#| fact: torch/csrc/stub.c#PyInit__C
def _(torch):
    import sys
    from pathlib import Path

    file = Path(torch._C.__file__)
    assert ".cpython-" in file.name or file.suffix == ".pyd"
    if sys.platform.startswith("linux"):
        assert file.stat().st_size < 20_000
        assert (file.parent / "lib" / "libtorch_python.so").stat().st_size > 10_000_000


# %% [markdown]
# A library's file begins with tables for the linker: what it needs, where to look, what it offers. Thirty lines read the first two. The victim is the heart of NumPy, which readtorch stands on as PyTorch does on `libtorch_cpu`.


# %%
def dynamic(path: str) -> dict[str, list[str]]:
    """What a 64-bit ELF library tells the linker: NEEDED, RUNPATH or RPATH, SONAME."""
    data = Path(path).read_bytes()
    if data[:5] != b"\x7fELF\x02":
        return {"not an ELF library": [Path(path).suffix]}
    headers, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, headers + i * size) for i in range(count)]
    in_file = lambda address: next(a - v + address for k, _, a, v, _, n in segments if k == 1 and v <= address < v + n)
    start = next(offset for kind, _, offset, *_ in segments if kind == 2)
    entries = []
    while not entries or entries[-1][0]:
        entries.append(struct.unpack_from("<QQ", data, start + 16 * len(entries)))
    strings = in_file(next(value for tag, value in entries if tag == 5))
    found: dict[str, list[str]] = {}
    for tag, value in entries:
        name = {1: "NEEDED", 14: "SONAME", 15: "RPATH", 29: "RUNPATH"}.get(tag)
        if name:
            found.setdefault(name, []).append(data[strings + value : data.index(b"\0", strings + value)].decode())
    return found


for name, values in dynamic(umath.__file__).items():
    print(f"{name:8}", *[value.split("-")[0] for value in values])

# %% [markdown]
# Its BLAS stands first, under a name with a hash, so that no other library of that name can be meant; and the path written into it leads to `numpy.libs`, beside the package. NumPy's answer to [the problem of finding libraries](../01_import/2_before_the_extension.py) is to bring a private copy of everything. PyTorch cannot: NVIDIA's libraries have
# gigabytes, and other packages use them too.
#
# With PyTorch installed, follow the chain behind the stub:


# %%
def chain(package: str) -> None:
    """Which library of `package` needs which."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        print(f"{package} is not installed here")
        return
    folder = Path(spec.origin).parent
    waiting, seen = sorted(folder.glob("_C.*.so")), set()
    while waiting:
        file = waiting.pop(0)
        told = dynamic(str(file))
        needs = [n for n in told.get("NEEDED", []) if (folder / "lib" / n).exists()]
        path = next((kind for kind in ("RPATH", "RUNPATH") if kind in told), "")
        name, size = file.name.split(".")[0], file.stat().st_size / 1e6
        print(f"{name:16} {size:7.2f} MB  {path:8} needs {', '.join(needs) or 'none of the package'}")
        fresh = [n for n in needs if n not in seen]
        seen.update(fresh)
        waiting += [folder / "lib" / n for n in fresh]


chain("torch")

# %% [markdown]
# `libtorch_python` is the bindings, `libtorch_cpu` the operators and autograd, `libc10` the ground floor. `libtorch` is empty: it exists so that programs in C++ have one thing to link.
#
# ## What happens when it is loaded?
#
# 1. **`dlopen`** maps the library and everything it needs, then runs its *initialisers*: constructors of global C++ objects, functions marked as such.
# 2. **`dlsym`** looks up one symbol by name, `PyInit_` and the last part of the module's name: `PyInit__C` for `torch._C`.
# 3. That function is **called**, and returns a module object, or the plan for one.
# 4. The module is put into `sys.modules` and gets `__file__`.
#
# The first step, by hand, and the second:

# %%
library = ctypes.PyDLL(umath.__file__)
name = umath.__name__.rpartition(".")[2]
print(f"PyInit_{name}:", hasattr(library, f"PyInit_{name}"), "· PyInit_torch:", hasattr(library, "PyInit_torch"))

# %% [markdown]
# The third has two forms. In the old one, *single-phase*, `PyInit_` creates the module, fills it, and returns it. In the newer one (PEP 489, *multi-phase*) it returns a definition, and the import machinery makes the module and calls the functions in its slots, as often as needed: once per sub-interpreter.
# Which one a loaded module used stands in that definition. CPython hands out a pointer to it, and the layout is public, so `ctypes` can read it.


# %%
class PyModuleDef(ctypes.Structure):
    """CPython's description of an extension module, as `moduleobject.h` lays it out."""

    _fields_ = (
        ("head", ctypes.c_char * object.__basicsize__), ("m_init", ctypes.c_void_p), ("m_index", ctypes.c_ssize_t),
        ("m_copy", ctypes.c_void_p), ("m_name", ctypes.c_char_p), ("m_doc", ctypes.c_char_p), ("m_size", ctypes.c_ssize_t),
        ("m_methods", ctypes.c_void_p), ("m_slots", ctypes.c_void_p),
    )  # fmt: skip


def definition(module) -> PyModuleDef | None:
    """The definition of an extension module, None for a module that has none."""
    get = ctypes.pythonapi.PyModule_GetDef
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object]
    address = get(module)
    return PyModuleDef.from_address(address) if address else None


def phases(module) -> str:
    found = definition(module)
    if found is None:
        return "no definition: not an extension"
    return f"{found.m_name.decode():18} {'multi-phase' if found.m_slots else 'single-phase'}"


print(phases(umath))
print(phases(sys.modules["_ctypes"]))
print(phases(torch._C))

# %%
try:
    import cupy._core.core as cupy_core

    print(phases(cupy_core))
except ImportError:
    print("CuPy is not installed here, or finds no CUDA library")

# %% [markdown]
# `torch._C` is of the old kind, and with a thousand classes and functions registered in C++ for the process as a whole it could hardly be otherwise. It cannot be loaded into a second interpreter, and not twice into one.


# %%
#| claim: the extension torch._C is initialised in one phase: its definition has no slots
#| differs: readtorch's _C is a Python file and has no definition
def _(torch):
    import ctypes

    get = ctypes.pythonapi.PyModule_GetDef
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object]
    address = get(torch._C)
    word = ctypes.sizeof(ctypes.c_void_p)
    fields = (ctypes.c_void_p * 8).from_address(address + object.__basicsize__)
    assert ctypes.string_at(fields[3]) == b"torch._C" and fields[7] is None and word == 8


# %% [markdown]
# ## Twenty lines of C
#
# Watch a module start. This one has an initialiser, as every file of PyTorch's that registers operators has one; a `PyInit_` function that does nothing but call a function of another name, as `stub.c` does; and a log of who came when. The log is plain C, because no Python object may be touched in an
# initialiser: there need not be a Python.

# %%
SOURCE = r"""
#include <Python.h>

static const char *order[8];
static int count = 0, inits = 0;

__attribute__((constructor)) static void registers_operators(void) { order[count++] = "initialiser"; }

static PyObject *events(PyObject *self, PyObject *none) {
    PyObject *list = PyList_New(0);
    for (int i = 0; i < count; i++) PyList_Append(list, PyUnicode_FromString(order[i]));
    return list;
}

static PyMethodDef methods[] = {{"events", events, METH_NOARGS, "what ran, in order"}, {NULL}};
static struct PyModuleDef tiny = {PyModuleDef_HEAD_INIT, "tiny._C", NULL, -1, methods};

PyObject *initModule(void) {
    PyObject *module = PyModule_Create(&tiny);
    order[count++] = "initModule: the module is there, and empty";
    PyModule_AddIntConstant(module, "Size", ++inits);
    PyModule_AddIntConstant(module, "TensorBase", 2);
    order[count++] = "initModule: filled";
    return module;
}

PyMODINIT_FUNC PyInit__C(void) { order[count++] = "PyInit__C"; return initModule(); }
"""

# %%
CC = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
place = Path(tempfile.mkdtemp())
header = Path(sysconfig.get_path("include")) / "Python.h"


def build(source: str) -> Path | None:
    """`tiny/__init__.py` and `tiny/_C.so` below `place`; None where they cannot be made."""
    if CC is None or not header.exists() or not sys.platform.startswith("linux"):
        print("not built: this needs Linux, Python.h and a C compiler, and looked for cc, gcc and clang")
        return None
    package = place / "tiny"
    package.mkdir(exist_ok=True)
    (package / "_C.c").write_text(source)
    (package / "__init__.py").write_text("from tiny._C import *\n")
    options = ["-shared", "-fPIC", f"-I{header.parent}", f"-I{sysconfig.get_path('platinclude')}"]
    subprocess.run([CC, *options, "-o", package / "_C.so", package / "_C.c"], check=True)
    return package


tiny = build(SOURCE)
if tiny:
    sys.path.insert(0, str(place))
    import tiny

    print(*tiny.events(), sep="\n")

# %% [markdown]
# The initialiser has run before Python knew that there is a module. This is how PyTorch's operators come to be: `TORCH_LIBRARY(aten, m) { … }` defines a global object whose constructor registers what stands in the braces. By the time `PyInit__C` is called, `libtorch_cpu.so` has been mapped, all such
# objects have been constructed, and the dispatcher holds some 3,500 operators. `initModule` does not register them; it makes them *visible to Python*.

# %%
#| fact: torch/library.h#torch::detail::TorchLibraryInit
#| fact: torch/csrc/stub.c#PyInit__C
#| fact: torch/csrc/Module.cpp#initModule


# %% [markdown]
# That can be put to the proof. Load `libtorch_cpu.so` with `ctypes`, in a process that imports neither `torch` nor its `_C`, and ask the dispatcher for its operators. Two functions of C++ have to be called by hand for it: their names are mangled, a method takes its object as an argument, and a result that is larger than two registers (here a vector: three addresses) is written to
# where a hidden first argument points. A name of an operator is two strings, 64 bytes.


# %%
#| claim: libtorch_cpu.so alone, without Python's torch and without PyInit__C, has more than three thousand operators in its dispatcher
#| differs: readtorch's operators are registered by Python modules, which it loads when a first name is asked for
#| fact: aten/src/ATen/core/dispatch/Dispatcher.h#c10::Dispatcher::getAllOpNames
def _(torch):
    import platform
    import subprocess
    import sys
    from pathlib import Path

    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if sys.platform.startswith("linux") and platform.machine() == "x86_64":
        code = (
            "import ctypes, sys\n"
            f"library = ctypes.CDLL({str(library)!r})\n"
            "dispatcher = library._ZN3c1010Dispatcher13realSingletonEv\n"
            "dispatcher.restype = ctypes.c_void_p\n"
            "vector = (ctypes.c_size_t * 3)()\n"
            "library._ZN3c1010Dispatcher13getAllOpNamesEv(vector, ctypes.c_void_p(dispatcher()))\n"
            "print((vector[1] - vector[0]) // 64, any(name.startswith('torch') for name in sys.modules))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        count, imported = done.stdout.split()
        assert int(count) > 3000 and imported == "False"
    assert len(torch._C._dispatch_get_all_op_names()) > 3000


# %% [markdown]
# ## What does `import *` bring?
#
# The star takes the names in `__all__`, and where there is none, as in an extension, all that do not begin with an underscore.

# %%
if tiny:
    print(sorted(name for name in vars(tiny) if not name.startswith("__")))

# %% [markdown]
# `_C` itself is among them: it became an attribute of its package when it had been imported. The same line in `torch/__init__.py` brings some 150 names into `torch`, of which most people know ten (`Size`, `Generator`, `device`, `dtype`, …) and nobody all (`AliasDb`, `IODescriptor`, `wait`). One name is taken out again:
# `TensorBase` was private once, `_TensorBase`, and when it was made public for the sake of editors (pytorch/pytorch#109940) the star began to export it.


# %%
#| claim: TensorBase is a name of torch._C and not of torch
#| source: pytorch/pytorch#109940
def _(torch):
    assert torch._C.TensorBase in torch.Tensor.__mro__
    assert not hasattr(torch, "TensorBase")
    assert torch.Size.__module__ == "torch" or torch.Size.__module__.startswith("readtorch")


# %% [markdown]
# ## Once per process
#
# Take a module of Python out of `sys.modules` and import it again: its code runs again. With an extension of the old kind it is CPython that remembers.

# %%
if tiny:
    first = tiny._C
    for name in ("tiny", "tiny._C"):
        del sys.modules[name]
    import tiny

    print(
        "another module object:",
        tiny._C is not first,
        "· PyInit ran again:",
        tiny.Size > 1,
        "· events:",
        len(tiny.events()),
    )

# %% [markdown]
# A new module object, with a *copy of the dictionary as it was after initialisation*. Everything that C++ holds in static variables is unchanged, and so are the classes. For PyTorch the Python half then runs a second time over a C++ half that has been through it:


# %%
#| claim: importing the Python half a second time fails, since it finds the docstrings of the C functions set already
#| source: spyder-ide/spyder#15987
#| differs: readtorch's functions are Python's, and take a docstring as often as one likes
def _(torch):
    import importlib
    import sys

    top = torch.__name__
    for name in [n for n in sys.modules if n == top or (n.startswith(f"{top}.") and not n.startswith(f"{top}._C"))]:
        del sys.modules[name]
    try:
        importlib.import_module(top)
    except RuntimeError as error:
        assert "already has a docstring" in str(error)
    else:
        raise AssertionError("imported twice")


# %% [markdown]
# Development environments with a *reload user modules* setting do exactly this, and so does every test runner that cleans `sys.modules`. There is no remedy but a new process.
#
# ### What upstream does more
# `stub.c` is all there is on Linux and macOS. On Windows the entry point is the same. In a build with `USE_DISTRIBUTED`, `USE_CUDA` or `USE_XPU` the same `initModule` collects more methods; the stub does not change.
