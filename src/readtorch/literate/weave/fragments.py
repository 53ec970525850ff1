"""Where a tangled cell's code stands in its file: its place in words, its neighbours, and lines of context around it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from readtorch.literate.chapter import statement_start
from readtorch.literate.tangle import TangledFile, TangledLine
from readtorch.literate.weave.definitions import parsed

CellKey = tuple[str, int]
"""Part path and cell index."""


@dataclass
class Fragment:
    """One cell's piece of one file.

    `thread` is what it is a piece of: a class that several cells make up, else the file. `before` and `after` are the
    context lines that the page shows dimmed.
    """

    key: CellKey
    file: str
    thread: str
    place: str
    title: str
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    previous: Fragment | None = field(default=None, repr=False)
    next: Fragment | None = field(default=None, repr=False)
    pieces: int = 1

    @property
    def is_class(self) -> bool:
        return self.thread != self.file


FileFragments = tuple[TangledFile, list[Fragment]]


def fragments_by_file(
    tangled: Mapping[str, TangledFile], previous: Mapping[str, FileFragments] | None = None
) -> dict[str, FileFragments]:
    """Each file's fragments. Those of a file that is the very one read in `previous` are taken from there."""
    found: dict[str, FileFragments] = {}
    for file, content in tangled.items():
        kept = (previous or {}).get(file)
        found[file] = kept if kept is not None and kept[0] is content else (content, _fragments(file, content))
    return found


def by_cell(files: Mapping[str, FileFragments]) -> dict[CellKey, Fragment]:
    """Every tangled cell's fragment. An `imports` cell, whose lines are merged at the head, is one of its file too."""
    found: dict[CellKey, Fragment] = {}
    for _, pieces in files.values():
        for fragment in pieces:
            found.setdefault(fragment.key, fragment)
    return found


def _fragments(file: str, content: TangledFile) -> list[Fragment]:
    if file.endswith(".py"):
        return _of_file(file, content)
    return [Fragment(key, file, file, "the whole file", file.rpartition("/")[2]) for key in _runs(content)]


def _runs(content: TangledFile) -> dict[CellKey, tuple[int, int]]:
    """Cell → first and last (1-based) line of its longest run in the file, in file order."""
    best: dict[CellKey, tuple[int, int]] = {}
    start, current = 0, None
    for number, line in enumerate([*content.lines, None], start=1):
        key = _key(line)
        if key is None and line is not None and not line.text.strip():
            continue  # blank lines between fragments belong to no cell and end no run
        if key != current:
            if current is not None:
                stop = _last_of(content, current, start, number - 1)
                old = best.get(current)
                if old is None or stop - start > old[1] - old[0]:
                    best[current] = (start, stop)
            start, current = number, key
    return dict(sorted(best.items(), key=lambda item: item[1]))


def _last_of(content: TangledFile, key: CellKey, start: int, stop: int) -> int:
    while stop > start and _key(content.lines[stop - 1]) != key:
        stop -= 1
    return stop


def _key(line: TangledLine | None) -> CellKey | None:
    return None if line is None or line.cell is None else (line.cell.path, line.cell.index)


def _of_file(file: str, content: TangledFile) -> list[Fragment]:
    tree = parsed(content.text)
    texts = [line.text for line in content.lines]
    runs = _runs(content)
    threads: dict[str, list[Fragment]] = {}
    result = []
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    for key, (start, stop) in runs.items():
        owner = next((c for c in classes if statement_start(c) < start <= (c.end_lineno or 0)), None)
        opened = next((c for c in classes if start <= statement_start(c) <= stop and (c.end_lineno or 0) > stop), None)
        if owner is not None:
            fragment = _inside(key, file, owner, start, stop, texts)
        elif opened is not None:
            fragment = Fragment(key, file, opened.name, f"class `{opened.name}` begins", opened.name)
        else:
            fragment = _top(key, file, tree.body, start, stop)
        threads.setdefault(fragment.thread, []).append(fragment)
        result.append(fragment)
    for thread in threads.values():
        for earlier, later in pairwise(thread):
            earlier.next, later.previous = later, earlier
        for fragment in thread:
            fragment.pieces = len(thread)
    return result


def _inside(key: CellKey, file: str, owner: ast.ClassDef, start: int, stop: int, texts: list[str]) -> Fragment:
    earlier = [n for n in owner.body if (n.end_lineno or 0) < start and _names(n)]
    later = [n for n in owner.body if statement_start(n) > stop and _names(n)]
    own = [name for n in owner.body if start <= statement_start(n) <= stop for name in _names(n)]
    place = f"class `{owner.name}`, " + (f"after `{_names(earlier[-1])[-1]}`" if earlier else "at its head")
    title = f"{owner.name}.{own[0]}" if own else owner.name
    if len(own) > 1:
        title += " …"
    before = [texts[owner.lineno - 1]]
    if earlier:
        before.append(_signature(earlier[-1], texts))
    after = [_signature(later[0], texts)] if later else []
    return Fragment(key, file, owner.name, place, title, before, after)


def _top(key: CellKey, file: str, body: list[ast.stmt], start: int, stop: int) -> Fragment:
    own = [name for n in body if start <= statement_start(n) <= stop for name in _names(n)]
    earlier = [n for n in body if (n.end_lineno or 0) < start and _names(n)]
    if all(isinstance(n, ast.Import | ast.ImportFrom) for n in body if start <= statement_start(n) <= stop):
        place = "its imports"
    elif earlier:
        place = f"after `{_names(earlier[-1])[-1]}`"
    else:
        place = "at its head"
    return Fragment(
        key, file, file, place, (own[0] + (" …" if len(own) > 1 else "")) if own else file.rpartition("/")[2]
    )


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [t.id for t in node.targets if isinstance(t, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _signature(node: ast.stmt, texts: list[str]) -> str:
    """The first line of a definition, cut to `def name(…): …`; an assignment's as it stands."""
    line = texts[node.lineno - 1]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return line.partition("(")[0] + ("(…): …" if "(" in line else "")
    return line
