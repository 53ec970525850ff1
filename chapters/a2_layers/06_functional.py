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
#
# Who writes `F.dropout(x)` in a `forward` has left the layer out, and with it the one thing that the layer knew: whether the model is being trained. A function has no mode. It has a default, and the defaults do not agree.

# %%
import inspect

import matplotlib.pyplot as plt

import readtorch as torch
from readtorch import nn
from readtorch.nn import functional as F
from readtorch.literate import live

live()

# %%
for name in ("dropout", "dropout2d", "alpha_dropout", "feature_alpha_dropout", "rrelu", "batch_norm"):
    print(f"{name:22} training={inspect.signature(getattr(F, name)).parameters['training'].default}")

# %% [markdown]
# So a `F.dropout(x)` goes on dropping behind `model.eval()`, and a `F.alpha_dropout(x)` never begins. Pass `self.training`, or use the layer.


# %%
#| claim: F.dropout drops unless told not to, F.alpha_dropout and F.rrelu are in evaluation unless told otherwise; the mode of a model is not asked
def _(torch):
    F = torch.nn.functional

    class Model(torch.nn.Module):
        def forward(self, x):
            return F.dropout(x), F.alpha_dropout(x), F.rrelu(-x)

    dropped, alpha, slopes = Model().eval()(torch.ones(1000))
    assert 300 < (dropped == 0).sum() < 700
    assert torch.equal(alpha, torch.ones(1000)) and slopes.unique().numel() == 1


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
from readtorch.csrc.utils.python_arg_parser import is_int, is_sequence_of_ints, require
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

# %%
same = [
    name
    for name in vars(F)
    if name[0] != "_" and getattr(F, name) in (getattr(torch, name, 0), getattr(torch._C._nn, name, 0))
]
len(same), ", ".join(sorted(same))

# %% [markdown]
# These are where a search for the Python source of a function ends (pytorch/pytorch#25381). Which of them lie below `torch` and which below `torch._C._nn`, has historical reasons only: the second place is for operators that nobody should call as `torch.avg_pool2d`.
#
# ## Pooling
#
# With `return_indices` a max pool is another function with two results. Upstream calls the pair a *boolean dispatch*; the `if` below is
# the whole of it. Upstream needs more than an `if` since TorchScript must know the type of a result before anything runs, and a flag changes it here.


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
numbers = torch.arange(16.0).view(1, 1, 4, 4).requires_grad_()

# %%
#| trace: torch.nn.functional torch.csrc.autograd layers=calls,ops values=summary title="max_pool2d, and the node of another operator"
pooled = F.max_pool2d(numbers, 2)

# %% [markdown]
# The node is a `MaxPool2DWithIndicesBackward0`, of an operator that was not asked for: backward has to know where each maximum was. Upstream computes the indices in either case and keeps them in the node; ours keeps input and result, and looks for the maxima again. An index counts through the *flattened plane* of its channel, without the padding. That is enough to put each maximum back, which is what unpooling does, and why it must be told the size: what the windows did not reach is in no index.


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
    if input.dim() not in (4, 5):
        raise RuntimeError(
            f"Input to max_unpooling3d should be a 4d or 5d Tensor, but got a tensor with {input.dim()} dimensions."
        )
    kernel, pads = _triple(kernel_size), _triple(padding)
    steps = kernel if stride is None else _triple(stride)
    size = _unpool_output_size(input, kernel, steps, pads, output_size)
    return _nn.max_unpool3d(input, indices, size, steps, pads)


# %%
picture = torch.tensor([[1.0, 3, 2, 0, 1], [4, 2, 1, 5, 2], [0, 1, 6, 2, 3], [2, 7, 1, 0, 4]])[None, None]
values, indices = F.max_pool2d(picture, 2, return_indices=True)
back = F.max_unpool2d(values, indices, 2, output_size=picture.shape)
values[0, 0].tolist(), indices[0, 0].tolist(), back[0, 0].tolist()


# %%
#| claim: an index of max pooling counts through the unpadded plane; a place that wins two windows is put back once
def _(torch):
    F = torch.nn.functional
    row = torch.tensor([1.0, 5.0, 2.0]).view(1, 1, 1, 3)
    values, indices = F.max_pool2d(row, (1, 2), stride=1, return_indices=True)
    assert values.flatten().tolist() == [5, 5] and indices.flatten().tolist() == [1, 1]
    assert F.max_unpool2d(values, indices, (1, 2), stride=(1, 1)).flatten().tolist() == [0, 5, 0]
    _, indices = F.max_pool2d(torch.ones(1, 1, 3, 3), 3, stride=1, padding=1, return_indices=True)
    assert indices[0, 0].tolist() == [[0, 0, 1], [0, 0, 1], [3, 3, 4]]


# %% [markdown]
# A power-average pool has no kernel of its own: it is an average pool of powers, multiplied by the size of a window. The odd line with `sign` and `relu` keeps negative sums, which an odd power may have, from becoming something else than NaN.


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
row = torch.tensor([[[3.0, 4.0, 6.0, 8.0]]])
{p: F.lp_pool1d(row, p, 2).flatten().tolist() for p in (1, 2, 8, float("inf"))}

# %% [markdown]
# An *adaptive* pool is told how many windows there should be. Window *i* of *m* over *n* places begins at ⌊*i n / m*⌋ and ends before ⌈(*i* + 1) *n / m*⌉. Where *m* does not divide *n* they overlap or differ in length, so an adaptive pool is a plain pool only where it does.


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
    _require_sizes("adaptive_avg_pool3d", output_size, 3)
    return _nn.adaptive_avg_pool3d(input, _list_with_default(output_size, input.size()))


# %%
figure, several = plt.subplots(1, 3, figsize=(8, 1.8))
for axes, (places, count) in zip(several, ((12, 4), (10, 4), (7, 4)), strict=True):
    for number in range(count):
        x = torch.zeros(1, 1, places, requires_grad=True)
        (reached,) = torch.autograd.grad(F.adaptive_avg_pool1d(x, count)[0, 0, number], x)
        (window,) = reached[0, 0].nonzero(as_tuple=True)
        axes.barh(number, len(window), left=window[0].item(), height=0.7, edgecolor="white")
    axes.set_title(f"{places} places, {count} windows", fontsize=10)
    axes.set_yticks([])
    axes.set_xticks(range(0, places + 1, 2))
    axes.invert_yaxis()
figure.tight_layout()


# %%
#| claim: window i of m over n places is from floor(i n / m) to ceil((i + 1) n / m), for the mean and for the maximum
def _(torch):
    F = torch.nn.functional
    for n, m in ((12, 4), (10, 4), (7, 4), (5, 3), (3, 5)):
        x = torch.randn(n)
        windows = [x[i * n // m : -(-(i + 1) * n // m)] for i in range(m)]
        assert torch.allclose(F.adaptive_avg_pool1d(x[None], m)[0], torch.stack([w.mean() for w in windows]))
        assert torch.equal(F.adaptive_max_pool1d(x[None], m)[0], torch.stack([w.max() for w in windows]))


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


# %%
#| into: nn/functional.py
#| upstream: torch/nn/functional.py#fractional_max_pool2d_with_indices
#| upstream: torch/nn/functional.py#fractional_max_pool3d_with_indices
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
# One of them cannot be in place with every argument. A leaky ReLU keeps its *result* in place of its input, and tells by its sign which branch was taken. With a negative slope both branches are positive, and the sign is lost.


# %%
#| claim: a leaky ReLU in place is differentiated by the sign of its result, and upstream refuses a negative slope in backward
#| differs: ours keeps a copy of the input, in which the sign is as it was
def _(torch):
    x = torch.tensor([-1.0, 1.0], requires_grad=True)
    y = torch.nn.functional.leaky_relu(x.clone(), -0.1, inplace=True)
    try:
        y.sum().backward()
    except RuntimeError as error:
        assert "negative slope" in str(error)
    else:
        raise AssertionError("went back")


# %%
#| claim: a gradient that is infinite or NaN ends at a closed ReLU, and at the places that a pool did not choose
def _(torch):
    x = torch.tensor([[[-1.0, 1.0]]], requires_grad=True)
    for function in (torch.relu, lambda x: torch.nn.functional.max_pool1d(x, 2)):
        y = function(x)
        (gradient,) = torch.autograd.grad(y, x, torch.full_like(y, float("inf")))
        assert gradient.flatten().tolist() == [0.0, float("inf")]


# %%
x = torch.linspace(-4, 4, 161)
names = ("leaky_relu", "elu", "silu", "mish", "hardswish", "softsign", "tanhshrink", "relu6")
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
for name in names:
    at = x.clone().requires_grad_()
    y = getattr(F, name)(at)
    (slope,) = torch.autograd.grad(y.sum(), at)
    left.plot(x.tolist(), y.tolist(), label=name)
    right.plot(x.tolist(), slope.tolist())
left.set_title("value", fontsize=10)
right.set_title("slope", fontsize=10)
left.legend(frameon=False, fontsize=7)
figure.tight_layout()

# %% [markdown]
# ## Softmax
#
# Old code# %% [markdown]
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
# The guess is from the days when a batch of vectors was the usual thing, and for sequences `(N, T, C)` it is wrong: probabilities that sum to one over the *batch*. The warning has been there since 2017.
#
# The Gumbel trick draws from a categorical distribution differentiably: noise is added to the logits before a softmax. With `hard` the
# forward value is one-hot and the gradient that of the soft one. The last line of the function is the whole *straight-through* trick: two terms that cancel in value, of which one has no history.


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


# %%
torch.manual_seed(0)
logits = torch.tensor([0.0, 1.0, 2.0])
figure, several = plt.subplots(1, 4, figsize=(8, 2), sharey=True)
for axes, tau in zip(several, (0.1, 0.5, 1.0, 5.0), strict=True):
    sample = F.gumbel_softmax(logits.expand(4000, 3), tau=tau)
    axes.hist(sample[:, 2].numpy(), bins=25, range=(0, 1))
    axes.set_title(f"tau {tau}", fontsize=10)
    axes.set_xlabel("share of the third")
several[0].set_ylabel("samples")
figure.tight_layout()


# %% [markdown]
# Small `tau`: nearly one-hot, and gradients that are nearly always 0 and sometimes huge. Large `tau`: smooth, and far from a choice. The *frequencies* of the winners do not depend on it.


# %%
#| claim: the winners of hard Gumbel samples have the frequencies of the softmax, at any temperature
def _(torch):
    torch.manual_seed(0)
    logits = torch.tensor([0.0, 1.0, 2.0])
    for tau in (0.1, 5.0):
        frequency = torch.nn.functional.gumbel_softmax(logits.expand(20_000, 3), tau=tau, hard=True).mean(0)
        assert (frequency - logits.softmax(0)).abs().max() < 0.015


# %% [markdown]
# ## Embedding
#
# Two arguments of a lookup act on the weight and not on the result. `padding_idx` shields a row from gradients; it does not make the row zero, which only the layer does, once. And `max_norm` *writes* to the weight before it is read, under `no_grad`, in evaluation too: a forward pass that changes the model.


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
#| claim: the function returns the padding row as it is, and sends it no gradient; with max_norm a lookup shortens the rows that it reads, and no others
def _(torch):
    weight = torch.full((3, 2), 5.0, requires_grad=True)
    found = torch.nn.functional.embedding(torch.tensor([0, 1]), weight, padding_idx=0)
    found.sum().backward()
    assert found.tolist() == [[5, 5], [5, 5]] and weight.grad.tolist() == [[0, 0], [1, 1], [0, 0]]
    weight = torch.full((3, 2), 5.0)
    torch.nn.functional.embedding(torch.tensor([1, 1]), weight, max_norm=1.0)
    assert torch.allclose(weight.norm(dim=1), torch.tensor([50**0.5, 1.0, 50**0.5])) and weight._version > 0


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


# %% [markdown]
# Bags save the list of rows: what is looked up is summed at once, so that a batch of long bags takes no more memory than one of short ones.

# %%
table = torch.eye(4)
words, starts = torch.tensor([0, 1, 1, 3]), torch.tensor([0, 3])
F.embedding_bag(words, table, starts, mode="sum"), F.embedding_bag(words, table, starts)

# %% [markdown]
# ## Lengths, distances, numbers of classes


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


# %% [markdown]
# Where there is nothing to divide by, the three differ. `normalize` has a floor below the length and gives zeros. `pairwise_distance` adds `eps` to the *difference*, every element of it, so that equal points are √*n* · 10⁻⁶ apart and not at all symmetric. That is a guard for the gradient (the square root has none at 0, [a bug of chapter 0](../00_tensor/18_reports_and_exercises.py#bugs-you-can-now-explain-the-graph)), and shows when distances are small.


# %%
#| claim: equal points have a distance, and d(a, b) is not d(b, a); a vector of zeros is normalized to zeros; one_hot gives integers
def _(torch):
    F = torch.nn.functional
    a, b = torch.zeros(1, 4), torch.full((1, 4), 1e-6)
    assert abs(F.pairwise_distance(a, a).item() - 2e-6) < 1e-9
    assert F.pairwise_distance(a, b).item() < 1e-9 and abs(F.pairwise_distance(b, a).item() - 4e-6) < 1e-9
    assert F.normalize(a).tolist() == [[0, 0, 0, 0]] and F.cosine_similarity(a, b).item() == 0
    hot = F.one_hot(torch.tensor([0, 2]))
    assert hot.dtype is torch.int64 and hot.tolist() == [[1, 0, 0], [0, 0, 1]]


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
