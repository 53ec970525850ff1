"""What the reader sees: one line after an edit, and `diff()` as a readable diff."""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterable
from dataclasses import dataclass

from readtorch.literate.notebook.book import Fragment
from readtorch.literate.notebook.units import Version


@dataclass(frozen=True)
class FragmentDiff:
    """The book's text of one fragment and the reader's."""

    title: str
    into: str
    place: str
    lines: tuple[str, ...]


def compare(fragment: Fragment) -> FragmentDiff:
    """A unified diff from the book's text to what runs now."""
    place = "your cell, not in the book" if fragment.own else fragment.place
    return compare_texts(fragment.title, fragment.into, place, fragment.book.text, fragment.current.text)


def compare_texts(title: str, into: str, place: str, before: str, after: str) -> FragmentDiff:
    old = before.split("\n") if before else []
    lines = difflib.unified_diff(old, after.split("\n"), place, "your text", lineterm="")
    return FragmentDiff(title, into, place, tuple(lines))


_SHOWN = 4
_STYLE = {
    "+": "background:rgba(46,160,67,.18)",
    "-": "background:rgba(248,81,73,.16)",
    "@": "opacity:.65",
}


class EditDiff:
    """What differs from the book. Shown in colour by a notebook, as a plain unified diff elsewhere; false when nothing does."""

    def __init__(self, fragments: tuple[FragmentDiff, ...], imports: tuple[tuple[str, str], ...]) -> None:
        self.fragments = fragments
        self.imports = imports
        """Import statements the reader added: (file, statement)."""

    def __bool__(self) -> bool:
        return bool(self.fragments or self.imports)

    def __str__(self) -> str:
        if not self:
            return "The package is the book's: nothing has been edited."
        pieces = [f"{f.title} ({f.into})\n" + "\n".join(f.lines) for f in self.fragments]
        pieces += [f"{into}\n+{statement}" for into, statement in self.imports]
        return "\n\n".join(pieces)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self:
            return f"<p>{html.escape(str(self))}</p>"
        pieces = [
            f"<details open><summary><code>{html.escape(f.title)}</code> in <code>{html.escape(f.into)}</code>, "
            f"{html.escape(f.place)}</summary>{_block(f.lines[2:])}</details>"
            for f in self.fragments
        ]
        pieces += [f"<p><code>{html.escape(into)}</code></p>{_block(('+' + s,))}" for into, s in self.imports]
        return "".join(pieces)


def _block(lines: tuple[str, ...]) -> str:
    rows = "".join(
        f'<span style="display:block;{_STYLE.get(line[:1], "")}">{html.escape(line) or " "}</span>' for line in lines
    )
    return f'<pre style="line-height:1.35">{rows}</pre>'


def changed_names(before: Version, after: Version) -> str:
    """What an edit is about, for the notice: `Module.register_buffer, Module.buffers (removed)`."""
    names = [q for u in after.units if u.key not in before.texts for q in u.qualified]
    names += [f"{q} (removed)" for q in before.qualified if q not in after.qualified]
    return in_short(names)


def in_short(names: Iterable[str]) -> str:
    """The first few of these, and how many more there are."""
    shown = list(dict.fromkeys(names))
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


def concerns(fragment: Fragment, symbol: object) -> bool:
    wanted = name_of(symbol)
    if wanted in (fragment.into, fragment.title):
        return True
    names = (*fragment.current.qualified, *fragment.book.qualified)
    return any(q == wanted or wanted.endswith("." + q) or q.startswith(wanted.rpartition(".")[2] + ".") for q in names)


def name_of(symbol: object) -> str:
    if isinstance(symbol, str):
        return symbol
    function = symbol.fget if isinstance(symbol, property) else symbol
    return str(getattr(function, "__qualname__", symbol))
