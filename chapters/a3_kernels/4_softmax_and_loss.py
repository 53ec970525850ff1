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
# # Softmax and cross-entropy: what fusing saves
#
# Softmax of a row needs the row's largest number and then the sum of exponentials, before anything can be written. Held in registers, as in the last part, a row is read once: **8 bytes per float32 element** forward, and 12 backward (result and gradient in, gradient out).
#
# A classifier's loss takes the logarithm of the softmax and then looks at one number of each row. Done by two operators the row is written for the sake of that number, and read again backward. A kernel that knows what comes next writes no row at all.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Largest number and sum in one summary
#
# `exp` overflows float32 beyond 88, so the largest number is taken off first: `Σ exp(x - top)`. Two parts of a row with different tops can still be merged, by scaling the smaller one's sum: `sum · exp(its top - the larger top)` (Milakov and Gimelshein 2018). With that, top and sum are one summary, found in one pass and one reduction.
#
# The summary of nothing has the lowest *finite* number as its top: with minus infinity, merging two such would compute `exp(-∞ + ∞)`. A row of nothing but minus infinities still gives what PyTorch gives, not-a-numbers.


# %%
#| source: arXiv:1805.02867
def merged(one, other):
    top = max(one[0], other[0])
    return top, sum(total * np.exp(its - top) for its, total in (one, other))


row = np.array([1.0, 700.0, 701.0, -3.0])
halves = [(part.max(), np.exp(part - part.max()).sum()) for part in (row[:2], row[2:])]
top, total = merged(*halves)
print(top + np.log(total), np.logaddexp.reduce(row))

# %%
#| into: aten/native/cuda/soft_max.cu
#| upstream: aten/src/ATen/native/cuda/PersistentSoftmax.cuh#softmax_warp_forward
FORWARD = r"""
#include "aten/native/cuda/rows.cuh"
#include "aten/native/cuda/math.cuh"

__device__ __forceinline__ float lowest(float) { return -3.402823466e38f; }
__device__ __forceinline__ double lowest(double) { return -1.7976931348623157e308; }

// The largest number, and the sum of exp(number - largest).
template <class A>
struct TopAndSum {
    A top, sum;
    static __device__ TopAndSum none() { return {lowest(A()), 0}; }
    __device__ __forceinline__ void merge(const TopAndSum& more) {
        A higher = more.top > top ? more.top : top;
        sum = sum * exponential(top - higher) + more.sum * exponential(more.top - higher);
        top = higher;
    }
    __device__ __forceinline__ TopAndSum down(int away) const {
        return {__shfl_down_sync(~0u, top, away), __shfl_down_sync(~0u, sum, away)};
    }
    __device__ __forceinline__ TopAndSum first() const { return {__shfl_sync(~0u, top, 0), __shfl_sync(~0u, sum, 0)}; }

    // A vector: one exponential per number, and one for what was there.
    template <int N>
    __device__ __forceinline__ void add(const A (&x)[N]) {
        A higher = top;
#pragma unroll
        for (int k = 0; k < N; k++) higher = x[k] > higher ? x[k] : higher;
        sum *= exponential(top - higher);
#pragma unroll
        for (int k = 0; k < N; k++) sum += exponential(x[k] - higher);
        top = higher;
    }
};

// Of a row: top and sum; the row's first HELD vectors per thread stay in `held`.
template <class T, int N, class A>
__device__ __forceinline__ TopAndSum<A> row_top_and_sum(const T* from, A (&held)[HELD][N], int vectors) {
    A top = lowest(A());
    FOR_EACH_HELD(k, i) {
        load<N>(from + i * N, held[k]);
#pragma unroll
        for (int j = 0; j < N; j++) top = held[k][j] > top ? held[k][j] : top;
    }
    TopAndSum<A> mine = {top, 0};
    FOR_EACH_HELD(k, i) {
#pragma unroll
        for (int j = 0; j < N; j++) mine.sum += exponential(held[k][j] - top);
    }
    FOR_EACH_BEYOND(i) {
        A values[N];
        load<N>(from + i * N, values);
        mine.add(values);
    }
    return row_merge(mine);
}

// Softmax of each row, or its logarithm.
template <class T, bool WIDE, bool LOG>
__global__ void __launch_bounds__(512) softmax_forward(const T* x, T* y, long long rows, long long width) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    long long row = blockIdx.x * (long long)blockDim.y + threadIdx.y;
    if (row >= rows) return;  // a whole warp, and only where rows are warps
    int vectors = int(width / N);
    const T* from = x + row * width;
    T* to = y + row * width;
    A held[HELD][N];
    TopAndSum<A> all = row_top_and_sum(from, held, vectors);
    A top = all.top, log_sum = logarithm(all.sum), share = A(1) / all.sum;
    auto write = [&](int i, A(&values)[N]) {
#pragma unroll
        for (int k = 0; k < N; k++)
            values[k] = LOG ? values[k] - top - log_sum : exponential(values[k] - top) * share;
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
# Backward, with `y` the result and `g` its gradient: `y (g - Σ g y)`, and for the logarithm `g - exp(y) Σ g`. One sum a row. Two arrays are held, so vectors are those of four numbers again.

# %%
#| into: aten/native/cuda/soft_max.cu
#| upstream: aten/src/ATen/native/cuda/PersistentSoftmax.cuh#softmax_warp_backward
BACKWARD = r"""
template <class T, bool WIDE, bool LOG>
__global__ void __launch_bounds__(512) softmax_backward(const T* dy, const T* y, T* dx, long long rows, long long width) {
    constexpr int N = WIDE ? 4 : 1;
    using A = acc_t<T>;
    long long row = blockIdx.x * (long long)blockDim.y + threadIdx.y;
    if (row >= rows) return;  // a whole warp, and only where rows are warps
    int vectors = int(width / N);
    long long start = row * width;
    A g[HELD][N], result[HELD][N];
    Sums<A> sums = Sums<A>::none();
    FOR_EACH_HELD(k, i) {
        load<N>(dy + start + i * N, g[k]);
        load<N>(y + start + i * N, result[k]);
#pragma unroll
        for (int j = 0; j < N; j++) sums.one += LOG ? g[k][j] : g[k][j] * result[k][j];
    }
    FOR_EACH_BEYOND(i) {
        A more[N], values[N];
        load<N>(dy + start + i * N, more);
        load<N>(y + start + i * N, values);
#pragma unroll
        for (int j = 0; j < N; j++) sums.one += LOG ? more[j] : more[j] * values[j];
    }
    A sum = row_merge(sums).one;
    auto write = [&](int i, A(&gradient)[N], const A(&values)[N]) {
#pragma unroll
        for (int j = 0; j < N; j++)
            gradient[j] = LOG ? gradient[j] - exponential(values[j]) * sum : (gradient[j] - sum) * values[j];
        store<N>(dx + start + i * N, gradient);
    };
    FOR_EACH_HELD(k, i) write(i, g[k], result[k]);
    FOR_EACH_BEYOND(i) {
        A more[N], values[N];
        load<N>(dy + start + i * N, more);
        load<N>(y + start + i * N, values);
        write(i, more, values);
    }
}
"""

# %% [markdown]
# ## Another dimension than the last
#
# Over dimension 1 of `(N, C, H, W)` a "row" has gaps of `H · W`. Its numbers are not neighbours, but the rows are: thread next to thread takes place next to place, and each walks along `C` by itself. No reduction, contiguous reads at every step; the row is read three times, from the caches where `C` is small (a segmentation's classes).

# %%
#| into: aten/native/cuda/soft_max.cu
#| upstream: aten/src/ATen/native/cuda/SoftMax.cu#at::native::cunn_SpatialSoftMaxForward
SPATIAL = r"""
// Of (outer, width, inner), over the middle; a thread has one place of one outer index.
template <class T, bool LOG>
__global__ void __launch_bounds__(256) softmax_spatial_forward(const T* x, T* y, long long outer, long long width, long long inner) {
    using A = acc_t<T>;
    long long place = blockIdx.x * 256LL + threadIdx.x;
    if (place >= inner * outer) return;
    long long start = place / inner * width * inner + place % inner;
    TopAndSum<A> all = TopAndSum<A>::none();
    for (long long i = 0; i < width; i++) {
        A value[1] = {widen(x[start + i * inner])};
        all.add(value);
    }
    A log_sum = logarithm(all.sum), share = A(1) / all.sum;
    for (long long i = 0; i < width; i++) {
        A value = widen(x[start + i * inner]) - all.top;
        y[start + i * inner] = narrowed<T>(LOG ? value - log_sum : exponential(value) * share);
    }
}

template <class T, bool LOG>
__global__ void __launch_bounds__(256) softmax_spatial_backward(
    const T* dy, const T* y, T* dx, long long outer, long long width, long long inner) {
    using A = acc_t<T>;
    long long place = blockIdx.x * 256LL + threadIdx.x;
    if (place >= inner * outer) return;
    long long start = place / inner * width * inner + place % inner;
    A sum = 0;
    for (long long i = 0; i < width; i++) {
        A gradient = widen(dy[start + i * inner]);
        sum += LOG ? gradient : gradient * widen(y[start + i * inner]);
    }
    for (long long i = 0; i < width; i++) {
        A gradient = widen(dy[start + i * inner]), value = widen(y[start + i * inner]);
        dx[start + i * inner] = narrowed<T>(LOG ? gradient - exponential(value) * sum : (gradient - sum) * value);
    }
}
"""

# %%
#| into: aten/native/cuda/soft_max.py
#| imports
from __future__ import annotations

import math
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import (
    FLAGS,
    FLOATING,
    VARIANTS,
    Kernel,
    array_module,
    cpp_type,
    flag,
    is_wide,
    lanes,
)
from readtorch.aten.native.cuda.rows import row_block
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim

# %%
#| into: aten/native/cuda/soft_max.py
_FILE = "aten/native/cuda/soft_max.cu"
_FORWARD = Kernel(_FILE, "softmax_forward", VARIANTS, FLAGS)
_BACKWARD = Kernel(_FILE, "softmax_backward", VARIANTS, FLAGS)
_SPATIAL_FORWARD = Kernel(_FILE, "softmax_spatial_forward", FLOATING, FLAGS)
_SPATIAL_BACKWARD = Kernel(_FILE, "softmax_spatial_backward", FLOATING, FLAGS)


# %%
#| into: aten/native/cuda/soft_max.py
#| upstream: aten/src/ATen/native/cuda/SoftMax.cu#at::native::host_softmax
def _forward(x: Array, dim: int, log: bool) -> Any:
    kind = cpp_type(x)
    if kind is None or x.size == 0 or x.ndim == 0:
        return NotImplemented
    xp = array_module(x)
    axis = maybe_wrap_dim(dim, x.ndim)
    x = xp.ascontiguousarray(x)
    y = xp.empty_like(x)
    width, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    rows = x.size // width
    if inner > 1:
        _SPATIAL_FORWARD[kind, flag(log)](-(-rows // 256), 256, x, y, rows // inner, width, inner)
        return y
    wide = is_wide(width, x, y)
    across, together = row_block(width // lanes(x, wide))
    _FORWARD[kind, flag(wide), flag(log)](-(-rows // together), (across, together), x, y, rows, width)
    return y


def _backward(grad_output: Array, output: Array, dim: int, log: bool) -> Any:
    kind = cpp_type(output)
    if kind is None or output.size == 0 or output.ndim == 0 or grad_output.dtype != output.dtype:
        return NotImplemented
    xp = array_module(output)
    axis = maybe_wrap_dim(dim, output.ndim)
    dy, y = xp.ascontiguousarray(grad_output), xp.ascontiguousarray(output)
    dx = xp.empty_like(y)
    width, inner = y.shape[axis], math.prod(y.shape[axis + 1 :])
    rows = y.size // width
    if inner > 1:
        _SPATIAL_BACKWARD[kind, flag(log)](-(-rows // 256), 256, dy, y, dx, rows // inner, width, inner)
        return dx
    wide = width % 4 == 0 and is_wide(0, dy, y, dx)
    across, together = row_block(width // 4 if wide else width)
    _BACKWARD[kind, flag(wide), flag(log)](-(-rows // together), (across, together), dy, y, dx, rows, width)
    return dx


def _softmax(self: Array, dim: int) -> Any:
    """NotImplemented for other than floating dtypes, and for nothing; so are the three below."""
    return _forward(self, dim, log=False)


def _log_softmax(self: Array, dim: int) -> Any:
    return _forward(self, dim, log=True)


def _softmax_backward_data(grad_output: Array, output: Array, dim: int) -> Any:
    return _backward(grad_output, output, dim, log=False)


def _log_softmax_backward_data(grad_output: Array, output: Array, dim: int) -> Any:
    return _backward(grad_output, output, dim, log=True)


# %% [markdown]
# ## The loss alone
#
# `nll_loss` reads one number per example. Its mean is a sum over examples, and one block does it: a thousand threads take the examples in turn and merge loss and weight, in an order that never changes. A class out of range is a mistake of the caller's; no kernel can raise an exception, so it stops the device (`__trap`), as upstream's assertion does.
#
# The gradient is zero but for one number per example: the array is cleared, at the full speed of memory, and the numbers put in.

# %%
#| into: aten/native/cuda/loss.cu
#| upstream: aten/src/ATen/native/cuda/Loss.cu#at::native::nll_loss_forward_out_cuda_template
NLL = r"""
#include "aten/native/cuda/soft_max.cu"

// Where the target's number of example `i` of (N, C, P) stands, or -1 if the example is to be ignored.
__device__ __forceinline__ long long picked(const long long* target, long long i, long long classes, long long places, long long ignored) {
    long long wanted = target[i];
    if (wanted == ignored) return -1;
    if (wanted < 0 || wanted >= classes) __trap();
    return (i / places * classes + wanted) * places + i % places;
}

// losses: null, or the loss of each example. sums: loss, and weight, of all together, the first over the second for a mean.
template <class T>
__global__ void __launch_bounds__(1024) nll_loss_forward(
    const T* x, const long long* target, const acc_t<T>* weight, T* losses, acc_t<T>* sums, long long mean, long long ignored,
    long long examples, long long classes, long long places) {
    using A = acc_t<T>;
    Sums<A> mine = Sums<A>::none();
    long long step = losses ? gridDim.x * 1024LL : 1024;
    for (long long i = (losses ? blockIdx.x * 1024LL : 0) + threadIdx.x; i < examples; i += step) {
        long long at = picked(target, i, classes, places, ignored);
        A w = at < 0 ? A(0) : weight ? weight[target[i]] : A(1);
        A loss = at < 0 ? A(0) : -w * widen(x[at]);
        if (losses) losses[i] = narrowed<T>(loss);
        mine.merge({loss, w});
    }
    if (losses) return;
    mine = block_merge(mine);
    if (threadIdx.x == 0) {
        sums[0] = mean ? mine.one / mine.other : mine.one;
        sums[1] = mine.other;
    }
}

// Into a dx of zeros. each: is there a gradient per example? total: the weight of all, null unless the loss was a mean.
template <class T>
__global__ void __launch_bounds__(256) nll_loss_backward(
    const T* dy, const long long* target, const acc_t<T>* weight, const acc_t<T>* total, T* dx, long long each, long long ignored,
    long long examples, long long classes, long long places) {
    using A = acc_t<T>;
    long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= examples) return;
    long long at = picked(target, i, classes, places, ignored);
    if (at < 0) return;
    A share = -widen(dy[each ? i : 0]) * (weight ? weight[target[i]] : A(1));
    dx[at] = narrowed<T>(total ? share / *total : share);
}
"""

# %% [markdown]
# ## Logits to loss in one pass
#
# The loss of an example is `log Σ exp(x) - x[class]`. Forward, a block reads a row and writes two numbers, loss and `log Σ exp`: **4 bytes per element**, where log-softmax and loss move 8 and a bit. Backward, the softmax comes out of the row and the kept logarithm, `exp(x - log Σ exp)`, less one at the class: read and write, **8 bytes**, where the two operators move 16: clear one array, read it and the kept result, write another.
# Twelve in all instead of 24. And no array of log-probabilities lives until the backward pass; for a language model with 128,000 words that array is often the largest of the whole step.

# %%
#| into: aten/native/cuda/loss.cu
FUSED = r"""
// Loss and log(sum(exp)) of each row of logits.
template <class T, bool WIDE>
__global__ void __launch_bounds__(512) cross_entropy_forward(
    const T* x, const long long* target, const acc_t<T>* weight, acc_t<T>* losses, acc_t<T>* log_sums, long long ignored, long long rows,
    long long width) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    long long row = blockIdx.x * (long long)blockDim.y + threadIdx.y;
    if (row >= rows) return;  // a whole warp, and only where rows are warps
    A held[HELD][N];
    TopAndSum<A> all = row_top_and_sum(x + row * width, held, int(width / N));
    if (threadIdx.x == 0) {
        A log_sum = all.top + logarithm(all.sum);
        long long at = picked(target, row, width, 1, ignored);
        log_sums[row] = log_sum;
        losses[row] = at < 0 ? A(0) : (log_sum - widen(x[at])) * (weight ? weight[target[row]] : A(1));
    }
}

// dx = (softmax - one at the class) * the example's share of the gradient.
template <class T, bool WIDE>
__global__ void __launch_bounds__(512) cross_entropy_backward(
    const acc_t<T>* shares, const T* x, const long long* target, const acc_t<T>* log_sums, T* dx, long long ignored, long long rows,
    long long width) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    long long row = blockIdx.x * (long long)blockDim.y + threadIdx.y;
    if (row >= rows) return;
    A log_sum = log_sums[row];
    long long at = picked(target, row, width, 1, ignored), start = row * width;
    A share = at < 0 ? A(0) : shares[row];
    for (int i = threadIdx.x; i < int(width / N); i += blockDim.x) {
        A values[N];
        load<N>(x + start + i * N, values);
#pragma unroll
        for (int k = 0; k < N; k++)
            values[k] = share * (exponential(values[k] - log_sum) - (start + i * N + k == at ? A(1) : A(0)));
        store<N>(dx + start + i * N, values);
    }
}
"""

# %%
#| into: aten/native/cuda/loss.py
#| imports
from __future__ import annotations

import math
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import (
    FLOATING,
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
from readtorch.aten.native.cuda.rows import row_block
from readtorch.aten.native.loss_nll import MEAN, NONE

# %%
#| into: aten/native/cuda/loss.py
_FILE = "aten/native/cuda/loss.cu"
_NLL_FORWARD = Kernel(_FILE, "nll_loss_forward", FLOATING)
_NLL_BACKWARD = Kernel(_FILE, "nll_loss_backward", FLOATING)
_FORWARD = Kernel(_FILE, "cross_entropy_forward", VARIANTS)
_BACKWARD = Kernel(_FILE, "cross_entropy_backward", VARIANTS)


def _example_weights(classes: Array, weight: Array | None, ignore_index: int) -> Array:
    """What each example counts for: its class's weight, nothing if it is to be ignored."""
    kept = classes != ignore_index
    return kept if weight is None else weight[array_module(classes).where(kept, classes, 0)] * kept


# %%
#| into: aten/native/cuda/loss.py
#| upstream: aten/src/ATen/native/cuda/Loss.cu#at::native::nll_loss_forward_out_cuda_template
def nll_loss_forward(self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int) -> Any:
    """Loss and sum of weights of log-probabilities `(N, C, *)` and classes `(N, *)`. NotImplemented for other than floating dtypes, and for nothing."""
    kind = cpp_type(self)
    if kind is None or self.size == 0:
        return NotImplemented
    xp, acc = array_module(self), accumulator(self)
    x, classes = xp.ascontiguousarray(self), xp.ascontiguousarray(target, np.int64)
    losses = xp.empty(target.shape, self.dtype) if reduction == NONE else None
    sums = xp.zeros(2, acc)
    blocks = -(-classes.size // 1024) if losses is not None else 1
    weights = as_accumulator(weight, acc)
    sizes = (ignore_index, classes.size, x.shape[1], math.prod(x.shape[2:]))
    _NLL_FORWARD[kind](blocks, 1024, x, classes, weights, losses, sums, int(reduction == MEAN), *sizes)
    given = sums.astype(self.dtype, copy=False)
    return given[0] if losses is None else losses, given[1]


# %%
#| into: aten/native/cuda/loss.py
#| upstream: aten/src/ATen/native/cuda/Loss.cu#at::native::nll_loss_backward_out_cuda_template
def nll_loss_backward(
    grad_output: Array, self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> Any:
    """The gradient with respect to the log-probabilities; NotImplemented as `nll_loss_forward`."""
    kind = cpp_type(self)
    if kind is None or self.size == 0 or grad_output.dtype != self.dtype:
        return NotImplemented
    xp, acc = array_module(self), accumulator(self)
    dy, classes = xp.ascontiguousarray(grad_output), xp.ascontiguousarray(target, np.int64)
    weights = as_accumulator(weight, acc)
    total = None
    if reduction == MEAN:
        total = as_accumulator(_example_weights(classes, weights, ignore_index).sum(dtype=acc), acc)
    dx = xp.zeros(self.shape, self.dtype)
    sizes = (ignore_index, classes.size, self.shape[1], math.prod(self.shape[2:]))
    each = int(reduction == NONE)
    _NLL_BACKWARD[kind](-(-classes.size // 256), 256, dy, classes, weights, total, dx, each, *sizes)
    return dx


# %%
#| into: aten/native/cuda/loss.py
def cross_entropy_forward(x: Array, target: Array, weight: Array | None, ignore_index: int) -> tuple[Array, Array]:
    """Loss and log(sum(exp)) of each row of logits `(N, C)`, before any reduction, in the type of the arithmetic."""
    xp, acc = array_module(x), accumulator(x)
    kind = cpp_type(x)
    assert kind is not None
    x = xp.ascontiguousarray(x)
    rows, width = x.shape
    losses, log_sums = xp.empty(rows, acc), xp.empty(rows, acc)
    wide = is_wide(width, x)
    across, together = row_block(width // lanes(x, wide))
    given = (x, xp.ascontiguousarray(target, np.int64), as_accumulator(weight, acc))
    grid = -(-rows // together)
    _FORWARD[kind, flag(wide)](grid, (across, together), *given, losses, log_sums, ignore_index, rows, width)
    return losses, log_sums


def cross_entropy_backward(shares: Array, x: Array, target: Array, log_sums: Array, ignore_index: int) -> Array:
    """The gradient of the logits; `shares` is what arrives at each example's loss, its weight included."""
    xp, acc = array_module(x), accumulator(x)
    kind = cpp_type(x)
    assert kind is not None
    x = xp.ascontiguousarray(x)
    rows, width = x.shape
    dx = xp.empty_like(x)
    wide = is_wide(width, x, dx)
    across, together = row_block(width // lanes(x, wide))
    given = (as_accumulator(shares, acc), x, xp.ascontiguousarray(target, np.int64), log_sums)
    _BACKWARD[kind, flag(wide)](-(-rows // together), (across, together), *given, dx, ignore_index, rows, width)
    return dx


# %% [markdown]
# The operator around them sums up the losses and sees to weights: a few numbers per example, which CuPy's kernels do well enough. It is what `torch.nn.functional.cross_entropy` calls on a GPU for logits `(N, C)` and numbers of classes.


# %%
#| into: aten/native/cuda/loss.py
def _cross_entropy(self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int) -> Any:
    """Loss, sum of weights and log(sum(exp)) of each row. NotImplemented for other than floating dtypes, and for nothing."""
    if cpp_type(self) is None or self.size == 0:
        return NotImplemented
    xp, acc = array_module(self), accumulator(self)
    classes = xp.ascontiguousarray(target, np.int64)
    losses, log_sums = cross_entropy_forward(self, classes, weight, ignore_index)
    total = _example_weights(classes, as_accumulator(weight, acc), ignore_index).sum(dtype=acc)
    if reduction != NONE:
        losses = losses.sum()
    if reduction == MEAN:
        losses = losses / total
    return losses.astype(self.dtype, copy=False), total, log_sums


def _cross_entropy_backward(
    grad_output: Array, self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int,
    total_weight: Array, log_sums: Array,
) -> Any:  # fmt: skip
    """The gradient of the logits. NotImplemented as `_cross_entropy`."""
    if cpp_type(self) is None or self.size == 0 or grad_output.dtype != self.dtype:
        return NotImplemented
    xp, acc = array_module(self), accumulator(self)
    classes = xp.ascontiguousarray(target, np.int64)
    shares = grad_output.astype(acc, copy=False) * _example_weights(classes, as_accumulator(weight, acc), ignore_index)
    if reduction == MEAN:
        shares = shares / total_weight
    return cross_entropy_backward(shares, self, classes, log_sums, ignore_index)


# %% [markdown]
# Both ways on the CPU, for one row of a vocabulary; what each launches, and the bytes of arrays that it makes on the way.

# %%
from readtorch.aten.native.cuda import loss, soft_max
from readtorch.aten.native.cuda.jit_utils import running_on
from readtorch.literate import fibres

if fibres.available():
    logits = np.random.default_rng(0).standard_normal((1, 8000)).astype(np.float32)
    target, share = np.array([17]), np.ones(1, np.float32)
    device = fibres.OnCpu()
    with running_on(device):
        value, log_sums = loss.cross_entropy_forward(logits, target, None, -100)
        fused = loss.cross_entropy_backward(share, logits, target, log_sums, -100)
        print(*(name for name, _, _ in device.launches), "| kept for backward:", log_sums.nbytes, "bytes")
        device.launches.clear()
        log = soft_max._log_softmax(logits, 1)
        also = loss.nll_loss_forward(log, target, None, 0, -100)[0]
        separate = soft_max._log_softmax_backward_data(
            loss.nll_loss_backward(share, log, target, None, 0, -100), log, 1
        )
        print(*(name for name, _, _ in device.launches), "| kept for backward:", log.nbytes, "bytes")
    print(f"loss {value[0]:.4f} and {also[0]:.4f}; gradients differ by {abs(fused - separate).max():.0e}")
else:
    print("there is no g++ here")

# %% [markdown]
# ### What upstream does more
# Rows of up to 2,048 numbers go to a kernel with several rows per warp where rows are short (`softmax_warp_forward`), and masks are taken into the same pass; longer ones to a block, in registers, in shared memory or read again, as they fit (`cunn_SoftMaxForwardReg`). Upstream has no kernel from logits to loss: `cross_entropy` is two operators there, two nodes in the graph, and the
# fusing is left to `torch.compile`. Here it is one node on a GPU, called as upstream's last one; on the CPU, and for everything but `(N, C)` and class numbers, there are upstream's two. `benchmarks/gpu.py` measures both ways.
