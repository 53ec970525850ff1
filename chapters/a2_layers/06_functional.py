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
# # The functions: `nn.functional`
#
# Between a layer's `forward` and an operator stands one function of this file: it fills in defaults, checks what the operator does not,
# and takes care of old spellings. Many need nothing of that and are the operator itself.

# %%
import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: nn/functional.py
#| imports
from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import readtorch as torch
from readtorch._C import _nn
from readtorch._tensor import Tensor
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.csrc.utils.python_arg_parser import is_int
from readtorch.nn import _reduction as _Reduction
from readtorch.nn.modules.utils import _list_with_default, _pair, _single, _triple

# %% [markdown]
# ## Operators as they are

# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#conv1d
conv1d = torch.conv1d
conv2d = torch.conv2d
conv3d = torch.conv3d
conv_transpose1d = torch.conv_transpose1d
conv_transpose2d = torch.conv_transpose2d
conv_transpose3d = torch.conv_transpose3d
linear = _nn.linear
bilinear = torch.bilinear
avg_pool1d = torch.avg_pool1d
avg_pool2d = _nn.avg_pool2d
avg_pool3d = _nn.avg_pool3d
adaptive_avg_pool1d = torch.adaptive_avg_pool1d
pixel_shuffle = torch.pixel_shuffle
pixel_unshuffle = torch.pixel_unshuffle
channel_shuffle = torch.channel_shuffle
cosine_similarity = torch.cosine_similarity
gelu = _nn.gelu
hardshrink = torch.hardshrink
softshrink = _nn.softshrink
softplus = _nn.softplus
logsigmoid = _nn.log_sigmoid
prelu = torch.prelu

# %% [markdown]
# ## Pooling
#
# With `return_indices` a max pool is another function with two results. Upstream calls the pair a *boolean dispatch*; the `if` below is
# the whole of it.


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#max_pool1d_with_indices
#| upstream: torch/nn/functional.py#max_pool2d_with_indices
#| upstream: torch/nn/functional.py#max_pool3d_with_indices
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """`max_pool1d` and where each maximum was."""
    return torch.max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """`max_pool2d` and where each maximum was, as a number into the flattened image."""
    return _nn.max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """`max_pool3d` and where each maximum was, as a number into the flattened volume."""
    return _nn.max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#_max_pool1d
#| upstream: torch/nn/functional.py#_max_pool2d
#| upstream: torch/nn/functional.py#_max_pool3d
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest value of each window of `(N, C, L)` or `(C, L)`."""
    if return_indices:
        return max_pool1d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return torch.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest value of each window of `(N, C, H, W)` or `(C, H, W)`."""
    if return_indices:
        return max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return torch.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest value of each window of `(N, C, D, H, W)` or `(C, D, H, W)`."""
    if return_indices:
        return max_pool3d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)
    return torch.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#_unpool_output_size
def _unpool_output_size(
    input: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    output_size: Sequence[int] | None,
) -> list[int]:
    """The size to unpool to: the smallest that pools to `input`, or the given one if it does so too."""
    size, dims = input.size(), len(kernel_size)
    smallest = [(size[-dims + d] - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(dims)]
    if output_size is None:
        return smallest
    if len(output_size) == dims + 2:
        output_size = output_size[2:]
    if len(output_size) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements; it has {len(output_size)}"
        )
    for d in range(dims):
        if not smallest[d] - stride[d] < output_size[d] < smallest[d] + stride[d]:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between '
                f"{smallest[d] - stride[d]} and {smallest[d] + stride[d]})"
            )
    return list(output_size)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The partial inverse of `max_pool1d`: maxima at their places, zeros elsewhere."""
    kernel, pads = _single(kernel_size), _single(padding)
    steps = kernel if stride is None else _single(stride)
    size = _unpool_output_size(input, kernel, steps, pads, output_size)
    return _nn.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The partial inverse of `max_pool2d`: maxima at their places, zeros elsewhere."""
    kernel, pads = _pair(kernel_size), _pair(padding)
    steps = kernel if stride is None else _pair(stride)
    return _nn.max_unpool2d(input, indices, _unpool_output_size(input, kernel, steps, pads, output_size))


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The partial inverse of `max_pool3d`: maxima at their places, zeros elsewhere."""
    kernel, pads = _triple(kernel_size), _triple(padding)
    steps = kernel if stride is None else _triple(stride)
    size = _unpool_output_size(input, kernel, steps, pads, output_size)
    return _nn.max_unpool3d(input, indices, size, steps, pads)


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#lp_pool1d
#| upstream: torch/nn/functional.py#lp_pool2d
#| upstream: torch/nn/functional.py#lp_pool3d
def _from_mean_power(mean: Tensor, norm_type: float, count: int) -> Tensor:
    return (torch.sign(mean) * relu(torch.abs(mean))).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """`sum(x^p)^(1/p)` over each window."""
    if norm_type == math.inf:
        return max_pool1d(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    kernel = _single(kernel_size)
    mean = avg_pool1d(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return _from_mean_power(mean, norm_type, math.prod(kernel))


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """`sum(x^p)^(1/p)` over each window."""
    if norm_type == math.inf:
        return max_pool2d(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    kernel = height, width = _pair(kernel_size)
    mean = avg_pool2d(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return _from_mean_power(mean, norm_type, height * width)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """`sum(x^p)^(1/p)` over each window."""
    if norm_type == math.inf:
        return max_pool3d(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    kernel = depth, height, width = _triple(kernel_size)
    mean = avg_pool3d(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    return _from_mean_power(mean, norm_type, depth * height * width)


def _require_sizes(op: str, output_size: Any, dims: int) -> None:
    several = isinstance(output_size, list | tuple) and all(size is None or is_int(size) for size in output_size)
    if several and len(output_size) < dims:
        raise RuntimeError(f"{op}: output_size must be {dims}")


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#adaptive_avg_pool2d
#| upstream: torch/nn/functional.py#adaptive_avg_pool3d
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows that divide the image into `output_size`; None keeps the input's size."""
    _require_sizes("adaptive_avg_pool2d", output_size, 2)
    return _nn.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows that divide the volume into `output_size`; None keeps the input's size."""
    return _nn.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#adaptive_max_pool1d_with_indices
#| upstream: torch/nn/functional.py#adaptive_max_pool2d_with_indices
#| upstream: torch/nn/functional.py#adaptive_max_pool3d_with_indices
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d` and where each maximum was."""
    return torch.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool2d` and where each maximum was."""
    _require_sizes("adaptive_max_pool2d", output_size, 2)
    return _nn.adaptive_max_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool3d` and where each maximum was."""
    return _nn.adaptive_max_pool3d(input, _list_with_default(output_size, input.size()))


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest value of each of `output_size` windows."""
    both = adaptive_max_pool1d_with_indices(input, output_size)
    return both if return_indices else both[0]


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest value of each of `output_size` windows; None keeps the input's size."""
    both = adaptive_max_pool2d_with_indices(input, output_size)
    return both if return_indices else both[0]


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest value of each of `output_size` windows; None keeps the input's size."""
    both = adaptive_max_pool3d_with_indices(input, output_size)
    return both if return_indices else both[0]


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#fractional_max_pool2d_with_indices
#| upstream: torch/nn/functional.py#fractional_max_pool3d_with_indices
def _fractional_pool(
    input: Tensor, kernel: tuple[int, ...], output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    dims = len(kernel)
    if not input.dim() and dims == 3:
        raise IndexError("Dimension specified as -3 but tensor has no dimensions")
    if output_size is None and output_ratio is None:
        raise ValueError(f"fractional_max_pool{dims}d requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratios = _pair(output_ratio) if dims == 2 else _triple(output_ratio)
        output_size = [int(n * ratio) for n, ratio in zip(input.shape[-dims:], ratios, strict=True)]
    sizes = _pair(output_size) if dims == 2 else _triple(output_size)
    if samples is None:
        batch = 1 if input.dim() == dims + 1 else input.size(0)
        samples = torch.rand(batch, input.size(-dims - 1), dims, dtype=input.dtype, device=input.device)
    return _nn._fractional_max_pool(input, kernel, tuple(sizes), samples)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool2d` and where each maximum was."""
    return _fractional_pool(input, _pair(kernel_size), output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool3d` and where each maximum was."""
    return _fractional_pool(input, _triple(kernel_size), output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Maxima over windows at pseudo-random places, as many as `output_size` or `output_ratio` say (Graham 2014)."""
    both = fractional_max_pool2d_with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
    return both if return_indices else both[0]


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool2d` over three dimensions."""
    both = fractional_max_pool3d_with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
    return both if return_indices else both[0]


# %% [markdown]
# ## Dropout
#
# In training each element is zero with probability `p` and divided by `1 - p` otherwise, so that its mean stays. The others drop whole
# channels, or move to the value and variance that SELU networks need.


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#dropout
#| upstream: torch/nn/functional.py#alpha_dropout
#| upstream: torch/nn/functional.py#feature_alpha_dropout
def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability `p` and scale the rest, in training; the identity otherwise."""
    _check_probability(p)
    return torch.dropout_(input, p, training) if inplace else torch.dropout(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean 0 and variance 1 of a SELU's output (Klambauer et al. 2017)."""
    _check_probability(p)
    return torch.alpha_dropout_(input, p, training) if inplace else torch.alpha_dropout(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels."""
    _check_probability(p)
    if inplace:
        return torch.feature_alpha_dropout_(input, p, training)
    return torch.feature_alpha_dropout(input, p, training)


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#dropout1d
#| upstream: torch/nn/functional.py#dropout2d
#| upstream: torch/nn/functional.py#dropout3d
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of `(N, C, L)` or `(C, L)`."""
    _check_probability(p)
    rank = input.dim()
    if rank not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input: "
            "dropout1d exists to drop whole channels of inputs with 1 spatial dimension, (C, L) or (N, C, L). "
            "dropout2d and dropout3d do so with more of them."
        )
    x = input if rank == 3 else input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = torch.feature_dropout_(x, p, training) if inplace else torch.feature_dropout(x, p, training)
    if rank == 3:
        return result
    return result.squeeze_(0) if inplace else result.squeeze(0)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of `(N, C, H, W)`."""
    _check_probability(p)
    rank = input.dim()
    if rank not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {rank}-D input, which is deprecated and will be an error in a later release. "
            "Use dropout, which does the same for any shape.",
            stacklevel=2,
        )
    if rank == 3:
        warnings.warn(
            "dropout2d: Received a 3D input, and assuming that channel-wise 1D dropout behavior is desired: "
            "it is read as (N, C, L), whole channels are dropped. Use dropout1d for that.",
            stacklevel=2,
        )
    return torch.feature_dropout_(input, p, training) if inplace else torch.feature_dropout(input, p, training)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of `(N, C, D, H, W)` or `(C, D, H, W)`."""
    _check_probability(p)
    rank = input.dim()
    if rank not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {rank}-D input, which is deprecated and will be an error in a later release. "
            "Use dropout, which does the same for any shape.",
            stacklevel=2,
        )
    if rank == 5:
        return torch.feature_dropout_(input, p, training) if inplace else torch.feature_dropout(input, p, training)
    x = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = torch.feature_dropout_(x, p, training) if inplace else torch.feature_dropout(x, p, training)
    return result.squeeze_(0) if inplace else result.squeeze(0)


# %% [markdown]
# ## Activations


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#relu
#| upstream: torch/nn/functional.py#_threshold
#| upstream: torch/nn/functional.py#hardtanh
#| upstream: torch/nn/functional.py#relu6
#| upstream: torch/nn/functional.py#leaky_relu
#| upstream: torch/nn/functional.py#rrelu
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """`max(x, 0)`."""
    return torch.relu_(input) if inplace else torch.relu(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`x` where `x > threshold`, else `value`."""
    return torch.threshold_(input, threshold, value) if inplace else torch.threshold(input, threshold, value)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` clamped to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _nn.hardtanh_(input, min_val, max_val) if inplace else _nn.hardtanh(input, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """`min(max(x, 0), 6)`."""
    return _nn.relu6_(input) if inplace else _nn.relu6(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`x` where `x > 0`, else `negative_slope * x`."""
    return _nn.leaky_relu_(input, negative_slope) if inplace else _nn.leaky_relu(input, negative_slope)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Leaky ReLU with slopes drawn from U(lower, upper) in training, their mean otherwise."""
    return torch.rrelu_(input, lower, upper, training) if inplace else torch.rrelu(input, lower, upper, training)


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#elu
#| upstream: torch/nn/functional.py#selu
#| upstream: torch/nn/functional.py#celu
#| upstream: torch/nn/functional.py#silu
#| upstream: torch/nn/functional.py#mish
#| upstream: torch/nn/functional.py#hardsigmoid
#| upstream: torch/nn/functional.py#hardswish
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` where `x > 0`, else `alpha * (exp(x) - 1)`."""
    return _nn.elu_(input, alpha) if inplace else _nn.elu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`scale * elu(x, alpha)` with the constants of self-normalizing networks."""
    return torch.selu_(input) if inplace else torch.selu(input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`."""
    return torch.celu_(input, alpha) if inplace else torch.celu(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """`x * sigmoid(x)`."""
    return _nn.silu_(input) if inplace else _nn.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """`x * tanh(softplus(x))`."""
    return _nn.mish_(input) if inplace else _nn.mish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """`relu6(x + 3) / 6`."""
    return _nn.hardsigmoid_(input) if inplace else _nn.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """`x * relu6(x + 3) / 6`."""
    return _nn.hardswish_(input) if inplace else _nn.hardswish(input)


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#sigmoid
#| upstream: torch/nn/functional.py#tanh
#| upstream: torch/nn/functional.py#tanhshrink
#| upstream: torch/nn/functional.py#softsign
#| upstream: torch/nn/functional.py#glu
def sigmoid(input: Tensor) -> Tensor:
    """`1 / (1 + exp(-x))`."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """`tanh(x)`."""
    return input.tanh()


def tanhshrink(input: Tensor) -> Tensor:
    """`x - tanh(x)`."""
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    """`x / (1 + |x|)`."""
    return input / (input.abs() + 1)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """`a * sigmoid(b)` of the halves of `input` along `dim`."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return _nn.glu(input, dim)


# %% [markdown]
# ## Softmax
#
# Old code leaves `dim` out; the guess is 0 for rank 0, 1 and 3, and 1 otherwise, with a warning.


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#_get_softmax_dim
def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated: pass dim=.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#softmax
#| upstream: torch/nn/functional.py#softmin
#| upstream: torch/nn/functional.py#log_softmax
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """`exp(x) / sum(exp(x))` along `dim`; the input is cast to `dtype` first if given."""
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """`softmax(-x)` along `dim`."""
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """`log(softmax(x))` along `dim`."""
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


# %% [markdown]
# The Gumbel trick draws from a categorical distribution differentiably: noise is added to the logits before a softmax. With `hard` the
# forward value is one-hot and the gradient that of the soft one.


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#gumbel_softmax
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample from the Gumbel-softmax distribution (Jang et al. 2017); `eps` has no effect."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    gumbels = -torch.empty_like(logits).exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = torch.zeros_like(logits).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


# %%
#| claim: a hard Gumbel sample is one-hot and has a gradient
def _(torch):
    logits = torch.zeros(1, 3, requires_grad=True)
    sample = torch.nn.functional.gumbel_softmax(logits, hard=True)
    assert sorted(sample[0].tolist()) == [0, 0, 1]
    (sample * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad.abs().sum() > 0


# %% [markdown]
# ## Embedding


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#embedding
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` by the numbers in `input`. Raises IndexError for a number outside the table."""
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx > 0:
        if padding_idx >= weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        if padding_idx < -weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = weight.size(0) + padding_idx
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight.detach(), input.contiguous(), max_norm, norm_type)
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#embedding_bag
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of the rows of each bag; arguments as `nn.EmbeddingBag`."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: per_sample_weights ({per_sample_weights.size()}), where given, must have the same "
            f"shape as the input ({input.size()})"
        )
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights is only supported for mode='sum' (got mode='{mode}')."
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, since each row is a bag; "
                f"found offsets of type {type(offsets)}"
            )
        offsets = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor; this one has {input.dim()} dimensions")
    elif offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    elif offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    elif include_last_offset:
        offsets = offsets[:-1]
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    if isinstance(weight, Tensor) and weight.dim() != 2:
        raise ValueError(f"embedding_bag: weight has to be a 2D Tensor, and is {weight.dim()}D")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    padding = -1 if padding_idx is None else padding_idx % weight.size(0)
    return _nn._embedding_bag_reduced(
        weight, input, offsets, mode, per_sample_weights, padding, scale_grad_by_freq, sparse
    )


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#normalize
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """`x / max(|x|_p, eps)` along `dim`."""
    if out is None:
        return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return torch.div(input, input.norm(p, dim, keepdim=True).clamp_min_(eps).expand_as(input), out=out)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of `x1 - x2 + eps` over the last dimension."""
    return torch.pairwise_distance(x1, x2, p, eps, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows."""
    return torch.pdist(input, p)


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """`(*)` class numbers as `(*, num_classes)` zeros and ones; by default as many classes as the largest number says."""
    if not isinstance(input, Tensor):
        raise TypeError(f"one_hot(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if input.dtype != torch.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not is_int(num_classes):
        raise TypeError(f"one_hot(): argument 'num_classes' (position 2) must be int, not {type(num_classes).__name__}")
    if input.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return torch.empty((*input.shape, num_classes), dtype=torch.int64, device=input.device)
    many = is_one_of_many(input)
    known = not input.is_meta and not many
    if known and input.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = int(input.max()) + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif known and input.max() >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    ones = torch.zeros((*input.shape, num_classes), dtype=torch.int64, device=input.device)
    return (ones.scatter if many else ones.scatter_)(-1, input.unsqueeze(-1), 1)


# %%
#| claim: a softmax without dim guesses 0 for ranks 0, 1 and 3, else 1, and warns
def _(torch):
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = torch.nn.functional.softmax(torch.zeros(2, 3, 4))
    assert "Implicit dimension choice" in str(caught[0].message)
    assert torch.allclose(y, torch.full((2, 3, 4), 0.5))


# %% [markdown]
# ## The in-place forms
#
# Upstream offers those of the older activations as functions too. They are the operators, so a leaf that requires a gradient is refused by them.

# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#relu
relu_ = torch._C._VariableFunctions.relu_
threshold_ = torch._C._VariableFunctions.threshold_
hardtanh_ = _nn.hardtanh_
elu_ = _nn.elu_
selu_ = torch._C._VariableFunctions.selu_
celu_ = torch._C._VariableFunctions.celu_
leaky_relu_ = _nn.leaky_relu_
rrelu_ = torch._C._VariableFunctions.rrelu_


def _reduction_word(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """`reduction`, unless one of the two flags that came before it is given."""
    return reduction if size_average is None and reduce is None else _Reduction.legacy_get_string(size_average, reduce)
