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
# # How parameters start: `nn.init`
#
# A layer allocates its parameters with `empty` and fills them in `reset_parameters`, with a function of this file. Each works in
# place, under `no_grad`, and returns its tensor. Since they draw from the same generator in the same order as upstream, a model
# built after the same `manual_seed` starts from the same numbers.
#
# Which numbers would do? Any, one should think, since they will be trained. Fifty layers answer that: a batch of unit variance goes in, and all that changes from line to line is how wide the weights are drawn.

# %%
import math

import matplotlib.pyplot as plt

import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()


# %%
def scales(fill, activation=torch.relu, depth=50, width=256):
    """The root mean square of the activations behind each of `depth` layers."""
    torch.manual_seed(0)
    x = torch.randn(64, width)
    result = []
    for _ in range(depth):
        x = activation(x @ fill(torch.empty(width, width)).t())
        result.append(x.square().mean().sqrt().item())
    return result


for std in (0.01, 0.05, 0.0884, 0.1, 1.0):
    seen = scales(lambda w, std=std: w.normal_(0, std))
    print(f"std {std:<6} " + "  ".join(f"layer {n}: {seen[n - 1]:8.2g}" for n in (1, 10, 50)))

# %% [markdown]
# One hundredth is too small by a factor per layer, one tenth too large, and a factor to the fiftieth power leaves the range of float32 in either direction. The gradients suffer the same, on their way back. Only near √(2/256) = 0.0884 does the scale survive. This file is about that number.

# %%
#| into: nn/init.py
#| imports
from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad

# %% [markdown]
# ## How large a random weight may be
#
# A sum of `fan_in` independent terms has a variance `fan_in` times that of one of them. Weights with variance `gain² / fan_in` keep
# the scale of activations through a layer (Glorot and Bengio 2010, He et al. 2015); `gain` makes up for what the non-linearity that
# follows takes away: a ReLU halves the second moment, hence `sqrt(2)`.

# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#calculate_gain
_GAINS = {
    **dict.fromkeys(("linear", "sigmoid", "conv1d", "conv2d", "conv3d"), 1),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1),
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain for a non-linearity, by its name in `nn.functional`.

    `param` is the negative slope where the name is `leaky_relu` (0.01 if None). Raises ValueError for other names.
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"negative_slope {slope} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if not isinstance(nonlinearity, str) or nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#_calculate_fan_in_and_fan_out
def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """(Inputs of one output element, outputs of one input element) of a weight `(out, in, *kernel)`."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    outputs, inputs, *kernel = tensor.shape
    field = math.prod(kernel)
    return inputs * field, outputs * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


# %%
names = ("linear", "sigmoid", "tanh", "relu", "leaky_relu", "selu")
{name: round(nn.init.calculate_gain(name), 3) for name in names}

# %% [markdown]
# The gain of `relu` is an identity, that of `tanh` a rule of thumb: 5/3 keeps a deep stack alive at a scale of about 0.65, which is where it settles from any start. And that of `selu` is not the one of the paper. Klambauer et al. (2017) draw with variance `1 / fan_in`, which is the gain of `linear`, and have the scale of 1 as a fixed point; with 3/4 it sinks to a fifth.
# (It was chosen for gradients; pytorch/pytorch#53694.) A self-normalizing network is initialized with `kaiming_normal_(w, nonlinearity="linear")`.


# %%
#| claim: behind fifty layers of SELU the scale is 1 with the gain of "linear" and a fifth with that of "selu"
def _(torch):
    def scale(nonlinearity):
        torch.manual_seed(0)
        x = torch.randn(64, 256)
        for _ in range(50):
            w = torch.nn.init.kaiming_normal_(torch.empty(256, 256), nonlinearity=nonlinearity)
            x = torch.selu(x @ w.t())
        return x.square().mean().sqrt().item()

    assert 0.9 < scale("linear") < 1.1 and 0.15 < scale("selu") < 0.25


# %% [markdown]
# The fans are read off the shape, by the convention of `Linear` and of convolutions: outputs first. The function cannot know whose weight it is given, and for three kinds of weights it is wrong. A *transposed* convolution's begins with its inputs. A matrix that is used as `x @ w` does, too. And with `groups` the outputs of one input are fewer than the first
# dimension says. The first of these stands in every `nn.ConvTranspose2d`, whose weights are drawn from an interval that its number of *output* channels sets: the last layer of a decoder, 64 channels to 2, starts six times as wide as the convolution of the opposite direction.


# %%
#| claim: the fan of a transposed convolution counts its outputs, and its weights are drawn accordingly
#| upstream: torch/nn/init.py#_calculate_fan_in_and_fan_out
def _(torch):
    import math

    fans = torch.nn.init._calculate_fan_in_and_fan_out
    wide, narrow = torch.nn.ConvTranspose2d(64, 2, 4).weight, torch.nn.Conv2d(64, 2, 4).weight
    assert fans(wide) == (2 * 16, 64 * 16) and fans(narrow) == (64 * 16, 2 * 16)
    assert 0.9 / math.sqrt(2 * 16) < wide.abs().max().item() <= 1 / math.sqrt(2 * 16)
    assert 0.9 / math.sqrt(64 * 16) < narrow.abs().max().item() <= 1 / math.sqrt(64 * 16)
    depthwise = torch.nn.Conv2d(64, 64, 3, groups=64).weight
    assert fans(depthwise) == (9, 64 * 9)  # nine inputs each, and an input goes to nine places, not to 576


# %% [markdown]
# ## Plain distributions and constants


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#uniform_
#| upstream: torch/nn/init.py#normal_
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill with draws from U(a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill with draws from N(mean, std²)."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


# %% [markdown]
# `constant_`, `ones_` and `zeros_` stand in chapter 3, whose layers are the first to need them.


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#eye_
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity, padded by zeros where it is not square. Raises ValueError if it is no matrix."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.copy_(torch.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))
    return tensor


# %% [markdown]
# The identity of a convolution is a kernel with a single 1 in its middle, from each input channel to the output channel of the same
# number.


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#dirac_
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution weight `(out, in, *kernel)`, 1 to 3 spatial dimensions, so that channels pass unchanged.

    With `groups`, each group of output channels passes its own inputs. Raises ValueError for other ranks, or if `groups`
    does not divide the output channels.
    """
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *kernel = tensor.shape
    if outputs % groups:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = outputs // groups
    middle = tuple(size // 2 for size in kernel)
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, inputs)):
                tensor[(group * per_group + channel, channel, *middle)] = 1
    return tensor


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))


# %%
image = torch.arange(12.0).reshape(1, 1, 3, 4)
torch.equal(nn.functional.conv2d(image, nn.init.dirac_(torch.empty(1, 1, 3, 3)), padding=1), image)

# %% [markdown]
# ## Scaled to the layer
#
# `1 / fan_in` keeps the scale of activations on the way forward, `1 / fan_out` that of gradients on the way back. Glorot and Bengio take the mean of the two fans; He et al. say that one of them is enough, since in a network the factors of the other direction cancel except at its ends, and put the gain of a ReLU in.


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#xavier_uniform_
#| upstream: torch/nn/init.py#xavier_normal_
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill from U(-a, a), a = gain · sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)  # U(-a, a) has the standard deviation a / sqrt(3)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill from N(0, std²), std = gain · sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#kaiming_uniform_
#| upstream: torch/nn/init.py#kaiming_normal_
def _has_no_elements(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Fill from U(-b, b), b = gain · sqrt(3 / fan) (He et al. 2015).

    `a` is the negative slope of the leaky ReLU that follows. `mode` keeps the scale of activations (`fan_in`) or of
    gradients (`fan_out`).
    """
    if _has_no_elements(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Fill from N(0, std²), std = gain / sqrt(fan) (He et al. 2015); arguments as `kaiming_uniform_`."""
    if _has_no_elements(tensor):
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


# %% [markdown]
# The same fifty layers, with each of them:

# %%
fills = {
    "xavier_normal_": nn.init.xavier_normal_,
    "kaiming_normal_, relu": lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
    "as nn.Linear does": lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5)),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
for name, fill in fills.items():
    left.plot(range(1, 51), scales(fill), label=name)
    right.plot(range(1, 51), scales(fill, torch.tanh), label=name)
right.plot(range(1, 51), scales(lambda w: nn.init.xavier_normal_(w, gain=5 / 3), torch.tanh), label="xavier, gain 5/3")
for axes, title in ((left, "relu"), (right, "tanh")):
    axes.set_yscale("log")
    axes.set_ylim(1e-12, 10)
    axes.set_xlabel(f"layers with {title}")
    axes.legend(frameon=False, fontsize=8)
left.set_ylabel("scale of the activations")
figure.tight_layout()

# %% [markdown]
# With `kaiming_normal_` the curve is level, but not quite: the product of fifty random factors wanders, the more the narrower the layers are. The third line is what a plain `nn.Linear` starts with. It is no scheme for deep networks. Why do `nn.Linear` and the convolutions call `kaiming_uniform_` with `a=sqrt(5)`? Because `gain(sqrt(5)) = sqrt(1/3)`, and with it
# the bound is `1 / sqrt(fan_in)`, the one of Lua Torch, kept when the calls were rewritten in terms of this file. The variance is a third of `1 / fan_in`, a ReLU halves what is left, and a layer keeps 41 % of the scale. What saves shallow networks is the bias, drawn from the same interval, and deep ones a normalization after each layer.
#
# In between, the bias is what is left. Two unrelated inputs go through a plain stack of `Linear` and `ReLU`:

# %%
torch.manual_seed(0)
stack = nn.Sequential(*(layer for _ in range(25) for layer in (nn.Linear(256, 256), nn.ReLU())))
first, second = torch.randn(1, 256), torch.randn(1, 256)
apart = []
with torch.no_grad():
    for layer in stack:
        first, second = layer(first), layer(second)
        apart.append(((first - second).norm() / first.norm()).item())
[f"{value:.1g}" for value in apart[1::4]]


# %%
#| claim: behind 25 plain layers of Linear and ReLU two unrelated inputs cannot be told apart any more
def _(torch):
    torch.manual_seed(0)
    nn = torch.nn
    stack = nn.Sequential(*(layer for _ in range(25) for layer in (nn.Linear(256, 256), nn.ReLU())))
    with torch.no_grad():
        first, second = stack(torch.randn(2, 256))
    assert first.norm() > 0.3 and (first - second).norm() < 1e-6


# %%
#| claim: kaiming_uniform_ with a=sqrt(5) draws from the interval of width 2/sqrt(fan_in), and so does a fresh Linear
def _(torch):
    import math

    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 300)
    torch.manual_seed(0)
    by_hand = torch.empty(300, 64).uniform_(-1 / math.sqrt(64), 1 / math.sqrt(64))
    assert torch.equal(layer.weight, by_hand)


# %% [markdown]
# Since all layers draw from one generator, a model's start depends on the order of its lines. A layer that is added in front moves all that come behind it, and two runs "with the same seed" are no longer to be compared. What is built on the meta device draws nothing; neither does `skip_init`.


# %%
#| claim: with one seed, a layer added in front changes the start of those behind it; one on the meta device does not
def _(torch):
    def last(*before):
        torch.manual_seed(0)
        for make in before:
            make()
        return torch.nn.Linear(3, 3).weight

    def on_meta():
        with torch.device("meta"):
            torch.nn.Linear(5, 5)

    assert not torch.equal(last(), last(lambda: torch.nn.Linear(5, 5)))
    assert torch.equal(last(), last(on_meta))


# %%
#| claim: an initialiser writes to the parameter itself, with recording off, and its version tells
def _(torch):
    weight = torch.nn.Parameter(torch.ones(2, 2))
    assert torch.nn.init.zeros_(weight) is weight
    assert weight.is_leaf and weight.requires_grad and weight._version == 1


# %% [markdown]
# ## Truncated, orthogonal, sparse
#
# `trunc_normal_` redraws what falls outside. Where most of the mass lies inside the bounds, only the rejected elements are drawn
# again from the normal distribution; where little does, candidates are uniform and accepted with the density's height (rejection
# sampling), so that the loop ends soon in both cases.
#
# `a` and `b` are values and not multiples of `std`. In `trunc_normal_(w, std=0.02)`, which stands in most vision transformers, the bounds are −2 and 2, a hundred standard deviations away, and nothing is truncated. Who wants two standard deviations says `a=-2 * std, b=2 * std`, and gets a spread of 0.88 `std`.


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#trunc_normal_
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Fill from N(mean, std²) restricted to [a, b]."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b], where trunc_normal_ is inexact: the values may not be distributed as asked",
            stacklevel=2,
        )
    inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    if tensor.is_meta:
        return tensor
    with no_grad():
        if inside > 0.3:
            _redraw_outside(tensor, mean, std, a, b, generator)
        else:
            _accept_by_height(tensor, mean, std, a, b, generator)
    return tensor


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _redraw_outside(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: torch.Generator | None
) -> None:
    low, high = (tensor.new_tensor(bound).item() for bound in (a, b))  # the bounds in the tensor's own precision
    tensor.normal_(mean, std, generator=generator)
    while (outside := (tensor < low) | (tensor > high)).any():
        tensor.copy_(torch.where(outside, torch.empty_like(tensor).normal_(mean, std, generator=generator), tensor))


def _accept_by_height(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: torch.Generator | None
) -> None:
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def rejected(candidates: Tensor) -> Tensor:
        log_height = candidates.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        return torch.empty_like(candidates).uniform_(generator=generator).log_().gt(log_height)

    tensor.uniform_(a, b, generator=generator)
    pending = rejected(tensor)
    while pending.any():
        candidates = torch.empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(torch.where(pending, candidates, tensor))
        pending = torch.where(pending, rejected(candidates), pending)


# %%
#| claim: trunc_normal_ with std=0.02 truncates nothing; truncated at two standard deviations it has 0.88 of the spread
def _(torch):
    torch.manual_seed(0)
    w = torch.nn.init.trunc_normal_(torch.empty(10_000), std=0.02)
    assert w.abs().max() > 3 * 0.02 and abs(w.std().item() - 0.02) < 0.001
    w = torch.nn.init.trunc_normal_(torch.empty(10_000), std=0.02, a=-0.04, b=0.04)
    assert w.abs().max() <= 0.04 and abs(w.std().item() / 0.02 - 0.88) < 0.02


# %% [markdown]
# A random matrix keeps the *mean* length of vectors, and stretches some more than others. After many layers the difference is all that is left. An orthogonal one keeps every length, so a deep linear network trains at a rate that does not depend on its depth (Saxe et al.). The factor Q of a random matrix is orthogonal, but not yet random. LAPACK reflects each column to the side that is farther away, since that cancels
# nothing; R's diagonal gets the sign opposite to the column's, and the first element of Q is never positive.


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#orthogonal_
def orthogonal_(tensor: Tensor, gain: float = 1, generator: torch.Generator | None = None) -> Tensor:
    """Fill with a (semi-)orthogonal matrix times `gain`; dimensions after the first are taken together (Saxe et al. 2013).

    Raises ValueError for fewer than two dimensions.
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with no_grad():
        random = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = torch.linalg.qr(random.t() if rows < columns else random)
        # QR leaves the sign of each column open: fixing it by r's diagonal makes q uniform over orthogonal matrices
        q = q * torch.diag(r, 0).sign()
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape))
        tensor.mul_(gain)
    return tensor


# %%
torch.manual_seed(0)
depth, lengths = 50, {}
for name, fill in (
    ("normal", lambda w: nn.init.normal_(w, std=w.shape[1] ** -0.5)),
    ("orthogonal", nn.init.orthogonal_),
):
    product = torch.eye(64)
    for _ in range(depth):
        product = fill(torch.empty(64, 64)) @ product
    lengths[name] = torch.linalg.svdvals(product)
{
    name: f"longest {s[0].item():.2g}, median {s[32].item():.2g}, shortest {s[-1].item():.2g}"
    for name, s in lengths.items()
}


# %%
#| claim: an orthogonal start keeps lengths; the first element of a plain factor Q is never positive, the initialiser's has either sign
def _(torch):
    torch.manual_seed(0)
    square, tall = (torch.nn.init.orthogonal_(torch.empty(rows, 8)) for rows in (8, 20))
    x = torch.randn(8)
    assert torch.allclose((square @ x).norm(), x.norm()) and torch.allclose((tall @ x).norm(), x.norm())
    plain = [torch.linalg.qr(torch.randn(3, 3))[0][0, 0] for _ in range(300)]
    fixed = [torch.nn.init.orthogonal_(torch.empty(3, 3))[0, 0] for _ in range(300)]
    assert torch.stack(plain).max() <= 0 and torch.stack(fixed).mean().abs() < 0.1


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#sparse_
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: torch.Generator | None = None) -> Tensor:
    """Fill a matrix from N(0, std²) and set the fraction `sparsity` of each column to zero (Martens 2010)."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[torch.randperm(rows)[:zeros], column] = 0
    return tensor


# %%
torch.manual_seed(0)
(nn.init.sparse_(torch.empty(6, 4), sparsity=0.5) != 0).int()


# %%
#| claim: sparse_ zeroes the same number of elements in each column, rounded up
def _(torch):
    w = torch.nn.init.sparse_(torch.empty(7, 5), sparsity=0.5)
    assert (w == 0).sum(0).tolist() == [4] * 5


# %% [markdown]
# ## Old spellings
#
# Until 0.4 the functions had no trailing underscore although they always worked in place. Public code still calls them.


# %%
#| into: nn/init.py
#| upstream: torch/nn/init.py#_make_deprecate
def _make_deprecate(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    new_name = function.__name__
    old_name = new_name[:-1]

    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        message = f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`."
        warnings.warn(message, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    deprecated.__name__ = old_name
    deprecated.__doc__ = f"Deprecated: use `{new_name}`."
    return deprecated


uniform = _make_deprecate(uniform_)
normal = _make_deprecate(normal_)
constant = _make_deprecate(constant_)
eye = _make_deprecate(eye_)
dirac = _make_deprecate(dirac_)
xavier_uniform = _make_deprecate(xavier_uniform_)
xavier_normal = _make_deprecate(xavier_normal_)
kaiming_uniform = _make_deprecate(kaiming_uniform_)
kaiming_normal = _make_deprecate(kaiming_normal_)
orthogonal = _make_deprecate(orthogonal_)
sparse = _make_deprecate(sparse_)


# %%
#| claim: an initialiser without an underscore warns, and works in place all the same
def _(torch):
    import warnings

    weight = torch.ones(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.nn.init.constant(weight, 3.0) is weight and weight.tolist() == [3.0, 3.0]
    assert issubclass(caught[0].category, FutureWarning) and "nn.init.constant_" in str(caught[0].message)


# %% [markdown]
# ### What upstream does more
#
# * `trunc_normal_` warns as ours does, and `torch.nn.init` has no more functions; but several, `kaiming_uniform_` among them, ask a subclass of `Tensor` before they look at anything. [Who is asked](../a2_layers/20_namespace.py#who-is-asked) is the last part's subject.
# * Fans with `groups`, and of transposed convolutions, are as wrong there as here: ours are upstream's, to the last bit.
