"""From package lines to chapter lines, in a checkout, after an edit, and from the map that a wheel carries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import books
import pytest
from hypothesis import given, settings

from readtorch.literate import linemap
from readtorch.literate.chapter import Book
from readtorch.literate.tangle import tangle

BOOK = Book.load()
FILES = tangle(BOOK)


@pytest.fixture
def fresh_map() -> Iterator[None]:
    linemap.forget()
    yield
    linemap.forget()


def test_every_line_of_the_package_is_located_where_its_text_stands() -> None:
    chapters = {part.path: part.text.split("\n") for part in BOOK.parts}
    for path, file in FILES.items():
        for number, line in enumerate(file.lines, 1):
            place = linemap.locate(BOOK.package / path, number)
            if line.part_path is None:
                assert place is None
                continue
            assert place is not None
            assert (place.path, place.line) == (line.part_path, line.chapter_line)
            if number - 1 not in file.imports:
                assert chapters[place.path][place.line - 1] == line.text
                if number % 50 == 0:
                    assert (path, number) in linemap.positions(place.path, place.line)


def test_a_place_names_the_innermost_definition() -> None:
    file = FILES["nn/modules/module.py"]
    number = next(k for k, line in enumerate(file.lines, 1) if "def register_buffer(" in line.text)
    place = linemap.locate(BOOK.package / file.path, number + 2)
    assert place is not None
    assert place.symbol == "Module.register_buffer"
    assert str(place) == f"{place.path}:{place.line} (Module.register_buffer)"


def test_a_relative_path_is_one_below_the_package() -> None:
    last = len(FILES["nn/modules/module.py"].lines)
    absolute = linemap.locate(BOOK.package / "nn/modules/module.py", last)
    assert absolute is not None
    assert linemap.locate("nn/modules/module.py", last) == absolute


@pytest.mark.parametrize("file", ["/usr/lib/python3/os.py", "<stdin>", "literate/tangle.py", "no/such/file.py"])
def test_other_files_are_not_located(file: str) -> None:
    assert linemap.locate(file, 1) is None
    assert linemap.locate(linemap.__file__, 1) is None


def test_lines_beyond_the_file_are_not_located() -> None:
    assert linemap.locate("nn/modules/module.py", 10**6) is None
    assert linemap.locate("nn/modules/module.py", 0) is None


@pytest.mark.usefixtures("fresh_map")
def test_an_edited_file_is_aligned_with_its_chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = books.HEADER + "# %%\n#| into: a.py\ndef f() -> int:\n    x = 1\n    return x\n"
    books.Drawn({"02_module": text}).write(tmp_path)
    book = Book.load(tmp_path)
    made = tangle(book)["a.py"].text
    (book.package / "a.py").write_text(made.replace("    x = 1\n", "    # new\n    x = 1\n    y = 2\n"))
    monkeypatch.setattr(linemap, "_PACKAGE", book.package)
    monkeypatch.setattr(linemap, "_tangled", linemap.cache(lambda: tangle(book)))
    places = [linemap.locate("a.py", n) for n in range(1, 9)]
    assert [p.line if p else None for p in places] == [None, None, None, 9, None, 10, None, 11]
    assert places[5] == linemap.Place("chapters/02_module.py", 10, "f")


@settings(max_examples=60, deadline=None)
@given(books.books())
def test_the_shipped_map_says_what_the_computed_one_does(drawn: books.Drawn) -> None:
    files = tangle(drawn.book())
    read = linemap.read_map(linemap.write_map(files))
    for path, file in files.items():
        for number, line in enumerate(file.lines, 1):
            expected = None if line.part_path is None else (line.part_path, line.chapter_line)
            assert read[path].place(number) == expected


def test_a_map_of_another_version_is_ignored() -> None:
    assert linemap.read_map('{"version": 99, "chapters": [], "files": {"a.py": []}}') == {}


def test_copies_of_the_package_are_located_as_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linemap, "_copies", [])
    last = len(FILES["nn/modules/module.py"].lines)
    assert linemap.locate(tmp_path / "nn/modules/module.py", last) is None
    linemap.also_below(tmp_path)
    assert linemap.locate(tmp_path / "nn/modules/module.py", last) == linemap.locate("nn/modules/module.py", last)
