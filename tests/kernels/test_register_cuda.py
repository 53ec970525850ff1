"""Operators whose CUDA column holds CUDA C++: they are entered, compute, and leave the rest to the general kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from readtorch.aten import register_cuda
from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.cuda import cuda_generator_impl
from readtorch.aten.cuda.cuda_generator_impl import CUDAGeneratorImpl
from readtorch.aten.native.cuda import jit_utils
from readtorch.c10.core.dispatch_key import DispatchKey
from readtorch.literate import fibres

pytestmark = pytest.mark.xdist_group("kernels")


class General:
    """Stands for the maker of kernels from the CPU's text: hands out the CPU's, and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def value(self, kernel: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return kernel(*args, **kwargs)

        return counted


@pytest.fixture
def general(hosts: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[General]:
    for entry in dispatcher.operators.values():
        monkeypatch.setattr(entry, "kernels", dict(entry.kernels))
    stand_in = General()
    monkeypatch.setattr(dispatcher.cuda, "maker", stand_in)
    monkeypatch.setattr(dispatcher, "_listeners", [])
    register_cuda.register()
    with jit_utils.running_on(fibres.OnCpu(2, hosts)):
        yield stand_in


def column(name: str) -> Any:
    return dispatcher.operators[name].kernels[DispatchKey.CUDA]


def test_each_is_an_operator_with_the_signature_of_its_cpu_kernel(general: General) -> None:
    for kernel in register_cuda._KERNELS:
        entry = dispatcher.operators[kernel.__name__]
        count = kernel.__code__.co_argcount + kernel.__code__.co_kwonlyargcount
        assert kernel.__code__.co_varnames[:count] == entry.schema.names


def test_a_column_computes_what_the_cpus_does(general: General) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 40)).astype(np.float32)
    dy = rng.standard_normal((6, 40)).astype(np.float32)
    y = column("_log_softmax")(x, 1)
    np.testing.assert_allclose(y, dispatcher.cpu._log_softmax(x, 1), rtol=1e-5)
    np.testing.assert_allclose(
        column("_log_softmax_backward_data")(dy, y, 1),
        dispatcher.cpu._log_softmax_backward_data(dy, y, 1),
        rtol=1e-4,
        atol=1e-6,
    )
    assert general.calls == 0


@pytest.mark.parametrize("x", [np.ones((0, 3), np.float32), np.float32(1).reshape(())])
def test_what_a_kernel_declines_is_left_to_the_general_one(x: np.ndarray, general: General) -> None:
    assert column("_softmax")(x, 0).shape == x.shape
    assert general.calls == 1


def test_errors_are_the_general_kernels(general: General) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        column("_softmax")(np.arange(3), 0)


def test_dropout_draws_from_the_devices_generator_and_moves_its_offset(
    general: General, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = CUDAGeneratorImpl(5)
    for module in (register_cuda, cuda_generator_impl):
        monkeypatch.setattr(module, "default_generator", lambda device: generator)
        monkeypatch.setattr(module, "current_device", lambda: 0)
    x = np.ones(1000, np.float32)
    first, mask = column("native_dropout")(x, 0.5, True)
    second, _ = column("native_dropout")(x, 0.5, True)
    assert generator.offset == 2
    assert set(np.unique(first)) == {0, 2}
    assert (first != second).any()
    generator.manual_seed(5)
    assert (column("native_dropout")(x, 0.5, True)[1] == mask).all()
    np.testing.assert_array_equal(column("native_dropout_backward")(x, mask, 2.0), first)


def test_the_simulated_devices_mask_is_the_kernels() -> None:
    """One seed, one mask: from CUDA C++ and from the general kernel."""
    import os
    import subprocess
    import sys

    code = (
        "import readtorch as torch\ntorch.cuda.simulate(1)\ntorch.manual_seed(5)\n"
        "print(torch.nn.functional.dropout(torch.ones(50, device='cuda'), 0.25).cpu().gt(0).int().tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    if not fibres.available():
        pytest.skip("no g++: kernels are not run on the CPU")
    from readtorch.aten.native.cuda import dropout

    with jit_utils.running_on(fibres.OnCpu()):
        _, mask = dropout.native_dropout(np.ones(50, np.float32), 0.25, 5, 0)
    assert done.stdout.strip() == str(mask.astype(int).tolist())
