// Tangled from chapters/a3_kernels/4_softmax_and_loss.py — edit there, or here and run `readtorch sync`.
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
