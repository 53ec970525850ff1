# Tangled from chapters/a1_operators/nn_6_linear_and_embedding.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.sparse_tensor_impl import SparseTensorImpl
from readtorch.c10.core.dispatch_key import meta_array, specimen
from readtorch.c10.core.scalar_type import from_numpy_dtype, to_string


def _check_indices(indices: Array, rows: int, op: str) -> None:
    if indices.dtype.kind != "i" or indices.dtype.itemsize < 4:
        found = f"torch.{from_numpy_dtype(indices.dtype)._legacy}"
        raise RuntimeError(
            f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {found} instead (in {op})"
        )
    if indices.size and not 0 <= indices.min() <= indices.max() < rows:
        raise IndexError("index out of range in self")


@register("embedding")
def embedding(
    weight: Array,
    indices: Array,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    """Rows of `weight` by number."""
    if not weight.ndim and weight.dtype.kind != "i":  # what saves its size for backward comes first
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if not len(weight) and indices.size:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    _check_indices(indices, len(weight), "embedding")
    return weight[indices]


@register("embedding_dense_backward", variants="", node="EmbeddingDenseBackward")
def embedding_dense_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """The table's gradient: rows of `grad_output` added up by index; nothing at `padding_idx`."""
    flat = indices.reshape(-1)
    rows = grad_output.reshape(len(flat), grad_output.shape[-1])
    dw = np.zeros((num_weights, rows.shape[1]), grad_output.dtype)
    if not len(flat):
        return dw
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sums = np.add.reduceat(rows[order], starts, axis=0)
    if scale_grad_by_freq:
        counts = np.diff(np.append(starts, len(flat)))
        sums /= counts[:, None].astype(sums.dtype)
    dw[ordered[starts]] = sums
    if padding_idx >= 0:
        dw[padding_idx] = 0
    return dw


@register("embedding", key="Meta")
def _embedding_on_meta(weight: Array, indices: Array, *options: Any) -> Array:
    row = embedding(specimen(weight), specimen(indices, whole=False), *options)
    return meta_array((*indices.shape, weight.shape[1]), row.dtype)


register("embedding_dense_backward", key="Meta")(
    lambda grad, indices, num_weights, *options: meta_array((num_weights, grad.shape[-1]), grad.dtype)
)


@register("embedding_sparse_backward", variants="", node="EmbeddingSparseBackward")
def embedding_sparse_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """The table's gradient as a list: the numbers looked up, and the rows of `grad_output`."""
    if scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    width = grad_output.shape[-1]
    flat = indices.reshape(-1).astype(np.int64, copy=False)
    rows = grad_output.reshape(len(flat), width)
    if padding_idx >= 0:
        kept = flat != padding_idx
        flat, rows = flat[kept], rows[kept]
    return SparseTensorImpl(flat[None], rows, (num_weights, width))


def _lookup_gradient(
    at: Any, grad: Any, indices: Any, weight_shape: Any, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Any:
    if sparse:
        return at.embedding_sparse_backward(grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq)
    return at.embedding_dense_backward(grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq)


def _lookup_again(at: Any, grad: Any, indices: Any, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    if scale_grad_by_freq:
        raise RuntimeError("double backward is not supported for embedding with scale_grad_by_freq")
    rows = at.embedding(grad, indices)
    return rows if padding_idx < 0 else rows * at.unsqueeze(indices != padding_idx, -1)


derivative("embedding", weight=_lookup_gradient)
derivative("embedding_dense_backward", grad_output=_lookup_again)


@register("embedding_renorm_")
def embedding_renorm_(self: Array, indices: Array, max_norm: float, norm_type: float) -> Array:
    """Scale down, in place, the rows looked up whose norm exceeds `max_norm`."""
    if self.ndim != 2:
        raise RuntimeError(
            f"Expected 2-dimensional tensor, but got {self.ndim}-dimensional tensor (in embedding_renorm_)"
        )
    if self.dtype.kind not in "fVc":
        kind = to_string(self.dtype)
        raise RuntimeError(f"norm(): input dtype should be either floating point or complex. Got {kind} instead.")
    _check_indices(indices, len(self), "embedding_renorm_")
    rows = np.unique(indices)
    norms = np.linalg.norm(self[rows], norm_type, axis=1)
    scale = np.where(norms > max_norm, max_norm / (norms + 1e-7), 1)
    self[rows] *= scale[:, None].astype(self.dtype)
    return self
