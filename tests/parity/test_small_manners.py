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


IN_PLACE = {
    "on what detach gave": "y = torch.ones(2).detach().mul_(q)",
    "on what a leaf's detach gave": "y = q.detach().copy_(q)",
    "on data": "y = q.data.mul_(q)",
    "on a view of what detach gave": "y = q.detach().view(2).mul_(q)",
    "on an item of what detach gave": "y = q.detach(); y[0] = q[1]",
    "is not heard by what was detached": "y = torch.ones(2); y.detach().mul_(q)",
    "on a detached view": "b = q * 1; y = b[0].detach(); y.mul_(q[0])",
    "of one of its own elements": "x = q * 1; y = torch.stack([x, x]); y[0] = y[1, 0]; y[:] = y[0][1]",
    "on a view made without recording": "b = q * 1\nwith torch.no_grad(): y = b.view(2)\ny.mul_(q)",
}


@pytest.mark.parametrize("source", IN_PLACE.values(), ids=IN_PLACE)
def test_a_write_in_place_is_recorded_where_pytorch_records_it(source: str) -> None:
    found = []
    for name in ("torch", "readtorch"):
        library = importlib.import_module(name)
        names = {"torch": library, "q": library.tensor([2.0, 3.0], requires_grad=True)}
        try:
            exec(source, names)
            y = names["y"]
            if y.requires_grad:
                y.sum().backward()
            gradient = names["q"].grad
            found.append((y.requires_grad, y._base is None, None if gradient is None else gradient.tolist()))
        except RuntimeError as error:
            found.append((str(error)[:40],))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore:torch.lu is deprecated")
@LIBRARIES
def test_old_names_of_factorization_and_filling(library: str) -> None:
    torch = importlib.import_module(library)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    factors, pivots, infos = x.lu(get_infos=True)
    lower, upper = torch.lu_unpack(factors, pivots)[1:]
    assert torch.allclose(lower @ upper, x.flip(0)) and pivots.tolist() == [2, 2] and infos.tolist() == 0
    value = torch.tensor(5.0, requires_grad=True)
    torch.fill(x, value).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]] and value.grad.item() == 4.0
    assert torch.fill(torch.ones(2, dtype=torch.int64), 3.7).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="only supports 0-dimension value tensor"):
        torch.fill(x, torch.ones(2))
