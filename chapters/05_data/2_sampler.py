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
# # Samplers: the order is an iterator of indices
#
# Shuffling moves no data. A sampler yields indices; a `BatchSampler` cuts another sampler's indices into lists; the loader asks one of the two. Any iterable will do
# in their place.

# %%
import readtorch as torch
from readtorch.literate import live
from readtorch.utils import data

live()

# %%
#| into: utils/data/sampler.py
"""Samplers: iterables of indices, or of lists of them."""

# %%
#| into: utils/data/sampler.py
#| imports
from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import readtorch as torch
from readtorch import Generator, Tensor

# %%
#| into: utils/data/sampler.py
#| upstream: torch/utils/data/sampler.py#Sampler
_T_co = TypeVar("_T_co", covariant=True)


class Sampler(Generic[_T_co]):
    """Base of the samplers: `__iter__` yields indices or lists of indices. `__len__` is optional, as for datasets."""

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


def _check_count(name: str, value: Any, true_is_one: bool = False) -> None:
    counts = isinstance(value, int) and (true_is_one or not isinstance(value, bool))
    if not counts or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _check_flag(name: str, value: Any, error: type[Exception] = ValueError) -> None:
    if not isinstance(value, bool):
        raise error(f"{name} should be a boolean value, but got {name}={value}")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, … in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _drawn_seed() -> int:
    """One int64 from the global generator: it seeds a private one, so that the order is fixed when iteration starts."""
    return int(torch.empty((), dtype=torch.int64).random_().item())


# %%
#| into: utils/data/sampler.py
#| upstream: torch/utils/data/sampler.py#RandomSampler
class RandomSampler(Sampler[int]):
    """A permutation of the indices, or draws with replacement; `num_samples` may exceed the number of samples.

    Without `generator` each iteration draws a seed from the global generator. TypeError if `replacement` is no bool,
    ValueError unless there is at least one sample to draw.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self._num_samples = data_source, num_samples
        self.replacement, self.generator = replacement, generator
        _check_flag("replacement", replacement, TypeError)
        _check_count("num_samples", self.num_samples, true_is_one=True)

    @property
    def num_samples(self) -> int:
        """How many indices one iteration yields; asked anew each time, for datasets that grow."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = torch.Generator()
            generator.manual_seed(_drawn_seed())
        whole, rest = divmod(self.num_samples, 32 if self.replacement else n)
        if self.replacement:
            for size in itertools.chain(itertools.repeat(32, whole), (rest,)):
                yield from torch.randint(high=n, size=(size,), dtype=torch.int64, generator=generator).tolist()
        else:
            for _ in range(whole):
                yield from torch.randperm(n, generator=generator).tolist()
            yield from torch.randperm(n, generator=generator).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


# %%
#| into: utils/data/sampler.py
#| upstream: torch/utils/data/sampler.py#SubsetRandomSampler
class SubsetRandomSampler(Sampler[int]):
    """A permutation of given `indices`."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for position in torch.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[position]

    def __len__(self) -> int:
        return len(self.indices)


# %%
#| into: utils/data/sampler.py
#| upstream: torch/utils/data/sampler.py#WeightedRandomSampler
class WeightedRandomSampler(Sampler[int]):
    """`num_samples` draws from 0 … len(weights) - 1 with the given weights, which need not add up to 1."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_count("num_samples", num_samples)
        _check_flag("replacement", replacement)
        self.weights: Tensor = torch.as_tensor(weights, dtype=torch.float64)
        shape = tuple(self.weights.shape)
        if len(shape) != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {shape}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = torch.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


# %%
#| into: utils/data/sampler.py
#| upstream: torch/utils/data/sampler.py#BatchSampler
class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler; the last one may be shorter, or is left out by `drop_last`."""

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_count("batch_size", batch_size)
        _check_flag("drop_last", drop_last)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]  # TypeError, as documented, where it has none
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


# %% [markdown]
# ## One dataset, many processes
#
# `DistributedSampler` gives each replica every `num_replicas`-th index of one common order. The order must be common, so the seed is fixed, and must change from epoch
# to epoch, so the epoch is added to it, by hand: forget `set_epoch` and every epoch is the same.

# %%
#| into: utils/data/distributed.py
"""The sampler that shares a dataset out among the processes of a group."""

# %%
#| into: utils/data/distributed.py
#| imports
from __future__ import annotations

import math
from collections.abc import Iterator, Sized

import readtorch as torch
from readtorch.utils.data.sampler import Sampler


# %%
#| into: utils/data/distributed.py
#| upstream: torch/utils/data/distributed.py#DistributedSampler
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


# %%
#| claim: without set_epoch a DistributedSampler yields the same order every epoch
def _(torch):
    sampler = torch.utils.data.DistributedSampler(range(8), num_replicas=2, rank=0)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first


# %%
#| claim: iterating a RandomSampler advances the global generator by one draw, whatever its length
def _(torch):
    torch.manual_seed(0)
    list(torch.utils.data.RandomSampler(range(1000)))
    after = torch.get_rng_state()
    torch.manual_seed(0)
    torch.empty((), dtype=torch.int64).random_()
    assert torch.equal(after, torch.get_rng_state())
