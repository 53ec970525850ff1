# Tangled from chapters/00_tensor/6_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, pointwise, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.tensor_iterator import Pointwise
from readtorch.c10.core import scalar_type
from readtorch.c10.core.scalar_type import dtype


def _operand(self: Array) -> Array: ...


def unary(
    name: str,
    ufunc: Callable[..., Any],
    promote: str = "float",
    formula: Callable[..., Any] | None = None,
    *,
    refuse: Callable[[dtype], str | None] | None = None,
    **description: Any,
) -> None:
    """Register a pointwise operator of one operand and its derivative."""
    pointwise(name, Pointwise(name, ufunc, promote, refuse), _operand, **description)
    if formula is not None:
        derivative(name, self=formula)


unary("exp", np.exp, formula=lambda at, grad, result: grad * at.conj(result), autocast="float32")


def _no_bool_negation(common: dtype) -> str | None:
    if common is scalar_type.bool:
        return "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
    return None


unary("neg", np.negative, "same", lambda at, grad: -grad)


@register("_conj_physical", key="CPU CUDA", variants="", node="Conj")
def _conj_physical(self: Array) -> Array:
    return np.conjugate(self)


derivative("_conj_physical", self=lambda at, grad: at.conj(grad))


@composite("conj", variants="function method")
def conj(at: Any, self: Any) -> Any:
    """The complex conjugate; a real tensor itself."""
    return at._conj_physical(self) if is_complex(self) else self


def is_complex(value: Any) -> bool:
    """Is this array, tensor or number complex?"""
    kind = getattr(value, "dtype", None)
    if kind is None:
        return isinstance(value, complex)
    return kind.kind == "c" if isinstance(kind, np.dtype) else kind.is_complex
