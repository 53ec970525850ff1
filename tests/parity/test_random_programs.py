"""Random small programs that write, view, detach and switch recording on and off, beside PyTorch 2.13.0.

`random_programs.py` makes them. A program that differs is printed without the lines that it does not need.
"""

from __future__ import annotations

import pytest
import random_programs

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

SEEDS = 600
LEFT = {
    **dict.fromkeys((13, 293, 550), "upstream counts writes to what is made of inference tensors from 1 or 2 on"),
    **dict.fromkeys((267, 279, 481, 584), "set_ of a tensor that has a history: the nodes of both keep other edges"),
    270: "index_fill_ of an inference tensor: upstream writes, and refuses then",
    311: "sub_ with alpha: the scaled operand is a new tensor, which overlaps with nothing",
}
"""Programs that differ, and why."""


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_programs_do_the_same(first: int) -> None:
    differing = []
    for seed in range(first, first + 50):
        lines = random_programs.program(seed)
        found = random_programs.difference(readtorch, torch, lines)
        if (found is not None) != (seed in LEFT):
            differing.append((seed, found and (random_programs.shrunk(readtorch, torch, lines), *found)))
    assert not differing
