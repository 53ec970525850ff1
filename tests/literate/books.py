"""Hypothesis strategies for small books: several files, re-opened classes, imports, `at:`, CUDA sources."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

from readtorch.literate.chapter import Book, parse_part

HEADER = "# ---\n# jupyter:\n#   jupytext:\n#     comment_magics: false\n# ---\n\n"
PARTS = ("00_tensor/1_first", "00_tensor/2_second", "02_module", "03_norm")
MODULE_IMPORTS = [
    "import os",
    "import math",
    "import numpy as np",
    "from typing import Any",
    "from typing import Any, Literal",
    "from collections.abc import Callable, Iterator",
    "from os import path as where",
    "import abc  # why it is here",
]
BODIES = [
    "return 1",
    'if value:\n    return value\n\n# nothing to do\nreturn "none"',
    'text = """\n# %% no marker\n\n  indented\n"""\nreturn text',
    "total = 0\nfor k in range(value):\n    total += k\nreturn total",
    "#: a side note\nreturn [\n    value,\n    value + 1,\n]",
]


def indent(text: str, by: int = 4) -> str:
    """Indent what is not inside a triple-quoted string."""
    quoted, result = False, []
    for line in text.split("\n"):
        result.append(" " * by + line if line and not quoted else line)
        quoted ^= line.count('"""') % 2 == 1
    return "\n".join(result)


@dataclass
class Growing:
    """One file while its cells are drawn."""

    path: str
    names: list[str] = field(default_factory=list)
    classes: dict[str, list[str]] = field(default_factory=dict)
    cells: int = 0


@dataclass
class Drawn:
    """The texts of the parts by name."""

    parts: dict[str, str]

    def book(self, root: Path = Path("/nowhere")) -> Book:
        parsed = [
            parse_part(text, name=name, path=f"chapters/{name}.py", file=root / "chapters" / f"{name}.py")
            for name, text in self.parts.items()
        ]
        return Book(root, tuple(parsed))

    def write(self, root: Path) -> None:
        for name, text in self.parts.items():
            file = root / "chapters" / f"{name}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        (root / "src" / "readtorch").mkdir(parents=True, exist_ok=True)


def function(name: str, body: str, method: bool = False, decorator: str = "") -> str:
    arguments = "self, value: int = 0" if method else "value: int = 0"
    return f"{decorator}def {name}({arguments}) -> object:\n{indent(body)}"


@st.composite
def statement(draw: st.DrawFn, file: Growing) -> str:
    name = f"name{len(file.names)}"
    kind = draw(st.sampled_from(["function", "function", "constant", "commented", "class", "guarded"]))
    file.names.append(name)
    body = draw(st.sampled_from(BODIES))
    if kind == "constant":
        return f"{name} = {draw(st.integers(0, 9))}"
    if kind == "commented":
        return f"# About {name}.\n{function(name, body)}"
    if kind == "guarded":
        return f"if {draw(st.booleans())}:\n\n{indent(function(name, body))}"
    if kind == "class":
        file.classes[name] = ["m0"]
        return f'class {name}:\n    """A class."""\n\n{indent(function("m0", body, method=True))}'
    return function(name, body, decorator=draw(st.sampled_from(["", "", "@staticmethod\n"])))


@st.composite
def member(draw: st.DrawFn, file: Growing, name: str) -> str:
    members = file.classes[name]
    new = f"m{len(members)}"
    members.append(new)
    kind = draw(st.sampled_from(["method", "method", "attribute", "commented", "property"]))
    body = draw(st.sampled_from(BODIES))
    if kind == "attribute":
        return f"    {new}: int = {draw(st.integers(0, 9))}"
    if kind == "property":
        return indent(function(new, body, method=True, decorator="@property\n"))
    text = indent(function(new, body, method=True))
    return f"    # About {new}.\n{text}" if kind == "commented" else text


@st.composite
def cell(draw: st.DrawFn, file: Growing) -> str:
    head = f"# %%\n#| into: {file.path}\n"
    first, file.cells = file.cells == 0, file.cells + 1
    if file.path.endswith(".cu"):
        return f'{head}r"""\n__global__ void k{file.cells}(float *x) {{\n    x[0] = {file.cells};\n}}\n"""'
    package = file.path.endswith("__init__.py")
    if first and draw(st.booleans()):
        return f'{head}"""About {file.path}."""' + draw(st.sampled_from(["", "\n\nSTART = 1"]))
    kind = draw(st.sampled_from(["imports", "statements", "statements", "reopen", "reopen"]))
    if kind == "imports":
        lines = draw(st.lists(st.sampled_from(MODULE_IMPORTS), min_size=1, max_size=4, unique=True))
        if package:
            return head + "\n".join(lines)
        if draw(st.booleans()):
            lines.append("from typing import TYPE_CHECKING")
            guarded = draw(st.sampled_from(["import types", "from readtorch.nn import later"]))
            lines += ["", "if TYPE_CHECKING:", f"    {guarded}"]
        return f"{head}#| imports\n" + "\n".join(lines)
    if kind == "reopen" and file.classes:
        name = draw(st.sampled_from(sorted(file.classes)))
        known = list(file.classes[name])
        members = draw(st.lists(member(file, name), min_size=1, max_size=3))
        if draw(st.integers(0, 3)) == 0:
            anchor = draw(st.sampled_from(known))
            head += f"#| at: after {draw(st.sampled_from([anchor, f'{name}.{anchor}']))}\n"
        return f"{head}class {name}({name}):\n" + "\n\n".join(members)
    known = list(file.names)
    pieces = [draw(statement(file))]
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        pieces += ["\n\n\n", draw(statement(file))]
    if known and draw(st.integers(0, 4)) == 0:
        head += f"#| at: after {draw(st.sampled_from(known))}\n"
    return head + "".join(pieces)


@st.composite
def books(draw: st.DrawFn) -> Drawn:
    """A book that tangles without a fault."""
    paths = ["a.py", "nn/b.py", "nn/__init__.py", "nn/k.cu"]
    files = [Growing(p) for p in draw(st.lists(st.sampled_from(paths), min_size=1, max_size=3, unique=True))]
    parts = {}
    for name in PARTS[: draw(st.integers(1, len(PARTS)))]:
        pieces = [HEADER]
        for _ in range(draw(st.integers(1, 5))):
            pieces.append(draw(cell(draw(st.sampled_from(files)))) + "\n\n")
            if draw(st.booleans()):
                pieces.append(draw(st.sampled_from(["# %% [markdown]\n# Some prose.\n\n", "# %%\n1 + 1\n\n"])))
        parts[name] = re.sub(r"\n+\Z", "\n", "".join(pieces))
    return Drawn(parts)
