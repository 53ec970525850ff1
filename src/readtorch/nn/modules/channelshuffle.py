# Tangled from chapters/a2_layers/08_dropout_padding_resizing.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module


class ChannelShuffle(Module):
    """Channels `(g, C / g)` reordered as `(C / g, g)`."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
