# Tangled from chapters/a1_operators/z_batching_rules.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_helper import Operator, at, dim_of, leading_scalar, padded, rank_of, rule
from readtorch.aten.functorch.batch_rules_reduce_ops import shifted
from readtorch.aten.functorch.dynamic_layer import VmapLayer
from readtorch.aten.wrap_dim_utils import sizes
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


@rule("reshape", "sum_to_size")
def to_shape(layer: VmapLayer, op: Operator, value: Any, shape: tuple) -> Any:
    """Another shape of each example."""
    wanted = sizes(shape)
    if op.entry.name == "sum_to_size" and len(wanted) < rank_of(value):
        lead = rank_of(value) - len(wanted)
        whole = at.sum(layer.physical(value), tuple(range(1, lead + 1)))
        return op(whole, (layer.size, *wanted))
    return op(layer.physical(value), (_counted(layer, value, wanted),))


@rule("_view", "_unsafe_view")
def view(layer: VmapLayer, op: Operator, value: Any, shape: Any) -> Any:
    """The same where the shape is one argument."""
    return op(layer.physical(value), _counted(layer, value, sizes((shape,))))


def _counted(layer: VmapLayer, value: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of all. What -1 stands for is told from one example: there may be none."""
    if -1 in shape and not layer.size:
        known = 1
        for size in shape:
            known *= size if size != -1 else 1
        shape = tuple(value._array.size // max(known, 1) if size == -1 else size for size in shape)
    return (layer.size, *shape)


@rule("expand")
def expand(layer: VmapLayer, op: Operator, value: Any, implicit: bool, size: tuple) -> Any:
    """Stretched, each example alike."""
    wanted = sizes(size)
    return at.expand(padded(layer, value, len(wanted)), (layer.size, *wanted))


@rule("unsqueeze")
def unsqueeze(layer: VmapLayer, op: Operator, value: Any, dim: int) -> Any:
    """One dimension more."""
    return op(layer.physical(value), maybe_wrap_dim(dim, rank_of(value) + 1) + 1)


@rule("squeeze")
def squeeze(layer: VmapLayer, op: Operator, value: Any, dim: tuple) -> Any:
    """Without dimensions of size 1: the one that counts the examples stays even where there is one."""
    shape, rank = value._array.shape, rank_of(value)
    chosen = dim[0] if len(dim) == 1 and isinstance(dim[0], list | tuple) else dim
    dims = [maybe_wrap_dim(each, rank) for each in chosen] if dim else range(rank)
    return op(layer.physical(value), (tuple(each + 1 for each in dims if rank and shape[each] == 1),))


@rule("transpose")
def transpose(layer: VmapLayer, op: Operator, value: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged."""
    rank = rank_of(value)
    if not rank:
        maybe_wrap_dim(dim0, rank), maybe_wrap_dim(dim1, rank)
        return at.alias(layer.physical(value))
    return op(layer.physical(value), dim_of(dim0, rank), dim_of(dim1, rank))


@rule("t")
def t(layer: VmapLayer, op: Operator, value: Any) -> Any:
    """A matrix transposed; a vector or a number as it is."""
    if rank_of(value) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank_of(value)}D")
    whole = layer.physical(value)
    return at.transpose(whole, 1, 2) if rank_of(value) == 2 else at.alias(whole)


@rule("permute")
def permute(layer: VmapLayer, op: Operator, value: Any, dims: tuple) -> Any:
    """The dimensions in another order."""
    rank = rank_of(value)
    wanted = dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims
    if len(wanted) != rank:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering "
            f"of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(wanted)}"
        )
    return op(layer.physical(value), ((0, *(dim_of(each, rank) for each in wanted)),))


@rule("flip")
def flip(layer: VmapLayer, op: Operator, value: Any, dims: tuple) -> Any:
    """Dimensions from their other end."""
    rank = rank_of(value)
    wanted = dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims
    if not rank:
        return at.clone(layer.physical(value))
    return op(layer.physical(value), (tuple(dim_of(each, rank) for each in wanted),))


@rule("roll")
def roll(layer: VmapLayer, op: Operator, value: Any, shifts: Any, dims: Any) -> Any:
    """Elements moved around a dimension, or around each example as one row."""
    whole, rank = layer.physical(value), rank_of(value)
    if dims is None or dims in ((), []):
        rows = op(at.reshape(whole, (layer.size, -1)), shifts, 1)
        return at.reshape(rows, whole._array.shape)
    return op(whole, shifts, shifted(dims, rank))


@rule("select", "slice", "unfold", "split", "unbind", "_repeat_interleave")
def along(layer: VmapLayer, op: Operator, value: Any, *options: Any) -> Any:
    """Parts along a dimension."""
    names = op.entry.schema.names
    place = names.index("dimension" if "dimension" in names else "dim") - 1
    rank = rank_of(value)
    if not rank and op.entry.name != "unfold":
        what = (
            "select() cannot be applied to a 0-dim tensor."
            if op.entry.name == "select"
            else f"{op.entry.name} expects at least a 1-dimensional tensor"
        )
        raise IndexError(what) if op.entry.name == "select" else RuntimeError(what)
    given = list(options)
    given[place] = dim_of(given[place], rank)
    return op(leading_scalar(layer.physical(value), rank), *given)


@rule("select_backward", "slice_backward", "unfold_backward")
def along_backward(layer: VmapLayer, op: Operator, grad_output: Any, shape: Any, dim: int, *rest: Any) -> Any:
    """Their gradients: zeros but for the part."""
    return op(layer.physical(grad_output), (layer.size, *shape), dim_of(dim, len(shape)), *rest)


@rule("diagonal")
def diagonal(layer: VmapLayer, op: Operator, value: Any, offset: int, dim1: int, dim2: int) -> Any:
    """The diagonal of two dimensions."""
    rank = rank_of(value)
    return op(layer.physical(value), offset, dim_of(dim1, rank), dim_of(dim2, rank))


@rule("diagonal_backward")
def diagonal_backward(layer: VmapLayer, op: Operator, grad: Any, shape: Any, offset: int, dim1: int, dim2: int) -> Any:
    """Zeros but for the diagonal."""
    rank = len(shape)
    return op(layer.physical(grad), (layer.size, *shape), offset, dim_of(dim1, rank), dim_of(dim2, rank))


@rule("cat", "stack")
def joined(layer: VmapLayer, op: Operator, tensors: Any, dim: int) -> Any:
    """Tensors one behind the other, or side by side in a new dimension."""
    rank = max(rank_of(each) for each in tensors)
    more = op.entry.name == "stack"
    kept = [each for each in tensors if more or rank_of(each) == rank or each._array.shape != (0,)]
    return op([layer.full(each) for each in kept], maybe_wrap_dim(dim, rank + more) + 1)


@rule("repeat")
def repeat(layer: VmapLayer, op: Operator, value: Any, repeats: tuple) -> Any:
    """Each example several times over."""
    times = sizes(repeats)
    return op(padded(layer, value, len(times)), ((1, *times),))
