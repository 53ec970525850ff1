// Tangled from chapters/a3_kernels/3_layer_norm.py — edit there, or here and run `readtorch sync`.
#include "aten/native/cuda/memory_access.cuh"
#include "aten/native/cuda/block_reduce.cuh"

// The vectors that a thread keeps in registers.
constexpr int HELD = 4;

// The merge over the threads of a row: a warp, or the block.
template <class Summary>
__device__ __forceinline__ Summary row_merge(Summary mine) {
    return blockDim.x == 32 ? warp_merge(mine) : block_merge(mine);
}

// Runs `body(number of the register vector, index of the row's vector)` for what a thread holds of a row.
#define FOR_EACH_HELD(k, i) \
    _Pragma("unroll") for (int k = 0, i = threadIdx.x; k < HELD; k++, i += blockDim.x) if (i < vectors)

// The vectors of a thread beyond those that it holds.
#define FOR_EACH_BEYOND(i) for (int i = threadIdx.x + HELD * blockDim.x; i < vectors; i += blockDim.x)
