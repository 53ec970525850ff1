"""Small things that a newcomer meets, beside PyTorch 2.13.0."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch
LIBRARIES = pytest.mark.parametrize("library", ["readtorch", "torch"])


@LIBRARIES
def test_elements_cannot_be_deleted(library: str) -> None:
    x: Any = importlib.import_module(library).ones(3)
    with pytest.raises(TypeError, match="Tensor does not support deleting items"):
        del x[0]


@LIBRARIES
def test_resolution_is_the_last_decimal_that_counts(library: str) -> None:
    torch = importlib.import_module(library)
    kinds = (torch.half, torch.bfloat16, torch.float, torch.double)
    assert [torch.finfo(kind).resolution for kind in kinds] == [1e-3, 1e-2, 1e-6, 1e-15]


def test_groups_of_an_optimizer_are_printed_apart() -> None:
    printed = []
    for library in ("readtorch", "torch"):
        torch = importlib.import_module(library)
        printed.append(repr(torch.optim.SGD([{"params": [torch.ones(1)]}, {"params": [torch.ones(2)], "lr": 3}], lr=1)))
    assert printed[0] == printed[1]
