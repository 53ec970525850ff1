"""Every call of `bad_input.py` with every wrong argument, beside PyTorch 2.13.0: the same type of error, or results of one dtype and shape.

The calls where the libraries are known to differ stand in `bad_input_left.txt`, one a line: the call, what upstream does, what readtorch does. A line that
agrees by now is a fault too.
"""

from __future__ import annotations

import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from bad_input import CALLS, spoiled, tensors
from listed import lines

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

FOREIGN = re.compile(
    r"ufunc|(?<!from_)numpy(?!\()|ndarray|_array'|has no attribute '(ndim|dtype|shape|numel)'|operands could not|cannot reshape array|inhomogeneous"
)
"""Words that only an error of NumPy's, or of a missing check, has."""


def left() -> dict[str, tuple[str, str]]:
    """What is known to differ."""
    found = {}
    for line in lines("bad_input_left.txt"):
        program, theirs, ours = line.split("\t")
        found[program] = theirs, ours
    return found


LEFT = left()


@contextmanager
def limit(seconds: int) -> Iterator[None]:
    """RuntimeError after that many seconds."""

    def ring(*_: object) -> None:
        raise RuntimeError("took too long")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def described(result: Any) -> str:
    if isinstance(result, tuple | list):
        return f"({', '.join(map(described, result))})"
    if hasattr(result, "dtype") and hasattr(result, "shape"):
        return f"{result.dtype}{list(result.shape)}"
    return type(result).__name__


def outcome(library: Any, program: str) -> str:
    """The type of the error, with a mark if its text is not ours to give; else the results' dtypes and shapes."""
    names = {**tensors(library), "t": library, "F": library.nn.functional, "np": np}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with limit(10):
                return described(eval(program, names))
        except Exception as error:
            foreign = library is readtorch and FOREIGN.search(str(error).partition("\n")[0])
            return type(error).__name__ + (" in NumPy's words" if foreign else "")


@pytest.mark.parametrize("call", CALLS)
def test_bad_input_is_refused_alike(call: str) -> None:
    faults = []
    for program in dict.fromkeys(spoiled(call)):
        theirs, ours = outcome(torch, program), outcome(readtorch, program)
        known = LEFT.get(program)
        if theirs == ours:
            if known is not None:
                faults.append(f"{program} agrees: take it off bad_input_left.txt")
        elif known != (theirs, ours):
            faults.append(f"{program}\t{theirs}\t{ours}")
    assert not faults, "\n".join(faults)
