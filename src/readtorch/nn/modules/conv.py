# Tangled from chapters/a2_layers/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.nn import functional as F
from readtorch.nn import init
from readtorch.nn.modules.lazy import LazyModuleMixin
from readtorch.nn.modules.module import Module
from readtorch.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from readtorch.nn.parameter import Parameter, UninitializedParameter

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


class _LazyConvXdMixin(LazyModuleMixin):
    _dimensions: ClassVar[int]

    def _forget_parameters(self: Any, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self: Any) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]  # the convolution that a subclass adds as a second base

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        if self.transposed:
            shape = (self.in_channels, self.out_channels // self.groups, *self.kernel_size)
        else:
            shape = (self.out_channels, self.in_channels // self.groups, *self.kernel_size)
        self.weight.materialize(shape)
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        dims = self._dimensions
        if input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {type(self).__name__}, "
                f"but got a tensor of {input.shape}"
            )
        return input.shape[-dims - 1]


class _LazyConvNd(_LazyConvXdMixin):
    def __init__(
        self,
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
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._forget_parameters(out_channels, bias, device, dtype)


class _LazyConvTransposeNd(_LazyConvXdMixin):
    def __init__(
        self,
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
        args = (kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype)
        super().__init__(0, 0, *args)
        self._forget_parameters(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConvNd, Conv1d):  # type: ignore[misc]  # both bases annotate the same fields
    """A `Conv1d` whose `in_channels` come with the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvNd, Conv2d):  # type: ignore[misc]  # both bases annotate the same fields
    """A `Conv2d` whose `in_channels` come with the first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvNd, Conv3d):  # type: ignore[misc]  # both bases annotate the same fields
    """A `Conv3d` whose `in_channels` come with the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTransposeNd, ConvTranspose1d):  # type: ignore[misc]  # both bases annotate the same fields
    """A `ConvTranspose1d` whose `in_channels` come with the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTransposeNd, ConvTranspose2d):  # type: ignore[misc]  # both bases annotate the same fields
    """A `ConvTranspose2d` whose `in_channels` come with the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTransposeNd, ConvTranspose3d):  # type: ignore[misc]  # both bases annotate the same fields
    """A `ConvTranspose3d` whose `in_channels` come with the first input."""

    cls_to_become = ConvTranspose3d
