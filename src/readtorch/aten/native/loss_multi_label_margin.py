# Tangled from chapters/a1_operators/nn_5_softmax_and_losses.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.loss import reduce
from readtorch.aten.native.loss_nll import MEAN
from readtorch.c10.core.scalar_type import not_implemented, to_string


@register("_listed_classes", variants="", outputs="listed is_target")
def _listed_classes(target: Array) -> tuple[Array, Array]:
    """Which entries of each row come before the first -1, and which classes they name."""
    if target.size and not -1 <= target.min() <= target.max() < target.shape[1]:
        raise RuntimeError("argument #2 'target' is out of range")
    listed = np.cumsum(target < 0, 1) == 0
    is_target = np.zeros(target.shape, bool)
    rows = np.broadcast_to(np.arange(len(target))[:, None], target.shape)
    is_target[rows[listed], target[listed]] = True
    return listed, is_target


@composite("multilabel_margin_loss", module="nn")
def multilabel_margin_loss(at: Any, self: Array, target: Array, reduction: int = MEAN) -> Any:
    """`Σ max(0, 1 - (x[listed] - x[other])) / C` over all pairs of a listed class and one that is not."""
    if not len(self.shape):
        raise RuntimeError("argument #2 'target' is out of range")
    if tuple(self.shape) != tuple(target.shape):
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(self.shape)}")
    if to_string(target.dtype) != "Long":
        raise RuntimeError(f"expected scalar type Long but found {to_string(target.dtype)}")
    if to_string(self.dtype) not in ("Float", "Double"):
        raise not_implemented("multilabel_margin_loss_forward_out_frame", self.dtype)
    batched = len(self.shape) > 1
    classes = self.shape[-1]
    x, t = at.reshape(self, (-1, classes)), at.reshape(target, (-1, classes))
    listed, is_target = at._listed_classes(t)
    scores = at.gather(x, 1, at.clamp(t, 0, None))
    pairs = at.clamp(1 - at.unsqueeze(scores, 2) + at.unsqueeze(x, 1), 0, None)
    counted = at.unsqueeze(listed, 2) & at.unsqueeze(~is_target, 1)
    loss = at.sum(pairs * counted, (1, 2)) / classes
    return reduce(at, loss if batched else at.squeeze(loss, 0), reduction)
