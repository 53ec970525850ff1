"""Hypothesis strategies shared by the tests: shapes, arrays in any layout, pairs that broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

# a shared machine is slow at times, which says nothing about the code
settings.register_profile("readtorch", deadline=None)
settings.load_profile("readtorch")

FLOATS = st.sampled_from([np.float32, np.float64])


def shapes(max_dims: int = 3, max_side: int = 4, min_dims: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes, empty dimensions and 0-d included."""
    return (
        hnp.array_shapes(min_dims=min_dims, max_dims=max_dims, min_side=0, max_side=max_side)
        if min_dims
        else st.one_of(st.just(()), hnp.array_shapes(min_dims=1, max_dims=max_dims, min_side=0, max_side=max_side))
    )


def numbers(low: float = -100, high: float = 100) -> st.SearchStrategy[float]:
    return st.floats(low, high, width=32, allow_subnormal=False)


@st.composite
def arrays(draw: Any, shape: Any = None, dtype: Any = np.float64, low: float = -100, high: float = 100) -> np.ndarray:
    """An array of floats, contiguous, transposed or strided."""
    wanted = draw(shapes()) if shape is None else shape
    base = draw(hnp.arrays(dtype, wanted, elements=numbers(low, high)))
    layout = draw(st.sampled_from(["contiguous", "transposed", "strided"]))
    if layout == "transposed" and base.ndim >= 2:
        return np.ascontiguousarray(base.T).T
    if layout == "strided" and base.ndim:
        wide = np.zeros((*base.shape[:-1], 2 * base.shape[-1]), base.dtype)
        wide[..., ::2] = base
        return wide[..., ::2]
    return base


@st.composite
def broadcastable(draw: Any, count: int = 2) -> tuple[np.ndarray, ...]:
    """Arrays whose shapes broadcast."""
    found = draw(hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=3, max_side=4, min_side=1))
    return tuple(draw(arrays(shape)) for shape in found.input_shapes)


@st.composite
def basic_index(draw: Any, shape: tuple[int, ...]) -> Any:
    """An index of ints, slices with positive step, None and Ellipsis."""
    return draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True).filter(_forward))


def _forward(index: Any) -> bool:
    items = index if isinstance(index, tuple) else (index,)
    return all(not isinstance(item, slice) or item.step is None or item.step > 0 for item in items)
