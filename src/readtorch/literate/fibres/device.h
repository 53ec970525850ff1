// What a CUDA source finds in place of the device when g++ compiles it: built-in variables, barriers, shuffles, atomics.
// One fibre is one CUDA thread; runtime.cpp switches between them and judges every memory access.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

struct dim3 {
    unsigned x, y, z;
};

extern dim3 gridDim, blockDim, blockIdx, threadIdx;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

using std::max;
using std::min;

namespace fibres {
enum Wait { BARRIER = 1, WARP = 2 };

// Suspends the fibre until its block (or the lanes of `mask`) stand at the same `file:line`.
void wait(Wait what, unsigned mask, const char* file, int line);
unsigned lane();
// 16 bytes of this fibre's warp mates, by lane; two sets are used in turn, so that one wait serves a shuffle.
char* mailbox(unsigned lane);
void next_mailbox();
void atomic(const void* address, int bytes, void* site);
[[noreturn]] void trap();

#define FIBRES_UNCHECKED __attribute__((no_sanitize_thread))

template <class T>
FIBRES_UNCHECKED T exchange(unsigned mask, T value, unsigned from, const char* file, int line) {
    static_assert(sizeof(T) <= 16, "a shuffle moves at most 16 bytes here");
    memcpy(mailbox(lane()), &value, sizeof(T));
    wait(WARP, mask, file, line);
    T result;
    memcpy(&result, mailbox(from), sizeof(T));
    next_mailbox();
    return result;
}
}  // namespace fibres

#define FIBRES_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(FIBRES_HERE) { fibres::wait(fibres::BARRIER, ~0u, file, line); }
inline void __syncwarp(unsigned mask = ~0u, FIBRES_HERE) { fibres::wait(fibres::WARP, mask, file, line); }

template <class T>
FIBRES_UNCHECKED T __shfl_sync(unsigned mask, T value, unsigned from, int width = 32, FIBRES_HERE) {
    unsigned me = fibres::lane();
    return fibres::exchange(mask, value, (me & ~(width - 1u)) | (from & (width - 1u)), file, line);
}
template <class T>
FIBRES_UNCHECKED T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, FIBRES_HERE) {
    unsigned me = fibres::lane();
    return fibres::exchange(mask, value, (me & (width - 1u)) + by < unsigned(width) ? me + by : me, file, line);
}
template <class T>
FIBRES_UNCHECKED T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, FIBRES_HERE) {
    unsigned me = fibres::lane();
    return fibres::exchange(mask, value, (me & (width - 1u)) >= by ? me - by : me, file, line);
}
template <class T>
FIBRES_UNCHECKED T __shfl_xor_sync(unsigned mask, T value, unsigned with, int width = 32, FIBRES_HERE) {
    return fibres::exchange(mask, value, fibres::lane() ^ with, file, line);
}

template <class T>
FIBRES_UNCHECKED T atomicAdd(T* address, T value) {
    fibres::atomic(address, sizeof(T), __builtin_return_address(0));
    T old = *address;
    *address = old + value;
    return old;
}
template <class T>
FIBRES_UNCHECKED T atomicMax(T* address, T value) {
    fibres::atomic(address, sizeof(T), __builtin_return_address(0));
    T old = *address;
    *address = old < value ? value : old;
    return old;
}

inline __attribute__((always_inline)) void __trap() { fibres::trap(); }

inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((uint64_t(a) * b) >> 32); }
inline float __uint_as_float(unsigned bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    return bits;
}
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }

namespace fibres {
// Calls a kernel with arguments given as cuLaunchKernel takes them: an array of pointers to the values.
template <class... A, size_t... I>
FIBRES_UNCHECKED void unpack(void (*kernel)(A...), void** values, std::index_sequence<I...>) {
    kernel(*static_cast<typename std::remove_cv<A>::type*>(values[I])...);
}
template <auto KERNEL>
struct Call;
template <class... A, void (*KERNEL)(A...)>
struct Call<KERNEL> {
    static constexpr int count = sizeof...(A);
    FIBRES_UNCHECKED static void run(void** values) { unpack(KERNEL, values, std::index_sequence_for<A...>{}); }
};
struct Entry {
    const char* name;
    int parameters;
    void (*run)(void**);
};
}  // namespace fibres
