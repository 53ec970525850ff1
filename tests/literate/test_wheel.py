"""A wheel carries the book: chapters, their data and the line map."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from readtorch.literate import linemap
from readtorch.literate.chapter import Book
from readtorch.literate.tangle import tangle

REPOSITORY = Path(__file__).resolve().parents[2]
pytest.importorskip("hatchling")


def build(repository: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked where pip would put it."""
    folder = tmp_path_factory.mktemp("wheel")
    done = build(REPOSITORY, folder)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def python(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=installed.parent, env={"PYTHONPATH": str(installed)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_the_book_is_in_the_wheel(installed: Path) -> None:
    book = installed / "readtorch/literate/book"
    for part in Book.load().parts:
        assert (book / part.path).read_text() == part.text
    data = [p for p in (REPOSITORY / "chapters/data").iterdir() if p.is_file()]
    assert data
    for file in data:
        assert (book / "chapters/data" / file.name).read_bytes() == file.read_bytes()


def test_the_line_map_in_the_wheel_is_that_of_the_chapters(installed: Path) -> None:
    entries = linemap.read_map((installed / "readtorch/literate/book" / linemap.FILE_NAME).read_text())
    files = tangle(Book.load())
    assert entries.keys() == files.keys()
    for path, file in files.items():
        assert entries[path] == linemap.entry_of(file.lines)


def test_an_installed_package_finds_its_book_and_its_lines(installed: Path) -> None:
    last = len(tangle(Book.load())["version.py"].lines)
    code = (
        "import sys; from types import ModuleType\n"
        f"p = ModuleType('readtorch'); p.__path__ = [{str(installed / 'readtorch')!r}]; sys.modules['readtorch'] = p\n"
        "from readtorch.literate.chapter import Book, find_root\nfrom readtorch.literate.linemap import locate\n"
        "print(find_root()); print(len(Book.load().parts)); "
        f"print(locate('version.py', {last}))"
    )
    done = python(installed, "-c", code)
    assert done.returncode == 0, done.stderr
    root, parts, place = done.stdout.splitlines()
    assert Path(root) == installed / "readtorch/literate/book"
    assert int(parts) == len(Book.load().parts)
    assert place.startswith("chapters/")


def test_the_console_script_is_in_the_wheel_and_says_when_a_clone_is_needed(installed: Path) -> None:
    script = str(installed / "readtorch_cli.py")
    assert python(installed, script, "--version").stdout.startswith("readtorch 0.")
    for command in ("tangle", "sync", "coverage"):
        done = python(installed, script, command)
        assert done.returncode == 1
        assert "installed, not checked out" in done.stderr
    (points,) = installed.glob("*.dist-info/entry_points.txt")
    assert "readtorch = readtorch_cli:main" in points.read_text()


def test_a_package_that_differs_from_the_chapters_is_not_built(tmp_path: Path) -> None:
    names = ["src", "chapters", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"]
    for name in names:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / "copy" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / "copy" / name)
    file = tmp_path / "copy/src/readtorch/version.py"
    file.write_text(file.read_text() + "x = 1\n")
    done = build(tmp_path / "copy", tmp_path)
    assert done.returncode != 0
    assert "differs from the chapters" in done.stdout + done.stderr
    assert not list(tmp_path.glob("*.whl"))
