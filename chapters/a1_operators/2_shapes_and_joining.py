# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Shapes and joining
#
# Reference: operators that move elements and compute nothing. A view's derivative puts the gradient back where the elements came from.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Parts of a tensor
#
# | operator | derivative |
# |---|---|
# | `select(x, d, i)` | zeros with the gradient at index i of dimension d |
# | `slice(x, d, a, b, s)` | zeros with the gradient at that range |
# | `narrow`, `split`, `chunk`, `unbind` | by way of these |


# %%
#| into: aten/native/tensor_shape.py
#| imports
from readtorch.aten.core.dispatch.dispatcher import meta_kernel, operators, results_lie
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.native.tensor_factories import in_order_of, in_suggested_format, is_in_one_piece
from readtorch.aten.parallel import parallel_for
from readtorch.aten.wrap_dim_utils import together
from readtorch.c10.core.dispatch_key import outline, specimen, without_values

from readtorch.aten.tensor_iterator import in_order


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::select
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

# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::slice
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


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::narrow
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

# %% [markdown]
# ## Dimensions in another order or number


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::flatten
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


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::diagonal
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


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::unfold
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


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::as_strided_tensorimpl
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


# %%
#| into: aten/native/tensor_shape.py
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

# %% [markdown]
# ## Joining


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::cat_out_cpu
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


# %% [markdown]
# ## Repeating, turning, rolling


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::repeat
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


# %% [markdown]
# ## What would surprise in a shape?
#
# **`chunk(n)` may give fewer than n.** It makes parts of ⌈size / n⌉, and these may be used up early: five elements in four chunks are 2, 2, 1. `tensor_split` gives as many as it was asked for.
#
# **`squeeze()` without a dimension drops every 1.** Also that of a batch which happens to have one example, on the last step of an epoch or in production. Name the dimension.
#
# **The parts of a `split` cannot be written to** while gradients are recorded, although they are views. The node has several outputs, and a write to one of them would have to give all of them a new history.
#
# **`as_strided` counts from the storage** if an offset is given, not from the tensor it is called on: in a slice, an offset of 0 is the first element of the whole.


# %%
#| claim: chunk may give fewer parts than it was asked for, tensor_split does not; squeeze drops every 1; as_strided's offset counts from the storage
def _(torch):
    assert [len(part) for part in torch.arange(5).chunk(4)] == [2, 2, 1]
    assert [len(part) for part in torch.arange(5).tensor_split(4)] == [2, 1, 1, 1]
    assert torch.ones(1, 3, 1).squeeze().shape == (3,) and torch.ones(1, 3, 1).squeeze(2).shape == (1, 3)
    tail = torch.arange(6)[2:]
    assert tail.as_strided((2,), (1,)).tolist() == [2, 3] and tail.as_strided((2,), (1,), 0).tolist() == [0, 1]


# %%
#| claim: a part of a split may be written to only where no gradient is recorded, a slice of the same memory may
#| upstream: torch/csrc/autograd/variable.h#torch::autograd::CreationMeta
def _(torch):
    x = torch.ones(4, requires_grad=True) * 1
    x[:2].add_(1)
    part = x.split(2)[0]
    try:
        part.add_(1)
    except RuntimeError as error:
        assert "view of the output of a function that returns multiple views" in str(error) or "multiple views" in str(
            error
        )
    else:
        raise AssertionError("written")
    with torch.no_grad():
        part.add_(1)
    assert x.tolist() == [3, 3, 1, 1]
