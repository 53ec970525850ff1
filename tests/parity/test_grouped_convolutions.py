"""Convolutions in narrow groups, of random geometry, beside PyTorch's: values and both gradients."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch


def geometry(rng: random.Random, dims: int) -> dict[str, Any]:
    """Sizes and arguments of a convolution whose kernel fits its input."""
    kernel = [rng.randint(1, 4) for _ in range(dims)]
    dilation = [rng.randint(1, 3) for _ in range(dims)]
    padding = [rng.randint(0, 4) for _ in range(dims)]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [max(1, r - 2 * p) + rng.randint(0, 6) for r, p in zip(reach, padding, strict=True)]
    return {
        "kernel": kernel,
        "size": size,
        "slide": {"stride": [rng.randint(1, 4) for _ in range(dims)], "padding": padding, "dilation": dilation},
        "groups": rng.randint(2, 5),
        "inputs": rng.choice((1, 1, 2, 3)),
        "outputs": rng.choice((1, 1, 2, 3)),
        "batch": rng.choice((0, 1, 3)),
    }


def laid_out(tensor: Any, layout: str) -> Any:
    """The same numbers, in memory of another order."""
    if layout == "channels last":
        return tensor.movedim(1, -1).contiguous().movedim(-1, 1)
    return tensor.movedim(0, -1).contiguous().movedim(-1, 0) if layout == "batch last" else tensor


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("layout", ["plain", "channels last", "batch last"])
def test_random_geometries_give_upstreams_values_and_gradients(dims: int, layout: str) -> None:
    rng = random.Random(dims)
    torch.manual_seed(dims)
    for _ in range(40):
        case = geometry(rng, dims)
        channels, outputs = case["groups"] * case["inputs"], case["groups"] * case["outputs"]
        x = torch.randn(case["batch"], channels, *case["size"], dtype=torch.float64)
        w = torch.randn(outputs, case["inputs"], *case["kernel"], dtype=torch.float64)
        conv = f"conv{dims}d"
        y = getattr(torch.nn.functional, conv)(x, w, **case["slide"], groups=case["groups"])
        g = torch.randn_like(y)
        found = []
        for library in (torch, readtorch):
            a, b, c = (library.from_numpy(t.numpy().copy()) for t in (x, w, g))
            a, c = laid_out(a, layout).requires_grad_(), laid_out(c, layout)
            b.requires_grad_()
            out = getattr(library.nn.functional, conv)(a, b, **case["slide"], groups=case["groups"])
            found.append([out.detach(), *library.autograd.grad(out, (a, b), c)])
        for theirs, ours in zip(*found, strict=True):
            torch.testing.assert_close(torch.from_numpy(ours.numpy().copy()), theirs, msg=lambda m, c=case: f"{c}\n{m}")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_each_dtype_gives_upstreams_values_and_its_own_dtype(dtype: str) -> None:
    kind = getattr(torch, dtype)
    x, w = torch.randn(2, 6, 7, 7, dtype=kind), torch.randn(12, 1, 3, 3, dtype=kind)
    theirs = torch.nn.functional.conv2d(x, w, stride=2, padding=1, groups=6)
    wide = torch.complex64 if kind.is_complex else torch.float64
    a, b = (readtorch.tensor(t.to(wide).numpy(), dtype=getattr(readtorch, dtype)) for t in (x, w))
    ours = readtorch.nn.functional.conv2d(a, b, stride=2, padding=1, groups=6)
    assert str(ours.dtype).endswith(dtype)
    exact = torch.from_numpy(ours.to(getattr(readtorch, str(wide).split(".")[1])).numpy())
    torch.testing.assert_close(
        exact.to(kind), theirs, rtol=2e-2 if kind.itemsize == 2 else 1e-5, atol=2e-2 if kind.itemsize == 2 else 1e-5
    )


def test_a_gradient_of_a_gradient_agrees_with_differences() -> None:
    x = readtorch.randn(2, 4, 5, 5, dtype=readtorch.float64, requires_grad=True)
    w = readtorch.randn(4, 2, 3, 2, dtype=readtorch.float64, requires_grad=True)
    conv = functools.partial(readtorch.nn.functional.conv2d, stride=2, padding=1, groups=2)
    assert readtorch.autograd.gradcheck(conv, (x, w))
    assert readtorch.autograd.gradgradcheck(conv, (x, w))


def test_two_threads_give_the_same_bits_as_one() -> None:
    x, w = readtorch.randn(8, 64, 32, 32), readtorch.randn(64, 1, 3, 3)
    x.requires_grad_(), w.requires_grad_()
    before, found = readtorch.get_num_threads(), []
    try:
        for threads in (1, 2, 2):
            readtorch.set_num_threads(threads)
            y = readtorch.nn.functional.conv2d(x, w, padding=1, groups=64)
            found.append([y.detach(), *readtorch.autograd.grad(y.square().sum(), (x, w))])
    finally:
        readtorch.set_num_threads(before)
    for other in found[1:]:
        assert all(bool((one == two).all()) for one, two in zip(found[0], other, strict=True))
