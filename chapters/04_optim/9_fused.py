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

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Pieces of equal memory
#
# A block is 65,536 elements: a quarter megabyte in single precision, so that a parameter's piece, its gradient's, both moments' and the scratch fit in a second-level cache of one or two megabytes, while a NumPy call's own half a microsecond is small beside its
# work. The scratch is made once per thread and dtype: in the steady state a step allocates nothing.

# %%
#| into: aten/native/__init__.py
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
from collections.abc import Iterator
from typing import Any

import numpy as np

from readtorch.c10.core.tensor_impl import TensorImpl, version_counter

# %%
#| into: aten/native/fused_sgd.py
BLOCK = 65536

_local = threading.local()


def scratch(kind: np.dtype, count: int) -> list[np.ndarray]:
    """`count` arrays of one block, the same ones at every call in this thread."""
    pools = _local.__dict__
    pool = pools.setdefault(kind.char, [])
    while len(pool) < count:
        pool.append(np.empty(BLOCK, kind))
    return pool[:count]


def blocks(*arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """The same pieces of each array, in order of memory."""
    flat = [array.reshape(-1) for array in arrays]
    size = flat[0].size
    if size <= BLOCK:
        yield tuple(flat)
        return
    for start in range(0, size, BLOCK):
        yield tuple(array[start : start + BLOCK] for array in flat)


# %% [markdown]
# Blocks presuppose plain memory: real numbers in one piece, on the CPU, of one dtype. A gradient is only read, so one that lies differently (a convolution's may be channels-last) is copied. Everything else takes the operators' way.


# %%
#| into: aten/native/fused_sgd.py
def plain_arrays(grad: Any, *written: Any) -> list[np.ndarray] | None:
    """The arrays behind `grad` and the tensors to be written, if a kernel may walk over them; None if not."""
    kind = written[0]._array.dtype if isinstance(written[0], TensorImpl) else None
    if kind is None or kind.kind != "f" or kind.itemsize < 4:
        return None
    arrays = []
    for tensor in written:
        array = tensor._array
        if array.__class__ is not np.ndarray or array.dtype != kind or not array.flags.carray:
            return None
        arrays.append(array)
    values = grad._array
    if values.__class__ is not np.ndarray or values.dtype != kind or values.shape != arrays[0].shape:
        return None
    return [values if values.flags.c_contiguous else np.ascontiguousarray(values), *arrays]


def bump(*tensors: Any) -> None:
    """Say that these tensors were written to."""
    for tensor in tensors:
        version_counter(tensor).value += 1


# %% [markdown]
# ## SGD
#
# The same operations in the same order as the loop, hence the same bits. `buffer` is None without momentum; in the first step with momentum it does not exist yet, and that step is left to the loop.


# %%
#| into: aten/native/fused_sgd.py
#| upstream: aten/src/ATen/native/FusedSGD.cpp#at::native::_fused_sgd_kernel_cpu_
def sgd(
    param: Any,
    grad: Any,
    buffer: Any,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> bool:
    """One step in place, if the memory allows it: whether it was done."""
    written = (param,) if buffer is None else (param, buffer)
    arrays = plain_arrays(grad, *written)
    if arrays is None:
        return False
    one, two = scratch(arrays[1].dtype, 2)
    for piece in blocks(*arrays):
        g, p = piece[0], piece[1]
        s, t = one[: p.size], two[: p.size]
        if maximize:
            g = np.negative(g, out=s)
        if weight_decay != 0:
            np.multiply(p, weight_decay, out=t)
            g = np.add(g, t, out=s)
        if buffer is not None:
            b = piece[2]
            np.multiply(b, momentum, out=b)
            np.add(b, g if dampening == 0 else np.multiply(g, 1 - dampening, out=t), out=b)
            g = np.add(g, np.multiply(b, momentum, out=t), out=s) if nesterov else b
        np.add(p, np.multiply(g, -lr, out=t), out=p)
    bump(*written)
    return True


# %% [markdown]
# ## Adam
#
# The moments come out bit for bit as the loop makes them. In the update the loop divides √v by √(1 − β₂ᵗ), adds ε, divides, and multiplies by the step size. Multiplying the fraction through by √(1 − β₂ᵗ) leaves a number for ε and a
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
from typing import Any

import numpy as np

from readtorch.aten.native.fused_sgd import blocks, bump, plain_arrays, scratch


# %%
#| into: aten/native/fused_adam.py
#| upstream: aten/src/ATen/native/FusedAdam.cpp#at::native::_fused_adam_kernel_cpu_
def adam(
    param: Any,
    grad: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    max_exp_avg_sq: Any,
    step: float,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    decoupled: bool,
) -> bool:
    """One step in place, if the memory allows it: whether it was done. `max_exp_avg_sq` is None without AMSGrad."""
    written = (param, exp_avg, exp_avg_sq) if max_exp_avg_sq is None else (param, exp_avg, exp_avg_sq, max_exp_avg_sq)
    arrays = plain_arrays(grad, *written)
    if arrays is None:
        return False
    root = math.sqrt(1 - beta2**step)
    size, floor = -lr * root / (1 - beta1**step), eps * root
    weight = 1 - beta1
    one, two = scratch(arrays[1].dtype, 2)
    for piece in blocks(*arrays):
        g, p, m, v = piece[:4]
        s, t = one[: p.size], two[: p.size]
        if maximize:
            g = np.negative(g, out=s)
        if weight_decay != 0 and decoupled:
            np.multiply(p, 1 - lr * weight_decay, out=p)
        elif weight_decay != 0:
            g = np.add(g, np.multiply(p, weight_decay, out=t), out=s)
        np.subtract(g, m, out=t)
        if weight < 0.5:
            np.add(m, np.multiply(t, weight, out=t), out=m)
        else:
            np.subtract(g, np.multiply(t, 1 - p.dtype.type(weight), out=t), out=m)
        np.multiply(v, beta2, out=v)
        np.multiply(g, g, out=t)
        np.add(v, np.multiply(t, 1 - beta2, out=t), out=v)
        second = v if max_exp_avg_sq is None else np.maximum(piece[4], v, out=piece[4])
        np.sqrt(second, out=t)
        np.add(t, floor, out=t)
        np.divide(m, t, out=t)
        np.add(p, np.multiply(t, size, out=t), out=p)
    bump(*written)
    return True


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
