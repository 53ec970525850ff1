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
# # Dropout, padding, resizing, rearranging

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %% [markdown]
# ## Where does `nn.Dropout` end?
#
# Following it in an editor, one gets to `F.dropout`, from there to `_VF.dropout`, and no further (pytorch/pytorch#25381). `_VF` is a module object that looks names up in `torch._C._VariableFunctions`, which is `torch.dropout`, a compiled function. Here the way goes on:

# %%
layer, x = nn.Dropout(0.5), torch.ones(4, requires_grad=True)

# %%
#| trace: torch.nn.modules.dropout torch.nn.functional torch.aten.native.dropout layers=calls,ops values=summary title="nn.Dropout, to the numbers that are drawn"
y = layer(x)

# %%
y, y.grad_fn

# %% [markdown]
# The elements that stay are divided by 1 − p in training, so that nothing has to be done in evaluation: there the layer returns the tensor it was given, not a copy. The node says what dropout is on a CPU, a product with noise; on a GPU it is one operator, `native_dropout`. Of a batch `(N, L, C)`, which has its features last, `Dropout2d` drops the wrong thing: it takes three dimensions for
# `(N, C, L)`, and warns.


# %%
#| claim: in evaluation dropout returns its argument itself; with p=1 values and gradients are 0, not NaN; dropout2d takes a batch of three dimensions for (N, C, L)
#| source: pytorch/pytorch#25381
#| upstream: torch/nn/functional.py#dropout2d
def _(torch):
    import warnings

    functional = torch.nn.functional
    x = torch.ones(3, requires_grad=True)
    assert torch.nn.Dropout().eval()(x) is x
    gone = functional.dropout(x, 1.0)
    gone.sum().backward()
    assert gone.tolist() == x.grad.tolist() == [0, 0, 0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = functional.dropout2d(torch.ones(2, 3, 4), 0.5)
    assert "Received a 3D input" in str(caught[0].message) and torch.equal(y.amax(2), y.amin(2))


# %% [markdown]
# ## Dropout

# %%
#| into: nn/modules/dropout.py
#| imports
from __future__ import annotations

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module


# %%
#| into: nn/modules/dropout.py
#| upstream: torch/nn/modules/dropout.py#_DropoutNd
class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


# %%
#| into: nn/modules/dropout.py
#| upstream: torch/nn/modules/dropout.py#Dropout
#| upstream: torch/nn/modules/dropout.py#Dropout1d
#| upstream: torch/nn/modules/dropout.py#Dropout2d
#| upstream: torch/nn/modules/dropout.py#Dropout3d
class Dropout(_DropoutNd):
    """Zeroes elements with probability `p` in training and divides the others by `1 - p` (Srivastava et al. 2014)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of `(N, C, L)` or `(C, L)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of `(N, C, H, W)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of `(N, C, D, H, W)` or `(C, D, H, W)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


# %%
#| into: nn/modules/dropout.py
#| upstream: torch/nn/modules/dropout.py#AlphaDropout
#| upstream: torch/nn/modules/dropout.py#FeatureAlphaDropout
class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1 (Klambauer et al. 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)


# %% [markdown]
# ## Padding
#
# Twelve classes and three more for zeros: a kind times a number of dimensions. A single number pads every side.


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#pad
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad by (before, after) of the last dimension, then of the one before it, and so on; negative numbers crop.

    `mode` is `constant` (with `value`, 0 by default), `reflect`, `replicate` or `circular`.
    """
    return _nn.pad(input, pad, mode, value)


# %%
#| into: nn/modules/padding.py
#| imports
from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module
from readtorch.nn.modules.utils import _ntuple


# %%
#| into: nn/modules/padding.py
#| upstream: torch/nn/modules/padding.py#_ConstantPadNd
#| upstream: torch/nn/modules/padding.py#_ReflectionPadNd
#| upstream: torch/nn/modules/padding.py#_ReplicationPadNd
#| upstream: torch/nn/modules/padding.py#_CircularPadNd
class _PadNd(Module):
    _dimensions: ClassVar[int]
    _mode: ClassVar[str]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dimensions)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_PadNd):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        ranks = (self._dimensions + 1, self._dimensions + 2)
        if input.dim() not in ranks:
            raise ValueError(f"expected {ranks[0]}D or {ranks[1]}D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return super().forward(input)


# %%
#| into: nn/modules/padding.py
#| upstream: torch/nn/modules/padding.py#ConstantPad1d
#| upstream: torch/nn/modules/padding.py#ConstantPad2d
#| upstream: torch/nn/modules/padding.py#ConstantPad3d
#| upstream: torch/nn/modules/padding.py#ZeroPad1d
#| upstream: torch/nn/modules/padding.py#ZeroPad2d
#| upstream: torch/nn/modules/padding.py#ZeroPad3d
class ConstantPad1d(_ConstantPadNd):
    """Pads `(*, L)` with `value`."""

    _dimensions = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads `(*, H, W)` with `value`."""

    _dimensions = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads `(*, D, H, W)` with `value`."""

    _dimensions = 3


class ZeroPad1d(ConstantPad1d):
    """Pads `(*, L)` with zeros."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pads `(*, H, W)` with zeros."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pads `(*, D, H, W)` with zeros."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


# %%
#| into: nn/modules/padding.py
#| upstream: torch/nn/modules/padding.py#ReflectionPad1d
#| upstream: torch/nn/modules/padding.py#ReflectionPad2d
#| upstream: torch/nn/modules/padding.py#ReflectionPad3d
#| upstream: torch/nn/modules/padding.py#ReplicationPad1d
#| upstream: torch/nn/modules/padding.py#ReplicationPad2d
#| upstream: torch/nn/modules/padding.py#ReplicationPad3d
#| upstream: torch/nn/modules/padding.py#CircularPad1d
#| upstream: torch/nn/modules/padding.py#CircularPad2d
#| upstream: torch/nn/modules/padding.py#CircularPad3d
class ReflectionPad1d(_ReflectionPadNd):
    """Pads `(N, C, L)` or `(C, L)` with the mirror image, the edge not repeated."""

    _dimensions = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads `(N, C, H, W)` or `(C, H, W)` with the mirror image, the edge not repeated."""

    _dimensions = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads `(N, C, D, H, W)` or `(C, D, H, W)` with the mirror image, the edge not repeated."""

    _dimensions = 3


class ReplicationPad1d(_ReplicationPadNd):
    """Pads `(N, C, L)` or `(C, L)` with the edge."""

    _dimensions = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads `(N, C, H, W)` or `(C, H, W)` with the edge."""

    _dimensions = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads `(N, C, D, H, W)` or `(C, D, H, W)` with the edge."""

    _dimensions = 3


class CircularPad1d(_CircularPadNd):
    """Pads `(N, C, L)` or `(C, L)` from the other side."""

    _dimensions = 1


class CircularPad2d(_CircularPadNd):
    """Pads `(N, C, H, W)` or `(C, H, W)` from the other side."""

    _dimensions = 2


class CircularPad3d(_CircularPadNd):
    """Pads `(N, C, D, H, W)` or `(C, D, H, W)` from the other side."""

    _dimensions = 3


# %% [markdown]
# ## Interpolation
#
# One function for six modes in one to three dimensions. Either the output size or a factor is given; with a factor the *factor* is what
# places are computed with, unless `recompute_scale_factor` asks for the ratio of the sizes, which may differ by rounding.

# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#interpolate
_LINEAR = {"linear": 3, "bilinear": 4, "trilinear": 5, "bicubic": 4}
_RESIZE_MODES = "nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact"


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize the last dimensions of `(N, C, *)` to `size` or by `scale_factor`.

    `mode` is nearest, nearest-exact, linear (3D input), bilinear or bicubic (4D), trilinear (5D), or area. Raises ValueError
    if not exactly one of size and factor is given, NotImplementedError where mode and rank do not fit.
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear, bilinear, bicubic, trilinear"
            )
    elif align_corners is None:
        align_corners = False
    dims = input.dim() - 2
    if dims < 0 and not isinstance(size, list | tuple) and not isinstance(scale_factor, list | tuple):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the modes: {_RESIZE_MODES} "
            f"(got {mode})"
        )
    output_size, scales = _resize_target(input, dims, size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if not 3 <= input.dim() <= 5:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for any mode ({_RESIZE_MODES}); "
            f"this is {mode}"
        )
    if mode == "area":
        pool = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[dims - 1]
        return pool(input, output_size)
    if mode in _LINEAR:
        if _LINEAR[mode] != input.dim():
            raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {_LINEAR[mode]}D input")
        kind = "cubic" if mode == "bicubic" else "linear"
        require("interpolate", "bool", align_corners=align_corners)
    elif mode in ("nearest", "nearest-exact"):
        kind = mode
    else:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for any mode ({_RESIZE_MODES}); "
            f"this is {mode}"
        )
    return _nn._resample(input, tuple(output_size), kind, bool(align_corners), tuple(scales), bool(antialias))


# %%
#| into: nn/functional.py
def _resize_target(
    input: Tensor, dims: int, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    """Output sizes, and the scale per dimension where it is to be used as given."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        sizes = list(size) if isinstance(size, list | tuple) else [size] * dims
        if len(sizes) == dims and not all(map(is_int, sizes)):
            raise TypeError(f"interpolate(): argument 'size' must be int or tuple of ints, not {type(size).__name__}")
        sizes = [number.__index__() for number in sizes] if len(sizes) == dims else sizes
        if len(sizes) != dims:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions; the input has "
                f"{list(input.shape[2:])}, the output {size}."
            )
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return sizes, [None] * dims
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    several = isinstance(scale_factor, list | tuple)
    for scale in scale_factor if several else [scale_factor]:
        if not isinstance(scale, int | float):
            raise TypeError(
                f"interpolate(): argument 'scale_factor' must be float or tuple of floats, not {type(scale).__name__}"
            )
        if not math.isfinite(scale):
            raise RuntimeError("value cannot be converted to type int64_t without overflow")
    scales = list(scale_factor) if several else [scale_factor] * dims
    if several and len(scales) != dims:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions; the input has "
            f"{list(input.shape[2:])}, scale_factor is {scale_factor}."
        )
    sizes = [math.floor(float(n) * float(s)) for n, s in zip(input.shape[2:], scales, strict=True)]
    return sizes, [None] * dims if recompute else [float(s) for s in scales]


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#upsample
#| upstream: torch/nn/functional.py#upsample_nearest
#| upstream: torch/nn/functional.py#upsample_bilinear
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """An old name of `interpolate`."""
    message = "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead."
    warnings.warn(message, stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """An old name of `interpolate(mode="nearest")`."""
    message = "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead."
    warnings.warn(message, stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """An old name of `interpolate(mode="bilinear", align_corners=True)`."""
    message = "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead."
    warnings.warn(message, stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# %%
#| into: nn/modules/upsampling.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module


# %%
#| into: nn/modules/upsampling.py
#| upstream: torch/nn/modules/upsampling.py#Upsample
#| upstream: torch/nn/modules/upsampling.py#UpsamplingNearest2d
#| upstream: torch/nn/modules/upsampling.py#UpsamplingBilinear2d
def _floats(factor: Any) -> float | tuple[float, ...] | None:
    if isinstance(factor, tuple):
        return tuple(map(float, factor))
    return float(factor) if factor else None


class Upsample(Module):
    """`F.interpolate` as a layer."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size, self.scale_factor = size, _floats(scale_factor)
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "recompute_scale_factor" not in state:
            state["recompute_scale_factor"] = True
        super().__setstate__(state)

    def extra_repr(self) -> str:
        what = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """An old name of `Upsample(mode="nearest")`."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """An old name of `Upsample(mode="bilinear", align_corners=True)`."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


# %% [markdown]
# ## Shuffles, patches, distances

# %%
#| into: nn/modules/pixelshuffle.py
#| imports
from __future__ import annotations

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module


# %%
#| into: nn/modules/pixelshuffle.py
#| upstream: torch/nn/modules/pixelshuffle.py#PixelShuffle
#| upstream: torch/nn/modules/pixelshuffle.py#PixelUnshuffle
class PixelShuffle(Module):
    """`(*, C r², H, W)` to `(*, C, H r, W r)` (Shi et al. 2016)."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """`(*, C, H r, W r)` to `(*, C r², H, W)`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


# %%
#| into: nn/modules/channelshuffle.py
#| imports
from __future__ import annotations

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module


# %%
#| into: nn/modules/channelshuffle.py
#| upstream: torch/nn/modules/channelshuffle.py#ChannelShuffle
class ChannelShuffle(Module):
    """Channels `(g, C / g)` reordered as `(C / g, g)`."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#unfold
#| upstream: torch/nn/functional.py#fold
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of `(N, C, H, W)` as columns `(N, C · kernel, places)`."""
    return _nn.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Columns `(N, C · kernel, places)` added up to `(N, C, *output_size)`."""
    return _nn.col2im(input, _pair(output_size), _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


# %%
#| into: nn/modules/fold.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module


# %%
#| into: nn/modules/fold.py
#| upstream: torch/nn/modules/fold.py#Fold
#| upstream: torch/nn/modules/fold.py#Unfold
class Fold(Module):
    """`F.fold` as a layer."""

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Unfold(Module):
    """`F.unfold` as a layer."""

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


# %%
#| into: nn/modules/distance.py
#| imports
from __future__ import annotations

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module


# %%
#| into: nn/modules/distance.py
#| upstream: torch/nn/modules/distance.py#PairwiseDistance
#| upstream: torch/nn/modules/distance.py#CosineSimilarity
class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` over the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between `x1` and `x2` along `dim`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


# %% [markdown]
# ## Sampling on a grid


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#grid_sample
#| upstream: torch/nn/functional.py#affine_grid
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """`input (N, C, *size)` at the places of `grid (N, *out, dims)`, numbers in [-1, 1] from corner to corner.

    `mode` is bilinear, nearest or bicubic (4D alone); places outside read zeros, the border, or a reflection.
    """
    modes = {"bilinear": 0, "nearest": 1, "bicubic": 2}
    if mode not in modes:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', not '{mode}'"
        )
    paddings = {"zeros": 0, "border": 1, "reflection": 2}
    if padding_mode not in paddings:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border' or 'reflection', "
            f"not '{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False in 1.3.0: "
            "pass True or False, so that readers see which is meant.",
            stacklevel=2,
        )
        align_corners = False
    return torch.grid_sampler(input, grid, modes[mode], paddings[padding_mode], align_corners)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid of the affine maps `theta (N, 2, 3)` or `(N, 3, 4)` for an output of `size`."""
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False in 1.3.0: "
            "pass True or False, so that readers see which is meant.",
            stacklevel=2,
        )
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, (N, C, H, W) or (N, C, D, H, W). This is {size}"
        )
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return torch.affine_grid_generator(theta, list(size), align_corners)


# %%
#| claim: a scale factor and the equal output size may sample at different places
def _(torch):
    x = torch.arange(5.0).reshape(1, 1, 5)
    resize = torch.nn.functional.interpolate
    by_factor = resize(x, scale_factor=1.5, mode="linear")
    by_size = resize(x, size=7, mode="linear")
    assert by_factor.shape == by_size.shape == (1, 1, 7)
    assert not torch.allclose(by_factor, by_size)
