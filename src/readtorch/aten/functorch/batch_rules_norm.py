# Tangled from chapters/a1_operators/z_batching_rules_of_layers.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

from readtorch.aten.functorch.batch_rules_convolution import into_batch, into_channels, out_of_batch, out_of_channels
from readtorch.aten.functorch.batch_rules_helper import Operator, at, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer


def _batched(layer: VmapLayer, *tensors: Any) -> bool:
    return any(tensor is not None and layer.is_batched(tensor) for tensor in tensors)


def _beside(layer: VmapLayer, tensor: Any, rank: int, at_dim: int) -> Any:
    """A tensor of parameters, in the place of the dimensions that begin with `at_dim` of an example."""
    value = layer.physical(tensor)
    shape = tensor._array.shape
    after = rank - at_dim - len(shape)
    lead = (layer.size,) if layer.is_batched(tensor) else (1,)
    return at.reshape(value, (*lead, *(1,) * at_dim, *shape, *(1,) * after))


@rule("native_layer_norm")
def layer_norm(
    layer: VmapLayer, op: Operator, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    """The last dimensions are normalised; the batch is one more before them."""
    if not _batched(layer, weight, bias):
        return op(layer.physical(input), normalized_shape, weight, bias, eps)
    output, mean, rstd = op(layer.full(input), normalized_shape, None, None, eps)
    rank = rank_of(input)
    place = rank - len(normalized_shape)
    if weight is not None:
        output = output * _beside(layer, weight, rank, place)
    return (output if bias is None else output + _beside(layer, bias, rank, place)), mean, rstd


@rule("native_layer_norm_backward")
def layer_norm_backward(
    layer: VmapLayer, op: Operator, grad_out: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any
) -> Any:
    """Parameters have a gradient for each example: sums that leave the batch out."""
    grad, x = layer.full(grad_out), layer.full(input)
    rank = rank_of(input)
    place = rank - len(normalized_shape)
    moments = [
        at.reshape(layer.full(each), (*x._array.shape[: place + 1], *(1,) * (rank - place))) for each in (mean, rstd)
    ]
    inner = grad if weight is None else grad * _beside(layer, weight, rank, place)
    dx = op(inner, x, normalized_shape, layer.full(mean), layer.full(rstd), None)[0]
    lead = tuple(range(1, place + 1))
    scaled = grad * ((x - moments[0]) * moments[1])
    return dx, (at.sum(scaled, lead) if lead else scaled), (at.sum(grad, lead) if lead else at.clone(grad))


@rule("native_group_norm")
def group_norm(
    layer: VmapLayer, op: Operator, input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> Any:
    """Each image alone is normalised, and so the examples are more images."""
    count = layer.size
    shared = not _batched(layer, weight, bias)
    given = (weight, bias) if shared else (None, None)
    output, mean, rstd = op(into_batch(layer.full(input)), *given, count * N, C, HxW, group, eps)
    output = out_of_batch(output, count)
    if not shared:
        rank = rank_of(input)
        output = output if weight is None else output * _beside(layer, weight, rank, 1)
        output = output if bias is None else output + _beside(layer, bias, rank, 1)
    return output, out_of_batch(mean, count), out_of_batch(rstd, count)


@rule("native_group_norm_backward")
def group_norm_backward(
    layer: VmapLayer, op: Operator, grad_out: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: int, C: int, HxW: int,
    group: int,
) -> Any:  # fmt: skip
    """As for layer_norm."""
    count, rank = layer.size, rank_of(input)
    grad, x = layer.full(grad_out), layer.full(input)
    inner = grad if weight is None else grad * _beside(layer, weight, rank, 1)
    moments = [layer.full(each) for each in (mean, rstd)]
    dx = op(into_batch(inner), into_batch(x), *map(into_batch, moments), None, count * N, C, HxW, group)[0]
    grouped = (count, N, group, -1)
    centred = at.reshape(x, grouped) - at.reshape(moments[0], (count, N, group, 1))
    normal = at.reshape(centred * at.reshape(moments[1], (count, N, group, 1)), x._array.shape)
    others = (1, *range(3, rank + 1))
    return out_of_batch(dx, count), at.sum(grad * normal, others), at.sum(grad, others)


def _per_channel(layer: VmapLayer, tensor: Any) -> Any:
    return None if tensor is None else at.reshape(layer.full(tensor), (-1,))


@rule("native_batch_norm")
def batch_norm(
    layer: VmapLayer, op: Operator, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Each example has statistics of its own: its channels are channels beside the others'."""
    running = [running_mean, running_var]
    if (
        training
        and layer.is_batched(input)
        and any(each is not None and not layer.is_batched(each) for each in running)
    ):
        raise RuntimeError(
            "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
            "were not batched. Set `track_running_stats` to False, or call eval(): torch.func.replace_all_batch_norm_modules_ does "
            "the former for a whole model."
        )
    kept = [None if each is None else at.clone(_per_channel(layer, each)) for each in running]
    output, mean, invstd = op(
        into_channels(layer.full(input)), _per_channel(layer, weight), _per_channel(layer, bias), *kept, training, momentum, eps
    )  # fmt: skip
    for each, moved in zip(running, kept, strict=True):
        if training and each is not None and layer.is_batched(each):
            at.copy_(layer.physical(each), at.reshape(moved, layer.physical(each)._array.shape))
    count = layer.size
    rows = [at.reshape(each, (count, -1)) for each in (mean, invstd)]
    return out_of_channels(output, count), *rows


@rule("native_batch_norm_backward")
def batch_norm_backward(
    layer: VmapLayer, op: Operator, grad_out: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, save_mean: Any,
    save_invstd: Any, train: bool, eps: float,
) -> Any:  # fmt: skip
    """The same with channels beside channels."""
    parts = [_per_channel(layer, each) for each in (weight, running_mean, running_var, save_mean, save_invstd)]
    dx, dw, db = op(into_channels(layer.full(grad_out)), into_channels(layer.full(input)), *parts, train, eps)
    count = layer.size
    return (None if dx is None else out_of_channels(dx, count)), *(
        None if each is None else at.reshape(each, (count, -1)) for each in (dw, db)
    )


def elements(shape: Any) -> int:
    """How many elements a tensor of that shape has."""
    return math.prod(shape)
