"""Two traces, one map: which call of one is which call of the other.

Calls are matched by upstream symbol (`readtorch/nn/modules/module.py` answers to `torch/nn/modules/module.py`) and by where they
stand in the call tree. A function that only one side has (a helper of its own) is looked through: its calls count as its
caller's, so that one more layer on one side does not hide everything below it. Among the calls of one caller the longest
common subsequence is matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from readtorch.literate.trace.decode import Decoded, Frame
from readtorch.literate.trace.document import Trace
from readtorch.literate.trace.scope import upstream_symbol


@dataclass(frozen=True, slots=True)
class Pair:
    """One call in both traces (frame numbers), or in one (the other None). `depth` counts matched callers."""

    a: int | None
    b: int | None
    symbol: str
    depth: int


@dataclass(frozen=True, slots=True)
class Alignment:
    """What `compare` found, in the order of the calls."""

    pairs: tuple[Pair, ...]

    @property
    def matched(self) -> tuple[Pair, ...]:
        return tuple(p for p in self.pairs if p.a is not None and p.b is not None)

    @property
    def first_difference(self) -> Pair | None:
        """The first call that only one trace has, None if there is none."""
        return next((p for p in self.pairs if p.a is None or p.b is None), None)


def compare(a: Trace, b: Trace) -> Alignment:
    """Align the calls of two traces, of readtorch and PyTorch or of two runs of one."""
    left, right = _Side(a.decoded), _Side(b.decoded)
    common = set(left.symbols) & set(right.symbols)
    pairs: list[Pair] = []
    _align(left, left.outermost(), right, right.outermost(), common, 0, pairs)
    return Alignment(tuple(pairs))


class _Side:
    def __init__(self, decoded: Decoded) -> None:
        self.decoded = decoded
        self.symbols = [upstream_symbol(_path(decoded, f), decoded.name(f)) for f in decoded.frames]

    def outermost(self) -> list[int]:
        return self.decoded.children[-1]

    def visible(self, numbers: Sequence[int], common: set[str]) -> list[tuple[int, list[int]]]:
        """(call, calls looked through on the way to it) for the nearest calls that both sides know."""
        found: list[tuple[int, list[int]]] = []
        skipped: list[int] = []

        def walk(numbers: Sequence[int]) -> None:
            for number in numbers:
                if self.symbols[number] in common:
                    found.append((number, list(skipped)))
                    skipped.clear()
                else:
                    skipped.append(number)
                    walk(self.decoded.children[number])

        walk(numbers)
        if skipped:
            found.append((-1, list(skipped)))
        return found


def _path(decoded: Decoded, frame: Frame) -> str:
    path = decoded.path(frame)
    return "cell" if path.startswith("cell") else path


def _align(
    left: _Side, ours: Sequence[int], right: _Side, theirs: Sequence[int], common: set[str], depth: int, out: list[Pair]
) -> None:
    a, b = left.visible(ours, common), right.visible(theirs, common)
    keys = [left.symbols[n] if n >= 0 else None for n, _ in a], [right.symbols[n] if n >= 0 else None for n, _ in b]
    matcher = SequenceMatcher(None, *keys, autojunk=False)
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal":
            for (m, skipped_a), (n, skipped_b) in zip(a[i:i_end], b[j:j_end], strict=True):
                _alone(left, skipped_a, right, skipped_b, depth, out)
                if m >= 0:
                    out.append(Pair(m, n, left.symbols[m], depth))
                    inner = left.decoded.children[m], right.decoded.children[n]
                    _align(left, inner[0], right, inner[1], common, depth + 1, out)
            continue
        alone_a = [n for call, skipped in a[i:i_end] for n in (*skipped, *([call] if call >= 0 else []))]
        alone_b = [n for call, skipped in b[j:j_end] for n in (*skipped, *([call] if call >= 0 else []))]
        _alone(left, alone_a, right, alone_b, depth, out)


def _alone(left: _Side, ours: list[int], right: _Side, theirs: list[int], depth: int, out: list[Pair]) -> None:
    out.extend(Pair(n, None, left.symbols[n], depth) for n in ours)
    out.extend(Pair(None, n, right.symbols[n], depth) for n in theirs)
