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
# # Reductions
#
# Reference: sums, means, extremes, scans. A reduction's derivative stretches the gradient back over the dimensions that were reduced (`spread`), times whatever each element contributed.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Means and moments
#
# | operator | derivative |
# |---|---|
# | mean | g / n, spread |
# | var | g · 2 (x − mean) / (n − correction), spread |
# | std | that, divided by 2 · result |
# | prod | g · product of the *others*, spread |

# %%
#| into: aten/native/reduce_ops.py
#| imports
import math
import warnings

from readtorch.aten.core.dispatch.dispatcher import composite, computes_in_opmath, overloads, results_lie
from readtorch.aten.native.binary_ops import times
from readtorch.aten.native.tensor_factories import in_one_piece
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.aten.native.binary_ops import logaddexp
from readtorch.aten.op_math_type import in_working_precision
from readtorch.c10.core.default_dtype import get_default_dtype
from readtorch.c10.core.scalar_type import dtype, to_numpy_dtype, to_string
from readtorch.c10.core.wrap_dim_minimal import as_dim, maybe_wrap_dim


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/ReduceOps.cpp#at::native::mean
#: NumPy's type hints know of one axis only; these take several
_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce
_maximum: Any = np.maximum.reduce
_minimum: Any = np.minimum.reduce


def _needs_floating(name: str, self: Array, wanted: dtype | None) -> np.dtype:
    kind = self.dtype if wanted is None else to_numpy_dtype(wanted)
    if kind.kind not in "fcV":
        shown = to_string(kind)
        what = "Input dtype" if wanted is None else "Optional dtype"
        raise RuntimeError(
            f"{name}(): could not infer output dtype. {what} must be either a floating point or complex dtype. Got: {shown}"
        )
    return kind


def count_of(shape: tuple[int, ...], dims: tuple[int, ...]) -> int:
    """How many elements are reduced to one."""
    return math.prod(shape[axis] for axis in dims)


@register("mean", key="CPU CUDA", variants="function method", out=True)
def mean(self: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Array:
    """The mean over `dim`, of floating tensors only."""
    kind = self.dtype if dtype is None and self.dtype.kind in "fc" else _needs_floating("mean", self, dtype)
    dims = tuple(range(self.ndim)) if dim is None else reduced_dims(dim, self.ndim)
    count = count_of(self.shape, dims)
    if kind.itemsize == 2:
        wide = np.asarray(self.astype(np.float32).sum(axis=dims, keepdims=keepdim))
        return in_order((wide / np.float32(count)).astype(kind))
    total = _add(self, axis=dims or None, keepdims=keepdim, dtype=kind) if dims or not self.ndim else self.astype(kind)
    return in_order(total / kind.type(count))


derivative(
    "mean",
    self=lambda at, grad, self_shape, dim, keepdim: (
        spread(at, grad, self_shape, dim, keepdim) / count_of(self_shape, reduced_dims(dim, len(self_shape)))
    ),
)
overloads("mean", lambda given: f"MeanBackward{0 if given['dim'] is None else 1}")

# %% [markdown]
# `x.var()` of NumPy goes over the array four times: for the mean, the deviations, their squares, and the sum. `einsum` squares and sums in one pass.


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/ReduceOps.cpp#at::native::var
def _correction(unbiased: bool | None, correction: float | None) -> float:
    if correction is not None:
        return correction
    return 1 if unbiased is None or unbiased else 0


def _var_arguments(
    name: str, self: Any, dim: Any, unbiased: bool | None, keepdim: bool, correction: float | None
) -> tuple[tuple[int, ...], float]:
    """The dimensions and what is taken off their count. `var(False)` meant `unbiased=False` before it meant a dimension."""
    if dim.__class__ is bool:
        if unbiased is not None or keepdim or correction is not None:
            raise TypeError("argument 'dim' must be tuple of ints, not bool")
        dim, unbiased = None, dim
    if to_numpy_dtype(self.dtype).kind not in "fcV":
        what = name if name.endswith("mean") else "std and var"
        raise RuntimeError(f"{what} only support floating point and complex dtypes")
    dims, left_out = reduced_dims(dim, self.ndim), _correction(unbiased, correction)
    _warn_of_freedom(name, self, dims, left_out)
    return dims, left_out


@register("_var", key="CPU CUDA", variants="", node="Var")
def _var(self: Array, dims: tuple[int, ...], correction: float, keepdim: bool) -> Array:
    if self.dtype.kind not in "fcV":
        raise RuntimeError("std and var only support floating point and complex dtypes")
    wide = in_working_precision(self)
    count = count_of(self.shape, dims)
    average = _add(wide, axis=dims, keepdims=True) / wide.dtype.type(count)
    total = sum_of_squares(wide - average, dims, keepdim)
    noise = count * (4 * np.finfo(wide.dtype).eps * np.abs(average.reshape(total.shape))) ** 2
    if dims and wide.size and np.any(total < noise):
        # nothing but the rounding of the mean may be left: measured from the first element, equal numbers have no variance
        apart = wide - wide[tuple(slice(0, 1) if axis in dims else slice(None) for axis in range(wide.ndim))]
        average = _add(apart, axis=dims, keepdims=True) / wide.dtype.type(count)
        total = np.where(total < noise, sum_of_squares(apart - average, dims, keepdim), total)
    left = count - correction if correction < count else 0  # NaN takes all
    return in_order((total / total.dtype.type(left)).astype(self.real.dtype, copy=False))


def sum_of_squares(array: Array, dims: tuple[int, ...], keepdim: bool) -> Array:
    """Σ |x|² over `dims`, without a temporary where einsum can."""
    if array.dtype.kind == "c":
        return (array.real**2 + array.imag**2).sum(axis=dims, keepdims=keepdim)
    if array.size < 512:
        return _add(array * array, axis=dims, keepdims=keepdim)
    axes = list(range(array.ndim))
    total = np.einsum(array, axes, array, axes, [axis for axis in axes if axis not in dims])
    return (
        total.reshape(tuple(1 if axis in dims else size for axis, size in enumerate(array.shape))) if keepdim else total
    )


def _var_backward(at: Any, grad: Any, self: Any, dims: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    shape = tuple(self.shape)
    count = count_of(shape, dims)
    left = count - correction
    centred = self - at.mean(self, dims, True) if dims else self - self
    if left <= 0:
        nan = float("nan")
        if left < 0 or (not count and len(dims) == len(shape)):
            return spread(at, grad, shape, dims, keepdim) * (nan * centred)
        return spread(at, grad * nan, shape, dims, keepdim) * (centred if count != 1 else 1)
    return spread(at, times(at, grad, 2.0 / left), shape, dims, keepdim) * centred


derivative("_var", self=_var_backward)


def _warn_of_freedom(name: str, self: Any, dims: tuple[int, ...], correction: float) -> None:
    kept = math.prod(size for axis, size in enumerate(self.shape) if axis not in dims)
    if (count_of(self.shape, dims) if kept else 0) <= correction:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0: no more elements than the correction of {correction}", stacklevel=3
        )


@composite("var", variants="function method", out=True)
def var(
    at: Any,
    self: Array,
    dim: Dims | bool | None = None,
    unbiased: bool = UNSAID,
    keepdim: bool = False,
    *,
    correction: Real | None = None,
) -> Any:
    """The variance over `dim`: the sum of squared deviations divided by n − correction (1 by default)."""
    dims, left_out = _var_arguments("var", self, dim, unbiased, keepdim, correction)
    return at._var(self, dims, left_out, keepdim)


@register("_std", key="CPU CUDA", variants="", node="Std")
def _std(self: Array, dims: tuple[int, ...], correction: float, keepdim: bool) -> Array:
    variance = _var(self, dims, correction, keepdim)
    if self.dtype == np.float32 and np.isinf(variance).any():  # of squares that only a double holds
        return np.asarray(np.sqrt(_var(self.astype(np.float64), dims, correction, keepdim)), np.float32)
    return np.sqrt(variance)


derivative(
    "_std",
    self=lambda at, grad, self, dims, correction, keepdim, result: _var_backward(
        at, at.where(result == 0, 0, grad / (result * 2)), self, dims, correction, keepdim
    ),
)


computes_in_opmath("_std")


@composite("std", variants="function method", out=True)
def std(
    at: Any,
    self: Array,
    dim: Dims | bool | None = None,
    unbiased: bool = UNSAID,
    keepdim: bool = False,
    *,
    correction: Real | None = None,
) -> Any:
    """The square root of the variance."""
    dims, left_out = _var_arguments("std", self, dim, unbiased, keepdim, correction)
    return at._std(self, dims, left_out, keepdim)


@composite("var_mean", variants="function")
def var_mean(
    at: Any,
    self: Array,
    dim: Dims | bool | None = None,
    unbiased: bool = UNSAID,
    keepdim: bool = False,
    *,
    correction: Real | None = None,
) -> Any:
    """Variance and mean."""
    dims, left_out = _var_arguments("var_mean", self, dim, unbiased, keepdim, correction)
    return at._var(self, dims, left_out, keepdim), at.mean(self, dims, keepdim)


@composite("std_mean", variants="function")
def std_mean(
    at: Any,
    self: Array,
    dim: Dims | bool | None = None,
    unbiased: bool = UNSAID,
    keepdim: bool = False,
    *,
    correction: Real | None = None,
) -> Any:
    """Standard deviation and mean."""
    dims, left_out = _var_arguments("std_mean", self, dim, unbiased, keepdim, correction)
    return at._std(self, dims, left_out, keepdim), at.mean(self, dims, keepdim)


# %% [markdown]
# ## Products
# The product of all others is `result / x`, unless an x is zero; then it is made of two scans, from the left and from the right.


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/ReduceOps.cpp#at::native::prod
#| upstream: torch/csrc/autograd/FunctionsManual.cpp#torch::autograd::generated::details::prod_backward
@register("prod", key="CPU CUDA", variants="function method", out=True, autocast="float32")
def prod(self: Array, dim: int = UNSAID, keepdim: bool = UNSAID, *, dtype: dtype | None = None) -> Array:
    """The product of all elements, or over one dimension."""
    if dim is None:
        dim_for_keepdim("prod", keepdim)
    kind = (
        to_numpy_dtype(dtype) if dtype is not None else np.dtype(np.int64) if self.dtype.kind in "biu" else self.dtype
    )
    axis = None if dim is None else maybe_wrap_dim(dim, self.ndim)
    if axis is not None and not self.ndim:
        return self.astype(kind)
    return in_order(_multiply(self, axis=axis, keepdims=bool(keepdim), dtype=kind))


def _others(at: Any, x: Any, dim: int) -> Any:
    """For each element the product of the others along `dim`."""
    size = x.shape[dim]
    if size == 0:
        return x
    one = at.ones_like(at.slice(x, dim, 0, 1, 1))
    left = at.cumprod(at.cat([one, at.slice(x, dim, 0, size - 1, 1)], dim), dim)
    right = at.flip(at.cumprod(at.cat([one, at.slice(at.flip(x, dim), dim, 0, size - 1, 1)], dim), dim), dim)
    return left * right


def _prod_backward(at: Any, grad: Any, self: Any, dim: int | None, keepdim: bool, result: Any) -> Any:
    if (
        self.ndim and not is_one_of_many(self) and not bool(at.any(at.eq(self, 0)))
    ):  # without a zero, the others' product is a quotient
        if dim is not None:
            place = maybe_wrap_dim(dim, self.ndim)
            grad, result = (spread(at, x, tuple(self.shape), place, keepdim) for x in (grad, result))
        return grad * at.conj(result / self)
    if dim is None:
        flat = at.reshape(self, (-1,))
        return at.reshape(grad * at.conj(_others(at, flat, 0)), tuple(self.shape))
    if not self.ndim:
        return grad
    place = maybe_wrap_dim(dim, self.ndim)
    return spread(at, grad, tuple(self.shape), place, keepdim) * at.conj(_others(at, self, place))


derivative("prod", self=_prod_backward)
overloads("prod", lambda given: f"ProdBackward{0 if given['dim'] is None else 1}")

# %% [markdown]
# ## Scans


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#cumsum
def _scan_dtype(self: Array, dtype: dtype | None) -> np.dtype:
    return (
        to_numpy_dtype(dtype) if dtype is not None else np.dtype(np.int64) if self.dtype.kind in "biu" else self.dtype
    )


@register("cumsum", key="CPU CUDA", variants="function method", out=True, inplace=True, autocast="float32")
def cumsum(self: Array, dim: int, *, dtype: dtype | None = None) -> Array:
    """Running sums along `dim`."""
    place = maybe_wrap_dim(dim, self.ndim)
    return (
        in_order(np.cumsum(self, axis=place, dtype=_scan_dtype(self, dtype)))
        if self.ndim
        else self.astype(_scan_dtype(self, dtype))
    )


def _reversed_sum(at: Any, grad: Any, dim: int) -> Any:
    return at.flip(at.cumsum(at.flip(grad, dim), dim), dim) if grad.ndim else grad


derivative("cumsum", self=lambda at, grad, dim: _reversed_sum(at, grad, dim))
computes_in_opmath("cumsum")


@register("cumprod", key="CPU CUDA", variants="function method", out=True, inplace=True, autocast="float32")
def cumprod(self: Array, dim: int, *, dtype: dtype | None = None) -> Array:
    """Running products along `dim`."""
    place = maybe_wrap_dim(dim, self.ndim)
    return (
        in_order(np.cumprod(self, axis=place, dtype=_scan_dtype(self, dtype)))
        if self.ndim
        else self.astype(_scan_dtype(self, dtype))
    )


def _cumprod_backward(at: Any, grad: Any, self: Any, dim: int, result: Any) -> Any:
    """Element k gets Σ over i ≥ k of grad_i times the product of x_0 … x_i without x_k.

    Where no element is zero, that is the reversed sum of grad · result, divided by x. Zeros take the long way: a row per k.
    """
    if not self.ndim:
        return grad
    place = maybe_wrap_dim(dim, self.ndim)
    if self.shape[place] <= 1 or 0 in self.shape:
        return grad
    if not is_one_of_many(self) and not bool(at.any(at.eq(self, 0))):
        return _reversed_sum(at, grad * at.conj(result), place) / at.conj(self)
    size = self.shape[place]
    parts = []
    for k in range(size):
        before = at.slice(result, place, k - 1, k, 1) if k else at.ones_like(at.slice(self, place, 0, 1, 1))
        rest = at.slice(self, place, k + 1, size, 1)
        others = before * at.cumprod(at.cat([at.ones_like(before), rest], place), place)
        parts.append(at.sum(at.slice(grad, place, k, size, 1) * at.conj(others), place, True))
    return at.cat(parts, place)


derivative("cumprod", self=_cumprod_backward)
computes_in_opmath("cumprod")


@register("logcumsumexp", key="CPU CUDA", variants="function method", out=True)
def logcumsumexp(self: Array, dim: int) -> Array:
    """Running ln Σ eˣ along `dim`."""
    place = maybe_wrap_dim(dim, self.ndim)
    if not self.ndim:
        return self.copy()
    if self.dtype.kind != "c":
        return np.logaddexp.accumulate(self, axis=place)
    result = self.copy()
    along = np.moveaxis(result, place, 0)
    for here in range(1, len(along)):
        along[here] = logaddexp(along[here - 1], along[here])
    return result


def _logcumsumexp_backward(at: Any, grad: Any, self: Any, dim: int, result: Any) -> Any:
    if not self.ndim or 0 in self.shape:
        return grad
    top = at.amax(self, dim, True)
    return at.conj(at.exp(self - top)) * _reversed_sum(at, grad * at.conj(at.exp(top - result)), dim)


results_lie(in_one_piece, "logcumsumexp")
derivative("logcumsumexp", self=_logcumsumexp_backward)
computes_in_opmath("logcumsumexp")


def _check_joined(name: str, self: Any, other: Any, place: int) -> None:
    """The error for a neighbour of another shape than `self` has outside of dimension `place`."""
    if not hasattr(other, "ndim") or isinstance(other, np.ndarray):
        raise TypeError(f"diff(): argument '{name}' must be Tensor, not {type(other).__name__}")
    if other.ndim != self.ndim:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for axis, (have, wanted) in enumerate(zip(other.shape, self.shape, strict=True)):
        if axis != place and have != wanted:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the differencing "
                f"dimension; input.size({axis}) = {wanted}, but got tensor.size({axis}) = {have}"
            )


@composite("diff", variants="function method", out=True)
def diff(
    at: Any, self: Array, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None
) -> Any:
    """Differences of neighbours along `dim`, `n` times."""
    if not self.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for name, other in (("prepend", prepend), ("append", append)):
        if other is not None:
            _check_joined(name, self, other, maybe_wrap_dim(dim, self.ndim))
    if n == 0:
        return at.clone(self)
    place = maybe_wrap_dim(dim, self.ndim)
    parts = [part for part in (prepend, self, append) if part is not None]
    x = at.cat(parts, place) if len(parts) > 1 else self
    for _ in range(min(n, x.shape[place])):
        size = x.shape[place]
        upper, lower = at.slice(x, place, 1, size, 1), at.slice(x, place, 0, size - 1, 1)
        x = at.logical_xor(upper, lower) if str(x.dtype).endswith("bool") else upper - lower
    return x


# %% [markdown]
# ## Extremes
# `amax` shares the gradient among equal maxima; `max(dim)` gives it to the element it names.


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#amax
def _no_empty(name: str, self: Array, dims: tuple[int, ...] | None, dim: Any) -> None:
    if dims is None or not dims:
        if self.size == 0 and dim is None:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
            )
        return
    for axis in dims:
        if self.ndim and self.shape[axis] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")


def _is_given(dim: Any) -> bool:
    """An empty list of dimensions stands for all of them, and says none."""
    return not isinstance(dim, tuple | list) or len(dim) > 0


@register("amax", key="CPU CUDA", variants="function method", out=True)
def amax(self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    """The largest element over `dim`."""
    dims = reduced_dims(dim, self.ndim)
    if not self.size:
        _no_empty("amax", self, dims if _is_given(dim) else None, dim if _is_given(dim) else None)
    return in_order(_maximum(self, axis=dims, keepdims=keepdim)) if self.ndim else self.copy()


@register("amin", key="CPU CUDA", variants="function method", out=True)
def amin(self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    """The smallest element over `dim`."""
    dims = reduced_dims(dim, self.ndim)
    if not self.size:
        _no_empty("amin", self, dims if _is_given(dim) else None, dim if _is_given(dim) else None)
    return in_order(_minimum(self, axis=dims, keepdims=keepdim)) if self.ndim else self.copy()


def _shared(at: Any, grad: Any, self: Any, dim: Any, keepdim: bool, result: Any) -> Any:
    """The gradient in equal parts to all elements that equal the result."""
    shape = tuple(self.shape)
    hit = at._to_copy(self == spread(at, result, shape, dim, keepdim), grad.dtype)
    return hit * spread(at, grad, shape, dim, keepdim) / at.sum(hit, dim if dim != () else None, True)


derivative("amax", self=_shared)
derivative("amin", self=_shared)


@register("_aminmax", key="CPU CUDA", variants="", node="Aminmax", outputs="min max", named="aminmax")
def _aminmax(self: Array, dims: tuple[int, ...], keepdim: bool) -> Any:
    return [np.asarray(amin(self, dims, keepdim)), np.asarray(amax(self, dims, keepdim))]


def _aminmax_backward(at: Any, grads: Any, self: Any, dims: tuple[int, ...], keepdim: bool, min: Any, max: Any) -> Any:
    parts = [
        _shared(at, grad, self, dims, keepdim, result)
        for grad, result in zip(grads, (min, max), strict=True)
        if grad is not None
    ]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


derivative("_aminmax", self=_aminmax_backward)


@composite("aminmax", variants="function method", out=True)
def aminmax(at: Any, self: Array, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Smallest and largest."""
    if dim is not None:
        dim = as_dim(dim)
    if dim is None and 0 in self.shape:
        raise RuntimeError(
            "aminmax(): an empty dimension has neither minimum nor maximum, since the operation has no identity."
        )
    return at._aminmax(self, reduced_dims(dim, self.ndim), keepdim)


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/ReduceOps.cpp#at::native::argmax_out
def _extreme_index(name: str, function: Any, self: Array, dim: int | None, keepdim: bool) -> Array:
    if dim is None:
        if not self.size:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        found = np.asarray(function(self), np.int64)
        return found.reshape((1,) * self.ndim) if keepdim else found
    place = maybe_wrap_dim(dim, self.ndim)
    _no_empty(name, self, (place,), dim)
    if not self.ndim:
        return np.zeros((), np.int64)
    return in_order(np.asarray(function(self, axis=place, keepdims=keepdim), np.int64))


def _refuse_complex(name: str, self: Array) -> None:
    if self.dtype.kind in "cb":
        raise RuntimeError(f"{name}(): does not support {'bool' if self.dtype.kind == 'b' else 'complex'} input")


@register("argmax", key="CPU CUDA", variants="function method", out=True)
def argmax(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The number of the largest element: in the flattened tensor, or along `dim`."""
    _refuse_complex("argmax", self)
    return _extreme_index("argmax", np.argmax, self, dim, keepdim)


@register("argmin", key="CPU CUDA", variants="function method", out=True)
def argmin(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    """The number of the smallest element."""
    _refuse_complex("argmin", self)
    return _extreme_index("argmin", np.argmin, self, dim, keepdim)


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/TensorCompare.cpp#at::native::max
def _along(self: Array, index: Array, dim: int, keepdim: bool) -> Array:
    if not self.ndim:
        return self.copy()
    grown = index if keepdim else np.expand_dims(index, dim)
    values = in_order(np.take_along_axis(self, grown, dim))
    return values if keepdim else values.squeeze(dim)


def _register_extreme(name: str, function: Any) -> None:
    def by_dim(self: Array, dim: int, keepdim: bool = False) -> Any:
        place = maybe_wrap_dim(dim, self.ndim)
        _no_empty(name, self, (place,), dim)
        index = _extreme_index(name, function, self, dim, keepdim)
        return [_along(self, index, place, keepdim), index]

    register(
        f"_{name}_dim",
        key="CPU CUDA",
        variants="",
        outputs="values indices",
        named=name,
        differentiable_outputs=(0,),
        node=name.capitalize(),
    )(by_dim)
    derivative(
        f"_{name}_dim",
        self=lambda at, grad, self_shape, dim, keepdim, indices: value_selecting_backward(
            at, grad, dim, indices, self_shape, keepdim
        ),
    )


def value_selecting_backward(at: Any, grad: Any, dim: int, indices: Any, shape: tuple[int, ...], keepdim: bool) -> Any:
    """Zeros with the gradient at the elements that were selected along `dim`."""
    if not shape:
        return grad
    if not keepdim:
        grad, indices = at.unsqueeze(grad, dim), at.unsqueeze(indices, dim)
    return at._scatter_add_zeros(grad, shape, dim, indices)


_register_extreme("max", np.argmax)
_register_extreme("min", np.argmin)


@register("_max_all", key="CPU CUDA", variants="", node="MaxBackward1")
def _max_all(self: Array) -> Array:
    _no_empty("max", self, None, None)
    return _maximum(self, axis=None)


@register("_min_all", key="CPU CUDA", variants="", node="MinBackward1")
def _min_all(self: Array) -> Array:
    _no_empty("min", self, None, None)
    return _minimum(self, axis=None)


def evenly_distributed(at: Any, grad: Any, self: Any, result: Any) -> Any:
    """The gradient in equal parts to all elements that equal the result, NaN being equal to NaN here; none to the others."""
    hit = at.logical_or(self == result, at.logical_and(at.isnan(self), at.isnan(result)))
    return at.where(hit, grad / at.sum(hit), 0)


derivative("_max_all", self=evenly_distributed)
derivative("_min_all", self=evenly_distributed)


def _extreme(name: str) -> Any:
    pairwise = {"max": "maximum", "min": "minimum"}[name]

    def extreme(
        at: Any, self: Array, dim: Array | int = UNSAID, keepdim: bool = UNSAID, *, other: Array | None = None
    ) -> Any:
        """Three functions of one name: over everything, along a dimension with the positions, or of two tensors."""
        if hasattr(dim, "shape") and keepdim is None:
            dim, other = None, dim
        if other is not None:
            if dim is not None or keepdim is not None:
                raise TypeError(f"{name}() received an invalid combination of arguments: `other` stands alone")
            return getattr(at, pairwise)(self, other)
        if dim is None:
            dim_for_keepdim(name, keepdim)
            return getattr(at, f"_{name}_all")(self)
        return getattr(at, f"_{name}_dim")(self, as_dim(dim), bool(keepdim))

    return extreme


for _name in ("max", "min"):
    composite(_name, variants="function method", out=True)(_extreme(_name))


def _dims_or_none_at_all(dim: Any, rank: int) -> tuple[int, ...]:
    """What `all` and `any` take an empty list for: no dimension is reduced, each element answers for itself."""
    return () if isinstance(dim, tuple | list) and not dim else reduced_dims(dim, rank)


# %% [markdown]
# Three ways to the same number, with three gradients. `max()` and `amax` have one value and no position, and share. `max(dim)` returns a position, and gives all to it. Code that is changed from the one to the other trains differently where scores tie, after a ReLU for instance.


# %%
#| claim: among equal maxima max() and amax() share the gradient, max(dim) gives it to the first; the median of an even number of elements is the lower one
#| upstream: aten/src/ATen/native/NonSymbolicBC.h#at::native::value_selecting_reduction_backward
def _(torch):
    def gradient(function):
        x = torch.tensor([1.0, 3.0, 3.0], requires_grad=True)
        return torch.autograd.grad(function(x), x)[0].tolist()

    assert (
        gradient(lambda x: x.max()) == gradient(lambda x: x.amax()) == gradient(lambda x: x.median()) == [0, 0.5, 0.5]
    )
    assert gradient(lambda x: x.max(0)[0]) == [0, 1, 0]
    assert torch.tensor([1.0, 2.0, 3.0, 4.0]).median().item() == 2


# %% [markdown]
# ### What is the sum of nothing?
# What an empty batch gives depends on whether the operation has a neutral element. The mean has none, and is 0 / 0; an extreme has none, and is an error. A deviation needs two elements: of one, it is 0 / 0 again, the NaN that a batch of one sends through a normalization written by hand.


# %%
#| claim: of no elements the sum is 0, the product 1, all() true, the mean NaN and max an error; the deviation of one element is NaN
def _(torch):
    import warnings

    nothing = torch.tensor([])
    assert nothing.sum() == 0 and nothing.prod() == 1 and nothing.bool().all() and nothing.mean().isnan()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.ones(1).std().isnan() and torch.ones(1).std(correction=0) == 0
    try:
        nothing.max()
    except RuntimeError as error:
        assert "Specify the reduction dim" in str(error)
    else:
        raise AssertionError("no error")


# %% [markdown]
# ## All, any, counts


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#all
@register("all", key="CPU CUDA", variants="function method", out=True)
def all(self: Array, dim: Dims | None = None, keepdim: bool = False) -> Array:
    """Is every element true?"""
    axes = None if dim is None else _dims_or_none_at_all(dim, self.ndim)
    result = in_order(np.all(self, axis=axes, keepdims=keepdim))
    return np.asarray(result, np.uint8 if self.dtype == np.uint8 else np.bool_)


@register("any", key="CPU CUDA", variants="function method", out=True)
def any(self: Array, dim: Dims | None = None, keepdim: bool = False) -> Array:
    """Is one element true?"""
    axes = None if dim is None else _dims_or_none_at_all(dim, self.ndim)
    result = in_order(np.any(self, axis=axes, keepdims=keepdim))
    return np.asarray(result, np.uint8 if self.dtype == np.uint8 else np.bool_)


@register("count_nonzero", key="CPU CUDA", variants="function method")
def count_nonzero(self: Array, *dim: Any) -> Array:
    """How many elements are not zero, in all or along `dim`."""
    axes = None if not dim or dim[0] is None else reduced_dims(sizes(dim, "dim"), self.ndim)
    return np.asarray(np.count_nonzero(self, axis=axes), np.int64)


@register("nansum", key="CPU CUDA", variants="function method", out=True)
def nansum(self: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Array:
    """The sum without NaNs."""
    return sum(
        np.where(np.isnan(self), self.dtype.type(0), self) if self.dtype.kind in "fc" else self,
        dim,
        keepdim,
        dtype=dtype,
    )


derivative(
    "nansum",
    self=lambda at, grad, self, dim, keepdim: (
        spread(at, grad, tuple(self.shape), dim, keepdim) * at.logical_not(at.isnan(self))
    ),
)


@composite("nanmean", variants="function method", out=True)
def nanmean(at: Any, self: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Any:
    """The mean without NaNs."""
    if dtype is not None:
        _needs_floating("nanmean", self, dtype)
    return at.nansum(self, dim, keepdim, dtype=dtype) / at.sum(at.logical_not(at.isnan(self)), dim, keepdim)


@register("logsumexp", key="CPU CUDA", variants="function method", out=True)
def logsumexp(self: Array, dim: Dims, keepdim: bool = False) -> Array:
    """Ln Σ eˣ over `dim`, the maximum taken out first so that nothing overflows."""
    if dim is None:
        raise TypeError("logsumexp(): argument 'dim' (position 2) must be tuple of ints, not NoneType")
    if self.dtype.kind in "iub":
        self = self.astype(to_numpy_dtype(get_default_dtype()))
    dims = reduced_dims(dim, self.ndim)
    if dim.__class__ in (tuple, list) and not dim and self.ndim and self.size and not keepdim:
        wanted = [1] * self.ndim
        raise RuntimeError(
            f"output with shape [] doesn't match the broadcast shape {wanted}: logsumexp takes no empty list of dimensions"
        )
    if not self.size or not self.ndim:
        return np.log(np.exp(self).sum(axis=dims, keepdims=keepdim)) if self.ndim else self.copy()
    top = in_order(_maximum(self, axis=dims, keepdims=True))
    top = np.where(np.isfinite(top), top, 0).astype(self.dtype, copy=False)
    # composed upstream, of operators that round; a sum does so at its end
    powers = in_working_precision(np.exp(self - top))
    total = in_order(np.log(powers.sum(axis=dims, keepdims=True).astype(self.dtype, copy=False)) + top)
    return total if keepdim else total.reshape(tuple(size for axis, size in enumerate(self.shape) if axis not in dims))


derivative(
    "logsumexp",
    self=lambda at, grad, self, dim, keepdim, result: (
        spread(at, grad, tuple(self.shape), dim, keepdim)
        * at.conj(at.exp(self - spread(at, result, tuple(self.shape), dim, keepdim)))
    ),
)

# %% [markdown]
# ## Norms
#
# ‖x‖ₚ = (Σ |x|ᵖ)^(1/p). Its derivative at zero is taken to be zero.


# %%
#| into: aten/native/linear_algebra.py
#| imports
import math
from functools import reduce
from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.op_math_type import in_working_precision
from readtorch.aten.tensor_iterator import check_real, shapes
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/native_functions.yaml#linalg_vector_norm
def _check_floating(name: str, kind: Any) -> None:
    found = kind if isinstance(kind, scalar_type.dtype) else scalar_type.from_numpy_dtype(kind)
    if not (found.is_floating_point or found.is_complex):
        shown = scalar_type.to_string(found)
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {shown}")


@register("_vector_norm", key="CPU CUDA", variants="", node="LinalgVectorNorm", autocast="float32")
def _vector_norm(self: Array, ord: float, dims: tuple[int, ...], keepdim: bool) -> Array:
    from readtorch.aten.native.reduce_ops import sum_of_squares

    _check_floating("linalg.vector_norm", self.dtype)
    wide = in_working_precision(self)
    single = 1 in self.shape and all(self.shape[axis] == 1 for axis in dims)
    if ord == 2 and not single:
        result = np.sqrt(sum_of_squares(wide, dims, keepdim))
    elif ord == 1 or (single and ord):  # one element is its own norm: no power of it leaves the range
        result = np.abs(wide).sum(axis=dims, keepdims=keepdim)
    elif (ord < 0 or math.isinf(ord)) and any(not self.shape[axis] for axis in dims):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor: no number stands for it"
        )
    elif math.isinf(ord):
        reduce: Any = (np.maximum if ord > 0 else np.minimum).reduce
        result = reduce(np.abs(wide), axis=dims, keepdims=keepdim) if wide.ndim else np.abs(wide)
    elif ord == 0:
        result = (wide != 0).sum(axis=dims, keepdims=keepdim)
    else:
        size = np.abs(wide)
        result = (size ** size.dtype.type(ord)).sum(axis=dims, keepdims=keepdim) ** size.dtype.type(1 / ord)
    return in_order(np.asarray(result)).astype(self.real.dtype, copy=False)


def _norm_backward(at: Any, grad: Any, self: Any, ord: float, dims: tuple[int, ...], keepdim: bool, result: Any) -> Any:
    from readtorch.aten.native.reduce_ops import spread

    shape = tuple(self.shape)
    share = grad / at.pow(result, ord - 1) if ord not in (0, 1, 2) and not math.isinf(ord) else grad
    grad, result = spread(at, share, shape, dims, keepdim), spread(at, result, shape, dims, keepdim)
    if ord == 0:
        return at.zeros_like(self)
    if ord == 1:
        return at.sgn(self) * grad
    if ord == 2:
        return grad * at.where(result == 0, 0, self / result)
    size = at.abs(self)
    if math.isinf(ord):
        hit = at.logical_or(size == result, at.logical_and(at.isnan(size), at.isnan(result)))
        hit = at._to_copy(hit, grad.dtype)
        return at.sgn(self) * (hit / at.sum(hit, dims, True) * grad)
    scaled = at.sgn(self) * at.pow(size, ord - 1) * grad
    return at.where((result == 0) | (size == 0), 0, scaled) if ord < 2 else at.where(result == 0, 0, scaled)


derivative("_vector_norm", self=_norm_backward)


def _norm_dtype(name: str, have: Any, wanted: Any) -> Any:
    """`wanted`, in which a norm is to be computed. RuntimeError unless it holds all that `have` does, and is complex as `have` is."""
    source = have if isinstance(have, scalar_type.dtype) else scalar_type.from_numpy_dtype(have)
    wanted = scalar_type.as_dtype(wanted, name, "dtype", 5)
    shown = scalar_type.to_string(wanted)
    if not (wanted.is_floating_point or wanted.is_complex):
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {shown}")
    if source.is_complex != wanted.is_complex:
        kind = "complex" if source.is_complex else "real"
        raise RuntimeError(f"{name}: dtype should be {kind} for {kind} inputs, but got {shown}")
    if scalar_type.promote_types(source, wanted) is not wanted:
        raise RuntimeError(
            f"{name}: the dtype of the input ({scalar_type.to_string(source)}) should be convertible without narrowing to the specified dtype ({shown})"
        )
    return wanted


@composite("linalg_vector_norm", module="linalg", variants="function", out=True)
def linalg_vector_norm(
    at: Any, x: Array, ord: Real = 2, dim: Dims | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """‖x‖ₚ over `dim` (all of it for None)."""
    from readtorch.aten.wrap_dim_utils import reduced_dims

    _check_floating("linalg.vector_norm", x.dtype)
    if dtype is not None:
        x = at._to_copy(x, _norm_dtype("linalg.vector_norm", x.dtype, dtype))
    return at._vector_norm(x, ord, reduced_dims(dim, x.ndim), keepdim)


@composite("norm", variants="function method", out=True)
def norm(
    at: Any, self: Array, p: Any = "fro", dim: Dims | None = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """‖x‖ₚ, of vectors, and of matrices with "fro" (the 2-norm of all elements) or "nuc"."""
    if p == "nuc":
        return at.linalg_matrix_norm(self, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found: {p}")
    return at.linalg_vector_norm(self, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


def matrix_dims(name: str, dim: Any, rank: int) -> tuple[int, int]:
    """The two dimensions that rows and columns lie along. RuntimeError unless there are two, and not the same."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dims))}")
    rows, columns = (maybe_wrap_dim(axis, rank) for axis in dims)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dims[0]}, {dims[1]})")
    return rows, columns


@composite("linalg_matrix_norm", module="linalg", variants="function", out=True)
def linalg_matrix_norm(
    at: Any, self: Array, ord: Any = "fro", dim: Dims = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """The norm of matrices: "fro", "nuc", inf, -inf, 1, -1, 2 or -2."""
    name = "linalg.matrix_norm"
    if not isinstance(ord, str) and not isinstance(ord, int | float):
        raise TypeError(f"linalg_matrix_norm(): argument 'ord' must be Number or str, not {type(ord).__name__}")
    _check_floating(name, self.dtype)
    if self.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    rows, columns = matrix_dims(name, dim, self.ndim)
    if ord not in ("fro", "nuc", math.inf, -math.inf, 1, -1, 2, -2):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    if dtype is not None:
        self = at._to_copy(self, _norm_dtype(name, self.dtype, dtype))
    if ord == "fro":
        return at.linalg_vector_norm(self, 2, (rows, columns), keepdim)
    size: Any = ord
    if ord in ("nuc", 2, -2):
        if self.itemsize == 2:
            raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {scalar_type.to_string(self.dtype)}")
        values = at.linalg_svdvals(at.movedim(self, (rows, columns), (-2, -1)))
        if ord == "nuc" or (ord == 2 and not values.shape[-1]):  # nothing stretches anything: the largest factor is 0
            result = at.sum(values, -1)
        else:
            result = at.amax(values, -1) if ord == 2 else at.amin(values, -1)
        for axis in sorted((rows, columns)) if keepdim else ():
            result = at.unsqueeze(result, axis)
        return result
    summed, searched = (rows, columns) if abs(size) == 1 else (columns, rows)
    sums = at.sum(at.abs(self), summed, True)
    if size > 0 and not sums.shape[searched]:
        result = at.sum(sums, searched, True)
    else:
        result = (at.amax if size > 0 else at.amin)(sums, searched, True)
    return result if keepdim else at.squeeze(result, (rows, columns))


@composite("dist", variants="function method")
def dist(at: Any, self: Array, other: Array, p: float = 2) -> Any:
    """The norm of the difference."""
    return at.linalg_vector_norm(self - other, p)


@composite("renorm", variants="function method", inplace=True, out=True)
def renorm(at: Any, self: Array, p: Real, dim: int, maxnorm: Real) -> Any:
    """Each slice along `dim` scaled down to a p-norm of at most `maxnorm`."""
    if self.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    place = maybe_wrap_dim(dim, self.ndim)
    dims = tuple(axis for axis in range(self.ndim) if axis != place)
    size = at.linalg_vector_norm(self, p, dims, True)
    return self * at.where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
