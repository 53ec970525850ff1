# Tangled from chapters/06_data_parallel.py, chapters/07_distributed.py — edit there, or here and run `readtorch sync`.
"""Modules over several devices or processes."""

from readtorch.nn.parallel.data_parallel import DataParallel as DataParallel
from readtorch.nn.parallel.data_parallel import data_parallel as data_parallel

from readtorch.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
