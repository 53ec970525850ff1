# Tangled from chapters/04_optim/9_fused.py — edit there, or here and run `readtorch sync`.
"""y ← αx + βy in one pass, by the BLAS that NumPy is linked with (twin of `aten/src/ATen/native/CPUBlas.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

_ENTRIES = (
    ("scipy_cblas_{}axpby64_", ctypes.c_int64),
    ("cblas_{}axpby64_", ctypes.c_int64),
    ("scipy_cblas_{}axpby", ctypes.c_int),
)
"""The names that NumPy's wheels have given the function, and the integer that counts elements.

Plain `cblas_saxpby` is left out: its integers are of 32 or of 64 bits, and the name does not tell."""


@functools.cache
def kernel(char: str) -> Callable[..., None] | None:
    """The entry for this dtype's character, or None where NumPy brings no such BLAS."""
    letter = {"f": "s", "d": "d"}.get(char)
    if letter is None:
        return None
    try:
        library = ctypes.CDLL(str(import_module("numpy._core._multiarray_umath").__file__))
    except (ImportError, OSError):
        return None
    real = ctypes.c_float if char == "f" else ctypes.c_double
    for name, count in _ENTRIES:
        entry = getattr(library, name.format(letter), None)
        if entry is not None:
            entry.restype = None
            entry.argtypes = [count, real, ctypes.c_void_p, count, real, ctypes.c_void_p, count]
            return entry
    return None


_view: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def address(array: np.ndarray) -> int:
    """Where the array's memory begins."""
    try:
        return ctypes.addressof(_view(array))
    except (TypeError, ValueError):  # read-only, in several pieces, or without elements
        return array.ctypes.data


def axpby(alpha: float, x: np.ndarray, beta: float, y: np.ndarray, scratch: np.ndarray) -> None:
    """In place, y ← αx + βy. All three: one dimension, in one piece, of one dtype and size; `scratch` may be overwritten."""
    run = kernel(y.dtype.char) if alpha != 0 and beta != 0 else None
    if run is not None:
        run(y.size, alpha, address(x), 1, beta, address(y), 1)
        return
    if beta != 1:
        np.multiply(y, beta, out=y)
    np.add(y, x if alpha == 1 else np.multiply(x, alpha, out=scratch), out=y)
