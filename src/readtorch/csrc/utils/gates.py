# Tangled from chapters/00_tensor/ — edit there, or here and run `readtorch sync`.

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
