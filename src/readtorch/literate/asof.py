"""`readtorch tangle --as-of CHAPTER -o DIR`: the package as it stands at the end of a chapter, importable from DIR.

DIR is laid out like an installed wheel: the tangled package, the tools, and the chapters so far beside their line map. A folder
that holds anything else is never written into.
"""

from __future__ import annotations

from pathlib import Path

from readtorch.literate.build import HAND_WRITTEN
from readtorch.literate.chapter import Book
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.linemap import FILE_NAME, write_map
from readtorch.literate.tangle import tangle
from readtorch.literate.transaction import Transaction

MARK = ".readtorch-package"


def write_package(output: str | None, chapter: str | None = None) -> int:
    """The command: write the package (as of `chapter`) below `output`."""
    if output is None:
        raise LiterateError(Problem("readtorch tangle --as-of", 0, "needs a folder to write to", "add -o DIR"))
    book = Book.load()
    count = build_package(book, Path(output), chapter)
    print(f"{output}: {count} files{f' as of {chapter}' if chapter else ''}")
    return 0


def build_package(book: Book, output: Path, chapter: str | None = None) -> int:
    """Write the package below `output`; files that are the same already are left alone. Returns how many it has."""
    if chapter is not None:
        try:
            book = book.as_of(chapter.strip("/").removesuffix(".py"))
        except KeyError as error:
            raise LiterateError(
                Problem("readtorch tangle --as-of", 0, str(error.args[0]), "name one of these")
            ) from None
    _check_folder(output)
    files = tangle(book)
    shipped = f"readtorch/{HAND_WRITTEN}/book"
    wanted: dict[str, bytes | Path] = {f"readtorch/{path}": file.text.encode() for path, file in files.items()}
    wanted.update(_hand_written())
    wanted.update(book_files(book, shipped))
    wanted[f"{shipped}/{FILE_NAME}"] = write_map(files).encode()
    wanted[MARK] = f"{chapter or 'all chapters'}\n".encode()
    with Transaction() as transaction:
        for name, source in wanted.items():
            data = source.read_bytes() if isinstance(source, Path) else source
            target = output / name
            if not target.is_file() or target.read_bytes() != data:
                transaction.write(target, data)
        for path in sorted(output.rglob("*")) if output.exists() else ():
            if path.is_file() and path.relative_to(output).as_posix() not in wanted and "__pycache__" not in path.parts:
                transaction.delete(path)
    return len(files)


def _check_folder(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise LiterateError(Problem(str(output), 0, "is no folder", "choose another"))
    if output.is_dir() and any(output.iterdir()) and not (output / MARK).is_file():
        raise LiterateError(Problem(str(output), 0, "holds other files", "choose an empty or a new folder"))


def _hand_written() -> dict[str, Path]:
    """`literate/` and what stands beside it, from the running package."""
    package = Path(__file__).resolve().parent.parent
    found = [package / "py.typed", *sorted((package / HAND_WRITTEN).rglob("*"))]
    names = {path: path.relative_to(package).as_posix() for path in found if path.is_file()}
    return {
        f"readtorch/{name}": path
        for path, name in names.items()
        if "__pycache__" not in path.parts and not name.startswith(f"{HAND_WRITTEN}/book/")
    }


def book_files(book: Book, below: str) -> dict[str, bytes | Path]:
    """The parts of the book and the data files of its chapters, by where they are shipped."""
    found: dict[str, bytes | Path] = {f"{below}/{part.path}": part.text.encode() for part in book.parts}
    for path in sorted((book.root / "chapters").rglob("*")):
        hidden = any(piece.startswith((".", "__")) for piece in path.relative_to(book.root).parts)
        if path.is_file() and path.suffix != ".py" and not hidden:
            found[f"{below}/{path.relative_to(book.root).as_posix()}"] = path
    return found
