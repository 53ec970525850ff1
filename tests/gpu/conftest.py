"""Everything in this folder needs a CUDA device; without one each test is skipped by name."""

from __future__ import annotations

from pathlib import Path

import pytest


def devices() -> int:
    try:
        import cupy
    except ImportError:
        return 0
    return cupy.cuda.runtime.getDeviceCount() if cupy.cuda.is_available() else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    found: int | None = None
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            found = devices() if found is None else found
            if not found:
                item.add_marker(pytest.mark.skip(reason="no CUDA device, or no CuPy"))
