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
# # Names that a script touches before it computes anything
#
# Most training scripts begin with a paragraph of switches: how many threads, whether there is a GPU, what cuDNN may do. They have to work on a machine that has none of it, and upstream's CPU build shows how: questions are answered (`False`, `0`), requests that
# make no sense are ignored, and whatever would need the device raises `Torch not compiled with CUDA enabled`.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: __init__.py
_MODULES += ["accelerator", "amp", "as_torch", "backends", "cuda"]
_NAMES.update(
    {
        "autocast": "amp.autocast_mode",
        "get_autocast_dtype": "amp.autocast_mode",
        "is_autocast_cache_enabled": "amp.autocast_mode",
        "is_autocast_enabled": "amp.autocast_mode",
        "set_autocast_dtype": "amp.autocast_mode",
        "set_autocast_enabled": "amp.autocast_mode",
        "clear_autocast_cache": "amp.autocast_mode",
        "GradScaler": "amp.grad_scaler",
        "are_deterministic_algorithms_enabled": "aten.context",
        "get_deterministic_debug_mode": "aten.context",
        "get_float32_matmul_precision": "aten.context",
        "is_deterministic_algorithms_warn_only_enabled": "aten.context",
        "set_deterministic_debug_mode": "aten.context",
        "set_float32_matmul_precision": "aten.context",
        "use_deterministic_algorithms": "aten.context",
        "is_warn_always_enabled": "c10.util.exception",
        "set_warn_always": "c10.util.exception",
    }
)

# %% [markdown]
# ## Switches: deterministic, precise, fast
#
# NumPy's results on one machine do not vary from run to run, and its float32 products are float32 products. So these switches are remembered and change nothing; `use_deterministic_algorithms` in particular has nothing to forbid.

# %%
#| into: backends/__init__.py
"""Settings of the libraries behind the operators, as far as scripts ask for them."""

from readtorch.backends import cuda as cuda
from readtorch.backends import cudnn as cudnn
from readtorch.backends import mkl as mkl
from readtorch.backends import mkldnn as mkldnn
from readtorch.backends import mps as mps
from readtorch.backends import openmp as openmp

# %%
#| into: aten/context.py
"""Switches that are remembered: nothing here computes differently for them (twin of `aten/src/ATen/Context.h`)."""

# %%
#| into: aten/context.py
#| imports
from __future__ import annotations

import warnings

# %%
#| into: aten/context.py
#| upstream: torch/__init__.py#use_deterministic_algorithms
_deterministic = {"mode": False, "warn_only": False}
_precision = "highest"
_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for algorithms that give the same result every time; all of readtorch's do."""
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument '{name}' must be bool, not {type(value).__name__}"
            )
    _deterministic.update(mode=mode, warn_only=warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Was it asked for?"""
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Was it asked for with `warn_only`?"""
    return _deterministic["warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same by number or name: 0 or default, 1 or warn, 2 or error."""
    mode = _DEBUG_MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0 or `default`, 1 or `warn`, 2 or `error`, but got {debug_mode}"
        )
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2."""
    if not _deterministic["mode"]:
        return 0
    return 1 if _deterministic["warn_only"] else 2


def set_float32_matmul_precision(precision: str) -> None:
    """highest, high or medium. Remembered; products of float32 are computed in float32."""
    global _precision
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in ("highest", "high", "medium"):
        warnings.warn(f"{precision} is not one of 'highest', 'high', or 'medium': nothing is set", stacklevel=2)
        return
    _precision = precision


def get_float32_matmul_precision() -> str:
    """What was set."""
    return _precision


# %%
#| into: backends/cudnn/__init__.py
"""cuDNN's switches. There is none: they are remembered."""

from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"
depthwise_kernel = "auto"


def is_available() -> bool:
    """False: convolutions are computed without cuDNN."""
    return False


def version() -> None:
    """None: there is no cuDNN."""


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
    _depthwise_kernel: str | None = None,
) -> tuple[bool, bool, int | None, bool, bool, str, str]:
    """Set the switches that are not None, and return all as they were."""
    names = (
        "enabled",
        "benchmark",
        "benchmark_limit",
        "deterministic",
        "allow_tf32",
        "fp32_precision",
        "depthwise_kernel",
    )
    wanted = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision, _depthwise_kernel)
    before = tuple(globals()[name] for name in names)
    globals().update({name: value for name, value in zip(names, wanted, strict=True) if value is not None})
    return (*before[:2], before[2] if is_available() else None, *before[3:])


@_contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
    depthwise_kernel: str = "auto",
) -> _Iterator[None]:
    """Other switches for a block: `with torch.backends.cudnn.flags(enabled=False):`."""
    limit = globals()["benchmark_limit"]
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision, depthwise_kernel)
    try:
        yield
    finally:
        set_flags(*before)
        globals()["benchmark_limit"] = limit


# %%
#| claim: the switches of cuDNN can be set for a block, and are then as they were
def _(torch):
    cudnn = torch.backends.cudnn
    before = cudnn.enabled, cudnn.benchmark, cudnn.benchmark_limit, cudnn.deterministic, cudnn.allow_tf32
    with cudnn.flags(enabled=False, deterministic=True):
        assert not cudnn.enabled and cudnn.deterministic
    assert (cudnn.enabled, cudnn.benchmark, cudnn.benchmark_limit, cudnn.deterministic, cudnn.allow_tf32) == before
    was = cudnn.set_flags(_benchmark=True)
    assert cudnn.benchmark and was[:2] == before[:2]
    cudnn.set_flags(*was)
    assert cudnn.benchmark == before[1]


# %%
#| into: backends/cuda/__init__.py
"""Switches of the CUDA backend."""

import types

matmul = types.SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
)


def is_built() -> bool:
    """Whether the package was made with CUDA; it has no compiled parts at all."""
    return False


# %%
#| into: backends/mps/__init__.py
"""Apple's Metal."""


def is_available() -> bool:
    """False: there is no such backend here."""
    return False


def is_built() -> bool:
    """False: there is no such backend here."""
    return False


# %%
#| into: backends/mkl/__init__.py
"""Intel's math library."""


def is_available() -> bool:
    """False: NumPy brings the BLAS library that is used."""
    return False


# %%
#| into: backends/mkldnn/__init__.py
"""Intel's oneDNN, once called MKL-DNN."""


def is_available() -> bool:
    """False: there is no such backend here."""
    return False


# %%
#| into: backends/openmp/__init__.py
"""OpenMP."""


def is_available() -> bool:
    """False: operators are not parallelised with OpenMP here."""
    return False


# %% [markdown]
# ## The old names of mixed precision

# %%
#| into: cuda/amp/__init__.py
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


# %% [markdown]
# ## `torch.accelerator`: the same questions, whatever the device

# %%
#| into: accelerator/__init__.py
"""The current accelerator, of whatever kind (twin of `torch/accelerator/__init__.py`)."""

from typing import Any as _Any

from readtorch import cuda as _cuda


def is_available() -> bool:
    """Is there an accelerator?"""
    return _cuda.is_available()


def device_count() -> int:
    """How many there are."""
    return _cuda.device_count()


def current_accelerator(check_available: bool = False) -> _Any:
    """The kind of accelerator as a device without index, or None."""
    if not _cuda.is_available():
        return None
    from readtorch import device

    return device("cuda")


def _need_one() -> None:
    if not _cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def current_device_index() -> int:
    """The number of the current device. RuntimeError without one."""
    _need_one()
    return _cuda.current_device()


def set_device_index(device: _Any, /) -> None:
    """Make a device the current one. RuntimeError without one."""
    _need_one()
    _cuda.set_device(device)


def synchronize(device: _Any = None, /) -> None:
    """Wait for the device. RuntimeError without one."""
    _need_one()
    _cuda.synchronize(device)


# %%
#| claim: a build without CUDA answers questions, ignores seeds, and raises where the device is needed
def _(torch):
    if torch.cuda.is_available():
        return
    torch.cuda.manual_seed_all(1)
    assert torch.cuda.device_count() == 0 and torch.cuda.memory_allocated() == 0
    try:
        torch.cuda.current_device()
    except AssertionError as error:
        assert "not compiled with CUDA" in str(error)
    else:
        raise AssertionError("there is a current device")


# %% [markdown]
# ## Mixed precision: autocast is a dispatch key
#
# Inside `autocast` the operators on one list (matrix products, convolutions) get their inputs in the low precision, those on another (on CUDA exponentials, sums, losses; on the CPU losses only) in float32. No operator knows of it: the cast happens above the kernel, in the table's `Autocast`
# column. What is here is the switch.

# %%
#| into: amp/__init__.py
"""Mixed precision (twin of `torch/amp/`)."""

from readtorch.amp.autocast_mode import autocast as autocast
from readtorch.amp.autocast_mode import custom_bwd as custom_bwd
from readtorch.amp.autocast_mode import custom_fwd as custom_fwd
from readtorch.amp.autocast_mode import is_autocast_available as is_autocast_available
from readtorch.amp.grad_scaler import GradScaler as GradScaler

# %%
#| into: amp/autocast_mode.py
"""The autocast switch."""

# %%
#| into: amp/autocast_mode.py
#| imports
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import readtorch as torch
from readtorch.c10.core import autograd_state
from readtorch.c10.core.autograd_state import state

# %%
#| into: amp/autocast_mode.py
#| upstream: torch/amp/autocast_mode.py#autocast
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


# %%
#| into: amp/autocast_mode.py
#| upstream: torch/amp/autocast_mode.py#custom_fwd
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


# %%
with torch.autocast("cpu", dtype=torch.bfloat16):
    product = torch.ones(2, 2) @ torch.ones(2, 2)
    print(product.dtype, product.exp().dtype)


# %%
#| claim: autocast on the CPU computes products in bfloat16 and leaves softmax in it; only losses and prod are on its float32 list
#| needs: a2_layers
def _(torch):
    low = torch.ones(2, 2, dtype=torch.bfloat16)
    with torch.autocast("cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        assert torch.softmax(low, 1).dtype == torch.bfloat16 and torch.exp(low).dtype == torch.bfloat16
        assert torch.prod(low).dtype == torch.float32
        assert torch.nn.functional.mse_loss(low, low).dtype == torch.float32
        with torch.autocast("cpu", enabled=False):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


# %% [markdown]
# ## GradScaler: small gradients survive half precision
#
# A float16 gradient below $6\cdot10^{-8}$ is zero. So the loss is multiplied by a large number before backward and the gradients divided by it before the step; if one of them is infinite the step is skipped and the number halved, and after 2,000 good steps it is doubled.

# %%
#| into: amp/grad_scaler.py
"""Loss scaling for float16 training."""

# %%
#| into: amp/grad_scaler.py
#| imports
from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

import readtorch as torch


# %%
#| into: amp/grad_scaler.py
#| upstream: torch/amp/grad_scaler.py#GradScaler
class OptState(Enum):
    """What has happened to an optimizer since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scales losses, unscales gradients, and adapts the scale.

    Use: `scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()`. Disabled (also: no CUDA for device "cuda",
    with a UserWarning) every call passes through.
    """

    _scale: torch.Tensor | None
    _growth_tracker: torch.Tensor | None

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        missing = enabled and device == "cuda" and not torch.cuda.is_available()
        if missing:
            warnings.warn("GradScaler is enabled, but CUDA is not available: it scales nothing.", stacklevel=2)
        self._device, self._enabled = device, enabled and not missing
        if not self._enabled:
            return
        if not backoff_factor < 1.0 < growth_factor:
            wrong = "backoff factor must be < 1.0" if growth_factor > 1.0 else "growth factor must be > 1.0"
            raise AssertionError(f"The {wrong}.")
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        #: Tensors from the first loss on, whose device they are made on.
        self._scale = self._growth_tracker = None
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_fresh)

    def is_enabled(self) -> bool:
        """Does it scale at all?"""
        return self._enabled

    def get_scale(self) -> float:
        """The present scale; 1 when disabled. Waits for the device."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _need_scale(self, caller: str) -> torch.Tensor:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {caller} but _scale is None: scaler.scale(loss) makes it, and has not been called yet."
            )
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """A tensor, or every tensor of a container, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, torch.Tensor):
            if self._scale is None:
                self._scale = torch.full((), self._init_scale, dtype=torch.float32, device=outputs.device)
                self._growth_tracker = torch.full(
                    (), self._init_growth_tracker, dtype=torch.int32, device=outputs.device
                )
            return outputs * self._scale.to(outputs.device, non_blocking=True)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, list | tuple) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the optimizer's gradients by the scale now, to clip or inspect them before `step`.

        Raises RuntimeError if done twice, or after `step`; ValueError for float16 gradients.
        """
        if not self._enabled:
            return
        scale = self._need_scale("unscale_")
        record = self._per_optimizer_states[id(optimizer)]
        if record["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer: once between two update()s.")
        if record["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = 1.0 / scale.double().item()
        found: dict[Any, torch.Tensor] = {}
        with torch.no_grad():
            for param in (p for group in optimizer.param_groups for p in group["params"]):
                if param.grad is None:
                    continue
                if param.grad.dtype == torch.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                infinite = found.setdefault(param.grad.device, torch.zeros((), device=param.grad.device))
                if not bool(torch.isfinite(param.grad).all()):
                    infinite.fill_(1.0)
                param.grad.mul_(inverse)
        record["found_inf_per_device"] = found
        record["stage"] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale unless done, and run `optimizer.step` if every gradient is finite. Returns its result, or None."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._need_scale("step")
        record = self._per_optimizer_states[id(optimizer)]
        if record["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if record["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not record["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if not any(value.item() for value in record["found_inf_per_device"].values()):
            result = optimizer.step(*args, **kwargs)
        record["stage"] = OptState.STEPPED
        return result


# %%
#| into: amp/grad_scaler.py
#| upstream: torch/amp/grad_scaler.py#GradScaler.update
class GradScaler(GradScaler):
    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Back off after an infinite gradient, grow after `growth_interval` steps without; or set `new_scale`."""
        if not self._enabled:
            return
        scale = self._need_scale("update")
        assert self._growth_tracker is not None
        if new_scale is not None:
            scale.fill_(float(new_scale))
        else:
            found = [
                value.item()
                for record in self._per_optimizer_states.values()
                for value in record["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(found):
                scale.mul_(self._backoff_factor)
                self._growth_tracker.fill_(0)
            elif self._growth_tracker.item() + 1 == self._growth_interval:
                grown = scale * self._growth_factor
                if bool(torch.isfinite(grown)):
                    scale.copy_(grown)
                self._growth_tracker.fill_(0)
            else:
                self._growth_tracker.add_(1)
        self._per_optimizer_states = defaultdict(_fresh)

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors and the count of good steps; empty when disabled."""
        if not self._enabled:
            return {}
        tracker = self._growth_tracker
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._init_growth_tracker if tracker is None else tracker.item(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned. RuntimeError for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty: a GradScaler with enabled=False saves such a one.")
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])


# %%
#| claim: an infinite gradient skips the step and halves the scale
#| needs: 04_optim
def _(torch):
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(p.sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert p.item() == 1.0
    assert scaler.get_scale() == 2.0
