// Tangled from chapters/a3_kernels/1_launching.py — edit there, or here and run `readtorch sync`.
struct Half {
    unsigned short bits;
};
struct BFloat16 {
    unsigned short bits;
};

// What arithmetic on T is done in.
template <class T>
struct Accumulator {
    using type = float;
};
template <>
struct Accumulator<double> {
    using type = double;
};
template <class T>
using acc_t = typename Accumulator<T>::type;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ double widen(double x) { return x; }
__device__ __forceinline__ float widen(BFloat16 x) { return __uint_as_float(unsigned(x.bits) << 16); }
__device__ __forceinline__ float widen(Half x) {
#ifdef __CUDA_ARCH__
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
#else
    _Float16 narrow;
    memcpy(&narrow, &x, sizeof narrow);
    return float(narrow);
#endif
}

template <class T>
__device__ __forceinline__ T narrowed(acc_t<T> x) {
    return x;
}
template <>
__device__ __forceinline__ BFloat16 narrowed<BFloat16>(float x) {
    unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fc0};  // not a number, and rounding must not make it infinite
    return {static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
template <>
__device__ __forceinline__ Half narrowed<Half>(float x) {
    Half result;
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
#else
    _Float16 narrow = x;
    memcpy(&result, &narrow, sizeof narrow);
#endif
    return result;
}

// N numbers that are loaded and stored by one instruction.
template <class T, int N>
struct alignas(sizeof(T) * N) Vec {
    T value[N];
};

template <class T, bool WIDE>
constexpr int lanes = WIDE ? 16 / int(sizeof(T)) : 1;

// N numbers from `from`, widened: in pieces of 16 bytes, or the N in one where they are fewer.
template <int N, class T>
__device__ __forceinline__ void load(const T* from, acc_t<T> (&to)[N]) {
    constexpr int PIECE = N * int(sizeof(T)) > 16 ? 16 / int(sizeof(T)) : N;
#pragma unroll
    for (int start = 0; start < N; start += PIECE) {
        Vec<T, PIECE> piece = *reinterpret_cast<const Vec<T, PIECE>*>(from + start);
#pragma unroll
        for (int k = 0; k < PIECE; k++) to[start + k] = widen(piece.value[k]);
    }
}

template <int N, class T>
__device__ __forceinline__ void store(T* to, const acc_t<T> (&from)[N]) {
    constexpr int PIECE = N * int(sizeof(T)) > 16 ? 16 / int(sizeof(T)) : N;
#pragma unroll
    for (int start = 0; start < N; start += PIECE) {
        Vec<T, PIECE> piece;
#pragma unroll
        for (int k = 0; k < PIECE; k++) piece.value[k] = narrowed<T>(from[start + k]);
        *reinterpret_cast<Vec<T, PIECE>*>(to + start) = piece;
    }
}
