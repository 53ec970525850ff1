# Tangled from chapters/a1_operators/nn_7_padding_and_resampling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, overloads, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.tensor_factories import in_suggested_format
from readtorch.c10.core.scalar_type import not_implemented, to_string


def _places(mode: str, n: int, before: int, after: int) -> Array:
    """The input place that each output place of an axis reads. Around goes what is left after negative padding cut off its part."""
    wanted = np.arange(-before, n + after)
    if mode == "replicate":
        return np.clip(wanted, 0, n - 1)
    if mode == "circular":
        first, last = max(-before, 0), n - max(-after, 0)
        return first + np.arange(-max(before, 0), last - first + max(after, 0)) % max(last - first, 1)
    wanted = np.abs(wanted)
    return np.where(wanted >= n, 2 * (n - 1) - wanted, wanted)


def _axes(pad: Sequence[int], rank: int) -> list[tuple[int, int, int]]:
    """(axis, before, after) for each padded axis."""
    return [(rank - 1 - i, pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]


@register("_pad_from_inside", variants="", node="Pad")
def _pad_from_inside(self: Array, pad: Sequence[int], mode: str) -> Array:
    out = self
    for axis, before, after in _axes(pad, self.ndim):
        out = out.take(_places(mode, self.shape[axis], before, after), axis)
    return out


@register("_pad_from_inside_backward", variants="", node="PadBackward")
def _pad_from_inside_backward(dy: Array, shape: Sequence[int], pad: Sequence[int], mode: str) -> Array:
    for axis, before, after in reversed(_axes(pad, dy.ndim)):
        n = shape[axis]
        places = _places(mode, n, before, after)
        rows = np.moveaxis(dy, axis, 0)
        low, high = max(before, 0), max(before, 0) + n - max(-before, 0) - max(-after, 0)
        dx = np.zeros((n, *rows.shape[1:]), dy.dtype)
        first = max(-before, 0)  # which is places[low]
        dx[first : first + high - low] = rows[low:high]
        for i in (*range(low), *range(high, len(places))):
            dx[places[i]] += rows[i]
        dy = np.moveaxis(dx, 0, axis)
    return np.ascontiguousarray(dy)


results_lie(in_suggested_format, "_pad_from_inside")
derivative(
    "_pad_from_inside",
    self=lambda at, grad, self_shape, pad, mode: at._pad_from_inside_backward(grad, self_shape, pad, mode),
)
_PADS = {"reflect": "Reflection", "replicate": "Replication"}
overloads(
    "_pad_from_inside",
    lambda given: (
        f"{_PADS[given['mode']]}Pad{len(given['pad']) // 2}DBackward0" if given["mode"] in _PADS else "PadBackward0"
    ),
)
derivative("_pad_from_inside_backward", dy=lambda at, grad, pad, mode: at._pad_from_inside(grad, pad, mode))


def _check_inside(mode: str, shape: Sequence[int], pad: Sequence[int]) -> None:
    rank, dims = len(shape), len(pad) // 2
    if not (dims in (1, 2, 3) and rank in (dims + 1, dims + 2)):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {rank}D input tensor. Supported combinations for non-constant "
            "padding: size 2 with 2D or 3D, size 4 with 3D or 4D, size 6 with 4D or 5D input."
        )
    if mode != "circular" and 0 in shape[rank - dims - 1 :]:
        raise RuntimeError(
            f"Expected {dims + 1}D or {dims + 2}D (batch mode) tensor, empty in no dimension but the batch, "
            f"for input, but got: {list(shape)}"
        )
    for axis, before, after in _axes(pad, rank):
        n = shape[axis]
        if mode == "reflect" and (before >= n or after >= n):
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension: "
                f"({before}, {after}) is not, at dimension {axis} of {list(shape)}"
            )
        if mode == "circular" and (before > n or after > n):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if n + before + after < (0 if mode == "circular" else 1):
            raise RuntimeError(f"input (size: {n}) is too small for padding ({before}, {after}) at dimension {axis}")


@composite("pad", module="nn")
def pad(at: Any, self: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """`self` padded by (before, after) of the last dimension, then of the one before, and so on."""
    rank = len(self.shape)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * rank:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension "
            f"but got padding length {len(pad)} and input of dimension {rank}"
        )
    if mode == "constant":
        return at.constant_pad_nd(self, tuple(pad), 0.0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    _check_inside(mode, self.shape, pad)
    if mode != "circular" and to_string(self.dtype) == "Bool":
        kernel = {"reflect": "reflection", "replicate": "replication"}[mode]
        raise not_implemented(f"{kernel}_pad{len(pad) // 2}d", self.dtype)
    if mode == "circular" and min(pad, default=0) < 0:  # what is cut off does not come round again
        for axis, before, after in _axes(pad, rank):
            self = at.narrow(self, axis, max(-before, 0), self.shape[axis] - max(-before, 0) - max(-after, 0))
        pad = [max(one, 0) for one in pad]
    return at._pad_from_inside(self, tuple(pad), mode)
