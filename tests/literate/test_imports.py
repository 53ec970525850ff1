"""Merged imports stand as `ruff check --select I` and `ruff format` would leave them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readtorch.literate.imports import Import, merge, read_imports

MODULES = [
    "__future__",
    "abc",
    "os",
    "os.path",
    "collections.abc",
    "typing",
    "numpy",
    "numpy.typing",
    "cupy",
    "ml_dtypes",
    "_thread",
    "readtorch",
    "readtorch.nn",
    "readtorch.nn.modules.module",
    "readtorch.nn.modules.module2",
    "readtorch.nn.modules.module10",
    "readtorch._C",
    "readtorch.c10.core.tensor_impl",
    "Zebra",
]
NAMES = [
    "Tensor",
    "tensor",
    "TENSOR",
    "_C",
    "F",
    "x1",
    "x2",
    "x10",
    "nn",
    "Module",
    "abc",
    "ABC",
    "_private",
    "__all__",
    "aB",
]


def read(text: str) -> list[Import]:
    return read_imports(ast.parse(text).body, text.split("\n"), 1)


def render(imports: list[Import]) -> str:
    return "\n\n".join("\n".join(line for s in sec for line in s.lines) for sec in merge(imports)) + "\n"


@st.composite
def statements(draw: st.DrawFn) -> str:
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        module = draw(st.sampled_from(MODULES))
        if module == "__future__":
            lines.append("from __future__ import annotations")
        elif draw(st.booleans()):
            alias = draw(st.sampled_from(["", "", " as zz", " as aa"]))
            lines.append(f"import {module}{alias}")
        else:
            names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=12, unique=True))
            names = [n + draw(st.sampled_from(["", "", "", " as alias", " as Other"])) for n in names]
            names += [f"quite_a_long_name_{k}" for k in range(draw(st.sampled_from([0, 0, 0, 5])))]
            if draw(st.integers(0, 5)):
                lines.append(f"from {module} import {', '.join(names)}")
            else:
                lines.append(f"from {module} import (\n    " + ",\n    ".join(names) + ",\n)")
    # `from __future__` must be legal where it stands; the order of the rest is left wild.
    return "\n".join(sorted(lines, key=lambda line: "__future__" not in line)) + "\n"


EXAMPLES: list[str] = []


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(statements())
def _collect(text: str) -> None:
    EXAMPLES.append(text)


def ruff(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ruff", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def test_generated_imports_are_sorted_as_ruff_sorts_them(tmp_path: Path) -> None:
    EXAMPLES.clear()
    _collect()
    (tmp_path / "ruff.toml").write_text(
        'line-length = 120\ntarget-version = "py311"\n[lint]\nselect = ["I"]\n'
        '[lint.isort]\nknown-first-party = ["readtorch"]\n'
    )
    for number, text in enumerate(EXAMPLES):
        (tmp_path / f"f{number}.py").write_text(text)
    ruff("check", "--fix", "--quiet", ".", cwd=tmp_path)
    ruff("format", "--quiet", ".", cwd=tmp_path)
    assert len(EXAMPLES) >= 200
    for number, text in enumerate(EXAMPLES):
        assert render(read(text)) == (tmp_path / f"f{number}.py").read_text(), text


def test_imports_of_one_module_are_merged_and_said_once() -> None:
    text = "from os import path\nfrom os import getcwd, path\nimport sys\nimport sys\n"
    assert render(read(text)) == "import sys\nfrom os import getcwd, path\n"


def test_a_statement_with_a_comment_moves_as_it_stands() -> None:
    text = "import sys\nfrom os import path  # the only one\nimport abc\n"
    assert render(read(text)) == "import abc\nimport sys\nfrom os import path  # the only one\n"


@pytest.mark.parametrize(("width", "lines"), [(120, 1), (121, 5)])
def test_a_line_is_broken_above_120_columns(width: int, lines: int) -> None:
    head = "from readtorch import aaa, bbb, "
    text = head + "c" * (width - len(head)) + "\n"
    assert len(render(read(text)).splitlines()) == lines
