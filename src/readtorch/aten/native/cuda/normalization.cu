// Tangled from chapters/a3_kernels/2_batch_norm.py — edit there, or here and run `readtorch sync`.
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
