"""On a GPU: the library beside PyTorch in one process, and what only real hardware can show of streams and copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import readtorch

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def torch() -> Any:
    """The real PyTorch, with TF32 off."""
    torch = pytest.importorskip("torch", reason="needs the extra `parity`")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch sees no GPU")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return torch


@pytest.fixture(autouse=True)
def _real() -> None:
    if not readtorch.cuda.is_available() or "imulated" in readtorch.cuda.get_device_name():
        pytest.skip("needs a GPU")


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "pointwise": lambda t, x: (x.exp() + x.sigmoid() * 2 - x.tanh() / 3).sum(),
    "reduction": lambda t, x: x.var(1).mean() + x.logsumexp(0).sum() + x.amax(),
    "matmul": lambda t, x: (x @ x.T).relu().sum(),
    "softmax": lambda t, x: t.softmax(x, 1).square().sum() + t.log_softmax(x, 0).mean(),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (64,)).square().sum(1).mean(),
    "conv": lambda t, x: (
        t.nn.functional.conv2d(x.reshape(4, 4, 16, 16), x[:8, :36].reshape(8, 4, 3, 3), padding=1).square().mean()
    ),
    "pool": lambda t, x: t.nn.functional.max_pool2d(x.reshape(4, 4, 16, 16), 2).sum(),
    "index": lambda t, x: x[t.tensor([0, 3, 3], device="cuda")].sum() + x[x > 0].square().sum(),
    "sort": lambda t, x: x.sort(1)[0][:, :3].sum() + x.topk(4)[0].mean(),
    "gather": lambda t, x: x.gather(1, x.argsort(1)).cumsum(1).mean(),
    "loss": lambda t, x: t.nn.functional.cross_entropy(x, t.arange(64, device="cuda") % 10),
    "linalg": lambda t, x: t.linalg.solve(x @ x.T + 64 * t.eye(64, device="cuda"), x[:, :3]).sum(),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", STEPS)
def test_values_and_gradients_are_pytorchs(torch: Any, name: str) -> None:
    data = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    results = []
    for library in (readtorch, torch):
        x = library.from_numpy(data.copy()).cuda().requires_grad_()
        y = STEPS[name](library, x)
        y.backward()
        results.append((y.item(), x.grad.cpu().numpy()))
    (ours, our_grad), (theirs, their_grad) = results
    assert ours == pytest.approx(theirs, rel=2e-4, abs=1e-4)
    np.testing.assert_allclose(our_grad, their_grad, rtol=2e-3, atol=2e-4)


@pytest.mark.torch
def test_three_steps_of_a_network_are_pytorchs(torch: Any) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((16, 3, 16, 16)).astype(np.float32), rng.integers(0, 10, 16)
    weights: dict[str, Any] = {}
    losses = []
    for library in (torch, readtorch):
        nn = library.nn
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10)
        )  # fmt: skip
        if weights:
            model.load_state_dict({name: library.from_numpy(value) for name, value in weights.items()})
        else:
            weights = {name: value.numpy().copy() for name, value in model.state_dict().items()}
        model = model.cuda()
        optimizer = library.optim.Adam(model.parameters(), lr=1e-2)
        seen = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(library.from_numpy(x).cuda()), library.from_numpy(y).cuda())
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        losses.append(seen)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_a_copy_from_pinned_memory_returns_before_it_is_done() -> None:
    x = readtorch.empty(1 << 26).pin_memory()
    x.fill_(3.0)
    start, end = (readtorch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    there = x.to("cuda", non_blocking=True)
    end.record()
    end.synchronize()
    assert there[-1].item() == 3.0
    assert start.elapsed_time(end) > 0


def test_streams_overlap_and_wait_for_each_other() -> None:
    x = readtorch.rand(2048, 2048, device="cuda")
    side = readtorch.cuda.Stream()
    side.wait_stream(readtorch.cuda.current_stream())
    with readtorch.cuda.stream(side):
        y = x @ x
    readtorch.cuda.current_stream().wait_stream(side)
    y.record_stream(readtorch.cuda.current_stream())
    readtorch.testing.assert_close(y, x @ x)


def test_memory_held_for_another_stream_comes_back() -> None:
    side = readtorch.cuda.Stream()
    before = readtorch.cuda.memory_allocated()
    x = readtorch.zeros(1 << 20, device="cuda")
    side.wait_stream(readtorch.cuda.current_stream())
    with readtorch.cuda.stream(side):
        y = x + 1
    x.record_stream(side)
    del x, y
    readtorch.cuda.synchronize()
    assert readtorch.cuda.memory_allocated() == before


def test_a_graph_of_pointwise_work_is_replayed() -> None:
    x = readtorch.ones(1024, device="cuda")
    graph = readtorch.cuda.CUDAGraph()
    with readtorch.cuda.graph(graph):
        y = (x * 2).relu() + 1
    readtorch.cuda.synchronize()
    x.fill_(-1.0)
    graph.replay()
    readtorch.cuda.synchronize()
    assert y.eq(1).all().item()


def test_random_numbers_are_those_of_the_simulated_device() -> None:
    from readtorch.aten.core.philox_rng_engine import philox

    generator = readtorch.Generator("cuda").manual_seed(5)
    drawn = readtorch.randint(1 << 31, (8,), device="cuda", generator=generator)
    words = philox(5, 0, 2).reshape(-1).astype(np.int64) % (1 << 31)
    assert drawn.tolist() == words.tolist()


@pytest.mark.torch
def test_both_count_the_same_memory(torch: Any) -> None:
    readtorch.cuda.reset_peak_memory_stats()
    base = readtorch.cuda.memory_allocated()
    x = readtorch.zeros(1 << 20, device="cuda")
    assert readtorch.cuda.memory_allocated() - base == 4 << 20
    del x
    assert readtorch.cuda.max_memory_allocated() - base >= 4 << 20
