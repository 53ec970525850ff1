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
# # A softmax over very many classes
#
# A language model with a vocabulary of a quarter million and a state of 1,024 numbers multiplies 268 million times for a single word, in its last layer alone, and keeps as many weights. A softmax cannot leave classes out: its denominator sums over all. What can be done about it?
#
# Word frequencies are far from equal. The adaptive softmax of Grave et al. (2017) gives the frequent classes a layer of their own, the *head*, and each *band* of rarer ones a smaller one, reached through one entry of the head. The probability of a rare word is a product: that of its band, times its own among the words of the band,
#
# `log p(w) = log_softmax(head)[entry of w's band] + log_softmax(band)[w]`
#
# It is a hierarchical softmax of two levels, cut so that the products are large enough for the hardware.

# %%
import matplotlib.pyplot as plt

import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %%
#| into: nn/modules/adaptive.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.container import ModuleList, Sequential
from readtorch.nn.modules.linear import Linear
from readtorch.nn.modules.module import Module

# %%
#| into: nn/modules/adaptive.py
__all__ = ["AdaptiveLogSoftmaxWithLoss"]


# %%
#| into: nn/modules/adaptive.py
#| upstream: torch/nn/modules/adaptive.py#AdaptiveLogSoftmaxWithLoss
class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probability of the target among `n_classes` sorted by falling frequency (Grave et al. 2017), and the mean loss.

    Input (N, in_features) or (in_features), target (N) or (). ValueError for cutoffs that are not rising integers inside of the classes; RuntimeError in
    `forward` for other shapes and for targets out of range.
    """

    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = all(low < high for low, high in pairwise([0, *cutoffs, n_classes]))
        if not rising or any(int(cutoff) != cutoff for cutoff in cutoffs):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers in increasing order, each between 1 and "
                f"n_classes-1; got {cutoffs} for {n_classes} classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for number, (low, high) in enumerate(pairwise(self.cutoffs), start=1):
            hidden = int(in_features // div_value**number)
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, device=device, dtype=dtype),
                    Linear(hidden, high - low, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw all weights again."""
        self.head.reset_parameters()
        for pair in self.tail:
            for layer in pair.children():
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """`(output, loss)`: the target's log-probability for each row, and minus their mean."""
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target_.dim() == 1 and input_.size(0) != target_.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension, the first.")
        if input_.dim() != target_.dim() + 1:
            wanted = target_.dim() + 1
            raise RuntimeError(
                f"{target_.dim()}D target tensor expects {wanted}D input tensors, but found inputs with size {input_.size()}"
            )
        rows = input_.reshape(-1, input_.size(-1))
        target = target_.reshape(-1)
        if target.numel() and (target.min() < 0 or target.max() >= self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}]; "
                f"values from {target.min().item()} to {target.max().item()} were found. "
            )
        #: The head's class: the target itself, or the entry that stands for its band.
        entry = target.clone()
        inside = rows.new_zeros(target.size(0))
        for number, (low, high) in enumerate(pairwise(self.cutoffs)):
            chosen = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if chosen.numel() == 0:
                continue
            entry = entry.index_fill(0, chosen, self.shortlist_size + number)
            logs = F.log_softmax(self.tail[number](rows.index_select(0, chosen)), dim=1)
            picked = logs.gather(1, (target.index_select(0, chosen) - low).unsqueeze(1)).squeeze(1)
            inside = inside.index_copy(0, chosen, picked)
        output = inside + F.log_softmax(self.head(rows), dim=1).gather(1, entry.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if target_.dim() else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes: (N, in_features) → (N, n_classes)."""
        head = F.log_softmax(self.head(input), dim=1)
        from readtorch import cat

        bands = [head[:, : self.shortlist_size]]
        for number, band in enumerate(self.tail):
            reached = head[:, self.shortlist_size + number].unsqueeze(1)
            bands.append(F.log_softmax(band(input), dim=1) + reached)
        return cat(bands, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each row: (N, in_features) → (N)."""
        return self.log_prob(input).argmax(dim=1)


# %%
#| claim: the adaptive softmax's probabilities sum to one, and forward gives the target's
def _(torch):
    torch.manual_seed(0)
    layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10])
    x, y = torch.randn(5, 8), torch.tensor([0, 3, 4, 12, 19])
    logs = layer.log_prob(x)
    assert torch.allclose(logs.exp().sum(1), torch.ones(5))
    assert torch.allclose(layer(x, y).output, logs.gather(1, y[:, None])[:, 0])


# %% [markdown]
# ## What does a word cost?
#
# A thousand classes, the first twenty in the head. Two entries of the head stand for the bands, the first of which has a quarter of the features and the second a sixteenth.

# %%
layer = nn.AdaptiveLogSoftmaxWithLoss(in_features=64, n_classes=1000, cutoffs=[20, 200])
layer

# %% [markdown]
# `forward` looks at the targets first and runs a band for the rows that need it. A batch of frequent words runs none. Step through a batch of three, two of them in the head and one in the last band: the band in between is passed over, and the last one sees one row.

# %%
x = torch.randn(3, 64)

# %%
#| trace: torch.nn.modules.adaptive torch.nn.modules.linear layers=calls,ops values=summary title="three targets, one of them rare"
layer(x, torch.tensor([3, 640, 17]))

# %% [markdown]
# So the cost depends on the data. Frequencies of words fall like 1/rank (Zipf); with that, and a vocabulary of a quarter million, the products for each word:

# %%
FEATURES, CLASSES, CUTOFFS = 1024, 262_144, [4_000, 40_000, 160_000]
edges = [0, *CUTOFFS, CLASSES]
frequency = 1 / torch.arange(1.0, CLASSES + 1)
frequency /= frequency.sum()
head = FEATURES * (CUTOFFS[0] + len(CUTOFFS))
cost, share = [], []
for number in range(len(edges) - 1):
    low, high = edges[number], edges[number + 1]
    hidden = FEATURES // 4**number
    band = 0 if number == 0 else FEATURES * hidden + hidden * (high - low)
    cost.append((head + band) / 1e6)
    share.append(frequency[low:high].sum().item())
mean = sum(c * s for c, s in zip(cost, share, strict=True))
figure, axes = plt.subplots(figsize=(7, 3))
axes.step(edges, [*cost, cost[-1]], where="post", label="adaptive")
axes.axhline(FEATURES * CLASSES / 1e6, color="0.5", linestyle="--", label="one softmax over all")
axes.axhline(mean, color="C1", linestyle=":", label="adaptive, mean over words")
for low, high, part in zip(edges, edges[1:], share, strict=False):
    axes.text((max(low, 100) * high) ** 0.5, 1.3, f"{part:.0%}", ha="center", fontsize=9)
axes.set_xscale("log")
axes.set_yscale("log")
axes.set_xlim(100, CLASSES)
axes.set_ylim(1, 600)
axes.set_xlabel("rank of the word (share of the text in each band)")
axes.set_ylabel("million products")
axes.legend(frameon=False, fontsize=8, loc="center left")
figure.tight_layout()
print(f"{FEATURES * CLASSES / 1e6 / mean:.0f} times fewer products a word")

# %% [markdown]
# The saving holds where targets are known. `log_prob` and `predict` need the bands of all classes, and cost as much for a frequent word as for a rare one. (`predict` is the argmax of `log_prob` here; upstream asks the head first and computes a band only for the rows in which the band's entry won. Is that the same? If a band's entry is not the largest of the head, none of its words can be: a word has at most its band's probability.)


# %%
#| claim: predict is the argmax over all classes
def _(torch):
    torch.manual_seed(0)
    layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 40, [4, 12], div_value=2.0)
    x = 4 * torch.randn(200, 8)
    predicted = layer.predict(x)
    assert torch.equal(predicted, layer.log_prob(x).argmax(1))
    assert (predicted >= 12).any() and (predicted < 4).any()


# %% [markdown]
# ## What can go wrong?
#
# **Classes in the wrong order.** The layer never counts. It takes class 0 for the most frequent one, and a vocabulary sorted by alphabet trains, slowly, with most of its words in a band of few features.
#
# **Bands without features.** Each band divides the features by `div_value` once more, and rounds down. Where that reaches 0, the band is a matrix of no columns: all its words have the same probability for ever, and nothing says so but a warning about *zero-element tensors* from [the initialiser](../a2_layers/01_init.py).


# %%
#| claim: a band without features gives all its classes one probability
def _(torch):
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 40, [4, 12, 30], div_value=4.0)
    assert any("zero-element" in str(warning.message) for warning in caught)
    assert [band[0].out_features for band in layer.tail] == [2, 0, 0]
    last = layer.log_prob(torch.randn(3, 8))[:, 30:]
    assert torch.allclose(last, last[:, :1].expand(3, 10))


# %% [markdown]
# **Parameters without gradients.** A band that no target of the batch falls into is not in the graph. Its `.grad` stays None, which an optimizer passes over; but an all-reduce that waits for every parameter waits, which is what `find_unused_parameters` of `DistributedDataParallel` is for.


# %%
#| claim: a band that no target falls into gets no gradient at all, not one of zeros
def _(torch):
    layer = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 100, [10, 40])
    layer(torch.randn(4, 16), torch.tensor([1, 20, 2, 3])).loss.backward()
    assert layer.head.weight.grad is not None and layer.tail[0][1].weight.grad is not None
    assert all(parameter.grad is None for parameter in layer.tail[1].parameters())


# %%
#| claim: the loss is cross entropy over the probabilities of all classes, and one example may come without a batch
def _(torch):
    torch.manual_seed(0)
    layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10])
    x, y = torch.randn(5, 8), torch.tensor([0, 3, 4, 12, 19])
    output, loss = layer(x, y)
    assert torch.allclose(loss, torch.nn.functional.nll_loss(layer.log_prob(x), y))
    alone = layer(x[3], y[3])
    assert alone.output.shape == () and torch.allclose(alone.output, output[3])
