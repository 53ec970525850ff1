# Tangled from chapters/a1_operators/nn_5_softmax_and_losses.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.loss import reduce
from readtorch.aten.native.loss_nll import MEAN
from readtorch.c10.core.autograd_state import refuse_gradient
from readtorch.c10.core.scalar_type import to_string


@composite("multi_margin_loss", module="nn")
def multi_margin_loss(
    at: Any,
    self: Array,
    target: Array,
    p: float = 1,
    margin: float = 1,
    weight: Array | None = None,
    reduction: int = MEAN,
) -> Any:
    """`Σ max(0, margin - x[target] + x[other])^p / C` over the wrong classes, reduced."""
    if weight is not None:
        refuse_gradient("multi_margin_loss", weight=weight)
    if p not in (1, 2):
        raise RuntimeError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dtype != self.dtype:
        raise RuntimeError(f"expected scalar type {to_string(self.dtype)} but found {to_string(weight.dtype)}")
    if to_string(target.dtype) != "Long":
        raise RuntimeError(f"expected scalar type Long but found {to_string(target.dtype)}")
    batched = len(self.shape) > 1
    x = self if batched else at.reshape(self, (1, -1))
    classes = x.shape[1]
    if tuple(target.shape) != (x.shape[0],) and not (x.shape[0] == 1 and not target.shape):
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). "
            f"Expected target size [{x.shape[0]}], but got {list(target.shape)}"
        )
    if weight is not None and math.prod(weight.shape) != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.shape)}")
    right = at.reshape(target, (-1, 1))
    z = x - at.gather(x, 1, right) + margin
    z = at.where(z > 0, z, at.zeros_like(z))
    z = z if p == 1 else z * z
    if weight is not None:
        z = z * at.reshape(at.index_select(weight, 0, at.reshape(target, (-1,))), (-1, 1))
    wrong = at._is_not_class(right, classes)
    loss = at.sum(at.where(wrong, z, at.zeros_like(z)), 1) / classes
    return reduce(at, loss if batched else at.squeeze(loss, 0), reduction)


@register("_is_not_class", variants="")
def _is_not_class(target: Array, classes: int) -> Array:
    """`(N, classes)`: False at each row's own class."""
    if target.size and not 0 <= target.min() <= target.max() < classes:
        raise RuntimeError("target out of range")
    return target != np.arange(classes)
