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
# # Choosing devices and seeding them, where there are none
#
# A script that was written for GPUs chooses one, takes streams, and keeps the state of the GPUs' random generators in its checkpoints. Upstream's CPU build treats three kinds of request differently: *seeding* is noted for later and so always
# works; *a context that chooses nothing* does nothing; whatever would have to *look at* a device raises.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: cuda/random.py
"""The GPUs' random generators (twin of `torch/cuda/random.py`), as a build without CUDA shows them."""

# %%
#| into: cuda/random.py
#| imports
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

# %%
#| into: cuda/random.py
__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _need_cuda() -> NoReturn:
    from readtorch import cuda

    cuda._lazy_init()


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#get_rng_state
def get_rng_state(device: Any = "cuda") -> NoReturn:
    """The generator's state. AssertionError without CUDA."""
    _need_cuda()


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#get_rng_state_all
def get_rng_state_all() -> list[Any]:
    """The state of every device's generator: none."""
    return []


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#set_rng_state
def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Put the generator into a state, when there will be one; nothing to do without CUDA."""


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#set_rng_state_all
def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Put every device's generator into its state."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#manual_seed
def manual_seed(seed: int) -> None:
    """Seed the current device's generator, when there will be one; nothing to do without CUDA."""


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#manual_seed_all
def manual_seed_all(seed: int) -> None:
    """Seed every device's generator; nothing to do without CUDA."""


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#seed
def seed() -> None:
    """Seed the current device's generator at random; nothing to do without CUDA."""


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#seed_all
def seed_all() -> None:
    """Seed every device's generator at random; nothing to do without CUDA."""


# %%
#| into: cuda/random.py
#| upstream: torch/cuda/random.py#initial_seed
def initial_seed() -> NoReturn:
    """The seed of the current device's generator. AssertionError without CUDA."""
    _need_cuda()


# %%
#| into: cuda/__init__.py
from readtorch.cuda import random as random
from readtorch.cuda.random import get_rng_state as get_rng_state
from readtorch.cuda.random import get_rng_state_all as get_rng_state_all
from readtorch.cuda.random import initial_seed as initial_seed
from readtorch.cuda.random import manual_seed as manual_seed
from readtorch.cuda.random import manual_seed_all as manual_seed_all
from readtorch.cuda.random import seed as seed
from readtorch.cuda.random import seed_all as seed_all
from readtorch.cuda.random import set_rng_state as set_rng_state
from readtorch.cuda.random import set_rng_state_all as set_rng_state_all


# %% [markdown]
# ## Contexts that choose a device or a stream


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#device
class device:
    """Make a device the current one inside. A negative index chooses none; else RuntimeError on entry, without CUDA."""

    def __init__(self, device: _Any) -> None:
        if isinstance(device, str) or hasattr(device, "type"):
            kind, _, index = str(device).partition(":")
            if kind != "cuda":
                raise ValueError(f"Expected a cuda device, but got: {device}")
            device = int(index or 0)
        self.idx = device
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            raise RuntimeError("PyTorch was compiled without CUDA support")

    def __exit__(self, type: _Any, value: _Any, traceback: _Any) -> None:
        return None


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#device_of
class device_of(device):
    """Make the device of a tensor or storage the current one inside; one on the CPU changes nothing."""

    def __init__(self, obj: _Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#StreamContext
class StreamContext:
    """Put kernels into `stream` inside. Without CUDA there is no stream but None, which changes nothing."""

    def __init__(self, stream: _Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _lazy_init()

    def __exit__(self, type: _Any, value: _Any, traceback: _Any) -> None:
        return None


# %%
#| into: cuda/__init__.py
#| upstream: torch/cuda/__init__.py#stream
def stream(stream: _Any) -> StreamContext:
    """A context that puts kernels into `stream`; None changes nothing."""
    return StreamContext(stream)


def set_stream(stream: _Any) -> None:
    """Put kernels into `stream` from now on; None changes nothing. AssertionError for a stream without CUDA."""
    if stream is not None:
        _lazy_init()


def default_stream(device: _Any = None) -> _NoReturn:
    """The device's first stream. AssertionError without CUDA."""
    _lazy_init()


def can_device_access_peer(device: _Any, peer_device: _Any) -> _NoReturn:
    """Can one device read the other's memory? AssertionError without CUDA."""
    _lazy_init()


def ipc_collect() -> _NoReturn:
    """Free memory that other processes let go of. AssertionError without CUDA."""
    _lazy_init()


def is_tf32_supported() -> bool:
    """Can the device multiply in TensorFloat-32?"""
    return False


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
#| claim: without CUDA, seeding works, choosing nothing works, and looking at a device raises
def _(torch):
    torch.cuda.manual_seed_all(3)
    torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    with torch.cuda.stream(None), torch.cuda.device(-1), torch.accelerator.device_index(None):
        pass
    try:
        torch.cuda.initial_seed()
    except AssertionError as error:
        assert "Torch not compiled with CUDA enabled" in str(error)
    else:
        raise ValueError("there is a GPU here")
