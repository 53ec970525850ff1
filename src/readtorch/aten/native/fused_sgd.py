# Tangled from chapters/04_optim/9_fused.py — edit there, or here and run `readtorch sync`.
"""SGD's step in place over blocks of memory, and what the fused kernels share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from readtorch.aten.native.cpu_blas import axpby
from readtorch.c10.core.tensor_impl import TensorImpl, version_counter

BLOCK = 131072

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
            axpby(1 - dampening, g, momentum, b, t)
            g = np.add(g, np.multiply(b, momentum, out=t), out=s) if nesterov else b
        axpby(-lr, g, 1.0, p, t)
    bump(*written)
    return True
