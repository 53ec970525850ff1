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
# # Batch normalization: two passes over memory, and not three
#
# Training needs the mean and variance of a channel before it can write the channel's first number, so the input is read twice: 8 bytes per float32 element in, 4 out, **12 in all**. The gradient needs two sums before it can write anything: input and incoming gradient are read twice, one is written, **20 bytes**. No kernel can do with less
# unless a channel fits into a multiprocessor. Everything beyond those bytes is what a kernel can do wrong.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Why not sum the squares?
#
# One pass could add up `x` and `x²` and take `mean(x²) - mean(x)²`. In float32 that subtracts two large numbers to get a small one: where the mean is a thousand times the deviation, nothing is left. The second pass that avoids it, the squares of `x - mean`, would be a third one over memory.
#
# Welford's update (1962) does both in one pass. Of the first *n* numbers it keeps the mean and the sum of squared distances *from that mean*, `m2`; a further number moves the mean by a fraction of its distance, and adds to `m2` the product of its distances from the old and the new mean. Two such summaries merge exactly (Chan, Golub and LeVeque 1979), which is
# what makes it parallel: each thread its own, then lanes, warps, blocks.

# %%
#| source: 10.1080/00401706.1962.10490022
#| source: 10.1080/00031305.1983.10483115
rng = np.random.default_rng(0)
x = (1000 + rng.standard_normal(100_000)).astype(np.float32)
naive = np.mean(x * x) - np.mean(x) ** 2
mean, m2 = np.float32(0), np.float32(0)
for n, value in enumerate(x, 1):
    far = value - mean
    mean += far / np.float32(n)
    m2 += far * (value - mean)
print(
    f"variance {x.astype(np.float64).var():.4f}; mean of squares less square of mean {naive:.4f}; Welford {m2 / x.size:.4f}"
)

# %%
#| into: aten/native/shared_reduce_ops.cuh
#| upstream: aten/src/ATen/native/SharedReduceOps.h#WelfordOps
WELFORD = r"""
// Count, mean, and sum of squared distances from the mean.
template <class A>
struct Welford {
    A mean, m2, count;
    static __device__ Welford none() { return {0, 0, 0}; }

    __device__ __forceinline__ void merge(const Welford& more) {
        A total = count + more.count;
        A share = total > 0 ? more.count / total : A(0);
        A far = more.mean - mean;
        mean += far * share;
        m2 += more.m2 + far * far * count * share;
        count = total;
    }
    __device__ __forceinline__ Welford down(int away) const {
        return {__shfl_down_sync(~0u, mean, away), __shfl_down_sync(~0u, m2, away), __shfl_down_sync(~0u, count, away)};
    }
    __device__ __forceinline__ Welford first() const {
        return {__shfl_sync(~0u, mean, 0), __shfl_sync(~0u, m2, 0), __shfl_sync(~0u, count, 0)};
    }
};

// N summaries side by side, one per lane of a vector: they see equally many numbers, so one division serves all.
template <class A, int N>
struct WelfordVec {
    A mean[N], m2[N], count;
    __device__ __forceinline__ void clear() {
        count = 0;
#pragma unroll
        for (int k = 0; k < N; k++) mean[k] = m2[k] = 0;
    }
    __device__ __forceinline__ void add(const A (&x)[N]) {
        count += 1;
        A share = A(1) / count;
#pragma unroll
        for (int k = 0; k < N; k++) {
            A far = x[k] - mean[k];
            mean[k] += far * share;
            m2[k] += far * (x[k] - mean[k]);
        }
    }
    __device__ __forceinline__ Welford<A> lane(int k) const { return {mean[k], m2[k], count}; }
    __device__ __forceinline__ Welford<A> merged() const {
        Welford<A> all = lane(0);
#pragma unroll
        for (int k = 1; k < N; k++) all.merge(lane(k));
        return all;
    }
};
"""

# %% [markdown]
# ## Who looks after which channel?
#
# The obvious grid has a block per channel. A ResNet's first layers have 64 channels, and 64 blocks leave half of 132 multiprocessors with nothing to do. So a channel is dealt out to several blocks, `gridDim.y` of them, as many as it takes to fill the device, and a block's result is one summary: count, mean, `m2`.
# Who merges those? A further kernel could; or the last block to finish, told by an atomic counter. Here each block of the *second* kernel merges the summaries of its channel for itself: some dozens, a kilobyte out of the second-level cache, beside the hundred kilobytes of elements that it is about to read. No counter, no third launch, and the result does not
# depend on the order in which blocks ran. Where there are very many pieces, because channels are few, a small kernel merges them first.
#
# How many pieces? A device that holds 800 blocks at once runs 1,000 in two rounds, and is three quarters empty in the second. With thousands of blocks the last round is a small part of the whole: 32 per multiprocessor.
#
# Memory is `(N, C, P)`, `P` places. Of one channel, stretches of `P` contiguous numbers lie `C · P` apart. A thread takes 16 bytes at a time and steps over the block's other threads, and over the other blocks of the channel; `Walk` keeps its example and place without a division per step.
#
# The second kernel walks the examples backwards. The first has left the last ones in the second-level cache (50 MB on an H200): that much need not be fetched again.

# %%
#| into: aten/native/cuda/normalization.cu
#| upstream: aten/src/ATen/native/cuda/Normalization.cuh#at::native::batch_norm_collect_statistics_kernel
COLLECT = r"""
#include "aten/native/cuda/memory_access.cuh"
#include "aten/native/cuda/block_reduce.cuh"
#include "aten/native/shared_reduce_ops.cuh"
#include "aten/native/cuda/math.cuh"

// The vectors of one channel of (N, C, P) that a thread looks after: the first is that of its number among the threads of all
// blocks of the channel, each next one as many further on.
struct Walk {
    long long examples, example;
    int vectors, vector, skip_examples, skip_vectors;

    __device__ __forceinline__ Walk(long long examples, int vectors) : examples(examples), vectors(vectors) {
        long long first = blockIdx.y * (long long)blockDim.x + threadIdx.x;
        long long step = gridDim.y * (long long)blockDim.x;
        example = first / vectors;
        vector = int(first % vectors);
        skip_examples = int(step / vectors);
        skip_vectors = int(step % vectors);
    }
    __device__ __forceinline__ bool more() const { return example < examples; }
    __device__ __forceinline__ void next() {
        example += skip_examples;
        vector += skip_vectors;
        if (vector >= vectors) {
            vector -= vectors;
            example++;
        }
    }
    __device__ __forceinline__ long long at(long long example, long long channels, int lanes) const {
        return ((example * channels + blockIdx.x) * vectors + vector) * lanes;
    }
};

// partial: 3 numbers (mean, m2, count) of each of gridDim.y pieces of each channel, as (3, pieces, C).
template <class T, bool WIDE>
__global__ void __launch_bounds__(256) batch_norm_collect_statistics(
    const T* x, acc_t<T>* partial, long long examples, long long channels, long long places) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    WelfordVec<A, N> seen;
    seen.clear();
    for (Walk walk(examples, int(places / N)); walk.more(); walk.next()) {
        A values[N], more[N];
        load<N>(x + walk.at(walk.example, channels, N), values);
        walk.next();
        bool two = walk.more();  // a second load is under way before the first is needed
        if (two) load<N>(x + walk.at(walk.example, channels, N), more);
        seen.add(values);
        if (two) seen.add(more);
    }
    Welford<A> all = block_merge(seen.merged());
    if (threadIdx.x == 0) {
        long long pieces = gridDim.y;
        partial[(0 * pieces + blockIdx.y) * channels + blockIdx.x] = all.mean;
        partial[(1 * pieces + blockIdx.y) * channels + blockIdx.x] = all.m2;
        partial[(2 * pieces + blockIdx.y) * channels + blockIdx.x] = all.count;
    }
}

template <class A>
__device__ __forceinline__ Welford<A> piece_of(const A* partial, long long pieces, long long channels, long long piece, long long channel) {
    return {partial[(0 * pieces + piece) * channels + channel], partial[(1 * pieces + piece) * channels + channel],
            partial[(2 * pieces + piece) * channels + channel]};
}

// whole: the merge of all pieces of a channel, as (3, 1, C). A block for each channel.
template <class A>
__global__ void __launch_bounds__(256) batch_norm_merge_statistics(const A* partial, A* whole, long long pieces, long long channels) {
    Welford<A> all = Welford<A>::none();
    for (int piece = threadIdx.x; piece < pieces; piece += blockDim.x)
        all.merge(piece_of(partial, pieces, channels, piece, blockIdx.x));
    all = block_merge(all);
    if (threadIdx.x == 0) {
        whole[blockIdx.x] = all.mean;
        whole[channels + blockIdx.x] = all.m2;
        whole[2 * channels + blockIdx.x] = all.count;
    }
}
"""

# %% [markdown]
# The second kernel writes `y`; one block per channel also writes what the graph keeps (mean and `1/√(σ²+ε)`) and moves the running statistics, whose variance is the unbiased one. In evaluation mode there are no pieces, and the statistics are given.

# %%
#| into: aten/native/cuda/normalization.cu
#| upstream: aten/src/ATen/native/cuda/Normalization.cuh#at::native::batch_norm_transform_input_kernel
TRANSFORM = r"""

// What a channel's statistics leave behind. Null where nobody wants it.
template <class A>
__device__ __forceinline__ void keep_statistics(
    Welford<A> all, A invstd, long long channel, A* running_mean, A* running_var, A* save_mean, A* save_invstd, A momentum) {
    if (save_mean) save_mean[channel] = all.mean;
    if (save_invstd) save_invstd[channel] = invstd;
    if (running_mean) running_mean[channel] += momentum * (all.mean - running_mean[channel]);
    if (running_var) running_var[channel] += momentum * (all.m2 / (all.count - 1) - running_var[channel]);
}

// y = (x - mean) / sqrt(var + eps) * weight + bias, of the statistics in `partial`, or of those given where there are no pieces.
template <class T, bool WIDE>
__global__ void __launch_bounds__(256) batch_norm_transform_input(
    const T* x, T* y, const acc_t<T>* partial, long long pieces, const acc_t<T>* given_mean, const acc_t<T>* given_var,
    const acc_t<T>* weight, const acc_t<T>* bias, acc_t<T>* running_mean, acc_t<T>* running_var, acc_t<T>* save_mean,
    acc_t<T>* save_invstd, double momentum, double eps, long long examples, long long channels, long long places) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    int channel = blockIdx.x;
    A mean, var;
    if (pieces) {
        Welford<A> all = Welford<A>::none();
        for (int piece = threadIdx.x; piece < pieces; piece += blockDim.x)
            all.merge(piece_of(partial, pieces, channels, piece, channel));
        all = block_merge(all);
        mean = all.mean;
        var = all.m2 / all.count;
        if (blockIdx.y == 0 && threadIdx.x == 0)
            keep_statistics(all, inverse_root(var + A(eps)), channel, running_mean, running_var, save_mean, save_invstd, A(momentum));
    } else {
        mean = given_mean[channel];
        var = given_var[channel];
    }
    A scale = inverse_root(var + A(eps)) * (weight ? weight[channel] : A(1));
    A shift = bias ? bias[channel] : A(0);
    auto write = [&](long long at, A(&values)[N]) {
#pragma unroll
        for (int k = 0; k < N; k++) values[k] = (values[k] - mean) * scale + shift;
        store<N>(y + at, values);
    };
    for (Walk walk(examples, int(places / N)); walk.more(); walk.next()) {
        long long at = walk.at(examples - 1 - walk.example, channels, N), next = 0;
        A values[N], more[N];
        load<N>(x + at, values);
        walk.next();
        bool two = walk.more();
        if (two) {
            next = walk.at(examples - 1 - walk.example, channels, N);
            load<N>(x + next, more);
        }
        write(at, values);
        if (two) write(next, more);
    }
}
"""

# %% [markdown]
# ## Backward: two sums, then the gradient
#
# With `g = ∂L/∂y` and `m` elements in a channel, the two sums are `Σ g` and `Σ g (x - μ)`: the first is the bias's gradient, the second times `1/σ` the weight's, and both together give
#
# `∂L/∂x = w/σ · (g - Σg/m - (x - μ)/σ² · Σg(x-μ)/m)`.
#
# In evaluation mode `μ` and `σ` are constants, and the last two terms are gone. Pieces, walk and merging are those of the forward pass.

# %%
#| into: aten/native/cuda/normalization.cu
#| upstream: aten/src/ATen/native/cuda/Normalization.cuh#at::native::batch_norm_backward_reduce_kernel
REDUCE = r"""
// partial: sum(dy) and sum(dy * (x - mean)) of each piece of each channel, as (2, pieces, C).
template <class T, bool WIDE>
__global__ void __launch_bounds__(256) batch_norm_backward_reduce(
    const T* dy, const T* x, const acc_t<T>* mean, acc_t<T>* partial, long long examples, long long channels, long long places) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    A centre = mean[blockIdx.x];
    Sums<A> mine = Sums<A>::none();
    for (Walk walk(examples, int(places / N)); walk.more(); walk.next()) {
        long long at = walk.at(walk.example, channels, N);
        A g[N], values[N];
        load<N>(dy + at, g);
        load<N>(x + at, values);
        A one = 0, other = 0;  // of this vector alone: the thread's sum then has a rounding per vector, not per number
#pragma unroll
        for (int k = 0; k < N; k++) {
            one += g[k];
            other += g[k] * (values[k] - centre);
        }
        mine.merge({one, other});
    }
    mine = block_merge(mine);
    if (threadIdx.x == 0) {
        long long pieces = gridDim.y;
        partial[blockIdx.y * channels + blockIdx.x] = mine.one;
        partial[(pieces + blockIdx.y) * channels + blockIdx.x] = mine.other;
    }
}

// whole: the sums of all pieces of a channel, as (2, 1, C). A block for each channel.
template <class A>
__global__ void __launch_bounds__(256) batch_norm_merge_sums(const A* partial, A* whole, long long pieces, long long channels) {
    Sums<A> all = Sums<A>::none();
    for (int piece = threadIdx.x; piece < pieces; piece += blockDim.x)
        all.merge({partial[piece * channels + blockIdx.x], partial[(pieces + piece) * channels + blockIdx.x]});
    all = block_merge(all);
    if (threadIdx.x == 0) {
        whole[blockIdx.x] = all.one;
        whole[channels + blockIdx.x] = all.other;
    }
}
"""

# %%
#| into: aten/native/cuda/normalization.cu
#| upstream: aten/src/ATen/native/cuda/Normalization.cuh#at::native::batch_norm_backward_elemt_kernel
ELEMENTS = r"""
template <class T, bool WIDE>
__global__ void __launch_bounds__(256) batch_norm_backward_elemt(
    const T* dy, const T* x, T* dx, const acc_t<T>* partial, long long pieces, const acc_t<T>* mean, const acc_t<T>* invstd,
    const acc_t<T>* weight, acc_t<T>* dw, acc_t<T>* db, long long training, long long examples, long long channels, long long places) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    int channel = blockIdx.x;
    Sums<A> all = Sums<A>::none();
    for (int piece = threadIdx.x; piece < pieces; piece += blockDim.x)
        all.merge({partial[piece * channels + channel], partial[(pieces + piece) * channels + channel]});
    all = block_merge(all);
    A centre = mean[channel], inverse = invstd[channel];
    if (blockIdx.y == 0 && threadIdx.x == 0) {
        db[channel] = all.one;
        dw[channel] = all.other * inverse;
    }
    A count = A(examples) * A(places);
    A scale = inverse * (weight ? weight[channel] : A(1));
    A level = training ? all.one / count : A(0);
    A slope = training ? all.other / count * inverse * inverse : A(0);
    for (Walk walk(examples, int(places / N)); walk.more(); walk.next()) {
        long long at = walk.at(examples - 1 - walk.example, channels, N);
        A g[N], values[N];
        load<N>(dy + at, g);
        load<N>(x + at, values);
#pragma unroll
        for (int k = 0; k < N; k++) g[k] = (g[k] - level - (values[k] - centre) * slope) * scale;
        store<N>(dx + at, g);
    }
}
"""

# %% [markdown]
# ## Channels last
#
# With channels last, and for `(N, C)`, memory is a matrix of `R` rows and `C` columns, and a channel is a column. Neighbouring threads take neighbouring columns, so that a warp reads a contiguous stretch; each thread walks down the rows, and the threads of one column meet in shared memory. The block's shape follows the width: 32 threads across
# where there are columns enough, fewer where not, always 256 in all.
#
# Merging the pieces is dearer here, because a block has many columns and would read `pieces × columns` summaries. So here it is the rule that they are merged before.

# %%
#| into: aten/native/cuda/normalization.cu
#| upstream: aten/src/ATen/native/cuda/Normalization.cuh#at::native::batch_norm_collect_statistics_channels_last_kernel
COLUMNS = r"""
// Down the columns of (R, C): the merge of what the threads above and below hold, in all of them.
template <class Summary, int N>
__device__ __forceinline__ void column_merge(Summary (&mine)[N]) {
    __shared__ Summary parts[256][N];
    int thread = threadIdx.x + blockDim.x * threadIdx.y;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < N; k++) parts[thread][k] = mine[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < N; k++) {
        mine[k] = parts[threadIdx.x][k];
        for (int row = 1; row < blockDim.y; row++) mine[k].merge(parts[threadIdx.x + blockDim.x * row][k]);
    }
}

// The first column of the thread, or -1 if it has none; rows of the block and their step.
template <int N>
__device__ __forceinline__ long long first_column(long long channels) {
    long long column = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * N;
    return column < channels ? column : -1;
}
#define FOR_EACH_ROW(row) \
    for (long long row = blockIdx.y * (long long)blockDim.y + threadIdx.y; row < rows; row += gridDim.y * (long long)blockDim.y)

template <class T, bool WIDE>
__global__ void __launch_bounds__(256) batch_norm_collect_statistics_channels_last(
    const T* x, acc_t<T>* partial, long long rows, long long channels) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    long long column = first_column<N>(channels);
    WelfordVec<A, N> seen;
    seen.clear();
    if (column >= 0) {
#pragma unroll 2
        FOR_EACH_ROW(row) {
            A values[N];
            load<N>(x + row * channels + column, values);
            seen.add(values);
        }
    }
    Welford<A> all[N];
#pragma unroll
    for (int k = 0; k < N; k++) all[k] = seen.lane(k);
    column_merge(all);
    if (threadIdx.y == 0 && column >= 0) {
        long long pieces = gridDim.y;
#pragma unroll
        for (int k = 0; k < N; k++) {
            partial[(0 * pieces + blockIdx.y) * channels + column + k] = all[k].mean;
            partial[(1 * pieces + blockIdx.y) * channels + column + k] = all[k].m2;
            partial[(2 * pieces + blockIdx.y) * channels + column + k] = all[k].count;
        }
    }
}

template <class T, bool WIDE>
__global__ void __launch_bounds__(256) batch_norm_transform_input_channels_last(
    const T* x, T* y, const acc_t<T>* partial, long long pieces, const acc_t<T>* given_mean, const acc_t<T>* given_var,
    const acc_t<T>* weight, const acc_t<T>* bias, acc_t<T>* running_mean, acc_t<T>* running_var, acc_t<T>* save_mean,
    acc_t<T>* save_invstd, double momentum, double eps, long long rows, long long channels) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    long long column = first_column<N>(channels);
    Welford<A> all[N];
#pragma unroll
    for (int k = 0; k < N; k++) all[k] = Welford<A>::none();
    if (pieces) {
        if (column >= 0)
            for (long long piece = threadIdx.y; piece < pieces; piece += blockDim.y)
#pragma unroll
                for (int k = 0; k < N; k++) all[k].merge(piece_of(partial, pieces, channels, piece, column + k));
        column_merge(all);
    }
    if (column < 0) return;
    A mean[N], scale[N], shift[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        long long channel = column + k;
        mean[k] = pieces ? all[k].mean : given_mean[channel];
        A invstd = inverse_root((pieces ? all[k].m2 / all[k].count : given_var[channel]) + A(eps));
        if (pieces && blockIdx.y == 0 && threadIdx.y == 0)
            keep_statistics(all[k], invstd, channel, running_mean, running_var, save_mean, save_invstd, A(momentum));
        scale[k] = invstd * (weight ? weight[channel] : A(1));
        shift[k] = bias ? bias[channel] : A(0);
    }
    FOR_EACH_ROW(row) {
        long long at = (rows - 1 - row) * channels + column;
        A values[N];
        load<N>(x + at, values);
#pragma unroll
        for (int k = 0; k < N; k++) values[k] = (values[k] - mean[k]) * scale[k] + shift[k];
        store<N>(y + at, values);
    }
}
"""

# %%
#| into: aten/native/cuda/normalization.cu
#| upstream: aten/src/ATen/native/cuda/Normalization.cuh#at::native::batch_norm_backward_reduce_channels_last_kernel
COLUMNS_BACKWARD = r"""
template <class T, bool WIDE>
__global__ void __launch_bounds__(256) batch_norm_backward_reduce_channels_last(
    const T* dy, const T* x, const acc_t<T>* mean, acc_t<T>* partial, long long rows, long long channels) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    long long column = first_column<N>(channels);
    Sums<A> all[N];
    A centre[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        all[k] = Sums<A>::none();
        centre[k] = column >= 0 ? mean[column + k] : A(0);
    }
    if (column >= 0) {
#pragma unroll 2
        FOR_EACH_ROW(row) {
            A g[N], values[N];
            load<N>(dy + row * channels + column, g);
            load<N>(x + row * channels + column, values);
#pragma unroll
            for (int k = 0; k < N; k++) all[k].merge({g[k], g[k] * (values[k] - centre[k])});
        }
    }
    column_merge(all);
    if (threadIdx.y == 0 && column >= 0) {
        long long pieces = gridDim.y;
#pragma unroll
        for (int k = 0; k < N; k++) {
            partial[blockIdx.y * channels + column + k] = all[k].one;
            partial[(pieces + blockIdx.y) * channels + column + k] = all[k].other;
        }
    }
}

template <class T, bool WIDE>
__global__ void __launch_bounds__(256) batch_norm_backward_elemt_channels_last(
    const T* dy, const T* x, T* dx, const acc_t<T>* partial, long long pieces, const acc_t<T>* mean, const acc_t<T>* invstd,
    const acc_t<T>* weight, acc_t<T>* dw, acc_t<T>* db, long long training, long long rows, long long channels) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    long long column = first_column<N>(channels);
    Sums<A> all[N];
#pragma unroll
    for (int k = 0; k < N; k++) all[k] = Sums<A>::none();
    if (column >= 0)
        for (long long piece = threadIdx.y; piece < pieces; piece += blockDim.y)
#pragma unroll
            for (int k = 0; k < N; k++)
                all[k].merge({partial[piece * channels + column + k], partial[(pieces + piece) * channels + column + k]});
    column_merge(all);
    if (column < 0) return;
    A centre[N], level[N], slope[N], scale[N];
#pragma unroll
    for (int k = 0; k < N; k++) {
        long long channel = column + k;
        A inverse = invstd[channel];
        if (blockIdx.y == 0 && threadIdx.y == 0) {
            db[channel] = all[k].one;
            dw[channel] = all[k].other * inverse;
        }
        centre[k] = mean[channel];
        scale[k] = inverse * (weight ? weight[channel] : A(1));
        level[k] = training ? all[k].one / A(rows) : A(0);
        slope[k] = training ? all[k].other / A(rows) * inverse * inverse : A(0);
    }
    FOR_EACH_ROW(row) {
        long long at = (rows - 1 - row) * channels + column;
        A g[N], values[N];
        load<N>(dy + at, g);
        load<N>(x + at, values);
#pragma unroll
        for (int k = 0; k < N; k++) g[k] = (g[k] - level[k] - (values[k] - centre[k]) * slope[k]) * scale[k];
        store<N>(dx + at, g);
    }
}
"""

# %% [markdown]
# ## Launching
#
# The wrapper has the operator's signature and result. It looks at the layout, chooses the grid, and allocates: the output, the saved statistics, and one small array for the pieces. Weight, bias and statistics are passed in the arithmetic's type, whatever the input's; where they are not of that type they are few, and a copy is cheap.

# %%
#| into: aten/native/cuda/normalization.py
#| imports
from __future__ import annotations

import math
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.convolution import is_channels_last
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

# %%
#| into: aten/native/cuda/normalization.py
_FILE = "aten/native/cuda/normalization.cu"
_THREADS = 256
_PLANES, _ROWS = (
    {name: Kernel(_FILE, f"batch_norm_{name}{suffix}", VARIANTS) for name in (
        "collect_statistics", "transform_input", "backward_reduce", "backward_elemt"
    )}
    for suffix in ("", "_channels_last")
)  # fmt: skip
_MERGE_STATISTICS = Kernel(_FILE, "batch_norm_merge_statistics", ("float", "double"))
_MERGE_SUMS = Kernel(_FILE, "batch_norm_merge_sums", ("float", "double"))
_BLOCKS = 32
"""Blocks for each multiprocessor."""

_MERGED_AT_ONCE = 64
"""More pieces of a channel than these are merged by a kernel of its own."""


class _Layout:
    """How a batch lies in memory: `(N, C, P)` or, with channels last, `(N P, C)`; the grid for it."""

    def __init__(self, x: Array, *others: Array) -> None:
        self.channels = x.shape[1]
        self.last = x.ndim == 2 or is_channels_last(x)
        xp = array_module(x)
        arrays = [xp.ascontiguousarray(xp.moveaxis(a, 1, -1) if self.last else a) for a in (x, *others)]
        self.arrays = arrays
        self.inside = arrays[0].shape
        count = x.size // self.channels
        processors = jit_utils.target.multiprocessors()
        if self.last:
            wide = is_wide(self.channels, *arrays)
            groups = self.channels // lanes(x, wide)
            across = min(32, 1 << (groups - 1).bit_length())
            down = _THREADS // across
            tiles = -(-groups // across)
            self.block: jit_utils.Dim = (across, down)
            self.pieces = max(1, min(_BLOCKS * processors // tiles, -(-count // (4 * down))))
            self.grid = (tiles, self.pieces)
            self.sizes: tuple[int, ...] = (count, self.channels)
        else:
            places = math.prod(x.shape[2:])
            wide = is_wide(places, *arrays)
            vectors = count // lanes(x, wide)
            self.block = _THREADS
            self.pieces = max(1, min(_BLOCKS * processors // self.channels, -(-vectors // (4 * _THREADS))))
            self.grid = (self.channels, self.pieces)
            self.sizes = (len(x), self.channels, places)
        kernels = _ROWS if self.last else _PLANES
        kind = cpp_type(x)
        assert kind is not None
        self.kernels = {name: kernel[kind, flag(wide)] for name, kernel in kernels.items()}

    def launch(self, name: str, *arguments: Any) -> None:
        self.kernels[name](self.grid, self.block, *arguments, *self.sizes)

    def merged(self, kernel: Kernel, partial: Array) -> tuple[Array, int]:
        """Summaries of pieces, merged if they are many, and how many there are of a channel now."""
        if self.pieces <= (8 if self.last else _MERGED_AT_ONCE):
            return partial, self.pieces
        whole = array_module(partial).empty((len(partial), 1, self.channels), partial.dtype)
        kernel["double" if partial.dtype.itemsize == 8 else "float"](
            self.channels, _THREADS, partial, whole, self.pieces, self.channels
        )
        return whole, 1

    def like_input(self, y: Array) -> Array:
        """A result in the input's shape."""
        return array_module(y).moveaxis(y, -1, 1) if self.last else y


# %%
#| into: aten/native/cuda/normalization.py
#| upstream: aten/src/ATen/native/cuda/Normalization.cu#at::native::batch_norm_cuda
def native_batch_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Output, and in training the batch's mean and 1 / sqrt(variance + eps) per channel, else two empty arrays.

    NotImplemented where the kernels do not apply: dtypes other than floating ones, and empty inputs.
    """
    if cpp_type(input) is None or input.size == 0:
        return NotImplemented
    xp, kind = array_module(input), accumulator(input)
    layout = _Layout(input)
    (x,) = layout.arrays
    y = xp.empty_like(x)
    w, b, mean, var = (as_accumulator(a, kind) for a in (weight, bias, running_mean, running_var))
    if not training:
        layout.launch("transform_input", x, y, None, 0, mean, var, w, b, None, None, None, None, 0.0, float(eps))
        return layout.like_input(y), xp.empty(0, kind), xp.empty(0, kind)
    partial = xp.empty((3, layout.pieces, layout.channels), kind)
    save_mean, save_invstd = xp.empty(layout.channels, kind), xp.empty(layout.channels, kind)
    layout.launch("collect_statistics", x, partial)
    given = (*layout.merged(_MERGE_STATISTICS, partial), None, None, w, b)
    kept = (mean, var, save_mean, save_invstd)
    layout.launch("transform_input", x, y, *given, *kept, float(momentum), float(eps))
    for running, moved in ((running_mean, mean), (running_var, var)):
        if running is not None and running is not moved:
            running[...] = moved
    return layout.like_input(y), save_mean, save_invstd


# %%
#| into: aten/native/cuda/normalization.py
#| upstream: aten/src/ATen/native/cuda/Normalization.cu#at::native::batch_norm_backward_cuda
def native_batch_norm_backward(
    grad_out: Array,
    input: Array,
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    save_mean: Array | None,
    save_invstd: Array | None,
    train: bool,
    eps: float,
) -> Any:
    """The gradients with respect to input, weight and bias; NotImplemented as `native_batch_norm`."""
    if cpp_type(input) is None or input.size == 0 or grad_out.dtype != input.dtype:
        return NotImplemented
    xp, kind = array_module(input), accumulator(input)
    layout = _Layout(input, grad_out)
    x, dy = layout.arrays
    mean, invstd = save_mean, save_invstd
    if not train:
        mean = as_accumulator(running_mean, kind)
        var = as_accumulator(running_var, kind)
        assert var is not None
        invstd = 1 / xp.sqrt(var + kind.type(eps))
    partial = xp.empty((2, layout.pieces, layout.channels), kind)
    dx, dw, db = xp.empty_like(x), xp.empty(layout.channels, kind), xp.empty(layout.channels, kind)
    layout.launch("backward_reduce", dy, x, mean, partial)
    statistics = (mean, invstd, as_accumulator(weight, kind))
    sums = layout.merged(_MERGE_SUMS, partial)
    layout.launch("backward_elemt", dy, x, dx, *sums, *statistics, dw, db, int(train))
    given = input.dtype if weight is None else weight.dtype
    return layout.like_input(dx), dw.astype(given, copy=False), db.astype(given, copy=False)


# %% [markdown]
# ## Beside its twin
#
# The same batch by the kernels, executed on the CPU from the source above, and by `aten/native/normalization.py` in float64. The device is told to have two multiprocessors, so that there are pieces to merge; a launch is shown as kernel, grid and block.

# %%
from readtorch.aten.native import normalization as twin
from readtorch.aten.native.cuda import normalization as kernels
from readtorch.aten.native.cuda.jit_utils import running_on
from readtorch.literate import fibres

if fibres.available():
    batch = (1000 + np.random.default_rng(0).standard_normal((16, 8, 28, 28))).astype(np.float32)
    options = (None, None, None, None, True, 0.1, 1e-5)
    device = fibres.OnCpu(multiprocessors=2)
    with running_on(device):
        y, mean, invstd = kernels.native_batch_norm(batch, *options)
    exact = twin.native_batch_norm(batch.astype(np.float64), *options)[0]
    for launch in device.launches:
        print(*launch)
    print(f"largest error {abs(y - exact).max():.0e}, of numbers whose mean is a thousand times their deviation")
else:
    print("there is no g++ here")

# %% [markdown]
# ### What upstream does more
# The statistics of one device and the normalization are operators of their own there (`batch_norm_stats`, `batch_norm_elemt`), because `SyncBatchNorm` has to put an exchange between them. Training goes to cuDNN by default, whose kernels keep a channel in shared memory where it fits; these take over for what cuDNN declines. Channels get one block each, so a
# layer of 64 channels leaves part of a large device without work; channels last splits columns over blocks and counts them off with atomic operations.
