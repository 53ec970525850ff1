# Tangled from chapters/05_data/3_collate.py — edit there, or here and run `readtorch sync`.
"""Collate functions: a list of samples becomes one batch of the same structure."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import readtorch as torch
from readtorch import Tensor
from readtorch.multiprocessing import reductions

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
