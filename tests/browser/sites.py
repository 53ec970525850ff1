"""Sites to drive a browser over: the book's own, and a small one with things planted that a page must survive."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from weave_books import GROUND, SHELF, write_book

from readtorch.literate.tangle import tangle

ROOT = Path(__file__).parents[2]
PLANTED = "<img src=x onerror=\"document.title='owned'\">"

PLANTS = f"""
# %% [markdown]
# ## Planted
# Equations: $a^2 + b^2$ and
#
# $$\\sum_i x_i$$
#
# ```mermaid
# flowchart LR
#   a["box"] --> b["shelf"]
# ```
#
# === "first"
#     one
#
# === "second"
#     two

# %%
from html import escape


class Rich:
    def _repr_html_(self):
        return {PLANTED!r} + "<table><tr><td>kept</td></tr></table>"


Rich()

# %%
#| id: planted-trace
#| trace: layers=calls,lines values=summary title={PLANTED.replace('"', "'")!r}
def inner(text):
    shown = text + "!"
    return shown


def outer(text):
    first = inner(text)
    second = inner(first)
    return second


outer({PLANTED!r})
"""


def planted_book(folder: Path) -> Path:
    """Write the small book, its package and its site's settings below `folder`; returns the folder."""
    book = write_book(folder, {"00_tensor/1_box": GROUND, "02_module": SHELF + PLANTS})
    package = folder / "src" / "readtorch"
    shutil.copytree(ROOT / "src" / "readtorch" / "literate", package / "literate")
    for path, file in tangle(book).items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(file.text, encoding="utf-8")
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text("# A small book\n\n[The boxes](book/00_tensor/1_box/index.md)\n")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = settings.index("\nnav:")
    end = settings.index("\n\n", nav + 1)
    own = "\nnav:\n  - index.md\n  - The book: readtorch:book\n  - API: readtorch:api"
    (folder / "mkdocs.yml").write_text(settings[:nav] + own + settings[end:], encoding="utf-8")
    (folder / "pyproject.toml").write_text("")
    return folder


def build(root: Path, site: Path) -> Path:
    """`mkdocs build --strict` of the book at `root` into `site`."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return site


def search_for(page: Any, word: str) -> Any:
    """Type into the search field; its script may still be starting, so again if nothing happens."""
    box = page.get_by_role("textbox", name="Search")
    first = page.locator(".md-search-result__item").first
    for _ in range(8):
        box.blur()
        box.click()
        box.fill("")
        box.press_sequentially(word)
        try:
            first.wait_for(timeout=5000)
        except Exception:  # playwright has timeouts of its own
            continue
        return first
    raise AssertionError(f"no results for {word!r}")
