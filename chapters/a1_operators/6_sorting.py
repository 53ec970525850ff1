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
# # Sorting, searching, counting
#
# Reference. Where elements keep their identity (sort, top k) the gradient follows them back to where they came from.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import sorting as sorting

# %%
#| into: aten/native/sorting.py
#| imports
from __future__ import annotations


import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, overloads, register, results_lie
from readtorch.aten.native.tensor_factories import in_one_piece, in_order_of
from readtorch.aten.core.dispatch.operator_entry import UNSAID, Array, Number
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.native.reduce_ops import value_selecting_backward
from readtorch.aten.wrap_dim_utils import dim_for_keepdim
from readtorch.c10.core.dispatch_key import without_values
from readtorch.c10.core.wrap_dim_minimal import as_dim, maybe_wrap_dim


# %%
#| into: aten/native/sorting.py
_INT64 = np.dtype(np.int64)


# %%
#| into: aten/native/sorting.py
#| upstream: aten/src/ATen/native/Sorting.cpp#at::native::sort
def _order(self: Array, place: int, descending: bool) -> Array:
    """Positions that sort along `place`, equal elements in their order, NaN as the largest."""
    if not descending:
        return np.argsort(self, axis=place, kind="stable")
    reverse = np.flip(self, place)
    order = np.flip(np.argsort(reverse, axis=place, kind="stable"), place)
    return self.shape[place] - 1 - order


@register(
    "sort",
    key="CPU CUDA",
    variants="function method",
    outputs="values indices",
    named="sort",
    differentiable_outputs=(0,),
    out=True,
)
def sort(self: Array, dim: int = -1, descending: bool = False, stable: bool | None = False) -> Any:
    """Elements in order along `dim`, and where each came from."""
    place = maybe_wrap_dim(dim, self.ndim)
    if not self.ndim:
        return [self.copy(), np.zeros((), np.int64)]
    order = _order(self, place, descending).astype(np.int64, copy=False)
    return [np.take_along_axis(self, order, place), order]


derivative(
    "sort",
    self=lambda at, grad, self_shape, dim, indices: value_selecting_backward(at, grad, dim, indices, self_shape, True),
)
overloads("sort", lambda given: f"SortBackward{int(bool(given['stable']))}")


@register("argsort", key="CPU CUDA", variants="function method", out=True)
def argsort(self: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> Array:
    """The positions that would sort along `dim`."""
    place = maybe_wrap_dim(dim, self.ndim)
    return _order(self, place, descending).astype(np.int64, copy=False) if self.ndim else np.zeros((), np.int64)


results_lie(in_order_of, "sort", "argsort")
composite("msort", variants="function method", out=True)(lambda at, self: at.sort(self, 0)[0])


# %%
#| into: aten/native/sorting.py
#| upstream: aten/src/ATen/native/native_functions.yaml#topk
@register(
    "topk",
    key="CPU CUDA",
    variants="function method",
    outputs="values indices",
    named="topk",
    differentiable_outputs=(0,),
    out=True,
)
def topk(self: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The `k` largest (or smallest) elements along `dim`, in order, and their positions."""
    place = maybe_wrap_dim(dim, self.ndim)
    if not 0 <= k <= (self.shape[place] if self.ndim else 1):
        raise RuntimeError("selected index k out of range")
    if not self.ndim:
        return [self.copy(), np.zeros((), np.int64)]
    order = np.take(_order(self, place, largest), np.arange(k), axis=place).astype(np.int64, copy=False)
    return [np.take_along_axis(self, order, place), order]


derivative(
    "topk",
    self=lambda at, grad, self_shape, dim, indices: value_selecting_backward(at, grad, dim, indices, self_shape, True),
)


# %%
#| into: aten/native/sorting.py
#| upstream: aten/src/ATen/native/Sorting.cpp#at::native::kthvalue
def _kth(self: Array, k: int, place: int, keepdim: bool) -> list[Array]:
    order = np.take(_order(self, place, False), [k], axis=place).astype(np.int64, copy=False)
    values = np.take_along_axis(self, order, place)
    return [values, order] if keepdim else [values.squeeze(place), order.squeeze(place)]


@register(
    "kthvalue",
    key="CPU CUDA",
    variants="function method",
    outputs="values indices",
    named="kthvalue",
    differentiable_outputs=(0,),
    out=True,
)
def kthvalue(self: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along `dim`, counted from 1, and its position."""
    place = maybe_wrap_dim(dim, self.ndim)
    size = self.shape[place] if self.ndim else 1
    if not size:
        raise IndexError(f"kthvalue(): Expected reduction dim {place} to have non-zero size.")
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {place}")
    return _kth(self, k - 1, place, keepdim) if self.ndim else [self.copy(), np.zeros((), np.int64)]


@register(
    "_median_dim",
    key="CPU CUDA",
    variants="",
    node="MedianBackward1",
    outputs="values indices",
    named="median",
    differentiable_outputs=(0,),
)
def _median_dim(self: Array, dim: int, keepdim: bool) -> Any:
    place = maybe_wrap_dim(dim, self.ndim)
    if not self.ndim:
        return [self.copy(), np.zeros((), np.int64)]
    if self.shape[place] == 0:
        raise IndexError(f"median(): Expected reduction dim {place} to have non-zero size.")
    values, order = _kth(self, (self.shape[place] - 1) // 2, place, True)
    if self.dtype.kind == "f" and np.isnan(self).any():
        first = np.argmax(np.isnan(self), axis=place, keepdims=True)
        bad = np.isnan(self).any(axis=place, keepdims=True)
        order = np.where(bad, first, order)
        values = np.take_along_axis(self, order, place)
    return [values, order] if keepdim else [values.squeeze(place), order.squeeze(place)]


for _name in ("kthvalue", "_median_dim"):
    derivative(
        _name,
        self=lambda at, grad, self_shape, dim, keepdim, indices: value_selecting_backward(
            at, grad, dim, indices, self_shape, keepdim
        ),
    )


@composite("median", variants="function method", out=True)
def median(at: Any, self: Array, dim: int = UNSAID, keepdim: bool = UNSAID) -> Any:
    """The middle element in order, the lower one of two; along `dim` with its position."""
    if dim is not None:
        return at._median_dim(self, dim, bool(keepdim))
    dim_for_keepdim("median", keepdim)
    return at._median_of_all(at.reshape(self, (-1,)))


@register("_median_of_all", key="CPU CUDA", variants="", node="Median")
def _median_of_all(self: Array) -> Array:
    if not self.size:  # NaN, or what the processor makes of NaN as an integer
        lowest = np.iinfo(self.dtype).min if self.dtype.kind in "iu" else np.nan
        return np.asarray(lowest, self.dtype)
    return np.asarray(_median_dim(self, 0, False)[0])


@composite("_shared_by_equals", variants="")
def _shared_by_equals(at: Any, grad: Any, self: Any, result: Any) -> Any:
    """The gradient in equal parts for all elements that have the value of the result."""
    if is_one_of_many(self):
        equal = at.logical_or(at.eq(self, result), at.logical_and(at.isnan(self), at.isnan(result)))
    else:
        equal = at.isnan(self) if bool(at.isnan(result)) else at.eq(self, result)
    return at.where(equal, grad / at.sum(equal), 0)


derivative("_median_of_all", self=lambda at, grad, self, result: at._shared_by_equals(grad, self, result))


@composite("nanmedian", variants="function method", out=True, named="nanmedian", outputs="values indices")
def nanmedian(at: Any, self: Array, dim: int = UNSAID, keepdim: bool = UNSAID) -> Any:
    """`median` of what is a number; nan where nothing is."""
    if dim is None:
        dim_for_keepdim("nanmedian", keepdim)
    else:
        dim = maybe_wrap_dim(dim, self.ndim)
    flat = at.reshape(self, (-1,)) if dim is None else self
    if flat.shape and not flat.shape[0 if dim is None else dim]:
        return at.median(self) if dim is None else at.median(self, dim, bool(keepdim))
    place = 0 if dim is None else dim
    missing = at.isnan(flat)
    # the numbers come first in order, and the lower middle of n of them is at (n - 1) // 2
    _, positions = at.sort(flat if flat.ndim else at.reshape(flat, (1,)), place)
    numbers = at.sum(at.logical_not(missing), place, True)
    middle = at.clamp_min((numbers - 1) // 2, 0)
    found = at.gather(flat if flat.ndim else at.reshape(flat, (1,)), place, at.gather(positions, place, middle))
    if dim is None:
        return at.reshape(found, ())
    index = at.gather(positions, place, middle)
    return (found, index) if keepdim else (at.squeeze(found, place), at.squeeze(index, place))


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _laid_out(at: Any, self: Any, q: Any, dim: int | None, interpolation: str) -> tuple[Any, int]:
    """The tensor with the dimension that quantiles are taken along. RuntimeError if there is nothing to take them of."""
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"quantile() interpolation must be one of {', '.join(_INTERPOLATIONS)}, but got {interpolation}"
        )
    if isinstance(q, complex):
        raise TypeError("quantile(): argument 'q' must be float or Tensor, not complex")
    if not hasattr(q, "ndim") and not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q}")
    if 0 in tuple(self.shape):
        raise RuntimeError("quantile() input tensor must be non-empty")
    if getattr(q, "ndim", 0) > 1:
        raise RuntimeError(f"quantile() q must be a scalar or 1D tensor, but got {q.ndim} dimensions")
    if hasattr(q, "ndim") and q.dtype != self.dtype:
        raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
    place = 0 if dim is None else maybe_wrap_dim(dim, self.ndim)
    return (at.reshape(self, (-1,)) if dim is None or not self.ndim else self), place


def _shares(at: Any, q: Any) -> list[tuple[float, Any]]:
    """Each as a number and, where `q` is a tensor, as a tensor, through which `q` gets its gradient. On meta only how many there are is known."""
    values: list[float]
    parts: list[Any]
    if not hasattr(q, "ndim"):
        values, parts = [float(q)], [q]
    else:
        parts = [at.select(q, 0, i) for i in range(q.shape[0])] if q.ndim else [q]
        values = [0.0 if without_values(part) else float(part.item()) for part in parts]
    if not all(0 <= value <= 1 for value in values):
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    return list(zip(values, parts, strict=True))


def _quantiles(at: Any, self: Any, results: list[Any], q: Any, dim: int | None, keepdim: bool, place: int) -> Any:
    """The results for each share, joined in front; the dimensions that they were taken along have size 1, or are gone."""
    if keepdim and self.ndim:
        shape = (1,) * self.ndim
        results = [at.reshape(one, shape) if dim is None else at.unsqueeze(one, place) for one in results]
    return at.stack(results, 0) if getattr(q, "ndim", 0) else results[0]


@composite("quantile", variants="function method", out=True)
def quantile(
    at: Any,
    self: Array,
    q: Array | Number,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """The elements below which a share `q` of all lies, interpolated between neighbours."""
    x, place = _laid_out(at, self, q, dim, interpolation)
    ordered = at.sort(x, place)[0]
    count = x.shape[place] if x.ndim else 1
    largest = at.select(ordered, place, count - 1) if x.ndim else ordered  # NaN, if there is one
    results = []
    for share, part in _shares(at, q):
        position = share * (count - 1)
        low, high = math.floor(position), math.ceil(position)
        whole = {"lower": low, "higher": high, "nearest": round(position)}.get(interpolation)
        if whole is not None:
            result = at.select(ordered, place, whole)
        else:
            tensor = hasattr(part, "dtype")
            weight = 0.5 if interpolation == "midpoint" else part * (count - 1) - low if tensor else position - low
            result = at.lerp(at.select(ordered, place, low), at.select(ordered, place, high), weight)
        results.append(at.where(at.isnan(largest), largest, result))
    return _quantiles(at, self, results, q, dim, keepdim, place)


@composite("nanquantile", variants="function method", out=True)
def nanquantile(
    at: Any,
    self: Array,
    q: Array | Number,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """`quantile` of what is a number; nan where nothing is."""
    x, place = _laid_out(at, self, q, dim, interpolation)
    numbers = at.sum(at.logical_not(at.isnan(x)), place, True)
    ordered = at.sort(x, place)[0]
    results = []
    for _, part in _shares(at, q):
        position = at._to_copy_like(numbers - 1, x) * part
        low = at.floor(position)
        weight = position - low
        if interpolation != "linear":
            up = {
                "lower": weight * 0,
                "higher": at.ceil(weight),
                "midpoint": at.ceil(weight) / 2,
                "nearest": at.round(position) - low,
            }
            weight = up[interpolation]
        first = at.clamp_min(at._to_copy(low, _INT64), 0)
        second = at.clamp_min(at.minimum(first + 1, numbers - 1), 0)
        a, b = at.gather(ordered, place, first), at.gather(ordered, place, second)
        found = a + at.where(weight == 0, 0, (b - a) * weight)
        results.append(at.squeeze(found, place))
    return _quantiles(at, self, results, q, dim, keepdim, place)


@register(
    "_mode",
    key="CPU CUDA",
    variants="",
    node="Mode",
    outputs="values indices",
    named="mode",
    differentiable_outputs=(0,),
)
def _mode(self: Array, dim: int, keepdim: bool) -> Any:
    place = maybe_wrap_dim(dim, self.ndim)
    if not self.ndim:
        return [self.copy(), np.zeros((), np.int64)]
    if not self.shape[place]:
        raise IndexError(f"mode(): Expected reduction dim {place} to have non-zero size.")
    rows = np.moveaxis(self, place, -1)
    index = np.empty(rows.shape[:-1], np.int64)
    for where in np.ndindex(index.shape):
        row = rows[where]
        values, counts = np.unique(row, return_counts=True, equal_nan=False)
        hits = np.flatnonzero(row == values[counts.argmax()])
        index[where] = hits[-1] if hits.size else 0  # nan equals nothing: it comes up only where there is nothing else
    order = np.expand_dims(index, place)
    values = np.take_along_axis(self, order, place)
    return [values, order] if keepdim else [values.squeeze(place), index]


derivative(
    "_mode",
    self=lambda at, grad, self_shape, dim, keepdim, indices: value_selecting_backward(
        at, grad, dim, indices, self_shape, keepdim
    ),
)


@composite("mode", variants="function method", out=True)
def mode(at: Any, self: Array, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element along `dim`, the smallest of several, and the last place where it stands."""
    return at._mode(self, dim, keepdim)


def _register_running(name: str, furthest: np.ufunc) -> None:
    def running(self: Array, dim: int) -> Any:
        if not self.size:  # where there is nothing, upstream does not ask along which dimension
            as_dim(dim)
            return [self.copy(), np.zeros(self.shape, np.int64)]
        place = maybe_wrap_dim(dim, self.ndim)
        if not self.ndim:
            return [self.copy(), np.zeros((), np.int64)]
        values = furthest.accumulate(self, axis=place)
        steps = np.arange(self.shape[place]).reshape([-1 if axis == place else 1 for axis in range(self.ndim)])
        reached = self == values
        if self.dtype.kind in "fV":
            reached |= np.isnan(self)
        index = np.maximum.accumulate(np.where(reached, steps, 0), axis=place)
        return [values, index]

    register(
        name,
        key="CPU CUDA",
        variants="function method",
        outputs="values indices",
        named=name,
        differentiable_outputs=(0,),
        out=True,
    )(running)
    derivative(
        name,
        self=lambda at, grad, self, dim, indices: (
            grad if 0 in tuple(self.shape) else value_selecting_backward(at, grad, dim, indices, self.shape, True)
        ),
    )


_register_running("cummax", np.maximum)
_register_running("cummin", np.minimum)
results_lie(in_one_piece, "cummax", "cummin")

# %% [markdown]
# ## Distinct elements, bins

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import unique as unique

# %%
#| into: aten/native/unique.py
#| imports
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


# %%
#| into: aten/native/unique.py
#| upstream: aten/src/ATen/native/Unique.cpp#at::native::_unique2_cpu
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


# %% [markdown]
# ## On which side?
#
# A value that equals a boundary belongs to one of two bins. `bucketize` and `searchsorted` put it to the left, as `numpy.searchsorted` does. `numpy.digitize` puts it to the right, and its argument of the same name means the opposite: `right=True` there is `right=False` here.
#
# Where elements are equal, a stable sort keeps their order and `sort` promises nothing. The positions that `topk` names among equals are not the first, nor the same from device to device; a test that compares positions instead of values fails there.


# %%
#| claim: bucketize puts a value that equals a boundary to the left, numpy.digitize to the right, and their arguments `right` are opposites
#| upstream: aten/src/ATen/native/Bucketization.cpp#at::native::bucketize_cpu
def _(torch):
    import numpy as np

    values, edges = [1.0, 2.0], [1.0, 2.0]
    for right in (False, True):
        ours = torch.bucketize(torch.tensor(values), torch.tensor(edges), right=right)
        assert ours.tolist() == np.digitize(values, edges, right=not right).tolist()


# %%
#| claim: the gradient of sorted elements goes back to where they came from; a position has none
def _(torch):
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    values, positions = x.sort()
    (values * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [100, 1, 10] and not positions.requires_grad
