# Tangled from chapters/a1_operators/nn_a_sampling_and_alignment.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register, unknown
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.loss_nll import MEAN, SUM
from readtorch.c10.core.scalar_type import not_implemented, to_string


def _padded_targets(targets: Array, lengths: Sequence[int], blank: int) -> Array:
    """`(N, 2 S + 1)`: each target with blanks around its labels, and behind its end."""
    longest = max(lengths, default=0)
    z = np.full((len(lengths), 2 * longest + 1), blank, np.int64)
    start = 0
    for row, length, number in zip(z, lengths, range(len(lengths)), strict=True):
        labels = targets[start : start + length] if targets.ndim == 1 else targets[number, :length]
        row[1 : 2 * length : 2] = labels
        start += length
    return z


def _log_sum(*terms: Array) -> Array:
    with np.errstate(invalid="ignore"):
        top = np.maximum.reduce(terms)
        safe = np.where(np.isneginf(top), 0, top)
        total = sum(np.exp(term - safe) for term in terms)
    with np.errstate(divide="ignore"):
        return np.where(np.isneginf(top), -np.inf, np.log(total) + safe)


def _shifted(x: Array, by: int, allowed: Array | None = None) -> Array:
    """`x` moved along its last axis, minus infinity coming in, and where not `allowed`."""
    out = np.full_like(x, -np.inf)
    if by > 0:
        out[:, by:] = x[:, :-by]
    else:
        out[:, :by] = x[:, -by:]
    return out if allowed is None else np.where(allowed, out, -np.inf)


def _skips(z: Array, blank: int) -> Array:
    """May a path step from place s - 2 to s?"""
    skip = np.zeros(z.shape, bool)
    skip[:, 2:] = (z[:, 2:] != blank) & (z[:, 2:] != z[:, :-2])
    return skip


@register("_ctc_loss", outputs="neg_log_likelihood log_alpha", differentiable_outputs=(0,), node="CtcLoss")
def _ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Array, Array]:
    """Of `(T, N, C)`: minus the log-probability of each target, and the logarithms of `α`, `(N, T, 2 S + 1)`."""
    steps, n, classes = log_probs.shape
    z = _padded_targets(targets, target_lengths, blank)
    if z.size and not 0 <= z.min() <= z.max() < classes:  # upstream reads what lies beside the row
        raise RuntimeError(
            f"ctc_loss: targets must be in label range [0, {classes}), and are from {z.min()} to {z.max()}"
        )
    p = np.take_along_axis(log_probs, np.broadcast_to(z, (steps, *z.shape)), 2).astype(np.float64)
    skip = _skips(z, blank)
    alpha = np.full((steps, *z.shape), -np.inf)
    if steps:
        alpha[0, :, :2] = p[0, :, :2]
        alpha[0, np.asarray(target_lengths) == 0, 1:] = -np.inf
    for t in range(1, steps):
        before = alpha[t - 1]
        alpha[t] = p[t] + _log_sum(before, _shifted(before, 1), _shifted(before, 2, skip))
    rows, ends = np.arange(n), 2 * np.asarray(target_lengths)
    last = alpha[np.asarray(input_lengths) - 1, rows]
    blank_end = last[rows, ends]
    label_end = np.where(ends > 0, last[rows, np.maximum(ends - 1, 0)], -np.inf)
    loss = -_log_sum(blank_end, label_end)
    empty = np.asarray(input_lengths) == 0
    loss[empty] = np.where(ends[empty] == 0, 0, np.inf)
    return loss.astype(log_probs.dtype), alpha.transpose(1, 0, 2).astype(log_probs.dtype)


@register("_ctc_loss_backward", variants="", node="CtcLossBackward")
def _ctc_loss_backward(
    grad_output: Array,
    log_probs: Array,
    targets: Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    neg_log_likelihood: Array,
    log_alpha: Array,
    blank: int,
    zero_infinity: bool,
) -> Array:
    """The gradient `(T, N, C)` with respect to the log-probabilities."""
    steps, n, classes = log_probs.shape
    z = _padded_targets(targets, target_lengths, blank)
    p = np.take_along_axis(log_probs, np.broadcast_to(z, (steps, *z.shape)), 2).astype(np.float64)
    skip_from = np.zeros(z.shape, bool)
    skip_from[:, :-2] = _skips(z, blank)[:, 2:]
    rows, ends = np.arange(n), 2 * np.asarray(target_lengths)
    starts = np.asarray(input_lengths) - 1
    within = np.arange(z.shape[1]) <= ends[:, None]
    beta = np.full(z.shape, -np.inf)
    dx = np.zeros(log_probs.shape, np.float64)
    for t in reversed(range(steps)):
        beta = p[t] + _log_sum(beta, _shifted(beta, -1), _shifted(beta, -2, skip_from))
        beta = np.where(within & (t < starts)[:, None], beta, -np.inf)
        first = rows[starts == t]
        beta[first, ends[first]] = p[t, first, ends[first]]
        labelled = first[ends[first] > 0]
        beta[labelled, ends[labelled] - 1] = p[t, labelled, ends[labelled] - 1]
        paths = log_alpha[:, t] + beta
        mass = np.zeros((n, classes))
        with np.errstate(over="ignore", invalid="ignore"):
            share = np.exp(paths + neg_log_likelihood[:, None] - p[t])
        np.add.at(mass, (rows[:, None], z), np.nan_to_num(share, nan=0.0))
        dx[t] = np.where((t <= starts)[:, None], np.exp(log_probs[t]) - mass, 0)
    dx *= grad_output[:, None].astype(np.float64)
    infinite = np.isposinf(neg_log_likelihood)
    dx[:, infinite] = 0 if zero_infinity else np.nan
    return dx.astype(log_probs.dtype)


def _ctc_gradient(
    at: Any,
    grads: Sequence[Any],
    log_probs: Any,
    targets: Any,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    neg_log_likelihood: Any,
    log_alpha: Any,
    blank: int,
    zero_infinity: bool,
) -> Any:
    lengths = input_lengths, target_lengths
    return at._ctc_loss_backward(
        grads[0], log_probs, targets, *lengths, neg_log_likelihood, log_alpha, blank, zero_infinity
    )


derivative("_ctc_loss", log_probs=_ctc_gradient)
_UNKNOWN = unknown("derivative for aten::_ctc_loss_backward is not implemented", RuntimeError)
derivative("_ctc_loss_backward", grad_output=_UNKNOWN, log_probs=_UNKNOWN)


@composite("ctc_loss")
def ctc_loss(
    at: Any,
    log_probs: Array,
    targets: Array,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = MEAN,
    zero_infinity: bool = False,
) -> Any:
    """Minus the log-probability of each target sequence, `(T, N, C)` log-probabilities given (Graves et al. 2006).

    The mean divides each loss by the length of its target first. An impossible alignment costs infinity, or 0 with `zero_infinity`.
    """
    name = to_string(log_probs.dtype)
    if name not in ("Float", "Double", "Half", "BFloat16"):
        raise not_implemented("ctc_loss_cpu", log_probs.dtype)
    if 0 in tuple(log_probs.shape):
        raise RuntimeError("log_probs tensor must not be empty")
    batched = len(log_probs.shape) == 3
    x = log_probs if batched else at.unsqueeze(log_probs, 1)
    if len(x.shape) != 3:
        raise RuntimeError(f"ctc_loss: log_probs must be 3-dimensional, and is {len(x.shape)}-dimensional")
    if hasattr(input_lengths, "dtype") != hasattr(target_lengths, "dtype"):
        raise TypeError(
            "ctc_loss() received an invalid combination of arguments: lengths are two tensors or two tuples"
        )
    inputs, outputs = (
        _as_list(what, lengths)
        for what, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths))
    )
    if not batched and len(targets.shape) == 1:
        targets = at.unsqueeze(targets, 0)
    if not 0 <= blank < x.shape[2]:
        raise RuntimeError("blank must be in label range")
    if len(inputs) != x.shape[1] or len(outputs) != x.shape[1]:
        raise RuntimeError(f"input_lengths and target_lengths must be of size batch_size ({x.shape[1]})")
    if max(inputs) > x.shape[0]:
        raise RuntimeError(f"Expected input_lengths to have value at most {x.shape[0]}, but got value {max(inputs)}")
    for what, values in (("input_lengths", inputs), ("target_lengths", outputs)):
        if min(values) < 0:
            raise RuntimeError(f"Expected {what} to have value at least 0, but got value {min(values)}")
    _check_targets(targets, outputs)
    loss = at._ctc_loss(x, targets, inputs, outputs, blank, zero_infinity)[0]
    if zero_infinity:
        loss = at._finite(loss)
    if reduction == SUM:
        return at.sum(loss)
    if reduction == MEAN:
        return at.mean(loss / at._target_lengths(loss, outputs))
    return loss if batched else at.squeeze(loss, 0)


def _check_targets(targets: Any, lengths: list[int]) -> None:
    """RuntimeError unless the labels are as many as the lengths say."""
    rank, shape = len(targets.shape), list(targets.shape)
    if rank not in (1, 2):
        raise RuntimeError(f"ctc_loss: targets must have 1 to 2 dimensions, not {rank}")
    wanted, found = (sum(lengths), shape[0]) if rank == 1 else (len(lengths), shape[0])
    if wanted != found:
        raise RuntimeError(f"ctc_loss: targets must have size {wanted} at dimension 0, not {found}")
    if rank == 2 and shape[1] < max(lengths, default=0):
        raise RuntimeError(f"ctc_loss: targets must have size {max(lengths)} or more at dimension 1, not {shape[1]}")


def _as_list(what: str, lengths: Any) -> list[int]:
    if hasattr(lengths, "dtype"):
        if to_string(lengths.dtype) not in ("Long", "Int", "Short", "Char", "Byte"):
            raise RuntimeError(f"{what} must be integral")
        values = lengths.tolist()
        return list(values) if isinstance(values, list) else [values]
    if not isinstance(lengths, list | tuple):
        raise TypeError(f"ctc_loss(): argument '{what}' must be tuple of ints, not {type(lengths).__name__}")
    for position, value in enumerate(lengths, 1):
        if not hasattr(type(value), "__index__") or (hasattr(value, "dtype") and value.shape):
            raise TypeError(
                f"ctc_loss(): argument '{what}' must be tuple of ints, but found {type(value).__name__} at pos {position}"
            )
    return [int(value) for value in lengths]


@register("_finite", variants="", node="Where")
def _finite(self: Array) -> Array:
    return np.where(np.isinf(self), self.dtype.type(0), self)


derivative("_finite", self=lambda at, grad: grad)


@register("_target_lengths", variants="")
def _target_lengths(like: Array, lengths: Sequence[int]) -> Array:
    return np.maximum(np.asarray(lengths, like.dtype), 1)
