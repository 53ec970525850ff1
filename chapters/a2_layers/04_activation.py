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
# # Activations
#
# One class per function of `nn.functional`. They own nothing (`PReLU` excepted); they exist so that a non-linearity can be an entry
# of a `Sequential`, be printed, and be hooked.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %%
#| into: nn/modules/activation.py
#| imports
from __future__ import annotations

import warnings
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.nn import functional as F
from readtorch.nn import init
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter

# %% [markdown]
# ## Piecewise linear
#
# With `inplace=True` the input itself is overwritten, which saves its size in memory and is an error in backward if something
# before it saved its output.


# %%
#| into: nn/modules/activation.py
#| upstream: torch/nn/modules/activation.py#Threshold
#| upstream: torch/nn/modules/activation.py#ReLU
#| upstream: torch/nn/modules/activation.py#RReLU
class Threshold(Module):
    """`x` where `x > threshold`, else `value`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}{_inplace_suffix(self)}"


class ReLU(Module):
    """`max(x, 0)`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class RReLU(Module):
    """Leaky ReLU whose negative slope is drawn from U(lower, upper) per element in training, its mean in evaluation."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}{_inplace_suffix(self)}"


# %%
#| into: nn/modules/activation.py
def _inplace_suffix(module: Any) -> str:
    return ", inplace=True" if module.inplace else ""


# %%
#| into: nn/modules/activation.py
#| upstream: torch/nn/modules/activation.py#Hardtanh
#| upstream: torch/nn/modules/activation.py#ReLU6
#| upstream: torch/nn/modules/activation.py#LeakyReLU
#| upstream: torch/nn/modules/activation.py#PReLU
class Hardtanh(Module):
    """`x` clamped to [min_val, max_val]. Raises AssertionError unless min_val < max_val."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None:
            message = "keyword argument `min_value` is deprecated and renamed to `min_val`"
            warnings.warn(message, FutureWarning, stacklevel=2)
            min_val = min_value
        if max_value is not None:
            message = "keyword argument `max_value` is deprecated and renamed to `max_val`"
            warnings.warn(message, FutureWarning, stacklevel=2)
            max_val = max_value
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{_inplace_suffix(self)}"


class ReLU6(Hardtanh):
    """`min(max(x, 0), 6)`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """`x` where `x > 0`, else `negative_slope * x`."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{_inplace_suffix(self)}"


class PReLU(Module):
    """Leaky ReLU with learned slopes: one, or one per channel (dimension 1)."""

    weight: Tensor

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


# %% [markdown]
# ## Smooth


# %%
#| into: nn/modules/activation.py
#| upstream: torch/nn/modules/activation.py#Sigmoid
#| upstream: torch/nn/modules/activation.py#Tanh
#| upstream: torch/nn/modules/activation.py#LogSigmoid
#| upstream: torch/nn/modules/activation.py#Softsign
#| upstream: torch/nn/modules/activation.py#Tanhshrink
class Sigmoid(Module):
    """`1 / (1 + exp(-x))`."""

    def forward(self, input: Tensor) -> Tensor:
        return torch.sigmoid(input)


class Tanh(Module):
    """`tanh(x)`."""

    def forward(self, input: Tensor) -> Tensor:
        return torch.tanh(input)


class LogSigmoid(Module):
    """`log(sigmoid(x))`, computed without forming the sigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """`x / (1 + |x|)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """`x - tanh(x)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


# %%
#| into: nn/modules/activation.py
#| upstream: torch/nn/modules/activation.py#ELU
#| upstream: torch/nn/modules/activation.py#CELU
#| upstream: torch/nn/modules/activation.py#SELU
class ELU(Module):
    """`x` where `x > 0`, else `alpha * (exp(x) - 1)`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_inplace_suffix(self)}"


class CELU(Module):
    """`max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`: an ELU with a continuous derivative for every alpha."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_inplace_suffix(self)}"


class SELU(Module):
    """`scale * ELU(x, alpha)` with the constants that keep mean 0 and variance 1 (Klambauer et al. 2017)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


# %%
#| into: nn/modules/activation.py
#| upstream: torch/nn/modules/activation.py#GELU
#| upstream: torch/nn/modules/activation.py#SiLU
#| upstream: torch/nn/modules/activation.py#Mish
#| upstream: torch/nn/modules/activation.py#Softplus
class GELU(Module):
    """`x * Phi(x)`, Phi the normal distribution function, or its tanh approximation."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """`x * sigmoid(x)`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Mish(Module):
    """`x * tanh(softplus(x))`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Softplus(Module):
    """`log(1 + exp(beta x)) / beta`; the identity where `beta x > threshold`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


# %% [markdown]
# ## Hard approximations, shrinkage, gates


# %%
#| into: nn/modules/activation.py
#| upstream: torch/nn/modules/activation.py#Hardsigmoid
#| upstream: torch/nn/modules/activation.py#Hardswish
#| upstream: torch/nn/modules/activation.py#Hardshrink
#| upstream: torch/nn/modules/activation.py#Softshrink
#| upstream: torch/nn/modules/activation.py#GLU
class Hardsigmoid(Module):
    """`min(max(x + 3, 0), 6) / 6`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class Hardswish(Module):
    """`x * hardsigmoid(x)`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class Hardshrink(Module):
    """`x` where `|x| > lambd`, else 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """`x` moved towards 0 by `lambd`, and 0 within it."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class GLU(Module):
    """`a * sigmoid(b)`, where `a` and `b` are the halves of the input along `dim`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


# %% [markdown]
# ## Softmax and its relatives


# %%
#| into: nn/modules/activation.py
#| upstream: torch/nn/modules/activation.py#Softmax
#| upstream: torch/nn/modules/activation.py#Softmin
#| upstream: torch/nn/modules/activation.py#LogSoftmax
#| upstream: torch/nn/modules/activation.py#Softmax2d
class Softmax(Module):
    """`exp(x) / sum(exp(x))` along `dim`. Without `dim` one is guessed from the rank, with a warning."""

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "dim"):
            self.dim = None

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmin(Module):
    """`softmax(-x)` along `dim`."""

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "dim"):
            self.dim = None

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """`log(softmax(x))` along `dim`, computed as `x - logsumexp(x)`."""

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "dim"):
            self.dim = None

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels at each place of `(N, C, H, W)` or `(C, H, W)`. Raises ValueError for other ranks."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


# %%
nn.Sequential(nn.ReLU(inplace=True), nn.LeakyReLU(), nn.GELU(), nn.Softmax(dim=1))


# %% [markdown]
# Two of these classes behave differently in training and evaluation, and the flag `training` is all that tells them: `RReLU` draws slopes in the one and takes their mean in the other, and so does dropout in its way. `eval()` sets that flag and nothing else.


# %%
#| claim: in evaluation RReLU has the mean of its slopes; an in-place activation returns the object it was given
#| upstream: torch/nn/modules/activation.py#RReLU
def _(torch):
    layer = torch.nn.RReLU(0.1, 0.3)
    below = torch.tensor([-1.0, -1.0])
    first, second = layer(below)
    assert first != second and -0.3 <= first <= -0.1
    assert torch.allclose(layer.eval()(below), torch.tensor([-0.2, -0.2]))
    assert torch.nn.ReLU(inplace=True)(below) is below and below.tolist() == [0, 0]
