// Tangled from chapters/a3_kernels/6b_a_chain_in_one_pass.py — edit there, or here and run `readtorch sync`.
#include "aten/native/cuda/memory_access.cuh"
#include "aten/native/cuda/math.cuh"


template <class A>
struct Gelu {
    static constexpr double ROOT = 0.7978845608028654, CUBIC = 0.044715;  // √(2/π)

    template <bool TANH>
    static __device__ __forceinline__ A value(A x) {
        if (TANH) return A(0.5) * x * (1 + hyperbolic_tangent(A(ROOT) * (x + A(CUBIC) * x * x * x)));
        return A(0.5) * x * (1 + error_function(x * A(0.7071067811865476)));
    }
    template <bool TANH>
    static __device__ __forceinline__ A slope(A x) {
        if (TANH) {
            A square = x * x;
            A bend = hyperbolic_tangent(A(ROOT) * x * (1 + A(CUBIC) * square));
            return A(0.5) * (1 + bend) + A(0.5) * x * (1 - bend * bend) * A(ROOT) * (1 + A(3 * CUBIC) * square);
        }
        A below = A(0.5) * (1 + error_function(x * A(0.7071067811865476)));
        return below + x * exponential(A(-0.5) * x * x) * A(0.3989422804014327);  // 1 / √(2π)
    }
};

template <class T, bool WIDE, bool TANH>
__global__ void __launch_bounds__(256) gelu_forward(const T* x, T* y, long long count) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    long long start = (blockIdx.x * 256LL + threadIdx.x) * N;
    if (start + N <= count) {
        A values[N];
        load<N>(x + start, values);
#pragma unroll
        for (int k = 0; k < N; k++) values[k] = Gelu<A>::template value<TANH>(values[k]);
        store<N>(y + start, values);
    } else {
        for (long long i = start; i < count; i++) y[i] = narrowed<T>(Gelu<A>::template value<TANH>(widen(x[i])));
    }
}

template <class T, bool WIDE, bool TANH>
__global__ void __launch_bounds__(256) gelu_backward(const T* dy, const T* x, T* dx, long long count) {
    constexpr int N = lanes<T, WIDE>;
    using A = acc_t<T>;
    long long start = (blockIdx.x * 256LL + threadIdx.x) * N;
    if (start + N <= count) {
        A g[N], values[N];
        load<N>(dy + start, g);
        load<N>(x + start, values);
#pragma unroll
        for (int k = 0; k < N; k++) g[k] *= Gelu<A>::template slope<TANH>(values[k]);
        store<N>(dx + start, g);
    } else {
        for (long long i = start; i < count; i++)
            dx[i] = narrowed<T>(widen(dy[i]) * Gelu<A>::template slope<TANH>(widen(x[i])));
    }
}
