"""A book made up for measuring: 7 chapters of 60 cells, and the same notebooks for nbdev.

Per chapter: 20 tangled cells of about 21 lines (functions, and a class that is opened once and re-opened), 20 small demo cells
and 20 Markdown cells: about 4,800 chapter lines and 3,000 tangled lines in all.
"""

from __future__ import annotations

import json
from pathlib import Path

CHAPTERS = ("00_tensor", "01_import", "02_module", "03_norm", "04_optim", "05_data", "06_data_parallel")
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
_FUNCTION = '''\
def step_{n}(values: list[float], scale: float = {n}.0) -> list[float]:
    """Scale the values and drop what is out of range.

    Shapes: any length. Raises ValueError for an empty list.
    """
    if not values:
        raise ValueError("step_{n} needs at least one value")
    kept = []
    for index, value in enumerate(values):
        scaled = value * scale + index
        # Beyond the range nothing is kept: the caller has normalised already.
        if scaled > 1e6:
            continue
        if scaled < -1e6:
            break
        kept.append(scaled)
    total = sum(kept)
    if total == 0:
        return kept
    return [value / total for value in kept]'''
_METHOD = '''\
    def method_{n}(self, name: str, value: float | None = None) -> float:
        """Set or get a named number.

        Raises KeyError for a name that was never set.
        """
        if value is not None:
            self._numbers[name] = value
            self._log.append(("method_{n}", name))
        if name not in self._numbers:
            raise KeyError(f"no number called {{name!r}}")
        found = self._numbers[name]
        for hook in self._hooks:
            changed = hook(self, name, found)
            if changed is not None:
                found = changed
        # The log is bounded, so that a long run does not eat memory.
        if len(self._log) > 1000:
            del self._log[:500]
        return found + {n}'''
_OPENING = '''\
class Machine:
    """A thing with named numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, float] = {}
        self._hooks: list = []
        self._log: list[tuple[str, str]] = []'''
_PROSE = """\
# ## Section {n}
#
# What is about to happen, and why it is done so, in two or three sentences of ordinary length that a reader would read
# before the code below. The numbers are small, so that they can be followed by hand."""
_DEMO = """\
first = [1.0, 2.0, {n}.0]
second = [value * 2 for value in first]
sum(second)"""


def cells(chapter: int) -> list[tuple[str, str, str]]:
    """(kind, target file or "", text) of each cell; kind is markdown, code, class, method or imports."""
    result: list[tuple[str, str, str]] = []
    functions, machine = f"pack{chapter}/steps.py", f"pack{chapter}/machine.py"
    for n in range(20):
        result.append(("markdown", "", _PROSE.format(n=n)))
        if n == 0:
            result.append(
                (
                    "imports",
                    functions,
                    "import math\\nimport os\\nfrom collections import OrderedDict".replace("\\n", "\n"),
                )
            )
        elif n == 1:
            result.append(("class", machine, _OPENING))
        elif n % 2:
            result.append(("method", machine, _METHOD.format(n=n)))
        else:
            result.append(("code", functions, _FUNCTION.format(n=n)))
        result.append(("demo", "", _DEMO.format(n=n)))
    return result


def write_book(root: Path) -> None:
    """The chapters of readtorch's form below `root`."""
    for number, name in enumerate(CHAPTERS):
        text = [HEADER]
        for kind, target, code in cells(number):
            head = "# %% [markdown]\n" if kind == "markdown" else "# %%\n"
            if target:
                head += f"#| into: {target}\n" + ("#| imports\n" if kind == "imports" else "")
            if kind == "method":
                head += "class Machine(Machine):\n"
            text.append(f"{head}{code}\n\n")
        file = root / "chapters" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(text).rstrip("\n") + "\n", encoding="utf-8")
    (root / "src" / "readtorch").mkdir(parents=True, exist_ok=True)


def write_notebooks(folder: Path) -> None:
    """The same cells as nbdev notebooks: methods by `@patch`, each cell exported where ours is tangled."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(len(CHAPTERS)):
        found = [_notebook_cell("code", f"#| default_exp steps{number}", "a0")]
        for index, (kind, target, code) in enumerate(cells(number)):
            if kind == "markdown":
                text = "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in code.split("\n"))
                found.append(_notebook_cell("markdown", text, f"c{index}"))
                continue
            if kind == "method":
                body = "\n".join(line[4:] for line in code.split("\n"))
                code = "@patch\n" + body.replace("(self,", "(self: Machine,", 1)
            if kind == "imports":
                code = "from fastcore.basics import patch\n" + code
            found.append(_notebook_cell("code", ("#| export\n" if target else "") + code, f"c{index}"))
        kernel = {"display_name": "python3", "language": "python", "name": "python3"}
        notebook = {"cells": found, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        (folder / f"{number:02}_chapter.ipynb").write_text(json.dumps(notebook, indent=1), encoding="utf-8")


def _notebook_cell(kind: str, text: str, name: str) -> dict[str, object]:
    cell: dict[str, object] = {"cell_type": kind, "id": name, "metadata": {}, "source": text.splitlines(keepends=True)}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell
