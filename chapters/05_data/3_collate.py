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
# # From samples to a batch: fetch and collate
#
# A batch is made in two steps. The *fetcher* turns indices into a list of samples; the *collate function* turns the list into tensors. Collation is called in both modes:
# with automatic batching on the list (`default_collate`), without it on each sample (`default_convert`).

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live
from readtorch.utils import data

live()

# %%
#| into: utils/data/_utils/__init__.py
"""Steps of loading that run in the main process and in workers alike."""

# %%
#| into: utils/data/_utils/collate.py
"""Collate functions: a list of samples becomes one batch of the same structure."""

# %%
#| into: utils/data/_utils/collate.py
#| imports
from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import readtorch as torch
from readtorch import Tensor
from readtorch.multiprocessing import reductions

# %% [markdown]
# ## Keeping the container's type
#
# A batch of `OrderedDict`s should be an `OrderedDict`. Mutable containers are copied and refilled, which keeps attributes of subclasses; others are built from a list or a dict; what
# cannot be built so (a `range`, say) ends as a plain list or dict. Tuples are the exception from the early days: a batch of tuples is a list.

# %%
#| into: utils/data/_utils/collate.py
CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]
_NO_BATCH = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _mapping_like(model: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """`values` in a mapping of the model's class, or in a dict where that cannot be made."""
    try:
        if isinstance(model, MutableMapping):
            clone = copy.copy(model)
            clone.update(values)
            return clone
        return type(model)(values)  # type: ignore[call-arg]  # a container of any type
    except TypeError:
        return values


def _sequence_like(model: Sequence[Any], values: list[Any]) -> Any:
    """`values` in a sequence of the model's class, or in a list where that cannot be made."""
    if isinstance(model, tuple):
        return type(model)(*values) if hasattr(model, "_fields") else values
    try:
        if isinstance(model, MutableSequence):
            clone = copy.copy(model)
            for position, value in enumerate(values):
                clone[position] = value
            return clone
        return type(model)(values)  # type: ignore[call-arg]  # a container of any type
    except TypeError:
        return values


def _holds_text_or_objects(array: np.ndarray) -> bool:
    return array.dtype.kind in "SUO"


# %%
#| into: utils/data/_utils/collate.py
#| upstream: torch/utils/data/_utils/collate.py#default_convert
def default_convert(data: Any) -> Any:
    """NumPy arrays and scalars become tensors, containers are walked, the rest stays as it is. No batch dimension."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray):
        return data if _holds_text_or_objects(data) else torch.as_tensor(data)
    if isinstance(data, np.generic) and not isinstance(data, np.str_ | np.bytes_):
        return torch.as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _sequence_like(data, [default_convert(value) for value in data])
    return data


# %%
#| into: utils/data/_utils/collate.py
#| upstream: torch/utils/data/_utils/collate.py#collate
def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Collate by the type of the first sample: `collate_fn_map` first (exact type, then isinstance), else containers.

    RuntimeError for lists of unequal length, TypeError for a type that nothing knows.
    """
    first = batch[0]
    for kind, function in (collate_fn_map or {}).items():
        if type(first) is kind:
            return function(batch, collate_fn_map=collate_fn_map)
    for kind, function in (collate_fn_map or {}).items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {key: [sample[key] for sample in batch] for key in first}
        return _mapping_like(
            first, {key: collate(column, collate_fn_map=collate_fn_map) for key, column in columns.items()}
        )
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        rows = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
        return _sequence_like(first, rows)
    raise TypeError(_NO_BATCH.format(type(first)))


# %%
#| into: utils/data/_utils/collate.py
#| upstream: torch/utils/data/_utils/collate.py#collate_tensor_fn
def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Tensors are stacked along a new first dimension, in a worker in shared memory."""
    batch = list(batch)
    shared = reductions.stacked(batch)
    return torch.stack(batch, 0) if shared is None else shared


def collate_numpy_array_fn(batch: Sequence[np.ndarray], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Arrays become tensors and are stacked; TypeError for text and objects."""
    if _holds_text_or_objects(batch[0]):
        raise TypeError(_NO_BATCH.format(batch[0].dtype))
    return collate([torch.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """NumPy scalars become a vector of their dtype."""
    return torch.as_tensor(batch)


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Python floats become float64: that is what a Python float holds."""
    return torch.tensor(batch, dtype=torch.float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Python integers become int64, booleans a bool tensor."""
    return torch.tensor(batch)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Sequence[Any]:
    """Strings stay a sequence of strings."""
    return batch


#: Read in this order: a bool is an int, so it is collated by collate_int_fn.
default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def default_collate(batch: Sequence[Any]) -> Any:
    """`collate` with `default_collate_fn_map`, to which users may add their types."""
    return collate(batch, collate_fn_map=default_collate_fn_map)


# %%
#| claim: Python floats collate to float64 while a float32 array stays float32
def _(torch):
    import numpy as np

    assert torch.utils.data.default_collate([1.0, 2.0]).dtype == torch.float64
    assert torch.utils.data.default_collate([np.float32(1), np.float32(2)]).dtype == torch.float32


# %%
#| claim: a batch of tuples is a list, a batch of named tuples a named tuple
def _(torch):
    from collections import namedtuple

    Pair = namedtuple("Pair", "a b")
    collate = torch.utils.data.default_collate
    assert isinstance(collate([(1, 2), (3, 4)]), list)
    assert type(collate([Pair(1, 2), Pair(3, 4)])) is Pair


# %% [markdown]
# ## Fetching

# %%
#| into: utils/data/_utils/fetch.py
"""Fetchers: from indices to a collated batch, for both kinds of dataset."""

# %%
#| into: utils/data/_utils/fetch.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any


# %%
#| into: utils/data/_utils/fetch.py
#| upstream: torch/utils/data/_utils/fetch.py#_BaseDatasetFetcher
class _BaseDatasetFetcher:
    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch for a list of indices, or the converted sample for one index."""
        raise NotImplementedError


class _MapDatasetFetcher(_BaseDatasetFetcher):
    def fetch(self, possibly_batched_index: Any) -> Any:
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        if getattr(self.dataset, "__getitems__", None):
            return self.collate_fn(self.dataset.__getitems__(possibly_batched_index))
        return self.collate_fn([self.dataset[index] for index in possibly_batched_index])


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """The indices only say how many samples are wanted; the stream decides which."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        wanted = len(list(possibly_batched_index))
        samples = list(islice(self.dataset_iter, wanted))
        self.ended = len(samples) < wanted
        if not samples or (self.ended and self.drop_last):
            raise StopIteration
        return self.collate_fn(samples)
