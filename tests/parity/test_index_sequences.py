"""Lists and other sequences between brackets, beside PyTorch 2.13.0: read as one tensor of positions, or as a tuple with a warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

INDICES = """
[[0, 1]] | [[0, 1], [0, 2]] | [T([0, 1]), T([1, 2])] | [0, 1] | [0, T(1)] | [T(0), T(1)] | [None, 0] | [..., 0] | [slice(0, 1), 0] | [0, slice(None)]
[True, False] | [[True, False], [0]] | [] | [[]] | [()] | [(0, 1), (0, 2)] | ([[0, 1]],) | (0, [[0, 1], [1, 2]]) | [0, [1]] | [[[0, 1]]] | [[0, 1], None]
[0] * 31 | [0] * 33 | [[0]] * 31 | [[0]] * 32 | [[0]] * 33 | [0] * 30 + [None] | [0] * 40 + [[0]] | [np.array([0, 1])] | [np.array([0, 1]), np.array([0, 2])]
[np.int64(1), np.int64(0)] | np.array([[0, 1], [1, 1]]) | [range(2)] | range(2) | [0.5] | [[0.5]] | [0.5, 1] | ["a"] | "a" | [T([True, False])] | [[T(0), T(1)]]
"""
#: To assign by one, upstream's masked_fill_ wants a mask of bool; here both are masks.
BYTE_MASKS = (
    "T([1, 0], dtype=torch.uint8)",
    "(slice(None), T([1, 0, 1], dtype=torch.uint8))",
    "[T([1, 0], dtype=torch.uint8)]",
)
LISTED = [item.strip() for line in INDICES.strip().splitlines() for item in line.split(" | ")]


def outcome(library: Any, text: str, *, write: bool) -> tuple[Any, list[str]]:
    x = library.arange(24).reshape(2, 3, 4)
    index = eval(text, {"T": library.tensor, "np": np, "torch": library})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if write:
                x[index] = library.tensor([5])
            else:
                x = x[index]
            found: Any = tuple(x.shape), x.tolist()
        except Exception as error:
            found = type(error).__name__
    assert all(warning.filename == __file__ for warning in caught)
    return found, [" ".join(str(warning.message).split()[:4]) for warning in caught]


@pytest.mark.parametrize(
    ("text", "write"),
    [*((text, write) for text in LISTED for write in (False, True)), *((t, False) for t in BYTE_MASKS)],
)
def test_sequences_are_read_as_upstream_reads_them(text: str, write: bool) -> None:
    ours, theirs = outcome(readtorch, text, write=write), outcome(torch, text, write=write)
    assert ours == theirs
