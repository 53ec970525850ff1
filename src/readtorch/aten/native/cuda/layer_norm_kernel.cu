// Tangled from chapters/a3_kernels/3_layer_norm.py — edit there, or here and run `readtorch sync`.
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
