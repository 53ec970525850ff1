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
# # Convolution layers
#
# Six classes, one base. The base owns `weight`, `bias` and the arguments; each class says how many dimensions it slides over and
# which function it calls. All arithmetic is [the operator's](../a1_operators/nn_1_convolution.py). What is left for a layer?
#
# Four questions that the operator does not ask: how large the weights start, what `padding="same"` and the other modes mean in numbers, which of several output sizes a transposed convolution should give, and what of all this is printed and saved. And one that every reader asks first: what *is* it? A matrix product, of a matrix that nobody would want to store.
#
# ## The same layer, by hand
#
# Each output place looks at one window of the input. Write each window as a column, the kernel as a row, and one product does all of them:

# %%
import matplotlib.pyplot as plt

import readtorch as torch
from readtorch import nn
from readtorch.nn import functional as F
from readtorch.literate import live

live()

# %%
torch.manual_seed(0)
image = torch.randn(1, 3, 5, 5)
layer = nn.Conv2d(3, 8, 3)
columns = F.unfold(image, kernel_size=3)
by_hand = layer.weight.flatten(1) @ columns + layer.bias[:, None]
columns.shape, torch.allclose(by_hand.view(1, 8, 3, 3), layer(image), atol=1e-6)

# %% [markdown]
# `im2col` is the name of this since Caffe. In a picture, with one channel of 25 places whose values are their numbers:

# %%
numbered = torch.arange(25.0).reshape(1, 1, 5, 5)
windows = F.unfold(numbered, kernel_size=3)[0]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), width_ratios=(1, 1.4))
for axes, matrix, title in (
    (left, numbered[0, 0], "image 5 × 5"),
    (right, windows, "nine windows of 3 × 3, as columns"),
):
    axes.imshow(matrix.numpy(), cmap="viridis", alpha=0.6)
    for (row, column), value in zip(
        ((r, c) for r in range(len(matrix)) for c in range(len(matrix[0]))), matrix.flatten().tolist(), strict=True
    ):
        axes.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=8)
    axes.set_title(title, fontsize=10)
    axes.set_xticks([])
    axes.set_yticks([])
left.add_patch(plt.Rectangle((-0.5, -0.5), 3, 3, fill=False, linewidth=2))
right.add_patch(plt.Rectangle((-0.5, -0.5), 1, 9, fill=False, linewidth=2))
figure.tight_layout()

# %% [markdown]
# The middle place stands in nine columns. That is the price, nine times the memory of the input, and the reason why the operator builds the matrix in blocks that are thrown away, and why there are algorithms that avoid it. It is also the derivative: the gradient of the input adds up what came back at each place, nine terms in the middle, four near a corner, one in it.


# %%
#| claim: a convolution is unfold and a matrix product; its input gradient is the product with the transposed weight, and fold
def _(torch):
    F = torch.nn.functional
    torch.manual_seed(0)
    x = torch.randn(2, 4, 7, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(5, 4, 3, 2, dtype=torch.float64)
    y = F.conv2d(x, w, stride=2, padding=1, dilation=(1, 2))
    options = {"kernel_size": (3, 2), "stride": 2, "padding": 1, "dilation": (1, 2)}
    assert torch.allclose(w.flatten(1) @ F.unfold(x, **options), y.flatten(2))
    grad = torch.randn_like(y)
    by_hand = F.fold(w.flatten(1).t() @ grad.flatten(2), (7, 6), **options)
    assert torch.allclose(torch.autograd.grad(y, x, grad)[0], by_hand)


# %% [markdown]
# ## One base

# %%
#| into: nn/modules/conv.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.nn import functional as F
from readtorch.nn import init
from readtorch.nn.modules.module import Module
from readtorch.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from readtorch.nn.parameter import Parameter

# %% [markdown]
# The weight of a convolution is `(out, in / groups, *kernel)`, of a transposed one `(in, out / groups, *kernel)`: a transposed
# convolution is the input gradient of a convolution, so its input channels are the other one's outputs.

# %%
#| into: nn/modules/conv.py
#| upstream: torch/nn/modules/conv.py#_ConvNd
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_arguments(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _padding_for_pad(padding, kernel_size, dilation)
        channels = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (channels[0], channels[1] // groups, *kernel_size)
        self.weight = Parameter(torch.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(torch.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Both parameters from U(-b, b), b = 1 / sqrt(fan_in)."""
        with no_grad():
            if self.weight.is_contiguous():
                init.kaiming_uniform_(self.weight, a=math.sqrt(5))
            else:
                # numbers are drawn in the order of the dimensions, whatever the order in memory
                ordered = torch.empty(self.weight.shape, dtype=self.weight.dtype, device=self.weight.device)
                self.weight.copy_(init.kaiming_uniform_(ordered, a=math.sqrt(5)))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        shown = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            shown += [f"{name}={value}"] * (value != (usual,) * len(value))
        shown += [f"groups={self.groups}"] * (self.groups != 1)
        shown += ["bias=False"] * (self.bias is None)
        shown += [f"padding_mode={self.padding_mode}"] * (self.padding_mode != "zeros")
        return ", ".join(shown)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"


# %%
#| into: nn/modules/conv.py
def _check_arguments(
    in_channels: int,
    out_channels: int,
    stride: tuple[int, ...],
    padding: str | tuple[int, ...],
    groups: int,
    padding_mode: str,
) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
        if padding == "same" and any(step != 1 for step in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got padding_mode='{padding_mode}'")


def _padding_for_pad(
    padding: str | tuple[int, ...], kernel_size: tuple[int, ...], dilation: tuple[int, ...]
) -> list[int] | tuple[int, ...]:
    """The padding as `F.pad` takes it: last dimension first, (before, after). 'same' puts the odd one after."""
    if not isinstance(padding, str):
        return _reverse_repeat_tuple(padding, 2)
    if padding == "valid":
        return [0, 0] * len(kernel_size)
    both = [0, 0] * len(kernel_size)
    for place, (size, step) in enumerate(zip(kernel_size, dilation, strict=False)):
        total, last = step * (size - 1), 2 * (len(kernel_size) - 1 - place)
        both[last : last + 2] = total // 2, total - total // 2
    return both


# %% [markdown]
# Padding with anything but zeros is done by `F.pad` before a convolution that pads nothing: one more copy of the input, and one more node. That is why the base keeps the padding twice, once as the operator takes it and once as `F.pad` does, last dimension first.


# %%
#| into: nn/modules/conv.py
class _PlainConvNd(_ConvNd):
    _dimensions: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        expand = _ntuple(self._dimensions)
        super().__init__(
            in_channels,
            out_channels,
            expand(kernel_size),
            expand(stride),
            padding if isinstance(padding, str) else expand(padding),
            expand(dilation),
            False,
            expand(0),
            groups,
            bias,
            padding_mode,
            device=device,
            dtype=dtype,
        )

    def _convolve(self, *args: Any) -> Tensor:
        raise NotImplementedError

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._dimensions
        return self._convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


# %%
#| into: nn/modules/conv.py
#| upstream: torch/nn/modules/conv.py#Conv1d
#| upstream: torch/nn/modules/conv.py#Conv2d
#| upstream: torch/nn/modules/conv.py#Conv3d
class Conv1d(_PlainConvNd):
    """Cross-correlation over `(N, C, L)` or `(C, L)`; `L_out = (L + 2 padding - dilation (kernel - 1) - 1) / stride + 1`."""

    _dimensions = 1

    def _convolve(self, *args: Any) -> Tensor:
        return F.conv1d(*args)


class Conv2d(_PlainConvNd):
    """Cross-correlation over `(N, C, H, W)` or `(C, H, W)`; sizes as `Conv1d`, dimension by dimension."""

    _dimensions = 2

    def _convolve(self, *args: Any) -> Tensor:
        return F.conv2d(*args)


class Conv3d(_PlainConvNd):
    """Cross-correlation over `(N, C, D, H, W)` or `(C, D, H, W)`; sizes as `Conv1d`, dimension by dimension."""

    _dimensions = 3

    def _convolve(self, *args: Any) -> Tensor:
        return F.conv3d(*args)


# %%
layer = nn.Conv2d(3, 8, 3, padding="same", bias=False)
layer, layer(torch.zeros(1, 3, 5, 5)).shape

# %%
#| trace: torch.nn torch.csrc.autograd layers=calls,ops values=summary title="from model(x) to the convolution, with padding that is not zeros"
layer = nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect")
layer(torch.ones(1, 1, 3, 3))

# %% [markdown]
# ### What lies beyond the edge?
#
# A model must be told something. Zeros are a dark frame that the first layers learn to see; it tells them where they are. The other three invent a continuation. The same ramp, padded by four places on each side:

# %%
ramp = (torch.arange(8.0)[:, None] + torch.arange(8.0))[None, None]
figure, several = plt.subplots(1, 4, figsize=(8, 2.3))
for axes, mode in zip(several, ("constant", "reflect", "replicate", "circular"), strict=True):
    axes.imshow(F.pad(ramp, (4, 4, 4, 4), mode=mode)[0, 0].numpy(), cmap="viridis")
    axes.add_patch(plt.Rectangle((3.5, 3.5), 8, 8, fill=False, edgecolor="white", linewidth=1.5))
    axes.set_title("zeros" if mode == "constant" else mode, fontsize=10)
    axes.axis("off")
figure.tight_layout()

# %% [markdown]
# `reflect` does not repeat the edge and so has one place less to offer than the image is wide; `circular` may go once around and not further. A deep layer whose image has shrunk to 1 × 1 fails with either, in a model that ran on larger pictures.


# %%
#| claim: reflect pads by less than the size, circular by no more than it, replicate by any amount; an even kernel with same reaches further behind
def _(torch):
    pad = lambda width, mode: torch.nn.functional.pad(torch.arange(3.0).view(1, 1, 3), (width, width), mode=mode)
    assert pad(2, "reflect").flatten().tolist() == [2, 1, 0, 1, 2, 1, 0]
    assert pad(3, "circular").flatten().tolist() == [0, 1, 2] * 3
    assert pad(5, "replicate").flatten().tolist() == [0] * 6 + [1] + [2] * 6
    for width, mode in ((3, "reflect"), (4, "circular")):
        try:
            pad(width, mode)
        except RuntimeError as error:
            assert "adding" in str(error)
        else:
            raise AssertionError(mode)
    even = torch.nn.Conv1d(1, 1, 2, padding="same", bias=False, padding_mode="replicate")
    assert even._reversed_padding_repeated_twice == [0, 1]
    with torch.no_grad():
        even.weight[...] = torch.tensor([0.0, 1.0])
    assert even(torch.arange(3.0).view(1, 1, 3)).flatten().tolist() == [1, 2, 2]


# %%
#| claim: going around the edge is written with slices and copies, and leaves CopySlices in the graph
#| differs: here the three modes are one operator with one node
def _(torch):
    x = torch.ones(1, 1, 3, requires_grad=True)
    padded = torch.nn.functional.pad(x, (1, 1), mode="circular")
    assert "CopySlices" in padded.grad_fn.name()


# %% [markdown]
# ## Transposed
#
# Several input sizes give the same output size of a strided convolution; going back, one of them must be chosen. `output_padding`
# says how far to go beyond the smallest; `output_size` in the call lets the layer work that out. The name misleads: nothing is padded with zeros, the additional places are computed as the others are.


# %%
#| into: nn/modules/conv.py
#| upstream: torch/nn/modules/conv.py#_ConvTransposeNd
class _ConvTransposeNd(_ConvNd):
    _dimensions: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        expand = _ntuple(self._dimensions)
        super().__init__(
            in_channels,
            out_channels,
            expand(kernel_size),
            expand(stride),
            expand(padding),
            expand(dilation),
            True,
            expand(output_padding),
            groups,
            bias,
            padding_mode,
            device=device,
            dtype=dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...] | list[int]:
        """How far the output must reach beyond the smallest to have the spatial sizes `output_size`."""
        if output_size is None:
            return self.output_padding
        dims = self._dimensions
        batched = input.dim() == dims + 2
        leading = 2 if batched else 1
        if len(output_size) == leading + dims:
            output_size = output_size[leading:]
        if len(output_size) != dims:
            raise ValueError(
                f"{type(self).__name__}: for {input.dim()}D input, output_size must have {dims} "
                f"or {leading + dims} elements (got {len(output_size)})"
            )
        assert not isinstance(self.padding, str)
        smallest = [
            (input.size(d + leading) - 1) * self.stride[d]
            - 2 * self.padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(dims)
        ]
        largest = [size + step - 1 for size, step in zip(smallest, self.stride, strict=True)]
        for size, low, high in zip(output_size, smallest, largest, strict=True):
            if not low <= size <= high:
                raise ValueError(
                    f"requested an output size of {output_size}, outside the valid sizes, {smallest} to {largest} "
                    f"(for an input of {input.size()[2:]})"
                )
        return [size - low for size, low in zip(output_size, smallest, strict=True)]

    def _convolve(self, *args: Any) -> Tensor:
        raise NotImplementedError

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        output_padding = self._output_padding(input, output_size)
        return self._convolve(
            input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
        )


# %%
#| into: nn/modules/conv.py
#| upstream: torch/nn/modules/conv.py#ConvTranspose1d
#| upstream: torch/nn/modules/conv.py#ConvTranspose2d
#| upstream: torch/nn/modules/conv.py#ConvTranspose3d
class ConvTranspose1d(_ConvTransposeNd):
    """The input gradient of a convolution as a layer: `(N, C, L)` or `(C, L)`.

    `L_out = (L - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1`.
    """

    _dimensions = 1

    def _convolve(self, *args: Any) -> Tensor:
        return F.conv_transpose1d(*args)


class ConvTranspose2d(_ConvTransposeNd):
    """The input gradient of `Conv2d` as a layer: `(N, C, H, W)` or `(C, H, W)`."""

    _dimensions = 2

    def _convolve(self, *args: Any) -> Tensor:
        return F.conv_transpose2d(*args)


class ConvTranspose3d(_ConvTransposeNd):
    """The input gradient of `Conv3d` as a layer: `(N, C, D, H, W)` or `(C, D, H, W)`."""

    _dimensions = 3

    def _convolve(self, *args: Any) -> Tensor:
        return F.conv_transpose3d(*args)


# %%
#| claim: a transposed convolution computes the input gradient of the convolution with the same weight
def _(torch):
    F = torch.nn.functional
    weight = torch.arange(18.0).reshape(1, 2, 3, 3)
    x = torch.ones(1, 2, 6, 6, requires_grad=True)
    y = F.conv2d(x, weight, stride=2, padding=1)
    (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
    again = F.conv_transpose2d(torch.ones_like(y), weight, stride=2, padding=1, output_padding=1)
    assert torch.allclose(gradient, again)


# %%
down, up = nn.Conv1d(1, 1, 3, stride=2), nn.ConvTranspose1d(1, 1, 3, stride=2)
sizes = {size: down(torch.zeros(1, 1, size)).shape[-1] for size in range(3, 9)}
print("down:", sizes)
print("up: 3 →", [up(torch.zeros(1, 1, 3), output_size=[size]).shape[-1] for size in (7, 8)])

# %% [markdown]
# ### Why do generated pictures have a checkerboard?
#
# Each input place writes a stamp of the size of the kernel, one stride apart. Where the stride does not divide the size, some places get more stamps than others, and a layer that starts with equal weights starts with this picture (Odena et al. 2016). A kernel of 4 with a stride of 2 has none.

# %%
figure, several = plt.subplots(1, 3, figsize=(8, 2.8))
for axes, (kernel, stride) in zip(several, ((3, 2), (4, 2), (5, 3)), strict=True):
    stamps = F.conv_transpose2d(torch.ones(1, 1, 6, 6), torch.ones(1, 1, kernel, kernel), stride=stride)[0, 0]
    shown = axes.imshow(stamps.numpy(), cmap="viridis", vmin=0)
    axes.set_title(f"kernel {kernel}, stride {stride}", fontsize=10)
    axes.axis("off")
    figure.colorbar(shown, ax=axes, shrink=0.7, ticks=range(int(stamps.max()) + 1))
figure.tight_layout()


# %%
#| claim: inside, the stamps of a transposed convolution overlap evenly if the stride divides the kernel, unevenly if not
def _(torch):
    def inside(kernel, stride):
        stamps = torch.nn.functional.conv_transpose1d(torch.ones(1, 1, 8), torch.ones(1, 1, kernel), stride=stride)
        return set(stamps[0, 0, kernel:-kernel].tolist())

    assert inside(4, 2) == {2.0} and inside(3, 2) == {1.0, 2.0} and inside(5, 3) == {1.0, 2.0} and inside(6, 3) == {2.0}


# %%
#| claim: output_size must be among the sizes that the convolution of the other direction maps to the input's
def _(torch):
    up, down = torch.nn.ConvTranspose1d(1, 1, 3, stride=2), torch.nn.Conv1d(1, 1, 3, stride=2)
    x = torch.zeros(1, 1, 3)
    for size in (7, 8):
        assert up(x, output_size=[size]).shape[-1] == size and down(torch.zeros(1, 1, size)).shape == x.shape
    for size in (6, 9):
        try:
            up(x, output_size=[size])
        except ValueError as error:
            assert "requested an output size of" in str(error)
        else:
            raise AssertionError(size)


# %% [markdown]
# ### What upstream does more
#
# * `Conv2d` has a `__setstate__` of its own there as here, for files from before `padding_mode`. The classes of `torch.ao`, quantized and fused with what follows, begin with these and are not here.
# * A transposed convolution's start is drawn with [the wrong fan](../a2_layers/01_init.py#how-large-a-random-weight-may-be), and so is ours.
