"""Axes that are too long for one matrix of weights, resized beside PyTorch 2.13.0: sound, and images of few columns."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import readtorch

torch = pytest.importorskip("torch", reason="needs the extra `parity`")
pytestmark = pytest.mark.torch

SOUND: list[tuple[int, dict[str, Any]]] = [
    (20000, {"scale_factor": 2.0, "mode": "linear"}),
    (20000, {"scale_factor": 2.0, "mode": "linear", "align_corners": True}),
    (20000, {"scale_factor": 0.37, "mode": "linear"}),
    (20000, {"size": 31, "mode": "linear"}),
    (7, {"size": 90000, "mode": "linear"}),
    (3000, {"size": 4001, "mode": "nearest"}),
    (3000, {"size": 4001, "mode": "nearest-exact"}),
]
IMAGES: list[tuple[int, dict[str, Any]]] = [
    (3000, {"size": (1700, 60), "mode": "bicubic"}),
    (3000, {"size": (1700, 60), "mode": "bicubic", "antialias": True}),
    (1500, {"size": (4000, 60), "mode": "bilinear", "antialias": True}),
]


def resized(library: Any, values: np.ndarray, options: dict[str, Any]) -> list[np.ndarray]:
    """The result, and the gradient of its sum with weights."""
    x = library.from_numpy(values.copy()).requires_grad_()
    y = library.nn.functional.interpolate(x, **options)
    weights = library.from_numpy(np.cos(np.arange(y.numel())).reshape(tuple(y.shape)))
    return [y.detach().numpy(), library.autograd.grad(y, x, weights)[0].numpy()]


@pytest.mark.parametrize(("length", "options"), [*SOUND, *IMAGES])
def test_values_and_gradients_are_upstreams(length: int, options: dict[str, Any]) -> None:
    shape = (1, 2, length, 40) if (length, options) in IMAGES else (2, 3, length)
    values = np.random.default_rng(0).standard_normal(shape)
    for ours, theirs in zip(*(resized(library, values, options) for library in (readtorch, torch)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_what_is_no_number_stays_where_it_is() -> None:
    values = np.random.default_rng(0).standard_normal((1, 1, 3000))
    values[0, 0, [0, 500, 2999]] = np.nan, np.inf, -np.inf
    ours, theirs = (
        library.nn.functional.interpolate(library.from_numpy(values), size=4001, mode="linear").numpy()
        for library in (readtorch, torch)
    )
    np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@pytest.mark.cpu("memory of NumPy's")
def test_a_second_of_sound_takes_memory_like_sound() -> None:
    sound = readtorch.rand(1, 1, 44100)
    tracemalloc.start()
    try:
        readtorch.nn.functional.interpolate(sound, size=48000, mode="linear")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 128 << 20  # one matrix would have 16 GB
