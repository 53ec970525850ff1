# Tangled from chapters/02_module/1_registration.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from readtorch._tensor import Tensor
    from readtorch.nn.parameter import Parameter


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: OrderedDict[int, Any]) -> Parameter:
    from readtorch.nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: OrderedDict[int, Any], state: dict[str, Any]
) -> Parameter:
    parameter = _rebuild_parameter(data, requires_grad, backward_hooks)
    for name, value in state.items():
        setattr(parameter, name, value)
    return parameter
