# Tangled from chapters/01_import/d4_cuda_runtime.py — edit there, or here and run `readtorch sync`.
"""Contexts in which a device is the current one (twin of `c10/cuda/CUDAGuard.h`)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from readtorch.c10.core.device_guard import NOTHING
from readtorch.c10.cuda.cuda_functions import current_device, library, set_device


class CUDAGuard:
    """Device `number` is the current one inside."""

    __slots__ = ("_before", "number")

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> CUDAGuard:
        self._before = current_device()
        if self._before != self.number:
            set_device(self.number)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before != self.number:
            set_device(self._before)


def guard_of(array: Any) -> AbstractContextManager[Any]:
    """The context in which an array's device is the current one; nothing to do if it is."""
    number = array.data.device_id
    return NOTHING if number == current_device() else CUDAGuard(number)


def guarded(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel`, run on the device of the first array among its arguments."""
    kind = library().ndarray

    def run(*args: Any, **kwargs: Any) -> Any:
        for arg in args:
            if arg.__class__ is list and arg:
                arg = arg[0]
            if arg.__class__ is kind:
                number = arg.data.device_id
                if number != current_device():
                    with CUDAGuard(number):
                        return kernel(*args, **kwargs)
                break
        return kernel(*args, **kwargs)

    run.__wrapped__ = kernel  # type: ignore[attr-defined]  # what inspect looks for
    return run
