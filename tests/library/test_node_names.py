"""What a graph calls its nodes: upstream counts the overloads of an operator, and people print the names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import readtorch as torch
from readtorch.nn import functional as F

NAMES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sum": (lambda x: x.sum(), "SumBackward0"),
    "sum dim": (lambda x: x.sum(0), "SumBackward1"),
    "sum dtype": (lambda x: x.sum(dtype=torch.float64), "SumBackward0"),
    "sum keywords": (lambda x: torch.sum(x, dim=(0, 1), keepdim=True), "SumBackward1"),
    "mean": (lambda x: x.mean(), "MeanBackward0"),
    "mean dim": (lambda x: x.mean((0, 1)), "MeanBackward1"),
    "prod": (lambda x: x.prod(), "ProdBackward0"),
    "prod dim": (lambda x: x.prod(-1), "ProdBackward1"),
    "std dim": (lambda x: x.std(0), "StdBackward0"),
    "max": (lambda x: x.max(), "MaxBackward1"),
    "max dim": (lambda x: x.max(0).values, "MaxBackward0"),
    "min": (lambda x: x.min(), "MinBackward1"),
    "median dim": (lambda x: x.median(0)[0], "MedianBackward1"),
    "squeeze": (lambda x: x.squeeze(), "SqueezeBackward0"),
    "squeeze dim": (lambda x: x.squeeze(0), "SqueezeBackward1"),
    "squeeze dims": (lambda x: x.squeeze((0, 1)), "SqueezeBackward2"),
    "number in the exponent": (lambda x: x**2, "PowBackward0"),
    "two tensors": (lambda x: x**x, "PowBackward1"),
    "number in the base": (lambda x: 2**x, "PowBackward2"),
    "clamp": (lambda x: x.clamp(0, 1), "ClampBackward1"),
    "clamp by tensors": (lambda x: x.clamp(x, x), "ClampBackward0"),
    "product of stacks": (lambda x: x @ x.mT, "UnsafeViewBackward0"),
    "linear": (lambda x: F.linear(x, torch.ones(2, 4)), "UnsafeViewBackward0"),
    "reflect": (lambda x: F.pad(x, (1, 1), mode="reflect"), "ReflectionPad1DBackward0"),
    "replicate": (lambda x: F.pad(x[None], (1, 1, 1, 1), mode="replicate"), "ReplicationPad2DBackward0"),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), "UpsampleNearest1DBackward0"),
    "bicubic": (lambda x: F.interpolate(x[None], scale_factor=2, mode="bicubic"), "UpsampleBicubic2DBackward0"),
    "remainder": (lambda x: x % torch.tensor(2.0), "RemainderBackward1"),
    "fmod": (lambda x: torch.fmod(x, torch.ones(4)), "FmodBackward1"),
    "rounded quotient": (lambda x: torch.div(x, 2, rounding_mode="trunc"), "DivBackward2"),
    "log1p": (lambda x: x.log1p(), "Log1PBackward0"),
    "lerp": (lambda x: torch.lerp(x, x, x), "LerpBackward1"),
    "split by lengths": (lambda x: x.split([1, 3], -1)[0], "SplitWithSizesBackward0"),
    "split": (lambda x: x.split(2, -1)[0], "SplitBackward0"),
    "stable sort": (lambda x: x.sort(stable=True)[0], "SortBackward1"),
    "trace": (lambda x: x[0].trace(), "TraceBackward0"),
    "inverse": (
        lambda x: torch.linalg.inv(x[..., :3] + 9 * torch.eye(3)),
        "LinalgInvExBackward0",
    ),
    "celu": (lambda x: F.celu(x), "CeluBackward0"),
    "elu": (lambda x: F.elu(x), "EluBackward0"),
    "glu": (lambda x: F.glu(x), "GluBackward0"),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x.reshape(4, 3, 2), 2), "PixelShuffleBackward0"),
    "channel shuffle": (lambda x: torch.channel_shuffle(x.reshape(1, 4, 3, 2), 2), "ChannelShuffleBackward0"),
    "average of volumes": (lambda x: F.avg_pool3d(x[None], 2), "AvgPool3DBackward0"),
    "maximum of volumes": (lambda x: F.max_pool3d(x[None], 2), "MaxPool3DWithIndicesBackward0"),
    "averages into volumes": (lambda x: F.adaptive_avg_pool3d(x[None], 2), "AdaptiveAvgPool3DBackward0"),
    "antialias": (
        lambda x: F.interpolate(x[None], scale_factor=0.5, mode="bilinear", antialias=True),
        "UpsampleBilinear2DAaBackward0",
    ),
}


@pytest.mark.parametrize(("make", "name"), NAMES.values(), ids=NAMES)
def test_a_node_has_upstream_s_name(make: Callable[[Any], Any], name: str) -> None:
    x = torch.rand(2, 3, 4, requires_grad=True)
    y = make(x)
    assert type(y.grad_fn).__name__ == name == y.grad_fn.name()
    assert f"grad_fn=<{name}>" in repr(y)
    before = y.grad_fn
    y.sum().backward()
    assert x.grad is not None and y.grad_fn is before and type(y.grad_fn).__name__ == name


def test_nodes_further_down_are_named_when_they_are_reached() -> None:
    x = torch.rand(2, 3, 4, requires_grad=True)
    total = (x.sum(0) ** 2).mean(1).sum()
    names = []
    node = total.grad_fn
    while node is not None:
        names.append(type(node).__name__)
        node = node.next_functions[0][0] if node.next_functions else None
    assert names == ["SumBackward0", "MeanBackward1", "PowBackward0", "SumBackward1", "AccumulateGrad"]
    total.backward()
    assert type(total.grad_fn).__name__ == "SumBackward0"


def test_a_product_of_stacks_is_a_view_of_nothing() -> None:
    x = torch.rand(2, 3, 4, requires_grad=True)
    y = x @ x.mT
    assert y._base is None and not y._is_view() and y[0]._is_view()
    y.add_(1)
    assert y.grad_fn.name() == "AddBackward0"
