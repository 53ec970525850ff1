# Tangled from chapters/a1_operators/6_sorting.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register
from readtorch.aten.core.dispatch.operator_entry import Array, Number
from readtorch.aten.native.tensor_advanced_indexing import refuse_on_meta
from readtorch.aten.tensor_iterator import common_dtype
from readtorch.c10.core import scalar_type
from readtorch.c10.core.dispatch_key import values_for
from readtorch.c10.core.scalar_type import not_implemented
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


@register("_unique", key="CPU CUDA", variants="", outputs="values inverse counts", differentiable_outputs=())
def _unique(self: Array, dim: int | None) -> Any:
    axis = None if dim is None else maybe_wrap_dim(dim, self.ndim, wrap_scalar=False)
    values, inverse, counts = np.unique(self, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    return [values, inverse.reshape(self.shape if dim is None else -1).astype(np.int64), counts.astype(np.int64)]


refuse_on_meta("_unique")


@composite("unique", variants="function method")
def unique(
    at: Any,
    self: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements, or slices along `dim`; where each element went, and how often each occurs, if asked for."""
    values, inverse, counts = at._unique(self, dim)
    extra = ([inverse] if return_inverse else []) + ([counts] if return_counts else [])
    return (values, *extra) if extra else values


@register(
    "_unique_consecutive", key="CPU CUDA", variants="", outputs="values inverse counts", differentiable_outputs=()
)
def _unique_consecutive(self: Array, dim: int | None) -> Any:
    if dim is not None and self.size == 0 and self.shape[dim]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    slices = (
        self.reshape(-1) if dim is None else np.moveaxis(self, maybe_wrap_dim(dim, self.ndim, wrap_scalar=False), 0)
    )
    changes = slices[1:] != slices[:-1]
    starts = np.concatenate(([True], changes.any(axis=tuple(range(1, changes.ndim)))))[: len(slices)]
    counts = np.diff(np.append(np.flatnonzero(starts), len(slices)))
    inverse = np.cumsum(starts) - 1
    if dim is None:
        return [slices[starts], inverse.reshape(self.shape), counts]
    return [np.moveaxis(slices[starts], 0, dim), inverse, counts]


refuse_on_meta("_unique_consecutive")


@composite("unique_consecutive", variants="function method")
def unique_consecutive(
    at: Any, self: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Runs of equal elements, or of equal slices along `dim`, made one."""
    values, inverse, counts = at._unique_consecutive(self, dim)
    extra = ([inverse] if return_inverse else []) + ([counts] if return_counts else [])
    return (values, *extra) if extra else values


@register("_bincount", key="CPU CUDA", variants="")
def _bincount(self: Array, weights: Array | None, minlength: int) -> Array:
    if self.ndim != 1 or (self.size and int(self.min()) < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is not None and weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if not self.size:
        return np.zeros(minlength, np.int64)
    counts = np.bincount(self, weights, minlength)
    return counts if weights is None else counts.astype(np.float64 if weights.dtype != np.float32 else np.float32)


composite("bincount", variants="function method")(
    lambda at, self, weights=None, minlength=0: at._bincount(self, weights, minlength)
)
refuse_on_meta("_bincount")


@register("_histogram", key="CPU CUDA", variants="", outputs="hist bin_edges", differentiable_outputs=())
def _histogram(self: Array, edges: Array, weight: Array | None, density: bool) -> Any:
    arrays: list[Any] = [None if each is None else each.astype(np.float64) for each in (self, edges, weight)]
    counts, _ = np.histogram(arrays[0], arrays[1], weights=arrays[2], density=density)
    return [counts.astype(self.dtype), edges]


@composite("histogram", variants="function method", outputs="hist bin_edges", named="histogram")
def histogram(
    at: Any, self: Array, bins: Any = 100, *, range: Any = None, weight: Array | None = None, density: bool = False
) -> Any:
    """How many elements, or how much weight, lie between neighbouring edges: `bins` equal ones, or those given."""
    values_for("histogram", self)
    if not self.is_floating_point() or (self.itemsize == 2 and range is None and not hasattr(bins, "dtype")):
        raise not_implemented("histogram_cpu", self.dtype)
    if hasattr(bins, "dtype"):
        return at._histogram(self, bins, weight, density)
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    extremes = (at.amin, at.amax) if range is None and 0 not in self.shape else ()
    low, high = [float(extreme(self, ())) for extreme in extremes] or range or (0.0, 1.0)
    if low > high:
        raise RuntimeError("torch.histogram: max must be larger than min")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return at._histogram(self, at._equal_edges(self, low, high, bins), weight, density)


@register("_equal_edges", key="CPU CUDA", variants="")
def _equal_edges(self: Array, low: float, high: float, bins: int) -> Array:
    return np.linspace(low, high, bins + 1).astype(self.dtype)


@register("histc", key="CPU CUDA", variants="function method")
def histc(self: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """How many elements fall into each of `bins` equal ranges."""
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if max < min:
        raise RuntimeError("torch.histc: max must be larger than min")
    low, high = (float(self.min()), float(self.max())) if min == max and self.size else (min, max)
    if not math.isfinite(low) or not math.isfinite(high):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    if low == high:
        low, high = low - 1, high + 1
    return np.histogram(self, bins, (low, high))[0].astype(self.dtype)


@register("_searchsorted", key="CPU CUDA", variants="")
def _searchsorted(sorted_sequence: Array, self: Array, right: bool) -> Array:
    side: Any = "right" if right else "left"
    kind = common_dtype(sorted_sequence, self)
    if kind.kind in "bc":
        raise not_implemented("searchsorted_out_cpu", kind)
    if sorted_sequence.ndim == 1:
        result = np.asarray(np.searchsorted(sorted_sequence, self, side=side), np.int64)
    else:
        result = np.empty(self.shape, np.int64)
        for where in np.ndindex(sorted_sequence.shape[:-1]):
            result[where] = np.searchsorted(sorted_sequence[where], self[where], side=side)
    if self.dtype.kind == "f" and sorted_sequence.dtype.kind in "iu":  # NumPy compares integers with NaN as one of them
        result[np.isnan(self)] = sorted_sequence.shape[-1]
    return result


@composite("searchsorted", variants="function")
def searchsorted(
    at: Any,
    sorted_sequence: Array,
    self: Array | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Any:
    """Where each value would be put to keep the order."""
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites: right=True is side='right'")
    if not hasattr(self, "dtype"):
        self = at.sum(at.slice(sorted_sequence, -1, 0, 0, 1)) + self  # a 0-d tensor of the dtype of the sequence
    have, wanted = tuple(sorted_sequence.shape), tuple(self.shape)
    if not have:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if len(have) > 1 and have[:-1] != wanted[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension, or agree with the values in all dimensions but the last; "
            f"the boundaries are {list(have)}, the values {list(wanted)}"
        )
    found = at._searchsorted(sorted_sequence, self, right or side == "right")
    return at._to_copy(found, scalar_type.int32) if out_int32 else found


@composite("bucketize", variants="function")
def bucketize(at: Any, self: Array | Number, boundaries: Array, *, out_int32: bool = False, right: bool = False) -> Any:
    """The number of the range between boundaries that each value falls into."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return at.searchsorted(boundaries, self, out_int32=out_int32, right=right)
