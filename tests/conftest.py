"""`--device`: the device on which the library's tests put their tensors; how the garbage collector runs meanwhile; what no test may leave behind."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="where tests/library puts tensors; cuda is a real GPU, or simulated ones with READTORCH_SIM_CUDA=4",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Collect with the collector off, and leave what collecting made out of its later rounds.

    Thousands of items and every module imported stay to the end: to walk them again and again took half of collecting's time, and
    some of each test's.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def switches(torch: Any) -> dict[str, Any]:
    """What is set for a whole process, or thread, in a library: what one test sets, the next one would meet."""
    return {
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "warn always": torch.is_warn_always_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
    }


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test of the library or beside PyTorch gives back what it set: in any order the others find what they would find alone."""
    if request.path.parent.name not in ("library", "parity"):
        yield
        return
    found = {name: switches(sys.modules[name]) for name in ("readtorch", "torch") if name in sys.modules}
    folder = os.getcwd()
    yield
    left = {name: switches(sys.modules[name]) for name in found}
    assert left == found
    assert os.getcwd() == folder
