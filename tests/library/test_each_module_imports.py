"""Each module of the package can be the first that a program imports, and what NumPy keeps private may be missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "readtorch"

IMPORT_EACH_ALONE = """
import gc, importlib, os, sys, traceback
from pathlib import Path
import numpy, ast, asyncio, concurrent.futures, ctypes, dataclasses, inspect, multiprocessing, pickle, socket, tempfile, typing, zipfile

gc.disable()
assert not any(name.partition(".")[0] == "readtorch" for name in sys.modules)


def alone(name, path):
    # in a process of its own, so that nothing is loaded but what `name` itself brings
    sys.stdout.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    visit(name, path)
    sys.stdout.flush()
    os._exit(0)


def visit(name, path):
    try:
        importlib.import_module(name)
    except BaseException:
        print("FAILED", name, traceback.format_exc(), flush=True)
    else:
        print("imported", name)
    if path.name != "__init__.py":
        return
    # importing a.b.c is importing a.b first: its process may be handed on to the modules in it
    for below in sorted(path.parent.iterdir()):
        if below == path or below.name in ("literate", "__main__.py", "_as_torch_children"):
            continue
        inner = below if below.suffix == ".py" else below / "__init__.py"
        if not inner.is_file():
            continue
        full = f"{name}.{below.stem}"
        if full in sys.modules:
            visit(full, inner)
        else:
            alone(full, inner)


visit("readtorch", Path(sys.argv[1]) / "__init__.py")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process for each module")
def test_each_module_can_be_imported_first() -> None:
    modules = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
        if path.name != "__main__.py" and not {"literate", "_as_torch_children"}.intersection(path.parts)
    }
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH_ALONE, str(PACKAGE)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert "FAILED" not in done.stdout, done.stdout[done.stdout.index("FAILED") :]
    assert done.returncode == 0, done.stderr
    imported = [line.removeprefix("imported ") for line in done.stdout.splitlines()]
    assert sorted(imported) == sorted(modules)


def test_a_numpy_without_the_private_error_state_gets_errstate() -> None:
    code = """
import warnings
import numpy as np
import numpy._core.umath as umath
del umath._extobj_contextvar
import readtorch as torch
from readtorch.aten import tensor_iterator
assert not hasattr(tensor_iterator, "_IGNORE")
warnings.simplefilter("error")
before = np.geterr()
x = torch.tensor([1.0, -1.0], requires_grad=True)
y = x / torch.tensor([0.0, 0.0])
assert y.tolist() == [float("inf"), float("-inf")]
(torch.tensor([1, 2]) / 0).sum()
x.sqrt().sum().backward()
assert x.grad[0] == 0.5 and x.grad[1].isnan()
assert np.geterr() == before
token = tensor_iterator.ignore_floating_errors()
assert set(np.geterr().values()) == {"ignore"}
tensor_iterator.restore_floating_errors(token)
assert np.geterr() == before
try:
    torch.ones(2) + torch.ones(3)
except RuntimeError:
    pass
assert np.geterr() == before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
