# Tangled from chapters/01_import/d4_cuda_runtime.py — edit there, or here and run `readtorch sync`.
"""Devices: how many, which is current, and the library that speaks to them (twin of `c10/cuda/CUDAFunctions.h`)."""

from __future__ import annotations

import os
import warnings
from typing import Any

MISSING = "Torch not compiled with CUDA enabled"


class _Loaded:
    """The array library: CuPy, the simulated one, or None before the first use."""

    library: Any = None
    simulated = 0
    #: may numbers of devices be read without loading anything? Found once
    count: int | None = None
    why = ""


def simulate(devices: int) -> Any:
    """Use a simulated library with so many devices. RuntimeError if a real one is in use."""
    if _Loaded.library is not None and not _Loaded.simulated:
        raise RuntimeError("a real GPU is in use in this process; simulated devices cannot be added")
    if _Loaded.simulated == devices:
        return _Loaded.library
    from readtorch.c10.cuda.simulated.runtime import SimulatedCuPy

    fresh = SimulatedCuPy(devices)
    fresh.host.on_wait = warn_or_error_on_sync
    _Loaded.library, _Loaded.simulated, _Loaded.count = fresh, devices, devices
    return fresh


def is_simulated() -> bool:
    """Are the devices simulated?"""
    return bool(_Loaded.simulated)


def library() -> Any:
    """CuPy, or what stands for it. AssertionError, with the way out, if no device can be used."""
    if _Loaded.library is None:
        if device_count() == 0:
            raise AssertionError(f"{MISSING}: {_Loaded.why}")
        if _Loaded.library is None:
            import cupy

            _Loaded.library = cupy
    return _Loaded.library


def require(what: str) -> None:
    """RuntimeError, with the way out, if no device can be used: `what` is of no use then."""
    if device_count() == 0:
        raise RuntimeError(f"{what} requires CUDA support: {_Loaded.why}")


def device_count() -> int:
    """How many devices there are; 0 if CUDA cannot be used. Never raises, and makes no context."""
    if _Loaded.count is None:
        _Loaded.count = _count()
    return _Loaded.count


def _count() -> int:
    wanted = os.environ.get("READTORCH_SIM_CUDA")
    if wanted and wanted != "0":
        simulate(int(wanted))
        return int(wanted)
    try:
        import cupy
    except ImportError:
        _Loaded.why = "CuPy is not installed; pip install 'readtorch[cuda13]' (or cuda12), or READTORCH_SIM_CUDA=1"
        return 0
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        _Loaded.why = f"CuPy finds no device ({error}); READTORCH_SIM_CUDA=1 simulates one"
        return 0


def current_device() -> int:
    """This thread's current device."""
    return int(_Loaded.library.cuda.runtime.getDevice())


def set_device(number: int) -> None:
    """Make a device this thread's current one. RuntimeError if there is none of that number."""
    if not 0 <= number < device_count():
        raise RuntimeError("CUDA error: invalid device ordinal")
    _Loaded.library.cuda.runtime.setDevice(number)


def device_synchronize() -> None:
    """Let the host wait for all streams of the current device."""
    _Loaded.library.cuda.runtime.deviceSynchronize()


class WarningState:
    """What to do when the host has to wait: 0 nothing, 1 warn, 2 raise."""

    sync_debug_mode = 0
    #: how often the host had to
    waits = 0


warning_state = WarningState()


def warn_or_error_on_sync(what: str = "") -> None:
    """The host is about to wait for the device."""
    warning_state.waits += 1
    if what.startswith(("synchronize", "device", "Event")):  # asked for
        return
    if warning_state.sync_debug_mode == 2:
        raise RuntimeError(f"called a synchronizing CUDA operation ({what})")
    if warning_state.sync_debug_mode == 1:
        warnings.warn(f"called a synchronizing CUDA operation ({what})", stacklevel=2)


def stream_synchronize(stream: Any, what: str) -> None:
    """Let the host wait for a stream, because of `what`."""
    if _Loaded.simulated:
        stream.synchronize(what)
    else:
        warn_or_error_on_sync(what)
        stream.synchronize()


def host_waits(what: str) -> None:
    """Note that the host waits for a real device; a simulated one notes it itself."""
    if not _Loaded.simulated:
        warn_or_error_on_sync(what)
