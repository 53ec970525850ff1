# Tangled from chapters/a2_layers/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from functools import partial
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn import init
from readtorch.nn.modules.lazy import LazyModuleMixin
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter, UninitializedParameter


class Identity(Module):
    """Returns its input; takes and ignores any arguments, so that it can stand in for any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """`y = x W^T + b` over the last dimension: `(*, in_features)` to `(*, out_features)`."""

    in_features: int
    out_features: int
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        empty = partial(torch.empty, device=device, dtype=dtype)
        self.weight = Parameter(empty((out_features, in_features)))
        self.register_parameter("bias", Parameter(empty(out_features)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Both parameters from U(-b, b), b = 1 / sqrt(in_features)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` that quantization passes over."""


class Bilinear(Module):
    """`y_k = x1^T A_k x2 + b_k`: `(*, in1_features)` and `(*, in2_features)` to `(*, out_features)`."""

    in1_features: int
    in2_features: int
    out_features: int
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        empty = partial(torch.empty, device=device, dtype=dtype)
        self.weight = Parameter(empty((out_features, in1_features, in2_features)))
        self.register_parameter("bias", Parameter(empty(out_features)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Both parameters from U(-b, b), b = 1 / sqrt(in1_features)."""
        if self.in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={self.in1_features})")
        bound = 1 / math.sqrt(self.weight.size(1))
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` whose `in_features` is the last size of the first input."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        found = input.shape[-1]
        if self.has_uninitialized_params():
            self.in_features = found
            shapes = (self.out_features, found), (self.out_features,)
            with torch.no_grad():
                for parameter, shape in zip((self.weight, self.bias), shapes, strict=True):
                    if isinstance(parameter, UninitializedParameter):
                        parameter.materialize(shape)
                self.reset_parameters()
        elif self.in_features == 0:
            # the parameters came from a checkpoint
            if found != (known := self.weight.shape[-1]):
                raise AssertionError(f"The in_features inferred from input: {found}; those of self.weight: {known}")
            self.in_features = found
