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
# # Kernels of our own: how they are compiled, launched, and run without a GPU
#
# On a GPU most operators of this library are CuPy's: an addition is an addition. Where an operator is a chain of additions, each link reads its input from device memory and writes
# its output back, and device memory is what a GPU waits for. Batch normalization written with array operators moves some 50 bytes per float32 element forward; one pass for the statistics and one for the result need
# 12. This appendix writes those operators as CUDA C++ kernels. Each stands beside a NumPy function that computes the same (its *twin*), with its grid, its traffic in bytes per element, and what
# upstream's kernel does differently.
#
# The chapters can be read, and every kernel here can be run, without a GPU: this first part makes that possible.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## What is a launch?
#
# A kernel is a function that many threads run at once. Threads come in **blocks** of up to 1,024; the threads of a block can wait for each other (`__syncthreads()`) and share a small fast memory (`__shared__`). Blocks form a **grid**
# and know nothing of each other: they may run in any order, at once or one by one. In hardware a block runs on one *streaming multiprocessor* and is cut into **warps** of 32 threads that execute the same instruction; the lanes of a warp can
# read each other's registers (`__shfl_xor_sync`) without any memory.
#
# An H200 has 132 multiprocessors, each with room for 2,048 threads. Its memory delivers some 4.8 TB/s, its arithmetic units 67 trillion float32 operations a second: fourteen operations in the time of one byte. A kernel of this appendix does one to ten
# operations per byte. So its time is its bytes over the bandwidth, *if* enough of them are on the way at any moment: at 4.8 TB/s and 0.6 µs of latency about 3 MB, or 22 KB per multiprocessor. That is what the choices below serve: 16-byte loads, 256 threads a block, more blocks than fit at once.

# %%
#| source: https://www.nvidia.com/en-us/data-center/h200/
bandwidth, latency, multiprocessors = 4.8e12, 0.6e-6, 132
in_flight = bandwidth * latency / multiprocessors
print(
    f"{in_flight / 1024:.0f} KB on the way per multiprocessor: {in_flight / 16:.0f} loads of 16 bytes, of 2048 threads"
)

# %% [markdown]
# ## The compiler comes with the library
#
# PyTorch's own kernels were compiled by `nvcc` when the wheel was built, for a list of architectures, and each one on the list makes the wheel larger. For a few operators PyTorch keeps the *source* as a string and compiles it on the user's machine at first use, through NVRTC, NVIDIA's
# compiler as a library (`jit_utils.cpp`). readtorch does that for all of its kernels, through `cupy.RawModule`, which also keeps the machine code on disk.
#
# A source is a file of the package. `#include "…"` names another file of the package and is resolved here, once per file, rather than by the compiler: the text that is compiled is then one string whose digest says what it is, and the same string
# goes to NVRTC, to CuPy and to g++. `#line` keeps the compilers' messages pointing at the files.
#
# The files are looked for where `import readtorch` would look now. When you edit one of these cells in a notebook, the live package puts your text into a copy of the package that stands first there, and calls `forget`: the next launch compiles it.

# %%
#| into: aten/native/cuda/jit_utils.py
"""CUDA sources, compiled when a kernel of theirs is first launched."""

# %%
#| into: aten/native/cuda/jit_utils.py
#| imports
from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array

# %%
#| into: aten/native/cuda/jit_utils.py
PACKAGE = Path(__file__).parents[3]

_INCLUDE = re.compile(r'#include "([\w/.]+)"')


@cache
def source(path: str) -> str:
    """The text of a CUDA source of the package, with what it includes in the place of each `#include`."""
    return source_of((path,))


def _file(path: str) -> Path:
    """The file in the first package of this name on `sys.path`."""
    places = (Path(place) / PACKAGE.name / path for place in sys.path)
    return next((place for place in places if place.is_file()), PACKAGE / path)


def source_of(paths: Sequence[str]) -> str:
    """Several sources as one text; what two of them include stands there once."""
    seen: set[str] = set()
    return "\n".join(line for path in paths for line in _lines(path, seen)) + "\n"


def _lines(path: str, seen: set[str]) -> Iterator[str]:
    if path in seen:
        return
    seen.add(path)
    yield f'#line 1 "{path}"'
    for number, line in enumerate(_file(path).read_text(encoding="utf-8").splitlines(), 1):
        found = _INCLUDE.match(line)
        if found is None:
            yield line
        else:
            yield from _lines(found[1], seen)
            yield f'#line {number + 1} "{path}"'


# %% [markdown]
# ## A kernel and its instances
#
# Kernels are templates, `fused_dropout<T>`, and a template is compiled for one choice of its parameters: an **instance**. Upstream's build makes all of them; at run time only those that are asked for need to exist. NVRTC takes the expression `"fused_dropout<Half>"`, compiles that
# instance, and tells the mangled name that C++ gave it.
#
# `Kernel` holds what can be chosen, so that a test can compile and run everything there is. An instance knows how to launch itself: on a device, unless something else has been put into the place of one.

# %%
#| into: aten/native/cuda/jit_utils.py
Dim = int | tuple[int, ...]

KERNELS: list[Kernel] = []
"""All there are; the modules beside this one add theirs when they are imported."""


class Kernel:
    """A kernel template of a CUDA source of the package, and what each of its parameters (or several together) can be.

    `kernel["float", "true"]` is an instance; `instance(grid, block, *arguments)` launches it.
    """

    def __init__(self, path: str, name: str, *choices: Sequence[str | tuple[str, ...]]) -> None:
        self.path = path
        self.name = name
        self.choices = choices
        self._instances: dict[tuple[str, ...], Instance] = {}
        KERNELS.append(self)

    def __repr__(self) -> str:
        return f"<Kernel {self.name} of {self.path}>"

    def __getitem__(self, chosen: str | tuple[str, ...]) -> Instance:
        names = (chosen,) if isinstance(chosen, str) else chosen
        found = self._instances.get(names)
        if found is None:
            found = self._instances[names] = Instance(self, f"{self.name}<{', '.join(names)}>")
        return found

    def made(self) -> Iterable[Instance]:
        """Those that were asked for so far."""
        return self._instances.values()

    def instances(self) -> list[Instance]:
        """One for every choice."""
        return [
            self[tuple(name for part in parts for name in ((part,) if isinstance(part, str) else part))]
            for parts in product(*self.choices)
        ]


class Instance:
    """One kernel, with its template's parameters chosen."""

    __slots__ = ("expression", "functions", "kernel")

    def __init__(self, kernel: Kernel, expression: str) -> None:
        self.kernel = kernel
        self.expression = expression
        self.functions: dict[int, Any] = {}
        """The compiled function, by device."""

    def __call__(self, grid: Dim, block: Dim, *arguments: Any, reached: Sequence[Array] = ()) -> None:
        """Launch. Arrays become pointers, ints `long long`, floats `double`, None a null pointer.

        `reached` are the arrays that the kernel finds through pointers in memory; they have to outlive it.
        """
        target.launch(self, grid, block, arguments, reached)


class Target(Protocol):
    """Where kernels run."""

    def launch(
        self, instance: Instance, grid: Dim, block: Dim, arguments: tuple[Any, ...], reached: Sequence[Array]
    ) -> None:
        """Start a kernel."""

    def multiprocessors(self) -> int:
        """How many blocks' worth of hardware there is."""

    def takes(self, array: Array) -> bool:
        """Can kernels that run here reach this array?"""

    def beside(self, array: Array) -> AbstractContextManager[Any]:
        """Where launches go to the device of this array."""


# %% [markdown]
# On a device CuPy does the rest. The compiled function is kept per device and digest of the source, so that a source edited in a notebook is compiled anew; a launch in steady state is two dictionary look-ups and CuPy's call. NumPy's arrays, or a machine without CuPy, meet an error that says what to install.


# %%
#| into: aten/native/cuda/jit_utils.py
#| upstream: aten/src/ATen/native/cuda/jit_utils.cpp#at::cuda::jit::jit_pwise_function
class Device:
    """The current GPU, through CuPy."""

    def launch(
        self, instance: Instance, grid: Dim, block: Dim, arguments: tuple[Any, ...], reached: Sequence[Array]
    ) -> None:
        """Start a kernel on the current stream. RuntimeError without CuPy, TypeError on arrays that lie elsewhere."""
        runtime = _cupy().cuda.runtime
        number = runtime.getDevice()
        function = instance.functions.get(number)
        if function is None:
            if any(isinstance(a, np.ndarray) for a in arguments):
                raise TypeError(f"{instance.expression} is a CUDA kernel and takes CuPy's arrays, not NumPy's")
            function = instance.functions[number] = self._compiled(instance, number)
        function(_three(grid), _three(block), tuple(0 if a is None else a for a in arguments))

    def multiprocessors(self) -> int:
        """Of the current device."""
        cuda = _cupy().cuda
        return _multiprocessors(cuda.runtime.getDevice())

    def takes(self, array: Array) -> bool:
        """Is it one of CuPy's?"""
        return type(array).__module__.split(".")[0] == "cupy"

    def beside(self, array: Array) -> AbstractContextManager[Any]:
        """Makes the array's device the current one."""
        return _cupy().cuda.Device(array.data.device_id)

    def _compiled(self, instance: Instance, number: int) -> Any:
        text = source(instance.kernel.path)
        key = (number, hashlib.sha256(text.encode()).hexdigest(), instance.expression)
        if key not in _functions:
            module = _cupy().RawModule(code=text, options=("-std=c++17",), name_expressions=(instance.expression,))
            _functions[key] = module.get_function(instance.expression)
        return _functions[key]


_functions: dict[tuple[int, str, str], Any] = {}


def forget() -> None:
    """Read sources anew at the next launch; what was compiled from a text that is still the same is kept."""
    source.cache_clear()
    for kernel in KERNELS:
        for instance in kernel.made():
            instance.functions.clear()


target: Target = Device()


def _cupy() -> Any:
    try:
        import cupy
    except ImportError:
        raise RuntimeError(
            "CUDA kernels need CuPy and an NVIDIA GPU: pip install 'readtorch[cuda13]' (or 'readtorch[cuda12]')"
        ) from None
    return cupy


@cache
def _multiprocessors(number: int) -> int:
    return _cupy().cuda.Device(number).attributes["MultiProcessorCount"]


def _three(dim: Dim) -> tuple[int, ...]:
    return (dim,) if isinstance(dim, int) else dim


@contextmanager
def running_on(other: Target) -> Iterator[None]:
    """Kernels launched inside run there."""
    global target
    before, target = target, other
    try:
        yield
    finally:
        target = before


# %% [markdown]
# ## Numbers narrower than the arithmetic
#
# Half-precision numbers are for memory. Every kernel widens what it loads to float32, computes, and rounds what it stores. So all that is needed of `Half` and `BFloat16` is the two conversions. A bfloat16 is the upper half of a float32: widening is a shift, narrowing adds half of the
# last kept place (and a bit more where that place is odd, so that ties go to even) and shifts back. float16 has another exponent, and the hardware has an instruction for each direction; g++ has its own type for them. That `#ifdef` is the only place of this appendix where the CPU runs other code.
#
# The second half of the file is `Vec`: a struct as wide as its alignment, which the compiler loads with one instruction. `lanes<T, WIDE>` says how many numbers fit into 16 bytes. WIDE is for arrays that begin at a multiple of 16 bytes and whose rows are whole vectors; the other instance loads one by one.

# %%
#| into: aten/native/cuda/memory_access.cuh
#| upstream: aten/src/ATen/native/cuda/MemoryAccess.cuh#at::native::memory::load_vector
MEMORY_ACCESS = r"""
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
"""

# %% [markdown]
# C's functions have a name per type; templates need one name for both.

# %%
#| into: aten/native/cuda/math.cuh
MATH = r"""
__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }
__device__ __forceinline__ float hyperbolic_tangent(float x) { return tanhf(x); }
__device__ __forceinline__ double hyperbolic_tangent(double x) { return tanh(x); }
__device__ __forceinline__ float error_function(float x) { return erff(x); }
__device__ __forceinline__ double error_function(double x) { return erf(x); }
__device__ __forceinline__ float inverse_root(float x) { return 1.0f / sqrtf(x); }
__device__ __forceinline__ double inverse_root(double x) { return 1.0 / sqrt(x); }
"""

# %% [markdown]
# The launching side has the same three decisions: which C++ type an array has, whether it can be read in wide pieces, and where a new array goes. Double precision is for checks of gradients, not for speed: it has no wide instances.

# %%
#| into: aten/native/cuda/jit_utils.py
FLOATING = ("float", "double", "Half", "BFloat16")
FLAGS = ("false", "true")
VARIANTS = (("double", "false"), *((kind, wide) for kind in ("float", "Half", "BFloat16") for wide in FLAGS))
"""Types, and whether 16 bytes are read at a time."""

_TYPES = {"float32": "float", "float64": "double", "float16": "Half", "bfloat16": "BFloat16"}


def cpp_type(array: Array) -> str | None:
    """The C++ name of an array's floating-point type; None of any other."""
    return _TYPES.get(array.dtype.name)


def accumulator(array: Array) -> np.dtype:
    """What kernels compute in: float64 for float64, float32 for everything else."""
    return np.dtype(np.float64) if array.dtype == np.float64 else np.dtype(np.float32)


def array_module(array: Array) -> Any:
    """The library that an array is of: CuPy, or NumPy where kernels run on the CPU."""
    return np if isinstance(array, np.ndarray | np.generic) else _cupy()


def pointer(array: Array) -> int:
    """Where an array begins."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def is_wide(length: int, *arrays: Array | None) -> bool:
    """Shall rows of `length` numbers of all these arrays be read 16 bytes at a time?"""
    return all(
        a is None or (length * a.itemsize % 16 == 0 and pointer(a) % 16 == 0 and a.dtype != np.float64) for a in arrays
    )


def flag(value: bool) -> str:
    """As C++ writes it."""
    return "true" if value else "false"


def as_accumulator(array: Array | None, kind: np.dtype) -> Array | None:
    """Contiguous and in the type of the arithmetic. What a kernel takes so is small beside its input: weights, statistics."""
    return None if array is None else array_module(array).ascontiguousarray(array, kind)


def lanes(array: Array, wide: bool) -> int:
    """How many numbers a thread takes at once."""
    return 16 // array.itemsize if wide else 1


# %% [markdown]
# ## Thirty-two lanes, then the block
#
# Nearly every kernel here ends in a reduction: each thread has seen some of a row and holds a summary, and one summary of the whole is wanted. A summary is a small struct with `merge` (take another one in), `none` (the summary of nothing) and `from` (the one that another lane holds).
#
# In a warp, lane *i* takes in what lane *i + 16* holds, then *i + 8*, and so on: five steps, no memory. Lane 0 has the whole and hands it out. A block does that twice: each warp its own lanes, then the first warp the warps' results, which travel through shared memory. Two barriers do: one between writing the warps' results and reading them, one between writing the whole and reading it.
#
# > [!NOTE]
# > Why may the next call of `block_merge` overwrite `parts` with no third barrier? Only the first warp reads them, and it passed the second barrier afterwards. And `whole`? It is written after the next call's first barrier, which nobody passes before having read it.

# %%
#| into: aten/native/cuda/block_reduce.cuh
#| upstream: aten/src/ATen/native/cuda/block_reduce.cuh#at::native::cuda_utils::BlockReduce
BLOCK_REDUCE = r"""
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
"""

# %% [markdown]
# ## Running them without a GPU
#
# `readtorch.literate.fibres` compiles a CUDA source with g++ and runs each CUDA thread as a fibre: one of many execution stacks between which one CPU thread switches. At a barrier or a shuffle a fibre steps aside for the others. The arithmetic is the C library's, the order of blocks is fixed; otherwise the kernel
# does what it would do, to the last index, at about a millionth of the speed.
#
# It is stricter than a GPU. g++'s thread sanitizer inserts a call before every access to memory; the functions called are ours, and check that the access falls into an array of the launch and that no other thread touched those bytes since the last barrier. Here is a sum over a block with a mistake that a GPU
# shows once a week: the barrier before the second read is missing.

# %%
from readtorch.literate import fibres

ROW_SUMS = r"""
#include "aten/native/cuda/block_reduce.cuh"

template <class T>
__global__ void row_sums(const T* x, T* sums, long long width) {
    __shared__ T parts[8];
    T mine = 0;
    for (long long i = threadIdx.x; i < width; i += blockDim.x) mine += x[blockIdx.x * width + i];
    mine = warp_merge(Sums<T>{mine, 0}).one;
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0) {
        T sum = 0;
        for (int warp = 0; warp < blockDim.x / 32; warp++) sum += parts[warp];
        sums[blockIdx.x] = sum;
    }
}
"""


def try_out(text: str) -> None:
    from readtorch.aten.native.cuda.jit_utils import source

    x, sums = np.arange(12_000, dtype=np.float32).reshape(12, 1000), np.zeros(12, np.float32)
    header = '#include "aten/native/cuda/block_reduce.cuh"'
    included = source("aten/native/cuda/block_reduce.cuh") + '#line 3 "row_sums.cu"'
    kernels = fibres.Host(text.replace(header, included), ["row_sums<float>"])
    try:
        kernels.launch("row_sums<float>", 12, 256, (x, sums, 1000))
        print("largest error:", abs(sums - x.sum(1)).max())
    except fibres.KernelFault as fault:
        print(fault)


if fibres.available():
    try_out(ROW_SUMS)
    try_out(ROW_SUMS.replace("    __syncthreads();\n", "", 1))
    try_out(ROW_SUMS.replace("i < width", "i <= width"))
else:
    print("there is no g++ here")

# %% [markdown]
# The library's own kernels are all run so, for every type, and compared with their twins in float64 (`tests/kernels`); NVRTC compiles each for a Hopper GPU in the same tests, which hold the number of registers that a thread takes and that none is spilled to memory. What neither can tell is speed: that is measured on a GPU
# (`benchmarks/gpu.py`), as a share of what copying the same bytes takes there.
#
# ### What upstream does more
# Its kernels are compiled ahead of time, per architecture, which costs disk space and saves the second that the first launch of each instance takes here. Its reductions choose between a dozen layouts at run time (`Reduce.cuh`), for any pattern of strides; ours take contiguous rows and leave the rest to a copy.
