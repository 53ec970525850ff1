"""Line differences, and the merge of two edits of one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines [start, stop) of the old text become `lines`, which are [new_start, new_stop) of the new one."""

    start: int
    stop: int
    lines: tuple[str, ...]
    new_start: int

    @property
    def new_stop(self) -> int:
        return self.new_start + len(self.lines)


def hunks(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """The differences, in order. Common lines at both ends are set aside first: most edits are small."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    matcher = SequenceMatcher(None, inner_old, inner_new, autojunk=False)
    return [
        Hunk(head + a, head + b, tuple(inner_new[c:d]), head + c)
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two hunks, of `ours` and `theirs`, that touch the same lines of the base."""

    ours: Hunk
    theirs: Hunk


def merge(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> tuple[list[str], list[Conflict]]:
    """`ours` with the edits that lead from `base` to `theirs`. Equal edits on both sides count once.

    Edits that overlap, or that touch with no line between them, are conflicts; then the text is of no use.
    """
    mine, other = hunks(base, ours), hunks(base, theirs)
    conflicts: list[Conflict] = []
    kept: list[Hunk] = []
    for hunk in other:
        rivals = [m for m in mine if m.start <= hunk.stop and hunk.start <= m.stop]
        if any((m.start, m.stop, m.lines) == (hunk.start, hunk.stop, hunk.lines) for m in rivals):
            continue
        if rivals:
            conflicts.append(Conflict(rivals[0], hunk))
        kept.append(hunk)
    if conflicts:
        return list(ours), conflicts
    merged: list[str] = []
    at = 0
    for hunk in sorted([*mine, *kept], key=lambda h: (h.start, h.stop)):
        merged.extend(base[at : hunk.start])
        merged.extend(hunk.lines)
        at = hunk.stop
    merged.extend(base[at:])
    return merged, []
