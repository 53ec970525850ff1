# Tangled from chapters/01_import/9_as_torch.py — edit there, or here and run `readtorch sync`.
"""Run unmodified PyTorch programs on readtorch: `import torch` returns readtorch's own modules.

    python -m readtorch.as_torch script.py [arguments]
    python -m readtorch.as_torch -m package.module [arguments]

or, before anything imports torch: `import readtorch.as_torch; readtorch.as_torch.install()`.
"""

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
