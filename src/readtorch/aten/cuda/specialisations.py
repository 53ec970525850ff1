# Tangled from chapters/01_import/d5_cuda_kernels.py — edit there, or here and run `readtorch sync`.
"""Functions of the operator library that are others on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten import tensor_iterator
from readtorch.aten.cuda.instantiate import Maker, specialise
from readtorch.aten.native import convolution, tensor_shape


@specialise(tensor_iterator.cast)
def _cast(maker: Maker) -> Callable[..., Any]:
    def cast(operand: Any, wanted: np.dtype) -> Any:
        """An operand in the common type; a number as a scalar of the host, which goes with the launch."""
        if hasattr(operand, "dtype"):
            return operand if operand.dtype == wanted else operand.astype(wanted)
        value = tensor_iterator.cast(operand, wanted)
        return maker.library.asarray(value) if wanted.kind == "V" else value[()]

    return cast


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


@specialise(convolution.copy_transposed)
def _copy_transposed(maker: Maker) -> Callable[..., Any]:
    def copy_transposed(target: Any, source: Any) -> None:
        target[...] = source

    return copy_transposed
