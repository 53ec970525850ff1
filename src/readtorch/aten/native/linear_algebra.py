# Tangled from chapters/00_tensor/6_first_operators.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core import scalar_type


@register("mm", key="CPU CUDA", variants="function method", out=True, autocast="low")
def mm(self: Array, mat2: Array) -> Array:
    """Matrix times matrix: `(n, m) × (m, p) → (n, p)`."""
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
        names = " != ".join(_c_name(x.dtype) for x in (a, b))
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {names}")
    if a.dtype.itemsize == 2 and a.dtype.kind in "fV":
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    return np.matmul(a, b)


_C_NAMES = {
    "float16": "c10::Half",
    "float32": "float",
    "float64": "double",
    "int64": "long int",
    "int32": "int",
    "bfloat16": "c10::BFloat16",
}


def _c_name(kind: np.dtype) -> str:
    name = scalar_type.from_numpy_dtype(kind).name
    return _C_NAMES.get(name, name)


derivative(
    "mm",
    self=lambda at, grad, mat2: at.mm(grad, at.conj(at.t(mat2))),
    mat2=lambda at, grad, self: at.mm(at.conj(at.t(self)), grad),
)
