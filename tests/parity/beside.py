"""Run one function of a `torch`-like module on both libraries and compare values, gradients and second gradients.

A case is a line of a table: a name, a function of the library and its tensors, and what the tensors are. Numbers are drawn
once, by NumPy, from a seed that the case's name gives, and both libraries get copies of them.
"""

from __future__ import annotations

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
    """`call(torch, *tensors)`. `second` is False where upstream has no second derivative or it is zero; `why` says what keeps

    a line from half precision or from other memory layouts.
    """

    name: str
    call: Function
    inputs: tuple[Any, ...] = field(default=())
    second: bool = True
    grad: bool = True
    half: bool = True
    strided: bool = True
    tolerance: float = 1.0
    why: str = "not compared yet"


def case(name: str, call: Function, *inputs: Any, **flags: Any) -> Case:
    """A line of a table; a bare shape stands for normal numbers."""
    return Case(name, call, tuple(Floats(i) if isinstance(i, tuple) else i for i in inputs), **flags)


def _arrays(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    return [spec.draw(rng) for spec in case.inputs]


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
    "contiguous": lambda array: array,
    "gaps": _stretched,
    "reversed": _turned,
}


class Run:
    """One library's side of a comparison."""

    def __init__(self, torch: Any, arrays: list[np.ndarray], dtype: str, layout: str, grad: bool) -> None:
        self.torch = torch
        self.tensors = []
        for array in arrays:
            floating = array.dtype.kind == "f"
            tensor = torch.from_numpy(LAYOUTS[layout](array.copy()))
            if floating and dtype != "float64":
                strides = LAYOUTS[layout](array.astype(np.float32))
                tensor = torch.from_numpy(strides)
                if dtype != "float32":
                    tensor = tensor.to(getattr(torch, dtype))
            self.tensors.append(tensor.requires_grad_() if floating and grad else tensor)

    @property
    def wanted(self) -> list[Any]:
        return [tensor for tensor in self.tensors if tensor.requires_grad]

    def outputs(self, call: Function) -> list[Any]:
        result = call(self.torch, *self.tensors)
        found = list(result) if isinstance(result, tuple | list) else [result]
        return [tensor for tensor in found if tensor is not None]

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


def _plain(tensor: Any) -> np.ndarray:
    tensor = tensor.detach()
    wide = tensor if tensor.dtype.itemsize > 2 else tensor.to(_library(tensor).float32)
    return np.asarray(wide.numpy() if isinstance(wide, readtorch.Tensor) else wide.numpy(force=True))


def _library(tensor: Any) -> Any:
    import torch

    return torch if isinstance(tensor, torch.Tensor) else readtorch


_TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


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


def compare(case: Case, dtype: str = "float64", layout: str = "contiguous", second: bool = False) -> None:
    """Assert that both libraries give the same outputs, gradients, and, with `second`, gradients of gradients."""
    import torch

    arrays = _arrays(case)
    sides = [Run(library, arrays, dtype, layout, case.grad) for library in (readtorch, torch)]
    outputs = [side.outputs(case.call) for side in sides]
    _compare(*outputs, dtype, case.tolerance, "output")
    if not case.grad:
        return
    losses = [side.loss(found, 1) for side, found in zip(sides, outputs, strict=True)]
    grads = [
        side.torch.autograd.grad(loss, side.wanted, create_graph=second, allow_unused=True)
        for side, loss in zip(sides, losses, strict=True)
    ]
    _compare(*[list(found) for found in grads], dtype, case.tolerance * 4, "gradient")
    if not second:
        return
    again = [side.loss([g for g in found if g is not None], 2) for side, found in zip(sides, grads, strict=True)]
    seconds = [_second(loss, side) for side, loss in zip(sides, again, strict=True)]
    _compare(*seconds, dtype, case.tolerance * 20, "second gradient")


def _second(loss: Any, side: Run) -> list[Any]:
    """The gradients of a sum of gradients. One that is missing and one that is zero mean the same: no dependence."""
    grads = [None] * len(side.wanted)
    if loss is not None:
        grads = side.torch.autograd.grad(loss, side.wanted, allow_unused=True)
    pairs = zip(grads, side.wanted, strict=True)
    return [side.torch.zeros_like(tensor) if grad is None else grad for grad, tensor in pairs]
