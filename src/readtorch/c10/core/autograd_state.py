# Tangled from chapters/00_tensor/04_engine.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import threading
from typing import Any


class AutogradState(threading.local):
    """The modes of one thread."""

    grad_mode = True
    inference_mode = False
    multithreading = True
    #: does a gradient get the leaf's order in memory?
    grad_layout = True
    anomaly = False
    check_nan = True
    graph_task: Any = None
    backward_depth = 0
    #: pairs (pack, unpack) of saved_tensors_hooks, innermost last
    saved_tensor_hooks: tuple = ()
    #: why there may be none, if so
    saved_tensor_hooks_disabled: str | None = None
    #: dtype by device type where autocast is on
    autocast: dict | None = None
    autocast_cache: dict | None = None
    #: the function transforms that have been entered, innermost last
    layers: tuple = ()


state = AutogradState()


class Counts:
    """How many threads are in a mode that is not the default: with gradients off, or in any other."""

    __slots__ = ("grad_off", "lock", "special")

    def __init__(self) -> None:
        self.grad_off = 0
        self.special = 0
        self.lock = threading.Lock()

    def change(self, grad_off: int = 0, special: int = 0) -> None:
        """Add to the counts, atomically."""
        with self.lock:
            self.grad_off += grad_off
            self.special += special


counts = Counts()


def set_grad_enabled(enabled: bool) -> None:
    """Record operations in this thread from now on, or stop doing so."""
    if state.grad_mode != enabled:
        state.grad_mode = enabled
        counts.change(grad_off=-1 if enabled else 1)


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode of this thread on or off."""
    set_special("anomaly", mode)
    set_special("check_nan", check_nan)


def is_anomaly_enabled() -> bool:
    """Do new nodes of this thread keep their traceback?"""
    return state.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Does anomaly mode, when it is on, look for NaN?"""
    return state.check_nan


def is_grad_enabled() -> bool:
    """Are operations of this thread recorded?"""
    return state.grad_mode


def refuse_gradient(function: str, **inputs: Any) -> None:
    """RuntimeError if one of these inputs, for which the function has no derivative, asks for a gradient: it would wait for it in vain."""
    for name, value in inputs.items():
        if state.grad_mode and getattr(value, "requires_grad", False):
            raise RuntimeError(
                f"The function '{function}' is not differentiable with respect to argument '{name}'. "
                "This input cannot have requires_grad True."
            )


def set_special(name: str, value: Any) -> Any:
    """Set another mode of this thread and return the old value. Its class attribute is the default."""
    old = getattr(state, name)
    default = getattr(AutogradState, name)
    was, is_ = old is not default and old != default, value is not default and value != default
    setattr(state, name, value)
    if was != is_:
        counts.change(special=1 if is_ else -1)
    return old
