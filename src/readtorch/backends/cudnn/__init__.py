# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""cuDNN's switches. There is none: they are remembered."""

from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"
depthwise_kernel = "auto"


def is_available() -> bool:
    """False: convolutions are computed without cuDNN."""
    return False


def version() -> None:
    """None: there is no cuDNN."""


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
    _depthwise_kernel: str | None = None,
) -> tuple[bool, bool, int | None, bool, bool, str, str]:
    """Set the switches that are not None, and return all as they were."""
    names = (
        "enabled",
        "benchmark",
        "benchmark_limit",
        "deterministic",
        "allow_tf32",
        "fp32_precision",
        "depthwise_kernel",
    )
    wanted = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision, _depthwise_kernel)
    before = tuple(globals()[name] for name in names)
    globals().update({name: value for name, value in zip(names, wanted, strict=True) if value is not None})
    return (*before[:2], before[2] if is_available() else None, *before[3:])


@_contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
    depthwise_kernel: str = "auto",
) -> _Iterator[None]:
    """Other switches for a block: `with torch.backends.cudnn.flags(enabled=False):`."""
    limit = globals()["benchmark_limit"]
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision, depthwise_kernel)
    try:
        yield
    finally:
        set_flags(*before)
        globals()["benchmark_limit"] = limit
