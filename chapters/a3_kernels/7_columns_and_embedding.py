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
# # Columns of images, and a sum that must not depend on luck
#
# Two pairs of gather and scatter. A convolution becomes a matrix product when each place's neighbourhood is laid out as a column (`im2col`); its gradient adds the columns back (`col2im`). An embedding looks rows up; its gradient adds rows to the places they were looked up from. Gathering is easy: each output element has one source. Adding back has many sources for one element,
# and how a kernel deals with that decides its speed and whether two runs give the same bits.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## im2col
#
# A thread for each place of each channel: it copies the `kh · kw` numbers of its neighbourhood. Neighbouring threads write neighbouring numbers of a row of the result, so stores are contiguous; loads overlap and come from the caches after the first. Traffic: 4 bytes in and `4 · kh · kw` out per input element at stride one, **40 bytes for a 3 × 3 kernel**: this, and not the product, is why convolutions
# avoid it where they can.
#
# Places run along `blockIdx.x`, images and channels along `blockIdx.y`, so that a thread divides once by the width of the output and by nothing else.

# %%
#| into: aten/native/cuda/im2col.cuh
#| upstream: aten/src/ATen/native/cuda/im2col.cuh#at::native::im2col_kernel
IM2COL = r"""
// x: (planes, height, width). columns: (planes, kernel_h, kernel_w, out_h, out_w).
template <class T>
__global__ void __launch_bounds__(256) im2col(
    const T* x, T* columns, long long planes, long long height, long long width, long long kernel_h, long long kernel_w, long long out_h,
    long long out_w, long long pad_h, long long pad_w, long long stride_h, long long stride_w, long long dilation_h, long long dilation_w) {
    int place = blockIdx.x * 256 + threadIdx.x, places = int(out_h * out_w);
    if (place >= places) return;
    int top = int(place / int(out_w) * stride_h - pad_h), left = int(place % int(out_w) * stride_w - pad_w);
    for (long long plane = blockIdx.y; plane < planes; plane += gridDim.y) {
        const T* image = x + plane * height * width;
        T* column = columns + plane * kernel_h * kernel_w * places + place;
        for (int i = 0; i < kernel_h; i++) {
            int row = top + i * int(dilation_h);
            for (int j = 0; j < kernel_w; j++) {
                int at = left + j * int(dilation_w);
                bool inside = row >= 0 && row < height && at >= 0 && at < width;
                *column = inside ? image[row * width + at] : T{};
                column += places;
            }
        }
    }
}
"""

# %% [markdown]
# ## col2im: gather instead of scatter
#
# Seen from a column, its numbers are added to pixels, and two columns may add to one pixel at once. Seen from a pixel, the columns that cover it can be listed: those places whose window reaches it. So a thread takes a pixel and gathers. No atomic operation, one order of summation.
#
# Of the kernel's offsets `i` only those reach the pixel for which `y + pad - i · dilation` is a multiple of the stride; the loop over the kernel tests that.

# %%
#| into: aten/native/cuda/im2col.cuh
#| upstream: aten/src/ATen/native/cuda/im2col.cuh#at::native::col2im_kernel
COL2IM = r"""
template <class T>
__global__ void __launch_bounds__(256) col2im(
    const T* columns, T* x, long long planes, long long height, long long width, long long kernel_h, long long kernel_w, long long out_h,
    long long out_w, long long pad_h, long long pad_w, long long stride_h, long long stride_w, long long dilation_h, long long dilation_w) {
    using A = acc_t<T>;
    int pixel = blockIdx.x * 256 + threadIdx.x;
    if (pixel >= height * width) return;
    int y = pixel / int(width) + int(pad_h), across = pixel % int(width) + int(pad_w);
    long long places = out_h * out_w;
    for (long long plane = blockIdx.y; plane < planes; plane += gridDim.y) {
        const T* column = columns + plane * kernel_h * kernel_w * places;
        A sum = 0;
        for (int i = 0; i < kernel_h; i++) {
            int row = y - i * int(dilation_h);
            if (row < 0 || row % int(stride_h) || row / int(stride_h) >= out_h) continue;
            for (int j = 0; j < kernel_w; j++) {
                int at = across - j * int(dilation_w);
                if (at < 0 || at % int(stride_w) || at / int(stride_w) >= out_w) continue;
                sum += widen(column[(i * kernel_w + j) * places + row / int(stride_h) * out_w + at / int(stride_w)]);
            }
        }
        x[plane * height * width + pixel] = narrowed<T>(sum);
    }
}
"""

# %%
#| into: aten/native/cuda/im2_col.cu
#| upstream: aten/src/ATen/native/cuda/Im2Col.cu#at::native::im2col_out_cuda_template
FILE = r"""
#include "aten/native/cuda/memory_access.cuh"
#include "aten/native/cuda/im2col.cuh"
"""

# %%
#| into: aten/native/cuda/im2_col.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import FLOATING, Kernel, array_module, cpp_type

# %%
#| into: aten/native/cuda/im2_col.py
_FILE = "aten/native/cuda/im2_col.cu"
_IM2COL = Kernel(_FILE, "im2col", FLOATING)
_COL2IM = Kernel(_FILE, "col2im", FLOATING)


def _places(size: Sequence[int], kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple[int, ...]:
    """How many windows fit, by dimension."""
    return tuple((size[d] + 2 * padding[d] - dilation[d] * (kernel_size[d] - 1) - 1) // stride[d] + 1 for d in range(2))


def _launch(
    kernel: Kernel, given: Array, made: Array, planes: int, size: Sequence[int], threads: int, *geometry: Sequence[int]
) -> None:
    kernel_size, out, padding, stride, dilation = geometry
    numbers = (planes, *size, *kernel_size, *out, *padding, *stride, *dilation)
    kind = cpp_type(given)
    assert kind is not None
    kernel[kind]((-(-threads // 256), min(planes, 65535)), 256, given, made, *(int(number) for number in numbers))


# %%
#| into: aten/native/cuda/im2_col.py
#| upstream: aten/src/ATen/native/cuda/im2col.cuh#at::native::im2col
def im2col(
    self: Array, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Any:
    """`(N, C, H, W)` or `(C, H, W)` to `(N, C · kernel, places)`. NotImplemented for what is no image, and for other than floating dtypes."""
    if cpp_type(self) is None or self.size == 0 or self.ndim not in (3, 4) or min(*kernel_size, *dilation, *stride) < 1:
        return NotImplemented
    out = _places(self.shape[-2:], kernel_size, dilation, padding, stride)
    if min(out) < 1 or min(padding) < 0:
        return NotImplemented
    xp = array_module(self)
    *batch, channels, height, width = self.shape
    columns = xp.empty((*batch, channels * math.prod(kernel_size), math.prod(out)), self.dtype)
    geometry = (kernel_size, out, padding, stride, dilation)
    planes = math.prod(batch) * channels
    _launch(_IM2COL, xp.ascontiguousarray(self), columns, planes, (height, width), math.prod(out), *geometry)
    return columns


# %%
#| into: aten/native/cuda/im2_col.py
#| upstream: aten/src/ATen/native/cuda/im2col.cuh#at::native::col2im
def col2im(
    self: Array,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Any:
    """`(N, C · kernel, places)` added up to `(N, C, *output_size)`; NotImplemented as `im2col`."""
    if cpp_type(self) is None or self.size == 0 or self.ndim not in (2, 3) or min(*kernel_size, *dilation, *stride) < 1:
        return NotImplemented
    out = _places(output_size, kernel_size, dilation, padding, stride)
    taps = math.prod(kernel_size)
    if self.shape[-2] % taps or self.shape[-1] != math.prod(out) or min(padding) < 0:
        return NotImplemented
    xp = array_module(self)
    *batch, rows, _ = self.shape
    image = xp.empty((*batch, rows // taps, *output_size), self.dtype)
    geometry = (kernel_size, out, padding, stride, dilation)
    planes = math.prod(batch) * (rows // taps)
    _launch(_COL2IM, xp.ascontiguousarray(self), image, planes, output_size, math.prod(output_size), *geometry)
    return image


# %% [markdown]
# ## A convolution is a product of matrices
#
# With the columns of an image as a matrix `(C · kh · kw, places)` and the weight as `(O, C · kh · kw)`, the convolution is their product, `(O, places)`: the output, in its own layout, nothing to be transposed. A batch is a product per example, which cuBLAS does in one launch. Both gradients are products too: of the transposed weight with the output's gradient, whose columns
# `col2im` then adds up; and of the output's gradient with the transposed columns, which are made again rather than kept.
#
# The columns of a batch are nine times the batch. They are made for as many examples at a time as fit into a gigabyte. A 1 × 1 kernel has none: there the image is its own matrix of columns. Groups are a further dimension of the product.

# %%
#| into: aten/native/cuda/convolution_mm2d.py
"""Convolutions as products of matrices."""

# %%
#| into: aten/native/cuda/convolution_mm2d.py
#| imports
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.convolution import is_channels_last
from readtorch.aten.native.cuda.im2_col import _places, col2im, im2col
from readtorch.aten.native.cuda.jit_utils import array_module, cpp_type

# %%
#| into: aten/native/cuda/convolution_mm2d.py
_COLUMNS = 1 << 30
"""Bytes of columns that are made at a time."""


class _Product:
    """The sizes of a two-dimensional convolution, and its images as columns; one-dimensional ones are images of one row."""

    def __init__(
        self,
        weight_shape: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        groups: int,
    ) -> None:
        if len(weight_shape) == 3:
            weight_shape = (*weight_shape[:2], 1, weight_shape[2])
            stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        self.groups = groups
        self.outputs, inner, *kernel = weight_shape
        self.kernel = tuple(kernel)
        self.geometry = (self.kernel, tuple(dilation), tuple(padding), tuple(stride))
        self.height = inner * math.prod(kernel)
        self.plain = self.kernel == (1, 1) and self.geometry[2:] == ((0, 0), (1, 1))

    def places(self, size: Sequence[int]) -> tuple[int, ...]:
        return _places(size, *self.geometry)

    def matrix(self, weight: Array) -> Array:
        """`(groups, outputs of a group, height)`."""
        return array_module(weight).ascontiguousarray(weight).reshape(self.groups, -1, self.height)

    def parts(self, examples: int, places: int, itemsize: int) -> Iterator[slice]:
        step = max(1, _COLUMNS // max(1, self.groups * self.height * places * itemsize))
        return (slice(first, min(examples, first + step)) for first in range(0, examples, step))

    def columns(self, x: Array) -> Array:
        """Of images `(n, C, H, W)`: `(n, groups, height, places)`."""
        made = x if self.plain else im2col(x, *self.geometry)
        return made.reshape(len(x), self.groups, self.height, -1)


def _image(x: Array) -> Array:
    """`(N, C, H, W)`, contiguous."""
    x = array_module(x).ascontiguousarray(x)
    return x.reshape(*x.shape[:2], 1, x.shape[2]) if x.ndim == 3 else x


def _laid_out(y: Array, like: Array, shape: Sequence[int]) -> Array:
    """The result in the memory order of the input."""
    y = y.reshape(shape)
    if not is_channels_last(like):
        return y
    xp = array_module(y)
    return xp.moveaxis(xp.ascontiguousarray(xp.moveaxis(y, 1, -1)), -1, 1)


def _applies(*arrays: Array) -> bool:
    """Products of these are cuBLAS's business: floating, of one dtype, images or rows, and not empty."""
    first = arrays[0]
    return cpp_type(first) not in (None, "BFloat16") and all(
        a.ndim in (3, 4) and a.size and a.dtype == first.dtype for a in arrays
    )


# %%
#| into: aten/native/cuda/convolution_mm2d.py
#| upstream: aten/src/ATen/native/cuda/ConvolutionMM2d.cu#at::native::slow_conv2d_forward_cuda
def convolution(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """NotImplemented for transposed and three-dimensional ones, bfloat16, and nothing; so are the two gradients."""
    if transposed or not _applies(input, weight):
        return NotImplemented
    product = _Product(weight.shape, stride, padding, dilation, groups)
    x, xp = _image(input), array_module(input)
    places = product.places(x.shape[2:])
    if min(places) < 1:
        return NotImplemented
    count = math.prod(places)
    y = xp.empty((len(x), groups, product.outputs // groups, count), x.dtype)
    matrix = product.matrix(weight)
    for part in product.parts(len(x), count, x.itemsize):
        xp.matmul(matrix, product.columns(x[part]), out=y[part])
    if bias is not None:
        y += bias.reshape(groups, -1, 1)
    return _laid_out(y, input, (len(x), product.outputs, *places[4 - input.ndim :]))


# %%
#| into: aten/native/cuda/convolution_mm2d.py
#| upstream: aten/src/ATen/native/cuda/ConvolutionMM2d.cu#at::native::slow_conv2d_backward_cuda
def _conv_input(
    dy: Array,
    weight: Array,
    input_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    channels_last: bool | None = None,
) -> Any:
    """The gradient with respect to the input."""
    if not _applies(dy, weight):
        return NotImplemented
    product = _Product(weight.shape, stride, padding, dilation, groups)
    g, xp = _image(dy), array_module(dy)
    size = input_shape[2:] if len(input_shape) == 4 else (1, input_shape[2])
    if tuple(g.shape[2:]) != product.places(size):
        return NotImplemented
    count = math.prod(g.shape[2:])
    dx = xp.empty((len(g), input_shape[1], *size), g.dtype)
    matrix = product.matrix(weight).transpose(0, 2, 1)
    for part in product.parts(len(g), count, g.itemsize):
        columns = xp.matmul(matrix, g[part].reshape(-1, groups, product.outputs // groups, count))
        flat = columns.reshape(len(columns), groups * product.height, count)
        dx[part] = flat.reshape(dx[part].shape) if product.plain else col2im(flat, size, *product.geometry)
    return _laid_out(dx, dy, input_shape)


def _conv_weight(
    dy: Array,
    x: Array,
    weight_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    """The gradient with respect to the weight."""
    if not _applies(dy, x):
        return NotImplemented
    product = _Product(weight_shape, stride, padding, dilation, groups)
    g, image, xp = _image(dy), _image(x), array_module(dy)
    if tuple(g.shape[2:]) != product.places(image.shape[2:]):
        return NotImplemented
    count = math.prod(g.shape[2:])
    dw = xp.zeros((groups, product.outputs // groups, product.height), g.dtype)
    for part in product.parts(len(g), count, g.itemsize):
        columns = product.columns(image[part])
        rows = g[part].reshape(-1, groups, product.outputs // groups, count)
        dw += xp.matmul(rows, columns.transpose(0, 1, 3, 2)).sum(0)
    return dw.reshape(weight_shape)


# %% [markdown]
# ## The gradient of an embedding
#
# A word that occurs a thousand times in a batch has a thousand rows added to one. Atomic additions would do: each thread adds its number, the memory unit keeps order. But the order is whoever comes first, and float32 addition depends on order: the same batch gives other bits at the next run. PyTorch's promise of `use_deterministic_algorithms` needs another way, and upstream's kernel takes it always:
# *sort* the indices, so that equal ones stand together, then add up runs.
#
# The runs differ in length by orders of magnitude: one thread block per run would wait for "the". So the sorted list is cut into pieces of equal length whatever the runs, here 64. A block walks through its piece, adds up in a register, and when the index changes, writes the sum to the index's row. A run that ends where its piece ends, or goes on in it from the piece before,
# is not complete: its parts go to two side arrays, **head** (the piece's first run, if it began before) and **tail** (its last, if it goes on). The second kernel completes those: the piece in which a run *began* looks at the heads of the pieces that follow, as far as the run reaches, in order.
#
# ```text
# sorted   3 3 5 5 | 5 5 5 5 | 5 7 7 9        three pieces of four
# written  3                      9            complete in their piece: at once (7 as well)
# tail     5 (of 2)  –         –
# head     –         5 (of 4)  5 (of 1)        added to the first piece's tail, in this order
# ```
#
# Threads are columns of the table, 128 a block, so that rows are read contiguously. Traffic: the gradient once, the table's gradient once, the side arrays a 32nd of that.

# %%
#| into: aten/native/cuda/embedding_backward_kernel.cu
#| upstream: aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu#at::native::compute_grad_weight
PIECES = r"""
#include "aten/native/cuda/memory_access.cuh"

constexpr int PIECE = 64;

// sorted: indices in order. order: the row of dy of each. by_count: divide each sum by the length of its run.
// head, tail: (pieces, columns).
template <class T>
__global__ void __launch_bounds__(128) embedding_backward_pieces(
    const T* dy, const long long* sorted, const long long* order, T* dw, acc_t<T>* head, acc_t<T>* tail, long long padding, long long by_count,
    long long count, long long columns) {
    using A = acc_t<T>;
    long long column = blockIdx.y * 128LL + threadIdx.x;
    if (column >= columns) return;
    long long start = blockIdx.x * (long long)PIECE;
    int size = int(min((long long)PIECE, count - start));
    const long long* index = sorted + start;
    bool from_before = start > 0 && sorted[start - 1] == index[0];
    A sum = 0;
    int run = 0;
    for (int first = 0; first < size; first += 4) {
        A values[4];  // four loads are under way before the first is needed
#pragma unroll
        for (int k = 0; k < 4; k++)
            values[k] = first + k < size ? widen(dy[order[start + first + k] * columns + column]) : A(0);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int i = first + k;
            if (i >= size) break;
            long long word = index[i];
            if (word != padding) sum += values[k];
            run++;
            bool last = i + 1 == size;
            if (!last && index[i + 1] == word) continue;
            bool goes_on = last && start + size < count && index[size] == word;
            if (from_before)
                head[blockIdx.x * columns + column] = sum;  // the first run of the piece, and perhaps its only one
            else if (goes_on)
                tail[blockIdx.x * columns + column] = sum;
            else if (word != padding)
                dw[word * columns + column] = narrowed<T>(by_count ? sum / A(run) : sum);
            from_before = false;
            sum = 0;
            run = 0;
        }
    }
}

__device__ __forceinline__ long long run_before(const long long* sorted, long long at) {
    long long start = at / PIECE * PIECE, from = at;
    while (from > start && sorted[from - 1] == sorted[at]) from--;
    return from;
}

// Completes the run that begins in a piece and goes on in the next ones.
template <class T>
__global__ void __launch_bounds__(128) embedding_backward_join(
    const long long* sorted, T* dw, const acc_t<T>* head, const acc_t<T>* tail, long long padding, long long by_count, long long count,
    long long columns) {
    using A = acc_t<T>;
    long long column = blockIdx.y * 128LL + threadIdx.x;
    if (column >= columns) return;
    long long piece = blockIdx.x, end = (piece + 1) * PIECE;
    if (end >= count) return;  // the last piece goes on nowhere
    long long word = sorted[end - 1];
    if (sorted[end] != word || word == padding) return;
    long long from = run_before(sorted, end - 1);
    if (from == piece * PIECE && from > 0 && sorted[from - 1] == word) return;  // began earlier
    A sum = tail[piece * columns + column];
    long long to = end;
    for (long long next = piece + 1; to < count && sorted[to] == word; next++) {
        sum += head[next * columns + column];
        long long stop = min(count, (next + 1) * PIECE);
        while (to < stop && sorted[to] == word) to++;
    }
    dw[word * columns + column] = narrowed<T>(by_count ? sum / A(to - from) : sum);
}
"""

# %%
#| into: aten/native/cuda/embedding_backward_kernel.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import FLOATING, Kernel, accumulator, array_module, cpp_type

# %%
#| into: aten/native/cuda/embedding_backward_kernel.py
_FILE = "aten/native/cuda/embedding_backward_kernel.cu"
_PIECES = Kernel(_FILE, "embedding_backward_pieces", FLOATING)
_JOIN = Kernel(_FILE, "embedding_backward_join", FLOATING)

PIECE = 64
"""Sorted indices of a block; the kernels' constant of that name."""


# %%
#| into: aten/native/cuda/embedding_backward_kernel.py
#| upstream: aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cuh#at::native::embedding_backward_cuda_kernel
def embedding_dense_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    """The table's gradient: rows of `grad_output` added up by index, in one order. NotImplemented for other than floating dtypes."""
    kind = cpp_type(grad_output)
    if kind is None:
        return NotImplemented
    xp, acc = array_module(grad_output), accumulator(grad_output)
    columns = grad_output.shape[-1]
    dw = xp.zeros((num_weights, columns), grad_output.dtype)
    flat = indices.reshape(-1).astype(np.int64, copy=False)
    if not flat.size or not columns:
        return dw
    order = xp.argsort(flat, kind="stable")
    sorted_indices = flat[order]
    dy = xp.ascontiguousarray(grad_output)
    pieces = -(-flat.size // PIECE)
    head, tail = xp.empty((2, pieces, columns), acc)
    grid = (pieces, -(-columns // 128))
    numbers = (int(padding_idx), int(scale_grad_by_freq), flat.size, columns)
    _PIECES[kind](grid, 128, dy, sorted_indices, order, dw, head, tail, *numbers)
    _JOIN[kind](grid, 128, sorted_indices, dw, head, tail, *numbers)
    return dw


# %% [markdown]
# Two hundred words of a text, most of them frequent ones, in pieces of 64; the sums beside `np.add.at`, and twice the same bits, whichever thread goes first.

# %%
from readtorch.aten.native.cuda import embedding_backward_kernel
from readtorch.aten.native.cuda.jit_utils import running_on
from readtorch.literate import fibres

if fibres.available():
    rng = np.random.default_rng(0)
    words = rng.geometric(0.3, 200) - 1
    dy = rng.standard_normal((200, 40)).astype(np.float32)
    tables = []
    for reverse in (False, True):
        with running_on(fibres.OnCpu(reverse=reverse)):
            tables.append(embedding_backward_kernel.embedding_dense_backward(dy, words, 20, -1, False))
    exact = np.zeros((20, 40))
    np.add.at(exact, words, dy)
    print(f"largest error {abs(tables[0] - exact).max():.0e}; same bits: {(tables[0] == tables[1]).all()}")
else:
    print("there is no g++ here")

# %% [markdown]
# ### What upstream does more
# For few indices (some thousands) it skips the sort and lets one block look for duplicates (`embedding_backward_feature_kernel`). It cuts *runs* into pieces of ten rows rather than the list into pieces of 64, which takes four helper kernels and two prefix sums to find the cuts, and divides rows by their counts as it adds. Its `im2col` divides a running index three times per thread, ours uses the grid's second dimension. Convolutions go to cuDNN, which never writes columns to memory: it makes them in shared memory, tile by tile, for the product that is under way (implicit GEMM). `slow_conv2d` is what remains where cuDNN is absent or switched off.
