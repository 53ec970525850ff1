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
# # Lazy modules
#
# A lazy layer leaves the size of its input open. Its parameters have no shape; the first call infers them in a forward pre-hook, and
# the object *becomes* the ordinary layer: its class is assigned.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %%
#| into: nn/modules/lazy.py
#| imports
from __future__ import annotations

import itertools
from typing import Any

from readtorch.autograd.grad_mode import no_grad
from readtorch.nn.parameter import is_lazy


# %%
#| into: nn/modules/lazy.py
#| upstream: torch/nn/modules/lazy.py#LazyModuleMixin
class LazyModuleMixin:
    """What makes a layer lazy; stands before the layer's class among the bases.

    A subclass sets `cls_to_become`, makes `UninitializedParameter`s in `__init__`, and defines `initialize_parameters`, which
    is called with the arguments of the first forward call.
    """

    cls_to_become: type[Any] | None = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self: Any, *args: Any, **kwargs: Any) -> None:
        """Give the parameters the shapes that the arguments of the first call imply."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self: Any) -> bool:
        """Is there a parameter or buffer without a shape?"""
        return any(is_lazy(tensor) for tensor in itertools.chain(self._parameters.values(), self._buffers.values()))

    def _infer_parameters(self: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        for hook in ("_initialize_hook", "_load_hook"):
            getattr(module, hook).remove()
            delattr(module, hook)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


# %% [markdown]
# Saving keeps a parameter without a shape as it is; loading a checkpoint with shapes into a lazy module materializes it.


# %%
#| into: nn/modules/lazy.py
#| upstream: torch/nn/modules/lazy.py#LazyModuleMixin._lazy_load_hook
class LazyModuleMixin(LazyModuleMixin):
    def _save_to_state_dict(self: Any, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        kept = {name: b for name, b in self._buffers.items() if name not in self._non_persistent_buffers_set}
        for name, tensor in itertools.chain(self._parameters.items(), kept.items()):
            if tensor is not None:
                destination[prefix + name] = tensor if is_lazy(tensor) or keep_vars else tensor.detach()

    def _lazy_load_hook(self: Any, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for name, tensor in itertools.chain(self._parameters.items(), self._buffers.items()):
            loaded = state_dict.get(prefix + name)
            if tensor is not None and loaded is not None and is_lazy(tensor) and not is_lazy(loaded):
                with no_grad():
                    tensor.materialize(loaded.shape)

    def _replicate_for_data_parallel(self: Any) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`: "
            "there is nothing to replicate before a first forward"
        )


# %% [markdown]
# ## LazyLinear

# %%
#| into: nn/modules/linear.py
#| imports
from readtorch.nn.modules.lazy import LazyModuleMixin
from readtorch.nn.parameter import Parameter, UninitializedParameter


# %%
#| into: nn/modules/linear.py
#| upstream: torch/nn/modules/linear.py#LazyLinear
class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` whose `in_features` is the last size of the first input."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        found = input.shape[-1]
        if self.has_uninitialized_params():
            self.in_features = found
            shapes = (self.out_features, found), (self.out_features,)
            with torch.no_grad():
                for parameter, shape in zip((self.weight, self.bias), shapes, strict=True):
                    if isinstance(parameter, UninitializedParameter):
                        parameter.materialize(shape)
                self.reset_parameters()
        elif self.in_features == 0:
            # the parameters came from a checkpoint
            if found != (known := self.weight.shape[-1]):
                raise AssertionError(f"The in_features inferred from input: {found}; those of self.weight: {known}")
            self.in_features = found


# %% [markdown]
# ## Lazy convolutions

# %%
#| into: nn/modules/conv.py
#| imports
from readtorch.nn.modules.lazy import LazyModuleMixin
from readtorch.nn.parameter import Parameter, UninitializedParameter


# %%
#| into: nn/modules/conv.py
#| upstream: torch/nn/modules/conv.py#_LazyConvXdMixin
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


# %%
#| into: nn/modules/conv.py
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


# %%
#| into: nn/modules/conv.py
#| upstream: torch/nn/modules/conv.py#LazyConv1d
#| upstream: torch/nn/modules/conv.py#LazyConv2d
#| upstream: torch/nn/modules/conv.py#LazyConv3d
#| upstream: torch/nn/modules/conv.py#LazyConvTranspose1d
#| upstream: torch/nn/modules/conv.py#LazyConvTranspose2d
#| upstream: torch/nn/modules/conv.py#LazyConvTranspose3d
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


# %% [markdown]
# ## Lazy norms

# %%
#| into: nn/modules/batchnorm.py
#| imports
from readtorch.nn.modules.lazy import LazyModuleMixin
from readtorch.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter


# %%
#| into: nn/modules/batchnorm.py
#| upstream: torch/nn/modules/batchnorm.py#_LazyNormBase
class _LazyNormBase(LazyModuleMixin, _NormBase):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = torch.tensor(0, dtype=torch.long, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self: Any, input: Tensor) -> None:
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


# %%
#| into: nn/modules/batchnorm.py
#| upstream: torch/nn/modules/batchnorm.py#LazyBatchNorm1d
#| upstream: torch/nn/modules/batchnorm.py#LazyBatchNorm2d
#| upstream: torch/nn/modules/batchnorm.py#LazyBatchNorm3d
class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm1d` whose `num_features` come with the first input."""

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm2d` whose `num_features` come with the first input."""

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm3d` whose `num_features` come with the first input."""

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim


# %%
#| into: nn/modules/instancenorm.py
#| imports
from readtorch.nn.modules.batchnorm import _LazyNormBase, _NormBase


# %%
#| into: nn/modules/instancenorm.py
#| upstream: torch/nn/modules/instancenorm.py#LazyInstanceNorm1d
#| upstream: torch/nn/modules/instancenorm.py#LazyInstanceNorm2d
#| upstream: torch/nn/modules/instancenorm.py#LazyInstanceNorm3d
class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm1d` whose `num_features` come with the first input."""

    cls_to_become = InstanceNorm1d
    _unbatched = InstanceNorm1d._unbatched


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm2d` whose `num_features` come with the first input."""

    cls_to_become = InstanceNorm2d
    _unbatched = InstanceNorm2d._unbatched


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """An `InstanceNorm3d` whose `num_features` come with the first input."""

    cls_to_become = InstanceNorm3d
    _unbatched = InstanceNorm3d._unbatched


# %%
layer = nn.LazyConv2d(8, 3)
before = repr(layer)
layer(torch.zeros(1, 5, 4, 4))
before, repr(layer)


# %% [markdown]
# The class changes, of the layer and of its parameters. The *objects* stay: an optimizer that was given the parameters before the first call holds the right ones after it. What cannot be done before the first call is to initialize, or to count, them.


# %%
#| claim: the parameters of a lazy layer are the same objects before and after their shape is known
#| upstream: torch/nn/parameter.py#UninitializedTensorMixin.materialize
def _(torch):
    layer = torch.nn.LazyLinear(2)
    held = layer.weight
    assert type(held).__name__ == "UninitializedParameter"
    layer(torch.ones(1, 3))
    assert layer.weight is held and type(held) is torch.nn.Parameter and type(layer) is torch.nn.Linear
