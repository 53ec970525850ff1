# Tangled from chapters/a1_operators/5d_sparse_math.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import operators, sparse_derivative, sparse_row
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.sparse_tensor_impl import coalesced
from readtorch.c10.core.dispatch_key import DispatchKey


def on_values(name: str, *operands: Any) -> np.ndarray:
    """The dense kernel of an operator."""
    return np.asarray(operators[name].kernels[DispatchKey.CPU](*operands))


def _keeps_zero(name: str) -> None:
    def kernel(self: Array) -> Array:
        self = coalesced(self)
        return self.with_values(on_values(name, self.values))

    kernel.__name__ = name
    sparse_row(name, coalesced_in_place=True)(kernel)


KEEP_ZERO = (
    *("abs", "asin", "asinh", "atan", "atanh", "ceil", "deg2rad", "erf", "erfinv", "expm1"),
    *("floor", "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p", "rad2deg", "relu", "sgn"),
    *("sign", "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)

for _name in KEEP_ZERO:
    if operators[_name].composite is None:
        _keeps_zero(_name)


@sparse_row("round", coalesced_in_place=True)
def round(self: Array, *, decimals: int = 0) -> Array:
    """To the nearest whole number."""
    self = coalesced(self)
    return self.with_values(np.asarray(operators["round"].kernels[DispatchKey.CPU](self.values, decimals=decimals)))


@sparse_row("nan_to_num")
def nan_to_num(self: Array, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Array:
    """Numbers in the place of what is none."""
    self = coalesced(self)
    return self.with_values(on_values("nan_to_num", self.values, nan, posinf, neginf))


def _linear(name: str) -> None:
    def kernel(self: Array) -> Array:
        return self.with_values(on_values(name, self.values))

    kernel.__name__ = name
    sparse_row(name)(kernel)


for _name in ("neg", "_conj_physical"):
    _linear(_name)


def no_way_back(name: str, operator: str) -> None:
    """The derivative of sparse `name` needs `operator`, which has no sparse kernel."""

    def refuse(at: Any, grad: Any) -> Any:
        raise NotImplementedError(f"Could not run 'aten::{operator}' with arguments from the 'SparseCPU' backend.")

    sparse_derivative(name, self=refuse)


no_way_back("tanh", "tanh_backward")
#: these two upstream has by hand
sparse_derivative("log1p", self=lambda at, grad, self: grad * (1 / (at._to_dense(self) + 1)))
sparse_derivative("relu", self=lambda at, grad, result: grad * at.sign(result))
