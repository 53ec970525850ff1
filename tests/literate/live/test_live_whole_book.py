"""Tangled cells of the real book: unedited each does nothing, edited it is taken in, and reset() gives back the very objects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import readtorch.literate

PROGRAM = """
import contextlib, io, json, types
from IPython.core.interactiveshell import InteractiveShell
from readtorch.literate.chapter import Book

shell = InteractiveShell.instance()
shell.run_cell("import readtorch as torch\\ntorch.ones(1)")
shell.run_cell("import readtorch.literate\\nreadtorch.literate.live()")
book = Book.load()
cells = [c for p in book.parts for c in p.code_cells if c.into and c.into.endswith(".py")]
failed, said = [], io.StringIO()

def run(source, cell_id):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        result = shell.run_cell(source, cell_id=cell_id)
    if not result.success:
        failed.append([cell_id, str(result.error_in_exec or result.error_before_exec)])
    return out.getvalue()

printed = {run(c.source, f"{c.path}-{c.index}") for c in cells} - {""}
from readtorch.literate.notebook.journal import Journal
kept = Journal()
edited = 0
for c in cells[::3]:  # cells of every file; all of them would take minutes
    if not c.has("imports") and not c.into.endswith("__init__.py") and c.code.strip():
        marker = f"_marker_{c.index} = 1\\n"
        run(c.source + ("\\n\\n    " if c.reopens else "\\n\\n\\n") + marker, f"{c.path}-{c.index}")
        edited += 1
files = {c.into for c in cells}
import subprocess, sys
child = subprocess.run([sys.executable, "-c", "import readtorch; print(readtorch.__file__)"], capture_output=True, text=True)
run("readtorch.literate.reset()", None)  # a part may define a `reset` of its own
left = [f"{c.kind} {c.target if c.kind == 'class' else ''} {c.key}" for c in kept.changes() if not isinstance(c.after, types.ModuleType)]
print(json.dumps([len(cells), edited, sorted(printed), failed, left, child.stdout.strip(), child.stderr[-2000:]]))
"""


@pytest.mark.slow
def test_every_cell_of_the_book_can_be_run_edited_and_reset(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    source = Path(readtorch.literate.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(source), "IPYTHONDIR": str(tmp_path), "NO_COLOR": "1"}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-4000:]
    import json

    cells, edited, printed, failed, left, child, child_error = json.loads(result.stdout.splitlines()[-1])
    assert cells > 100
    assert edited > cells / 6
    assert printed == [], "a cell that says what the package holds says nothing"
    assert failed == []
    assert left == [], "reset() restores the very objects"
    assert "readtorch-live-" in child, child_error
