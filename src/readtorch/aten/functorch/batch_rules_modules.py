# Tangled from chapters/a1_operators/z_batching_rules_of_layers.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_convolution import into_batch, out_of_batch
from readtorch.aten.functorch.batch_rules_helper import Operator, at, rank_of, rule
from readtorch.aten.functorch.batch_rules_scatter_ops import index
from readtorch.aten.functorch.dynamic_layer import VmapLayer, map_tensors


@rule("embedding")
def embedding(layer: VmapLayer, op: Operator, weight: Any, indices: Any, *options: Any) -> Any:
    """Rows of a table that all share, or of each example's own."""
    if not layer.is_batched(weight):
        return op(weight, layer.physical(indices), *options)
    from readtorch.aten.core.dispatch.dispatcher import operators

    return index(layer, Operator(operators["index"], at.index), weight, [indices])


@rule("embedding_dense_backward")
def embedding_backward(
    layer: VmapLayer, op: Operator, grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale: bool
) -> Any:
    """The examples' tables one behind the other, and their numbers shifted so."""
    grad, rows = layer.full(grad_output), layer.full(indices)
    from readtorch.aten.functorch.batch_rules_scatter_ops import _counter

    shifted = rows + _counter(layer, rank_of(indices), rows) * num_weights
    if padding_idx >= 0:
        grad = grad * at._to_copy(at.unsqueeze(at.ne(rows, padding_idx), -1), grad.dtype)
    table = op(grad, shifted, num_weights * layer.size, -1, scale)
    return at.reshape(table, (layer.size, num_weights, -1))


def _dims(op: Operator, values: tuple) -> int:
    """How many dimensions of space a pooling or resampling operator has."""
    names = op.entry.schema.names
    for name in ("kernel_size", "output_size", "size", "bounds"):
        if name in names:
            found = values[names.index(name)]
            return len(found)
    if "dims" in names:
        return values[names.index("dims")]
    return len(values[names.index("pad")]) // 2


@rule("_max_pool", "_max_pool_backward", "_max_pool_indices", "_pool_scatter", "_pool_gather", "_avg_pool", "_avg_pool_backward",
      "_adaptive_avg_pool", "_adaptive_avg_pool_backward", "_windowed_max", "_pad_from_inside", "_pad_from_inside_backward", "_resample",
      "_resample_backward", "im2col", "col2im")  # fmt: skip
def over_images(layer: VmapLayer, op: Operator, *values: Any) -> Any:
    """Image by image: the examples are more images."""
    names = op.entry.schema.names
    space = _dims(op, values)
    first = next(value for value in values if hasattr(value, "_array"))
    merges = rank_of(first) == (3 if op.entry.name == "col2im" else space + 2)
    count = layer.size

    def merged(tensor: Any) -> Any:
        return into_batch(layer.full(tensor)) if merges else layer.full(tensor)

    given = list(map_tensors(merged, values))
    for name in ("input_shape", "shape"):
        if name in names:
            shape = values[names.index(name)]
            given[names.index(name)] = (count * shape[0], *shape[1:]) if merges else (count, *shape)
    return map_tensors(lambda tensor: out_of_batch(tensor, count) if merges else tensor, op(*given))
