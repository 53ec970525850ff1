# Tangled from chapters/a1_operators/5e_sparse_products.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import numpy as np

from readtorch.aten.native.sparse.sparse_blas_impl import by_rows
from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, coalesced


def sparse_times_sparse(a: SparseTensorImpl, b: SparseTensorImpl) -> SparseTensorImpl:
    """The product of two sparse matrices of one dtype, coalesced."""
    a = coalesced(a)
    rows, columns, values = by_rows(b)
    first = np.searchsorted(rows, a.indices[1], "left")
    counts = np.searchsorted(rows, a.indices[1], "right") - first
    left = np.repeat(np.arange(a.nnz), counts)
    right = np.arange(len(left)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    indices = np.stack([a.indices[0][left], columns[right]])
    products = a.values[left] * values[right]
    result = coalesced(SparseTensorImpl(indices, products, (a.shape[0], b.shape[1])))
    return SparseTensorImpl(result.indices, result.values, result.shape, True)
