"""The in-place kernels of SGD and Adam against the loops of operators that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import readtorch as torch
from readtorch.aten.native import cpu_blas, fused_adam, fused_sgd

SHAPES = [(3, 5), (), (70_001,), (4, 0)]

SGD = [
    {"lr": 0.1},
    {"lr": 0.1, "momentum": 0.9},
    {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"lr": 0.1, "momentum": 0.5, "dampening": 0.3, "maximize": True},
]
ADAM = [
    {},
    {"weight_decay": 0.1, "amsgrad": True},
    {"maximize": True, "betas": (0.3, 0.9)},
    {"weight_decay": 0.1, "decoupled_weight_decay": True, "lr": 0.05},
]


def train(name: str, options: dict[str, Any], dtype: torch.dtype) -> list[np.ndarray]:
    """Three steps on parameters of several sizes: what the parameters and the state are afterwards."""
    rng = np.random.default_rng(0)
    params = [torch.nn.Parameter(torch.from_numpy(rng.standard_normal(shape)).to(dtype)) for shape in SHAPES]
    optimizer = getattr(torch.optim, name)(params, **options)
    for _ in range(3):
        for param in params:
            param.grad = torch.from_numpy(rng.standard_normal(param.shape)).to(dtype)
        optimizer.step()
    state = [value for entry in optimizer.state.values() for value in entry.values() if value is not None]
    return [tensor.detach().cpu().numpy() for tensor in (*params, *state)]


@pytest.fixture(params=["BLAS", "NumPy"])
def arithmetic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who computes y ← αx + βy: the BLAS under NumPy, or NumPy itself."""
    if request.param == "NumPy":
        monkeypatch.setattr(cpu_blas, "kernel", lambda char: None)
    elif cpu_blas.kernel("f") is None:
        pytest.skip("this NumPy brings no BLAS with axpby")
    return request.param


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "options"), [*(("SGD", o) for o in SGD), *(("Adam", o) for o in ADAM)])
def test_blocks_give_what_the_loop_gives(
    name: str, options: dict[str, Any], dtype: torch.dtype, arithmetic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fused = train(name, options, dtype)
    module = fused_sgd if name == "SGD" else fused_adam
    monkeypatch.setattr(module, name.lower(), lambda *args, **kwargs: frozenset())
    for mine, loop in zip(fused, train(name, options, dtype), strict=True):
        if name == "SGD" and arithmetic == "NumPy":
            np.testing.assert_array_equal(mine, loop)
        else:
            ulp = np.finfo(mine.dtype).eps
            np.testing.assert_allclose(mine, loop, rtol=2 * ulp, atol=4 * ulp)


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.25), (1.0, 0.9), (0.0, 0.5), (0.5, 0.0), (0.0, 0.0), (-2.0, 1.0)])
@pytest.mark.parametrize("size", [0, 1, 4095, 70_001])
def test_axpby_is_the_formula_and_keeps_nan(kind: str, alpha: float, beta: float, size: int, arithmetic: str) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, size)).astype(kind)
    if size > 1:
        x[0] = y[1] = np.nan
    expected = (alpha * x.astype("f8") + beta * y.astype("f8")).astype(kind)
    unread = x.copy()
    cpu_blas.axpby(alpha, x, beta, y, np.empty_like(y))
    np.testing.assert_allclose(y, expected, rtol=4 * np.finfo(kind).eps, atol=4 * np.finfo(kind).eps)
    np.testing.assert_array_equal(x, unread)


def test_a_dtype_that_blas_does_not_know_has_no_kernel() -> None:
    assert cpu_blas.kernel("e") is None
    assert cpu_blas.kernel("g") is None


def test_parameters_in_other_memory_take_the_loop() -> None:
    rows, values = torch.randn(4, 3), torch.randn(3, 4)
    results = []
    for start in (rows.t(), rows.t().contiguous()):
        param = torch.nn.Parameter(start.clone(memory_format=torch.preserve_format))
        optimizer = torch.optim.Adam([param], lr=0.1)
        for _ in range(3):
            param.grad = values
            optimizer.step()
        results.append(param.detach())
    torch_allclose = torch.allclose(results[0], results[1], rtol=1e-6, atol=1e-7)
    assert torch_allclose and not torch.equal(results[0], rows.t())


def test_a_step_bumps_the_versions_of_what_it_wrote() -> None:
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([param])
    param.grad = torch.ones(3)
    optimizer.step()
    moment = optimizer.state[param]["exp_avg"]
    before = param._version, moment._version
    optimizer.step()
    assert param._version > before[0] and moment._version > before[1]
    assert param.grad._version == 0


def test_a_graph_through_an_updated_parameter_is_refused() -> None:
    param = torch.nn.Parameter(torch.ones(3))
    loss = (param**2).sum()
    optimizer = torch.optim.SGD([param], lr=0.1)
    param.grad = torch.ones(3)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.cpu("a device steps them by one launch")
@pytest.mark.parametrize("overlap", [True, False])
def test_parameters_on_the_same_memory_are_stepped_in_one_thread(
    overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[int] = []

    def noted(begin: int, end: int, grain_size: int, function: Any) -> None:
        pieces.append(-(-(end - begin) // grain_size))
        function(begin, end)

    monkeypatch.setattr(fused_sgd, "parallel_for", noted)
    size = fused_sgd.BLOCK
    memory = torch.zeros(2 * size)
    params = [torch.nn.Parameter(memory[:size]), torch.nn.Parameter(memory[size - overlap : 2 * size - overlap])]
    for param in params:
        param.grad = torch.ones(size)
    torch.optim.SGD(params, lr=1.0).step()
    assert pieces == [1 if overlap else 2]
    assert memory[size - 1].item() == (-2 if overlap else -1)
