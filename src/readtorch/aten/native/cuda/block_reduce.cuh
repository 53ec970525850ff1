// Tangled from chapters/a3_kernels/1_launching.py — edit there, or here and run `readtorch sync`.
// The merge of what the 32 lanes hold, in all of them.
template <class Summary>
__device__ __forceinline__ Summary warp_merge(Summary mine) {
#pragma unroll
    for (int away = 16; away > 0; away /= 2) mine.merge(mine.down(away));
    return mine.first();
}

// The merge of what the threads of a block hold, in all of them. Every thread of the block has to call it; their number is a
// multiple of 32.
template <class Summary>
__device__ __forceinline__ Summary block_merge(Summary mine) {
    __shared__ Summary parts[32];
    __shared__ Summary whole;
    int thread = threadIdx.x + blockDim.x * threadIdx.y;
    int warps = blockDim.x * blockDim.y / 32;
    mine = warp_merge(mine);
    if (warps == 1) return mine;
    if (thread % 32 == 0) parts[thread / 32] = mine;
    __syncthreads();
    if (thread < 32) {
        Summary all = warp_merge(thread < warps ? parts[thread] : Summary::none());
        if (thread == 0) whole = all;
    }
    __syncthreads();
    return whole;
}

// Sums of two things at a time.
template <class A>
struct Sums {
    A one, other;
    static __device__ Sums none() { return {0, 0}; }
    __device__ __forceinline__ void merge(const Sums& more) {
        one += more.one;
        other += more.other;
    }
    __device__ __forceinline__ Sums down(int away) const {
        return {__shfl_down_sync(~0u, one, away), __shfl_down_sync(~0u, other, away)};
    }
    __device__ __forceinline__ Sums first() const { return {__shfl_sync(~0u, one, 0), __shfl_sync(~0u, other, 0)}; }
};
