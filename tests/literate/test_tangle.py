"""What tangle makes of cells, and what it refuses."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import books
import pytest
from hypothesis import HealthCheck, given, settings

from readtorch.literate.chapter import Book, parse_part
from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.tangle import tangle

DRAWN: list[books.Drawn] = []


def book(**parts: str) -> Book:
    """A book of parts `c00_tensor="# %%…"` (a leading c stands for nothing)."""
    parsed = [
        parse_part(text, name=name.removeprefix("c"), path=f"chapters/{name.removeprefix('c')}.py")
        for name, text in parts.items()
    ]
    return Book(Path("/nowhere"), tuple(parsed))


def body(text: str, path: str = "a.py") -> str:
    """The tangled text of `path` below its header, from one part."""
    return tangle(book(c02_module=text))[path].text.partition("\n")[2]


def faults(**parts: str) -> list[Problem]:
    with pytest.raises(LiterateError) as caught:
        tangle(book(**parts))
    return caught.value.problems


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(books.books())
def _collect(drawn: books.Drawn) -> None:
    DRAWN.append(drawn)


def test_generated_packages_are_fixed_points_of_ruff(tmp_path: Path) -> None:
    """Both of `ruff format` and of its import sorting, and so nobody's editor changes a tangled file on save."""
    _collect()
    written = 0
    for number, drawn in enumerate(DRAWN):
        for path, file in tangle(drawn.book()).items():
            target = tmp_path / str(number) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(file.text)
            written += path.endswith(".py")
    assert written > 100
    (tmp_path / "ruff.toml").write_text(
        'line-length = 120\ntarget-version = "py311"\n[lint]\nselect = ["I"]\nper-file-ignores = {"__init__.py" = ["I"]}\n'
        '[lint.isort]\nknown-first-party = ["readtorch"]\n'
    )
    for arguments in (["format", "--diff", "."], ["check", "."]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[:3000]


@settings(max_examples=150, deadline=None)
@given(books.books())
def test_every_line_comes_from_its_chapter_line(drawn: books.Drawn) -> None:
    """The line map is true: but for the header, blank glue and re-set imports, a line is the text at its chapter line."""
    for file in tangle(drawn.book()).values():
        assert file.lines[0].part_path is None
        for number, line in enumerate(file.lines[1:], 1):
            if line.part_path is None:
                assert line.text == ""
                continue
            assert line.chapter_line is not None
            chapter = drawn.parts[line.part_path.removeprefix("chapters/").removesuffix(".py")].split("\n")
            if number not in file.imports:
                assert chapter[line.chapter_line - 1] == line.text


@settings(max_examples=150, deadline=None)
@given(books.books())
def test_nothing_is_lost_and_every_python_file_parses(drawn: books.Drawn) -> None:
    loaded = drawn.book()
    tangled = tangle(loaded)
    for file in tangled.values():
        if not file.path.endswith(".py"):
            continue
        ast.parse(file.text)
        for cell in file.cells:
            reopened = 1 if cell.reopens else 0
            wanted = [] if cell.has("imports") else [x for x in cell.code.split("\n")[reopened:] if x.strip()]
            lines = [line.text for line in file.lines if line.cell is cell and line.text.strip()]
            if wanted:
                assert lines == wanted


def test_cells_are_appended_in_the_order_of_the_book() -> None:
    made = tangle(
        book(
            c00_tensor="# %%\n#| into: a.py\nx = 1\n",
            c02_module="# %%\n#| into: a.py\ny = 2\n\n# %%\nnot_tangled = 1\n\n# %%\n#| into: b.py\nz = 3\n",
        )
    )
    header = (
        "# Tangled from chapters/00_tensor.py, chapters/02_module.py — edit there, or here and run `readtorch sync`."
    )
    assert made["a.py"].text == f"{header}\n\nx = 1\n\ny = 2\n"
    assert sorted(made) == ["a.py", "b.py"]


def test_a_reopened_class_becomes_one_class() -> None:
    text = """\
# %%
#| into: a.py
class M:
    '''Doc.'''

    def a(self): ...
    # the end of a


def helper(): ...

# %%
#| into: a.py
class M(M):
    # why b
    def b(self): ...

    x = 1
"""
    assert body(text) == (
        "\n\nclass M:\n    '''Doc.'''\n\n    def a(self): ...\n    # the end of a\n\n    # why b\n    def b(self): ...\n\n"
        "    x = 1\n\n\ndef helper(): ...\n"
    )


def test_at_places_a_definition_or_a_member_after_a_name() -> None:
    text = """\
# %%
#| into: a.py
class M:
    def a(self): ...

    def c(self): ...


def f(): ...

# %%
#| into: a.py
#| at: after M.a
class M(M):
    def b(self): ...

# %%
#| into: a.py
#| at: after a
class M(M):
    def b2(self): ...

# %%
#| into: a.py
#| at: after M
def g(): ...
"""
    defined = [line.strip().split("(")[0] for line in body(text).splitlines() if line.strip()]
    assert defined == ["class M:", "def a", "def b", "def b2", "def c", "def g", "def f"]


def test_docstring_then_future_then_sorted_imports_then_type_checking() -> None:
    text = '''\
# %%
#| into: a.py
"""The module."""

# %%
#| into: a.py
def f(): ...

# %%
#| into: a.py
#| imports
from readtorch.c10 import x
import numpy as np
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from readtorch import Tensor

# %%
#| into: a.py
#| imports
from __future__ import annotations
from typing import Any
import os
'''
    assert body(text) == (
        '"""The module."""\n\nfrom __future__ import annotations\n\nimport os\nfrom typing import TYPE_CHECKING, Any\n\n'
        "import numpy as np\n\nfrom readtorch.c10 import x\n\nif TYPE_CHECKING:\n    from readtorch import Tensor\n\n\n"
        "def f(): ...\n"
    )


def test_an_init_file_keeps_its_order() -> None:
    text = "# %%\n#| into: nn/__init__.py\nimport z\n\n# %%\n#| into: nn/__init__.py\n#| imports\nimport a\n"
    assert body(text, "nn/__init__.py") == "\nimport z\n\nimport a\n"


def test_a_cuda_source_is_the_content_of_its_raw_strings() -> None:
    text = '# %%\n#| into: k.cu\nKERNEL = r"""\n#define A \\\n    1\n"""\n\n# %%\n#| into: k.cu\nr"""\nint x;\n"""\n'
    made = tangle(book(c02_module=text))["k.cu"]
    assert made.text.splitlines() == [
        "// Tangled from chapters/02_module.py — edit there, or here and run `readtorch sync`.",
        "#define A \\",
        "    1",
        "",
        "int x;",
    ]
    assert [line.chapter_line for line in made.lines] == [None, 4, 5, None, 11]


def test_a_file_of_many_parts_names_their_folders() -> None:
    parts = {f"00_tensor/{n}_a_part_with_a_name": f"# %%\n#| into: a.py\nx{n} = 1\n" for n in range(5)}
    header = tangle(book(**parts))["a.py"].lines[0].text
    assert header == "# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`."


REFUSED = {
    "a function twice": (
        "# %%\n#| into: a.py\ndef f(): ...\n\n# %%\n#| into: a.py\ndef f(): ...\n",
        [(7, "f is defined a second time in a.py (first at chapters/02_module.py:3)")],
    ),
    "a member twice, in two fragments": (
        "# %%\n#| into: a.py\nclass M:\n    def f(self): ...\n\n# %%\n#| into: a.py\nclass M(M):\n    def f(self): ...\n",
        [(9, "M.f is defined a second time in a.py (first at chapters/02_module.py:4)")],
    ),
    "a member twice, in one class": (
        "# %%\n#| into: a.py\nclass M:\n    x = 1\n\n    def x(self): ...\n",
        [(6, "M.x is defined a second time")],
    ),
    "a re-open without an opening": (
        "# %%\n#| into: a.py\nclass M(M):\n    x = 1\n",
        [(3, "no earlier cell opens it")],
    ),
    "a re-open above its opening": (
        "# %%\n#| into: a.py\nclass M(M):\n    x = 1\n\n# %%\n#| into: a.py\nclass M:\n    y = 1\n",
        [(3, "no earlier cell opens it")],
    ),
    "a re-open with other bases": (
        "# %%\n#| into: a.py\nclass M:\n    x = 1\n\n# %%\n#| into: a.py\nclass M(M, Base):\n    y = 1\n",
        [(8, "cannot change bases or metaclass (class M is opened at chapters/02_module.py:3)")],
    ),
    "a re-open with a metaclass": (
        "# %%\n#| into: a.py\nclass M:\n    x = 1\n\n# %%\n#| into: a.py\nclass M(M, metaclass=T):\n    y = 1\n",
        [(8, "cannot change bases or metaclass")],
    ),
    "a decorated re-open": (
        "# %%\n#| into: a.py\nclass M:\n    x = 1\n\n# %%\n#| into: a.py\n@final\nclass M(M):\n    y = 1\n",
        [(8, "cannot be decorated")],
    ),
    "a docstring in a re-open": (
        "# %%\n#| into: a.py\nclass M:\n    x = 1\n\n# %%\n#| into: a.py\nclass M(M):\n    'Doc.'\n    y = 1\n",
        [(9, "cannot have a class docstring")],
    ),
    "slots in a re-open": (
        "# %%\n#| into: a.py\nclass M:\n    x = 1\n\n# %%\n#| into: a.py\nclass M(M):\n    __slots__ = ('y',)\n",
        [(9, "cannot declare __slots__")],
    ),
    "a placeholder that would stay": (
        "# %%\n#| into: a.py\nclass M:\n    ...\n\n# %%\n#| into: a.py\nclass M(M):\n    y = 1\n",
        [(8, "only a placeholder")],
    ),
    "a class on one line": (
        "# %%\n#| into: a.py\nclass M: pass\n\n# %%\n#| into: a.py\nclass M(M):\n    y = 1\n",
        [(7, "on one line cannot be joined")],
    ),
    "a comment above a re-open": (
        "# %%\n#| into: a.py\nclass M:\n    x = 1\n\n# %%\n#| into: a.py\n# lost\nclass M(M):\n    y = 1\n",
        [(8, "would be lost")],
    ),
    "a re-open beside other code": (
        "# %%\n#| into: a.py\nclass M:\n    x = 1\n\n# %%\n#| into: a.py\nclass M(M):\n    y = 1\n\n\nz = 1\n",
        [(8, "beside other code")],
    ),
    "an anchor that is not there": (
        "# %%\n#| into: a.py\nx = 1\n\n# %%\n#| into: a.py\n#| at: after nowhere\ny = 1\n",
        [(7, "nothing called 'nowhere' in a.py")],
    ),
    "an import in the middle": ("# %%\n#| into: a.py\nx = 1\n\nimport os\n", [(5, "middle of a module")]),
    "code in an imports cell": ("# %%\n#| into: a.py\n#| imports\nimport os\n\nx = 1\n", [(6, "nothing else")]),
    "a relative import": (
        "# %%\n#| into: a.py\ndef f():\n    from . import b\n",
        [(4, "relative import does not run in a notebook")],
    ),
    "a cell without code": ("# %%\n#| into: a.py\n\n# %%\nx = 1\n", [(1, "no code to put into a.py")]),
    "a hidden cell": ('# %% tags=["hide-input"]\n#| into: a.py\nx = 1\n', [(1, "cannot be tagged hide-input")]),
    "no raw string in a CUDA cell": ('# %%\n#| into: k.cu\n"""\nint x;\n"""\n', [(3, "one raw string literal")]),
    "a docstring below the first cell": (
        "# %%\n#| into: a.py\nx = 1\n\n# %%\n#| into: a.py\n#| imports\n'''Doc.'''\nimport os\n",
        [(8, "module docstring")],
    ),
    "an import with a comment to be merged": (
        "# %%\n#| into: a.py\n#| imports\nfrom os import path  # why\n\n# %%\n#| into: a.py\n#| imports\nfrom os import sep\n",
        [(4, "cannot be merged with the one at chapters/02_module.py:9")],
    ),
    "one name for two things": (
        "# %%\n#| into: a.py\n#| imports\nfrom os import path\n\n# %%\n#| into: a.py\n#| imports\nfrom sys import path\n",
        [(9, "path means sys.path here, and os.path at chapters/02_module.py:4, both in a.py")],
    ),
    "several faults, listed together": (
        "# %%\n#| into: a.py\nclass M(M):\n    x = 1\n\n# %%\n#| into: b.py\nimport os\n\n# %%\n#| into: c.py\n\n# %%\n1\n",
        [(3, "no earlier cell"), (8, "middle of a module"), (10, "no code")],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused_with_chapter_and_line(case: str) -> None:
    text, wanted = REFUSED[case]
    found = faults(c02_module=text)
    assert [p.line for p in found] == [line for line, _ in wanted], found
    for problem, (_, message) in zip(found, wanted, strict=True):
        assert problem.path == "chapters/02_module.py"
        assert message in problem.message
        assert problem.way_out


def test_overloads_setters_and_registrations_may_repeat_a_name() -> None:
    text = """\
# %%
#| into: a.py
class M:
    @property
    def x(self): ...

    @x.setter
    def x(self, value): ...

    @overload
    def f(self, a: int): ...

    @overload
    def f(self, a: str): ...

    def f(self, a): ...


@go.register
def _(a): ...


@go.register
def _(a): ...
"""
    assert body(text).count("def f") == 3


def test_a_chapter_does_not_import_from_a_later_one() -> None:
    found = faults(
        c00_tensor="# %%\n#| into: a.py\n#| imports\nfrom readtorch.nn import functional\nimport readtorch.b\n",
        c02_module="# %%\n#| into: nn/functional.py\nx = 1\n\n# %%\n#| into: b.py\ny = 1\n",
    )
    assert [(p.line, p.path) for p in found] == [(4, "chapters/00_tensor.py"), (5, "chapters/00_tensor.py")]
    assert "nn/functional.py, which only the later chapter 02_module provides" in found[0].message


def test_a_chapter_does_not_import_a_name_that_a_later_one_adds_to_an_early_file() -> None:
    found = faults(
        c00_tensor="# %%\n#| into: b.py\ny = 1\n\n# %%\n#| into: a.py\n#| imports\nfrom readtorch.b import late, y\n",
        c02_module="# %%\n#| into: b.py\nlate = 1\n",
    )
    assert [p.message for p in found] == ["imports late of b.py, which only the later chapter 02_module provides"]


def test_later_chapters_may_be_imported_inside_functions_and_for_typing() -> None:
    tangle(
        book(
            c00_tensor=(
                "# %%\n#| into: a.py\n#| imports\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
                "    from readtorch.b import y\n\n# %%\n#| into: a.py\ndef f():\n    from readtorch.b import y\n\n    return y\n"
            ),
            c02_module="# %%\n#| into: b.py\ny = 1\n",
        )
    )


def test_what_did_not_change_is_not_parsed_or_tangled_again(tmp_path: Path) -> None:
    drawn = books.Drawn(
        {
            "00_tensor": books.HEADER + "# %%\n#| into: a.py\nx = 1\n\n# %%\n#| into: b.py\ny = 1\n",
            "02_module": books.HEADER + "# %%\n#| into: b.py\nz = 1\n",
        }
    )
    drawn.write(tmp_path)
    first = Book.load(tmp_path)
    before = tangle(first)
    drawn.parts["02_module"] = drawn.parts["02_module"].replace("z = 1", "z = 2")
    drawn.write(tmp_path)
    second = Book.load(tmp_path, first)
    after = tangle(second, before)
    assert second.parts[0] is first.parts[0]
    assert second.parts[1] is not first.parts[1]
    assert after["a.py"] is before["a.py"]
    assert "z = 2\n" in after["b.py"].text
    assert {path: file.text for path, file in after.items()} == {
        path: file.text for path, file in tangle(Book.load(tmp_path)).items()
    }
