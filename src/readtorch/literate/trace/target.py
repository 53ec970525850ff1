"""Where a command is going to write: looked at before the work, which may take hours, is done."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from readtorch.literate.errors import LiterateError, Problem


def check_target(path: Path) -> None:
    """LiterateError if no file can be written at `path`."""
    folder = path.parent
    if not folder.is_dir():
        raise LiterateError(Problem(str(path), 0, f"cannot be written: there is no folder {str(folder)!r}"))
    if path.is_dir():
        raise LiterateError(Problem(str(path), 0, "cannot be written: it is a folder"))
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise LiterateError(Problem(str(path), 0, "cannot be written: no permission"))


def free_name(path: Path) -> Path:
    """`path`, or the next of `name-2`, `name-3`, … at which nothing stands: what was not named is not overwritten."""
    others = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return path if not os.path.lexists(path) else next(other for other in others if not os.path.lexists(other))
