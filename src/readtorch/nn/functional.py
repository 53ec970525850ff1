# Tangled from chapters/03_norm.py, chapters/a2_layers/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import enum
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import readtorch as torch
from readtorch._C import _nn
from readtorch._tensor import Tensor
from readtorch.aten.functorch.batched_tensor_impl import is_one_of_many
from readtorch.c10.core.autograd_state import refuse_gradient
from readtorch.c10.core.scalar_type import not_implemented
from readtorch.csrc.utils import gates as _gates
from readtorch.csrc.utils.python_arg_parser import is_int, is_sequence_of_ints, require
from readtorch.nn import _reduction as _Reduction
from readtorch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from readtorch.nn.modules.utils import _list_with_default, _pair, _single, _triple


def _verify_batch_size(size: Sequence[int]) -> None:
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _verify_spatial_size(size: Sequence[int]) -> None:
    if math.prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")


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
    if input.dim() not in (4, 5):
        raise RuntimeError(
            f"Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor with {input.dim()} dimensions."
        )
    kernel, pads = _triple(kernel_size), _triple(padding)
    steps = kernel if stride is None else _triple(stride)
    size = _unpool_output_size(input, kernel, steps, pads, output_size)
    return _nn.max_unpool3d(input, indices, size, steps, pads)


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


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows that divide the image into `output_size`; None keeps the input's size."""
    _require_sizes("adaptive_avg_pool2d", output_size, 2)
    return _nn.adaptive_avg_pool2d(input, _list_with_default(output_size, input.size()))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows that divide the volume into `output_size`; None keeps the input's size."""
    _require_sizes("adaptive_avg_pool3d", output_size, 3)
    return _nn.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


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
    _require_sizes("adaptive_max_pool3d", output_size, 3)
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


def _window_sizes(op: str, dims: int, **given: Any) -> list[tuple[int, ...]]:
    """Each value as one number per dimension. TypeError for what is no int or ints, RuntimeError for another count of them."""
    found = []
    for name, value in given.items():
        if not is_sequence_of_ints(value):
            raise TypeError(f"{op}(): argument '{name}' must be tuple of ints, not {type(value).__name__}")
        numbers = tuple(int(n) for n in value) if isinstance(value, list | tuple) else (int(value),) * dims
        if len(numbers) != dims:
            raise RuntimeError(f"{op}: {name} must either be a single Int or tuple of Ints")
        found.append(numbers)
    return found


def _fractional_pool(
    input: Tensor, dims: int, kernel: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    if not isinstance(input, Tensor):
        raise TypeError(
            f"fractional_max_pool{dims}d(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    if output_size is None and output_ratio is None:
        raise ValueError(f"fractional_max_pool{dims}d requires specifying either an output_size or an output_ratio")
    op = f"fractional_max_pool{dims}d"
    if output_size is None:
        output_ratio = output_ratio if dims == 2 else _triple(output_ratio)
        if not isinstance(output_ratio, list | tuple):
            raise TypeError(
                f"{op}(): argument 'output_ratio' must be tuple of floats, not {type(output_ratio).__name__}"
            )
        if len(output_ratio) > dims:
            raise ValueError(f"{op} requires output_ratio to be of {dims} numbers, one for each dimension")
        if len(output_ratio) < dims or input.dim() < dims:
            raise IndexError(
                f"{op}(): Dimension out of range: {dims} sizes need {dims} ratios, not {len(output_ratio)}"
            )
        output_size = [int(input.size(d - dims) * output_ratio[d]) for d in range(dims)]
    kernel, sizes = _window_sizes(op, dims, kernel_size=kernel, output_size=output_size)
    if min(sizes) < 0:
        raise RuntimeError(f"{op}(): Trying to create tensor with negative dimension {min(sizes)}")
    if samples is None:
        batch = 1 if input.dim() == dims + 1 else input.size(0)
        samples = torch.rand(batch, input.size(-dims - 1), dims, dtype=input.dtype, device=input.device)
    if not dims + 1 <= input.dim() <= dims + 2:
        raise RuntimeError(f"{op}(): Expected {dims + 1}D or {dims + 2}D tensor, but got: {list(input.shape)}")
    return _nn._fractional_max_pool(input, kernel, sizes, samples)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool2d` and where each maximum was."""
    return _fractional_pool(input, 2, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool3d` and where each maximum was."""
    return _fractional_pool(input, 3, kernel_size, output_size, output_ratio, _random_samples)


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


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated: pass dim=.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


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
    require("embedding_bag", "bool", include_last_offset=include_last_offset)
    if padding_idx is not None:
        require("embedding_bag", "int", padding_idx=padding_idx)
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
    rows = weight.size(0)
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but got {padding_idx}"
        )
    padding = -1 if padding_idx is None else padding_idx % rows
    return _nn._embedding_bag_reduced(
        weight, input, offsets, mode, per_sample_weights, padding, scale_grad_by_freq, sparse
    )


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


def _reduction_number(size_average: bool | None, reduce: bool | None, reduction: str) -> int:
    return _Reduction.get_enum(_reduction_word(size_average, reduce, reduction))


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`-weight[target] · input[target]` of log-probabilities `(N, C, *)` or `(C,)` and classes `(N, *)` or `()`."""
    number = _reduction_number(size_average, reduce, reduction)
    return _nn.nll_loss_nd(input, target, weight, number, ignore_index)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """`nll_loss(log_softmax(input), target)`; a target of the input's shape holds probabilities.

    Raises IndexError for a class outside the range, ValueError where batch sizes differ.
    """
    number = _reduction_number(size_average, reduce, reduction)
    return _nn.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`-(t log p + (1 - t) log(1 - p))` of probabilities; logarithms are cut at -100."""
    number = _reduction_number(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is deprecated: "
            "reshape() one of them."
        )
    if weight is not None and weight.size() != target.size():
        weight = weight.expand(torch.broadcast_shapes(weight.shape, target.shape))
    if weight is not None:
        refuse_gradient("binary_cross_entropy", weight=weight)
    return _nn.binary_cross_entropy(input, target, weight, number)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy(sigmoid(input), target)`, computed from the logits; `pos_weight` multiplies the positive term."""
    number = _reduction_number(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    if weight is not None or pos_weight is not None:
        refuse_gradient("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


def _broadcast_pair(input: Tensor, target: Tensor) -> Sequence[Tensor]:
    if target.size() == input.size():
        return input, target
    warnings.warn(
        f"Using a target size ({target.size()}) that is different to the input size ({input.size()}), which will likely lead to incorrect results: the two are "
        "broadcast. reshape() one of them.",
        stacklevel=3,
    )
    return torch.broadcast_tensors(input, target)


def _weighted(input: Tensor, losses: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    weighted = losses * weight
    if reduction == "none":
        return weighted
    if reduction == "sum":
        return weighted.sum()
    if reduction == "mean":
        return weighted.sum() / weight.sum()
    raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """`(input - target)²`; with `weight` the mean is over the weights."""
    x, y = _broadcast_pair(input, target)
    word = _reduction_word(size_average, reduce, reduction)
    number = _Reduction.get_enum(word)
    return _nn.mse_loss(x, y, number) if weight is None else _weighted(input, (x - y) ** 2, weight, word)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """`|input - target|`; with `weight` the mean is over the weights."""
    x, y = _broadcast_pair(input, target)
    word = _reduction_word(size_average, reduce, reduction)
    number = _Reduction.get_enum(word)
    return _nn.l1_loss(x, y, number) if weight is None else _weighted(input, _nn.l1_loss(x, y, 0), weight, word)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """`x² / (2 beta)` where `|x| < beta`, else `|x| - beta / 2`."""
    x, y = _broadcast_pair(input, target)
    return _nn.smooth_l1_loss(x, y, _reduction_number(size_average, reduce, reduction), beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """`x² / 2` where `|x| <= delta`, else `delta (|x| - delta / 2)`; with `weight` the mean is over the weights."""
    x, y = _broadcast_pair(input, target)
    if weight is None:
        return _nn.huber_loss(x, y, _Reduction.get_enum(reduction), delta)
    return _weighted(input, _nn.huber_loss(x, y, 0, delta), weight, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """`target · (log target - input)` of log-probabilities; `batchmean` divides the sum by the batch, as the mathematics does."""
    if isinstance(target, Tensor) and not target.is_floating_point():
        kind = "Complex" if target.is_complex() else "Integral"
        raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    if size_average is not None or reduce is not None:
        number = _Reduction.legacy_get_enum(size_average, reduce)
    else:
        if reduction == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by the number of all elements, so it is not the divergence. "
                "'batchmean' divides by the batch size alone, and is.",
                stacklevel=2,
            )
        number = _Reduction.get_enum("sum" if reduction == "batchmean" else reduction)
    loss = torch.kl_div(input, target, number, log_target=log_target)
    return loss / input.size()[0] if reduction == "batchmean" and input.dim() != 0 else loss


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`exp(input) - target · input`, or `input - target · log(input + eps)`; `full` adds Stirling's term."""
    if size_average is not None or reduce is not None:
        reduction = _Reduction.legacy_get_string(size_average, reduce)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return torch.poisson_nll_loss(input, target, log_input, full, eps, _Reduction.get_enum(reduction))


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """`(log var + (input - target)² / var) / 2`, the variance kept above `eps` and that out of the gradient."""
    given: Any = var
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        given = var * torch.ones_like(input)
    elif torch.any(var < 0):
        raise ValueError("var has negative entry/entries")
    if given.size() != input.size():
        if input.size()[:-1] == given.size():
            given = given.unsqueeze(-1)
        else:
            differing = [have for want, have in zip(input.size(), given.size(), strict=False) if want != have]
            if input.dim() != given.dim() or sum(differing) != 1:  # one dimension of it is stretched
                raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    given = given.clone()
    with torch.no_grad():
        given.clamp_(min=eps)
    loss = 0.5 * (torch.log(given) + (input - target) ** 2 / given)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`max(0, margin - target · (input1 - input2))`, target ±1."""
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension, unlike "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    number = _reduction_number(size_average, reduce, reduction)
    return torch.margin_ranking_loss(input1, input2, target, margin, number)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`input` where target is 1, `max(0, margin - input)` where it is -1."""
    return torch.hinge_embedding_loss(input, target, margin, _reduction_number(size_average, reduce, reduction))


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`1 - cos` where target is 1, `max(0, cos - margin)` where it is -1."""
    number = _reduction_number(size_average, reduce, reduction)
    return torch.cosine_embedding_loss(input1, input2, target, margin, number)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`log(1 + exp(-target · input))`, target ±1."""
    return _nn.soft_margin_loss(input, target, _reduction_number(size_average, reduce, reduction))


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`Σ max(0, margin - x[target] + x[other])^p / C`."""
    number = _reduction_number(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _nn.multi_margin_loss(input, target, p, margin, weight, number)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The same for several classes per example, listed in `target` up to the first -1."""
    return _nn.multilabel_margin_loss(input, target, _reduction_number(size_average, reduce, reduction))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of binary cross entropies from logits."""
    if size_average is not None or reduce is not None:
        reduction = _Reduction.legacy_get_string(size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    loss = loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)`."""
    number = _reduction_number(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with any distance."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors must agree in the number of dimensions, "
            f"not have {anchor.dim()}, {positive.dim()} and {negative.dim()} of them"
        )
    distance = torch.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    loss = torch.clamp_min(margin + near - far, 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification of `(T, N, C)` log-probabilities (Graves et al. 2006).

    `targets` is `(N, S)` or all targets one after the other. The mean divides each loss by its target's length first.
    """
    number = _Reduction.get_enum(reduction)
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, number, zero_infinity)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)` of `(N, in)` or `(in,)`, with `(C, *, in)` weights.

    `ignore_index` is -100 for class numbers, and refused for probabilities. With `options`, it goes through the batch in
    chunks: one derivative, class numbers, no label smoothing, weights of two dimensions.
    """
    _check_linear_cross_entropy(input, linear_weight, linear_bias)
    classes, sizes = linear_weight.shape[0], tuple(linear_weight.shape[1:-1])
    if target.shape == (*input.shape[:-1], classes, *sizes) and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignore_index = -100 if ignore_index is None else ignore_index
    if options is not None:
        if not sizes and label_smoothing == 0 and target.dtype == torch.int64 and reduction in ("mean", "sum", "none"):
            from readtorch.nn.modules.linear_cross_entropy import in_chunks

            one = input.dim() == 1
            rows, targets = (input.unsqueeze(0), target.unsqueeze(0)) if one else (input, target)
            loss = in_chunks(rows, linear_weight, linear_bias, targets, weight, reduction, ignore_index, options)
            return loss.squeeze(0) if one else loss
        warnings.warn(
            "linear_cross_entropy: options ignored; chunks need reduction in {'mean', 'sum', 'none'}, label_smoothing == 0, "
            f"target.dtype == int64 and out_features == (). Got {reduction=}, {label_smoothing=}, "
            f"target.dtype={target.dtype}, out_features={sizes}.",
            stacklevel=2,
        )
    if sizes:
        linear_weight = linear_weight.reshape(-1, input.shape[-1])
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight, linear_bias)
    return cross_entropy(
        logits.reshape(*input.shape[:-1], classes, *sizes) if sizes else logits,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _check_linear_cross_entropy(input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {weight.dim()}")
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), "
            f"got {input.shape[-1]} and {weight.shape[-1]}, respectively"
        )
    if bias is not None and bias.shape != weight.shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {tuple(weight.shape[:-1])}, got {tuple(bias.shape)}")
    if weight.dim() > 2 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires batched input, "
            f"(N, {input.shape[-1]}), not {tuple(input.shape)}"
        )


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad by (before, after) of the last dimension, then of the one before it, and so on; negative numbers crop.

    `mode` is `constant` (with `value`, 0 by default), `reflect`, `replicate` or `circular`.
    """
    return _nn.pad(input, pad, mode, value)


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


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The windows of `(N, C, H, W)` as columns `(N, C · kernel, places)`."""
    return _nn.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Columns `(N, C · kernel, places)` added up to `(N, C, *output_size)`."""
    return _nn.col2im(input, _pair(output_size), _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


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


scaled_dot_product_attention = _nn.scaled_dot_product_attention


def _mha_shape_check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Is the query batched? Raises AssertionError where ranks do not fit."""
    rank = query.dim()
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor, not {rank}-D")
    word = "batched (3-D)" if rank == 3 else "unbatched (2-D)"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"For {word} `query`, expected `key` and `value` to be {rank}-D "
            f"but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
        if not isinstance(mask, Tensor | None):
            raise TypeError(f"{name} must be a Tensor, not {type(mask).__name__}")
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"For {word} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D "
            f"but found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"For {word} `query`, expected `attn_mask` to be `None`, 2-D or 3-D, not {attn_mask.dim()}-D"
        )
    if rank == 2 and attn_mask is not None and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {tuple(attn_mask.shape)}")
    return rank == 3


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Tensor | None:
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise TypeError(f"{mask_name} must be a Tensor, not {type(mask).__name__}")
    if not (mask.dtype is torch.bool or mask.is_floating_point()):
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type not in (None, mask.dtype):
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated: make both bool, or both float.",
            stacklevel=2,
        )
    if mask.dtype is torch.bool:
        return torch.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))
    return mask


def _none_or_dtype(input: Tensor | None) -> Any:
    if not isinstance(input, Tensor | None):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return None if input is None else input.dtype


def _in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None) -> tuple[Tensor, ...]:
    """Project by the three blocks of one matrix; in a single product for what is the same tensor."""
    size = q.size(-1)
    if k is v and q is k:
        return tuple(part.contiguous() for part in linear(q, w, b).split(size, -1))
    parts = w.chunk(3)
    biases = (None, None, None) if b is None else b.chunk(3)
    return tuple(linear(x, weight, bias) for x, weight, bias in zip((q, k, v), parts, biases, strict=True))


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None]
) -> tuple[Tensor, ...]:
    size = q.size(-1)
    names = ("query", "key", "value")
    for name, x, weight, bias in zip(names, (q, k, v), weights, biases, strict=True):
        expected = (size, x.size(-1))
        if tuple(weight.shape) != expected:
            raise AssertionError(f"expecting {name} weights shape of {expected}, but got {tuple(weight.shape)}")
        if bias is not None and tuple(bias.shape) != (size,):
            raise AssertionError(f"expecting {name} bias shape of {(size,)}, but got {tuple(bias.shape)}")
    return tuple(linear(x, weight, bias) for x, weight, bias in zip((q, k, v), weights, biases, strict=True))


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of `query (T, N, E)` to `key` and `value (S, N, ·)` in `num_heads` heads; arguments as `nn.MultiheadAttention`.

    Returns the output `(T, N, E)` and, with `need_weights`, the weights `(N, T, S)`, per head unless averaged.
    """
    batched = _mha_shape_check(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, n, size = query.shape
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint, which promises what the mask is: make it with "
            "`nn.Transformer.generate_square_subsequent_mask`."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None  # the hint alone says it all
    else:
        is_causal = False
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, check_other=False)
    attn_mask = _per_head_mask(attn_mask, (length, key.shape[0]), n * num_heads)
    if use_separate_proj_weight:
        separate = (q_proj_weight, k_proj_weight, v_proj_weight)
        if any(weight is None for weight in separate):
            raise AssertionError("use_separate_proj_weight is True but one of the three weights is None")
        biases = (None, None, None) if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = _in_projection(query, key, value, separate, biases)  # type: ignore[arg-type]  # the weights are there or separate, as checked above
    else:
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _in_projection_packed(query, key, value, in_proj_weight, in_proj_bias)
    k, v, attn_mask, key_padding_mask = _with_bias(k, v, bias_k, bias_v, n, attn_mask, key_padding_mask)
    q, k, v = (_by_head(x, num_heads) for x in (q, k, v))
    k, v = (own if given is None else given for own, given in ((k, static_k), (v, static_v)))
    if add_zero_attn:
        k, v = (torch.cat([x, torch.zeros_like(x[:, :1])], dim=1) for x in (k, v))
        attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
        key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))
    attn_mask = _with_padding(attn_mask, key_padding_mask, n, num_heads, k.size(1))
    dropout_p = dropout_p if training else 0.0
    heads, weights = _attend(q, k, v, attn_mask, dropout_p, is_causal, need_weights)
    output = linear(heads.transpose(0, 1).reshape(length * n, size), out_proj_weight, out_proj_bias)
    output = output.view(length, n, output.size(1))
    if weights is not None:
        weights = weights.view(n, num_heads, length, weights.size(2))
        weights = weights.mean(dim=1) if average_attn_weights else weights
    if batched:
        return output, weights
    return output.squeeze(1), None if weights is None else weights.squeeze(0)


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_heads: int, separate: bool) -> None:
    size = query.size(-1)
    if size != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {size}")
    if size % num_heads:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {num_heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _per_head_mask(mask: Tensor | None, size: tuple[int, int], heads: int) -> Tensor | None:
    """The mask as `(1 or heads, T, S)`."""
    if mask is None:
        return None
    expected = size if mask.dim() == 2 else (heads, *size)
    if tuple(mask.shape) != expected:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {expected}.")
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _with_bias(
    k: Tensor,
    v: Tensor,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    n: int,
    attn_mask: Tensor | None,
    padding_mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """One more key and value, learned and the same for every sequence."""
    if bias_k is None and bias_v is None:
        return k, v, attn_mask, padding_mask
    if bias_k is None or bias_v is None:
        raise AssertionError("bias_k and bias_v must both be given or both be None")
    k, v = torch.cat([k, bias_k.repeat(1, n, 1)]), torch.cat([v, bias_v.repeat(1, n, 1)])
    attn_mask, padding_mask = (None if mask is None else pad(mask, (0, 1)) for mask in (attn_mask, padding_mask))
    return k, v, attn_mask, padding_mask


def _by_head(x: Tensor, num_heads: int) -> Tensor:
    """`(T, N, E)` as `(N · heads, T, E / heads)`."""
    length, n, size = x.shape
    return x.reshape(length, n * num_heads, size // num_heads).transpose(0, 1)


def _with_padding(mask: Tensor | None, padding: Tensor | None, n: int, num_heads: int, length: int) -> Tensor | None:
    if padding is None:
        return mask
    if tuple(padding.shape) != (n, length):
        raise AssertionError(f"Expected key_padded_mask of shape {(n, length)}, but got {tuple(padding.shape)}")
    padding = padding.view(n, 1, 1, length).expand(-1, num_heads, -1, -1).reshape(n * num_heads, 1, length)
    return padding if mask is None else mask + padding


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal), None
    scores = torch.bmm(q * math.sqrt(1.0 / q.size(-1)), k.transpose(-2, -1))
    weights = softmax(scores if mask is None else scores + mask, dim=-1)
    if dropout_p > 0.0:
        weights = dropout(weights, p=dropout_p)
    return torch.bmm(weights, v), weights


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """AssertionError with `message`, into which the name is put, unless `arg` is a number or has two elements."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """Products of pairs of matrices: (G, M, K) · (G, K, N); or (M, K) · (G, K, N), (G, M, K) · (K, N) and (M, K) · (K, N), where
    `offs`, int32, says at which row of M, column of N, or place of K each of the G groups ends.

    Rows and columns after the last group are zero. RuntimeError for other dtypes than float32, bfloat16 and float16, for
    matrices whose rows (or columns) do not begin at multiples of 16 bytes, and where sizes do not fit.
    """
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if str(matrix.dtype).removeprefix("torch.") not in ("float32", "bfloat16", "float16"):
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {matrix.dtype}")
        if matrix.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    flat = mat_a.dim() == 2, mat_b.dim() == 2
    if not all(flat) and mat_a.size(-1) != mat_b.size(-2):
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    for matrix in (mat_a, mat_b):
        first, second = (step * matrix.element_size() for step in matrix.stride()[-2:])
        inner, outer = sorted((first, second))
        if inner != matrix.element_size() or outer % 16:
            raise RuntimeError("strides should be multiple of 16 bytes")
    if (offs is None) == any(flat):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype != mat_a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if offs is None:
        if mat_a.size(0) != mat_b.size(0):
            raise RuntimeError("batched dimension has to match")
        return torch.bmm(mat_a, mat_b)
    if offs.dim() != 1:
        raise RuntimeError("offs has to be 1D")
    if offs.dtype != torch.int32:
        raise RuntimeError("Offsets have to be int32")
    if any(not is_flat and matrix.size(0) != len(offs) for is_flat, matrix in zip(flat, (mat_a, mat_b), strict=True)):
        raise RuntimeError("matrix batch sizes have to match")
    return _grouped(mat_a, mat_b, [0, *offs.tolist()], *flat)


def _grouped(mat_a: Tensor, mat_b: Tensor, ends: list[int], a_is_flat: bool, b_is_flat: bool) -> Tensor:
    spans = [slice(start, max(start, end)) for start, end in itertools.pairwise(ends)]
    if a_is_flat and b_is_flat:
        return torch.stack([mat_a[:, span] @ mat_b[span] for span in spans])
    if a_is_flat:
        parts = [mat_a[span] @ mat_b[number] for number, span in enumerate(spans)]
        parts.append(mat_a.new_zeros(max(mat_a.size(0) - ends[-1], 0), mat_b.size(-1)))
        return torch.cat(parts)
    parts = [mat_a[number] @ mat_b[:, span] for number, span in enumerate(spans)]
    parts.append(mat_a.new_zeros(mat_a.size(1), max(mat_b.size(-1) - ends[-1], 0)))
    return torch.cat(parts, 1)


class ScalingType(enum.Enum):
    """What one scale of `scaled_mm` belongs to."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.Enum):
    """In which order the scales of `scaled_mm` lie."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _are_recipes(*recipes: Any) -> None:
    """AttributeError, as upstream's, for what is no `ScalingType` and no list of them."""
    for recipe in recipes:
        for kind in recipe if isinstance(recipe, list) else [recipe]:
            if not hasattr(kind, "value"):
                raise AttributeError(f"'{type(kind).__name__}' object has no attribute 'value'")


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Tensor | None = None,
    output_dtype: Any = torch.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """ValueError: it multiplies numbers of eight bits, and there are no dtypes of them here."""
    _are_recipes(scale_recipe_a, scale_recipe_b)
    raise ValueError(
        f"Invalid scaling configuration: a and b should be float8 or float4, and are {mat_a.dtype} and {mat_b.dtype}"
    )


def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Any,
    scale_recipe_a: Any,
    scale_b: Any,
    scale_recipe_b: Any,
    swizzle_a: Any = None,
    swizzle_b: Any = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: Any = torch.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """NotImplementedError: there is a kernel for GPUs only, and there are no dtypes of eight bits here."""
    _are_recipes(scale_recipe_a, scale_recipe_b)
    raise NotImplementedError("Could not run 'aten::_scaled_grouped_mm_v2' with arguments from the 'CPU' backend.")


_gates.gates.offer(
    globals(),
    "torch.nn.functional",
    _gates.PYTHON,
    _gates.Public(globals(), but=("sigmoid", "tanh", "upsample", "upsample_bilinear", "upsample_nearest")),
)
