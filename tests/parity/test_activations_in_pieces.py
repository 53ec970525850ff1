"""Activations that are computed piece by piece, for inputs that lie in memory in every way, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

FUNCTIONS = {
    "gelu": lambda f, x: f.gelu(x),
    "gelu, tanh": lambda f, x: f.gelu(x, approximate="tanh"),
    "silu": lambda f, x: f.silu(x),
    "hardswish": lambda f, x: f.hardswish(x),
    "relu6": lambda f, x: f.relu6(x),
}
LAYOUTS = {
    "plain, several pieces": lambda x: x.reshape(3, -1),
    "transposed": lambda x: x.reshape(300, -1).T,
    "channels last": lambda x: x.reshape(4, 10, 10, -1).permute(0, 3, 1, 2),
    "every other": lambda x: x[::2],
    "backwards in two ways": lambda x: x.reshape(2, 3, 1, -1).permute(3, 2, 0, 1)[::3],
    "broadcast": lambda x: x[:50, None].expand(50, 7),
    "0-d": lambda x: x[7],
    "empty": lambda x: x[:0].reshape(0, 3),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_values_and_gradients_are_upstreams(function: str, layout: str, dtype: str) -> None:
    torch.manual_seed(0)
    values, weights = torch.randn(300_000) * 3, torch.randn(300_000)
    values[:6] = torch.tensor([0.0, -0.0, 30.0, -30.0, 3.0, -3.0])
    found = []
    for library in (torch, readtorch):
        kind = getattr(library, dtype)
        x = library.from_numpy(values.numpy().copy()).to(kind).requires_grad_()
        y: Any = FUNCTIONS[function](library.nn.functional, LAYOUTS[layout](x))
        gradient = library.from_numpy(weights.numpy().copy()).to(kind)[: y.numel()].reshape(y.shape)
        found.append([t.to(library.float32).numpy() for t in (y.detach(), *library.autograd.grad(y, x, gradient))])
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype != "bfloat16" else {"rtol": 2e-2, "atol": 2e-2}
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), torch.from_numpy(theirs), **close)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_limits_and_what_is_no_number(function: str) -> None:
    values = [float("-inf"), float("nan"), 1e30, -1e30]
    values += [float("inf")] * (function != "gelu")  # of which upstream's vectorized kernel makes nan
    theirs = FUNCTIONS[function](torch.nn.functional, torch.tensor(values))
    ours = FUNCTIONS[function](readtorch.nn.functional, readtorch.tensor(values))
    torch.testing.assert_close(torch.from_numpy(ours.numpy()), theirs, equal_nan=True)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"), [(8, 8, 8, 0), (9, 5, 2, 2), (7, 6, 1, 3), (8, 2, 2, 0)]
)
def test_a_mean_over_few_large_windows_has_upstreams_gradient(
    size: int, kernel: int, stride: int, padding: int
) -> None:
    values, found = torch.randn(2, 3, size, size), []
    for library in (torch, readtorch):
        x = library.from_numpy(values.numpy().copy()).requires_grad_()
        y = library.nn.functional.avg_pool2d(x, kernel, stride, padding)
        (y * y).sum().backward()
        found.append(x.grad.numpy())
    torch.testing.assert_close(torch.from_numpy(found[1]), torch.from_numpy(found[0]))
