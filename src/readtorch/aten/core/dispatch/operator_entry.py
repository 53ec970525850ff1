# Tangled from chapters/00_tensor/03_dispatcher.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from readtorch.c10.core.dispatch_key import DispatchKey

Array = Any
"""A raw array of whatever backend: NumPy's, CuPy's. The annotation that marks a kernel's tensor parameters."""

Number = Any
"""A Python number of any kind."""

Real = Any
"""A Python number that is not complex. (A `float` refuses a complex number as the wrong kind, a `Real` as one that does not fit.)"""

Dims = Any
"""One dimension or several."""

Ints = Any
"""A list or tuple of ints, for which no single one may stand."""

UNSAID: Any = None
"""The default of an option that may be left out and may not be None."""

TENSOR, OPTIONAL_TENSOR, TENSOR_LIST, OPTION = "tensor", "tensor?", "tensor[]", "option"
_KINDS = {
    "Array": TENSOR,
    "Array | None": OPTIONAL_TENSOR,
    "Tensor": TENSOR,
    "Tensor | None": OPTIONAL_TENSOR,
    "Sequence[Array]": TENSOR_LIST,
    "Sequence[Array | None]": TENSOR_LIST,
}
REQUIRED = inspect.Parameter.empty


class Schema:
    """A kernel's signature: names, kinds and defaults of the parameters, and where the tensors stand."""

    __slots__ = (
        *("annotations", "defaults", "keyword_only", "kinds", "leading", "names", "positional"),
        *("var_keyword", "var_positional", "var_tensors"),
    )

    def __init__(self, kernel: Callable[..., Any], skip: int = 0) -> None:
        code, notes = kernel.__code__, kernel.__annotations__
        count = code.co_argcount
        names = code.co_varnames[skip:count]
        self.positional = len(names)
        self.keyword_only = code.co_varnames[count : count + code.co_kwonlyargcount]
        self.names = names + self.keyword_only
        self.var_positional = code.co_varnames[count + code.co_kwonlyargcount] if code.co_flags & 0x04 else None
        defaults = kernel.__defaults__ or ()
        self.defaults = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        self.defaults.update(kernel.__kwdefaults__ or {})
        self.var_keyword = bool(code.co_flags & 0x08)
        self.var_tensors = notes.get(self.var_positional or "") == "Tensor"
        self.annotations = tuple(notes.get(name, "") for name in self.names)
        self.kinds = tuple(_KINDS.get(note, OPTION) for note in self.annotations)
        #: how many tensors stand first, if all tensors do; else None
        count = next((i for i, kind in enumerate(self.kinds) if kind is not TENSOR), len(self.kinds))
        self.leading = count if all(kind is OPTION for kind in self.kinds[count:]) else None

    def bind(self, op: str, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The value of every parameter. TypeError where Python's own call would raise one."""
        if self.var_positional:
            head = len(self.names) - len(self.keyword_only)
            rest = args[head:]
            args = args[:head]
            if not rest and self.var_positional in kwargs:
                kwargs = dict(kwargs)
                rest = (kwargs.pop(self.var_positional),)
            return [*self._bind(op, args, kwargs), rest]
        return self._bind(op, args, kwargs)

    def _bind(self, op: str, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        names = self.names
        if len(args) > self.positional:
            plural = "" if self.positional == 1 else "s"
            raise TypeError(f"{op}() takes {self.positional} positional argument{plural} but {len(args)} were given")
        if not kwargs and len(args) == len(names):
            return list(args)
        values = list(args)
        taken = 0
        for position in range(len(args), len(names)):
            name = names[position]
            if name in kwargs:
                values.append(kwargs[name])
                taken += 1
            elif position == 0 and "input" in kwargs:
                values.append(kwargs["input"])
                taken += 1
            elif name in self.defaults:
                values.append(self.defaults[name])
            else:
                raise TypeError(f'{op}() missing 1 required positional arguments: "{name}"')
        if taken != len(kwargs):
            for name in kwargs:
                if name not in names and name != "input":
                    raise TypeError(f"{op}() got an unexpected keyword argument '{name}'")
                if name in names[: len(args)]:
                    raise TypeError(f"{op}() got multiple values for argument '{name}'")
        return values


_FACTS = ("shape", "dtype", "geometry")


class Derivative:
    """The formulas of an operator, `parameter -> formula`, and what they need, read off their parameter names.

    A formula's parameters: `at`; `grad` (or `grads` with several outputs, None where one is unused); `result` or the name of an output; the name of any
    parameter; `NAME_shape`, `NAME_dtype` and `NAME_geometry` (shape, strides and offset, in elements) of a tensor parameter; `mask`, which gradients are wanted, in a formula for several parameters (unless the operator has a parameter of that name).
    It returns the gradient of its parameter, a fresh array or `grad` itself, in any shape that broadcasting came from: the engine sums it down.
    """

    __slots__ = ("formulas", "in_opmath", "metas", "needs", "opaque", "options", "outputs", "saved", "wanted_by")

    def __init__(
        self, schema: Schema, formulas: dict[tuple[str, ...], Callable[..., Any]], outputs: tuple[str, ...]
    ) -> None:
        self.formulas = formulas
        self.needs = {
            key: formula.__code__.co_varnames[1 : formula.__code__.co_argcount] for key, formula in formulas.items()
        }
        named = {name for names in self.needs.values() for name in names}
        tensors = [name for name, kind in zip(schema.names, schema.kinds, strict=True) if kind is not OPTION]
        #: tensors kept whole, in the order of the signature
        self.saved = tuple(name for name in tensors if name in named)
        #: facts kept in place of a tensor: pairs (tensor, one of `_FACTS`)
        self.metas = tuple((t, what) for t in tensors for what in _FACTS if f"{t}_{what}" in named)
        #: kept outputs by number
        self.outputs = tuple(i for i, name in enumerate(outputs) if name in named)
        for reserved in ("grad", "grads"):
            if reserved in schema.names:
                raise ValueError(
                    f"a parameter named {reserved!r} cannot be told from the incoming gradient: call it grad_output"
                )
        known = {*self.saved, *(f"{t}_{what}" for t, what in self.metas), *outputs, "grad", "grads", "mask"}
        #: see `opaque` of the dispatcher; None: the formulas lead where they lead
        self.opaque: bool | None = None
        #: does a formula use an option of the call?
        self.options = bool(named - known)
        #: the formulas, by their keys, that are one kernel upstream; see `differentiates_in_opmath`
        self.in_opmath: tuple[tuple[str, ...], ...] = ()
        #: for each kept tensor: the parameters whose gradient wants it
        self.wanted_by = {
            name: tuple(p for key, names in self.needs.items() if name in names for p in key) for name in self.saved
        }

    @property
    def differentiable(self) -> tuple[str, ...]:
        """The parameters that have a formula."""
        return tuple(name for key in self.formulas for name in key)


class OperatorEntry:
    """One operator: its kernels by key, its derivative, and how it is offered to Python.

    `call` is the entry point on tensors, made by `csrc/autograd/variable_type.py` when the operator is registered.
    """

    def __init__(self, name: str, schema: Schema) -> None:
        self.name = name
        self.schema = schema
        self.kernels: dict[DispatchKey, Callable[..., Any]] = {}
        self.derivative: Derivative | None = None
        self.outputs: tuple[str, ...] = ("result",)
        self.named = ""
        self.result_class: type | None = None
        self.variants: tuple[str, ...] = ("function",)
        self.module = ""
        self.method_names: tuple[str, ...] = ()
        self.inplace = False
        #: for an operator in place whose kernel would copy the whole to change a part: a kernel that writes to its first argument
        self.writing: Callable[..., None] | None = None
        #: which operands of a pointwise operator may be Python numbers: "first second"
        self.numbers = ""
        self.out = False
        #: is this what the method knows of the operator? See `as_method`.
        self.is_method = False
        self.view = ""
        self.pointwise: Any = None
        self.composite: Callable[..., Any] | None = None
        self.autocast: str | None = None
        self.node_name = _node_name(name)
        #: for an operator that upstream has several of under one name: the node's name, told from the options of the call
        self.overload: Callable[[dict[str, Any]], str] | None = None
        self.differentiable_outputs: tuple[int, ...] | None = None
        #: its derivative can do without an output that was overwritten since: it is then given None in its place
        self.remakes = False
        #: on what the kernel is run for meta tensors: "zeros", "ones", or "identity"
        self.specimen = "zeros"
        self.call: Any = None
        #: for columns whose arrays are none: what is called in place of `call`, with a kernel and a derivative of its own
        self.forms: dict[DispatchKey, Any] = {}

    def __repr__(self) -> str:
        return f"<OperatorEntry aten::{self.name}>"

    def kernel(self, key: DispatchKey) -> Callable[..., Any]:
        """The kernel in column `key`. NotImplementedError names the operator and the columns that are filled."""
        found = self.kernels.get(key)
        if found is None:
            have = ", ".join(k.name for k in self.kernels)
            raise NotImplementedError(
                f"Could not run 'aten::{self.name}' with arguments from the '{key.name}' backend. It has kernels for [{have}]."
            )
        return found


def _node_name(name: str) -> str:
    return "".join(word.title() if word.islower() else word for word in name.strip("_").split("_")) + "Backward0"
