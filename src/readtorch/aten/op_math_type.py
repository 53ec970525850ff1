# Tangled from chapters/00_tensor/05_before_the_kernels.py — edit there, or here and run `readtorch sync`.
"""The types that kernels compute in (twin of `aten/src/ATen/OpMathType.h`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from readtorch.c10.core import scalar_type

#: the two floating types of 16 bits; one where ml_dtypes is missing
REDUCED = frozenset(kind.numpy for kind in (scalar_type.float16, scalar_type.bfloat16) if kind.numpy is not None)

FLOAT32 = np.dtype(np.float32)

#: beside 16-bit elements, these take a number as it is; all others have it rounded to the elements' type
KEEPING_NUMBERS = frozenset(["mul", "_true_div", "_floor_div", "_trunc_div"])


def in_working_precision(array: Any) -> Any:
    """Two-byte floats as float32; everything else as it is."""
    return array.astype(FLOAT32) if array.dtype.itemsize == 2 and array.dtype.kind in "fV" else array
