# Tangled from chapters/00_tensor/12_autograd.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch import _C
from readtorch._tensor import Tensor


class VariableMeta(type):
    """Every tensor is an instance of `Variable`."""

    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class _Engine:
    """The engine's face: what DDP reaches for."""

    queue_callback = staticmethod(_C._queue_callback)


class Variable(metaclass=VariableMeta):
    """The wrapper of the early days. `Variable(x, requires_grad=True)` gives a tensor that shares the data of `x`."""

    _execution_engine = _Engine()

    def __new__(cls, data: Any = None, requires_grad: bool | None = None, volatile: Any = None) -> Any:
        result = (
            Tensor()
            if data is None
            else data.detach()
            if requires_grad is not None or data.is_leaf
            else data.view_as(data)
        )
        keep = data is not None and data.requires_grad if requires_grad is None else requires_grad
        if result.is_leaf:
            result.requires_grad_(keep)
        return result
