# Tangled from chapters/01_import/8_namespaces.py — edit there, or here and run `readtorch sync`.
"""Loss scaling for float16 training."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

import readtorch as torch


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
