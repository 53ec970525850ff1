// Tangled from chapters/a3_kernels/5_optimizers.py — edit there, or here and run `readtorch sync`.
#include "aten/native/cuda/multi_tensor_apply.cuh"

template <class T>
struct Lerp {
    using A = acc_t<T>;
    T* start;
    const T* end;
    A weight;

    template <int N>
    __device__ __forceinline__ void run(int i) const {
        A from[N], to[N];
        load<N>(start + i, from);
        load<N>(end + i, to);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A far = to[k] - from[k];
            from[k] = weight < A(0.5) ? from[k] + weight * far : to[k] - far * (1 - weight);
        }
        store<N>(start + i, from);
    }
};

template <class T, bool WIDE>
__global__ void __launch_bounds__(512) foreach_lerp(const long long* table, long long arrays, double weight) {
    Piece piece(table, 2, arrays);
    Lerp<T> lerp;
    lerp.start = piece.array<T>(0);
    lerp.end = piece.array<T>(1);
    lerp.weight = acc_t<T>(weight);
    for_each_element<WIDE>(piece.size, lerp);
}
