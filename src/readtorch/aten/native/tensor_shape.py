# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import (
    composite,
    derivative,
    meta_kernel,
    operators,
    overloads,
    register,
    results_lie,
)
from readtorch.aten.core.dispatch.operator_entry import Array, Dims, Ints
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.native.tensor_factories import in_order_of, in_suggested_format, is_in_one_piece
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.parallel import parallel_for
from readtorch.aten.tensor_iterator import in_order
from readtorch.aten.wrap_dim_utils import sizes, together
from readtorch.c10.core.device_guard import on_host
from readtorch.c10.core.dispatch_key import geometry, outline, specimen, without_values
from readtorch.c10.core.scalar_type import not_implemented, to_numpy_dtype, to_string
from readtorch.c10.core.wrap_dim_minimal import as_dim, maybe_wrap_dim


def inferred(shape: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """`shape` with its -1 filled in. RuntimeError if the number of elements does not fit."""
    if -1 not in shape:
        if math.prod(shape) == numel and (not shape or builtins.min(shape) >= 0):
            return shape
        if shape and builtins.min(shape) < -1:
            raise RuntimeError(f"invalid shape dimension {builtins.min(shape)}")
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if builtins.min(shape) < -1:
        raise RuntimeError(f"invalid shape dimension {builtins.min(shape)}")
    known = math.prod(size for size in shape if size != -1)
    if known == 0:
        if numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)}: any size would do for the -1, so it is ambiguous"
            )
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    if numel % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if size == -1 else size for size in shape)


@register("reshape", key="CPU CUDA", variants="function method", view="maybe", node="View")
def reshape(self: Array, *shape: Any) -> Array:
    """The same elements in another shape: a view where the strides allow it, else a copy."""
    try:
        result = self.reshape(*shape)
    except (ValueError, TypeError):
        return self.reshape(inferred(sizes(shape, "shape"), self.size))
    if result.shape != shape and result.shape != shape[0]:
        for size in shape:  # NumPy takes any negative number for -1, and None for the whole
            if size.__class__ is not int or size < -1:
                inferred(sizes(shape, "shape"), self.size)
                break
    return result


@register("reshape", key="Meta")
def _reshape_on_meta(self: Array, *shape: Any) -> Array:
    return self.reshape(inferred(sizes(shape, "shape"), self.size))


derivative("reshape", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


@register("_unsafe_view", key="CPU CUDA", variants="")
def _unsafe_view(self: Array, shape: tuple[int, ...]) -> Array:
    """A fresh result in another shape. It is no view of anything that anybody has seen."""
    return self.reshape(shape)


register("_unsafe_view", key="Meta")(_reshape_on_meta)

derivative("_unsafe_view", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


@register("_view", key="CPU CUDA", variants="", view="always", node="View")
def _view(self: Array, shape: tuple[int, ...]) -> Array:
    wanted = inferred(shape, self.size)
    result = self.reshape(wanted)
    if (
        self.size
        and result.base is not self
        and (self.base is None or result.base is not self.base)
        and result is not self
    ):
        raise _no_view()
    return result


def _no_view() -> RuntimeError:
    return RuntimeError(
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
        "subspaces). Use .reshape(...) instead: it copies where it must."
    )


@register("_view", key="Meta")
def _view_on_meta(self: Array, shape: tuple[int, ...]) -> Array:
    result = _reshape_on_meta(self, shape)
    if result.base is not self.base:
        raise _no_view()
    return result


derivative("_view", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


def strided_view(array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """The memory from the first element of `array` on, in another shape and with other strides (in bytes)."""
    if array.__class__ is np.ndarray and array.flags.c_contiguous and array.size:
        return np.ndarray(shape, array.dtype, array, 0, strides)
    if array.__class__ is np.ndarray:
        return np.lib.stride_tricks.as_strided(array, shape, strides)
    return np.broadcast_to(array, shape)


@register("alias", key="CPU CUDA", variants="", view="always")
def alias(self: Array) -> Array:
    """The same elements under another tensor object: `x[...]`, or one of another class."""
    return self


derivative("alias", self=lambda at, grad: grad)


@register("expand", key="CPU CUDA", variants="method", view="always")
def expand(self: Array, *size: Any, implicit: bool = False) -> Array:
    """Stretch dimensions of size 1 without copying; -1 keeps a size."""
    shape = list(sizes(size))
    lead = len(shape) - self.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand({list(self.shape)}, size={shape}): the number of sizes provided ({len(shape)}) must be greater or equal to the number of dimensions in the tensor ({self.ndim})"
        )
    if shape and builtins.min(shape) < -1:
        raise RuntimeError(f"The expanded size of the tensor ({builtins.min(shape)}) must not be negative")
    for i, wanted in enumerate(shape):
        have = self.shape[i - lead] if i >= lead else 1
        if wanted == -1:
            if i < lead:
                raise RuntimeError(
                    f"expand({list(self.shape)}, size={shape}): the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
                )
            shape[i] = have
        elif have not in (1, wanted):
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) must match the existing size ({have}) at non-singleton dimension {i}.  Target sizes: {shape}.  Tensor sizes: {list(self.shape)}"
            )
    strides = (0,) * lead + tuple(
        0 if have == 1 and want != 1 else step
        for have, want, step in zip(self.shape, shape[lead:], self.strides, strict=True)
    )
    return strided_view(self, tuple(shape), strides)


derivative("expand", self=lambda at, grad: grad)


@register("unsqueeze", key="CPU CUDA", variants="function method", view="always", inplace=False)
def unsqueeze(self: Array, dim: int) -> Array:
    """A dimension of size 1 put in front of dimension `dim`."""
    place = maybe_wrap_dim(dim, self.ndim + 1)
    return (
        self.reshape(*self.shape[:place], 1, *self.shape[place:])
        if self.flags.c_contiguous
        else self[(slice(None),) * place + (None,)]
    )


@register("unsqueeze", key="Meta")
def _unsqueeze_on_meta(self: Array, dim: int) -> Array:
    place = maybe_wrap_dim(dim, self.ndim + 1)
    shape, steps = geometry(self)
    step = shape[place] * steps[place] if place < self.ndim else 1
    return self.seen_as(
        outline((*shape[:place], 1, *shape[place:]), (*steps[:place], step, *steps[place:]), self.offset)
    )


derivative("unsqueeze", self=lambda at, grad, dim: at.squeeze(grad, dim))


@register("squeeze", key="CPU CUDA", variants="function method", view="always")
def squeeze(self: Array, *dim: Any) -> Array:
    """Drop dimensions of size 1: all, or those in `dim`."""
    if not dim:
        wanted = tuple(range(self.ndim))
    else:
        wanted = tuple(maybe_wrap_dim(d, self.ndim) for d in sizes(dim, "dim"))
        if len(set(wanted)) != len(wanted):
            raise RuntimeError(f"dim {wanted[0]} appears multiple times in the list of dims")
    return self[(*(0 if axis in wanted and size == 1 else slice(None) for axis, size in enumerate(self.shape)), ...)]


derivative("squeeze", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


def _which_squeeze(given: dict[str, Any]) -> str:
    dim = given["dim"]
    several = len(dim) > 1 or (dim and isinstance(dim[0], tuple | list))
    return f"SqueezeBackward{2 if several else 1 if dim else 0}"


overloads("squeeze", _which_squeeze)


@register("transpose", key="CPU CUDA", variants="function method", view="always")
def transpose(self: Array, dim0: int, dim1: int) -> Array:
    """Two dimensions exchanged."""
    first, second = maybe_wrap_dim(dim0, self.ndim), maybe_wrap_dim(dim1, self.ndim)
    return self.swapaxes(first, second) if self.ndim else self


derivative("transpose", self=lambda at, grad, dim0, dim1: at.transpose(grad, dim0, dim1))


@register("t", key="CPU CUDA", variants="function method", view="always")
def t(self: Array) -> Array:
    """A matrix transposed; vectors and scalars as they are."""
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self.T


derivative("t", self=lambda at, grad: at.t(grad))


@register("permute", key="CPU CUDA", variants="function method", view="always")
def permute(self: Array, *dims: Any) -> Array:
    """All dimensions in a new order."""
    order = sizes(dims, "dims")
    if len(order) != self.ndim:
        raise RuntimeError(
            "permute(): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions: "
            f"input.dim() = {self.ndim}, len(dims) = {len(order)}"
        )
    wrapped = tuple(maybe_wrap_dim(dim, self.ndim) for dim in order)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return self.transpose(wrapped)


def _permute_backward(at: Any, grad: Any, dims: tuple) -> Any:
    order = sizes(dims, "dims")
    wrapped = [dim % len(order) for dim in order] if order else []
    return at.permute(grad, sorted(range(len(wrapped)), key=wrapped.__getitem__))


derivative("permute", self=lambda at, grad, dims: _permute_backward(at, grad, dims))


@register("select", key="CPU CUDA", variants="function method", view="always")
def select(self: Array, dim: int, index: int) -> Array:
    """Element `index` along `dim`, which disappears."""
    if index.__class__ is not int:
        index = as_dim(index, "index")
    if dim == 0:
        try:
            return self[index, ...]
        except IndexError:
            pass
    if not self.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    place = maybe_wrap_dim(dim, self.ndim)
    size = self.shape[place]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {place}"
        )
    return self[(slice(None),) * place + (index, ...)]


@register("select_backward", key="CPU CUDA", variants="")
def select_backward(grad_output: Array, shape: tuple[int, ...], dim: int, index: int) -> Array:
    result = np.zeros(shape, grad_output.dtype)
    result[(slice(None),) * maybe_wrap_dim(dim, len(shape)) + (index,)] = grad_output
    return result


derivative("select", self=lambda at, grad, self_shape, dim, index: at.select_backward(grad, self_shape, dim, index))
derivative("select_backward", grad_output=lambda at, grad, dim, index: at.select(grad, dim, index))

_range = slice


def _slice(self: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    """The range `start:end:step` of dimension `dim`."""
    if dim == 0 and step.__class__ is int and step > 0 and self.ndim:
        return self[start:end:step]
    if not self.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return self[(_range(None),) * maybe_wrap_dim(dim, self.ndim) + (_range(start, end, step),)]


register("slice", key="CPU CUDA", variants="", view="always")(_slice)


@register("slice_backward", key="CPU CUDA", variants="")
def slice_backward(
    grad_output: Array, shape: tuple[int, ...], dim: int, start: int | None, end: int | None, step: int
) -> Array:
    result = np.zeros(shape, grad_output.dtype)
    result[(_range(None),) * maybe_wrap_dim(dim, len(shape)) + (_range(start, end, step),)] = grad_output
    return result


derivative(
    "slice",
    self=lambda at, grad, self_shape, dim, start, end, step: at.slice_backward(grad, self_shape, dim, start, end, step),
)
derivative("slice_backward", grad_output=lambda at, grad, dim, start, end, step: at.slice(grad, dim, start, end, step))


@composite("narrow", variants="function method")
def narrow(at: Any, self: Array, dim: int, start: Any, length: int) -> Any:
    """`length` elements along `dim`, from `start` on."""
    try:
        start = as_dim(start, "start")
    except TypeError:
        if hasattr(start, "_array"):
            raise RuntimeError("start must be an 0-dim integral Tensor.") from None
        raise
    if not self.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    size = self.shape[maybe_wrap_dim(dim, self.ndim)]
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return at.slice(self, dim, start, start + length, 1)


def _split_backward(at: Any, grads: list[Any], shape: tuple[int, ...], dim: int, lengths: Sequence[int]) -> Any:
    """Zeros where no gradient arrived, then joined."""
    have = next(grad for grad in grads if grad is not None)
    place = maybe_wrap_dim(dim, len(shape))
    parts = []
    for grad, length in zip(grads, lengths, strict=True):
        if grad is None:
            grad = at.expand(
                at.slice(have, place, 0, 0) if length == 0 else _zeros(at, have, place),
                (*shape[:place], length, *shape[place + 1 :]),
            )
        parts.append(grad)
    return at.cat(parts, place)


def _zeros(at: Any, like: Any, dim: int) -> Any:
    return at.zeros_like(at.slice(like, dim, 0, 1))


def section_lengths(size: int, split_size: Any, dim: int = 0) -> list[int]:
    """How long each part is. RuntimeError if the lengths given do not add up."""
    if isinstance(split_size, int) or hasattr(split_size, "__index__"):
        if split_size.__class__ is bool:
            raise TypeError("split(): argument 'split_size' must be int, not bool")
        length = int(split_size)
        if length < 0:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={length}")
        if length == 0:
            if size:
                raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}")
            return [0]
        count = builtins.max(-(-size // length), 1)
        return [length] * (count - 1) + [size - length * (count - 1)]
    lengths = [int(length) for length in split_size]
    if builtins.sum(lengths) != size or any(length < 0 for length in lengths):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), but got split_sizes={lengths}"
        )
    return lengths


@register("split", key="CPU CUDA", variants="method", view="always")
def split(self: Array, split_size: Dims, dim: int = 0) -> list[Array]:
    """Parts of `split_size` along `dim`, or of the lengths in a list."""
    if not self.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    place = maybe_wrap_dim(dim, self.ndim)
    parts, start = [], 0
    for length in section_lengths(self.shape[place], split_size, place):
        parts.append(self[(_range(None),) * place + (_range(start, start + length),)])
        start += length
    return parts


derivative(
    "split",
    self=lambda at, grads, self_shape, split_size, dim: _split_backward(
        at, grads, self_shape, dim, section_lengths(self_shape[dim], split_size)
    ),
)
overloads("split", lambda given: f"Split{'' if isinstance(given['split_size'], int) else 'WithSizes'}Backward0")


@composite("split_with_sizes", variants="function method")
def split_with_sizes(at: Any, self: Array, split_sizes: Ints, dim: int = 0) -> Any:
    """Parts of the given lengths."""
    return at.split(self, list(split_sizes), dim)


@composite("chunk", variants="function method")
def chunk(at: Any, self: Array, chunks: int, dim: int = 0) -> Any:
    """At most `chunks` parts of equal length, the last one shorter."""
    if not self.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = self.shape[maybe_wrap_dim(dim, self.ndim)]
    length = -(-size // chunks)
    return at.split(self, [0] * chunks if length == 0 else length, dim)


def _one_way(name: str, indices: Any, sections: Any) -> Any:
    """Where to cut: a tuple of ints, or into how many parts: an int. TypeError unless one of both is given."""
    if (indices is None) is (sections is None):
        raise TypeError(f"{name}() received an invalid combination of arguments: either indices or sections")
    if isinstance(indices, list | tuple):
        return sizes((indices,), "indices")
    return as_dim(indices if sections is None else sections, "sections")


@composite("tensor_split", variants="function method")
def tensor_split(
    at: Any,
    self: Array,
    indices: Any = None,
    dim: int = 0,
    *,
    sections: Any = None,
    tensor_indices_or_sections: Any = None,
) -> Any:
    """Parts of nearly equal length, or cut at the given indices."""
    if indices is None and sections is None:
        indices = tensor_indices_or_sections
    in_tensor = hasattr(indices, "_array")
    if not in_tensor:
        indices = _one_way("tensor_split", indices, sections)
    if not self.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    if in_tensor:
        name = to_string(indices.dtype)
        if name != "Long":
            raise RuntimeError(f"tensor_split: indices or sections in a tensor must be of dtype long, not {name}")
        if indices.ndim > 1:
            raise RuntimeError(
                f"tensor_split: a tensor of {indices.ndim} dims says neither how many parts nor where to cut"
            )
        indices = indices.tolist()
    size = self.shape[maybe_wrap_dim(dim, self.ndim)]
    if isinstance(indices, int):
        if indices <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {indices}")
        small, extra = divmod(size, indices)
        lengths = [small + 1] * extra + [small] * (indices - extra)
        indices = list(itertools.accumulate(lengths))[:-1]
    cuts = [0, *(builtins.min(cut if cut >= 0 else cut + size, size) for cut in indices), size]
    return tuple(at.slice(self, dim, a, builtins.max(a, b), 1) for a, b in itertools.pairwise(cuts))


@register("unbind", key="CPU CUDA", variants="function method", view="always")
def unbind(self: Array, dim: int = 0) -> list[Array]:
    """The slices along `dim`."""
    if not self.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    moved = np.moveaxis(self, maybe_wrap_dim(dim, self.ndim), 0)
    return [moved[i, ...] for i in range(moved.shape[0])]


def _unbind_backward(at: Any, grads: list[Any], dim: int) -> Any:
    have = next(grad for grad in grads if grad is not None)
    return at.stack([at.zeros_like(have) if grad is None else grad for grad in grads], dim)


derivative("unbind", self=lambda at, grads, dim: _unbind_backward(at, grads, dim))


@composite("flatten", variants="function method")
def flatten(at: Any, self: Array, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions `start_dim` to `end_dim` made one."""
    first, last = maybe_wrap_dim(start_dim, self.ndim), maybe_wrap_dim(end_dim, self.ndim)
    if not self.ndim:
        return at.reshape(self, (1,))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if first == last:
        return self
    shape = tuple(self.shape)
    return at.reshape(self, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@composite("unflatten", variants="function method")
def unflatten(at: Any, self: Array, dim: int, sizes: Ints) -> Any:
    """One dimension made several."""
    wanted = together(sizes, "sizes")
    if not wanted:
        raise RuntimeError("unflatten: sizes must be non-empty")
    place = maybe_wrap_dim(dim, self.ndim)
    if not self.ndim:
        raise RuntimeError("unflatten: a tensor without dimensions has none to unflatten")
    have = self.shape[place]
    known = math.prod(size for size in wanted if size != -1)
    if (-1 in wanted and (known == 0 or have % known)) or (-1 not in wanted and known != have):
        raise RuntimeError(
            f"unflatten: Provided sizes {list(wanted)} don't multiply up to the size of dim {place} ({have}) in the input tensor"
        )
    shape = tuple(self.shape)
    return at.reshape(self, (*shape[:place], *inferred(wanted, have), *shape[place + 1 :]))


@composite("ravel", variants="function method")
def ravel(at: Any, self: Array) -> Any:
    """One dimension."""
    return at.reshape(self, (-1,))


@composite("swapaxes", variants="function method")
def swapaxes(at: Any, self: Array, axis0: int, axis1: int) -> Any:
    """`transpose` under NumPy's name."""
    return at.transpose(self, axis0, axis1)


@composite("swapdims", variants="function method")
def swapdims(at: Any, self: Array, dim0: int, dim1: int) -> Any:
    """`transpose` under another name."""
    return at.transpose(self, dim0, dim1)


def _several(dims: Any) -> Any:
    return dims if isinstance(dims, list | tuple) else (dims,)


@composite("movedim", variants="function method")
def movedim(at: Any, self: Array, source: Dims, destination: Dims) -> Any:
    """Dimensions moved to new places, the others in their order."""
    if isinstance(source, list | tuple) is not isinstance(destination, list | tuple):
        raise TypeError("movedim(): 'source' and 'destination' must both be ints or both be tuples of ints")
    rank = self.ndim
    if len(_several(source)) != len(_several(destination)):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source and destination must have the same number of elements"
        )
    sources, targets = ([maybe_wrap_dim(d, rank) for d in _several(dims)] for dims in (source, destination))
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise RuntimeError("movedim: repeated dim in `source` or `destination`")
    rest = [d for d in range(rank) if d not in sources]
    order = [sources[targets.index(place)] if place in targets else rest.pop(0) for place in range(rank)]
    return at.permute(self, order)


@composite("moveaxis", variants="function method")
def moveaxis(at: Any, self: Array, source: Dims, destination: Dims) -> Any:
    """`movedim` under NumPy's name."""
    return at.movedim(self, source, destination)


@composite("adjoint", variants="function method")
def adjoint(at: Any, self: Array) -> Any:
    """The conjugate of the transposed last two dimensions."""
    if self.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    if not self.ndim:
        return at.conj(self)
    return at.conj(at.transpose(self, -2, -1))


@composite("broadcast_to", variants="function method")
def broadcast_to(at: Any, self: Array, *size: Any) -> Any:
    """`expand` as a function."""
    return at.expand(self, *size)


@register("diagonal", key="CPU CUDA", variants="function method", view="always")
def diagonal(self: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """The diagonal of two dimensions, as a last dimension."""
    offset = as_dim(offset, "offset")
    first, second = maybe_wrap_dim(dim1, self.ndim), maybe_wrap_dim(dim2, self.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if self.__class__ is np.ndarray and getattr(self.flags, "writeable", False):
        return _writable_diagonal(self, offset, first, second)
    return np.diagonal(self, offset, first, second)


def _writable_diagonal(array: Array, offset: int, first: int, second: int) -> Array:
    """NumPy's diagonals are read-only; the same view by strides is not."""
    rows, columns = array.shape[first], array.shape[second]
    count = builtins.max(
        builtins.min(rows, columns - offset) if offset >= 0 else builtins.min(rows + offset, columns), 0
    )
    start = [_range(None)] * array.ndim
    start[first], start[second] = (
        (_range(0, None), _range(offset, None)) if offset >= 0 else (_range(-offset, None), _range(0, None))
    )
    source = array[tuple(start)]
    rest = [i for i in range(array.ndim) if i not in (first, second)]
    shape = (*(array.shape[i] for i in rest), count)
    strides = (*(array.strides[i] for i in rest), array.strides[first] + array.strides[second])
    return np.lib.stride_tricks.as_strided(source, shape, strides)


@register("diagonal_backward", key="CPU CUDA", variants="")
def diagonal_backward(grad_output: Array, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Array:
    result = np.zeros(shape, grad_output.dtype)
    diagonal(result, offset, dim1, dim2)[...] = grad_output
    return result


derivative(
    "diagonal",
    self=lambda at, grad, self_shape, offset, dim1, dim2: at.diagonal_backward(grad, self_shape, offset, dim1, dim2),
)
derivative("diagonal_backward", grad_output=lambda at, grad, offset, dim1, dim2: at.diagonal(grad, offset, dim1, dim2))


@composite("diag_embed", variants="function method")
def diag_embed(at: Any, self: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The last dimension laid on the diagonal of two new ones."""
    offset = as_dim(offset, "offset")
    rank = self.ndim + 1
    first, second = maybe_wrap_dim(dim1, rank), maybe_wrap_dim(dim2, rank)
    size = self.shape[-1] + abs(offset)
    shape = [*self.shape[:-1]]
    for place in sorted((first, second)):
        shape.insert(place, size)
    return at.diagonal_backward(self, tuple(shape), offset, first, second)


@composite("diag", variants="function method", out=True)
def diag(at: Any, self: Array, diagonal: int = 0) -> Any:
    """A vector on a diagonal of zeros; of a matrix, a diagonal."""
    if self.ndim == 1:
        return at.diag_embed(self, diagonal)
    if self.ndim == 2:
        return at.clone(at.diagonal(self, diagonal))
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")


@register("unfold", key="CPU CUDA", variants="method", view="always")
def unfold(self: Array, dimension: int, size: int, step: int) -> Array:
    """All windows of `size` along a dimension, `step` apart, as a last dimension."""
    place = maybe_wrap_dim(dimension, self.ndim)
    have = self.shape[place] if self.ndim else 1
    size, step = as_dim(size, "size"), as_dim(step, "step")
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > have:
        raise RuntimeError(f"maximum size for tensor at dimension {place} is {have} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not self.ndim:
        return self.reshape(1)[:size]
    source = self
    windows = np.lib.stride_tricks.sliding_window_view(
        source, size, axis=place, writeable=getattr(self.flags, "writeable", True)
    )
    return windows[(_range(None),) * place + (_range(None, None, step),)]


@register("unfold_backward", key="CPU CUDA", variants="")
def unfold_backward(grad_output: Array, shape: tuple[int, ...], dimension: int, size: int, step: int) -> Array:
    if not shape:
        return np.sum(grad_output).reshape(())
    result = np.zeros(shape, grad_output.dtype)
    place = maybe_wrap_dim(dimension, len(shape))
    view = np.moveaxis(result, place, 0)
    windows = np.moveaxis(grad_output, place, 0)
    for i in range(windows.shape[0]):
        view[i * step : i * step + size] += np.moveaxis(windows[i], -1, 0)
    return result


derivative(
    "unfold",
    self=lambda at, grad, self_shape, dimension, size, step: at.unfold_backward(
        grad, self_shape, dimension, size, step
    ),
)
derivative(
    "unfold_backward", grad_output=lambda at, grad, dimension, size, step: at.unfold(grad, dimension, size, step)
)


@register("as_strided", key="CPU CUDA", variants="function method", view="always")
def as_strided(self: Array, size: Ints, stride: Ints, storage_offset: int | None = None) -> Array:
    """The memory seen through any shape and strides, from the start of the storage."""
    from readtorch.c10.core.storage_impl import data_address, owner_of

    shape, steps = together(size), together(stride, "stride")
    if len(shape) != len(steps):
        raise RuntimeError("mismatch in length of strides and shape")
    if storage_offset is not None and as_dim(storage_offset, "storage_offset") < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    if builtins.min(steps, default=0) < 0:
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(steps)}")
    if builtins.min(shape, default=0) < 0:
        raise RuntimeError(f"as_strided: sizes must not be negative, got {list(shape)}")
    owner = owner_of(self)
    flat = owner.reshape(-1, order="A").view(np.uint8)
    offset = data_address(self) - data_address(owner) if storage_offset is None else storage_offset * self.itemsize
    needed = (
        offset + (1 + builtins.sum((n - 1) * s for n, s in zip(shape, steps, strict=True))) * self.itemsize
        if all(shape)
        else 0
    )
    if needed > flat.size:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)} with strides {list(steps)} from offset {offset // self.itemsize} (itemsize {self.itemsize}) need {needed} bytes, and are out of bounds for storage of size {flat.size}"
        )
    whole = flat[offset : offset + (flat.size - offset) // self.itemsize * self.itemsize].view(self.dtype)
    return np.lib.stride_tricks.as_strided(whole, shape, tuple(step * self.itemsize for step in steps))


@register("as_strided", key="Meta")
def _as_strided_on_meta(self: Array, size: Dims, stride: Dims, storage_offset: int | None = None) -> Array:
    shape = sizes((size,))
    if len(shape) != len(sizes((stride,))):
        raise RuntimeError("mismatch in length of strides and shape")
    if storage_offset is not None and as_dim(storage_offset, "storage_offset") < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    offset = self.offset if storage_offset is None else storage_offset
    return self.seen_as(outline(shape, sizes((stride,)), offset))


Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


def _places(geometry: Geometry) -> Array:
    """Where in the storage each element lies."""
    shape, strides, offset = geometry
    places = np.full(shape, offset, np.int64)
    for axis, step in enumerate(strides):
        places += (np.arange(shape[axis]) * step).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return places


def _may_overlap(geometry: Geometry) -> bool:
    """Could two indices lead to one place? Sizes and strides are compared, from the smallest stride up; unusual ones may be suspected."""
    shape, strides, _ = geometry
    reach = 0
    for step, size in sorted((step, size) for step, size in zip(strides, shape, strict=True) if size > 1):
        if step <= reach:
            return True
        reach += step * (size - 1)
    return False


def _in_one_piece(geometry: Geometry) -> bool:
    step = 1
    for size, stride in zip(reversed(geometry[0]), reversed(geometry[1]), strict=True):
        if stride != step and size != 1:
            return False
        step *= size
    return True


def _seen(flat: Array, geometry: Geometry, origin: int) -> Array:
    shape, strides, offset = geometry
    if _in_one_piece(geometry):
        return flat[offset - origin : offset - origin + math.prod(shape)].reshape(shape)
    return np.lib.stride_tricks.as_strided(
        flat[offset - origin :], shape, tuple(step * flat.itemsize for step in strides)
    )


def _end(geometry: Geometry) -> int:
    shape, strides, offset = geometry
    return offset + 1 + builtins.sum((size - 1) * step for size, step in zip(shape, strides, strict=True))


@register("as_strided_backward", key="CPU CUDA", variants="")
def as_strided_backward(grad_output: Array, written: Geometry, read: Geometry, shared: Geometry) -> Array:
    """The gradient laid into a storage through one geometry and taken out through another.

    Elements of `shared`, the tensor that was viewed, may lie on each other (it was expanded): they then share what arrives.
    """
    if grad_output.size and not (_may_overlap(written) or _may_overlap(shared)):
        same_place = written[2] == read[2] and grad_output.size == math.prod(read[0])
        if same_place and _in_one_piece(written) and _in_one_piece(read):
            return grad_output.reshape(read[0])
        origin = builtins.min(written[2], read[2])
        flat = np.zeros(builtins.max(_end(written), _end(read)) - origin, grad_output.dtype)
        _seen(flat, written, origin)[...] = grad_output
        return _seen(flat, read, origin)
    into, out, owners = (_places(geometry) for geometry in (written, read, shared))
    storage = np.zeros(
        1 + max((int(places.max()) for places in (into, out, owners) if places.size), default=0), grad_output.dtype
    )
    np.add.at(storage, into, grad_output)
    count = np.bincount(owners.reshape(-1), minlength=storage.size)
    if owners.size and count.max() > 1:
        storage /= np.maximum(count, 1).astype(storage.real.dtype)
    return storage[out]


def _as_strided_backward(
    at: Any, grad: Any, self_geometry: Geometry, size: Any, stride: Any, storage_offset: int | None
) -> Any:
    offset = self_geometry[2] if storage_offset is None else storage_offset
    return at.as_strided_backward(grad, (sizes((size,)), sizes((stride,)), offset), self_geometry, self_geometry)


derivative("as_strided", self=_as_strided_backward)
derivative(
    "as_strided_backward",
    grad_output=lambda at, grad, written, read, shared: at.as_strided_backward(grad, read, written, shared),
)


@register("_view_dtype", key="CPU CUDA", variants="", view="always", node="View")
def _view_dtype(self: Array, dtype: Any) -> Array:
    """The bytes read as elements of another type."""
    wanted = to_numpy_dtype(dtype)
    if wanted.itemsize != self.itemsize:
        _check_view(self, wanted, f"to view {to_string(self.dtype)} as {to_string(wanted)} (different element sizes)")
    return self.view(wanted)


def _check_view(self: Array, wanted: Any, purpose: str) -> None:
    if not self.ndim:
        raise RuntimeError(f"self.dim() cannot be 0 {purpose}")
    if self.shape[-1] * self.itemsize % wanted.itemsize:
        times = wanted.itemsize // self.itemsize
        raise RuntimeError(f"self.size(-1) must be divisible by {times} {purpose}, but got {self.shape[-1]}")


@register("_view_dtype", key="Meta")
def _view_dtype_on_meta(self: Array, dtype: Any) -> Array:
    wanted = to_numpy_dtype(dtype)
    if wanted.itemsize == self.itemsize:
        return self.read_as(_view_dtype(specimen(self), dtype).dtype, self.shape)
    _check_view(self, wanted, f"to view {to_string(self.dtype)} as {to_string(wanted)} (different element sizes)")
    return self.read_as(wanted, (*self.shape[:-1], self.shape[-1] * self.itemsize // wanted.itemsize), 1, (1,))


@register("view_as_real", key="CPU CUDA", variants="function", view="always")
def view_as_real(self: Array) -> Array:
    """A complex tensor as pairs of real numbers."""
    if self.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    if without_values(self):
        return self.read_as(specimen(self).real.dtype, (*self.shape, 2), tail=(1,))
    return self[..., None].view(self.real.dtype)


register("view_as_real", key="Meta")(view_as_real)


@register("view_as_complex", key="CPU CUDA", variants="function", view="always")
def view_as_complex(self: Array) -> Array:
    """Pairs of real numbers as a complex tensor."""
    if self.dtype not in (np.float32, np.float64):
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {to_string(self.dtype)}"
        )
    if not self.ndim or self.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    kind = np.dtype(np.complex64 if self.dtype == np.float32 else np.complex128)
    return self.read_as(kind, self.shape[:-1], 1) if without_values(self) else self.view(kind)[..., 0]


register("view_as_complex", key="Meta")(view_as_complex)


derivative("view_as_real", self=lambda at, grad: at.view_as_complex(at.clone(grad)))
derivative("view_as_complex", self=lambda at, grad: at.view_as_real(grad))


@register("cat", key="CPU CUDA", variants="function", out=True, autocast="widest")
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """The tensors one after another along `dim`. Empty 1-d tensors are passed over, as upstream does for old programs' sake."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    if dim is None:
        raise TypeError("cat(): argument 'dim' (position 2) must be int, not NoneType")
    first = tensors[0]
    dtype = first.dtype
    try:
        joined = np.concatenate(tensors, dim)
        if joined.dtype is dtype:
            return _joined_in_order(joined, tensors)
    except (ValueError, IndexError, TypeError):
        pass
    for array in tensors:
        if array.dtype != dtype:
            dtype = to_numpy_dtype(result_type([array.reshape(-1) for array in tensors]))
            break
    for number, array in enumerate(tensors):
        if not array.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {number}) cannot be concatenated")
    try:
        joined = np.concatenate(tensors, maybe_wrap_dim(dim, first.ndim), dtype=dtype, casting="unsafe")
        return _joined_in_order(joined, tensors)
    except (ValueError, IndexError):
        return _cat_checked([array for array in tensors if array.shape != (0,)] or tensors[:1], dim, dtype)


_joined = meta_kernel(operators["cat"])


@register("cat", key="Meta")
def _cat_on_meta(tensors: Sequence[Array], dim: int = 0) -> Array:
    joined = _joined(tensors, dim)
    alike = all(array.ndim == 4 and not is_in_one_piece(array) for array in tensors)
    return in_suggested_format(joined, tensors[0]) if alike else joined


def _cat_checked(tensors: Sequence[Array], dim: int, dtype: np.dtype) -> Array:
    first = tensors[0]
    if first.shape == (
        0,
    ):  # nothing but vectors without elements, of which upstream does not ask along which dimension
        return first.astype(dtype)
    place = maybe_wrap_dim(dim, first.ndim)
    for number, array in enumerate(tensors):
        if array.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {array.ndim}")
        for axis in range(first.ndim):
            if axis != place and array.shape[axis] != first.shape[axis]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {place}. Expected size {first.shape[axis]} but got size {array.shape[axis]} for tensor number {number} in the list."
                )
    return in_order(np.concatenate(tensors, place, dtype=dtype, casting="unsafe"))


def _joined_in_order(joined: Array, tensors: Sequence[Array]) -> Array:
    """Images of which each lies with its channels innermost stay so."""
    if joined.ndim < 2 or joined.flags.c_contiguous:
        return joined
    if joined.ndim == 4 and all(image.transpose(0, 2, 3, 1).flags.c_contiguous for image in (*tensors, joined)):
        return joined
    return in_order(joined)


def _cat_backward(at: Any, grad: Any, shapes: list[tuple[int, ...]], dim: int) -> list[Any]:
    rank = grad.ndim
    place = maybe_wrap_dim(dim, rank) if tuple(grad.shape) != (0,) else 0
    parts, start = [], 0
    for shape in shapes:
        if shape == (0,):
            parts.append(at.zeros_like(at.reshape(at.slice(grad, place, 0, 0, 1), shape)))
            continue
        parts.append(at.slice(grad, place, start, start + shape[place], 1))
        start += shape[place]
    return parts


derivative("cat", tensors=lambda at, grad, tensors_shape, dim: _cat_backward(at, grad, tensors_shape, dim))


def _cat_under(name: str) -> None:
    def cat(at: Any, tensors: Sequence[Array], dim: int = 0) -> Any:
        """By way of `cat`."""
        return at.cat(tensors, dim)

    composite(name, out=True)(cat)


_cat_under("concat")
_cat_under("concatenate")


@register("stack", key="CPU CUDA", variants="function", out=True, autocast="widest")
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """The tensors, of one shape, along a new dimension."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    shape, dtype = first.shape, first.dtype
    if [array.shape for array in tensors].count(shape) < len(tensors):
        number = next(number for number, array in enumerate(tensors) if array.shape != shape)
        raise RuntimeError(
            f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
            f"{list(tensors[number].shape)} at entry {number}"
        )
    place = maybe_wrap_dim(dim, first.ndim + 1)
    if [array.dtype for array in tensors].count(dtype) < len(tensors):
        dtype = to_numpy_dtype(result_type(list(tensors)))
        tensors = [array.astype(dtype, copy=False) for array in tensors]
    return _stack_in_front(tensors) if place == 0 and shape else in_order(np.stack(tensors, place))


_SHARED_COPY = 1 << 22
"""Bytes. What is less is copied, by one thread, before a second one is awake."""


def _stack_in_front(arrays: Sequence[Array]) -> Array:
    """What makes a batch of samples: the arrays behind each other, by one call, or in shared pieces of four megabytes."""
    first, count = arrays[0], len(arrays)
    high, *rest = first.shape
    rows = np.empty((count * high, *rest), first.dtype)
    if rows.nbytes <= _SHARED_COPY:
        np.concatenate(arrays, out=rows)
        return rows.reshape(count, *first.shape)

    def copy(start: int, stop: int) -> None:
        np.concatenate(arrays[start:stop], out=rows[start * high : stop * high])

    parallel_for(0, count, max(1, _SHARED_COPY // first.nbytes), copy)
    return rows.reshape(count, *first.shape)


derivative(
    "stack",
    tensors=lambda at, grad, tensors_shape, dim: [at.select(grad, dim, i) for i in range(len(tensors_shape))],
)


def _some(name: str, tensors: Sequence[Any]) -> None:
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")


def _at_least(rank: int) -> Any:
    def stretched(at: Any, tensor: Any) -> Any:
        while tensor.ndim < rank:
            tensor = at.unsqueeze(tensor, 0) if rank < 3 or tensor.ndim != 2 else at.unsqueeze(tensor, 2)
        return tensor

    return stretched


@composite("hstack", out=True)
def hstack(at: Any, tensors: Sequence[Array]) -> Any:
    """Joined along the second dimension, vectors along the first."""
    _some("hstack", tensors)
    tensors = [_at_least(1)(at, tensor) for tensor in tensors]
    return at.cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@composite("vstack", out=True)
def vstack(at: Any, tensors: Sequence[Array]) -> Any:
    """Joined along the first dimension, vectors as rows."""
    _some("vstack", tensors)
    return at.cat([_at_least(2)(at, tensor) for tensor in tensors], 0)


@composite("dstack", out=True)
def dstack(at: Any, tensors: Sequence[Array]) -> Any:
    """Joined along the third dimension."""
    _some("dstack", tensors)
    return at.cat([_at_least(3)(at, tensor) for tensor in tensors], 2)


@register("repeat", key="CPU CUDA", variants="method")
def repeat(self: Array, *repeats: Any) -> Array:
    """The whole tensor, laid out so many times along each dimension."""
    counts = sizes(repeats, "repeats")
    if len(counts) < self.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: pass a 1 for each to keep"
        )
    if any(count < 0 for count in counts):
        whole = [
            count * size for count, size in zip(counts, (1,) * (len(counts) - self.ndim) + self.shape, strict=True)
        ]
        if any(size < 0 for size in whole):
            raise RuntimeError(f"Trying to create tensor with negative dimension {builtins.min(whole)}: {whole}")
        return np.empty(whole, self.dtype)
    return np.tile(self, counts)


def _repeat_backward(at: Any, grad: Any, shape: tuple[int, ...], repeats: tuple) -> Any:
    counts = sizes(repeats, "repeats")
    padded = (1,) * (len(counts) - len(shape)) + tuple(shape)
    if 0 in counts:
        return at.expand(at.sum(grad), shape) if not shape else at.zeros_like(at.expand(at.sum(grad), shape))
    pairs = [value for pair in zip(counts, padded, strict=True) for value in pair]
    return at.reshape(at.sum(at.reshape(grad, pairs), tuple(range(0, len(pairs), 2))), shape) if pairs else grad


derivative("repeat", self=lambda at, grad, self_shape, repeats: _repeat_backward(at, grad, self_shape, repeats))


@composite("tile", variants="function method")
def tile(at: Any, self: Array, *dims: Any) -> Any:
    """`repeat` that pads the counts with ones."""
    counts = sizes(dims, "dims")
    return at.repeat(self, (1,) * (self.ndim - len(counts)) + counts)


@register("flip", key="CPU CUDA", variants="function method")
def flip(self: Array, *dims: Any) -> Array:
    """The order of the elements reversed along dimensions. A copy: strides are never negative here."""
    axes = tuple(maybe_wrap_dim(dim, self.ndim) for dim in sizes(dims, "dims"))
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {axes[0]} appears multiple times in the list of dims")
    return np.flip(self, axes).copy(order="K") if self.ndim else self.copy()


results_lie(in_order_of, "flip")
derivative("flip", self=lambda at, grad, dims: at.flip(grad, *dims))


def _flip_of(name: str, dim: int) -> None:
    def flipped(at: Any, self: Array) -> Any:
        if self.ndim <= dim:
            raise RuntimeError(f"Input must be >= {dim + 1}-d.")
        return at.flip(self, dim)

    composite(name, variants="function method")(flipped)


_flip_of("fliplr", 1)
_flip_of("flipud", 0)


@register("roll", key="CPU CUDA", variants="function method")
def roll(self: Array, shifts: Dims, dims: Dims | None = None) -> Array:
    """Elements moved along dimensions, those pushed out entering at the other end."""
    steps = tuple(as_dim(shift, "shifts") for shift in _several(shifts))
    if dims is None or (isinstance(dims, tuple | list) and not dims):
        if len(steps) != 1:
            raise RuntimeError(
                f"shifts and dimensions must align. shifts: {len(steps)}, dims:0" if steps else "`shifts` required"
            )
        return in_order(np.roll(self, steps[0]))
    axes = tuple(_several(dims))
    if len(axes) != len(steps):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(axes)}")
    if not self.ndim:
        raise IndexError(f"Dimension specified as {axes[0]} but tensor has no dimensions")
    if not self.size:
        return self.copy()
    return in_order(np.roll(self, steps, tuple(maybe_wrap_dim(axis, self.ndim) for axis in axes)))


derivative(
    "roll",
    self=lambda at, grad, shifts, dims: at.roll(
        grad, tuple(-as_dim(shift, "shifts") for shift in _several(shifts)), dims
    ),
)


@composite("rot90", variants="function method")
def rot90(at: Any, self: Array, k: int = 1, dims: Ints = (0, 1)) -> Any:
    """A quarter turn in the plane of two dimensions, `k` times."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    a, b = dims
    if self.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {self.ndim}")
    if maybe_wrap_dim(a, self.ndim) == maybe_wrap_dim(b, self.ndim):
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}")
    turns = k % 4
    if turns == 1:
        return at.transpose(at.flip(self, b), a, b)
    if turns == 2:
        return at.flip(self, a, b)
    return at.flip(at.transpose(self, a, b), b) if turns == 3 else at.clone(self)


@register("_repeat_interleave", key="CPU CUDA", variants="", node="RepeatInterleave")
def _repeat_interleave(self: Array, repeats: Any, dim: int) -> Array:
    return np.repeat(self, repeats, axis=dim)


@composite("repeat_interleave", variants="function method")
def repeat_interleave(
    at: Any, self: Array, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element, or slice along `dim`, so many times in a row. Of one tensor of counts: the index of each repetition."""
    if repeats is None:
        if self.ndim > 1:
            raise TypeError('repeat_interleave() missing 1 required positional arguments: "repeats"')
        if not self.ndim:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return at.index_of_repeats(self)
    if dim is None:
        self, dim = at.reshape(self, (-1,)), 0
    place = maybe_wrap_dim(dim, self.ndim, wrap_scalar=False)
    size = self.shape[place]
    if without_values(repeats):
        if output_size is None:
            raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")
        return at.index_select_array(self, place, np.zeros(output_size, np.int64))
    index = np.repeat(np.arange(size), _repeats(getattr(repeats, "_array", repeats), size))
    if output_size is not None and output_size != index.size:
        raise RuntimeError(f"repeat_interleave: Invalid output_size, expected {index.size} but got {output_size}")
    return at.index_select_array(self, place, index)


def _repeats(counts: Any, size: int) -> Any:
    counts = on_host(counts)
    if not isinstance(counts, np.ndarray):
        if as_dim(counts, "repeats") < 0:
            raise RuntimeError("Repeats must be non-negative")
        return counts
    if counts.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if counts.dtype.kind != "i":
        raise not_implemented("repeat_interleave_cpu", counts.dtype)
    if counts.size not in (1, size):
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {counts.size} and input.size(0) = {size}"
        )
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    return counts


def _scattered(at: Any, self: Any, src: Any, part: Any) -> Any:
    """A copy of `self` with `src` where `part` looks. Written with a mask, so that both gradients come from `where`."""
    zeros = at.zeros_like(self)
    if is_one_of_many(src):  # then so is the result, and what is written to on the way to it
        zeros = zeros + at._to_copy(at.zeros_like(at.sum(src)), self.dtype)
    if tuple(src.shape) != (shape := tuple(part(at, zeros).shape)):
        raise RuntimeError(
            f"expected src to have a size equal to the part of self, {list(shape)}, but got {list(src.shape)}"
        )
    hole = at._write_part(zeros, part, at.ones_like(part(at, zeros)))
    return at.where(hole == 1, at._write_part(zeros, part, src), self)


@composite("_write_part", variants="")
def _write_part(at: Any, base: Any, part: Any, src: Any) -> Any:
    result = at.clone(base)
    if hasattr(result, "_array"):
        at.copy_(part(at, result), src)
    else:
        part(at, result)[...] = src
    return result


@composite("select_scatter", variants="function method")
def select_scatter(at: Any, self: Array, src: Array, dim: int, index: int) -> Any:
    """A copy with `src` in the place of `select(dim, index)`."""
    return _scattered(at, self, src, lambda at, x: at.select(x, dim, index))


@composite("slice_scatter", variants="function method", out=True)
def slice_scatter(
    at: Any, self: Array, src: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A copy with `src` in the place of a slice."""
    return _scattered(at, self, src, lambda at, x: at.slice(x, dim, start, end, step))


@composite("diagonal_scatter", variants="function method")
def diagonal_scatter(at: Any, self: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A copy with `src` on a diagonal."""
    return _scattered(at, self, src, lambda at, x: at.diagonal(x, offset, dim1, dim2))


@composite("column_stack", out=True)
def column_stack(at: Any, tensors: Sequence[Array]) -> Any:
    """Joined along the second dimension, vectors as columns."""
    if not len(tensors):
        raise RuntimeError("column_stack expects a non-empty TensorList")
    return at.cat([at.reshape(t, (-1, 1)) if t.ndim <= 1 else t for t in tensors], 1)


composite("row_stack", out=True)(lambda at, tensors: at.vstack(tensors))


def _split_along(name: str, axis: int, least: int) -> None:
    def split(at: Any, self: Array, indices: Any = None, *args: int, sections: Any = None) -> Any:
        indices = _one_way(name, (indices, *args) if args else indices, sections)
        if self.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {self.ndim} dimensions!"
            )
        dim = 0 if axis == 1 and self.ndim == 1 else axis
        if isinstance(indices, int) and (indices <= 0 or self.shape[dim] % indices):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, whose size {self.shape[dim]} is not divisible by the split_size {indices}"
            )
        return at.tensor_split(self, indices, dim)

    composite(name, variants="function method")(split)


_split_along("hsplit", 1, 1)
_split_along("vsplit", 0, 2)
_split_along("dsplit", 2, 3)
composite("unsafe_chunk", variants="function method")(lambda at, self, chunks, dim=0: at.chunk(self, chunks, dim))
composite("unsafe_split", variants="function method")(
    lambda at, self, split_size, dim=0: at.split(self, split_size, dim)
)


@composite("narrow_copy", variants="function method", out=True)
def narrow_copy(at: Any, self: Array, dim: int, start: int, length: int) -> Any:
    """A copy of `narrow`."""
    return at.clone(at.narrow(self, dim, start, length))


@composite("diagflat", variants="function method")
def diagflat(at: Any, self: Array, offset: int = 0) -> Any:
    """All elements on a diagonal of zeros."""
    return at.diag(at.reshape(self, (-1,)), offset)


@composite("as_strided_scatter", variants="function method")
def as_strided_scatter(
    at: Any, self: Array, src: Array, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """A copy with `src` in the place of `as_strided(size, stride, storage_offset)`, for tensors without gaps."""
    return at._strided_scatter(self, src, sizes((size,)), sizes((stride,)), storage_offset or 0)


@register("_strided_scatter", key="CPU CUDA", variants="", node="AsStridedScatter")
def _strided_scatter(self: Array, src: Array, size: Any, stride: Any, storage_offset: int) -> Array:
    if src.shape != tuple(size):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = {list(size)}"
        )
    result = self.copy(order="K")
    as_strided(result, size, stride, storage_offset)[...] = src
    return result


@register("_strided_part", key="CPU CUDA", variants="")
def _strided_part(self: Array, size: Any, stride: Any, storage_offset: int) -> Array:
    return as_strided(self.copy(order="K"), size, stride, storage_offset).copy()


derivative(
    "_strided_scatter",
    self=lambda at, grad, src_shape, size, stride, storage_offset: (
        grad
        - at._strided_scatter(
            grad * 0, at._strided_part(grad, size, stride, storage_offset), size, stride, storage_offset
        )
    ),
    src=lambda at, grad, size, stride, storage_offset: at._strided_part(grad, size, stride, storage_offset),
)
derivative(
    "_strided_part",
    self=lambda at, grad, self_shape, size, stride, storage_offset: at._strided_scatter(
        at.expand(at.zeros_like(at.sum(grad)), self_shape) * 1, grad, size, stride, storage_offset
    ),
)


composite("unsafe_split_with_sizes", variants="function method")(
    lambda at, self, split_sizes, dim=0: at.split_with_sizes(self, split_sizes, dim)
)
