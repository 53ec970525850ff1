# Tangled from chapters/a1_operators/y_testing.py — edit there, or here and run `readtorch sync`.
"""`make_tensor` (twin of `torch/testing/_creation.py`)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import readtorch as torch


def _interval(dtype: Any, low: float | None, high: float | None, whole: bool) -> tuple[float, float]:
    """The bounds, within what the dtype can hold. ValueError for an empty interval."""
    if dtype == torch.bool:
        lowest, highest, low, high = 0, 2, 0 if low is None else low, 2 if high is None else high
    elif whole:
        limits = torch.iinfo(dtype)
        # randint counts in int64, which cannot hold its own largest number plus one
        lowest, highest = limits.min, limits.max + (dtype != torch.int64)
        low, high = -9 if low is None else low, 10 if high is None else high
    else:
        lowest, highest = torch.finfo(dtype).min, torch.finfo(dtype).max
        low, high = -9 if low is None else low, 9 if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low == high and not whole:
        warnings.warn(
            "Passing `low==high` to `torch.testing.make_tensor` is deprecated for floating or complex types, where "
            "[low, high) is empty: a constant comes from `torch.full(...)`.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < lowest or low >= highest:
        raise ValueError(f"[low, high) is [{low}, {high}), but {dtype} only supports [{lowest}, {highest})")
    low, high = min(max(low, lowest), highest), min(max(high, lowest), highest)
    return (math.ceil(low), math.ceil(high)) if whole else (low, high)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of uniform numbers in [low, high), -9 to 9 by default; bools are 0 or 1. `noncontiguous` leaves gaps in memory.

    `exclude_zero` puts the smallest positive number for 0. ValueError for bounds that make no interval, and for a gradient of integers.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else tuple(shape)
    whole = not (dtype.is_floating_point or dtype.is_complex)
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "`noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    if requires_grad and whole:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes such as {dtype}")
    noncontiguous = noncontiguous and math.prod(sizes) > 1
    if noncontiguous:
        sizes = (*sizes[:-1], 2 * sizes[-1])
    low, high = _interval(dtype, low, high, whole)
    if whole:
        result = torch.randint(int(low), int(high), sizes, device=device, dtype=dtype)
    else:
        result = torch.empty(sizes, device=device, dtype=dtype)
        numbers = torch.view_as_real(result) if dtype.is_complex else result
        if high - low >= torch.finfo(dtype).max:
            numbers.uniform_(low / 2, high / 2).mul_(2)
        else:
            numbers.uniform_(low, high)
    if noncontiguous:
        result = result[..., 1::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        result[result == 0] = 1 if whole else torch.finfo(dtype).tiny
    if not whole:
        result.requires_grad = requires_grad
    return result
