# Tangled from chapters/07_distributed.py — edit there, or here and run `readtorch sync`.
"""One copy of a module in each process."""

from __future__ import annotations

from typing import Any

from readtorch.distributed.distributed_c10d import get_world_size
from readtorch.nn.modules.module import Module


class DistributedDataParallel(Module):
    """Average gradients over processes. ValueError without a process group."""

    def __init__(self, module: Module, *args: Any, **options: Any) -> None:
        super().__init__()
        get_world_size()
