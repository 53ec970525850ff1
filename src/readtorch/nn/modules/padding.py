# Tangled from chapters/a2_layers/08_dropout_padding_resizing.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module
from readtorch.nn.modules.utils import _ntuple


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
