"""Optimizers and averages that hand whole lists to a device's kernel; the device is the CPU, running the kernels' source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import readtorch as torch
from readtorch.aten.native.cuda import jit_utils
from readtorch.c10.core import dispatch_key
from readtorch.literate import fibres
from readtorch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, get_swa_multi_avg_fn

pytestmark = pytest.mark.xdist_group("kernels")


class OnDevice(np.ndarray):
    """Arrays that count as a device's."""


@pytest.fixture
def device(hosts: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[fibres.OnCpu]:
    monkeypatch.setitem(dispatch_key.BACKENDS, OnDevice, dispatch_key.DispatchKey.CPU)
    monkeypatch.setitem(dispatch_key.DEVICE_OF, OnDevice, dispatch_key.DEVICE_OF[np.ndarray])
    on_cpu = fibres.OnCpu(2, hosts)
    with jit_utils.running_on(on_cpu):
        yield on_cpu


def moved(tensor: Any) -> Any:
    tensor._array = tensor._array.view(OnDevice)
    return tensor


SHAPES = [(3, 5), (), (40_001,), (4, 0), (7, 6)]


def train(make: Callable[..., Any], place: Callable[[Any], Any], dtype: Any = torch.float32) -> list[np.ndarray]:
    """Parameters and state after three steps; in the second one parameter has no gradient, the last one has gaps in memory."""
    rng = np.random.default_rng(3)
    params = [place(torch.nn.Parameter(torch.from_numpy(rng.standard_normal(shape)).to(dtype))) for shape in SHAPES]
    params[-1].data = place(torch.from_numpy(rng.standard_normal((6, 7))).to(dtype)).t()
    optimizer = make(params)
    for step in range(3):
        for number, param in enumerate(params):
            gradient = torch.from_numpy(rng.standard_normal(tuple(param.shape))).to(dtype)
            param.grad = None if (step, number) == (1, 0) else place(gradient)
        before = params[2]._version
        optimizer.step()
        assert params[2]._version > before
    state = [value for entry in optimizer.state.values() for value in entry.values() if value is not None]
    return [np.asarray(tensor._array) for tensor in (*params, *state)]


MAKERS: dict[str, Callable[..., Any]] = {
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1),
    "SGD, momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "SGD, nesterov": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "Adam": lambda params: torch.optim.Adam(params, lr=0.01),
    "Adam, largest": lambda params: torch.optim.Adam(params, lr=0.01, amsgrad=True, weight_decay=0.1, maximize=True),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=0.01),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_device_trains_as_the_host_does(name: str, device: fibres.OnCpu) -> None:
    here, there = train(MAKERS[name], lambda tensor: tensor), train(MAKERS[name], moved)
    assert device.launches
    assert len(here) == len(there)
    for mine, theirs in zip(there, here, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)


def test_all_parameters_of_a_dtype_are_stepped_by_one_launch(device: fibres.OnCpu) -> None:
    params = [moved(torch.nn.Parameter(torch.ones(3, size + 1, dtype=dtype))) for dtype in (torch.float32, torch.float64) for size in range(20)]  # fmt: skip
    optimizer = torch.optim.Adam(params)
    for _ in range(2):
        for param in params:
            param.grad = moved(torch.ones_like(param))
        optimizer.step()
    names = [expression.split("<")[1].split(",")[0] for expression, _, _ in device.launches]
    assert names == ["float", "double"] * 2


def test_parameters_that_have_made_more_steps_take_a_launch_of_their_own(device: fibres.OnCpu) -> None:
    params = [moved(torch.nn.Parameter(torch.ones(5))) for _ in range(3)]
    optimizer = torch.optim.Adam(params)
    for gradients in (params[:1], params):
        optimizer.zero_grad()
        for param in gradients:
            param.grad = moved(torch.ones_like(param))
        device.launches.clear()
        optimizer.step()
    assert len(device.launches) == 2


def test_counters_on_the_device_are_read_there_and_one_launch_serves_all(device: fibres.OnCpu) -> None:
    def run(place: Callable[[Any], Any]) -> list[np.ndarray]:
        params = [place(torch.nn.Parameter(torch.full((5,), float(size)))) for size in range(3)]
        optimizer = torch.optim.Adam(params, lr=0.1, amsgrad=True)
        for gradients in (params[:1], params, params):
            optimizer.zero_grad()
            for param in gradients:
                param.grad = place(torch.ones_like(param))
            device.launches.clear()
            optimizer.step()
            for entry in optimizer.state.values():
                place(entry["step"])
        return [np.asarray(param._array) for param in params]

    here, there = run(lambda tensor: tensor), run(moved)
    assert [name for name, _, _ in device.launches] == ["fused_adam<float, true>"]
    for mine, theirs in zip(there, here, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5)


def test_arrays_of_the_host_are_left_to_the_loop(device: fibres.OnCpu) -> None:
    train(MAKERS["Adam"], lambda tensor: tensor)
    assert device.launches == []


@pytest.mark.parametrize("average", [get_ema_multi_avg_fn(0.9), get_swa_multi_avg_fn()])
def test_an_averaged_model_takes_one_launch_per_update(average: Any, device: fibres.OnCpu) -> None:
    def run(place: Callable[[Any], Any]) -> list[np.ndarray]:
        torch.manual_seed(0)
        model = torch.nn.Linear(20, 30)
        averaged = AveragedModel(model, multi_avg_fn=average)
        for tensor in (*model.parameters(), *averaged.module.parameters()):
            place(tensor)
        for _ in range(3):
            with torch.no_grad():
                for tensor in model.parameters():
                    tensor._array += 1
            averaged.update_parameters(model)
        return [np.asarray(tensor._array) for tensor in averaged.module.parameters()]

    here, there = run(lambda tensor: tensor), run(moved)
    assert [name.split("<")[0] for name, _, _ in device.launches] == ["foreach_lerp"] * 2
    for mine, theirs in zip(there, here, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)
