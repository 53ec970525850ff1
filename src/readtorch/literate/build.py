"""Bring the package in line with the chapters, or check that it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterator
from pathlib import Path

from readtorch.literate.chapter import Book
from readtorch.literate.errors import LiterateError, Problem, Problems
from readtorch.literate.references import check_references
from readtorch.literate.tangle import TangledFile, is_tangled_header, tangle, tangled_cells
from readtorch.literate.transaction import Transaction
from readtorch.literate.unchanged import SUFFIXES, remember, source_files

PACKAGE = "src/readtorch"
HAND_WRITTEN = "literate"


def checkout() -> Book:
    """The book that this package was tangled from. An installed package has chapters to read, but none to tangle from."""
    book = Book.load()
    if not book.package.is_dir():
        way_out = "run it in a clone of the repository; `-o DIR` writes a package anywhere"
        raise LiterateError(Problem(str(book.root), 0, "this readtorch is installed, not checked out", way_out))
    return book


def write(book: Book, force: Container[str] = ()) -> int:
    """Write what differs, delete orphans; say what was done. Edits made in a file are not overwritten unless it is in `force`."""
    from readtorch.literate.agreed import Agreed, Edited

    files = _tangled(book)
    agreed = Agreed(book.root)
    texts = {path: read(book.package / path) for path in files}
    changed = [path for path in files if texts[path] != files[path].text]
    gone = orphans(book.package, files)
    problems = Problems()
    for path in changed:
        text = texts[path]
        if text is not None and path not in force and not agreed.may_overwrite(path, text):
            edited, base = agreed.edited(path, files[path].text, text)
            with problems.collecting():
                if edited is Edited.BOTH:
                    from readtorch.literate.sync import merged

                    merged(files[path], base, text)  # sync would refuse too, in these words
                _refuse(files[path], text, problems)
    for path in gone:
        text = read(book.package / path) or ""
        if path not in force and not agreed.may_overwrite(path, text):
            what = "was edited, and no cell goes into it any more"
            problems.add(f"{PACKAGE}/{path}", 0, what, f"remove it: `readtorch tangle --force {PACKAGE}/{path}`")
    problems.raise_if_any()
    with Transaction() as transaction:
        for path in changed:
            transaction.write(book.package / path, files[path].text)
        for path in gone:
            transaction.delete(book.package / path)
    agreed.record({path: file.text for path, file in files.items()})
    alone = strays(book.package, files)
    if not alone:
        remember(book.root)
    for path in changed:
        print(f"wrote   {PACKAGE}/{path}")
    for path in gone:
        print(f"deleted {PACKAGE}/{path}")
    if not changed and not gone:
        print(f"{len(files)} files are up to date")
    for problem in alone:
        print(problem, file=sys.stderr)
    return 0


def _tangled(book: Book) -> dict[str, TangledFile]:
    """The package, of a book whose references resolve. Raises LiterateError with all that is wrong."""
    problems = Problems()
    files: dict[str, TangledFile] = {}
    with problems.collecting():
        files = tangle(book)
    check_references(book, problems)
    problems.raise_if_any()
    return files


def _refuse(file: TangledFile, text: str, problems: Problems) -> None:
    wanted, found = file.text.split("\n"), text.split("\n")
    line = next((k for k, pair in enumerate(zip(wanted, found, strict=False)) if pair[0] != pair[1]), 0)
    problems.add(
        f"{PACKAGE}/{file.path}",
        line + 1,
        f"was edited here since it was tangled ({place_of(file, line, line + 1)})",
        "run `readtorch sync` to bring the edit into the chapter, or "
        f"`readtorch tangle --force {PACKAGE}/{file.path}` to drop it",
    )


class EveryFile:
    """`path in EveryFile()` holds."""

    def __contains__(self, path: object) -> bool:
        return True


def forced(names: list[str] | None, book: Book) -> Container[str]:
    """The argument of `--force`: paths in the package, given as one likes; all of them without any.

    Raises LiterateError for a file that no cell goes into and that is not there.
    """
    if names is None:
        return ()
    known = {*tangled_cells(book), *package_files(book.package)}
    problems = Problems()
    paths = set()
    for name in names:
        path = name.replace(os.sep, "/").rpartition(f"{PACKAGE}/")[2].removeprefix("./")
        paths.add(path)
        if path not in known:
            problems.add(name, 0, "--force: is no file of the package", _meant(path, known))
    problems.raise_if_any()
    return paths or EveryFile()


def _meant(path: str, known: set[str]) -> str:
    """The files that a wrong path may mean: of the same name, else of a similar path."""
    from difflib import get_close_matches

    named = sorted(p for p in known if p.rpartition("/")[2] == path.rpartition("/")[2])
    close = named[:3] or get_close_matches(path, sorted(known), n=3, cutoff=0.5)
    if not close:
        return f"give a path below {PACKAGE}/ such as nn/modules/module.py"
    return f"did you mean {', '.join(f'{PACKAGE}/{p}' for p in close)}?"


def take_one_side(path: str) -> str:
    """The way out where both sides of a file were edited and cannot be merged."""
    return (
        f"`readtorch tangle --check` shows both; take the chapter's with `readtorch tangle --force {PACKAGE}/{path}`, "
        f"the file's with `readtorch sync --force {PACKAGE}/{path}`, or make both edits on one side first"
    )


def check(book: Book) -> int:
    """Compare byte for byte; print a unified diff and the chapter line of each difference."""
    files = _tangled(book)
    faults = 0
    for path, file in files.items():
        text = read(book.package / path)
        if text != file.text:
            faults += 1
            print_difference(file, text)
    left = orphans(book.package, files)
    for path in left:
        faults += 1
        print(f"{PACKAGE}/{path}: no cell goes into this file any more")
    if faults:
        print("run `readtorch tangle` if the chapters are right, `readtorch sync` if the files are", file=sys.stderr)
    alone = strays(book.package, files)
    for problem in alone:
        print(f"{problem.place}: {problem.message}")
    if faults or alone:
        return 1
    remember(book.root)
    return 0


def print_difference(file: TangledFile, text: str | None) -> None:
    import difflib

    name = f"src/readtorch/{file.path}"
    if text is None:
        print(f"{file.cells[0].path}:{file.cells[0].line}: {name} is missing")
        return
    wanted = [line.text + "\n" for line in file.lines]
    found = text.splitlines(keepends=True)
    for tag, start, stop, _, _ in difflib.SequenceMatcher(None, wanted, found, autojunk=False).get_opcodes():
        if tag != "equal":
            print(f"{place_of(file, start, stop)}: differs from {name}")
    sys.stdout.writelines(difflib.unified_diff(wanted, found, f"chapters → {name}", name))


def place_of(file: TangledFile, start: int, stop: int) -> str:
    """The chapter line nearest to lines [start, stop) of a tangled file."""
    indices = [*range(start, stop), *range(start - 1, -1, -1), *range(stop, len(file.lines))]
    for index in indices:
        line = file.lines[index] if index < len(file.lines) else None
        if line is not None and line.part_path:
            return f"{line.part_path}:{line.chapter_line}"
    return file.cells[0].path


def read(path: Path) -> str | None:
    """The text of a file with its own line ends, None where there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise LiterateError(Problem(str(path), 0, f"is not UTF-8: {error}", "mend it or delete it")) from None


def package_files(package: Path) -> Iterator[str]:
    """Source files of the package, `literate/` left out, as paths below it."""
    start = len(str(package)) + 1
    for path in source_files(str(package), SUFFIXES, skip=HAND_WRITTEN):
        yield path[start:].replace(os.sep, "/")


def orphans(package: Path, files: Container[str]) -> list[str]:
    """Files that tangle wrote once and that no cell makes any more. Files without our header are not ours."""
    found = []
    for path in package_files(package):
        if path not in files:
            with (package / path).open(encoding="utf-8", errors="replace") as stream:
                if is_tangled_header(stream.readline()):
                    found.append(path)
    return found


def strays(package: Path, files: Container[str]) -> list[Problem]:
    """Source files that no cell goes into and that tangle never wrote: made by hand, where nothing is written by hand."""
    left = orphans(package, files)
    return [
        Problem(
            f"{PACKAGE}/{path}",
            0,
            "is written by no chapter; move it into one, or delete it",
            f"its code goes into a cell that begins with `#| into: {path}`",
        )
        for path in package_files(package)
        if path not in files and path not in left
    ]


def check_package(book: Book, tangled: dict[str, TangledFile]) -> None:
    """Raise LiterateError if the package on disk, which is what runs, is not the one that the chapters show."""
    problems = Problems()
    for path, file in tangled.items():
        text = read(book.package / path)
        if text == file.text:
            continue
        lines = (text or "").split("\n")
        first = next((n for n, line in enumerate(file.lines) if n >= len(lines) or lines[n] != line.text), 0)
        place, _, line = place_of(file, first, first + 1).rpartition(":")
        state = "is missing" if text is None else "is not what the chapters give"
        problems.add(place, int(line), f"src/readtorch/{path} {state}", _WAY_OUT)
    problems.raise_if_any()


_WAY_OUT = "run `readtorch tangle` if the chapters are right, `readtorch sync` if the file is"
