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
# # One pass over the cache: SGD and Adam in place
#
# The step functions of the last parts read like their formulas, an operator per line. Each operator walks over the whole parameter: Adam's fourteen passes over ResNet-18's 11 million numbers read and write a gigabyte and a half, and
# every one of them allocates its result. Nothing in the arithmetic asks for that. An element's update needs that element alone, so all fourteen passes can be made over a piece small enough to stay in the processor's second cache, then
# over the next. Upstream wrote kernels of this form for `fused=True` (`FusedAdam.cpp`, `FusedSGD.cpp`, vector registers in place of a cache). In NumPy the same idea is a loop over blocks with `out=` everywhere.

# %%
import time

import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Pieces of equal memory
#
# A block is 131,072 elements, half a megabyte in single precision. Smaller ones would fit a second-level cache of one megabyte better, with gradient, parameter, moments and scratch, and come out slower: each call into NumPy costs about a
# microsecond before it begins, and what falls out of the second cache still lies in the third. The scratch is made once per thread and dtype: in the steady state a step allocates nothing.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import cpu_blas as cpu_blas
from readtorch.aten.native import fused_adam as fused_adam
from readtorch.aten.native import fused_sgd as fused_sgd

# %%
#| into: aten/native/fused_sgd.py
"""SGD's step in place over blocks of memory, and what the fused kernels share."""

# %%
#| into: aten/native/fused_sgd.py
#| imports
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from readtorch.aten.native import cpu_blas
from readtorch.aten.native.cpu_blas import address, axpby
from readtorch.aten.parallel import parallel_for
from readtorch.c10.core.tensor_impl import TensorImpl, version_counter

# %%
#| into: aten/native/fused_sgd.py
BLOCK = 131072

_local = threading.local()


def scratch(kind: np.dtype, count: int) -> list[np.ndarray]:
    """`count` arrays of one block, the same ones at every call in this thread."""
    pools = _local.__dict__
    pool = pools.setdefault(kind.char, [])
    while len(pool) < count:
        pool.append(np.empty(BLOCK, kind))
    return pool[:count]


# %% [markdown]
# Blocks presuppose plain memory: real numbers in one piece, on the CPU, of one dtype. A gradient is only read, so one that lies differently (a convolution's may be channels-last) is copied. Everything else takes the operators' way.


# %%
#| into: aten/native/fused_sgd.py
def plain_arrays(grad: Any, *written: Any) -> list[np.ndarray] | None:
    """The arrays behind `grad` and the tensors to be written, if a kernel may walk over them; None if not."""
    kind = written[0]._array.dtype if isinstance(written[0], TensorImpl) else None
    if kind is None or kind.kind != "f" or kind.itemsize < 4:
        return None
    arrays: list[np.ndarray] = []
    for tensor in written:
        array = tensor._array
        if array.__class__ is not np.ndarray or array.dtype != kind or not array.flags.carray:
            return None
        if arrays and array.shape != arrays[0].shape:  # state of another model, loaded: the plain formula refuses it
            return None
        arrays.append(array)
    values = grad._array
    if values.__class__ is not np.ndarray or values.dtype != kind or values.shape != arrays[0].shape:
        return None
    return [values if values.flags.c_contiguous else np.ascontiguousarray(values), *arrays]


def bump(*tensors: Any) -> None:
    """Say that these tensors were written to."""
    for tensor in tensors:
        version_counter(tensor).bump()


# %% [markdown]
# The blocks of *all* parameters make one list, and that list is a loop that threads can [share](../a1_operators/0_threads.py). Loops over one parameter at a time would not do: of ResNet-18's eleven parameters larger than a block four have two or three, and whoever gets the last one is waited for. The largest come
# first, so that no thread begins a large one when the others are done. With little to do in all, nobody is woken.
#
# A parameter that stands in a list twice is stepped twice, in turn. Its second turn is left to the loop of operators. Two parameters on the same memory, as a view and its base are, keep the loop in one thread: of two that add to one number at once, one may be lost.


# %%
#| into: aten/native/fused_sgd.py
class Row(NamedTuple):
    """A parameter in plain memory: its gradient and what is written, flat, and where they begin."""

    number: int
    arrays: list[np.ndarray]
    addresses: list[int]


def _share_memory(rows: Iterable[Row]) -> bool:
    """Does one of the rows write where another does?"""
    spans = sorted(
        (at, at + array.nbytes) for row in rows for at, array in zip(row.addresses[1:], row.arrays[1:], strict=True)
    )
    return any(stop > start for (_, stop), (start, _) in pairwise(spans))


def step_in_blocks(rows: Iterable[tuple[Any, ...] | None], update: Callable[[Row, int, int], None]) -> frozenset[int]:
    """Call `update(row, start, stop)` for blocks of the rows `(gradient, *written)` in plain memory: which rows those were."""
    blocks: list[tuple[Row, int, int]] = []
    taken: list[Row] = []
    written: list[Any] = []
    seen = set()
    for number, tensors in enumerate(rows):
        arrays = None if tensors is None or id(tensors[1]) in seen else plain_arrays(*tensors)
        if tensors is None or arrays is None:
            continue
        seen.add(id(tensors[1]))
        written += tensors[1:]
        size = arrays[0].size
        row = Row(number, [array.reshape(-1) for array in arrays], [address(array) for array in arrays])
        taken.append(row)
        blocks += [(row, start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]
    blocks.sort(key=lambda block: block[1] - block[2])

    def some(start: int, stop: int) -> None:
        for block in blocks[start:stop]:
            update(*block)

    alone = sum(stop - start for _, start, stop in blocks) <= BLOCK or _share_memory(taken)
    parallel_for(0, len(blocks), max(len(blocks), 1) if alone else 1, some)
    bump(*written)
    return frozenset(row.number for row in taken)


# %% [markdown]
# ## The pass that NumPy lacks
#
# Both optimizers consist of one sentence said several times: y ← αx + βy. NumPy has no function for it. It takes three calls, one of them into scratch memory, where a processor could read x and y once, multiply, add, and write. The BLAS under NumPy's
# matrix product can: `axpby` is an addition of OpenBLAS and MKL to the reference library's `axpy`, and NumPy's wheels carry OpenBLAS. Its entry is found through the extension module that is linked with it, because `dlsym` on a
# library's handle looks through what that library depends on: no path has to be guessed. Where it is not there (a NumPy built on another BLAS, another platform's loader), the three calls do.
#
# BLAS takes a factor of zero as "do not read": with β = 0 a NaN in y is gone, where IEEE arithmetic keeps it, and so does PyTorch. Those cases take the three calls as well.

# %%
#| into: aten/native/cpu_blas.py
"""y ← αx + βy in one pass, by the BLAS that NumPy is linked with (twin of `aten/src/ATen/native/CPUBlas.cpp`)."""

# %%
#| into: aten/native/cpu_blas.py
#| imports
from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np


# %%
#| into: aten/native/cpu_blas.py
_ENTRIES = (
    ("scipy_cblas_{}axpby64_", ctypes.c_int64),
    ("cblas_{}axpby64_", ctypes.c_int64),
    ("scipy_cblas_{}axpby", ctypes.c_int),
)
"""The names that NumPy's wheels have given the function, and the integer that counts elements.

Plain `cblas_saxpby` is left out: its integers are of 32 or of 64 bits, and the name does not tell."""


@functools.cache
def kernel(char: str) -> Callable[..., None] | None:
    """The entry for this dtype's character, or None where NumPy brings no such BLAS."""
    letter = {"f": "s", "d": "d"}.get(char)
    if letter is None:
        return None
    try:
        library = ctypes.CDLL(str(import_module("numpy._core._multiarray_umath").__file__))
    except (ImportError, OSError):
        return None
    real = ctypes.c_float if char == "f" else ctypes.c_double
    for name, count in _ENTRIES:
        entry = getattr(library, name.format(letter), None)
        if entry is not None:
            entry.restype = None
            entry.argtypes = [count, real, ctypes.c_void_p, count, real, ctypes.c_void_p, count]
            return entry
    return None


# %% [markdown]
# `array.ctypes.data`, the usual way to an address, costs more than the call it is needed for: it makes an object of Python's that holds on to the array, every time. Through the buffer protocol the same number takes a quarter.


# %%
#| into: aten/native/cpu_blas.py
_view: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def address(array: np.ndarray) -> int:
    """Where the array's memory begins."""
    try:
        return ctypes.addressof(_view(array))
    except (TypeError, ValueError):  # read-only, in several pieces, or without elements
        return array.ctypes.data


# %%
#| into: aten/native/cpu_blas.py
#| upstream: aten/src/ATen/native/CPUBlas.h#at::native::cpublas::axpy
def axpby(alpha: float, x: np.ndarray, beta: float, y: np.ndarray, scratch: np.ndarray) -> None:
    """In place, y ← αx + βy. All three: one dimension, in one piece, of one dtype and size; `scratch` may be overwritten."""
    run = kernel(y.dtype.char) if alpha != 0 and beta != 0 else None
    if run is not None:
        run(y.size, alpha, address(x), 1, beta, address(y), 1)
        return
    if beta != 1:
        np.multiply(y, beta, out=y)
    np.add(y, x if alpha == 1 else np.multiply(x, alpha, out=scratch), out=y)


# %% [markdown]
# The two ways may differ in the last bit, as a fused multiply-add rounds once and two operations round twice. Over many thousands of numbers they never differ by more.

# %%
from readtorch.aten.native import cpu_blas

x, y = torch.randn(2, 100_000).numpy()
one, two, spare = y.copy(), y.copy(), y.copy()
cpu_blas.axpby(0.1, x, 0.9, one, spare)
np.add(np.multiply(two, np.float32(0.9)), np.multiply(x, np.float32(0.1)), out=two)
print(f"{(one != two).mean():.1%} of the results differ, by at most {np.abs(one - two).max():.1e}")

# %% [markdown]
# ## SGD
#
# In the first step with momentum a buffer does not exist yet, and that step is left to the loop. Momentum is one pass and the update another.
#
# Plain momentum, what most scripts run, is two calls of BLAS and nothing else, so it goes by addresses and makes no array for a block. That is more than tidiness. A block's 1.5 MB have pushed the interpreter out of the second cache, and every line of Python
# between two blocks comes from farther away than usual: with three arrays sliced and each asked for its address, the step of ResNet-18's parameters took between a third and a half longer.


# %%
#| into: aten/native/fused_sgd.py
#| upstream: aten/src/ATen/native/FusedSGD.cpp#at::native::_fused_sgd_kernel_cpu_
def sgd(
    params: Sequence[Any],
    grads: Sequence[Any],
    buffers: Sequence[Any],
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> frozenset[int]:
    """One step of the parameters in plain memory, in place: which those were."""
    plain = momentum != 0 and weight_decay == 0 and not (nesterov or maximize) and lr != 0 and dampening != 1

    def update(row: Row, start: int, stop: int) -> None:
        kind = row.arrays[1].dtype
        run = cpu_blas.kernel(kind.char) if plain else None
        if run is not None:
            g_at, p_at, b_at = (address + start * kind.itemsize for address in row.addresses)
            run(stop - start, 1 - dampening, g_at, 1, momentum, b_at, 1)
            run(stop - start, -lr, b_at, 1, 1.0, p_at, 1)
            return
        g, p, *buffer = (array[start:stop] for array in row.arrays)
        s, t = (array[: stop - start] for array in scratch(kind, 2))
        if maximize:
            g = np.negative(g, out=s)
        if weight_decay != 0:
            np.multiply(p, weight_decay, out=t)
            g = np.add(g, t, out=s)
        for b in buffer:
            axpby(1 - dampening, g, momentum, b, t)
            g = np.add(g, np.multiply(b, momentum, out=t), out=s) if nesterov else b
        axpby(-lr, g, 1.0, p, t)

    if momentum == 0:
        return step_in_blocks(zip(grads, params, strict=True), update)
    rows = zip(grads, params, buffers, strict=True)
    return step_in_blocks((row if row[2] is not None else None for row in rows), update)


# %% [markdown]
# ## Adam
#
# The running means are two of those sentences. In the update the loop divides √v by √(1 − β₂ᵗ), adds ε, divides, and multiplies by the step size. Multiplying the fraction through by √(1 − β₂ᵗ) leaves a number for ε and a
# number for the step size, and saves one pass; a parameter may then differ from the loop's in its last bit.
#
# $$ p \mathrel{-}= \frac{\eta}{1-\beta_1^t} \cdot \frac{m}{\sqrt{v}/\sqrt{1-\beta_2^t} + \varepsilon} = \frac{\eta\sqrt{1-\beta_2^t}}{1-\beta_1^t} \cdot \frac{m}{\sqrt{v} + \varepsilon\sqrt{1-\beta_2^t}} $$

# %%
#| into: aten/native/fused_adam.py
"""Adam's step in place over blocks of memory."""

# %%
#| into: aten/native/fused_adam.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.native.cpu_blas import axpby
from readtorch.aten.native.fused_sgd import Row, scratch, step_in_blocks


# %%
#| into: aten/native/fused_adam.py
#| upstream: aten/src/ATen/native/FusedAdam.cpp#at::native::_fused_adam_kernel_cpu_
def adam(
    params: Sequence[Any],
    grads: Sequence[Any],
    exp_avgs: Sequence[Any],
    exp_avg_sqs: Sequence[Any],
    max_exp_avg_sqs: Sequence[Any] | None,
    steps: Sequence[float],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    decoupled: bool,
) -> frozenset[int]:
    """One step of the parameters in plain memory, in place: which those were. `max_exp_avg_sqs` is None without AMSGrad."""

    def update(row: Row, start: int, stop: int) -> None:
        step = steps[row.number]
        root = math.sqrt(1 - beta2**step)
        g, p, m, v, *most = (array[start:stop] for array in row.arrays)
        s, t, u = (array[: stop - start] for array in scratch(p.dtype, 3))
        if maximize:
            g = np.negative(g, out=s)
        if weight_decay != 0 and decoupled:
            np.multiply(p, 1 - lr * weight_decay, out=p)
        elif weight_decay != 0:
            g = np.add(g, np.multiply(p, weight_decay, out=t), out=s)
        axpby(1 - beta1, g, beta1, m, t)
        axpby(1 - beta2, np.multiply(g, g, out=t), beta2, v, u)
        for largest in most:
            v = np.maximum(largest, v, out=largest)
        np.sqrt(v, out=t)
        np.add(t, eps * root, out=t)
        np.divide(m, t, out=t)
        axpby(-lr * root / (1 - beta1**step), t, 1.0, p, u)

    moments = [exp_avgs, exp_avg_sqs, *([] if max_exp_avg_sqs is None else [max_exp_avg_sqs])]
    return step_in_blocks(zip(grads, params, *moments, strict=True), update)


# %% [markdown]
# ## What it gains
#
# The loop is still there for everything that is not plain: a step with `differentiable=True`, where autograd must see every operation; complex or half precision; memory with gaps or in another order. A transposed parameter has the same
# numbers and takes the loop, which makes the comparison easy. `benchmarks/training.py` sets both optimizers beside PyTorch's on ResNet-18's parameters.


# %%
def seconds(parameter, steps=5):
    parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.Adam([parameter])
    optimizer.step()
    began = time.perf_counter()
    for _ in range(steps):
        optimizer.step()
    return (time.perf_counter() - began) / steps


loop, blocked = (
    seconds(torch.nn.Parameter(values)) for values in (torch.randn(1000, 1000).t(), torch.randn(1000, 1000))
)
print(
    f"a million parameters: operators {loop * 1e3:.1f} ms, blocks {blocked * 1e3:.1f} ms: {loop / blocked:.1f} times faster"
)


# %%
#| claim: SGD with momentum in place gives what the formula gives, and bumps the version of what it wrote
def _(torch):
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([p], lr=0.5, momentum=0.5)
    for _ in range(2):
        p.grad = torch.ones(3)
        before = p._version
        optimizer.step()
        assert p._version > before
    assert p.tolist() == [1 - 0.5 - 0.75] * 3
