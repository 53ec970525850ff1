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
# # Batching rules
#
# What an operator does under `vmap`: given tensors of many examples, whose first dimension counts them, and others that all examples share, compute what a loop over the examples would give. Most rules are a line of dimension arithmetic and *one* call of the same operator. That is the point of `vmap`: the loop is inside the kernel. How a call gets here is told in the ground floor's part on levels.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## What a rule is
#
# A function of the layer, the operator and the value of every parameter. `layer.physical(x)` is the tensor of all examples, or `x` itself where all share it; `layer.full(x)` repeats a shared one without a copy. `rank_of(x)` counts the dimensions of one example. A rule runs with its layer off the stack: the operators it calls see the tensors of all examples, and if these are wrappers of another level, that level gets its turn. A rule is therefore differentiable without having a derivative.
#
# Operators that go element by element need no rule of their own. Broadcasting puts missing dimensions in front, where the examples are counted; so they are put behind that one first. One detail is easily missed: a 0-d tensor yields to others in the choice of the result's dtype, and the tensor of many 0-d examples is not 0-d.

# %%
#| into: aten/functorch/batch_rules_helper.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.dispatch.operator_entry import OperatorEntry
from readtorch.aten.functorch.dynamic_layer import RANDOM, VmapLayer, batching, map_tensors, tensors_in
from readtorch.aten.native.type_properties import result_type
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim

# %%
#| into: aten/functorch/batch_rules_helper.py
at = dispatcher.autograd
"""The operators on tensors, with which rules are written."""

RULES: dict[str, Callable[..., Any]] = {}
"""The rule of each operator that has one: a function of the level, the operator, and the value of every parameter."""

ALIGNED: set[str] = set()
"""Operators that go element by element, whose operands are broadcast."""


class Operator:
    """An operator as rules call it: with the value of every parameter."""

    __slots__ = ("call", "entry")

    def __init__(self, entry: OperatorEntry, call: Callable[..., Any]) -> None:
        self.entry = entry
        self.call = call

    def __call__(self, *values: Any) -> Any:
        schema = self.entry.schema
        if schema.var_positional:
            return self.call(*values[:-1], *values[-1])
        first = said = len(schema.names) - len(schema.keyword_only)
        while said and values[said - 1] is None and schema.defaults.get(schema.names[said - 1], 0) is None:
            said -= 1  # left out, as it was: some options may not be None
        return self.call(*values[:said], **dict(zip(schema.keyword_only, values[first:], strict=True)))


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is the batching rule of these operators. It gives tensors of all examples."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return decorate


class Same:
    """What a rule returns in place of a tensor that is the same for all examples."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def apply(
    layer: VmapLayer, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str
) -> Any:
    """A call of an operator with a batched tensor among its arguments, or of a random one."""
    if entry.name in RANDOM:
        return finished(
            layer, entry, RULES["random"](layer, Operator(entry, call), *entry.schema.bind(method, args, kwargs))
        )
    if method.endswith("_"):
        return RULES["in place"](layer, entry, call, args, kwargs, method)
    if entry.pointwise is not None or entry.name in ALIGNED:
        return finished(layer, entry, aligned(layer, call, args, kwargs))
    found = RULES.get(entry.name)
    if found is None:
        return finished(layer, entry, RULES["loop"](layer, entry, call, args, kwargs))
    return finished(layer, entry, found(layer, Operator(entry, call), *entry.schema.bind(entry.name, args, kwargs)))


# %%
#| into: aten/functorch/batch_rules_helper.py
batching.apply = apply


# %%
#| into: aten/functorch/batch_rules_helper.py
def finished(layer: VmapLayer, entry: OperatorEntry, result: Any) -> Any:
    """Tensors of all examples as the tensors of one."""
    if isinstance(result, TensorImpl):
        return layer.batch(result)
    if isinstance(result, Same):
        return result.tensor
    if isinstance(result, list | tuple):
        parts = [finished(layer, entry, part) for part in result]
        return entry.result_class(parts) if entry.result_class is not None else tuple(parts)
    return result


def rank_of(tensor: Any) -> int:
    """How many dimensions one example has."""
    return tensor._array.ndim


def padded(layer: VmapLayer, tensor: Any, rank: int) -> Any:
    """The tensor of all examples, with dimensions of size 1 behind the first so that each example has `rank` of them."""
    value = layer.physical(tensor)
    missing = rank - rank_of(tensor)
    if value is tensor or missing <= 0:
        return value
    shape = value._array.shape
    return at.reshape(value, (shape[0], *(1,) * missing, *shape[1:]))


def aligned(layer: VmapLayer, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Element by element: what broadcasting would put in front of an example's dimensions goes behind the batch's."""
    found = list(tensors_in(args, kwargs))
    rank = max(rank_of(tensor) for tensor in found)
    mixed = len({tensor._array.dtype for tensor in found}) > 1

    def fit(tensor: Any) -> Any:
        if mixed and not rank_of(tensor) and tensor._array.dtype.kind != "b":
            if not rank:  # numbers alone are equals, of which one must not look wider than the others
                return layer.physical(tensor) if layer.is_batched(tensor) else at.reshape(tensor, (1,))
            if layer.is_batched(
                tensor
            ):  # a number yields to the dtype of what has dimensions; the batch must not give it one
                kind = result_type([other._array for other in found])
                return padded_value(layer, at._to_copy(layer.physical(tensor), kind), rank)
        return padded(layer, tensor, rank)

    return call(*map_tensors(fit, args), **map_tensors(fit, kwargs))


# %%
#| into: aten/functorch/batch_rules_helper.py
def padded_value(layer: VmapLayer, numbers: Any, rank: int) -> Any:
    """A number for each example, with `rank` dimensions of size 1."""
    return at.reshape(numbers, (layer.size, *(1,) * rank))


def dim_of(dim: Any, rank: int) -> int:
    """Where a dimension of one example stands in the tensor of all."""
    return maybe_wrap_dim(dim, rank) + 1


def leading_scalar(value: Any, rank: int) -> Any:
    """The tensor of all examples, each with one dimension at least: a number may be asked for its dimension 0."""
    return value if rank else at.unsqueeze(value, -1)


# %%
#| claim: a number of each example yields to the dtype of a tensor with dimensions, as one number does
#| needs: 02_module
def _(torch):
    numbers, rows = torch.ones(2, dtype=torch.float64), torch.ones(2, 3)
    assert torch.vmap(torch.mul)(numbers, rows).dtype == torch.float32 == (numbers[0] * rows[0]).dtype
    assert torch.vmap(torch.mul)(numbers, rows.int()).dtype == torch.float64


# %% [markdown]
# ## Without a rule
#
# The operator is called for each example, and the results are stacked: always right, with one exception, and slow, which is said once per line of the program. The exception are results whose size depends on elements; they would not stack. Writes in place go to the tensor of all examples, which is a view of nothing else; where the rule is one for a result out of place, the result is copied there.

# %%
#| into: aten/functorch/batched_fallback.py
#| imports
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from readtorch.aten.core.dispatch.operator_entry import OperatorEntry
from readtorch.aten.functorch.batch_rules_helper import at, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer, map_tensors
from readtorch.c10.core.tensor_impl import TensorImpl

# %%
#| into: aten/functorch/batched_fallback.py
#| upstream: aten/src/ATen/functorch/BatchedFallback.h#at::functorch::batchedTensorForLoopFallback
#: their results have a size that depends on elements, of which examples have different ones
DYNAMIC = frozenset(["_nonzero", "masked_select", "_unique", "_unique_consecutive"])


class Warned:
    """Whether `loop` says that it is one: `torch._C._functorch._set_vmap_fallback_warning_enabled`."""

    enabled = True


@rule("loop")
def loop(layer: VmapLayer, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """An operator without a rule: called for one example after the other, and the results are stacked."""
    name = entry.name.lstrip("_")
    if entry.name in DYNAMIC:
        raise RuntimeError(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
            f"aten::{name}: each example would give a result of its own size."
        )
    if not layer.size:
        raise RuntimeError(
            f"aten::{name} has no batching rule, and there is no example to call it for: vmap over 0 examples"
        )
    if Warned.enabled:
        warnings.warn(
            f"There is a performance drop because there is no batching rule for aten::{name}: it is called for one example after the other.",
            stacklevel=6,
        )

    def one(number: int) -> Callable[[Any], Any]:
        return lambda tensor: at.select(tensor._array.value, 0, number) if layer.is_batched(tensor) else tensor

    results = [call(*map_tensors(one(i), args), **map_tensors(one(i), kwargs)) for i in range(layer.size)]
    return _stacked(results)


# %%
#| into: aten/functorch/batched_fallback.py
def _stacked(results: list[Any]) -> Any:
    first = results[0]
    if isinstance(first, TensorImpl):
        return at.stack(results, 0)
    if isinstance(first, list | tuple):
        return tuple(_stacked(list(parts)) for parts in zip(*results, strict=True))
    return first


@rule("in place")
def in_place(
    layer: VmapLayer, entry: OperatorEntry, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any], method: str
) -> Any:
    """`NAME_`: written to the tensor of all examples, which must be one of many for that."""
    from readtorch.aten.functorch import batch_rules_helper as helper

    target = args[0] if args else kwargs["self"]
    if not layer.is_batched(target):
        raise RuntimeError(
            f"vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
            f"that has more elements than `self`: aten::{method} would write what differs from example to example into a "
            "tensor that is the same for all. Call the out-of-place operator, or make `self` of a batched tensor."
        )
    whole = layer.physical(target)
    if entry.pointwise is not None or entry.name in helper.ALIGNED or entry.name in ("copy_", "_fill_scalar_", "zero_"):
        rank = helper.rank_of(target)
        rest = map_tensors(lambda tensor: helper.padded(layer, _at_most(layer, tensor, rank), rank), args[1:])
        return call(whole, *rest, **map_tensors(lambda tensor: helper.padded(layer, tensor, rank), kwargs))
    if entry.name == "_fill_tensor_":
        return at.copy_(whole, helper.padded(layer, args[1], helper.rank_of(target)))
    found = helper.RULES.get(entry.name)
    if found is None or entry.name.endswith("_"):
        _loop_in_place(layer, call, args, kwargs)
        return None
    values = entry.schema.bind(method, args, kwargs)
    return at.copy_(whole, found(layer, helper.Operator(entry, entry.call), *values))


def _at_most(layer: VmapLayer, tensor: Any, rank: int) -> Any:
    """Leading dimensions of size 1 that the target does not have are left out, as broadcasting does."""
    while tensor._array.ndim > rank and tensor._array.shape[0] == 1:
        tensor = (
            layer.batch(at.select(layer.physical(tensor), 1, 0))
            if layer.is_batched(tensor)
            else at.select(tensor, 0, 0)
        )
    return tensor


def _loop_in_place(layer: VmapLayer, call: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> None:
    for number in range(layer.size):

        def one(tensor: Any, number: int = number) -> Any:
            return at.select(tensor._array.value, 0, number) if layer.is_batched(tensor) else tensor

        call(*map_tensors(one, args), **map_tensors(one, kwargs))


# %% [markdown]
# ## Element by element, and matrices
#
# The list of what goes element by element beside ufuncs; losses, whose mean is over the elements of one example; and operators on matrices, which take any number of dimensions before the last two and so one more.

# %%
#| into: aten/functorch/batch_rules_binary_ops.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_helper import ALIGNED, Operator, aligned, at, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer

# %%
#| into: aten/functorch/batch_rules_binary_ops.py
#: beside the operators that a ufunc computes
ALIGNED.update(
    [
        "heaviside",
        "_conj_physical",
        "round",
        "abs",
        "_real",
        "_imag",
        "complex",
        "_polygamma",
        "frexp",
        "_to_copy",
        "clone",
        "addcmul",
        "addcdiv",
        "_lerp_scalar",
        "_lerp_tensor",
        "_clamp_scalar",
        "_clamp_tensor",
        "nan_to_num",
        "threshold",
        "leaky_relu",
        "hardtanh",
        "hardsigmoid",
        "hardswish",
        "hardshrink",
        "softshrink",
        "_prelu_kernel",
        "elu",
        "softplus",
        "log_sigmoid",
        "silu",
        "mish",
        "gelu",
        "gelu_backward",
        "_masked_fill_scalar",
        "_where",
        "_to_device",
        "alias",
        "_finite",
        "_zero_where_nan",
        "native_dropout_backward",
        "_is_not_class",
        "_pixel",
        "_is_pixel",
        "_keep_mean",
        "_standard_gamma_grad",
    ]
)

NONE, MEAN, SUM = 0, 1, 2


@rule("mse_loss", "_smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
def elementwise_loss(layer: VmapLayer, op: Operator, *values: Any) -> Any:
    """The loss of each element, and then the mean or sum of each example."""
    place = op.entry.schema.names.index("reduction")
    reduction = values[place]
    first = (*values[:place], NONE, *values[place + 1 :])
    if op.entry.name.startswith("binary"):  # these do not broadcast their targets
        first = (*(layer.batch(layer.full(each)) for each in first[:2]), *first[2:])
    loss = aligned(layer, op, first, {})
    if reduction == NONE:
        return loss
    dims = tuple(range(1, loss._array.ndim))
    if not dims:
        return loss
    return at.mean(loss, dims) if reduction == MEAN else at.sum(loss, dims)


@rule("view_as_complex", "view_as_real", "_view_dtype", "linalg_inv", "linalg_det", "linalg_slogdet", "linalg_cholesky", "_linalg_qr",
      "_linalg_svd", "linalg_eigh", "_linalg_pinv", "_block_exponential", "tril", "triu", "_linalg_eig", "_linalg_lu", "_cholesky_info",
      "_inverse_info", "geqrf", "constant_pad_nd", "_pivots", "_eye_rows", "_cholesky_inverse", "_cholesky_until", "_norm_at_least")  # fmt: skip
def trailing(layer: VmapLayer, op: Operator, value: Any, *options: Any) -> Any:
    """What works on the last dimensions and takes any number before them takes one more."""
    return op(layer.physical(value), *options)


@rule("_linalg_solve")
def solve(layer: VmapLayer, op: Operator, matrix: Any, right: Any) -> Any:
    """Systems of equations; the right side may be a vector, which many of are no longer told from a matrix."""
    if rank_of(right) == 1 or (rank_of(right) == rank_of(matrix) - 1):
        solved = op(layer.full(matrix), at.unsqueeze(layer.full(right), -1))
        return at.squeeze(solved, -1)
    rank = max(rank_of(matrix), rank_of(right))
    from readtorch.aten.functorch.batch_rules_helper import padded

    return op(padded(layer, layer.batch(layer.full(matrix)), rank), padded(layer, layer.batch(layer.full(right)), rank))


@rule("_cholesky_solve")
def solve_with_factor(layer: VmapLayer, op: Operator, right: Any, factor: Any, upper: bool) -> Any:
    """Systems of equations, of matrices on both sides."""
    from readtorch.aten.functorch.batch_rules_helper import padded

    rank = max(rank_of(factor), rank_of(right))
    return op(*(padded(layer, layer.batch(layer.full(each)), rank) for each in (right, factor)), upper)


@rule("_masked_fill_tensor")
def masked_fill(layer: VmapLayer, op: Operator, self: Any, mask: Any, value: Any) -> Any:
    """One number where the mask is true, which may be each example's own."""
    if not layer.is_batched(value):
        return aligned(layer, op, (self, mask, value), {})
    chosen = layer.batch(at._to_copy(layer.physical(value), self.dtype))
    return aligned(layer, at._where, (mask, chosen, self), {})


# %% [markdown]
# ## Along dimensions
#
# A dimension is one further. Negative ones must be counted from the example's rank first: -3 of a matrix is an error, and must not become the examples. A 0-d example has a dimension 0 for these operators; it is given one and loses it again.

# %%
#| into: aten/functorch/batch_rules_reduce_ops.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_helper import Operator, at, dim_of, leading_scalar, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer
from readtorch.c10.core.tensor_impl import TensorImpl


# %%
#| into: aten/functorch/batch_rules_reduce_ops.py
def shifted(dim: Any, rank: int) -> Any:
    """One dimension or several, of an example, in the tensor of all; all of them for None and for an empty list."""
    if dim is None or (dim.__class__ in (list, tuple) and not dim):
        return tuple(range(1, max(rank, 1) + 1))
    if isinstance(dim, list | tuple):
        return tuple(dim_of(each, rank) for each in dim)
    return dim_of(dim, rank)


def _scalar_again(result: Any, rank: int) -> Any:
    """Without the dimension that `leading_scalar` gave."""
    if rank:
        return result
    if isinstance(result, TensorImpl):
        return at.squeeze(result, -1) if result._array.ndim > 1 else result
    return type(result)([_scalar_again(part, rank) for part in result]) if isinstance(result, list | tuple) else result


@rule("sum", "mean", "amax", "amin", "all", "any", "nansum", "logsumexp", "_var", "_std", "_aminmax", "_vector_norm",
      "cumsum", "cumprod", "logcumsumexp", "_max_dim", "_min_dim", "sort", "argsort", "kthvalue", "topk", "_median_dim", "_mode",
      "cummax", "cummin", "_softmax", "_log_softmax", "_fft_c2c", "_fft_r2c", "_fft_c2r")  # fmt: skip
def over_dim(layer: VmapLayer, op: Operator, *values: Any) -> Any:
    """Along dimensions that are given by number: the same ones, one further."""
    names = op.entry.schema.names
    place = names.index("dims" if "dims" in names else "dim")
    rank = rank_of(values[0])
    value = leading_scalar(layer.physical(values[0]), rank)
    return _scalar_again(op(value, *values[1:place], shifted(values[place], rank), *values[place + 1 :]), rank)


@rule("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_backward(layer: VmapLayer, op: Operator, grad_output: Any, output: Any, dim: int) -> Any:
    """The same with two tensors of one shape."""
    rank = rank_of(output)
    grad, out = (leading_scalar(layer.full(each), rank) for each in (grad_output, output))
    return _scalar_again(op(grad, out, dim_of(dim, rank)), rank)


@rule("prod", "argmax", "argmin")
def over_dim_or_all(layer: VmapLayer, op: Operator, value: Any, dim: Any, keepdim: Any, *rest: Any) -> Any:
    """Along one dimension, or over the whole of each example."""
    rank = rank_of(value)
    whole = leading_scalar(layer.physical(value), rank)
    if dim is not None:
        return _scalar_again(op(whole, dim_of(dim, rank), bool(keepdim), *rest), rank)
    result = op(at.reshape(whole, (layer.size, -1)), 1, False, *rest)
    return at.reshape(result, (layer.size, *(1,) * rank)) if keepdim else result


@rule("count_nonzero")
def count_nonzero(layer: VmapLayer, op: Operator, value: Any, dim: tuple) -> Any:
    """How many elements of each example are not 0."""
    rank = rank_of(value)
    dims = dim[0] if len(dim) == 1 else dim
    return _scalar_again(op(leading_scalar(layer.physical(value), rank), (shifted(dims, rank),)), rank)


@rule("_max_all", "_min_all")
def extreme_of_all(layer: VmapLayer, op: Operator, value: Any) -> Any:
    """The largest or smallest element of each example."""
    found = at._max_dim if op.entry.name == "_max_all" else at._min_dim
    rows = at.reshape(layer.physical(value), (layer.size, -1))
    if value._array.size and value._array.dtype.kind in "fcV":
        return (at.amax if op.entry.name == "_max_all" else at.amin)(rows, 1)
    return found(rows, 1)[0]


@rule("_median_of_all")
def median_of_all(layer: VmapLayer, op: Operator, value: Any) -> Any:
    """The median of each example."""
    return at._median_dim(at.reshape(layer.physical(value), (layer.size, -1)), 1, False)[0]


# %% [markdown]
# ## Shapes
#
# Rules of views give views: a write to `x.view(3)` inside is one to the caller's memory.

# %%
#| into: aten/functorch/batch_rules_views.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_helper import Operator, at, dim_of, leading_scalar, padded, rank_of, rule
from readtorch.aten.functorch.batch_rules_reduce_ops import shifted
from readtorch.aten.functorch.dynamic_layer import VmapLayer
from readtorch.aten.wrap_dim_utils import sizes
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/functorch/batch_rules_views.py
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


# %% [markdown]
# ## Products
#
# A matrix that all examples share makes one large product of many small ones, which is what a layer does with a batch. Only where both sides differ is there a product for each example.

# %%
#| into: aten/functorch/batch_rules_linear_algebra.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_helper import Operator, at, padded, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer


# %%
#| into: aten/functorch/batch_rules_linear_algebra.py
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
