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
# # Normalization layers
#
# Batch, layer, group, instance and RMS normalization: the classes, and the functions between them and the kernels of appendix A1. All
# compute `(x - μ) / sqrt(σ² + ε)`; they differ in what the mean and the variance are taken over, and in what they remember.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## The functions
#
# `nn/functional.py` and `nn/init.py` are opened here, by the first layers that need them; appendix A2 fills them.

# %%
#| into: nn/functional.py
#| imports
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.c10.core.scalar_type import not_implemented

# %%
#| into: nn/init.py
#| imports
from __future__ import annotations

from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#constant_
#| upstream: torch/nn/init.py#ones_
#| upstream: torch/nn/init.py#zeros_
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with `val`."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0."""
    with no_grad():
        return tensor.zero_()


# %% [markdown]
# A single value has no variance: one example with one place per channel cannot be normalized by its own statistics.


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#_verify_batch_size
#| upstream: torch/nn/functional.py#_verify_spatial_size
def _verify_batch_size(size: Sequence[int]) -> None:
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _verify_spatial_size(size: Sequence[int]) -> None:
    if math.prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#batch_norm
#| upstream: torch/nn/functional.py#instance_norm
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each channel of `(N, C, *)` by the batch's statistics (`training`) or by the running ones.

    In training the running statistics, if given, are moved in place by the factor `momentum`. Raises ValueError for a
    single value per channel in training, or a negative `eps`; RuntimeError for sizes that do not fit.
    """
    if training:
        _verify_batch_size(input.size())
        if eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each channel of each example of `(N, C, *)`. Raises ValueError for a single place per channel."""
    if use_input_stats:
        _verify_spatial_size(input.size())
    return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#layer_norm
#| upstream: torch/nn/functional.py#rms_norm
#| upstream: torch/nn/functional.py#group_norm
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize over the last `len(normalized_shape)` dimensions together. Raises RuntimeError if they are of other sizes."""
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, True)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root of the mean square over the last dimensions; `eps` defaults to that of the dtype."""
    return torch.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each group of channels of each example of `(N, C, *)`."""
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    _verify_batch_size([input.size(0) * input.size(1) // num_groups, num_groups, *input.size()[2:]])
    return torch.group_norm(input, num_groups, weight, bias, eps, True)


# %% [markdown]
# Local response normalization predates all of the above: each value is divided by a power of the mean square of its neighbours among
# the *channels*, an average pool along the channel dimension.


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#local_response_norm
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """`x / (k + alpha · mean of x² over size neighbouring channels)^beta` (Krizhevsky et al. 2012)."""
    dim = input.dim()
    if dim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {dim} dimensions)")
    if input.numel() == 0:
        return input
    if dim > 3 and (input.is_complex() or input.dtype in (torch.bool, torch.float16, torch.bfloat16)):
        raise not_implemented("avg_pool3d_out_frame", input.dtype)
    n, c = input.shape[:2]
    squares = input.mul(input).reshape(n, 1, c, -1)
    squares = torch._C._nn.pad(squares, (0, 0, size // 2, (size - 1) // 2))
    mean = torch._C._nn.avg_pool2d(squares, (size, 1), stride=1).reshape(input.shape)
    return input / mean.mul(alpha).add(k).pow(beta)


# %% [markdown]
# ## What a batch norm owns
#
# Two parameters that the optimizer trains, two buffers that follow the data, and a counter. `bias=False` (keyword only, since 2.13)
# leaves out the second parameter.

# %%
#| into: nn/modules/batchnorm.py
#| imports
from __future__ import annotations

from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn import init
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter


# %%
#| into: nn/modules/batchnorm.py
#| upstream: torch/nn/modules/batchnorm.py#_NormBase
class _NormBase(Module):
    """What batch and instance normalization have in common: parameters, running statistics, their checkpoints."""

    _version = 2

    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool
    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            values = Parameter(torch.empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, values)
        if track_running_stats:
            self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches seen."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]  # there, where it is tracked
            self.running_var.fill_(1)  # type: ignore[union-attr]  # the same
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]  # the same

    def reset_parameters(self) -> None:
        """Running statistics as new, weight 1, bias 0."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


# %% [markdown]
# `num_batches_tracked` came with version 2 of the class. A checkpoint of version 1, or one without metadata, does not have it and must
# still load: the key is invented before the ordinary loading looks for it.


# %%
#| into: nn/modules/batchnorm.py
#| upstream: torch/nn/modules/batchnorm.py#_NormBase._load_from_state_dict
class _NormBase(_NormBase):
    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("version")
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            counter = self.num_batches_tracked
            unusable = counter is None or counter.device.type == "meta"
            state_dict[key] = torch.tensor(0, dtype=torch.long) if unusable else counter
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


# %%
#| into: nn/modules/batchnorm.py
#| upstream: torch/nn/modules/batchnorm.py#_BatchNorm
class _BatchNorm(_NormBase):
    """Normalization by the batch in training and by the running statistics in evaluation, if there are any."""

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                # the plain average of all batches so far, kept up incrementally
                factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        # in training the running statistics are only passed to be updated
        pass_running = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if pass_running else None,
            self.running_var if pass_running else None,
            self.weight,
            self.bias,
            by_batch,
            factor,
            self.eps,
        )


# %%
#| into: nn/modules/batchnorm.py
#| upstream: torch/nn/modules/batchnorm.py#BatchNorm1d
#| upstream: torch/nn/modules/batchnorm.py#BatchNorm2d
#| upstream: torch/nn/modules/batchnorm.py#BatchNorm3d
class BatchNorm1d(_BatchNorm):
    """Batch normalization of `(N, C)` or `(N, C, L)` (Ioffe and Szegedy 2015). Raises ValueError for other ranks."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d(_BatchNorm):
    """Batch normalization of `(N, C, H, W)`. Raises ValueError for other ranks."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d(_BatchNorm):
    """Batch normalization of `(N, C, D, H, W)`. Raises ValueError for other ranks."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


# %% [markdown]
# `SyncBatchNorm` takes its statistics over the batches of all processes. Within one process it is a batch norm of any rank; how the
# statistics are exchanged belongs to the chapter on process groups.


# %%
#| into: nn/modules/batchnorm.py
#| upstream: torch/nn/modules/batchnorm.py#SyncBatchNorm
class SyncBatchNorm(_BatchNorm):
    """Batch normalization of `(N, C, *)` by the statistics of all processes of `process_group`."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _check_non_zero_input_channels(self, input: Tensor) -> None:
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        self._check_non_zero_input_channels(input)
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module` with every batch norm in it replaced, parameters and buffers kept."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
            if hasattr(module, "qconfig"):
                converted.qconfig = module.qconfig
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


# %% [markdown]
# ## Instance normalization
#
# Each channel of each example by itself. It takes no running statistics unless asked, has no parameters unless asked, and accepts an
# example without a batch dimension.

# %%
#| into: nn/modules/instancenorm.py
#| imports
from __future__ import annotations

import warnings
from typing import Any, ClassVar

from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn.modules.batchnorm import _NormBase


# %%
#| into: nn/modules/instancenorm.py
#| upstream: torch/nn/modules/instancenorm.py#_InstanceNorm
class _InstanceNorm(_NormBase):
    _unbatched: ClassVar[int]
    """The rank of one example without its batch dimension."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        return self._unbatched

    def _check_input_dim(self, input: Tensor) -> None:
        rank = self._get_no_batch_dim()
        if input.dim() not in (rank, rank + 1):
            raise ValueError(f"expected {rank}D or {rank + 1}D input (got {input.dim()}D input)")

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        single = input.dim() == self._get_no_batch_dim()
        batch = input.unsqueeze(0) if single else input
        if batch.size(1) != self.num_features:
            self._complain(f"input's size at dim={0 if single else 1}", batch.size(1))
        normed = self._apply_instance_norm(batch)
        return normed.squeeze(0) if single else normed

    def _complain(self, where: str, size: int) -> None:
        if self.affine:
            raise ValueError(f"expected {where} to match num_features ({self.num_features}), but got: {size}.")
        warnings.warn(
            f"{where} does not match num_features. With affine=False nothing depends on num_features, so it can be left out",
            stacklevel=3,
        )


# %% [markdown]
# Until 0.4 running statistics were kept by default. Their keys in such a checkpoint would be reported as unexpected; the message here
# says why they are there.


# %%
#| into: nn/modules/instancenorm.py
#| upstream: torch/nn/modules/instancenorm.py#_InstanceNorm._load_from_state_dict
class _InstanceNorm(_InstanceNorm):
    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if local_metadata.get("version") is None and not self.track_running_stats:
            found = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if found:
                names = " and ".join(f'"{prefix + name}"' for name in found)
                kind = type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. A checkpoint "
                    f"from before 0.4.0 has them, since {kind} kept running statistics "
                    "by default then. Drop these keys, or pass "
                    f"track_running_stats=True to {kind} to use them."
                )
            for name in found:
                state_dict.pop(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


# %%
#| into: nn/modules/instancenorm.py
#| upstream: torch/nn/modules/instancenorm.py#InstanceNorm1d
#| upstream: torch/nn/modules/instancenorm.py#InstanceNorm2d
#| upstream: torch/nn/modules/instancenorm.py#InstanceNorm3d
class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of `(N, C, L)` or `(C, L)` (Ulyanov et al. 2016)."""

    _unbatched = 2


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of `(N, C, H, W)` or `(C, H, W)`."""

    _unbatched = 3


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of `(N, C, D, H, W)` or `(C, D, H, W)`."""

    _unbatched = 4


# %% [markdown]
# ## Layer, RMS and group normalization
#
# They look at one example at a time: no buffers, and no difference between training and evaluation.

# %%
#| into: nn/modules/normalization.py
#| imports
from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn import init
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter


# %%
#| into: nn/modules/normalization.py
#| upstream: torch/nn/modules/normalization.py#LayerNorm
def _as_shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, bool):
        raise TypeError("normalized_shape must be an int or several, not bool")
    return (int(normalized_shape),) if isinstance(normalized_shape, numbers.Integral) else tuple(normalized_shape)  # type: ignore[arg-type]  # an integer was told apart before


def _fill_affine(module: Any) -> None:
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class LayerNorm(Module):
    """Normalizes over the last dimensions, whose sizes are `normalized_shape` (Ba et al. 2016)."""

    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        for name, wanted in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            values = Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _fill_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


# %%
#| into: nn/modules/normalization.py
#| upstream: torch/nn/modules/normalization.py#GroupNorm
class GroupNorm(Module):
    """Normalizes groups of channels of each example of `(N, C, *)` (Wu and He 2018).

    Raises ValueError if `num_groups` does not divide `num_channels`.
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            values = Parameter(torch.empty(num_channels, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        _fill_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


# %%
#| into: nn/modules/normalization.py
#| upstream: torch/nn/modules/normalization.py#RMSNorm
#| upstream: torch/nn/modules/normalization.py#LocalResponseNorm
class RMSNorm(Module):
    """Divides by the root mean square over the last dimensions (Zhang and Sennrich 2019)."""

    weight: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        values = Parameter(torch.empty(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Divides by a power of the mean square over neighbouring channels of `(N, C, *)` (Krizhevsky et al. 2012)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


# %% [markdown]
# An older twin, `CrossMapLRN2d`, comes from Lua Torch and is written as an autograd function with a derivative of its own. Its windows are not centred as they should be: the first channel, once added to a running sum, is not taken out again, and the
# derivative, which does take it out, is that of another function. Networks were trained with it, so it stays as it is, here too: each direction is a matrix of zeros and ones over channels.

# %%
#| into: nn/modules/_functions.py
#| imports
from __future__ import annotations

from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.function import Function, once_differentiable


# %%
#| into: nn/modules/_functions.py
#| upstream: torch/nn/modules/_functions.py#CrossMapLRN2d
def _forward_windows(channels: int, size: int, like: Tensor) -> Tensor:
    """Which channels (columns) each channel's sum takes in."""
    reach = int((size - 1) / 2 + 1)
    rows = [
        [j < c + reach and (j == 0 or j > c - reach or c <= reach) for j in range(channels)] for c in range(channels)
    ]
    return torch.tensor(rows, device=like.device).to(like.dtype)


def _backward_windows(channels: int, size: int, like: Tensor) -> Tensor:
    before = int(size - (size - 1) / 2)
    rows = [[c - before <= j < c - before + size for j in range(channels)] for c in range(channels)]
    return torch.tensor(rows, device=like.device).to(like.dtype)


class CrossMapLRN2d(Function):
    """`x / (k + alpha / size · Σ x²)^beta` over neighbouring channels of `(N, C, H, W)`."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        ctx.size, ctx.alpha, ctx.beta = size, alpha, beta
        windows = _forward_windows(input.size(1), size, input)
        ctx.scale = torch.einsum("cj,njhw->nchw", windows, input * input) * (alpha / size) + k
        output = ctx.scale.pow(-beta) * input
        ctx.save_for_backward(input, output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        input, output = ctx.saved_tensors
        windows = _backward_windows(input.size(1), ctx.size, input)
        share = torch.einsum("cj,njhw->nchw", windows, grad_output * output / ctx.scale)
        grad = ctx.scale.pow(-ctx.beta) * grad_output - 2 * ctx.alpha * ctx.beta / ctx.size * input * share
        return grad, None, None, None, None


# %%
#| into: nn/modules/normalization.py
#| imports
from readtorch.nn.modules import _functions


# %%
#| into: nn/modules/normalization.py
#| upstream: torch/nn/modules/normalization.py#CrossMapLRN2d
class CrossMapLRN2d(Module):
    """Lua Torch's `LocalResponseNorm` of images `(N, C, H, W)`."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return _functions.CrossMapLRN2d.apply(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


# %% [markdown]
# ## Into the namespace

# %%
#| into: nn/modules/__init__.py
from readtorch.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm
from readtorch.nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from readtorch.nn.modules.normalization import CrossMapLRN2d, GroupNorm, LayerNorm, LocalResponseNorm, RMSNorm

__all__ += [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "CrossMapLRN2d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
    "SyncBatchNorm",
]

# %%
#| into: nn/__init__.py
from readtorch.nn import functional as functional
from readtorch.nn import init as init

# %%
from readtorch import nn

norm = nn.BatchNorm1d(2)
norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]])), norm.running_mean, norm.running_var
