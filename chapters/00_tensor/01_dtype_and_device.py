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
# # Numbers: dtype, promotion, device
#
# Which dtype is `int64 * float16`? Why is `x.device == torch.device("cuda")` false for a tensor on a GPU? A tensor is a
# block of memory and a description of it. This part has the words of the description: what one element is (`dtype`), what
# comes out when two kinds of element meet (promotion), and where the memory lies (`device`).
#
# Nothing here computes, and most programs still meet it first as a surprise: a loss that turns out to be an integer, an
# in-place addition that is refused, a mask that is `uint8` instead of `bool`, a model in double precision because one
# array came from NumPy.

# %% [markdown]
# ## Which of the 36 parts do you need?
#
# Chapter 0 is everything below `nn`: what a tensor is, what happens in a call, what `backward` does. Nobody has to read
# all of it. **The main line** is ten parts, in this order:
#
# 1. Numbers (this part), then [storage and views](02_storage_and_views.py): what a tensor is.
# 2. [The dispatcher](03_dispatcher.py): where an operator and its derivative are, and how a call finds them.
# 3. The engine: [its nodes](04_engine.py), then [the walk](04b_the_walk.py).
# 4. [A tensor's place in the graph](05a_place_in_the_graph.py): views, and writing in place while gradients are recorded.
# 5. [The first operators](08_first_operators.py): what each of them keeps for backward.
# 6. [`torch.autograd`](12_autograd.py): `backward`, `grad` and the modes; then [functions of your
#    own](13_functions_and_graph.py).
# 7. [One addition](17_one_addition.py), from Python to the kernel and back, with upstream's file and function at each
#    step. Whoever wants the overview first can begin with it.
#
# The rest goes with a question, or is there to be looked up:
#
# * **How is an operator called?** [Shapes and types](05_before_the_kernels.py), [arguments](05b_arguments.py), [the call
#   itself](06_from_call_to_result.py), [`out=`](06b_given_outputs.py), [pointwise operators and
#   views](07_forms_of_operators.py), [in place](07a_in_place_and_composites.py), [autocast and the
#   bindings](07b_operators_for_python.py). A device without data: [`meta`](03a_meta.py).
# * **What does Python see of a tensor?** [Attributes and constructors](09_python_tensor.py), [brackets and
#   `to`](10_indexing_and_operators.py), [`+` and `==`](10a_python_operators.py), [hooks, copies,
#   NumPy](11_tensor_class.py), [printing](14_printing.py).
# * **How do I put something of my own in?** [A subclass](11c_subclasses.py), [a mode](11d_modes.py), [a check of a
#   derivative](13b_gradcheck.py), [Jacobians and Hessians](13c_derivatives_of_functions.py),
#   [`torch.func`](13d_levels_of_transforms.py), [checkpointing](16_checkpoint.py).
# * **To look up:** [creation functions](11a_creation.py), [`torch._C` and the namespace](11b_namespace.py), [storages and
#   pickling](15_storage.py), [typed storages](15b_typed_storage.py), [rarely used names](16b_around_the_graph.py).
# * **To practise:** [fourteen bug reports, and exercises](18_reports_and_exercises.py).
#
# If an error message brought you here:
#
# | the message says | read |
# |---|---|
# | *result type Float can't be cast to …* | this part, [Who has a vote?](#who-has-a-vote) |
# | *view size is not compatible …* | [storage and views](02_storage_and_views.py) |
# | *Could not run 'aten::…' with arguments from …* | [the dispatcher](03_dispatcher.py) |
# | *modified by an inplace operation* | [the engine's nodes](04_engine.py), [the first operators](08_first_operators.py) |
# | *a view of a leaf Variable …* | [a tensor's place in the graph](05a_place_in_the_graph.py) |
# | *backward through the graph a second time* | [`torch.autograd`](12_autograd.py) |
# | *does not require grad and does not have a grad_fn* | [starting the engine](10b_starting_the_engine.py) |
# | *Boolean value of Tensor … is ambiguous* | [what Python sees](09_python_tensor.py) |

# %%
import copy
import pickle

import numpy as np

import readtorch as torch
from readtorch.c10.core import scalar_type
from readtorch.literate import live

live()

# %% [markdown]
# ## What is `torch.float32`?
#
# The memory under our tensors belongs to NumPy arrays, and these have dtypes of their own. Why a second set of objects?
# Because a program tests `x.dtype is torch.float32`, so there must be exactly one object per element type. NumPy does not
# promise that: `np.dtype("f4")` and `np.dtype(">f4")` are two dtypes, and `torch.bfloat16` has no counterpart at all.
# Upstream numbers the types in a C++ enum, `ScalarType`; the Python object `torch.dtype` is a thin wrapper around one
# number.

# %%
#| into: c10/core/scalar_type.py
#| imports
from __future__ import annotations

import builtins
from typing import Any

import numpy as np


# %%
#| into: c10/core/scalar_type.py
#| upstream: torch/headeronly/core/ScalarType.h#c10::ScalarType
class dtype:
    """The type of a tensor's elements. One object exists per type: compare with `is`.

    `numpy` is the NumPy dtype that carries it, None where the optional package for it is missing (bfloat16 without ml_dtypes).
    """

    __slots__ = ("_category", "_legacy", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "numpy")

    def __init__(self, name: str, numpy: np.dtype | None, itemsize: int, category: int, legacy: str) -> None:
        self.name = name
        self.numpy = numpy
        self.itemsize = itemsize
        self._category = category
        self._legacy = legacy
        self.is_floating_point = category == FLOATING
        self.is_complex = category == COMPLEX
        self.is_signed = category >= FLOATING or name.startswith("int")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def to_real(self) -> dtype:
        """The type of the real part: `complex64` gives `float32`; a real type gives itself."""
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type whose parts have this type."""
        if self in (complex64, complex128):
            return self
        return complex128 if self is float64 else complex64


# %% [markdown]
# No user calls the constructor: the objects below are all there will ever be. `__reduce__` returns a name, so a dtype
# that is pickled or copied comes back as the same object, looked up by that name.

# %%
#| into: c10/core/scalar_type.py
BOOL, INTEGRAL, FLOATING, COMPLEX = range(4)


def _bfloat16() -> np.dtype | None:
    """NumPy has no bfloat16; the small package ml_dtypes registers one with it."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return np.dtype(ml_dtypes.bfloat16)


uint8 = dtype("uint8", np.dtype(np.uint8), 1, INTEGRAL, "ByteTensor")
int8 = dtype("int8", np.dtype(np.int8), 1, INTEGRAL, "CharTensor")
int16 = dtype("int16", np.dtype(np.int16), 2, INTEGRAL, "ShortTensor")
int32 = dtype("int32", np.dtype(np.int32), 4, INTEGRAL, "IntTensor")
int64 = dtype("int64", np.dtype(np.int64), 8, INTEGRAL, "LongTensor")
uint16 = dtype("uint16", np.dtype(np.uint16), 2, INTEGRAL, "UInt16Tensor")
uint32 = dtype("uint32", np.dtype(np.uint32), 4, INTEGRAL, "UInt32Tensor")
uint64 = dtype("uint64", np.dtype(np.uint64), 8, INTEGRAL, "UInt64Tensor")
float16 = dtype("float16", np.dtype(np.float16), 2, FLOATING, "HalfTensor")
float32 = dtype("float32", np.dtype(np.float32), 4, FLOATING, "FloatTensor")
float64 = dtype("float64", np.dtype(np.float64), 8, FLOATING, "DoubleTensor")
complex64 = dtype("complex64", np.dtype(np.complex64), 8, COMPLEX, "ComplexFloatTensor")
complex128 = dtype("complex128", np.dtype(np.complex128), 16, COMPLEX, "ComplexDoubleTensor")
bool = dtype("bool", np.dtype(np.bool_), 1, BOOL, "BoolTensor")
bfloat16 = dtype("bfloat16", _bfloat16(), 2, FLOATING, "BFloat16Tensor")

ALL = (
    *(uint8, int8, int16, int32, int64, uint16, uint32, uint64),
    *(float16, float32, float64, complex64, complex128, bool, bfloat16),
)

#: the second names that scripts use
ALIASES = {
    "short": int16,
    "int": int32,
    "long": int64,
    "half": float16,
    "float": float32,
    "double": float64,
    "cfloat": complex64,
    "cdouble": complex128,
}

# %%
x = torch.zeros(2)
(
    x.dtype is torch.float32,
    torch.float is torch.float32,
    copy.deepcopy(torch.int8) is torch.int8,
    pickle.loads(pickle.dumps(torch.int8)) is torch.int8,
)

# %% [markdown]
# The last field, `legacy`, is the oldest name. Before 0.4 the element type was part of the *class*: `torch.FloatTensor`,
# `torch.cuda.HalfTensor`. No tensor has these classes any more, but the names stayed. They construct tensors, they answer
# `isinstance` by asking for dtype and device, and they are what `x.type()` and several error messages print. That is why
# a message about your tensor may name a class that you never used.

# %% [markdown]
# From an array back to the dtype is a dictionary lookup. Arrays in foreign byte order, of strings or of objects are not
# in the dictionary; they are refused where data enters the library, so that no kernel has to ask.

# %%
#| into: c10/core/scalar_type.py
FROM_NUMPY: dict[np.dtype, dtype] = {entry.numpy: entry for entry in ALL if entry.numpy is not None}


def from_numpy_dtype(numpy_dtype: Any) -> dtype:
    """The dtype carried by a NumPy dtype. Raises TypeError for element types that tensors do not have."""
    found = FROM_NUMPY.get(numpy_dtype)
    if found is None:
        if not numpy_dtype.isnative and numpy_dtype.newbyteorder() in FROM_NUMPY:
            raise ValueError(
                "given numpy array has byte order different from the native byte order. Its astype() to the native one has not."
            )
        supported = "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool"
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{numpy_dtype.type.__name__}. The only supported types are: {supported}."
        )
    return found


_PYTHON_TYPES = {float: float64, int: int64, complex: complex128, builtins.bool: bool}


def to_numpy_dtype(wanted: dtype) -> np.dtype:
    """The NumPy dtype that carries `wanted`; Python's `float`, `int`, `bool`, `complex` stand for the widest. RuntimeError for bfloat16 without ml_dtypes."""
    if wanted.__class__ is not dtype:
        if wanted not in _PYTHON_TYPES:
            raise TypeError(f"argument 'dtype' must be torch.dtype, not {type(wanted).__name__}")
        wanted = _PYTHON_TYPES[wanted]  # type: ignore[index]  # a type by now, not a dtype
    if wanted.numpy is None:
        raise RuntimeError(f"{wanted!r} needs the package ml_dtypes: pip install 'readtorch[bfloat16]'")
    return wanted.numpy


_C_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "uint16": "UInt16",
    "uint32": "UInt32", "uint64": "UInt64", "float16": "Half", "float32": "Float", "float64": "Double",
    "bfloat16": "BFloat16", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


_CPP_TYPES = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int",
    "uint16": "short unsigned int", "uint32": "unsigned int", "uint64": "long unsigned int", "float16": "c10::Half",
    "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double", "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}  # fmt: skip


def cpp_type(entry: dtype | np.dtype) -> str:
    """What C++ calls an element of that dtype (`float`, `long int`), which other error messages use."""
    return _CPP_TYPES[(entry if isinstance(entry, dtype) else from_numpy_dtype(entry)).name]


def as_dtype(value: Any, op: str, name: str, position: int) -> dtype:
    """A dtype, or the one that a Python type stands for. TypeError, in the name of the function that was called, otherwise."""
    found = value if value.__class__ is dtype else _PYTHON_TYPES.get(value) if isinstance(value, type) else None
    if found is None:
        kind = type(value).__name__
        raise TypeError(f"{op}(): argument '{name}' (position {position}) must be torch.dtype, not {kind}")
    return found


def to_string(entry: dtype | np.dtype) -> str:
    """The C++ enum's name of a dtype (`Float`, `Long`), which error messages use."""
    return _C_NAMES[(entry if isinstance(entry, dtype) else from_numpy_dtype(entry)).name]


def not_implemented(kernel: str, entry: dtype | np.dtype) -> NotImplementedError:
    """What a kernel answers to a dtype that it was not compiled for; upstream's `AT_DISPATCH` macros end in it."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{to_string(entry)}'")


def largest(kind: np.dtype) -> float:
    """The largest finite number of a floating type. NumPy's `finfo` does not know bfloat16, the top half of a float32."""
    return float(np.finfo(kind).max) if kind.kind == "f" else (2 - 2.0**-7) * 2.0**127


# %% tags=["raises-exception"]
torch.from_numpy(np.zeros(2, ">f4"))

# %% [markdown]
# `to_string` gives a third set of names, those of the C++ enum. So the message says *result type Float can't be cast to
# the desired output type Long* where you would say float32 and int64. One element type, three vocabularies:
# `torch.float32`, `FloatTensor`, `Float`.
#
# ### What upstream does more
# The enum has 46 entries: 8-bit floats in several layouts, a 4-bit float of which two share a byte, integers of 1 to 7
# bits, quantised types, and types that hold bits without arithmetic. In C++ a scalar type is one byte; the Python objects
# are made at import, one for each.

# %%
#| fact: torch/headeronly/core/ScalarType.h#c10::ScalarType
#| fact: c10/core/ScalarType.cpp#promoteTypes

# %% [markdown]
# ## What is `int32 + float16`?
#
# NumPy has an answer of its own:

# %%
np.promote_types(np.int32, np.float16), torch.promote_types(torch.int32, torch.float16)

# %% [markdown]
# NumPy looks for a type that can hold the values of both. In a tensor library that rule would turn a half-precision
# network into a double-precision one as soon as an index or a counter entered a formula, at many times the cost and
# without a word. So upstream first orders the types by *category* (bool, integral, floating, complex), and the higher
# category decides alone. Within a category the wider type wins. Two pairs are exceptions: `uint8` with `int8`, which
# gives `int16`, and the two half-width floats, which give `float32`, since neither contains the other.
#
# ```mermaid
# flowchart LR
#   accTitle: The lattice of promotion
#   accDescr: Arrows lead from each dtype to the next one up, from bool through the integers and the floats to complex128
#   bool --> uint8 & int8
#   int8 --> int16 --> int32 --> int64
#   uint8 --> int16
#   int64 --> float16 & bfloat16
#   float16 & bfloat16 --> float32 --> float64
#   float32 --> complex64 --> complex128
#   float64 --> complex128
# ```
#
# The result for two types is the nearest one that arrows lead to from both.


# %%
#| into: c10/core/scalar_type.py
#| upstream: c10/core/ScalarType.h#c10::promoteTypes
def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype, by category and then width, that an operation on `a` and `b` is computed in."""
    if a is b:
        return a
    return _PROMOTED[a, b]


def _promote_integral(a: dtype, b: dtype) -> dtype | None:
    if a.is_signed == b.is_signed:
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    if unsigned is not uint8:
        return None
    return signed if signed.itemsize > 1 else int16


def _promote_floating(a: dtype, b: dtype) -> dtype:
    if a.itemsize == b.itemsize:
        return float32
    return a if a.itemsize > b.itemsize else b


def _promote(a: dtype, b: dtype) -> dtype | None:
    low, high = sorted((a, b), key=lambda entry: entry._category)
    if low is high:
        return low
    if high._category == COMPLEX:
        wide = low is float64 or complex128 in (low, high)
        return complex128 if wide else complex64
    if low._category != high._category:
        return high
    if high._category == FLOATING:
        return _promote_floating(a, b)
    return _promote_integral(a, b)


class _Promotions(dict[tuple[dtype, dtype], dtype]):
    """Filled as pairs are met; a pair without an answer (two wide unsigned types) is a RuntimeError, as upstream."""

    def __missing__(self, pair: tuple[dtype, dtype]) -> dtype:
        answer = _promote(*pair)
        if answer is None:
            names = ", ".join(to_string(entry) for entry in pair)
            raise RuntimeError(
                f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {names}"
            )
        self[pair] = answer
        return answer


_PROMOTED = _Promotions()

# %% [markdown]
# The whole rule as a table:

# %%
shown = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.complex64,
)
for a in shown:
    print(f"{a.name:>10}", *(f"{torch.promote_types(a, b).name:>10}" for b in shown))

# %% [markdown]
# Step through a pair that nobody has asked for yet. The second question for the same pair is answered by the dictionary.

# %%
#| trace: torch.c10 layers=calls,lines values=summary title="what are int16 and uint8 together?"
scalar_type._PROMOTED.clear()
torch.promote_types(torch.int16, torch.uint8)


# %%
#| claim: any float beats any integer, a complex type takes over the width of a wider float, and the two half-width floats meet in float32
def _(torch):
    assert torch.promote_types(torch.int64, torch.float16) is torch.float16
    assert torch.promote_types(torch.float64, torch.complex64) is torch.complex128
    assert torch.promote_types(torch.float16, torch.bfloat16) is torch.float32
    assert torch.promote_types(torch.uint8, torch.int8) is torch.int16


# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "Promotion picks a type that can hold the result." It does not look at values at all, and
# > not even at ranges. int64 with float16 is float16, whose largest number is 65504.


# %%
#| claim: promotion looks at types only: an int64 that float16 cannot hold becomes infinite, an int8 sum wraps around
#| needs: a1_operators
def _(torch):
    half, big = torch.ones(1, dtype=torch.float16), torch.tensor([100_000])
    assert (half + big).dtype is torch.float16 and torch.isinf(half + big).all()
    small = torch.tensor([100], dtype=torch.int8)
    assert (small + small).tolist() == [-56]


# %% [markdown]
# ### Who has a vote?
# Not every operand counts alike. A Python number, or a tensor without dimensions, contributes its *category*; its width
# counts only where no tensor with dimensions has that category. Otherwise `x * 2.5` would be float64 for every float32
# `x`, since a Python float has 64 bits. The code, `result_type`, is in [the part on what operators
# share](05_before_the_kernels.py#result_type), where the operands are at hand; the rule belongs here.


# %%
#| claim: a 0-d tensor or a Python number raises the category of the result and not, within a category, its width
#| upstream: aten/src/ATen/native/TypeProperties.h#at::native::result_type
def _(torch):
    f32, i8 = torch.ones(2), torch.ones(2, dtype=torch.int8)
    wide = torch.tensor(1.0, dtype=torch.float64)
    assert (f32 * wide).dtype is torch.float32
    assert (i8 * wide).dtype is torch.float64
    assert (i8 * 2.5).dtype is torch.get_default_dtype()
    assert (i8 * 1000).dtype is torch.int8
    assert (torch.tensor(1, dtype=torch.int8) * wide).dtype is torch.float64
    assert (torch.ones(1) * torch.ones(1, dtype=torch.float64)).dtype is torch.float64


# %% [markdown]
# The reverse question comes up at every `out=` and every in-place operation: may the result be stored in a tensor of that
# type? Losing precision is allowed (float64 into float16), falling to a lower category is not.


# %%
#| into: c10/core/scalar_type.py
#| upstream: c10/core/ScalarType.h#c10::canCast
def can_cast(source: dtype, target: dtype) -> Any:
    """May a result of type `source` be written to a tensor of type `target`? Categories may rise and not fall."""
    return source._category <= target._category


# %%
total = torch.zeros(2, dtype=torch.float16)
total += torch.ones(2, dtype=torch.float64)
total

# %% [markdown]
# The sum was computed in float64 and rounded on the way into `total`. The other direction is refused:

# %% tags=["raises-exception"]
count = torch.zeros(2, dtype=torch.int64)
count += 0.5


# %%
#| claim: precision may be lost when a result is stored, a category may not
def _(torch):
    assert torch.can_cast(torch.float64, torch.float16)
    assert not torch.can_cast(torch.float32, torch.int64)
    assert torch.can_cast(torch.int64, torch.int8)


# %% [markdown]
# `count = count + 0.5` is no substitute: the name then refers to a new float tensor, and everybody who held the old one
# still has the integers.

# %% [markdown]
# ## What is `torch.tensor(1.0)`?
#
# A Python float has 64 bits. If a tensor made from one kept them, every constant in a program would have to be cast by
# hand before it met a float32 weight. So Python floats become the *default dtype*, float32 unless somebody has set
# another. The same setting decides what `int / int` gives.

# %%
#| into: c10/core/default_dtype.py
#| imports
from readtorch.c10.core import scalar_type

# %%
#| into: c10/core/default_dtype.py
#| upstream: c10/core/DefaultDtype.h#c10::get_default_dtype
_default = [scalar_type.float32]


def get_default_dtype() -> scalar_type.dtype:
    """The floating type of tensors made from Python floats."""
    return _default[0]


def set_default_dtype(wanted: scalar_type.dtype) -> None:
    """Set it. TypeError unless it is a floating dtype."""
    if not isinstance(wanted, scalar_type.dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not wanted.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _default[0] = wanted


def get_default_complex_dtype() -> scalar_type.dtype:
    """The complex type whose parts have the default dtype."""
    return _default[0].to_complex()


# %%
before = torch.get_default_dtype()
torch.set_default_dtype(torch.float64)
made = torch.tensor(1.0).dtype, (torch.tensor(1) / 2).dtype, torch.zeros(1).dtype
torch.set_default_dtype(before)
made, torch.tensor(1.0).dtype

# %% [markdown]
# The default applies to numbers that have no type of their own. A NumPy array has one and keeps it. That is how a whole
# model comes to be trained in double precision, or how *mat1 and mat2 must have the same dtype* appears in the first
# layer.


# %%
#| claim: the default dtype applies to Python floats and lists of them, not to NumPy arrays, nor to NumPy scalars
def _(torch):
    import numpy as np

    assert torch.tensor([1.0, 2]).dtype is torch.float32
    assert torch.tensor(np.array([1.0, 2])).dtype is torch.float64
    assert torch.from_numpy(np.zeros(1)).dtype is torch.float64
    assert torch.tensor(np.float64(1)).dtype is torch.float64
    assert torch.tensor([1, 2]).dtype is torch.int64


# %% [markdown]
# ## Where does the memory lie?
#
# A device is a kind of memory and a number. The number may be missing, which is not the same as 0: it means *the current
# one*, decided when the device is used.

# %%
torch.device("cuda") == torch.device("cuda:0"), torch.device("cuda", 1), str(torch.device("cpu"))

# %% [markdown]
# So `x.device == torch.device("cuda")` is false for every tensor on a GPU, because the device of a tensor always has its
# number. Compare `x.device.type`. A device object is a name and holds nothing, so it can be made on a machine that has no
# such device.

# %%
#| into: c10/core/device.py
#| imports
from __future__ import annotations

from typing import Any

# %%
#| into: c10/core/device.py
#| upstream: c10/core/Device.h#c10::Device
DEVICE_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy", "vulkan",
    "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip


class device:
    """A kind of memory and its ordinal: `device("cuda:1")`, `device("cuda", 1)`, `device(1)` (an accelerator's), `device(dev)`.

    `index` is None where "the current one" is meant. Immutable and hashable. RuntimeError on a string that names no kind.
    As a context manager it sets the device that creation functions use.
    """

    __slots__ = ("_saved", "index", "type")
    type: str
    index: int | None

    def __new__(cls, type: Any = None, index: int | None = None) -> device:
        if isinstance(type, device) and index is None:
            return type
        self = object.__new__(cls)
        kind, number = _parse(type, index)
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", number)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type,) if self.index is None else (self.type, self.index))

    def __enter__(self) -> device:
        stack = _context.devices
        stack.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _context.devices.pop()


#: the types of device that a bare number may mean; a backend adds its own when it is there
ACCELERATORS: list[str] = []

#: what looks for them when one is first meant; a backend adds its own
FINDERS: list[Any] = []


def accelerators() -> list[str]:
    """The kinds of accelerator that this machine has."""
    for find in () if ACCELERATORS else FINDERS:
        find()
    return ACCELERATORS


def _parse(kind: Any, index: int | None) -> tuple[str, int | None]:
    if isinstance(kind, int) and not isinstance(kind, bool):
        if kind < 0:
            raise RuntimeError("Device index must not be negative")
        if not accelerators():
            raise RuntimeError("Cannot access accelerator device when none is available.")
        return (ACCELERATORS[0], kind)
    if not isinstance(kind, str):
        raise TypeError(f"device(): argument 'type' (position 1) must be str, not {kind.__class__.__name__}")
    name, colon, number = kind.partition(":")
    if name not in DEVICE_TYPES:
        if not kind:
            raise RuntimeError("Device string must not be empty")
        if not name.replace("_", "").isalpha():
            raise RuntimeError(f"Invalid device string: '{kind}'")
        kinds = ", ".join(DEVICE_TYPES)
        raise RuntimeError(f"Expected one of {kinds} device type at start of device string: {name}")
    if colon:
        if index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {kind}")
        if not number.isdigit() or (len(number) > 1 and number[0] == "0"):
            raise RuntimeError(f"Invalid device string: '{kind}'")
        index = int(number)
    if index is not None and not isinstance(index, int):
        raise TypeError(f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}")
    if index is not None and index < 0:
        raise RuntimeError("Device index must not be negative")
    return name, index


class _Context:
    """Devices entered with `with device:`, innermost last, below them the one of `set_default_device`."""

    def __init__(self) -> None:
        self.devices: list[device] = []
        self.default: device | None = None


_context = _Context()
cpu = device("cpu")
meta = device("meta")


def current_default_device() -> device:
    """Where creation functions put a tensor when no device is named."""
    return _context.devices[-1] if _context.devices else _context.default or cpu


# %%
with torch.device("meta"):
    weight = torch.empty(50_000, 50_000)
weight.device, weight.shape, weight.element_size() * weight.numel()

# %% [markdown]
# Ten gigabytes of shape, and no memory ([`meta`](03a_meta.py) has a part of its own). The `with` block pushed the device
# on a stack, which the creation functions read. Upstream implements the block as a *mode* ([a later part](11d_modes.py)):
# a Python object that sees every torch function called inside and adds `device=` to those that create tensors. Ours reads
# the stack in the creation functions themselves, so that all other functions pay nothing.


# %%
#| claim: a device in a with block and a default device apply to creation functions only, and a device that is named wins over both
#| upstream: torch/utils/_device.py#DeviceContext
def _(torch):
    here = torch.ones(2)
    with torch.device("meta"):
        assert torch.zeros(2).device.type == "meta"
        assert torch.zeros(2, device="cpu").device.type == "cpu"
        assert (here + 1).device.type == "cpu" and torch.zeros_like(here).device.type == "cpu"
    assert torch.zeros(2).device.type == "cpu"
    assert torch.device("cuda") != torch.device("cuda:0")


# %% [markdown]
# Two more words complete the vocabulary. `layout` says how the elements are stored: here always `strided`, except for
# [sparse tensors](../a1_operators/5c_sparse.py). `memory_format` says in which order the dimensions lie in memory. It is
# not a property of a tensor but a wish, passed to `clone`, `contiguous` or `to`; what came of it is read off the strides,
# the subject of the next part.


# %%
#| into: c10/core/layout.py
#| imports
from __future__ import annotations

from collections.abc import Callable
from typing import Any


# %%
#| into: c10/core/layout.py
#| upstream: torch/headeronly/core/Layout.h#c10::Layout
class layout:
    """How elements are stored: `strided` in memory, or as a list of places and values."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")

#: the layout of tensors that hold an object of this class in place of an array; all others are strided
LAYOUT_OF: dict[Any, layout] = {}

#: for such a layout, what makes an object without elements: (shape, dtype)
EMPTY_OF: dict[layout, Callable[[tuple[int, ...], Any], Any]] = {}


# %%
#| into: c10/core/memory_format.py
#| upstream: torch/headeronly/core/MemoryFormat.h#c10::MemoryFormat
class memory_format:
    """The order of dimensions in memory that `contiguous`, `clone` and `to` can be asked for."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

# %%
image = torch.zeros(1, 3, 4, 5).contiguous(memory_format=torch.channels_last)
image.shape, image.stride()

# %% [markdown]
# ## How far does a float count?
#
# float32 has 24 bits of mantissa, so counting by ones ends at 2²⁴. A float32 counter of samples stops there and never
# complains, which is one reason why `num_batches_tracked` (chapter 3) is an int64. In bfloat16 the end comes at 256.

# %%
x = torch.tensor(2.0**24)
x + 1 == x, torch.finfo(torch.float32).eps * 2.0**24

# %% [markdown]
# `torch.finfo` and `torch.iinfo` answer for any dtype, so that no program has to hard-code such limits. `eps` is the gap between 1 and the next
# number. The gap grows with the number: near `x` it is about `eps * x`, which is what the second value above shows. How small a
# number may be is another question: `smallest_normal` (older name: `tiny`) is where digits begin to be lost.

# %%
#| into: csrc/type_info.py
#| imports
from __future__ import annotations


from typing import Any

import numpy as np

from readtorch.c10.core.default_dtype import get_default_dtype
from readtorch.c10.core.scalar_type import as_dtype, dtype, to_numpy_dtype


# %%
#| into: csrc/type_info.py
#| upstream: torch/csrc/TypeInfo.h#THPFInfo
_DEFAULT: Any = object()


class finfo:
    """Limits of a floating dtype (default: the default dtype). TypeError for others."""

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: dtype = _DEFAULT) -> None:
        wanted = get_default_dtype() if type is _DEFAULT else as_dtype(type, "finfo", "type", 1)
        if not (wanted.is_floating_point or wanted.is_complex):
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{wanted}'")
        wanted = wanted.to_real()
        self.bits = wanted.itemsize * 8
        self.dtype = wanted.name
        if wanted.name == "bfloat16":
            # the top half of a float32: 8 bits of exponent, 7 of mantissa
            self.eps, self.max, self.tiny, self.resolution = 2.0**-7, (2 - 2.0**-7) * 2.0**127, 2.0**-126, 0.01
        else:
            limits = np.finfo(to_numpy_dtype(wanted))
            self.eps, self.max, self.tiny = float(limits.eps), float(limits.max), float(limits.tiny)
            self.resolution = float(f"1e-{limits.precision}")
        self.min = -self.max
        self.smallest_normal = self.tiny

    def __repr__(self) -> str:
        values = ", ".join(
            f"{name}={getattr(self, name):.6g}"
            for name in ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        )
        return f"finfo({values}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:
    """Limits of an integral dtype. TypeError for others."""

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: dtype) -> None:
        type = as_dtype(type, "iinfo", "type", 1)
        if type.is_floating_point or type.is_complex:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'")
        if type.name == "bool":
            raise TypeError("torch.bool is not supported by torch.iinfo")
        self.bits = type.itemsize * 8
        self.dtype = type.name
        limits = np.iinfo(to_numpy_dtype(type))
        self.min, self.max = int(limits.min), int(limits.max)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


# %%
torch.finfo(torch.bfloat16), torch.finfo(torch.float16).max, torch.iinfo(torch.int8).min


# %%
#| claim: adding 1 changes nothing from 2**24 on in float32, from 2048 on in float16 and from 256 on in bfloat16: 2 / eps each time
def _(torch):
    for dtype, end in ((torch.float32, 2**24), (torch.float16, 2048), (torch.bfloat16, 256)):
        one = torch.ones((), dtype=dtype)
        assert end == 2 / torch.finfo(dtype).eps
        assert (one * end + one).item() == end and (one * (end - 1) + one).item() == end


# %% [markdown]
# Counting the leading one that is not stored, bfloat16 has float32's exponent and 8 bits of mantissa; float16 has 5 bits
# of exponent and 11 of mantissa. bfloat16 loses digits and keeps the range, which is why training in it needs no loss
# scaling.
#
# So far a tensor has been described, and nothing has been said about the memory itself. [The next
# part](02_storage_and_views.py) has it: who owns the bytes, and how ten tensors can look at the same ones.
