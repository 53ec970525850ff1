# Tangled from chapters/a1_operators/nn_7_padding_and_resampling.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.core.dispatch.operator_entry import Array


@composite("pixel_shuffle")
def pixel_shuffle(at: Any, self: Array, upscale_factor: int) -> Any:
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
    x = at.reshape(self, (*lead, c // (r * r), r, r, h, w))
    x = at.permute(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return at.reshape(x, (*lead, c // (r * r), h * r, w * r))


@composite("pixel_unshuffle")
def pixel_unshuffle(at: Any, self: Array, downscale_factor: int) -> Any:
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
    x = at.reshape(self, (*lead, c, h // r, r, w // r, r))
    x = at.permute(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return at.reshape(x, (*lead, c * r * r, h // r, w // r))
