// Tangled from chapters/a3_kernels/5_optimizers.py — edit there, or here and run `readtorch sync`.
#include "aten/native/cuda/multi_tensor_apply.cuh"

template <class T>
struct Sgd {
    using A = acc_t<T>;
    T *param, *buffer;
    const T* grad;
    A decay, momentum, lr, taken, sign;
    bool first, nesterov;

    template <int N>
    __device__ __forceinline__ void run(int i) const {
        A p[N], g[N], b[N];
        load<N>(param + i, p);
        load<N>(grad + i, g);
        if (buffer && !first) load<N>(buffer + i, b);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A gradient = sign * g[k] + decay * p[k];
            if (buffer) {
                b[k] = first ? gradient : momentum * b[k] + taken * gradient;
                gradient = nesterov ? gradient + momentum * b[k] : b[k];
            }
            p[k] -= lr * gradient;
        }
        store<N>(param + i, p);
        if (buffer) store<N>(buffer + i, b);
    }
};

// taken: one less the dampening.
template <class T, bool WIDE>
__global__ void __launch_bounds__(512) fused_sgd(
    const long long* table, long long arrays, long long buffers, long long first, long long nesterov, double decay, double momentum,
    double lr, double taken, double sign) {
    Piece piece(table, buffers ? 3 : 2, arrays);
    using A = acc_t<T>;
    Sgd<T> sgd;
    sgd.param = piece.array<T>(0);
    sgd.grad = piece.array<T>(1);
    sgd.buffer = buffers ? piece.array<T>(2) : nullptr;
    sgd.first = first, sgd.nesterov = nesterov;
    sgd.decay = A(decay), sgd.momentum = A(momentum), sgd.lr = A(lr), sgd.taken = A(taken), sgd.sign = A(sign);
    for_each_element<WIDE>(piece.size, sgd);
}
