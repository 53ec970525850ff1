# Tangled from chapters/a2_layers/07b_loss_in_chunks.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.function import Function
from readtorch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions


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
