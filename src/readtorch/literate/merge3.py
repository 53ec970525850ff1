"""Line differences, and the merge of two edits of one text."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


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
    """The differences, in order.

    Lines that occur once on both sides are matched first (patience diff): the first lines of definitions mostly do, so that
    a function which is taken out is not confused with a like one beside it.
    """
    found: list[Hunk] = []
    for a, b, c, d in _differing(old, new, 0, len(old), 0, len(new)):
        if found and found[-1].stop == a and found[-1].new_stop == c:
            last = found.pop()
            a, c = last.start, last.new_start
        found.append(Hunk(a, b, tuple(new[c:d]), c))
    return found


_Range = tuple[int, int, int, int]


def _differing(old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int) -> Iterator[_Range]:
    """Ranges of old[a:b] and new[c:d] that differ."""
    while a < b and c < d and old[a] == new[c]:
        a, c = a + 1, c + 1
    if a == b or c == d:
        if a < b or c < d:
            yield a, b, c, d
        return
    anchors = _anchors(old, new, a, b, c, d)
    if anchors:
        for i, j in anchors:
            yield from _differing(old, new, a, i, c, j)
            a, c = i + 1, j + 1
        yield from _differing(old, new, a, b, c, d)
        return
    while a < b and c < d and old[b - 1] == new[d - 1]:
        b, d = b - 1, d - 1
    from difflib import SequenceMatcher

    for tag, i, j, k, m in SequenceMatcher(None, old[a:b], new[c:d], autojunk=False).get_opcodes():
        if tag != "equal":
            yield a + i, a + j, c + k, c + m


def _anchors(old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int) -> list[tuple[int, int]]:
    """Lines that occur once on each side, as many as stand in the same order on both."""
    once_old, once_new = _once(old, a, b), _once(new, c, d)
    pairs = [(number, once_new[line]) for line, number in once_old.items() if line in once_new and line.strip()]
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for index, (_, place) in enumerate(pairs):
        at = bisect_left(tails, place)
        previous.append(ends[at - 1] if at else -1)
        tails[at : at + 1] = [place]
        ends[at : at + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chain.append(pairs[index])
        index = previous[index]
    return chain[::-1]


def _once(lines: Sequence[str], start: int, stop: int) -> dict[str, int]:
    counts = Counter(lines[start:stop])
    return {line: start + k for k, line in enumerate(lines[start:stop]) if counts[line] == 1}


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
