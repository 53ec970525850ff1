# Tangled from chapters/00_tensor/6_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, pointwise
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.tensor_iterator import Pointwise
from readtorch.c10.core import scalar_type
from readtorch.c10.core.scalar_type import dtype

Rule = Callable[..., Any]


def _operands(self: Array, other: Array) -> Array: ...


def _operands_alpha(self: Array, other: Array, *, alpha: float = 1) -> Array: ...


def binary(
    name: str,
    ufunc: Callable[..., Any],
    promote: str = "same",
    *,
    refuse: Callable[[dtype], str | None] | None = None,
    first: Rule | None = None,
    second: Rule | None = None,
    signature: Callable[..., Any] = _operands,
    **description: Any,
) -> None:
    """Register a pointwise operator of two operands; `first` and `second` are the derivatives by them."""
    pointwise(name, Pointwise(name, ufunc, promote, refuse), signature, **description)
    formulas = {key: rule for key, rule in (("self", first), ("other", second)) if rule is not None}
    if formulas:
        derivative(name, formulas)


binary(
    "add",
    np.add,
    first=lambda at, grad: grad,
    second=lambda at, grad: grad,
    signature=_operands_alpha,
)


def _no_bool_subtraction(common: dtype) -> str | None:
    if common is scalar_type.bool:
        return "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
    return None


def _subtract(a: Any, b: Any, out: Any = None) -> Any:
    return np.subtract(a, b, out=out)


binary("sub", np.subtract, first=lambda at, grad: grad, second=lambda at, grad: -grad, signature=_operands_alpha)

binary(
    "mul",
    np.multiply,
    first=lambda at, grad, other: grad * at.conj(other),
    second=lambda at, grad, self: grad * at.conj(self),
    autocast="widest",
)

binary(
    "_true_div",
    np.true_divide,
    "float",
    first=lambda at, grad, other: grad / at.conj(other),
    second=lambda at, grad, self, other: -grad * at.conj(self / other / other),
    variants="",
    node="Div",
    inplace=True,
)
