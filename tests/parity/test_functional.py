"""nn.functional and the modules of nn beside PyTorch 2.13.0: every line of their tables in every dtype and memory layout."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")

from beside import Case, compare
from cells import Cell, layer_cells, left_out, operator_cells
from functional_table import EMPTY

pytestmark = pytest.mark.torch

UNSTEADY = "upstream reads memory that nobody wrote"
"""Such a cell may agree by chance."""


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def lines(table: str) -> list[Any]:
    found: dict[str, list[Cell]] = {}
    for cell in layer_cells(table):
        found.setdefault(cell.case.name, []).append(cell)
    return [pytest.param(cells, id=name) for name, cells in found.items()]


@pytest.mark.parametrize("cells", [*lines("functional"), *lines("layers")])
def test_values_gradients_second_gradients_and_errors_are_upstreams(cells: list[Cell]) -> None:
    """In every cell of the line; one in which the libraries are known to differ must still differ."""
    faults = []
    for cell in cells:
        try:
            compare(cell.case, cell.dtype, cell.layout)
        except Exception as error:
            if not cell.reason:
                faults.append(f"{cell.id}: {type(error).__name__}: {error}")
        else:
            if cell.reason and not cell.reason.startswith(UNSTEADY):
                faults.append(f"{cell.id} agrees now: take it off left_out_layers.txt")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("entry", EMPTY, ids=lambda entry: entry.name)
def test_nothing_in_nothing_out(entry: Case) -> None:
    compare(entry)


def test_the_lists_of_differences_name_cells_of_the_tables() -> None:
    known = {
        cell.id for cells in (operator_cells(), layer_cells("functional"), layer_cells("layers")) for cell in cells
    }
    assert sorted(set(left_out()) - known) == []
