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
# # Optimizers: one launch for all parameters
#
# A ResNet-18 has 62 parameters, a language model some hundred. Adam written with array operators takes fourteen launches for each, nearly all of them on a few thousand numbers: the host is busy for milliseconds with work that the device does in microseconds. `foreach` turns fourteen launches per parameter into fourteen for all; fusing turns those into one,
# and the traffic into what the formula needs: parameter, gradient and two moments in, parameter and moments out, **28 bytes per float32 parameter**. SGD with momentum moves 20, a moving average 12.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## How does one kernel see hundreds of arrays?
#
# By a table of pointers. All arrays are cut into chunks of 16,384 numbers, and each block takes one chunk. Which array does block 5,000 belong to? The table ends with the number of each array's first block, and a binary search finds the place: seven steps for a hundred arrays, the same ones in all threads of the block.
#
# Upstream puts its table into the *arguments* of the launch (`TensorListMetadata`), of which there may be 4 KB in builds for CUDA 12, and 32 KB since CUDA 13: 36 or 252 arrays for Adam, at most 320 or 2,240 chunks of 65,536 numbers. More of either means more launches. Ours lies in device memory, so that one launch is enough for any number; it has to be copied there, a few kilobytes, but only when an address in it has changed.
# Parameters and moments stay where they are, and a memory pool hands gradients the same places step after step: as a rule nothing is copied.

# %%
#| into: aten/native/cuda/multi_tensor_apply.cuh
#| upstream: aten/src/ATen/native/cuda/MultiTensorApply.cuh#at::native::multi_tensor_apply_kernel
APPLY = r"""
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
"""

# %% [markdown]
# A kernel loads four numbers of every array at once where addresses allow it. The last few of an array that is not a multiple of four, and arrays at odd addresses, take the loop with one number: same body, other length.

# %%
#| into: aten/native/cuda/multi_tensor_apply.cuh
EACH = r"""
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
"""

# %% [markdown]
# On the host the table is a row of integers. It is kept by its content: if the same addresses come again, the device's copy is used again.

# %%
#| into: aten/native/cuda/multi_tensor_apply.py
"""Lists of arrays for one launch."""

# %%
#| into: aten/native/cuda/multi_tensor_apply.py
#| imports
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import Kernel, array_module, cpp_type, flag, pointer

# %%
#| into: aten/native/cuda/multi_tensor_apply.py
CHUNK = 16384
"""Elements of a block; the kernels' constant of that name."""

THREADS = 512

_tables: OrderedDict[tuple[Any, ...], Array] = OrderedDict()
_KEPT = 64


def _table(xp: Any, device: Any, numbers: np.ndarray) -> Array:
    """`numbers` on the device: the copy made before, if these numbers were seen lately."""
    key = (device, numbers.tobytes())
    found = _tables.get(key)
    if found is None:
        found = _tables[key] = xp.asarray(numbers)
        if len(_tables) > _KEPT:
            _tables.popitem(last=False)
    else:
        _tables.move_to_end(key)
    return found


# %%
#| into: aten/native/cuda/multi_tensor_apply.py
#| upstream: aten/src/ATen/native/cuda/MultiTensorApply.cuh#at::native::multi_tensor_apply_for_fused_optimizer
def multi_tensor_apply(kernel: Kernel, lists: Sequence[Sequence[Array]], *scalars: Any) -> None:
    """Launch `kernel` once over equally long lists of contiguous arrays of one dtype; corresponding ones have equal sizes."""
    first = [array for array in lists[0] if array.size]
    if not first:
        return
    kept = [[array for array in one if array.size] for one in lists]
    xp, kind = array_module(first[0]), cpp_type(first[0])
    assert kind is not None
    sizes = np.array([array.size for array in first], np.int64)
    blocks = -(-sizes // CHUNK)
    starts = np.concatenate(([0], np.cumsum(blocks)[:-1]))
    addresses = np.array([[pointer(array) for array in one] for one in kept], np.int64)
    table = _table(
        xp,
        getattr(first[0], "device", None),
        np.concatenate((addresses.ravel(), sizes, starts)),
    )
    wide = kind != "double" and not (addresses % (4 * first[0].itemsize)).any()
    reached = [array for one in kept for array in one]
    kernel[kind, flag(wide)](int(blocks.sum()), THREADS, table, len(first), *scalars, reached=reached)


# %% [markdown]
# ## Adam
#
# The formula is that of `fused_adam.adam`, which does it on the CPU in blocks that fit its cache; there as here the bias corrections are folded into two numbers, computed once by the host in double precision. AMSGrad is a fifth list.
#
# With `fused=True` the counters of steps lie on the device, and the host must not wait to read them. Then the device computes the two numbers of each array, by a few operators on a few numbers, and the kernel is told where they are. (In the kernel itself `pow` would have to be called, and where a kernel calls a function the compiler can no longer tell that the addresses in the table are of global memory.)

# %%
#| into: aten/native/cuda/fused_adam_kernel.cu
#| upstream: aten/src/ATen/native/cuda/fused_adam_utils.cuh#at::native::adam_math
ADAM = r"""
#include "aten/native/cuda/multi_tensor_apply.cuh"

template <class T>
struct Adam {
    using A = acc_t<T>;
    T *param, *exp_avg, *exp_avg_sq, *max_exp_avg_sq;
    const T* grad;
    A beta1, beta2, decay, shrink, size, floor, sign;

    template <int N>
    __device__ __forceinline__ void run(int i) const {
        A p[N], g[N], m[N], v[N], most[N];
        load<N>(param + i, p);
        load<N>(grad + i, g);
        load<N>(exp_avg + i, m);
        load<N>(exp_avg_sq + i, v);
        if (max_exp_avg_sq) load<N>(max_exp_avg_sq + i, most);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A gradient = sign * g[k] + decay * p[k];
            p[k] *= shrink;
            m[k] += (1 - beta1) * (gradient - m[k]);
            v[k] = beta2 * v[k] + (1 - beta2) * gradient * gradient;
            A second = v[k];
            if (max_exp_avg_sq) second = most[k] = most[k] > v[k] ? most[k] : v[k];
            p[k] += size * m[k] / (sqrt(second) + floor);
        }
        store<N>(param + i, p);
        store<N>(exp_avg + i, m);
        store<N>(exp_avg_sq + i, v);
        if (max_exp_avg_sq) store<N>(max_exp_avg_sq + i, most);
    }
};

// decay: the weight decay that goes into the gradient; shrink: the factor that decoupled decay puts on the parameter. corrections: null,
// or for each array what size and floor are still to be multiplied by.
template <class T, bool WIDE>
__global__ void __launch_bounds__(512) fused_adam(
    const long long* table, long long arrays, long long amsgrad, const double* corrections, double beta1, double beta2, double decay,
    double shrink, double size, double floor, double sign) {
    Piece piece(table, amsgrad ? 5 : 4, arrays);
    if (corrections) {
        size *= corrections[2 * piece.which];
        floor *= corrections[2 * piece.which + 1];
    }
    using A = acc_t<T>;
    Adam<T> adam;
    adam.param = piece.array<T>(0);
    adam.grad = piece.array<T>(1);
    adam.exp_avg = piece.array<T>(2);
    adam.exp_avg_sq = piece.array<T>(3);
    adam.max_exp_avg_sq = amsgrad ? piece.array<T>(4) : nullptr;
    adam.beta1 = A(beta1), adam.beta2 = A(beta2), adam.decay = A(decay), adam.shrink = A(shrink);
    adam.size = A(size), adam.floor = A(floor), adam.sign = A(sign);
    for_each_element<WIDE>(piece.size, adam);
}
"""

# %%
#| into: aten/native/cuda/fused_adam_kernel.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import VARIANTS, Kernel, array_module
from readtorch.aten.native.cuda.multi_tensor_apply import multi_tensor_apply

# %%
#| into: aten/native/cuda/fused_adam_kernel.py
_ADAM = Kernel("aten/native/cuda/fused_adam_kernel.cu", "fused_adam", VARIANTS)


# %%
#| into: aten/native/cuda/fused_adam_kernel.py
#| upstream: aten/src/ATen/native/cuda/FusedAdamKernel.cu#at::native::_fused_adam_kernel_cuda_
def adam(
    params: Sequence[Array],
    grads: Sequence[Array],
    exp_avgs: Sequence[Array],
    exp_avg_sqs: Sequence[Array],
    max_exp_avg_sqs: Sequence[Array] | None,
    step: float | Sequence[Array],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    decoupled: bool,
) -> None:
    """One step of all `params` in place: contiguous arrays of one dtype. `max_exp_avg_sqs` is None without AMSGrad.

    `step` is how many steps they have made, this one counted; or a float32 on the device for each.
    """
    size, floor, corrections = -lr, float(eps), None
    if isinstance(step, int | float):
        root = math.sqrt(1 - beta2**step)
        size, floor = size * root / (1 - beta1**step), floor * root
    else:
        xp = array_module(params[0])
        counts = xp.stack([count for count, param in zip(step, params, strict=True) if param.size]).astype(np.float64)
        roots = xp.sqrt(1 - beta2**counts)
        corrections = xp.ascontiguousarray(xp.stack([roots / (1 - beta1**counts), roots], 1))
    decay, shrink = (0.0, 1 - lr * weight_decay) if decoupled else (float(weight_decay), 1.0)
    lists = [params, grads, exp_avgs, exp_avg_sqs, *([] if max_exp_avg_sqs is None else [max_exp_avg_sqs])]
    numbers = (float(beta1), float(beta2), decay, shrink, size, floor, -1.0 if maximize else 1.0)
    multi_tensor_apply(_ADAM, lists, int(max_exp_avg_sqs is not None), corrections, *numbers)


# %% [markdown]
# ## SGD
#
# Without momentum there are two lists, with it three. In the first step the buffer has nothing to be multiplied with: it becomes the gradient.

# %%
#| into: aten/native/cuda/fused_sgd_kernel.cu
#| upstream: aten/src/ATen/native/cuda/FusedSgdKernel.cu#at::native::_fused_sgd_kernel_cuda_
SGD = r"""
#include "aten/native/cuda/multi_tensor_apply.cuh"

template <class T>
struct Sgd {
    using A = acc_t<T>;
    T *param, *buffer;
    const T* grad;
    A decay, momentum, lr, taken, sign;
    bool first, nesterov;

    template <int N>
    __device__ __forceinline__ void run(int i) const {
        A p[N], g[N], b[N];
        load<N>(param + i, p);
        load<N>(grad + i, g);
        if (buffer && !first) load<N>(buffer + i, b);
#pragma unroll
        for (int k = 0; k < N; k++) {
            A gradient = sign * g[k] + decay * p[k];
            if (buffer) {
                b[k] = first ? gradient : momentum * b[k] + taken * gradient;
                gradient = nesterov ? gradient + momentum * b[k] : b[k];
            }
            p[k] -= lr * gradient;
        }
        store<N>(param + i, p);
        if (buffer) store<N>(buffer + i, b);
    }
};

// taken: one less the dampening.
template <class T, bool WIDE>
__global__ void __launch_bounds__(512) fused_sgd(
    const long long* table, long long arrays, long long buffers, long long first, long long nesterov, double decay, double momentum,
    double lr, double taken, double sign) {
    Piece piece(table, buffers ? 3 : 2, arrays);
    using A = acc_t<T>;
    Sgd<T> sgd;
    sgd.param = piece.array<T>(0);
    sgd.grad = piece.array<T>(1);
    sgd.buffer = buffers ? piece.array<T>(2) : nullptr;
    sgd.first = first, sgd.nesterov = nesterov;
    sgd.decay = A(decay), sgd.momentum = A(momentum), sgd.lr = A(lr), sgd.taken = A(taken), sgd.sign = A(sign);
    for_each_element<WIDE>(piece.size, sgd);
}
"""

# %%
#| into: aten/native/cuda/fused_sgd_kernel.py
#| imports
from __future__ import annotations

from collections.abc import Sequence

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import VARIANTS, Kernel
from readtorch.aten.native.cuda.multi_tensor_apply import multi_tensor_apply

# %%
#| into: aten/native/cuda/fused_sgd_kernel.py
_SGD = Kernel("aten/native/cuda/fused_sgd_kernel.cu", "fused_sgd", VARIANTS)


# %%
#| into: aten/native/cuda/fused_sgd_kernel.py
#| upstream: aten/src/ATen/native/cuda/FusedSgdKernel.cu#at::native::_fused_sgd_kernel_cuda_
def sgd(
    params: Sequence[Array],
    grads: Sequence[Array],
    buffers: Sequence[Array] | None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    first: bool = False,
) -> None:
    """One step of all `params` in place: contiguous arrays of one dtype. `first`: the buffers are fresh, and hold nothing yet."""
    lists = [params, grads, *([] if buffers is None else [buffers])]
    flags = (int(buffers is not None), int(first), int(nesterov))
    numbers = (float(weight_decay), float(momentum), float(lr), 1.0 - dampening, -1.0 if maximize else 1.0)
    multi_tensor_apply(_SGD, lists, *flags, *numbers)


# %% [markdown]
# ## Moving averages
#
# `average += weight · (value - average)` is `lerp_`, and it is both kinds of model average: with a constant weight the exponential one, with `1 / (n + 1)` the equal one. The rounding is upstream's: from a weight of one half on, `value - (value - average) · (1 - weight)`, so that a weight of one gives the value itself.

# %%
#| into: aten/native/cuda/foreach_ternary_op.cu
#| upstream: aten/src/ATen/native/cuda/ForeachTernaryOp.cu#at::native::foreach_tensor_lerp_scalar_cuda_
LERP = r"""
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
"""

# %%
#| into: aten/native/cuda/foreach_ternary_op.py
#| imports
from __future__ import annotations

from collections.abc import Sequence

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import VARIANTS, Kernel
from readtorch.aten.native.cuda.multi_tensor_apply import multi_tensor_apply

# %%
#| into: aten/native/cuda/foreach_ternary_op.py
_LERP = Kernel("aten/native/cuda/foreach_ternary_op.cu", "foreach_lerp", VARIANTS)


# %%
#| into: aten/native/cuda/foreach_ternary_op.py
#| upstream: aten/src/ATen/native/cuda/ForeachTernaryOp.cu#at::native::foreach_tensor_lerp_scalar_cuda_
def lerp(starts: Sequence[Array], ends: Sequence[Array], weight: float) -> None:
    """`start += weight (end - start)` for all pairs, in place: contiguous arrays of one dtype."""
    multi_tensor_apply(_LERP, [starts, ends], float(weight))


# %% [markdown]
# ### What upstream does more
# Its fused kernels take the learning rate, the step counter, the gradient scaler's factor and its verdict on overflow as tensors, so that a whole step can stand in a CUDA graph without the host knowing any of them; parameters of one precision may have moments of another. Here all but the counters are the host's numbers; and where the counters are too, arrays that have made different numbers of steps take a launch each.
