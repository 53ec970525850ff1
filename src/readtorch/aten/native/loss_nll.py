# Tangled from chapters/a1_operators/nn_5_softmax_and_losses.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, opaque, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.autograd_state import refuse_gradient
from readtorch.c10.core.dispatch_key import BACKENDS, DispatchKey
from readtorch.c10.core.scalar_type import to_string

NONE, MEAN, SUM = 0, 1, 2
"""The numbers that upstream gives the three reductions."""


def check_targets(classes: Array, count: int) -> None:
    """IndexError for the number of a class that is not there."""
    if classes.size:
        worst = classes.max() if classes.max() >= count else classes.min()
        if not 0 <= worst < count:
            raise IndexError(f"Target {worst} is out of bounds.")


def _picked(x: Array, target: Array, weight: Array | None, ignore_index: int) -> tuple[Array, Array]:
    """Per example: the class to pick (0 where ignored) and its weight (0 where ignored)."""
    ignored = target == ignore_index
    classes = np.where(ignored, 0, target).astype(np.int64, copy=False)
    check_targets(classes, x.shape[1])
    if weight is None:
        weights = (~ignored).astype(x.dtype)
    else:
        weights = np.where(ignored, 0, weight[classes]).astype(x.dtype, copy=False)
    return classes, weights


@register("nll_loss_forward", variants="", outputs="output total_weight", differentiable_outputs=(0,), node="NllLoss")
def nll_loss_forward(
    self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    """Of log-probabilities `(N, C, *)` and classes `(N, *)`: the loss and the sum of weights."""
    classes, weights = _picked(self, target, weight, ignore_index)
    loss = np.take_along_axis(self, np.expand_dims(classes, 1), 1).squeeze(1) * -weights
    loss[target == ignore_index] = 0  # an ignored log-probability may be infinite
    if reduction == NONE:
        return loss, np.zeros((), self.dtype)
    total = weights.sum(dtype=np.float64)
    value = loss.sum(dtype=np.float64)
    if reduction == MEAN:
        value = np.true_divide(value, total)  # nothing over nothing is NaN
    return np.asarray(value, self.dtype), np.asarray(total, self.dtype)


@register("nll_loss_backward", variants="", node="NllLossBackward")
def nll_loss_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
) -> Array:
    """The gradient with respect to the log-probabilities."""
    classes, weights = _picked(self, target, weight, ignore_index)
    share = grad_output * -weights
    if reduction == MEAN:
        total = weights.sum(dtype=np.float64)
        share = share / total.astype(self.dtype)
    share[target == ignore_index] = 0
    dx = np.zeros_like(self)
    np.put_along_axis(dx, np.expand_dims(classes, 1), np.expand_dims(share.astype(self.dtype, copy=False), 1), 1)
    return dx


derivative(
    "nll_loss_forward",
    self=lambda at, grads, self, target, weight, reduction, ignore_index: at.nll_loss_backward(
        grads[0], self, target, weight, reduction, ignore_index
    ),
)
opaque("nll_loss_forward")
derivative(
    "nll_loss_backward",
    grad_output=lambda at, grad, target, weight, reduction, ignore_index: at.nll_loss_forward(
        grad, target, weight, reduction, ignore_index
    )[0],
)

_FLOATS = ("Half", "BFloat16", "Float", "Double")


def _check_nll(self: Array, target: Array, weight: Array | None) -> None:
    rank = len(self.shape)
    if rank < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {rank})")
    batch = target.shape[0] if target.shape else 0
    if rank != 1 and self.shape[0] != batch:
        raise ValueError(f"Expected input batch_size ({self.shape[0]}) to match target batch_size ({batch}).")
    if rank == 1 and math.prod(target.shape) != 1:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {math.prod(target.shape)}")
    if rank == 2 and len(target.shape) > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if rank == 4 and len(target.shape) != 3:
        raise RuntimeError(
            f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {len(target.shape)}"
        )
    agree = tuple(target.shape[1:]) == tuple(self.shape[2:])
    if rank > 2 and rank != 4 and not agree:
        raise RuntimeError(f"Expected target size {[self.shape[0], *self.shape[2:]]}, got {list(target.shape)}")
    if to_string(target.dtype) not in ("Long", "Byte"):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {to_string(target.dtype)}")
    if rank > 2 and to_string(target.dtype) != "Long":
        raise RuntimeError(f"expected scalar type Long but found {to_string(target.dtype)}")
    if rank == 4 and not agree:
        raise RuntimeError(f"size mismatch (got input: {list(self.shape)}, target: {list(target.shape)})")
    classes = self.shape[0] if rank == 1 else self.shape[1]
    if weight is not None:
        refuse_gradient("nll_loss2d_forward" if rank == 4 else "nll_loss_forward", weight=weight)
    if weight is not None and to_string(self.dtype) in _FLOATS and weight.dtype != self.dtype:
        raise RuntimeError(f"expected scalar type {to_string(self.dtype)} but found {to_string(weight.dtype)}")
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes, "
            f"not be of shape {list(weight.shape)}"
        )


@composite("nll_loss_nd", module="nn", autocast="float32")
def nll_loss_nd(
    at: Any,
    self: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> Any:
    """`-weight[target] · x[target]` of log-probabilities `(N, C, *)` or `(C,)`, reduced: 0 none, 1 mean over the weights picked, 2 sum."""
    _check_nll(self, target, weight)
    if len(self.shape) == 1:
        loss = at.nll_loss_forward(at.unsqueeze(self, 0), at.reshape(target, (1,)), weight, reduction, ignore_index)[0]
        return at.squeeze(loss, 0) if reduction == NONE and not target.shape else loss
    return at.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]


@register(
    "_cross_entropy", variants="", outputs="output total_weight log_sums", differentiable_outputs=(0,), node="NllLoss"
)
def _cross_entropy(
    self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array, Array]:
    """Of logits `(N, C)` and classes `(N,)`: the loss, the sum of weights, and log Σ exp of each row."""
    x = in_working_precision(self)
    classes, weights = _picked(x, target, weight, ignore_index)
    top = x.max(1, keepdims=True)
    log_sums = (np.log(np.exp(x - top).sum(1, keepdims=True)) + top).reshape(-1)
    loss = (log_sums - np.take_along_axis(x, classes.reshape(-1, 1), 1).reshape(-1)) * weights
    total = weights.sum()
    if reduction != NONE:
        loss = loss.sum()
    if reduction == MEAN:
        loss = np.true_divide(loss, total)
    return np.asarray(loss, self.dtype), np.asarray(total, x.dtype), log_sums


@register("_cross_entropy_backward", variants="", node="CrossEntropyBackward")
def _cross_entropy_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
    log_sums: Array,
) -> Array:
    """The gradient with respect to the logits: (softmax - one at the class), times the example's share."""
    x, grad = in_working_precision(self), in_working_precision(grad_output)
    classes, weights = _picked(x, target, weight, ignore_index)
    shares = grad * weights
    if reduction == MEAN:
        shares = shares / total_weight
    dx = np.exp(x - log_sums.reshape(-1, 1)) * shares.reshape(-1, 1)
    places = classes.reshape(-1, 1)
    np.put_along_axis(dx, places, np.take_along_axis(dx, places, 1) - shares.reshape(-1, 1), 1)
    return dx.astype(self.dtype, copy=False)


def _example_weights(at: Any, x: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    kept = target != ignore_index
    return at._to_copy(kept, x.dtype) if weight is None else at.index_select(weight, 0, target * kept) * kept


def _second_by_grad(
    at: Any, grad: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total_weight: Any
) -> Any:
    """How the gradient of the logits depends on the gradient of the loss, which it is linear in."""
    expected = at.sum(grad * at._softmax(self, 1), 1) * _example_weights(at, self, target, weight, ignore_index)
    if reduction != NONE:
        expected = at.sum(expected)
    if reduction == MEAN:
        expected = expected / total_weight
    return expected + at.nll_loss_forward(grad, target, weight, reduction, ignore_index)[0]


def _second_by_logits(
    at: Any, grad: Any, grad_output: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
    total_weight: Any,
) -> Any:  # fmt: skip
    """How the gradient of the logits depends on the logits: through the softmax."""
    shares = grad_output * _example_weights(at, self, target, weight, ignore_index)
    if reduction == MEAN:
        shares = shares / total_weight
    return at._softmax_backward_data(grad, at._softmax(self, 1), 1) * at.unsqueeze(shares, 1)


derivative(
    "_cross_entropy",
    self=lambda at, grads, self, target, weight, reduction, ignore_index, total_weight, log_sums: (
        at._cross_entropy_backward(grads[0], self, target, weight, reduction, ignore_index, total_weight, log_sums)
    ),
)
derivative("_cross_entropy_backward", grad_output=_second_by_grad, self=_second_by_logits)


def _in_one_pass(self: Array, label_smoothing: float) -> bool:
    """Are these logits of a GPU, whose loss its kernel computes at once?"""
    if len(self.shape) != 2 or label_smoothing > 0 or not self.shape[0]:
        return False
    array = getattr(self, "_array", self)
    return BACKENDS.get(array.__class__) is DispatchKey.CUDA and to_string(self.dtype) in _FLOATS


@composite("cross_entropy_loss", module="nn", autocast="float32")
def cross_entropy_loss(
    at: Any,
    self: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """`nll_loss_nd` of the log-softmax of scores `(N, C, *)` or `(C,)`; a target of the same shape holds probabilities."""
    axis = 0 if len(self.shape) == 1 else 1
    distribution = tuple(self.shape) == tuple(target.shape)
    if label_smoothing > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if distribution:
        return _against_distribution(at, self, target, weight, reduction, ignore_index, label_smoothing, axis)
    if _in_one_pass(self, label_smoothing):
        _check_nll(self, target, weight)
        return at._cross_entropy(self, target, weight, reduction, ignore_index)[0]
    log = at._log_softmax(self, axis)
    loss = at.nll_loss_nd(log, target, weight, reduction, ignore_index)
    if not label_smoothing > 0:  # beside class numbers upstream takes a negative one for none
        return loss
    return _smoothed(at, log, loss, target, weight, reduction, ignore_index, label_smoothing, axis)


def _per_class(at: Any, weight: Any, rank: int, axis: int) -> Any:
    return at.reshape(weight, tuple(-1 if d == axis else 1 for d in range(rank)))


def _against_distribution(
    at: Any,
    x: Any,
    target: Any,
    weight: Any,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
    axis: int,
) -> Any:
    if to_string(target.dtype) not in ("Float", "Double", "Half", "BFloat16"):
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {to_string(target.dtype)}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    classes = x.shape[axis]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or for none, "
            f"not be of shape {list(weight.shape)}"
        )
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    terms = at._log_softmax(x, axis) * target
    if weight is not None:
        terms = terms * _per_class(at, weight, len(x.shape), axis)
    if reduction == NONE:
        return -at.sum(terms, axis)
    total = -at.sum(terms)
    return total if reduction == SUM else total / (math.prod(x.shape) / classes if classes else 0)


def _smoothed(
    at: Any,
    log: Any,
    loss: Any,
    target: Any,
    weight: Any,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
    axis: int,
) -> Any:
    """`(1 - s) · loss + s / C · Σ_c -w_c log p_c`, ignored examples left out of both."""
    classes = log.shape[axis]
    spread = log if weight is None else log * _per_class(at, weight, len(log.shape), axis)
    smooth = -at.sum(spread, axis)
    kept = target != ignore_index
    smooth = at.where(kept, smooth, 0)
    if reduction != NONE:
        total = at.sum(smooth)
        if reduction == MEAN:
            if weight is None:
                total = total / at.sum(kept)
            else:
                picked = at.index_select(weight, 0, at.reshape(target * kept, (-1,)))
                total = total / at.sum(picked * at.reshape(kept, (-1,)))
        smooth = total
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / classes)
