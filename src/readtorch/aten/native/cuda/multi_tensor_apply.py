# Tangled from chapters/a3_kernels/5_optimizers.py — edit there, or here and run `readtorch sync`.
"""Lists of arrays for one launch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import Kernel, array_module, cpp_type, flag, pointer

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
