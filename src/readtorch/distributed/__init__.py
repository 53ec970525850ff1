# Tangled from chapters/07_distributed.py — edit there, or here and run `readtorch sync`.
"""Processes that train together. So far: what holds for a process that is alone."""

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
