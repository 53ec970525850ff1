# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Layer normalization: a row is read once
#
# The statistics of layer normalization are of a row, and a row is short: some thousand numbers fit into the registers of the threads that read them. So the input is read once: **8 bytes per float32 element** forward (4 in, 4 out) and **12 backward** (input and gradient in, gradient out).

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## How many threads for a row?
#
# A thread keeps four vectors of 16 bytes: sixteen float32, thirty-two half-precision numbers. A row gets the smallest power of two of threads, from a warp up, whose registers hold it; at most 512. That is up to 8,192 float32 numbers a row. What lies beyond is read again for the second look, from the caches as a rule.
#
# Where one warp does, it needs no barrier, and four rows share a block: a block of 32 threads would leave half of a multiprocessor empty, which holds 64 warps but only 32 blocks. `threadIdx.y` is the row in the block then.
#
# In the sources a row of `width` numbers is `vectors` vectors; a thread's are `threadIdx.x`, `threadIdx.x + blockDim.x`, …, so that a warp reads contiguous memory. The loop over the vectors that are held has a fixed length and is unrolled: an array indexed by anything else would not be registers but memory.

# %%
#| into: aten/native/cuda/rows.cuh
ROWS = r"""
#include "aten/native/cuda/memory_access.cuh"
#include "aten/native/cuda/block_reduce.cuh"

// The vectors that a thread keeps in registers.
constexpr int HELD = 4;

// The merge over the threads of a row: a warp, or the block.
template <class Summary>
__device__ __forceinline__ Summary row_merge(Summary mine) {
    return blockDim.x == 32 ? warp_merge(mine) : block_merge(mine);
}

// Runs `body(number of the register vector, index of the row's vector)` for what a thread holds of a row.
#define FOR_EACH_HELD(k, i) \
    _Pragma("unroll") for (int k = 0, i = threadIdx.x; k < HELD; k++, i += blockDim.x) if (i < vectors)

// The vectors of a thread beyond those that it holds.
#define FOR_EACH_BEYOND(i) for (int i = threadIdx.x + HELD * blockDim.x; i < vectors; i += blockDim.x)
"""

# %% [markdown]
# ## Forward
#
# Welford's summary again, from registers. Mean and `1/√(σ²+ε)` are kept per row, for the gradient.

# %%
#| into: aten/native/cuda/layer_norm_kernel.cu
#| upstream: aten/src/ATen/native/cuda/layer_norm_kernel.cu#at::native::vectorized_layer_norm_kernel
FORWARD = r"""
#include "aten/native/cuda/rows.cuh"
#include "aten/native/shared_reduce_ops.cuh"
#include "aten/native/cuda/math.cuh"

template <class T, bool WIDE>
__global__ void __launch_bounds__(512) layer_norm_forward(
    const T* x, T* y, const acc_t<T>* weight, const acc_t<T>* bias, acc_t<T>* means, acc_t<T>* rstds, double eps, long long rows,
    long long width) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    long long row = blockIdx.x * (long long)blockDim.y + threadIdx.y;
    if (row >= rows) return;  // a whole warp, and only where rows are warps
    int vectors = int(width / N);
    const T* from = x + row * width;
    T* to = y + row * width;
    A held[HELD][N];
    WelfordVec<A, N> seen;
    seen.clear();
    FOR_EACH_HELD(k, i) {
        load<N>(from + i * N, held[k]);
        seen.add(held[k]);
    }
    FOR_EACH_BEYOND(i) {
        A values[N];
        load<N>(from + i * N, values);
        seen.add(values);
    }
    Welford<A> all = row_merge(seen.merged());
    A mean = all.mean, rstd = inverse_root(all.m2 / all.count + A(eps));
    if (threadIdx.x == 0) {
        means[row] = mean;
        rstds[row] = rstd;
    }
    auto write = [&](int i, A(&values)[N]) {
#pragma unroll
        for (int k = 0; k < N; k++) values[k] = (values[k] - mean) * rstd;
        if (weight) {
            A w[N];
            load<N>(weight + i * N, w);
#pragma unroll
            for (int k = 0; k < N; k++) values[k] *= w[k];
        }
        if (bias) {
            A b[N];
            load<N>(bias + i * N, b);
#pragma unroll
            for (int k = 0; k < N; k++) values[k] += b[k];
        }
        store<N>(to + i * N, values);
    };
    FOR_EACH_HELD(k, i) write(i, held[k]);
    FOR_EACH_BEYOND(i) {
        A values[N];
        load<N>(from + i * N, values);
        write(i, values);
    }
}
"""

# %% [markdown]
# ## Backward: rows and columns in one pass
#
# The gradient of a row needs two sums over the row, `Σ g w` and `Σ g w x̂`; the gradients of weight and bias are sums over *columns*, `Σ g x̂` and `Σ g`. Upstream has a kernel for each, and reads input and gradient twice: 20 bytes per element. But a thread meets the same columns in every row. So a block takes one row after another, and each thread
# adds up *its* columns in registers: the sums over columns cost no memory until the end, when each block writes its own, and a small second kernel adds up those.
#
# Registers are what this costs: of the four kept arrays (`x̂`, `g`, and two sums), each thread holds sixteen numbers, 64 registers. Vectors are 8 bytes of half precision here, for with 16 they would be 128. Columns beyond the held ones are added up in the block's own part of memory, by the one thread that looks after them.

# %%
#| into: aten/native/cuda/layer_norm_kernel.cu
#| upstream: aten/src/ATen/native/cuda/layer_norm_kernel.cu#at::native::layer_norm_grad_input_kernel_vectorized
BACKWARD = r"""
// Four numbers of any type, where the forward pass takes 16 bytes.
template <bool WIDE>
constexpr int four = WIDE ? 4 : 1;

// partial: sums over columns of (dy * normal) and of dy, of each row slot of the grid: (slots, 2, width), zero where a column
// is not held.
template <class T, bool WIDE>
__global__ void __launch_bounds__(512) layer_norm_backward(
    const T* dy, const T* x, T* dx, const acc_t<T>* weight, const acc_t<T>* means, const acc_t<T>* rstds, acc_t<T>* partial,
    long long rows, long long width) {
    constexpr int N = four<WIDE>;
    using A = acc_t<T>;
    int vectors = int(width / N);
    long long slot = blockIdx.x * (long long)blockDim.y + threadIdx.y, slots = gridDim.x * (long long)blockDim.y;
    A* own = partial + slot * 2 * width;
    A dw[HELD][N], db[HELD][N];
#pragma unroll
    for (int k = 0; k < HELD; k++)
#pragma unroll
        for (int j = 0; j < N; j++) dw[k][j] = db[k][j] = 0;
    for (long long row = slot; row < rows; row += slots) {
        long long start = row * width;
        A mean = means[row], rstd = rstds[row];
        A normal[HELD][N], g[HELD][N];
        Sums<A> sums = Sums<A>::none();
        FOR_EACH_HELD(k, i) {
            load<N>(x + start + i * N, normal[k]);
            load<N>(dy + start + i * N, g[k]);
            A w[N];
            if (weight) load<N>(weight + i * N, w);
#pragma unroll
            for (int j = 0; j < N; j++) {
                normal[k][j] = (normal[k][j] - mean) * rstd;
                dw[k][j] += g[k][j] * normal[k][j];
                db[k][j] += g[k][j];
                if (weight) g[k][j] *= w[j];
                sums.merge({g[k][j], g[k][j] * normal[k][j]});
            }
        }
        FOR_EACH_BEYOND(i)
        for (int at = i * N; at < i * N + N; at++) {
            A one = (widen(x[start + at]) - mean) * rstd, gradient = widen(dy[start + at]);
            own[at] += gradient * one;
            own[width + at] += gradient;
            if (weight) gradient *= weight[at];
            sums.merge({gradient, gradient * one});
        }
        sums = row_merge(sums);
        A level = sums.one / A(width), slope = sums.other / A(width);
        FOR_EACH_HELD(k, i) {
#pragma unroll
            for (int j = 0; j < N; j++) g[k][j] = (g[k][j] - level - normal[k][j] * slope) * rstd;
            store<N>(dx + start + i * N, g[k]);
        }
        FOR_EACH_BEYOND(i)
        for (int at = i * N; at < i * N + N; at++) {
            A one = (widen(x[start + at]) - mean) * rstd, gradient = widen(dy[start + at]);
            if (weight) gradient *= weight[at];
            dx[start + at] = narrowed<T>((gradient - level - one * slope) * rstd);
        }
    }
    FOR_EACH_HELD(k, i) {
        store<N>(own + i * N, dw[k]);
        store<N>(own + width + i * N, db[k]);
    }
}
"""

# %%
#| into: aten/native/cuda/layer_norm_kernel.cu
#| upstream: aten/src/ATen/native/cuda/layer_norm_kernel.cu#at::native::GammaBetaBackwardCUDAKernelTemplate
SUM_SLOTS = r"""
// sums[column] of partial (slots, columns): a block takes 32 columns, its eight warps every eighth slot.
template <class A>
__global__ void __launch_bounds__(256) layer_norm_sum_slots(const A* partial, A* sums, long long slots, long long columns) {
    __shared__ A parts[8][32];
    long long column = blockIdx.x * 32LL + threadIdx.x;
    A sum = 0;
    if (column < columns)
        for (long long slot = threadIdx.y; slot < slots; slot += 8) sum += partial[slot * columns + column];
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < columns) {
        for (int row = 1; row < 8; row++) sum += parts[row][threadIdx.x];
        sums[column] = sum;
    }
}
"""

# %% [markdown]
# ## Launching
#
# `row_block` chooses the threads of a row for every kernel that keeps rows in registers, softmax included. Backward, the grid is not the rows but the slots, each with a row of its own under way: 512 threads per multiprocessor, which with eight loads of 16 bytes each have 64 KB on the way.

# %%
#| into: aten/native/cuda/rows.py
"""Threads for rows that are held in registers."""

# %%
#| into: aten/native/cuda/rows.py
HELD = 4
"""Vectors that a thread keeps; the kernels' constant of that name."""


def row_block(vectors: int) -> tuple[int, int]:
    """(threads of a row, rows of a block) for rows of so many vectors."""
    across = 32
    while across < 512 and across * HELD < vectors:
        across *= 2
    return across, 4 if across == 32 else 1


# %%
#| into: aten/native/cuda/layer_norm_kernel.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda import jit_utils
from readtorch.aten.native.cuda.jit_utils import (
    VARIANTS,
    Kernel,
    accumulator,
    array_module,
    as_accumulator,
    cpp_type,
    flag,
    is_wide,
    lanes,
)
from readtorch.aten.native.cuda.rows import HELD, row_block

# %%
#| into: aten/native/cuda/layer_norm_kernel.py
_FILE = "aten/native/cuda/layer_norm_kernel.cu"
_FORWARD = Kernel(_FILE, "layer_norm_forward", VARIANTS)
_BACKWARD = Kernel(_FILE, "layer_norm_backward", VARIANTS)
_SUM_SLOTS = Kernel(_FILE, "layer_norm_sum_slots", ("float", "double"))


# %%
#| into: aten/native/cuda/layer_norm_kernel.py
#| upstream: aten/src/ATen/native/cuda/layer_norm_kernel.cu#at::native::vectorized_layer_norm_kernel
def native_layer_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> Any:
    """Output, mean and 1 / sqrt(variance + eps) of each example. NotImplemented for other than floating dtypes, and for nothing."""
    kind = cpp_type(input)
    if kind is None or input.size == 0:
        return NotImplemented
    xp, acc = array_module(input), accumulator(input)
    leading = input.shape[: input.ndim - len(normalized_shape)]
    rows, width = math.prod(leading), math.prod(normalized_shape)
    x = xp.ascontiguousarray(input)
    y, mean, rstd = xp.empty_like(x), xp.empty(rows, acc), xp.empty(rows, acc)
    w, b = as_accumulator(weight, acc), as_accumulator(bias, acc)
    wide = is_wide(width, x, y)
    across, together = row_block(width // lanes(x, wide))
    block = (across, together)
    _FORWARD[kind, flag(wide)](-(-rows // together), block, x, y, w, b, mean, rstd, float(eps), rows, width)
    broadcast = (*leading, *(1,) * len(normalized_shape))
    return y, mean.reshape(broadcast), rstd.reshape(broadcast)


# %%
#| into: aten/native/cuda/layer_norm_kernel.py
#| upstream: aten/src/ATen/native/cuda/layer_norm_kernel.cu#at::native::layer_norm_grad_input_kernel_vectorized
def native_layer_norm_backward(
    grad_out: Array, input: Array, normalized_shape: Sequence[int], mean: Array, rstd: Array, weight: Array | None
) -> Any:
    """The gradients with respect to input, weight and bias; NotImplemented as `native_layer_norm`."""
    kind = cpp_type(input)
    if kind is None or input.size == 0 or grad_out.dtype != input.dtype:
        return NotImplemented
    xp, acc = array_module(input), accumulator(input)
    width = math.prod(normalized_shape)
    rows = input.size // width
    x, dy = xp.ascontiguousarray(input), xp.ascontiguousarray(grad_out)
    dx = xp.empty_like(x)
    wide = width % 4 == 0 and is_wide(0, x, dy, dx)
    across, together = row_block(width // 4 if wide else width)
    slots = 512 // across * jit_utils.target.multiprocessors()
    blocks = max(1, min(slots, rows) // together)
    # columns that no thread holds are added up here, from nothing
    make = xp.empty if width <= across * HELD * (4 if wide else 1) else xp.zeros
    partial = make((blocks * together, 2 * width), acc)
    given = (as_accumulator(weight, acc), mean, rstd)
    _BACKWARD[kind, flag(wide)](blocks, (across, together), dy, x, dx, *given, partial, rows, width)
    sums = xp.empty((2, width), acc)
    columns = 2 * width
    acc_type = "double" if kind == "double" else "float"
    _SUM_SLOTS[acc_type](-(-columns // 32), (32, 8), partial, sums, len(partial), columns)
    given_type = input.dtype if weight is None else weight.dtype
    dw, db = sums.astype(given_type, copy=False).reshape(2, *normalized_shape)
    return dx, dw, db


# %% [markdown]
# ### What upstream does more
# RMS normalization shares its kernels, by a template flag. Its forward kernel handles rows of any alignment by a slower general one, reads its input twice, and keeps float32 means for every reduced precision, as ours does.
