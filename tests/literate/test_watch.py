"""Saving a file on either side brings the other in line, one direction a pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import books
import pytest

from readtorch.literate.build import check, write
from readtorch.literate.chapter import Book
from readtorch.literate.watch import watch

CHAPTER = (
    books.HEADER
    + "# %%\n#| into: a.py\ndef f() -> int:\n    return 1\n\n\n# %%\n#| into: a.py\ndef g() -> int:\n    return 2\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "chapters").mkdir()
    (tmp_path / "chapters/02_module.py").write_text(CHAPTER)
    (tmp_path / "src/readtorch").mkdir(parents=True)
    write(Book.load(tmp_path))
    return tmp_path


@contextmanager
def watching(root: Path, passes: int) -> Iterator[list[str]]:
    """A watch in a thread that ends after `passes` passes; leaving the block waits for them."""
    said: list[str] = []
    thread = threading.Thread(target=watch, args=(root, 0.02, passes, said.append), daemon=True)
    thread.start()
    while not said:
        time.sleep(0.005)
    yield said
    thread.join(20)
    assert not thread.is_alive(), said


def wait_for(said: list[str], count: int) -> None:
    until = time.monotonic() + 20
    while len(said) < count and time.monotonic() < until:
        time.sleep(0.01)


def test_saving_a_chapter_tangles(root: Path) -> None:
    with watching(root, 1) as said:
        (root / "chapters/02_module.py").write_text(CHAPTER.replace("return 2", "return 33"))
    assert "return 33" in (root / "src/readtorch/a.py").read_text()
    assert said[1].endswith("saved: chapters/02_module.py")
    assert said[2].endswith("tangled")


def test_saving_a_file_of_the_package_syncs(root: Path) -> None:
    file = root / "src/readtorch/a.py"
    with watching(root, 1) as said:
        file.write_text(file.read_text().replace("return 2", "return 33"))
    assert "return 33" in (root / "chapters/02_module.py").read_text()
    assert check(Book.load(root)) == 0
    assert said[2].endswith("synced")


def test_what_a_pass_wrote_does_not_start_another(root: Path) -> None:
    file = root / "src/readtorch/a.py"
    with watching(root, 2) as said:
        file.write_text(file.read_text().replace("return 2", "return 33"))
        wait_for(said, 3)
        time.sleep(0.2)
        assert len(said) == 3
        (root / "chapters/02_module.py").write_text(CHAPTER.replace("return 2", "return 444"))
    assert "return 444" in file.read_text()


def test_a_chapter_that_is_empty_while_it_is_being_saved_is_waited_for(root: Path) -> None:
    chapter, file = root / "chapters/02_module.py", root / "src/readtorch/a.py"
    with watching(root, 1) as said, chapter.open("w") as being_saved:
        time.sleep(0.2)
        assert file.exists() and len(said) == 1
        being_saved.write(CHAPTER.replace("return 2", "return 33"))
    assert "return 33" in file.read_text()


def test_both_sides_saved_at_once_are_left_to_the_reader(root: Path) -> None:
    file, chapter = root / "src/readtorch/a.py", root / "chapters/02_module.py"
    with watching(root, 1) as said:
        file.write_text(file.read_text().replace("return 2", "return 33"))
        chapter.write_text(CHAPTER.replace("return 1", "return 11"))
    assert "run `readtorch sync`" in said[2]
    assert "return 33" not in chapter.read_text()
    assert "return 11" not in file.read_text()


def test_a_checkout_that_changes_both_sides_alike_is_no_conflict(root: Path) -> None:
    file, chapter = root / "src/readtorch/a.py", root / "chapters/02_module.py"
    with watching(root, 1) as said:
        file.write_text(file.read_text().replace("return 2", "return 33"))
        chapter.write_text(CHAPTER.replace("return 2", "return 33"))
    assert said[-1].endswith("agree")


def test_a_fault_is_shown_and_the_watch_goes_on(root: Path) -> None:
    chapter = root / "chapters/02_module.py"
    with watching(root, 2) as said:
        chapter.write_text(CHAPTER.replace("return 2", "return = 2"))
        wait_for(said, 3)
        assert "chapters/02_module.py:16: syntax error" in said[2]
        assert "nothing written" in said[2]
        chapter.write_text(CHAPTER.replace("return 2", "return 33"))
    assert "return 33" in (root / "src/readtorch/a.py").read_text()
