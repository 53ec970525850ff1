# Tangled from chapters/a2_layers/10_attention.py — edit there, or here and run `readtorch sync`.
"""The choice among kernels of attention (twin of `torch/nn/attention/__init__.py`)."""

import contextlib as _contextlib
from collections.abc import Iterator as _Iterator
from enum import IntEnum as _IntEnum
from typing import Any as _Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(_IntEnum):
    """Kernels of scaled dot product attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@_contextlib.contextmanager
def sdpa_kernel(backends: _Any, set_priority: bool = False) -> _Iterator[dict[_Any, _Any]]:
    """Name the kernels that may be used. AssertionError for anything but kernels; no effect otherwise, as there is one."""
    named = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(named, list) or not all(isinstance(backend, SDPBackend) for backend in named):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    yield {}
