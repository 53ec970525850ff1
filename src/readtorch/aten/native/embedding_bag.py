# Tangled from chapters/a1_operators/nn_6_linear_and_embedding.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register, unknown
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.c10.core.dispatch_key import without_values
from readtorch.c10.core.scalar_type import float32, to_string


@register("_bag_of_rows", variants="")
def _bag_of_rows(offsets: Array, rows: int) -> Array:
    """For each of `rows` lookups the number of its bag."""
    marks = np.zeros(rows + 1, np.int64)
    np.add.at(marks, offsets, 1)
    return np.cumsum(marks[:rows]) - 1


@register("_segment_sum", variants="")
def _segment_sum(rows: Array, bag: Array, bags: int) -> Array:
    """The sum of the rows of each bag; zero for an empty one."""
    out = np.zeros((bags, *rows.shape[1:]), rows.dtype)
    if len(rows):
        starts = np.flatnonzero(np.concatenate(([True], bag[1:] != bag[:-1])))
        out[bag[starts]] = np.add.reduceat(rows, starts, axis=0)
    return out


derivative("_segment_sum", rows=lambda at, grad, bag: at.index_select(grad, 0, bag))


@register("_segment_max", variants="", outputs="result winners", differentiable_outputs=(0,))
def _segment_max(rows: Array, bag: Array, bags: int) -> tuple[Array, Array]:
    """The largest value of each column of each bag (zero for an empty bag) and the row it stood in."""
    out = np.zeros((bags, rows.shape[1]), rows.dtype)
    winners = np.zeros((bags, rows.shape[1]), np.int64)
    for number in np.unique(bag):
        first, last = np.searchsorted(bag, [number, number + 1])
        winners[number] = first + rows[first:last].argmax(0)
        out[number] = rows[first:last].max(0)
    return out, winners


@register("_segment_max_backward", variants="")
def _segment_max_backward(dy: Array, winners: Array, bag: Array) -> Array:
    out = np.zeros((len(bag), dy.shape[1]), dy.dtype)
    filled = np.unique(bag)
    np.add.at(out, (winners[filled], np.arange(dy.shape[1])), dy[filled])
    return out


derivative("_segment_max_backward", dy=unknown("the derivative for '_embedding_bag_backward' is not implemented."))
derivative("_segment_max", rows=lambda at, grads, winners, bag: at._segment_max_backward(grads[0], winners, bag))


def _check_bags(at: Any, weight: Any, indices: Any, offsets: Any) -> None:
    for what, places in (("indices", indices), ("offsets", offsets)):
        if (kind := to_string(places.dtype)) not in ("Long", "Int"):
            raise RuntimeError(
                f"Expected tensor for argument '{what}' to have one of the following scalar types: Long, Int; but got {kind}"
            )
    name = to_string(weight.dtype)
    if name not in ("Half", "BFloat16", "Float", "Double"):
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: "
            f"Half, BFloat16, Float, Double; but got {name}"
        )
    for what, whole in (("indices", indices), ("offsets", offsets)):
        kind = to_string(whole.dtype)
        if kind in ("Half", "BFloat16", "Float", "Double", "ComplexFloat", "ComplexDouble"):
            raise RuntimeError(
                f"Expected tensor for argument #1 '{what}' to have one of the following scalar types: Long, Int; but got {kind}"
            )
    count, rows = indices.shape[0], weight.shape[0]
    if without_values(indices) or is_one_of_many(indices) or is_one_of_many(offsets):
        return
    if offsets.shape[0]:
        first, last = int(offsets[0]), int(offsets[-1])
        if first:
            raise RuntimeError(
                f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {first}"
            )
        if last > count:
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {last}"
            )
    if count:
        for found in (int(at.amin(indices)), int(at.amax(indices))):
            if not 0 <= found < rows:
                raise RuntimeError(f"embedding_bag: index {found} is not in the valid range [0, {rows})")


@composite("_embedding_bag_reduced", module="nn")
def _embedding_bag_reduced(
    at: Any,
    weight: Array,
    indices: Array,
    offsets: Array,
    mode: str,
    per_sample_weights: Array | None,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool = False,
) -> Any:
    """`(B, D)` from the lookups `indices (L,)` that start a new bag at each of `offsets (B,)`."""
    count, bags = indices.shape[0], offsets.shape[0]
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        kinds = to_string(weight.dtype), to_string(per_sample_weights.dtype)
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; "
            "but type {} does not equal {}".format(*kinds)
        )
    _check_bags(at, weight, indices, offsets)
    rows = at.embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
    bag = at._bag_of_rows(offsets, count)
    if padding_idx >= 0:
        kept = at.reshape(at.nonzero(indices != padding_idx), (-1,))
        rows, bag = at.index_select(rows, 0, kept), at.index_select(bag, 0, kept)
        if per_sample_weights is not None:
            per_sample_weights = at.index_select(per_sample_weights, 0, kept)
    if per_sample_weights is not None:
        rows = rows * at.unsqueeze(per_sample_weights, 1)
    if mode == "max":
        return at._segment_max(rows, bag, bags)[0]
    kind = rows.dtype
    if kind.itemsize == 2:
        rows = at._to_copy(rows, float32)
    total = at._segment_sum(rows, bag, bags)
    if mode != "sum":
        total = total / at._bag_sizes(bag, bags)
    return total if total.dtype == kind else at._to_copy(total, kind)


@register("_bag_sizes", variants="")
def _bag_sizes(bag: Array, bags: int) -> Array:
    """`(bags, 1)`: how many rows each bag has, 1 for an empty one."""
    return np.maximum(np.bincount(bag, minlength=bags), 1)[:, None]
