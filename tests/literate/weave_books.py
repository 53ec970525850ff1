"""A small book of two chapters that has one of everything the weaver writes, and what an executor would say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from readtorch.literate.chapter import Book
from readtorch.literate.execute import CellResult, PartResult
from readtorch.literate.tangle import tangle
from readtorch.literate.weave.pages import WovenPage
from readtorch.literate.weave.site import Site

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

GROUND = '''\
# %% [markdown]
# # Boxes
# A box holds one number. See [the shelf](../02_module.py#Shelf.put) for many.

# %%
from readtorch.literate import live

live()

# %%
#| into: c10/box.py
#| imports
from __future__ import annotations

# %%
#| into: c10/box.py
#| upstream: torch/nn/modules/module.py#Module.register_buffer
class Box:
    """One number."""

    def __init__(self, value: int) -> None:
        self.value = value

# %% [markdown]
# ## Opening it
# > [!NOTE]
# > **Often told otherwise.** A box is `not` a bag.

# %%
#| into: c10/box.py
class Box(Box):
    def double(self) -> Box:
        #: Twice, because `one` is not enough.
        return Box(twice(self.value))

    def opened(self) -> int:
        return self.double().value

# %%
#| into: c10/box.py
def twice(number: int) -> int:
    return 2 * number

# %%
#| into: c10/__init__.py
from readtorch.c10.box import Box as Box
'''

SHELF = '''\
# %% [markdown]
# # The shelf
# Many boxes. $x^2$

# %%
#| into: nn/shelf.py
#| imports
from __future__ import annotations

from readtorch import c10
from readtorch.c10 import Box

# %%
#| into: nn/shelf.py
class Shelf:
    """Many boxes."""

    def __init__(self) -> None:
        self.boxes: list[Box] = []

    def put(self, box: Box) -> None:
        double = box.double()
        self.boxes.append(double)
        Box = len  # a local hides the class
        Box(self.boxes)
        c10.Box(1).opened()

# %%
#| into: nn/__init__.py
from readtorch.nn.shelf import Shelf as Shelf

# %%
#| into: __init__.py
from readtorch import c10 as c10, nn as nn

# %% [markdown]
# ## A run

# %%
import readtorch as torch
from readtorch import nn

shelf = nn.Shelf()
shelf.put(torch.c10.Box(2))
print("<img src=x onerror=alert(1)>")

# %%
#| trace: torch.nn layers=calls,lines values=summary title="putting a box"
shelf.put(torch.c10.Box(3))

# %%
#| claim: a shelf is empty at first
#| differs: upstream has no shelves
#| fact: torch/nn/modules/module.py#Module.register_buffer
#| source: pytorch/pytorch#45834
def _(torch):
    assert torch.nn.Shelf().boxes == []

# %%
#| exercise: empty
def empty(shelf):
    raise NotImplementedError

# %%
#| solution: empty
def empty(shelf):
    shelf.boxes.clear()

# %%
#| check: empty
empty(shelf)
assert not shelf.boxes

# %%
#| test
def test_shelf_is_empty_at_first():
    assert nn.Shelf().boxes == []
'''


def write_book(root: Path, parts: dict[str, str] | None = None) -> Book:
    """Write `parts` (default: the two above), name to cells, below `root`."""
    for name, text in (parts or {"00_tensor/1_box": GROUND, "02_module": SHELF}).items():
        file = root / "chapters" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(HEADER + text, encoding="utf-8")
    return Book.load(root)


def results(book: Book, part: str, outputs: dict[str, list[dict[str, Any]]], **evidence: Any) -> dict[str, PartResult]:
    """A result of `part` with `outputs` by cell id; `evidence` by cell id with `_` for what no identifier has."""
    found = book.part(part)
    by_id = {name: index for index, name in found.ids.items()}
    cells = {by_id[name]: CellResult(list(outs)) for name, outs in outputs.items()}
    for name, value in evidence.items():
        cells.setdefault(by_id[name], CellResult()).evidence = value
    return {part: PartResult(part, "digest", "cpu", {}, cells)}


def woven(book: Book, run: dict[str, PartResult] | None = None) -> tuple[Site, dict[str, WovenPage]]:
    site = Site(book, tangle(book), run or {})
    return site, {name: page for name, (_, page) in site.weave().items()}


def html_of(page: WovenPage) -> str:
    """All that the weaver wrote into the page's slots."""
    return "\n".join(page.slots)
