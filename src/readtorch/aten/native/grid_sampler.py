# Tangled from chapters/a1_operators/nn_a_sampling_and_alignment.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import not_implemented, to_string

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
