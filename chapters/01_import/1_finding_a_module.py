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
# # Which file is `torch`? Python's half of the import
#
# `import torch` is the first line of every program in this field, and the one that fails in the most surprising ways: a missing library of somebody else, a symbol that is undefined, an attribute that `torch` "does not have", three
# seconds of nothing. The articles that explain PyTorch's source tend to start behind it. This chapter stays with that line until the namespace is usable.
#
# Seven steps, a part each. Python finds a file (this part). The libraries behind it are loaded. The extension module `torch._C` is found, and its one function called. That function fills it. The rest of `torch/__init__.py` makes a
# namespace of it. Then the same in small, as readtorch does it; and what goes wrong.

# %%
import importlib
import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import readtorch as torch
from readtorch.literate import live
from readtorch.literate.trace.imports import record_import

live()

# %% [markdown]
# ## Why is it not the PyTorch that I installed?
#
# The usual picture is that `import torch` reads `site-packages/torch/__init__.py`. Here is a folder in which it does not. It holds one script, and the person who wrote it called it after its subject.

# %%
folder = Path(tempfile.mkdtemp())


def python(code: str, cwd: Path = folder) -> str:
    """The last line that a fresh Python prints, started in `cwd`."""
    done = subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[-1].replace(f"{cwd}/", "")


(folder / "torch.py").write_text("import torch\n\nx = torch.zeros(3)\n")
python("import torch").split("(")[0]

# %% [markdown]
# Nothing is wrong with the installation. The first entry of `sys.path` is the folder of the script (or the current one, with `-c` and in a notebook), and the search ends with the first file found. The script imports *itself*. (Python 3.13 has learned to suspect it, and adds the name of the file: “consider renaming”.)
#
# Which file it is can be asked without running it. This is the question to begin with whenever an import is odd:

# %%
python("import importlib.util; print(importlib.util.find_spec('torch').origin)")


# %%
#| claim: a file torch.py beside the script is found before the installed package, and fails on the first attribute it takes from itself
#| source: ZhendongWang6/Uformer#61
def _(torch):
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    name = torch.__name__
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"{name}.py").write_text(f"import {name}\nx = {name}.cuda\n")
        done = subprocess.run(
            [sys.executable, "-c", f"import {name}"], cwd=folder, capture_output=True, text=True, check=False
        )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("AttributeError") and name in last and "has no attribute 'cuda'" in last


# %% [markdown]
# ## Who is asked?
#
# `sys.modules` is asked first: a module is loaded once, whatever happens to its file afterwards. Only a name that is not there is *searched*, by the objects on `sys.meta_path` in their order. Each may answer with a **spec**: where the
# module is and which loader makes it.

# %%
[getattr(finder, "__name__", type(finder).__name__) for finder in sys.meta_path]

# %% [markdown]
# Built-in modules, modules frozen into the interpreter, files on the path; whoever installs a package in editable mode adds one of their own. A finder needs one method, and the shortest useful one never finds anything: placed in front,
# it hears every question.


# %%
class Listener:
    """Hears for which modules a search begins, and finds none of them."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def find_spec(self, name, path=None, target=None):
        self.heard.append(name)


listener = Listener()
for name in [name for name in sys.modules if name.split(".")[0] in ("wave", "wsgiref")]:
    del sys.modules[name]
sys.meta_path.insert(0, listener)
import wsgiref.util

import wsgiref.types
import wsgiref.util

sys.meta_path.remove(listener)
[name for name in listener.heard if name.startswith("wsgiref")]

# %% [markdown]
# Three things can be read from this. `import wsgiref.util` asks for the *package* first: no module is imported before those above it, so `torch/__init__.py` runs, from end to end, before one line of `torch/nn/functional.py` does. The third
# import asked nothing. And a finder in front could have answered differently, which is how [`readtorch.as_torch`](../01_import/9_as_torch.py) runs programs written for PyTorch.
#
# The finder for files asks each entry of the path in turn, and in each folder looks for one name in several forms. In which order? Give it all of them.

# %%
suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
forms = {
    "a folder with __init__.py": "thing/__init__.py",
    "an extension": f"thing{suffix}",
    "a source file": "thing.py",
}
with tempfile.TemporaryDirectory() as place:
    for path in (Path(place, form) for form in forms.values()):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    Path(place, "thing", "inner").mkdir()
    finder = importlib.machinery.FileFinder(place, *importlib._bootstrap_external._get_supported_file_loaders())
    while (spec := finder.find_spec("thing")) and spec.loader is not None:
        found = Path(spec.origin).relative_to(place)
        print(f"{type(spec.loader).__name__:22} {str(found).replace(suffix, '.(tag).so')}")
        Path(spec.origin).unlink()
        finder.invalidate_caches()
    print(
        f"{'no loader':22} a folder without __init__.py: {list(spec.submodule_search_locations) == [f'{place}/thing']}"
    )

# %% [markdown]
# A package, an extension, a source file; and when there is nothing of these, a *folder of that name without `__init__.py`*, a namespace package, which has no code and no file. The last line is more than a curiosity. PyTorch's repository has
# a folder `torch/_C` that holds nothing but `.pyi` files for type checkers, and a build puts `_C.cpython-….so` beside it. While that file is there it comes first. Where it is missing, the import of `torch._C` *succeeds*, with an
# empty module, and every name that is then taken from it does not exist. Upstream's `__init__.py` recognises the case by `__file__`, which such a package does not have.

# %%
with tempfile.TemporaryDirectory() as place:
    (Path(place) / "half_built" / "_C").mkdir(parents=True)
    (Path(place) / "half_built" / "_C" / "__init__.pyi").touch()
    (Path(place) / "half_built" / "__init__.py").write_text(
        "from half_built import _C\nprint(_C.__file__, [n for n in dir(_C) if n[0] != '_'])"
    )
    print(python("import half_built", Path(place)))


# %%
#| claim: the installed _C is loaded from a file, and not from the folder of the same name that type checkers read
#| source: pytorch/pytorch#62470
def _(torch):
    assert torch._C.__file__ is not None and torch._C.__spec__.loader is not None


# %% [markdown]
# ## When is a module ready?
#
# A loader makes an empty module object, *puts it into `sys.modules`*, and runs the file with the module's dictionary for its globals. It has to be in this order. If the module were registered only when its code has ended, a second import of it in between
# would find nothing and load it once more. So whoever imports a module that is being loaded gets it as it is at that moment.

# %%
(folder / "ring.py").write_text("import ring_inner\n\ntensor = 'made in ring'\n")
(folder / "ring_inner.py").write_text("import ring\n\ncopy = ring.tensor\n")
print(python("import ring"))
(folder / "ring_inner.py").write_text("import ring\n\ndef copy():\n    return ring.tensor\n")
print(python("import ring; print(ring.ring_inner.copy())"))

# %% [markdown]
# Both versions have the cycle `ring → ring_inner → ring`. The first uses the half-made module while it is imported, the second when it is called. A cycle of *imports* is harmless; a cycle of *uses at import time* is not. A `from ring import
# tensor` is a use, so is a base class, a decorator, a default argument, an annotation without `from __future__ import annotations` (before Python 3.14).
#
# PyTorch is full of such cycles: almost every file below `torch/` begins with `import torch`, while `torch/__init__.py` is still running. What each of them may use depends on how far it has come. The order of that file is therefore part
# of the program, and several of its statements carry a comment that says what they must precede. One line in the wrong place is enough:
#
# > **“Latest main branch seems to introduce circular import error”** (pytorch/pytorch#164658). `torch/random.py` had gained a default argument, `device=torch.device("cpu")`. Defaults are evaluated when the `def` runs, so this one *called* into `torch._C` in
# > the middle of the import; the call needed `torch.fx`, which imports `torch.utils`, which imports the data loader, which imports `torch.distributed`, and that used what `torch` did not have yet.

# %%
#| fact: torch/random.py#get_rng_state


# %%
#| claim: a module is in sys.modules, under its own name, while its code runs; a submodule becomes an attribute of its package when it is done
def _(torch):
    import importlib
    import sys
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "probe_of_import.py").write_text(
            "import sys\nready = sys.modules[__name__].__dict__ is globals() and not hasattr(sys.modules[__name__], 'ready')\n"
        )
        sys.path.insert(0, folder)
        assert importlib.import_module("probe_of_import").ready
        sys.path.remove(folder)
    name = f"{torch.__name__}.utils.model_zoo"
    sys.modules.pop(name, None)
    vars(torch.utils).pop("model_zoo", None)
    assert importlib.import_module(name) is vars(torch.utils)["model_zoo"]


# %% [markdown]
# `torch` is thus a module under construction for seconds, and another thread that imports it meanwhile waits for it.
#
# ## What remains of an import that failed?
#
# The module that raised is taken out of `sys.modules`. Those that were finished before stay, with everything that they have done. So a second attempt in the same process does not repeat the first. Here is a package that registers
# something, as every package of operators does, and then fails for want of a library:

# %%
broken = folder / "half_way"
broken.mkdir()
(broken / "registry.py").write_text(
    "seen = set()\n\ndef register(name):\n    if name in seen:\n"
    "        raise RuntimeError(f'{name} is registered already')\n    seen.add(name)\n"
)
(broken / "__init__.py").write_text(
    "from half_way import registry\nregistry.register('add')\nimport a_library_that_nobody_has\n"
)
sys.path.insert(0, str(folder))
for attempt in ("first", "again"):
    try:
        import half_way
    except Exception as error:
        print(f"{attempt}: {type(error).__name__}: {error}")
print("stays:", [name for name in sys.modules if name.startswith("half_way")])
sys.path.remove(str(folder))

# %% [markdown]
# The second error is about something else, and it is the one that a notebook shows after the cell has been run again. With PyTorch it takes many forms, since C++ has more to remember than one set: libraries stay mapped, operators stay registered, docstrings stay set. Believe the first; for a second attempt, start a new process.
#
# ## Where do the three seconds go?
#
# CPython will tell: `-X importtime` prints one line a module, when it is done, with its own time, the time with everything it was the first to import, and the name, indented by depth. Without the times:

# %%
done = subprocess.run(
    [sys.executable, "-X", "importtime", "-c", "import json"], capture_output=True, text=True, check=True
)
print(*[line.rpartition("|")[2].removeprefix(" ") for line in done.stderr.splitlines()[-5:]], sep="\n")

# %% [markdown]
# A tree from bottom to top: the importer stands *below* what it imported, one step to the left. It answers the question, once one has learned to read it. It does not say who asked, what failed and was caught, and what was *not* imported.
#
# The book has a recorder that does, `readtorch trace import NAME`. It starts a fresh process, puts itself in place of the one function of the import system through which every first import goes (`_find_and_load`), and writes down two lines for each: begun,
# done. Whatever the package does, even if it crashes the interpreter, is told up to there.

# %%
record_import("json")

# %% [markdown]
# Time runs to the right, importers stand above what they were the first to import. In the table: the time with everything below, and a module's own. A click on a bar zooms.
#
# Most of `json` is `re`, and most of `re` is `enum`. The next one to import `re` gets it for nothing, so *cumulative* times depend on who comes first, and *self* times do not. Remember this when a profile blames a module: take it out, and the
# blame moves on to the next one that needs the same.
#
# Now this library. It is imported, and then its attribute `zeros` is read, which is when its floors are loaded.

# %%
record_import("readtorch", touch=["zeros"])

# %% [markdown]
# Errors in the table are not failures. `numpy._distributor_init_local` is a hook for people who build NumPy themselves: the import is tried, and its absence is the normal case. PyTorch's first lines do the same with `torch._rocm_init`, which only wheels for AMD's runtime contain.
#
# A package that does fail is reported like any other, up to the module in which it happened:

# %%
with tempfile.TemporaryDirectory() as place:
    package = Path(place) / "needs_more"
    package.mkdir()
    (package / "__init__.py").write_text("import json\nfrom needs_more import model\n")
    (package / "model.py").write_text("import argparse\nimport a_library_that_nobody_has\n")
    failed = record_import("needs_more", path=[place])
print(failed.outcome, "·", failed.error, "·", [m.name for m in failed.modules if m.error])

# %% [markdown]
# ## Why is it slow on that machine only?
#
# What is read are not the sources. Beside them, in `__pycache__`, lies what the compiler made of each. More than 700 of PyTorch's modules are Python, and where that folder cannot be written (a read-only image, a file system of another user, `PYTHONDONTWRITEBYTECODE` in a container's settings) all of them are compiled anew in
# every process. No one line of a profile shows it, everything is slow alike. Here for readtorch's own floors:

# %%
with tempfile.TemporaryDirectory() as empty:
    cold = {"PYTHONPYCACHEPREFIX": empty, "PYTHONDONTWRITEBYTECODE": "1"}
    warm, compiled = (record_import("readtorch", touch=["zeros"], environment=each) for each in ({}, cold))
print("the same modules:", warm.names() == compiled.names(), "· over twice the time:", compiled.total > 2 * warm.total)

# %% [markdown]
# ### What upstream does more
# Nothing on this floor: finders and loaders are Python's. One thing is left to the packager: wheels hold no compiled files, `pip` makes them while it installs, unless it is told not to (`--no-compile`, which builders of small images like).
