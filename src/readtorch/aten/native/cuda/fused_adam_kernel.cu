// Tangled from chapters/a3_kernels/5_optimizers.py — edit there, or here and run `readtorch sync`.
#include "aten/native/cuda/multi_tensor_apply.cuh"

template <class T>
struct Adam {
    using A = acc_t<T>;
    T *param, *exp_avg, *exp_avg_sq, *max_exp_avg_sq;
    const T* grad;
    A beta1, beta2, decay, shrink, size, floor, sign;

    template <int N>
    __device__ __forceinline__ void run(int i) const {
        A p[N], g[N], m[N], v[N], most[N];
        load<N>(param + i, p);
        load<N>(grad + i, g);
        load<N>(exp_avg + i, m);
        load<N>(exp_avg_sq + i, v);
        if (max_exp_avg_sq) load<N>(max_exp_avg_sq + i, most);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A gradient = sign * g[k] + decay * p[k];
            p[k] *= shrink;
            m[k] += (1 - beta1) * (gradient - m[k]);
            v[k] = beta2 * v[k] + (1 - beta2) * gradient * gradient;
            A second = v[k];
            if (max_exp_avg_sq) second = most[k] = most[k] > v[k] ? most[k] : v[k];
            p[k] += size * m[k] / (sqrt(second) + floor);
        }
        store<N>(param + i, p);
        store<N>(exp_avg + i, m);
        store<N>(exp_avg_sq + i, v);
        if (max_exp_avg_sq) store<N>(max_exp_avg_sq + i, most);
    }
};

// decay: the weight decay that goes into the gradient; shrink: the factor that decoupled decay puts on the parameter. corrections: null,
// or for each array what size and floor are still to be multiplied by.
template <class T, bool WIDE>
__global__ void __launch_bounds__(512) fused_adam(
    const long long* table, long long arrays, long long amsgrad, const double* corrections, double beta1, double beta2, double decay,
    double shrink, double size, double floor, double sign) {
    Piece piece(table, amsgrad ? 5 : 4, arrays);
    if (corrections) {
        size *= corrections[2 * piece.which];
        floor *= corrections[2 * piece.which + 1];
    }
    using A = acc_t<T>;
    Adam<T> adam;
    adam.param = piece.array<T>(0);
    adam.grad = piece.array<T>(1);
    adam.exp_avg = piece.array<T>(2);
    adam.exp_avg_sq = piece.array<T>(3);
    adam.max_exp_avg_sq = amsgrad ? piece.array<T>(4) : nullptr;
    adam.beta1 = A(beta1), adam.beta2 = A(beta2), adam.decay = A(decay), adam.shrink = A(shrink);
    adam.size = A(size), adam.floor = A(floor), adam.sign = A(sign);
    for_each_element<WIDE>(piece.size, adam);
}
