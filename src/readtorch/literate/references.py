"""Does every `upstream:` and `fact:` of the book resolve? Asked by each tangle, so what resolved before is remembered.

The fact base is read only when a reference is new, or when the fact base has changed since.
"""

from __future__ import annotations

import contextlib
import os

from readtorch.literate.chapter import Book
from readtorch.literate.errors import Problems
from readtorch.literate.unchanged import blake2b

_DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
_KNOWN = os.path.join(".cache", "readtorch", "references")


def check_references(book: Book, problems: Problems) -> None:
    """Put every reference that does not resolve to `problems`."""
    found = [
        (part.path, directive)
        for part in book.parts
        for cell in part.cells
        for directive in cell.directives
        if directive.key in ("upstream", "fact")
    ]
    if not found:
        return
    wanted = {f"{directive.key} {directive.value}" for _, directive in found}
    digest = _digest()
    file = os.path.join(book.root, _KNOWN)
    known = _read(file, digest)
    if wanted <= known:
        return
    from readtorch.literate import facts

    for path, directive in found:
        name = f"{directive.key} {directive.value}"
        if name in known:
            continue
        try:
            facts.resolve(directive.value) if directive.key == "upstream" else facts.resolve_fact(directive.value)
        except facts.Unresolved as error:
            problems.add(path, directive.line, f"{directive.key}: {error.message}", error.way_out)
            wanted.discard(name)
        else:
            known.add(name)
    _write(file, digest, wanted)


def _digest() -> str:
    """Of the fact base."""
    total = blake2b(digest_size=16)
    for entry in sorted(os.scandir(_DATA), key=lambda entry: entry.name):
        with open(entry.path, "rb") as stream:
            total.update(f"{entry.name} {entry.stat().st_size}\n".encode())
            total.update(stream.read())
    return total.hexdigest()


def _read(file: str, digest: str) -> set[str]:
    try:
        with open(file, encoding="utf-8") as stream:
            first, *names = stream.read().splitlines()
    except (OSError, UnicodeDecodeError, ValueError):
        return set()
    return set(names) if first == digest else set()


def _write(file: str, digest: str, names: set[str]) -> None:
    """A cache that cannot be written is not missed."""
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w", encoding="utf-8") as stream:
            stream.write("\n".join([digest, *sorted(names)]) + "\n")
