# Tangled from chapters/a3_kernels/7_columns_and_embedding.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import FLOATING, Kernel, accumulator, array_module, cpp_type

_FILE = "aten/native/cuda/embedding_backward_kernel.cu"
_PIECES = Kernel(_FILE, "embedding_backward_pieces", FLOATING)
_JOIN = Kernel(_FILE, "embedding_backward_join", FLOATING)

PIECE = 64
"""Sorted indices of a block; the kernels' constant of that name."""


def embedding_dense_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    """The table's gradient: rows of `grad_output` added up by index, in one order. NotImplemented for other than floating dtypes."""
    kind = cpp_type(grad_output)
    if kind is None:
        return NotImplemented
    xp, acc = array_module(grad_output), accumulator(grad_output)
    columns = grad_output.shape[-1]
    dw = xp.zeros((num_weights, columns), grad_output.dtype)
    flat = indices.reshape(-1).astype(np.int64, copy=False)
    if not flat.size or not columns:
        return dw
    order = xp.argsort(flat, kind="stable")
    sorted_indices = flat[order]
    dy = xp.ascontiguousarray(grad_output)
    pieces = -(-flat.size // PIECE)
    head, tail = xp.empty((2, pieces, columns), acc)
    grid = (pieces, -(-columns // 128))
    numbers = (int(padding_idx), int(scale_grad_by_freq), flat.size, columns)
    _PIECES[kind](grid, 128, dy, sorted_indices, order, dw, head, tail, *numbers)
    _JOIN[kind](grid, 128, sorted_indices, dw, head, tail, *numbers)
    return dw
