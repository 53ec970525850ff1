"""Small books with a package of their own, for tests of the tools that run chapters."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import readtorch.literate
from readtorch.literate.cache import Store
from readtorch.literate.chapter import Book
from readtorch.literate.execute import Executor, PartResult

TOOLS = Path(readtorch.literate.__file__).resolve().parent


class SmallBook:
    """A book below `root` whose chapters import the package `root/src/readtorch`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.package = root / "src" / "readtorch"
        self.package.mkdir(parents=True)
        (root / "chapters").mkdir()
        (self.package / "literate").symlink_to(TOOLS)
        self.module("__init__.py", "")

    def module(self, path: str, text: str) -> None:
        """Write a module. Its time goes on by a second at least: Python's byte code knows a source by its length and the second it is of."""
        file = self.package / path
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.stat().st_mtime if file.exists() else 0.0
        file.write_text(textwrap.dedent(text), encoding="utf-8")
        if file.stat().st_mtime < before + 1:
            os.utime(file, (before + 1, before + 1))

    def chapter(self, text: str, name: str = "02_module") -> Path:
        """Write the part `name`; cells are given in the percent format, indentation as you like."""
        file = self.root / "chapters" / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return file

    @property
    def book(self) -> Book:
        return Book.load(self.root)

    def executor(self, *, cached: bool = False, **options: Any) -> Executor:
        store = Store(self.root / "cache") if cached else None
        return Executor(self.book, store=store, package=self.package, jobs=2, **options)

    def run(self, **options: Any) -> PartResult:
        """The result of the only part."""
        executor = self.executor(**options)
        return executor.run(list(executor.book.parts))[executor.book.parts[0].name]

    def line_of(self, text: str, name: str = "02_module") -> int:
        """1-based line of the first line of the chapter that contains `text`."""
        lines = (self.root / "chapters" / f"{name}.py").read_text(encoding="utf-8").split("\n")
        return next(n for n, line in enumerate(lines, 1) if text in line)


def texts(result: PartResult) -> list[str]:
    """What each cell shows, as plain text, one entry per output."""
    shown = []
    for index in sorted(result.cells):
        for output in result.cells[index].outputs:
            if output["output_type"] == "stream":
                shown.append(output["text"])
            elif output["output_type"] == "error":
                shown.append(f"{output['ename']}: {output['evalue']}")
            else:
                shown.append(output["data"]["text/plain"])
    return shown
