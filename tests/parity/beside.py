"""Run one function of a `torch`-like module on both libraries and compare values, gradients and second gradients.

A case is a line of a table: a name, a function of the library and its tensors, and what the tensors are. Numbers are drawn
once, by NumPy, from a seed that the case's name gives, and both libraries get copies of them.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import readtorch

Function = Callable[..., Any]


@dataclass(frozen=True)
class Floats:
    """Normal numbers; with bounds, uniform ones between them."""

    shape: tuple[int, ...]
    low: float | None = None
    high: float = 1.0

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        if self.low is None:
            return rng.standard_normal(self.shape)
        return rng.uniform(self.low, self.high, self.shape)


@dataclass(frozen=True)
class Apart:
    """Numbers that differ from each other by at least 0.1, in random order: maxima are then unique."""

    shape: tuple[int, ...]

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        count = int(np.prod(self.shape))
        return (rng.permutation(count) / 10.0 - count / 20.0 + 0.03).reshape(self.shape)


@dataclass(frozen=True)
class Ints:
    """Integers from `low` below `high`."""

    high: int
    shape: tuple[int, ...]
    low: int = 0

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(self.low, self.high, self.shape)


@dataclass(frozen=True)
class Fixed:
    """These numbers."""

    values: Any

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(self.values)


@dataclass(frozen=True)
class Case:
    """`call(torch, *tensors)`, or a module that `build(torch)` makes; `tolerance` is a factor."""

    name: str
    call: Function
    inputs: tuple[Any, ...] = field(default=())
    grad: bool = True
    tolerance: float = 1.0
    build: Function | None = None


def case(name: str, call: Function, *inputs: Any, **flags: Any) -> Case:
    """A line of a table; a bare shape stands for normal numbers."""
    return Case(name, call, tuple(Floats(i) if isinstance(i, tuple) else i for i in inputs), **flags)


def _arrays(case: Case, dtype: str, layout: str) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    arrays = [_shaped(spec.draw(rng), layout) for spec in case.inputs]
    if layout == "empty" and arrays and arrays[0].ndim:
        rows = arrays[0].shape[0]
        arrays = [array[:0] if array.ndim and array.shape[0] == rows else array for array in arrays]
    if dtype == "int64":
        arrays = [np.rint(array * 3).astype(np.int64) if array.dtype.kind == "f" else array for array in arrays]
    return arrays


def _shaped(array: np.ndarray, layout: str) -> np.ndarray:
    if layout == "scalar":
        return array.reshape(-1)[0]
    return np.broadcast_to(array[:1], array.shape) if layout == "broadcast" and array.ndim else array


def _stretched(array: np.ndarray) -> np.ndarray:
    """The same numbers with gaps between them in memory."""
    if not array.ndim:
        return array
    held = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
    held[..., ::2] = array
    return held[..., ::2]


def _turned(array: np.ndarray) -> np.ndarray:
    """The same numbers with dimensions in reverse order in memory."""
    return np.asfortranarray(array) if array.ndim > 1 else array


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": np.copy,
    "gaps": _stretched,
    "reversed": _turned,
    "broadcast": lambda array: np.broadcast_to(array[:1].copy(), array.shape) if array.ndim else array,
    "scalar": np.copy,
    "empty": np.copy,
}
"""How an input lies in memory; `scalar` and `empty` are shapes: one number, and no rows."""


class Run:
    """One library's side of a comparison."""

    def __init__(self, torch: Any, arrays: list[np.ndarray], dtype: str, layout: str, grad: bool) -> None:
        self.torch = torch
        self.module: Any = None
        self.tensors = []
        for array in arrays:
            floating = array.dtype.kind == "f"
            wide = array.astype(np.float32) if floating and dtype != "float64" else array
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of an array that may not be written
                tensor = torch.from_numpy(LAYOUTS[layout](wide))
            if floating and dtype in ("float16", "bfloat16"):
                tensor = tensor.to(getattr(torch, dtype))
            self.tensors.append(tensor.requires_grad_() if floating and grad else tensor)

    @property
    def wanted(self) -> list[Any]:
        parameters = list(self.module.parameters()) if self.module is not None else []
        return [tensor for tensor in (*self.tensors, *parameters) if tensor.requires_grad]

    def outputs(self, call: Function) -> list[Any]:
        self.torch.manual_seed(11)
        if self.module is None:
            return _leaves(call(self.torch, *self.tensors))
        return [*_leaves(self.module(*self.tensors)), *self.module.buffers()]

    def gradients(self, loss: Any, create_graph: bool) -> Any:
        return self.torch.autograd.grad(loss, self.wanted, create_graph=create_graph, allow_unused=True)

    def loss(self, tensors: list[Any], seed: int) -> Any:
        """A weighted sum with weights that both libraries get alike."""
        rng = np.random.default_rng(seed)
        total = None
        for tensor in tensors:
            weights = self.torch.from_numpy(np.asarray(rng.standard_normal(tuple(tensor.shape))))
            if tensor.requires_grad:
                part = (tensor * weights.to(tensor.dtype)).sum()
                total = part if total is None else total + part
        return total


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [] if value is None else [value]


def _modules(case: Case, dtype: str, sides: list[Run]) -> None:
    """The case's module on both sides, with upstream's weights."""
    if case.build is None:
        return
    for side in reversed(sides):
        side.torch.manual_seed(7)
        side.module = case.build(side.torch)
    ours, theirs = (side.module for side in sides)
    ours.load_state_dict({key: readtorch.from_numpy(value.numpy()) for key, value in theirs.state_dict().items()})
    if dtype in ("float64", "float16", "bfloat16"):
        for side in sides:
            side.module = side.module.to(getattr(side.torch, dtype))


def _plain(tensor: Any) -> np.ndarray:
    tensor = tensor.detach()
    wide = tensor if tensor.dtype.itemsize > 2 else tensor.to(_library(tensor).float32)
    return np.asarray(wide.numpy() if isinstance(wide, readtorch.Tensor) else wide.numpy(force=True))


def _library(tensor: Any) -> Any:
    import torch

    return torch if isinstance(tensor, torch.Tensor) else readtorch


_TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2, "int64": 1e-5}


def _compare(ours: list[Any], theirs: list[Any], dtype: str, factor: float, what: str) -> None:
    assert len(ours) == len(theirs), f"{what}: {len(ours)} tensors against {len(theirs)}"
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        where = f"{what} {number}"
        assert (a is None) == (b is None), f"{where}: {'none' if a is None else 'one'} here"
        if a is None:
            continue
        assert tuple(a.shape) == tuple(b.shape), f"{where}: shape {tuple(a.shape)}, upstream {tuple(b.shape)}"
        assert str(a.dtype) == str(b.dtype), f"{where}: dtype {a.dtype}, upstream {b.dtype}"
        close = _TOLERANCE[dtype] * factor
        x, y = _plain(a), _plain(b)
        scale = max(1.0, float(np.abs(y[np.isfinite(y)]).max())) if np.isfinite(y).any() else 1.0
        np.testing.assert_allclose(x, y, rtol=close, atol=close * scale, err_msg=where)


def compare(case: Case, dtype: str = "float64", layout: str = "contiguous") -> None:
    """Assert that both libraries give the same outputs and gradients, in float64 also gradients of gradients, or the same error."""
    import torch

    arrays = _arrays(case, dtype, layout)
    sides = [Run(library, arrays, dtype, layout, case.grad) for library in (readtorch, torch)]
    _modules(case, dtype, sides)
    outputs = _both("forward", lambda side: side.outputs(case.call), sides)
    if outputs is None:
        return
    factor = case.tolerance
    _compare(*outputs, dtype, factor, "output")
    losses = [side.loss(found, 1) for side, found in zip(sides, outputs, strict=True)]
    assert (losses[0] is None) == (losses[1] is None), "one library has a gradient"
    if losses[1] is None:
        return
    twice = dtype == "float64"
    grads = _both("backward", lambda side: side.gradients(losses[sides.index(side)], twice), sides)
    if grads is None:
        return
    _compare(*[list(found) for found in grads], dtype, factor * 4, "gradient")
    if not twice:
        return
    again = [side.loss([g for g in found if g is not None], 2) for side, found in zip(sides, grads, strict=True)]
    seconds = _both("double backward", lambda side: _second(again[sides.index(side)], side), sides)
    if seconds is not None:
        _compare(*seconds, dtype, factor * 20, "second gradient")


def _both(what: str, step: Callable[[Run], Any], sides: list[Run]) -> list[Any] | None:
    """The step's results on both sides; None where both refuse it with one type of error. A second derivative may be ours alone."""
    results, errors = [], []
    for side in sides:
        try:
            results.append(step(side))
            errors.append(None)
        except Exception as error:
            results.append(None)
            errors.append(error)
    ours, theirs = errors
    if theirs is None and ours is not None:
        raise AssertionError(f"{what}: {type(ours).__name__}: {ours}") from ours
    if theirs is not None and what == "double backward":
        return None
    if theirs is not None:
        assert ours is not None, f"{what}: upstream raises {type(theirs).__name__}: {theirs}"
        assert type(ours).__name__ == type(theirs).__name__, f"{what}: {ours!r}, upstream {theirs!r}"
        return None
    return results


def _second(loss: Any, side: Run) -> list[Any]:
    """The gradients of a sum of gradients. One that is missing and one that is zero mean the same: no dependence."""
    grads = [None] * len(side.wanted)
    if loss is not None:
        grads = side.torch.autograd.grad(loss, side.wanted, allow_unused=True)
    pairs = zip(grads, side.wanted, strict=True)
    return [side.torch.zeros_like(tensor) if grad is None else grad for grad, tensor in pairs]
