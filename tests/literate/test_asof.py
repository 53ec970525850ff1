"""The package as it stands at the end of a chapter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import books
import pytest

from readtorch.literate.asof import MARK, build_package
from readtorch.literate.chapter import Book
from readtorch.literate.errors import LiterateError


@pytest.fixture
def book(tmp_path: Path) -> Book:
    parts = {
        "00_tensor": "# %%\n#| into: __init__.py\nx = 1\n",
        "a1_operators": "# %%\n#| into: ops.py\ny = 1\n\n# %%\n#| into: __init__.py\nfrom readtorch.ops import y\n",
        "02_module": "# %%\n#| into: late.py\nz = 1\n\n# %%\n#| into: ops.py\nmore = 2\n",
    }
    books.Drawn({name: books.HEADER + text for name, text in parts.items()}).write(tmp_path / "book")
    data = tmp_path / "book/chapters/data"
    data.mkdir()
    (data / "numbers.bin").write_bytes(b"\xff\x00")
    return Book.load(tmp_path / "book")


def imported(folder: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_later_chapters_are_absent_and_what_is_there_imports(book: Book, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert build_package(book, out, "a1_operators") == 2
    assert not (out / "readtorch/late.py").exists()
    assert "more" not in (out / "readtorch/ops.py").read_text()
    code = "import readtorch; from readtorch.literate.chapter import Book; print(readtorch.y, *Book.load().chapters)"
    assert imported(out, code) == "1 00_tensor a1_operators"


def test_the_order_of_chapters_is_the_books_not_the_alphabets(book: Book, tmp_path: Path) -> None:
    build_package(book, tmp_path / "out", "00_tensor")
    assert not (tmp_path / "out/readtorch/ops.py").exists()


def test_the_folder_carries_the_line_map_and_the_data_of_the_chapters(book: Book, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build_package(book, out, "02_module")
    code = "from readtorch.literate.linemap import locate; print(locate('late.py', 3))"
    assert imported(out, code) == "chapters/02_module.py:9"
    assert (out / "readtorch/literate/book/chapters/data/numbers.bin").read_bytes() == b"\xff\x00"


def test_building_again_for_another_chapter_leaves_nothing_behind(book: Book, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build_package(book, out, "02_module")
    stamp = (out / "readtorch/__init__.py").stat().st_mtime_ns
    build_package(book, out, "a1_operators")
    assert not (out / "readtorch/late.py").exists()
    assert (out / "readtorch/__init__.py").stat().st_mtime_ns == stamp
    assert (out / MARK).read_text() == "a1_operators\n"


def test_a_folder_with_other_files_is_not_written_into(book: Book, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/work.py").write_text("x")
    with pytest.raises(LiterateError, match="holds other files"):
        build_package(book, tmp_path / "mine", "00_tensor")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["work.py"]
    with pytest.raises(LiterateError, match="is no folder"):
        build_package(book, tmp_path / "mine/work.py", "00_tensor")


def test_an_unknown_chapter_is_refused_with_those_there_are(book: Book, tmp_path: Path) -> None:
    with pytest.raises(LiterateError, match="no chapter 'norm'; there are 00_tensor, a1_operators, 02_module"):
        build_package(book, tmp_path / "out", "norm")
    assert not (tmp_path / "out").exists()


def test_a_fault_that_only_shows_as_of_a_chapter_is_found(book: Book, tmp_path: Path) -> None:
    (book.root / "chapters/00_tensor.py").write_text(
        books.HEADER + "# %%\n#| into: a.py\n#| at: after late\nx = 1\n\n# %%\n#| into: a.py\ny = 1\n"
    )
    (book.root / "chapters/02_module.py").write_text(books.HEADER + "# %%\n#| into: a.py\nlate = 1\n")
    with pytest.raises(LiterateError, match="nothing called 'late'"):
        build_package(Book.load(book.root), tmp_path / "out", "00_tensor")


BOOK = Book.load()
each_chapter = pytest.mark.parametrize("chapter", BOOK.chapters)


@each_chapter
def test_each_chapter_of_the_book_has_a_package_that_imports(chapter: str, tmp_path: Path) -> None:
    build_package(BOOK, tmp_path, chapter)
    names = [
        "readtorch." + path.relative_to(tmp_path / "readtorch").as_posix().removesuffix(".py").replace("/", ".")
        for path in sorted((tmp_path / "readtorch").rglob("*.py"))
        if "literate" not in path.parts and path.name != "__init__.py"
    ]
    code = (
        f"import importlib, readtorch\nfor name in {names!r}: importlib.import_module(name)\nprint(readtorch.__file__)"
    )
    assert imported(tmp_path, code) == str(tmp_path / "readtorch/__init__.py")


@each_chapter
def test_every_name_that_its_modules_list_is_there(chapter: str, tmp_path: Path) -> None:
    """Lazy tables name no module of a later chapter."""
    build_package(BOOK, tmp_path, chapter)
    modules = {
        ".".join(path.relative_to(tmp_path).with_suffix("").parts).removesuffix(".__init__")
        for path in (tmp_path / "readtorch").rglob("*.py")
        if not {"literate", "_as_torch_children", "__main__.py"}.intersection(path.parts)
    }
    code = f"""
import importlib, warnings
warnings.simplefilter("ignore")
for name in {sorted(modules)!r}:
    module = importlib.import_module(name)
    for listed in [*dir(module), *getattr(module, "__all__", ())]:
        try:
            getattr(module, listed)
        except Exception as error:
            print(f"{{name}}.{{listed}}: {{error!r}}")
"""
    assert imported(tmp_path, code) == ""


@pytest.mark.slow
@each_chapter
def test_each_chapters_own_tests_pass_against_the_package_as_of_it(chapter: str) -> None:
    place = BOOK.root / "chapters" / chapter
    place = place if place.is_dir() else place.with_suffix(".py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--as-of", chapter, str(place)],
        cwd=BOOK.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
