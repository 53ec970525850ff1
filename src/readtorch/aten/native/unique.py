# Tangled from chapters/a1_operators/6_sorting.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, overloads, register, unknown
from readtorch.aten.core.dispatch.operator_entry import Array, Number
from readtorch.aten.native.tensor_advanced_indexing import refuse_on_meta
from readtorch.aten.tensor_iterator import common_dtype
from readtorch.c10.core import scalar_type
from readtorch.c10.core.dispatch_key import values_for
from readtorch.c10.core.scalar_type import not_implemented
from readtorch.c10.core.wrap_dim_minimal import as_dim, maybe_wrap_dim


@register("_unique", key="CPU CUDA", variants="", outputs="values inverse counts", differentiable_outputs=(0,))
def _unique(self: Array, dim: int | None) -> Any:
    axis = None if dim is None else maybe_wrap_dim(dim, self.ndim, wrap_scalar=False)
    values, inverse, counts = np.unique(self, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    return [values, inverse.reshape(self.shape if dim is None else -1).astype(np.int64), counts.astype(np.int64)]


_UNKNOWN = {
    name: unknown(f"the derivative for '{name}' is not implemented.")
    for name in ("_unique2", "unique_dim", "unique_consecutive")
}
derivative("_unique", self=lambda at, grad, dim: _UNKNOWN["_unique2" if dim is None else "unique_dim"](at, grad))
overloads("_unique", lambda given: f"Unique{'2' if given['dim'] is None else 'Dim'}Backward0")
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
    "_unique_consecutive",
    key="CPU CUDA",
    variants="",
    outputs="values inverse counts",
    differentiable_outputs=(0,),
    node="UniqueConsecutive",
)
def _unique_consecutive(self: Array, dim: int | None) -> Any:
    dim = None if dim is None else maybe_wrap_dim(dim, self.ndim, wrap_scalar=False)
    if dim is not None and self.size == 0 and self.shape[dim]:
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    slices = self.reshape(-1) if dim is None else np.moveaxis(self, dim, 0)
    changes = slices[1:] != slices[:-1]
    starts = np.concatenate(([True], changes.any(axis=tuple(range(1, changes.ndim)))))[: len(slices)]
    counts = np.diff(np.append(np.flatnonzero(starts), len(slices)))
    inverse = np.cumsum(starts) - 1
    if dim is None:
        return [slices[starts], inverse.reshape(self.shape), counts]
    return [np.moveaxis(slices[starts], 0, dim), inverse, counts]


derivative("_unique_consecutive", self=_UNKNOWN["unique_consecutive"])
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
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if self.ndim == 1 and not self.size:
        return np.zeros(minlength, np.int64)
    if self.ndim != 1 or int(self.min()) < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if weights is None or weights.dtype == np.float32:
        return np.asarray(np.bincount(self, weights, minlength), np.int64 if weights is None else np.float32)
    return np.bincount(self, weights.real.astype(np.float64), minlength)


@composite("bincount", variants="function method")
def bincount(at: Any, self: Array, weights: Array | None = None, minlength: int = 0) -> Any:
    """How often each number occurs among small ones; with `weights`, what they weigh together."""
    return at._bincount(self, weights, as_dim(minlength, "minlength"))


refuse_on_meta("_bincount")


@register("_histogram", key="CPU CUDA", variants="", outputs="hist bin_edges", node="Histogram")
def _histogram(self: Array, edges: Array, weight: Array | None, density: bool) -> Any:
    """An element belongs to the range that begins at the last edge not above it; the last range holds its end too."""
    values = self.reshape(-1)
    inside = (values >= edges[0]) & (values <= edges[-1])
    place = np.minimum(np.searchsorted(edges, values[inside], side="right") - 1, edges.size - 2)
    counts = np.bincount(
        place, None if weight is None else weight.reshape(-1)[inside].astype(np.float64), edges.size - 1
    ).astype(self.dtype)
    if density:
        counts = counts / counts.sum() / np.diff(edges)
    return [counts, edges]


_UNKNOWN_HISTOGRAM = unknown("derivative for aten::histogram is not implemented", RuntimeError)
derivative("_histogram", self=_UNKNOWN_HISTOGRAM, weight=_UNKNOWN_HISTOGRAM)


def _check_histogram(self: Any, bins: Any, range: Any, weight: Any) -> None:
    """RuntimeError if edges, range or weights do not fit the tensor."""
    if hasattr(bins, "dtype"):
        if bins.ndim != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {bins.ndim} dimensions in the bins tensor for dimension 0"
            )
        if not bins.numel():
            raise RuntimeError("torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements")
        if bins.dtype != self.dtype:
            raise RuntimeError(
                f"torch.histogramdd: input tensor and bins tensors should have the same dtype, but got {self.dtype} and {bins.dtype}"
            )
    if weight is not None:
        if weight.dtype != self.dtype:
            raise RuntimeError(
                f"torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got {self.dtype} and {weight.dtype}"
            )
        if tuple(weight.shape) != tuple(self.shape):
            raise RuntimeError(
                f"torch.histogramdd: weight tensor should have the shape of the input tensor, {list(self.shape)}, but got {list(weight.shape)}"
            )
    count = bins.numel() - 1 if hasattr(bins, "dtype") else bins
    if count <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension 0")
    if range is not None and len(range) != 2:
        raise RuntimeError(
            f"torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got {len(range)}"
        )


@composite("histogram", variants="function method", outputs="hist bin_edges", named="histogram", out=True)
def histogram(
    at: Any,
    self: Array,
    bins: Array | int = 100,
    *,
    range: Any = None,
    weight: Array | None = None,
    density: bool = False,
) -> Any:
    """How many elements, or how much weight, lie between neighbouring edges: `bins` equal ones, or those given."""
    values_for("histogram", self)
    if range is not None and not (
        isinstance(range, tuple | list) and all(isinstance(end, int | float) for end in range)
    ):
        raise TypeError(f"histogram(): argument 'range' must be tuple of floats, not {type(range).__name__}")
    _check_histogram(self, bins, range, weight)
    if not self.is_floating_point() or (self.itemsize == 2 and range is None and not hasattr(bins, "dtype")):
        raise not_implemented("histogram_cpu", self.dtype)
    if hasattr(bins, "dtype"):
        return at._histogram(self, bins, weight, density)
    extremes = (at.amin, at.amax) if range is None and 0 not in self.shape else ()
    low, high = [float(extreme(self, ())) for extreme in extremes] or range or (0.0, 1.0)
    if not math.isfinite(low) or not math.isfinite(high):
        raise RuntimeError(f"torch.histogramdd: dimension 0's range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension 0"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return at._histogram(self, at._equal_edges(self, low, high, bins), weight, density)


@register("_equal_edges", key="CPU CUDA", variants="")
def _equal_edges(self: Array, low: float, high: float, bins: int) -> Array:
    """From both ends to the middle, each a whole number of steps away, as upstream's `linspace` rounds them."""
    first, last = self.dtype.type(low), self.dtype.type(high)
    step = (last - first) / self.dtype.type(bins)
    places = np.arange(bins + 1)
    return np.where(places < (bins + 1) // 2, first + step * places, last - step * (bins - places)).astype(self.dtype)


@register("histc", key="CPU CUDA", variants="function method", out=True)
def histc(self: Array, bins: int = 100, min: Number = 0, max: Number = 0) -> Array:
    """How many elements fall into each of `bins` equal ranges."""
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if isinstance(min, complex) or isinstance(max, complex):
        raise RuntimeError("value cannot be converted to type double without overflow")
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


@composite("searchsorted", variants="function", out=True)
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
    have = tuple(sorted_sequence.shape)
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise RuntimeError(
                f"torch.searchsorted(): boundary and sorter must have the same size, but got {list(have)} and {list(sorter.shape)}"
            )
        if sorter.dtype != scalar_type.int64:
            raise RuntimeError(
                f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {scalar_type.to_string(sorter.dtype)}"
            )
        sorted_sequence = at.gather(sorted_sequence, -1, sorter) if have else sorted_sequence
    number = not hasattr(self, "dtype")
    if number and len(have) != 1:
        raise RuntimeError(
            f"torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but it is {len(have)}"
        )
    if number:
        self = at.sum(at.slice(sorted_sequence, -1, 0, 0, 1)) + self  # a 0-d tensor of the dtype of the sequence
    wanted = tuple(self.shape)
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


@composite("bucketize", variants="function", out=True)
def bucketize(at: Any, self: Array | Number, boundaries: Array, *, out_int32: bool = False, right: bool = False) -> Any:
    """The number of the range between boundaries that each value falls into."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return at.searchsorted(boundaries, self, out_int32=out_int32, right=right)
