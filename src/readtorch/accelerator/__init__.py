# Tangled from chapters/01_import/ — edit there, or here and run `readtorch sync`.
"""The current accelerator, of whatever kind (twin of `torch/accelerator/__init__.py`)."""

from typing import Any as _Any

from readtorch import cuda as _cuda


def is_available() -> bool:
    """Is there an accelerator?"""
    return _cuda.is_available()


def device_count() -> int:
    """How many there are."""
    return _cuda.device_count()


def current_accelerator(check_available: bool = False) -> _Any:
    """The kind of accelerator as a device without index, or None."""
    if not _cuda.is_available():
        return None
    from readtorch import device

    return device("cuda")


def _need_one() -> None:
    if not _cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def current_device_index() -> int:
    """The number of the current device. RuntimeError without one."""
    _need_one()
    return _cuda.current_device()


def set_device_index(device: _Any, /) -> None:
    """Make a device the current one. RuntimeError without one."""
    _need_one()
    _cuda.set_device(device)


def synchronize(device: _Any = None, /) -> None:
    """Wait for the device. RuntimeError without one."""
    _need_one()
    _cuda.synchronize(device)


def get_device_capability(device: _Any = None, /) -> _Any:
    """What the device can compute. RuntimeError without one."""
    _need_one()
    return _cuda.get_device_capability(device)


def current_stream(device: _Any = None, /) -> _Any:
    """The stream into which kernels go. RuntimeError without a device."""
    _need_one()
    return _cuda.current_stream(device)


def set_stream(stream: _Any) -> None:
    """Put kernels into `stream` from now on. TypeError for None; RuntimeError without a device."""
    if stream is None:
        raise TypeError("set_stream() takes a stream, not None")
    _need_one()
    _cuda.set_stream(stream)


class device_index:
    """Make a device the current one inside; None changes nothing. RuntimeError on entry where there is no device."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx is not None:
            self.prev_idx = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *error: object) -> None:
        if self.idx is not None:
            set_device_index(self.prev_idx)
