"""Numbers beyond a dtype, beside PyTorch 2.13.0: refused with the same error, wrapped around, or infinite."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
]
NUMBERS = (
    *(0, 1, -1, 127, -128, -129, 255, -255, -256, 300, 65535, -65536, 70000, 2**31, 2**53 + 1, 2**63 - 1),
    *(2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, True),
    *(0.5, -0.5, 254.5, 255.7, -1.5, 65504.0, 1e6, 3e38, 1e40, -1e40, float("inf"), float("-inf"), float("nan"), 2j),
)
WAYS = {
    "full": lambda t, number, kind: t.full((2,), number, dtype=kind),
    "full_like": lambda t, number, kind: t.full_like(t.zeros(2, dtype=kind), number),
    "new_full": lambda t, number, kind: t.zeros(2, dtype=kind).new_full((2,), number),
    "fill_": lambda t, number, kind: t.zeros(2, dtype=kind).fill_(number),
    "tensor": lambda t, number, kind: t.tensor(number, dtype=kind),
    "tensor of a list": lambda t, number, kind: t.tensor([number, 1], dtype=kind),
}


def outcome(library: Any, way: str, number: Any, kind: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = WAYS[way](library, number, getattr(library, kind))
        except Exception as error:
            return type(error).__name__
    return f"{result.dtype} {result.tolist()}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", DTYPES)
def test_a_number_beyond_a_dtype_meets_the_same_end(kind: str, way: str) -> None:
    ours, theirs = (
        {repr(number): outcome(library, way, number, kind) for number in NUMBERS} for library in (readtorch, torch)
    )
    assert ours == theirs


@pytest.mark.parametrize(("number", "nested"), [*itertools.product((2**63, 2**64, -(2**63) - 1), (False, True))])
def test_an_integer_beyond_64_bits_has_no_dtype(number: int, nested: bool) -> None:
    for library in (readtorch, torch):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            library.tensor([[number]] if nested else number)
