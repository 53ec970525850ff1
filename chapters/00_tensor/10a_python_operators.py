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
# # What stands behind operators: `a + b` in Python
#
# Who computes `tensor * array`, and why does `tensor in a_list` raise? `a + 1` is syntax, and Python decides whom to ask
# first. This part binds the entry points of the operators to `+`, `==`, `@` and the others, and says what each side may
# answer.

# %%
import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Who computes `tensor * array`?
#
# `a + b` calls the same entry point as `torch.add`, with one difference: an operand that is neither tensor nor number
# gives `NotImplemented`, so that Python may ask the other operand. That is Python's protocol, and it lets classes of your
# own take part. It also decides who multiplies a tensor with an array, and the answer is: NumPy.
#
# ```mermaid
# flowchart LR
#   accTitle: tensor * array and array * tensor
#   accDescr: Tensor's method declines, Python asks the array's reflected method, NumPy reads the tensor by __array__, multiplies and wraps the result by __array_wrap__ into a tensor without history. The other way round NumPy declines because of the tensor's priority, the tensor declines too, and Python raises TypeError
#   TA["tensor * array"] --> TM["Tensor.__mul__<br/>NotImplemented"] --> AR["ndarray.__rmul__"] --> N["np.multiply"]
#   N -- "__array__" --> R["reads the tensor's memory"]
#   N -- "__array_wrap__" --> W["a new tensor,<br/>NumPy's dtype, no history"]
#   AT["array * tensor"] --> AM["ndarray.__mul__<br/>NotImplemented: the tensor<br/>has a higher __array_priority__"] --> TR["Tensor.__rmul__<br/>NotImplemented"] --> E["TypeError"]
# ```
#
# `tensor *= array` goes the same way, so it binds the name to a new tensor.
#
# So the product has NumPy's promotion (float64 for an ordinary array) and no `grad_fn`; if the tensor requires a
# gradient, it fails with a message about `numpy()`, which nobody called. The other way round it is a `TypeError`. Say
# `torch.from_numpy(array)` or `torch.as_tensor(array)`, and all of that is gone.

# %%
#| into: csrc/autograd/python_variable_operators.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core.tensor_impl import TensorImpl
from readtorch.csrc.autograd.variable_type import binary
from readtorch.csrc.utils.gates import NOBODY, first_contact, gates
from readtorch.csrc.utils.tensor_new import from_numpy


# %%
#| into: csrc/autograd/python_variable_operators.py
#| upstream: tools/autograd/templates/python_variable_methods.cpp#TypeError_to_NotImplemented_
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


# %%
#| needs: a1_operators
#| claim: a tensor times an array is computed by NumPy, in NumPy's dtype and outside of the graph; an array times a tensor is refused
#| upstream: tools/autograd/templates/python_variable_methods.cpp#TypeError_to_NotImplemented_
def _(torch):
    import warnings

    import numpy as np

    array = np.full(2, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        product = torch.ones(2) * array
    assert product.dtype is torch.float64 and product.tolist() == [3, 3]
    for refused, error in (
        (lambda: torch.ones(2, requires_grad=True) * array, RuntimeError),
        (lambda: array * torch.ones(2), TypeError),
        (lambda: torch.ones(2) + [1, 2], TypeError),
    ):
        try:
            refused()
        except error:
            continue
        raise AssertionError("computed")


# %% [markdown]
# ### `==` is an operator, too
# It compares element by element, while `hash` is the object's address. Everything in Python that tests for equality in
# passing asks `==` for its truth: `tensor in a_list`, `a_list.index(tensor)`, `a_list.remove(tensor)` fail with *Boolean
# value … is ambiguous* as soon as an element that is not the same object comes first. Dictionaries and sets compare
# hashes first, so they work, by identity. To find a tensor in a list, say `any(t is tensor for t in a_list)`.


# %%
#| needs: a1_operators
#| claim: membership in a list asks for the truth of an elementwise comparison; sets and dictionaries go by identity
def _(torch):
    a, b = torch.zeros(2), torch.ones(2)
    assert a in [a, b] and len({a, b, a}) == 2 and {a: 1}[a] == 1
    try:
        assert b in [a, b]
    except RuntimeError as error:
        assert "Boolean value of Tensor with more than one value is ambiguous" in str(error)
    else:
        raise AssertionError("found")
    assert (a == None) is False  # noqa: E711 - == is what is shown


# %% [markdown]
# ### What is `1 / x`?
# A reciprocal and a product: upstream writes `number / tensor` in Python (`_tensor.py`), as `self.reciprocal() * other`.
# That shows in the graph, as two nodes, and in the numbers. The reciprocal is rounded before it is multiplied, so `3 / x`
# and `torch.tensor(3.) / x` differ in the last digit for a good part of all `x`.


# %%
#| needs: a1_operators
#| claim: a number divided by a tensor is a reciprocal and a product, rounded twice
#| upstream: torch/_tensor.py#Tensor.__rdiv__
def _(torch):
    x = torch.arange(1.0, 2000.0).requires_grad_()
    node = (3 / x).grad_fn
    assert node.name() == "MulBackward0" and node.next_functions[0][0].name() == "ReciprocalBackward0"
    assert (3 / x != torch.tensor(3.0) / x).sum() > 100


# %%
#| fact: torch/csrc/utils/python_arg_parser.h#torch::handle_torch_function
