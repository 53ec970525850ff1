# Tangled from chapters/a1_operators/nn_7_padding_and_resampling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from readtorch.aten.core.dispatch.dispatcher import derivative, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.tensor_factories import in_suggested_format


@register("channel_shuffle")
def channel_shuffle(self: Array, groups: int) -> Array:
    """Channels `(g, C / g)` reordered as `(C / g, g)` (Zhang et al. 2018)."""
    if len(self.shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(self.shape)}")
    n, c, *size = self.shape
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive, unlike {groups}")
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups, as {c} by {groups} is not.")
    x = self.reshape((n, groups, c // groups, *size))
    return x.swapaxes(1, 2).copy(order="C").reshape((n, c, *size))


results_lie(in_suggested_format, "channel_shuffle")
derivative(
    "channel_shuffle", self=lambda at, grad, self_shape, groups: at.channel_shuffle(grad, self_shape[1] // groups)
)
