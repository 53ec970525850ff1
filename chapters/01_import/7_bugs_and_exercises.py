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
# # What goes wrong on the first line
#
# Reports about `import torch` make up a good part of PyTorch's tracker, and most are closed as *installation problem*. With the last six parts each of them has a place. Below, fifteen of them by number and title. Each has been reproduced, here or on the way (then there is a link): with PyTorch itself where it still behaves like that, otherwise with a stand-in of a few lines that fails for the same reason.

# %%
import importlib
import importlib.machinery
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import readtorch as torch
from readtorch.literate import live
from readtorch.literate.trace.imports import ImportRun, record_import

live()

# %% [markdown]
# ## Bugs you can now explain
#
# **“AttributeError: partially initialized module 'torch' has no attribute 'cuda' (most likely due to a circular import)”** (ZhendongWang6/Uformer#61, and a hundred like it). A script called `torch.py`. The search ends with the first file found, the script imports itself, and `sys.modules` hands it out half made. [The run and the claim.](../01_import/1_finding_a_module.py)
#
# **“random module conflict”** (pytorch/pytorch#19943). The reverse: not a script that hides PyTorch, but PyTorch that hides the standard library. Started *inside* the folder `torch/` (or with it in `PYTHONPATH`, as some editors arrange for a package that is open), Python finds `torch/random.py` where `tempfile` means `random`. There are more such files: `types.py`,
# `signal/`, `multiprocessing/`, `__future__.py`; the interpreter starts, and the first import that needs one of them fails, in a file of the standard library. readtorch stands where PyTorch stands, and has the same trap.


# %%
#| claim: started in the package's own folder, Python cannot import tempfile: random, types and others are the package's files
#| source: pytorch/pytorch#19943
def _(torch):
    import importlib.machinery
    import os
    import subprocess
    import sys
    from pathlib import Path

    folder = Path(torch.__file__).parent
    for name in ("random", "types"):
        found = importlib.machinery.PathFinder.find_spec(name, [str(folder), *sys.path])
        assert Path(found.origin) == folder / f"{name}.py"
    safe = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-c", "import tempfile"], cwd=folder, env=safe, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and str(folder) in done.stderr
    assert done.stderr.splitlines()[-1].split(":")[0] in ("ImportError", "AttributeError", "ModuleNotFoundError")


# %% [markdown]
# **“ImportError: failed to load Pytorch C extensions … has loaded the ‘torch/_C’ folder …”** (pytorch/pytorch#62470; before there was that message, *No module named 'torch._C'*, #574). A folder `_C` without `__init__.py` is found when no extension of that name fits: a build that was not finished, a file for another
# Python, a checkout beside the installed package; [a run](../01_import/1_finding_a_module.py). Here with the file for another Python in its place, which the finder does not see:

# %%
with tempfile.TemporaryDirectory() as place:
    package = Path(place) / "built_for_another"
    (package / "_C").mkdir(parents=True)
    (package / "__init__.py").write_text("from built_for_another import _C\nfrom built_for_another._C import Size\n")
    (package / "_C.cpython-27-x86_64-linux-gnu.so").touch()
    run = record_import("built_for_another", path=[place])
print(run.error.split("(")[0], "·", [(m.name, m.kind) for m in run.modules if m.name.endswith("_C")])

# %% [markdown]
# **“torch cuda-121 fails to load .so library”** (pytorch/pytorch#131284). NVIDIA's libraries lie in wheels of their own; the runpath that leads there assumes that all were installed into one `site-packages`. A build tool that gives each package a folder breaks the
# assumption, and the preload by path must know every library that is needed. [Built in small,](../01_import/2_before_the_extension.py) and mended by loading first.
#
# **“ImportError: libcudart.so.9.0: cannot open shared object file: No such file or directory”** (pytorch/pytorch#10910). The library was there, as `libcudart.so.9.2`, and a link under the old name does not help. [The installation, the update and the link.](../01_import/2_before_the_extension.py)
#
# **“Pytorch 2.0.1 pypi wheel does not install dependent cuda libraries”** (pytorch/pytorch#100974). `ValueError: libnvrtc.so.*[0-9].*[0-9] not found in the system path`: the preload has searched `sys.path` and found nothing, since nothing had been installed. [Asked of the functions themselves.](../01_import/2_before_the_extension.py)
#
# **“Importing Torch is giving me an error undefined symbol: ncclCommRegister”** (pytorch/pytorch#119932, #119072, #120186; in 2026 the symbol is `ncclCommResume`, #186591). Two packages with a `libnccl.so.2`, the older loaded first. The error names the library that is right. [The first library of a name wins.](../01_import/2_before_the_extension.py) Which one it was stands in `/proc/self/maps`, and `LD_DEBUG=libs` says it while it happens; `ldd` does not know what another package has loaded.
#
# **“Functions in torch._C._nn and torch._C._onnx are not pickleable”** (pytorch/pytorch#38137). A module inside an extension cannot be found by a finder, and `pickle` goes by names. Since then such modules are put into `sys.modules` by hand. [With and without.](../01_import/5_after_the_extension.py)
#
# **“torch.package unpickling transforms: ModuleNotFoundError: No module named 'torch._C._linalg'; 'torch._C' is not a package”** (pytorch/pytorch#74389). An import system with a table of its own does not see what was put into `sys.modules`. [In twelve lines,](../01_import/5_after_the_extension.py) and a claim that 2.13 does it right.
#
# **“RuntimeError: function '_has_torch_function' already has a docstring”** (spyder-ide/spyder#15987). The Python half ran twice over a C++ half that had been through it. [Reproduced](../01_import/3_extension_module.py) by taking `torch` out of `sys.modules`.
#
# **“Latest main branch seems to introduce circular import error”** (pytorch/pytorch#164658). A default argument that calls into the library is evaluated while the library is imported. In small:

# %%
RANDOM = "import pkg\n\ndef get_rng_state(where=pkg.device('cpu')):\n    return where\n"
MENDED = "import pkg\n\ndef get_rng_state(where=None):\n    return pkg.device('cpu') if where is None else where\n"
for text in (RANDOM, MENDED):
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "pkg").mkdir()
        (Path(place) / "pkg" / "__init__.py").write_text(
            "from pkg import random\n\ndef device(name):\n    return name\n"
        )
        (Path(place) / "pkg" / "random.py").write_text(text)
        run = record_import("pkg", path=[place])
    print(run.outcome, run.error.split("(")[0])

# %% [markdown]
# **“Cannot re-initialize CUDA in forked subprocess”** (pytorch/pytorch#40403). The parent has used CUDA, often without knowing: a tensor in a dataset that `torch.load` put onto the GPU, a question. [The mechanism in small.](../01_import/5_after_the_extension.py) (For the question there is “Implement `torch.cuda.device_count` without poison”, #83973, which is only told here: counting devices need not touch the driver, and does not any more where the management library answers.)
#
# **“import of pandas makes import of torch much slower”** (pytorch/pytorch#71313). An optional dependency was imported to find out whether it is there, by every program, whether or not it used the one class that needed it. Looking for a module is cheap, importing it is not. Here is the difference, in a package that wants to know whether `asyncio` is there.

# %%
ASKS = {
    "imports it": "try:\n    import asyncio\nexcept ImportError:\n    asyncio = None\n",
    "asks for it": "import importlib.util\nhas_asyncio = importlib.util.find_spec('asyncio') is not None\n",
}
for label, text in ASKS.items():
    with tempfile.TemporaryDirectory() as place:
        Path(place, "curious.py").write_text(text)
        run = record_import("curious", path=[place])
    print(f"{label:12} {'asyncio' in run.names()!s:5} more than 20 modules: {len(run.names()) > 20}")

# %% [markdown]
# **“The affinity of a worker process is reset after torch.randperm is called”** (pytorch/pytorch#28389). A runtime that pins the process at its first call; the first call now follows the fork. [A stand-in for the runtime, and a claim that the worker keeps its processor.](../01_import/5_after_the_extension.py)
#
# **“torch_spyre `__init__` not re-entrant under torch device-backend autoload → circular import”** (torch-spyre/torch-spyre#2925). The plug-in is imported by what it imports. [Reproduced with a plug-in of four lines,](../01_import/5_after_the_extension.py) in PyTorch and in small.
#
# ## Exercises
#
# **Where would it come from?** `importlib.util.find_spec("torch.nn")` imports `torch` to find out, which is no help when that is what fails. Write `origin(name)`: the file of a module, dotted or not, without running any code of the packages above it; None if there is none. A spec of a package has `submodule_search_locations`.


# %%
#| exercise: origin
def origin(name: str) -> str | None:
    raise NotImplementedError


# %%
#| solution: origin
def origin(name: str) -> str | None:
    path, spec = None, None
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:length]), path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and length < len(parts):
            return None
    return spec.origin


# %%
#| check: origin
with tempfile.TemporaryDirectory() as place:
    (Path(place) / "explosive" / "inner").mkdir(parents=True)
    for file in ("explosive/__init__.py", "explosive/inner/__init__.py"):
        (Path(place) / file).write_text("raise RuntimeError('was run')\n")
    (Path(place) / "explosive" / "inner" / "leaf.py").touch()
    sys.path.insert(0, place)
    assert origin("explosive.inner.leaf") == str(Path(place) / "explosive" / "inner" / "leaf.py")
    assert origin("explosive.inner") == str(Path(place) / "explosive" / "inner" / "__init__.py")
    assert (
        origin("explosive.outer") is None
        and origin("explosive.inner.leaf.more") is None
        and origin("not_there.at_all") is None
    )
    sys.path.remove(place)
assert origin("readtorch.autograd") == str(Path(torch.__file__).parent / "autograd" / "__init__.py")

# %% [markdown]
# **What does this folder hide?** Write `hides(folder)`: the sorted names of modules in a folder of scripts that cover a module of the standard library or an installed package. (`sys.stdlib_module_names`; an installed one is found by the path finder when it is given `sys.path` without that folder.)


# %%
#| exercise: hides
def hides(folder: Path) -> list[str]:
    raise NotImplementedError


# %%
#| solution: hides
def hides(folder: Path) -> list[str]:
    names = {file.stem for file in folder.glob("*.py")} | {file.parent.name for file in folder.glob("*/__init__.py")}
    elsewhere = [entry for entry in sys.path if Path(entry or ".").resolve() != folder.resolve()]
    find = importlib.machinery.PathFinder.find_spec
    return sorted(n for n in names if n in sys.stdlib_module_names or ((spec := find(n, elsewhere)) and spec.loader))


# %%
#| check: hides
with tempfile.TemporaryDirectory() as place:
    for name in ("random", "numpy", "model", "train", "readtorch"):
        (Path(place) / f"{name}.py").touch()
    (Path(place) / "queue").mkdir()
    (Path(place) / "queue" / "__init__.py").touch()
    (Path(place) / "typing").mkdir()
    assert hides(Path(place)) == ["numpy", "queue", "random", "readtorch"]
    sys.path.insert(0, place)
    assert hides(Path(place)) == ["numpy", "queue", "random", "readtorch"]
    sys.path.remove(place)

# %% [markdown]
# **A lazy package.** Write `attach(namespace, table)`: from then on, a name of the table that is asked of the module with that dictionary is imported from the module that the table names, once; `dir()` lists it before; any other name is an `AttributeError` that names module and attribute.


# %%
#| exercise: attach
def attach(namespace: dict[str, Any], table: dict[str, str]) -> None:
    raise NotImplementedError


# %%
#| solution: attach
def attach(namespace: dict[str, Any], table: dict[str, str]) -> None:
    def __getattr__(name: str) -> Any:
        if name not in table:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(table[name]), name)
        namespace[name] = value
        return value

    namespace["__getattr__"] = __getattr__
    namespace["__dir__"] = lambda: sorted({*namespace, *table} - {"__getattr__", "__dir__"})


# %%
#| check: attach
shop = type(sys)("shop")
attach(vars(shop), {"rgb_to_hsv": "colorsys", "Fraction": "fractions"})
sys.modules.pop("colorsys", None)
assert "rgb_to_hsv" in dir(shop) and "colorsys" not in sys.modules
assert shop.rgb_to_hsv(1, 0, 0) == (0.0, 1.0, 1) and "colorsys" in sys.modules
assert "rgb_to_hsv" in vars(shop) and "Fraction" not in vars(shop)
for wrong in ("nothing", "Decimal"):
    try:
        getattr(shop, wrong)
    except AttributeError as error:
        assert "shop" in str(error) and wrong in str(error)
    else:
        raise AssertionError("found")

# %% [markdown]
# **What would it save?** A module's cumulative time is what it was *the first* to import. To take it out saves less, if others need the same. Given for each module its own time and what it imports (all of it, not only what it was first to), write `saved(root, imports, own, edge)`: the time that the import of `root` loses when the one statement `edge = (importer, imported)` is
# removed.


# %%
#| exercise: saved
def saved(root: str, imports: dict[str, list[str]], own: dict[str, int], edge: tuple[str, str]) -> int:
    raise NotImplementedError


# %%
#| solution: saved
def saved(root: str, imports: dict[str, list[str]], own: dict[str, int], edge: tuple[str, str]) -> int:
    def loaded(without: tuple[str, str] | None) -> set[str]:
        seen, stack = set(), [root]
        while stack:
            module = stack.pop()
            if module not in seen:
                seen.add(module)
                stack.extend(name for name in imports.get(module, ()) if (module, name) != without)
        return seen

    return sum(own[name] for name in loaded(None) - loaded(edge))


# %%
#| check: saved
graph = {
    "torch": ["functional", "nn", "masked", "fx"],
    "functional": ["nn"],
    "masked": ["sympy"],
    "fx": ["sympy", "torch"],
    "sympy": ["mpmath"],
}
cost = {"torch": 90, "functional": 5, "nn": 300, "masked": 10, "fx": 80, "sympy": 200, "mpmath": 100}
assert saved("torch", graph, cost, ("torch", "masked")) == 10
assert saved("torch", graph, cost, ("masked", "sympy")) == 0
assert saved("torch", {**graph, "fx": []}, cost, ("torch", "masked")) == 310
assert saved("torch", graph, cost, ("functional", "nn")) == 0 and saved("torch", graph, cost, ("torch", "fx")) == 80
assert saved("torch", graph, cost, ("fx", "torch")) == 0

# %% [markdown]
# **Who is first?** Two rules order the steps of `initModule`. Write `ordered(steps)`: each step is a name with the set of steps that must come before it; give an order that obeys them and otherwise keeps the one given. A circle is a `ValueError` that names one step in it.


# %%
#| exercise: ordered
def ordered(steps: dict[str, set[str]]) -> list[str]:
    raise NotImplementedError


# %%
#| solution: ordered
def ordered(steps: dict[str, set[str]]) -> list[str]:
    done: list[str] = []
    while len(done) < len(steps):
        ready = next((name for name, needs in steps.items() if name not in done and needs <= set(done)), None)
        if ready is None:
            raise ValueError(f"{next(name for name in steps if name not in done)} needs itself")
        done.append(ready)
    return done


# %%
#| check: ordered
needs: dict[str, set[str]] = {
    "TensorBase": {"Size", "dtype"},
    "Generator": set(),
    "Size": {"errors"},
    "errors": set(),
    "dtype": {"errors"},
    "_nn": {"TensorBase"},
}
assert ordered(needs) == ["Generator", "errors", "Size", "dtype", "TensorBase", "_nn"]
assert ordered({"b": set(), "a": set()}) == ["b", "a"] and ordered({}) == []
try:
    ordered({"free": set(), "egg": {"hen"}, "hen": {"egg"}})
except ValueError as error:
    assert "egg" in str(error) or "hen" in str(error)
else:
    raise AssertionError("ordered a circle")

# %% [markdown]
# **Be the linker.** A library is a triple: its name, the names of the libraries it needs, and `(offers, uses)`, two sets of symbols. `loads` lists the files that a process loads in order, each as such a triple; several may have the same name. Write `link(loads)`: for each load in turn, nothing is loaded if a library of that name is there; then every needed library must be there by name
# (`OSError`, naming it), and every used symbol must be offered by one of the *needed* libraries as loaded (`ImportError`, naming it). Return the names in the order in which they were loaded.

# %%
Library = tuple[str, list[str], tuple[set[str], set[str]]]


# %%
#| exercise: link
def link(loads: Iterable[Library]) -> list[str]:
    raise NotImplementedError


# %%
#| solution: link
def link(loads: Iterable[Library]) -> list[str]:
    there: dict[str, set[str]] = {}
    for name, needs, (offers, uses) in loads:
        if name in there:
            continue
        for need in needs:
            if need not in there:
                raise OSError(f"{need}: cannot open shared object file")
        missing = uses - set().union(*(there[need] for need in needs))
        if missing:
            raise ImportError(f"{name}: undefined symbol: {min(missing)}")
        there[name] = offers
    return list(there)


# %%
#| check: link
new: Library = ("libnccl.so.2", [], ({"ncclAllReduce", "ncclCommRegister"}, set()))
older: Library = ("libnccl.so.2", [], ({"ncclAllReduce"}, set()))
cuda: Library = ("libtorch_cuda.so", ["libnccl.so.2"], (set(), {"ncclAllReduce", "ncclCommRegister"}))
assert link([new, cuda]) == link([new, older, cuda]) == ["libnccl.so.2", "libtorch_cuda.so"]
for loads, kind, word in (([cuda], OSError, "libnccl.so.2"), ([older, new, cuda], ImportError, "ncclCommRegister")):
    try:
        link(loads)
    except kind as error:
        assert word in str(error)
    else:
        raise AssertionError("linked")
assert link([("a", [], ({"x"}, set())), ("b", [], (set(), set()))]) == ["a", "b"]

# %% [markdown]
# **Who is to blame?** Write `culprit(run)`: for a recorded import that raised, the names of the modules on the way to the fault, from the outermost to the one that could not be imported. An import that failed and was *caught* on the way (an optional dependency) is not to blame.


# %%
#| exercise: culprit
def culprit(run: ImportRun) -> list[str]:
    raise NotImplementedError


# %%
#| solution: culprit
def culprit(run: ImportRun) -> list[str]:
    way: list[str] = []
    at = -1
    while failed := [child for child in run.children.get(at, ()) if run.modules[child].error]:
        at = failed[-1]
        way.append(run.modules[at].name)
    return way


# %%
#| check: culprit
with tempfile.TemporaryDirectory() as place:
    files = {
        "__init__": "try:\n    import no_such_extra\nexcept ImportError:\n    pass\nimport json\nfrom app import model\n",
        "model": "import colorsys\nfrom app import layers\n",
        "layers": "import no_such_library\n",
    }
    (Path(place) / "app").mkdir()
    for name, text in files.items():
        (Path(place) / "app" / f"{name}.py").write_text(text)
    assert culprit(record_import("app", path=[place])) == ["app", "app.model", "app.layers", "no_such_library"]
