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
# # Shapes, joining, indexing
#
# Reference: operators that move elements and compute nothing. A view's derivative puts the gradient back where the elements came from; a gather's adds it there, since an element may have been taken twice.

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
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::select
@register("select", key="CPU CUDA", variants="function method", view="always")
def select(self: Array, dim: int, index: int) -> Array:
    """Element `index` along `dim`, which disappears."""
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
        raise IndexError(f"index {index} is out of bounds for dimension {place} with size {size}")
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


@register("alias", key="CPU CUDA", variants="", view="always")
def alias(self: Array) -> Array:
    """The same elements under another tensor object: `x[...]`."""
    return self


derivative("alias", self=lambda at, grad: grad)


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::narrow
@composite("narrow", variants="function method")
def narrow(at: Any, self: Any, dim: int, start: Any, length: int) -> Any:
    """`length` elements along `dim`, from `start` on."""
    start = int(start)
    if not self.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    size = self.shape[maybe_wrap_dim(dim, self.ndim)]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return at.slice(self, dim, start, start + length, 1)


def _split_backward(
    at: Any, grads: list[Any], shape: tuple[int, ...], dtype: Any, dim: int, lengths: Sequence[int]
) -> Any:
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


def section_lengths(size: int, split_size: Any) -> list[int]:
    """How long each part is. RuntimeError if the lengths given do not add up."""
    if isinstance(split_size, int) or hasattr(split_size, "__index__"):
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
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension), but got split_sizes={lengths}"
        )
    return lengths


@register("split", key="CPU CUDA", variants="method", view="always")
def split(self: Array, split_size: Any, dim: int = 0) -> list[Array]:
    """Parts of `split_size` along `dim`, or of the lengths in a list."""
    if not self.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    place = maybe_wrap_dim(dim, self.ndim)
    parts, start = [], 0
    for length in section_lengths(self.shape[place], split_size):
        parts.append(self[(_range(None),) * place + (_range(start, start + length),)])
        start += length
    return parts


derivative(
    "split",
    self=lambda at, grads, self_shape, self_dtype, split_size, dim: _split_backward(
        at, grads, self_shape, self_dtype, dim, section_lengths(self_shape[dim], split_size)
    ),
)


@composite("split_with_sizes", variants="function method")
def split_with_sizes(at: Any, self: Any, split_sizes: Any, dim: int = 0) -> Any:
    """Parts of the given lengths."""
    return at.split(self, list(split_sizes), dim)


@composite("chunk", variants="function method")
def chunk(at: Any, self: Any, chunks: int, dim: int = 0) -> Any:
    """At most `chunks` parts of equal length, the last one shorter."""
    if not self.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = self.shape[maybe_wrap_dim(dim, self.ndim)]
    length = -(-size // chunks)
    return at.split(self, [0] * chunks if length == 0 else length, dim)


@composite("tensor_split", variants="function method")
def tensor_split(at: Any, self: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """Parts of nearly equal length, or cut at the given indices."""
    size = self.shape[maybe_wrap_dim(dim, self.ndim)]
    if isinstance(indices_or_sections, int):
        small, extra = divmod(size, indices_or_sections)
        return at.split(self, [small + 1] * extra + [small] * (indices_or_sections - extra), dim)
    cuts = [0, *(builtins.min(cut if cut >= 0 else cut + size, size) for cut in indices_or_sections), size]
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
def flatten(at: Any, self: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions `start_dim` to `end_dim` made one."""
    if not self.ndim:
        return at.reshape(self, (1,))
    first, last = maybe_wrap_dim(start_dim, self.ndim), maybe_wrap_dim(end_dim, self.ndim)
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if first == last:
        return self
    shape = tuple(self.shape)
    return at.reshape(self, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@composite("unflatten", variants="function method")
def unflatten(at: Any, self: Any, dim: int, sizes: Any) -> Any:
    """One dimension made several."""
    place = maybe_wrap_dim(dim, self.ndim)
    wanted = tuple(sizes)
    if not wanted:
        raise RuntimeError("unflatten: sizes must be non-empty")
    have = self.shape[place]
    known = math.prod(size for size in wanted if size != -1)
    if (-1 in wanted and (known == 0 or have % known)) or (-1 not in wanted and known != have):
        raise RuntimeError(
            f"unflatten: Provided sizes {list(wanted)} don't multiply up to the size of dim {place} ({have}) in the input tensor"
        )
    shape = tuple(self.shape)
    return at.reshape(self, (*shape[:place], *inferred(wanted, have), *shape[place + 1 :]))


@composite("ravel", variants="function method")
def ravel(at: Any, self: Any) -> Any:
    """One dimension."""
    return at.reshape(self, (-1,))


for _alias in ("swapaxes", "swapdims"):
    composite(_alias, variants="function method")(lambda at, self, axis0, axis1: at.transpose(self, axis0, axis1))


@composite("movedim", variants="function method")
def movedim(at: Any, self: Any, source: Any, destination: Any) -> Any:
    """Dimensions moved to new places, the others in their order."""
    rank = self.ndim
    sources = [maybe_wrap_dim(d, rank) for d in ((source,) if isinstance(source, int) else source)]
    targets = [maybe_wrap_dim(d, rank) for d in ((destination,) if isinstance(destination, int) else destination)]
    if len(sources) != len(targets):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source and destination must have the same number of elements"
        )
    if len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise RuntimeError("movedim: repeated dim in `source` or `destination`")
    rest = [d for d in range(rank) if d not in sources]
    order = [sources[targets.index(place)] if place in targets else rest.pop(0) for place in range(rank)]
    return at.permute(self, order)


composite("moveaxis", variants="function method")(
    lambda at, self, source, destination: at.movedim(self, source, destination)
)


@composite("adjoint", variants="function method")
def adjoint(at: Any, self: Any) -> Any:
    """The conjugate of the transposed last two dimensions."""
    return at.conj(at.transpose(self, -2, -1))


@composite("broadcast_to", variants="function method")
def broadcast_to(at: Any, self: Any, size: Any) -> Any:
    """`expand` as a function."""
    return at.expand(self, size)


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::diagonal
@register("diagonal", key="CPU CUDA", variants="function method", view="always")
def diagonal(self: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """The diagonal of two dimensions, as a last dimension."""
    first, second = maybe_wrap_dim(dim1, self.ndim), maybe_wrap_dim(dim2, self.ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if self.__class__ is np.ndarray and self.flags.writeable:
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
def diag_embed(at: Any, self: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The last dimension laid on the diagonal of two new ones."""
    rank = self.ndim + 1
    first, second = maybe_wrap_dim(dim1, rank), maybe_wrap_dim(dim2, rank)
    size = self.shape[-1] + abs(offset)
    shape = [*self.shape[:-1]]
    for place in sorted((first, second)):
        shape.insert(place, size)
    return at.diagonal_backward(self, tuple(shape), offset, first, second)


@composite("diag", variants="function method")
def diag(at: Any, self: Any, diagonal: int = 0) -> Any:
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
    if size > have:
        raise RuntimeError(f"maximum size for tensor at dimension {place} is {have} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    source = self if self.ndim else self.reshape(1)
    windows = np.lib.stride_tricks.sliding_window_view(source, size, axis=place, writeable=bool(self.flags.writeable))
    return windows[(_range(None),) * place + (_range(None, None, step),)]


@register("unfold_backward", key="CPU CUDA", variants="")
def unfold_backward(grad_output: Array, shape: tuple[int, ...], dimension: int, size: int, step: int) -> Array:
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
def as_strided(self: Array, size: Any, stride: Any, storage_offset: int | None = None) -> Array:
    """The memory seen through any shape and strides, from the start of the storage."""
    from readtorch.c10.core.storage_impl import data_address, owner_of

    shape, steps = sizes((size,)), sizes((stride,))
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
            f"setStorage: sizes {list(shape)}, strides {list(steps)}, storage offset {offset // self.itemsize}, and itemsize {self.itemsize} requiring a storage size of {needed} are out of bounds for storage of size {flat.size}"
        )
    whole = flat[offset : offset + (flat.size - offset) // self.itemsize * self.itemsize].view(self.dtype)
    return np.lib.stride_tricks.as_strided(whole, shape, tuple(step * self.itemsize for step in steps))


@register("as_strided_backward", key="CPU CUDA", variants="")
def as_strided_backward(
    grad_output: Array, shape: tuple[int, ...], size: Any, stride: Any, storage_offset: int | None
) -> Array:
    result = np.zeros(math.prod(shape), grad_output.dtype)
    places = np.full(grad_output.shape, storage_offset or 0, np.int64)
    for axis, step in enumerate(sizes((stride,))):
        places += (np.arange(grad_output.shape[axis]) * step).reshape((-1,) + (1,) * (grad_output.ndim - axis - 1))
    np.add.at(result, places, grad_output)
    return result.reshape(shape)


derivative(
    "as_strided",
    self=lambda at, grad, self_shape, size, stride, storage_offset: at.as_strided_backward(
        grad, self_shape, size, stride, storage_offset
    ),
)
derivative(
    "as_strided_backward",
    grad_output=lambda at, grad, size, stride, storage_offset: at.as_strided(grad, size, stride, storage_offset),
)


# %%
#| into: aten/native/tensor_shape.py
@register("_view_dtype", key="CPU CUDA", variants="", view="always", node="View")
def _view_dtype(self: Array, dtype: Any) -> Array:
    """The bytes read as elements of another type."""
    wanted = to_numpy_dtype(dtype)
    if wanted.itemsize != self.itemsize and not self.ndim:
        raise RuntimeError(f"self.dim() cannot be 0 to view {self.dtype} as {dtype} (different element sizes)")
    return self.view(wanted)


@register("view_as_real", key="CPU CUDA", variants="function", view="always")
def view_as_real(self: Array) -> Array:
    """A complex tensor as pairs of real numbers."""
    if self.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return self[..., None].view(self.real.dtype)


@register("view_as_complex", key="CPU CUDA", variants="function", view="always")
def view_as_complex(self: Array) -> Array:
    """Pairs of real numbers as a complex tensor."""
    if not self.ndim or self.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    return self.view(np.complex64 if self.dtype == np.float32 else np.complex128)[..., 0]


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
    first = tensors[0]
    dtype = first.dtype
    try:
        joined = np.concatenate(tensors, dim)
        if joined.dtype is dtype:
            return joined
    except (ValueError, IndexError):
        pass
    for array in tensors:
        if array.dtype != dtype:
            dtype = to_numpy_dtype(result_type([array.reshape(-1) for array in tensors]))
            break
    for number, array in enumerate(tensors):
        if not array.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {number}) cannot be concatenated")
    try:
        return np.concatenate(tensors, maybe_wrap_dim(dim, first.ndim), dtype=dtype, casting="unsafe")
    except (ValueError, IndexError):
        return _cat_checked([array for array in tensors if array.shape != (0,)] or tensors[:1], dim, dtype)


def _cat_checked(tensors: Sequence[Array], dim: int, dtype: np.dtype) -> Array:
    first = tensors[0]
    place = maybe_wrap_dim(dim, first.ndim)
    for number, array in enumerate(tensors):
        if array.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {array.ndim}")
        for axis in range(first.ndim):
            if axis != place and array.shape[axis] != first.shape[axis]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {place}. Expected size {first.shape[axis]} but got size {array.shape[axis]} for tensor number {number} in the list."
                )
    return np.concatenate(tensors, place, dtype=dtype, casting="unsafe")


def _cat_backward(at: Any, grad: Any, shapes: list[tuple[int, ...]], dim: int) -> list[Any]:
    rank = grad.ndim
    place = maybe_wrap_dim(dim, rank)
    parts, start = [], 0
    for shape in shapes:
        if len(shape) != rank:
            parts.append(at.reshape(at.slice(grad, place, 0, 0), (0,)) if rank == 1 else None)
            continue
        parts.append(at.slice(grad, place, start, start + shape[place], 1))
        start += shape[place]
    return parts


derivative("cat", tensors=lambda at, grad, tensors_shape, dim: _cat_backward(at, grad, tensors_shape, dim))
for _alias in ("concat", "concatenate"):
    composite(_alias)(lambda at, tensors, dim=0: at.cat(tensors, dim))


@register("stack", key="CPU CUDA", variants="function", out=True, autocast="widest")
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """The tensors, of one shape, along a new dimension."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    for number, array in enumerate(tensors):
        if array.shape != first.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and {list(array.shape)} at entry {number}"
            )
    place = maybe_wrap_dim(dim, first.ndim + 1)
    dtype = (
        first.dtype
        if all(array.dtype == first.dtype for array in tensors)
        else to_numpy_dtype(result_type(list(tensors)))
    )
    return np.stack([array.astype(dtype, copy=False) for array in tensors], place)


derivative(
    "stack",
    tensors=lambda at, grad, tensors_shape, dim: [at.select(grad, dim, i) for i in range(len(tensors_shape))],
)


def _at_least(rank: int) -> Any:
    def stretched(at: Any, tensor: Any) -> Any:
        while tensor.ndim < rank:
            tensor = at.unsqueeze(tensor, 0) if rank < 3 or tensor.ndim != 2 else at.unsqueeze(tensor, 2)
        return tensor

    return stretched


@composite("hstack", out=True)
def hstack(at: Any, tensors: Any) -> Any:
    """Joined along the second dimension, vectors along the first."""
    tensors = [_at_least(1)(at, tensor) for tensor in tensors]
    return at.cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@composite("vstack", out=True)
def vstack(at: Any, tensors: Any) -> Any:
    """Joined along the first dimension, vectors as rows."""
    return at.cat([_at_least(2)(at, tensor) for tensor in tensors], 0)


@composite("dstack", out=True)
def dstack(at: Any, tensors: Any) -> Any:
    """Joined along the third dimension."""
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
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(count < 0 for count in counts):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(counts)}")
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
def tile(at: Any, self: Any, *dims: Any) -> Any:
    """`repeat` that pads the counts with ones."""
    counts = sizes(dims, "dims")
    return at.repeat(self, (1,) * (self.ndim - len(counts)) + counts)


@register("flip", key="CPU CUDA", variants="function method")
def flip(self: Array, *dims: Any) -> Array:
    """The order of the elements reversed along dimensions. A copy: strides are never negative here."""
    axes = tuple(maybe_wrap_dim(dim, self.ndim) for dim in sizes(dims, "dims"))
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {axes[0]} appears multiple times in the list of dims")
    return np.flip(self, axes).copy()


derivative("flip", self=lambda at, grad, dims: at.flip(grad, *dims))
composite("fliplr", variants="function method")(lambda at, self: at.flip(self, 1))
composite("flipud", variants="function method")(lambda at, self: at.flip(self, 0))


@register("roll", key="CPU CUDA", variants="function method")
def roll(self: Array, shifts: Any, dims: Any = None) -> Array:
    """Elements moved along dimensions, those pushed out entering at the other end."""
    if dims is None or dims == ():
        return np.roll(self, shifts)
    axes = (dims,) if isinstance(dims, int) else tuple(dims)
    steps = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    if len(axes) != len(steps):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(axes)}")
    return np.roll(self, steps, tuple(maybe_wrap_dim(axis, self.ndim) for axis in axes))


derivative(
    "roll",
    self=lambda at, grad, shifts, dims: at.roll(
        grad, -shifts if isinstance(shifts, int) else tuple(-s for s in shifts), dims
    ),
)


@composite("rot90", variants="function method")
def rot90(at: Any, self: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """A quarter turn in the plane of two dimensions, `k` times."""
    a, b = dims
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
    at: Any, self: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element, or slice along `dim`, so many times in a row. Of one tensor of counts: the index of each repetition."""
    if repeats is None:
        return at.index_of_repeats(self)
    if dim is None:
        self, dim = at.reshape(self, (-1,)), 0
    counts = getattr(repeats, "_array", repeats)
    size = self.shape[maybe_wrap_dim(dim, self.ndim)]
    index = np.repeat(np.arange(size), counts)
    return at.index_select_array(self, dim, index)


# %% [markdown]
# ## Taking elements by number
# `index` serves `x[[0, 2], :, mask]`; its derivative is `index_put` with accumulation, and the derivative of that is `index` again.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import tensor_advanced_indexing as tensor_advanced_indexing

# %%
#| into: aten/native/tensor_advanced_indexing.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.expand_utils import infer_size, is_expandable_to
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.tensor_iterator import cast
from readtorch.c10.core.scalar_type import from_numpy_dtype, to_numpy_dtype, to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/native_functions.yaml#index.Tensor
def _key(self: Array, indices: Sequence[Array | None]) -> tuple:
    """Index arrays as NumPy wants them, checked against the sizes. IndexError names the value that is out of bounds."""
    key: list[Any] = []
    for dim, index in enumerate(indices):
        if index is None:
            key.append(slice(None))
            continue
        size = self.shape[dim]
        if index.dtype.kind != "b" and index.size:
            low, high = int(index.min()), int(index.max())
            if low < -size or high >= size:
                wrong = low if low < -size else high
                raise IndexError(f"index {wrong} is out of bounds for dimension {dim} with size {size}")
        key.append(index)
    return tuple(key)


@register("index", key="CPU CUDA", variants="")
def index(self: Array, indices: Sequence[Array | None]) -> Array:
    """Elements at the given positions; index tensors broadcast against each other."""
    key = _key(self, indices)
    try:
        return self[key]
    except IndexError as error:
        shapes = ", ".join(str(list(i.shape)) for i in indices if i is not None)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from error


@register("_index_put_zeros", key="CPU CUDA", variants="", node="IndexPut")
def _index_put_zeros(grad_output: Array, shape: tuple[int, ...], indices: Sequence[Array | None]) -> Array:
    """Zeros of `shape` with `grad_output` added at the positions."""
    result = np.zeros(shape, grad_output.dtype)
    _add_at(result, tuple(slice(None) if i is None else i for i in indices), grad_output)
    return result


def _add_at(target: Array, key: tuple, values: Array) -> None:
    if len(key) == 1 and target.ndim and key[0].__class__ is np.ndarray and key[0].dtype.kind in "iu":
        scatter_rows(target, key[0].reshape(-1), values.reshape(key[0].size, *target.shape[1:]))
        return
    np.add.at(target, key, values)


def scatter_rows(target: Array, rows: Array, values: Array) -> None:
    """`target[rows] += values` with every repetition counted.

    For rows of more than a few numbers, sorting the row numbers and summing runs is several times faster than `np.add.at`.
    """
    if target.ndim == 1 or values.size < 256:
        np.add.at(target, rows, values)
        return
    rows = np.where(rows < 0, rows + target.shape[0], rows)
    order = np.argsort(rows, kind="stable")
    sorted_rows = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_rows[1:] != sorted_rows[:-1])))
    target[sorted_rows[starts]] += np.add.reduceat(values[order], starts, axis=0)


derivative("index", self=lambda at, grad, self_shape, indices: at._index_put_zeros(grad, self_shape, indices))
derivative("_index_put_zeros", grad_output=lambda at, grad, indices: at.index(grad, indices))


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::index_put_
@register("index_put", key="CPU CUDA", variants="function method", inplace=True)
def index_put(self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False) -> Array:
    """A copy with `values` written, or added, at the positions."""
    key = _key(self, indices)
    result = self.copy(order="K")
    if values.dtype != self.dtype:
        names = [to_string(from_numpy_dtype(x.dtype)) for x in (self, values)]
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {names[0]} for the destination and {names[1]} for the source."
        )
    target = self[key].shape
    if not is_expandable_to(values.shape, target) and values.size != 1:
        shape, wanted = list(values.shape), list(target)
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {shape} cannot be broadcast to indexing result of shape {wanted}"
        )
    if accumulate:
        _add_at(result, key, np.broadcast_to(values.reshape(() if values.ndim > len(target) else values.shape), target))
    else:
        result[key] = values if values.ndim <= len(target) else values.reshape(())
    return result


def _without(at: Any, grad: Any, indices: Sequence[Any], accumulate: bool) -> Any:
    """The gradient with zeros where the values were overwritten."""
    if accumulate:
        return grad
    hole = at.zeros_like(at.index(grad, indices))
    return at.index_put(grad, indices, hole, False)


derivative(
    "index_put",
    self=lambda at, grad, indices, accumulate: _without(at, grad, indices, accumulate),
    values=lambda at, grad, indices: at.index(grad, indices),
)


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::index_select_out_cpu_
@register("index_select", key="CPU CUDA", variants="function method", out=True)
def index_select(self: Array, dim: int, index: Array) -> Array:
    """The slices along `dim` with the numbers in the 1-d `index`."""
    place = maybe_wrap_dim(dim, self.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype.kind not in "iu" or index.itemsize < 4:
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    size = self.shape[place] if self.ndim else 1
    if index.size and (int(index.min()) < 0 or int(index.max()) >= size):
        raise IndexError("index out of range in self")
    return np.take(self, index.reshape(-1), axis=place) if self.ndim else self.copy()


derivative(
    "index_select", self=lambda at, grad, self_shape, dim, index: at._index_add_zeros(grad, self_shape, dim, index)
)


@register("_index_add_zeros", key="CPU CUDA", variants="", node="IndexAdd")
def _index_add_zeros(grad_output: Array, shape: tuple[int, ...], dim: int, index: Array) -> Array:
    result = np.zeros(shape, grad_output.dtype)
    if not shape:
        return result + grad_output
    moved = np.moveaxis(result, dim, 0)
    scatter_rows(moved, index.reshape(-1), np.moveaxis(grad_output, dim, 0))
    return result


derivative("_index_add_zeros", grad_output=lambda at, grad, dim, index: at.index_select(grad, dim, index))


@composite("index_select_array", variants="")
def index_select_array(at: Any, self: Any, dim: int, index: np.ndarray) -> Any:
    """`index_select` by a raw array of numbers."""
    from readtorch.c10.core.tensor_impl import wrap

    return at.index_select(self, dim, wrap(index) if hasattr(self, "_array") else index)


@register("index_of_repeats", key="CPU CUDA", variants="")
def index_of_repeats(repeats: Array) -> Array:
    """For counts [2, 0, 1]: [0, 0, 2]."""
    return np.repeat(np.arange(repeats.size), repeats)


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::index_add_cpu_out
@register("index_add", key="CPU CUDA", variants="function method", inplace=True, out=True)
def index_add(self: Array, dim: int, index: Array, source: Array, *, alpha: float = 1) -> Array:
    """A copy with `alpha * source` added to the slices numbered by `index`."""
    result = self.copy(order="K")
    if source.dtype != self.dtype:
        raise RuntimeError(
            "index_add_(): self and source expected to have the same dtype, but got (self) "
            f"{to_string(from_numpy_dtype(self.dtype))} and (source) {to_string(from_numpy_dtype(source.dtype))}"
        )
    values = source if alpha == 1 else source * self.dtype.type(alpha)
    if self.ndim:
        scatter_rows(
            np.moveaxis(result, maybe_wrap_dim(dim, self.ndim), 0), index.reshape(-1), np.moveaxis(values, dim, 0)
        )
        return result
    return result + values.sum()


derivative(
    "index_add",
    self=lambda at, grad: grad,
    source=lambda at, grad, dim, index, alpha: at.index_select(grad, dim, index) * alpha,
)


@register("index_copy", key="CPU CUDA", variants="function method", inplace=True, out=True)
def index_copy(self: Array, dim: int, index: Array, source: Array) -> Array:
    """A copy with the slices numbered by `index` replaced by those of `source`."""
    if self.dtype != source.dtype:
        raise RuntimeError("index_copy_(): self and source expected to have the same dtype")
    result = self.copy(order="K")
    np.moveaxis(result, maybe_wrap_dim(dim, self.ndim), 0)[index] = np.moveaxis(source, dim, 0)
    return result


derivative(
    "index_copy",
    self=lambda at, grad, dim, index: at.index_fill(grad, dim, index, 0),
    source=lambda at, grad, dim, index: at.index_select(grad, dim, index),
)


@register("index_fill", key="CPU CUDA", variants="function method", inplace=True)
def index_fill(self: Array, dim: int, index: Array, value: Any) -> Array:
    """A copy with the slices numbered by `index` set to a number."""
    result = self.copy(order="K")
    np.moveaxis(result, maybe_wrap_dim(dim, self.ndim), 0)[index] = getattr(value, "_array", value)
    return result


derivative("index_fill", self=lambda at, grad, dim, index: at.index_fill(grad, dim, index, 0))

# %% [markdown]
# ### gather and scatter
# `gather(x, d, i)[..., j, ...] = x[..., i[..., j, ...], ...]`. Its derivative is `scatter_add`, and the other way round.


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::scatter_add
def _grid(index: Array, dim: int) -> tuple:
    """`index` along `dim`, the own position along all others."""
    key: list[Any] = [
        np.arange(size).reshape((-1,) + (1,) * (index.ndim - axis - 1)) for axis, size in enumerate(index.shape)
    ]
    key[dim] = index
    return tuple(key)


def _check_gather(name: str, self: Array, dim: int, index: Array, source: Array | None = None) -> int:
    place = maybe_wrap_dim(dim, self.ndim)
    if index.dtype != np.int64 and index.dtype != np.int32:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if index.size == 0:
        return place
    if (self.ndim or 1) != (index.ndim or 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for axis in range(index.ndim):
        limit = (
            self.shape[axis]
            if source is None
            else min(source.shape[axis], self.shape[axis] if axis != place else source.shape[axis])
        )
        if (axis != place or source is not None) and index.shape[axis] > limit:
            other = "input" if source is None else "src"
            raise RuntimeError(
                f"Size does not match at dimension {axis} expected index {list(index.shape)} to be no larger than {other} {list((self if source is None else source).shape)} apart from dimension {place}"
            )
    size = self.shape[place] if self.ndim else 1
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= size:
        wrong = low if low < 0 else high
        raise RuntimeError(f"index {wrong} is out of bounds for dimension {place} with size {size}")
    return place


@register("gather", key="CPU CUDA", variants="function method", out=True)
def gather(self: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """Elements of `self` at the numbers in `index` along `dim`; the result has the shape of `index`."""
    place = _check_gather("gather", self, dim, index)
    if not index.size:
        return np.empty(index.shape, self.dtype)
    if not self.ndim or not index.ndim:
        return self.reshape(-1)[index]
    return self[_grid(index, place)]


derivative("gather", self=lambda at, grad, self_shape, dim, index: at._scatter_add_zeros(grad, self_shape, dim, index))


@register("_scatter_add_zeros", key="CPU CUDA", variants="", node="ScatterAdd")
def _scatter_add_zeros(grad_output: Array, shape: tuple[int, ...], dim: int, index: Array) -> Array:
    return scatter_add(np.zeros(shape, grad_output.dtype), dim, index, grad_output)


derivative("_scatter_add_zeros", grad_output=lambda at, grad, dim, index: at.gather(grad, dim, index))


@register("scatter_add", key="CPU CUDA", variants="function method", inplace=True, out=True)
def scatter_add(self: Array, dim: int, index: Array, src: Array) -> Array:
    """A copy with `src` added at the numbers in `index` along `dim`."""
    place = _check_gather("scatter", self, dim, index, src)
    if self.dtype != src.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    result = self.copy(order="K")
    if not index.size:
        return result
    if not self.ndim or not index.ndim:
        np.add.at(result.reshape(-1), index.reshape(-1), src.reshape(-1)[: index.size])
        return result
    np.add.at(result, _grid(index, place), src[tuple(slice(size) for size in index.shape)])
    return result


derivative("scatter_add", self=lambda at, grad: grad, src=lambda at, grad, dim, index: at.gather(grad, dim, index))


@register("_scatter_src", key="CPU CUDA", variants="", node="Scatter")
def _scatter_src(self: Array, dim: int, index: Array, src: Array) -> Array:
    place = _check_gather("scatter", self, dim, index, src)
    if self.dtype != src.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    result = self.copy(order="K")
    if index.size and index.ndim:
        result[_grid(index, place)] = src[tuple(slice(size) for size in index.shape)]
    elif index.size:
        result = result.copy()
        result.reshape(-1)[index] = src.reshape(-1)[0]
    return result


@register("_scatter_value", key="CPU CUDA", variants="", node="Scatter")
def _scatter_value(self: Array, dim: int, index: Array, value: Any) -> Array:
    place = _check_gather("scatter", self, dim, index)
    result = self.copy(order="K")
    if index.size and index.ndim:
        result[_grid(index, place)] = cast(value, self.dtype)
    elif index.size:
        result.reshape(-1)[index] = value
    return result


derivative(
    "_scatter_src",
    self=lambda at, grad, dim, index: at._scatter_value(grad, dim, index, 0),
    src=lambda at, grad, dim, index: at.gather(grad, dim, index),
)
derivative("_scatter_value", self=lambda at, grad, dim, index: at._scatter_value(grad, dim, index, 0))


@composite("scatter", variants="function method", inplace=True, out=True)
def scatter(
    at: Any, self: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Any:
    """A copy with `src`, a tensor or a number, written at the numbers in `index` along `dim`; `reduce` "add" or "multiply" combines instead."""
    src = value if src is None else src
    is_number = not hasattr(src, "dtype")
    if reduce == "add" and not is_number:
        return at.scatter_add(self, dim, index, src)
    if reduce is not None:
        if is_number:
            src = at.zeros_like(at.gather(self, dim, index)) + src
        return at.scatter_reduce(self, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])
    return at._scatter_value(self, dim, index, src) if is_number else at._scatter_src(self, dim, index, src)


@register("scatter_reduce", key="CPU CUDA", variants="function method", inplace=True, out=True)
def scatter_reduce(self: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True) -> Array:
    """A copy with `src` combined into it along `dim`: "sum", "prod", "mean", "amax" or "amin"."""
    place = _check_gather("scatter_reduce", self, dim, index, src)
    functions = {"sum": np.add, "prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}
    if reduce not in functions:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    key, values = _grid(index, place), src[tuple(slice(size) for size in index.shape)]
    result = self.copy(order="K")
    if not include_self:
        start = {"sum": 0, "mean": 0, "prod": 1, "amax": -math.inf, "amin": math.inf}[reduce]
        if self.dtype.kind in "iu" and reduce in ("amax", "amin"):
            start = np.iinfo(self.dtype).min if reduce == "amax" else np.iinfo(self.dtype).max
        result[key] = start
    functions[reduce].at(result, key, values)
    if reduce == "mean":
        count = np.full(self.shape, 1 if include_self else 0, np.int64)
        np.add.at(count, key, 1)
        result = (
            result // np.maximum(count, 1)
            if self.dtype.kind in "iu"
            else (result / np.maximum(count, 1)).astype(self.dtype)
        )
    return result


def _scatter_reduce_backward(
    at: Any, grad: Any, self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, result: Any
) -> Any:
    if reduce == "sum":
        to_self, to_src = grad, at.gather(grad, dim, index)
    elif reduce == "mean":
        count = at.scatter_add(
            at.ones_like(self) if include_self else at.zeros_like(self), dim, index, at.ones_like(src)
        )
        share = grad / at.clamp(count, 1)
        to_self, to_src = share, at.gather(share, dim, index)
    elif reduce in ("amax", "amin"):
        hit_self = at._to_copy_like(self == result, grad)
        hit_src = at._to_copy_like(src == at.gather(result, dim, index), grad)
        total = at.scatter_add(hit_self if include_self else at.zeros_like(hit_self), dim, index, hit_src)
        share = grad / at.clamp(total, 1)
        to_self, to_src = share * hit_self, at.gather(share, dim, index) * hit_src
    else:
        to_self, to_src = grad * result / self, at.gather(grad * result, dim, index) / src
    if not include_self:
        to_self = at._scatter_value(to_self, dim, index, 0)
    return to_self, to_src


derivative(
    "scatter_reduce",
    {
        "self, src": lambda at, grad, self, dim, index, src, reduce, include_self, result: _scatter_reduce_backward(
            at, grad, self, dim, index, src, reduce, include_self, result
        )
    },
)


@composite("_to_copy_like", variants="")
def _to_copy_like(at: Any, self: Any, other: Any) -> Any:
    """`self` in the dtype of `other`."""
    return at._to_copy(self, other.dtype)


@composite("take_along_dim", variants="function method", out=True)
def take_along_dim(at: Any, self: Any, indices: Any, dim: int | None = None) -> Any:
    """`gather` whose index broadcasts."""
    if dim is None:
        return at.gather(at.reshape(self, (-1,)), 0, at.reshape(indices, (-1,)))
    place = maybe_wrap_dim(dim, self.ndim)
    ones = tuple(1 if axis == place else size for axis, size in enumerate(self.shape))
    index_ones = tuple(1 if axis == place else size for axis, size in enumerate(indices.shape))
    shape = infer_size(ones, index_ones)
    grown = at.expand(self, tuple(self.shape[place] if axis == place else size for axis, size in enumerate(shape)))
    index = at.expand(
        indices, tuple(indices.shape[place] if axis == place else size for axis, size in enumerate(shape))
    )
    return at.gather(grown, place, index)


@composite("take", variants="function method", out=True)
def take(at: Any, self: Any, index: Any) -> Any:
    """Elements by their number in the flattened tensor."""
    flat = at.reshape(self, (-1,))
    return at.reshape(at.index(flat, [at.reshape(index, (-1,))]), tuple(index.shape))


# %% [markdown]
# ### Masks


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::masked_fill
def _masked_dtype(self: Array, value: Any) -> None:
    from readtorch.c10.core.scalar_type import can_cast

    if not hasattr(value, "dtype"):
        from readtorch.aten.native.type_properties import number_type

        kind = number_type(value)
    else:
        kind = from_numpy_dtype(value.dtype)
    if not can_cast(kind, from_numpy_dtype(self.dtype)):
        have = from_numpy_dtype(self.dtype)
        raise RuntimeError(f"value cannot be converted to type {have.name} without overflow")


@register("_masked_fill_scalar", key="CPU CUDA", variants="", node="MaskedFill")
def _masked_fill_scalar(self: Array, mask: Array, value: Any) -> Array:
    if mask.dtype.kind != "b":
        raise RuntimeError(
            "masked_fill_ only supports boolean masks, but got mask with dtype " + from_numpy_dtype(mask.dtype).name
        )
    _masked_dtype(self, value)
    infer_size(self.shape, mask.shape)
    return np.where(mask, cast(value, self.dtype), self)


@register("_masked_fill_tensor", key="CPU CUDA", variants="", node="MaskedFill")
def _masked_fill_tensor(self: Array, mask: Array, value: Array) -> Array:
    if value.ndim:
        raise RuntimeError(
            f"masked_fill only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return np.where(mask, value.astype(self.dtype), self)


derivative("_masked_fill_scalar", self=lambda at, grad, mask: at._masked_fill_scalar(grad, mask, 0))
derivative(
    "_masked_fill_tensor",
    self=lambda at, grad, mask: at._masked_fill_scalar(grad, mask, 0),
    value=lambda at, grad, mask: at.sum(grad * mask),
)


@composite("masked_fill", variants="function method", inplace=True)
def masked_fill(at: Any, self: Any, mask: Any, value: Any) -> Any:
    """A copy with `value`, a number or a 0-d tensor, where the mask is true."""
    return (
        at._masked_fill_tensor(self, mask, value)
        if hasattr(value, "dtype")
        else at._masked_fill_scalar(self, mask, value)
    )


@register("masked_select", key="CPU CUDA", variants="function method", out=True)
def masked_select(self: Array, mask: Array) -> Array:
    """The elements where the mask is true, as a vector."""
    if mask.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = infer_size(self.shape, mask.shape)
    return np.broadcast_to(self, shape)[np.broadcast_to(mask, shape)]


derivative("masked_select", self=lambda at, grad, self_shape, mask: at._masked_put_zeros(grad, self_shape, mask))


@register("_masked_put_zeros", key="CPU CUDA", variants="", node="MaskedScatter")
def _masked_put_zeros(grad_output: Array, shape: tuple[int, ...], mask: Array) -> Array:
    whole = infer_size(shape, mask.shape)
    result = np.zeros(whole, grad_output.dtype)
    result[np.broadcast_to(mask, whole)] = grad_output
    return result


derivative("_masked_put_zeros", grad_output=lambda at, grad, mask: at.masked_select(grad, mask))


@register("masked_scatter", key="CPU CUDA", variants="function method", inplace=True)
def masked_scatter(self: Array, mask: Array, source: Array) -> Array:
    """A copy with the elements of `source`, in order, where the mask is true."""
    shape = infer_size(self.shape, mask.shape)
    result = np.broadcast_to(self, shape).copy()
    where = np.broadcast_to(mask, shape)
    count = int(np.count_nonzero(where))
    if source.size < count:
        raise RuntimeError(
            "masked_scatter_: expected self and source to have same dtypes and enough elements in source"
        )
    result[where] = source.reshape(-1)[:count]
    return result


def _masked_scatter_source(at: Any, grad: Any, mask: Any, shape: tuple[int, ...]) -> Any:
    taken = at.masked_select(grad, mask)
    rest = math.prod(shape) - taken.shape[0]
    if rest:
        taken = at.constant_pad_end(taken, rest)
    return at.reshape(taken, shape)


@register("constant_pad_end", key="CPU CUDA", variants="")
def constant_pad_end(self: Array, count: int) -> Array:
    """A vector with `count` zeros at its end."""
    return np.concatenate([self, np.zeros(count, self.dtype)])


derivative("constant_pad_end", self=lambda at, grad, self_shape: at.slice(grad, 0, 0, self_shape[0], 1))
derivative(
    "masked_scatter",
    self=lambda at, grad, mask: at.masked_fill(grad, mask, 0),
    source=lambda at, grad, mask, source_shape: _masked_scatter_source(at, grad, mask, source_shape),
)


@register("_nonzero", key="CPU CUDA", variants="")
def _nonzero(self: Array) -> Array:
    if not self.ndim:
        return np.zeros((int(bool(self)), 0), np.int64)
    return np.stack(self.nonzero(), axis=1).astype(np.int64)


@composite("nonzero", variants="function method", out=True)
def nonzero(at: Any, self: Any, *, as_tuple: bool = False) -> Any:
    """The positions of the elements that are not zero: one row each, or one tensor per dimension."""
    positions = at._nonzero(self)
    if not as_tuple:
        return positions
    if self.ndim == 0:
        return (at._nonzero(at.reshape(self, (1,)))[:, 0],)
    return tuple(positions[:, i] for i in range(self.ndim))


composite("argwhere", variants="function method")(lambda at, self: at._nonzero(self))

# %% [markdown]
# ### where


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorCompare.cpp#at::native::where
@register("_where", key="CPU CUDA", variants="", node="Where")
def _where(condition: Array, self: Array, other: Array) -> Array:
    if condition.dtype.kind not in "bu" or condition.itemsize > 1:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {to_string(from_numpy_dtype(condition.dtype))}"
        )
    wanted = to_numpy_dtype(result_type([self, other])) if self.dtype != other.dtype else self.dtype
    infer_size(infer_size(condition.shape, self.shape), other.shape)
    return np.where(
        condition.astype(bool, copy=False), self.astype(wanted, copy=False), other.astype(wanted, copy=False)
    )


derivative(
    "_where",
    self=lambda at, grad, condition: at.where(condition, grad, 0),
    other=lambda at, grad, condition: at.where(condition, 0, grad),
)


@composite("where", variants="function", out=True)
def where(at: Any, condition: Any, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition is true, `other` where not; with the condition alone, `nonzero(as_tuple=True)`."""
    if input is None and other is None:
        return at.nonzero(condition, as_tuple=True)
    return at._where(condition, _number_like(condition, input, other), _number_like(condition, other, input))


def _number_like(condition: Any, value: Any, partner: Any) -> Any:
    """A Python number as a 0-d array or tensor of the type it takes beside its partner."""
    if hasattr(value, "dtype"):
        return value
    from readtorch.c10.core.tensor_impl import TensorImpl, wrap

    raw_partner = partner._array if isinstance(partner, TensorImpl) else partner
    array = np.asarray(
        value,
        to_numpy_dtype(result_type([value, raw_partner]))
        if hasattr(raw_partner, "dtype")
        else to_numpy_dtype(result_type([value])),
    )
    return wrap(array) if isinstance(condition, TensorImpl) else array
