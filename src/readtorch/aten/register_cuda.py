# Tangled from chapters/a3_kernels/8_the_cuda_column.py — edit there, or here and run `readtorch sync`.
"""The operators whose CUDA kernels are CUDA C++. Imported when a GPU is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.cuda.cuda_generator_impl import default_generator
from readtorch.aten.native.cuda import (
    activation_gelu_kernel,
    convolution_mm2d,
    dropout,
    embedding_backward_kernel,
    im2_col,
    layer_norm_kernel,
    loss,
    normalization,
    soft_max,
)
from readtorch.c10.core.dispatch_key import DispatchKey
from readtorch.c10.cuda.cuda_functions import current_device


def native_dropout(input: Array, p: float, train: bool | None) -> Any:
    """Draws from the current device's generator, whose offset moves on."""
    if train is False or not 0 <= p < 1 or not input.size:
        return NotImplemented
    generator = default_generator(current_device())
    result = dropout.native_dropout(input, p, generator.initial_seed, 4 * generator.offset)
    if result is not NotImplemented:
        generator.offset += 1
    return result


_KERNELS: tuple[Callable[..., Any], ...] = (
    normalization.native_batch_norm,
    normalization.native_batch_norm_backward,
    layer_norm_kernel.native_layer_norm,
    layer_norm_kernel.native_layer_norm_backward,
    soft_max._softmax,
    soft_max._log_softmax,
    soft_max._softmax_backward_data,
    soft_max._log_softmax_backward_data,
    loss.nll_loss_forward,
    loss.nll_loss_backward,
    loss._cross_entropy,
    loss._cross_entropy_backward,
    native_dropout,
    dropout.native_dropout_backward,
    activation_gelu_kernel.gelu,
    activation_gelu_kernel.gelu_backward,
    im2_col.im2col,
    im2_col.col2im,
    convolution_mm2d.convolution,
    convolution_mm2d._conv_input,
    convolution_mm2d._conv_weight,
    embedding_backward_kernel.embedding_dense_backward,
)
"""Each named as its operator."""

WITHOUT_LIBRARIES = frozenset(kernel.__name__ for kernel in _KERNELS) - {"convolution", "_conv_input", "_conv_weight"}
"""Operators that call no cuBLAS on a GPU, so that they can be part of a captured graph."""


def _or_else(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel`, and where it declines the one made from the CPU's."""
    general: dict[Any, Callable[..., Any]] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        result = kernel(*args, **kwargs)
        if result is not NotImplemented:
            return result
        maker = dispatcher.cuda.maker
        if maker not in general:
            general[maker] = maker.value(dispatcher.operators[name].kernels[DispatchKey.CPU])
        return general[maker](*args, **kwargs)

    return run


def register() -> None:
    """Enter the kernels into the CUDA column."""
    for kernel in _KERNELS:
        name = kernel.__name__
        dispatcher.register(name, key="CUDA")(_or_else(name, kernel))
