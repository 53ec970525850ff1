# Tangled from chapters/05_data/1_dataset.py — edit there, or here and run `readtorch sync`.
"""Map-style and iterable datasets, and the ones made of others."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from readtorch import Generator, Tensor, default_generator, randperm

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """A map from keys to samples: subclasses define `__getitem__`, usually `__len__`, and may define `__getitems__`.

    There is no default `__len__`: one that raised NotImplementedError would make `len()` fail differently from a class
    that has none, and samplers could not tell the two apart.
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[_T_co]) -> Dataset[_T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co], Generic[_T_co]):
    """A stream of samples: subclasses define `__iter__`. For data where reading at random is expensive or impossible.

    Each worker of a loader iterates its own copy; split the stream by `get_worker_info()`, or every sample comes once
    per worker.
    """

    def __add__(self, other: Dataset[_T_co]) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples are slices of `tensors` along their first dimension, whose size must agree (AssertionError)."""

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


def _fetch(dataset: Any, indices: Sequence[Any]) -> list[Any]:
    """The samples at `indices`, in one call where the dataset offers it."""
    if callable(getattr(dataset, "__getitems__", None)):
        samples = dataset.__getitems__(indices)
        if len(samples) != len(indices):
            raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(samples)}")
        return samples
    return [dataset[index] for index in indices]


class StackDataset(Dataset[Any]):
    """Datasets side by side: a sample is the tuple (or, from keyword arguments, the dict) of theirs at one index.

    Raises ValueError for no dataset, both kinds of argument, or unequal lengths.
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported are either tuple items (datasets given via ``args``) or dict items (via ``kwargs``), "
                "but here both are given."
            )
        members = args or tuple(kwargs.values())
        if not members:
            raise ValueError("At least one dataset should be passed")
        self._length = len(members[0])
        if any(len(dataset) != self._length for dataset in members):
            raise ValueError("Size mismatch between datasets")
        self.datasets = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {key: dataset[index] for key, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [_fetch(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*(_fetch(dataset, indices) for dataset in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Map-style datasets one after the other. AssertionError for none at all, or for an iterable one."""

    datasets: list[Dataset[_T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """The running total of lengths."""
        return list(itertools.accumulate(len(member) for member in sequence))

    def __init__(self, datasets: Iterable[Dataset[_T_co]]) -> None:
        super().__init__()
        self.datasets = [*datasets]
        wrong = None if self.datasets else "datasets should not be an empty iterable"
        for member in self.datasets:
            if isinstance(member, IterableDataset):
                wrong = "ConcatDataset does not support IterableDataset"
        if wrong is not None:
            raise AssertionError(wrong)
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        member = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[member - 1] if member else 0
        return self.datasets[member][idx - start]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The misspelt name before 1.0; FutureWarning."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`", category=FutureWarning, stacklevel=2
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other, each started when the one before is exhausted."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        super().__init__()
        self.datasets = datasets

    def _members(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._members())

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._members())


class Subset(Dataset[_T_co]):
    """The samples of `dataset` at `indices`. A subclass that overrides `__getitem__` must override `__getitems__` too."""

    dataset: Dataset[_T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{cls.__name__} overrides __getitem__ but not __getitems__, which is what a DataLoader calls. "
                "Override it as well, for example with [self[index] for index in indices]."
            )

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        chosen = [self.indices[index] for index in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)  # type: ignore[attr-defined]  # there: asked above
        return [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[_T], lengths: Sequence[int | float], generator: Generator | None = default_generator
) -> list[Subset[_T]]:
    """Cut `dataset` at random into subsets of `lengths`, or of fractions that add up to 1.

    Fractions are rounded down, and what remains is dealt out one by one from the first. ValueError if the lengths do not
    add up.
    """
    size = len(dataset)  # type: ignore[arg-type]  # a map-style dataset has one
    total = sum(lengths)
    if math.isclose(total, 1) and total <= 1:
        for number, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {number} is not between 0 and 1")
        counts = [math.floor(size * fraction) for fraction in lengths]
        for extra in range(size - sum(counts)):
            counts[extra % len(counts)] += 1
        for number, count in enumerate(counts):
            if count == 0:
                warnings.warn(f"Length of split at index {number} is 0, so that dataset is empty.", stacklevel=2)
        lengths = counts
    if sum(lengths) != size:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(size, generator=generator).tolist()
    ends = itertools.accumulate(lengths)
    return [Subset(dataset, order[int(end - length) : int(end)]) for end, length in zip(ends, lengths, strict=True)]
