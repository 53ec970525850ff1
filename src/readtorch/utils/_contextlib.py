# Tangled from chapters/00_tensor/12_autograd.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any


def context_decorator(make: Callable[[], Any], function: Any) -> Any:
    """`function` run inside a fresh context each time. A generator runs inside it between its yields.

    Of a class, a function that constructs it is left, with a warning.
    """
    if inspect.isclass(function):
        warnings.warn(
            "Decorating classes is deprecated, and what is left is a function that runs their __init__ inside the context. "
            "You should only decorate functions or methods.",
            FutureWarning,
            stacklevel=3,
        )
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(make, function)

    @functools.wraps(function)
    def decorate_context(*args: Any, **kwargs: Any) -> Any:
        with make():
            return function(*args, **kwargs)

    return decorate_context


def _wrap_generator(make: Callable[[], Any], function: Any) -> Any:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        resume = functools.partial(generator.send, None)
        while True:
            try:
                with make():
                    produced = resume()
            except StopIteration as end:
                return end.value
            try:
                resume = functools.partial(generator.send, (yield produced))
            except GeneratorExit:
                with make():
                    generator.close()
                raise
            except BaseException as error:
                resume = functools.partial(generator.throw, error)

    return wrapped


class _DecoratorContextManager:
    """A context manager that can decorate."""

    def __call__(self, function: Any) -> Any:
        return context_decorator(self.clone, function)

    def clone(self) -> Any:
        return self.__class__()
