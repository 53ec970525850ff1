# Tangled from chapters/a1_operators/z_batching_rules.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_helper import Operator, at, padded, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer


def _check(op: Operator, value: Any, rank: int, name: str) -> None:
    if rank_of(value) != rank:
        raise RuntimeError(f"{op.entry.name}: {name} must be {rank}-D, got {rank_of(value)}-D")


def product(layer: VmapLayer, first: Any, second: Any) -> Any:
    """Matrix by matrix. One that all examples share makes one large product of many small ones."""
    left, right = layer.physical(first), layer.physical(second)
    if layer.is_batched(first) and not layer.is_batched(second):
        rows = at.reshape(left, (-1, left._array.shape[-1]))
        return at.reshape(at.mm(rows, right), (*left._array.shape[:-1], right._array.shape[-1]))
    if layer.is_batched(first):
        return at.bmm(left, right)
    if not layer.is_batched(second):
        return at.mm(left, right)
    columns = right._array.shape
    wide = at.reshape(at.permute(right, (1, 0, 2)), (columns[1], columns[0] * columns[2]))
    result = at.reshape(at.mm(left, wide), (left._array.shape[0], columns[0], columns[2]))
    return at.permute(result, (1, 0, 2))


@rule("mm")
def mm(layer: VmapLayer, op: Operator, self: Any, mat2: Any) -> Any:
    """The product of two matrices."""
    _check(op, self, 2, "self")
    _check(op, mat2, 2, "mat2")
    return product(layer, self, mat2)


@rule("bmm")
def bmm(layer: VmapLayer, op: Operator, self: Any, mat2: Any) -> Any:
    """Products of two batches of matrices: the examples' batches are one."""
    _check(op, self, 3, "batch1")
    _check(op, mat2, 3, "batch2")
    first, second = layer.full(self), layer.full(mat2)
    a, b = first._array.shape, second._array.shape
    result = op(at.reshape(first, (a[0] * a[1], *a[2:])), at.reshape(second, (b[0] * b[1], *b[2:])))
    return at.reshape(result, (*a[:3], b[3]))


@rule("mv")
def mv(layer: VmapLayer, op: Operator, self: Any, vec: Any) -> Any:
    """Matrix by vector."""
    _check(op, self, 2, "input")
    _check(op, vec, 1, "vec")
    matrix, vector = layer.physical(self), layer.physical(vec)
    if not layer.is_batched(vec):
        return at.reshape(op(at.reshape(matrix, (-1, matrix._array.shape[-1])), vector), matrix._array.shape[:2])
    if not layer.is_batched(self):
        return at.mm(vector, at.transpose(matrix, 0, 1))
    return at.squeeze(at.bmm(matrix, at.unsqueeze(vector, -1)), -1)


@rule("dot")
def dot(layer: VmapLayer, op: Operator, self: Any, tensor: Any) -> Any:
    """Vector by vector."""
    _check(op, self, 1, "self")
    _check(op, tensor, 1, "tensor")
    if layer.is_batched(self) and layer.is_batched(tensor):
        both = at.bmm(at.unsqueeze(layer.physical(self), 1), at.unsqueeze(layer.physical(tensor), 2))
        return at.reshape(both, (layer.size,))
    many, one = (self, tensor) if layer.is_batched(self) else (tensor, self)
    return at.mv(layer.physical(many), one)


@rule("addmm")
def addmm(layer: VmapLayer, op: Operator, self: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
    """A product and a summand."""
    _check(op, mat1, 2, "mat1")
    _check(op, mat2, 2, "mat2")
    shared = not layer.is_batched(self) and not layer.is_batched(mat2)
    if shared and rank_of(self) <= 1:  # a bias: one large product, as for a layer that sees a batch
        rows = layer.physical(mat1)
        result = op(self, at.reshape(rows, (-1, rows._array.shape[-1])), mat2, beta, alpha)
        return at.reshape(result, (*rows._array.shape[:2], result._array.shape[-1]))
    result = product(layer, mat1, mat2)
    result = result if alpha == 1 else result * alpha
    if beta == 0:
        return result
    summand = padded(layer, self, 2)
    return result + (summand if beta == 1 else summand * beta)
