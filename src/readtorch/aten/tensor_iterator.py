# Tangled from chapters/00_tensor/05_before_the_kernels.py — edit there, or here and run `readtorch sync`.

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


def in_order(array: Any) -> Any:
    """The same elements, the last dimension innermost: a copy if they lie otherwise."""
    return array if array.ndim < 2 or array.flags.c_contiguous else array.copy()
