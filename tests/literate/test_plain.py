"""The plain executor gives what IPython's gives: on values of every kind, and on every part of the book."""

from __future__ import annotations

import base64
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from small_books import SmallBook, texts

from readtorch.literate.chapter import Book
from readtorch.literate.execute import Executor, PartResult
from readtorch.literate.pretty import pretty

VALUES = """
import collections, types
import numpy as np

class Plain: ...
class Shown:
    def __repr__(self): return "shown\\nin two lines"
class Rich:
    def _repr_html_(self): return "<i>rich</i>"
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": "<b>rich</b>", "application/vnd.x+json": {"a": 1}}
class Anything:
    def __getattr__(self, name): return lambda *a, **k: "no"
class Listed(list):
    def __repr__(self): return "listed"
class Subclass(list): ...
def function(x, *, y=1): ...
Pair = collections.namedtuple("Pair", "x y")
cycle = [1]; cycle.append(cycle)
nested = {"a": list(range(40)), "b": [{"c": "x" * 30, "d": ["y" * 40] * 3}]}
arrays = {f"layer{i}.weight": np.eye(2) for i in range(3)}
values = [
    1, 1.5, True, None, "text", b"bytes", "x" * 200, [], (), {}, set(), (1,), [1, 2], list(range(100)), list(range(1005)),
    {3, 1, 2}, {1, "a"}, frozenset({1}), nested, [[1] * 30] * 3, np.eye(2), [np.eye(2)] * 2, arrays, np.float32(1.5),
    collections.OrderedDict(arrays), collections.OrderedDict(), collections.defaultdict(list, a=[1]),
    collections.deque([1, 2]), collections.Counter("abca"), types.SimpleNamespace(a=1, b=[2]), types.MappingProxyType({1: 2}),
    Plain(), [Plain()], Plain, int, np.float32, [int, str], function, len, np, ValueError("x"), [KeyError("a", 1)], range(3),
    {"a": 1}.keys(), Pair(1, 2), Subclass([1]), Listed([1]), Shown(), [Shown(), Shown()], Rich(), cycle, object(), slice(1, 2),
    [("conv1.weight", (16, 1, 3, 3)), ("conv1.bias", (16,)), ("fc.weight", (10, 256))], {"k" * 20: {"v" * 20: {"w": 1}}},
]
"""


def comparable(result: PartResult) -> dict[int, Any]:
    """Outputs without what differs for a reason: seconds, the numbers that a run measured, and how its plots look of them."""
    return {index: [_timeless(output) for output in cell.outputs] for index, cell in result.cells.items()}


def _timeless(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(r"\d+(\.\d+)?(e-?\d+)? ?(s|ms|µs|ns|seconds|it/s|steps/s|times (slower|faster))\b", "TIME", value)
    if isinstance(value, list):
        return [_timeless(v) for v in value]
    if isinstance(value, dict):
        kept = {k: _timeless(v) for k, v in value.items() if not k.startswith("application/vnd.readtorch.")}
        if isinstance(png := value.get("image/png"), str):
            kept["image/png"] = struct.unpack(">II", base64.b64decode(png)[16:24])  # width and height
        return kept
    return value


def test_values_look_the_same_without_ipython() -> None:
    ipython = pytest.importorskip("IPython.lib.pretty")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(VALUES, namespace)
    for value in namespace["values"]:
        assert pretty(value) == ipython.pretty(value)


def test_cells_give_the_same_outputs_without_ipython(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    small = SmallBook(tmp_path)
    small.chapter(f"""
# %%
{VALUES.strip()}

# %%
for value in values:
    display(value)

# %%
Rich()

# %%
Anything()

# %%
display({{"text/plain": "raw", "text/html": "<b>raw</b>"}}, raw=True)
display(1, 2)
handle = display("before", display_id=True)
handle.update("after")

# %% tags=["raises-exception"]
import warnings
warnings.warn("careful")
{{}}["missing"]
""")
    with_ipython, without = small.run(), small.run(ipython=False)
    assert not with_ipython.problems
    assert comparable(without) == comparable(with_ipython)
    assert "'after'" in texts(without)
    assert "'before'" not in texts(without)


def test_figures_are_the_same_without_ipython(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    pytest.importorskip("matplotlib")
    small = SmallBook(tmp_path)
    small.chapter("""
        # %%
        import matplotlib.pyplot as plt
        figure, axes = plt.subplots(figsize=(2, 1))
        axes.plot([1, 3, 2])
        plt.show()
        print("between")
        plt.plot([1, 2])
        figure

        # %%
        display(figure)
        """)
    with_ipython, without = small.run(), small.run(ipython=False)
    assert not with_ipython.problems
    assert comparable(without) == comparable(with_ipython)
    kinds = [sorted(o.get("data", {"stream": 0})) for o in without.cells[0].outputs]
    assert kinds.count(["image/png", "text/plain"]) == 3


def test_the_plain_executor_imports_no_ipython(tmp_path: Path) -> None:
    small = SmallBook(tmp_path)
    small.chapter("""
        # %%
        import sys
        print([m for m in sys.modules if m in ("IPython", "traitlets", "mat" "plotlib", "jupytext")])
        """)
    assert texts(small.run(ipython=False)) == ["[]\n"]


@pytest.mark.parametrize("ipython", [True, False])
def test_a_repr_that_fails_is_a_fault_of_the_line_that_shows_it(tmp_path: Path, ipython: bool) -> None:
    small = SmallBook(tmp_path)
    small.chapter("""
        # %%
        class Broken:
            def __repr__(self): raise RuntimeError("no text")
        x = 1
        [Broken()]
        """)
    (problem,) = small.run(ipython=ipython).problems
    assert problem.line == small.line_of("[Broken()]")
    assert problem.message.startswith("RuntimeError: no text")
    assert "literate" not in problem.message
    assert "IPython" not in problem.message


@pytest.fixture(scope="module")
def whole_book() -> tuple[Book, dict[str, PartResult], dict[str, PartResult]]:
    """The book's results with IPython and without."""
    pytest.importorskip("IPython")
    book = Book.load()
    parts = list(book.parts)
    return book, Executor(book).run(parts), Executor(book, ipython=False).run(parts)


@pytest.mark.slow
@pytest.mark.book
def test_every_part_of_the_book_gives_the_same_outputs_without_ipython(
    whole_book: tuple[Book, dict[str, PartResult], dict[str, PartResult]],
) -> None:
    book, ours, plain = whole_book
    assert not [part.name for part in book.parts if ours[part.name].problems]
    differing = {}
    for part in book.parts:
        one, other = comparable(plain[part.name]), comparable(ours[part.name])
        differing |= {f"{part.name}, cell {n}": (one[n], other[n]) for n in one if one[n] != other[n]}
    assert differing == {}
