"""Python text cut into the few kinds of token that a listing colours.

A regular expression instead of a general highlighter: weaving the book highlights every line of it twice, and this takes a tenth of
the time. It reads only code that Python's parser has accepted.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from typing import NamedTuple


class Token(NamedTuple):
    text: str
    kind: str
    """keyword, constant, number, definition, string, doc, comment, decorator, or "" for what has no colour."""
    is_name: bool


_PREFIX = r"(?i:[rbfu]|rb|br|rf|fr)?"
_TOKEN = re.compile(
    rf"""
      (?P<comment>\#[^\n]*)
    | (?P<string>{_PREFIX}(?:\"\"\"(?:\\.|(?!\"\"\").)*\"\"\"|'''(?:\\.|(?!''').)*'''
        |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    | (?P<number>(?<![\w.])(?:0[xXbBoO][0-9a-fA-F_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?[jJ]?))
    | (?P<decorator>^[ \t]*@[^\W\d][\w.]*)
    | (?P<name>[^\W\d]\w*)
    | (?P<bracket>[()\[\]{{}}])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_KEYWORDS = frozenset(keyword.kwlist)
_CONSTANTS = frozenset({"True", "False", "None"})
_HOLE = re.compile(r"\{\{|\}\}|\{(?P<code>[^{}\n!:]*)(?:[!:][^{}\n]*)?\}")
"""An expression in an f-string, without its conversion and format."""


def scan(code: str) -> Iterator[Token]:
    """The tokens of `code`, whitespace and punctuation between them included as plain ones."""
    position, depth, before = 0, 0, ""
    for match in _TOKEN.finditer(code):
        start, text = match.start(), match[0]
        if start > position:
            yield Token(code[position:start], "", is_name=False)
        position = match.end()
        kind = match.lastgroup
        if kind == "name":
            yield Token(text, _name_class(text, before), is_name=True)
        elif kind == "string":
            alone = not depth and not code[code.rfind("\n", 0, start) + 1 : start].strip()
            yield from _string(text, "doc" if alone else "string")
        elif kind == "decorator":
            at = text.index("@")
            yield Token(text[:at], "", is_name=False)
            yield Token(text[at:], "decorator", is_name=True)
        elif kind == "bracket":
            depth += 1 if text in "([{" else -1
            yield Token(text, "", is_name=False)
        else:
            yield Token(text, "comment" if kind == "comment" else "number", is_name=False)
        before = text
    if position < len(code):
        yield Token(code[position:], "", is_name=False)


def _name_class(text: str, before: str) -> str:
    if text in _CONSTANTS:
        return "constant"
    if text in _KEYWORDS:
        return "keyword"
    if before in ("def", "class"):
        return "definition"
    return ""


def _string(text: str, shade: str) -> Iterator[Token]:
    """A string; the expressions in an f-string are code again."""
    quote = min((at for at in (text.find('"'), text.find("'")) if at >= 0), default=0)
    if "f" not in text[:quote].lower():
        yield Token(text, shade, is_name=False)
        return
    position = 0
    for match in _HOLE.finditer(text):
        if match["code"] is None:
            continue
        yield Token(text[position : match.start("code")], shade, is_name=False)
        yield from scan(match["code"])
        position = match.end("code")
    yield Token(text[position:], shade, is_name=False)
