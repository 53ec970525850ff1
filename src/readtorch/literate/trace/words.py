"""Values in words: the same short texts in the fallback list, the Chrome export and the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Value = Sequence[Any]


def value_text(value: Value, modules: Sequence[Sequence[Any]] = ()) -> str:
    """One description as a reader would write it: `float32 (3, 4)`, `'text'`, `list of 3`."""
    kind = value[0]
    if kind == "t":
        return tensor_text(value)
    if kind == "z":
        return "None"
    if kind in "nb":
        return str(value[1])
    if kind == "s":
        return repr(value[1]) if value[2] <= len(value[1]) else f"{value[1]!r}… ({value[2]} characters)"
    if kind == "y":
        return f"{value[2]} bytes"
    if kind == "c":
        return f"{value[1]} of {value[2]}"
    if kind == "m" and value[1] is not None and value[1] < len(modules):
        path, name, _ = modules[value[1]]
        return f"{name} {path!r}" if path else name
    if kind == "e":
        return f"{value[1]}: {value[2]}" if value[2] else value[1]
    if kind == "o":
        return f"a {value[1]}"
    return str(value[1])


def tensor_text(value: Value) -> str:
    """Dtype, shape and, away from the CPU, device of a tensor."""
    shape = ", ".join(map(str, value[4])) + ("," if len(value[4]) == 1 else "")
    place = "" if value[5] in ("cpu", "numpy") else f" on {value[5]}"
    return f"{value[3]} ({shape}){place}"


def counted(number: int, one: str, several: str = "") -> str:
    """`1 call`, `2 calls`."""
    return f"{number} {one if number == 1 else several or one + 's'}"
