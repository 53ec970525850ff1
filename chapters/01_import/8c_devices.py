# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The accelerator, of whatever kind
#
# `torch.accelerator` asks what `torch.cuda` asks without naming the vendor. Where there is no device it raises RuntimeError, not AssertionError.

# %%
import readtorch as torch
from readtorch.literate import live

live()


# %%
#| into: accelerator/__init__.py
#| upstream: torch/accelerator/__init__.py#get_device_capability
def get_device_capability(device: _Any = None, /) -> _Any:
    """What the device can compute. RuntimeError without one."""
    _need_one()
    return _cuda.get_device_capability(device)


# %%
#| into: accelerator/__init__.py
#| upstream: torch/accelerator/__init__.py#current_stream
def current_stream(device: _Any = None, /) -> _Any:
    """The stream into which kernels go. RuntimeError without a device."""
    _need_one()
    return _cuda.current_stream(device)


# %%
#| into: accelerator/__init__.py
#| upstream: torch/accelerator/__init__.py#set_stream
def set_stream(stream: _Any) -> None:
    """Put kernels into `stream` from now on. TypeError for None; RuntimeError without a device."""
    if stream is None:
        raise TypeError("set_stream() takes a stream, not None")
    _need_one()
    _cuda.set_stream(stream)


# %%
#| into: accelerator/__init__.py
#| upstream: torch/accelerator/__init__.py#device_index
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


# %%
torch.accelerator.is_available(), torch.accelerator.current_accelerator()

# %% [markdown]
# ## Code that does not want to know the device
#
# `torch.cuda.synchronize()` has a counterpart for each kind of device, in a module named after it. A program that runs on any of them asks for the module: `torch.get_device_module("cuda")`, or without an argument that of the accelerator at hand. Where there is none, the answer has to be a module all the same, so the CPU
# has one, with streams that order nothing and events that have always happened.

# %%
#| into: cpu/__init__.py
"""The CPU in the form of an accelerator's module, for code that runs on any device (twin of `torch/cpu/__init__.py`)."""

from contextlib import AbstractContextManager as _AbstractContextManager
from typing import Any as _Any


def __getattr__(name: str) -> _Any:
    from readtorch._not_here import missing

    raise missing("torch.cpu", name)


# %%
#| into: cpu/__init__.py
#| upstream: torch/cpu/__init__.py#Stream
#| upstream: torch/cpu/__init__.py#Event
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


# %%
#| into: cpu/__init__.py
#| upstream: torch/cpu/__init__.py#StreamContext
#| upstream: torch/cpu/__init__.py#current_stream
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


# %%
#| into: __init__.py
#| upstream: torch/__init__.py#get_device_module
_MODULES.append("cpu")


def get_device_module(device: _Any = None) -> _Any:
    """The module for a device (`torch.cuda`), for None that of the accelerator at hand or the CPU's.

    RuntimeError for a kind of device without one, and for what names no device.
    """
    if device is None:
        accelerator = _importlib.import_module("readtorch.accelerator").current_accelerator()
        kind = "cpu" if accelerator is None else accelerator.type
    elif isinstance(device, str):
        kind = _names()["device"](device).type
    elif isinstance(device, _names()["device"]):
        kind = device.type
    else:
        raise RuntimeError(f"Invalid value of device '{device}', expect torch.device, str, or None")
    if kind not in _MODULES:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return __getattr__(kind)


# %%
with torch.get_device_module("cpu").stream(torch.cpu.Stream()):
    print(torch.get_device_module("cpu").__name__, torch.cpu.device_count(), torch.cpu.Event().query())


# %%
#| claim: get_device_module answers for kinds of devices that have a module, by name or device, and refuses others
def _(torch):
    assert (
        torch.get_device_module("cpu") is torch.cpu and torch.get_device_module(torch.device("cuda", 0)) is torch.cuda
    )
    if not torch.accelerator.is_available():
        assert torch.get_device_module() is torch.cpu
    for wrong, word in ((3, "expect torch.device, str, or None"), ("meta", "does not have a corresponding module")):
        try:
            torch.get_device_module(wrong)
        except RuntimeError as error:
            assert word in str(error)
        else:
            raise AssertionError("found")
