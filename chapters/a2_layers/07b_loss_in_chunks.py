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
# # The last layer and its loss, in chunks
#
# The logits of a language model are one number per token and word: 8,192 tokens and 128,256 words make 4.2 GB in float32, and the plain way holds their log-softmax and their gradient beside them. Nobody wants any of the three. `linear_cross_entropy`
# takes the last layer's input and weight instead of its output, and can therefore go through the tokens in chunks: the logits of one chunk at a time, used and overwritten.

# %%
import tracemalloc

import matplotlib.pyplot as plt

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Why can the forward pass compute gradients?
#
# A chunk's logits are gone when backward comes. Checkpointing would compute them once more. This loss need not: the derivative of a row's cross entropy by its logits is `softmax(z) - onehot(target)`, which is known as soon as the logits are, and everything below it is two matrix products. So the forward pass finishes the gradients of input, weight and bias
# chunk by chunk, keeps them, and backward multiplies them by one number, the gradient of the scalar loss. Three consequences, all to be seen in the claims below:
#
# * The gradients are consumed. Backward scales the kept buffers in place, so a second backward is an error even with `retain_graph=True`, unless `allow_retain_graph` pays for a copy.
# * There is no second derivative: the gradients carry no graph.
# * `reduction="none"` has no one number. Its backward gets a gradient per row, and computes the chunks again.


# %%
#| into: nn/modules/linear_cross_entropy.py
#| imports
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.function import Function


# %%
#| into: nn/modules/linear_cross_entropy.py
#| upstream: torch/nn/modules/linear_cross_entropy.py#_ChunkContext
class _Head(NamedTuple):
    """The last layer and its loss, and how a batch is cut for them."""

    linear_weight: Tensor  # (classes, in)
    linear_bias: Tensor | None  # (classes,)
    class_weight: Tensor | None  # (classes,)
    reduction: str
    ignore_index: int
    rows: int  # of a chunk
    dtype: torch.dtype  # of logits and sums

    def row_weights(self, target: Tensor) -> tuple[Tensor, Tensor]:
        """The targets as valid indices, and what each row's loss counts, 0 for the ignored ones and 1 in all for a mean."""
        ignored = target == self.ignore_index
        if not 0 <= self.ignore_index < len(self.linear_weight):
            target = target.masked_fill(ignored, 0)
        weights = (
            torch.ones_like(target, dtype=self.dtype)
            if self.class_weight is None
            else self.class_weight.index_select(0, target).to(self.dtype)
        ).masked_fill_(ignored, 0)
        if self.reduction == "mean":
            total = weights.sum()
            weights.div_(total.masked_fill(total == 0, torch.nan))  # nothing counts: nan, as the mean of nothing
        return target, weights

    def chunks(self, input: Tensor, target: Tensor) -> Iterator[tuple[slice, Tensor, Tensor, Tensor, Tensor]]:
        """Each chunk's place and rows, `exp(logits)` up to a factor per row, their sums, and each row's loss."""
        weight = self.linear_weight.to(self.dtype).t()
        bias = None if self.linear_bias is None else self.linear_bias.to(self.dtype)
        buffer = torch.empty(min(self.rows, len(input)), weight.shape[1], dtype=self.dtype, device=input.device)
        for start in range(0, len(input), self.rows):
            place = slice(start, min(start + self.rows, len(input)))
            rows, logits = input[place].to(self.dtype), buffer[: place.stop - start]
            torch.mm(rows, weight, out=logits)
            if bias is not None:
                logits.add_(bias)
            logits.sub_(logits.amax(1, keepdim=True))
            at_target = logits.gather(1, target[place].unsqueeze(1)).squeeze(1)
            total = logits.exp_().sum(1)
            yield place, rows, logits, total, total.log().sub_(at_target)


# %% [markdown]
# The buffer is one for all chunks, as the generator's consumer is done with it when it asks for the next. `_loss_and_gradients` turns it from `exp(logits)` into the gradient of the logits, in place: divide by the sum, subtract one at the target, and count the row as the loss does.


# %%
#| into: nn/modules/linear_cross_entropy.py
#| upstream: torch/nn/modules/linear_cross_entropy.py#_linear_cross_entropy_batch_chunked_accumulator
def _row_losses(head: _Head, input: Tensor, target: Tensor) -> Tensor:
    """The loss of each row, `(N,)`."""
    target, weights = head.row_weights(target)
    losses = torch.empty_like(target, dtype=input.dtype)
    for place, _, _, _, loss in head.chunks(input, target):
        losses[place] = loss.mul_(weights[place])
    return losses


def _loss_and_gradients(
    head: _Head, input: Tensor, target: Tensor, wanted: tuple[bool, ...], grad_rows: Tensor | None = None
) -> tuple[Tensor, list[Tensor | None]]:
    """The sum of all rows' losses, and its gradients by input, weight and bias, those that are wanted.

    `grad_rows`, of shape `(N,)`, weighs the rows further: backward of a loss that was not reduced.
    """
    target, weights = head.row_weights(target)
    if grad_rows is not None:
        weights.mul_(grad_rows)
    shapes = (input.shape, head.linear_weight.shape, head.linear_weight.shape[:1])
    by_input, by_weight, by_bias = (
        torch.zeros(shape, dtype=head.dtype, device=input.device) if want else None
        for shape, want in zip(shapes, wanted, strict=True)
    )
    wide = head.linear_weight.to(head.dtype)
    loss = torch.zeros((), dtype=head.dtype, device=input.device)
    if head.reduction == "mean" and not len(input):
        loss.fill_(torch.nan)
    for place, rows, softmax, total, losses in head.chunks(input, target):
        counted = weights[place]
        loss.add_(losses.dot(counted))
        if not any(wanted):
            continue
        softmax.mul_(counted.div(total).unsqueeze(1))
        softmax.scatter_add_(1, target[place].unsqueeze(1), counted.neg().unsqueeze(1))
        if by_input is not None:
            torch.mm(softmax, wide, out=by_input[place])
        if by_weight is not None:
            by_weight.addmm_(softmax.t(), rows)
        if by_bias is not None:
            by_bias.add_(softmax.sum(0))
    gradients = [None if g is None else g.to(input.dtype) for g in (by_input, by_weight, by_bias)]
    return loss.to(input.dtype), gradients


# %%
#| into: nn/modules/linear_cross_entropy.py
#| upstream: torch/nn/modules/linear_cross_entropy.py#_linear_cross_entropy_batch_chunked
class _LossInChunks(Function):
    """A scalar loss whose forward pass computes the gradients as well."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        linear_weight: Tensor,
        linear_bias: Tensor | None,
        target: Tensor,
        head: _Head,
        wanted: tuple[bool, ...],
        keep: bool,
    ) -> Tensor:
        loss, ctx.gradients = _loss_and_gradients(head, input, target, wanted)
        ctx.keep = keep
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if ctx.gradients is None:
            raise RuntimeError(
                "linear_cross_entropy: backward called twice; in chunks, retain_graph=True needs "
                "LinearCrossEntropyOptions(allow_retain_graph=True)"
            )
        scaled = [None if g is None else g * grad if ctx.keep else g.mul_(grad) for g in ctx.gradients]
        if not ctx.keep:
            ctx.gradients = None
        return (*scaled, None, None, None, None)


# %%
#| into: nn/modules/linear_cross_entropy.py
#| upstream: torch/nn/modules/linear_cross_entropy.py#_linear_cross_entropy_batch_chunked_no_reduction
class _RowLossesInChunks(Function):
    """The losses of all rows; backward goes through the chunks again."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, linear_weight: Tensor, linear_bias: Tensor | None, target: Tensor, head: _Head
    ) -> Tensor:
        ctx.head = head
        ctx.save_for_backward(input, linear_weight, linear_bias, target)
        return _row_losses(head, input, target)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        input, linear_weight, linear_bias, target = ctx.saved_tensors
        head = ctx.head._replace(linear_weight=linear_weight, linear_bias=linear_bias)
        with torch.no_grad():
            _, gradients = _loss_and_gradients(head, input, target, ctx.needs_input_grad[:3], grad.to(head.dtype))
        return (*gradients, None, None)


# %% [markdown]
# ## How long is a chunk, and in which precision?
#
# The chunk's logits shall take no more memory than the input has already taken: of `N` rows, `N / ceil(classes / in)`, rounded up to a power of two, by default halved once more. For the model above, with 4,096 features, 8,192 rows become chunks of 128 and 4.2 GB become 66 MB. For a layer that has fewer classes than features there is one chunk, and nothing is won.
#
# Logits in half precision are widened to float32 when `acc_dtype` says so, or with `acc_policy="auto"` by default. Upstream's three policies differ in which of the intermediate results are held in `acc_dtype`, a trade of memory against accuracy that pays where the hardware multiplies half precision into float32. NumPy's `matmul` does not, so that here all intermediate results are in `acc_dtype`, as with upstream's `"accurate"`, which it picks on a CPU.


# %%
#| into: nn/modules/linear_cross_entropy_options.py
#| imports
from __future__ import annotations

import dataclasses

import readtorch as torch
from readtorch._tensor import Tensor

# %%
#| into: nn/modules/linear_cross_entropy_options.py
#| upstream: torch/nn/modules/linear_cross_entropy_options.py#LinearCrossEntropyOptions
__all__ = ["LinearCrossEntropyOptions"]

_HALVES = (torch.float16, torch.bfloat16)


def _parts(method: str) -> int:
    """By how much `"aspect_ratio"` or `"aspect_ratio:parts"` divides a chunk. Raises ValueError for another word."""
    name, colon, parts = method.partition(":")
    if name != "aspect_ratio" or (colon and not (parts.isdigit() and int(parts) > 0)):
        raise ValueError(f"invalid chunking_method: {method!r}")
    return int(parts or 1)


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` cuts the batch and how precisely it sums; checked when made, with ValueError."""

    allow_retain_graph: bool = False
    """Keep the gradients after backward, which costs a copy of them."""
    batch_chunk_size: int | None = None
    """Rows of a chunk; None leaves it to `chunking_method`."""
    chunking_method: str | None = "auto"
    """`"aspect_ratio"`, `"aspect_ratio:parts"`, `"auto"`, or None: all rows at once."""
    acc_policy: str = "auto"
    """`"auto"`, `"accurate"`, `"balanced"` or `"compact"`."""
    acc_dtype: torch.dtype | None = None
    """Of logits and sums: float32 for inputs in half precision, else the input's."""

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            _parts(self.chunking_method)
        rows = self.batch_chunk_size
        if rows is not None and not (isinstance(rows, int) and rows > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {rows!r}")
        if self.acc_dtype not in (None, *_HALVES, torch.float32, torch.float64):
            raise ValueError(f"acc_dtype must be one of the floating-point dtypes or None, got {self.acc_dtype!r}")

    def _rows(self, input: Tensor, classes: int) -> int:
        """The rows of a chunk of `input`, at least one. Raises ValueError if the size and the method disagree."""
        batch, features = input.shape
        method = self.chunking_method
        if method == "auto":
            on_cpu = input.dtype in _HALVES and input.device.type == "cpu"
            method = "aspect_ratio" if on_cpu else "aspect_ratio:2"
            if self.batch_chunk_size is not None:
                method = None
        if method is None:
            return max(1, batch if self.batch_chunk_size is None else min(self.batch_chunk_size, batch))
        share = -(-batch // -(-classes // features))
        rows = min((1 << (share - 1).bit_length()) // _parts(method), batch)
        if self.batch_chunk_size not in (None, rows):
            raise ValueError(
                f"batch_chunk_size (={self.batch_chunk_size}) and chunking_method ({method!r}) give different chunk sizes "
                f"({self.batch_chunk_size} vs {rows}); pass only one"
            )
        return max(1, rows)

    def _dtype(self, input: Tensor) -> torch.dtype:
        """The dtype of logits and sums. Raises RuntimeError for a pair that no chunk is computed in."""
        wide = self.acc_policy == "auto" and input.dtype in _HALVES
        dtype = self.acc_dtype or (torch.float32 if wide else input.dtype)
        if dtype != input.dtype and not (dtype == torch.float32 and input.dtype in _HALVES):
            raise RuntimeError(
                "linear_cross_entropy supports float32 acc_dtype with float16/bfloat16 inputs, "
                f"but got {dtype} acc_dtype and {input.dtype} inputs."
            )
        return dtype


# %%
#| into: nn/modules/linear_cross_entropy.py
#| imports
from readtorch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions


# %%
#| into: nn/modules/linear_cross_entropy.py
def in_chunks(
    input: Tensor,
    linear_weight: Tensor,
    linear_bias: Tensor | None,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    options: LinearCrossEntropyOptions,
) -> Tensor:
    """The loss of `(N, in)` inputs and `(N,)` class numbers, without all logits at once."""
    rows, dtype = options._rows(input, len(linear_weight)), options._dtype(input)
    head = _Head(linear_weight, linear_bias, weight, reduction, ignore_index, rows, dtype)
    if reduction == "none":
        return _RowLossesInChunks.apply(input, linear_weight, linear_bias, target, head)
    tensors = (input, linear_weight, linear_bias)
    wanted = tuple(torch.is_grad_enabled() and t is not None and t.requires_grad for t in tensors)
    return _LossInChunks.apply(input, linear_weight, linear_bias, target, head, wanted, options.allow_retain_graph)


# %% [markdown]
# What the chunks do not cover, label smoothing, probabilities as targets, further dimensions of the loss, is computed the plain way, with a warning that the options were ignored.


# %%
#| into: nn/functional.py
#| imports
from readtorch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#linear_cross_entropy
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)` of `(N, in)` or `(in,)`, with `(C, *, in)` weights.

    `ignore_index` is -100 for class numbers, and refused for probabilities. With `options`, it goes through the batch in
    chunks: one derivative, class numbers, no label smoothing, weights of two dimensions.
    """
    _check_linear_cross_entropy(input, linear_weight, linear_bias)
    classes, sizes = linear_weight.shape[0], tuple(linear_weight.shape[1:-1])
    if target.shape == (*input.shape[:-1], classes, *sizes) and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignore_index = -100 if ignore_index is None else ignore_index
    if options is not None:
        if not sizes and label_smoothing == 0 and target.dtype == torch.int64 and reduction in ("mean", "sum", "none"):
            from readtorch.nn.modules.linear_cross_entropy import in_chunks

            one = input.dim() == 1
            rows, targets = (input.unsqueeze(0), target.unsqueeze(0)) if one else (input, target)
            loss = in_chunks(rows, linear_weight, linear_bias, targets, weight, reduction, ignore_index, options)
            return loss.squeeze(0) if one else loss
        warnings.warn(
            "linear_cross_entropy: options ignored; chunks need reduction in {'mean', 'sum', 'none'}, label_smoothing == 0, "
            f"target.dtype == int64 and out_features == (). Got {reduction=}, {label_smoothing=}, "
            f"target.dtype={target.dtype}, out_features={sizes}.",
            stacklevel=2,
        )
    if sizes:
        linear_weight = linear_weight.reshape(-1, input.shape[-1])
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight, linear_bias)
    return cross_entropy(
        logits.reshape(*input.shape[:-1], classes, *sizes) if sizes else logits,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _check_linear_cross_entropy(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {weight.dim()}")
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.shape[-1]} and {weight.shape[-1]}, respectively"
        )
    if bias is not None and bias.shape != weight.shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {tuple(weight.shape[:-1])}, got {tuple(bias.shape)}")
    if weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), not {tuple(input.shape)}"
        )


# %%
#| into: nn/modules/loss.py
#| imports
import math

from readtorch.nn.modules.linear import Linear
from readtorch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions


# %%
#| into: nn/modules/loss.py
#| upstream: torch/nn/modules/loss.py#LinearCrossEntropyLoss
class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer and the cross entropy of what it gives; `out_features` are further dimensions of the loss."""

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        shape = (num_classes,) if weight is None else tuple(weight.shape)
        if shape != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {shape}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.num_classes, self.out_features = num_classes, out_features
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.linear = Linear(in_features, math.prod((num_classes, *out_features)), bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if self.linear.bias is None else self.linear.bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        named = {
            "in_features": self.linear.in_features,
            "num_classes": self.num_classes,
            "out_features": self.out_features,
            "bias": self.linear.bias is not None,
            "reduction": self.reduction,
            "ignore_index": self.ignore_index,
            "label_smoothing": self.label_smoothing,
            "options": self.options,
        }
        return ", ".join(f"{name}={value}" for name, value in named.items())


# %%
#| claim: the loss in chunks has the gradients of the plain one; a second backward is refused, unless they were kept
def _(torch):
    F, nn = torch.nn.functional, torch.nn
    torch.manual_seed(0)
    x = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(20, 4, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([3, 19, -100, 0, 3, 7, 11])

    def gradients(options):
        loss = F.linear_cross_entropy(x, w, target, options=options)
        return loss, torch.autograd.grad(loss, (x, w), retain_graph=True)

    plain, by_logits = gradients(None)
    for kept in (False, True):
        loss, by_chunks = gradients(nn.LinearCrossEntropyOptions(batch_chunk_size=2, allow_retain_graph=kept))
        assert torch.allclose(loss, plain)
        assert all(torch.allclose(a, b) for a, b in zip(by_chunks, by_logits, strict=True))
        try:
            torch.autograd.grad(loss, (x, w))
        except RuntimeError as error:
            assert not kept and "called twice" in str(error)
        else:
            assert kept


# %% [markdown]
# ## What is saved?
#
# The highest point of the memory in use beyond weights and input, in one forward and backward pass of 512 rows of 64 features and 4,096 classes:

# %%
ROWS, FEATURES, CLASSES = 512, 64, 4096


def peak(options):
    """Megabytes at the highest point of one forward and backward pass."""
    torch.manual_seed(0)
    head = torch.nn.LinearCrossEntropyLoss(FEATURES, CLASSES, options=options)
    x, target = torch.randn(ROWS, FEATURES, requires_grad=True), torch.randint(CLASSES, (ROWS,))
    tracemalloc.start()
    try:
        head(x, target).backward()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


sizes = [512, 256, 128, 64, 32, 16, 8]
chunked = [peak(torch.nn.LinearCrossEntropyOptions(batch_chunk_size=rows)) for rows in sizes]
figure, axes = plt.subplots(figsize=(7, 3))
axes.axhline(peak(None), color="0.5", linestyle="--", label="all logits")
axes.plot(sizes, chunked, marker="o", label="in chunks")
axes.set_xscale("log", base=2)
axes.set_xlabel("rows of a chunk")
axes.set_ylabel("MB at the peak")
axes.set_ylim(0)
axes.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# One chunk of all rows already takes less than the plain way, which holds logits, their logarithms and their gradient at once; the buffer here is all three in turn, beside it only the product that is copied into it. Below some 16 rows nothing more is gained: what remains is the gradient of the weight, which is as large as the weight.
