"""Tracebacks that pass through the package name the chapter: in a notebook, in pytest, and as a list."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import live_book
import pytest
from live_kernel import Kernel


def chapter_line(text: str) -> int:
    """The line of the chapter that holds `text`."""
    return next(n for n, line in enumerate(live_book.chapter().split("\n"), 1) if text in line)


def test_every_frame_of_the_package_names_its_chapter_line_in_a_notebook(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn import Linear")
    outcome = kernel.run("Linear(2).register_buffer([], 1)")
    assert outcome.error.startswith("TypeError: unhashable")
    linear, module = chapter_line('"linear then " +'), chapter_line("self._buffers[name] = tensor")
    assert f"→ chapters/02_module.py:{linear} (Linear.register_buffer)\n" in outcome.traceback
    assert f"→ chapters/02_module.py:{module} (Module.register_buffer)\n" in outcome.traceback
    assert outcome.traceback.count("→ chapters") == 2, "frames of the notebook have none"


@pytest.mark.parametrize(("mode", "shown"), [("Plain", True), ("Verbose", True), ("Minimal", False)])
def test_other_traceback_modes(kernel: Kernel, mode: str, shown: bool) -> None:
    kernel.must(f"from readtorch.nn import Linear\n%xmode {mode}")
    outcome = kernel.run("Linear(2).register_buffer([], 1)")
    kernel.must("%xmode Context")
    assert ("(Module.register_buffer)" in outcome.traceback) == shown


def test_chained_exceptions_keep_their_frames(kernel: Kernel) -> None:
    kernel.must("from readtorch.nn import Module")
    outcome = kernel.run(
        "try:\n    Module().register_buffer([], 1)\nexcept TypeError as e:\n    raise ValueError('mine') from e"
    )
    assert outcome.error == "ValueError: mine"
    assert "(Module.register_buffer)" in outcome.traceback
    assert "direct cause" in outcome.traceback


def test_an_error_while_the_cell_runs_is_shown_from_the_cell_on(kernel: Kernel) -> None:
    text = "#| into: nn/module.py\nmade = Module()\nmade.register_buffer([], 1)"
    outcome = kernel.run(text)
    assert outcome.error.startswith("TypeError")
    assert "made.register_buffer([], 1)" in outcome.traceback
    assert "(Module.register_buffer)" in outcome.traceback
    assert "literate/notebook" not in outcome.traceback
    assert kernel.value("hasattr(readtorch.nn.module, 'made')") == "False"


FAILING = """
from readtorch.nn import Linear

def test_it():
    Linear(2).register_buffer([], 1)
"""


@pytest.mark.parametrize("style", ["long", "short", "auto"])
def test_pytest_shows_the_chapter_beside_the_location(book_folder: Path, tmp_path: Path, style: str) -> None:
    (tmp_path / "test_it.py").write_text(FAILING, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(book_folder / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "readtorch.literate.pytest_plugin",
        f"--tb={style}",
        "-p",
        "no:cacheprovider",
    ]
    result = subprocess.run(
        [*command, "test_it.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    line = chapter_line("self._buffers[name] = tensor")
    [shown] = [
        text for text in result.stdout.split("\n") if f"→ chapters/02_module.py:{line} (Module.register_buffer)" in text
    ]
    assert "nn/module.py:" in shown, result.stdout + result.stderr


def test_annotate_lists_the_places_of_an_exception(book_folder: Path) -> None:
    program = (
        "from readtorch.nn import Linear\nfrom readtorch.literate.tracebacks import annotate\n"
        "try: Linear(2).register_buffer([], 1)\n"
        "except TypeError as error: print(annotate(error) == annotate(error.__traceback__), *annotate(error), sep='\\n')"
    )
    environment = {**os.environ, "PYTHONPATH": str(book_folder / "src")}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    linear, module = chapter_line('"linear then " +'), chapter_line("self._buffers[name] = tensor")
    assert result.stdout.splitlines() == [
        "True",
        f"→ chapters/02_module.py:{linear} (Linear.register_buffer)",
        f"→ chapters/02_module.py:{module} (Module.register_buffer)",
    ], result.stderr
