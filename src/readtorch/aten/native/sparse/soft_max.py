# Tangled from chapters/a1_operators/5e_sparse_products.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import operators, register, sparse_derivative, sparse_row
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.sparse_tensor_impl import SparseTensorImpl, coalesced, flat_places, segment_starts
from readtorch.c10.core.dispatch_key import DispatchKey
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


def _by_pool(self: SparseTensorImpl, dim: int, work: Callable[..., np.ndarray], *values: np.ndarray) -> np.ndarray:
    """`work(reduce, values…)` along `dim`; `reduce(ufunc, x)` gives each entry its pool's result."""
    if dim >= self.sparse_dim:
        axis = dim - self.sparse_dim + 1
        return work(lambda ufunc, x: ufunc.reduce(x, axis=axis, keepdims=True), *values)
    others = [place for place in range(self.sparse_dim) if place != dim]
    pools = flat_places(self.indices[others], tuple(self.shape[place] for place in others))
    order = np.argsort(pools, kind="stable")
    starts = segment_starts(pools[order])
    counts = np.diff(starts, append=len(order))
    found = work(lambda ufunc, x: np.repeat(ufunc.reduceat(x, starts, axis=0), counts, 0), *(x[order] for x in values))
    result = np.empty_like(found)
    result[order] = found
    return result


def _softmax(reduce: Any, x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - reduce(np.maximum, x))
    return powers / reduce(np.add, powers)


def _log_softmax(reduce: Any, x: np.ndarray) -> np.ndarray:
    shifted = x - reduce(np.maximum, x)
    return shifted - np.log(reduce(np.add, np.exp(shifted)))


def _softmax_gradient(reduce: Any, y: np.ndarray, grad: np.ndarray) -> np.ndarray:
    return y * (grad - reduce(np.add, y * grad))


def _log_softmax_gradient(reduce: Any, y: np.ndarray, grad: np.ndarray) -> np.ndarray:
    return grad - np.exp(y) * reduce(np.add, grad)


def _both(name: str, node: str, forward: Any, backward: Any) -> None:
    def dense(self: Array, dim: int) -> Array:
        raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'CPU' backend.")

    def kernel(self: Array, dim: int) -> Array:
        place = maybe_wrap_dim(dim, self.ndim)
        self = coalesced(self)
        return self.with_values(_by_pool(self, place, forward, self.values) if self.nnz else self.values)

    def dense_data(grad_output: Array, output: Array, dim: int) -> Array:
        raise NotImplementedError(f"Could not run 'aten::{name}_backward_data' with arguments from the 'CPU' backend.")

    def kernel_data(grad_output: Array, output: Array, dim: int) -> Array:
        place = maybe_wrap_dim(dim, output.ndim)
        at = operators["_values_at"].kernels[
            DispatchKey.SparseCPU if isinstance(grad_output, SparseTensorImpl) else DispatchKey.CPU
        ]
        arriving = at(grad_output, output.indices).reshape(output.values.shape)
        return output.with_values(
            _by_pool(output, place, backward, output.values, arriving) if output.nnz else arriving
        )

    register(name, variants="", node=node)(dense)
    sparse_row(name)(kernel)
    register(f"{name}_backward_data", variants="")(dense_data)
    sparse_row(f"{name}_backward_data")(kernel_data)
    sparse_derivative(
        name, self=lambda at, grad, result, dim: getattr(at, f"{name}_backward_data")(grad, result.detach(), dim)
    )


_both("_sparse_softmax", "SparseSoftmax", _softmax, _softmax_gradient)
_both("_sparse_log_softmax", "SparseLogSoftmax", _log_softmax, _log_softmax_gradient)
