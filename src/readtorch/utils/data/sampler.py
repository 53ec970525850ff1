# Tangled from chapters/05_data/2_sampler.py — edit there, or here and run `readtorch sync`.
"""Samplers: iterables of indices, or of lists of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import readtorch as torch
from readtorch import Generator, Tensor

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
