"""What is run of each line of the parity tables, and what is not, with the reason.

`python tests/parity/cells.py` prints the cells as JSON, from which the site's pages "What is here" are made: tests and pages
speak of the same table. `left_out.txt` and `left_out_layers.txt` list the cells in which the libraries differ, id and reason; they
run too, and a cell that has come to agree must be taken off.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from listed import reasons
from parity_table import Case, op

FLOATS = ("float64", "float32")
NARROW = ("float16", "bfloat16")
COUNTS = ("int64", "uint8", "bool")
LISTS = ("left_out.txt", "left_out_layers.txt")
LAYOUTS = ("contiguous", "strided", "broadcast", "scalar", "empty")


@dataclass(frozen=True)
class Cell:
    """One run of one line. `reason` is empty unless the libraries are known to differ."""

    case: Any
    dtype: str
    layout: str
    id: str
    reason: str = ""


@cache
def left_out() -> dict[str, str]:
    """Cell id to reason."""
    return {cell: reason for name in LISTS for cell, reason in reasons(name).items()}


def _kinds(case: Case) -> Iterator[tuple[str, str]]:
    """A layout is a matter of addresses, so the types beside float64 and float32 run in memory order, and as one number."""
    if not any(entry.kind == "float" for entry in case.inputs):
        yield from (("int64", layout) for layout in LAYOUTS)
        return
    yield from ((dtype, layout) for dtype in FLOATS for layout in LAYOUTS)
    for dtype in (*NARROW, *COUNTS):
        yield dtype, "contiguous"
        if "scalar" in case.layouts:
            yield dtype, "scalar"


@cache
def operator_cells() -> tuple[Cell, ...]:
    cells = []
    seen: set[str] = set()
    for case in op.cases:
        for dtype, layout in _kinds(case):
            name = f"{case.id}-{'x'.join(str(len(entry.shape)) for entry in case.inputs)}-{dtype}-{layout}"
            while name in seen:
                name += "'"
            seen.add(name)
            cells.append(Cell(case, dtype, layout, name, left_out().get(name, "")))
    return tuple(cells)


@cache
def layer_cells(table: str) -> tuple[Cell, ...]:
    """Of nn.functional ("functional") or of the modules ("layers"): no layout changes what half precision or integers do."""
    from beside import LAYOUTS as LAID
    from functional_table import CASES
    from layers_table import CASES as MODULES

    found = []
    for case in CASES if table == "functional" else MODULES:
        kinds = [(dtype, layout) for dtype in FLOATS for layout in LAID]
        kinds += [(dtype, layout) for dtype in (*NARROW, "int64") for layout in ("contiguous", "scalar")]
        for dtype, layout in kinds:
            name = f"{case.name}-{dtype}-{layout}"
            found.append(Cell(case, dtype, layout, name, left_out().get(name, "")))
    return tuple(found)


def _layer_rows(table: str) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for cell in layer_cells(table):
        text = cell.case.name
        row = rows.setdefault(
            text,
            {
                "name": re.split(r"[ ,(]", text)[0],
                "line": text,
                "cells": [],
                "left_out": [],
                "backward": cell.case.grad,
                "twice": cell.case.grad,
            },
        )
        if cell.reason:
            row["left_out"].append([cell.dtype, cell.layout, cell.reason])
        else:
            row["cells"].append([cell.dtype, cell.layout])
    return list(rows.values())


_CALLED = re.compile(r"(?:\bt|[abc)])\.((?:linalg\.)?[a-zA-Z_]\w*)")
_PREPARES = (
    "detach",
    "double",
    "half",
    "contiguous",
    "clone",
    "tensor",
    "eye",
    "to",
    "round",
    "dtype",
    "float64",
    "mT",
    "sort",
)
_SYMBOLS = {
    "//": "floor_divide", "**": "pow", "==": "eq", "!=": "ne", "<=": "le", ">=": "ge", "<<": "bitwise_left_shift",
    ">>": "bitwise_right_shift", "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "remainder", "@": "matmul",
    "<": "lt", ">": "gt", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "~": "bitwise_not",
}  # fmt: skip
_BINARY = re.compile(r"^[\w.]+ (\S+) -?[\w.]+$")


def operator_of(expression: str) -> str:
    """The operator that a line is about: the first that it names, after what prepares its inputs."""
    if found := _BINARY.match(expression):
        return _SYMBOLS[found[1]]
    if expression in ("-a", "~a", "abs(a)"):
        return {"-a": "neg", "~a": "bitwise_not", "abs(a)": "abs"}[expression]
    if expression.startswith("a["):
        return "indexing"
    if expression.startswith("(lambda"):
        return "writing through views"
    names = _CALLED.findall(expression)
    return next((name for name in names if name not in _PREPARES), names[0])


def rows() -> dict[str, list[dict[str, Any]]]:
    """By table, a row for every line: its operator, what it runs, and what is left out."""
    operators: dict[int, dict[str, Any]] = {}
    for cell in operator_cells():
        row = operators.setdefault(
            id(cell.case),
            {
                "name": operator_of(cell.case.expression),
                "line": cell.case.expression,
                "cells": [],
                "left_out": [],
                "backward": cell.case.grad,
                "twice": cell.case.grad and cell.case.double,
            },
        )
        kind = "left_out" if cell.reason else "cells"
        row[kind].append([cell.dtype, cell.layout, cell.reason] if cell.reason else [cell.dtype, cell.layout])
    return {
        "operators": list(operators.values()),
        "functional": _layer_rows("functional"),
        "layers": _layer_rows("layers"),
    }


if __name__ == "__main__":
    json.dump(rows(), sys.stdout)
