"""Python source as HTML: highlighted, its names linked, its `#:` side comments taken out for the margin."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape

from pygments.lexer import Lexer
from pygments.lexers import CppLexer, CudaLexer, PythonLexer, YamlLexer
from pygments.token import Token, _TokenType

from readtorch.literate.weave.resolve import Reference

SIDE = re.compile(r"\s*#: ?(.*)")

_CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (Token.Keyword.Constant, "kc"),
    (Token.Keyword, "k"),
    (Token.Operator.Word, "k"),
    (Token.Literal.String.Doc, "sd"),
    (Token.Literal.String.Interpol, "si"),
    (Token.Literal.String.Affix, "s"),
    (Token.Literal.String, "s"),
    (Token.Literal.Number, "m"),
    (Token.Comment.Preproc, "cp"),
    (Token.Comment, "c"),
    (Token.Name.Function, "nf"),
    (Token.Name.Class, "nc"),
    (Token.Name.Decorator, "nd"),
    (Token.Name.Builtin.Pseudo, "bp"),
)
"""What is coloured. Everything else is plain text, which keeps both the page and the eye light."""


@dataclass(frozen=True)
class Code:
    """A run of listing lines."""

    html: str


@dataclass(frozen=True)
class Side:
    """A side comment: its Markdown text; it stands next to the line after it."""

    text: str


@lru_cache(maxsize=4)
def _lexer(language: str) -> Lexer:
    lexers = {"python": PythonLexer, "cuda": CudaLexer, "cpp": CppLexer, "yaml": YamlLexer}
    return lexers[language](stripnl=False, ensurenl=True)


@lru_cache(maxsize=4096)
def _css_class(kind: _TokenType) -> str:
    return next((name for parent, name in _CLASSES if kind in parent), "")


def segments(
    code: str,
    first_line: int,
    references: Iterable[Reference] = (),
    anchors: Mapping[int, str] | None = None,
    href: Callable[[Reference], str | None] = lambda _: None,
    language: str = "python",
) -> list[Code | Side]:
    """The listing of `code`, whose first line is line `first_line` of its chapter, cut at its side comments."""
    by_line: dict[int, list[Reference]] = {}
    for reference in references:
        by_line.setdefault(reference.line, []).append(reference)
    lines = highlight(code, first_line, by_line, anchors or {}, href, language)
    result: list[Code | Side] = []
    pending: list[str] = []
    side: list[str] = []
    for text, html in zip(code.split("\n"), lines, strict=True):
        match = SIDE.fullmatch(text) if language == "python" else None
        if match:
            if pending:
                result.append(Code("\n".join(pending)))
                pending = []
            side.append(match[1])
            continue
        if side:
            result.append(Side("\n".join(side)))
            side = []
        pending.append(html)
    if pending:
        result.append(Code("\n".join(pending)))
    if side:
        result.append(Side("\n".join(side)))
    return result


def highlight(
    code: str,
    first_line: int,
    references: Mapping[int, list[Reference]],
    anchors: Mapping[int, str],
    href: Callable[[Reference], str | None],
    language: str = "python",
) -> list[str]:
    """One HTML string per line of `code`."""
    rows: list[list[str]] = [[]]
    column, line = 0, first_line
    open_class = word = ""

    def put(html: str, css: str) -> None:
        nonlocal open_class
        row = rows[-1]
        if css == open_class and row:
            row.append(html)
            return
        if open_class and row:
            row.append("</span>")
        row.append(f'<span class="{css}">{html}' if css else html)
        open_class = css

    def end_row() -> None:
        nonlocal open_class
        if open_class and rows[-1]:
            rows[-1].append("</span>")
        open_class = ""

    for kind, value in _lexer(language).get_tokens(code):
        css = _css_class(kind)
        if css == "nf" and word != "def":
            css = ""  # the lexer takes every `__init__` for a definition
        if value.strip():
            word = value
        for number, piece in enumerate(value.split("\n")):
            if number:
                end_row()
                rows.append([])
                line, column = line + 1, 0
            if not piece:
                continue
            if kind in Token.Name or kind in Token.Keyword:
                put(_linked(piece, column, references.get(line, ()), href), css)
            else:
                put(escape(piece, quote=False), css if piece.strip() else open_class)
            column += len(piece)
    end_row()
    count = code.count("\n") + 1
    result = ["".join(row) for row in rows[:count]]
    result += [""] * (count - len(result))
    for at, anchor in anchors.items():
        if 0 <= at - first_line < count:
            result[at - first_line] = f'<span id="{escape(anchor)}"></span>{result[at - first_line]}'
    return result


def _linked(piece: str, column: int, here: Iterable[Reference], href: Callable[[Reference], str | None]) -> str:
    """`piece`, which starts at `column`, with every reference inside it linked."""
    done, out = 0, []
    for reference in sorted(here, key=lambda r: r.column):
        start = reference.column - column
        if start < done or piece[start : start + len(reference.name)] != reference.name:
            continue
        target = href(reference)
        if target is None:
            continue
        out.append(escape(piece[done:start], quote=False))
        out.append(f'<a href="{escape(target)}">{escape(reference.name, quote=False)}</a>')
        done = start + len(reference.name)
    out.append(escape(piece[done:], quote=False))
    return "".join(out)
