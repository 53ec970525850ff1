# Tangled from chapters/07_distributed.py — edit there, or here and run `readtorch sync`.
"""Processes that train together. So far: what holds for a process that is alone."""

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
