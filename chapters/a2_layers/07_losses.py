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
# # Losses
#
# A loss of this file is a function in `nn.functional` and a module that remembers its arguments. `reduction` says what becomes of the
# single losses: `none`, `mean`, `sum`.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %% [markdown]
# ## What do the losses want?
#
# **Scores, or what was made of them?** `cross_entropy` and `binary_cross_entropy_with_logits` want scores, `nll_loss` their log-softmax, `binary_cross_entropy` probabilities. Whoever hands a softmax to `cross_entropy` meets no error: it is taken for scores between 0 and 1, and a perfect prediction among two classes still
# costs 0.31. The model learns, slowly.
#
# **Why not the sigmoid first?** In float32 the sigmoid of 20 is 1. Then the wrong answer costs 100 (a cut, instead of infinity) and its gradient, which must pass through the sigmoid, is 0: the worst mistake teaches nothing. The form that takes scores has a gradient of 1 there.
#
# **Class numbers or probabilities?** The dtype and shape of the target tell. Floats of the shape of the scores are probabilities; floats of any other shape are an error.
#
# **A mean over what?** Over the targets that are not ignored (and over their weights). The mean of the means of two half batches is therefore not the mean of the batch as soon as one half has more padding: this is the error that gradient accumulation had in widely used trainers until late 2024. Use `reduction="sum"` and divide once.


# %%
#| claim: a perfect softmax costs log(1 + 1/e) in cross_entropy; a saturated sigmoid leaves no gradient; the mean of two means is not the mean where targets are ignored
#| upstream: torch/nn/functional.py#cross_entropy
def _(torch):
    import math

    functional = torch.nn.functional
    perfect = torch.tensor([[1.0, 0.0]])
    assert abs(functional.cross_entropy(perfect, torch.tensor([0])).item() - math.log(1 + 1 / math.e)) < 1e-6

    score, wrong = torch.tensor([200.0], requires_grad=True), torch.zeros(1)
    late = functional.binary_cross_entropy(score.sigmoid(), wrong)
    assert late.item() == 100 and torch.autograd.grad(late, score)[0].item() == 0
    early = functional.binary_cross_entropy_with_logits(score, wrong)
    assert early.item() == 200 and torch.autograd.grad(early, score)[0].item() == 1

    scores, targets = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, -100, 1, 1])
    halves = [functional.cross_entropy(scores[part], targets[part]).item() for part in (slice(2), slice(2, 4))]
    assert abs(functional.cross_entropy(scores, targets).item() - sum(halves) / 2) > 0.05
    try:
        functional.cross_entropy(perfect, torch.tensor([0.0]))
    except RuntimeError as error:
        assert "expected target dtype to be Long or Byte" in str(error)
    else:
        raise AssertionError("accepted")


# %% [markdown]
# ## Where is `nll_loss`?
#
# Asked in pytorch/pytorch#10778 about `torch._C._nn.nll_loss`; the answer was to use grep. The calls, step by step: a function of this file turns the word into a number; the operator with `_nd` in its name looks at the number of dimensions; `nll_loss_forward` computes, and has the derivative. The graph shows the last name alone.

# %%
logits, targets = torch.zeros(2, 3, requires_grad=True), torch.tensor([0, 2])

# %%
#| trace: torch.nn.functional torch.aten.native.loss_nll torch.aten.native.soft_max layers=calls,ops values=summary title="cross_entropy: two operators, each with a node"
loss = nn.functional.cross_entropy(logits, targets)

# %%
loss.grad_fn, loss.grad_fn.next_functions[0][0]

# %%
#| fact: torch/nn/functional.py#nll_loss
#| fact: aten/src/ATen/native/LossNLL.cpp#at::native::nll_loss_nd_symint
#| fact: aten/src/ATen/native/native_functions.yaml#nll_loss_nd
#| fact: tools/autograd/derivatives.yaml#nll_loss_forward

# %% [markdown]
# ## Reductions, and the two flags that they replaced

# %%
#| into: nn/_reduction.py
#| imports
from __future__ import annotations

import warnings

# %%
#| into: nn/_reduction.py
#| upstream: torch/nn/_reduction.py#get_enum
_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction. Raises ValueError for an unknown word."""
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
        return 1
    if not isinstance(reduction, str) or reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


# %%
#| into: nn/_reduction.py
#| upstream: torch/nn/_reduction.py#legacy_get_string
def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """What the flags of 0.4 and earlier mean as a word."""
    if reduce is not None and not reduce:
        word = "none"
    else:
        word = "mean" if size_average is None or size_average else "sum"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{word}' instead.", stacklevel=3
        )
    return word


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The number of what the flags of 0.4 and earlier mean."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))


# %% [markdown]
# ## Classification


# %%
#| into: nn/functional.py
#| imports
from readtorch.c10.core.autograd_state import refuse_gradient


# %%
#| into: nn/functional.py
def _reduction_number(size_average: bool | None, reduce: bool | None, reduction: str) -> int:
    return _Reduction.get_enum(_reduction_word(size_average, reduce, reduction))


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#nll_loss
#| upstream: torch/nn/functional.py#cross_entropy
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`-weight[target] · input[target]` of log-probabilities `(N, C, *)` or `(C,)` and classes `(N, *)` or `()`."""
    number = _reduction_number(size_average, reduce, reduction)
    return _nn.nll_loss_nd(input, target, weight, number, ignore_index)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """`nll_loss(log_softmax(input), target)`; a target of the input's shape holds probabilities.

    Raises IndexError for a class outside the range, ValueError where batch sizes differ.
    """
    number = _reduction_number(size_average, reduce, reduction)
    return _nn.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#binary_cross_entropy
#| upstream: torch/nn/functional.py#binary_cross_entropy_with_logits
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`-(t log p + (1 - t) log(1 - p))` of probabilities; logarithms are cut at -100."""
    number = _reduction_number(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated: "
            "reshape() one of them."
        )
    if weight is not None and weight.size() != target.size():
        weight = weight.expand(torch.broadcast_shapes(weight.shape, target.shape))
    if weight is not None:
        refuse_gradient("binary_cross_entropy", weight=weight)
    return _nn.binary_cross_entropy(input, target, weight, number)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy(sigmoid(input), target)`, computed from the logits; `pos_weight` multiplies the positive term."""
    number = _reduction_number(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    if weight is not None or pos_weight is not None:
        refuse_gradient("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


# %% [markdown]
# ## Regression
#
# Shapes that differ are broadcast, with a warning: a prediction `(N, 1)` against a target `(N,)` gives `N²` losses, which nobody means. (Python shows a warning once per line of code, so in a long log it stands at the first step.)


# %%
#| into: nn/functional.py
def _broadcast_pair(input: Tensor, target: Tensor) -> Sequence[Tensor]:
    if target.size() == input.size():
        return input, target
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}), which will likely lead to incorrect results: the two are "
        "broadcast. reshape() one of them.",
        stacklevel=3,
    )
    return torch.broadcast_tensors(input, target)


def _weighted(input: Tensor, losses: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    weighted = losses * weight
    if reduction == "none":
        return weighted
    if reduction == "sum":
        return weighted.sum()
    if reduction == "mean":
        return weighted.sum() / weight.sum()
    raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#mse_loss
#| upstream: torch/nn/functional.py#l1_loss
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """`(input - target)²`; with `weight` the mean is over the weights."""
    x, y = _broadcast_pair(input, target)
    word = _reduction_word(size_average, reduce, reduction)
    number = _Reduction.get_enum(word)
    return _nn.mse_loss(x, y, number) if weight is None else _weighted(input, (x - y) ** 2, weight, word)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """`|input - target|`; with `weight` the mean is over the weights."""
    x, y = _broadcast_pair(input, target)
    word = _reduction_word(size_average, reduce, reduction)
    number = _Reduction.get_enum(word)
    return _nn.l1_loss(x, y, number) if weight is None else _weighted(input, _nn.l1_loss(x, y, 0), weight, word)


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#smooth_l1_loss
#| upstream: torch/nn/functional.py#huber_loss
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """`x² / (2 beta)` where `|x| < beta`, else `|x| - beta / 2`."""
    x, y = _broadcast_pair(input, target)
    return _nn.smooth_l1_loss(x, y, _reduction_number(size_average, reduce, reduction), beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """`x² / 2` where `|x| <= delta`, else `delta (|x| - delta / 2)`; with `weight` the mean is over the weights."""
    x, y = _broadcast_pair(input, target)
    if weight is None:
        return _nn.huber_loss(x, y, _Reduction.get_enum(reduction), delta)
    return _weighted(input, _nn.huber_loss(x, y, 0, delta), weight, reduction)


# %% [markdown]
# ## Distributions


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#kl_div
#| upstream: torch/nn/functional.py#poisson_nll_loss
#| upstream: torch/nn/functional.py#gaussian_nll_loss
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """`target · (log target - input)` of log-probabilities; `batchmean` divides the sum by the batch, as the mathematics does."""
    if isinstance(target, Tensor) and not target.is_floating_point():
        kind = "Complex" if target.is_complex() else "Integral"
        raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    if size_average is not None or reduce is not None:
        number = _Reduction.legacy_get_enum(size_average, reduce)
    else:
        if reduction == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by the number of all elements, so it is not the divergence. "
                "'batchmean' divides by the batch size alone, and is.",
                stacklevel=2,
            )
        number = _Reduction.get_enum("sum" if reduction == "batchmean" else reduction)
    loss = torch.kl_div(input, target, number, log_target=log_target)
    return loss / input.size()[0] if reduction == "batchmean" and input.dim() != 0 else loss


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`exp(input) - target · input`, or `input - target · log(input + eps)`; `full` adds Stirling's term."""
    if size_average is not None or reduce is not None:
        reduction = _Reduction.legacy_get_string(size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return torch.poisson_nll_loss(input, target, log_input, full, eps, _Reduction.get_enum(reduction))


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """`(log var + (input - target)² / var) / 2`, the variance kept above `eps` and that out of the gradient."""
    given: Any = var
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        given = var * torch.ones_like(input)
    elif torch.any(var < 0):
        raise ValueError("var has negative entry/entries")
    if given.size() != input.size():
        if input.size()[:-1] == given.size():
            given = given.unsqueeze(-1)
        else:
            differing = [have for want, have in zip(input.size(), given.size(), strict=False) if want != have]
            if input.dim() != given.dim() or sum(differing) != 1:  # one dimension of it is stretched
                raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    given = given.clone()
    with torch.no_grad():
        given.clamp_(min=eps)
    loss = 0.5 * (torch.log(given) + (input - target) ** 2 / given)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


# %% [markdown]
# ## Margins


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#margin_ranking_loss
#| upstream: torch/nn/functional.py#hinge_embedding_loss
#| upstream: torch/nn/functional.py#cosine_embedding_loss
#| upstream: torch/nn/functional.py#soft_margin_loss
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`max(0, margin - target · (input1 - input2))`, target ±1."""
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension, unlike "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    number = _reduction_number(size_average, reduce, reduction)
    return torch.margin_ranking_loss(input1, input2, target, margin, number)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`input` where target is 1, `max(0, margin - input)` where it is -1."""
    return torch.hinge_embedding_loss(input, target, margin, _reduction_number(size_average, reduce, reduction))


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`1 - cos` where target is 1, `max(0, cos - margin)` where it is -1."""
    number = _reduction_number(size_average, reduce, reduction)
    return torch.cosine_embedding_loss(input1, input2, target, margin, number)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`log(1 + exp(-target · input))`, target ±1."""
    return _nn.soft_margin_loss(input, target, _reduction_number(size_average, reduce, reduction))


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#multi_margin_loss
#| upstream: torch/nn/functional.py#multilabel_margin_loss
#| upstream: torch/nn/functional.py#multilabel_soft_margin_loss
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`Σ max(0, margin - x[target] + x[other])^p / C`."""
    number = _reduction_number(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _nn.multi_margin_loss(input, target, p, margin, weight, number)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The same for several classes per example, listed in `target` up to the first -1."""
    return _nn.multilabel_margin_loss(input, target, _reduction_number(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of binary cross entropies from logits."""
    if size_average is not None or reduce is not None:
        reduction = _Reduction.legacy_get_string(size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    loss = loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#triplet_margin_loss
#| upstream: torch/nn/functional.py#triplet_margin_with_distance_loss
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)`."""
    number = _reduction_number(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with any distance."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors must agree in the number of dimensions, "
            f"not have {anchor.dim()}, {positive.dim()} and {negative.dim()} of them"
        )
    distance = torch.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    loss = torch.clamp_min(margin + near - far, 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


# %% [markdown]
# ## Alignment


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#ctc_loss
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification of `(T, N, C)` log-probabilities (Graves et al. 2006).

    `targets` is `(N, S)` or all targets one after the other. The mean divides each loss by its target's length first.
    """
    number = _Reduction.get_enum(reduction)
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, number, zero_infinity)


# %% [markdown]
# ## The modules

# %%
#| into: nn/modules/loss.py
#| imports
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from readtorch._tensor import Tensor
from readtorch.nn import _reduction as _Reduction
from readtorch.nn import functional as F
from readtorch.nn.modules.distance import PairwiseDistance
from readtorch.nn.modules.module import Module


# %%
#| into: nn/modules/loss.py
#| upstream: torch/nn/modules/loss.py#_Loss
#| upstream: torch/nn/modules/loss.py#_WeightedLoss
class _Loss(Module):
    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            self.reduction = _Reduction.legacy_get_string(size_average, reduce)
        else:
            self.reduction = reduction


class _WeightedLoss(_Loss):
    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


# %%
#| into: nn/modules/loss.py
#| upstream: torch/nn/modules/loss.py#NLLLoss
#| upstream: torch/nn/modules/loss.py#CrossEntropyLoss
class NLLLoss(_WeightedLoss):
    """`F.nll_loss`; `weight` is a buffer."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """An old name of `NLLLoss`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        message = "`NLLLoss2d` has been deprecated: `NLLLoss` does all that it did."
        warnings.warn(message, FutureWarning, stacklevel=2)
        super().__init__(*args, **kwargs)


class CrossEntropyLoss(_WeightedLoss):
    """`F.cross_entropy`; `weight` is a buffer."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


# %%
#| into: nn/modules/loss.py
#| upstream: torch/nn/modules/loss.py#BCELoss
#| upstream: torch/nn/modules/loss.py#BCEWithLogitsLoss
class BCELoss(_WeightedLoss):
    """`F.binary_cross_entropy`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """`F.binary_cross_entropy_with_logits`; both weights are buffers."""

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


# %%
#| into: nn/modules/loss.py
#| upstream: torch/nn/modules/loss.py#L1Loss
#| upstream: torch/nn/modules/loss.py#MSELoss
#| upstream: torch/nn/modules/loss.py#SmoothL1Loss
#| upstream: torch/nn/modules/loss.py#HuberLoss
class L1Loss(_Loss):
    """`F.l1_loss`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """`F.mse_loss`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """`F.smooth_l1_loss`."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """`F.huber_loss`."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, float | int):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


# %%
#| into: nn/modules/loss.py
#| upstream: torch/nn/modules/loss.py#KLDivLoss
#| upstream: torch/nn/modules/loss.py#PoissonNLLLoss
#| upstream: torch/nn/modules/loss.py#GaussianNLLLoss
class KLDivLoss(_Loss):
    """`F.kl_div`."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """`F.poisson_nll_loss`."""

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """`F.gaussian_nll_loss`."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


# %%
#| into: nn/modules/loss.py
#| upstream: torch/nn/modules/loss.py#MarginRankingLoss
#| upstream: torch/nn/modules/loss.py#HingeEmbeddingLoss
#| upstream: torch/nn/modules/loss.py#CosineEmbeddingLoss
#| upstream: torch/nn/modules/loss.py#SoftMarginLoss
class MarginRankingLoss(_Loss):
    """`F.margin_ranking_loss`."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """`F.hinge_embedding_loss`."""

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """`F.cosine_embedding_loss`."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """`F.soft_margin_loss`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


# %%
#| into: nn/modules/loss.py
#| upstream: torch/nn/modules/loss.py#MultiMarginLoss
#| upstream: torch/nn/modules/loss.py#MultiLabelMarginLoss
#| upstream: torch/nn/modules/loss.py#MultiLabelSoftMarginLoss
class MultiMarginLoss(_WeightedLoss):
    """`F.multi_margin_loss`."""

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        rank = 1 if weight is None else weight.dim()
        if rank != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, not {rank}D")
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """`F.multilabel_margin_loss`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """`F.multilabel_soft_margin_loss`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


def _check_margin(loss: _Loss, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{type(loss).__name__}: expected margin to be greater than 0, got {margin} instead")


# %%
#| into: nn/modules/loss.py
#| upstream: torch/nn/modules/loss.py#TripletMarginLoss
#| upstream: torch/nn/modules/loss.py#TripletMarginWithDistanceLoss
class TripletMarginLoss(_Loss):
    """`F.triplet_margin_loss`."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _check_margin(self, margin)
        self.margin, self.swap = margin, swap
        self.p, self.eps = p, eps

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`F.triplet_margin_with_distance_loss`."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average=None, reduce=None, reduction=reduction)
        _check_margin(self, margin)
        self.distance_function: Any = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


# %%
#| into: nn/modules/loss.py
#| upstream: torch/nn/modules/loss.py#CTCLoss
class CTCLoss(_Loss):
    """`F.ctc_loss`."""

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


# %%
#| claim: kl_div's mean divides by batch and support, batchmean by the batch alone
def _(torch):
    import warnings

    log, target = torch.full((2, 4), -1.0), torch.full((2, 4), 0.25)
    kl_div = torch.nn.functional.kl_div
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean = kl_div(log, target)
    assert torch.allclose(mean * 4, kl_div(log, target, reduction="batchmean"))
