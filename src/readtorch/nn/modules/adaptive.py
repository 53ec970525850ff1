# Tangled from chapters/a2_layers/14_adaptive_softmax.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.container import ModuleList, Sequential
from readtorch.nn.modules.linear import Linear
from readtorch.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


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
