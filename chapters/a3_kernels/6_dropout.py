# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Dropout: random numbers without a state
#
# A generator with a state gives its numbers one after another, which is what a hundred thousand threads cannot wait for. Philox (Salmon, Moraes, Dror and Shaw 2011) has no state: it is a function that scrambles a *counter* with a *key*, ten rounds of two multiplications, into four 32-bit numbers. Whoever needs the numbers of element 1,000,000 computes them from that index.
# The seed is the key. What a generator has to remember is one number, how far the counter has come: the *offset*.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# The generator's own part (`aten/core/philox_rng_engine.py`) has it in NumPy. Of the counter's 128 bits the upper 64 number a *subsequence*, the lower 64 hold the offset in units of four numbers.

# %% [markdown]
# The authors of Philox published what it must give. Two of their test vectors, all counter and key bits off and all on:

# %%
#| source: https://github.com/DEShawResearch/random123
from readtorch.aten.core.philox_rng_engine import philox

every = 2**64 - 1
for seed, subsequence, offset in ((0, 0, 0), (every, every, every)):
    print(" ".join(f"{number:08x}" for number in philox(seed, offset, 1, first=subsequence)[0]))

# %% [markdown]
# The same in CUDA. `__umulhi` gives the upper half of a product of two 32-bit numbers.

# %%
#| into: aten/core/philox_rng_engine.cuh
#| upstream: aten/src/ATen/core/PhiloxRNGEngine.h#at::philox_engine
PHILOX = r"""
struct Philox {
    unsigned number[4];
};

__device__ __forceinline__ Philox philox(unsigned long long seed, unsigned long long subsequence, unsigned long long offset) {
    unsigned a = unsigned(offset), b = unsigned(offset >> 32), c = unsigned(subsequence), d = unsigned(subsequence >> 32);
    unsigned low = unsigned(seed), high = unsigned(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned one = a * 0xD2511F53u, two = c * 0xCD9E8D57u;
        unsigned first = __umulhi(c, 0xCD9E8D57u) ^ b ^ low, third = __umulhi(a, 0xD2511F53u) ^ d ^ high;
        a = first, b = two, c = third, d = one;
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    return {{a, b, c, d}};
}

// In (0, 1].
__device__ __forceinline__ float uniform(unsigned bits) { return bits * 2.3283064365386963e-10f + 1.1641532182693481e-10f; }
"""

# %% [markdown]
# ## Who gets which number?
#
# Upstream's kernel gives each *thread* a subsequence. A thread takes four neighbouring elements and four numbers, then steps over the whole grid and takes the next four of its subsequence. So which number an element gets depends on how many threads there are, which depends on the device: PyTorch's dropout on two kinds of GPU differs for large tensors, from the same seed.
#
# Here the subsequence is the number of the group of four elements, whatever thread computes it. Every GPU, the simulated one and NumPy give the same mask. For tensors that upstream's grid covers in one step (a million float32 elements on an H200) it is also upstream's mask: there the thread's number is the group's.
#
# Afterwards the generator's offset goes up by four, the numbers that each subsequence has given.

# %%
#| into: aten/native/cuda/dropout.cu
#| upstream: aten/src/ATen/native/cuda/Dropout.cu#at::native::fused_dropout_kernel_vec
DROPOUT = r"""
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
"""

# %% [markdown]
# Traffic: 4 bytes in, 4 out and one for the mask, **9 per float32 element**, forward and backward alike. Written with array operators it is a draw (4 written), a comparison (4 and 1), a conversion (1 and 4), a division (8) and a product (12). A block of 256 threads looks after 1,024 elements; there is nothing to share, so its size hardly matters.

# %%
#| into: aten/native/cuda/dropout.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import VARIANTS, Kernel, array_module, cpp_type, flag, pointer

# %%
#| into: aten/native/cuda/dropout.py
_DROPOUT = Kernel("aten/native/cuda/dropout.cu", "fused_dropout", VARIANTS)
_MASKED_SCALE = Kernel("aten/native/cuda/dropout.cu", "masked_scale", VARIANTS)

COUNTED = 4
"""How far a call moves the generator's offset."""


def _aligned(*arrays: Array) -> str:
    """Shall groups of four be read at once?"""
    return flag(all(pointer(a) % (4 * a.itemsize) == 0 and a.dtype != np.float64 for a in arrays))


# %%
#| into: aten/native/cuda/dropout.py
#| upstream: aten/src/ATen/native/cuda/Dropout.cu#at::native::native_dropout_cuda
def native_dropout(input: Array, p: float, seed: int, offset: int) -> Any:
    """`input` with elements zeroed with probability `p < 1` and the others divided by `1 - p`; and the mask of what was kept.

    NotImplemented for other than floating dtypes.
    """
    kind = cpp_type(input)
    if kind is None:
        return NotImplemented
    xp = array_module(input)
    x = xp.ascontiguousarray(input)
    y, mask = xp.empty_like(x), xp.empty(x.shape, np.bool_)
    if x.size:
        signed = seed - (1 << 64) if seed >= 1 << 63 else seed
        blocks = -(-x.size // 1024)
        _DROPOUT[kind, _aligned(x, y, mask)](blocks, 256, x, y, mask, 1.0 - p, signed, offset, x.size)
    return y, mask


# %%
#| into: aten/native/cuda/dropout.py
#| upstream: aten/src/ATen/native/cuda/Dropout.cu#at::native::native_dropout_backward_cuda
def native_dropout_backward(grad_output: Array, mask: Array, scale: float) -> Any:
    """`grad_output * mask * scale`."""
    kind = cpp_type(grad_output)
    if kind is None:
        return NotImplemented
    xp = array_module(grad_output)
    dy, mask = xp.ascontiguousarray(grad_output), xp.ascontiguousarray(mask)
    dx = xp.empty_like(dy)
    if dy.size:
        blocks = -(-dy.size // 1024)
        _MASKED_SCALE[kind, _aligned(dy, dx, mask)](blocks, 256, dy, mask, dx, float(scale), dy.size)
    return dx


# %% [markdown]
# ## The operator
#
# On a GPU upstream's `dropout` is `native_dropout`, one node that keeps the mask; on the CPU it is a product with noise. So it is here: the operator stands beside the others of dropout, in the first appendix, with a kernel for the CPU too.

# %% [markdown]
# A simulated device runs no CUDA C++; its mask has to be the kernel's all the same. There the draw is the generator's, number by number, made into a float and compared as the kernel does it.

# %%
#| into: aten/cuda/specialisations.py
#| imports
from readtorch.aten.cuda.cuda_generator_impl import default_generator
from readtorch.aten.native import dropout
from readtorch.c10.cuda.cuda_functions import current_device


# %%
#| into: aten/cuda/specialisations.py
@specialise(dropout._kept)
def _kept(maker: Maker) -> Callable[..., Any]:
    def kept(self: Any, p: float, per_channel: bool) -> Any:
        """1 with probability `1 - p`, else 0: one draw per element of `self`, or one per example and channel."""
        if per_channel and self.ndim < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        shape = (*self.shape[:2], *(1,) * (self.ndim - 2)) if per_channel else self.shape
        words = default_generator(current_device()).random(math.prod(shape))
        return (uniform(words) < np.float32(1 - p)).astype(self.dtype).reshape(shape)

    return kept


def uniform(words: Any) -> Any:
    """32 bits to a float32 in (0, 1]: the middle of one of 2³² steps, as cuRAND's."""
    return words.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)


# %%
#| into: aten/cuda/specialisations.py
#| imports
import math

# %%
import readtorch.aten.cuda.specialisations as specialisations

mask = specialisations.uniform(philox(2024, 0, 250_000).reshape(-1)) < np.float32(0.9)
print(f"{mask.mean():.4f} of a million kept; the first twelve: {mask[:12].astype(int)}")

# %% [markdown]
# ### What upstream does more
# In a CUDA graph the offset of a recorded launch would be the same at every replay, so upstream's kernels take seed and offset through pointers that the generator moves between replays (`PhiloxCudaState`). Its grid is sized for the device, and each thread draws as often as it steps.
