# Tangled from chapters/01_import/8c_devices.py — edit there, or here and run `readtorch sync`.
"""The CPU in the form of an accelerator's module, for code that runs on any device (twin of `torch/cpu/__init__.py`)."""

from contextlib import AbstractContextManager as _AbstractContextManager
from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    from readtorch._not_here import missing

    raise missing("torch.cpu", name)


class Stream:
    """Work on the CPU is done when a call returns: there is nothing to order."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: _Any) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to record."""

    def wait_event(self, event: _Any) -> None:
        """Nothing to wait for."""


class Event:
    """A point in time that has passed."""

    def query(self) -> bool:
        """True: it has happened."""
        return True

    def record(self, stream: _Any = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: _Any = None) -> None:
        """Nothing to wait for."""


_current_stream = Stream()


class StreamContext(_AbstractContextManager):
    """Makes a stream the current one; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        global _current_stream
        self.previous = _current_stream
        if self.stream is not None:
            _current_stream = self.stream

    def __exit__(self, *exc_info: object) -> None:
        global _current_stream
        _current_stream = self.previous


def stream(stream: Stream | None) -> StreamContext:
    """A context in which `stream` is the current one."""
    return StreamContext(stream)


def current_stream(device: _Any = None) -> Stream:
    """The current stream."""
    return _current_stream


def current_device() -> str:
    """The name of the only one."""
    return "cpu"


def set_device(device: _Any) -> None:
    """There is one CPU; nothing to choose."""


def device_count() -> int:
    """1."""
    return 1


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True: nothing had to be prepared."""
    return True


def synchronize(device: _Any = None) -> None:
    """Nothing to wait for."""
