# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Softmax and the losses

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Softmax
#
# `y = exp(x - max) / Σ exp(x - max)`: subtracting the maximum changes nothing mathematically and keeps `exp` from overflowing. The
# Jacobian is `diag(y) - y yᵀ`, so a vector meets it as `y (g - Σ g y)`; that of the logarithm is `g - exp(y) Σ g`.

# %%
#| into: aten/native/soft_max.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, keeps_shape_on_meta, register
from readtorch.aten.native.tensor_factories import in_one_piece
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.scalar_type import not_implemented
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/soft_max.py
def _floating(op: str, x: Array) -> Array:
    if x.dtype.kind not in "fV":
        raise not_implemented(op, x.dtype)
    return in_working_precision(x)


def _shifted(x: Array, axis: int) -> Array:
    """`x - max(x)` along `axis`, in fresh memory, the last dimension innermost."""
    return np.subtract(x, x.max(axis, keepdims=True), order="C")


def _trivial(x: Array) -> bool:
    """Nothing to reduce: no dimensions, or no elements."""
    return x.ndim == 0 or x.size == 0


# %%
#| into: aten/native/soft_max.py
#| upstream: aten/src/ATen/native/SoftMax.cpp#at::native::softmax
@register("_softmax", variants="", node="Softmax")
def _softmax(self: Array, dim: int) -> Array:
    axis = maybe_wrap_dim(dim, self.ndim)
    x = _floating("softmax_lastdim_kernel_impl", self)
    if _trivial(x):
        return np.ones_like(self)
    y = _shifted(x, axis)
    np.exp(y, out=y)
    total = y.sum(axis, keepdims=True)
    # upstream's kernel for the other dimensions stores the powers
    if x is not self and axis != self.ndim - 1:
        y = in_working_precision(y.astype(self.dtype))
    y /= total
    return (y if y.ndim == 1 else in_one_piece(y, self)).astype(self.dtype, copy=False)


@register("_log_softmax", variants="", node="LogSoftmax")
def _log_softmax(self: Array, dim: int) -> Array:
    axis = maybe_wrap_dim(dim, self.ndim)
    x = _floating("log_softmax_lastdim_kernel_impl", self)
    if _trivial(x):
        return np.zeros_like(self)
    y = _shifted(x, axis)
    total = np.exp(y).sum(axis, keepdims=True)
    # upstream's kernel for the last dimension stores the sum and its logarithm
    if x is not self and axis == self.ndim - 1:
        y -= np.log(total.astype(self.dtype)).astype(x.dtype)
    else:
        y -= np.log(total)
    return (y if y.ndim == 1 else in_one_piece(y, self)).astype(self.dtype, copy=False)


# %%
#| into: aten/native/soft_max.py
@register("_softmax_backward_data", variants="", node="SoftmaxBackwardData")
def _softmax_backward_data(grad_output: Array, output: Array, dim: int) -> Array:
    if _trivial(output):
        return np.zeros_like(grad_output)
    g, y = in_working_precision(grad_output), in_working_precision(output)
    if maybe_wrap_dim(dim, y.ndim) == y.ndim - 1:
        dx = g - np.vecdot(g, y)[..., None]
    else:
        dx = g - (g * y).sum(dim, keepdims=True)
    dx *= y
    return dx.astype(grad_output.dtype, copy=False)


@register("_log_softmax_backward_data", variants="", node="LogSoftmaxBackwardData")
def _log_softmax_backward_data(grad_output: Array, output: Array, dim: int) -> Array:
    if _trivial(output):
        return np.zeros_like(grad_output)
    g, y = in_working_precision(grad_output), in_working_precision(output)
    dx = np.exp(y)
    dx *= g.sum(dim, keepdims=True)
    np.subtract(g, dx, out=dx)
    return dx.astype(grad_output.dtype, copy=False)


def _softmax_second(at: Any, grad: Any, grad_output: Any, output: Any, dim: int) -> Any:
    return grad * (grad_output - at.sum(grad_output * output, dim, True)) - grad_output * at.sum(
        grad * output, dim, True
    )


keeps_shape_on_meta("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data")
derivative("_softmax", self=lambda at, grad, result, dim: at._softmax_backward_data(grad, result, dim))
derivative("_log_softmax", self=lambda at, grad, result, dim: at._log_softmax_backward_data(grad, result, dim))
derivative(
    "_softmax_backward_data",
    grad_output=lambda at, grad, output, dim: at._softmax_backward_data(grad, output, dim),
    output=_softmax_second,
)
derivative(
    "_log_softmax_backward_data",
    grad_output=lambda at, grad, output, dim: grad - at.sum(grad * at.exp(output), dim, True),
    output=lambda at, grad, grad_output, output, dim: -grad * at.exp(output) * at.sum(grad_output, dim, True),
)


# %%
#| into: aten/native/soft_max.py
@composite("softmax", variants="function method", autocast="float32", out=True)
def softmax(at: Any, self: Array, dim: int, dtype: Any = None) -> Any:
    """`exp(x) / Σ exp(x)` along `dim`; the argument is cast to `dtype` first, if it is given."""
    return at._softmax(self if dtype is None else at._to_copy(self, dtype), dim)


@composite("log_softmax", variants="function method", autocast="float32", out=True)
def log_softmax(at: Any, self: Array, dim: int, dtype: Any = None) -> Any:
    """`x - log Σ exp(x)` along `dim`; the argument is cast to `dtype` first, if it is given."""
    return at._log_softmax(self if dtype is None else at._to_copy(self, dtype), dim)


# %% [markdown]
# ## Negative log-likelihood
#
# Picks `-x[n, target[n]] · weight[target[n]]`. The mean is over the weights picked, so an ignored example counts for nothing, and a
# batch of ignored examples gives `0 / 0`.

# %%
#| into: aten/native/loss_nll.py
#| imports
from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, opaque, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.autograd_state import refuse_gradient
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.dispatch_key import BACKENDS, DispatchKey
from readtorch.c10.core.scalar_type import to_string

# %%
#| into: aten/native/loss_nll.py
#| upstream: aten/src/ATen/core/Reduction.h#at::Reduction::Reduction
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

# %% [markdown]
# The public operators check shapes. `(C,)` with a single class is a batch of one without its dimension.


# %%
#| into: aten/native/loss_nll.py
#| upstream: aten/src/ATen/native/LossNLL.cpp#at::native::nll_loss_nd_symint
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


# %% [markdown]
# ## Cross entropy
#
# `nll_loss(log_softmax(x), target)`. With label smoothing, or with a distribution per example as target, it is `-Σ p log_softmax(x)`.
#
# On a GPU the two are one operator here, for logits `(N, C)` and class numbers: what an example costs is `log Σ exp(x) - x[class]`, so that one pass over the logits is enough, and no array of log-probabilities has to be kept for the backward pass. The kernels are in the [appendix on kernels](../a3_kernels/4_softmax_and_loss.py); this is their twin, and the formula of the gradient's own gradient.


# %%
#| into: aten/native/loss_nll.py
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


# %%
#| into: aten/native/loss_nll.py
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


# %%
#| into: aten/native/loss_nll.py
#| upstream: aten/src/ATen/native/LossNLL.cpp#at::native::cross_entropy_loss_symint
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


# %%
#| into: aten/native/loss_nll.py
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


# %% [markdown]
# ## Regression and binary losses
#
# One function of two tensors, then `none`, `mean` or `sum`. Below, `x = input - target`.

# %%
#| into: aten/native/loss.py
#| imports
from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, differentiates_in_opmath, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.autograd_state import refuse_gradient
from readtorch.aten.expand_utils import infer_size
from readtorch.aten.native.binary_ops import times
from readtorch.aten.native.loss_nll import MEAN, NONE, SUM
from readtorch.aten.tensor_iterator import common_dtype
from readtorch.c10.core import scalar_type
from readtorch.c10.core.scalar_type import not_implemented, can_cast, from_numpy_dtype, promote_types, to_string


# %%
#| into: aten/native/loss.py
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


# %% [markdown]
# Squared, absolute, and the two that are squared near zero and absolute beyond: with `β` and `δ` the places where they change,
# `smooth_l1 = huber / β`.


# %%
#| into: aten/native/loss.py
#| upstream: aten/src/ATen/native/Loss.cpp#at::native::mse_loss_out
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


# %%
#| into: aten/native/loss.py
#| upstream: aten/src/ATen/native/Loss.cpp#at::native::smooth_l1_loss_out
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

# %% [markdown]
# Binary cross entropy, `-(t log p + (1 - t) log(1 - p))`. From probabilities the logarithms are cut at -100, so that a confident
# mistake costs much and not infinity. From logits `x` both logarithms come from one `log1p(exp(-|x|))`.


# %%
#| into: aten/native/loss.py
#| upstream: aten/src/ATen/native/Loss.cpp#at::native::binary_cross_entropy_cpu
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


# %%
#| into: aten/native/loss.py
#| upstream: aten/src/ATen/native/Loss.cpp#at::native::binary_cross_entropy_with_logits
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

# %% [markdown]
# The rest are compositions: their derivatives are the chain rule's.


# %%
#| into: aten/native/loss.py
#| upstream: aten/src/ATen/native/Loss.cpp#at::native::kl_div
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


# %%
#| into: aten/native/loss.py
#| upstream: aten/src/ATen/native/Loss.cpp#at::native::poisson_nll_loss
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


# %%
#| into: aten/native/loss.py
#| upstream: aten/src/ATen/native/Loss.cpp#at::native::cosine_embedding_loss
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


# %% [markdown]
# Two margins over classes: each wrong class should score at least `margin` below the right one (or ones).

# %%
#| into: aten/native/loss_multi_margin.py
#| imports
from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.autograd_state import refuse_gradient
from readtorch.aten.native.loss import reduce
from readtorch.aten.native.loss_nll import MEAN
from readtorch.c10.core.scalar_type import to_string


# %%
#| into: aten/native/loss_multi_margin.py
#| upstream: aten/src/ATen/native/LossMultiMargin.cpp#at::native::multi_margin_loss_cpu
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


# %%
#| into: aten/native/loss_multi_label_margin.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.loss import reduce
from readtorch.aten.native.loss_nll import MEAN
from readtorch.c10.core.scalar_type import not_implemented, to_string


# %%
#| into: aten/native/loss_multi_label_margin.py
#| upstream: aten/src/ATen/native/LossMultiLabelMargin.cpp#at::native::multilabel_margin_loss
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


# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import soft_max as soft_max
from readtorch.aten.native import loss_nll as loss_nll
from readtorch.aten.native import loss as loss
from readtorch.aten.native import loss_multi_margin as loss_multi_margin
from readtorch.aten.native import loss_multi_label_margin as loss_multi_label_margin


# %%
#| claim: the mean of nll_loss is over the weights of the targets, not over the examples
#| needs: a2_layers
def _(torch):
    log = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]])
    loss = torch.nn.functional.nll_loss(log, torch.tensor([0, 1]), weight=torch.tensor([1.0, 3.0]))
    assert torch.allclose(loss, torch.tensor((1 * 1.0 + 3 * 4.0) / (1 + 3)))


# %%
#| claim: a batch of ignored targets gives NaN under the mean, zero under the sum
#| needs: a2_layers
def _(torch):
    log, target = torch.zeros(2, 3), torch.tensor([-100, -100])
    assert torch.nn.functional.nll_loss(log, target).isnan()
    assert torch.nn.functional.nll_loss(log, target, reduction="sum") == 0


# %%
#| claim: binary_cross_entropy of a certain mistake is 100, not infinite
#| needs: a2_layers
def _(torch):
    assert torch.nn.functional.binary_cross_entropy(torch.tensor([0.0]), torch.tensor([1.0])) == 100
