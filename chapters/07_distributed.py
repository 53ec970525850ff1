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
from readtorch.distributed import algorithms as algorithms
from readtorch.distributed.distributed_c10d import ProcessGroup as ProcessGroup
from readtorch.distributed.distributed_c10d import ReduceOp as ReduceOp
from readtorch.distributed.distributed_c10d import all_gather as all_gather
from readtorch.distributed.distributed_c10d import all_gather_object as all_gather_object
from readtorch.distributed.distributed_c10d import all_reduce as all_reduce
from readtorch.distributed.distributed_c10d import barrier as barrier
from readtorch.distributed.distributed_c10d import broadcast as broadcast
from readtorch.distributed.distributed_c10d import broadcast_object_list as broadcast_object_list
from readtorch.distributed.distributed_c10d import destroy_process_group as destroy_process_group
from readtorch.distributed.distributed_c10d import gather as gather
from readtorch.distributed.distributed_c10d import get_backend as get_backend
from readtorch.distributed.distributed_c10d import get_rank as get_rank
from readtorch.distributed.distributed_c10d import get_world_size as get_world_size
from readtorch.distributed.distributed_c10d import group as group
from readtorch.distributed.distributed_c10d import init_process_group as init_process_group
from readtorch.distributed.distributed_c10d import is_gloo_available as is_gloo_available
from readtorch.distributed.distributed_c10d import is_initialized as is_initialized
from readtorch.distributed.distributed_c10d import is_mpi_available as is_mpi_available
from readtorch.distributed.distributed_c10d import is_nccl_available as is_nccl_available
from readtorch.distributed.distributed_c10d import is_torchelastic_launched as is_torchelastic_launched
from readtorch.distributed.distributed_c10d import new_group as new_group
from readtorch.distributed.distributed_c10d import recv as recv
from readtorch.distributed.distributed_c10d import reduce as reduce
from readtorch.distributed.distributed_c10d import reduce_scatter as reduce_scatter
from readtorch.distributed.distributed_c10d import scatter as scatter
from readtorch.distributed.distributed_c10d import send as send


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

import enum
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
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


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


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: Any = None,
) -> Any:
    """Reduce onto one process. ValueError without a process group."""
    _refuse()


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: Any = None,
) -> Any:
    """Gather onto one process. ValueError without a process group."""
    _refuse()


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: Any = None,
) -> Any:
    """A part from one process to each. ValueError without a process group."""
    _refuse()


def reduce_scatter(output: Any, input_list: Any, op: Any = None, group: Any = None, async_op: bool = False) -> Any:
    """Reduce, and leave a part with each. ValueError without a process group."""
    _refuse()


def all_gather_object(object_list: Any, obj: Any, group: Any = None) -> None:
    """Gather pickled objects from all processes. ValueError without a process group."""
    _refuse()


def broadcast_object_list(
    object_list: Any, src: int | None = None, group: Any = None, device: Any = None, group_src: Any = None
) -> None:
    """Copy pickled objects from one process to all. ValueError without a process group."""
    _refuse()


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: Any = None) -> None:
    """Send to one process. ValueError without a process group."""
    _refuse()


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: Any = None) -> int:
    """Receive from one process. ValueError without a process group."""
    _refuse()


def new_group(ranks: Any = None, **options: Any) -> Any:
    """A group of some of the processes. ValueError without a process group."""
    _refuse()


class ReduceOp(enum.IntEnum):
    """What a reduction does with two values."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class ProcessGroup:
    """What `new_group` gives; annotations name it. ValueError: there is none in a process that is alone."""

    def __init__(self, *args: Any) -> None:
        _refuse()


class group:
    """`group.WORLD` is the default process group: None, as there is none."""

    WORLD = None


def destroy_process_group(group: Any = None) -> None:
    """Forget the process group. AssertionError if there is none."""
    raise AssertionError("Process group cannot be None")


def init_process_group(backend: str | None = None, init_method: str | None = None, **options: Any) -> None:
    """Join the other processes. RuntimeError: no backend is part of readtorch yet."""
    raise RuntimeError(f"init_process_group: no backend is part of readtorch yet, so neither is {backend!r}")


# %% [markdown]
# `torch.distributed.nn` holds the collectives that gradients pass through. Libraries import it and call it only where there is a group; its functions ask for one first as well, and `import torch` alone does not load it.

# %%
#| into: distributed/nn/__init__.py
"""Collectives that gradients pass through, in a process that is alone."""

# %%
#| into: distributed/nn/__init__.py
from readtorch.distributed.nn.functional import all_gather as all_gather
from readtorch.distributed.nn.functional import all_reduce as all_reduce
from readtorch.distributed.nn.functional import all_to_all as all_to_all
from readtorch.distributed.nn.functional import all_to_all_single as all_to_all_single
from readtorch.distributed.nn.functional import broadcast as broadcast
from readtorch.distributed.nn.functional import gather as gather
from readtorch.distributed.nn.functional import reduce as reduce
from readtorch.distributed.nn.functional import reduce_scatter as reduce_scatter
from readtorch.distributed.nn.functional import scatter as scatter

# %%
#| into: distributed/nn/functional.py
"""The functions of `torch.distributed.nn`, each refused without a process group."""

# %%
#| into: distributed/nn/functional.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.distributed.distributed_c10d import ReduceOp, _refuse


# %%
#| into: distributed/nn/functional.py
#| upstream: torch/distributed/nn/functional.py#broadcast
def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """A copy of `tensor` of process `src`; its gradient is summed there. ValueError without a process group."""
    _refuse()


def gather(tensor: Any, dst: int = 0, group: Any = None) -> Any:
    """The tensors of all on process `dst`. ValueError without a process group."""
    _refuse()


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Any:
    """This process' part of the tensors of process `src`. ValueError without a process group."""
    _refuse()


def reduce(tensor: Any, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensors of all reduced, on process `dst`. ValueError without a process group."""
    _refuse()


def reduce_scatter(output: Any, input_list: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """This process' part of the reduced tensors. ValueError without a process group."""
    _refuse()


def all_gather(tensor: Any, group: Any = None) -> Any:
    """The tensors of all, on each. ValueError without a process group."""
    _refuse()


def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None) -> Any:
    """A tensor from each to each. ValueError without a process group."""
    _refuse()


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Any:
    """As `all_to_all`, of pieces of one tensor. ValueError without a process group."""
    _refuse()


def all_reduce(tensor: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Any:
    """The tensors of all reduced, on each. ValueError without a process group."""
    _refuse()


# %% [markdown]
# `Join` lets processes with fewer batches than others follow along. What it joins is a `Joinable`, whose methods name its group, and so it too is refused where there is none.

# %%
#| into: distributed/algorithms/__init__.py
"""What is built on collectives."""

from readtorch.distributed.algorithms import join as join

# %%
#| into: distributed/algorithms/join.py
"""Processes with unequal numbers of batches, in a process that is alone."""

# %%
#| into: distributed/algorithms/join.py
#| imports
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from readtorch.distributed.distributed_c10d import _refuse


# %%
#| into: distributed/algorithms/join.py
#| upstream: torch/distributed/algorithms/join.py#JoinHook
class JoinHook:
    """What a process that has no batches left does in place of one, and once at the end. Both are nothing unless overridden."""

    def main_hook(self) -> None:
        """In place of a batch."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """When all have joined."""


# %%
#| into: distributed/algorithms/join.py
#| upstream: torch/distributed/algorithms/join.py#Joinable
class Joinable(ABC):
    """What can be joined: it gives a hook, a device and a process group."""

    @abstractmethod
    def __init__(self) -> None: ...

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What to do without batches."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Where its collectives run."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """Its group."""


# %%
#| into: distributed/algorithms/join.py
#| upstream: torch/distributed/algorithms/join.py#Join
class Join:
    """Run the hooks of `joinables` until every process is out of batches. ValueError for none, and without a process group."""

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        _refuse()


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
    import importlib

    functional = importlib.import_module(f"{torch.__name__}.distributed.nn.functional")
    alone = torch.distributed
    one = torch.ones(1)
    asked = [alone.get_rank, alone.barrier, alone.new_group]
    asked += [lambda: alone.reduce(one, 0), lambda: alone.send(one, 0), lambda: alone.scatter(one, [one], 0)]
    asked += [lambda: functional.all_reduce(one), lambda: functional.gather(one), lambda: functional.broadcast(one, 0)]
    assert (
        alone.group.WORLD is None and isinstance(alone.ProcessGroup, type) and alone.ReduceOp.SUM != alone.ReduceOp.MAX
    )
    for ask in asked:
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
