# Tangled from chapters/a1_operators/9b_fourier_and_special.py — edit there, or here and run `readtorch sync`.
"""Discrete Fourier transforms (twin of `torch/fft/__init__.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from readtorch import _C
from readtorch._tensor import Tensor
from readtorch.aten.core.dispatch.operator_entry import Dims
from readtorch.c10.core.default_dtype import get_default_dtype
from readtorch.c10.core.scalar_type import complex64, dtype, not_implemented, promote_types, to_string
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim
from readtorch.csrc.utils.gates import COMPILED, Public, gates
from readtorch.csrc.utils.python_arg_parser import checked

_at = _C._VariableFunctions


def _scale(norm: str | None, forward: bool) -> int:
    """Which scale a word means in this direction: 0 none, 1 by the root of the count, 2 by the count."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return 1 if norm == "ortho" else 2 * int((norm == "forward") == forward)


def _floating(input: Tensor) -> Tensor:
    if input.is_floating_point() and input.itemsize == 2:
        raise RuntimeError(f"Unsupported dtype {to_string(input.dtype)}")
    return input if input.is_floating_point() or input.is_complex() else input.to(get_default_dtype())


def _complex(input: Tensor) -> Tensor:
    input = _floating(input)
    return input if input.is_complex() else input.to(promote_types(input.dtype, complex64))


def _resized(input: Tensor, sizes: Sequence[int | None], dims: Sequence[int]) -> Tensor:
    """`input` cut off, or continued with zeros, to a size along each dimension."""
    for size, dim in zip(sizes, dims, strict=True):
        if size is None:
            continue
        if size < 1:
            raise RuntimeError(f"Invalid number of data points ({size}) specified")
        have = input.shape[dim]
        if have > size:
            input = input.narrow(dim, 0, size)
        elif have < size:
            place = [0, 0] * (input.ndim - 1 - dim % input.ndim)
            input = _at.constant_pad_nd(input, [*place, 0, size - have])
    for dim in dims:
        if not input.shape[dim]:
            raise RuntimeError("Invalid number of data points (0) specified")
    return input


def _axes(input: Tensor, s: Any, dim: Any) -> tuple[list[int | None], list[int]]:
    """The sizes and dimensions that `s` and `dim` mean together."""
    sizes = None if s is None else [None if n == -1 else int(n) for n in ([s] if isinstance(s, int) else s)]
    if dim is None:
        dims = list(range(input.ndim)) if sizes is None else list(range(input.ndim - len(sizes), input.ndim))
        if dims and dims[0] < 0:
            raise RuntimeError(f"Got shape with {len(dims)} values but input tensor only has {input.ndim} dimensions.")
    else:
        dims = [
            maybe_wrap_dim(int(axis) if place and axis.__class__ is bool else axis, input.ndim, wrap_scalar=False)
            for place, axis in enumerate([dim] if isinstance(dim, int) else dim)
        ]
    if len(set(dims)) != len(dims):
        raise RuntimeError("FFT dims must be unique")
    if sizes is not None and len(sizes) != len(dims):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    return sizes or [None] * len(dims), dims


def _given(name: str, dim: Any) -> None:
    """TypeError for None, where two dimensions are named by default."""
    if dim is None:
        raise TypeError(f"fft_{name}(): argument 'dim' must be tuple of ints, not NoneType")


def _one(n: int | None) -> list[int] | None:
    """A number of points as `s` of one dimension, where -1 would stand for the input's."""
    if n is not None and n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return None if n is None else [n]


def _both(name: str, forward: bool, default: Any) -> Callable[..., Any]:
    def transform(
        input: Tensor, s: Dims | None = None, dim: Dims | None = default, norm: str | None = None, *, out: Any = None
    ) -> Any:
        if default is not None:
            _given(name, dim)
        sizes, dims = _axes(input, s, dim)
        return _at._fft_c2c(_resized(_complex(input), sizes, dims), dims, _scale(norm, forward), forward)

    return _named(
        name,
        transform,
        "The transform over several dimensions." if forward else "The inverse transform over several dimensions.",
    )


def _named(name: str, function: Callable[..., Any], text: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return checked(function)


fftn = _both("fftn", True, None)
ifftn = _both("ifftn", False, None)
fft2 = _both("fft2", True, (-2, -1))
ifft2 = _both("ifft2", False, (-2, -1))


@checked
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The transform along `dim`, of `n` numbers."""
    return fftn(input, _one(n), [dim], norm)


@checked
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of `fft`."""
    return ifftn(input, _one(n), [dim], norm)


@checked
def rfftn(
    input: Tensor, s: Dims | None = None, dim: Dims | None = None, norm: str | None = None, *, out: Any = None
) -> Any:
    """The transform of real numbers: half of it in the last dimension, the other half mirrors it."""
    if input.is_complex():
        raise RuntimeError(f"rfftn expects a real-valued input tensor, but got {to_string(input.dtype)}")
    sizes, dims = _axes(input, s, dim)
    if not dims:
        raise RuntimeError("rfftn must transform at least one axis")
    return _at._fft_r2c(_resized(_floating(input), sizes, dims), dims, _scale(norm, True), True)


@checked
def irfftn(
    input: Tensor, s: Dims | None = None, dim: Dims | None = None, norm: str | None = None, *, out: Any = None
) -> Any:
    """The inverse of `rfftn`. Whether the last size was odd or even cannot be seen: `s` says it, else it is taken for even."""
    sizes, dims = _axes(input, s, dim)
    if not dims:
        raise RuntimeError("irfftn must transform at least one axis")
    last = sizes[-1] if sizes[-1] is not None else 2 * (input.shape[dims[-1]] - 1)
    if last < 1:
        raise RuntimeError(f"Invalid number of data points ({last}) specified")
    resized = _resized(_complex(input), [*sizes[:-1], last // 2 + 1], dims)
    return _at._fft_c2r(resized, dims, _scale(norm, False), last)


@checked
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """Half of the transform of real numbers."""
    return rfftn(input, _one(n), [dim], norm)


@checked
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of `rfft`."""
    return irfftn(input, _one(n), [dim], norm)


@checked
def rfft2(
    input: Tensor, s: Dims | None = None, dim: Dims = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Any:
    """`rfftn` over two dimensions."""
    _given("rfft2", dim)
    return rfftn(input, s, dim, norm)


@checked
def irfft2(
    input: Tensor, s: Dims | None = None, dim: Dims = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Any:
    """`irfftn` over two dimensions."""
    _given("irfft2", dim)
    return irfftn(input, s, dim, norm)


def _turned(norm: str | None) -> str | None:
    _scale(norm, True)
    return {"forward": "backward", "ortho": "ortho"}.get(norm or "backward", "forward")


@checked
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The transform of a signal that mirrors itself, given by half: real numbers."""
    return irfft(input.conj(), n, dim, _turned(norm))


@checked
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of `hfft`."""
    return rfft(input, n, dim, _turned(norm)).conj()


def _spacing(n: int, d: float) -> float:
    return 1.0 / (n * d) if n * d else math.inf


@checked
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Any:
    """The frequency of each number that `fft` gives, for samples a distance `d` apart."""
    whole = _at.arange(n, dtype=dtype or get_default_dtype(), device=device)
    if whole.is_complex():
        raise not_implemented("arange_cpu", whole.dtype)
    whole[(n + 1) // 2 :] -= n
    return whole.mul_(_spacing(n, d)).requires_grad_(requires_grad)


@checked
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Any:
    """The frequency of each number that `rfft` gives."""
    whole = _at.arange(int(n / 2) + 1, dtype=dtype or get_default_dtype(), device=device)
    if whole.is_complex():
        raise not_implemented("arange_cpu", whole.dtype)
    return whole.mul_(_spacing(n, d)).requires_grad_(requires_grad)


def _shift(input: Tensor, dim: Any, back: bool) -> Any:
    one = isinstance(dim, int) or (isinstance(dim, Tensor) and not dim.ndim)
    dims = list(range(input.ndim)) if dim is None else [int(dim)] if one else list(dim)
    if not dims:
        raise RuntimeError("`shifts` required")
    sizes = [input.shape[maybe_wrap_dim(axis, input.ndim, wrap_scalar=False)] for axis in dims]
    return _at.roll(input, [(size + int(back)) // 2 for size in sizes], dims)


@checked
def fftshift(input: Tensor, dim: Dims | None = None) -> Any:
    """The numbers in order of frequency, zero in the middle."""
    return _shift(input, dim, False)


@checked
def ifftshift(input: Tensor, dim: Dims | None = None) -> Any:
    """The order that `ifft` wants, out of that of `fftshift`."""
    return _shift(input, dim, True)


gates.offer(globals(), "torch.fft", COMPILED, Public(globals()))
