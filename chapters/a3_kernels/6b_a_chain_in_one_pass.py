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
# # A chain of operators in one pass
#
# GELU by its tanh formula is eight operators: `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))`. Each reads an array and writes one, 8 bytes per float32 element, some 12, where the function needs **8** in all. A GPU has the arithmetic for nothing; it is the bytes that take the time. This is all that is meant by "fusing" element-wise operators, and the reason why `torch.compile` speeds
# up a network that has nothing but those between its matrix products.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# Upstream compiles such functions into one generic kernel (`gpu_kernel`), which is given the function as a C++ lambda and sees to types, strides and vectors. Here is the case that it takes for contiguous arrays: every thread one vector, no loop, as many blocks as it needs. The numbers left over behind the last whole vector are one thread's.

# %%
#| into: aten/native/cuda/activation_gelu_kernel.cu
#| upstream: aten/src/ATen/native/cuda/ActivationGeluKernel.cu#at::native::GeluCUDAKernelImpl
GELU = r"""
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
"""

# %%
#| into: aten/native/cuda/activation_gelu_kernel.py
"""GELU and its gradient, each in one pass."""

# %%
#| into: aten/native/cuda/activation_gelu_kernel.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import FLAGS, VARIANTS, Kernel, array_module, cpp_type, flag, lanes, pointer

# %%
#| into: aten/native/cuda/activation_gelu_kernel.py
_FILE = "aten/native/cuda/activation_gelu_kernel.cu"
_FORWARD = Kernel(_FILE, "gelu_forward", VARIANTS, FLAGS)
_BACKWARD = Kernel(_FILE, "gelu_backward", VARIANTS, FLAGS)


def _launch(kernel: Kernel, approximate: str, *arrays: Array) -> Any:
    """Of contiguous arrays of one shape and type: the result, a fresh one."""
    first = arrays[0]
    kind = cpp_type(first)
    if kind is None or approximate not in ("none", "tanh") or any(a.dtype != first.dtype for a in arrays):
        return NotImplemented
    xp = array_module(first)
    given = [xp.ascontiguousarray(array) for array in arrays]
    y = xp.empty_like(given[0])
    wide = kind != "double" and all(pointer(a) % 16 == 0 for a in (*given, y))
    if y.size:
        blocks = -(-y.size // (256 * lanes(y, wide)))
        kernel[kind, flag(wide), flag(approximate == "tanh")](blocks, 256, *given, y, y.size)
    return y


# %%
#| into: aten/native/cuda/activation_gelu_kernel.py
#| upstream: aten/src/ATen/native/cuda/ActivationGeluKernel.cu#at::native::GeluCUDAKernelImpl
def gelu(self: Array, *, approximate: str = "none") -> Any:
    """NotImplemented for other than floating dtypes."""
    return _launch(_FORWARD, approximate, self)


# %%
#| into: aten/native/cuda/activation_gelu_kernel.py
#| upstream: aten/src/ATen/native/cuda/ActivationGeluKernel.cu#at::native::GeluBackwardCUDAKernelImpl
def gelu_backward(grad_output: Array, self: Array, approximate: str = "none") -> Any:
    """The gradient; NotImplemented for other than floating dtypes, and for two of them."""
    if grad_output.shape != self.shape:
        return NotImplemented
    return _launch(_BACKWARD, approximate, grad_output, self)


# %% [markdown]
# What the formula's operators move, and what one pass does:

# %%
x = np.linspace(-3, 3, 1001, dtype=np.float32)
moved = 0


def counted(function, *arrays):
    global moved
    result = function(*arrays)
    moved += result.nbytes + sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
    return result


cube = counted(np.multiply, counted(np.multiply, x, x), x)
inner = counted(np.multiply, counted(np.add, counted(np.multiply, cube, 0.044715), x), 0.7978845608)
y = counted(np.multiply, counted(np.multiply, counted(np.add, counted(np.tanh, inner), 1.0), x), 0.5)
print(f"{moved / x.size:.0f} bytes per element by operators, {2 * x.itemsize} in one pass")

# %% [markdown]
# ### What upstream does more
# Its generic kernel takes arrays with any strides, of mixed types, and, on recent hardware, vectors of 32 bytes. Which functions it is given is a matter of hand-written operators; for chains that nobody has written down there is the compiler.
