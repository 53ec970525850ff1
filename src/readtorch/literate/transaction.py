"""All writing of the tools goes through here: every file or none.

New contents are staged beside their targets and moved over them at the end; what was there is kept until all moves are done,
and put back if one fails. A reader of a file sees either the old or the new text, never half of one.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from types import TracebackType


class Transaction:
    """Collect writes and deletions, then do them together when the `with` block ends without an exception."""

    def __init__(self) -> None:
        self._writes: dict[Path, bytes] = {}
        self._deletions: dict[Path, None] = {}

    def write(self, path: Path, content: str | bytes) -> None:
        """Give `path` this content (text as UTF-8, line ends as they stand in it)."""
        self._deletions.pop(path, None)
        self._writes[path] = content.encode("utf-8") if isinstance(content, str) else content

    def delete(self, path: Path) -> None:
        self._writes.pop(path, None)
        self._deletions[path] = None

    @property
    def changes(self) -> list[Path]:
        return sorted([*self._writes, *self._deletions])

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self.commit()

    def commit(self) -> None:
        """Do everything, or raise and leave all as it was."""
        staged: dict[Path, Path] = {}
        kept: dict[Path, Path | None] = {}
        made: list[Path] = []
        try:
            for path, data in self._writes.items():
                made.extend(_make_folders(path.parent))
                staged[path] = _stage(path, data)
            for path in [*self._writes, *self._deletions]:
                kept[path] = _keep(path)
            for path, temporary in staged.items():
                os.replace(temporary, path)
            for path in self._deletions:
                path.unlink(missing_ok=True)
        except BaseException:
            for path, old in kept.items():
                if old is None:
                    path.unlink(missing_ok=True)
                else:
                    os.replace(old, path)
                    old.unlink(missing_ok=True)  # replacing a file by another name of itself does nothing
            for temporary in staged.values():
                temporary.unlink(missing_ok=True)
            for folder in reversed(made):
                folder.rmdir()
            raise
        for old in kept.values():
            if old is not None:
                old.unlink(missing_ok=True)
        self._writes.clear()
        self._deletions.clear()


def _make_folders(folder: Path) -> list[Path]:
    made: list[Path] = []
    while not folder.exists():
        made.insert(0, folder)
        folder = folder.parent
    for new in made:
        new.mkdir()
    return made


def _stage(path: Path, data: bytes) -> Path:
    temporary = _free_name(path, "new")
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
        mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
        temporary.chmod(mode)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _free_name(path: Path, suffix: str) -> Path:
    """A name beside `path` that nothing has: hidden, and this process's own."""
    names = (path.parent / f".{path.name}.{os.getpid()}.{n}.{suffix}" for n in count())
    return next(name for name in names if not os.path.lexists(name))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _keep(path: Path) -> Path | None:
    """A second name for the file that is there now."""
    if not path.exists():
        return None
    kept = _free_name(path, "old")
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        kept.write_bytes(path.read_bytes())
    return kept
