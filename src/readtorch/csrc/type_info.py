# Tangled from chapters/00_tensor/01_dtype_and_device.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.c10.core.default_dtype import get_default_dtype
from readtorch.c10.core.scalar_type import as_dtype, dtype, to_numpy_dtype

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
