# Tangled from chapters/05_data/2_sampler.py — edit there, or here and run `readtorch sync`.
"""The sampler that shares a dataset out among the processes of a group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

import readtorch as torch
from readtorch.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Indices `rank`, `rank + num_replicas`, … of an order common to all replicas.

    The order is padded by starting over, so that all replicas get equally many, or with `drop_last` cut. Without
    `num_replicas` and `rank` they are the default process group's (ValueError where there is none).
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            world, own = _process_group()
            num_replicas = world if num_replicas is None else num_replicas
            rank = own if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        size = len(dataset)
        if drop_last and size % num_replicas != 0:
            self.num_samples = math.ceil((size - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = torch.randperm(size, generator=generator).tolist()
        else:
            order = list(range(size))
        if not self.drop_last and size:
            order *= math.ceil(self.total_size / size)
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """To be called before each epoch: the order depends on it."""
        self.epoch = epoch


def _process_group() -> tuple[int, int]:
    """World size and rank of the default process group."""
    try:
        from readtorch import distributed
    except ImportError:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        ) from None
    return distributed.get_world_size(), distributed.get_rank()
