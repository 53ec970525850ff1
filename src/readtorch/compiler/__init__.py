# Tangled from chapters/01_import/8b_neighbours.py — edit there, or here and run `readtorch sync`.
"""Questions and marks for `torch.compile`, which runs code eagerly here."""

from typing import Any as _Any

from readtorch.utils._contextlib import _DecoratorContextManager


def is_compiling() -> bool:
    """False: code is run, never captured."""
    return False


def is_dynamo_compiling() -> bool:
    """False, as `is_compiling`."""
    return False


def is_exporting() -> bool:
    """False: there is no exporter."""
    return False


def disable(fn: object = None, recursive: bool = True, *, reason: str | None = None) -> object:
    """Leave a function to Python; with or without parentheses."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: object) -> object:
    """`fn` itself; a list gives a list."""
    return [allow_in_graph(each) for each in fn] if isinstance(fn, (list, tuple)) else fn


def assume_constant_result(fn: object) -> object:
    """`fn` itself."""
    return fn


def reset() -> None:
    """Nothing to forget: no compiled code is kept."""


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark: there are no captured graphs."""


class set_stance(_DecoratorContextManager):
    """When to compile: a function, a context manager or a decorator. Every stance runs code eagerly here.

    RuntimeError for a backend beside a stance other than "default".
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: _Any = None
    ) -> None:
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.stance, self.force_backend = stance, force_backend

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def clone(self) -> "set_stance":
        """Another one of the same stance."""
        return type(self)(self.stance, force_backend=self.force_backend)


def compile(*args: _Any, **kwargs: _Any) -> _Any:
    """`torch.compile`."""
    import readtorch

    return readtorch.compile(*args, **kwargs)
