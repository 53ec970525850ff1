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
# # `import torch`, answered by somebody else
#
# A script says `import torch`, and so does every library it uses. To run all of them on readtorch nothing in them has to change: the import system can be asked to answer differently. This part is
# the machinery of the chapter put to use, in eighty lines.

# %%
import sys

import readtorch
from readtorch.literate import live

live()

# %% [markdown]
# ## Why a line in `sys.modules` is not enough
#
# `sys.modules["torch"] = readtorch` makes `import torch` work. The next line of the script is `import torch.nn.functional as F`, and now the import system looks for `torch.nn.functional`, finds the parent `torch`, takes its `__path__`, and
# loads our files *again* under the new name: a second `Module` class, a second dispatcher, and an `isinstance` that is false for no visible reason.

# %%
#| needs: 02_module
import importlib.util

sys.modules["pretend"] = readtorch
second = importlib.import_module("pretend.nn.parameter")
first = importlib.import_module("readtorch.nn.parameter")
print("one module?", second is first, "· one class?", second.Parameter is first.Parameter)
for name in [name for name in sys.modules if name.split(".")[0] == "pretend"]:
    del sys.modules[name]

# %% [markdown]
# What is needed is a *finder*: an object on `sys.meta_path` that is asked for every module not yet loaded. Ours answers for `torch` and everything below it, and its loader creates nothing: it imports the module of the same name below
# `readtorch` and returns that very object. One trap is left. When a loader returns, the import system writes the spec it used into the module's `__spec__`, also when the module has one; a module that says it was loaded
# as `torch.nn` would be reloaded and pickled under that name, so the old spec is put back.

# %%
#| into: as_torch.py
"""Run unmodified PyTorch programs on readtorch: `import torch` returns readtorch's own modules.

    python -m readtorch.as_torch script.py [arguments]
    python -m readtorch.as_torch -m package.module [arguments]

or, before anything imports torch: `import readtorch.as_torch; readtorch.as_torch.install()`.
"""

# %%
#| into: as_torch.py
#| imports
from __future__ import annotations

import builtins
import importlib
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from io import open_code
from pathlib import Path
from types import ModuleType
from typing import Any


# %%
#| into: as_torch.py
#| upstream: torch/__init__.py#__getattr__
class _TorchFinder(MetaPathFinder, Loader):
    """Answers for `torch` and `torch.*` with readtorch's modules, the same objects under both names."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module below `torch`; None for any other, and for one that readtorch does not have."""
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        ours = _our_name(fullname)
        try:
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is not None and (ours == error.name or ours.startswith(error.name + ".")):
                return None
            raise
        return ModuleSpec(fullname, self, is_package=hasattr(module, "__path__"))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module that readtorch has already loaded."""
        module = importlib.import_module(_our_name(spec.name))
        self._spec_of_ours = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run; the import system has just overwritten `__spec__`, which is put back."""
        module.__spec__ = sys.modules[module.__name__].__spec__ = self._spec_of_ours


def _our_name(fullname: str) -> str:
    return "readtorch" + fullname.removeprefix("torch")


# %%
#| into: as_torch.py
#| upstream: torch/__init__.py#__getattr__
_finder = _TorchFinder()


def install() -> None:
    """Let `import torch` mean readtorch from here on. Harmless when repeated.

    Raises RuntimeError if the real torch is already loaded: objects of two libraries would meet.
    """
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded.__name__ != "readtorch":
        raise RuntimeError(
            f"the real torch {getattr(loaded, '__version__', '')} is already imported; call readtorch.as_torch.install() before it"
        )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Let `import torch` mean what it did. Modules already imported under that name are forgotten, not unloaded."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        if sys.modules[name].__name__.startswith("readtorch"):
            del sys.modules[name]


# %% [markdown]
# ## Child processes
#
# A worker started by `spawn` or `subprocess` is a fresh interpreter that knows nothing of our finder. What children do inherit is the environment, and `PYTHONPATH` in it. So the runner puts a folder there whose only content is a module called `torch` that
# installs the finder and steps aside. `multiprocessing` sends its children the parent's `sys.path` as well and puts it in place of their own: the folder stands in that too. The parent does not find it, as its finder is asked first.

# %%
#| into: _as_torch_children/torch.py
"""Found by child processes as `torch`: installs readtorch's finder, and is replaced by readtorch."""


def _step_aside() -> None:
    import sys

    from readtorch import as_torch

    del sys.modules["torch"]
    as_torch.install()
    import torch as torch


if __name__ == "torch":
    _step_aside()


# %%
#| into: as_torch.py
def _reach_children() -> None:
    folder = str(Path(__file__).with_name("_as_torch_children"))
    package = str(Path(__file__).parent.parent)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    wanted = [folder, package]
    os.environ["PYTHONPATH"] = os.pathsep.join([*wanted, *(p for p in inherited if p and p not in wanted)])
    if folder not in sys.path:
        sys.path.insert(0, folder)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a script or (`-m`) a module as `__main__`, with the arguments that follow it."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return
    install()
    _reach_children()
    importlib.import_module(
        "readtorch.multiprocessing"
    )  # teaches Python's own how tensors cross, as `import torch` does
    if arguments[0] == "-m":
        if len(arguments) < 2:
            raise SystemExit("as_torch: -m needs the name of a module")
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        _as_if_alone(partial(runpy.run_module, arguments[1], run_name="__main__", alter_sys=True))
        return
    script = arguments[0]
    if not Path(script).is_file():
        raise SystemExit(f"as_torch: no such file: {script}")
    sys.argv = arguments
    sys.path.insert(0, str(Path(script).resolve().parent))
    _as_if_alone(partial(_run_script, os.path.abspath(script)))


def _run_script(path: str) -> None:
    """Run the file as `__main__`, as `python path` does; `runpy` would put another name into `sys.argv[0]`, and take the module away at the end."""
    main = ModuleType("__main__")
    vars(main).update(__file__=path, __builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = main
    with open_code(path) as file:
        code = compile(file.read(), path, "exec")
    exec(code, vars(main))


def _as_if_alone(run: Callable[[], Any]) -> None:
    """Report an uncaught error without the frames that led from the command line to the program."""
    try:
        run()
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None


if __name__ == "__main__":
    from readtorch.as_torch import main as run

    run()

# %% [markdown]
# ## Watch it
#
# The modules are the same objects, so a class is the same class whichever name it is reached by.

# %%
#| needs: 02_module
from readtorch import as_torch

if "torch" not in sys.modules:
    as_torch.install()
    import torch.nn.modules as modules
    from torch.nn.parameter import Parameter

    print(modules is sys.modules["readtorch.nn.modules"], Parameter.__module__, sys.modules["torch.nn"].__spec__.name)
    as_torch.uninstall()


# %%
#| test
#| needs: 02_module
def test_a_module_is_one_object_under_both_names():
    import subprocess

    program = (
        "import readtorch.as_torch as a; a.install()\n"
        "import torch, torch.nn, readtorch\n"
        "assert torch is readtorch and torch.nn is readtorch.nn\n"
        "assert torch.nn.__spec__.name == 'readtorch.nn'\n"
        "try:\n    import torch.no_such_module\n"
        "except ModuleNotFoundError as error:\n    assert error.name == 'torch.no_such_module'\n"
        "else:\n    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


test_a_module_is_one_object_under_both_names()
