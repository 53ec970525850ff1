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
# # A tensor class of your own: `__torch_function__`
#
# An image is more than its numbers: it knows its colour space. A length knows its unit, a batch of boxes the picture they
# lie in. People write a subclass of `Tensor` for that and expect it to live through arithmetic. How can it? The result of
# an operator is made deep inside, by a kernel that saw raw memory and never heard of the class.
#
# The answer is `__torch_function__`. This part shows how a class takes part in every call that it is an argument of, and
# who is asked when several do. More of PyTorch rests on it than one would think: `torch.set_default_device` is a mode of
# this kind, and so is `with torch.device("meta"):`.

# %%
import readtorch as torch
from readtorch import Tensor
from readtorch.csrc.utils.gates import face
from readtorch.literate import live

live()

# %% [markdown]
# The obvious thing is to override the methods. That goes well for one line.


# %%
class Metres(Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl  # as it would be without what this part builds

    def __add__(self, other):
        return super().__add__(other).as_subclass(Metres)


length = torch.ones(2).as_subclass(Metres)
[type(result).__name__ for result in (length + 1, 1 + length, length.add(1), torch.add(length, 1), length.sum())]

# %% [markdown]
# There are two thousand names to override, and even that would not be enough: `torch.add` is a method of nothing, and in
# `torch.where(mask, plain, length)` the first argument is not the one that knows better. So the question must be asked by
# the *functions*, of all their arguments.
#
# ## Who is asked?
#
# The protocol was taken from NumPy (NEP 18). A class that wants a say has a class method `__torch_function__(func, types,
# args, kwargs)`. A function looks through its arguments. If one of them is of such a class, the function does nothing
# itself and returns what that method returns. `func` is the function, so that the method can recognise it, or call it
# again.
#
# Three kinds of class are not asked. Most have no such method. `Tensor` has one, and is passed over when the class is
# exactly `Tensor`. And a class may say that it takes over nothing, by assigning one particular object,
# `torch._C._disabled_torch_function_impl`; `Parameter` is the well-known case.

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


# %% [markdown]
# A method that calls `func` again must keep it from asking again. Two switches do that, for the thread: one for the
# classes, one for [modes](11d_modes.py) as well.


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


# %% [markdown]
# If several classes have a say, they are asked from the left, but a subclass before its bases, since it knows about them
# and they do not know about it. Each class is asked once, and the first answer that is not `NotImplemented` is the
# result. When nobody answers, the call is a `TypeError`. Only for operators such as `x + y` it is not yet: Python may ask
# the other operand first.


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
#| needs: a1_operators
#| claim: a subclass is asked before its base wherever it stands, others from the left, each class once; NotImplemented passes the question on
#| upstream: torch/overrides.py#_get_overloaded_args
def _(torch):
    asked = []

    def with_a_say(name, base, answer):
        def method(cls, func, types, args=(), kwargs=None):
            asked.append(name)
            return answer

        return type(name, (base,), {"__torch_function__": classmethod(method)})

    base = with_a_say("Base", torch.Tensor, NotImplemented)
    derived = with_a_say("Derived", base, NotImplemented)
    other = with_a_say("Other", torch.Tensor, "mine")
    a, b, c = (torch.ones(1).as_subclass(cls) for cls in (base, derived, other))
    assert torch.stack([a, b, c, a]) == "mine" and asked == ["Derived", "Base", "Other"]
    try:
        torch.add(a, b)
    except TypeError as error:
        assert "Multiple dispatch failed for 'torch.add'" in str(error)
    else:
        raise AssertionError("somebody answered")


# %% [markdown]
# ## What does a subclass do that says nothing?
#
# It inherits the method of `Tensor`. That method lets `func` do its work with the asking switched off, and takes what
# comes out into the class, in tuples and lists too. It declines if another argument is of a class that it does not
# descend from: what metres times seconds are is for somebody else to say.


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
class Tagged(Tensor):
    pass


tagged = torch.arange(3.0).as_subclass(Tagged)
tagged.tag = "a"
2 * tagged, tagged.exp(), torch.add(torch.ones(3), tagged)

# %% [markdown]
# `as_subclass` is a view under another class. So every result is a view of what the kernel made, and a recorded one has
# one more node in its history. That `tag` is gone is no oversight: upstream decided that what becomes of an attribute
# when two tensors meet is the business of the class. Two attributes are handed out as they are, `grad` and `_base`,
# because they hold a tensor that somebody else made.


# %%
#| needs: a1_operators
#| claim: results are of the class, in tuples and in place too; its attributes stay behind; the graph gains an alias; `.grad` is a plain tensor
#| upstream: torch/_tensor.py#_convert
#| upstream: torch/overrides.py#get_default_nowrap_functions
def _(torch):
    class Tagged(torch.Tensor):
        pass

    x = torch.arange(3.0).as_subclass(Tagged)
    x.tag = "a"
    for result in (
        x * 2,
        2 - x,
        x[0],
        x.sum(),
        x.view(3, 1),
        x.sort()[1],
        x.split(1)[2],
        torch.zeros_like(x),
        x.add_(1),
        x.shape.numel() * x,
    ):
        assert type(result) is Tagged and (result is x or not hasattr(result, "tag"))
    assert type(x.shape) is torch.Size and type(x.tolist()) is list
    x.requires_grad_()
    y = (x * x).sum()
    assert y.grad_fn.name() == "AliasBackward0" and y.grad_fn.next_functions[0][0].name() == "SumBackward0"
    y.backward()
    assert type(x.grad) is torch.Tensor


# %%
#| needs: 02_module
#| claim: classes that do not descend from one another do not mix, a parameter mixes with all, and gives way
def _(torch):
    class Metres(torch.Tensor):
        pass

    class Seconds(torch.Tensor):
        pass

    m, s = torch.ones(1).as_subclass(Metres), torch.ones(1).as_subclass(Seconds)
    try:
        m * s
    except TypeError as error:
        assert "unsupported operand" in str(error)
    else:
        raise AssertionError("multiplied")
    assert type(torch.nn.Parameter(torch.ones(1)) * m) is Metres


# %% [markdown]
# ## What does the asking cost?
#
# Upstream the question is the first thing in every function. In C++ the argument parser asks each argument that is not
# exactly a `Tensor`, at the cost of a pointer comparison. In `torch.nn.functional` each function begins with `if
# has_torch_function_unary(input):`. In Python a comparison for each argument is not so cheap. Here is the naive version,
# in front of an operator that takes a microsecond:

# %%
import timeit

from readtorch.csrc.utils.disable_torch_function import has_torch_function

add = face(torch.Tensor.add)  # the bare operator; `face` comes in a moment


def asking_add(*args, **kwargs):
    if has_torch_function(args):
        raise NotImplementedError
    return add(*args, **kwargs)


x = torch.ones(10)
bare, asking = (min(timeit.repeat(lambda f=f: f(x, x), number=2000, repeat=9)) for f in (add, asking_add))
bare < asking

# %% [markdown]
# Most programs define no subclass that has a say, and should not pay for those that do. The class `Tensor` notices when
# one is made (`__init_subclass__`). So the question can wait until then: the first such class raises **gates** in front
# of all public functions, methods and attributes at once.
#
# What follows is how, in Python. Readers who want to use the protocol, not to build it, can go on at [things that are no
# tensors](#what-about-things-that-are-no-tensors).
#
# A wrapper in place of each function would not do. `from torch import add` at the head of a file has taken the function
# already, and a `__torch_function__` compares `func is torch.add`. The *object* has to stay. But in Python a function
# object can be given other code. `gate` is compiled once, and every function gets its code object; what the gate needs to
# know is the default of a keyword. One thing about a function is fixed, its closure, and code must fit it: the first
# instruction of a closure's code says how many cells it takes over. So each function gets a copy of the code with its own
# number there.
#
# The library itself must not run into the gates. So what Python sees as `torch.add` and as `Tensor.add` are two
# **faces**: further function objects with the same code and the same cells as the function that the dispatcher calls.
# They cost nothing, and they can be told apart, as upstream's can.
#
# And a warning must still point at the line that deserves it. `warnings.warn(…, stacklevel=2)` counts frames, and a gate
# is one frame more. Python skips one kind of frame when it counts, that of its import system, which it knows by the
# file's name: `importlib` and `_bootstrap` must be in it. So the gates' code says that it comes from such a file.

# %%
#| into: csrc/utils/gates.py
#| imports
from __future__ import annotations

import dis
import inspect
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from types import CodeType, FunctionType
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
def _make_gate(cell: Any = None) -> Any:
    def gate(*args: Any, _face: Any, **kwargs: Any) -> Any:
        """What every public function does once the gates are up: its own work, unless an argument or a mode must be asked."""
        nonlocal cell  # stands for the cells of the function's own code, none of which is read
        if not kwargs and not _face.entered.modes:
            for value in args:
                if value.__class__ not in _face.plain:
                    break
            else:
                return _face.original(*args)
        return _face.call(args, kwargs)

    return gate


gate: FunctionType = _make_gate()

UNSEEN = "gates.py, passed over by warnings like importlib._bootstrap"
"""What the gates' code says it comes from."""


def gate_for(cells: tuple[str, ...]) -> CodeType:
    """The code of `gate` for a function whose own code has these cells: a function object takes no code that has more, or fewer."""
    code = gate.__code__
    if dis.opname[code.co_code[0]] != "COPY_FREE_VARS":
        raise NotImplementedError("this Python compiles closures in a way that the gates do not know")
    first = bytes((code.co_code[0], len(cells))) if cells else bytes((dis.opmap["NOP"], 0))
    return code.replace(co_freevars=cells, co_code=first + code.co_code[2:], co_filename=UNSEEN)


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
        if not found and self.name.endswith("__get__"):
            found = list(args)
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


Face.call.__code__ = Face.call.__code__.replace(co_filename=UNSEEN)


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


# %% [markdown]
# `candidates` looks into lists and tuples, because `torch.stack([a, b])` has its tensors there. What a
# `__torch_function__` is handed depends on how upstream wrote the function. Compiled functions pass the call on as it was
# made. Python functions spell it out again, `handle_torch_function(relu, (input,), input, inplace=inplace)`, so all
# options arrive as keywords, given or not. Operators arrive as the method of that name (`2 * x` as `Tensor.mul`),
# attributes as the `__get__` or `__set__` of the property. The tables below are these facts; that they hold is tested on
# some hundred calls beside PyTorch.

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
        function.__code__ = gate_for(function.__code__.co_freevars)

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
(
    torch.add.__code__.co_name,
    torch.add.__kwdefaults__["_face"].name,
    torch.add.__wrapped__.__code__.co_name,
    torch.add is torch.Tensor.add,
)

# %% [markdown]
# One call, from the operator to the result. The interesting moment is the second time that `mul` is entered: same
# function, same arguments, and nobody is asked.

# %%
#| trace: torch._tensor torch.csrc.utils layers=calls,ops values=summary title="2 * tagged: asked, answered, called again"
twice = 2 * tagged


# %%
#| needs: a1_operators
#| claim: what was imported before anybody had a say is the same object afterwards; a function and the method of its name are two
def _(torch):
    from_before = torch.add
    given = []

    class Noted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            given.append((func, kwargs))
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(1).as_subclass(Noted)
    from_before(x, 1), 1 + x, x.add(1), x.shape, torch.add(x, 1, alpha=2)
    assert [func for func, _ in given] == [
        torch.add,
        torch.Tensor.add,
        torch.Tensor.add,
        torch.Tensor.shape.__get__,
        torch.add,
    ]
    assert [kwargs for _, kwargs in given] == [None, None, None, None, {"alpha": 2}]
    assert torch.add is from_before is not torch.Tensor.add


# %%
#| needs: a2_layers
#| claim: a Python function of `torch.nn.functional` hands over its options by keyword, the defaults among them; a compiled one, what it was given
#| upstream: torch/nn/functional.py#relu
def _(torch):
    F, given = torch.nn.functional, []

    class Noted(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            given.append((func.__name__, len(args), kwargs))
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(1, 2).as_subclass(Noted)
    F.relu(x), F.softmax(x, 1), F.linear(x, torch.ones(1, 2))
    assert given == [
        ("relu", 1, {"inplace": False}),
        ("softmax", 1, {"dim": 1, "_stacklevel": 3, "dtype": None}),
        ("linear", 2, None),
    ]


# %% [markdown]
# ## What about things that are no tensors?
#
# The method is enough. A lazy array, a unit, a symbolic expression can be passed to `torch.add` without descending from
# `Tensor`. Nothing tells us when such a class is made. But while the gates are down, no operator can do anything with
# such a thing. So each operator asks on its way to the `TypeError`: if the thing has a say, the gates go up, and the call
# is made again.

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
#| needs: a1_operators
#| claim: what has a `__torch_function__` is taken for a tensor by functions and operators, and a function without an answer is a TypeError
#| upstream: torch/csrc/utils/python_arg_parser.h#torch::handle_torch_function_no_python_arg_parser
def _(torch):
    class Diagonal:
        """`n` times the same number."""

        def __init__(self, n, value):
            self.n, self.value = n, value

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.sum:
                return args[0].n * args[0].value
            if func in (torch.matmul, torch.Tensor.matmul):
                return args[0] * args[1].value
            return NotImplemented

    d = Diagonal(3, 2.0)
    assert torch.sum(d) == 6 and (torch.ones(2, 3) @ d).tolist() == [[2.0] * 3] * 2
    try:
        torch.exp(d)
    except TypeError as error:
        assert "torch.exp" in str(error) and "NotImplemented" in str(error)
    else:
        raise AssertionError("computed")


# %% [markdown]
# ### What upstream does more
#
# * `__torch_dispatch__` asks a second time, below autograd. There a class or a `TorchDispatchMode` sees the operators
#   that a call comes down to, those of the backward pass too. Nearly all of what is called a tensor subclass today
#   (`DTensor`, quantized and sparse weights) is built there. Ours has no such key; what happens below autograd can be
#   watched with a trace.
# * `_make_wrapper_subclass` makes a tensor that has a shape and a dtype and no memory, for classes that keep theirs
#   elsewhere.
# * `redispatch_function` calls `func` once without asking, and lets what it is made of ask.
# * Here, while the gates are down, only operators notice a thing that is no tensor. If the very first call with one is to
#   a *Python* function or reads an attribute, `F.interpolate(thing)` say, raise the gates first: a subclass or a mode
#   does, and so does `torch.overrides.get_overridable_functions()`.

# %%
#| fact: torch/utils/_python_dispatch.py#TorchDispatchMode
#| fact: torch/overrides.py#redispatch_function
#| source: NEP 18, "A dispatch mechanism for NumPy's high level array functions"
#| source: pytorch/pytorch#37091

# %% [markdown]
# ### Bugs you can now explain
#
# **“`__torch_function__` documentation for inheriting from tensor seems incomplete or incorrect.”**
# (pytorch/pytorch#55284) The example logged `args`, and the program died of `RecursionError`. Printing an argument calls
# `Tensor.__repr__`, which asks the class, which logs its arguments. The way out is to print with the asking switched off.


# %%
#| needs: a1_operators
#| claim: a `__torch_function__` that prints its arguments calls itself for ever, unless it does so with the asking switched off
def _(torch):
    lines = []

    class Logging(torch.Tensor):
        careful = False

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if cls.careful:
                with torch._C.DisableTorchFunctionSubclass():
                    lines.append(repr(args))
            else:
                lines.append(repr(args))
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(1).as_subclass(Logging)
    try:
        x + 1
    except RecursionError:
        pass
    else:
        raise AssertionError("came to an end")
    Logging.careful = True
    del lines[:]
    x + 1
    assert lines == ["(Logging([1.]), 1)"]


# %% [markdown]
# **“`BoundingBox` cannot be deepcopied”** (pytorch/vision#7698), and docarray#1719, “TorchTensor cannot be deep copied.”:
# `copy.deepcopy` of a model or a sample fails as soon as one tensor in it is of a subclass. `Tensor.__deepcopy__` is
# asked about like everything else, and the default calls it with the asking switched off. So `self.new_empty` inside
# gives a plain tensor; the method finds that the class would change, and refuses. A class that wants to be copied
# overrides `new_empty`. No switch affects that, since Python finds the method and nobody is asked.


# %%
#| needs: a1_operators
#| claim: a deep copy needs a `new_empty` of the class's own; a shallow one and a pickle do not
#| upstream: torch/_tensor.py#Tensor.__deepcopy__
def _(torch):
    import copy

    class Careless(torch.Tensor):
        pass

    class Careful(torch.Tensor):
        def new_empty(self, *args, **kwargs):
            return super().new_empty(*args, **kwargs).as_subclass(type(self))

    try:
        copy.deepcopy(torch.ones(1).as_subclass(Careless))
    except RuntimeError as error:
        assert "new_empty()" in str(error)
    else:
        raise AssertionError("copied")
    x = torch.ones(1).as_subclass(Careful)
    x.tag = ["a"]
    y = copy.deepcopy(x)
    assert type(y) is Careful and y.tag == ["a"] and y.tag is not x.tag
    assert type(copy.copy(torch.ones(1).as_subclass(Careless))) is Careless
