"""Tensors without data: layers and their backward give shapes, and take neither memory nor time nor random numbers."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import readtorch as torch
from readtorch import nn
from readtorch.nn import functional as F

pytestmark = pytest.mark.cpu("the meta device is no device")

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "conv": (lambda: nn.Conv2d(64, 32, 3, padding=1, stride=2, device="meta"), (64, 64, 96, 96)),
    "grouped": (lambda: nn.Conv2d(64, 64, 5, groups=64, device="meta"), (64, 64, 96, 96)),
    "transposed": (
        lambda: nn.ConvTranspose2d(64, 8, 2, stride=2, output_padding=1, dilation=2, device="meta"),
        (64, 64, 96, 96),
    ),
    "conv1d": (lambda: nn.Conv1d(64, 32, 7, device="meta"), (64, 64, 4096)),
    "batch norm": (lambda: nn.BatchNorm2d(64, device="meta"), (64, 64, 96, 96)),
    "linear": (lambda: nn.Linear(4096, 4096, device="meta"), (4096, 4096)),
    "softmax": (lambda: nn.Sequential(nn.Linear(512, 512, device="meta"), nn.Softmax(1)), (65536, 512)),
    "layer norm": (lambda: nn.LayerNorm(512, device="meta"), (65536, 512)),
    "gelu": (lambda: nn.Sequential(nn.Linear(512, 512, device="meta"), nn.GELU(), nn.SiLU(), nn.ELU()), (65536, 512)),
    "dropout": (lambda: nn.Sequential(nn.Linear(512, 512, device="meta"), nn.Dropout(0.5)), (65536, 512)),
}


@pytest.mark.parametrize(("make", "shape"), MODELS.values(), ids=MODELS)
def test_a_layer_and_its_backward_make_shapes_and_nothing_else(make: Callable[[], nn.Module], shape: Any) -> None:
    model, x = make(), torch.empty(shape, device="meta", requires_grad=True)
    model(torch.empty((2, *shape[1:]), device="meta")).sum().backward()  # what is imported and cached, is now
    model.zero_grad()
    state = torch.get_rng_state()
    tracemalloc.start()
    begin = time.process_time()
    y = model(x)
    y.backward(torch.empty_like(y))
    spent = time.process_time() - begin
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert x.grad is not None and x.grad.is_meta and x.grad.shape == x.shape
    assert all(p.grad is not None and p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    #: what is computed with would be megabytes and, on one core, seconds
    assert peak < 1_000_000 and spent < 1.0, (peak, spent)


@pytest.mark.parametrize(("make", "shape"), MODELS.values(), ids=MODELS)
def test_shapes_are_those_of_the_layer_with_data(make: Callable[[], nn.Module], shape: Any) -> None:
    small = (2, shape[1], *(min(size, 12) for size in shape[2:]))
    model = make()
    there = model(torch.empty(small, device="meta"))
    here = model.to_empty(device="cpu")(torch.zeros(small))
    assert there.shape == here.shape and there.dtype == here.dtype


def test_running_statistics_on_meta_are_left_alone() -> None:
    norm = nn.BatchNorm1d(3, device="meta")
    assert norm(torch.empty(4, 3, device="meta")).is_meta and norm.eval()(torch.empty(4, 3, device="meta")).is_meta


def test_numbers_and_reductions_of_meta_tensors() -> None:
    x = torch.empty(3, 4, device="meta", requires_grad=True)
    y = ((x * 2 - 1) / (x.sum(0, keepdim=True) + 1)).mean((0, 1)) + F.mse_loss(x, torch.empty(3, 4, device="meta"))
    (grad,) = torch.autograd.grad(y, x, create_graph=True)
    assert grad.is_meta and grad.shape == (3, 4) and grad.requires_grad
    x.detach().add_(1).mul_(x.detach())
    with pytest.raises(IndexError):
        x.softmax(2)
    with pytest.raises(RuntimeError):
        x + torch.empty(5, device="meta")
