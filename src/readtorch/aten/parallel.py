# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""The number of threads that operators use (twin of `aten/src/ATen/Parallel.h`)."""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path
from typing import Any

_PREFIXES = ("scipy_openblas_", "openblas_")
_SUFFIXES = ("64_", "")


def _mapped_libraries() -> list[str]:
    maps = Path("/proc/self/maps")
    if not maps.exists():
        folder = Path(sys.modules["numpy"].__file__ or "").parent
        return [str(file) for file in folder.parent.glob("numpy.libs/*openblas*")]
    return sorted({line.split()[-1] for line in maps.read_text().splitlines() if "openblas" in line})


@functools.cache
def _openblas() -> tuple[Any, Any] | None:
    """The functions that set and get the number of OpenBLAS's threads; None without OpenBLAS."""
    import numpy as np  # noqa: F401  (its import maps the library)

    for path in _mapped_libraries():
        library = ctypes.CDLL(path)
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                setter = getattr(library, f"{prefix}set_num_threads{suffix}", None)
                getter = getattr(library, f"{prefix}get_num_threads{suffix}", None)
                if setter is not None and getter is not None:
                    return setter, getter
    return None


def set_num_threads(count: int, /) -> None:
    """Let matrix products use `count` threads. RuntimeError unless it is positive."""
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"set_num_threads expects an int, but got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    blas = _openblas()
    if blas is not None:
        blas[0](count)


def get_num_threads() -> int:
    """How many threads matrix products use."""
    blas = _openblas()
    return 1 if blas is None else int(blas[1]())


def set_num_interop_threads(count: int, /) -> None:
    """Accepted and without effect: operators of one thread are never run beside each other here."""
    if count <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


def get_num_interop_threads() -> int:
    """1: operators are not run beside each other."""
    return 1
