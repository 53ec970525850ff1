# Tangled from chapters/a1_operators/nn_7_padding_and_resampling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.core.dispatch.operator_entry import Array


@composite("channel_shuffle")
def channel_shuffle(at: Any, self: Array, groups: int) -> Any:
    """Channels `(g, C / g)` reordered as `(C / g, g)` (Zhang et al. 2018)."""
    if len(self.shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(self.shape)}")
    n, c, *size = self.shape
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive, unlike {groups}")
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups, as {c} by {groups} is not.")
    x = at.reshape(self, (n, groups, c // groups, *size))
    return at.reshape(at.transpose(x, 1, 2), (n, c, *size))
