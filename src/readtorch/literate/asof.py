"""`readtorch tangle --as-of CHAPTER -o DIR`: the package as it stands at the end of a chapter, importable from DIR.

DIR is laid out like an installed wheel: the tangled package, the tools, and the chapters so far beside their line map. A folder
that holds anything else is never written into.
"""

from __future__ import annotations

from pathlib import Path

from readtorch.literate.build import HAND_WRITTEN, read
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
    wanted = {f"readtorch/{path}": file.text for path, file in files.items()}
    wanted.update(_hand_written(book))
    shipped = f"readtorch/{HAND_WRITTEN}/book"
    for part in book.parts:
        wanted[f"{shipped}/{part.path}"] = part.text
    wanted[f"{shipped}/{FILE_NAME}"] = write_map(files)
    wanted[MARK] = f"{chapter or 'all chapters'}\n"
    with Transaction() as transaction:
        for name, text in wanted.items():
            if read(output / name) != text:
                transaction.write(output / name, text)
        for name, source in _data(book, shipped):
            if not (output / name).exists() or (output / name).read_bytes() != source.read_bytes():
                transaction.copy(source, output / name)
            wanted[name] = ""
        for path in sorted(output.rglob("*")) if output.exists() else ():
            name = path.relative_to(output).as_posix()
            if path.is_file() and name not in wanted and "__pycache__" not in path.parts:
                transaction.delete(path)
    return len(files)


def _check_folder(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise LiterateError(Problem(str(output), 0, "is no folder", "choose another"))
    if output.is_dir() and any(output.iterdir()) and not (output / MARK).is_file():
        raise LiterateError(Problem(str(output), 0, "holds other files", "choose an empty or a new folder"))


def _hand_written(book: Book) -> dict[str, str]:
    """The text files of `literate/` and what stands beside it, from the running package."""
    package = Path(__file__).resolve().parent.parent
    found: dict[str, str] = {}
    for path in [package / "py.typed", *sorted((package / HAND_WRITTEN).rglob("*"))]:
        name = path.relative_to(package).as_posix()
        if path.is_file() and "__pycache__" not in path.parts and not name.startswith(f"{HAND_WRITTEN}/book/"):
            text = read(path)
            if text is not None:
                found[f"readtorch/{name}"] = text
    return found


def _data(book: Book, shipped: str) -> list[tuple[str, Path]]:
    """The data files of the chapters, whatever they hold."""
    folder = book.root / "chapters"
    return [
        (f"{shipped}/chapters/{path.relative_to(folder).as_posix()}", path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    ]
