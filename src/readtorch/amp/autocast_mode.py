# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""The autocast switch."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import readtorch as torch
from readtorch.c10.core import autograd_state
from readtorch.c10.core.autograd_state import state

_DEVICES = ("cpu", "cuda")
_default_dtype = {"cpu": torch.bfloat16, "cuda": torch.float16}


def is_autocast_available(device_type: str) -> bool:
    """Has this kind of device an autocast list?"""
    return device_type in _DEVICES


def get_autocast_dtype(device_type: str) -> torch.dtype:
    """The low precision that autocast uses on this kind of device."""
    return (state.autocast or {}).get(device_type) or _default_dtype[device_type]


def set_autocast_dtype(device_type: str, dtype: torch.dtype) -> None:
    """Set the low precision for this kind of device."""
    _default_dtype[device_type] = dtype


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Is autocast on in this thread, for this kind of device?"""
    return device_type in (state.autocast or {})


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Switch autocast on or off in this thread; prefer the context manager."""
    modes = {kind: low for kind, low in (state.autocast or {}).items() if kind != device_type}
    if enabled:
        modes[device_type] = _default_dtype[device_type]
    autograd_state.set_special("autocast", modes or None)


def is_autocast_cache_enabled() -> bool:
    """Are casts of parameters remembered in this region, or would they be in the next one?"""
    return state.autocast_cache is not None or not state.autocast


def clear_autocast_cache() -> None:
    """Forget the casts of parameters."""
    if state.autocast_cache is not None:
        state.autocast_cache.clear()


class autocast:
    """Run a block, or a decorated function, in mixed precision on `device_type`.

    `dtype`: the low precision, by default bfloat16 on the CPU and float16 on CUDA. Regions nest; `enabled=False` is a region
    without. With `cache_enabled` a parameter is cast once per outermost region.

    Raises RuntimeError for an unknown device type; UserWarning and no effect where the device or the dtype is missing.
    """

    def __init__(
        self,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(torch.device(device_type).type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = True if cache_enabled is None else cache_enabled
        self._enabled = enabled and self._is_possible()
        self._outer: list[tuple[Any, Any]] = []

    def _is_possible(self) -> bool:
        if self.device == "cuda" and not torch.cuda.is_available():
            warnings.warn("CUDA is not available. Disabling autocast.", stacklevel=3)
            return False
        if self.fast_dtype not in (torch.bfloat16, torch.float16):
            warnings.warn(
                f"In {self.device.upper()} autocast, but the target dtype is not supported. Autocast stays off.\n"
                f"On {self.device.upper()} it can be torch.bfloat16 or torch.float16.",
                stacklevel=3,
            )
            return False
        return True

    def __enter__(self) -> autocast:
        modes = {kind: low for kind, low in (state.autocast or {}).items() if kind != self.device}
        if self._enabled:
            modes[self.device] = self.fast_dtype
        outer = autograd_state.set_special("autocast", modes or None)
        cache = state.autocast_cache
        if not self._cache_enabled:
            autograd_state.set_special("autocast_cache", None)
        elif cache is None:
            autograd_state.set_special("autocast_cache", {})
        self._outer.append((outer, cache))
        return self

    def __exit__(self, *exc: object) -> None:
        outer, cache = self._outer.pop()
        autograd_state.set_special("autocast", outer)
        autograd_state.set_special("autocast_cache", cache)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, not a {type(func).__name__}. "
                "As a context manager it is written `with autocast():`."
            )

        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return decorated


def _cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
    """`value` with the floating tensors of that device in `dtype`; float64 stays."""
    if isinstance(value, torch.Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype is not torch.float64
        return value.to(dtype) if eligible else value
    if isinstance(value, str | bytes | np.ndarray):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_cast(item, device_type, dtype) for item in value)
    if isinstance(value, Iterable):
        return (_cast(item, device_type, dtype) for item in value)
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: torch.dtype | None = None
) -> Callable[..., Any]:
    """Decorator for `forward` of an autograd.Function: note the autocast state, or cast the inputs and run without it."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward = fwd

    @functools.wraps(forward)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        enabled = is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = enabled and cast_inputs is None
        if not enabled or cast_inputs is None:
            return forward(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            kwargs = {key: _cast(value, device_type, cast_inputs) for key, value in kwargs.items()}
            return forward(ctx, *_cast(args, device_type, cast_inputs), **kwargs)

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorator for the matching `backward`: run it in the autocast state of the forward."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward = bwd

    @functools.wraps(backward)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return backward(ctx, *args, **kwargs)

    return decorated
