# Tangled from chapters/a1_operators/9b_fourier_and_special.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array, Dims


def _norm(normalization: int, forward: bool) -> Any:
    """NumPy's word for a scale: 0 none, 1 by the root of the count, 2 by the count, in this direction."""
    return ("backward" if forward else "forward", "ortho", "forward" if forward else "backward")[normalization]


def _refuse_empty(array: Array) -> None:
    if not array.size:
        raise RuntimeError(f"FFT: nothing to transform in a tensor of shape {list(array.shape)}")


@register("_fft_c2c", key="CPU CUDA", node="FftC2C")
def _fft_c2c(self: Array, dim: Dims, normalization: int, forward: bool) -> Array:
    """The transform of complex numbers over `dim`."""
    _refuse_empty(self)
    transform: Any = np.fft.fftn if forward else np.fft.ifftn
    return transform(self, axes=tuple(dim), norm=_norm(normalization, forward)) if dim else self.copy()


derivative(
    "_fft_c2c",
    self=lambda at, grad, dim, normalization, forward: at._fft_c2c(grad, dim, normalization, not forward),
)


@register("_fft_r2c", key="CPU CUDA", node="FftR2C")
def _fft_r2c(self: Array, dim: Dims, normalization: int, onesided: bool) -> Array:
    """The transform of real numbers; of the last dimension half, if `onesided`."""
    _refuse_empty(self)
    norm = _norm(normalization, True)
    if onesided:
        return np.fft.rfftn(self, axes=tuple(dim), norm=norm)
    return np.fft.fftn(self.astype(np.result_type(self.dtype, np.complex64)), axes=tuple(dim), norm=norm)


def _r2c_backward(
    at: Any, grad: Any, shape: tuple[int, ...], dim: Sequence[int], normalization: int, onesided: bool
) -> Any:
    if onesided:
        last = dim[-1] % len(shape)
        missing = shape[last] - grad.shape[last]
        grad = at.constant_pad_nd(grad, [0, 0] * (len(shape) - 1 - last) + [0, missing])
    return at.real(at._fft_c2c(grad, dim, normalization, False))


derivative(
    "_fft_r2c",
    self=lambda at, grad, self_shape, dim, normalization, onesided: _r2c_backward(
        at, grad, self_shape, dim, normalization, onesided
    ),
)


@register("_fft_c2r", key="CPU CUDA", node="FftC2R")
def _fft_c2r(self: Array, dim: Dims, normalization: int, last_dim_size: int) -> Array:
    """Real numbers out of half of their transform."""
    _refuse_empty(self)
    sizes = [self.shape[axis] for axis in dim[:-1]] + [last_dim_size]
    return np.fft.irfftn(self, sizes, axes=tuple(dim), norm=_norm(normalization, False))


def _c2r_backward(at: Any, grad: Any, dim: Sequence[int], normalization: int) -> Any:
    result = at._fft_r2c(grad, dim, normalization, True)
    last = dim[-1] % len(grad.shape)
    twice = grad.shape[last] - result.shape[last]
    if twice <= 0:
        return result
    first = at.narrow(result, last, 0, 1)
    middle = at.narrow(result, last, 1, twice)
    rest = at.narrow(result, last, 1 + twice, result.shape[last] - 1 - twice)
    return at.cat([first, middle * 2, rest], last)


derivative("_fft_c2r", self=lambda at, grad, dim, normalization: _c2r_backward(at, grad, dim, normalization))
