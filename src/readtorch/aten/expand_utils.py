# Tangled from chapters/00_tensor/05_before_the_kernels.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.op_math_type import in_working_precision


def infer_size(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The broadcast shape of two. RuntimeError names the first dimension, from the right, that does not fit."""
    rank = max(len(a), len(b))
    result = [1] * rank
    for dim in range(rank - 1, -1, -1):
        i, j = len(a) - rank + dim, len(b) - rank + dim
        left, right = (a[i] if i >= 0 else 1), (b[j] if j >= 0 else 1)
        if left != right and left != 1 and right != 1:
            raise RuntimeError(
                f"The size of tensor a ({left}) must match the size of tensor b ({right}) at non-singleton dimension {dim}"
            )
        result[dim] = right if left == 1 else left
    return tuple(result)


def is_expandable_to(shape: tuple[int, ...], desired: tuple[int, ...]) -> bool:
    """Does broadcasting stretch `shape` to `desired`?"""
    if len(shape) > len(desired):
        return False
    return all(size in (1, target) for size, target in zip(reversed(shape), reversed(desired), strict=False))


def sum_to(array: Any, shape: tuple[int, ...]) -> Any:
    """Sum `array` down to `shape`, which broadcasting would stretch to the array's."""
    lead = array.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(
        i + lead for i, size in enumerate(shape) if size == 1 and array.shape[i + lead] != 1
    )
    if axes:
        wide = in_working_precision(array)  # a sum of 16-bit elements is rounded at its end, or it would stop at 256
        summed = wide.sum(axis=axes, keepdims=True)
        array = summed if wide is array else summed.astype(array.dtype)
    return array.reshape(shape)
