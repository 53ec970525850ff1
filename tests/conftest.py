"""`--device`: the device on which the library's tests put their tensors; and how the garbage collector runs meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator

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
