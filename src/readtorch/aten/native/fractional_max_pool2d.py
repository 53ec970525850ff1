# Tangled from chapters/a1_operators/nn_a_sampling_and_alignment.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, opaque, overloads, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import not_implemented


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
