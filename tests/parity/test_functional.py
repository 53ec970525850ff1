"""Each line of functional_table.py beside PyTorch 2.13.0: values, gradients, second gradients, dtypes, memory layouts."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")

from beside import LAYOUTS, Case, compare
from functional_table import BY_NAME, CASES, EMPTY

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", BY_NAME)
def test_values_and_both_gradients_in_float64(name: str) -> None:
    compare(BY_NAME[name], second=BY_NAME[name].second)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "contiguous"])
@pytest.mark.parametrize("name", [entry.name for entry in CASES if entry.strided])
def test_any_memory_layout_in_float32(name: str, layout: str) -> None:
    compare(BY_NAME[name], "float32", layout)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [entry.name for entry in CASES if entry.half])
def test_half_precision_rounds_like_upstream(name: str, dtype: str) -> None:
    compare(BY_NAME[name], dtype)


@pytest.mark.parametrize("entry", EMPTY, ids=lambda entry: entry.name)
def test_nothing_in_nothing_out(entry: Case) -> None:
    compare(entry)
