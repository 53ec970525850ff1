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
# # What operators share: shapes, types, the order of a result
#
# A loss comes out wrong because two shapes were broadcast, a result is half precision where single was expected, a
# `.view` works on one result and not on another. Such facts do not belong to one operator: they are decided in the layer
# that all operators share. This part begins that layer. It has three rules: how shapes meet, which dtype is computed in,
# and in which order a result lies in memory.
#
# The layer is the column `Autograd` of [the dispatcher's table](03_dispatcher.py). Upstream fills it with generated code:
# for each operator a C++ function that looks whether an input wants a gradient, calls the kernel below, makes the node
# and attaches it to the result. `tools/autograd` writes ten files of such functions, `VariableType_0.cpp` to
# `VariableType_9.cpp`, from `derivatives.yaml`. They are in no repository and in every backtrace. In Python a function
# can make functions, so ours is written once per *form* of operator.
#
# After these rules come [how views, and writes to them, are kept in the graph](05a_place_in_the_graph.py), [what may be
# passed to a call](05b_arguments.py), [the path from a call to its result](06_from_call_to_result.py), and [the
# forms](07_forms_of_operators.py).

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Why did a wrong shape give no error?
#
# Most mistakes in broadcasting raise nothing. A column of targets meets a row of predictions, and the loss is taken over
# all pairs:

# %%
prediction, target = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([[1.0], [2.0], [3.0]])
difference = prediction - target
difference.shape, (difference * difference).sum().item()

# %% [markdown]
# The prediction was perfect, and the loss is not zero. Broadcasting looks at each pair of dimensions *from the right*:
# they must be equal, or one of them must be 1 or missing. Here both rules applied, once in each direction, and both
# operands were stretched.
# %%
#| into: aten/expand_utils.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.op_math_type import in_working_precision


# %%
#| into: aten/expand_utils.py
#| upstream: aten/src/ATen/ExpandUtils.cpp#at::infer_size
def infer_size(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The broadcast shape of two. RuntimeError names the first dimension, from the right, that does not fit."""
    rank = max(len(a), len(b))
    result = [1] * rank
    for dim in range(rank - 1, -1, -1):
        i, j = len(a) - rank + dim, len(b) - rank + dim
        left, right = (a[i] if i >= 0 else 1), (b[j] if j >= 0 else 1)
        if left != right and left != 1 and right != 1:
            raise RuntimeError(
                f"The size of tensor a ({left}) must match the size of tensor b ({right}) at non-singleton dimension {dim}"
            )
        result[dim] = right if left == 1 else left
    return tuple(result)


def is_expandable_to(shape: tuple[int, ...], desired: tuple[int, ...]) -> bool:
    """Does broadcasting stretch `shape` to `desired`?"""
    if len(shape) > len(desired):
        return False
    return all(size in (1, target) for size, target in zip(reversed(shape), reversed(desired), strict=False))


# %% tags=["raises-exception"]
torch.zeros(2, 3) + torch.zeros(2, 4)

# %% [markdown]
# What is the derivative of stretching? A sum: if one number was used ten times, its gradient is the sum of ten. The
# engine takes that sum when it hands a gradient over, so no formula has to.


# %%
#| into: aten/expand_utils.py
#| upstream: aten/src/ATen/ExpandUtils.h#at::sum_to
def sum_to(array: Any, shape: tuple[int, ...]) -> Any:
    """Sum `array` down to `shape`, which broadcasting would stretch to the array's."""
    lead = array.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(
        i + lead for i, size in enumerate(shape) if size == 1 and array.shape[i + lead] != 1
    )
    if axes:
        wide = in_working_precision(array)  # a sum of 16-bit elements is rounded at its end, or it would stop at 256
        summed = wide.sum(axis=axes, keepdims=True)
        array = summed if wide is array else summed.astype(array.dtype)
    return array.reshape(shape)


# %%
scale = torch.ones(1, 3, requires_grad=True)
(scale * torch.ones(4, 3)).sum().backward()
scale.grad


# %%
#| claim: a gradient has the shape of its input, whatever it was stretched to; the formulas of the operators do not see to it
def _(torch):
    shapes = [(), (1,), (3,), (1, 3), (4, 1), (2, 1, 3), (2, 4, 3)]
    for a_shape in shapes:
        for b_shape in shapes:
            a = torch.ones(a_shape, requires_grad=True)
            b = torch.ones(b_shape, requires_grad=True)
            out = a * b
            out.sum().backward()
            assert a.grad.shape == a.shape and b.grad.shape == b.shape
            assert a.grad.sum().item() == out.numel()


# %% [markdown]
# ## In which dtype is an operation computed?
#
# Operands have three ranks. Tensors with dimensions decide first. Tensors without dimensions count only if their category
# is higher, and Python numbers only if theirs is higher still. So `half_weights * 2.0` stays in half precision, and so
# does `half_weights * torch.tensor(2.0, dtype=torch.float64)`.
#
# Upstream no number gets as far as a kernel. `x * 2` is `aten::mul.Tensor`: the 2 becomes a tensor without dimensions
# that carries a mark, `is_wrapped_number`. The three ranks are three fields of a struct, `ResultTypeState`, and
# dimensions and mark tell which of them an operand goes to. The mark matters: the same 2, as `torch.tensor(2)`, is an
# operand of another rank.

# %%
#| fact: aten/src/ATen/native/TypeProperties.h#at::native::ResultTypeState
#| fact: c10/core/TensorImpl.h#c10::TensorImpl::is_wrapped_number

# %%
#| into: aten/native/type_properties.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from readtorch.c10.core import scalar_type
from readtorch.c10.core.default_dtype import get_default_complex_dtype, get_default_dtype
from readtorch.c10.core.scalar_type import COMPLEX, FLOATING, dtype, promote_types


# %%
#| into: aten/native/type_properties.py
#| upstream: aten/src/ATen/native/TypeProperties.cpp#at::native::result_type
def result_type(operands: Sequence[Any]) -> dtype:
    """The dtype an operation on these raw arrays and Python numbers is computed in."""
    ranks: list[dtype | None] = [None, None, None]
    for operand in operands:
        if hasattr(operand, "dtype"):
            rank = 0 if operand.ndim else 1
            found = scalar_type.FROM_NUMPY[operand.dtype]
        else:
            rank, found = 2, number_type(operand)
            if operand.__class__ is int and not -(1 << 63) <= operand < 1 << 64:
                raise OverflowError("int too big to convert")
        old = ranks[rank]
        ranks[rank] = found if old is None else promote_types(old, found)
    return _combine(ranks[0], _combine(ranks[1], ranks[2])) or get_default_dtype()


def number_type(number: Any) -> dtype:
    """The dtype a Python number stands for."""
    if isinstance(number, bool):
        return scalar_type.bool
    if isinstance(number, int):
        return scalar_type.int64
    return get_default_complex_dtype() if isinstance(number, complex) else get_default_dtype()


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    if higher is None or lower is None:
        return higher or lower
    if higher._category == FLOATING and lower._category == COMPLEX:
        return higher.to_complex()
    if higher._category >= FLOATING or lower._category <= higher._category:
        return higher
    return promote_types(higher, lower)


# %%
import numpy as np

from readtorch.aten.native.type_properties import result_type

weights, double, small = np.ones(2, np.float16), np.ones((), np.float64), np.ones((), np.int8)
result_type([weights, double]), result_type([weights, 2j]), result_type([small, 1000]), result_type([small, double])


# %%
#| claim: beside a 0-d int8 tensor, the number 1000 is made an int8 and the tensor of 1000 makes the result int64
#| upstream: c10/core/TensorImpl.h#c10::TensorImpl::is_wrapped_number
def _(torch):
    small = torch.tensor(1, dtype=torch.int8)
    by_number, by_tensor = small + 1000, small + torch.tensor(1000)
    assert by_number.dtype is torch.int8 and by_number.item() == 1001 - 1024
    assert by_tensor.dtype is torch.int64 and by_tensor.item() == 1001


# %% [markdown]
# ## Sixteen bits at rest, thirty-two in the kernel
#
# bfloat16 keeps eight binary digits. A sigmoid that rounded to them after each of its steps, negate, `exp`, add, divide, would round four times. The kernel does not: it widens an element to `opmath_t`, which is float for both types of
# 16 bits, computes, and rounds once, when it stores. Between two kernels nothing is wide. So in half precision it matters where an operator ends: `F.silu(x)` and `x * torch.sigmoid(x)`, equal to a bit or two in float32, differ in a third of their elements.
#
# The kernels of products and quotients go one step further, and take a *number* beside 16-bit elements in float, too. The kernel of sums does not: it gets the number as an element of the tensor's type. One literal in a program, two values.


# %%
#| claim: in bfloat16, 0.1 is 0.1 to `*` and `/`, and 0.10009765625 to `+` and `-`
#| needs: a1_operators
#| upstream: aten/src/ATen/OpMathType.h#at::opmath_type
def _(torch):
    x = torch.linspace(-0.2, 0.2, 200).bfloat16()
    wide, tenth = x.float(), torch.tensor(0.1).bfloat16().item()
    assert tenth == 0.10009765625
    assert torch.equal(x * 0.1, (wide * 0.1).bfloat16())
    assert torch.equal(x / 0.1, (wide / 0.1).bfloat16())
    assert torch.equal(x + 0.1, (wide + tenth).bfloat16())
    assert not torch.equal(x * 0.1, (wide * tenth).bfloat16())
    assert not torch.equal(x + 0.1, (wide + 0.1).bfloat16())


# %%
#| claim: an operator rounds once, and the same function composed of operators at each of them
#| needs: a2_layers
#| upstream: aten/src/ATen/OpMathType.h#at::OpMathType
def _(torch):
    x = torch.linspace(-4, 4, 1000).bfloat16()
    once = torch.nn.functional.silu(x)
    assert torch.equal(once, torch.nn.functional.silu(x.float()).bfloat16())
    composed = x * torch.sigmoid(x)
    assert torch.equal(torch.sigmoid(x), torch.sigmoid(x.float()).bfloat16())
    assert 0.2 < (once != composed).float().mean() < 0.5


# %% [markdown]
# The second operand may also be a tensor of one element, which is how a loss scale or a running average usually comes. So `x * scale` with a float32 `scale` of no dimensions uses all its digits, and [the result's type](../00_tensor/01_dtype_and_device.py#what-is-int32-float16) is that of `x` nevertheless.


# %%
#| into: aten/op_math_type.py
#| imports
"""The types that kernels compute in (twin of `aten/src/ATen/OpMathType.h`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.c10.core import scalar_type

# %%
#| into: aten/op_math_type.py
#: the two floating types of 16 bits; one where ml_dtypes is missing
REDUCED = frozenset(kind.numpy for kind in (scalar_type.float16, scalar_type.bfloat16) if kind.numpy is not None)

FLOAT32 = np.dtype(np.float32)

#: beside 16-bit elements, these take a number as it is; all others have it rounded to the elements' type
KEEPING_NUMBERS = frozenset(["mul", "_true_div", "_floor_div", "_trunc_div"])


def in_working_precision(array: Any) -> Any:
    """Two-byte floats as float32; everything else as it is."""
    return array.astype(FLOAT32) if array.dtype.itemsize == 2 and array.dtype.kind in "fV" else array


# %% [markdown]
# Where a kernel begins and ends is not seen in a formula, so it is said beside the operator, for the kernel and for the derivative. `sigmoid_backward` is one kernel, and rounds once. The derivative of `cos`, `-sin(x)` times the gradient,
# is composed of three operators that round one after another. A few of upstream's kernels round on the way, too: what `log_softmax` adds up is stored before it is subtracted. So `tests/parity/test_sixteen_bits.py` compares the bits of every line of our tables, gradients included, and lists the lines in which we round elsewhere.

# %%
#| into: aten/core/dispatch/dispatcher.py
#| imports
from readtorch.aten.op_math_type import FLOAT32, REDUCED, in_working_precision


# %%
#| into: aten/core/dispatch/dispatcher.py
def differentiates_in_opmath(*names: str) -> None:
    """Upstream, the formulas of these operators ("sigmoid"), or one of them ("div.self"), are one kernel: 16-bit floats are widened before it and rounded after.

    Other formulas are composed of operators, which round one after another.
    """
    for name in names:
        operator, _, parameter = name.partition(".")
        rule = operators[operator].derivative
        assert rule is not None
        rule.in_opmath += tuple(key for key in rule.formulas if not parameter or parameter in key)


def computes_in_opmath(*names: str) -> None:
    """The CPU kernels of these operators take 16-bit floats as float32; their result is rounded to the type of the first argument, once."""
    for name in names:
        entry = operators[name]
        wide = _wide(entry.kernels[DispatchKey.CPU])
        shared = entry.kernels.get(DispatchKey.CUDA) is entry.kernels[DispatchKey.CPU]
        entry.kernels.update(dict.fromkeys([DispatchKey.CPU, DispatchKey.CUDA][: 1 + shared], wide))
        setattr(cpu, name, wide)
        _changed(entry)


def _wide(kernel: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(kernel)
    def call(first: Any, *args: Any, **options: Any) -> Any:
        narrow = first.dtype
        if narrow.itemsize != 2 or narrow not in REDUCED:
            return kernel(first, *args, **options)
        wide = [in_working_precision(value) if hasattr(value, "astype") else value for value in (first, *args)]
        result = kernel(*wide, **options)
        return result.astype(narrow) if result.dtype == FLOAT32 else result

    return call


# %% [markdown]
# ## What do all pointwise operators share?
#
# Most operators apply one function to every element. Upstream's `TensorIterator` does everything that does not depend on
# the function: promotion, broadcasting, the output. NumPy's *ufunc* is the same idea with other rules of promotion. So
# ours casts the inputs by the rules above and leaves the loop to NumPy.

# %%
#| into: aten/tensor_iterator.py
#| imports
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from readtorch.aten.expand_utils import infer_size
from readtorch.aten.op_math_type import FLOAT32, KEEPING_NUMBERS, REDUCED
from readtorch.c10.core import scalar_type
from readtorch.c10.core.default_dtype import get_default_dtype
from readtorch.c10.core.scalar_type import INTEGRAL, dtype, to_numpy_dtype


# %%
#| into: aten/tensor_iterator.py
#| upstream: aten/src/ATen/TensorIterator.h#at::TensorIteratorBase
class Pointwise:
    """A function of each element: the ufunc, and the rule for the type it is computed in.

    `promote`: "same" (the common type of the inputs), "float" (integers become the default dtype), "bool" (compare in the common
    type, give bool). `reject`: categories that the operator refuses, with the error's text.
    """

    __slots__ = ("boolean", "floating", "keeps_numbers", "name", "refuse", "ufunc")

    def __init__(
        self,
        name: str,
        ufunc: Callable[..., Any],
        promote: str,
        refuse: Callable[[dtype], Exception | str | None] | None,
    ) -> None:
        self.name = name
        self.ufunc = ufunc
        self.floating = promote == "float"
        self.boolean = promote == "bool"
        self.refuse = refuse
        #: is a number beside 16-bit elements taken as it is, and not rounded to their type first?
        self.keeps_numbers = name in KEEPING_NUMBERS

    def refused_chars(self) -> str:
        """NumPy's letters for the types of inputs that must not be handed to the ufunc as they are."""
        one_ufunc = isinstance(self.ufunc, np.ufunc)
        return "".join(
            kind.numpy.char
            for kind in scalar_type.ALL
            if kind.numpy is not None
            and (
                (self.refuse and self.refuse(kind))
                or (self.floating and kind._category <= INTEGRAL and (not one_ufunc or self.ufunc is np.reciprocal))
                or (kind.numpy in REDUCED and not one_ufunc and not self.boolean)
            )
        )

    def common(self, operands: Sequence[Any]) -> dtype:
        """The type these operands are computed in. RuntimeError where the operator refuses it."""
        #: `aten.native` fills the table when it is imported, with objects of this class: it cannot be imported above it.
        from readtorch.aten.native.type_properties import result_type

        found = result_type(operands)
        if self.floating and found._category <= INTEGRAL:
            found = get_default_dtype()
        if self.refuse is not None and (why := self.refuse(found)):
            shapes(self.name, operands)
            if isinstance(why, Exception):
                raise why
            raise NotImplementedError(why) if why.startswith('"') else RuntimeError(why)
        return found

    def __call__(self, *operands: Any) -> Any:
        """The kernel: on raw arrays and Python numbers."""
        wanted = to_numpy_dtype(self.common(operands))
        widened = wanted.itemsize == 2 and wanted in REDUCED and not self.boolean
        if widened:
            operands = tuple(
                widen(operand, wanted, self.keeps_numbers and position == 1)
                for position, operand in enumerate(operands)
            )
        else:
            operands = tuple(cast(operand, wanted) for operand in operands)
        token = ignore_floating_errors()
        try:
            result = self.ufunc(*operands)
        except ValueError:
            shapes(self.name, operands)
            raise
        finally:
            restore_floating_errors(token)
        if result.dtype != wanted and not self.boolean and result.dtype.kind == ("f" if widened else wanted.kind):
            result = result.astype(wanted)
        return np.asarray(result) if isinstance(result, np.generic) else result


def widen(operand: Any, narrow: np.dtype, keeps_number: bool) -> Any:
    """An operand of a computation on 16-bit elements, in float32. It is rounded to `narrow` first, unless it is a number that is kept."""
    if not keeps_number or getattr(operand, "size", 1) != 1:
        operand = cast(operand, narrow)
    return cast(operand, FLOAT32)


def cast(operand: Any, wanted: np.dtype) -> Any:
    """An operand in the common type. Python integers wrap around as in C."""
    if hasattr(operand, "dtype"):
        return operand if operand.dtype == wanted else operand.astype(wanted)
    if wanted.kind in "iu" and operand.__class__ is int:
        bits = wanted.itemsize * 8
        operand &= (1 << bits) - 1
        if wanted.kind == "i" and operand >> (bits - 1):
            operand -= 1 << bits
    if operand.__class__ is complex and wanted.kind != "c":
        check_real(operand, wanted)
        operand = operand.real
    if wanted.kind == "V" and operand.__class__ is int:
        operand = float(operand)
    return np.asarray(operand, dtype=wanted)


def fitting(value: Any, kind: np.dtype) -> Any:
    """A number as an element of `kind`. RuntimeError where it does not fit; unsigned types take negative integers, as in C."""
    if kind.kind in "iuf" and (value.__class__ is float or value.__class__ is int) and 0 <= value <= _ANY_TYPE_HOLDS:
        return np.asarray(value, kind)
    number = value.item() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(number, int) and not -(1 << 63) <= number < 1 << 64:
        raise OverflowError("int too big to convert")
    if kind.kind == "b":
        return bool(number)
    parts = (number.real, number.imag) if isinstance(number, complex) else (number,)
    real = kind.kind != "c"
    if (real and any(parts[1:])) or not all(_fits(part, kind) for part in parts):
        name = scalar_type.from_numpy_dtype(kind).name
        raise RuntimeError(f"value cannot be converted to type {_C_NAMES.get(name, f'{name}_t')} without overflow")
    if real:
        number = int(parts[0]) if kind.kind in "iu" else float(parts[0])
    return cast(number, kind)


def _fits(number: float, kind: np.dtype) -> bool:
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        wraps = kind.kind == "u" and isinstance(number, int)
        return bool((-limits.max if wraps else limits.min) <= number <= limits.max)
    if kind.kind == "c":
        kind = np.dtype(f"f{kind.itemsize // 2}")
    return not math.isfinite(number) or abs(number) <= scalar_type.largest(kind)


_ANY_TYPE_HOLDS = 127
_C_NAMES = {
    "int32": "int",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def check_real(number: Any, wanted: np.dtype) -> None:
    """RuntimeError for a complex number beside elements that are not, unless it is real."""
    if isinstance(number, complex) and number.imag and wanted.kind != "c":
        raise RuntimeError(f"value cannot be converted to type {wanted.name} without overflow")


def common_dtype(*arrays: Any) -> np.dtype:
    """The dtype an operation on these raw arrays is computed in."""
    first = arrays[0].dtype
    if all(array.dtype == first for array in arrays[1:]):
        return first
    from readtorch.aten.native.type_properties import result_type

    return to_numpy_dtype(result_type(arrays))


def shapes(name: str, operands: Sequence[Any]) -> tuple[int, ...]:
    """The broadcast shape of all operands. RuntimeError with upstream's words if there is none."""
    shape: tuple[int, ...] = ()
    for operand in operands:
        shape = infer_size(shape, getattr(operand, "shape", ()))
    return shape


# %% [markdown]
# NumPy warns when a division by zero gives infinity; PyTorch never does. Switching the warnings off for the whole program
# would silence the user's own NumPy code, and `np.errstate` around each call costs as much as a small addition. What
# `np.errstate` does inside is to set one context variable, so that is what we do. The variable is private to NumPy; if a
# version keeps it elsewhere, `np.errstate` is used.

# %%
#| into: aten/tensor_iterator.py
ignore_floating_errors: Callable[[], Any]
"""Like entering `np.errstate(all="ignore")`, at a tenth of the cost; what it returns is for `restore_floating_errors`."""
restore_floating_errors: Callable[[Any], None]

try:
    from numpy._core.umath import _extobj_contextvar, _make_extobj
except ImportError:

    def _enter_errstate() -> Any:
        settings = np.errstate(all="ignore")
        settings.__enter__()
        return settings

    def _leave_errstate(settings: Any) -> None:
        settings.__exit__(None, None, None)

    ignore_floating_errors, restore_floating_errors = _enter_errstate, _leave_errstate
else:
    _IGNORE = _make_extobj(all="ignore")

    def _set_ignoring() -> Any:
        return _extobj_contextvar.set(_IGNORE)

    ignore_floating_errors, restore_floating_errors = _set_ignoring, _extobj_contextvar.reset

# %% [markdown]
# With that, registering a pointwise operator takes one line in the part that has the operator:

# %%
#| into: aten/native/__init__.py
"""The kernels, a module per upstream file (twin of `aten/src/ATen/native/`). Importing this package fills the table."""


# %%
#| into: aten/core/dispatch/dispatcher.py
def pointwise(name: str, kernel: Any, arguments: Kernel, *, key: str = "CPU CUDA", **description: Any) -> None:
    """Register a pointwise operator: `kernel` is a `Pointwise`, `arguments` a function whose signature is the schema."""
    entry = operators[name] = OperatorEntry(name, Schema(arguments))
    entry.pointwise = kernel
    describe(entry, **{"variants": "function method", "inplace": True, "out": True, **description})
    for column in key.split():
        entry.kernels[DispatchKey[column]] = kernel
        if column == "CPU":
            setattr(cpu, name, kernel)
    _changed(entry)


# %%
#| needs: a1_operators
from readtorch.aten.core.dispatch import dispatcher
from readtorch.c10.core.dispatch_key import DispatchKey

add = dispatcher.operators["add"].kernels[DispatchKey.CPU]
counts, halves = np.ones(2, np.int32), np.ones(2, np.float16)
add(counts, halves).dtype, np.add(counts, halves).dtype, add(counts, 2.5).dtype, np.add(counts, 2.5).dtype

# %% [markdown]
# The same loop under two rules of promotion: NumPy's `add` would have made doubles of both.

# %% [markdown]
# ## Which results are contiguous, whatever their operand was?
#
# Pointwise results [follow their operand in
# memory](02_storage_and_views.py#in-which-order-do-the-elements-of-a-result-lie). Other operators do not: upstream's
# reductions, softmaxes, cumulative sums, and what was joined, picked or rolled come with their last dimension innermost,
# whatever they were made of. A program notices: `.view(n, -1)` works on such a result. NumPy's sum of a transposed array
# is transposed, so our kernels put the elements in order afterwards.


# %%
#| into: aten/tensor_iterator.py
#| upstream: aten/src/ATen/native/ReduceOpsUtils.h#at::meta::resize_reduction
def in_order(array: Any) -> Any:
    """The same elements, the last dimension innermost: a copy if they lie otherwise."""
    return array if array.ndim < 2 or array.flags.c_contiguous else array.copy()


# %%
#| into: aten/core/dispatch/dispatcher.py
def results_lie(how: Callable[[Any, Any], Any], *names: str) -> None:
    """Put the results of these operators into an order of dimensions in memory: `how(result, first argument)` does it.

    A kernel that leaves the order to NumPy gets that of its operands, which upstream's kernel may not.
    """
    for name in names:
        entry = operators[name]
        before = {key: entry.kernels[key] for key in entry.kernels if key <= DispatchKey.CUDA}
        before[DispatchKey.Meta] = lookup(entry, DispatchKey.Meta)
        made = {kernel: _laid(how, kernel) for kernel in before.values()}
        entry.kernels.update({key: made[kernel] for key, kernel in before.items()})
        setattr(cpu, name, entry.kernels[DispatchKey.CPU])
        _changed(entry)


def _laid(how: Callable[[Any, Any], Any], kernel: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(kernel)
    def call(first: Any, *args: Any, **options: Any) -> Any:
        result = kernel(first, *args, **options)
        if result.__class__ is list or result.__class__ is tuple:
            return result.__class__([how(part, first) for part in result])
        return how(result, first)

    return call


# %%
#| claim: pointwise results lie as their operand does; sums, softmaxes, joined and filled elements lie in order
#| needs: a1_operators
def _(torch):
    x = torch.arange(24.0).reshape(4, 3, 2).permute(2, 1, 0)
    assert (x * 2).stride() == x.exp().stride() == x.stride() == (1, 2, 6)
    for result in (
        x.softmax(0),
        x.cumsum(1),
        x.sum(1, keepdim=True),
        torch.cat([x, x]),
        x.contiguous()[:, [1, 0]],
        x.masked_fill(x > 3, 0),
    ):
        assert result.is_contiguous()
    assert x.sum(0).view(12).shape == (12,)


# %% [markdown]
# These were the rules for values. The next part has the rules for history: [what a tensor knows of the graph](05a_place_in_the_graph.py), and
# what becomes of it when memory is written to.
