// Tangled from chapters/a3_kernels/5_optimizers.py — edit there, or here and run `readtorch sync`.
#include "aten/native/cuda/memory_access.cuh"

constexpr int CHUNK = 16384;

// The piece of one array of each list that a block works on. table: (lists, arrays) addresses, then the arrays' sizes, then
// the number of each array's first block.
struct Piece {
    const long long* addresses;
    long long arrays, start;
    int size, which;

    __device__ __forceinline__ Piece(const long long* table, long long lists, long long arrays) : arrays(arrays) {
        const long long* sizes = table + lists * arrays;
        const long long* first = sizes + arrays;
        int low = 0, high = int(arrays);
        while (high - low > 1) {
            int middle = (low + high) / 2;
            if (first[middle] <= (long long)blockIdx.x)
                low = middle;
            else
                high = middle;
        }
        start = (blockIdx.x - first[low]) * CHUNK;
        long long left = sizes[low] - start;
        size = left < CHUNK ? int(left) : CHUNK;
        addresses = table + low;
        which = low;
    }
    template <class T>
    __device__ __forceinline__ T* array(int list) const {
        return reinterpret_cast<T*>(addresses[list * arrays]) + start;
    }
};

// Runs `body` on the elements of a piece: body.template run<N>(first element).
template <bool WIDE, class Body>
__device__ __forceinline__ void for_each_element(int size, const Body& body) {
    int done = 0;
    if (WIDE) {
        done = size / 4 * 4;
        for (int i = threadIdx.x * 4; i < done; i += blockDim.x * 4) body.template run<4>(i);
    }
    for (int i = done + threadIdx.x; i < size; i += blockDim.x) body.template run<1>(i);
}
