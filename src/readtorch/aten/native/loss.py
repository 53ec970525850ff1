# Tangled from chapters/a1_operators/nn_5_softmax_and_losses.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, differentiates_in_opmath, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.expand_utils import infer_size
from readtorch.aten.native.binary_ops import times
from readtorch.aten.native.loss_nll import MEAN, NONE, SUM
from readtorch.aten.tensor_iterator import common_dtype
from readtorch.c10.core import scalar_type
from readtorch.c10.core.autograd_state import refuse_gradient
from readtorch.c10.core.scalar_type import can_cast, from_numpy_dtype, not_implemented, promote_types, to_string


def _reduced(loss: Array, reduction: int) -> Array:
    if reduction == NONE:
        return loss
    if reduction == MEAN and not loss.size:
        return np.full((), np.nan, loss.dtype)
    wide = np.float32 if loss.dtype.itemsize == 2 else loss.dtype
    return np.asarray(loss.mean(dtype=wide) if reduction == MEAN else loss.sum(dtype=wide)).astype(loss.dtype)


def _share(grad: Any, x: Any, reduction: int) -> Any:
    """What one element of the loss gets of the result's gradient."""
    return grad / max(math.prod(x.shape), 1) if reduction == MEAN else grad


def _together(x: Array, target: Array) -> tuple[Array, Array]:
    """Both in the type that they are computed in."""
    kind = common_dtype(x, target)
    return x.astype(kind, copy=False), target.astype(kind, copy=False)


def _check_stored(computed: Any, stored: Any) -> None:
    """RuntimeError if what is computed in one type is to be kept in another that is none of its like."""
    a, b = (kind if isinstance(kind, scalar_type.dtype) else from_numpy_dtype(kind) for kind in (computed, stored))
    if not can_cast(a, b):
        raise RuntimeError(f"result type {to_string(a)} can't be cast to the desired output type {to_string(b)}")


def _floating(op: str, x: Array, target: Array | None = None) -> None:
    kinds = [array.dtype.kind for array in (x, target) if array is not None]
    if "c" in kinds or not any(kind in "fV" for kind in kinds):
        raise not_implemented(op, x.dtype)


def reduce(at: Any, loss: Any, reduction: int) -> Any:
    """The reduction of a loss that is written with operators."""
    return at.mean(loss) if reduction == MEAN else at.sum(loss) if reduction == SUM else loss


@register("mse_loss", module="nn", autocast="float32")
def mse_loss(self: Array, target: Array, reduction: int = MEAN) -> Array:
    """`(x - target)²`, reduced: 0 none, 1 mean, 2 sum."""
    _floating("mse_cpu", self, target)
    self, target = _together(self, target)
    difference = self - target
    return _reduced(np.multiply(difference, difference), reduction)


def _mse_gradient(at: Any, grad: Any, self: Any, target: Any, reduction: int) -> Any:
    return (self - target) * (_share(grad, self, reduction) * 2)


derivative(
    "mse_loss",
    self=_mse_gradient,
    target=lambda at, grad, self, target, reduction: -_mse_gradient(at, grad, self, target, reduction),
)


@composite("l1_loss", module="nn", autocast="float32")
def l1_loss(at: Any, self: Array, target: Array, reduction: int = MEAN) -> Any:
    """`|x - target|`, reduced: 0 none, 1 mean, 2 sum."""
    return reduce(at, at.abs(self - target), reduction)


@register("_smooth_l1_loss", variants="", node="SmoothL1Loss")
def _smooth_l1_loss(self: Array, target: Array, reduction: int, beta: float) -> Array:
    _floating("smooth_l1_cpu", self, target)
    self, target = _together(self, target)
    x = np.abs(self - target)
    return _reduced(np.where(x < beta, 0.5 * x * x / beta, x - 0.5 * beta).astype(x.dtype, copy=False), reduction)


def _smooth_l1_gradient(at: Any, grad: Any, self: Any, target: Any, reduction: int, beta: float) -> Any:
    away = self - target
    return at.where(at.abs(away) >= beta, at.sign(away), away / beta) * _share(grad, self, reduction)  # NaN stays NaN


derivative(
    "_smooth_l1_loss",
    self=_smooth_l1_gradient,
    target=lambda at, grad, self, target, reduction, beta: (
        -_smooth_l1_gradient(at, grad, self, target, reduction, beta)
    ),
)
differentiates_in_opmath("_smooth_l1_loss")


@composite("smooth_l1_loss", module="nn", autocast="float32")
def smooth_l1_loss(at: Any, self: Array, target: Array, reduction: int = MEAN, beta: float = 1.0) -> Any:
    """With `d = |x - target|`: `d² / (2 beta)` where `d < beta`, else `d - beta / 2`, reduced. RuntimeError for a negative beta."""
    if not beta >= 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return at._smooth_l1_loss(self, target, reduction, beta) if beta else at.l1_loss(self, target, reduction)


@register("huber_loss", module="nn", autocast="float32")
def huber_loss(self: Array, target: Array, reduction: int = MEAN, delta: float = 1.0) -> Array:
    """With `d = |x - target|`: `d² / 2` where `d <= delta`, else `delta · (d - delta / 2)`, reduced. RuntimeError unless delta is positive."""
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    _check_stored(common_dtype(self, target), self.dtype)
    _floating("huber_cpu", self, target)
    stored = self.dtype
    self, target = _together(self, target)
    x = np.abs(self - target)
    loss = np.where(x <= delta, 0.5 * x * x, delta * (x - 0.5 * delta))
    return _reduced(loss.astype(stored, copy=False), reduction)


def _huber_gradient(at: Any, grad: Any, self: Any, target: Any, reduction: int, delta: float) -> Any:
    away = self - target
    return at.where(at.abs(away) >= delta, times(at, at.sign(away), delta), away) * _share(grad, self, reduction)


derivative(
    "huber_loss",
    self=_huber_gradient,
    target=lambda at, grad, self, target, reduction, delta: -_huber_gradient(at, grad, self, target, reduction, delta),
)


@register("binary_cross_entropy", module="nn")
def binary_cross_entropy(self: Array, target: Array, weight: Array | None = None, reduction: int = MEAN) -> Array:
    """`-(t log p + (1 - t) log(1 - p))` of probabilities, logarithms cut at -100, reduced. RuntimeError outside of [0, 1]."""
    if target.dtype != self.dtype:
        raise RuntimeError(f"Found dtype {to_string(target.dtype)} but expected {to_string(self.dtype)}")
    _floating("binary_cross_entropy", self)
    if self.size and not (self.min() >= 0 and self.max() <= 1):
        raise RuntimeError("all elements of input should be between 0 and 1")
    if target.size and not (target.min() >= 0 and target.max() <= 1):
        raise RuntimeError("all elements of target should be between 0 and 1")
    with np.errstate(divide="ignore"):
        yes, no = np.maximum(np.log(self), -100), np.maximum(np.log1p(-self), -100)
    loss = (target - 1) * no - target * yes
    if weight is None:
        return _reduced(loss, reduction)
    _check_stored(promote_types(*(from_numpy_dtype(x.dtype) for x in (weight, self))), self.dtype)
    return _reduced((loss * weight).astype(self.dtype, copy=False), reduction)


def _bce_gradient(at: Any, grad: Any, self: Any, target: Any, weight: Any, reduction: int) -> Any:
    dx = (self - target) / at.clamp((1 - self) * self, 1e-12, None) * _share(grad, self, reduction)
    return dx if weight is None else dx * weight


def _bce_target_gradient(at: Any, grad: Any, self: Any, target: Any, weight: Any, reduction: int) -> Any:
    dt = (at.log(1 - self) - at.log(self)) * _share(grad, self, reduction)
    return dt if weight is None else dt * weight


derivative("binary_cross_entropy", self=_bce_gradient, target=_bce_target_gradient)


@register("binary_cross_entropy_with_logits", autocast="float32")
def binary_cross_entropy_with_logits(
    self: Array,
    target: Array,
    weight: Array | None = None,
    pos_weight: Array | None = None,
    reduction: int = NONE,
) -> Array:
    """`binary_cross_entropy` of `sigmoid(x)`, computed from the scores; `pos_weight` multiplies the positive term."""
    _check_logits(self, target, weight, pos_weight)
    stored = target.dtype
    self, target = _together(self, target)
    log_sigmoid = np.minimum(self, 0) - np.log1p(np.exp(-np.abs(self)))
    if pos_weight is None:
        loss = (1 - target) * self - log_sigmoid
    else:
        loss = (1 - target) * self - ((pos_weight - 1) * target + 1) * log_sigmoid
    loss = loss if weight is None else loss * weight
    return _reduced(loss.astype(stored, copy=False), reduction if reduction in (MEAN, SUM) else NONE)


def _check_logits(self: Array, target: Array, weight: Array | None, pos_weight: Array | None) -> None:
    if self.dtype.kind not in "fV":
        raise not_implemented("log_sigmoid_cpu", self.dtype)
    _check_stored(common_dtype(self, target), target.dtype)
    broadcast = infer_size(self.shape, target.shape)
    if broadcast != target.shape:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(broadcast)}"
        )
    for other, refused in ((weight, "c"), (pos_weight, "bc")):
        if other is None:
            continue
        if other.dtype.kind in refused:
            kinds = to_string(other.dtype), to_string(self.dtype)
            raise RuntimeError("result type {} can't be cast to the desired output type {}".format(*kinds))
        shape = infer_size(target.shape, other.shape)
        if shape != target.shape:
            raise RuntimeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(shape)}"
            )


def _logits_gradient(at: Any, grad: Any, self: Any, target: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    if pos_weight is None:
        dx = at.sigmoid(self) - target
    else:
        t = pos_weight * target
        dx = (t + 1 - target) * at.sigmoid(self) - t
    dx = dx * _share(grad, self, reduction)
    return dx if weight is None else dx * weight


def _logits_target_gradient(at: Any, grad: Any, self: Any, weight: Any, pos_weight: Any, reduction: int) -> Any:
    dt = -self if pos_weight is None else at.log_sigmoid(-self) - pos_weight * at.log_sigmoid(self)
    dt = dt * _share(grad, self, reduction)
    return dt if weight is None else dt * weight


derivative("binary_cross_entropy_with_logits", self=_logits_gradient, target=_logits_target_gradient)


@composite("kl_div", autocast="float32")
def kl_div(at: Any, self: Array, target: Array, reduction: int = NONE, *, log_target: bool = False) -> Any:
    """`target · (log target - input)`, input being log-probabilities."""
    for value in (self, target):
        kind = value.dtype if isinstance(value.dtype, scalar_type.dtype) else from_numpy_dtype(value.dtype)
        if not kind.is_floating_point:
            raise RuntimeError(f"kl_div: {'Complex' if kind.is_complex else 'Integral'} inputs not supported.")
    if log_target:
        return reduce(at, at.exp(target) * (target - self), reduction)
    return reduce(at, at.xlogy(target, target) - target * self, reduction)


@composite("poisson_nll_loss")
def poisson_nll_loss(
    at: Any, input: Array, target: Array, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    """`exp(x) - target · x`, or `x - target · log(x + eps)` unless `log_input`; `full` adds Stirling's term. Reduced."""
    loss = at.exp(input) - target * input if log_input else input - target * at.log(input + eps)
    if full:  # Stirling's approximation of log(target!)
        stirling = target * at.log(target) - target + 0.5 * at.log(target * (2 * math.pi))
        loss = loss + at.where(target > 1, stirling, at.zeros_like(target))
    return reduce(at, loss, reduction)


@composite("soft_margin_loss", module="nn")
def soft_margin_loss(at: Any, self: Array, target: Array, reduction: int = MEAN) -> Any:
    """`log(1 + exp(-target · input))`."""
    refuse_gradient("soft_margin_loss", target=target)
    kinds = [tensor.dtype if isinstance(tensor.dtype, np.dtype) else tensor.dtype.numpy for tensor in (self, target)]
    if kinds[0] != kinds[1]:
        _check_stored(promote_types(*(from_numpy_dtype(kind) for kind in kinds)), self.dtype)
        target = at._to_copy_like(target, self)
    shape = infer_size(tuple(self.shape), tuple(target.shape))
    if shape != tuple(self.shape):
        raise RuntimeError(f"output with shape {list(self.shape)} doesn't match the broadcast shape {list(shape)}")
    return reduce(at, at.log1p(at.exp(-target * self)), reduction)


@composite("margin_ranking_loss")
def margin_ranking_loss(
    at: Any, input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: int = NONE
) -> Any:
    """`max(0, margin - target · (input1 - input2))`."""
    return reduce(at, at.clamp(-target * (input1 - input2) + margin, 0, None), reduction)


@composite("hinge_embedding_loss")
def hinge_embedding_loss(at: Any, self: Array, target: Array, margin: float = 1.0, reduction: int = NONE) -> Any:
    """`input` where target is 1, `max(0, margin - input)` where it is -1."""
    nothing, margin = at.zeros_like(self), float(margin)
    if to_string(self.dtype) in ("Byte", "Char", "Short", "Int", "Long"):
        margin = int(margin)  # the loss has the dtype of the input
    far = at.where(target != 1, at.clamp(margin - self, 0, None), nothing)
    return reduce(at, far + at.where(target != -1, self, nothing), reduction)


@composite("cosine_embedding_loss")
def cosine_embedding_loss(
    at: Any, input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: int = NONE
) -> Any:
    """`1 - cos` where target is 1, `max(0, cos - margin)` where it is -1, of rows `(N, D)` or vectors `(D,)`."""
    rank = len(target.shape)
    if rank not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    wanted = f"{rank + 1}D target tensor expects {rank + 1}D input tensors"
    if len(input1.shape) != rank + 1 or len(input2.shape) != rank + 1:
        raise RuntimeError(f"{wanted}, but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}.")
    last, margin = -1, float(margin)
    product = at.sum(input1 * input2, last)
    squares = (at.sum(input1 * input1, last) + 1e-12) * (at.sum(input2 * input2, last) + 1e-12)
    cosine = product / at.sqrt(squares)
    nothing = at.zeros_like(cosine)
    loss = at.where(target == 1, 1 - cosine, nothing)
    return reduce(at, loss + at.where(target == -1, at.clamp(cosine - margin, 0, None), nothing), reduction)


@composite("triplet_margin_loss")
def triplet_margin_loss(
    at: Any,
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-06,
    swap: bool = False,
    reduction: int = NONE,
) -> Any:
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)` with the p-norm of the difference."""
    ranks = [len(tensor.shape) for tensor in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors must agree in the number of dimensions, "
            "not have {}, {} and {} of them".format(*ranks)
        )
    near = at.pairwise_distance(anchor, positive, p, eps)
    far = at.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = at.minimum(far, at.pairwise_distance(positive, negative, p, eps))
    return reduce(at, at.clamp(near - far + margin, 0, None), reduction)
