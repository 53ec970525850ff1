# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""The old home of mixed precision; deprecated for `torch.amp`."""

import warnings as _warnings
from typing import Any as _Any

from readtorch.amp import GradScaler as _GradScaler
from readtorch.amp import autocast as _autocast
from readtorch.amp import custom_bwd as custom_bwd
from readtorch.amp import custom_fwd as custom_fwd


def _deprecated(name: str) -> None:
    _warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cuda', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(_autocast):
    """`torch.amp.autocast("cuda")`."""

    def __init__(self, enabled: bool = True, dtype: _Any = None, cache_enabled: _Any = True) -> None:
        _deprecated("autocast")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_GradScaler):
    """`torch.amp.GradScaler("cuda")`."""

    def __init__(
        self,
        init_scale: _Any = 2.0**16,
        growth_factor: _Any = 2.0,
        backoff_factor: _Any = 0.5,
        growth_interval: _Any = 2000,
        enabled: bool = True,
    ) -> None:
        _deprecated("GradScaler")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
