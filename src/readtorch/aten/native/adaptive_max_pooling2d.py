# Tangled from chapters/a1_operators/nn_2_pooling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, opaque, overloads, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array, Dims
from readtorch.aten.native.adaptive_average_pooling import adaptive_bounds, adaptive_output
from readtorch.aten.native.tensor_factories import in_suggested_format


@register("_windowed_max", variants="", outputs="result indices", differentiable_outputs=(0,), node="AdaptiveMaxPool2D")
def _windowed_max(self: Array, bounds: Sequence[Sequence[tuple[int, int]]]) -> tuple[Array, Array]:
    """Maxima, and where they were, of the windows that `bounds` gives per axis as (start, end)."""
    dims = len(bounds)
    leading, size = self.shape[:-dims], self.shape[-dims:]
    out = tuple(map(len, bounds))
    result: Array = np.empty((*leading, *out), self.dtype)
    indices: Array = np.empty((*leading, *out), np.int64)
    for place in itertools.product(*map(range, out)):
        spans = [bounds[axis][i] for axis, i in enumerate(place)]
        part = self[(..., *(slice(*span) for span in spans))]
        flat = part.reshape(*leading, math.prod(part.shape[len(leading) :]))
        winner = flat.argmax(-1)
        if flat.dtype.kind in "fV" and np.isnan(flat).any():  # the last NaN of a window wins
            nan = np.isnan(flat)
            winner = np.where(nan.any(-1), flat.shape[-1] - 1 - nan[..., ::-1].argmax(-1), winner)
        result[(..., *place)] = np.take_along_axis(flat, winner[..., None], -1)[..., 0]
        where = np.unravel_index(winner, part.shape[len(leading) :])
        indices[(..., *place)] = np.ravel_multi_index(
            tuple(w + span[0] for w, span in zip(where, spans, strict=True)), size
        )
    return result, indices


results_lie(in_suggested_format, "_windowed_max")
derivative(
    "_windowed_max",
    self=lambda at, grads, indices, self, bounds: at._pool_scatter(grads[0], indices, self.shape, len(bounds)),
)
opaque("_windowed_max")
overloads("_windowed_max", lambda given: f"AdaptiveMaxPool{max(len(given['bounds']), 2)}DBackward0")


def _adaptive_max(at: Any, op: str, self: Any, output_size: Any, dims: int) -> Any:
    size = adaptive_output(op, self, output_size, dims)
    return at._windowed_max(self, [adaptive_bounds(n, m) for n, m in zip(self.shape[-dims:], size, strict=True)])


@composite("adaptive_max_pool1d")
def adaptive_max_pool1d(at: Any, self: Array, output_size: Dims) -> Any:
    """Maxima over windows that divide the last dimension into `output_size` parts, and where they were."""
    return _adaptive_max(at, "adaptive_max_pool1d", self, output_size, 1)


@composite("adaptive_max_pool2d", module="nn")
def adaptive_max_pool2d(at: Any, self: Array, output_size: Dims) -> Any:
    """Maxima over windows that divide the last two dimensions into `output_size` parts, and where they were."""
    return _adaptive_max(at, "adaptive_max_pool2d", self, output_size, 2)


@composite("adaptive_max_pool3d", module="nn")
def adaptive_max_pool3d(at: Any, self: Array, output_size: Dims) -> Any:
    """Maxima over windows that divide the last three dimensions into `output_size` parts, and where they were."""
    return _adaptive_max(at, "adaptive_max_pool3d", self, output_size, 3)
