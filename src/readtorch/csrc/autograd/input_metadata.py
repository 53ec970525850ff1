# Tangled from chapters/00_tensor/04b_the_walk.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.expand_utils import is_expandable_to, sum_to
from readtorch.c10.core.device_guard import device_guard
from readtorch.csrc.autograd.node import Node


def fit_array(node: Node, index: int, grad: Any, target: Node, number: int) -> Any:
    """`grad` in the shape and dtype of output `number` of `target`."""
    if isinstance(grad, np.generic):
        grad = np.asarray(grad)
    shape, dtype = target._input_metadata_at(number)
    if grad.shape == shape and grad.dtype == dtype:
        return grad
    with device_guard(grad):
        if grad.shape != shape:
            if not is_expandable_to(shape, grad.shape):
                raise _invalid(node, index, f"got {list(grad.shape)} but expected shape compatible with {list(shape)}")
            grad = sum_to(grad, shape)
        if grad.dtype != dtype:
            grad = _real_or_not(grad, dtype).astype(dtype)
    return grad


def fit_tensor(node: Node, index: int, grad: Any, target: Node, number: int) -> Any:
    """The same for a tensor, through operators, so that the step can be differentiated."""
    shape, dtype = target._input_metadata_at(number)
    array = grad._array
    if array.shape != shape:
        if not is_expandable_to(shape, array.shape):
            raise _invalid(node, index, f"got {list(array.shape)} but expected shape compatible with {list(shape)}")
        grad = dispatcher.autograd.sum_to_size(grad, shape)
    if array.dtype != dtype:
        if array.dtype.kind == "c" and dtype.kind != "c":
            grad = dispatcher.autograd.real(grad)
        grad = dispatcher.autograd._to_copy(grad, dtype)
    return grad


def _real_or_not(grad: Any, dtype: Any) -> Any:
    return grad.real if grad.dtype.kind == "c" and dtype.kind != "c" else grad


def _invalid(node: Node, index: int, what: str) -> RuntimeError:
    return RuntimeError(f"Function {node.name()} returned an invalid gradient at index {index} - {what}")
