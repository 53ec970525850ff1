"""The contents manager of `readtorch lab`: jupytext's, with cell ids that stay the same from one opening to the next.

jupytext makes up new ids each time it reads a `.py` file. With ids taken from the book's anchors a link can name a cell
(`#cell-id=…`), and the live package knows a cell again after the file was reloaded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupytext.async_contentsmanager import build_async_jupytext_contents_manager_class

from readtorch.literate.chapter import Part, parse_part
from readtorch.literate.errors import LiterateError

_Jupytext: Any = build_async_jupytext_contents_manager_class(AsyncLargeFileManager)


def cell_ids(part: Part) -> list[str]:
    """A notebook cell id for each code cell of a part: its anchor in the characters that nbformat allows."""
    found: list[str] = []
    for cell in part.code_cells:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", part.ids[cell.index])[:56] or "cell"
        name, n = plain, 2
        while name in found:
            name, n = f"{plain}-{n}", n + 1
        found.append(name)
    return found


class BookContents(_Jupytext):
    """Opens chapters as notebooks."""

    async def get(self, path: str, *args: Any, **options: Any) -> dict[str, Any]:
        model: dict[str, Any] = await super().get(path, *args, **options)
        if path.endswith(".py") and model.get("type") == "notebook" and model.get("content"):
            name_cells(model["content"]["cells"], Path(self._get_os_path(path)))
        return model


def name_cells(cells: list[dict[str, Any]], file: Path) -> None:
    """Give the code cells of a notebook their ids. A chapter that cannot be read keeps jupytext's."""
    try:
        part = parse_part(file.read_text(encoding="utf-8"), name=file.stem, path=file.name)
    except (LiterateError, OSError):
        return
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    ids = cell_ids(part)
    if len(ids) == len(code):
        for cell, name in zip(code, ids, strict=True):
            cell["id"] = name
