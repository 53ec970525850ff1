# Tangled from chapters/a1_operators/5e_sparse_products.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from itertools import pairwise

import numpy as np

from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, segment_starts


def by_rows(impl: SparseTensorImpl) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values of a matrix, in the order of the rows."""
    rows, columns = impl.indices
    if impl.coalesced or (rows[1:] >= rows[:-1]).all():
        return rows, columns, impl.values
    order = impl.orders.get(impl.keys[0])
    if order is not None:
        ascending = rows[order]
        if (ascending[1:] >= ascending[:-1]).all():
            return ascending, columns[order], impl.values[order]
    order = impl.orders[impl.keys[0]] = np.argsort(rows, kind="stable")
    return rows[order], columns[order], impl.values[order]


#: numbers that all rows of the entries together may have to be fetched at once, and those of a batch of rows
AT_ONCE, BATCH = 1 << 18, 1 << 16


def sparse_times_dense(impl: SparseTensorImpl, dense: np.ndarray) -> np.ndarray:
    """`(n, m)` sparse × `(m, p)` dense, of one dtype."""
    rows, columns, values = by_rows(impl)
    width = dense.shape[1]
    result = np.zeros((impl.shape[0], width), dense.dtype)
    if not len(rows) or not width:
        return result
    starts = segment_starts(rows)
    if len(rows) * width <= AT_ONCE:
        products = dense.take(columns, 0)
        products *= values[:, None]
        result[rows[starts]] = np.add.reduceat(products, starts, axis=0)
        return result
    counts = np.diff(starts, append=len(rows))
    by_degree = np.argsort(counts, kind="stable")
    cuts = [*segment_starts(counts[by_degree]), len(counts)]
    for begin, end in pairwise(cuts):
        degree = int(counts[by_degree[begin]])
        step = max(1, BATCH // (degree * width))
        for first in range(begin, end, step):
            chosen = starts[by_degree[first : min(first + step, end)]]
            entries = chosen[:, None] + np.arange(degree)
            result[rows[chosen]] = np.matmul(values[entries][:, None, :], dense.take(columns[entries], 0))[:, 0]
    return result
