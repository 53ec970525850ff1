# Tangled from chapters/04_optim/ — edit there, or here and run `readtorch sync`.
"""SGD's step in place over blocks of memory, and what the fused kernels share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from readtorch.aten.native import cpu_blas
from readtorch.aten.native.cpu_blas import address, axpby
from readtorch.aten.parallel import parallel_for
from readtorch.c10.core.tensor_impl import TensorImpl, version_counter, wrap

BLOCK = 131072

_local = threading.local()


def scratch(kind: np.dtype, count: int) -> list[np.ndarray]:
    """`count` arrays of one block, the same ones at every call in this thread."""
    pools = _local.__dict__
    pool = pools.setdefault(kind.char, [])
    while len(pool) < count:
        pool.append(np.empty(BLOCK, kind))
    return pool[:count]


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


def on_device(first: Any) -> bool:
    """Do fused kernels of a device reach this tensor?"""
    array = getattr(first, "_array", None)
    if array is None or array.__class__ is np.ndarray:
        return False
    from readtorch.aten.native.cuda import jit_utils

    return jit_utils.target.takes(array)


def device_groups(lists: Sequence[Sequence[Any]], steps: Sequence[float] | None = None) -> Iterator[list[int]]:
    """Numbers of the parameters that one launch can take, group by group. A list's None stands for memory yet to be made."""
    from readtorch.aten.native.cuda import jit_utils

    takes = jit_utils.target.takes
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, row in enumerate(zip(*lists, strict=True)):
        arrays = [tensor._array for tensor in row if tensor is not None]
        first = arrays[0]
        alike = all(
            takes(a) and a.dtype == first.dtype and a.shape == first.shape and a.flags.c_contiguous for a in arrays
        )
        if alike and jit_utils.cpp_type(first) is not None:
            made = tuple(tensor is not None for tensor in row)
            step = None if steps is None else steps[number]
            key = (first.dtype, getattr(getattr(first, "data", None), "device_id", 0), step, made)
            groups.setdefault(key, []).append(number)
    yield from groups.values()


def arrays_of(tensors: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
    """The arrays behind some tensors of a list."""
    return [tensors[number]._array for number in numbers]


def sgd_on_device(
    params: Sequence[Any], grads: Sequence[Any], buffers: list[Any], *, momentum: float, **options: Any
) -> frozenset[int]:
    """Step the parameters that a device's kernel can take, and put fresh buffers into `buffers`: which those were."""
    if not params or not on_device(params[0]):
        return frozenset()
    from readtorch.aten.native.cuda import jit_utils
    from readtorch.aten.native.cuda.fused_sgd_kernel import sgd as kernel

    done: set[int] = set()
    lists = [params, grads, *([buffers] if momentum != 0 else [])]
    for numbers in device_groups(lists):
        arrays = [arrays_of(one, numbers) for one in (params, grads)]
        xp = jit_utils.array_module(arrays[0][0])
        first = momentum != 0 and buffers[numbers[0]] is None
        with jit_utils.target.beside(arrays[0][0]):
            if first:
                for number, array in zip(numbers, arrays[0], strict=True):
                    buffers[number] = wrap(xp.empty_like(array))
            moved = arrays_of(buffers, numbers) if momentum != 0 else None
            kernel(arrays[0], arrays[1], moved, momentum=momentum, first=first, **options)
        bump(*(one[number] for one in (params, buffers)[: 1 + (moved is not None)] for number in numbers))
        done.update(numbers)
    return frozenset(done)
