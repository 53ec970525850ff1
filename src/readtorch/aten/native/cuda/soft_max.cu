// Tangled from chapters/a3_kernels/4_softmax_and_loss.py — edit there, or here and run `readtorch sync`.
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
