# Tangled from chapters/02_module/3_call_and_hooks.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch._tensor import Tensor
from readtorch.autograd.function import Function


class BackwardHookFunction(Function):
    """The identity, for its node's sake: `apply(*tensors)` gives the same tensors, all of them behind one node."""

    @staticmethod
    def forward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*[tensor for tensor in args if not tensor.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:
        return args
