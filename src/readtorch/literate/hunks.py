"""From an edit of a tangled file to an edit of cells.

A tangled file is segments, each a run of lines from one cell, with blank glue between them. A difference inside a segment
belongs to its cell. One at a border could belong to either neighbour: all ways to divide it are listed, the likeliest first,
and whoever asks tries them until one tangles to exactly the edited file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product

from readtorch.literate.blocks import TangledLine
from readtorch.literate.chapter import Cell
from readtorch.literate.merge3 import Hunk, hunks

MOST_TRIALS = 96


@dataclass(slots=True)
class Segment:
    """Lines [start, stop) of the tangled file, which are consecutive chapter lines from `chapter_line` on."""

    cell: Cell
    start: int
    stop: int
    chapter_line: int


@dataclass(frozen=True, slots=True)
class Share:
    """What one owner gets of a hunk's new lines: a segment by number, or a new cell behind the one of that segment.

    Segment -1, with `new_cell`, is behind the last cell of the file.
    """

    segment: int
    lines: tuple[str, ...]
    new_cell: bool = False


@dataclass(slots=True)
class Edit:
    """The new text of a file's segments: `texts[k]` replaces segment k (empty: it goes); `new_cells` follow a segment."""

    texts: list[list[str]]
    new_cells: list[tuple[int, list[str]]] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)


def segments(lines: tuple[TangledLine, ...], skip: range) -> list[Segment]:
    """The segments of a tangled file; the lines of `skip` (its merged imports) belong to none."""
    found: list[Segment] = []
    for number, line in enumerate(lines):
        if line.cell is None or line.chapter_line is None or number in skip:
            continue
        last = found[-1] if found else None
        if (
            last is not None
            and last.cell is line.cell
            and last.stop == number
            and last.chapter_line + number - last.start == line.chapter_line
        ):
            last.stop = number + 1
        else:
            found.append(Segment(line.cell, number, number + 1, line.chapter_line))
    return found


def edits(old: list[str], new: list[str], parts: list[Segment]) -> Iterator[Edit]:
    """Every way to give the differences between `old` and `new` to the segments, the likeliest first."""
    found = hunks(old, new)
    owners: list[int | None] = [None] * len(old)
    for number, part in enumerate(parts):
        owners[part.start : part.stop] = [number] * (part.stop - part.start)
    choices = [_shares(hunk, parts, new) for hunk in found]
    for combination in islice(product(*choices), MOST_TRIALS):
        yield _edit(owners, new, parts, found, combination)


def _edit(
    owners: list[int | None],
    new: list[str],
    parts: list[Segment],
    found: list[Hunk],
    shares: tuple[tuple[Share, ...], ...],
) -> Edit:
    """Give every new line its owner: unchanged lines keep theirs, those of a hunk go as it is shared out.

    Blank lines without an owner belong to the segment whose lines stand on both sides of them, else they are glue.
    """
    result = Edit([[] for _ in parts])
    new_owners: list[int | None] = []
    at = 0
    for hunk, divided in zip(found, shares, strict=True):
        new_owners.extend(owners[at : hunk.start])
        result.touched.update(k for k in owners[hunk.start : hunk.stop] if k is not None)
        for share in divided:
            if share.new_cell:
                result.new_cells.append((share.segment, list(share.lines)))
            else:
                result.touched.add(share.segment)
            new_owners.extend([None if share.new_cell else share.segment] * len(share.lines))
        new_owners.extend([None] * (hunk.new_stop - len(new_owners)))
        at = hunk.stop
    new_owners.extend(owners[at:])
    places: dict[int, list[int]] = {}
    for number, owner in enumerate(new_owners):
        if owner is not None and new[number].strip():
            places.setdefault(owner, []).append(number)
    for owner, numbers in places.items():
        result.texts[owner] = [
            new[number]
            for number in range(numbers[0], numbers[-1] + 1)
            if new_owners[number] == owner or (new_owners[number] is None and not new[number].strip())
        ]
    return result


def _shares(hunk: Hunk, parts: list[Segment], new: list[str]) -> list[tuple[Share, ...]]:
    """The ways to divide the new lines of one hunk among the segments that it touches or lies between."""
    lines = hunk.lines
    owners = owners_of(hunk, parts)
    if not any(line.strip() for line in lines):
        # Blank lines inside a segment are its own; at a border they are glue, which tangle sets.
        return [(Share(owners[0], lines),) if len(owners) == 1 else ()]
    ways: list[tuple[Share, ...]] = [(Share(owner, lines),) for owner in _by_likelihood(owners, hunk, parts, new)]
    if len(owners) == 2:
        first, second = owners
        ways.extend((Share(first, lines[:cut]), Share(second, lines[cut:])) for cut in _cuts(lines))
    before = max((k for k, part in enumerate(parts) if part.start < hunk.start), default=-1)
    ways.append((Share(before, lines, new_cell=True),))
    touched = [k for k in owners if parts[k].start < hunk.stop and hunk.start < parts[k].stop]
    if len(touched) == 1 and before >= 0:
        ways.extend((Share(touched[0], lines[:cut]), Share(before, lines[cut:], new_cell=True)) for cut in _cuts(lines))
    return ways


def owners_of(hunk: Hunk, parts: list[Segment]) -> list[int]:
    """The segments that a hunk touches, and its neighbours where it lies at a border."""
    before = max((k for k, part in enumerate(parts) if part.start < hunk.start), default=None)
    after = min((k for k, part in enumerate(parts) if part.stop > hunk.stop), default=None)
    touched = [k for k, part in enumerate(parts) if part.start < hunk.stop and hunk.start < part.stop]
    return sorted({k for k in (before, *touched, after) if k is not None})


def _by_likelihood(owners: list[int], hunk: Hunk, parts: list[Segment], new: list[str]) -> list[int]:
    """A changed segment keeps its lines. New lines close to the code below belong to it, others to the code above."""
    touched = [k for k in owners if parts[k].start < hunk.stop and hunk.start < parts[k].stop]
    follows = new[hunk.new_stop] if hunk.new_stop < len(new) else ""
    last = hunk.lines[-1] if hunk.lines else ""
    close_to_next = bool(follows.strip() and last.strip())
    rest = [k for k in owners if k not in touched]
    if close_to_next:
        rest.reverse()
    return [*touched, *rest]


def _cuts(lines: tuple[str, ...]) -> Iterator[int]:
    """Where new lines may be cut in two: above a line that has a blank one above it, else anywhere."""
    likely = [k for k in range(1, len(lines)) if lines[k].strip() and not lines[k - 1].strip()]
    yield from likely
    if not likely and len(lines) <= 12:
        yield from range(1, len(lines))
