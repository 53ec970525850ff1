"""With `--device cuda` every tensor that a test makes without naming a device is on the GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--device") != "cuda":
        return
    for item in items:
        about = item.get_closest_marker("cpu")
        if about is not None:
            reason = about.args[0] if about.args else "NumPy's arrays or the package itself"
            item.add_marker(pytest.mark.skip(reason=f"is about the CPU alone: {reason}"))


@pytest.fixture(autouse=True)
def _device(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--device") != "cuda":
        yield
        return
    import readtorch as torch

    assert torch.cuda.is_available(), "no GPU: READTORCH_SIM_CUDA=4 simulates four"
    torch.set_default_device("cuda")
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.set_default_device(None)
