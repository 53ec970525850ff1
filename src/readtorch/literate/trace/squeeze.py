"""The viewer's files without what only their readers need: comments and spaces.

No names are changed and nothing is rewritten: the script that a page carries can still be read beside its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TIGHT = frozenset("=*<>!&|?:,;{}()[]")
"""Around these JavaScript needs no space. `+` and `-` are not among them: `a - -b`."""
_SIGNS = frozenset("+-%")
_BEFORE_REGEX = frozenset("(,=:[!&|?{};\n")
_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n\[])+/[a-z]*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_SPACE = re.compile(r"\s+")


def squeeze_script(text: str) -> str:
    """JavaScript without comments and needless spaces; strings, templates and regular expressions as they are."""
    out: list[str] = []
    last = "\n"
    space = ""
    for kind, token in _tokens(text):
        if kind == "space":
            space = "\n" if "\n" in token or space == "\n" else " "
            continue
        if space == " " and _SIGNS.intersection((last, token[0])) and not _SIGNS.issuperset((last, token[0])):
            space = ""  # one sign between two operands
        if space and last not in _TIGHT and token[0] not in _TIGHT and last != "\n":
            out.append(space)
        elif space == "\n" and last == "}" and (token[0].isalnum() or token[0] in "_$[("):
            out.append("\n")  # the end of a statement, perhaps
        elif space == "\n" and last in ")]":
            out.append("\n")
        space = ""
        if token == "}" and last == ";" and out[-2][-1] != ")":  # `for (…);` needs it
            out.pop()
        out.append(token)
        last = token[-1]
    return "".join(out)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, last = 0, "\n"
    while at < len(text):
        char = text[at]
        if match := _SPACE.match(text, at):
            yield "space", match[0]
        elif match := _COMMENT.match(text, at):
            yield "space", "\n" if "\n" in match[0] else " "
        elif match := _STRING.match(text, at):
            yield "literal", match[0]
        elif char == "`":
            end = _template_end(text, at)
            yield "literal", text[at:end]
            at, last = end, "`"
            continue
        elif char == "/" and last in _BEFORE_REGEX and (match := _REGEX.match(text, at)):
            yield "literal", match[0]
        else:
            yield "code", char
            at, last = at + 1, char
            continue
        at = match.end()
        if not match[0].isspace() and not match[0].startswith(("//", "/*")):
            last = match[0][-1]


def _template_end(text: str, at: int) -> int:
    """The place after the template that begins at `at`; those inside its expressions are part of it."""
    at += 1
    while text[at] != "`":
        if text[at] == "\\":
            at += 2
        elif text.startswith("${", at):
            at = _expression_end(text, at + 2)
        else:
            at += 1
    return at + 1


def _expression_end(text: str, at: int) -> int:
    depth = 1
    while depth:
        if match := _STRING.match(text, at):
            at = match.end()
        elif text[at] == "`":
            at = _template_end(text, at)
        else:
            depth += (text[at] == "{") - (text[at] == "}")
            at += 1
    return at


def squeeze_style(text: str) -> str:
    """CSS without comments and needless spaces."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"(?<![\w.#])0(\.\d)", r"\1", text)
    return re.sub(r"\s*([{};,])\s*|(?<=:)\s+", r"\1", re.sub(r"\s+", " ", text)).replace(";}", "}").strip()
