"""The parts of the book that a command was asked about by name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from readtorch.literate.chapter import Book, Part
from readtorch.literate.errors import Problems


def chosen_parts(book: Book, names: Iterable[str]) -> list[Part]:
    """The parts of the chapters (or the parts) called `names`; all of them if there are none. LiterateError for an unknown one."""
    wanted = [name.removeprefix("chapters/").removesuffix(".py").rstrip("/") for name in names]
    known = {p.name for p in book.parts} | set(book.chapters)
    problems = Problems()
    for name in wanted:
        if name not in known:
            problems.add(name, 0, "is no chapter or part", _nearest(name, known, book.chapters))
    problems.raise_if_any()
    return [p for p in book.parts if not wanted or p.name in wanted or p.chapter in wanted]


def _nearest(name: str, known: set[str], chapters: tuple[str, ...]) -> str:
    """The names that may be meant; all chapters, which are few, where none is near."""
    last = name.rpartition("/")[2].lower()
    close = [k for k in sorted(known) if last and last in k.lower()]
    by_last = {k.rpartition("/")[2]: k for k in sorted(known)}
    close += get_close_matches(name, known, n=3, cutoff=0.6)
    close += [by_last[k] for k in get_close_matches(last, by_last, n=3, cutoff=0.6)]
    if close:
        meant = f"did you mean {' or '.join(list(dict.fromkeys(close))[:3])}?"
    else:
        meant = f"the chapters are {', '.join(chapters)};"
    return f"{meant} `readtorch claims --list` lists all parts"
