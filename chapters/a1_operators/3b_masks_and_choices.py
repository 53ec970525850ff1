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
# # Indexing: masks and choices
#
# Taking and putting where a tensor of bools is true, and what is counted through the whole tensor. [Taking by number](3_indexing.py) comes before.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Masks


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::masked_fill
@register("_masked_fill_scalar", key="CPU CUDA", variants="", node="MaskedFill")
def _masked_fill_scalar(self: Array, mask: Array, value: Any) -> Array:
    if mask.dtype.kind != "b":
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype " + cpp_type(mask.dtype))
    infer_size(self.shape, mask.shape)
    return in_order(np.where(mask, fitting(value, self.dtype), self))


@register("_masked_fill_tensor", key="CPU CUDA", variants="", node="MaskedFillBackward1")
def _masked_fill_tensor(self: Array, mask: Array, value: Array) -> Array:
    if value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return in_order(np.where(mask, fitting(value, self.dtype), self))


broadcasts_on_meta("_masked_fill_scalar")
derivative("_masked_fill_scalar", self=lambda at, grad, mask: at._masked_fill_scalar(grad, mask, 0))
derivative(
    "_masked_fill_tensor",
    self=lambda at, grad, mask: at._masked_fill_scalar(grad, mask, 0),
    value=lambda at, grad, mask: at.sum(at.where(mask, grad, 0)),
)


@composite("masked_fill", variants="function method", inplace=True)
def masked_fill(at: Any, self: Array, mask: Array, value: Array | Number) -> Any:
    """A copy with `value`, a number or a 0-d tensor, where the mask is true."""
    if isinstance(value, np.generic):
        value = value.item()
    return (
        at._masked_fill_tensor(self, mask, value)
        if hasattr(value, "dtype")
        else at._masked_fill_scalar(self, mask, value)
    )


@composite("fill", variants="function")
def fill(at: Any, self: Array, value: Array | Number) -> Any:
    """A tensor like `self` with `value`, a number or a 0-d tensor, everywhere."""
    if getattr(value, "ndim", 0):
        raise RuntimeError(f"fill only supports 0-dimension value tensor; this one has {value.ndim} dimensions.")
    return at.masked_fill(self, at.ones_like(self, dtype=bool), value)


@register("masked_select", key="CPU CUDA", variants="function method", out=True)
def masked_select(self: Array, mask: Array) -> Array:
    """The elements where the mask is true, as a vector."""
    if mask.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = infer_size(self.shape, mask.shape)
    return np.broadcast_to(self, shape)[np.broadcast_to(mask, shape)]


derivative("masked_select", self=lambda at, grad, self, mask: at._masked_put_zeros(grad, self.shape, mask))


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
    if mask.dtype.kind != "b":
        kind = to_string(from_numpy_dtype(mask.dtype))
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {kind}")
    if self.dtype != source.dtype:
        names = [to_string(from_numpy_dtype(x.dtype)) for x in (self, source)]
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes, not {names[0]} and {names[1]}"
        )
    result = np.broadcast_to(self, shape).copy()
    where = np.broadcast_to(mask, shape)
    count = int(np.count_nonzero(where))
    if source.size < count:
        raise RuntimeError(f"Number of elements of source < number of ones in mask: {source.size} < {count}")
    result[where] = source.reshape(-1)[:count]
    return result


def _masked_scatter_source(at: Any, grad: Any, mask: Any, shape: tuple[int, ...]) -> Any:
    if without_values(mask):
        return at.expand(at.sum(grad), shape)
    if is_one_of_many(mask):
        return _source_by_rank(at, grad, mask, shape)
    taken = at.masked_select(grad, mask)
    rest = math.prod(shape) - taken.shape[0]
    if rest:
        taken = at.constant_pad_end(taken, rest)
    return at.reshape(taken, shape)


def _source_by_rank(at: Any, grad: Any, mask: Any, shape: tuple[int, ...]) -> Any:
    """The same without asking how many are taken: the element taken k-th goes to place k."""
    flat = at.reshape(at.expand(mask, tuple(grad.shape)), (-1,))
    kept = at.masked_fill(at.reshape(grad, (-1,)), at.logical_not(flat), 0)
    places = at.clamp(at.cumsum(flat, 0) - 1, 0, None)
    zeros = at.zeros_like(at.expand(at.reshape(at.sum(kept), (1,)), (math.prod(shape),)))
    return at.reshape(at.scatter_add(zeros, 0, places, kept), shape)


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
    return np.stack(self.nonzero()).astype(np.int64, copy=False).T  # a column holds one dimension, and is in one piece


def refuse_on_meta(name: str) -> None:
    """Give an operator whose result has as many elements as the input's elements say a kernel that says so on `meta`."""

    @register(name, key="Meta")
    def refuse(*args: Any) -> Any:
        raise NotImplementedError(
            f"{name.lstrip('_')} is not possible on the meta device: the shape of the result depends on the elements"
        )


refuse_on_meta("_nonzero")
refuse_on_meta("masked_select")


@composite("nonzero", variants="function method", out=True)
def nonzero(at: Any, self: Array, *, as_tuple: bool = False) -> Any:
    """The positions of the elements that are not zero: one row each, or one tensor per dimension."""
    positions = at._nonzero(self)
    if not as_tuple:
        return positions
    if self.ndim == 0:
        return (at._nonzero(at.reshape(self, (1,)))[:, 0],)
    return tuple(positions[:, i] for i in range(self.ndim))


composite("argwhere", variants="function method")(lambda at, self: at._nonzero(self))

# %% [markdown]
# ## where


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


broadcasts_on_meta("_where")
derivative(
    "_where",
    self=lambda at, grad, condition: at.where(condition, grad, 0),
    other=lambda at, grad, condition: at.where(condition, 0, grad),
)


@composite("where", variants="function", out=True)
def where(at: Any, condition: Array, input: Array | Number = UNSAID, other: Array | Number = UNSAID) -> Any:
    """`input` where the condition is true, `other` where not; with the condition alone, `nonzero(as_tuple=True)`."""
    if input is None and other is None:
        return at.nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where(): argument 'input' and argument 'other' must be given together")
    return at._where(condition, _number_like(condition, input, other), _number_like(condition, other, input))


def _number_like(condition: Any, value: Any, partner: Any) -> Any:
    """A Python number as a 0-d array or tensor of the type it takes beside its partner."""
    if hasattr(value, "dtype"):
        return value
    from readtorch.c10.core.tensor_impl import TensorImpl, wrap

    raw_partner = partner._array if isinstance(partner, TensorImpl) else partner
    operands = [value, raw_partner] if hasattr(raw_partner, "dtype") else [value]
    tensors = isinstance(condition, TensorImpl)
    kind = to_numpy_dtype(result_type(operands))
    array = number_beside(fitting(value, kind), kind, condition._array if tensors else condition)
    return wrap(array) if tensors else array


# %% [markdown]
# ## The whole tensor as one row
#
# `put` and `take` count elements as if the tensor were flat. `index_reduce` is `index_add` with another way of combining.


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::put_
@register("put", key="CPU CUDA", variants="function method", inplace=True)
def put(self: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    """A copy with `source` written, or added, at places counted through the flattened tensor."""
    if index.dtype != np.int64:
        raise RuntimeError(
            f"put_(): Expected a long tensor for index, but got {to_string(from_numpy_dtype(index.dtype))}"
        )
    if self.dtype != source.dtype:
        raise RuntimeError("put_(): self and source expected to have the same dtype")
    if index.size != source.size:
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got {source.size} and {index.size}"
        )
    places, count = index.reshape(-1), self.size
    wrong = places[(places < -count) | (places >= count)]
    if wrong.size:
        raise IndexError(f"out of range: tried to access index {int(wrong[0])} on a tensor of {count} elements.")
    flat = self.flatten()
    if accumulate:
        np.add.at(flat, places, source.reshape(-1))
    else:
        flat[places] = source.reshape(-1)
    return flat.reshape(self.shape)


results_lie(in_order_of, "put")


def _put_self(at: Any, grad: Any, index: Any, accumulate: bool) -> Any:
    return grad if accumulate else at.put(grad, index, at.reshape(at.take(grad, index) * 0, tuple(index.shape)))


derivative(
    "put",
    self=lambda at, grad, index, accumulate: _put_self(at, grad, index, accumulate),
    source=lambda at, grad, index, source: at.reshape(at.take(grad, index), tuple(source.shape)),
)


@composite("index_reduce", variants="function method", inplace=True, out=True)
def index_reduce(
    at: Any, self: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True
) -> Any:
    """A copy with the slices of `source` combined into those numbered by `index`: "prod", "mean", "amax" or "amin"."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}")
    place = maybe_wrap_dim(dim, self.ndim)
    _check_vector("index_reduce_", index)
    if self.dtype != source.dtype:
        names = [to_string(x.dtype) for x in (self, source)]
        raise RuntimeError(f"index_reduce_(): self ({names[0]}) and source ({names[1]}) must have the same scalar type")
    size = self.shape[place] if self.ndim else 1
    if not without_values(index) and not is_one_of_many(index) and at.any((index < 0) | (index >= size)):
        raise IndexError("index out of range in self")
    if index.ndim != 1 or index.shape[0] != source.shape[place]:
        raise RuntimeError("index_reduce(): Number of indices should be equal to source.size(dim)")
    column = at.reshape(index, tuple(-1 if axis == place else 1 for axis in range(self.ndim)))
    return at.scatter_reduce(
        self, dim, at.expand(column, tuple(source.shape)), source, reduce, include_self=include_self
    )


# %%
torch.arange(6.0).reshape(2, 3).put(torch.tensor([1, -1]), torch.tensor([10.0, 20.0]))


# %%
#| claim: put writes through the flattened tensor, and with accumulate every repetition counts
def _(torch):
    x = torch.zeros(2, 2)
    assert x.put(torch.tensor([3, 3]), torch.ones(2), accumulate=True).tolist() == [[0, 0], [0, 2]]
    try:
        x.put_(torch.tensor([4]), torch.ones(1))
    except IndexError as error:
        assert "out of range" in str(error)
    else:
        raise AssertionError("no error")
