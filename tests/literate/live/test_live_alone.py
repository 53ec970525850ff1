"""What `live` does where there is no notebook, and what a notebook without `live()` is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import live_book


def run(program: str, source: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)


def test_live_does_nothing_outside_ipython(book_folder: Path) -> None:
    program = (
        "import sys; before = list(sys.path); from readtorch.literate import diff, live, reset\n"
        "live(); reset(); print(bool(diff()), sys.path == before, 'IPython' in sys.modules, 'readtorch.nn' in sys.modules)"
    )
    result = run(program, book_folder / "src")
    assert result.stdout.splitlines()[-1] == "False True False False", result.stderr


SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import readtorch.literate\\nfrom readtorch.nn.module import Module")
"""


def test_a_tangled_cell_without_live_runs_in_the_notebook_and_the_reader_is_told_once(book_folder: Path) -> None:
    cell = live_book.cell("register_buffer")
    program = f"{SHELL}\nfor _ in range(3): shell.run_cell({cell!r})\nprint(shell.user_ns['Module'].__module__)"
    result = run(program, book_folder / "src")
    assert result.stdout.splitlines()[-1] == "__main__", result.stderr
    assert result.stderr.count("ran in the notebook only") == 1


def test_a_notebook_that_calls_live_is_told_nothing(book_folder: Path) -> None:
    cell = live_book.cell("register_buffer")
    program = f"{SHELL}\nshell.run_cell('from readtorch.literate import live; live()')\nshell.run_cell({cell!r})"
    result = run(program + "\nprint(shell.user_ns['Module'].__module__)", book_folder / "src")
    assert result.stdout.splitlines()[-1] == "readtorch.nn.module"
    assert "ran in the notebook only" not in result.stderr


def test_no_edit_makes_no_overlay(book_folder: Path, tmp_path: Path) -> None:
    """The executor runs every chapter through `live()`: unedited cells must leave nothing behind."""
    cells = [live_book.cell(name) for name in live_book.CELLS]
    program = f"{SHELL}\nshell.run_cell('from readtorch.literate import live; live()')\nfor c in {cells!r}:\n    assert shell.run_cell(c).success"
    environment = {
        **os.environ,
        "PYTHONPATH": str(book_folder / "src"),
        "TMPDIR": str(tmp_path),
        "IPYTHONDIR": str(tmp_path),
    }
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert not list(tmp_path.glob("readtorch-live-*"))
