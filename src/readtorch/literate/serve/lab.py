"""JupyterLab for the page's button: started when first asked for, on its own port with its own token."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from readtorch.literate.chapter import Book


class Lab:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._server: Any = None
        self._starting = asyncio.Lock()

    async def address(self, part: str, cell: int) -> str:
        """The address of a cell in JupyterLab. KeyError if the book has no such cell."""
        found = Book.load(self.root).part(part)
        if not any(c.index == cell for c in found.cells):
            raise KeyError(cell)
        from readtorch.literate import lab

        async with self._starting:
            if self._server is None or not self._server.running:
                self._server = await asyncio.to_thread(lab.start, self.root)
        return str(self._server.address(found.path, cell))

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
