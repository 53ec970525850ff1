"""Calls with the rarer arguments: overloads, options, kinds of values. Each line was once a difference from PyTorch."""

from __future__ import annotations

import pytest
from listed import lines
from options import difference, outcome

import readtorch

upstream = pytest.importorskip("torch", reason="compares with the real PyTorch (extra `parity`)")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("line", lines("option_calls.txt"))
def test_a_call_with_options_gives_what_upstream_gives(line: str) -> None:
    call, _, grad = line.partition("\t")
    theirs, ours = (outcome(torch, call, grad == "grad") for torch in (upstream, readtorch))
    assert len(theirs) == len(ours), f"{ours} where upstream gives {theirs}"
    differences = [difference(a, b) for a, b in zip(theirs, ours, strict=True)]
    assert not any(differences), differences
