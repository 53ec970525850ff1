// Tangled from chapters/a3_kernels/6_dropout.py — edit there, or here and run `readtorch sync`.
#include "aten/native/cuda/memory_access.cuh"
#include "aten/core/philox_rng_engine.cuh"

// y = x / keep where a random number is below `keep`, else zero; mask: which.
template <class T, bool WIDE>
__global__ void __launch_bounds__(256) fused_dropout(
    const T* x, T* y, unsigned char* mask, double keep, long long seed, long long offset, long long count) {
    using A = acc_t<T>;
    long long group = blockIdx.x * 256LL + threadIdx.x, start = group * 4;
    if (start >= count) return;
    Philox random = philox(seed, group, offset / 4);
    A scale = A(1) / A(keep);
    if (WIDE && start + 4 <= count) {
        A values[4];
        Vec<unsigned char, 4> kept;
        load<4>(x + start, values);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            kept.value[k] = uniform(random.number[k]) < float(keep);
            values[k] = kept.value[k] ? values[k] * scale : A(0);
        }
        store<4>(y + start, values);
        *reinterpret_cast<Vec<unsigned char, 4>*>(mask + start) = kept;
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (start + k < count) {
                bool kept = uniform(random.number[k]) < float(keep);
                y[start + k] = narrowed<T>(kept ? widen(x[start + k]) * scale : A(0));
                mask[start + k] = kept;
            }
    }
}

template <class T, bool WIDE>
__global__ void __launch_bounds__(256) masked_scale(const T* dy, const unsigned char* mask, T* dx, double scale, long long count) {
    using A = acc_t<T>;
    long long start = (blockIdx.x * 256LL + threadIdx.x) * 4;
    if (start >= count) return;
    if (WIDE && start + 4 <= count) {
        A values[4];
        load<4>(dy + start, values);
        Vec<unsigned char, 4> kept = *reinterpret_cast<const Vec<unsigned char, 4>*>(mask + start);
#pragma unroll
        for (int k = 0; k < 4; k++) values[k] = kept.value[k] ? values[k] * A(scale) : A(0);
        store<4>(dx + start, values);
    } else {
        for (long long i = start; i < min(count, start + 4); i++)
            dx[i] = narrowed<T>(mask[i] ? widen(dy[i]) * A(scale) : A(0));
    }
}
