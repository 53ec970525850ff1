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
# # The first operators
#
# Which activations stay in memory after a forward pass? Which in-place operation may follow which layer? Twenty-odd
# operators are enough to answer: arithmetic, a sum, a matrix product, shapes, copies. Each opens a file that the appendix
# on operators continues, and each is registered in one of the ways of [the part on the
# dispatcher](03_dispatcher.py#how-is-a-row-added).
#
# Read them with three questions. The answers decide what a program may do with a result, and no error message mentions
# them until it is too late:
#
# * What does the node **keep**: inputs, the result, a shape, nothing? (Memory, and which in-place operation may follow.)
# * Does the result look into the argument's **memory**: always, never, sometimes?
# * In which **type** is it computed, as opposed to returned?

# %%
import numpy as np

import readtorch as torch
from readtorch.aten.core.dispatch import dispatcher
from readtorch.literate import live

live()

# %% [markdown]
# ## Where is `mul`?
#
# Upstream there is no single function that multiplies two tensors. The work is cut into pieces with five names, and a
# search for one of them does not lead to the next:
#
# | piece | where | what it says |
# |---|---|---|
# | schema | `native_functions.yaml`, `mul.Tensor` | `structured_delegate: mul.out`: the functional and the in-place form are generated from the `out=` form |
# | shape and dtype | `BinaryOps.cpp`, `TORCH_META_FUNC2(mul, Tensor)` | `build_borrowing_binary_op`: broadcast, promote, allocate |
# | call of the kernel | the same file, `TORCH_IMPL_FUNC(mul_out)` | one line: `mul_stub(device_type(), *this)`, where `this` is a `TensorIterator` |
# | loop | `native/cpu/BinaryOpsKernel.cpp`, `mul_kernel` | compiled once per vector instruction set; `DispatchStub` picks at the first call (`ATEN_CPU_CAPABILITY=default` makes it pick the plain one) |
# | derivative | `derivatives.yaml`, `mul.Tensor` | two lines |
#
# A stack trace shows more names (`wrapper_CPU_mul_Tensor`, `structured_mul_out_functional`), which are generated and in
# no source file. What helps: search for the *stub*. It is declared in a header (`BinaryOps.h`, `UnaryOps.h`,
# `PointwiseOps.h`), and its uses are the call and the loop. The search also shows which operators have no loop of their
# own: `sub` calls `add_stub` with `-alpha`.
#
# Both yaml files are on your disk, even if the source is not: pip installs them with PyTorch, below `torchgen/packaged/`
# (`ATen/native/native_functions.yaml`, `autograd/derivatives.yaml`).

# %%
#| fact: aten/src/ATen/native/native_functions.yaml#mul.Tensor
#| fact: aten/src/ATen/native/BinaryOps.h#at::native::mul_stub
#| fact: aten/src/ATen/native/DispatchStub.h#at::native::DispatchStubImpl::get_call_ptr
#| fact: aten/src/ATen/TensorIterator.h#at::TensorIteratorBase::build_borrowing_binary_op
#| fact: tools/autograd/derivatives.yaml#mul.Tensor

# %% [markdown]
# What all pointwise operators share (promotion, broadcasting, `out=`, `NAME_`) was written once, [before the
# kernels](05_before_the_kernels.py#Pointwise) and in [the forms](07_forms_of_operators.py). One of them adds its ufunc,
# its rule for the dtype, its signature and its derivative.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import binary_ops as binary_ops

# %%
#| into: aten/native/binary_ops.py
#| imports
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, differentiates_in_opmath, operators, pointwise, register
from readtorch.aten.core.dispatch.operator_entry import Array, Number
from readtorch.aten.tensor_iterator import Pointwise, shapes
from readtorch.c10.core.scalar_type import not_implemented, dtype

# %%
#| into: aten/native/binary_ops.py
Rule = Callable[..., Any]


def _operands(self: Array, other: Array) -> Array: ...


def _operands_alpha(self: Array, other: Array, *, alpha: float = 1) -> Array: ...


def binary(
    name: str,
    ufunc: Callable[..., Any],
    promote: str = "same",
    *,
    refuse: Callable[[dtype], str | None] | None = None,
    first: Rule | None = None,
    second: Rule | None = None,
    signature: Callable[..., Any] = _operands,
    kernel: type[Pointwise] = Pointwise,
    numbers: str = "second",
    **description: Any,
) -> None:
    """Register a pointwise operator of two operands; `first` and `second` are the derivatives by them."""
    pointwise(name, kernel(name, ufunc, promote, refuse), signature, numbers=numbers, **description)
    names = operators[name].schema.names
    formulas = {key: rule for key, rule in zip(names, (first, second), strict=False) if rule is not None}
    if formulas:
        derivative(name, formulas)


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::add
#| upstream: tools/autograd/derivatives.yaml#add.Tensor
binary(
    "add",
    np.add,
    first=lambda at, grad: grad,
    second=lambda at, grad: grad,
    signature=_operands_alpha,
    numbers="first second",
)


# %% [markdown]
# Both formulas of `add` return the gradient that came in: one array for two receivers, and nothing is copied. Only the
# leaves copy, and only if somebody else holds the same array. Otherwise a later `a.grad.zero_()` would clear the gradient
# of `b` too.


# %%
#| claim: the two gradients of a sum are one array on the way and two at the leaves
def _(torch):
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    on_the_way = []
    x, y = a * 1, b * 1
    for tensor in (x, y):
        tensor.register_hook(lambda grad: on_the_way.append(grad.data_ptr()))
    (x + y).backward(torch.ones(2))
    assert on_the_way[0] == on_the_way[1]
    assert (a + b).backward(torch.ones(2)) is None
    a.grad.zero_()
    assert b.grad.tolist() == [2, 2]


# %% [markdown]
# `sub` is `add` with a minus, and one refusal. Until 1.2 a comparison gave `uint8`, and programs inverted a mask by `1 -
# mask`. When comparisons began to give `bool`, promotion would have made that an int64 tensor of zeros and ones, which
# indexes positions instead of selecting them: a wrong result and no error. So the minus is refused, and the message says
# what to write.


# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::sub
class _Subtraction(Pointwise):
    """Differences of truth values have no meaning that everybody agrees on: refused, whichever operand is one."""

    def common(self, operands: Sequence[Any]) -> dtype:
        bools = [
            operand for operand in operands if isinstance(operand, bool) or getattr(operand, "dtype", None) == np.bool_
        ]
        if len(bools) == 2:
            raise RuntimeError(
                "Subtraction, the `-` operator, with two bool tensors is not supported: their difference is `^`, or `logical_xor()`."
            )
        if bools:
            raise RuntimeError(
                "Subtraction, the `-` operator, with a bool tensor is not supported: a mask is inverted by `~`, or `logical_not()`."
            )
        return super().common(operands)

    def refused_chars(self) -> str:
        return "?"


binary(
    "sub",
    np.subtract,
    kernel=_Subtraction,
    first=lambda at, grad: grad,
    second=lambda at, grad: -grad,
    signature=_operands_alpha,
    numbers="first second",
)

# %% [markdown]
# Multiplication is the first operator that keeps something: each factor, for the gradient of the *other* one, and only if
# that gradient is wanted.

# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::mul
#| upstream: tools/autograd/derivatives.yaml#mul.Tensor
binary(
    "mul",
    np.multiply,
    first=lambda at, grad, other: grad * at.conj(other),
    second=lambda at, grad, self: grad * at.conj(self),
    numbers="first second",
    autocast="widest",
)


# %%
#| into: aten/native/binary_ops.py
def times(at: Any, array: Any, number: Number) -> Any:
    """`array * number` of a formula. NumPy's product would round the number to 16-bit elements first."""
    return at.mul(array, number) if array.dtype.itemsize == 2 else array * number


# %% [markdown]
# Why `conj`? A real loss of a complex variable has no complex derivative. It has a direction of steepest ascent, and that
# is (up to a factor of 2) the derivative by z̄. Upstream calls that the gradient, so that `z - lr * z.grad` descends, as
# it does for real numbers. The price: for a holomorphic function `.grad` is the conjugate of the derivative in the
# textbook. For real operands `conj` returns its argument.


# %%
#| claim: the gradient of |z|² points along z, so that a step against it shrinks z; the gradient of z² is the conjugate of 2z
#| upstream: torch/csrc/autograd/FunctionsManual.h#torch::autograd::generated::details::handle_r_to_c
def _(torch):
    z = torch.tensor([3 + 4j], requires_grad=True)
    one = torch.ones(1, dtype=torch.complex64)
    assert torch.autograd.grad(z * z.conj(), z, one)[0].item() == 6 + 8j
    assert torch.autograd.grad(z * z, z, one)[0].item() == 6 - 8j


# %% [markdown]
# Division of integers gives floats, which is what `promote="float"` says. The second formula divides twice where a
# mathematician would divide by a square. That is not pedantry: in float32 the square of 10⁻³⁰ is 0.

# %%
#| into: aten/native/binary_ops.py
#| upstream: aten/src/ATen/native/BinaryOps.cpp#at::native::div
#| upstream: tools/autograd/derivatives.yaml#div.Tensor
binary(
    "_true_div",
    np.true_divide,
    "float",
    first=lambda at, grad, other: grad / at.conj(other),
    second=lambda at, grad, self, other: -grad * at.conj(self / other / other),
    numbers="first second",
    variants="",
    node="Div",
    inplace=True,
)
differentiates_in_opmath("mul", "_true_div.self")


# %%
#| claim: the derivative of a quotient by its denominator is finite where the denominator's square is not
def _(torch):
    a, b = torch.tensor([1e-30], requires_grad=True), torch.tensor([1e-30], requires_grad=True)
    (a / b).backward(torch.ones(1))
    assert abs(b.grad.item() / -1e30 - 1) < 1e-6
    assert (b.detach() * b.detach()).item() == 0


# %% [markdown]
# ## Which in-place operation may follow?
#
# The derivative of eˣ is eˣ, so `exp` keeps its *result*, which exists anyway, and lets its input go. The same choice is
# made wherever a derivative can be written with the result (`tanh`, `sigmoid`, `sqrt`, `relu`, `softmax`). It saves
# memory: a chain of such operators keeps one tensor per step instead of two. It costs a freedom: nobody may write to the
# result.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import unary_ops as unary_ops

# %%
#| into: aten/native/unary_ops.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, pointwise, register
from readtorch.aten.core.dispatch.operator_entry import Array, Number
from readtorch.aten.tensor_iterator import Pointwise, shapes
from readtorch.c10.core import scalar_type
from readtorch.c10.core.scalar_type import dtype, not_implemented, to_numpy_dtype


# %%
#| into: aten/native/unary_ops.py
def _operand(self: Array) -> Array: ...


def unary(
    name: str,
    ufunc: Callable[..., Any],
    promote: str = "float",
    formula: Callable[..., Any] | None = None,
    *,
    refuse: Callable[[dtype], str | None] | None = None,
    **description: Any,
) -> None:
    """Register a pointwise operator of one operand and its derivative."""
    pointwise(name, Pointwise(name, ufunc, promote, refuse), _operand, **description)
    if formula is not None:
        derivative(name, self=formula)


unary("exp", np.exp, formula=lambda at, grad, result: grad * at.conj(result), autocast="float32")


# %% [markdown]
# A formula's parameters are what is kept, so the table can be asked which operator keeps what:

# %%
#| needs: a1_operators
for name in ("add", "mul", "exp", "log", "tanh", "sigmoid", "relu", "sqrt", "sin", "sum", "mm", "reshape", "copy_"):
    rule = dispatcher.operators[name].derivative
    assert rule is not None
    shapes = [f"{of}'s {what}" for of, what in rule.metas]
    kept = [*rule.saved, *("result" for _ in rule.outputs), *shapes]
    print(f"{name:8} {', '.join(kept) or 'nothing'}")

# %% [markdown]
# Read upstream's `derivatives.yaml` the same way. A formula that says `result` forbids a write to the result, one that
# says `self` forbids a write to the input, and one that says neither forbids nothing. So `relu_` after a convolution is
# fine: the convolution keeps its input and its weight, and `relu` needs only its own result. `relu_` after a `sigmoid` is
# not.


# %%
#| needs: a1_operators
#| claim: a write to the result is refused in backward where the operator keeps its result, and allowed where it keeps its input or nothing
#| upstream: tools/autograd/derivatives.yaml#tanh
def _(torch):
    def survives(operator, write):
        x = torch.full((3,), 0.5, requires_grad=True)
        y = operator(x * 1)
        write(y)
        try:
            y.sum().backward()
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            return False
        return True

    def add_one(y):
        y.add_(1)

    for operator in (torch.exp, torch.tanh, torch.sigmoid, torch.sqrt, torch.relu, torch.reciprocal):
        assert not survives(operator, add_one), operator
    for operator in (torch.log, torch.sin, torch.cos, torch.abs, torch.neg, lambda x: x + 1, lambda x: x * 3):
        assert survives(operator, add_one), operator
    assert survives(lambda x: x * 3, torch.relu_) and not survives(torch.sigmoid, torch.relu_)


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "In-place operations and autograd do not go together." They do, wherever nobody needs the
# > overwritten value. `nn.ReLU(inplace=True)` in published models was put there by people who had looked.


# %%
#| into: aten/native/unary_ops.py
#| upstream: aten/src/ATen/native/native_functions.yaml#neg
def _no_bool_negation(common: dtype) -> str | None:
    if common is scalar_type.bool:
        return "Negation, the `-` operator, on a bool tensor is not supported: a mask is inverted by `~`, or `logical_not()`."
    return None


unary("neg", np.negative, "same", lambda at, grad: -grad, refuse=_no_bool_negation)


# %%
#| into: aten/native/unary_ops.py
#| upstream: aten/src/ATen/native/UnaryOps.cpp#at::native::conj
@register("_conj_physical", key="CPU CUDA", variants="", node="Conj")
def _conj_physical(self: Array) -> Array:
    return np.conjugate(self)


derivative("_conj_physical", self=lambda at, grad: at.conj(grad))


@composite("conj", variants="function method")
def conj(at: Any, self: Array | Number) -> Any:
    """The complex conjugate; a real tensor itself. (Formulas ask for that of numbers too; the function that Python sees does not.)"""
    return at._conj_physical(self) if is_complex(self) else self


def is_complex(value: Any) -> bool:
    """Is this array, tensor or number complex?"""
    kind = getattr(value, "dtype", None)
    if kind is None:
        return isinstance(value, complex)
    return kind.kind == "c" if isinstance(kind, np.dtype) else kind.is_complex


# %% [markdown]
# Upstream's `conj` computes nothing. It returns a view with a bit set in its key set, and kernels that know the bit read
# the memory conjugated (BLAS has a flag for it). For all others a *fallback* of the dispatcher makes a resolved copy
# first, one function for two thousand operators. Ours computes at once.


# %%
#| claim: the conjugate of a complex tensor is a view with a bit, and copies only when resolved
#| differs: readtorch conjugates at once
#| upstream: aten/src/ATen/native/MathBitsFallback.h#at::native::MathOpFallback
def _(torch):
    z = torch.tensor([1 + 2j])
    assert z.conj().is_conj() and z.conj().data_ptr() == z.data_ptr()
    assert z.conj().resolve_conj().data_ptr() != z.data_ptr()


# %% [markdown]
# ## What does a copy cut, and what not?
#
# Three operations give the same numbers again: `clone`, `copy_`, a conversion. None of them cuts the graph. The gradient
# of a clone goes straight through. That of a conversion is converted back, so a float32 parameter that is used in half
# precision gets a float32 gradient. (It has passed through half precision on its way, where everything below 3·10⁻⁸
# rounds to 0: the reason for loss scaling.) `copy_` cuts on one side: what *was* in the tensor has no influence any more,
# so its gradient is zero; what was copied gets everything.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import copy as copy
from readtorch.aten.native import tensor_conversions as tensor_conversions

# %%
#| into: aten/native/copy.py
#| imports
from __future__ import annotations


import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.expand_utils import is_expandable_to
from readtorch.c10.util.exception import warn_once


# %%
#| into: aten/native/copy.py
#| upstream: aten/src/ATen/native/Copy.cpp#at::native::copy_
@register("copy_", variants="method", node="Copy")
def copy_(self: Array, src: Array, non_blocking: bool = False) -> Array:
    """Overwrite `self` with `src`, broadcast and converted."""
    if not is_expandable_to(src.shape, self.shape):
        shape, rank = list(src.shape), len(src.shape)
        if rank > self.ndim:
            raise RuntimeError(
                f"expand({shape}, size={list(self.shape)}): the number of sizes provided ({self.ndim}) must be greater or equal to the number of dimensions in the tensor ({rank})"
            )
        for i in range(1, rank + 1):
            if src.shape[-i] not in (1, self.shape[-i]):
                raise RuntimeError(
                    f"The size of tensor a ({self.shape[-i]}) must match the size of tensor b ({src.shape[-i]}) at non-singleton dimension {self.ndim - i}"
                )
    if src.dtype.kind == "c" and self.dtype.kind != "c":
        warn_once("Casting complex values to real discards the imaginary part", stacklevel=5)
        src = src.real
    np.copyto(self, src, casting="unsafe")
    return self


derivative("copy_", self=lambda at, grad: at.zeros_like(grad), src=lambda at, grad: grad)

# %%
#| into: aten/native/tensor_conversions.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.scalar_type import to_numpy_dtype


# %%
#| into: aten/native/tensor_conversions.py
#| upstream: aten/src/ATen/native/TensorConversions.cpp#at::native::_to_copy
@register("_to_copy", key="CPU CUDA", variants="", node="ToCopy")
def _to_copy(self: Array, dtype: Any) -> Array:
    """A copy in another dtype."""
    wanted = dtype if isinstance(dtype, np.dtype) else to_numpy_dtype(dtype)
    if self.dtype.kind == "c" and wanted.kind != "c":
        return self.real.astype(wanted)
    if self.dtype.kind == "f" and wanted.kind in "iu":
        return _saturating(self, wanted)
    return _cast(self, wanted)


@register("_to_copy", key="Meta")
def _to_copy_of_nothing(self: Array, dtype: Any) -> Array:
    wanted = dtype if isinstance(dtype, np.dtype) else to_numpy_dtype(dtype)
    return self.astype(wanted)


def _saturating(array: Array, wanted: np.dtype) -> Array:
    """Float to integer as the processor does it: to 32 bits, of which a narrower type keeps the last. 300.0 becomes 44 in uint8, 3e9 the least int32."""
    through = np.dtype(np.int32 if wanted.itemsize < 4 or wanted == np.int32 else np.int64)
    return _cast(array, through).astype(wanted, copy=False)


def _cast(array: Array, wanted: np.dtype) -> Array:
    """Elements that lie as they did, except that an expanded dimension tells no order."""
    return array.astype(wanted, order="C" if 0 in array.strides else "K")


derivative("_to_copy", self=lambda at, grad, self_dtype: at._to_copy(grad, self_dtype))

# %%
#| into: aten/native/tensor_factories.py
#| imports
from __future__ import annotations


from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core import memory_format as formats
from readtorch.c10.core.contiguity import is_contiguous, strides_of_copy
from readtorch.c10.core.dispatch_key import geometry, meta_like, without_values
from readtorch.c10.core.memory_format import memory_format

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import tensor_factories as tensor_factories


# %%
#| into: aten/native/tensor_factories.py
#| upstream: aten/src/ATen/native/TensorFactories.cpp#at::native::clone
@register("clone", key="CPU CUDA", variants="function method")
def clone(self: Array, *, memory_format: memory_format = formats.preserve_format) -> Array:
    """A copy. It keeps the order of the dimensions in memory unless told otherwise."""
    if memory_format is formats.preserve_format or memory_format is None:
        return self.copy(order="C" if 0 in self.strides else "K")
    if memory_format is formats.contiguous_format:
        return self.copy(order="C")
    return to_channels_last(self, memory_format, copy=True)


@register("clone", key="Meta")
def _clone_on_meta(self: Array, *, memory_format: memory_format = formats.preserve_format) -> Array:
    if memory_format is formats.preserve_format or memory_format is None:
        return meta_like(self)
    return (
        meta_like(self, self.shape)
        if memory_format is formats.contiguous_format
        else clone(self, memory_format=memory_format)
    )


derivative("clone", self=lambda at, grad: grad)


def to_channels_last(array: Array, wanted: memory_format, copy: bool = False) -> Array:
    """The array with its channels innermost in memory, in the same logical shape."""
    rank = 4 if wanted is formats.channels_last else 5
    if array.ndim != rank:
        raise RuntimeError(f"required rank {rank} tensor to use {wanted!r} format")
    order = (0, *range(2, rank), 1)
    inverse = (0, rank - 1, *range(1, rank - 1))
    inner = array.transpose(order)
    if not copy and is_in_one_piece(inner):
        return array
    return inner.copy(order="C").transpose(inverse)


def is_in_one_piece(array: Array) -> bool:
    """Do its elements follow each other, last dimension innermost?"""
    return array.flags.c_contiguous or (without_values(array) and is_contiguous(*geometry(array)))


def in_one_piece(result: Array, operand: Array) -> Array:
    """The result with its last dimension innermost."""
    return result if is_in_one_piece(result) else result.copy(order="C")


def in_order_of(result: Array, operand: Array) -> Array:
    """The result with its dimensions in the order of the operand's."""
    if result.shape != operand.shape or is_in_one_piece(operand):
        return result
    wanted = strides_of_copy(*geometry(operand))
    if geometry(result)[1] == wanted:
        return result
    order = sorted(range(result.ndim), key=lambda dim: -wanted[dim])
    return result.transpose(order).copy(order="C").transpose(sorted(range(result.ndim), key=order.__getitem__))


def in_suggested_format(result: Array, operand: Array) -> Array:
    """The result with its channels innermost if the operand's are, else with its last dimension innermost."""
    rank = operand.ndim
    if rank not in (4, 5) or result.ndim != rank or is_in_one_piece(operand):
        return in_one_piece(result, operand)
    if not is_in_one_piece(operand.transpose((0, *range(2, rank), 1))):
        return in_one_piece(result, operand)
    return to_channels_last(result, formats.channels_last if rank == 4 else formats.channels_last_3d)


# %%
#| needs: a1_operators
#| claim: a conversion hands the gradient back in the input's dtype; what half precision cannot hold has become zero on the way
#| upstream: torch/csrc/autograd/FunctionsManual.h#torch::autograd::generated::details::_to_copy_backward
def _(torch):
    x = torch.ones(2, requires_grad=True)
    (x.half() * torch.tensor([1e-5, 1e-8])).sum().backward()
    assert x.grad.dtype is torch.float32
    assert 0.99e-5 < x.grad[0].item() < 1.01e-5 and x.grad[1].item() == 0


# %%
#| claim: `copy_` into a plain tensor makes it part of the graph; what it held before gets a gradient of zeros
def _(torch):
    before, source = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    target = before * 5
    target.copy_(source)
    target.sum().backward()
    assert before.grad.tolist() == [0, 0] and source.grad.tolist() == [1, 1]
    plain = torch.zeros(2)
    plain.copy_(source)
    assert plain.requires_grad and not plain.is_leaf


# %% [markdown]
# A clone keeps the order of the dimensions if the memory has no gaps and no overlaps. Anything else becomes contiguous.
# The case to know is an expanded tensor: its clone is the moment at which it becomes as large as it looks.


# %%
#| claim: a clone of a transposed tensor is transposed in memory, a clone of an expanded or sliced one is contiguous
#| upstream: aten/src/ATen/ExpandUtils.h#at::infer_dense_strides
def _(torch):
    assert torch.ones(4, 3).t().clone().stride() == (1, 3)
    wide = torch.ones(1, 3).expand(4, 3)
    assert wide.untyped_storage().nbytes() == 12 and wide.clone().untyped_storage().nbytes() == 48
    assert wide.clone().stride() == (3, 1)


# %% [markdown]
# ## Does `zero_()` forget the history?
#
# No. A tensor with a history that is filled by `zero_()` has the node `ZeroBackward0` afterwards, and gradients of zero
# flow to whatever it was computed from. They cost as much as real ones. To *forget* the history, say `detach_()`.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import fill as fill

# %%
#| into: aten/native/fill.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.tensor_iterator import fitting


# %%
#| into: aten/native/fill.py
#| upstream: aten/src/ATen/native/Fill.cpp#at::native::fill_
@register("_fill_scalar_", variants="", node="Fill")
def _fill_scalar_(self: Array, value: Any) -> Array:
    number = fitting(value, self.dtype)
    self[...] = number if self.__class__ is np.ndarray else value
    return self


derivative("_fill_scalar_", self=lambda at, grad: at.zeros_like(grad))


@register("_fill_tensor_", variants="", node="Fill")
def _fill_tensor_(self: Array, value: Array) -> Array:
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor; this one has {value.ndim} dimensions.")
    self[...] = value
    return self


derivative("_fill_tensor_", self=lambda at, grad: at.zeros_like(grad), value=lambda at, grad: at.sum(grad))


@register("zero_", variants="function method", node="Zero")
def zero_(self: Array) -> Array:
    """Set every element to zero."""
    self[...] = 0
    return self


derivative("zero_", self=lambda at, grad: at.zeros_like(grad))


# %%
#| claim: zero_ keeps the graph and sends zeros back through it; detach_ cuts it
#| upstream: tools/autograd/derivatives.yaml#zero_
def _(torch):
    leaf = torch.ones(2, requires_grad=True)
    hidden = leaf * 3
    hidden.zero_()
    assert hidden.grad_fn.name() == "ZeroBackward0" and hidden.grad_fn.next_functions[0][0].name() == "MulBackward0"
    hidden.sum().backward()
    assert leaf.grad.tolist() == [0, 0]
    other = leaf * 3
    other.detach_()
    assert other.grad_fn is None and not other.requires_grad


# %% [markdown]
# ## Which dimension is meant?
#
# `dim=-1` counts from the end. A tensor without dimensions is treated as if it had one, so that code written for vectors
# runs on scalars. Two more rules cannot be guessed. `unsqueeze` counts among the *new* dimensions (`-1` puts one behind
# the last). And an empty list of dimensions means all of them, where NumPy's `axis=()` means none: `x.sum(dims)` with a
# computed `dims` that happens to be empty is a number.

# %%
#| into: c10/core/wrap_dim_minimal.py
#| imports
from __future__ import annotations

from typing import Any


# %%
#| into: c10/core/wrap_dim_minimal.py
def as_dim(dim: Any, name: str = "dim") -> int:
    """A NumPy integer, or whatever else counts, as an int. TypeError for what does not count; a bool is no dimension."""
    try:
        if isinstance(dim, bool) or getattr(dim, "ndim", False):
            raise TypeError
        return int(dim.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"argument '{name}' must be int, not {type(dim).__name__}") from None


# %%
#| into: c10/core/wrap_dim_minimal.py
#| upstream: c10/core/WrapDimMinimal.h#c10::maybe_wrap_dim
def maybe_wrap_dim(dim: Any, rank: int, wrap_scalar: bool = True) -> int:
    """`dim` counted from the front. IndexError outside of [-rank, rank-1]; a 0-d tensor has one dimension here."""
    if dim.__class__ is not int:
        dim = as_dim(dim)
    if rank <= 0:
        if not wrap_scalar:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        rank = 1
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim + rank if dim < 0 else dim


# %%
#| into: aten/wrap_dim_utils.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/wrap_dim_utils.py
#| upstream: aten/src/ATen/WrapDimUtilsMulti.h#at::dim_list_to_bitset
def reduced_dims(dim: Any, rank: int) -> tuple[int, ...]:
    """The dimensions to reduce over: all for None and for an empty list. RuntimeError if one stands twice."""
    if dim is None:
        return tuple(range(rank))
    found: tuple[int, ...]
    if dim.__class__ is int or not isinstance(dim, list | tuple):
        found = (maybe_wrap_dim(dim, rank),)
    else:
        found = tuple(maybe_wrap_dim(d, rank) for d in dim)
    if not found:
        return tuple(range(rank))
    if len(set(found)) != len(found):
        twice = next(d for d in found if found.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return found if rank else ()


def dim_for_keepdim(op: str, keepdim: Any) -> None:
    """TypeError for a `keepdim` without the dimension that it speaks of: the function without dimensions has no such argument."""
    if keepdim is not None:
        raise TypeError(f'{op}() missing 1 required positional arguments: "dim"')


def sizes(args: tuple, name: str = "size", named: dict[str, Any] | None = None) -> tuple[int, ...]:
    """A shape given as separate numbers or as one sequence, or by its `name`. TypeError unless they are integers."""
    if named:
        wrong = next((key for key in named if key != name), name if args else None)
        if wrong is not None:
            raise TypeError(f"got an unexpected keyword argument '{wrong}'")
        args = (named[name],)
        if hasattr(args[0], "__index__") and not getattr(args[0], "ndim", 0):
            raise TypeError(f"argument '{name}' must be tuple of ints, not {type(args[0]).__name__}")
    if not args:
        raise TypeError(f'missing 1 required positional arguments: "{name}"')
    values: Any = args[0] if len(args) == 1 and not hasattr(args[0], "__index__") else args
    if values.__class__ is not tuple:
        if not isinstance(values, list | tuple):
            raise TypeError(f"argument '{name}' must be tuple of ints, not {type(values).__name__}")
        values = tuple(values)
    for value in values:
        if value.__class__ is not int:
            return tuple(_integer(v, name, position) for position, v in enumerate(values))
    return values


def together(value: Any, name: str = "size") -> tuple[int, ...]:
    """A shape that must be given as one sequence. TypeError for a number."""
    if hasattr(value, "__index__") and not getattr(value, "ndim", 0):
        raise TypeError(f"argument '{name}' must be tuple of ints, not {type(value).__name__}")
    return sizes((value,), name)


def _integer(value: Any, name: str, position: int) -> int:
    try:
        if value.__class__ is bool and not position:  # upstream looks at the first alone
            raise TypeError
        return value.__index__()
    except (AttributeError, TypeError):
        kind = type(value).__name__
        raise TypeError(
            f"argument '{name}' must be tuple of ints, but found element of type {kind} at pos {position}"
        ) from None


# %%
#| claim: a 0-d tensor has one dimension for whoever names it; an empty list of dimensions means all
#| upstream: c10/core/WrapDimMinimal.h#c10::maybe_wrap_dim
def _(torch):
    import numpy as np

    number = torch.tensor(3.0)
    assert number.sum(0).item() == number.sum(-1).item() == 3
    try:
        number.sum(1)
    except IndexError as error:
        assert "Dimension out of range (expected to be in range of [-1, 0], but got 1)" in str(error)
    else:
        raise AssertionError("found a second dimension")
    assert torch.ones(2, 3).sum(()).item() == 6 and np.ones((2, 3)).sum(()).shape == (2, 3)
    assert torch.ones(2, 3).unsqueeze(-1).shape == (2, 3, 1)


# %% [markdown]
# ## A sum: in which type, in which order, and what is its gradient made of?
#
# Three things that the line `x.sum()` does not show:
#
# **The type.** Small integers are summed as int64. Half-precision numbers are summed in float32 and rounded once, at the end: summed in their own type, ones would stop counting at 2048, where the
# next half-precision number is 2 away.
#
# **The order.** Nobody adds from left to right. NumPy adds in blocks, whose sums are added pairwise. Upstream keeps
# several accumulators, one per lane of a vector register and several deep (*cascade sum*), and cuts a large tensor into
# pieces for its threads. Both keep the rounding error from growing with the number of elements, and both give a last
# digit that differs from a loop's, from each other's, and from a GPU's. Two machines that train differently from the
# sixth digit on are not broken.
#
# **The gradient.** It is one number, repeated as often as there were elements. So it is not written out: it is an
# `expand` of that number, with strides of 0. That is why the formula names `self_shape`: the derivative needs to know how
# large the input was, not what was in it.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import reduce_ops as reduce_ops

# %%
#| into: aten/native/reduce_ops.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, overloads, register
from readtorch.aten.core.dispatch.operator_entry import UNSAID, Array, Dims, Real
from readtorch.aten.wrap_dim_utils import dim_for_keepdim, reduced_dims, sizes
from readtorch.c10.core.scalar_type import dtype, to_numpy_dtype

from readtorch.aten.tensor_iterator import in_order


# %%
#| into: aten/native/reduce_ops.py
#| upstream: aten/src/ATen/native/ReduceOps.cpp#at::native::sum
@register("sum", key="CPU CUDA", variants="function method", out=True, autocast="float32")
def sum(self: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Array:
    """The sum over `dim` (an int, several, or None for all). Integers are summed as int64."""
    kind = self.dtype.kind
    if dim is None and dtype is None and not keepdim and kind == "f" and self.itemsize >= 4:
        return np.add.reduce(self, axis=None)
    accumulate = to_numpy_dtype(dtype) if dtype is not None else np.dtype(np.int64) if kind in "biu" else None
    return _add_up(self, reduced_dims(dim, self.ndim), keepdim, accumulate)


def _add_up(array: Array, axes: tuple[int, ...], keepdim: bool, dtype: np.dtype | None) -> Array:
    """Half-width floats are summed in float32 and rounded once, as upstream's kernels do."""
    result_dtype = array.dtype if dtype is None else dtype
    if not axes:
        return array.astype(result_dtype)
    if result_dtype.itemsize == 2 and result_dtype.kind in "fV":
        return in_order(np.asarray(array.astype(np.float32).sum(axis=axes, keepdims=keepdim)).astype(result_dtype))
    return in_order(array.sum(axis=axes, keepdims=keepdim, dtype=dtype))


def spread(at: Any, grad: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """The gradient of a reduction, stretched back over the reduced dimensions."""
    if not keepdim and dim is not None and len(shape):
        for axis in sorted(reduced_dims(dim, len(shape))):
            grad = at.unsqueeze(grad, axis)
    return at.expand(grad, shape)


derivative("sum", self=lambda at, grad, self_shape, dim, keepdim: spread(at, grad, self_shape, dim, keepdim))
overloads("sum", lambda given: f"SumBackward{0 if given['dim'] is None else 1}")


# %%
three = [1e8, 1.0, -1e8]
many = torch.tensor(three * 1000)
print("float32:", many.sum().item(), " from left to right:", end=" ")
total = np.float32(0)
for number in three * 1000:
    total += np.float32(number)
print(total, " float64:", many.double().sum().item())


# %%
#| claim: half-precision ones can be counted beyond 2048; bools and small integers are summed as int64
#| upstream: aten/src/ATen/native/ReduceOpsUtils.h#at::meta::make_reduction_from_out_ty
def _(torch):
    assert torch.ones(4096, dtype=torch.float16).sum().item() == 4096
    assert (torch.tensor(2048.0).half() + torch.tensor(1.0).half()).item() == 2048
    assert torch.tensor([200, 100], dtype=torch.uint8).sum().item() == 300
    assert torch.ones(3, dtype=torch.bool).sum().dtype is torch.int64


# %%
#| claim: the gradient that a sum sends back is one element with strides of 0, and a hook that writes to it is refused
#| upstream: torch/csrc/autograd/FunctionsManual.h#torch::autograd::generated::details::sum_backward
def _(torch):
    x = torch.ones(3, requires_grad=True)
    hidden = x * 1
    strides = []
    hidden.register_hook(lambda grad: strides.append(grad.stride()))
    hidden.sum().backward()
    assert strides == [(0,)] and x.grad.stride() == (1,)
    hidden = x * 1
    hidden.register_hook(lambda grad: grad.mul_(2))
    try:
        hidden.sum().backward()
    except RuntimeError as error:
        assert "single memory location" in str(error)
    else:
        raise AssertionError("one number was doubled three times")


# %% [markdown]
# Clipping in a hook by `grad.clamp_(…)` works for years, until somebody puts the hooked layer last. A hook should return
# a new tensor.


# %%
#| into: aten/native/reduce_ops.py
@register("sum_to_size", key="CPU CUDA", variants="method")
def sum_to_size(self: Array, *size: Any) -> Array:
    """Sum down to `size`, which broadcasting would stretch to the shape of `self`."""
    from readtorch.aten.expand_utils import is_expandable_to, sum_to
    from readtorch.aten.wrap_dim_utils import sizes

    shape = sizes(size)
    if not is_expandable_to(shape, self.shape):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(self.shape)}}}.")
    return sum_to(self, shape)


derivative("sum_to_size", self=lambda at, grad, self_shape: at.expand(grad, self_shape))

# %% [markdown]
# ## Shapes: why are the derivatives shapes again?
#
# None of these operators computes anything. Each hands out the same memory under other strides, and its derivative is the
# operator that undoes it: for `transpose` itself, for `permute` the inverse permutation, for `reshape` the way back to
# the old shape, for `unsqueeze` a `squeeze`. Only `expand` has a derivative that adds. Upstream its formula says so,
# `sum_to`; here it need not, since the engine sums every gradient down to [the shape of the
# input](05_before_the_kernels.py#sum_to). So a backward pass through shapes costs as little as the forward pass, as long
# as nobody needs the elements in order.
#
# The exception is `reshape`, whose registration says `view="maybe"`. It looks into the same memory where it can and
# copies where it must. Which of the two it did shows afterwards, in the name of the node.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import tensor_shape as tensor_shape

# %%
#| into: aten/native/tensor_shape.py
#| imports
from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import composite, derivative, overloads, register
from readtorch.aten.core.dispatch.operator_entry import Array, Dims, Ints
from readtorch.aten.native.type_properties import result_type
from readtorch.aten.wrap_dim_utils import sizes
from readtorch.c10.core.device_guard import on_host
from readtorch.c10.core.dispatch_key import geometry, outline
from readtorch.c10.core.scalar_type import not_implemented, to_numpy_dtype, to_string
from readtorch.c10.core.wrap_dim_minimal import as_dim, maybe_wrap_dim


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/InferSize.h#at::infer_size
def inferred(shape: tuple[int, ...], numel: int) -> tuple[int, ...]:
    """`shape` with its -1 filled in. RuntimeError if the number of elements does not fit."""
    if -1 not in shape:
        if math.prod(shape) == numel and (not shape or builtins.min(shape) >= 0):
            return shape
        if shape and builtins.min(shape) < -1:
            raise RuntimeError(f"invalid shape dimension {builtins.min(shape)}")
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    if shape.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if builtins.min(shape) < -1:
        raise RuntimeError(f"invalid shape dimension {builtins.min(shape)}")
    known = math.prod(size for size in shape if size != -1)
    if known == 0:
        if numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)}: any size would do for the -1, so it is ambiguous"
            )
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    if numel % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if size == -1 else size for size in shape)


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::reshape
@register("reshape", key="CPU CUDA", variants="function method", view="maybe", node="View")
def reshape(self: Array, *shape: Any) -> Array:
    """The same elements in another shape: a view where the strides allow it, else a copy."""
    try:
        result = self.reshape(*shape)
    except (ValueError, TypeError):
        return self.reshape(inferred(sizes(shape, "shape"), self.size))
    if result.shape != shape and result.shape != shape[0]:
        for size in shape:  # NumPy takes any negative number for -1, and None for the whole
            if size.__class__ is not int or size < -1:
                inferred(sizes(shape, "shape"), self.size)
                break
    return result


@register("reshape", key="Meta")
def _reshape_on_meta(self: Array, *shape: Any) -> Array:
    return self.reshape(inferred(sizes(shape, "shape"), self.size))


derivative("reshape", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


@register("_unsafe_view", key="CPU CUDA", variants="")
def _unsafe_view(self: Array, shape: tuple[int, ...]) -> Array:
    """A fresh result in another shape. It is no view of anything that anybody has seen."""
    return self.reshape(shape)


register("_unsafe_view", key="Meta")(_reshape_on_meta)

derivative("_unsafe_view", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::view
@register("_view", key="CPU CUDA", variants="", view="always", node="View")
def _view(self: Array, shape: tuple[int, ...]) -> Array:
    wanted = inferred(shape, self.size)
    result = self.reshape(wanted)
    if (
        self.size
        and result.base is not self
        and (self.base is None or result.base is not self.base)
        and result is not self
    ):
        raise _no_view()
    return result


def _no_view() -> RuntimeError:
    return RuntimeError(
        "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
        "subspaces). Use .reshape(...) instead: it copies where it must."
    )


@register("_view", key="Meta")
def _view_on_meta(self: Array, shape: tuple[int, ...]) -> Array:
    result = _reshape_on_meta(self, shape)
    if result.base is not self.base:
        raise _no_view()
    return result


derivative("_view", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


# %%
#| needs: a1_operators
#| claim: the node tells whether reshape copied: ViewBackward0 if not, UnsafeViewBackward0 if it did
def _(torch):
    x = torch.ones(2, 3, requires_grad=True)
    assert x.reshape(6).grad_fn.name() == x.flatten().grad_fn.name() == "ViewBackward0"
    assert x.t().reshape(6).grad_fn.name() == "UnsafeViewBackward0"
    assert x.detach().reshape(6)._base is not None and x.detach().t().reshape(6)._base is None


# %% [markdown]
# "Unsafe", because autograd is not told that the result looks into other memory. It does: into that of the copy, which
# nobody else has.
#
# When must it copy? Walk over the old dimensions from the right and merge two neighbours wherever the outer stride is the
# inner stride times the inner size. Each run of merged dimensions is a stretch of memory with even steps, and a view
# exists if every new dimension lies within one stretch. That is why neighbouring *rows* of a contiguous tensor can always
# be flattened, and neighbouring columns never.


# %%
def stretches(tensor):
    """Sizes and steps of the evenly spaced runs that a view can cut up as it likes."""
    runs = []
    for size, step in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if runs and step == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * size, runs[-1][1])
        else:
            runs.append((size, step))
    return runs[::-1]


whole = torch.zeros(4, 6, 5)
(
    stretches(whole),
    stretches(whole.transpose(0, 1)),
    stretches(whole.transpose(1, 2)),
    stretches(whole.expand(4, 6, 5)[None]),
)


# %%
#| needs: a1_operators
#| claim: rows cut from a tensor can be viewed flat; columns cut from it can be split within a row and not flattened across rows
#| upstream: aten/src/ATen/TensorUtils.h#at::detail::computeStride
def _(torch):
    x = torch.zeros(4, 6)
    assert x[1:3].view(12)._base is x
    assert x[:, :4].view(4, 2, 2).stride() == (6, 2, 1)
    try:
        x[:, :4].view(16)
    except RuntimeError as error:
        assert "view size is not compatible with input tensor's size and stride" in str(error)
    else:
        raise AssertionError("viewed")


# %% [markdown]
# A detail of speed: `np.broadcast_to` checks so much that it takes longer than a small addition, and `as_strided` longer
# still. The array constructor, given memory and strides, is quick.


# %%
#| into: aten/native/tensor_shape.py
def strided_view(array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """The memory from the first element of `array` on, in another shape and with other strides (in bytes)."""
    if array.__class__ is np.ndarray and array.flags.c_contiguous and array.size:
        return np.ndarray(shape, array.dtype, array, 0, strides)
    if array.__class__ is np.ndarray:
        return np.lib.stride_tricks.as_strided(array, shape, strides)
    return np.broadcast_to(array, shape)


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::expand
@register("alias", key="CPU CUDA", variants="", view="always")
def alias(self: Array) -> Array:
    """The same elements under another tensor object: `x[...]`, or one of another class."""
    return self


derivative("alias", self=lambda at, grad: grad)


@register("expand", key="CPU CUDA", variants="method", view="always")
def expand(self: Array, *size: Any, implicit: bool = False) -> Array:
    """Stretch dimensions of size 1 without copying; -1 keeps a size."""
    shape = list(sizes(size))
    lead = len(shape) - self.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand({list(self.shape)}, size={shape}): the number of sizes provided ({len(shape)}) must be greater or equal to the number of dimensions in the tensor ({self.ndim})"
        )
    if shape and builtins.min(shape) < -1:
        raise RuntimeError(f"The expanded size of the tensor ({builtins.min(shape)}) must not be negative")
    for i, wanted in enumerate(shape):
        have = self.shape[i - lead] if i >= lead else 1
        if wanted == -1:
            if i < lead:
                raise RuntimeError(
                    f"expand({list(self.shape)}, size={shape}): the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}"
                )
            shape[i] = have
        elif have not in (1, wanted):
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) must match the existing size ({have}) at non-singleton dimension {i}.  Target sizes: {shape}.  Tensor sizes: {list(self.shape)}"
            )
    strides = (0,) * lead + tuple(
        0 if have == 1 and want != 1 else step
        for have, want, step in zip(self.shape, shape[lead:], self.strides, strict=True)
    )
    return strided_view(self, tuple(shape), strides)


derivative("expand", self=lambda at, grad: grad)


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::unsqueeze
@register("unsqueeze", key="CPU CUDA", variants="function method", view="always", inplace=False)
def unsqueeze(self: Array, dim: int) -> Array:
    """A dimension of size 1 put in front of dimension `dim`."""
    place = maybe_wrap_dim(dim, self.ndim + 1)
    return (
        self.reshape(*self.shape[:place], 1, *self.shape[place:])
        if self.flags.c_contiguous
        else self[(slice(None),) * place + (None,)]
    )


@register("unsqueeze", key="Meta")
def _unsqueeze_on_meta(self: Array, dim: int) -> Array:
    place = maybe_wrap_dim(dim, self.ndim + 1)
    shape, steps = geometry(self)
    step = shape[place] * steps[place] if place < self.ndim else 1
    return self.seen_as(
        outline((*shape[:place], 1, *shape[place:]), (*steps[:place], step, *steps[place:]), self.offset)
    )


derivative("unsqueeze", self=lambda at, grad, dim: at.squeeze(grad, dim))


@register("squeeze", key="CPU CUDA", variants="function method", view="always")
def squeeze(self: Array, *dim: Any) -> Array:
    """Drop dimensions of size 1: all, or those in `dim`."""
    if not dim:
        wanted = tuple(range(self.ndim))
    else:
        wanted = tuple(maybe_wrap_dim(d, self.ndim) for d in sizes(dim, "dim"))
        if len(set(wanted)) != len(wanted):
            raise RuntimeError(f"dim {wanted[0]} appears multiple times in the list of dims")
    return self[(*(0 if axis in wanted and size == 1 else slice(None) for axis, size in enumerate(self.shape)), ...)]


derivative("squeeze", self=lambda at, grad, self_shape: at.reshape(grad, self_shape))


def _which_squeeze(given: dict[str, Any]) -> str:
    dim = given["dim"]
    several = len(dim) > 1 or (dim and isinstance(dim[0], tuple | list))
    return f"SqueezeBackward{2 if several else 1 if dim else 0}"


overloads("squeeze", _which_squeeze)


# %%
#| into: aten/native/tensor_shape.py
#| upstream: aten/src/ATen/native/TensorShape.cpp#at::native::transpose
@register("transpose", key="CPU CUDA", variants="function method", view="always")
def transpose(self: Array, dim0: int, dim1: int) -> Array:
    """Two dimensions exchanged."""
    first, second = maybe_wrap_dim(dim0, self.ndim), maybe_wrap_dim(dim1, self.ndim)
    return self.swapaxes(first, second) if self.ndim else self


derivative("transpose", self=lambda at, grad, dim0, dim1: at.transpose(grad, dim0, dim1))


@register("t", key="CPU CUDA", variants="function method", view="always")
def t(self: Array) -> Array:
    """A matrix transposed; vectors and scalars as they are."""
    if self.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self.T


derivative("t", self=lambda at, grad: at.t(grad))


@register("permute", key="CPU CUDA", variants="function method", view="always")
def permute(self: Array, *dims: Any) -> Array:
    """All dimensions in a new order."""
    order = sizes(dims, "dims")
    if len(order) != self.ndim:
        raise RuntimeError(
            "permute(): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions: "
            f"input.dim() = {self.ndim}, len(dims) = {len(order)}"
        )
    wrapped = tuple(maybe_wrap_dim(dim, self.ndim) for dim in order)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return self.transpose(wrapped)


def _permute_backward(at: Any, grad: Any, dims: tuple) -> Any:
    order = sizes(dims, "dims")
    wrapped = [dim % len(order) for dim in order] if order else []
    return at.permute(grad, sorted(range(len(wrapped)), key=wrapped.__getitem__))


derivative("permute", self=lambda at, grad, dims: _permute_backward(at, grad, dims))

# %% [markdown]
# ## What does a matrix product keep?
#
# Its derivative can be remembered without calculus. Of `(n, m) × (m, p) → (n, p)` the gradient is `(n, p)`, the input's
# gradient must be `(n, m)`, and there is one way to make that from `(n, p)` and `(m, p)`: `grad @ bᵀ`. The same holds for
# the other side. So backward costs two products where forward costs one, which is where the factor of 3 in estimates of
# training cost comes from. The first layer pays for one only, since nobody wants the gradient of the data.
#
# Each side keeps the *other* factor. A layer with a frozen weight does not keep its input, which is usually the larger of
# the two. That is what fine-tuning a few parameters saves, besides the optimizer's state.

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import linear_algebra as linear_algebra

# %%
#| into: aten/native/linear_algebra.py
#| imports
from __future__ import annotations


import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import UNSAID, Array, Dims, Number, Real
from readtorch.c10.core import scalar_type


# %%
#| into: aten/native/linear_algebra.py
#| upstream: aten/src/ATen/native/native_functions.yaml#mm
#| upstream: tools/autograd/derivatives.yaml#mm
@register("mm", key="CPU CUDA", variants="function method", out=True, autocast="low")
def mm(self: Array, mat2: Array) -> Array:
    """Matrix times matrix: `(n, m) × (m, p) → (n, p)`."""
    if self.ndim == 2 and mat2.ndim == 2 and self.dtype is mat2.dtype and self.dtype.char in "fdFD":
        try:
            return self.dot(mat2)
        except ValueError:
            pass
    if self.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if mat2.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({self.shape[0]}x{self.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    return product(self, mat2)


def product(a: Array, b: Array) -> Array:
    """`a @ b` for one dtype. RuntimeError for two. Half-width floats accumulate in float32, as upstream's kernels do."""
    if a.dtype is not b.dtype and a.dtype != b.dtype:
        names = " != ".join(scalar_type.cpp_type(x.dtype) for x in (a, b))
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {names}")
    if a.dtype.itemsize == 2 and a.dtype.kind in "fV":
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    return np.matmul(a, b)


derivative(
    "mm",
    self=lambda at, grad, mat2: at.mm(grad, at.conj(at.t(mat2))),
    mat2=lambda at, grad, self: at.mm(at.conj(at.t(self)), grad),
)


# %%
#| claim: a product keeps its input only if the weight wants a gradient, and its weight only if the input does
#| upstream: torch/csrc/autograd/FunctionsManual.h#torch::autograd::generated::details::mm_mat1_backward
def _(torch):
    x, weight = torch.ones(2, 3), torch.ones(3, 4)
    node = torch.mm(x.clone().requires_grad_(), weight).grad_fn
    assert node._saved_self is None and node._saved_mat2 is not None
    node = torch.mm(x, weight.clone().requires_grad_()).grad_fn
    assert node._saved_self is not None and node._saved_mat2 is None


# %%
x, weight = torch.ones(2, 3), torch.ones(3, 4, requires_grad=True)
first = torch.mm(x, weight)
second = torch.mm(first, torch.ones(4, 2, requires_grad=True))

# %% [markdown]
# Two layers, and the walk back: `MmBackward0` of the second layer runs two products, that of the first layer one.

# %%
#| trace: torch.aten.native.linear_algebra layers=calls,autograd,ops values=summary title="two products forward, three back"
second.sum().backward()

# %% [markdown]
# Everything that a call goes through is there. What Python sees of a tensor, its attributes and its syntax, is built on top of it:
# [the next part](09_python_tensor.py). The main line goes on to [`torch.autograd`](12_autograd.py).
