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
# # Modes, and `torch.overrides`
#
# How can a program see `torch.zeros(3)`, a call without any tensor among its arguments? A class has a say only in the
# calls that one of its tensors is an argument of ([the part before](11c_subclasses.py)).

# %%
import readtorch as torch
from readtorch import Tensor
from readtorch.literate import live
from readtorch.overrides import TorchFunctionMode

live()

# %% [markdown]
# A **mode** sees such a call all the same. It is an object with a `__torch_function__` that is asked first, while the
# program is inside its `with`. Modes lie on a stack that belongs to the thread. A mode that is being asked is off the
# stack for that time, so what it calls goes to the next mode outside, and none ever sees itself.


# %%
#| into: csrc/utils/gates.py
#| upstream: aten/src/ATen/PythonTorchFunctionTLS.h#at::impl::PythonTorchFunctionTLS
def push_mode(mode: Any) -> None:
    """From now on this mode is asked first, in this thread."""
    gates.raise_all()
    with gates.lock:
        entered.modes += 1
    state.stack = (*state.stack, mode)


def pop_mode() -> Any:
    """Take the innermost mode off the stack. RuntimeError if there is none."""
    if not state.stack:
        raise RuntimeError("trying to pop from empty mode stack")
    mode, state.stack = state.stack[-1], state.stack[:-1]
    with gates.lock:
        entered.modes -= 1
    return mode


# %%
#| into: overrides.py
#| imports
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


# %%
#| into: overrides.py
#| upstream: torch/overrides.py#TorchFunctionMode
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


# %%
#| needs: a2_layers
class Said(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print(torch.overrides.resolve_name(func), [kind.__name__ for kind in types])
        return func(*args, **(kwargs or {}))


with Said():
    x = torch.zeros(3) + 1
    x.shape


# %%
#| needs: a1_operators
#| claim: a mode sees factories too; it is asked before any class; of two, the inner one first, whose calls the outer one sees
#| upstream: torch/overrides.py#TorchFunctionMode
def _(torch):
    import importlib

    overrides = importlib.import_module(f"{torch.__name__}.overrides")
    seen = []

    class Seen(overrides.TorchFunctionMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    with Seen("outer"), Seen("inner"):
        x = torch.ones(2)
        with torch._C.DisableTorchFunction():
            x + 1
    x + 1
    assert seen == [("inner", "ones"), ("outer", "ones")]


# %% [markdown]
# ## How does a function of my own ask, as PyTorch's do?
#
# With two functions of `torch.overrides`: `has_torch_function` and `handle_torch_function`. The rest of that module tells
# what there is to be asked about: the list of all functions that can be overridden, and the name of each.


# %%
#| into: overrides.py
#| upstream: torch/overrides.py#_get_overloaded_args
#| upstream: torch/overrides.py#handle_torch_function
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


# %% [markdown]
# What there is to be asked about is found by looking: every public function that has a gate.

# %%
#| into: overrides.py
#| upstream: torch/overrides.py#get_overridable_functions
#| upstream: torch/overrides.py#resolve_name
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


# %%
#| into: __init__.py
_MODULES.append("overrides")


# %%
#| needs: a2_layers
#| claim: a function of one's own asks with two lines, and functions have names that lead to them
#| upstream: torch/overrides.py#handle_torch_function
#| upstream: torch/overrides.py#resolve_name
def _(torch):
    import importlib

    overrides = importlib.import_module(f"{torch.__name__}.overrides")

    def halved(x):
        if overrides.has_torch_function_unary(x):
            return overrides.handle_torch_function(halved, (x,), x)
        return x / 2

    class Tagged(torch.Tensor):
        pass

    assert type(halved(torch.ones(1).as_subclass(Tagged))) is Tagged and type(halved(torch.ones(1))) is torch.Tensor
    assert overrides.resolve_name(torch.Tensor.add) == "torch.Tensor.add"
    assert overrides.resolve_name(torch.nn.functional.relu) == "torch.nn.functional.relu"
    assert torch.add in overrides.get_overridable_functions()[torch]


# %% [markdown]
# ### What upstream does more
#
# * `torch.set_default_device` and `with torch.device("meta"):` are made of a mode, `DeviceContext`, which adds `device=` to every factory's options. Ours is an entry of the thread's state, which factories read.
# * `TorchDispatchMode` does the same one floor further down, for the operators that a call comes down to.

# %%
#| fact: torch/utils/_device.py#DeviceContext
#| fact: torch/utils/_python_dispatch.py#TorchDispatchMode

# %% [markdown]
# ### Exercise
#
# A test is to prove that a function makes no tensor of float64, whatever it calls. Write `Floats32`, a mode inside of which every result of that dtype, whoever made it, raises `TypeError` with the name of the function. Attributes are to be left alone: `x.dtype` is how one would find out.


# %%
#| exercise: floats32
class Floats32(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError


# %%
#| solution: floats32
class Floats32(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.dtype is torch.float64:
            raise TypeError(f"{func.__name__} gave a tensor of float64")
        return result


# %%
#| check: floats32
with Floats32():
    single = torch.ones(2) + 1
    assert single.dtype is torch.float32
    for make in (
        lambda: torch.zeros(1, dtype=torch.float64),
        lambda: single.double(),
        lambda: torch.tensor([1.0], dtype=torch.float64),
    ):
        try:
            make()
        except TypeError as error:
            assert "float64" in str(error)
        else:
            raise AssertionError("not noticed")
