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
# # Fourier transforms, windows, special functions
#
# Seventeen functions of `torch.fft` rest on three operators: complex to complex, real to complex, complex to real. They differ in what they may leave out: the transform of real numbers is its own mirror image, so half of it is enough
# (`rfft`), and who has half of one can get the real numbers back (`irfft`).
#
# | operator | derivative |
# |---|---|
# | complex to complex | the transform in the other direction, with the same scale |
# | real to complex, both halves | the real part of that |
# | real to complex, one half | the same, after zeros stand for the other half |
# | complex to real | real to complex of the gradient; all but the first and the middle one count twice |
#
# What is there to explain in a transform that NumPy computes? What it is *asked*. It takes a finite piece for one period of something endless, it stores its frequencies in an odd order, it drops half of a mirror image and with that the parity of a length; and it is differentiated, by a rule in which some elements count twice. Each of these has cost somebody a day.

# %%
import matplotlib.pyplot as plt

import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import spectral_ops as spectral_ops

# %%
#| into: aten/native/spectral_ops.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch.dispatcher import derivative, register
from readtorch.aten.core.dispatch.operator_entry import Array, Dims


# %%
#| into: aten/native/spectral_ops.py
#| upstream: aten/src/ATen/native/SpectralOps.cpp#at::native::_fft_c2c_mkl
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

# %% [markdown]
# ## torch.fft

# %%
#| into: fft/__init__.py
#| imports
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

# %%
#| into: fft/__init__.py
_at = _C._VariableFunctions


# %%
#| into: fft/__init__.py
#| upstream: torch/fft/__init__.py#fft
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


# %%
torch.fft.fft2(torch.ones(2, 2)), torch.fft.fftn(torch.ones(2, 2), s=(1, 3)).shape

# %% [markdown]
# All others are these with one dimension, with real numbers on one side, or with the direction turned. (`norm` names the direction in which the result is divided, so it is turned too.) A size `s` cuts off or continues with zeros, before the transform.


# %%
#| into: fft/__init__.py
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


# %% [markdown]
# `hfft` is the odd one: for a *signal* that mirrors itself, whose spectrum is real. Half of the signal is given, and the real spectrum comes back. It is `irfft` of the conjugate with the scale of a forward transform.


# %%
#| into: fft/__init__.py
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


# %%
#| claim: hfft of half a signal is the transform of all of it; "ortho" divides both directions by the root of the count, "forward" only the first
def _(torch):
    signal = torch.tensor([1.0, 2.0 - 1j, 3.0, 2.0 + 1j])  # element k is the conjugate of element -k
    assert torch.allclose(torch.fft.hfft(signal[:3]), torch.fft.fft(signal).real)
    x = torch.ones(4)
    first = lambda norm: (torch.fft.fft(x, norm=norm)[0].real.item(), torch.fft.ifft(x, norm=norm)[0].real.item())
    assert first(None) == (4, 1) and first("ortho") == (2, 2) and first("forward") == (1, 4)


# %% [markdown]
# The frequencies that belong to the results, and the order with zero in the middle:


# %%
#| into: fft/__init__.py
#| upstream: torch/fft/__init__.py#fftfreq
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


# %%
tone = torch.sin(2 * torch.pi * 3 * torch.arange(16) / 16)
torch.fft.rfft(tone).abs().round(decimals=3)

# %% [markdown]
# Three periods fit into the piece, and all of the tone is in bin 3. The order of the bins is that of the sum in the definition, from 0 upwards; the upper half are the negative frequencies. `fftshift` rolls them into place, and for an odd length it is not its own inverse:

# %%
torch.fft.fftfreq(5, 1 / 5), torch.fft.fftshift(torch.arange(5)), torch.fft.ifftshift(torch.arange(5))

# %%
#| trace: torch.fft layers=calls,ops values=summary title="irfft: seven names, one operator"
torch.fft.irfft(torch.fft.rfft(tone))


# %%
#| claim: irfft cannot see that a length was odd, and does not look at the imaginary parts of the first and of the middle number
#| upstream: torch/fft/__init__.py#fft
def _(torch):
    rfft, irfft = torch.fft.rfft, torch.fft.irfft
    x = torch.arange(5.0)
    assert irfft(rfft(x)).shape == (4,) and torch.allclose(irfft(rfft(x), 5), x, atol=1e-6)
    half = rfft(torch.arange(4.0))
    changed = half + torch.tensor([100j, 0, 7j])
    assert torch.allclose(irfft(changed), irfft(half))


# %%
#| claim: in the gradient of irfft all but the first and the middle number count twice; for an odd length there is no middle
def _(torch):
    def weights(count, length):
        half = torch.zeros(count, dtype=torch.complex64, requires_grad=True)
        return (length * torch.autograd.grad(torch.fft.irfft(half, length)[0], half)[0]).real.round().tolist()

    assert weights(3, 4) == [1, 2, 1] and weights(3, 5) == [1, 2, 2]


# %% [markdown]
# A product of transforms is a *circular* convolution: what runs out behind comes in again in front. Two signals of *n* and *m* numbers have a convolution of *n* + *m* − 1, and the transform must be of at least as many.


# %%
#| needs: a2_layers
#| claim: without zeros behind them, transformed signals are convolved in a circle
def _(torch):
    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.0, 1.0, 0.5])
    rfft, irfft = torch.fft.rfft, torch.fft.irfft
    full = torch.nn.functional.conv1d(a.view(1, 1, 3), b.flip(0).view(1, 1, 3), padding=2).flatten()
    assert torch.allclose(irfft(rfft(a, 5) * rfft(b, 5), 5), full, atol=1e-6)
    circle = full[:3] + torch.cat([full[3:], torch.zeros(1)])
    assert torch.allclose(irfft(rfft(a) * rfft(b), 3), circle, atol=1e-6)


# %%
#| claim: Parseval: the transform with norm="ortho" keeps lengths, so its gradient does too
def _(torch):
    x = torch.randn(8, dtype=torch.float64, requires_grad=True)
    y = torch.fft.fft(x, norm="ortho")
    assert torch.allclose(y.abs().square().sum(), x.square().sum())
    assert torch.allclose(torch.autograd.grad(y.abs().square().sum(), x)[0], 2 * x)


# %% [markdown]
# ## A signal in pieces
#
# `stft` cuts a signal into overlapping pieces, weighs each with a window that fades to zero at its ends, and transforms it. `istft` puts them together again, and divides by what the windows add up to at each place.
#
# Why the window? A transform takes the piece for a period. If the tone does not fit, the end does not meet the beginning, and the jump has all frequencies. Half a period more than above:

# %%
places = torch.arange(64) / 64
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
for axes, periods in ((left, 10.0), (right, 10.5)):
    tone = torch.sin(2 * torch.pi * periods * places)
    for name, window in (
        ("no window", torch.ones(64)),
        ("Hann", torch.hann_window(64)),
        ("Kaiser 12", torch.kaiser_window(64)),
    ):
        power = torch.fft.rfft(tone * window).abs() / window.sum()
        axes.plot((20 * power.clamp(min=1e-7).log10()).tolist(), label=name)
    axes.set_title(f"{periods} periods", fontsize=10)
    axes.set_xlabel("bin")
left.set_ylabel("dB")
right.legend(frameon=False, fontsize=8)
figure.tight_layout()

# %% [markdown]
# Without a window, a tone that does not fit is seen in every bin, at −30 dB or so; a faint second tone would be drowned. A window trades this for width.


# %%
#| into: functional.py
#| imports
from readtorch.c10.util.exception import warn_once


# %%
#| into: functional.py
#| upstream: torch/functional.py#stft
@checked
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
    return_complex: bool | None = None, align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """The transforms of windowed pieces of a signal: (B, frequencies, pieces)."""
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if window is None:
        warn_once(
            "A window was not provided. A rectangular window will be applied, whose edges leak into all frequencies.",
            stacklevel=3,
        )
    if return_complex is None and not (input.is_complex() or (window is not None and window.is_complex())):
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
    if return_complex is False:
        warnings.warn("stft with return_complex=False is deprecated: view_as_real() gives the same.", stacklevel=3)
    if not (input.is_floating_point() or input.is_complex()):
        if input.dtype is scalar_type.bool:
            raise not_implemented("reflection_pad1d", input.dtype)
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, but got {input.dtype}")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got {input.ndim}D")
    signal = input if input.ndim == 2 else input.unsqueeze(0)
    if center:
        fold = n_fft // 2
        padded = nn_pad(signal.unsqueeze(1), (fold, fold), pad_mode).squeeze(1)
    else:
        padded = signal
    length = padded.shape[-1]
    if n_fft <= 0 or n_fft > length:
        raise RuntimeError(f"stft: expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"stft: expected 0 < win_length <= n_fft, but got win_length={width}")
    shape = _window_of(window, width, n_fft, padded)
    pieces = padded.unfold(-1, n_fft, hop)
    pieces = pieces if shape is None else pieces * shape
    half = not pieces.is_complex() if onesided is None else onesided
    norm = "ortho" if normalized else None
    from readtorch import fft

    result = (fft.rfft if half else fft.fft)(pieces, norm=norm).transpose(-2, -1)
    result = result if input.ndim == 2 else result.squeeze(0)
    return result if return_complex or return_complex is None else _at.view_as_real(result)


def nn_pad(input: Tensor, pad: tuple[int, int], mode: str) -> Tensor:
    """`nn.functional.pad`, which stands above this module."""
    from readtorch.nn import functional

    return functional.pad(input, pad, mode)


def _window_of(window: Tensor | None, width: int, n_fft: int, like: Tensor) -> Tensor | None:
    if window is not None and tuple(window.shape) != (width,):
        raise RuntimeError(
            f"stft: expected a 1D window tensor of size equal to win_length={width}, but got window with size {list(window.shape)}"
        )
    if width == n_fft:
        return window
    shape = like.new_ones(width) if window is None else window
    left = (n_fft - width) // 2
    return _at.constant_pad_nd(shape, [left, n_fft - width - left])


@checked
def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Tensor | None = None,
    center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal of which `stft` gave the pieces."""
    from readtorch import fft

    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if input.ndim not in (2, 3):
        raise RuntimeError(f"istft expected a tensor with 2 or 3 dimensions, but got {input.ndim}")
    spectrum = (input if input.ndim == 3 else input.unsqueeze(0)).transpose(1, 2)
    half = n_fft // 2 + 1 != n_fft if onesided is None else onesided
    half = half and spectrum.shape[-1] != n_fft
    if spectrum.shape[-1] != (n_fft // 2 + 1 if half else n_fft):
        raise RuntimeError(
            f"istft: expected the frequency dimension to match n_fft={n_fft}, but got {spectrum.shape[-1]}"
        )
    norm = "ortho" if normalized else None
    pieces = fft.irfft(spectrum, n_fft, norm=norm) if half else fft.ifft(spectrum, norm=norm)
    pieces = pieces if return_complex or half else pieces.real
    shape = _window_of(window, width, n_fft, pieces.real if pieces.is_complex() else pieces)
    shape = pieces.new_ones(n_fft) if shape is None else shape
    count = pieces.shape[1]
    whole = n_fft + hop * (count - 1)
    place = (_at.arange(count).unsqueeze(1) * hop + _at.arange(n_fft)).reshape(-1)
    signal = pieces.new_zeros(pieces.shape[0], whole).index_add(1, place, (pieces * shape).reshape(pieces.shape[0], -1))
    weights = shape.new_zeros(whole).index_add(0, place, (shape * shape).expand(count, n_fft).reshape(-1))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - (n_fft // 2 if center else 0)
    signal, weights = signal[:, start:end], weights[start:end]
    if bool((weights.abs() < 1e-11).any()):
        raise RuntimeError("istft: window overlap add min: 1")
    signal = signal / weights
    if length is not None and signal.shape[-1] < length:
        signal = _at.constant_pad_nd(signal, [0, length - signal.shape[-1]])
    return signal if input.ndim == 3 else signal.squeeze(0)


# %%
#| needs: a2_layers
rate = 1000
time = torch.arange(2 * rate) / rate
chirp = torch.sin(2 * torch.pi * (50 * time + 80 * time**2)) + 0.3 * torch.sin(2 * torch.pi * 400 * time)
window = torch.hann_window(128)
pieces = torch.stft(chirp, 128, hop_length=32, window=window, return_complex=True)
figure, axes = plt.subplots(figsize=(7, 2.6))
axes.imshow(pieces.abs().clamp(min=1e-3).log().numpy(), origin="lower", aspect="auto", extent=(0, 2, 0, rate / 2))
axes.set_xlabel("seconds")
axes.set_ylabel("hertz")
figure.tight_layout()
pieces.shape, (torch.istft(pieces, 128, hop_length=32, window=window, length=len(chirp)) - chirp).abs().max()

# %% [markdown]
# One piece more than 2000 / 32 says: with `center=True` the signal is reflected at its ends so that piece *t* is centred at *t* · hop. Without that the first place of the signal lies in one piece only, under the zero at the window's end; it cannot be got back, and `istft` refuses.


# %%
#| needs: a2_layers
#| claim: centred pieces are one more than fit, and come back; of uncentred pieces under a Hann window the ends cannot be restored
def _(torch):
    x, window = torch.randn(100), torch.hann_window(16)
    centred = torch.stft(x, 16, 4, window=window, return_complex=True)
    assert centred.shape == (9, 100 // 4 + 1)
    assert torch.allclose(torch.istft(centred, 16, 4, window=window, length=100), x, atol=1e-5)
    pieces = torch.stft(x, 16, 4, window=window, center=False, return_complex=True)
    assert pieces.shape == (9, (100 - 16) // 4 + 1)
    try:
        torch.istft(pieces, 16, 4, window=window, center=False)
    except RuntimeError as error:
        assert "window overlap add min" in str(error)
    else:
        raise AssertionError("restored")


# %% [markdown]
# ## Windows
#
# Two conventions differ by one place. A window for designing filters is *symmetric*: both ends are the same. One for transforms is *periodic*: the next piece's first place is its last, so it is a symmetric one of *n* + 1 with the end left out. SciPy's functions give the first by default, PyTorch's the second.


# %%
#| into: csrc/autograd/python_torch_functions_manual.py
#| upstream: aten/src/ATen/native/TensorFactories.cpp#at::native::hann_window
def _filled(
    name: str, shape: Callable[..., Any], window_length: int, periodic: bool, values: tuple[float, ...], dtype: Any, device: Any,
    requires_grad: bool,
) -> Any:  # fmt: skip
    """A window: `shape(x, n, *values)` over the n places. A periodic window of n is that of n + 1 without its last."""
    kind = _kind(dtype)
    if kind.kind not in "fVc":
        raise RuntimeError(f"{name} expects floating point dtypes, got: {scalar_type.to_string(kind)}")
    if window_length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
    if window_length <= 1:
        return finish(np.ones(window_length, kind), device, requires_grad)
    if kind.kind == "c":
        raise scalar_type.not_implemented("arange_cpu", kind)
    count = window_length + int(periodic)
    work = np.dtype(np.float32) if kind.itemsize == 2 else kind
    values_of = shape(np.arange(count).astype(work), count, *values)
    return finish(values_of[:window_length].astype(kind), device, requires_grad)


def _window(name: str, shape: Callable[..., Any]) -> Callable[..., Any]:
    def window(
        window_length: int, periodic: bool = True, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        return _filled(name, shape, window_length, periodic, (), dtype, device, requires_grad)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"The {name.removesuffix('_window').capitalize()} window."
    return window


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The Hamming window, alpha − beta · cos."""
    return _filled("hamming_window", _hamming, window_length, periodic, (alpha, beta), dtype, device, requires_grad)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The Kaiser window, of quotients of Bessel functions."""
    return _filled("kaiser_window", _kaiser, window_length, periodic, (beta,), dtype, device, requires_grad)


def _hamming(x: np.ndarray, count: int, alpha: float, beta: float) -> np.ndarray:
    kind = x.dtype.type
    return np.cos(x * kind(math.pi * 2 / (count - 1))) * kind(-beta) + kind(alpha)


def _bartlett(x: np.ndarray, count: int) -> np.ndarray:
    x = x * x.dtype.type(2 / (count - 1))
    x[((count - 1) >> 1) + 1 :] = 2 - x[((count - 1) >> 1) + 1 :]
    return x


def _blackman(x: np.ndarray, count: int) -> np.ndarray:
    x = x * x.dtype.type(math.pi / (count - 1))
    return np.cos(x * 4) * x.dtype.type(0.08) - np.cos(x * 2) * x.dtype.type(0.5) + x.dtype.type(0.42)


def _kaiser(x: np.ndarray, count: int, beta: float) -> np.ndarray:
    middle = (count - 1) / 2
    return (
        np.i0(beta * np.sqrt(np.maximum(1 - ((x.astype(np.float64) - middle) / middle) ** 2, 0))) / np.i0(beta)
    ).astype(x.dtype)


def init_windows() -> None:
    """Offer the windows."""
    namespace = module("")
    for function in (
        _window("hann_window", lambda x, count: _hamming(x, count, 0.5, 0.5)),
        hamming_window,
        _window("bartlett_window", _bartlett),
        _window("blackman_window", _blackman),
        kaiser_window,
    ):
        gates.attach(namespace, function.__name__, checked(function))


further.append(init_windows)

# %%
torch.hann_window(8), torch.kaiser_window(5, beta=3.0)


# %%
#| claim: a periodic window is a symmetric one of one more without its last; shifted by half and added to itself, Hann's is 1 everywhere
def _(torch):
    window = torch.hann_window(8)
    assert torch.equal(window, torch.hann_window(9, periodic=False)[:-1]) and window[0] == 0 < window[-1]
    assert torch.allclose(window + window.roll(4), torch.ones(8))
    symmetric = torch.hann_window(8, periodic=False)
    assert not torch.allclose(symmetric + symmetric.roll(4), torch.ones(8))


# %% [markdown]
# ## Special functions
#
# Why have a function for log(1 + x)? Because 1 + x is rounded first, and for small x there is nothing left of it. The functions of `torch.special` are those whose obvious spelling loses digits, overflows, or gives NaN for 0 · ∞. How many digits of `log(1 + x)` and `exp(x) - 1` are right in float32:

# %%
x = torch.logspace(-9, 0, 200)
spellings = {
    "log(1 + x)": ((1 + x).log(), x.double().log1p()),
    "log1p(x)": (x.log1p(), x.double().log1p()),
    "exp(x) - 1": (x.exp() - 1, x.double().expm1()),
    "expm1(x)": (x.expm1(), x.double().expm1()),
}
figure, axes = plt.subplots(figsize=(7, 2.8))
for (name, (value, true)), style in zip(spellings.items(), ("C0-", "C0:", "C1-", "C1:"), strict=True):
    wrong = ((value.double() - true) / true).abs().clamp(min=1e-8)
    axes.plot(x.log10().tolist(), (-wrong.log10()).tolist(), style, label=name, linewidth=1)
axes.set_xlabel("log10 of x")
axes.set_ylabel("correct digits")
axes.legend(frameon=False, fontsize=8)
figure.tight_layout()

# %% [markdown]
# The modified Bessel functions are integrals over a circle, Iₙ(x) = 1/2π ∫ eˣᶜᵒˢᵗ cos nt dt. For a smooth periodic function the sum over equally spaced points converges faster than any power of their number: 256 points are exact to the last bit
# as long as the result is a float64 at all.


# %%
#| into: aten/native/math.py
#| upstream: aten/src/ATen/native/Math.h#calc_i0
def _circle() -> Any:
    return np.cos(2 * np.pi * np.arange(256) / 256)


def _bessel(order: int, x: Any) -> Any:
    """Iₙ for n of 0 or 1."""
    wide = np.abs(np.asarray(x, np.float64))
    circle = _circle()
    weights = np.exp(wide[..., None] * (circle - 1))
    mean = (weights * (circle if order else 1)).mean(axis=-1) * np.exp(wide)
    return (np.where(wide == 0, x, np.copysign(mean, x)) if order else mean).astype(x.dtype)


def i0(x: Any) -> Any:
    """The modified Bessel function of order 0."""
    return _bessel(0, x)


def i1(x: Any) -> Any:
    """The modified Bessel function of order 1."""
    return _bessel(1, x)


def zeta(s: float, x: Any) -> Any:
    """Hurwitz' Σ 1/(x + k)ˢ for x > 0, by Euler and Maclaurin: ten terms, then an integral and its corrections."""
    wide = np.asarray(x, np.float64)
    total = sum((wide + k) ** -s for k in range(10))
    tail = wide + 10
    total = total + tail ** (1 - s) / (s - 1) + 0.5 * tail**-s
    factor, power = s, tail ** (-s - 1)
    for number, bernoulli in enumerate(
        (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000), 1
    ):
        total = total + bernoulli * factor * power
        factor *= (s + 2 * number - 1) * (s + 2 * number)
        power = power / tail**2
    return total


# %%
#| into: aten/native/unary_ops.py
#| upstream: aten/src/ATen/native/UnaryOps.cpp#at::native::polygamma_
unary("i0", special.i0, formula=lambda at, grad, self: grad * at._i1(self))
unary("_i1", special.i1, variants="", inplace=False, node="SpecialI1", formula=lambda at, grad, self, result: grad * (at.i0(self) - at.where(self == 0, 0.5, result / at.where(self == 0, 1, self))))  # fmt: skip


def _entropy(x: Any) -> Any:
    return np.where(x < 0, -np.inf, np.where(x == 0, 0, -x * np.log(x))).astype(x.dtype, copy=False)


unary(
    "_entr",
    _entropy,
    variants="",
    inplace=False,
    node="SpecialEntr",
    formula=lambda at, grad, self: grad * (-1 - at.log(self)),
)


@register("_polygamma", key="CPU CUDA", variants="", node="Polygamma")
def _polygamma(self: Array, n: int) -> Array:
    kind = self.dtype if self.dtype.kind in "fV" else np.dtype(np.float32)
    if n == 0:
        return special.digamma(self.astype(kind))
    x = self.astype(np.float64)
    factor = (1 if n % 2 else -1) * (math.factorial(n) if n < 171 else math.inf)
    if n == 1:
        result = np.where(x == 0, np.inf, special.zeta(2, np.where(x > 0, x, np.nan)))
        if not (x > 0).all():  # the reflection, which only the first of them needs no derivatives for
            mirrored = (np.pi / np.sin(np.pi * x)) ** 2 - special.zeta(2, np.where(x > 0, 1, 1 - x))
            result = np.where(x > 0, result, mirrored)
        return np.asarray(result).astype(kind)
    pole = (x <= 0) & (x == np.floor(x))
    result, place = np.zeros_like(x), np.where(np.isfinite(x) & ~pole, x, 1.0)
    while (
        below := (place < 0) & (place > -_TERMS)
    ).any():  # the terms of the series up to the first of a place above 0
        result = np.where(below, result + place ** -(n + 1.0), result)
        place = np.where(below, place + 1, place)
    result = result + special.zeta(n + 1, np.where(place > 0, place, np.nan))
    return np.asarray(np.where(pole, np.inf, np.where(np.isfinite(x), result, np.nan)) * factor).astype(kind)


#: further from 0 nobody adds up the terms
_TERMS = 10_000


derivative("digamma", self=lambda at, grad, self: grad * at._polygamma(self, 1))
broadcasts_on_meta("_polygamma")
derivative("_polygamma", self=lambda at, grad, self, n: grad * at._polygamma(self, n + 1))


@composite("polygamma", variants="function", out=True)
def polygamma(at: Any, n: int, self: Array) -> Any:
    """The n-th derivative of `digamma`."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return at._polygamma(self, n)


@composite("mvlgamma", variants="function method", inplace=True, out=True)
def mvlgamma(at: Any, self: Array, p: int) -> Any:
    """The logarithm of the gamma function of p dimensions."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if p > 1 << 24:
        raise RuntimeError(f"mvlgamma: can't allocate memory: p={p} terms for each element")
    total = at.lgamma(self)
    for number in range(1, p):
        total = total + at.lgamma(self - number / 2)
    return total + p * (p - 1) * math.log(math.pi) / 4


@register(
    "frexp",
    key="CPU CUDA",
    variants="function method",
    outputs="mantissa exponent",
    named="frexp",
    differentiable_outputs=(0,),
    out=True,
)
def frexp(self: Array) -> Any:
    """Mantissa and exponent, x = mantissa · 2^exponent, the mantissa's size from ½ up to 1."""
    if self.dtype.kind not in "fV":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    mantissa, exponent = np.frexp(self)
    return [mantissa.astype(self.dtype, copy=False), exponent.astype(np.int32)]


broadcasts_on_meta("frexp")
derivative("frexp", self=lambda at, grads, exponent: grads[0] / 2.0**exponent)


# %%
#| into: special/__init__.py
#| imports
"""Special functions (twin of `torch/special/__init__.py`)."""

from __future__ import annotations

import math
from typing import Any

from readtorch import _C
from readtorch._tensor import Tensor
from readtorch.aten.core.dispatch import dispatcher
from readtorch.csrc.utils.gates import COMPILED, Public, face, gates
from readtorch.c10.core import scalar_type
from readtorch.csrc.utils.python_arg_parser import checked, require

# %%
#| into: special/__init__.py
#| upstream: torch/special/__init__.py#entr
_at = _C._VariableFunctions
digamma = psi = face(_at.digamma)
erf = face(_at.erf)
erfc = face(_at.erfc)
erfinv = face(_at.erfinv)
exp2 = face(_at.exp2)
expit = face(_at.sigmoid)
expm1 = face(_at.expm1)
gammainc = face(_at.igamma)
gammaincc = face(_at.igammac)
gammaln = face(_at.lgamma)
i0 = face(_at.i0)
log1p = face(_at.log1p)
log_softmax = face(_at.log_softmax)
logit = face(_at.logit)
logsumexp = face(_at.logsumexp)
multigammaln = face(_at.mvlgamma)
polygamma = face(_at.polygamma)
sinc = face(_at.sinc)
softmax = face(_at.softmax)
xlogy = face(_at.xlogy)


@checked
def i1(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The modified Bessel function of order 1."""
    return dispatcher.autograd._i1(input)


@checked
def entr(input: Tensor, *, out: Tensor | None = None) -> Any:
    """-x log x; 0 at 0, -inf below."""
    return dispatcher.autograd._entr(input)


@checked
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The share of a normal distribution below x."""
    scaled = input / math.sqrt(2)
    return _at.where(input < -1, 0.5 * _at.erfc(-scaled), 0.5 * (1 + _at.erf(scaled)))


@checked
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Any:
    """The inverse of `ndtr`."""
    if input.is_floating_point() and input.itemsize == 2:
        raise scalar_type.not_implemented("ndtri_cpu", input.dtype)
    return _at.erfinv(2.0 * input - 1) * math.sqrt(2)


@checked
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Any:
    """To so many decimals, halves to the even one."""
    return _at.round(input, decimals=decimals)


@checked
def xlog1py(input: Any, other: Any, *, out: Tensor | None = None) -> Any:
    """The product x log(1 + y); 0 where x is."""
    require("special_xlog1py", "Array | Number", input=input, other=other)
    if not (isinstance(input, Tensor) or isinstance(other, Tensor)):
        raise TypeError("special_xlog1py(): argument 'other' (position 2) must be Tensor, unless 'input' is")
    return dispatcher.autograd._xlog1py(input, other)


# %%
#| into: functional.py
#| upstream: torch/functional.py#lu
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """L and U in one matrix, and the swaps of rows; deprecated for `linalg.lu_factor`."""
    if not isinstance(A, Tensor):
        raise TypeError(f"lu(): argument 'input' (position 1) must be Tensor, not {type(A).__name__}")
    return A.lu(pivot, get_infos)


# %% [markdown]
# A subclass of `Tensor` may want to hear of all these, too. The functions of these modules are offered to [the gates](../00_tensor/11c_subclasses.py); those of `torch.functional` are Python functions upstream, and ask in a Python
# function's way.

# %%
#| into: fft/__init__.py
gates.offer(globals(), "torch.fft", COMPILED, Public(globals()))

# %%
#| into: special/__init__.py
gates.offer(globals(), "torch.special", COMPILED, Public(globals()))

# %%
#| into: linalg/__init__.py
from readtorch.csrc.utils.gates import COMPILED, Public, gates

gates.offer(globals(), "torch.linalg", COMPILED, Public(globals()))

# %%
#| into: functional.py
gates.offer(globals(), "torch.functional", PYTHON, Public(globals(), but=("broadcast_shapes",)))

# %%
#| into: functional.py
#| upstream: torch/functional.py#norm
norm, tensordot = _at.norm, _at.tensordot
unique, unique_consecutive = _at.unique, _at.unique_consecutive

# %%
#| into: __init__.py
_MODULES += ["fft", "special"]
_NAMES.update(dict.fromkeys(("istft", "lu", "stft"), "functional"))


# %%
#| claim: log1p and expm1 keep small numbers; x log y and the entropy are 0 where x is 0
def _(torch):
    small = torch.tensor(1e-10)
    assert (1 + small).log() == 0 and small.exp() - 1 == 0
    assert torch.log1p(small) == small and torch.expm1(small) == small
    zero = torch.tensor(0.0)
    assert torch.isnan(zero * zero.log()) and torch.special.xlogy(zero, zero) == 0
    assert torch.special.entr(torch.tensor([0.0, -1.0])).tolist() == [0.0, -float("inf")]


# %%
#| claim: the lower tail of ndtr is lost in float32: at -10 it is 0, which erfc is not
#| differs: ours takes erfc below -1
def _(torch):
    far = torch.tensor(-10.0)
    assert torch.erfc(-far / 2**0.5) > 0
    assert torch.special.ndtr(far) == 0


# %%
#| claim: ndtri is the inverse of ndtr; i0 leaves float32 between 85 and 100
def _(torch):
    shares = torch.tensor([0.025, 0.5, 0.975])
    assert torch.allclose(torch.special.ndtr(torch.special.ndtri(shares)), shares, atol=1e-6)
    assert torch.isfinite(torch.special.i0(torch.tensor(85.0))) and torch.isinf(torch.special.i0(torch.tensor(100.0)))


# %%
torch.special.ndtr(torch.tensor([-1.96, 0.0, 1.96])), torch.polygamma(1, torch.tensor(1.0)), torch.pi**2 / 6

# %% [markdown]
# ### What upstream does more
#
# * Thirty-one further functions: Bessel functions of the first and second kind, orthogonal polynomials, `erfcx`, `log_ndtr`, Airy functions; scaled Bessel functions (`i0e`) that do not overflow. Most of them have no derivative there either.
# * On a GPU the transforms are cuFFT's, planned once for a shape and kept: `torch.backends.cuda.cufft_plan_cache`.
