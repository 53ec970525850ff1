"""Reads jupytext's percent format into cells, line by line, without jupytext (importing it takes longer than tangling a book).

Where a cell starts and what its source is must be exactly what JupyterLab shows, so the scanner follows jupytext's reader,
its notion of a quoted line included; tests hold the two equal on generated input. Forms that jupytext reads but would not
write back byte for byte (`#%%`, titles, `[md]`, Markdown in triple quotes) are refused: opening and saving a chapter in
JupyterLab must not change it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from readtorch.literate.errors import Problems

_MARKER = re.compile(r"# %%(?: (?P<rest>.*))?$")
_JUPYTEXT_MARKER = re.compile(r"\s*#\s*%%%*\s|\s*#\s*(%%|<codecell>|In\[[0-9 ]*\]:?)\s*$")
_REST = re.compile(r"(?:\[(?P<kind>markdown|raw)\])?\s*(?:tags=(?P<tags>\[.*\]))?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_ESCAPED = re.compile(r"(?:# ?){2,}\+")
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")


@dataclass(slots=True, eq=False)
class RawCell:
    """A cell as it lies in the file: `line` of its marker, lines of its source, the first of which is `line + 1`."""

    kind: str
    line: int
    body: list[str]
    tags: tuple[str, ...]


def split_lines(text: str, path: str, problems: Problems) -> list[str]:
    """The lines of a chapter. A control character is a problem: other tools take some for a line end, and none belongs into text."""
    if text.startswith("\ufeff"):
        problems.add(path, 1, "the file starts with a byte order mark", "save it as UTF-8 without one")
    if "\r\n" in text:
        problems.add(path, 0, "the file has Windows line ends", "save it with \\n line ends")
        text = text.replace("\r\n", "\n")
    for match in _CONTROL.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        problems.add(path, line, f"control character {match[0]!r}", "write it as an escape, such as \\x0c")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def scan(lines: list[str], path: str, problems: Problems) -> list[RawCell]:
    """The cells of a chapter."""
    start = _after_header(lines)
    cells: list[RawCell] = []
    at = start
    while at < len(lines):
        stop = _next_marker(lines, at)
        match = _MARKER.match(lines[at])
        if match:
            cells.append(_raw_cell(lines, at, stop, match["rest"] or "", path, problems))
        elif _JUPYTEXT_MARKER.match(lines[at]):
            problems.add(path, at + 1, f"a cell marker of another form: {lines[at].strip()}", "write `# %%`")
        elif any(line.strip() for line in lines[at:stop]):
            first = next(k for k in range(at, stop) if lines[k].strip())
            problems.add(path, first + 1, "text above the first cell", "put `# %%` or `# %% [markdown]` above it")
        elif start:
            problems.add(path, at + 1, "more than one blank line below the header", "leave one")
        at = stop
    return cells


def _after_header(lines: list[str]) -> int:
    """The line below the YAML header (`# ---` to `# ---`) and the blank line that follows it."""
    if not lines or lines[0].rstrip() != "# ---":
        return 0
    for number in range(1, len(lines)):
        if not lines[number].startswith("#"):
            return 0
        if lines[number].rstrip() == "# ---":
            blank = number + 1 < len(lines) and not lines[number + 1].strip()
            return number + 2 if blank else number + 1
    return 0


def _next_marker(lines: list[str], start: int) -> int:
    """The line of the next cell marker below `start`: not inside a triple-quoted string, nor a code fence of Markdown."""
    prose = bool(re.match(r"# %% \[(markdown|md|raw)\]", lines[start]))
    quotes = QuoteState()
    fence: tuple[str, int] | None = None
    for number in range(start, len(lines)):
        line = lines[number]
        if quotes.triple:
            quotes.read(line)
            continue
        quotes.read(line)
        if "#" not in line:
            continue
        if prose:
            text = uncomment(line)
            if fence:
                if _closes(text, fence):
                    fence = None
                continue
            opened = _opens(text)
            if opened and any(_closes(uncomment(later), opened) for later in lines[number + 1 :]):
                fence = opened
                continue
        if number > start and "%%" in line and _JUPYTEXT_MARKER.match(line):
            return number
        if number > start and "#" in line and ("<codecell>" in line or "In[" in line) and _JUPYTEXT_MARKER.match(line):
            return number
    return len(lines)


def _opens(text: str) -> tuple[str, int] | None:
    match = _FENCE.match(text)
    if match is None or (match[1][0] == "`" and "`" in match[2]):
        return None
    return match[1][0], len(match[1])


def _closes(text: str, fence: tuple[str, int]) -> bool:
    match = _FENCE.match(text)
    return match is not None and match[1][0] == fence[0] and len(match[1]) >= fence[1] and not match[2].strip()


_QUOTE_OR_COMMENT = re.compile("[\"'#]")


class QuoteState:
    """Is the next line inside a triple-quoted string? As jupytext sees it: a backslash hides the quote after it, always,

    and a string in single quotes ends with its line.
    """

    __slots__ = ("triple",)

    def __init__(self) -> None:
        self.triple = ""

    def read(self, line: str) -> None:
        if '"""' not in line and "'''" not in line:
            return  # nothing opens or closes on this line; the rest is slow
        if not self.triple and line.lstrip().startswith("#"):
            return
        single = ""
        start_of_triple = -1
        for match in _QUOTE_OR_COMMENT.finditer(line):
            char, at = match[0], match.start()
            if char == "#":
                if not single and not self.triple:
                    return
                continue
            if at and line[at - 1] == "\\":
                continue
            if single:
                if single == char:
                    single = ""
                continue
            if at >= 2 and line[at - 2 : at + 1] == 3 * char and at >= start_of_triple + 3:
                if self.triple == char:
                    self.triple = ""
                    start_of_triple = at
                    continue
                if self.triple:
                    continue
                self.triple = char
                start_of_triple = at
                continue
            if not self.triple:
                single = char


def _raw_cell(lines: list[str], start: int, stop: int, rest: str, path: str, problems: Problems) -> RawCell:
    line = start + 1
    match = _REST.match(rest.strip())
    kind = "code"
    tags: tuple[str, ...] = ()
    if match is None:
        way_out = 'a marker carries [markdown], [raw] or tags=["…"], nothing else; a title belongs into a Markdown cell'
        problems.add(path, line, f"does not understand the cell marker: {lines[start].strip()}", way_out)
    else:
        kind = match["kind"] or "code"
        tags = _tags(match["tags"], path, line, problems)
    body = lines[start + 1 : stop - _separating(lines, start, stop)]
    if kind != "code" and not any(text.strip() for text in body):
        problems.add(path, line, f"an empty {kind} cell, to which jupytext would add a line", "remove it")
    elif kind != "code":
        for number, text in _stray_lines(body, line + 1):
            what = "a blank line" if not text.strip() else "a line without `#`"
            problems.add(path, number, f"{what} inside a {kind} cell", "start every line of it with `#`")
    for number, text in _escaped_lines(body, line + 1) if kind == "code" else ():
        problems.add(path, number, f"jupytext would take the first # away from: {text}", "word the comment differently")
    return RawCell(kind, line, body, tags)


def _separating(lines: list[str], start: int, stop: int) -> int:
    """How many of a cell's last lines only separate it from the next."""
    block = lines[start:stop]
    if len(block) >= 3 and block[-3].strip() and not block[-2].strip() and not block[-1].strip():
        return 2
    return 1 if block[-1] == "" else 0


def _stray_lines(body: list[str], first: int) -> Iterator[tuple[int, str]]:
    last = max((k for k, text in enumerate(body) if text.strip()), default=-1)
    for k, text in enumerate(body[: last + 1]):
        if not text.startswith("#"):
            yield first + k, text


def _escaped_lines(body: list[str], first: int) -> Iterator[tuple[int, str]]:
    if not any(text.startswith("#") and _ESCAPED.match(text) for text in body):
        return
    quotes = QuoteState()
    for k, text in enumerate(body):
        if not quotes.triple and _ESCAPED.match(text):
            yield first + k, text
        quotes.read(text)


def _tags(text: str | None, path: str, line: int, problems: Problems) -> tuple[str, ...]:
    if text is None:
        return ()
    import json

    try:
        tags = json.loads(text)
    except json.JSONDecodeError:
        tags = None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags) or json.dumps(tags) != text:
        problems.add(path, line, f"malformed tags: {text}", 'write them as tags=["one", "two"]')
        return ()
    for tag in tags:
        if tag.startswith("active-"):
            problems.add(path, line, f"tag {tag!r} makes jupytext hide the cell", "remove it")
    return tuple(tags)


def uncomment(line: str) -> str:
    """The text of one line of a Markdown or raw cell."""
    return line[2:] if line.startswith("# ") else line.removeprefix("#")
