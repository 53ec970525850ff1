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
# # Batching rules of layers
#
# Convolutions, norms, losses, indices and randomness under `vmap`: the rules that take more than a dimension further. What a rule is and may do is told in the part before.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Convolutions
#
# Examples that share the weights are more of the batch. Examples with weights of their own, as in an ensemble, are *groups*: the channels of all stand side by side, and no group sees another's. The gradient of the weights is always of the second kind, one per example; with one group it is written as a product of matrices, the pixels under each place of the kernel in columns, which is what makes gradients per example as fast as they are.

# %%
#| into: aten/functorch/batch_rules_convolution.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_helper import Operator, at, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer


# %%
#| into: aten/functorch/batch_rules_convolution.py
def into_batch(whole: Any) -> Any:
    """(B, N, …) as (B·N, …): examples that share everything else are a larger batch."""
    shape = whole._array.shape
    return at.reshape(whole, (shape[0] * shape[1], *shape[2:]))


def out_of_batch(result: Any, count: int) -> Any:
    """(B·N, …) as (B, N, …)."""
    shape = result._array.shape
    return at.reshape(result, (count, shape[0] // count if count else 0, *shape[1:]))


def into_channels(whole: Any, groups: int = 1) -> Any:
    """(B, N, C, …) as (N, B·C, …), or (N, groups·B·C/groups, …): examples with weights of their own are groups of channels."""
    shape = whole._array.shape
    count, rest = shape[0], shape[3:]
    grouped = at.reshape(whole, (count, shape[1], groups, shape[2] // groups, *rest))
    moved = at.permute(grouped, (1, 2, 0, *range(3, len(shape) + 1)))
    return at.reshape(moved, (shape[1], groups * count * (shape[2] // groups), *rest))


def out_of_channels(result: Any, count: int, groups: int = 1) -> Any:
    """(N, groups·B·C/groups, …) as (B, N, C, …)."""
    shape = result._array.shape
    each = shape[1] // (groups * count)
    split = at.reshape(result, (shape[0], groups, count, each, *shape[2:]))
    moved = at.permute(split, (2, 0, 1, *range(3, len(shape) + 2)))
    return at.reshape(moved, (count, shape[0], groups * each, *shape[2:]))


def _weights(whole: Any) -> Any:
    """The weights of all examples as those of groups: (B, O, …) as (B·O, …)."""
    shape = whole._array.shape
    return at.reshape(whole, (shape[0] * shape[1], *shape[2:]))


@rule("convolution")
def convolution(
    layer: VmapLayer, op: Operator, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    """Shared weights: the examples are more of a batch. Own weights: they are groups."""
    rest = (stride, padding, dilation, transposed, output_padding)
    if not layer.is_batched(weight):
        if (bias is None or not layer.is_batched(bias)) and layer.is_batched(input):
            return out_of_batch(op(into_batch(layer.physical(input)), weight, bias, *rest, groups), layer.size)
        result = layer.batch(convolution(layer, op, layer.batch(layer.full(input)), weight, None, *rest, groups))
        return _with_bias(layer, layer.physical(result), bias)
    x = into_channels(layer.full(input))
    w = _weights(layer.physical(weight))
    result = out_of_channels(op(x, w, None, *rest, groups * layer.size), layer.size)
    return result if bias is None else _with_bias(layer, result, bias)


def _with_bias(layer: VmapLayer, result: Any, bias: Any) -> Any:
    shape = result._array.shape
    return result + at.reshape(layer.full(bias), (shape[0], 1, shape[2], *(1,) * (len(shape) - 3)))


@rule("_conv_input")
def conv_input(
    layer: VmapLayer, op: Operator, dy: Any, weight: Any, input_shape: Any, stride: Any, padding: Any, dilation: Any,
    groups: int, channels_last: Any,
) -> Any:  # fmt: skip
    """The gradient of the input, in the same two ways."""
    count, rest = layer.size, (stride, padding, dilation)
    batch, channels, *size = input_shape
    if not layer.is_batched(weight):
        return out_of_batch(
            op(into_batch(layer.full(dy)), weight, (count * batch, channels, *size), *rest, groups, channels_last),
            count,
        )
    w = _weights(layer.physical(weight))
    grad = op(into_channels(layer.full(dy)), w, (batch, count * channels, *size), *rest, groups * count, channels_last)
    return out_of_channels(grad, count)


@rule("_conv_weight")
def conv_weight(
    layer: VmapLayer, op: Operator, dy: Any, x: Any, weight_shape: Any, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    """The gradient of the weights: one for each example, and so groups in any case."""
    if len(weight_shape) == 4 and groups == 1 and layer.is_batched(x):
        return _by_columns(layer, dy, x, weight_shape, stride, padding, dilation)
    count = layer.size
    shape = (count * weight_shape[0], *weight_shape[1:])
    grad = op(
        into_channels(layer.full(dy)), into_channels(layer.full(x)), shape, stride, padding, dilation, groups * count
    )
    return at.reshape(grad, (count, *weight_shape))


def _by_columns(layer: VmapLayer, dy: Any, x: Any, weight_shape: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """The pixels under each place of the kernel as columns: then it is one product of matrices per example, (O, L) by (L, C·k·k)."""
    grads, count = layer.full(dy), layer.size
    columns = at.im2col(into_batch(layer.physical(x)), weight_shape[2:], dilation, padding, stride)
    batch = grads._array.shape[1]
    places = columns._array.shape[2]
    rows = at.reshape(grads, (count * batch, weight_shape[0], -1))
    if (
        rows._array.shape[2] != places
    ):  # a stride that leaves out the last pixels gives as many places; nothing else does
        raise RuntimeError(
            f"gradient of a convolution: {rows._array.shape[2]} places of the output, {places} of the input"
        )
    each = at.bmm(rows, at.transpose(columns, 1, 2))
    if batch != 1:
        each = at.sum(at.reshape(each, (count, batch, *each._array.shape[1:])), 1)
    return at.reshape(each, (count, *weight_shape))


# %% [markdown]
# ## Norms
#
# Layers that normalise within an example take more of them. Batch norm does not: each example of `vmap` is a batch with statistics of its own, whose channels stand beside the others'. Its running statistics, where they are one set for all, would have to be written once per example, and that is refused.

# %%
#| into: aten/functorch/batch_rules_norm.py
#| imports
from __future__ import annotations

import math
from typing import Any

from readtorch.aten.functorch.batch_rules_convolution import into_batch, into_channels, out_of_batch, out_of_channels
from readtorch.aten.functorch.batch_rules_helper import Operator, at, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer


# %%
#| into: aten/functorch/batch_rules_norm.py
def _batched(layer: VmapLayer, *tensors: Any) -> bool:
    return any(tensor is not None and layer.is_batched(tensor) for tensor in tensors)


def _beside(layer: VmapLayer, tensor: Any, rank: int, at_dim: int) -> Any:
    """A tensor of parameters, in the place of the dimensions that begin with `at_dim` of an example."""
    value = layer.physical(tensor)
    shape = tensor._array.shape
    after = rank - at_dim - len(shape)
    lead = (layer.size,) if layer.is_batched(tensor) else (1,)
    return at.reshape(value, (*lead, *(1,) * at_dim, *shape, *(1,) * after))


@rule("native_layer_norm")
def layer_norm(
    layer: VmapLayer, op: Operator, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    """The last dimensions are normalised; the batch is one more before them."""
    if not _batched(layer, weight, bias):
        return op(layer.physical(input), normalized_shape, weight, bias, eps)
    output, mean, rstd = op(layer.full(input), normalized_shape, None, None, eps)
    rank = rank_of(input)
    place = rank - len(normalized_shape)
    if weight is not None:
        output = output * _beside(layer, weight, rank, place)
    return (output if bias is None else output + _beside(layer, bias, rank, place)), mean, rstd


@rule("native_layer_norm_backward")
def layer_norm_backward(
    layer: VmapLayer, op: Operator, grad_out: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any
) -> Any:
    """Parameters have a gradient for each example: sums that leave the batch out."""
    grad, x = layer.full(grad_out), layer.full(input)
    rank = rank_of(input)
    place = rank - len(normalized_shape)
    moments = [
        at.reshape(layer.full(each), (*x._array.shape[: place + 1], *(1,) * (rank - place))) for each in (mean, rstd)
    ]
    inner = grad if weight is None else grad * _beside(layer, weight, rank, place)
    dx = op(inner, x, normalized_shape, layer.full(mean), layer.full(rstd), None)[0]
    lead = tuple(range(1, place + 1))
    scaled = grad * ((x - moments[0]) * moments[1])
    return dx, (at.sum(scaled, lead) if lead else scaled), (at.sum(grad, lead) if lead else at.clone(grad))


@rule("native_group_norm")
def group_norm(
    layer: VmapLayer, op: Operator, input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> Any:
    """Each image alone is normalised, and so the examples are more images."""
    count = layer.size
    shared = not _batched(layer, weight, bias)
    given = (weight, bias) if shared else (None, None)
    output, mean, rstd = op(into_batch(layer.full(input)), *given, count * N, C, HxW, group, eps)
    output = out_of_batch(output, count)
    if not shared:
        rank = rank_of(input)
        output = output if weight is None else output * _beside(layer, weight, rank, 1)
        output = output if bias is None else output + _beside(layer, bias, rank, 1)
    return output, out_of_batch(mean, count), out_of_batch(rstd, count)


@rule("native_group_norm_backward")
def group_norm_backward(
    layer: VmapLayer, op: Operator, grad_out: Any, input: Any, mean: Any, rstd: Any, weight: Any, N: int, C: int, HxW: int,
    group: int,
) -> Any:  # fmt: skip
    """As for layer_norm."""
    count, rank = layer.size, rank_of(input)
    grad, x = layer.full(grad_out), layer.full(input)
    inner = grad if weight is None else grad * _beside(layer, weight, rank, 1)
    moments = [layer.full(each) for each in (mean, rstd)]
    dx = op(into_batch(inner), into_batch(x), *map(into_batch, moments), None, count * N, C, HxW, group)[0]
    grouped = (count, N, group, -1)
    centred = at.reshape(x, grouped) - at.reshape(moments[0], (count, N, group, 1))
    normal = at.reshape(centred * at.reshape(moments[1], (count, N, group, 1)), x._array.shape)
    others = (1, *range(3, rank + 1))
    return out_of_batch(dx, count), at.sum(grad * normal, others), at.sum(grad, others)


def _per_channel(layer: VmapLayer, tensor: Any) -> Any:
    return None if tensor is None else at.reshape(layer.full(tensor), (-1,))


@rule("native_batch_norm")
def batch_norm(
    layer: VmapLayer, op: Operator, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> Any:  # fmt: skip
    """Each example has statistics of its own: its channels are channels beside the others'."""
    running = [running_mean, running_var]
    if (
        training
        and layer.is_batched(input)
        and any(each is not None and not layer.is_batched(each) for each in running)
    ):
        raise RuntimeError(
            "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
            "were not batched. Set `track_running_stats` to False, or call eval(): torch.func.replace_all_batch_norm_modules_ does "
            "the former for a whole model."
        )
    kept = [None if each is None else at.clone(_per_channel(layer, each)) for each in running]
    output, mean, invstd = op(
        into_channels(layer.full(input)), _per_channel(layer, weight), _per_channel(layer, bias), *kept, training, momentum, eps
    )  # fmt: skip
    for each, moved in zip(running, kept, strict=True):
        if training and each is not None and layer.is_batched(each):
            at.copy_(layer.physical(each), at.reshape(moved, layer.physical(each)._array.shape))
    count = layer.size
    rows = [at.reshape(each, (count, -1)) for each in (mean, invstd)]
    return out_of_channels(output, count), *rows


@rule("native_batch_norm_backward")
def batch_norm_backward(
    layer: VmapLayer, op: Operator, grad_out: Any, input: Any, weight: Any, running_mean: Any, running_var: Any, save_mean: Any,
    save_invstd: Any, train: bool, eps: float,
) -> Any:  # fmt: skip
    """The same with channels beside channels."""
    parts = [_per_channel(layer, each) for each in (weight, running_mean, running_var, save_mean, save_invstd)]
    dx, dw, db = op(into_channels(layer.full(grad_out)), into_channels(layer.full(input)), *parts, train, eps)
    count = layer.size
    return (None if dx is None else out_of_channels(dx, count)), *(
        None if each is None else at.reshape(each, (count, -1)) for each in (dw, db)
    )


def elements(shape: Any) -> int:
    """How many elements a tensor of that shape has."""
    return math.prod(shape)


# %% [markdown]
# ## Class losses
#
# The loss of every target, all examples in one batch; then the weighted sums of each.

# %%
#| into: aten/functorch/batch_rules_loss.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_convolution import into_batch, out_of_batch
from readtorch.aten.functorch.batch_rules_helper import Operator, at, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer

# %%
#| into: aten/functorch/batch_rules_loss.py
NONE, MEAN, SUM = 0, 1, 2


def _weights(layer: VmapLayer, target: Any, weight: Any, ignore_index: int, like: Any) -> Any:
    """What each target counts for, (B, N, …): 0 where it is ignored."""
    classes = layer.full(target)
    kept = at.ne(classes, ignore_index)
    if weight is None:
        return at._to_copy(kept, like.dtype)
    picked = at._where(kept, classes, at.zeros_like(classes))
    if layer.is_batched(weight):
        rows = at.reshape(picked, (layer.size, -1))
        found = at.reshape(at.gather(layer.physical(weight), 1, rows), picked._array.shape)
    else:
        found = at.index(weight, [picked])
    return at._where(kept, found, at.zeros_like(found))


@rule("nll_loss_forward")
def nll_loss(
    layer: VmapLayer, op: Operator, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int
) -> Any:
    """The loss of every target, and then the sums of each example."""
    scores = layer.full(self)
    one = None if weight is not None and layer.is_batched(weight) else weight
    each, _ = op(into_batch(scores), into_batch(layer.full(target)), one, NONE, ignore_index)
    each = out_of_batch(each, layer.size)
    zero = at.zeros_like(at.reshape(each, (layer.size, -1))).sum(1)
    if one is not weight:
        each = each * _weights(layer, target, weight, ignore_index, self)
    if reduction == NONE:
        return each, zero
    dims = tuple(range(1, each._array.ndim))
    total = at.sum(_weights(layer, target, weight, ignore_index, self), dims)
    loss = at.sum(each, dims)
    return (loss / total if reduction == MEAN else loss), total


@rule("nll_loss_backward")
def nll_loss_backward(
    layer: VmapLayer,
    op: Operator,
    grad_output: Any,
    self: Any,
    target: Any,
    weight: Any,
    reduction: int,
    ignore_index: int,
) -> Any:
    """Each example's gradient, shared out among its targets."""
    scores, classes = layer.full(self), layer.full(target)
    grad = layer.full(grad_output)
    one = None if weight is not None and layer.is_batched(weight) else weight
    shape = classes._array.shape
    if reduction != NONE:
        weights = _weights(layer, target, weight, ignore_index, self)
        if reduction == MEAN:
            grad = grad / at.sum(weights, tuple(range(1, len(shape))))
        grad = at.expand(at.reshape(grad, (layer.size, *(1,) * (len(shape) - 1))), shape)
    if one is not weight:
        grad = grad * _weights(layer, target, weight, ignore_index, self)
    dx = op(into_batch(grad), into_batch(scores), into_batch(classes), one, NONE, ignore_index)
    return out_of_batch(dx, layer.size)


# %% [markdown]
# ## Indices
#
# An index tensor that differs from example to example makes the examples' number an index too: `x[i]` becomes `x[arange(B), i]`. What takes the room here is NumPy's rule for where the dimensions of several index tensors come to stand: in place if they are neighbours, else in front; the added one may make them neighbours no longer.

# %%
#| into: aten/functorch/batch_rules_scatter_ops.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.functorch.batch_rules_helper import Operator, at, dim_of, leading_scalar, padded, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import VmapLayer
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/functorch/batch_rules_scatter_ops.py
def _counter(layer: VmapLayer, rank: int, like: Any) -> Any:
    """0, 1, … for the examples, in the first of `rank + 1` dimensions."""
    ones = at.cumsum(at._to_copy(at.ones_like(at.reshape(like, (layer.size, -1)).narrow(1, 0, 1)), _int64()), 0)
    return at.reshape(ones - 1, (layer.size, *(1,) * rank))


def _int64() -> Any:
    from readtorch.c10.core.scalar_type import int64

    return int64


class Places:
    """Index tensors of examples as index tensors of all, and where the dimensions that they make come to stand."""

    def __init__(self, layer: VmapLayer, indices: Any, batched_self: bool) -> None:
        given = [index for index in indices if index is not None]
        self.rank = max(rank_of(index) for index in given)
        numbers = [number for number, index in enumerate(indices) if index is not None]
        adjacent = numbers == list(range(numbers[0], numbers[-1] + 1))
        own = any(layer.is_batched(index) for index in given)
        #: where the made dimensions stand in the result of one example
        self.place = numbers[0] if adjacent else 0
        aligned = [None if index is None else padded(layer, index, self.rank) if own else index for index in indices]
        if own:
            first = next(layer.physical(index) for index in given if layer.is_batched(index))
            if batched_self:
                aligned = [_counter(layer, self.rank, first), *aligned]
                #: behind the counter of examples where nothing stands between, else all made dimensions come first
                self.order = None if adjacent and numbers[0] == 0 else ("front", self.place)
            else:
                self.order = ("counter", self.place)
        else:
            aligned = [None, *aligned] if batched_self else aligned
            self.order = None if adjacent else ("behind", 0)
        self.indices = aligned

    def to_example_order(self, result: Any) -> Any:
        """The result of all with the examples counted first, and each in its own order."""
        axes = self._axes(result._array.ndim)
        return result if axes is None else at.permute(result, axes)

    def to_index_order(self, values: Any) -> Any:
        """The other way: values as index_put wants them."""
        axes = self._axes(values._array.ndim)
        if axes is None:
            return values
        return at.permute(values, tuple(axes.index(number) for number in range(len(axes))))

    def _axes(self, count: int) -> tuple[int, ...] | None:
        if self.order is None:
            return None
        kind, place = self.order
        rank = self.rank
        if kind == "front":  # (B, made…, rest…): the made dimensions go behind the first `place` of the rest
            rest = list(range(1 + rank, count))
            return (0, *rest[:place], *range(1, 1 + rank), *rest[place:])
        if kind == "behind":  # (made…, B, rest…)
            return (rank, *range(rank), *range(rank + 1, count))
        return (place, *range(place), *range(place + 1, count))  # (rest…, B, made…, rest…)


@rule("index")
def index(layer: VmapLayer, op: Operator, self: Any, indices: Any) -> Any:
    """Elements at positions, which may be each example's own."""
    places = Places(layer, indices, layer.is_batched(self))
    return places.to_example_order(op(layer.physical(self), places.indices))


@rule("index_put")
def index_put(layer: VmapLayer, op: Operator, self: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    """Values at positions; what is written to is each example's own from here on."""
    whole = layer.full(self)
    places = Places(layer, indices, True)
    return op(whole, places.indices, _values_at(layer, places, self._array.shape, indices, values), accumulate)


def _values_at(layer: VmapLayer, places: Places, shape: Any, indices: Any, values: Any) -> Any:
    made = np.broadcast_shapes(*(index._array.shape for index in indices if index is not None))
    kept = [size for number, size in enumerate(shape) if number >= len(indices) or indices[number] is None]
    wanted = (*kept[: places.place], *made, *kept[places.place :])
    return places.to_index_order(
        at.expand(padded(layer, layer.batch(layer.full(values)), len(wanted)), (layer.size, *wanted))
    )


@rule("_index_put_zeros")
def index_put_zeros(layer: VmapLayer, op: Operator, grad_output: Any, shape: Any, indices: Any) -> Any:
    """The gradient of `index`."""
    places = Places(layer, indices, True)
    return op(_values_at(layer, places, shape, indices, grad_output), (layer.size, *shape), places.indices)


@rule("index_select")
def index_select(layer: VmapLayer, op: Operator, self: Any, dim: int, index_: Any) -> Any:
    """Slices by number."""
    rank = rank_of(self)
    if not layer.is_batched(index_):
        value = leading_scalar(layer.physical(self), rank)
        result = op(value, dim_of(dim, rank), index_)
        return result if rank else at.squeeze(result, -1)
    index_ = layer.batch(leading_scalar(layer.physical(index_), rank_of(index_)))
    return index(layer, Operator(_entry("index"), at.index), self, [None] * maybe_wrap_dim(dim, rank) + [index_])


def _entry(name: str) -> Any:
    from readtorch.aten.core.dispatch.dispatcher import operators

    return operators[name]


@rule("_index_add_zeros")
def index_add_zeros(layer: VmapLayer, op: Operator, grad_output: Any, shape: Any, dim: int, index_: Any) -> Any:
    """The gradient of `index_select`."""
    if layer.is_batched(index_) or not shape:
        put = Operator(_entry("_index_put_zeros"), at._index_put_zeros)
        return index_put_zeros(layer, put, grad_output, shape, [None] * maybe_wrap_dim(dim, len(shape)) + [index_])
    return op(layer.full(grad_output), (layer.size, *shape), dim_of(dim, len(shape)), index_)


@rule("index_add", "index_copy")
def index_add(layer: VmapLayer, op: Operator, self: Any, dim: int, index_: Any, source: Any, *rest: Any) -> Any:
    """Slices added to, or put, by number."""
    rank = rank_of(self)
    if layer.is_batched(index_) or not rank:
        from readtorch.aten.functorch.batched_fallback import loop

        args = tuple(layer.batch(layer.full(each)) for each in (index_, source))
        named = dict(zip(op.entry.schema.keyword_only, rest, strict=True))
        return loop(layer, op.entry, op.call, (self, dim, *args), named)
    return op(layer.full(self), dim_of(dim, rank), index_, layer.full(source), *rest)


@rule("gather")
def gather(layer: VmapLayer, op: Operator, self: Any, dim: int, index_: Any, sparse_grad: bool) -> Any:
    """One element per entry of the index."""
    rank = max(rank_of(self), rank_of(index_))
    value, places = (leading_scalar(layer.full(each), rank_of(each)) for each in (self, index_))
    result = op(value, dim_of(dim, rank), places, sparse_grad)
    return result if rank_of(index_) else at.squeeze(result, -1)


@rule("scatter_add", "_scatter_src", "scatter_reduce")
def scatter(layer: VmapLayer, op: Operator, self: Any, dim: int, index_: Any, src: Any, *rest: Any) -> Any:
    """One element per entry of the index, the other way."""
    rank = rank_of(self)
    parts = [leading_scalar(layer.full(each), rank_of(each)) for each in (self, index_, src)]
    result = op(parts[0], dim_of(dim, rank), *parts[1:], *rest)
    return result if rank else at.squeeze(result, -1)


@rule("_scatter_value")
def scatter_value(layer: VmapLayer, op: Operator, self: Any, dim: int, index_: Any, value: Any) -> Any:
    """The same of one number."""
    rank = rank_of(self)
    parts = [leading_scalar(layer.full(each), rank_of(each)) for each in (self, index_)]
    result = op(parts[0], dim_of(dim, rank), parts[1], value)
    return result if rank else at.squeeze(result, -1)


@rule("_scatter_add_zeros")
def scatter_add_zeros(layer: VmapLayer, op: Operator, grad_output: Any, shape: Any, dim: int, index_: Any) -> Any:
    """The gradient of `gather`."""
    grad, places = (leading_scalar(layer.full(each), rank_of(each)) for each in (grad_output, index_))
    result = op(grad, (layer.size, *(shape or (1,))), dim_of(dim, len(shape)), places)
    return result if shape else at.squeeze(result, -1)


def _columns(mask: Any, shape: Any) -> list[Any]:
    """Where a mask that all examples share is true, a tensor for each dimension; the examples' own comes first."""
    places = at.nonzero(at.expand(mask, shape))
    return [None, *at.unbind(places, 1)]


@rule("masked_select")
def masked_select(layer: VmapLayer, op: Operator, self: Any, mask: Any) -> Any:
    """The elements where a mask is true; examples that share it have as many."""
    if layer.is_batched(mask):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask): each example would give a result of its own "
            "size. Use torch.where or masked_fill."
        )
    shape = tuple(np.broadcast_shapes(self._array.shape, mask._array.shape))
    whole = at.expand(padded(layer, self, len(shape)), (layer.size, *shape))
    if not shape:
        return at.expand(at.reshape(whole, (layer.size, 1)), (layer.size, 1)).narrow(1, 0, int(mask))
    return at.index(whole, _columns(mask, shape))


@rule("_masked_put_zeros")
def masked_put_zeros(layer: VmapLayer, op: Operator, grad_output: Any, shape: Any, mask: Any) -> Any:
    """The gradient of `masked_select`."""
    whole = tuple(np.broadcast_shapes(tuple(shape), mask._array.shape))
    grad = layer.full(grad_output)
    if not whole:
        return at.sum(grad, 1)
    return at._index_put_zeros(grad, (layer.size, *whole), _columns(mask, whole))


# %% [markdown]
# ## Tables and images
#
# Embedding tables of many examples stand one behind the other, their numbers shifted. Pooling, padding and resampling work image by image: more images.

# %%
#| into: aten/functorch/batch_rules_modules.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_convolution import into_batch, out_of_batch
from readtorch.aten.functorch.batch_rules_helper import Operator, at, rank_of, rule
from readtorch.aten.functorch.batch_rules_scatter_ops import index
from readtorch.aten.functorch.dynamic_layer import VmapLayer, map_tensors


# %%
#| into: aten/functorch/batch_rules_modules.py
@rule("embedding")
def embedding(layer: VmapLayer, op: Operator, weight: Any, indices: Any, *options: Any) -> Any:
    """Rows of a table that all share, or of each example's own."""
    if not layer.is_batched(weight):
        return op(weight, layer.physical(indices), *options)
    from readtorch.aten.core.dispatch.dispatcher import operators

    return index(layer, Operator(operators["index"], at.index), weight, [indices])


@rule("embedding_dense_backward")
def embedding_backward(
    layer: VmapLayer, op: Operator, grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale: bool
) -> Any:
    """The examples' tables one behind the other, and their numbers shifted so."""
    grad, rows = layer.full(grad_output), layer.full(indices)
    from readtorch.aten.functorch.batch_rules_scatter_ops import _counter

    shifted = rows + _counter(layer, rank_of(indices), rows) * num_weights
    if padding_idx >= 0:
        grad = grad * at._to_copy(at.unsqueeze(at.ne(rows, padding_idx), -1), grad.dtype)
    table = op(grad, shifted, num_weights * layer.size, -1, scale)
    return at.reshape(table, (layer.size, num_weights, -1))


def _dims(op: Operator, values: tuple) -> int:
    """How many dimensions of space a pooling or resampling operator has."""
    names = op.entry.schema.names
    for name in ("kernel_size", "output_size", "size", "bounds"):
        if name in names:
            found = values[names.index(name)]
            return len(found)
    if "dims" in names:
        return values[names.index("dims")]
    return len(values[names.index("pad")]) // 2


@rule("_max_pool", "_max_pool_backward", "_max_pool_indices", "_pool_scatter", "_pool_gather", "_avg_pool", "_avg_pool_backward",
      "_adaptive_avg_pool", "_adaptive_avg_pool_backward", "_windowed_max", "_pad_from_inside", "_pad_from_inside_backward", "_resample",
      "_resample_backward", "im2col", "col2im")  # fmt: skip
def over_images(layer: VmapLayer, op: Operator, *values: Any) -> Any:
    """Image by image: the examples are more images."""
    names = op.entry.schema.names
    space = _dims(op, values)
    first = next(value for value in values if hasattr(value, "_array"))
    merges = rank_of(first) == (3 if op.entry.name == "col2im" else space + 2)
    count = layer.size

    def merged(tensor: Any) -> Any:
        return into_batch(layer.full(tensor)) if merges else layer.full(tensor)

    given = list(map_tensors(merged, values))
    for name in ("input_shape", "shape"):
        if name in names:
            shape = values[names.index(name)]
            given[names.index(name)] = (count * shape[0], *shape[1:]) if merges else (count, *shape)
    return map_tensors(lambda tensor: out_of_batch(tensor, count) if merges else tensor, op(*given))


# %% [markdown]
# ## Randomness
#
# `randomness="different"` draws for all examples at once; "same" draws once, for a tensor of one example's shape; "error", the default, refuses, since a function written for one example does not say which of the two was meant.

# %%
#| into: aten/functorch/batch_rules_randomness.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.functorch.batch_rules_convolution import into_batch, out_of_batch
from readtorch.aten.functorch.batch_rules_helper import Operator, Same, at, rank_of, rule
from readtorch.aten.functorch.dynamic_layer import RANDOM, VmapLayer, map_tensors, tensors_in

# %%
#| into: aten/functorch/batch_rules_randomness.py
RANDOM.update(
    [
        "uniform_",
        "normal_",
        "random_",
        "exponential_",
        "geometric_",
        "log_normal_",
        "cauchy_",
        "_bernoulli_scalar_",
        "_bernoulli_tensor_",
        "bernoulli",
        "poisson",
        "multinomial",
        "binomial",
        "_standard_gamma",
        "_sample_dirichlet",
        "_kept",
        "native_dropout",
        "_rrelu_slopes",
    ]
)


@rule("random")
def random(layer: VmapLayer, op: Operator, *values: Any) -> Any:
    """Numbers of its own for every example, or one draw for all."""
    layer.check_randomness()
    if op.entry.name.endswith("_"):
        return _in_place(layer, op, *values)
    batched = any(layer.is_batched(tensor) for tensor in tensors_in(*values))
    if layer.randomness == "different":
        return _different(layer, op, values)
    if not batched:
        return map_tensors(Same, op(*values))
    if op.entry.name in ("_kept", "native_dropout", "_rrelu_slopes"):  # only the shape is asked of the tensor
        drawn = (
            at._kept(at.select(layer.physical(values[0]), 0, 0), values[1], False)
            if op.entry.name == "native_dropout"
            else None
        )
        if drawn is not None:
            kept = at.ne(drawn, 0)
            return at.native_dropout_backward(layer.physical(values[0]), kept, 1 / (1 - values[1])), Same(kept)
        return Same(op(at.select(layer.physical(values[0]), 0, 0), *values[1:]))
    raise RuntimeError(
        "Vmap does not currently support same randomness with a batched tensor input. Please file an issue"
    )


def _different(layer: VmapLayer, op: Operator, values: tuple) -> Any:
    per_image = op.entry.name == "_kept" and values[2]
    if (op.entry.name == "multinomial" and rank_of(values[0]) == 2) or per_image:
        return out_of_batch(op(*map_tensors(lambda tensor: into_batch(layer.full(tensor)), values)), layer.size)
    return op(*map_tensors(lambda tensor: at.clone(layer.full(tensor)), values))


def _in_place(layer: VmapLayer, op: Operator, target: Any, *rest: Any) -> Any:
    if not layer.is_batched(target):
        if layer.randomness == "different" or any(layer.is_batched(tensor) for tensor in tensors_in(*rest)):
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness: "
                "the tensor holds one draw. Make it of a batched tensor, or draw out of place."
            )
        return Same(op(target, *rest))
    whole = layer.physical(target)
    if layer.randomness == "different":
        op(whole, *map_tensors(layer.full, rest))
    else:
        if any(layer.is_batched(tensor) for tensor in tensors_in(*rest)):
            raise RuntimeError(
                "Vmap does not currently support same randomness with a batched tensor input. Please file an issue"
            )
        at.copy_(whole, op(at.clone(at.select(whole, 0, 0)), *rest))
    return None


# %%
#| claim: under vmap dropout draws a mask for each example, or one for all, and by default is refused
#| needs: 02_module
def _(torch):
    ones = torch.ones(8, 64)
    drop = torch.nn.functional.dropout
    masks = torch.vmap(drop, randomness="different")(ones)
    assert not torch.equal(masks[0], masks[1])
    masks = torch.vmap(drop, randomness="same")(ones)
    assert torch.equal(masks[0], masks[1]) and 0 < (masks == 0).sum() < masks.numel()
    try:
        torch.vmap(drop)(ones)
    except RuntimeError as error:
        assert "randomness" in str(error)
    else:
        raise AssertionError("drawn")


# %%
#| claim: gradients per example of a convolution are those of a loop over the examples
#| needs: 02_module
def _(torch):
    functional = torch.nn.functional
    x = torch.arange(2 * 3 * 6 * 6).reshape(2, 3, 6, 6).double().sin()
    w = torch.arange(4 * 3 * 3 * 3).reshape(4, 3, 3, 3).double().cos()

    def loss(w, image):
        return functional.conv2d(image, w, padding=1).pow(2).sum()

    found = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, x)
    for image, gradient in zip(x, found):
        leaf = w.clone().requires_grad_()
        loss(leaf, image).backward()
        assert torch.allclose(gradient, leaf.grad)
