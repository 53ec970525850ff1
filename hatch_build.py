"""Build hook: put the book into the wheel, chapters and line map (package line → chapter line), and refuse a stale package."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BOOK = "readtorch/literate/book"


class LineMapHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        # The library needs NumPy, which a build environment lacks: only its tools are imported.
        package = ModuleType("readtorch")
        package.__path__ = [str(Path(self.root) / "src" / "readtorch")]
        sys.modules["readtorch"] = package
        from readtorch.literate.asof import book_files
        from readtorch.literate.build import check
        from readtorch.literate.chapter import Book
        from readtorch.literate.linemap import FILE_NAME, write_map
        from readtorch.literate.tangle import tangle

        book = Book.load(Path(self.root))
        if check(book):
            raise RuntimeError("the package differs from the chapters; run `readtorch tangle` before building")
        self._folder = tempfile.TemporaryDirectory()
        content: dict[str, bytes | Path] = dict(book_files(book, BOOK))
        content[f"{BOOK}/{FILE_NAME}"] = write_map(tangle(book)).encode()
        for number, (name, source) in enumerate(content.items()):
            if isinstance(source, bytes):
                file = Path(self._folder.name) / str(number)
                file.write_bytes(source)
                source = file
            build_data["force_include"][str(source)] = name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()
