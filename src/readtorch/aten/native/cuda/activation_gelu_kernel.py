# Tangled from chapters/a3_kernels/6b_a_chain_in_one_pass.py — edit there, or here and run `readtorch sync`.
"""GELU and its gradient, each in one pass."""

from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.aten.native.cuda.jit_utils import FLAGS, VARIANTS, Kernel, array_module, cpp_type, flag, lanes, pointer

_FILE = "aten/native/cuda/activation_gelu_kernel.cu"
_FORWARD = Kernel(_FILE, "gelu_forward", VARIANTS, FLAGS)
_BACKWARD = Kernel(_FILE, "gelu_backward", VARIANTS, FLAGS)


def _launch(kernel: Kernel, approximate: str, *arrays: Array) -> Any:
    """Of contiguous arrays of one shape and type: the result, a fresh one."""
    first = arrays[0]
    kind = cpp_type(first)
    if kind is None or approximate not in ("none", "tanh") or any(a.dtype != first.dtype for a in arrays):
        return NotImplemented
    xp = array_module(first)
    given = [xp.ascontiguousarray(array) for array in arrays]
    y = xp.empty_like(given[0])
    wide = kind != "double" and all(pointer(a) % 16 == 0 for a in (*given, y))
    if y.size:
        blocks = -(-y.size // (256 * lanes(y, wide)))
        kernel[kind, flag(wide), flag(approximate == "tanh")](blocks, 256, *given, y, y.size)
    return y


def gelu(self: Array, *, approximate: str = "none") -> Any:
    """NotImplemented for other than floating dtypes."""
    return _launch(_FORWARD, approximate, self)


def gelu_backward(grad_output: Array, self: Array, approximate: str = "none") -> Any:
    """The gradient; NotImplemented for other than floating dtypes, and for two of them."""
    if grad_output.shape != self.shape:
        return NotImplemented
    return _launch(_BACKWARD, approximate, grad_output, self)
