# Tangled from chapters/01_import/, chapters/a3_kernels/ — edit there, or here and run `readtorch sync`.
"""Functions of the operator library that are others on the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten import parallel, tensor_iterator
from readtorch.aten.cuda.cuda_generator_impl import default_generator
from readtorch.aten.cuda.instantiate import Maker, specialise
from readtorch.aten.native import (
    average_pool2d,
    batch_linear_algebra,
    binary_ops,
    convolution,
    dropout,
    loss_nll,
    pooling,
    tensor_shape,
)
from readtorch.c10.cuda.cuda_functions import current_device


@specialise(tensor_iterator.cast)
def _cast(maker: Maker) -> Callable[..., Any]:
    def cast(operand: Any, wanted: np.dtype) -> Any:
        """An operand in the common type; a number as a scalar of the host, which goes with the launch."""
        if hasattr(operand, "dtype"):
            return operand if operand.dtype == wanted else operand.astype(wanted)
        value = tensor_iterator.cast(operand, wanted)
        return maker.library.asarray(value) if wanted.kind == "V" else value[()]

    return cast


@specialise(batch_linear_algebra._eliminate)
def _eliminate(maker: Maker) -> Callable[..., Any]:
    def eliminate(A: Any) -> Any:
        """On the host: a row is exchanged for every column, and each time the host would have to wait for its number."""
        return tuple(maker.library.asarray(found) for found in batch_linear_algebra._eliminate(A.get()))

    return eliminate


@specialise(loss_nll.check_targets)
def _check_targets(maker: Maker) -> Callable[..., Any]:
    return lambda classes, count: (
        None
    )  # to look at them the host would have to wait; upstream's kernel stops the device


@specialise(binary_ops._power)
def _power(maker: Maker) -> Callable[..., Any]:
    numpy, of_numbers = maker.numpy, maker.copied(binary_ops._power)

    def power(a: Any, b: Any) -> Any:
        """By a number of the host as there. An exponent on the device is not looked at: the host would have to wait."""
        if not isinstance(b, maker.library.ndarray):
            return of_numbers(a, b)
        if not hasattr(a, "dtype") or a.dtype.kind not in "iub":
            return numpy.power(a, b)
        negative = b < 0
        small = numpy.where(a == 1, 1, numpy.where(a == -1, numpy.where(b % 2 == 0, 1, -1), 0))
        return numpy.where(negative, small, numpy.power(a, numpy.where(negative, 0, b))).astype(a.dtype)

    return power


@specialise(pooling.may_hold_nan)
def _may_hold_nan(maker: Maker) -> Callable[..., Any]:
    return lambda y: True  # the same


@specialise(pooling.planes_in_block)
def _planes_in_block(maker: Maker) -> Callable[..., Any]:
    return lambda count, bytes_each: max(count, 1)  # there is no cache to stay in


@specialise(pooling.planes_innermost)
def _planes_innermost(maker: Maker) -> Callable[..., Any]:
    return lambda images: images


@specialise(average_pool2d._divisor)
def _divisor(maker: Maker) -> Callable[..., Any]:
    def divisor(*sizes: Any) -> Any:
        """Shapes decide it, so the host computes it."""
        found = average_pool2d._divisor(*sizes)
        return maker.library.asarray(found) if isinstance(found, np.ndarray) else found

    return divisor


@specialise(tensor_shape.strided_view)
def _strided_view(maker: Maker) -> Callable[..., Any]:
    def strided_view(array: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return maker.library.broadcast_to(array, shape)

    return strided_view


@specialise(convolution._buffer)
def _buffer(maker: Maker) -> Callable[..., Any]:
    def buffer(name: str, shape: Sequence[int], dtype: Any) -> Any:
        """Memory of the device's own pool, which keeps it between calls."""
        return maker.library.empty(tuple(shape), dtype)

    return buffer


@specialise(parallel.get_num_threads)
def _get_num_threads(maker: Maker) -> Callable[..., Any]:
    return lambda: 1  # the host's; the device has its own


@specialise(parallel.parallel_for)
def _parallel_for(maker: Maker) -> Callable[..., Any]:
    def parallel_for(begin: int, end: int, grain_size: int, function: Callable[[int, int], None]) -> None:
        """In the calling thread, whose device and stream are the current ones."""
        for start in range(begin, end, grain_size):
            function(start, min(start + grain_size, end))

    return parallel_for


@specialise(convolution.copy_transposed)
def _copy_transposed(maker: Maker) -> Callable[..., Any]:
    def copy_transposed(target: Any, source: Any) -> None:
        target[...] = source

    return copy_transposed


@specialise(dropout._kept)
def _kept(maker: Maker) -> Callable[..., Any]:
    def kept(self: Any, p: float, per_channel: bool) -> Any:
        """1 with probability `1 - p`, else 0: one draw per element of `self`, or one per example and channel."""
        if per_channel and self.ndim < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        shape = (*self.shape[:2], *(1,) * (self.ndim - 2)) if per_channel else self.shape
        words = default_generator(current_device()).random(math.prod(shape))
        return (uniform(words) < np.float32(1 - p)).astype(self.dtype).reshape(shape)

    return kept


def uniform(words: Any) -> Any:
    """32 bits to a float32 in (0, 1]: the middle of one of 2³² steps, as cuRAND's."""
    return words.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
