# Tangled from chapters/00_tensor/01_dtype_and_device.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import builtins
from typing import Any

import numpy as np


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


def can_cast(source: dtype, target: dtype) -> Any:
    """May a result of type `source` be written to a tensor of type `target`? Categories may rise and not fall."""
    return source._category <= target._category
