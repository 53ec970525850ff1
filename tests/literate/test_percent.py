"""The line parser gives the cells that jupytext's reader gives, or says what it refuses."""

from __future__ import annotations

import jupytext
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readtorch.literate.chapter import Book, parse_part
from readtorch.literate.errors import LiterateError

HEADER = """\
# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

"""


def ours(text: str, name: str = "02_module") -> list[tuple[str, str, tuple[str, ...]]]:
    part = parse_part(text, name=name, path=f"chapters/{name}.py")
    return [(cell.kind, cell.source, cell.tags) for cell in part.cells]


def theirs(text: str) -> list[tuple[str, str, tuple[str, ...]]]:
    notebook = jupytext.reads(text, fmt="py:percent")
    return [(cell.cell_type, cell.source, tuple(cell.metadata.get("tags", ()))) for cell in notebook.cells]


def both_agree(text: str) -> bool:
    """True: equal. False: ours refused it. Anything else fails."""
    try:
        found = ours(text)
    except LiterateError:
        return False
    assert found == theirs(text)
    return True


CODE_LINES = st.sampled_from(
    [
        "x = 1",
        "def f(a: int) -> int:",
        "    return a",
        "",
        "    # %% inside a function",
        "# a comment",
        "#| into: nn/modules/module.py",
        "# | id: name",
        's = """',
        '"""',
        "t = '''",
        "'''",
        's = """one line"""',
        "# it's a comment",
        '# an unfinished """ in a comment',
        "y = 'it is # not a comment'",
        'z = "a \\" quote"',
        'w = "ends in a backslash \\\\"',
        "r'''raw \\'''",
        'f"{x!r:>{width}} it\'s"',
        "# %%",
        "# %% [markdown]",
        "# %% [raw]",
        '# %% tags=["raises-exception"]',
        '# %% [markdown] tags=["a", "b"]',
        "#%%",
        "# %%not a marker",
        "# In[3]:",
        "# ## text",
        "# ```mermaid",
        "# ```",
        "# %%{init: {}}%%",
        "#",
        "@decorator",
        "class C(C):",
        "    '''doc'''",
        "# + a list",
        "# # + two",
        "pass  # %% ",
        "   ",
    ]
)


@settings(max_examples=1500, deadline=None)
@given(st.lists(CODE_LINES, max_size=14))
def test_any_heap_of_lines_is_read_as_jupytext_reads_it_or_refused(lines: list[str]) -> None:
    both_agree(HEADER + "".join(line + "\n" for line in ["# %%", *lines]))


@st.composite
def chapters(draw: st.DrawFn) -> str:
    """Chapters of the form that people write."""
    words = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=30)
    cells = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["markdown", "raw", "code", "code"]))
        if kind == "code":
            code = draw(
                st.lists(
                    st.sampled_from(
                        [
                            'def f():\n    """Doc with # and \'.\n\n    # %% no marker\n    """\n    return 1',
                            "x = 1  # it's",
                            "class C:\n    a = '''\n# %% [markdown]\n'''",
                            'print("\\"\\"\\"")',
                            "# a comment, then\n\n\n# another",
                            "y = [\n    1,\n\n    2,\n]",
                            "#| into: a.py",
                        ]
                    ),
                    min_size=1,
                    max_size=3,
                ).map("\n\n".join)
            )
            cells.append(draw(st.sampled_from(["# %%\n", '# %% tags=["skip-execution"]\n'])) + code)
        else:
            lines = draw(st.lists(words, min_size=1, max_size=5))
            text = "\n".join(("# " + line).rstrip() for line in lines)
            cells.append(f"# %% [{kind}]\n{text}")
    gaps = [draw(st.sampled_from(["\n\n", "\n\n", "\n\n\n", "\n"])) for _ in cells]
    return HEADER + "".join(cell + gap for cell, gap in zip(cells, gaps, strict=True))


ACCEPTED = {True: 0, False: 0}


@settings(max_examples=400, deadline=None)
@given(chapters())
def test_a_written_chapter_is_read_as_jupytext_reads_it(text: str) -> None:
    ACCEPTED[both_agree(text)] += 1


def test_most_written_chapters_are_accepted() -> None:
    """Guards the test above: refusing everything would agree with everything."""
    if sum(ACCEPTED.values()):
        assert ACCEPTED[True] > ACCEPTED[False]


def test_every_part_of_the_book_is_read_as_jupytext_reads_it() -> None:
    for part in Book.load().parts:
        assert ours(part.text, part.name) == theirs(part.text), part.path


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("#%%\nx = 1\n", 17, "another form"),
        ("    # %%\n", 17, "another form"),
        ("# %% a title\n", 17, "cell marker"),
        ("# %% [md]\n# a\n", 17, "cell marker"),
        ("# %% tags=['a']\n", 17, "malformed tags"),
        ('# %% tags=["a","b"]\n', 17, "malformed tags"),
        ('# %% tags=["active-py"]\nx = 1\n', 17, "makes jupytext hide"),
        ("# %% [markdown]\n# a\n\n# b\n", 19, "blank line inside a markdown cell"),
        ("# %% [markdown]\n# %%\nx = 1\n", 17, "an empty markdown cell"),
        ("# %% [markdown]\nabc\n", 18, "without `#`"),
        ('# %% [markdown]\n"""\nabc\n"""\n', 18, "without `#`"),
        ("x = 1\n\n# %%\n", 17, "text above the first cell"),
        ("\n# %%\n", 17, "more than one blank line"),
        ("# %%\n# # + two\n", 18, "first # away"),
        ("# %%\nx = 1\x0c\n", 18, "control character"),
        ("# %%\nx = 1  # \0\n", 18, r"control character '\x00'"),
        ("# %% [markdown]\n# a \x1b[1m b\n", 18, "control character"),
        ("# %%\nx = (\n\n# %%\n1)\n", 18, "syntax error"),
        ("# %%\nif True:\n    pass\n\n# %%\nelse:\n    pass\n", 22, "syntax error"),
        ("# %%\nx = 1\n\n# %%\ny = = 2\n", 21, "syntax error"),
        ("# %%\n@staticmethod\n\n# %%\ndef f(): ...\n", 18, "syntax error"),
    ],
)
def test_what_would_not_survive_jupyterlab_is_refused_with_its_line(body: str, line: int, message: str) -> None:
    with pytest.raises(LiterateError) as caught:
        ours(HEADER + body)
    assert any(p.line == line and message in p.message for p in caught.value.problems), caught.value


def test_windows_line_ends_and_byte_order_marks_are_refused() -> None:
    with pytest.raises(LiterateError, match="Windows line ends"):
        ours((HEADER + "# %%\nx = 1\n").replace("\n", "\r\n"))
    with pytest.raises(LiterateError, match="byte order mark"):
        ours("\ufeff" + HEADER + "# %%\n")


def test_syntax_errors_in_several_cells_are_listed_together() -> None:
    with pytest.raises(LiterateError) as caught:
        ours(HEADER + "# %%\nx = = 1\n\n# %%\nok = 1\n\n# %%\ndef f(:\n    pass\n")
    assert [p.line for p in caught.value.problems] == [18, 24]


def test_the_tree_of_a_cell_counts_lines_as_the_chapter_does() -> None:
    text = HEADER + "# %% [markdown]\n# a\n\n# %%\n#| into: a.py\n\n\n@property\ndef f():\n    pass\n\n\nx = 1\n"
    part = parse_part(text, name="02_module", path="chapters/02_module.py")
    cell = part.cells[1]
    assert cell.code_line == 24
    assert [node.lineno for node in cell.tree.body] == [25, 29]
    alone = type(cell)(**{name: getattr(cell, name) for name in cell.__dataclass_fields__})
    assert [node.lineno for node in alone.tree.body] == [25, 29]
