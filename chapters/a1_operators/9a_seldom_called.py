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
# # Names that are seldom called
#
# Reference: operators and methods that few programs know, and that a program which does know them must find. Some are of use (`gradient`), some are what a compiler writes (`t_copy`), some belong to layouts and devices which are not here and answer as upstream's do for a tensor without them.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Slopes of samples
#
# `gradient` estimates a derivative from values on a grid: central differences inside, one-sided ones at the edges, of first or second order. With coordinates instead of a distance, the central difference weighs its two sides by their lengths, which keeps it exact for parabolas.


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/ReduceOps.cpp#at::native::gradient
@composite("gradient", variants="function")
def gradient(at: Any, self: Array, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    """The slope along each dimension, as a tuple. `spacing`: one distance, one for each dimension, or coordinates for each."""
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if to_string(self.dtype) == "Byte":
        raise RuntimeError("torch.gradient does not support uint8 input.")
    given = range(self.ndim) if dim is None else (dim if isinstance(dim, list | tuple) else (dim,))
    places = [maybe_wrap_dim(place, self.ndim) for place in given]
    for place in places:
        if places.count(place) > 1:
            raise RuntimeError(f"dim {place} appears multiple times in the list of dims")
        if self.shape[place] <= edge_order:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    steps = spacing if isinstance(spacing, list | tuple) else [1 if spacing is None else spacing] * len(places)
    if len(steps) != len(places):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
            f"'self.dim() = {self.ndim}', or to that of dim, but got a list of length {len(steps)}"
        )
    return tuple(_slope(at, self, place, step, edge_order) for place, step in zip(places, steps, strict=True))


def _slope(at: Any, x: Any, place: int, step: Any, edge_order: int) -> Any:
    size = x.shape[place]

    def part(start: int, end: int) -> Any:
        return at.slice(x, place, start, end, 1)

    if not hasattr(step, "ndim") or step.ndim == 0:
        inside = (part(2, size) - part(0, size - 2)) / (step * 2)
        left, right = (part(1, 2) - part(0, 1)) / step, (part(size - 1, size) - part(size - 2, size - 1)) / step
        if edge_order == 2:
            left = (part(0, 1) * -3 + part(1, 2) * 4 - part(2, 3)) / (step * 2)
            right = (part(size - 3, size - 2) - part(size - 2, size - 1) * 4 + part(size - 1, size) * 3) / (step * 2)
        return at.cat([left, inside, right], place)
    if step.ndim != 1:
        raise RuntimeError(
            f"torch.gradient expected each element of spacing to have one dimension, but got an element with {step.ndim} dimensions!"
        )
    if edge_order == 2 and to_string(x.dtype) == "Bool":
        x = x * 1.0  # which the differences of first order refuse, as upstream
    tail = (-1, *[1] * (x.ndim - place - 1))
    lengths = at.reshape(at.slice(step, 0, 1, size, 1) - at.slice(step, 0, 0, size - 1, 1), tail)
    slopes = (part(1, size) - part(0, size - 1)) / lengths
    before, after = at.slice(lengths, 0, 0, size - 2, 1), at.slice(lengths, 0, 1, size - 1, 1)
    first, second = at.slice(slopes, place, 0, size - 2, 1), at.slice(slopes, place, 1, size - 1, 1)
    inside = (first * after + second * before) / (before + after)
    left, right = at.slice(slopes, place, 0, 1, 1), at.slice(slopes, place, size - 2, size - 1, 1)
    if edge_order == 2:
        bend = (second - first) / (before + after)
        left = left - at.slice(lengths, 0, 0, 1, 1) * at.slice(bend, place, 0, 1, 1)
        right = right + at.slice(lengths, 0, size - 2, size - 1, 1) * at.slice(bend, place, size - 3, size - 2, 1)
    return at.cat([left, inside, right], place)


# %%
torch.gradient(torch.tensor([1.0, 4.0, 16.0]), spacing=(torch.tensor([1.0, 2.0, 4.0]),), edge_order=2)

# %% [markdown]
# ## The incomplete gamma functions
#
# $P(a, x) = \frac{1}{\Gamma(a)} \int_0^x t^{a-1} e^{-t}\,dt$ is the distribution function of a gamma variable of shape $a$; `igammac` is $1 - P$, computed without the subtraction where it would cancel. Below $a + 1$ a series converges fast, above it a continued fraction. The derivative by $x$ is the density; that by $a$ has no formula upstream either.


# %%
#| into: aten/native/math.py
#| upstream: aten/src/ATen/native/Math.h#calc_igamma
def incomplete_gamma(a: Any, x: Any, upper: bool) -> Any:
    """P(a, x), or 1 - P(a, x) if `upper`, of arrays of one dtype."""
    kind = np.result_type(a, x)
    shape, y = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    with np.errstate(all="ignore"):
        kept = (shape >= 0) & (y >= 0) & ~((shape == 0) & (y == 0)) & ~(np.isinf(shape) & np.isinf(y))
        found = np.where(kept, ((shape == 0) | np.isinf(y)) != upper, np.nan)
        result = np.array(np.add(shape, y))  # lies in memory as the result of any pointwise operator
        result[...] = found
        usual = kept & (shape > 0) & (y > 0) & np.isfinite(shape) & np.isfinite(y)
        small = usual & (y < shape + 1)
        for where, series in ((small, True), (usual & ~small, False)):
            if where.any():
                part = (_gamma_series if series else _gamma_fraction)(shape[where], y[where])
                result[where] = part if series != upper else 1 - part
    return result.astype(kind)


def _gamma_density(a: Any, x: Any) -> Any:
    """Xᵃ e⁻ˣ / Γ(a)."""
    return np.exp(a * np.log(x) - x - lgamma(a))


def _gamma_series(a: Any, x: Any) -> Any:
    """P by Σ xᵏ / (a (a+1) … (a+k))."""
    term, k = 1 / a, 0
    total = term
    while k < 20000 and (term > 1e-17 * total).any():
        k += 1
        term = term * (x / (a + k))
        total = total + term
    return total * _gamma_density(a, x)


def _gamma_fraction(a: Any, x: Any) -> Any:
    """1 - P by Lentz' evaluation of its continued fraction."""
    tiny = 1e-300
    b = x + 1 - a
    c, d = np.full_like(x, 1 / tiny), 1 / np.where(b == 0, tiny, b)
    total = d
    for k in range(1, 20000):
        b = b + 2
        step = -k * (k - a)
        d = step * d + b
        c = b + step / c
        d, c = 1 / np.where(d == 0, tiny, d), np.where(c == 0, tiny, c)
        change = d * c
        total = total * change
        if (np.abs(change - 1) < 1e-16).all():
            break
    return total * _gamma_density(a, x)


# %%
#| into: aten/native/binary_ops.py
#| imports
from readtorch.aten.native.math import incomplete_gamma
from readtorch.aten.native.tensor_factories import in_order_of


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::igamma_stub
def _no_gamma(common: dtype) -> str | None:
    if common.is_floating_point:
        return None
    return f"\"igamma_cpu\" not implemented for '{scalar_type.to_string(common)}'"


def _register_gamma(name: str, sign: int) -> None:
    binary(
        name,
        lambda a, x: in_order_of(incomplete_gamma(a, x, sign < 0), a),
        refuse=_no_gamma,
        first=unknown(f"the derivative for '{name}: input' is not implemented."),
        second=lambda at, grad, self, other: grad * at.exp((self - 1) * at.log(other) - other - at.lgamma(self)) * sign,
        numbers="",
    )


_register_gamma("igamma", 1)
_register_gamma("igammac", -1)

# %%
torch.igamma(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))

# %% [markdown]
# ## Of a size that is said beforehand
#
# `nonzero` has as many rows as there are such elements, which a compiler cannot know; `nonzero_static` is told, and cuts or fills up.


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| imports
from readtorch.c10.core.dispatch_key import outline


# %%
#| into: aten/native/tensor_advanced_indexing.py
#| upstream: aten/src/ATen/native/TensorAdvancedIndexing.cpp#at::native::nonzero_static_cpu
@register("nonzero_static", key="CPU CUDA", variants="function method", out=True)
def nonzero_static(self: Array, *, size: int, fill_value: int = -1) -> Array:
    """`size` rows of `nonzero`; where there are fewer, `fill_value`."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    result = np.full((self.ndim, size), fill_value, np.int64)
    if self.ndim:
        found = np.stack(self.nonzero())[:, :size]
        result[:, : found.shape[1]] = found
    return np.ascontiguousarray(result.T)


@register("nonzero_static", key="Meta")
def _nonzero_static_on_meta(self: Array, *, size: int, fill_value: int = -1) -> Array:
    return self.seen_as(outline((size, self.ndim), (1, size), 0), np.dtype(np.int64))


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::as_strided_scatter_symint
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


# %%
#| into: aten/native/linear_algebra.py
#| imports
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim
from readtorch.c10.util.exception import warn_once


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/LinearAlgebra.cpp#at::native::frobenius_norm
@composite("frobenius_norm", variants="function", out=True)
def frobenius_norm(at: Any, self: Array, dim: Any, keepdim: bool = False) -> Any:
    """The root of the sum of squares, along one or two dimensions. Deprecated."""
    warn_once("at::frobenius_norm is deprecated: use torch.linalg.vector_norm")
    places = list(dim) if isinstance(dim, list | tuple) else [dim]
    if len(places) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(places)} dimensions instead.")
    return at.linalg_vector_norm(self, 2, places, keepdim)


@composite("nuclear_norm", variants="function", out=True)
def nuclear_norm(at: Any, self: Array, dim: Any = None, keepdim: bool = False) -> Any:
    """The sum of the singular values of matrices, by default of the last two dimensions. Deprecated."""
    warn_once("at::nuclear_norm is deprecated: use torch.linalg.matrix_norm with 'nuc'")
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    first, second = (maybe_wrap_dim(place, self.ndim) for place in ((-2, -1) if dim is None else dim))
    moved = at.movedim(self, (first, second), (-2, -1))
    total = at.sum(at.linalg_svdvals(moved), -1)
    return at.unsqueeze(at.unsqueeze(total, min(first, second)), max(first, second)) if keepdim else total


# %% [markdown]
# ## Copies of views, and functions that are methods elsewhere
#
# Each view has a twin that copies, `NAME_copy`, for programs (a compiler's, mostly) in which nothing may be an alias. A few questions to a tensor, and a few changes in place, exist as functions too.


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
#| imports
from readtorch.c10.util.exception import warn_once
from readtorch.csrc.utils.python_arg_parser import type_name


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
def _needs_tensor(op: str, input: Any) -> None:
    if not isinstance(input, TensorImpl):
        raise TypeError(f"{op}(): argument 'input' (position 1) must be Tensor, not {type_name(input)}")


def _copying(name: str) -> Any:
    def copy(input: Any, *args: Any, **named: Any) -> Any:
        _needs_tensor(f"{name}_copy", input)
        if name == "alias" and (args or named):
            raise TypeError("alias_copy() takes 1 positional argument and no keywords")
        found = input if name == "alias" else getattr(input, name)(*args, **named)
        return tuple(part.clone() for part in found) if isinstance(found, tuple) else found.clone()

    copy.__doc__ = f"A copy of what `{name}` looks at."
    return copy


def _slice_copy(input: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """A copy of a slice of one dimension."""
    _needs_tensor("slice_copy", input)
    return input[(slice(None),) * (dim % input.ndim) + (slice(start, end, step),)].clone()


def _method(name: str) -> Any:
    def function(input: Any, *args: Any, **named: Any) -> Any:
        _needs_tensor(name, input)
        return getattr(input, name)(*args, **named)

    function.__doc__ = f"`input.{name}(…)`."
    return function


def arctan2(input: Array, other: Array) -> Any:
    """The angle of the point (other, input): `atan2`."""
    return dispatcher.autograd.atan2(input, other)


def lu_solve(b: Array, LU_data: Array, LU_pivots: Array) -> Any:
    """X of A X = b, where `torch.linalg.lu_factor` has factored A. Deprecated, for its order of arguments."""
    warn_once("torch.lu_solve is deprecated in favor of torch.linalg.lu_solve(LU, pivots, B)")
    return dispatcher.autograd.linalg_lu_solve(LU_data, LU_pivots, b)


def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Uninitialised, without gaps, its dimensions from the outermost in memory to the innermost as `physical_layout` has them."""
    shape, order = together(size), together(physical_layout, "physical_layout")
    if len(order) != len(shape):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {len(shape)} "
            f"is not equal to len(physical_layout) = {len(order)}"
        )
    if any(not 0 <= place < len(shape) for place in order):
        raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {order})")
    if len(set(order)) < len(order):
        raise RuntimeError("Duplicate dim not allowed")
    steps, step = [0] * len(shape), 1
    for place in reversed(order):
        steps[place], step = step, step * shape[place]
    return empty_strided(shape, tuple(steps), dtype=dtype, device=device, requires_grad=requires_grad)


def _new_empty_strided(
    self: Any, size: Any, stride: Any, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    kind = from_numpy_dtype(self._array.dtype) if dtype is None else dtype
    where = device_of(self._array) if device is None else device
    return empty_strided(size, stride, dtype=kind, device=where, requires_grad=requires_grad)


def init_seldom() -> None:
    """Offer the functions of the part on names that are seldom called."""
    namespace = module("")
    for function in (arctan2, lu_solve, empty_permuted):
        gates.attach(namespace, function.__name__, checked(function))
    for name in (
        *("alias", "as_strided", "detach", "diagonal", "expand", "permute", "select", "split", "split_with_sizes"),
        *("squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view"),
    ):
        gates.attach(namespace, f"{name}_copy", _copying(name))
    gates.attach(namespace, "slice_copy", _slice_copy)
    for name in ("view_as_complex", "view_as_real"):
        gates.attach(
            namespace, f"{name}_copy", lambda input, name=name: getattr(dispatcher.autograd, name)(input).clone()
        )
    for name in (
        *(
            "get_device",
            "is_conj",
            "is_distributed",
            "is_inference",
            "is_neg",
            "is_same_size",
            "is_signed",
            "dequantize",
        ),
        *("as_strided_", "conj_physical_", "detach_", "fill_", "i0_", "resize_as_"),
    ):
        gates.attach(namespace, name, _method(name))
    gates.attach(TensorImpl, "new_empty_strided", _new_empty_strided)


further.append(init_seldom)


# %% [markdown]
# ## Methods of layouts, devices and dtypes that are not here
#
# A tensor with numbers of its own has no scale, no rows of compressed indices and no padding. What upstream's tensors say when asked for them, these say too. Where upstream would convert to a layout, NotImplementedError says which layouts there are.


# %%
#| into: csrc/autograd/python_variable.py
def _volatile(self: Any) -> bool:
    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


bind("is_ipu", lambda self: False)
bind("is_maia", lambda self: False)
bind("is_mtia", lambda self: False)
bind("is_vulkan", lambda self: False)
bind("is_xla", lambda self: False)
bind("name", lambda self: None)
bind("volatile", _volatile)
bind("_grad_fn", variable.grad_fn)


# %%
#| into: csrc/autograd/python_variable_methods.py
#| imports
from readtorch.c10.util.exception import warn_once


# %%
#| into: csrc/autograd/python_variable_methods.py
def _without(error: type[Exception], why: str) -> Any:
    def method(self: Any, *args: Any, **named: Any) -> Any:
        raise error(why)

    method.__doc__ = f"{error.__name__}: there is no such tensor here."
    return method


for _name in (
    *("q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme"),
    *("int_repr", "to_padded_tensor"),
):
    METHODS[_name] = _without(
        NotImplementedError, f"Could not run 'aten::{_name}' with arguments from the 'CPU' backend."
    )
for _name, _kind in (("crow", "row"), ("col", "row"), ("ccol", "column"), ("row", "column")):
    METHODS[f"{_name}_indices"] = _without(
        RuntimeError,
        f"{_name}_indices expected sparse {_kind} compressed tensor layout but got another",
    )
for _name in ("to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc", "to_mkldnn"):
    METHODS[_name] = _without(
        NotImplementedError, f"{_name}(): of the layouts there are torch.strided and torch.sparse_coo"
    )
for _name in ("mtia", "xpu"):
    METHODS[_name] = _without(AssertionError, f"Torch not compiled with {_name.upper()} enabled")
METHODS["ipu"] = _without(RuntimeError, "PyTorch is not linked with support for ipu devices")


def _lu_solve(self: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """`torch.lu_solve`."""
    warn_once("torch.lu_solve is deprecated in favor of torch.linalg.lu_solve(LU, pivots, B)")
    return dispatcher.autograd.linalg_lu_solve(LU_data, LU_pivots, self)


def positive(self: Any) -> Any:
    """`+x`: the tensor itself. RuntimeError for truth values."""
    if self._array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return self


METHODS.update(
    {
        "__pos__": positive,
        "__nonzero__": METHODS["__bool__"],
        "__long__": METHODS["__int__"],
        "__div__": lambda self, other: dispatcher.autograd.div(self, other),
        "__idiv__": lambda self, other: dispatcher.autograd.div_(self, other),
        "__ilshift__": lambda self, other: dispatcher.autograd.bitwise_left_shift_(self, other),
        "__irshift__": lambda self, other: dispatcher.autograd.bitwise_right_shift_(self, other),
        "const_data_ptr": properties.data_ptr,
        "dequantize": lambda self: to(self, scalar_type.float32),
        "lu_solve": _lu_solve,
        "polygamma": lambda self, n: dispatcher.autograd.polygamma(n, self),
        "polygamma_": lambda self, n: dispatcher.autograd._polygamma_in_place_(self, n),
    }
)


# %%
#| into: aten/native/unary_ops.py
composite("_polygamma_in_place", variants="", inplace=True)(lambda at, self, n: at.polygamma(n, self))

# %% [markdown]
# ## Methods that forward, and methods that are gone
#
# Transforms of pieces of a signal are functions; the methods call them. Four factorizations and `reinforce` were removed in PyTorch 1.9 and before; their names stayed, to say what took their place.


# %%
#| into: _tensor.py
#| upstream: torch/_tensor.py#Tensor.stft
class Tensor(Tensor):
    def stft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = None,
        center: bool = True,
        pad_mode: str = "reflect",
        normalized: bool = False,
        onesided: bool | None = None,
        return_complex: bool | None = None,
        align_to_window: bool | None = None,
    ) -> Any:
        """`torch.stft` of this signal."""
        from readtorch import functional

        return functional.stft(
            self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex,
            align_to_window,
        )  # fmt: skip

    def istft(
        self,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | None = None,
        return_complex: bool = False,
    ) -> Any:
        """`torch.istft` of these transforms."""
        from readtorch import functional

        return functional.istft(
            self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
        )

    def resize(self, *sizes: int) -> Any:
        """Another shape of as many elements. Deprecated: `reshape` is meant."""
        import warnings

        warnings.warn("non-inplace resize is deprecated", stacklevel=2)
        if not all(isinstance(size, int) for size in sizes) or int(np.prod(sizes)) != self.numel():
            raise RuntimeError(
                f"requested resize to {sizes}, but the given tensor has a size of {tuple(self.shape)}: autograd's resize "
                "can only change the shape of a tensor, and keeps the number of its elements"
            )
        return self.contiguous().view(sizes)

    def resize_as(self, tensor: Any) -> Any:
        """The shape of another tensor of as many elements. Deprecated."""
        import warnings

        warnings.warn("non-inplace resize_as is deprecated", stacklevel=2)
        return self.contiguous().view(tensor.size())

    def reinforce(self, reward: Any) -> Any:
        """RuntimeError: it is gone."""
        raise RuntimeError("reinforce() was removed: the loss is -torch.distributions' log_prob(action) * reward")

    def solve(self, other: Any) -> Any:
        """RuntimeError: it is gone."""
        from readtorch import _linalg_utils

        _linalg_utils.solve()

    def lstsq(self, other: Any) -> Any:
        """RuntimeError: it is gone."""
        from readtorch import _linalg_utils

        _linalg_utils.lstsq()

    def eig(self, eigenvectors: bool = False) -> Any:
        """RuntimeError: it is gone."""
        from readtorch import _linalg_utils

        _linalg_utils.eig()

    def symeig(self, eigenvectors: bool = False) -> Any:
        """RuntimeError: it is gone."""
        from readtorch import _linalg_utils

        _linalg_utils._symeig()

    @property
    def __cuda_array_interface__(self) -> Any:
        if not self.is_cuda:
            raise AttributeError(
                f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()}. Tensor.cuda() copies it to a device."
            )
        if self.requires_grad:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. Use var.detach() first."
            )
        return self._array.__cuda_array_interface__


# %%
#| into: _linalg_utils.py
#| imports
from __future__ import annotations

from typing import Any, NoReturn


# %%
#| into: _linalg_utils.py
#| upstream: torch/_linalg_utils.py#solve
def _gone(name: str, instead: str) -> NoReturn:
    raise RuntimeError(
        f"torch.{name}: This function was deprecated since version 1.9 and is now removed. Use torch.linalg.{instead}"
    )


def matrix_rank(input: Any, tol: Any = None, symmetric: bool = False, *, out: Any = None) -> NoReturn:
    """RuntimeError: it is gone."""
    _gone("matrix_rank", "matrix_rank, whose `hermitian` was `symmetric`")


def solve(input: Any = None, A: Any = None, *, out: Any = None) -> NoReturn:
    """RuntimeError: it is gone."""
    _gone("solve", "solve(A, B), with the arguments the other way round")


def lstsq(input: Any = None, A: Any = None, *, out: Any = None) -> NoReturn:
    """RuntimeError: it is gone."""
    _gone("lstsq", "lstsq(A, B), with the arguments the other way round")


def _symeig(input: Any = None, eigenvectors: bool = False, upper: bool = True, *, out: Any = None) -> NoReturn:
    """RuntimeError: it is gone."""
    _gone("symeig", "eigh or eigvalsh, which read the lower triangle")


def eig(self: Any = None, eigenvectors: bool = False, *, e: Any = None, v: Any = None) -> NoReturn:
    """RuntimeError: it is gone."""
    _gone("eig", "eig or eigvals, whose results are complex")


# %%
#| into: __init__.py
def _gone(name: str) -> _Any:
    from readtorch import _linalg_utils

    return getattr(_linalg_utils, "_symeig" if name == "symeig" else name)


_ANSWERED.update(dict.fromkeys(("eig", "lstsq", "matrix_rank", "solve", "symeig"), _gone))


# %%
#| claim: a slope by coordinates is exact for a parabola, at the edges too in second order
#| upstream: aten/src/ATen/native/ReduceOps.cpp#at::native::gradient
def _(torch):
    places = torch.tensor([1.0, 2.0, 4.0, 7.0])
    (slope,) = torch.gradient(places**2, spacing=(places,), edge_order=2)
    assert torch.allclose(slope, 2 * places)
    assert torch.gradient(torch.tensor([1.0, 3.0, 9.0]))[0].tolist() == [2, 4, 6]


# %%
#| claim: a shift in place is in place, and a tensor can be turned around
def _(torch):
    x = torch.tensor([1, 2, 3])
    y = x
    y <<= 2
    assert x.tolist() == [4, 8, 12] and list(reversed(x)) == [12, 8, 4] and (+x).tolist() == x.tolist()


# %%
#| claim: the gradient of `as_strided_scatter` reaches the elements that were overwritten, and not those that were kept
#| differs: here it reaches those that were kept, as that of select_scatter does in both
#| upstream: tools/autograd/derivatives.yaml#as_strided_scatter
def _(torch):
    x = torch.zeros(4, requires_grad=True)
    torch.as_strided_scatter(x, torch.ones(2), (2,), (1,)).sum().backward()
    assert x.grad.tolist() == [1, 1, 0, 0]
