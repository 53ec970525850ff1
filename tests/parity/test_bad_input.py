"""What functions and modules of nn do with shapes and dtypes that do not fit, beside PyTorch 2.13.0.

Each line of the tables of test_functional.py is called again with one of its tensors spoilt: a dimension too many or too few, a row or
column more or none, another dtype, indices out of range. The same dtypes and shapes have to come out, or the same type of error, and the
error has to be ours: no text of NumPy. `left_out_bad_input.txt` lists the calls that differ, and how; each of them has to differ still.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import functional_table
import layers_table
import numpy as np
import pytest
from beside import Case, _arrays

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")

pytestmark = pytest.mark.torch

NUMPY = re.compile(
    "operands could not|numpy|ufunc|UFunc|reshape array|AxisError|broadcast input array|for array of dimension|out of bounds for axis"
    "|object has no attribute|too small depth|ndarray|tuple index out of range|to unpack|NoneType|zip\\(\\)|division by zero"
)
CRASHES = ("embedding_bag", "ctc_loss", "max_unpool")
"""Upstream reads or writes out of bounds on some of these."""

Spoilt = Iterator[tuple[str, list[np.ndarray]]]


def spoilt(arrays: list[np.ndarray]) -> Spoilt:
    for number, array in enumerate(arrays):
        for what, other in _spoilt(array):
            yield f"{number}: {what}", [*arrays[:number], other, *arrays[number + 1 :]]


def _spoilt(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    if array.ndim:
        yield "first dimension dropped", array[0]
        yield "last dimension dropped", array[..., 0]
        yield "one more row", np.concatenate([array, array[:1]])
        yield "one more column", np.concatenate([array, array[..., :1]], -1)
        yield "no columns", array[..., :0]
        yield "no rows", array[:0]
    if array.ndim > 1:
        yield "one more in the second dimension", np.concatenate([array, array[:, :1]], 1)
    yield "one more dimension", array[None]
    yield "three more dimensions", array[None, None, None]
    if array.dtype.kind == "f":
        dtypes: tuple[Any, ...] = (np.float32, np.int64, np.complex64)
    else:
        yield "too large", array + 100
        yield "negative", array - 100
        dtypes = (np.float64, np.int32)
    for dtype in dtypes:
        yield f"as {np.dtype(dtype)}", array.astype(dtype)
    yield "as bool", array > 0


def outcome(library: Any, call: Callable[..., Any], arrays: list[np.ndarray]) -> tuple[str, str]:
    """Dtypes and shapes, or the error's type; and what the error says."""
    library.manual_seed(0)
    try:
        result = call(library, *[library.from_numpy(np.array(array, order="C")) for array in arrays])
    except Exception as error:
        return type(error).__name__, str(error)
    results = result if isinstance(result, tuple | list) else [result]
    tensors = [each for each in results if hasattr(each, "shape")]
    return " ".join(f"{str(each.dtype).removeprefix('torch.')}{list(each.shape)}" for each in tensors), ""


def module_call(case: Case) -> Callable[..., Any]:
    return lambda library, x: case.build(library).double()(x)  # type: ignore[misc]


def differences(case: Case, call: Callable[..., Any]) -> dict[str, str]:
    found = {}
    for label, arrays in spoilt(_arrays(case, "float64", "contiguous")):
        (ours, text), (theirs, _) = (outcome(library, call, arrays) for library in (readtorch, torch))
        if ours != theirs:
            found[f"{case.name} | {label}"] = f"{ours}, upstream {theirs}"
        elif NUMPY.search(text):
            found[f"{case.name} | {label}"] = f"says {text!r}"
    return found


@cache
def left_out() -> dict[str, str]:
    rows = (Path(__file__).parent / "left_out_bad_input.txt").read_text(encoding="utf-8").splitlines()
    return dict(row.split("\t") for row in rows if row and not row.startswith("#"))


CALLS = [
    *(
        pytest.param(case, case.call, id=case.name)
        for case in functional_table.CASES
        if not case.name.startswith(CRASHES)
    ),
    *(pytest.param(case, module_call(case), id=case.name) for case in layers_table.CASES),
]


@pytest.mark.parametrize(("case", "call"), CALLS)
def test_what_does_not_fit_is_refused_as_upstream_refuses_it(case: Case, call: Callable[..., Any]) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = differences(case, call)
    expected = {name: how for name, how in left_out().items() if name.partition(" | ")[0] == case.name}
    assert found == expected
