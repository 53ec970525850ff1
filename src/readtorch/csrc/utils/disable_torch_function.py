# Tangled from chapters/00_tensor/11c_subclasses.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from readtorch.c10.core.tensor_impl import TensorImpl


class _Disabled:
    """What a class says that takes over no call: `__torch_function__ = torch._C._disabled_torch_function_impl`. Calls `func`."""

    def __call__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def __repr__(self) -> str:
        return "<function _disabled_torch_function_impl>"


disabled_torch_function_impl = _Disabled()

PLAIN: set[type] = {int, float, bool, complex, str, type(None), slice, type(Ellipsis)}
"""Classes that need not be asked: `Tensor` and `Parameter`, as they are added, and those of the commonest options."""

TENSORS: set[type] = set()
"""Those among them that are tensors."""


def add_plain(cls: type) -> None:
    """Take a class of tensors for one that need not be asked."""
    PLAIN.add(cls)
    TENSORS.add(cls)


class TorchFunctionState(threading.local):
    """What is asked in this thread: subclasses, modes, both or neither."""

    subclasses = True
    modes_too = True
    stack: tuple[Any, ...] = ()


state = TorchFunctionState()


class Entered:
    """How many modes are entered, in all threads together: while it is none, no gate looks for one."""

    __slots__ = ("modes",)

    def __init__(self) -> None:
        self.modes = 0


entered = Entered()


def takes_over(value: Any) -> bool:
    """Has the class of this value a `__torch_function__` that may have something to say?"""
    method = getattr(type(value), "__torch_function__", None)
    return method is not None and method is not disabled_torch_function_impl and type(value) not in PLAIN


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Is there one among these, or a mode, that must be asked before a function does its work?"""
    if state.stack and state.modes_too:
        return True
    return state.subclasses and any(takes_over(value) for value in relevant_args)


def has_torch_function_unary(relevant_arg: Any) -> bool:
    """`has_torch_function` of one."""
    return has_torch_function((relevant_arg,))


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """`has_torch_function` of several."""
    return has_torch_function(relevant_args)


class DisableTorchFunctionSubclass:
    """Context manager: in this thread no class is asked, and functions do their own work. Modes still are."""

    _modes_too: bool | None = None

    def __enter__(self) -> None:
        self._before = state.subclasses, state.modes_too
        state.subclasses = False
        if self._modes_too is not None:
            state.modes_too = self._modes_too

    def __exit__(self, *exception: Any) -> None:
        state.subclasses, state.modes_too = self._before


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Context manager: neither classes nor modes are asked."""

    _modes_too = False


def is_torch_function_enabled() -> bool:
    """Are classes asked?"""
    return state.subclasses


def is_torch_function_mode_enabled() -> bool:
    """Is there a mode to be asked?"""
    return bool(state.stack) and state.modes_too


def overloaded_args(
    values: Iterable[Any], *, plain_too: bool = False, type_of: Callable[[Any], type] = type
) -> list[Any]:
    """One value of each class that takes over, in the order they are asked: from the left, a subclass before its bases.

    `plain_too`: `Tensor` itself counts as such a class, as it does for functions written in Python.
    """
    found: list[Any] = []
    for value in values:
        kind = type_of(value)
        if kind in PLAIN and not (plain_too and isinstance(value, TensorImpl) and hasattr(kind, "__torch_function__")):
            continue
        method = getattr(kind, "__torch_function__", None)
        if method is None or method is disabled_torch_function_impl or any(type_of(other) is kind for other in found):
            continue
        place = next((i for i, other in enumerate(found) if issubclass(kind, type_of(other))), len(found))
        found.insert(place, value)
    return found


def ask(
    function: Any,
    overloaded: list[Any],
    args: tuple,
    kwargs: dict[str, Any] | None,
    *,
    name: str,
    in_python: bool = False,
) -> Any:
    """Let the innermost mode, then these values' classes, say what `function` gives for these arguments. The first to answer decides.

    `kwargs` None leaves them out of the question. TypeError if all answer NotImplemented.
    """
    types = tuple(type(value) for value in overloaded)
    rest = () if kwargs is None else (kwargs,)
    asked = []
    if is_torch_function_mode_enabled():
        mode, before = state.stack[-1], state.stack
        state.stack = before[:-1]
        try:
            result = mode.__torch_function__(function, types, args, *rest)
        finally:
            state.stack = before
        if result is not NotImplemented:
            return result
        asked.append(f"mode object {mode!r}")
    for value in overloaded:
        method = value.__torch_function__
        if getattr(method, "__self__", None) is value:
            _warn_of_plain_method()
        result = method(function, types, args, *rest)
        if result is not NotImplemented:
            return result
        asked.append(f"tensor subclass {type(value)!r}")
    if in_python:
        raise TypeError(
            f"no implementation found for '{name}' on types that implement __torch_function__: {list(types)}"
        )
    listed = "\n".join(f"  - {who}" for who in asked)
    raise TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:\n\n{listed}\n"
    )


def _warn_of_plain_method() -> None:
    import warnings

    warnings.warn(
        "Defining your `__torch_function__` as a plain method is deprecated and will be an error in future: make it a classmethod.",
        DeprecationWarning,
        stacklevel=4,
    )
