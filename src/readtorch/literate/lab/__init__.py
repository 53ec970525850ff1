"""`readtorch lab`: the chapters in JupyterLab, in place from a checkout, as a copy of one's own from a wheel."""

from __future__ import annotations

import argparse
import webbrowser
from difflib import get_close_matches
from pathlib import Path

from readtorch.literate.chapter import Book, Part, find_root
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.extras import NOTEBOOK, require
from readtorch.literate.lab.server import LabServer, start

__all__ = ["LabServer", "add_arguments", "run", "start"]

DEFAULT_FOLDER = "readtorch-book"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", nargs="?", help="chapter or part to open, such as 02_module")
    parser.add_argument(
        "--cell", metavar="ID", help="open at this cell: a symbol such as Module.register_buffer, or its id"
    )
    parser.add_argument(
        "--dir", type=Path, help=f"work in a copy of the book in this folder (without a checkout: ./{DEFAULT_FOLDER})"
    )
    parser.add_argument("--port", type=int, help="port to listen on (default: any free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(args: argparse.Namespace) -> int:
    require("readtorch lab", NOTEBOOK)  # before a copy of the book is made for nothing
    root = working_root(args.dir)
    part, cell = place(Book.load(root), args.chapter, args.cell)
    server = start(root, port=args.port)
    try:
        address = server.address(part.path, cell) if part else f"{server.url}lab?token={server.token}"
        print(f"JupyterLab is open at\n    {address}\nCtrl-C ends it.", flush=True)
        if not args.no_browser:
            webbrowser.open(address)
        return server.wait()
    finally:
        server.stop()


def working_root(folder: Path | None) -> Path:
    """Where the chapters are edited: the checkout itself, or a copy of the book."""
    root = find_root()
    if folder is None and (root / "src" / "readtorch").is_dir():
        return root
    from readtorch.literate.lab.copying import copy_book

    folder = (folder or Path(DEFAULT_FOLDER)).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    report = copy_book(root, folder).report(folder)
    if report:
        print(report)
    return folder


def place(book: Book, chapter: str | None, cell_id: str | None) -> tuple[Part | None, int | None]:
    """The part and the cell index asked for. Raises LiterateError that names what there is."""
    if chapter is None and cell_id is None:
        return (book.parts[0] if book.parts else None), None
    wanted = (chapter or "").removeprefix("chapters/").removesuffix(".py").rstrip("/")
    parts = [p for p in book.parts if not wanted or wanted in (p.name, p.chapter)]
    if not parts:
        names = [*book.chapters, *(p.name for p in book.parts)]
        raise _unknown("chapter", wanted, names)
    if cell_id is None:
        return parts[0], None
    for part in parts:
        for index, name in part.ids.items():
            if cell_id == name or (part.cells[index].into and cell_id in part.cells[index].defines):
                return part, index
    raise _unknown("cell", cell_id, [name for part in parts for name in part.ids.values()])


def _unknown(what: str, name: str, there_are: list[str]) -> LiterateError:
    close = get_close_matches(name, there_are, n=3, cutoff=0.4)
    return LiterateError(
        Problem("chapters", 0, f"no {what} {name!r}", f"did you mean {' or '.join(close or there_are[:5])}?")
    )
