"""Has anything changed since chapters and package were last found equal? Asked before any chapter is parsed.

The answer is a digest over the bytes of every chapter, of every file of the package and of the tools themselves, compared with
the one that the last successful tangle, sync or check left below `.cache/`. No clock is trusted.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

try:
    from _blake2 import blake2b  # hashlib would load OpenSSL first, 3 ms of the 40 that a check of nothing new takes
except ImportError:
    from hashlib import blake2b

SUFFIXES = (".py", ".cu", ".cuh")
_STAMP = os.path.join(".cache", "readtorch", "checked")
_TOOLS = os.path.dirname(os.path.abspath(__file__))


def unchanged(root: str | os.PathLike[str]) -> bool:
    """Is everything byte for byte as it was when chapters and package were last equal?"""
    try:
        with open(os.path.join(root, _STAMP), encoding="ascii") as stream:
            known = stream.read()
    except (OSError, UnicodeDecodeError):
        return False
    return known == digest(root)


def remember(root: str | os.PathLike[str]) -> None:
    """Chapters and package are equal now. A cache that cannot be written is not missed."""
    stamp = os.path.join(root, _STAMP)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(stamp), exist_ok=True)
        with open(stamp, "w", encoding="ascii") as stream:
            stream.write(digest(root))


def digest(root: str | os.PathLike[str]) -> str:
    total = blake2b(repr(sys.version_info).encode(), digest_size=16)
    package = os.path.join(root, "src", "readtorch")
    files = [
        *source_files(os.path.join(root, "chapters"), (".py",)),
        *source_files(package, SUFFIXES, skip="literate"),
        *sorted(entry.path for entry in os.scandir(_TOOLS) if entry.name.endswith(".py")),
        *source_files(os.path.join(_TOOLS, "data"), (".txt",)),
    ]
    for path in files:
        with open(path, "rb") as stream:
            content = stream.read()
        total.update(f"{os.path.relpath(path, root)} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


def source_files(folder: str, suffixes: tuple[str, ...], skip: str = "") -> Iterator[str]:
    """The files below a folder, in a fixed order."""
    if not os.path.isdir(folder):
        return
    entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir():
            if entry.name not in ("__pycache__", skip):
                yield from source_files(entry.path, suffixes)
        elif entry.name.endswith(suffixes):
            yield entry.path
