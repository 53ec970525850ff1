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
# # The first operators
#
# Enough of the library to stand on: arithmetic, a sum, a matrix product, the shapes, copying. Each opens a file that the appendix on operators continues. They also show the ways to register one.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## A pointwise operator in one line
#
# `pointwise(name, kernel, signature)`, then its derivative. Multiplication keeps each factor for the other one's gradient, and only where that gradient is wanted.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import binary_ops as binary_ops

# %%
#| into: aten/native/binary_ops.py
#| imports
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, pointwise
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.tensor_iterator import Pointwise
from readtorch.c10.core.scalar_type import dtype

# %%
#| into: aten/native/binary_ops.py
Rule = Callable[..., Any]


def _operands(self: Array, other: Array) -> Array: ...


def _operands_alpha(self: Array, other: Array, *, alpha: float = 1) -> Array: ...


def binary(
    name: str,
    ufunc: Callable[..., Any],
    promote: str = "same",
    *,
    refuse: Callable[[dtype], str | None] | None = None,
    first: Rule | None = None,
    second: Rule | None = None,
    signature: Callable[..., Any] = _operands,
    kernel: type[Pointwise] = Pointwise,
    **description: Any,
) -> None:
    """Register a pointwise operator of two operands; `first` and `second` are the derivatives by them."""
    pointwise(name, kernel(name, ufunc, promote, refuse), signature, **description)
    formulas = {key: rule for key, rule in (("self", first), ("other", second)) if rule is not None}
    if formulas:
        derivative(name, formulas)


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::add
#| upstream: tools/autograd/derivatives.yaml#add.Tensor
binary(
    "add",
    np.add,
    first=lambda at, grad: grad,
    second=lambda at, grad: grad,
    signature=_operands_alpha,
)


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::sub
class _Subtraction(Pointwise):
    """Differences of truth values have no meaning that everybody agrees on: refused, whichever operand is one."""

    def common(self, operands: Sequence[Any]) -> dtype:
        bools = [
            operand for operand in operands if isinstance(operand, bool) or getattr(operand, "dtype", None) == np.bool_
        ]
        if len(bools) == 2:
            raise RuntimeError(
                "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
            )
        if bools:
            raise RuntimeError(
                "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
            )
        return super().common(operands)

    def refused_kinds(self) -> str:
        return "b"


binary(
    "sub",
    np.subtract,
    kernel=_Subtraction,
    first=lambda at, grad: grad,
    second=lambda at, grad: -grad,
    signature=_operands_alpha,
)

# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::mul
#| upstream: tools/autograd/derivatives.yaml#mul.Tensor
binary(
    "mul",
    np.multiply,
    first=lambda at, grad, other: grad * at.conj(other),
    second=lambda at, grad, self: grad * at.conj(self),
    autocast="widest",
)

# %% [markdown]
# Complex numbers put the conjugate there (upstream's gradient is that of ∂L/∂z̄). For real operands `conj` returns its argument.
#
# Division of integers gives floats, `promote="float"` says so.

# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::div
#| upstream: tools/autograd/derivatives.yaml#div.Tensor
binary(
    "_true_div",
    np.true_divide,
    "float",
    first=lambda at, grad, other: grad / at.conj(other),
    second=lambda at, grad, self, other: -grad * at.conj(self / other / other),
    variants="",
    node="Div",
    inplace=True,
)

# %% [markdown]
# ## One of one operand

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import unary_ops as unary_ops

# %%
#| into: aten/native/unary_ops.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, pointwise, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.tensor_iterator import Pointwise
from readtorch.c10.core import scalar_type
from readtorch.c10.core.scalar_type import dtype


# %%
#| into: aten/native/unary_ops.py
def _operand(self: Array) -> Array: ...


def unary(
    name: str,
    ufunc: Callable[..., Any],
    promote: str = "float",
    formula: Callable[..., Any] | None = None,
    *,
    refuse: Callable[[dtype], str | None] | None = None,
    **description: Any,
) -> None:
    """Register a pointwise operator of one operand and its derivative."""
    pointwise(name, Pointwise(name, ufunc, promote, refuse), _operand, **description)
    if formula is not None:
        derivative(name, self=formula)


unary("exp", np.exp, formula=lambda at, grad, result: grad * at.conj(result), autocast="float32")


# %%
#| into: aten/native/unary_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#neg
def _no_bool_negation(common: dtype) -> str | None:
    if common is scalar_type.bool:
        return "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
    return None


unary("neg", np.negative, "same", lambda at, grad: -grad, refuse=_no_bool_negation)


# %%
#| into: aten/native/unary_ops.py
#| upstream: aten/src/ATen/native/UnaryOps.cpp#at::native::conj
@register("_conj_physical", key="CPU CUDA", variants="", node="Conj")
def _conj_physical(self: Array) -> Array:
    return np.conjugate(self)


derivative("_conj_physical", self=lambda at, grad: at.conj(grad))


@composite("conj", variants="function method")
def conj(at: Any, self: Any) -> Any:
    """The complex conjugate; a real tensor itself."""
    return at._conj_physical(self) if is_complex(self) else self


def is_complex(value: Any) -> bool:
    """Is this array, tensor or number complex?"""
    kind = getattr(value, "dtype", None)
    if kind is None:
        return isinstance(value, complex)
    return kind.kind == "c" if isinstance(kind, np.dtype) else kind.is_complex


# %% [markdown]
# ## Copies and conversions

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import copy as copy
from readtorch.aten.native import tensor_conversions as tensor_conversions

# %%
#| into: aten/native/copy.py
#| imports
from __future__ import annotations


import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.expand_utils import is_expandable_to


# %%
#| into: aten/native/copy.py
#| upstream: aten/src/ATen/native/Copy.cpp#at::native::copy_
@register("copy_", variants="method", node="Copy")
def copy_(self: Array, src: Array, non_blocking: bool = False) -> Array:
    """Overwrite `self` with `src`, broadcast and converted."""
    if not is_expandable_to(src.shape, self.shape):
        shape, rank = list(src.shape), len(src.shape)
        if rank > self.ndim:
            raise RuntimeError(
                f"expand(size={shape}): the number of sizes provided ({self.ndim}) must be greater or equal to the number of dimensions in the tensor ({rank})"
            )
        for i in range(1, rank + 1):
            if src.shape[-i] not in (1, self.shape[-i]):
                raise RuntimeError(
                    f"The size of tensor a ({self.shape[-i]}) must match the size of tensor b ({src.shape[-i]}) at non-singleton dimension {self.ndim - i}"
                )
    np.copyto(self, src.real if src.dtype.kind == "c" and self.dtype.kind != "c" else src, casting="unsafe")
    return self


derivative("copy_", self=lambda at, grad: at.zeros_like(grad), src=lambda at, grad: grad)

# %%
#| into: aten/native/tensor_conversions.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import to_numpy_dtype


# %%
#| into: aten/native/tensor_conversions.py
#| upstream: aten/src/ATen/native/TensorConversions.cpp#at::native::_to_copy
@register("_to_copy", key="CPU CUDA", variants="", node="ToCopy")
def _to_copy(self: Array, dtype: Any) -> Array:
    """A copy in another dtype."""
    wanted = dtype if isinstance(dtype, np.dtype) else to_numpy_dtype(dtype)
    if self.dtype.kind == "c" and wanted.kind != "c":
        return self.real.astype(wanted)
    if self.dtype.kind == "f" and wanted.kind in "iu":
        return _saturating(self, wanted)
    return self.astype(wanted)


def _saturating(array: Array, wanted: np.dtype) -> Array:
    """Float to narrow integer by way of int64, as a C cast does on the machines we know: 300.0 becomes 44 in uint8."""
    return array.astype(np.int64).astype(wanted) if wanted.itemsize < 8 else array.astype(wanted)


derivative("_to_copy", self=lambda at, grad, self_dtype: at._to_copy(grad, self_dtype))

# %%
#| into: aten/native/tensor_factories.py
#| imports
from __future__ import annotations


from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core import memory_format as formats
from readtorch.c10.core.memory_format import memory_format

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import tensor_factories as tensor_factories


# %%
#| into: aten/native/tensor_factories.py
#| upstream: aten/src/ATen/native/TensorFactories.cpp#at::native::clone
@register("clone", key="CPU CUDA", variants="function method")
def clone(self: Array, *, memory_format: memory_format = formats.preserve_format) -> Array:
    """A copy. It keeps the order of the dimensions in memory unless told otherwise."""
    if memory_format is formats.preserve_format:
        return self.copy(order="C" if 0 in self.strides else "K")
    if memory_format is formats.contiguous_format:
        return self.copy(order="C")
    return to_channels_last(self, memory_format, copy=True)


derivative("clone", self=lambda at, grad: grad)


def to_channels_last(array: Array, wanted: memory_format, copy: bool = False) -> Array:
    """The array with its channels innermost in memory, in the same logical shape."""
    rank = 4 if wanted is formats.channels_last else 5
    if array.ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {wanted!r} format")
    order = (0, *range(2, rank), 1)
    inverse = (0, rank - 1, *range(1, rank - 1))
    inner = array.transpose(order)
    if inner.flags.c_contiguous and not copy:
        return array
    return inner.copy(order="C").transpose(inverse)


# %% [markdown]
# ## Filling

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import fill as fill

# %%
#| into: aten/native/fill.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.tensor_iterator import cast


# %%
#| into: aten/native/fill.py
#| upstream: aten/src/ATen/native/Fill.cpp#at::native::fill_
@register("_fill_scalar_", variants="", node="Fill")
def _fill_scalar_(self: Array, value: Any) -> Array:
    self[...] = cast(value, self.dtype) if self.__class__ is np.ndarray else value
    return self


derivative("_fill_scalar_", self=lambda at, grad: at.zeros_like(grad))


@register("_fill_tensor_", variants="", node="Fill")
def _fill_tensor_(self: Array, value: Array) -> Array:
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    self[...] = value
    return self


derivative("_fill_tensor_", self=lambda at, grad: at.zeros_like(grad), value=lambda at, grad: at.sum(grad))


@register("zero_", variants="function method", node="Zero")
def zero_(self: Array) -> Array:
    """Set every element to zero."""
    self[...] = 0
    return self


derivative("zero_", self=lambda at, grad: at.zeros_like(grad))


@register("zeros_like_raw", key="CPU CUDA", variants="")
def _zeros_like(self: Array) -> Array:
    return np.zeros_like(self)


# %% [markdown]
# ## Which dimension is meant?

# %%
#| into: c10/core/wrap_dim_minimal.py
#| imports
from __future__ import annotations

from typing import Any


# %%
#| into: c10/core/wrap_dim_minimal.py
#| upstream: c10/core/WrapDimMinimal.h#c10::maybe_wrap_dim
def maybe_wrap_dim(dim: Any, rank: int, wrap_scalar: bool = True) -> int:
    """`dim` counted from the front. IndexError outside of [-rank, rank-1]; a 0-d tensor has one dimension here."""
    if dim.__class__ is not int:
        dim = dim.__index__()
    if rank <= 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        rank = 1
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim + rank if dim < 0 else dim


# %%
#| into: aten/wrap_dim_utils.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/wrap_dim_utils.py
#| upstream: aten/src/ATen/WrapDimUtilsMulti.h#at::dim_list_to_bitset
def reduced_dims(dim: Any, rank: int) -> tuple[int, ...]:
    """The dimensions to reduce over: all for None and for an empty list. RuntimeError if one stands twice."""
    if dim is None:
        return tuple(range(rank))
    found: tuple[int, ...]
    if isinstance(dim, int):
        found = (maybe_wrap_dim(dim, rank),)
    else:
        try:
            found = tuple(maybe_wrap_dim(d, rank) for d in dim)
        except TypeError:
            found = (maybe_wrap_dim(dim, rank),)
    if not found:
        return tuple(range(rank))
    if len(set(found)) != len(found):
        twice = next(d for d in found if found.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return found if rank else ()


def sizes(args: tuple, name: str = "size") -> tuple[int, ...]:
    """A shape given as separate numbers or as one sequence. TypeError unless they are integers."""
    values: Any = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
    if values.__class__ is not tuple:
        try:
            values = tuple(values)
        except TypeError:
            raise TypeError(f"argument '{name}' must be tuple of ints, not {type(values).__name__}") from None
    for value in values:
        if value.__class__ is not int:
            return tuple(_integer(v, name, position) for position, v in enumerate(values))
    return values


def _integer(value: Any, name: str, position: int) -> int:
    try:
        return value.__index__()
    except (AttributeError, TypeError):
        kind = type(value).__name__
        raise TypeError(
            f"argument '{name}' must be tuple of ints, but found element of type {kind} at pos {position}"
        ) from None


# %% [markdown]
# ## A sum
# `self_shape`: the derivative needs to know how large the input was and not what was in it.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import reduce_ops as reduce_ops

# %%
#| into: aten/native/reduce_ops.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.wrap_dim_utils import reduced_dims
from readtorch.c10.core.scalar_type import dtype, to_numpy_dtype


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/ReduceOps.cpp#at::native::sum
@register("sum", key="CPU CUDA", variants="function method", out=True, autocast="float32")
def sum(self: Array, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Array:
    """The sum over `dim` (an int, several, or None for all). Integers are summed as int64."""
    kind = self.dtype.kind
    if dim is None and dtype is None and not keepdim and kind == "f" and self.itemsize >= 4:
        return np.add.reduce(self, axis=None)
    accumulate = to_numpy_dtype(dtype) if dtype is not None else np.dtype(np.int64) if kind in "biu" else None
    return _add_up(self, reduced_dims(dim, self.ndim), keepdim, accumulate)


def _add_up(array: Array, axes: tuple[int, ...], keepdim: bool, dtype: np.dtype | None) -> Array:
    """Half-width floats are summed in float32 and rounded once, as upstream's kernels do."""
    result_dtype = array.dtype if dtype is None else dtype
    if not axes:
        return array.astype(result_dtype)
    if result_dtype.itemsize == 2 and result_dtype.kind in "fV":
        return np.asarray(array.astype(np.float32).sum(axis=axes, keepdims=keepdim)).astype(result_dtype)
    return array.sum(axis=axes, keepdims=keepdim, dtype=dtype)


def spread(at: Any, grad: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """The gradient of a reduction, stretched back over the reduced dimensions."""
    if not keepdim and len(shape):
        for axis in sorted(reduced_dims(dim, len(shape))):
            grad = at.unsqueeze(grad, axis)
    return at.expand(grad, shape)


derivative("sum", self=lambda at, grad, self_shape, dim, keepdim: spread(at, grad, self_shape, dim, keepdim))


@register("sum_to_size", key="CPU CUDA", variants="method")
def sum_to_size(self: Array, *size: Any) -> Array:
    """Sum down to `size`, which broadcasting would stretch to the shape of `self`."""
    from readtorch.aten.expand_utils import is_expandable_to, sum_to
    from readtorch.aten.wrap_dim_utils import sizes

    shape = sizes(size)
    if not is_expandable_to(shape, self.shape):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(self.shape)}}}.")
    return sum_to(self, shape)


derivative("sum_to_size", self=lambda at, grad, self_shape: at.expand(grad, self_shape))

# %% [markdown]
# ## Shapes
# `reshape` shows why a view is "maybe": it looks into the same memory where it can.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import tensor_shape as tensor_shape

# %%
#| into: aten/native/tensor_shape.py
#| imports
from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.wrap_dim_utils import sizes
from readtorch.c10.core.scalar_type import to_numpy_dtype
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/InferSize.h#at::infer_size
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
    known = math.prod(size for size in shape if size != -1)
    if known == 0:
        if numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 can be any value and is ambiguous"
            )
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    if numel % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if size == -1 else size for size in shape)


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::reshape
@register("reshape", key="CPU CUDA", variants="function method", view="maybe", node="View")
def reshape(self: Array, *shape: Any) -> Array:
    """The same elements in another shape: a view where the strides allow it, else a copy."""
    try:
        return self.reshape(*shape)
    except (ValueError, TypeError):
        return self.reshape(inferred(sizes(shape, "shape"), self.size))


derivative("reshape", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::view
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
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return result


derivative("_view", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


# %% [markdown]
# `np.broadcast_to` checks so much that it takes longer than a small addition, and `as_strided` longer still. The array constructor itself, given memory and strides, is quick.


# %%
#| into: aten/native/tensor_shape.py
def strided_view(array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """The memory from the first element of `array` on, in another shape and with other strides (in bytes)."""
    if array.__class__ is np.ndarray and array.flags.c_contiguous and array.size:
        return np.ndarray(shape, array.dtype, array, 0, strides)
    if array.__class__ is np.ndarray:
        return np.lib.stride_tricks.as_strided(array, shape, strides)
    return np.broadcast_to(array, shape)


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::expand
@register("expand", key="CPU CUDA", variants="method", view="always")
def expand(self: Array, *size: Any, implicit: bool = False) -> Array:
    """Stretch dimensions of size 1 without copying; -1 keeps a size."""
    shape = list(sizes(size))
    lead = len(shape) - self.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand({list(self.shape)}, size={shape}): the number of sizes provided ({len(shape)}) must be greater or equal to the number of dimensions in the tensor ({self.ndim})"
        )
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


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::unsqueeze
@register("unsqueeze", key="CPU CUDA", variants="function method", view="always", inplace=False)
def unsqueeze(self: Array, dim: int) -> Array:
    """A dimension of size 1 put in front of dimension `dim`."""
    place = maybe_wrap_dim(dim, self.ndim + 1)
    return (
        self.reshape(*self.shape[:place], 1, *self.shape[place:])
        if self.flags.c_contiguous
        else self[(slice(None),) * place + (None,)]
    )


derivative("unsqueeze", self=lambda at, grad, dim: at.squeeze(grad, dim))


@register("squeeze", key="CPU CUDA", variants="function method", view="always")
def squeeze(self: Array, dim: Any = None) -> Array:
    """Drop dimensions of size 1: all, or those in `dim`."""
    if dim is None:
        wanted = tuple(range(self.ndim))
    elif isinstance(dim, tuple | list):
        wanted = tuple(maybe_wrap_dim(d, self.ndim) for d in dim)
    else:
        wanted = (maybe_wrap_dim(dim, self.ndim),)
    return self[(*(0 if axis in wanted and size == 1 else slice(None) for axis, size in enumerate(self.shape)), ...)]


derivative("squeeze", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::transpose
@register("transpose", key="CPU CUDA", variants="function method", view="always")
def transpose(self: Array, dim0: int, dim1: int) -> Array:
    """Two dimensions exchanged."""
    rank = self.ndim
    return self.swapaxes(maybe_wrap_dim(dim0, rank), maybe_wrap_dim(dim1, rank)) if rank else self


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
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = {self.ndim} is not equal to len(dims) = {len(order)}"
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

# %% [markdown]
# ## A matrix product

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import linear_algebra as linear_algebra

# %%
#| into: aten/native/linear_algebra.py
#| imports
from __future__ import annotations


import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core import scalar_type


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/native_functions.yaml#mm
#| upstream: tools/autograd/derivatives.yaml#mm
@register("mm", key="CPU CUDA", variants="function method", out=True, autocast="low")
def mm(self: Array, mat2: Array) -> Array:
    """Matrix times matrix: `(n, m) × (m, p) → (n, p)`."""
    if self.ndim == 2 and mat2.ndim == 2 and self.dtype is mat2.dtype and self.dtype.char in "fdFD":
        try:
            return self.dot(mat2)
        except ValueError:
            pass
    if self.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if mat2.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({self.shape[0]}x{self.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    return product(self, mat2)


def product(a: Array, b: Array) -> Array:
    """`a @ b` for one dtype. RuntimeError for two. Half-width floats accumulate in float32, as upstream's kernels do."""
    if a.dtype is not b.dtype and a.dtype != b.dtype:
        names = " != ".join(_c_name(x.dtype) for x in (a, b))
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {names}")
    if a.dtype.itemsize == 2 and a.dtype.kind in "fV":
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    return np.matmul(a, b)


_C_NAMES = {
    "float16": "c10::Half",
    "float32": "float",
    "float64": "double",
    "int64": "long int",
    "int32": "int",
    "bfloat16": "c10::BFloat16",
}


def _c_name(kind: np.dtype) -> str:
    name = scalar_type.from_numpy_dtype(kind).name
    return _C_NAMES.get(name, name)


derivative(
    "mm",
    self=lambda at, grad, mat2: at.mm(grad, at.conj(at.t(mat2))),
    mat2=lambda at, grad, self: at.mm(at.conj(at.t(self)), grad),
)
