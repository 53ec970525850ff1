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
# # After `torch._C`: how `torch` becomes a namespace
#
# Line 445 has passed, and `torch` has 150 names, none of which computes. No `torch.zeros`, no `torch.nn`, no `torch.float32`, no `Tensor`. The other 2,600 lines of `torch/__init__.py` are what this part is about: which names come from where, in which order, and what is left for later.

# %%
import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import readtorch as torch
from readtorch.literate import live
from readtorch.literate.trace.imports import align, load, record_import

live()

# %% [markdown]
# ## Where does `torch.einsum` come from, and where `torch.sin`?
#
# | lines | names | made by |
# |---|---|---|
# | 445, 1075–1096 | the public names of `torch._C`: `Size`, `device`, `Generator` … | C++, `initModule` |
# | 448–1042 | `SymInt` and its relatives, `sym_max` … | Python, here |
# | 1126–1920 | `is_tensor`, `typename`, `set_default_dtype`, `use_deterministic_algorithms`; `e`, `pi`, `nan`, `inf`, `newaxis` | Python, here |
# | 1931–2130 | `Tensor`, storages | Python, on top of C++ classes |
# | 2159–2170 | `amp`, `random`, `serialization` and the names taken from them: `manual_seed`, `save`, `load` | Python |
# | 2189 | dtypes, layouts, memory formats, `FloatTensor` … | C++, `_initExtension` |
# | 2209–2226 | everything in `_C._VariableFunctions`: `zeros`, `sin`, `cat`, a thousand more | C++, generated |
# | 2255 | `from torch.functional import *`: `einsum`, `norm`, `split`, `stft` … | Python |
# | 2291–2341 | the sub-packages | Python |
# | 2347 | docstrings for what C++ made | Python, for their effect |
# | 2384 | a call of OpenMP after each fork | below |
# | 2401–3053 | `masked`, `torch.compile`, shape functions, `__getattr__` | Python |
# | 3076–3087 | plug-ins, logs, kernels in Python | last |

# %%
#| fact: torch/__init__.py#SymInt<typename<set_default_dtype<_manager_path<PRIVATE_OPS<_assert<get_device_module<_import_device_backends
#| fact: torch/functional.py#einsum


# %%
#| claim: the statements of torch/__init__.py stand in the order of this chapter's tables, and in 2.13.0 on their lines
#| differs: readtorch's file is another one; the order is kept by a function in it
def _(torch):
    from pathlib import Path

    told = {
        292: "def _get_cuda_dep_paths",
        448: "class SymInt",
        1126: "def typename",
        1931: "from torch._tensor import Tensor",
        2159: "from torch import amp",
        2189: "_C._initExtension(",
        2209: "PRIVATE_OPS",
        2255: "from torch.functional import *",
        2291: "from torch.autograd import (",
        2335: "from torch import ao",
        2347: "from torch import _size_docs",
        2384: "register_after_fork(",
        2940: "    def __getattr__",
        3076: "if _is_device_backend_autoload_enabled(",
        3079: "from torch import _logging",
        3087: "import torch._native",
    }
    text = Path(torch.__file__).read_text(encoding="utf-8").splitlines()
    found = [next(i for i, line in enumerate(text, 1) if line.startswith(start)) for start in told.values()]
    assert found == sorted(found)
    star = [i for i, line in enumerate(text, 1) if line.startswith("    from torch._C import *")]
    assert found[0] < star[-1] < found[1]
    if torch.__version__.startswith("2.13.0"):
        assert found == list(told) and star[-1] == 445


# %% [markdown]
# The order decides where two sources have the same name. `_VariableFunctions` has a `split` and a `norm` as well; `torch.functional` comes later, and its functions, written in Python, cover them. Whoever looks for `torch.einsum` in `native_functions.yaml` finds one there, and reads the wrong function first.


# %%
#| claim: the names torch.einsum and torch.split are functions of torch.functional, torch.sin and torch.cat are those of _C._VariableFunctions
def _(torch):
    for name in ("einsum", "split", "meshgrid", "cdist"):
        assert getattr(torch, name) is getattr(torch.functional, name)
    for name in ("sin", "cat", "zeros"):
        assert getattr(torch, name) is getattr(torch._C._VariableFunctions, name)


# %% [markdown]
# `_VariableFunctions` is named after a class, because it is one: in 2017 `Variable` was beside `Tensor`, and these were its functions. It is a class with a thousand static methods, made in C++, and one object of it.
#
# Names copied from `_C` get a new label on the way: their `__module__` is set to `"torch"`. What looks like cosmetics is needed by `pickle`, which keeps a function as *module and name* and looks there when it reads. The namespaces inside `_C` need more. `torch._C._nn` is a module that no finder can find, since `_C` is a file and no package; so the import
# puts each such module into `sys.modules` by hand, under its dotted name.


# %%
#| claim: operators and functions of _C._nn survive pickling as the same objects
#| source: pytorch/pytorch#38137
#| upstream: torch/__init__.py#_import_extension_to_sys_modules
#| differs: readtorch's operators are closures, made from their registration, and are pickled by no name
def _(torch):
    import pickle

    for function in (torch._C._nn.gelu, torch.sin):
        assert pickle.loads(pickle.dumps(function)) is function


# %% [markdown]
# What the entry in `sys.modules` does is best seen without it. `shop._C` plays the extension: a file, and no package, that makes a module of its own inside. A second process reads what the first has pickled:

# %%
INSIDE = "import sys, types\n_nn = types.ModuleType('shop._C._nn')\nexec('def gelu(x): ...', vars(_nn))\n"
WRITES = "import pickle, shop._C; pickle.dump(shop._C._nn.gelu, open('gelu.pkl', 'wb'))"
READS = "import pickle; print(pickle.load(open('gelu.pkl', 'rb')).__module__)"


def shop(text: str) -> Path:
    """A folder with a package `shop` whose `_C` is this text."""
    place = Path(tempfile.mkdtemp())
    (place / "shop").mkdir()
    (place / "shop" / "__init__.py").touch()
    (place / "shop" / "_C.py").write_text(text)
    return place


def last_line(code: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr or "written\n").strip().splitlines()[-1]


by_hand = shop(f"{INSIDE}sys.modules[_nn.__name__] = _nn\n")
print("not entered:", last_line(WRITES, shop(INSIDE)).partition(": ")[2].partition(">: ")[2])
print("by hand:    ", last_line(WRITES, by_hand), "·", last_line(READS, by_hand))

# %% [markdown]
# The first line was “**Functions in torch._C._nn and torch._C._onnx are not pickleable**” (pytorch/pytorch#38137). The second shows a detail of `import a.b.c` that is easily missed. The reading process had none of the three modules. Python imports the parent first, and then *looks into `sys.modules` again*, since the parent may have put the child there.
#
# A program that has an import system of its own must do the same. `torch.package` has one, with a table for each archive, so that two versions of a model's code can be loaded side by side; its copy of the algorithm looked into its own table only (“**torch.package unpickling transforms: ModuleNotFoundError: No module named 'torch._C._linalg'; 'torch._C' is not a package**”, #74389):


# %%
def import_into(modules: dict[str, types.ModuleType], name: str) -> types.ModuleType:
    """Import `name` into a table of one's own, parents first: each parent must be a package."""
    above = name.rpartition(".")[0]
    if above and not hasattr(import_into(modules, above), "__path__"):
        raise ModuleNotFoundError(f"No module named {name!r}; {above!r} is not a package")
    return modules.setdefault(name, importlib.import_module(name))


sys.path.insert(0, str(by_hand))
try:
    import_into({}, "shop._C._nn")
except ModuleNotFoundError as error:
    print("a table of one's own:", error)
print("sys.modules:         ", importlib.import_module("shop._C._nn").__name__)
sys.path.remove(str(by_hand))


# %%
#| claim: functions of modules inside _C can be read back from a torch.package archive, where they are looked for in the extension itself
#| source: pytorch/pytorch#74389
#| differs: readtorch has no torch.package
def _(torch):
    import functools
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        archive = str(Path(folder, "transform.pt"))
        with torch.package.PackageExporter(archive) as exporter:
            exporter.extern(["torch.**"])
            exporter.save_pickle("transform", "norm.pkl", functools.partial(torch.linalg.vector_norm, dim=1))
        norm = torch.package.PackageImporter(archive).load_pickle("transform", "norm.pkl")
    assert norm.func is torch.linalg.vector_norm and norm(torch.ones(2, 4)).tolist() == [2.0, 2.0]


# %% [markdown]
# ## Two halves of a class
#
# `class Tensor(torch._C.TensorBase)` stands in `torch/_tensor.py`, imported at line 1931. What is fast or generated (operators, `add`, `shape`) is in the base; what is Python (`backward`, `__repr__`, `register_hook`) in the class. Python's own lookup joins them. The base is made before the class and cannot name it, so C++ makes results of a class
# that is told to it afterwards: a global slot, filled when `_tensor` has run.

# %%
(
    [name for name in ("backward", "__repr__", "add", "__add__", "shape") if name in vars(torch.Tensor)],
    torch.Tensor.__mro__[1].__name__,
)


# %%
#| claim: operators are attributes of TensorBase, backward and __repr__ of Tensor, and results of operators are Tensors
#| upstream: torch/_tensor.py#Tensor
def _(torch):
    base, own = vars(torch._C.TensorBase), vars(torch.Tensor)
    assert "add" in base and "__add__" in base and "add" not in own and "__add__" not in own
    assert "backward" in own and "__repr__" in own
    assert type(torch.zeros(1) + 1) is torch.Tensor


# %% [markdown]
# The default type of new tensors is set up by the same call that makes the legacy types: `torch.FloatTensor` is the first, hence float32. `set_default_tensor_type` once switched dtype *and* device by naming such a type; two functions have replaced it.


# %%
#| claim: the default dtype is a floating one and decides what Python floats become; the default device can be set apart from it
#| upstream: torch/__init__.py#set_default_dtype
#| upstream: torch/__init__.py#set_default_device
def _(torch):
    try:
        torch.set_default_dtype(torch.long)
    except TypeError as error:
        assert "only floating-point types are supported as the default type" in str(error)
    else:
        raise AssertionError("accepted")
    torch.set_default_dtype(torch.float64)
    assert torch.tensor(1.0).dtype is torch.float64 and torch.get_default_dtype() is torch.float64
    torch.set_default_dtype(torch.float32)
    torch.set_default_device("meta")
    assert torch.zeros(2).is_meta and torch.get_default_device().type == "meta"
    torch.set_default_device(None)
    assert torch.zeros(2).device.type == "cpu"


# %% [markdown]
# ## The sub-packages, and cycles that do not break
#
# Some thirty of them in one statement, alphabetically; what stands outside that statement is the interesting part. `torch.autograd`'s grad modes are imported before everything, since `torch.nn` uses `no_grad` as a decorator *while it is imported*. `torch.functional` comes before that, and after `_VariableFunctions`, which it covers. `torch.ao` and the quantised layers are last: they use
# everything, nothing uses them. And `onnx`, `_dynamo` and `_inductor` are not imported at all.
#
# Everything below `torch` begins with `import torch`, so every one of these imports closes a cycle. It works by a rule that [two modules in a ring](../01_import/1_finding_a_module.py) have shown: what is used while a file is imported must exist by then. Upstream says in comments what must precede what (five of them speak of circular dependencies), and moves the remaining uses into functions. A recent example: `torch.thread_safe_generator` asks which worker of a data loader it runs in. `torch.random` is imported long before `torch.utils.data` can be, so the import stands in the function's body. Here is the rule, broken and mended.

# %%
#| fact: torch/__init__.py#__getattr__
#| fact: torch/random.py#thread_safe_generator

# %%
BROKEN = {
    "__init__": "from pkg import nn\nfrom pkg.grad import no_grad\n",
    "nn": "import pkg\n\n@pkg.no_grad\ndef init(): ...\n",
}
MENDED = {"__init__": "from pkg.grad import no_grad\nfrom pkg import nn\n", "nn": BROKEN["nn"]}
for case in (BROKEN, MENDED):
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "pkg").mkdir()
        for name, text in {**case, "grad": "def no_grad(function):\n    return function\n"}.items():
            (Path(place) / "pkg" / f"{name}.py").write_text(text)
        run = record_import("pkg", path=[place])
        print(run.outcome, run.error.split("(")[0], "· order:", *run.own())

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "A circular import is an error." It is an arrangement, and PyTorch could not be a package of this shape without it. An error is the *use* of a name that is not there yet.
#
# ## The whole import, beside ours
#
# All of PyTorch's import, module by module, and readtorch's: `import readtorch`, then `zeros`, `nn` and `optim` are named. The table has the modules that both import, in PyTorch's order, with the place that each has in either run. A click in one graph shows the twin in the other. (Names, order, times; where PyTorch is not installed, a recording.)

# %%
ours = record_import("readtorch", touch=["zeros", "nn", "optim"])
theirs = record_import("torch") if importlib.util.find_spec("torch") else load("data/import_torch.json.gz")[0]
align(ours, theirs)

# %% [markdown]
# Worth a look:
#
# * `torch._C`, the widest bar: the loading of half a gigabyte of libraries, and inside it an import of **NumPy**, from C++. `initModule` brings it in, through the tensor–array bridge.
# * The first wide bar after it belongs to `torch.functional`, and in it, of all things, to `torch.nn`. Nobody has asked for `nn` yet, but `functional` needs one function of it. The bar of a module says who was *first*, not who is large.
# * `torch._meta_registrations` and `torch.export` near the end: shape functions for every operator and the exporter, which most programs never use. They are the larger part of the second half of the import.
# * Names below `torch._C` that have no bar: 38 entries of `sys.modules` are made by hand, as told above.
#
# How many are put off?


# %%
def put_off(run) -> str:
    loaded, left = len(run.own()), sum(map(len, run.later.values()))
    return f"{run.name}: {loaded} of its modules loaded; its loaded packages have {left} more"


print(put_off(theirs))
print(put_off(ours))

# %% [markdown]
# ## What is lazy?
#
# A module may have a function `__getattr__`, which is asked for names that its dictionary does not have (PEP 562). PyTorch's own has three kinds of answers: old names, answered with a warning; the four modules that are imported when they are first named; and an `AttributeError` with the usual words.


# %%
#| claim: an unknown name of torch is an AttributeError in Python's usual words; an old flag warns and is answered by the function that replaced it
#| upstream: torch/__init__.py#__getattr__
def _(torch):
    import warnings

    try:
        torch.no_such_thing
    except AttributeError as error:
        assert str(error) == "module 'torch' has no attribute 'no_such_thing'"
    else:
        raise AssertionError("found")
    for name, way in (("has_cuda", "backends.cuda.is_built()"), ("has_mps", "backends.mps.is_built()")):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert getattr(torch, name) is False
        assert [w.category for w in seen] == [UserWarning]
        assert str(seen[0].message) == f"'{name}' is deprecated, please use 'torch.{way}'"


# %%
#| claim: the module torch.onnx is imported when it is named, not with torch
def _(torch):
    import subprocess
    import sys

    name = torch.__name__
    code = f"import sys, {name} as t; before = '{name}.onnx' in sys.modules; t.onnx; print(before, '{name}.onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


# %% [markdown]
# The list of the four says what *may* be left out, not what is. `_export` stands in it and comes in all the same, because `torch.export` is imported and needs it. And what is left out is not saved, if the first step of a program asks for it. Optimizers are decorated so that the compiler does not look into them; the decorator (`torch/_compile.py`) imports Dynamo when
# the decorated function is first called. So the *first optimizer* costs about as much as the import, and a profile of the import does not show it.


# %%
#| claim: the import loads torch._export and leaves torch._dynamo out; the first optimizer that is made brings Dynamo in, with hundreds of modules
#| upstream: torch/_compile.py#_disable_dynamo
#| differs: readtorch has no compiler to keep out
def _(torch):
    import subprocess
    import sys

    name = torch.__name__
    code = (
        f"import sys, {name} as torch\n"
        f"print('{name}._export' in sys.modules, '{name}._dynamo' in sys.modules, '{name}._inductor' in sys.modules)\n"
        "before = len(sys.modules)\n"
        "torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)\n"
        f"print('{name}._dynamo' in sys.modules, len(sys.modules) - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    export, dynamo, inductor, brought_in, more = done.stdout.split()
    assert (export, dynamo, inductor, brought_in) == ("True", "False", "False", "True") and int(more) > 300


# %% [markdown]
# A lazy module is one line:

# %%
lazily = types.ModuleType("lazily")
exec(
    "def __getattr__(name):\n    import importlib\n    print('asked for', name)\n    return importlib.import_module(name)",
    vars(lazily),
)
lazily.colorsys.__name__, lazily.colorsys.__name__

# %% [markdown]
# Asked twice: an answer is not kept unless `__getattr__` puts it into the module's dictionary itself. For real sub-modules the import system does that. Why is so little of PyTorch lazy, then, if it is so cheap? Because a lazy module hides its *side effects*. Importing `torch._meta_registrations` registers; importing a plug-in registers; a checkpoint may name a class in a
# module that nobody has imported. Each exception in the list took a discussion.
#
# ## CUDA: not before somebody needs it
#
# `import torch` imports `torch.cuda`, and does not initialise CUDA: that takes hundreds of megabytes on each device, a second or more, and *may not be carried through a fork*. The driver's state is tied to the process that made it; a child gets a copy of the memory and none of the driver's threads. So every entry to CUDA begins with `_lazy_init`, which does
# the work once, refuses in a child whose parent has done it, and then runs what was queued until then: `torch.cuda.manual_seed` before the first use is remembered, not executed.


# %%
class Device:
    """How `torch.cuda` is initialised, in small: on first use, in this process only."""

    def __init__(self) -> None:
        self.ready = False
        self.bad_fork = False
        self.queue: list = []
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.bad_fork = self.ready

    def when_ready(self, call) -> None:
        if self.ready:
            call()
        else:
            self.queue.append(call)

    def use(self) -> str:
        if self.bad_fork:
            raise RuntimeError("cannot re-initialize in a forked subprocess: use the 'spawn' start method")
        if not self.ready:
            self.ready = True
            for call in self.queue:
                call()
        return "used"


def in_child(action) -> None:
    """Fork, do it there, and say what came of it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            os.write(1, f"child: {action()}\n".encode())
        except RuntimeError as error:
            os.write(1, f"child: {error}\n".encode())
        os._exit(0)
    os.waitpid(child, 0)


cuda = Device()
cuda.when_ready(lambda: print("the queued seed is set"))
in_child(cuda.use)
print("parent:", cuda.use())
in_child(cuda.use)

# %% [markdown]
# The first child is free to begin, the second is not. What makes people stumble is that *asking* can be using: `torch.cuda.is_available()` calls the driver, unless `PYTORCH_NVML_BASED_CUDA_CHECK=1` says to ask the management library.

# %%
#| fact: torch/cuda/__init__.py#_is_in_bad_fork<is_available<_lazy_call<_lazy_init


# %%
#| claim: seeding CUDA and asking for it works in a build without it; using it raises AssertionError: Torch not compiled with CUDA enabled
#| upstream: torch/cuda/__init__.py#_lazy_init
def _(torch):
    if torch.backends.cuda.is_built():
        return
    torch.cuda.manual_seed(1)
    torch.cuda.manual_seed_all(1)
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and not torch.cuda.is_initialized()
    for use in (torch.zeros(1).cuda, torch.cuda.current_device, torch.cuda.init):
        try:
            use()
        except AssertionError as error:
            assert "Torch not compiled with CUDA enabled" in str(error)
        else:
            raise AssertionError("no error")


# %% [markdown]
# The way there, in readtorch (whose CUDA is [made later in this chapter](../01_import/d7_torch_cuda.py)): a method of the tensor asks for the device, a table says how its kind is initialised, and `torch.cuda` answers.

# %%
#| trace: torch.cuda torch.csrc.utils torch.csrc.autograd layers=calls,lines title="the first use of CUDA"
try:
    where = torch.zeros(1).cuda().device
except AssertionError as error:
    where = error

# %%
str(where)

# %% [markdown]
# Another line of this stretch looks like a riddle: `register_after_fork(torch.get_num_threads)`. A question whose answer is thrown away, in every child process. It has an effect: Intel's OpenMP sets the *affinity* of a process at its first call, and a worker of a data loader that had chosen its own processor lost it at the first operator that used OpenMP (“**The affinity of a worker process is reset after
# torch.randperm is called**”, pytorch/pytorch#28389). Now the first call happens right after the fork, before anybody chooses anything. A stand-in for the runtime, and a worker that chooses one processor before it computes:


# %%
class Runtime:
    """A thread pool that pins each process, at its first call there, to the processors it found when it was loaded."""

    def __init__(self) -> None:
        self.processors = os.sched_getaffinity(0)
        self.started_in = 0

    def compute(self) -> None:
        if self.started_in != os.getpid():
            self.started_in = os.getpid()
            os.sched_setaffinity(0, self.processors)


def worker(runtime: Runtime, after_fork: bool) -> str:
    if after_fork:
        runtime.compute()
    chosen = {min(os.sched_getaffinity(0))}
    os.sched_setaffinity(0, chosen)
    runtime.compute()
    return f"first call {'after the fork' if after_fork else 'in the worker':14} → has its own processor: {os.sched_getaffinity(0) == chosen}"


if hasattr(os, "sched_setaffinity"):
    for after_fork in (False, True):
        in_child(lambda: worker(Runtime(), after_fork))  # noqa: B023  (called at once)
    print(
        "processors to choose from:", "several" if len(os.sched_getaffinity(0)) > 1 else "one, so nothing can be lost"
    )


# %%
#| claim: in a forked child the affinity that it has chosen is left alone by the first operators
#| source: pytorch/pytorch#28389
#| fact: torch/multiprocessing/_atfork.py#register_after_fork
def _(torch):
    import os
    import subprocess
    import sys

    if hasattr(os, "sched_setaffinity"):
        code = (
            f"import os, {torch.__name__} as torch\n"
            "torch.ones(100_000).sum()\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    chosen = {min(os.sched_getaffinity(0))}\n"
            "    os.sched_setaffinity(0, chosen)\n"
            "    torch.randperm(1)\n"
            "    torch.ones(100_000).sum()\n"
            "    os._exit(os.sched_getaffinity(0) != chosen)\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        )
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "0"


# %% [markdown]
# ## Plug-ins
#
# A device that upstream does not know (an accelerator of another vendor) is a package of its own. Since 2.5 it need not be imported by hand: the last thing but two that `torch/__init__.py` does is to load every *entry point* of the group `torch.backends`, and to call it. An entry point is a line in the metadata of an installed package.


# %%
#| claim: an installed package with an entry point in the group torch.backends is called at the end of the import, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0; TORCH_LOGS may name a log that it registers
#| upstream: torch/__init__.py#_import_device_backends
#| upstream: torch/__init__.py#_is_device_backend_autoload_enabled
#| source: pytorch/pytorch#122468
#| differs: readtorch loads no plug-ins: they are written against PyTorch's C++
def _(torch):
    import os
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a_device.py").write_text(
            "import torch\n\ndef begin():\n    print('loaded with', hasattr(torch, 'export'))\n"
            "    torch._logging._internal.register_log('chip', 'a_device')\n"
        )
        metadata = Path(folder, "a_device-1.0.dist-info")
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a_device\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[torch.backends]\na_device = a_device:begin\n")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
        outputs = [
            subprocess.run(
                [sys.executable, "-c", f"import {torch.__name__}"],
                env={**environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": switch, **logs},
                capture_output=True,
                text=True,
                check=False,
            )
            for switch, logs in (("1", {"TORCH_LOGS": "+chip"}), ("0", {}), ("0", {"TORCH_LOGS": "+chip"}))
        ]
    loaded, left, unknown = outputs
    assert loaded.returncode == 0 and loaded.stdout.strip() == "loaded with True"
    assert left.returncode == 0 and left.stdout == ""
    assert unknown.returncode == 1 and "chip" in unknown.stderr


# %% [markdown]
# It has to be nearly the last thing, since a plug-in may use all of `torch`; and it is followed by `torch._logging`, because a plug-in may register the names of its logs, which `TORCH_LOGS` is then checked against.
#
# A plug-in begins with `import torch`. A program that imports *it* first therefore closes a cycle with a turn of its own: `a_device` → `torch` → entry point → `a_device`, half made, without the function that the entry point names. Plug-ins have to be written for that. “**torch_spyre `__init__` not re-entrant under torch device-backend autoload → circular import**” (torch-spyre/torch-spyre#2925) is about one that
# was not. In small, with a host of three lines:

# %%
HOST = "from importlib.metadata import entry_points\n\nfor plugin in entry_points(group='host.backends'):\n    plugin.load()()\n"
AS_IT_WAS = "import host\n\ndef begin():\n    print('begun')\n"
MENDED = "def begin():\n    print('begun')\n\nimport host\n"
for label, text in (("import at the head:", AS_IT_WAS), ("function first:    ", MENDED)):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "host.py").write_text(HOST)
        Path(folder, "a_device.py").write_text(text)
        metadata = Path(folder, "a_device-1.0.dist-info")
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a_device\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[host.backends]\na_device = a_device:begin\n")
        for code in ("import host", "import a_device"):
            print(label, f"{code:16}", last_line(code, Path(folder)).partition(" (most")[0])


# %%
#| claim: a plug-in that imports torch at its head is loaded by `import torch`, and fails when the program imports it first
#| source: torch-spyre/torch-spyre#2925
#| differs: readtorch loads no plug-ins: they are written against PyTorch's C++
def _(torch):
    import os
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a_device.py").write_text("import torch\n\ndef begin():\n    print('begun')\n")
        metadata = Path(folder, "a_device-1.0.dist-info")
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: a_device\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[torch.backends]\na_device = a_device:begin\n")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
        first, other = (
            subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
            for code in (f"import {torch.__name__}", "import a_device")
        )
    assert first.returncode == 0 and first.stdout.strip() == "begun"
    assert other.returncode == 1 and "module 'a_device' has no attribute 'begin'" in other.stderr


# %% [markdown]
# ### What upstream does more
# `torch.compile` (430 lines of this file), `torch.ops` and `torch.classes`, objects that are put into `sys.modules` and answer every attribute from the dispatcher; `lobpcg`; four functions that were removed from `torch` and now say where they went (`torch.solve`, `torch.symeig` …). And `torch._native`, the very last line: kernels written in Python that take the place
# of others.


# %%
#| claim: sys.modules is in the order in which modules were done: torch itself comes last of all, torch._native before it, torch._tensor before torch.nn
#| differs: readtorch is done when its own file is, and loads the rest behind it
def _(torch):
    import subprocess
    import sys

    name = torch.__name__
    code = f"import sys, {name}; print(*[m for m in sys.modules if m.split('.')[0] == '{name}'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert done[-2:] == ["torch._native", "torch"]
    assert done.index("torch._utils") < done.index("torch._C") < done.index("torch._tensor") < done.index("torch.nn")


# %%
#| fact: torch/__init__.py#compile
