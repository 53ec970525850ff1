"""The kernels on a real device, beside NumPy in float64 and beside what the dispatcher makes of the CPU's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_scenarios import KINDS, SCENARIOS, TOLERANCE, Numbers

import readtorch as torch
from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.native.cuda import (
    embedding_backward_kernel,
    fused_adam_kernel,
    jit_utils,
    layer_norm_kernel,
    loss,
    normalization,
    soft_max,
)
from readtorch.nn import functional as F


def host(array: Any) -> np.ndarray:
    return array.get() if hasattr(array, "get") else np.asarray(array)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_kernel_gives_what_its_twin_gives_in_float64(name: str, kind: str) -> None:
    import cupy

    for number, (ours, twin) in enumerate(SCENARIOS[name](Numbers(kind, cupy.asarray))):
        mine, exact = host(ours), np.asarray(twin)
        assert mine.shape == exact.shape, f"result {number}"
        if mine.size:
            stored = kind if mine.dtype == KINDS[kind] else "float32"
            error = np.abs(mine.astype(np.float64) - exact).max()
            # denormal numbers are flushed to zero by what CuPy compiles
            assert error <= TOLERANCE[stored] * max(np.abs(exact).max(), 1e-30), f"result {number}: off by {error:.2e}"


class Counted(jit_utils.Device):
    """The device, and the names of what was launched on it."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def launch(self, instance: Any, *rest: Any) -> None:
        self.names.append(instance.kernel.name)
        super().launch(instance, *rest)


def test_sizes_that_fill_the_device_many_times_over() -> None:
    """Grids of several pieces per channel and several waves of blocks; the twin is CuPy in float64."""
    import cupy

    rng = cupy.random.default_rng(0)
    x = rng.standard_normal((64, 96, 56, 56), dtype=cupy.float32) * 3 + 10
    y, mean, invstd = normalization.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    exact = x.astype(cupy.float64)
    places = (0, 2, 3)
    centred = exact - exact.mean(places, keepdims=True)
    expected = centred / cupy.sqrt((centred * centred).mean(places, keepdims=True) + 1e-5)
    assert float(abs(y - expected).max()) < 2e-5
    dy = rng.standard_normal(x.shape, dtype=cupy.float32)
    dx, dw, db = normalization.native_batch_norm_backward(dy, x, None, None, None, mean, invstd, True, 1e-5)
    g = dy.astype(cupy.float64)
    slope = (g * expected).mean(places, keepdims=True)
    wanted = (g - g.mean(places, keepdims=True) - expected * slope) * invstd.reshape(1, -1, 1, 1)
    assert float(abs(dx - wanted).max()) < 2e-5
    np.testing.assert_allclose(db.get(), g.sum(places).get(), rtol=1e-4, atol=0.05)
    np.testing.assert_allclose(dw.get(), (g * expected).sum(places).get(), rtol=1e-4, atol=0.05)


def test_rows_of_a_language_models_vocabulary() -> None:
    import cupy

    rng = cupy.random.default_rng(0)
    x = rng.standard_normal((512, 50_257), dtype=cupy.float32) * 4
    exact = x.astype(cupy.float64)
    exact -= exact.max(1, keepdims=True)
    log = exact - cupy.log(cupy.exp(exact).sum(1, keepdims=True))
    assert float(abs(soft_max._log_softmax(x, 1) - log).max()) < 2e-5
    target = cupy.asarray(np.random.default_rng(0).integers(0, 50_257, 512))
    losses, _ = loss.cross_entropy_forward(x, target, None, -100)
    np.testing.assert_allclose(losses.get(), -log[cupy.arange(512), target].get(), rtol=1e-5, atol=1e-5)


def test_results_are_the_same_bits_every_time() -> None:
    """No atomic additions: whichever block comes first."""
    import cupy

    rng = cupy.random.default_rng(0)
    words = cupy.asarray(np.random.default_rng(0).zipf(1.3, 20_000).clip(0, 999) - 1)
    dy = rng.standard_normal((20_000, 256), dtype=cupy.float32)
    x = rng.standard_normal((8192, 768), dtype=cupy.float32)
    grad = rng.standard_normal((8192, 768), dtype=cupy.float32)

    def run() -> list[bytes]:
        table = embedding_backward_kernel.embedding_dense_backward(dy, words, 1000, -1, False)
        y, mean, rstd = layer_norm_kernel.native_layer_norm(x, (768,), None, None, 1e-5)
        back = layer_norm_kernel.native_layer_norm_backward(grad, x, (768,), mean, rstd, None)
        return [a.get().tobytes() for a in (table, y, *back)]

    first = run()
    assert all(run() == first for _ in range(5))


def test_a_thousand_parameters_are_one_launch() -> None:
    import cupy

    lists = [[cupy.ones(size % 700 + 1, cupy.float32) for size in range(1000)] for _ in range(4)]
    options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0}
    device = Counted()
    with jit_utils.running_on(device):
        fused_adam_kernel.adam(*lists, None, 1.0, maximize=False, decoupled=False, **options)
    assert device.names == ["fused_adam"]
    assert all(float(abs(param - param[0]).max()) == 0 and float(param[0]) < 1 for param in lists[0])


# -- through the library -----------------------------------------------------------------------------------------------

LAYERS: dict[str, Any] = {
    "batch_norm": lambda x: F.batch_norm(x.reshape(4, 6, 5, 2), None, None, training=True),
    "layer_norm": lambda x: F.layer_norm(x, (60,)),
    "softmax": lambda x: F.softmax(x, 0),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.arange(4, device=x.device)),
    "nll_loss": lambda x: F.nll_loss(F.log_softmax(x, 1), torch.arange(4, device=x.device)),
    "unfold": lambda x: F.unfold(x.reshape(1, 4, 6, 10), 3, padding=1),
    "dropout": lambda x: F.dropout(x, 0.0),
}
LAUNCHED = {
    "batch_norm": {"batch_norm_collect_statistics", "batch_norm_backward_reduce"},
    "layer_norm": {"layer_norm_forward", "layer_norm_backward"},
    "softmax": {"softmax_spatial_forward", "softmax_spatial_backward"},
    "cross_entropy": {"cross_entropy_forward", "cross_entropy_backward"},
    "nll_loss": {"softmax_forward", "nll_loss_forward", "nll_loss_backward"},
    "unfold": {"im2col", "col2im"},
    "dropout": set(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_on_the_device_launches_its_kernels_and_agrees_with_the_host(name: str, dtype: Any) -> None:
    start = torch.randn(4, 60, dtype=torch.float64)
    weight = None
    results = []
    device = Counted()
    for place in ("cpu", "cuda"):
        x = start.to(place, dtype if place == "cuda" else torch.float64).detach().requires_grad_()
        with jit_utils.running_on(device):
            y = LAYERS[name](x)
            weight = torch.randn(tuple(y.shape), dtype=torch.float64) if weight is None else weight
            (y * weight.to(y.device, y.dtype)).sum().backward()
        results.append([t.detach().cpu().double().numpy() for t in (y, x.grad)])
    assert LAUNCHED[name] <= set(device.names)
    for mine, exact in zip(*reversed(results), strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-4, atol=2e-5 if dtype == torch.float32 else 1e-12)


def test_an_optimizer_on_the_device_takes_one_launch_and_follows_the_host() -> None:
    def train(place: str) -> list[np.ndarray]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)).to(place)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        x = torch.linspace(-1, 1, 80).reshape(10, 8).to(place)
        for _ in range(5):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        return [p.detach().cpu().numpy() for p in model.parameters()]

    exact = train("cpu")
    device = Counted()
    with jit_utils.running_on(device):
        found = train("cuda")
    assert device.names.count("fused_adam") == 5
    for mine, theirs in zip(found, exact, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)


def test_dropout_keeps_its_mask_for_the_gradient() -> None:
    torch.manual_seed(0)
    x = torch.ones(10_000, device="cuda", requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    assert type(y.grad_fn).__name__ == "NativeDropoutBackward0"
    assert torch.equal(x.grad, y.detach())
    assert abs(float((y == 0).float().mean()) - 0.25) < 0.02


def test_what_the_kernels_decline_is_the_general_kernels() -> None:
    assert dispatcher.cuda.maker is not None or torch.ones(1, device="cuda") is not None
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.softmax(torch.arange(3, device="cuda"), 0)
    assert torch.softmax(torch.ones(0, 3, device="cuda"), 1).shape == (0, 3)
