# Tangled from chapters/00_tensor/11d_modes.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from readtorch import _C
from readtorch._tensor import Tensor
from readtorch.csrc.utils import disable_torch_function as asking
from readtorch.csrc.utils.disable_torch_function import has_torch_function as has_torch_function
from readtorch.csrc.utils.disable_torch_function import has_torch_function_unary as has_torch_function_unary
from readtorch.csrc.utils.disable_torch_function import has_torch_function_variadic as has_torch_function_variadic
from readtorch.csrc.utils.gates import gates


class TorchFunctionMode:
    """A context in which its `__torch_function__` is given every call of a public function, method or attribute.

    Modes nest. What a mode calls goes to the next one outside of it; `with self:` inside brings it back.
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        _C._push_on_torch_function_stack(self)
        return self

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> None:
        _C._pop_torch_function_stack()


class BaseTorchFunctionMode(TorchFunctionMode):
    """The mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> Any:
    return asking.state.stack[-1] if asking.state.stack else None


def _get_current_function_mode_stack() -> list[Any]:
    return list(asking.state.stack)


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Inside a `__torch_function__` that runs with the asking switched off: switch it on again."""
    before = asking.state.subclasses, asking.state.modes_too
    asking.state.subclasses = asking.state.modes_too = True
    try:
        yield
    finally:
        asking.state.subclasses, asking.state.modes_too = before


def _get_overloaded_args(relevant_args: Iterable[Any], get_type_fn: Callable[[Any], type] = type) -> list[Any]:
    """One argument of each class that is to be asked, in the order of asking."""
    return asking.overloaded_args(relevant_args, plain_too=True, type_of=get_type_fn) if asking.state.subclasses else []


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the first of the `relevant_args`, or the innermost mode, makes of `public_api(*args, **kwargs)`.

    TypeError if none of them implements it.
    """
    name = f"{public_api.__module__}.{public_api.__name__}"
    return asking.ask(public_api, _get_overloaded_args(relevant_args), args, kwargs, name=name, in_python=True)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: ask first those arguments that `dispatcher`, which is called with all of them, returns."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def public(*args: Any, **kwargs: Any) -> Any:
            asked = tuple(dispatcher(*args, **kwargs))
            if not has_torch_function(asked):
                return function(*args, **kwargs)
            return handle_torch_function(public, asked, *args, **kwargs)

        return public

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """A tensor, or what has a `__torch_function__` as tensors have?"""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


_NAMESPACES = (
    "torch",
    "torch.functional",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.linalg",
    "torch.fft",
    "torch.special",
)


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """The attributes whose value `Tensor.__torch_function__` gives as it is."""
    from readtorch._tensor import _kept_as_they_are

    return set(_kept_as_they_are())


@functools.cache
def _find() -> tuple[dict[Any, list[Callable[..., Any]]], dict[Callable[..., Any], str]]:
    """What can be overridden by the namespace that has it, and the names."""
    gates.raise_all()
    found: dict[Any, list[Callable[..., Any]]] = {}
    names: dict[Callable[..., Any], str] = {}
    for where in _NAMESPACES:
        module = importlib.import_module(where.replace("torch", "readtorch", 1))
        for name in dir(module):
            function = None if name.startswith("_") else getattr(module, name)
            if inspect.isfunction(function) and gates.has(function):
                names[function] = f"{where}.{name}"
                if not name.endswith("_"):
                    found.setdefault(module, []).append(function)
    for name in dir(Tensor):
        member = inspect.getattr_static(Tensor, name)
        if isinstance(member, property) and gates.has(member.fget):
            names[member.__get__] = f"torch.Tensor.{name}.__get__"
            names[member.__set__] = f"torch.Tensor.{name}.__set__"
            found.setdefault(member, []).append(member.__get__)
        elif inspect.isfunction(member) and gates.has(member):
            names[member] = f"torch.Tensor.{name}"
            found.setdefault(Tensor, []).append(member)
    return found, names


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that a `__torch_function__` is asked about, by the module or class they belong to."""
    return _find()[0]


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Public functions that ask nobody."""
    modules = [importlib.import_module(where.replace("torch", "readtorch", 1)) for where in _NAMESPACES]
    members = (getattr(owner, name) for owner in (*modules, Tensor) for name in dir(owner) if not name.startswith("_"))
    return {member for member in members if inspect.isfunction(member) and not gates.has(member)}


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., int]]:
    """For each function that can be overridden, one of the same signature that returns -1."""

    def minus_one(function: Callable[..., Any]) -> Callable[..., int]:
        def override(*args: Any, **kwargs: Any) -> int:
            return -1

        if inspect.isfunction(function):
            override.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # what inspect asks for
        return override

    return {function: minus_one(function) for group in get_overridable_functions().values() for function in group}


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Where users know a function from, as an expression that gives it: "torch.Tensor.add". None if it is not one of these."""
    return _find()[1].get(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Is it a method of `Tensor`, or the `__get__` of one of its attributes?"""
    return func in get_overridable_functions()[Tensor] or func.__name__ == "__get__"
