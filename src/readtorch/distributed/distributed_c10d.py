# Tangled from chapters/07_distributed.py — edit there, or here and run `readtorch sync`.
"""The default process group, which this process does not have."""

from __future__ import annotations

import enum
import os
from typing import Any, NoReturn


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
