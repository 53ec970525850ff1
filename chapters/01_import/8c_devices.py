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
