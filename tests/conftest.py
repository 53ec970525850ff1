"""`--device`: the device on which the library's tests put their tensors."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="where tests/library puts tensors; cuda is a real GPU, or simulated ones with READTORCH_SIM_CUDA=4",
    )
