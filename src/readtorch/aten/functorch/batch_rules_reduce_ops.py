# Tangled from chapters/a1_operators/z_batching_rules.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_helper import Operator, at, dim_of, leading_scalar, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer
from readtorch.c10.core.tensor_impl import TensorImpl


def shifted(dim: Any, rank: int) -> Any:
    """One dimension or several, of an example, in the tensor of all; all of them for None and for an empty list."""
    if dim is None or (dim.__class__ in (list, tuple) and not dim):
        return tuple(range(1, max(rank, 1) + 1))
    if isinstance(dim, list | tuple):
        return tuple(dim_of(each, rank) for each in dim)
    return dim_of(dim, rank)


def _scalar_again(result: Any, rank: int) -> Any:
    """Without the dimension that `leading_scalar` gave."""
    if rank:
        return result
    if isinstance(result, TensorImpl):
        return at.squeeze(result, -1) if result._array.ndim > 1 else result
    return type(result)([_scalar_again(part, rank) for part in result]) if isinstance(result, list | tuple) else result


@rule("sum", "mean", "amax", "amin", "all", "any", "nansum", "logsumexp", "_var", "_std", "_aminmax", "_vector_norm",
      "cumsum", "cumprod", "logcumsumexp", "_max_dim", "_min_dim", "sort", "argsort", "kthvalue", "topk", "_median_dim", "_mode",
      "cummax", "cummin", "_softmax", "_log_softmax", "_fft_c2c", "_fft_r2c", "_fft_c2r")  # fmt: skip
def over_dim(layer: VmapLayer, op: Operator, *values: Any) -> Any:
    """Along dimensions that are given by number: the same ones, one further."""
    names = op.entry.schema.names
    place = names.index("dims" if "dims" in names else "dim")
    rank = rank_of(values[0])
    value = leading_scalar(layer.physical(values[0]), rank)
    return _scalar_again(op(value, *values[1:place], shifted(values[place], rank), *values[place + 1 :]), rank)


@rule("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_backward(layer: VmapLayer, op: Operator, grad_output: Any, output: Any, dim: int) -> Any:
    """The same with two tensors of one shape."""
    rank = rank_of(output)
    grad, out = (leading_scalar(layer.full(each), rank) for each in (grad_output, output))
    return _scalar_again(op(grad, out, dim_of(dim, rank)), rank)


@rule("prod", "argmax", "argmin")
def over_dim_or_all(layer: VmapLayer, op: Operator, value: Any, dim: Any, keepdim: Any, *rest: Any) -> Any:
    """Along one dimension, or over the whole of each example."""
    rank = rank_of(value)
    whole = leading_scalar(layer.physical(value), rank)
    if dim is not None:
        return _scalar_again(op(whole, dim_of(dim, rank), bool(keepdim), *rest), rank)
    result = op(at.reshape(whole, (layer.size, -1)), 1, False, *rest)
    return at.reshape(result, (layer.size, *(1,) * rank)) if keepdim else result


@rule("count_nonzero")
def count_nonzero(layer: VmapLayer, op: Operator, value: Any, dim: tuple) -> Any:
    """How many elements of each example are not 0."""
    rank = rank_of(value)
    dims = dim[0] if len(dim) == 1 else dim
    return _scalar_again(op(leading_scalar(layer.physical(value), rank), (shifted(dims, rank),)), rank)


@rule("_max_all", "_min_all")
def extreme_of_all(layer: VmapLayer, op: Operator, value: Any) -> Any:
    """The largest or smallest element of each example."""
    found = at._max_dim if op.entry.name == "_max_all" else at._min_dim
    rows = at.reshape(layer.physical(value), (layer.size, -1))
    if value._array.size and value._array.dtype.kind in "fcV":
        return (at.amax if op.entry.name == "_max_all" else at.amin)(rows, 1)
    return found(rows, 1)[0]


@rule("_median_of_all")
def median_of_all(layer: VmapLayer, op: Operator, value: Any) -> Any:
    """The median of each example."""
    return at._median_dim(at.reshape(layer.physical(value), (layer.size, -1)), 1, False)[0]
