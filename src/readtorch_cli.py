"""The console script `readtorch`. From a bare checkout: `python src/readtorch_cli.py COMMAND`.

Tangle and sync must work when the package cannot be imported (an edit gone wrong, the marks of a merge conflict) and take less
time than importing NumPy. So for these commands `readtorch` is only a name under which its `literate` is found; its
`__init__` does not run.
"""

import gc
import os
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from types import ModuleType

WITHOUT_LIBRARY = ("tangle", "sync", "coverage", "help", "-h", "--help", "-V", "--version")


def _package_folder() -> str:
    """Where the package lies: beside this file, or, where an editable install has copied this file, on the import path."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "readtorch")
    if os.path.isdir(os.path.join(beside, "literate")):
        return beside
    spec = PathFinder.find_spec("readtorch")
    return next(iter(spec.submodule_search_locations or ()), beside) if spec is not None else beside


def main() -> int:
    """Run the command of `sys.argv`; returns the exit status."""
    light = len(sys.argv) < 2 or sys.argv[1] in WITHOUT_LIBRARY
    if light:
        package = ModuleType("readtorch")
        package.__path__ = [_package_folder()]
        sys.modules.setdefault("readtorch", package)
        gc.disable()  # a short life full of syntax trees: collecting takes a fifth of it and finds nothing
    from readtorch.literate.cli import main as run

    status = run()
    if light:
        with suppress(BrokenPipeError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # all files are closed; taking everything apart would take another tenth
    return status


if __name__ == "__main__":
    sys.exit(main())
