"""What must hold of every part of the book."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest

from readtorch.literate.chapter import Book, Part

BOOK = Book.load()
REPOSITORY = Path(__file__).resolve().parents[2]
HEADER = """\
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

"""

each_part = pytest.mark.parametrize("part", BOOK.parts, ids=lambda part: part.name)


@each_part
def test_it_survives_jupyterlab_byte_for_byte(part: Part) -> None:
    """py → notebook → .ipynb text → notebook → py, as when it is opened, sent to the browser and saved."""
    notebook = jupytext.reads(part.text, fmt="py:percent")
    sent = nbformat.reads(nbformat.writes(notebook), as_version=4)
    assert jupytext.writes(sent, fmt="py:percent") == part.text


@each_part
def test_its_header_holds_the_settings_that_make_it_survive(part: Part) -> None:
    assert part.text.startswith(HEADER)


@each_part
def test_it_is_plain_python(part: Part) -> None:
    ast.parse(part.text)


@each_part
def test_its_first_code_cell_calls_live(part: Part) -> None:
    first = part.code_cells[0]
    assert not first.into
    assert re.search(r"^from readtorch\.literate import .*\blive\b", first.code, re.MULTILINE)
    assert re.search(r"^live\(\)$", first.code, re.MULTILINE)


@each_part
def test_it_is_no_longer_than_a_page_can_be(part: Part) -> None:
    """About 700 lines of code; one subject that needs somewhat more is not torn apart."""
    lines = sum(len([x for x in cell.code.split("\n") if x.strip()]) for cell in part.code_cells)
    assert lines <= 800, f"{lines} lines of code; make two parts of it"


def test_chapters_and_package_are_fixed_points_of_the_formatter() -> None:
    command = [sys.executable, "-m", "ruff", "format", "--check", "--no-cache", "chapters", "src"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_chapters_and_package_pass_the_linter() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "chapters", "src"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
