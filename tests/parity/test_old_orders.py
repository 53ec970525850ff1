"""Calls with their numbers before their tensors, as optimizers written before PyTorch 1.5 have them, beside PyTorch 2.13.0."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

CALLS = [
    *("x.add(2, y)", "x.add_(2, y)", "torch.add(x, 2, y)", "torch.add(x, 2, y, out=z)"),
    *("x.sub(2, y)", "x.sub_(2, y)", "torch.sub(x, 2, y)", "x.add(1 + 2j, y)", "x.add(torch.tensor(2.0), y)"),
    *("x.addcmul(3, y, y)", "x.addcmul_(3, y, y)", "torch.addcmul(x, 3, y, y)", "torch.addcmul(x, 3, y, y, out=z)"),
    *("x.addcdiv(-0.5, y, x)", "x.addcdiv_(-0.5, y, y)", "x.addcdiv_(torch.tensor(2.0), y, y)"),
    *("m.addmm(2, 3, m, n)", "m.addmm_(2, n, n)", "torch.addmm(2, m, 3, n, n)", "torch.addmm(2, m, n, n)"),
    *("x.addmv(2, 3, m, y)", "x.addmv_(2, m, y)", "torch.addmv(2, x, 3, m, y)", "torch.addmv(2, x, m, y)"),
    *("m.addr(2, 3, x, y)", "torch.addr(2, m, 3, x, y)", "torch.addr(2, m, x, y)"),
    *("b.baddbmm(2, 3, b, b)", "torch.baddbmm(2, b, 3, b, b)", "m.addbmm(2, 3, b, b)", "torch.addbmm(2, m, b, b)"),
    *("(x * 1).add_(2, w).sum().backward() or w.grad", "torch.addcmul(x, 3, w, w).sum().backward() or w.grad"),
    *("x.add(y, 2)", "x.addcmul(y, y, 3)", "x.add(y, y, y)", "torch.addmm(m, 2, n, n, n)"),
]


@pytest.mark.parametrize("call", CALLS)
def test_numbers_before_tensors(call: str) -> None:
    found: list[Any] = []
    for name in ("torch", "readtorch"):
        torch = importlib.import_module(name)
        x, y, w = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0]), torch.tensor([2.0, 3.0], requires_grad=True)
        m, n = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[2.0, 1.0], [1.0, 1.0]])
        names = {"torch": torch, "x": x, "y": y, "w": w, "m": m, "n": n, "b": torch.stack([m, n]), "z": torch.ones(2)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append((eval(call, names).tolist(), x.tolist(), m.tolist(), names["z"].tolist()))
            except Exception as error:
                found.append(type(error))
    assert found[0] == found[1]


@pytest.mark.parametrize("library", ["readtorch", "torch"])
def test_they_warn_once(library: str) -> None:
    torch = importlib.import_module(library)

    def old_order() -> None:
        torch.ones(2).addcmul_(2, torch.ones(2), torch.ones(2))

    always = torch.is_warn_always_enabled()
    try:
        torch.set_warn_always(True)
        with pytest.warns(UserWarning, match="This overload of addcmul_ is deprecated"):
            old_order()
        torch.set_warn_always(False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the one time, unless a test before this one had it
            old_order()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            old_order()
            torch.ones(2).add_(2, torch.ones(2))
    finally:
        torch.set_warn_always(always)
