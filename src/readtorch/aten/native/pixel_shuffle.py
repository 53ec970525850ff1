# Tangled from chapters/a1_operators/nn_7_padding_and_resampling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from readtorch.aten.core.dispatch.dispatcher import derivative, register, results_lie
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.tensor_factories import in_suggested_format


@register("pixel_shuffle")
def pixel_shuffle(self: Array, upscale_factor: int) -> Array:
    """`(*, C r², H, W)` to `(*, C, H r, W r)`."""
    r = upscale_factor
    if len(self.shape) < 3:
        raise RuntimeError(f"pixel_shuffle expects input to have at least 3 dimensions; it has {len(self.shape)}")
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = self.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={c} is not divisible by {r * r}"
        )
    n = len(lead)
    x = self.reshape((*lead, c // (r * r), r, r, h, w))
    x = x.transpose((*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return x.copy(order="C").reshape((*lead, c // (r * r), h * r, w * r))


results_lie(in_suggested_format, "pixel_shuffle")
derivative("pixel_shuffle", self=lambda at, grad, upscale_factor: at.pixel_unshuffle(grad, upscale_factor))


@register("pixel_unshuffle")
def pixel_unshuffle(self: Array, downscale_factor: int) -> Array:
    """`(*, C, H r, W r)` to `(*, C r², H, W)`."""
    r = downscale_factor
    if len(self.shape) < 3:
        raise RuntimeError(f"pixel_unshuffle expects input to have at least 3 dimensions; it has {len(self.shape)}")
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = self.shape
    for name, size in (("height", h), ("width", w)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but {size} is not by {r}"
            )
    n = len(lead)
    x = self.reshape((*lead, c, h // r, r, w // r, r))
    x = x.transpose((*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return x.copy(order="C").reshape((*lead, c * r * r, h // r, w // r))


results_lie(in_suggested_format, "pixel_unshuffle")
derivative("pixel_unshuffle", self=lambda at, grad, downscale_factor: at.pixel_shuffle(grad, downscale_factor))
