# Tangled from chapters/07_distributed.py — edit there, or here and run `readtorch sync`.
"""Collectives that gradients pass through, in a process that is alone."""

from readtorch.distributed.nn.functional import all_gather as all_gather
from readtorch.distributed.nn.functional import all_reduce as all_reduce
from readtorch.distributed.nn.functional import all_to_all as all_to_all
from readtorch.distributed.nn.functional import all_to_all_single as all_to_all_single
from readtorch.distributed.nn.functional import broadcast as broadcast
from readtorch.distributed.nn.functional import gather as gather
from readtorch.distributed.nn.functional import reduce as reduce
from readtorch.distributed.nn.functional import reduce_scatter as reduce_scatter
from readtorch.distributed.nn.functional import scatter as scatter
