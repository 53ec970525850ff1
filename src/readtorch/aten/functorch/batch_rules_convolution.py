# Tangled from chapters/a1_operators/z_batching_rules_of_layers.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_helper import Operator, at, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer


def into_batch(whole: Any) -> Any:
    """(B, N, …) as (B·N, …): examples that share everything else are a larger batch."""
    shape = whole._array.shape
    return at.reshape(whole, (shape[0] * shape[1], *shape[2:]))


def out_of_batch(result: Any, count: int) -> Any:
    """(B·N, …) as (B, N, …)."""
    shape = result._array.shape
    return at.reshape(result, (count, shape[0] // count if count else 0, *shape[1:]))


def into_channels(whole: Any, groups: int = 1) -> Any:
    """(B, N, C, …) as (N, B·C, …), or (N, groups·B·C/groups, …): examples with weights of their own are groups of channels."""
    shape = whole._array.shape
    count, rest = shape[0], shape[3:]
    grouped = at.reshape(whole, (count, shape[1], groups, shape[2] // groups, *rest))
    moved = at.permute(grouped, (1, 2, 0, *range(3, len(shape) + 1)))
    return at.reshape(moved, (shape[1], groups * count * (shape[2] // groups), *rest))


def out_of_channels(result: Any, count: int, groups: int = 1) -> Any:
    """(N, groups·B·C/groups, …) as (B, N, C, …)."""
    shape = result._array.shape
    each = shape[1] // (groups * count)
    split = at.reshape(result, (shape[0], groups, count, each, *shape[2:]))
    moved = at.permute(split, (2, 0, 1, *range(3, len(shape) + 2)))
    return at.reshape(moved, (count, shape[0], groups * each, *shape[2:]))


def _weights(whole: Any) -> Any:
    """The weights of all examples as those of groups: (B, O, …) as (B·O, …)."""
    shape = whole._array.shape
    return at.reshape(whole, (shape[0] * shape[1], *shape[2:]))


@rule("convolution")
def convolution(
    layer: VmapLayer, op: Operator, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    """Shared weights: the examples are more of a batch. Own weights: they are groups."""
    rest = (stride, padding, dilation, transposed, output_padding)
    if not layer.is_batched(weight):
        if (bias is None or not layer.is_batched(bias)) and layer.is_batched(input):
            return out_of_batch(op(into_batch(layer.physical(input)), weight, bias, *rest, groups), layer.size)
        result = layer.batch(convolution(layer, op, layer.batch(layer.full(input)), weight, None, *rest, groups))
        return _with_bias(layer, layer.physical(result), bias)
    x = into_channels(layer.full(input))
    w = _weights(layer.physical(weight))
    result = out_of_channels(op(x, w, None, *rest, groups * layer.size), layer.size)
    return result if bias is None else _with_bias(layer, result, bias)


def _with_bias(layer: VmapLayer, result: Any, bias: Any) -> Any:
    shape = result._array.shape
    return result + at.reshape(layer.full(bias), (shape[0], 1, shape[2], *(1,) * (len(shape) - 3)))


@rule("_conv_input")
def conv_input(
    layer: VmapLayer, op: Operator, dy: Any, weight: Any, input_shape: Any, stride: Any, padding: Any, dilation: Any,
    groups: int, channels_last: Any,
) -> Any:  # fmt: skip
    """The gradient of the input, in the same two ways."""
    count, rest = layer.size, (stride, padding, dilation)
    batch, channels, *size = input_shape
    if not layer.is_batched(weight):
        return out_of_batch(
            op(into_batch(layer.full(dy)), weight, (count * batch, channels, *size), *rest, groups, channels_last),
            count,
        )
    w = _weights(layer.physical(weight))
    grad = op(into_channels(layer.full(dy)), w, (batch, count * channels, *size), *rest, groups * count, channels_last)
    return out_of_channels(grad, count)


@rule("_conv_weight")
def conv_weight(
    layer: VmapLayer, op: Operator, dy: Any, x: Any, weight_shape: Any, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    """The gradient of the weights: one for each example, and so groups in any case."""
    if len(weight_shape) == 4 and groups == 1 and layer.is_batched(x):
        return _by_columns(layer, dy, x, weight_shape, stride, padding, dilation)
    count = layer.size
    shape = (count * weight_shape[0], *weight_shape[1:])
    grad = op(
        into_channels(layer.full(dy)), into_channels(layer.full(x)), shape, stride, padding, dilation, groups * count
    )
    return at.reshape(grad, (count, *weight_shape))


def _by_columns(layer: VmapLayer, dy: Any, x: Any, weight_shape: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """The pixels under each place of the kernel as columns: then it is one product of matrices per example, (O, L) by (L, C·k·k)."""
    grads, count = layer.full(dy), layer.size
    columns = at.im2col(into_batch(layer.physical(x)), weight_shape[2:], dilation, padding, stride)
    batch = grads._array.shape[1]
    places = columns._array.shape[2]
    rows = at.reshape(grads, (count * batch, weight_shape[0], -1))
    if (
        rows._array.shape[2] != places
    ):  # a stride that leaves out the last pixels gives as many places; nothing else does
        raise RuntimeError(
            f"gradient of a convolution: {rows._array.shape[2]} places of the output, {places} of the input"
        )
    each = at.bmm(rows, at.transpose(columns, 1, 2))
    if batch != 1:
        each = at.sum(at.reshape(each, (count, batch, *each._array.shape[1:])), 1)
    return at.reshape(each, (count, *weight_shape))
