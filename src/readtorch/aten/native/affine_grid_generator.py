# Tangled from chapters/a1_operators/nn_a_sampling_and_alignment.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register
from readtorch.aten.core.dispatch.operator_entry import Array


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
