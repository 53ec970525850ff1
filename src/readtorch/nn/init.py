# Tangled from chapters/03_norm.py, chapters/a2_layers/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.csrc.utils import gates as _gates


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


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill with draws from U(a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill with draws from N(mean, std²)."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity, padded by zeros where it is not square. Raises ValueError if it is no matrix."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        tensor.copy_(torch.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))
    return tensor


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


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill from U(-a, a), a = gain · sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)  # U(-a, a) has the standard deviation a / sqrt(3)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: torch.Generator | None = None) -> Tensor:
    """Fill from N(0, std²), std = gain · sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


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

_gates.gates.offer(
    globals(), "torch.nn.init", _gates.KEYWORDS, ("constant_", "kaiming_uniform_", "normal_", "uniform_")
)
