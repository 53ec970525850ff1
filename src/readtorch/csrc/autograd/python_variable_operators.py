# Tangled from chapters/00_tensor/10a_python_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.autograd.variable_type import binary
from readtorch.csrc.utils.gates import NOBODY, first_contact, gates
from readtorch.csrc.utils.tensor_new import from_numpy


def decline(entry: Any, position: int, operand: Any) -> Any:
    """Let Python ask the other operand."""
    return NotImplemented


BINARY = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "_true_div",
    "__pow__": "pow", "__mod__": "remainder", "__floordiv__": "floor_divide",
    "__and__": "bitwise_and", "__rand__": "bitwise_and", "__or__": "bitwise_or", "__ror__": "bitwise_or",
    "__xor__": "bitwise_xor", "__rxor__": "bitwise_xor", "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift",
    "__eq__": "eq", "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge",
}  # fmt: skip
REFLECTED = {
    "__rsub__": "sub",
    "__rtruediv__": "_true_div",
    "__rpow__": "pow",
    "__rmod__": "remainder",
    "__rfloordiv__": "floor_divide",
    "__rlshift__": "bitwise_left_shift",
    "__rrshift__": "bitwise_right_shift",
}
UNARY = {"__neg__": "neg", "__pos__": "positive", "__abs__": "abs", "__invert__": "bitwise_not"}
INPLACE = {
    "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__ipow__": "pow_", "__imod__": "remainder_",
    "__ifloordiv__": "floor_divide_", "__iand__": "bitwise_and_", "__ior__": "bitwise_or_", "__ixor__": "bitwise_xor_",
}  # fmt: skip


def reflected(entry: Any) -> Any:
    """`number - tensor` and its like: the number becomes a 0-d operand on the left."""
    call = binary(entry, decline)

    def reflect(self: Any, other: Any) -> Any:
        return call(other, self)

    return reflect


def divided(entry: Any) -> Any:
    """`number / tensor`: upstream's is the reciprocal times the number, which can differ from the quotient in its last bit."""
    call, operators = binary(entry, decline), dispatcher.operators

    def reflect(self: Any, other: Any) -> Any:
        if other.__class__ not in (int, float, bool, complex):
            return call(other, self)
        return operators["mul"].call(operators["reciprocal"].call(self), other)

    return reflect


def compared(entry: Any) -> Any:
    """`==` and `!=`, which must not decline an array: Python would compare identities in the end."""
    call = binary(entry, decline)

    def compare(self: Any, other: Any) -> Any:
        return call(self, from_numpy(other) if isinstance(other, np.ndarray) else other)

    return compare


def inverted(entry: Any) -> Any:
    """`~`, which says in its own words what it is for."""

    def invert(self: Any) -> Any:
        if self._array.dtype.kind not in "iub":
            raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
        return entry.call(self)

    return invert


def product(entry: Any) -> Any:
    """`@`, which is of tensors alone."""

    def multiply(self: Any, other: Any) -> Any:
        if isinstance(other, TensorImpl):
            return entry.call(self, other)
        answer = first_contact(entry, (self, other), {}, as_operator=True)
        return NotImplemented if answer is NOBODY else answer

    return multiply


def bind_operator(entry: Any) -> None:
    """Put the operators that call this entry on the class."""
    for name, operator in BINARY.items():
        if operator == entry.name and entry.pointwise is not None:
            _bind(name, compared(entry) if name in ("__eq__", "__ne__") else binary(entry, decline))
    for name, operator in REFLECTED.items():
        if operator == entry.name and entry.pointwise is not None:
            _bind(name, divided(entry) if name == "__rtruediv__" else reflected(entry))
            if name == "__rtruediv__":
                TensorImpl.__rdiv__ = getattr(TensorImpl, name)  # type: ignore[attr-defined]  # added after the class
    for name, operator in UNARY.items():
        if operator == entry.name:
            _bind(name, inverted(entry) if name == "__invert__" else entry.call)
    if entry.name == "matmul":
        _bind("__matmul__", product(entry))
        _bind("__rmatmul__", lambda self, other: NotImplemented)


def _bind(name: str, function: Any) -> None:
    if function.__name__ in ("call", "<lambda>", "reflect", "compare", "invert", "multiply"):
        function.__name__ = name
        function.__qualname__ = f"TensorBase.{name}"
    gates.attach(TensorImpl, name, function)


def _inplace_operator(method: str) -> Any:
    def operator(self: Any, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        return getattr(self, method)(other)

    return operator


def init() -> None:
    """Bind the operators of every entry there is, and of every new one."""
    dispatcher.add_registration_listener(bind_operator)
    for name, method in INPLACE.items():
        _bind(name, _inplace_operator(method))
    TensorImpl.__hash__ = lambda self: id(self)  # type: ignore[method-assign]  # replaces the one that == would take away
