"""The sources of a trace: the functions that ran, once each, and the chapter cells they come from.

Only what ran is embedded, function by function, and docstrings after their first line are left out: a trace is sent with a page. The
digest is that of the whole file, so that a reader (and a test) can tell whether a trace is of the present text.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import os
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from readtorch.literate.chapter import Part, find_root, read_part
from readtorch.literate.errors import LiterateError
from readtorch.literate.trace.scope import Locate
from readtorch.literate.trace_places import in_package

Excerpt = list[Any]
"""[first line, text], with a third entry where it goes on after a docstring that was left out"""


def file_entry(path: str, file: str, starts: Iterable[tuple[str, int]], *, embed: bool) -> dict[str, Any]:
    """The document's entry for `file`; `starts` are name and first line of the code objects that ran in it."""
    lines = linecache.getlines(file) if embed else []
    if not lines:
        return {"path": path}
    text = "".join(lines)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return {"path": path, "sha256": digest, "excerpts": excerpts(text, starts)}


def excerpts(text: str, starts: Iterable[tuple[str, int]]) -> list[Excerpt]:
    """The functions (for a lambda: the statement) that begin at `starts`, in order; for a module all of it but directives."""
    lines = text.split("\n")
    spans, docstrings = _spans(text)
    kept: set[int] = set()
    for name, line in set(starts):
        inside = [(first, last) for first, last in spans if first <= line <= last]
        if name == "<module>" or not inside:
            head = next((i for i, text in enumerate(lines) if not text.startswith("#|")), 0)
            return [[head + 1, "\n".join(lines[head:]).rstrip("\n")]]
        first, last = max(inside)
        kept.update(range(first, last + 1))
    for first, last in docstrings:
        kept.difference_update(range(first + 1, last + 1))
    after_docstring = {last + 1 for _, last in docstrings}
    found: list[Excerpt] = []
    for line in sorted(kept):
        if found and line == found[-1][0] + len(found[-1][1]):
            found[-1][1].append(lines[line - 1])
        else:
            found.append([line, [lines[line - 1]], *([1] if line in after_docstring else [])])
    return [[first, "\n".join(texts), *rest] for first, texts, *rest in found]


@lru_cache(maxsize=256)
def _spans(text: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """((first, last) of every function, and of every statement in no function, the same of long docstrings)."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return [], []
    spans: list[tuple[int, int]] = []
    docstrings: list[tuple[int, int]] = []

    def visit(body: list[ast.stmt], inside: bool) -> None:
        for node in body:
            function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if function or not inside:
                decorators = getattr(node, "decorator_list", [])
                spans.append((min([node.lineno, *(d.lineno for d in decorators)]), node.end_lineno or node.lineno))
            head = node.body[0] if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else None
            text = head.value if isinstance(head, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.end_lineno != text.lineno:
                docstrings.append((text.lineno, text.end_lineno or text.lineno))
            for name in ("body", "orelse", "finalbody"):
                visit(getattr(node, name, []), inside or function)
            for handler in getattr(node, "handlers", []):
                visit(handler.body, inside or function)

    visit(tree.body, False)
    return spans, docstrings


def cell_ranges(
    files: Mapping[int, tuple[str, Iterable[int]]], locate: Locate | None
) -> list[tuple[int, int, int, str, str, int]]:
    """(file, first line, last line, chapter path, cell id, chapter line of the first) for the lines that ran.

    `locate` is asked first (it knows the notebook's cells), then the line map of the package.
    """
    found: list[tuple[int, int, int, str, str, int]] = []
    for index, (file, lines) in files.items():
        for line in sorted(set(lines)):
            place = (locate(file, line) if locate else None) or _place_in_package(file, line)
            if place is None:
                continue
            path, chapter_line, cell = place
            last = found[-1] if found else None
            if last and last[0] == index and last[3:5] == (path, cell) and chapter_line - last[5] == line - last[1]:
                found[-1] = (*last[:2], line, *last[3:])
            else:
                found.append((index, line, line, path, cell, chapter_line))
    return found


def _place_in_package(file: str, line: int) -> tuple[str, int, str] | None:
    """(chapter path, chapter line, cell id) of a line of the package."""
    from readtorch.literate.linemap import locate, relative_path

    if not os.path.isabs(file) or relative_path(file) is None:
        return None
    if "READTORCH_EXECUTOR" in os.environ:  # whoever runs this has read the book
        return in_package(file, line)
    place = locate(file, line)
    return None if place is None else (place.path, place.line, _cell_id(place.path, place.line))


@cache
def _cell_id(path: str, line: int) -> str:
    """The anchor of the cell that holds a chapter line, "" if unknown."""
    part = _part(path)
    inside = [c for c in part.code_cells if c.line <= line] if part else []
    return part.ids.get(inside[-1].index, "") if part and inside else ""


@cache
def _part(path: str) -> Part | None:
    """One part of the book, read alone: the whole book would take seconds."""
    try:
        root = find_root()
        return read_part(root / path, root)
    except (LiterateError, OSError):
        return None
