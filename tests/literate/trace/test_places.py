"""Where the lines of a recording stand in the book, said afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weave_books import write_book

from readtorch.literate.chapter import Book
from readtorch.literate.execute import Executor
from readtorch.literate.tangle import TangledFile, tangle
from readtorch.literate.trace_places import MIME, in_package, resolve

Lines = dict[int, tuple[str, str, int]]


def places(document: dict[str, Any], file: int) -> Lines:
    """Line of the file → chapter, cell and chapter line; no line twice."""
    found: Lines = {}
    for where, first, last, path, cell, at in document["cells"]:
        if where == file:
            for number in range(first, last + 1):
                assert number not in found
                found[number] = (document["strings"][path], document["strings"][cell], at + number - first)
    return found


def written(book: Book, file: TangledFile) -> Lines:
    """The same, line by line from the tangled file."""
    parts = {part.path: part for part in book.parts}
    return {
        number: (line.part_path, parts[line.part_path].ids[line.cell.index], line.chapter_line)
        for number, line in enumerate(file.lines, 1)
        if line.part_path is not None and line.cell is not None and line.chapter_line is not None
    }


def document(path: str, first: int, last: int) -> dict[str, Any]:
    chapter, line, cell = in_package(path, first)
    return {
        "strings": [chapter, cell],
        "files": [{"path": f"readtorch/{path}"}],
        "cells": [[0, first, last, 0, 1, line]],
    }


def test_lines_of_the_package_get_the_places_that_the_tangled_file_has(tmp_path: Path) -> None:
    book = write_book(tmp_path)
    parts = {part.path: part for part in book.parts}
    for path, file in tangle(book).items():
        whole = document(path, 1, len(file.lines))
        resolve(whole, book.parts[0], parts, {path: file})
        assert places(whole, 0) == written(book, file) != {}
        for first, last in [(2, 5), (3, 3), (4, len(file.lines) + 9)]:
            some = document(path, first, last)
            resolve(some, book.parts[0], parts, {path: file})
            assert places(some, 0) == {n: p for n, p in written(book, file).items() if first <= n <= last}


def test_a_file_that_no_chapter_writes_has_no_places(tmp_path: Path) -> None:
    book = write_book(tmp_path)
    other = document("elsewhere.py", 1, 3)
    resolve(other, book.parts[0], {part.path: part for part in book.parts}, {})
    assert other["cells"] == []


def test_the_process_that_records_does_not_read_the_book(tmp_path: Path) -> None:
    """For most parts that would take longer than all else; their lines have places all the same."""
    root = Path(__file__).parents[3]
    text = """\
# %% [markdown]
# # Small

# %%
import readtorch

# %%
#| trace: readtorch.c10 layers=calls,lines
readtorch.promote_types(readtorch.int16, readtorch.uint8)

# %%
from readtorch.literate import linemap
print(linemap._map.cache_info().misses)
"""
    own = tmp_path / "chapters" / "02_module.py"
    own.parent.mkdir()
    own.write_text(text)
    small = Book.load(tmp_path)
    (part,) = small.parts
    book = Book.load(root)
    executor = Executor(Book(root, (*book.parts, part)), jobs=1)
    result = executor.run([part])[part.name]
    assert not result.problems
    *_, last = result.cells.values()
    assert last.outputs[0]["text"] == "0\n"
    (recorded,) = [o["data"][MIME] for c in result.cells.values() for o in c.outputs if MIME in o.get("data", ())]
    files = tangle(book)
    seen = 0
    for number, entry in enumerate(recorded["files"]):
        file = files.get(entry["path"].removeprefix("readtorch/"))
        for line, place in places(recorded, number).items() if file is not None else ():
            assert place == written(book, file)[line]
            seen += 1
    assert seen
