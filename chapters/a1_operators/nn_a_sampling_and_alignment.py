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
# # Sampling at given places, random pools, and the CTC loss

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Sampling an image on a grid
#
# `grid_sampler(x, grid)` reads `x` at places that are numbers in [-1, 1], the corners of the image. A place between pixels takes the mean
# of its neighbours, weighted by nearness; the weights carry the gradient to the grid. It is written with operators, so that the
# gradients of both inputs, of all orders, follow.

# %%
#| into: aten/native/grid_sampler.py
#| imports
from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import not_implemented, to_string


# %%
#| into: aten/native/grid_sampler.py
#| upstream: aten/src/ATen/native/GridSampler.cpp#at::native::grid_sampler
BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2


def _place(at: Any, coordinate: Any, size: int, padding_mode: int, align_corners: bool) -> Any:
    """Pixels for a coordinate in [-1, 1]; under border and reflection brought inside the image."""
    place = (coordinate + 1) * ((size - 1) / 2) if align_corners else ((coordinate + 1) * size - 1) / 2
    return _inside(at, place, size, padding_mode, align_corners)


def _inside(at: Any, place: Any, size: int, padding_mode: int, align_corners: bool) -> Any:
    if padding_mode == ZEROS:
        return place
    if padding_mode == REFLECTION:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return place * 0
        offset = at.abs(place - low)
        turns = at.floor(offset / span)
        rest = offset - turns * span
        place = at.where(turns % 2 == 0, rest + low, span - rest + low)
    return at.clamp(place, 0, size - 1)


@register("_pixel", variants="")
def _pixel(places: Array, size: int) -> Array:
    """The number of the pixel at whole places, clipped into the image."""
    return np.clip(np.nan_to_num(places, nan=-1.0), 0, size - 1).astype(np.int64)


@register("_is_pixel", variants="")
def _is_pixel(places: Array, size: int) -> Array:
    """Does the image have a pixel there?"""
    return (places >= 0) & (places <= size - 1)


def _read(at: Any, x: Any, places: list[Any]) -> Any:
    """`x (N, C, *size)` at whole `places`, each `(N, P)`, one list entry per axis; zero outside."""
    n, c, *size = x.shape
    flat: Any = None
    known: Any = None
    for place, length in zip(places, size, strict=True):
        pixel, here = at._pixel(place, length), at._is_pixel(place, length)
        flat = pixel if flat is None else flat * length + pixel
        known = here if known is None else known & here
    index = at.expand(at.unsqueeze(flat, 1), (n, c, flat.shape[1]))
    return at.gather(at.reshape(x, (n, c, math.prod(size))), 2, index) * at.unsqueeze(known, 1)


# %%
#| into: aten/native/grid_sampler.py
def _cubic_weights(t: Any) -> list[Any]:
    """The weights of the four neighbours of a place with fraction `t`."""
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _bicubic(at: Any, x: Any, places: list[Any], padding_mode: int, align_corners: bool) -> Any:
    size = x.shape[2:]
    low = [at.floor(place) for place in places]
    weights = [_cubic_weights(place - first) for place, first in zip(places, low, strict=True)]
    total = None
    for i, j in itertools.product(range(4), repeat=2):
        corner = [
            _inside(at, first + (k - 1), length, padding_mode, align_corners)
            for first, k, length in zip(low, (i, j), size, strict=True)
        ]
        part = _read(at, x, corner) * at.unsqueeze(weights[0][i] * weights[1][j], 1)
        total = part if total is None else total + part
    return total


def _linear(at: Any, x: Any, places: list[Any]) -> Any:
    low = [at.floor(place) for place in places]
    total = None
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight = None
        for place, first, k in zip(places, low, corner, strict=True):
            own = place - first if k else 1 - (place - first)
            weight = own if weight is None else weight * own
        part = _read(at, x, [first + k for first, k in zip(low, corner, strict=True)]) * at.unsqueeze(weight, 1)
        total = part if total is None else total + part
    return total


@composite("grid_sampler")
def grid_sampler(
    at: Any, input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`(N, C, *size)` at `grid (N, *out, dims)`, whose last entry runs along the first axis of `size`."""
    if not input.shape or not grid.shape:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dims = len(input.shape) - 2
    if dims not in (2, 3) or len(input.shape) != len(grid.shape):
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input, and a grid with as many dimensions; "
            f"the input is {list(input.shape)}, the grid {list(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size; "
            f"the input is {list(input.shape)}, the grid {list(grid.shape)}"
        )
    if grid.shape[-1] != dims:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {dims} in last dimension; it is {list(grid.shape)}"
        )
    if interpolation_mode == BICUBIC and dims != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if to_string(input.dtype) not in ("Half", "BFloat16", "Float", "Double"):
        kernel = "grid_sampler_2d_cpu_kernel_impl" if dims == 2 else "grid_sampler3d_cpu"
        raise not_implemented(kernel, input.dtype)
    if grid.dtype != input.dtype:
        raise RuntimeError(f"expected scalar type {to_string(input.dtype)} but found {to_string(grid.dtype)}")
    n, c, *size = input.shape
    out = tuple(grid.shape[1:-1])
    flat = at.reshape(grid, (n, math.prod(out), dims))
    coordinates = [at.select(flat, 2, dims - 1 - axis) for axis in range(dims)]
    mode = ZEROS if interpolation_mode == BICUBIC else padding_mode
    places = [
        _place(at, coordinate, length, mode, align_corners)
        for coordinate, length in zip(coordinates, size, strict=True)
    ]
    if interpolation_mode == BICUBIC:
        y = _bicubic(at, input, places, padding_mode, align_corners)
    elif interpolation_mode == NEAREST:
        y = _read(at, input, [at.round(place) for place in places])
    else:
        y = _linear(at, input, places)
    return at.reshape(y, (n, c, *out))


# %% [markdown]
# The grid of an affine map: the places of the output's pixels, in homogeneous coordinates, times the matrix.

# %%
#| into: aten/native/affine_grid_generator.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register
from readtorch.aten.core.dispatch.operator_entry import Array


# %%
#| into: aten/native/affine_grid_generator.py
#| upstream: aten/src/ATen/native/AffineGridGenerator.cpp#at::native::affine_grid_generator
@register("_base_grid", variants="")
def _base_grid(like: Array, out: Sequence[int], align_corners: bool) -> Array:
    """`(places, dims + 1)`: each pixel of the output as (x, y, ..., 1), x along the last axis, in [-1, 1]."""
    axes = []
    for length in out:
        line = np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
        axes.append(line if align_corners else line * ((length - 1) / length))
    planes = np.meshgrid(*axes, indexing="ij")
    return np.stack([*reversed(planes), np.ones(tuple(out))], -1).reshape(-1, len(out) + 1).astype(like.dtype)


@composite("affine_grid_generator")
def affine_grid_generator(at: Any, theta: Array, size: Sequence[int], align_corners: bool) -> Any:
    """`(N, *out, dims)` from `theta (N, dims, dims + 1)`, for an output of `size (N, C, *out)`."""
    n, _, *out = size
    grid = at.matmul(at._base_grid(theta, tuple(out), align_corners), at.transpose(theta, 1, 2))
    return at.reshape(grid, (n, *out, len(out)))


# %% [markdown]
# ## Pools at random places
#
# Windows of one size whose distances are pseudo-random, so that an image shrinks by any ratio: window `i` starts at
# `floor((i + u) α) - floor(u α)`, with one random `u` per plane and axis.

# %%
#| into: aten/native/fractional_max_pool2d.py
#| imports
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, opaque, overloads, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import not_implemented


# %%
#| into: aten/native/fractional_max_pool2d.py
#| upstream: aten/src/ATen/native/FractionalMaxPooling.h#at::native::generate_intervals
def _starts(u: Array, n: int, out: int, kernel: int) -> Array:
    """`(planes, out)`: where each window starts along an axis, given a random number per plane."""
    last = n - kernel
    starts = np.full((len(u), out), last, np.int64)
    if out > 1:
        alpha = u.dtype.type(last / (out - 1))
        steps = np.arange(out - 1, dtype=u.dtype)
        starts[:, :-1] = ((steps + u[:, None]) * alpha).astype(np.int64) - (u[:, None] * alpha).astype(np.int64)
    return starts


@register("_fractional_max_pool", module="nn", outputs="result indices", differentiable_outputs=(0,))
def _fractional_max_pool(
    self: Array, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Array
) -> tuple[Array, Array]:
    """Maxima over the windows and where they were; `random_samples` is `(N, C, dims)`."""
    dims = len(kernel_size)
    if self.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"fractional_max_pool{dims}d(): Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(self.shape)}"
        )
    if random_samples.dtype != self.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if 0 in self.shape[-dims - 1 :]:
        raise RuntimeError(
            f"fractional_max_pool{dims}d(): Expected input to have non-zero size for non-batch dimensions, but got {list(self.shape)}"
        )
    if self.dtype.kind in "iubc":
        raise not_implemented(f"fractional_max_pool{dims}d_out_frame", self.dtype)
    if random_samples.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {random_samples.ndim}")
    if random_samples.shape[1] != self.shape[-dims - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    size = self.shape[-dims:]
    for n, out, kernel in zip(size, output_size, kernel_size, strict=True):
        if out + kernel - (dims == 2) > n:  # the three-dimensional kernel asks for one place more
            raise RuntimeError(
                f"fractional_max_pool{dims}d(): pool size ({kernel}) plus output size ({out}) too large for input ({n})"
            )
    planes = self.reshape(math.prod(self.shape[:-dims]), *size)
    if random_samples.size < len(planes) * dims or not random_samples.ndim or random_samples.shape[-1] != dims:
        raise RuntimeError(
            f"fractional_max_pool{dims}d(): expected {len(planes)} rows of {dims} random samples, but got {list(random_samples.shape)}"
        )
    samples = random_samples.reshape(-1, dims)[: len(planes)]
    # upstream's two-dimensional kernel takes the first sample for the last axis
    order = range(dims) if dims == 3 else range(dims - 1, -1, -1)
    starts = [
        _starts(samples[:, number], n, out, kernel)
        for number, n, out, kernel in zip(order, size, output_size, kernel_size, strict=True)
    ]
    shape = (len(planes), *output_size)
    result, indices = np.full(shape, -np.inf, self.dtype), np.zeros(shape, np.int64)
    rows = np.arange(len(planes)).reshape(-1, *(1,) * dims)
    for offset in itertools.product(*map(range, kernel_size)):
        places = [
            (start + k).reshape(len(planes), *(start.shape[1] if d == axis else 1 for d in range(dims)))
            for axis, (start, k) in enumerate(zip(starts, offset, strict=True))
        ]
        found = planes[(rows, *places)]
        better = (found > result) | np.isnan(found)
        flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*places)), size)
        np.copyto(result, found, where=better)
        np.copyto(indices, np.broadcast_to(flat, shape), where=better)
    leading = self.shape[:-dims]
    return result.reshape(*leading, *output_size), indices.reshape(*leading, *output_size)


derivative(
    "_fractional_max_pool",
    self=lambda at, grads, indices, self, kernel_size: at._pool_scatter(
        grads[0], indices, self.shape, len(kernel_size)
    ),
)
opaque("_fractional_max_pool")
overloads("_fractional_max_pool", lambda given: f"FractionalMaxPool{len(given['kernel_size'])}DBackward0")

# %% [markdown]
# ## Connectionist temporal classification
#
# The probability of a label sequence is the sum over all ways to stretch it to the length of the input, with blanks between. With
# blanks inserted, `z = (∅, l₁, ∅, l₂, …, ∅)`, the sum over paths is a recursion over time (Graves et al. 2006):
#
# `α[t, s] = p[t, z_s] (α[t-1, s] + α[t-1, s-1] + α[t-1, s-2])`, the last term only where `z_s` is no blank and differs from `z_{s-2}`.
#
# `β` is the same from the end. In logarithms throughout. The gradient with respect to the log-probabilities is the one that upstream
# returns: it takes for granted that they come from a log-softmax, and includes that one's normalization.

# %%
#| into: aten/native/loss_ctc.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register, unknown
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.loss_nll import MEAN, SUM
from readtorch.c10.core.scalar_type import not_implemented, to_string


# %%
#| into: aten/native/loss_ctc.py
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


# %%
#| into: aten/native/loss_ctc.py
#| upstream: aten/src/ATen/native/LossCTC.cpp#at::native::ctc_loss_cpu
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


# %%
#| into: aten/native/loss_ctc.py
#| upstream: aten/src/ATen/native/LossCTC.cpp#at::native::ctc_loss_backward_cpu
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


# %%
#| into: aten/native/loss_ctc.py
@register("_finite", variants="", node="Where")
def _finite(self: Array) -> Array:
    return np.where(np.isinf(self), self.dtype.type(0), self)


derivative("_finite", self=lambda at, grad: grad)


@register("_target_lengths", variants="")
def _target_lengths(like: Array, lengths: Sequence[int]) -> Array:
    return np.maximum(np.asarray(lengths, like.dtype), 1)


# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import affine_grid_generator as affine_grid_generator
from readtorch.aten.native import fractional_max_pool2d as fractional_max_pool2d
from readtorch.aten.native import grid_sampler as grid_sampler
from readtorch.aten.native import loss_ctc as loss_ctc


# %%
#| claim: an identity grid samples the image itself
#| needs: a2_layers
def _(torch):
    F = torch.nn.functional
    x = torch.arange(12.0).reshape(1, 1, 3, 4)
    theta = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    for corners in (True, False):
        grid = F.affine_grid(theta, [1, 1, 3, 4], align_corners=corners)
        assert torch.allclose(F.grid_sample(x, grid, align_corners=corners), x, atol=1e-5)


# %%
#| claim: the CTC loss of a single label over two steps sums three paths
#| needs: a2_layers
def _(torch):
    p = torch.tensor([[0.6, 0.4], [0.3, 0.7]])
    loss = torch.nn.functional.ctc_loss(p.log(), torch.tensor([1]), (2,), (1,), reduction="sum")
    assert torch.allclose(loss.exp().reciprocal(), torch.tensor(0.4 * 0.7 + 0.6 * 0.7 + 0.4 * 0.3))
