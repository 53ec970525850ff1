"""`readtorch coverage`: no hidden code. Every line of the package comes from a cell that the book shows."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from readtorch.literate.build import checkout, package_files, read
from readtorch.literate.chapter import Book
from readtorch.literate.tangle import TangledFile, is_tangled_header, tangle


@dataclass(frozen=True, slots=True)
class Report:
    """What stands where: lines by chapter, and what no cell accounts for (`src/` path, line, why)."""

    lines: dict[str, int]
    files: int
    cells: int
    uncovered: list[tuple[str, int, str]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--files", action="store_true", help="list the files with their chapters")


def run(args: argparse.Namespace) -> int:
    book = checkout()
    files = tangle(book)
    report = measure(book, files)
    if args.files:
        for path, file in files.items():
            chapters = dict.fromkeys(cell.part for cell in file.cells)
            print(f"{len(file.lines):6}  {path}  ({', '.join(chapters)})")
    total = sum(report.lines.values())
    for part, count in report.lines.items():
        print(f"{count:6}  {part}")
    print(f"{total:6}  lines in {report.files} files, from {report.cells} cells")
    for path, line, why in report.uncovered:
        print(f"{path}:{line}: {why}" if line else f"{path}: {why}")
    if not report.uncovered:
        print("every line of the package is shown in the book")
    return 1 if report.uncovered else 0


def measure(book: Book, files: dict[str, TangledFile]) -> Report:
    """Count the package's lines by part, and find those that come from no cell."""
    lines = dict.fromkeys((part.name for part in book.parts), 0)
    uncovered: list[tuple[str, int, str]] = []
    shown = {
        (cell.path, number)
        for part in book.parts
        for cell in part.cells
        for number in _numbers(cell.source, cell.first_line)
    }
    for path, file in files.items():
        for number, line in enumerate(file.lines, 1):
            if line.cell is not None and (line.part_path, line.chapter_line) in shown:
                lines[line.cell.part] += 1
            elif line.text and not (number == 1 and is_tangled_header(line.text)):
                uncovered.append((f"src/readtorch/{path}", number, "comes from no cell"))
    for path in package_files(book.package):
        text = read(book.package / path)
        if path not in files:
            uncovered.append((f"src/readtorch/{path}", 0, "is written by no chapter; move it into one, or delete it"))
        elif text != files[path].text:
            uncovered.append((f"src/readtorch/{path}", 0, "differs from the chapters; see `readtorch tangle --check`"))
    return Report(lines, len(files), len({id(c) for f in files.values() for c in f.cells}), uncovered)


def _numbers(source: str, first: int) -> range:
    return range(first, first + source.count("\n") + 1)
