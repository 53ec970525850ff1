# Tangled from chapters/02_module/, chapters/03_norm.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.function import Function, once_differentiable


class BackwardHookFunction(Function):
    """The identity, for its node's sake: `apply(*tensors)` gives the same tensors, all of them behind one node."""

    @staticmethod
    def forward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*[tensor for tensor in args if not tensor.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *args: Tensor) -> tuple[Tensor, ...]:
        return args


def _forward_windows(channels: int, size: int, like: Tensor) -> Tensor:
    """Which channels (columns) each channel's sum takes in."""
    reach = int((size - 1) / 2 + 1)
    rows = [
        [j < c + reach and (j == 0 or j > c - reach or c <= reach) for j in range(channels)] for c in range(channels)
    ]
    return torch.tensor(rows, device=like.device).to(like.dtype)


def _backward_windows(channels: int, size: int, like: Tensor) -> Tensor:
    before = int(size - (size - 1) / 2)
    rows = [[c - before <= j < c - before + size for j in range(channels)] for c in range(channels)]
    return torch.tensor(rows, device=like.device).to(like.dtype)


class CrossMapLRN2d(Function):
    """`x / (k + alpha / size · Σ x²)^beta` over neighbouring channels of `(N, C, H, W)`."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        ctx.size, ctx.alpha, ctx.beta = size, alpha, beta
        windows = _forward_windows(input.size(1), size, input)
        ctx.scale = torch.einsum("cj,njhw->nchw", windows, input * input) * (alpha / size) + k
        output = ctx.scale.pow(-beta) * input
        ctx.save_for_backward(input, output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        input, output = ctx.saved_tensors
        windows = _backward_windows(input.size(1), ctx.size, input)
        share = torch.einsum("cj,njhw->nchw", windows, grad_output * output / ctx.scale)
        grad = ctx.scale.pow(-ctx.beta) * grad_output - 2 * ctx.alpha * ctx.beta / ctx.size * input * share
        return grad, None, None, None, None
