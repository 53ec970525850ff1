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
# # Tensor subclasses

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: csrc/utils/disable_torch_function.py
#| imports
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from readtorch.c10.core.tensor_impl import TensorImpl


# %%
#| into: csrc/utils/disable_torch_function.py
#| upstream: torch/csrc/utils/disable_torch_function.h#torch::check_has_torch_function
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


# %%
#| into: csrc/utils/disable_torch_function.py
#| upstream: torch/csrc/utils/disable_torch_function.h#THPModule_DisableTorchFunctionSubclassType
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


# %%
#| into: csrc/utils/disable_torch_function.py
#| upstream: torch/csrc/utils/python_arg_parser.h#torch::is_tensor_and_append_overloaded
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


# %%
#| into: csrc/utils/disable_torch_function.py
def _warn_of_plain_method() -> None:
    import warnings

    warnings.warn(
        "Defining your `__torch_function__` as a plain method is deprecated and will be an error in future: make it a classmethod.",
        DeprecationWarning,
        stacklevel=4,
    )


# %%
#| into: csrc/utils/gates.py
#| imports
from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from types import FunctionType
from typing import Any

from readtorch.c10.core import tensor_impl
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.utils.disable_torch_function import (
    PLAIN,
    DisableTorchFunctionSubclass,
    add_plain,
    ask,
    disabled_torch_function_impl,
    entered,
    is_torch_function_mode_enabled,
    overloaded_args,
    state,
    takes_over,
)


# %%
#| into: csrc/utils/gates.py
#| upstream: torch/csrc/utils/python_arg_parser.h#torch::handle_torch_function
def gate(*args: Any, _face: Any, **kwargs: Any) -> Any:
    """What every public function does once the gates are up: its own work, unless an argument or a mode must be asked."""
    if not kwargs and not _face.entered.modes:
        for value in args:
            if value.__class__ not in _face.plain:
                break
        else:
            return _face.original(*args)
    return _face.call(args, kwargs)


def face(function: Any) -> Any:
    """Another function object with the same code: the one that Python sees, which may get a gate. The library calls the first."""
    if not isinstance(function, FunctionType):
        return function
    twin = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__dict__.update(function.__dict__)
    twin.__doc__, twin.__module__, twin.__qualname__ = function.__doc__, function.__module__, function.__qualname__
    twin.__annotations__ = function.__annotations__
    return twin


# %%
#| into: csrc/utils/gates.py
COMPILED, PYTHON, KEYWORDS, MODES_ONLY = "compiled", "python", "keywords", "modes only"
"""How a function hands over a call: as it was made; with all options as keywords; everything as keywords; as it was made, to modes alone."""


class Face:
    """What a gate knows of its function.

    `function` is what a `__torch_function__` is told has been called: the function itself, for `x + y` the method `Tensor.add`,
    for an attribute its getter.
    """

    __slots__ = ("entered", "function", "method", "name", "operator", "original", "plain", "signature", "style")

    def __init__(self, original: Any, function: Callable[[], Any], name: str, style: str, method: bool) -> None:
        self.original = original
        self.function = function
        self.name = name
        self.style = style
        self.method = method
        self.operator = name.rpartition(".")[2] in OPERATORS
        self.plain = PLAIN
        self.entered = entered
        self.signature: inspect.Signature | None = None

    def call(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Ask who is to be asked; if there is nobody, do the work."""
        if not entered.modes and all_plain(args) and (not kwargs or all_plain(kwargs.values())):
            return self.original(*args, **kwargs)
        asks_modes = is_torch_function_mode_enabled()
        compiled = self.style in (COMPILED, MODES_ONLY)
        asks_subclasses = state.subclasses and self.style is not MODES_ONLY
        found = overloaded_args(candidates(args, kwargs)) if asks_subclasses else []
        if (not found and not asks_modes) or (
            self.method and compiled and not isinstance(args[:1] and args[0], TensorImpl)
        ):
            if self.style is not MODES_ONLY:
                return self.original(*args, **kwargs)
            with DisableTorchFunctionSubclass():
                return self.original(*args, **kwargs)
        handed: dict[str, Any] | None = kwargs or None
        if not compiled:
            if state.subclasses:
                found = overloaded_args(candidates(args, kwargs), plain_too=True)
            try:
                args, handed = self.arranged(args, kwargs)
            except TypeError:
                return self.original(*args, **kwargs)  # says what is wrong with the call
        try:
            return ask(self.function(), found, args, handed, name=self.name, in_python=not compiled)
        except TypeError:
            if self.operator:
                return NotImplemented
            raise

    def arranged(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """The call as upstream's Python functions hand it over: what must be given by position, all options by keyword."""
        if self.signature is None:
            self.signature = inspect.signature(SIGNATURES.get(self.name, self.original))
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        positional: list[Any] = []
        options: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            value = bound.arguments[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                positional.extend(value)
            elif parameter.kind is parameter.VAR_KEYWORD:
                options.update(value)
            elif parameter.default is parameter.empty and self.style is PYTHON:
                positional.append(value)
            else:
                options[name] = value
        return tuple(positional), options


def all_plain(values: Iterable[Any]) -> bool:
    """Are these, and what is in lists and tuples among them, of classes that need not be asked?"""
    for value in values:
        kind = value.__class__
        if kind is tuple or kind is list:
            for item in value:
                if item.__class__ not in PLAIN:
                    return False
        elif kind not in PLAIN:
            return False
    return True


def candidates(args: tuple, kwargs: dict[str, Any]) -> Iterator[Any]:
    """The arguments, and what is in lists and tuples among them."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, list | tuple) and not hasattr(type(value), "__torch_function__"):
            yield from value
        else:
            yield value


# %%
#| into: csrc/utils/gates.py
#: Python's operators that are a method under another name. A `__torch_function__` is given that method.
METHOD_OF = {
    "__abs__": "abs", "__add__": "add", "__ge__": "ge", "__gt__": "gt", "__iadd__": "add_", "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_", "__imul__": "mul_", "__ipow__": "pow_", "__isub__": "sub_", "__itruediv__": "div_", "__le__": "le",
    "__lt__": "lt", "__matmul__": "matmul", "__mod__": "remainder", "__mul__": "mul", "__ne__": "ne", "__neg__": "neg",
    "__pow__": "pow", "__radd__": "add", "__rmul__": "mul",  "__sub__": "sub", "__truediv__": "div",
}  # fmt: skip

#: operators that let Python ask the other operand where nobody answers
OPERATORS = frozenset(
    [*METHOD_OF, "__and__", "__eq__", "__floordiv__", "__iand__", "__ior__", "__ixor__", "__lshift__", "__or__", "__rand__", "__rfloordiv__",
     "__rlshift__", "__rmatmul__", "__rmod__", "__ror__", "__rpow__", "__rrshift__", "__rshift__", "__rsub__", "__rxor__", "__xor__"]
)  # fmt: skip

#: the methods that upstream writes in Python
IN_PYTHON = frozenset(
    [
        "__array__", "__array_wrap__", "__contains__", "__deepcopy__", "__dir__", "__dlpack__",
        "__dlpack_device__", "__floordiv__", "__format__", "__len__", "__rdiv__", "__reduce_ex__",
        "__repr__", "__reversed__", "__rfloordiv__", "__rlshift__", "__rmatmul__", "__rmod__",
        "__rpow__", "__rrshift__", "__rsub__", "__setstate__", "__rtruediv__", "backward",
        "dim_order", "index", "is_shared", "istft", "lu", "module_load",
        "norm", "register_hook", "register_post_accumulate_grad_hook", "resize", "resize_as", "share_memory_",
        "stft", "storage", "storage_type", "unflatten",
    ]
)  # fmt: skip

#: functions that upstream writes in Python and that are operators here, by what their options are
SIGNATURES: dict[str, Callable[..., Any]] = {
    "torch.Tensor.__floordiv__": lambda self, other: None,
    "torch.Tensor.__ipow__": lambda self, exponent: None,
    "torch.Tensor.__pow__": lambda self, exponent: None,
    "torch.Tensor.norm": lambda self, p="fro", dim=None, keepdim=False, dtype=None: None,
    "torch.Tensor.pow": lambda self, exponent: None,
    "torch.Tensor.pow_": lambda self, exponent: None,
    "torch.Tensor.split": lambda self, split_size, dim=0: None,
    "torch.Tensor.unflatten": lambda self, dim, sizes: None,
    "torch.Tensor.unique": lambda self, sorted=True, return_inverse=False, return_counts=False, dim=None: None,
    "torch.Tensor.unique_consecutive": lambda self, return_inverse=False, return_counts=False, dim=None: None,
    "torch.autograd.backward": lambda tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None: (
        None
    ),
    "torch.autograd.grad": lambda outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=False, is_grads_batched=False, materialize_grads=False: (
        None
    ),
    "torch.nn.functional.l1_loss": lambda input, target, size_average=None, reduce=None, reduction="mean": None,
    "torch.norm": lambda input, p="fro", dim=None, keepdim=False, out=None, dtype=None: None,
    "torch.tensordot": lambda a, b, dims=2, out=None: None,
    "torch.unique": lambda input, sorted=True, return_inverse=False, return_counts=False, dim=None: None,
    "torch.unique_consecutive": lambda input, return_inverse=False, return_counts=False, dim=None: None,
}

#: functions that differ from their neighbours in how they ask
STYLES = {
    **dict.fromkeys(SIGNATURES, PYTHON),
    **dict.fromkeys(
        ("torch.tensor", "torch.as_tensor", "torch.asarray", "torch.from_numpy", "torch.frombuffer"), MODES_ONLY
    ),
    "torch.nn.functional.one_hot": COMPILED,
}

#: what is asked of nobody: how an object is made, its identity, and the way out of the class
NEVER = frozenset(
    [
        "__array_interface__", "__copy__", "__hash__", "__init__", "__init_subclass__", "__iter__",
        "__new__", "__torch_function__", "_grad_", "_make_subclass", "as_subclass",
    ]
)  # fmt: skip


# %%
#| into: csrc/utils/gates.py
class Gates:
    """The gates of the whole library. Down, and without cost, until there is somebody to ask."""

    def __init__(self) -> None:
        self.up = False
        self.lock = threading.RLock()
        #: where public functions stand: the table, what its names begin with, the style, and the names meant
        self.tables: list[tuple[dict[str, Any], str, str, Container[str]]] = []

    def raise_all(self) -> None:
        """Put a gate in front of every public function, method and attribute there is; of later ones, when they are offered."""
        with self.lock:
            if self.up:
                return
            self.up = True
            for table, prefix, style, names in self.tables:
                self._table(table, prefix, style, names)
            for owner in (TensorImpl, tensor_impl.Tensor):
                for name, member in list(vars(owner).items()):
                    self._member(name, member)

    def offer(self, table: dict[str, Any], prefix: str, style: str, names: Container[str]) -> None:
        """Make known a table of public functions, say a module's globals, and which of its names they have."""
        self.tables.append((table, prefix, style, names))
        if self.up:
            self._table(table, prefix, style, names)

    def _table(self, table: dict[str, Any], prefix: str, style: str, names: Container[str]) -> None:
        for name, function in list(table.items()):
            if name in names and isinstance(function, FunctionType):
                self.put(function, f"{prefix}.{name}", style)

    def _member(self, name: str, member: Any) -> None:
        if name in NEVER:
            return
        if isinstance(member, FunctionType):
            public = METHOD_OF.get(name)
            style = PYTHON if (public or name) in IN_PYTHON or f"torch.Tensor.{name}" in SIGNATURES else COMPILED
            target = None if public is None else (lambda: getattr(tensor_impl.Tensor, public))
            self.put(member, f"torch.Tensor.{name}", style, target, method=True)
        elif isinstance(member, property):
            for part, accessor in ((member.fget, "__get__"), (member.fset, "__set__"), (member.fdel, "__delete__")):
                if isinstance(part, FunctionType):
                    self.put(
                        part, f"torch.Tensor.{name}.{accessor}", COMPILED, self._accessor(member, accessor), method=True
                    )

    @staticmethod
    def _accessor(member: property, name: str) -> Callable[[], Any]:
        return lambda: getattr(member, name)

    def put(self, function: FunctionType, name: str, style: str, target: Any = None, *, method: bool = False) -> None:
        """Put a gate in front of one function. The object stays the same; whoever holds it meets the gate."""
        if self.has(function):
            return
        original = face(function)
        style = STYLES.get(name, style)
        known = Face(original, target or (lambda: function), name, style, method)
        function.__wrapped__ = original  # type: ignore[attr-defined]  # for inspect.signature
        function.__kwdefaults__ = {**(function.__kwdefaults__ or {}), "_face": known}
        #: A code object fits only a closure of as many cells as it names; the gate reads none of them.
        function.__code__ = gate.__code__.replace(co_freevars=function.__code__.co_freevars)

    @staticmethod
    def has(function: Any) -> bool:
        """Is there a gate in front of this function?"""
        return "_face" in (getattr(function, "__kwdefaults__", None) or ())

    def attach(self, owner: Any, name: str, function: Any) -> None:
        """Make a face of `function` the attribute `name` of the tensor class or of a namespace of functions."""
        function = face(function)
        if isinstance(function, FunctionType):
            function.__name__ = name
        setattr(owner, name, function)
        if self.up:
            if owner is TensorImpl:
                self._member(name, function)
            elif isinstance(function, FunctionType):
                self.put(function, f"torch.{name}", COMPILED)


gates = Gates()


# %%
#| into: csrc/utils/gates.py
class Public:
    """The public names of a table, but for some. What `Gates.offer` takes where there are too many to list."""

    def __init__(self, table: dict[str, Any], but: Container[str] = ()) -> None:
        self.table = table
        self.but = but

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or name.startswith("_") or name in self.but:
            return False
        own = ("torch", self.table.get("__name__"))
        return own[1] is None or getattr(self.table[name], "__module__", None) in own


def look_at_subclass(cls: type) -> None:
    """Called for every subclass of `Tensor` that is made: if it has a say, the gates go up."""
    if getattr(cls, "__torch_function__", None) is disabled_torch_function_impl:
        add_plain(cls)
    else:
        gates.raise_all()


# %%
#| into: csrc/utils/gates.py
NOBODY = object()
"""What `first_contact` returns where there is nobody to ask."""

#: the operators of numbers and tensors by the entry that computes them
_REFLECTED = {
    "_true_div": "__rtruediv__",
    "bitwise_left_shift": "__rlshift__",
    "bitwise_right_shift": "__rrshift__",
    "floor_divide": "__rfloordiv__",
    "pow": "__rpow__",
    "remainder": "__rmod__",
    "sub": "__rsub__",
}
_METHODS = {
    "_true_div": "div",
    "eq": "__eq__",
    "bitwise_and": "__and__",
    "bitwise_or": "__or__",
    "bitwise_xor": "__xor__",
}


def first_contact(entry: Any, args: tuple, kwargs: dict[str, Any], name: str = "", *, as_operator: bool = False) -> Any:
    """Called by an operator that met something that is no tensor while the gates are down: if that has a say, the gates go up and it is asked.

    Nothing tells us when a class with a `__torch_function__` is made that does not descend from `Tensor`.
    """
    if gates.up or not any(takes_over(value) for value in candidates(args, kwargs)):
        return NOBODY
    gates.raise_all()
    name = name or entry.name
    if as_operator:
        try:
            if isinstance(args[0], TensorImpl):
                return getattr(tensor_impl.Tensor, _METHODS.get(name, name))(*args)
            return getattr(tensor_impl.Tensor, _REFLECTED.get(name, name))(*args[::-1])
        except TypeError:
            return NotImplemented
    for table, prefix, _, names in gates.tables:
        if name in names and name in table and prefix.startswith("torch"):
            return table[name](*args, **kwargs)
    return getattr(tensor_impl.Tensor, name)(*args, **kwargs)


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
#| into: _tensor.py
#| upstream: torch/_tensor.py#Tensor.__torch_function__
class Tensor(Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        """What a subclass does with a call unless it has its own idea: let `func` do its work, and take the result into the class.

        NotImplemented where an argument is of a class that this one does not descend from.
        """
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        with _C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return result if func in _kept_as_they_are() else _convert(result, cls)


# %%
#| into: _tensor.py
#| upstream: torch/_tensor.py#_convert
def _convert(result: Any, cls: type) -> Any:
    """The tensors in a result, in tuples and lists too, as tensors of this class."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, tuple | list):
        return type(result)(_convert(item, cls) for item in result)
    return result


@functools.cache
def _kept_as_they_are() -> frozenset[Any]:
    """The attributes that hold a tensor of whatever class it was."""
    return frozenset(getattr(Tensor, name).__get__ for name in ("_base", "grad"))


# %%
#| into: _tensor.py
_C._add_plain(Tensor)


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
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """A tensor, or what has a `__torch_function__` as tensors have?"""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


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
