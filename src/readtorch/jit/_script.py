# Tangled from chapters/01_import/, chapters/02_module/ — edit there, or here and run `readtorch sync`.
"""What marks code for TorchScript; here every function stays a Python function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from readtorch.nn.modules.module import Module

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


def trace_module(mod: Any, inputs: dict[str, Any], *rest: Any, **options: Any) -> Any:
    """`mod` itself, after one call of each method that `inputs` names, with what it holds for it. AttributeError for no such method."""
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    for method, given in inputs.items():
        trace(mod if method == "forward" else getattr(mod, method), given)
    return mod


class _Done(NamedTuple):
    result: Any

    def wait(self) -> Any:
        return self.result

    def value(self) -> Any:
        return self.result

    def done(self) -> bool:
        return True


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `func` now and give something to `wait` for."""
    return _Done(func(*args, **kwargs))


def wait(future: Any) -> Any:
    """The result of a forked call."""
    return future.wait()


class ScriptModule(Module):
    """A module whose methods upstream compiles; here a `Module`."""


class Attribute(NamedTuple):
    """A value with the type that upstream's compiler should take it for."""

    value: Any
    type: Any


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """`mod` itself. RuntimeError for what is no module, and for one that is training."""
    if not isinstance(mod, Module):
        raise RuntimeError(f"Freezing expects a ScriptModule as input, but got {type(mod).__name__}")
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode: call `.eval()` first")
    return mod


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """`mod` itself; one that is training is refused as by `freeze`."""
    return freeze(mod)
