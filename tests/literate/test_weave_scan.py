"""The listing's scanner loses nothing and colours what Python's own tokenizer sees."""

from __future__ import annotations

import io
import keyword
import tokenize
from pathlib import Path

import pytest

from readtorch.literate.weave.listing import highlight
from readtorch.literate.weave.scan import scan

SOURCES = sorted(Path(__file__).parents[2].joinpath("src", "readtorch").rglob("*.py"))


@pytest.mark.parametrize(
    "file", SOURCES, ids=lambda f: f.parts[-1] if f.parts[-2] == "readtorch" else "/".join(f.parts[-2:])
)
def test_the_tokens_of_a_file_are_its_text_and_its_keywords_and_comments_are_found(file: Path) -> None:
    code = file.read_text(encoding="utf-8")
    tokens = list(scan(code))
    assert "".join(t.text for t in tokens) == code
    words = keyword.kwlist
    real = list(tokenize.generate_tokens(io.StringIO(code).readline))
    comments = [t.string.rstrip() for t in real if t.type == tokenize.COMMENT]
    assert [t.text.rstrip() for t in tokens if t.kind == "comment"] == comments
    if not hasattr(tokenize, "FSTRING_START"):  # from 3.12 on what stands inside an f-string is tokenized too
        found = [t.text for t in tokens if t.kind in ("keyword", "constant")]
        outside = [t.string for t in real if t.type == tokenize.NAME and t.string in words]
        assert len(found) >= len(outside)
        numbers = [t.string for t in real if t.type == tokenize.NUMBER]
        assert len([t for t in tokens if t.kind == "number"]) >= len(numbers)


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ('x = "a # b"', [("x", ""), ('"a # b"', "string")]),
        ("'''a\nb'''", [("'''a\nb'''", "doc")]),
        ('f("a")', [("f", ""), ('"a"', "string")]),
        ('f(\n    "a")', [("f", ""), ('"a"', "string")]),
        ("@a.b\nclass C: ...", [("@a.b", "decorator"), ("class", "keyword"), ("C", "definition")]),
        ("a @ b", [("a", ""), ("b", "")]),
        ("x1 = 0x1F + 1.5e-3j + .5", [("x1", ""), ("0x1F", "number"), ("1.5e-3j", "number"), (".5", "number")]),
        ('rb"\\x00"', [('rb"\\x00"', "doc")]),
        ('f"{a!r} {{b}}"', [('f"{', "doc"), ("a", ""), ('!r} {{b}}"', "doc")]),
        ("None", [("None", "constant")]),
    ],
)
def test_kinds(code: str, kinds: list[tuple[str, str]]) -> None:
    assert [(t.text, t.kind) for t in scan(code) if t.kind or t.is_name] == kinds


def test_markup_in_code_is_escaped_and_every_line_closes_what_it_opens() -> None:
    code = 'x = """<b>\n</pre><script>\n"""  # <i>\ny = "<img src=x>"'
    rows = highlight(code, 1, {}, {}, lambda _: None)
    assert len(rows) == 4
    for row in rows:
        assert "<script" not in row
        assert "<img" not in row
        assert row.count("<q") == row.count("</q>")
    assert rows[1] == "<q>&lt;/pre&gt;&lt;script&gt;</q>"
