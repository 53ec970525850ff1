# Tangled from chapters/a1_operators/nn_6_linear_and_embedding.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.core.dispatch.operator_entry import Array


@composite("linear", module="nn")
def linear(at: Any, input: Array, weight: Array, bias: Array | None = None) -> Any:
    if bias is None:
        return at.matmul(input, at.t(weight))
    shape = tuple(input.shape)
    if len(shape) == 2:
        return at.addmm(bias, input, at.t(weight))
    if len(shape) == 3:
        return at.reshape(at.addmm(bias, at.reshape(input, (-1, shape[-1])), at.t(weight)), (*shape[:-1], -1))
    return at.matmul(input, at.t(weight)) + bias


@composite("bilinear")
def bilinear(at: Any, input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Any:
    """`y[k] = x1ᵀ W[k] x2 + b[k]` over the last dimensions."""
    out, in1, in2 = weight.shape
    _check_bilinear(input1, input2, weight, bias)
    left = at.matmul(input1, at.reshape(at.permute(weight, (1, 0, 2)), (in1, out * in2)))
    left = at.reshape(left, (*input1.shape[:-1], out, in2))
    y = at.sum(left * at.unsqueeze(input2, -2), -1)
    return y if bias is None else y + bias


def _check_bilinear(input1: Any, input2: Any, weight: Any, bias: Any) -> None:
    if len(input1.shape) != len(input2.shape):
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {len(input1.shape)} and {len(input2.shape)}"
        )
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError("bilinear(): input batch dimensions do not match")
    for number, (value, size) in enumerate(((input1, weight.shape[1]), (input2, weight.shape[2])), 1):
        if value.shape[-1] != size:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got {value.shape[-1]} but expected {size}"
            )
    if bias is not None and math.prod(bias.shape) != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {math.prod(bias.shape)} "
            f"but expected {weight.shape[0]}"
        )
