"""Which fragment a cell is a text of, what counts as an edit, and the overlay's files: without a kernel."""

from __future__ import annotations

import ast
from pathlib import Path

import live_book
import pytest

from readtorch.literate.chapter import Book
from readtorch.literate.notebook.book import Fragment, PackageFile, Snapshot
from readtorch.literate.notebook.cells import TangledCell, below_directives, read_cell
from readtorch.literate.notebook.overlay import edited_text
from readtorch.literate.notebook.units import EMPTY, Version, cut
from readtorch.literate.tangle import tangle

CHAPTER = "chapters/02_module.py"


def save(folder: Path, *edits: tuple[str, str]) -> None:
    """Edit the chapter on disk, as JupyterLab's save does; the package stays."""
    file = folder / CHAPTER
    text = file.read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")


def snapshot(folder: Path) -> Snapshot:
    return Snapshot(folder, folder / "src" / "readtorch")


def version(source: str) -> Version:
    cell = read_cell(source, ast.parse(source), "<cell>")
    assert isinstance(cell, TangledCell)
    return Version(below_directives(cell), "<cell>", cut(cell.code, cell.tree))


def fragment_of(file: PackageFile, source: str, cell_id: str | None = None) -> Fragment:
    return file.find(version(source), cell_id, "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    live_book.make_book(tmp_path)
    return tmp_path


def test_every_cell_of_the_book_is_its_own_fragment_and_unedited(folder: Path) -> None:
    book = snapshot(folder)
    seen: set[int] = set()
    for name in live_book.CELLS:
        source = live_book.cell(name)
        if "#| imports" in source or "kernels.cu" in source:
            continue
        into = source.split("\n")[0].removeprefix("#| into: ")
        fragment = fragment_of(book.file(into), source)
        assert version(source).key == fragment.current.key == fragment.book.key, name
        assert fragment.book.text == "\n".join(source.split("\n")[1:]), name
        assert fragment.place.startswith(f"{CHAPTER}:")
        seen.add(id(fragment))
    assert len(seen) == sum("#| imports" not in text and ".cu" not in text for text in live_book.CELLS.values())


def test_a_saved_edit_that_was_never_tangled_is_an_edit_after_a_restart(folder: Path) -> None:
    save(folder, ('return "book"', 'return "edited"'))
    file = snapshot(folder).file("nn/module.py")
    source = live_book.cell("register_buffer").replace('"book"', '"edited"')
    fragment = fragment_of(file, source)
    assert version(source).key != fragment.current.key
    assert 'return "book"' in fragment.book.text
    assert fragment.book.text.startswith("class Module(Module):\n    def register_buffer")
    assert set(fragment.book.qualified) == {"Module.register_buffer", "Module.buffers"}


def test_a_method_deleted_in_the_saved_chapter_still_belongs_to_its_fragment(folder: Path) -> None:
    save(folder, ("\n\n    def buffers(self):\n        return list(self._buffers)", ""))
    file = snapshot(folder).file("nn/module.py")
    source = live_book.cell("register_buffer").partition("\n\n    def buffers")[0]
    fragment = fragment_of(file, source)
    assert fragment.book.qualified == ("Module.register_buffer", "Module.buffers")
    assert version(source).key != fragment.current.key


def test_a_renamed_function_in_the_saved_chapter_owns_the_old_name(folder: Path) -> None:
    save(folder, ("def double(value)", "def twice(value)"))
    file = snapshot(folder).file("nn/module.py")
    source = live_book.cell("kernel").replace("double(value)", "twice(value)")
    assert file.owner["double"].current.qualified[-1] == "double"
    assert version(source).key not in {f.current.key for f in file.fragments}


def test_a_chapter_that_cannot_be_read_leaves_every_name_an_owner(folder: Path) -> None:
    save(folder, ("#| into: nn/layers.py\nclass Linear(Module)", "#| into: nn/layers.py\nclass Linear(Module"))
    book = snapshot(folder)
    file = book.file("nn/module.py")
    assert book.problems
    assert CHAPTER in str(book.problems[0])
    assert file.owner["Module.register_buffer"].book is not EMPTY
    kernel = fragment_of(file, live_book.cell("kernel").replace("2 *", "3 *"))
    assert kernel.book.qualified == ("double",), "one each: none can take another with it"


def test_a_cell_that_reopens_a_class_is_never_the_one_that_opens_it(folder: Path) -> None:
    file = snapshot(folder).file("nn/module.py")
    own = fragment_of(
        file, "#| into: nn/module.py\nclass Module(Module):\n    def forward(self, value):\n        return 0"
    )
    assert own.book is EMPTY
    opening = fragment_of(file, live_book.cell("Module").replace("return value", "return 0"))
    assert "Module.forward" in opening.book.qualified


def test_a_partial_cell_is_another_cell_only_if_the_front_end_says_so(folder: Path) -> None:
    file = snapshot(folder).file("nn/module.py")
    part = live_book.cell("register_buffer").partition("\n\n    def buffers")[0].replace("book", "edited")
    book = fragment_of(file, live_book.cell("register_buffer"))
    assert fragment_of(file, part) is book
    book.cell_ids.add("a")
    assert fragment_of(file, part, "a") is book
    assert fragment_of(file, part, "b").book is EMPTY
    whole = live_book.cell("register_buffer").replace('"book"', '"edited"')
    assert fragment_of(file, whole, "b") is book, "a cell that has all of its names is the fragment, under a new id"


def test_statements_without_a_name_are_known_by_their_likeness(folder: Path) -> None:
    file = snapshot(folder).file("nn/module.py")
    default = fragment_of(file, live_book.cell("default hook"))
    assert fragment_of(file, '#| into: nn/module.py\n_hooks["default"] = print') is default
    assert fragment_of(file, "#| into: nn/module.py\nprint(1, 2, 3, 4, 5)").book is EMPTY


EDITS: dict[str, list[tuple[str, str, str]]] = {
    "a method": [("register_buffer", 'return "book"', 'return "edited"')],
    "a header": [("Linear", "class Linear(Module):", "class Linear(Module):\n    'documented'\n")],
    "a decorated function": [("kernel", '@register("double")', '@register("double", "CUDA")')],
    "a constant and a function": [("constants", "LIMIT = 10", "LIMIT = 11"), ("constants", "min(", "max(")],
    "a new member between two": [
        ("extra", "    @classmethod", "    def between(self):\n        return 1\n\n    @classmethod")
    ],
    "a new function at the end": [("constants", "else limit)", "else limit)\n\n\ndef more():\n    return 1")],
    "a removed function": [("start hook", '\n\n\n@on_start\ndef second():\n    return "second"', "")],
    "two cells of one class": [("Module", "return value\n", "return 0\n"), ("extra", "book kind", "kind")],
    "below a class and at its end": [
        ("Module", "return self.forward(value)", "return self.forward(value)\n\n\nBELOW = 1"),
        ("extra", '+ ">"', '+ ">"\n\n    AT_THE_END = 2'),
    ],
    "an enum": [("choices", "EVAL = 2", "EVAL = 2\n    TEST = 3")],
}


@pytest.mark.parametrize("name", EDITS)
def test_the_overlay_has_what_tangling_the_edited_chapter_would_give(folder: Path, name: str) -> None:
    edits = EDITS[name]
    book = snapshot(folder)
    into = live_book.cell(edits[0][0]).split("\n")[0].removeprefix("#| into: ")
    file = book.file(into)
    texts = {cell: live_book.cell(cell) for cell, _, _ in edits}
    for cell, old, new in edits:
        assert old in texts[cell]
        texts[cell] = texts[cell].replace(old, new)
    for cell, text in texts.items():
        fragment = fragment_of(file, live_book.cell(cell))
        fragment.current = version(text)
        save(folder, (live_book.cell(cell) + "\n", text + "\n"))
    written = edited_text(file, [f for f in file.fragments if f.edited], [])
    tangled = tangle(Book.load(folder))[into].text
    assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(tangled))


def test_the_overlay_takes_cells_of_the_readers_own(folder: Path) -> None:
    file = snapshot(folder).file("nn/module.py")
    texts = [
        "#| into: nn/module.py\nclass Module(Module):\n  def mine(self):\n      return 1",
        "#| into: nn/module.py\nclass Fresh(Module):\n    'doc'\n    x = 1\n\n    def more(self):\n        return 2\n\n\nafter = Fresh()",
        "#| into: nn/module.py\nclass Module(Module):\n    def register_buffer(self):\n        return 'override'",
    ]
    fragments = [Fragment("nn/module.py", "your cell", EMPTY, 99, "", version(text)) for text in texts]
    text = edited_text(file, fragments, ["from math import floor", "from typing import Any"])
    tree = ast.parse(text)
    classes = {
        n.name: [m.name for m in n.body if isinstance(m, ast.FunctionDef)]
        for n in tree.body
        if isinstance(n, ast.ClassDef)
    }
    assert classes["Module"].count("register_buffer") == 1
    assert classes["Module"][-1] == "mine"
    assert classes["Fresh"] == ["more"]
    assert "'override'" in text
    assert text.count("from math import floor") == 1
    assert "from typing import Any\n" not in text, "what is imported already is not imported again"
