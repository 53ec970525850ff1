# Tangled from chapters/00_tensor/12_autograd.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings

from readtorch.c10.core import autograd_state


def _switch(enabled: bool, check_nan: bool) -> tuple[bool, bool]:
    """Set both; returns what they were. TypeError for what is no bool."""
    for value, name in ((enabled, "enabled"), (check_nan, "check_nan")):
        if value.__class__ is not bool:
            raise TypeError(f"set_anomaly_enabled(): argument '{name}' must be bool, not {type(value).__name__}")
    return autograd_state.set_special("anomaly", enabled), autograd_state.set_special("check_nan", check_nan)


class detect_anomaly:
    """Keep the forward stack on every node made inside, and check the gradients of every node run inside for NaN."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. Each operator now keeps its traceback, which is slow: meant for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.outer, self.outer_check = _switch(True, self.check_nan)

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("anomaly", self.outer)
        autograd_state.set_special("check_nan", self.outer_check)


class set_detect_anomaly:
    """Switch anomaly mode on or off, from this call on or for a block."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.outer, self.outer_check = _switch(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        autograd_state.set_special("anomaly", self.outer)
        autograd_state.set_special("check_nan", self.outer_check)
