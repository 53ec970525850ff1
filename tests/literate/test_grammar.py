"""The directives of a cell: what is read, and what is refused with its line."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import books
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readtorch.literate.chapter import Part, parse_part
from readtorch.literate.errors import LiterateError, Problem, Problems
from readtorch.literate.grammar import KEYS, LAYERS, TraceSpec, parse_trace

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference/directives.md"


def part(*cells: str) -> Part:
    return parse_part("".join(f"# %%\n{cell}\n\n" for cell in cells), name="02_module", path="chapters/02_module.py")


def faults(*cells: str) -> list[Problem]:
    with pytest.raises(LiterateError) as caught:
        part(*cells)
    return caught.value.problems


@pytest.mark.parametrize("text", ["   x = 1\n", " # ---\n y = 2\n"])
def test_text_before_the_first_marker_is_a_fault_also_where_there_is_no_marker(text: str) -> None:
    problems = Problems()
    parse_part(text, name="02_module", path="chapters/02_module.py", problems=problems)
    assert len(problems) == 1


def test_directives_are_the_first_lines_and_code_begins_below_them() -> None:
    (cell,) = part("#| into: nn/a.py\n# | upstream: torch/a.py#f\n#| upstream: torch/a.py#C.f\n\n\n# why\nx = 1").cells
    assert cell.into == "nn/a.py"
    assert cell.get_all("upstream") == ("torch/a.py#f", "torch/a.py#C.f")
    assert [d.line for d in cell.directives] == [2, 3, 4]
    assert (cell.code, cell.code_line) == ("# why\nx = 1", 7)


def test_a_flag_has_the_empty_value_and_an_absent_key_none() -> None:
    (cell,) = part("#| test\nassert True").cells
    assert cell.get("test") == ""
    assert cell.has("test")
    assert cell.get("gpu") is None


def test_a_claim_may_hold_colons_and_hashes() -> None:
    (cell,) = part("#| claim: `a: b` is # no comment: it is text\ndef _(torch):\n    assert True").cells
    assert cell.get("claim") == "`a: b` is # no comment: it is text"


def test_a_directive_inside_a_string_is_text() -> None:
    (cell,) = part('x = """\n#| into: a.py\n"""').cells
    assert cell.directives == ()


REFUSED = {
    "an unknown key": ("#| inot: a.py\nx = 1", 2, "unknown directive 'inot'", "did you mean 'into'?"),
    "a key like none": ("#| zzzz: a.py\nx = 1", 2, "unknown directive 'zzzz'", "known are: into"),
    "no key": ("#| nn/module.py\nx = 1", 2, "not a directive", "write `#| key: value`"),
    "an absolute path": ("#| into: /etc/a.py\nx = 1", 2, "needs a path below src/readtorch/", ""),
    "a path upward": ("#| into: ../a.py\nx = 1", 2, "needs a path below src/readtorch/", ""),
    "a backslash": ("#| into: nn\\a.py\nx = 1", 2, "needs a path below src/readtorch/", ""),
    "the tools": ("#| into: literate/a.py\nx = 1", 2, "written by hand", ""),
    "another suffix": ("#| into: a.txt\nx = 1", 2, "needs a .py, .cu or .cuh path", ""),
    "an empty folder": ("#| into: nn//a.py\nx = 1", 2, "needs a .py, .cu or .cuh path", ""),
    "no value": ("#| into:\nx = 1", 2, "into: needs a value", ""),
    "a value of a flag": ("#| test: yes\nx = 1", 2, "test: takes no value", ""),
    "a key twice": ("#| into: a.py\n#| into: b.py\nx = 1", 3, "into stands twice", "split the cell"),
    "imports without a file": ("#| imports\nimport os", 2, "imports needs into", ""),
    "differs without a claim": ("#| differs: because it does\nx = 1", 2, "differs needs claim", ""),
    "a tangled test": ("#| into: a.py\n#| test\nx = 1", 2, "into and test exclude each other", "split the cell"),
    "a tangled cell with needs": ("#| into: a.py\n#| needs: 03_norm\nx = 1", 2, "into and needs exclude", ""),
    "an anchor without after": ("#| into: a.py\n#| at: f\nx = 1", 3, "needs `after NAME`", ""),
    "a name with a blank": ("#| id: a b\nx = 1", 2, "needs a name", ""),
    "an upstream without a name": ("#| upstream: torch/nn/a.py\nx = 1", 2, "needs path#qualified.name", ""),
    "a directive too far down": ("x = 1\n#| test", 3, "below the first lines", "head of the cell"),
    "an unknown chapter": ("#| needs: 42_answers\nx = 1", 2, "no chapter '42_answers'", "there are 00_tensor"),
    "an earlier chapter": ("#| needs: 00_tensor\nx = 1", 2, "is no later chapter", "remove"),
    "a bad trace": ("#| trace: torch.nn layers=calls,lyres\nx = 1", 2, "has no layer 'lyres'", ""),
}


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused_with_its_line(case: str) -> None:
    text, line, message, way_out = REFUSED[case]
    found = [p for p in faults(text) if message in p.message]
    assert found, faults(text)
    assert found[0].place == f"chapters/02_module.py:{line}"
    assert way_out in found[0].way_out


def test_an_id_may_not_be_given_twice_in_a_part() -> None:
    (problem,) = faults("#| id: a\nx = 1", "#| id: a\ny = 1")
    assert (problem.line, problem.message) == (6, "id 'a' is taken at chapters/02_module.py:2")


@pytest.mark.parametrize(
    ("cells", "messages"),
    [
        (["exercise", "solution"], ["exercise 'e' has no check"]),
        (["exercise"], ["exercise 'e' has no check", "exercise 'e' has no solution"]),
        (["solution", "check"], ["solution 'e' has no exercise above it", "check 'e' has no exercise above it"]),
        (["exercise", "check", "solution"], ["check 'e' has no solution above it"]),
        (
            ["exercise", "exercise", "solution", "check"],
            ["exercise 'e' stands a second time (first at chapters/02_module.py:2)"],
        ),
    ],
)
def test_an_exercise_has_a_stub_a_solution_and_a_check(cells: list[str], messages: list[str]) -> None:
    found = faults(*(f"#| {key}: e\nx = 1" for key in cells))
    assert sorted(p.message for p in found) == sorted(messages)


def test_anchors_are_the_id_the_first_symbol_or_a_counter() -> None:
    parsed = parse_part(
        "# %% [markdown]\n# ## A Heading: here\n\n# %%\n1\n\n# %%\n#| id: mine\n2\n\n# %%\n#| into: a.py\nclass C:\n    x = 1\n\n"
        "# %%\n#| into: a.py\nclass C(C):\n    y = 1\n\n# %%\n3\n\n# %%\n#| into: a.py\nclass C(C):\n    y = 1\n",
        name="02_module",
        path="chapters/02_module.py",
    )
    assert list(parsed.ids.values()) == ["a-heading-here-1", "mine", "C", "C.y", "a-heading-here-5", "C.y-2"]


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        ("", TraceSpec()),
        ("torch.nn readtorch", TraceSpec(("torch.nn", "readtorch"))),
        ('layers=calls,ops values=summary steps=3 title="a b"', TraceSpec((), ("calls", "ops"), "summary", 3, "a b")),
        ("title=word torch", TraceSpec(("torch",), title="word")),
    ],
)
def test_trace_values(value: str, spec: TraceSpec) -> None:
    assert parse_trace(value) == spec


@pytest.mark.parametrize(
    "value",
    [
        "layers=nope", "values=all", "steps=0", "steps=x", "steps=-1", "colour=red", "steps=1 steps=2", "title=two words 3",
        'title="not closed', "layers=", "=", "a b=", "1torch",
    ],
)  # fmt: skip
def test_malformed_trace_values(value: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_trace(value)


@given(
    st.lists(st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8}){0,2}", fullmatch=True), max_size=3),
    st.lists(st.sampled_from(LAYERS), unique=True),
    st.sampled_from(["no", "summary"]),
    st.none() | st.integers(1, 10**6),
    st.text(st.characters(exclude_characters='"', exclude_categories=["C", "Z"]), max_size=20),
)
def test_what_is_written_is_read(
    packages: list[str], layers: list[str], values: str, steps: int | None, title: str
) -> None:
    text = " ".join(packages) + (f" layers={','.join(layers)}" if layers else "") + f" values={values}"
    text += (f" steps={steps}" if steps else "") + (f' title="{title}"' if title else "")
    assert parse_trace(text) == TraceSpec(tuple(packages), tuple(layers), values, steps, title)


@given(st.text(max_size=60).filter(lambda s: "\n" not in s))
def test_any_line_is_read_or_refused_and_never_crashes(text: str) -> None:
    with contextlib.suppress(LiterateError):
        assert part(f"#| {text}\nx = 1").cells[0].directives


# -- the reference page ----------------------------------------------------------------------------------------------


def test_the_reference_names_every_directive() -> None:
    page = REFERENCE.read_text(encoding="utf-8")
    for key in KEYS:
        assert re.search(rf"^\| `{key}", page, re.MULTILINE), key
        assert f'"{key}"' in page, f"{key} is missing from the grammar"
    for layer in LAYERS:
        assert f'"{layer}"' in page


def test_every_example_of_the_reference_is_a_chapter() -> None:
    page = REFERENCE.read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 8
    shown = set()
    for example in examples:
        parsed = parse_part(books.HEADER + example, name="02_module", path="docs/reference/directives.md")
        assert parsed.cells
        shown |= {d.key for cell in parsed.cells for d in cell.directives}
    assert shown == KEYS.keys()
