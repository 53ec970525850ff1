# Tangled from chapters/01_import/8b_neighbours.py — edit there, or here and run `readtorch sync`.
"""What marks code for TorchScript; here every function stays a Python function."""

from __future__ import annotations

from typing import Any, TypeVar

_F = TypeVar("_F")


def script(obj: _F, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> _F:
    """`obj` itself, a function, class or module. RuntimeError for anything else."""
    if not callable(obj):
        raise RuntimeError(f"script takes a function, a class or a module, but got {type(obj).__name__}")
    return obj


def script_method(fn: _F) -> _F:
    """`fn` itself."""
    return fn


def script_if_tracing(fn: _F) -> _F:
    """`fn` itself: nothing is ever traced."""
    return fn


def export(fn: _F) -> _F:
    """`fn` itself; upstream compiles it though `forward` does not call it."""
    return fn


def unused(fn: _F) -> _F:
    """`fn` itself; in a scripted module a call of it would raise."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Leave a function to Python; with or without parentheses."""
    return drop if callable(drop) else lambda fn: fn


def is_scripting() -> bool:
    """False: no code is compiled."""
    return False


def is_tracing() -> bool:
    """False: no operators are recorded for a graph."""
    return False


def trace(func: Any, example_inputs: Any = None, *rest: Any, example_kwarg_inputs: Any = None, **options: Any) -> Any:
    """`func` itself, after one call with the example inputs. RuntimeError without any."""
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict")
    if isinstance(example_inputs, (tuple, list)):
        func(*example_inputs)
    elif example_inputs is not None:
        func(example_inputs)
    else:
        func(**example_kwarg_inputs)
    return func
