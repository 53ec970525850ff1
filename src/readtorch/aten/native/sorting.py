# Tangled from chapters/a1_operators/6_sorting.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, overloads, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import UNSAID, Array, Number
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.native.reduce_ops import value_selecting_backward
from readtorch.aten.native.tensor_factories import in_one_piece, in_order_of
from readtorch.aten.wrap_dim_utils import dim_for_keepdim
from readtorch.c10.core.dispatch_key import without_values
from readtorch.c10.core.wrap_dim_minimal import as_dim, maybe_wrap_dim

_INT64 = np.dtype(np.int64)


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
