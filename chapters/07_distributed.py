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
# # Before there is a process group
#
# The process groups, their backends and DistributedDataParallel are a chapter of their own, still to come. A script that *can* run distributed asks first whether it *does*: it imports names, looks at the environment, and calls
# `is_initialized`. In a single process the answers are upstream's for a process that never called `init_process_group`, and that state is what stands here.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: __init__.py
_MODULES.append("distributed")

# %%
#| into: distributed/__init__.py
"""Processes that train together. So far: what holds for a process that is alone."""

# %%
#| into: distributed/__init__.py
from readtorch.distributed.distributed_c10d import all_gather as all_gather
from readtorch.distributed.distributed_c10d import all_reduce as all_reduce
from readtorch.distributed.distributed_c10d import barrier as barrier
from readtorch.distributed.distributed_c10d import broadcast as broadcast
from readtorch.distributed.distributed_c10d import destroy_process_group as destroy_process_group
from readtorch.distributed.distributed_c10d import get_backend as get_backend
from readtorch.distributed.distributed_c10d import get_rank as get_rank
from readtorch.distributed.distributed_c10d import get_world_size as get_world_size
from readtorch.distributed.distributed_c10d import init_process_group as init_process_group
from readtorch.distributed.distributed_c10d import is_gloo_available as is_gloo_available
from readtorch.distributed.distributed_c10d import is_initialized as is_initialized
from readtorch.distributed.distributed_c10d import is_mpi_available as is_mpi_available
from readtorch.distributed.distributed_c10d import is_nccl_available as is_nccl_available
from readtorch.distributed.distributed_c10d import is_torchelastic_launched as is_torchelastic_launched


def is_available() -> bool:
    """True: the package is there, whether or not a backend is."""
    return True


# %%
#| into: distributed/distributed_c10d.py
"""The default process group, which this process does not have."""

# %%
#| into: distributed/distributed_c10d.py
#| imports
from __future__ import annotations

import os
from typing import Any, NoReturn


# %%
#| into: distributed/distributed_c10d.py
#| upstream: torch/distributed/distributed_c10d.py#is_initialized
def is_initialized() -> bool:
    """Has `init_process_group` been called?"""
    return False


def is_nccl_available() -> bool:
    """Can the `nccl` backend be used?"""
    return False


def is_mpi_available() -> bool:
    """Can the `mpi` backend be used?"""
    return False


def is_gloo_available() -> bool:
    """Can the `gloo` backend be used?"""
    return False


def is_torchelastic_launched() -> bool:
    """Was this process started by `torchrun`?"""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


# %% [markdown]
# Every collective asks for the default group first. Without one all of them fail in the same words, whatever they were given.


# %%
#| into: distributed/distributed_c10d.py
#| upstream: torch/distributed/distributed_c10d.py#_get_default_group
def _refuse() -> NoReturn:
    raise ValueError("Default process group has not been initialized: call init_process_group first.")


def get_rank(group: Any = None) -> int:
    """The rank of this process. ValueError without a process group."""
    _refuse()


def get_world_size(group: Any = None) -> int:
    """The number of processes. ValueError without a process group."""
    _refuse()


def get_backend(group: Any = None) -> str:
    """The name of the backend. ValueError without a process group."""
    _refuse()


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
    """Wait for every process. ValueError without a process group."""
    _refuse()


def all_reduce(tensor: Any, op: Any = None, group: Any = None, async_op: bool = False) -> Any:
    """Reduce over all processes. ValueError without a process group."""
    _refuse()


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Gather from all processes. ValueError without a process group."""
    _refuse()


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: Any = None
) -> Any:
    """Copy from one process to all. ValueError without a process group."""
    _refuse()


def destroy_process_group(group: Any = None) -> None:
    """Forget the process group. AssertionError if there is none."""
    raise AssertionError("Process group cannot be None")


def init_process_group(backend: str | None = None, init_method: str | None = None, **options: Any) -> None:
    """Join the other processes. RuntimeError: no backend is part of readtorch yet."""
    raise RuntimeError(f"init_process_group: no backend is part of readtorch yet, so neither is {backend!r}")


# %% [markdown]
# `DistributedDataParallel` needs the group at once, so its constructor fails before it looks at the module.

# %%
#| into: nn/parallel/distributed.py
"""One copy of a module in each process."""

# %%
#| into: nn/parallel/distributed.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.distributed.distributed_c10d import get_world_size
from readtorch.nn.modules.module import Module


# %%
#| into: nn/parallel/distributed.py
#| upstream: torch/nn/parallel/distributed.py#DistributedDataParallel
class DistributedDataParallel(Module):
    """Average gradients over processes. ValueError without a process group."""

    def __init__(self, module: Module, *args: Any, **options: Any) -> None:
        super().__init__()
        get_world_size()


# %%
#| into: nn/parallel/__init__.py
from readtorch.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel

# %%
print(torch.distributed.is_available(), torch.distributed.is_initialized())
try:
    torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
except ValueError as error:
    print(error)


# %%
#| claim: without a process group the rank is refused, and so is DistributedDataParallel
def _(torch):
    assert not torch.distributed.is_initialized()
    for ask in (torch.distributed.get_rank, torch.distributed.barrier):
        try:
            ask()
        except ValueError as error:
            assert "init_process_group" in str(error)
        else:
            raise AssertionError("no error")
    try:
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    except ValueError as error:
        assert "init_process_group" in str(error)
    else:
        raise AssertionError("no error")
