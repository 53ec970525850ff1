# Tangled from chapters/a1_operators/z_batching_rules_of_layers.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_convolution import into_batch, out_of_batch
from readtorch.aten.functorch.batch_rules_helper import Operator, at, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer

NONE, MEAN, SUM = 0, 1, 2


def _weights(layer: VmapLayer, target: Any, weight: Any, ignore_index: int, like: Any) -> Any:
    """What each target counts for, (B, N, …): 0 where it is ignored."""
    classes = layer.full(target)
    kept = at.ne(classes, ignore_index)
    if weight is None:
        return at._to_copy(kept, like.dtype)
    picked = at._where(kept, classes, at.zeros_like(classes))
    if layer.is_batched(weight):
        rows = at.reshape(picked, (layer.size, -1))
        found = at.reshape(at.gather(layer.physical(weight), 1, rows), picked._array.shape)
    else:
        found = at.index(weight, [picked])
    return at._where(kept, found, at.zeros_like(found))


@rule("nll_loss_forward")
def nll_loss(
    layer: VmapLayer, op: Operator, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int
) -> Any:
    """The loss of every target, and then the sums of each example."""
    scores = layer.full(self)
    one = None if weight is not None and layer.is_batched(weight) else weight
    each, _ = op(into_batch(scores), into_batch(layer.full(target)), one, NONE, ignore_index)
    each = out_of_batch(each, layer.size)
    zero = at.zeros_like(at.reshape(each, (layer.size, -1))).sum(1)
    if one is not weight:
        each = each * _weights(layer, target, weight, ignore_index, self)
    if reduction == NONE:
        return each, zero
    dims = tuple(range(1, each._array.ndim))
    total = at.sum(_weights(layer, target, weight, ignore_index, self), dims)
    loss = at.sum(each, dims)
    return (loss / total if reduction == MEAN else loss), total


@rule("nll_loss_backward")
def nll_loss_backward(
    layer: VmapLayer,
    op: Operator,
    grad_output: Any,
    self: Any,
    target: Any,
    weight: Any,
    reduction: int,
    ignore_index: int,
) -> Any:
    """Each example's gradient, shared out among its targets."""
    scores, classes = layer.full(self), layer.full(target)
    grad = layer.full(grad_output)
    one = None if weight is not None and layer.is_batched(weight) else weight
    shape = classes._array.shape
    if reduction != NONE:
        weights = _weights(layer, target, weight, ignore_index, self)
        if reduction == MEAN:
            grad = grad / at.sum(weights, tuple(range(1, len(shape))))
        grad = at.expand(at.reshape(grad, (layer.size, *(1,) * (len(shape) - 1))), shape)
    if one is not weight:
        grad = grad * _weights(layer, target, weight, ignore_index, self)
    dx = op(into_batch(grad), into_batch(scores), into_batch(classes), one, NONE, ignore_index)
    return out_of_batch(dx, layer.size)
