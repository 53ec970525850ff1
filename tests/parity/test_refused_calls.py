"""Calls that PyTorch 2.13.0 refuses, beside it: the same type of error, or a result from both.

Each line of `refused_calls.txt` is a program for both libraries: statements separated by `;`, the last one an expression; `t` is the library, `F` its
`nn.functional`. A line with ` ## PHRASE` at its end also wants that phrase in both messages (in both warnings, where nothing is raised).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from listed import lines

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = pytest.mark.torch


def outcome(library: Any, program: str) -> tuple[str, str]:
    """What became of it (the error's type, or "returned"), and the message and warnings."""
    *statements, last = program.split(";")
    names = {"t": library, "F": library.nn.functional, "np": np, "nan": float("nan"), "inf": float("inf")}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            exec(";".join(statements), names)
            exec(last.strip(), names)
        except Exception as error:
            return type(error).__name__, str(error)
    return f"returned, warnings: {len(said)}", " ".join(str(one.message) for one in said)


@pytest.mark.parametrize("line", lines("refused_calls.txt"))
def test_refused_alike(line: str) -> None:
    program, _, phrase = line.partition(" ## ")
    torch.manual_seed(0)
    always = [library.is_warn_always_enabled() for library in (torch, readtorch)]
    try:
        for library in (torch, readtorch):
            library.set_warn_always(True)
        (ours, our_text), (theirs, their_text) = outcome(readtorch, program), outcome(torch, program)
    finally:
        for library, before in zip((torch, readtorch), always, strict=True):
            library.set_warn_always(before)
    assert ours == theirs, f"{our_text!r} beside {their_text!r}"
    if phrase:
        assert phrase in their_text, their_text
        assert phrase in our_text, our_text
