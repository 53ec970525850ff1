"""`readtorch tangle`: bring the package in line with the chapters, or check that it is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from readtorch.literate.chapter import Book
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.tangle import TangledFile, is_tangled_header, tangle
from readtorch.literate.transaction import Transaction

HAND_WRITTEN = "literate"
_SUFFIXES = (".py", ".cu", ".cuh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 and show the differences if there are any"
    )
    parser.add_argument(
        "--as-of", metavar="CHAPTER", help="the package as it stands at the end of this chapter (needs -o)"
    )
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, help="write the package below DIR instead of src/")


def run(args: argparse.Namespace) -> int:
    book = Book.load()
    if args.check:
        return check(book)
    return write(book)


def write(book: Book) -> int:
    """Write what differs, delete orphans; say what was done."""
    files = tangle(book)
    transaction = Transaction()
    changed = [path for path in files if read(book.package / path) != files[path].text]
    gone = orphans(book.package, files)
    with transaction:
        for path in changed:
            transaction.write(book.package / path, files[path].text)
        for path in gone:
            transaction.delete(book.package / path)
    for path in changed:
        print(f"wrote   src/readtorch/{path}")
    for path in gone:
        print(f"deleted src/readtorch/{path}")
    if not changed and not gone:
        print(f"{len(files)} files are up to date")
    return 0


def check(book: Book) -> int:
    """Compare byte for byte; print a unified diff and the chapter line of each difference."""
    files = tangle(book)
    faults = 0
    for path, file in files.items():
        text = read(book.package / path)
        if text != file.text:
            faults += 1
            print_difference(file, text)
    for path in orphans(book.package, files):
        faults += 1
        print(f"src/readtorch/{path}: no cell goes into this file any more")
    if faults:
        print("run `readtorch tangle` if the chapters are right, `readtorch sync` if the files are", file=sys.stderr)
        return 1
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
    for path in sorted(package.rglob("*")):
        relative = path.relative_to(package)
        if path.suffix in _SUFFIXES and relative.parts[0] != HAND_WRITTEN and path.is_file():
            yield relative.as_posix()


def orphans(package: Path, files: dict[str, TangledFile]) -> list[str]:
    """Files that tangle wrote once and that no cell makes any more. Files without our header are not ours."""
    found = []
    for path in package_files(package):
        if path not in files:
            with (package / path).open(encoding="utf-8", errors="replace") as stream:
                if is_tangled_header(stream.readline()):
                    found.append(path)
    return found
