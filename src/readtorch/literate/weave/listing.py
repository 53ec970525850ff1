"""Python source as HTML: highlighted, its names linked, its `#:` side comments taken out for the margin."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape

from pygments.lexers import get_lexer_by_name
from pygments.token import Token as PygmentsToken

from readtorch.literate.weave.resolve import Reference
from readtorch.literate.weave.scan import Token, scan

SIDE = re.compile(r"\s*#: ?(.*)")


@dataclass(frozen=True)
class Code:
    """A run of listing lines."""

    html: str


@dataclass(frozen=True)
class Side:
    """A side comment: its Markdown text; it stands next to the line after it."""

    text: str


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
    shade = ""
    for text, kind, is_name in scan(code) if language == "python" else _other(code, language):
        for number, piece in enumerate(text.split("\n")):
            if number:
                if shade:
                    rows[-1].append(_TAGS[shade][1])
                    shade = ""
                rows.append([])
                line, column = line + 1, 0
            if not piece:
                continue
            html = _linked(piece, column, references.get(line, ()), href) if is_name else escape(piece, quote=False)
            if kind != shade and not (not kind and piece.isspace()):
                html = f"{_TAGS[shade][1]}{_TAGS[kind][0]}{html}"
                shade = kind
            rows[-1].append(html)
            column += len(piece)
    if shade:
        rows[-1].append(_TAGS[shade][1])
    count = code.count("\n") + 1
    result = ["".join(row) for row in rows[:count]]
    for at, anchor in anchors.items():
        if 0 <= at - first_line < count:
            result[at - first_line] = f"<span id={attribute(anchor)}></span>{result[at - first_line]}"
    return result


def _other(code: str, language: str) -> Iterator[Token]:
    """Tokens of another language, by Pygments."""
    lexer = get_lexer_by_name({"cuda": "cuda", "cpp": "cpp", "yaml": "yaml"}[language], stripnl=False, ensurenl=False)
    for kind, text in lexer.get_tokens(code):
        shade = next((name for parent, name in _KINDS if kind in parent), "")
        yield Token(text, shade if text.strip() else "", is_name=False)


_TAGS = {
    "": ("", ""),
    "keyword": ("<b>", "</b>"),
    "constant": ("<var>", "</var>"),
    "number": ("<var>", "</var>"),
    "definition": ("<dfn>", "</dfn>"),
    "string": ("<q>", "</q>"),
    "doc": ("<q class=d>", "</q>"),
    "comment": ("<i>", "</i>"),
    "decorator": ("<b class=d>", "</b>"),
}
"""Elements rather than classed spans: they say what they are, and half of a page's bytes were span tags."""

_KINDS = (
    (PygmentsToken.Keyword, "keyword"),
    (PygmentsToken.Literal.String, "string"),
    (PygmentsToken.Literal.Number, "number"),
    (PygmentsToken.Comment.Preproc, "decorator"),
    (PygmentsToken.Comment, "comment"),
    (PygmentsToken.Name.Function, "definition"),
    (PygmentsToken.Name.Class, "definition"),
)


def attribute(value: str) -> str:
    """An attribute's value, in quotes only where HTML wants them: a page has hundreds of links."""
    return value if re.fullmatch(r"[\w./#%~-]+", value) else f'"{escape(value)}"'


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
        out.append(f"<a href={attribute(target)}>{escape(reference.name, quote=False)}</a>")
        done = start + len(reference.name)
    out.append(escape(piece[done:], quote=False))
    return "".join(out)
