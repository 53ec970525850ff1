# Tangled from chapters/a1_operators/z_batching_rules_of_layers.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.functorch.batch_rules_helper import Operator, at, dim_of, leading_scalar, padded, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


def _counter(layer: VmapLayer, rank: int, like: Any) -> Any:
    """0, 1, … for the examples, in the first of `rank + 1` dimensions."""
    ones = at.cumsum(at._to_copy(at.ones_like(at.reshape(like, (layer.size, -1)).narrow(1, 0, 1)), _int64()), 0)
    return at.reshape(ones - 1, (layer.size, *(1,) * rank))


def _int64() -> Any:
    from readtorch.c10.core.scalar_type import int64

    return int64


class Places:
    """Index tensors of examples as index tensors of all, and where the dimensions that they make come to stand."""

    def __init__(self, layer: VmapLayer, indices: Any, batched_self: bool) -> None:
        given = [index for index in indices if index is not None]
        self.rank = max(rank_of(index) for index in given)
        numbers = [number for number, index in enumerate(indices) if index is not None]
        adjacent = numbers == list(range(numbers[0], numbers[-1] + 1))
        own = any(layer.is_batched(index) for index in given)
        #: where the made dimensions stand in the result of one example
        self.place = numbers[0] if adjacent else 0
        aligned = [None if index is None else padded(layer, index, self.rank) if own else index for index in indices]
        if own:
            first = next(layer.physical(index) for index in given if layer.is_batched(index))
            if batched_self:
                aligned = [_counter(layer, self.rank, first), *aligned]
                #: behind the counter of examples where nothing stands between, else all made dimensions come first
                self.order = None if adjacent and numbers[0] == 0 else ("front", self.place)
            else:
                self.order = ("counter", self.place)
        else:
            aligned = [None, *aligned] if batched_self else aligned
            self.order = None if adjacent else ("behind", 0)
        self.indices = aligned

    def to_example_order(self, result: Any) -> Any:
        """The result of all with the examples counted first, and each in its own order."""
        axes = self._axes(result._array.ndim)
        return result if axes is None else at.permute(result, axes)

    def to_index_order(self, values: Any) -> Any:
        """The other way: values as index_put wants them."""
        axes = self._axes(values._array.ndim)
        if axes is None:
            return values
        return at.permute(values, tuple(axes.index(number) for number in range(len(axes))))

    def _axes(self, count: int) -> tuple[int, ...] | None:
        if self.order is None:
            return None
        kind, place = self.order
        rank = self.rank
        if kind == "front":  # (B, made…, rest…): the made dimensions go behind the first `place` of the rest
            rest = list(range(1 + rank, count))
            return (0, *rest[:place], *range(1, 1 + rank), *rest[place:])
        if kind == "behind":  # (made…, B, rest…)
            return (rank, *range(rank), *range(rank + 1, count))
        return (place, *range(place), *range(place + 1, count))  # (rest…, B, made…, rest…)


@rule("index")
def index(layer: VmapLayer, op: Operator, self: Any, indices: Any) -> Any:
    """Elements at positions, which may be each example's own."""
    places = Places(layer, indices, layer.is_batched(self))
    return places.to_example_order(op(layer.physical(self), places.indices))


@rule("index_put")
def index_put(layer: VmapLayer, op: Operator, self: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    """Values at positions; what is written to is each example's own from here on."""
    whole = layer.full(self)
    places = Places(layer, indices, True)
    return op(whole, places.indices, _values_at(layer, places, self._array.shape, indices, values), accumulate)


def _values_at(layer: VmapLayer, places: Places, shape: Any, indices: Any, values: Any) -> Any:
    made = np.broadcast_shapes(*(index._array.shape for index in indices if index is not None))
    kept = [size for number, size in enumerate(shape) if number >= len(indices) or indices[number] is None]
    wanted = (*kept[: places.place], *made, *kept[places.place :])
    return places.to_index_order(
        at.expand(padded(layer, layer.batch(layer.full(values)), len(wanted)), (layer.size, *wanted))
    )


@rule("_index_put_zeros")
def index_put_zeros(layer: VmapLayer, op: Operator, grad_output: Any, shape: Any, indices: Any) -> Any:
    """The gradient of `index`."""
    places = Places(layer, indices, True)
    return op(_values_at(layer, places, shape, indices, grad_output), (layer.size, *shape), places.indices)


@rule("index_select")
def index_select(layer: VmapLayer, op: Operator, self: Any, dim: int, index_: Any) -> Any:
    """Slices by number."""
    rank = rank_of(self)
    if not layer.is_batched(index_):
        value = leading_scalar(layer.physical(self), rank)
        result = op(value, dim_of(dim, rank), index_)
        return result if rank else at.squeeze(result, -1)
    index_ = layer.batch(leading_scalar(layer.physical(index_), rank_of(index_)))
    return index(layer, Operator(_entry("index"), at.index), self, [None] * maybe_wrap_dim(dim, rank) + [index_])


def _entry(name: str) -> Any:
    from readtorch.aten.core.dispatch.dispatcher import operators

    return operators[name]


@rule("_index_add_zeros")
def index_add_zeros(layer: VmapLayer, op: Operator, grad_output: Any, shape: Any, dim: int, index_: Any) -> Any:
    """The gradient of `index_select`."""
    if layer.is_batched(index_) or not shape:
        put = Operator(_entry("_index_put_zeros"), at._index_put_zeros)
        return index_put_zeros(layer, put, grad_output, shape, [None] * maybe_wrap_dim(dim, len(shape)) + [index_])
    return op(layer.full(grad_output), (layer.size, *shape), dim_of(dim, len(shape)), index_)


@rule("index_add", "index_copy")
def index_add(layer: VmapLayer, op: Operator, self: Any, dim: int, index_: Any, source: Any, *rest: Any) -> Any:
    """Slices added to, or put, by number."""
    rank = rank_of(self)
    if layer.is_batched(index_) or not rank:
        from readtorch.aten.functorch.batched_fallback import loop

        args = tuple(layer.batch(layer.full(each)) for each in (index_, source))
        named = dict(zip(op.entry.schema.keyword_only, rest, strict=True))
        return loop(layer, op.entry, op.call, (self, dim, *args), named)
    return op(layer.full(self), dim_of(dim, rank), index_, layer.full(source), *rest)


@rule("gather")
def gather(layer: VmapLayer, op: Operator, self: Any, dim: int, index_: Any, sparse_grad: bool) -> Any:
    """One element per entry of the index."""
    rank = max(rank_of(self), rank_of(index_))
    value, places = (leading_scalar(layer.full(each), rank_of(each)) for each in (self, index_))
    result = op(value, dim_of(dim, rank), places, sparse_grad)
    return result if rank_of(index_) else at.squeeze(result, -1)


@rule("scatter_add", "_scatter_src", "scatter_reduce")
def scatter(layer: VmapLayer, op: Operator, self: Any, dim: int, index_: Any, src: Any, *rest: Any) -> Any:
    """One element per entry of the index, the other way."""
    rank = rank_of(self)
    parts = [leading_scalar(layer.full(each), rank_of(each)) for each in (self, index_, src)]
    result = op(parts[0], dim_of(dim, rank), *parts[1:], *rest)
    return result if rank else at.squeeze(result, -1)


@rule("_scatter_value")
def scatter_value(layer: VmapLayer, op: Operator, self: Any, dim: int, index_: Any, value: Any) -> Any:
    """The same of one number."""
    rank = rank_of(self)
    parts = [leading_scalar(layer.full(each), rank_of(each)) for each in (self, index_)]
    result = op(parts[0], dim_of(dim, rank), parts[1], value)
    return result if rank else at.squeeze(result, -1)


@rule("_scatter_add_zeros")
def scatter_add_zeros(layer: VmapLayer, op: Operator, grad_output: Any, shape: Any, dim: int, index_: Any) -> Any:
    """The gradient of `gather`."""
    grad, places = (leading_scalar(layer.full(each), rank_of(each)) for each in (grad_output, index_))
    result = op(grad, (layer.size, *(shape or (1,))), dim_of(dim, len(shape)), places)
    return result if shape else at.squeeze(result, -1)


def _columns(mask: Any, shape: Any) -> list[Any]:
    """Where a mask that all examples share is true, a tensor for each dimension; the examples' own comes first."""
    places = at.nonzero(at.expand(mask, shape))
    return [None, *at.unbind(places, 1)]


@rule("masked_select")
def masked_select(layer: VmapLayer, op: Operator, self: Any, mask: Any) -> Any:
    """The elements where a mask is true; examples that share it have as many."""
    if layer.is_batched(mask):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask): each example would give a result of its own "
            "size. Use torch.where or masked_fill."
        )
    shape = tuple(np.broadcast_shapes(self._array.shape, mask._array.shape))
    whole = at.expand(padded(layer, self, len(shape)), (layer.size, *shape))
    if not shape:
        return at.expand(at.reshape(whole, (layer.size, 1)), (layer.size, 1)).narrow(1, 0, int(mask))
    return at.index(whole, _columns(mask, shape))


@rule("_masked_put_zeros")
def masked_put_zeros(layer: VmapLayer, op: Operator, grad_output: Any, shape: Any, mask: Any) -> Any:
    """The gradient of `masked_select`."""
    whole = tuple(np.broadcast_shapes(tuple(shape), mask._array.shape))
    grad = layer.full(grad_output)
    if not whole:
        return at.sum(grad, 1)
    return at._index_put_zeros(grad, (layer.size, *whole), _columns(mask, whole))
