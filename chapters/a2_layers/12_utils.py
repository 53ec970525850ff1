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
# # `nn.utils`: clipping, flattening, reparametrizing
#
# Functions that work on the parameters of a model from outside.

# %%
import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %% [markdown]
# ## Clipping gradients
#
# The norm is that of all gradients as one long vector: the norm of the norms. All gradients are scaled by one factor, never above 1, so
# that their direction stays. The factor is multiplied in always, also where it is 1: a test would cost a synchronization on a GPU.

# %%
#| into: nn/utils/clip_grad.py
#| imports
from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad

# %%
#| into: nn/utils/clip_grad.py
#| upstream: torch/nn/utils/clip_grad.py#_get_total_norm
#| upstream: torch/nn/utils/clip_grad.py#_clip_grads_with_norm_
Parameters = Tensor | Iterable[Tensor]


def _as_list(parameters: Parameters) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


@no_grad()
def get_total_norm(
    tensors: Parameters, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors together, as of one vector. RuntimeError if it is not finite and that is to be an error."""
    norm_type = float(norm_type)
    norms = [torch.linalg.vector_norm(tensor, norm_type) for tensor in _as_list(tensors)]
    if not norms:
        return torch.tensor(0.0)
    first = norms[0].device
    total = torch.linalg.vector_norm(torch.stack([norm.to(first) for norm in norms]), norm_type)
    if error_if_nonfinite and not torch.isfinite(total):
        raise RuntimeError(
            f"The total norm of order {norm_type} is non-finite, so it cannot be clipped. "
            "With `error_if_nonfinite=False` the gradients are scaled by it all the same"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Parameters, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients in place by `max_norm / total_norm` where that is below 1."""
    factor = torch.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    if factor.dim():
        raise RuntimeError(f"total_norm: scalar tensor expected to be 0 dim but it has {factor.dim()} dimensions")
    for parameter in _as_list(parameters):
        if parameter.grad is not None:
            parameter.grad.mul_(factor.to(parameter.grad.device))


# %%
#| into: nn/utils/clip_grad.py
#| upstream: torch/nn/utils/clip_grad.py#clip_grad_norm_
#| upstream: torch/nn/utils/clip_grad.py#clip_grad_value_
def clip_grad_norm_(
    parameters: Parameters,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients in place so that their common norm is at most `max_norm`; returns the norm before."""
    chosen = _as_list(parameters)
    if isinstance(parameters, GeneratorType) and not chosen:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    grads = [parameter.grad for parameter in chosen if parameter.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(chosen, max_norm, total, foreach)
    return total


def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    """An old name of `clip_grad_norm_`."""
    message = (
        "`torch.nn.utils.clip_grad_norm` is now deprecated: its name, with an underscore, says that it writes in place."
    )
    warnings.warn(message, FutureWarning, stacklevel=2)
    return clip_grad_norm_(*args, **kwargs)


@no_grad()
def clip_grad_value_(parameters: Parameters, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each element of each gradient to [-clip_value, clip_value], in place."""
    clip_value = float(clip_value)
    for parameter in _as_list(parameters):
        if parameter.grad is not None:
            parameter.grad.clamp_(min=-clip_value, max=clip_value)


# %% [markdown]
# ## Parameters as one vector

# %%
#| into: nn/utils/convert_parameters.py
#| imports
from __future__ import annotations

from collections.abc import Iterable

import readtorch as torch
from readtorch._tensor import Tensor


# %%
#| into: nn/utils/convert_parameters.py
#| upstream: torch/nn/utils/convert_parameters.py#parameters_to_vector
#| upstream: torch/nn/utils/convert_parameters.py#vector_to_parameters
def _same_device(tensor: Tensor, device: object) -> object:
    if device is not None and tensor.device != device:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return tensor.device


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened and joined. TypeError if they lie on different devices."""
    device, parts = None, []
    for parameter in parameters:
        device = _same_device(parameter, device)
        parts.append(parameter.reshape(-1))
    return torch.cat(parts)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make the pieces of `vec` the parameters' data: they share its memory."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {torch.typename(vec)}")
    device, rest = None, vec
    for parameter in parameters:
        device = _same_device(parameter, device)
        own, rest = rest[: parameter.numel()], rest[parameter.numel() :]
        parameter.data = own.view_as(parameter).data


# %% [markdown]
# ## Weight normalization, the old way
#
# `w = g v / |v|`: length and direction as two parameters. A forward pre-hook computes `w` anew before each call. (The new way is a
# parametrization, below.)

# %%
#| into: aten/native/weight_norm.py
#| imports
from __future__ import annotations

from typing import Any

from readtorch.aten.core.dispatch.dispatcher import composite
from readtorch.aten.core.dispatch.operator_entry import Array
from readtorch.c10.core.wrap_dim_minimal import maybe_wrap_dim


# %%
#| into: aten/native/weight_norm.py
#| upstream: aten/src/ATen/native/WeightNorm.cpp#at::native::_weight_norm
@composite("_weight_norm")
def _weight_norm(at: Any, v: Array, g: Array, dim: int = 0) -> Any:
    """`g v / |v|`, the norm over all dimensions but `dim`."""
    return v * (g / at.norm_except_dim(v, 2, dim))


@composite("norm_except_dim")
def norm_except_dim(at: Any, v: Array, pow: int = 2, dim: int = 0) -> Any:
    """The norm over all dimensions but `dim`, which stay with size 1; over all of them if `dim` is -1."""
    rank = len(v.shape)
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"norm_except_dim(): argument 'dim' must be int, not {type(dim).__name__}")
    maybe_wrap_dim(dim, rank)
    if dim == -1:
        return at.linalg_vector_norm(v, pow, tuple(range(rank)), False)
    return at.linalg_vector_norm(v, pow, tuple(d for d in range(rank) if d != dim % rank), True)


# %%
#| into: aten/native/__init__.py
from readtorch.aten.native import weight_norm as weight_norm

# %%
#| into: nn/utils/weight_norm.py
#| imports
from __future__ import annotations

import warnings
from typing import Any, TypeVar

import readtorch as torch
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter, UninitializedParameter

# %% [markdown]
# A hook of this kind sits among the module's other forward pre-hooks, with the name of its parameter; spectral norm finds its own by the same two functions.

# %%
#| into: nn/utils/weight_norm.py
ModuleT = TypeVar("ModuleT", bound=Module)


def _hooks_of(module: Module, kind: Any, name: str) -> dict[int, Any]:
    """The forward pre-hooks of a kind that compute the parameter `name`, by their key in the module's table."""
    hooks = module._forward_pre_hooks.items()
    return {key: hook for key, hook in hooks if isinstance(hook, kind) and hook.name == name}


def _without_hook(module: ModuleT, kind: Any, name: str, complaint: str) -> ModuleT:
    """`module` after its hook has put the parameter back. ValueError where there is none."""
    for key, hook in _hooks_of(module, kind, name).items():
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(complaint)


# %%
#| into: nn/utils/weight_norm.py
#| upstream: torch/nn/utils/weight_norm.py#WeightNorm
class WeightNorm:
    """The hook that computes the weight before each call."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return torch._C._VariableFunctions._weight_norm(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        if _hooks_of(module, WeightNorm, name):
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        normed, weight = WeightNorm(name, dim), getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters: run a dummy forward first"
            )
        del module._parameters[name]
        lengths = torch.norm_except_dim(weight, 2, normed.dim)
        for suffix, part in (("_g", lengths), ("_v", weight)):
            module.register_parameter(name + suffix, Parameter(part.data))
        setattr(module, name, normed.compute_weight(module))
        module.register_forward_pre_hook(normed)
        return normed

    def remove(self, module: Module) -> None:
        """Make the product the parameter again."""
        product = Parameter(self.compute_weight(module).data)
        for gone in (self.name, self.name + "_g", self.name + "_v"):
            delattr(module, gone)
        setattr(module, self.name, product)

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


# %%
#| into: nn/utils/weight_norm.py
#| upstream: torch/nn/utils/weight_norm.py#weight_norm
#| upstream: torch/nn/utils/weight_norm.py#remove_weight_norm
def weight_norm(module: ModuleT, name: str = "weight", dim: int | None = 0) -> ModuleT:
    """Split the parameter `name` into `name_g` and `name_v`. Deprecated for `parametrizations.weight_norm`."""
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated: the one of `torch.nn.utils.parametrizations` takes its place.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: ModuleT, name: str = "weight") -> ModuleT:
    """Undo `weight_norm`. Raises ValueError if it was never applied."""
    return _without_hook(module, WeightNorm, name, f"weight_norm of '{name}' not found in {module}")


# %% [markdown]
# ## Spectral normalization, the old way
#
# Divides a weight by its largest singular value, estimated by one step of the power iteration per training call; the two vectors of the
# iteration are buffers.

# %%
#| into: nn/utils/spectral_norm.py
#| imports
from __future__ import annotations

from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter
from readtorch.nn.utils.weight_norm import ModuleT, _hooks_of, _without_hook


# %%
#| into: nn/utils/spectral_norm.py
#| upstream: torch/nn/utils/spectral_norm.py#SpectralNorm
def _check_iterations(count: int) -> None:
    if count <= 0:
        raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={count}")


def _as_matrix(weight: Tensor, dim: int) -> Tensor:
    """Dimension `dim` as rows, all others as columns."""
    rows = weight.movedim(dim, 0)
    return rows.unsqueeze(1) if rows.dim() == 1 else rows.flatten(1)


def _outputs_dim(module: Module) -> int:
    """The dimension of the weight that numbers the outputs."""
    transposed = (torch.nn.ConvTranspose1d, torch.nn.ConvTranspose2d, torch.nn.ConvTranspose3d)
    return 1 if isinstance(module, transposed) else 0


class SpectralNorm:
    """The hook that computes the weight before each call."""

    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        _check_iterations(n_power_iterations)
        self.name, self.dim = name, dim
        self.n_power_iterations, self.eps = n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """`dim` first, all others as one."""
        return _as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight divided by `uᵀ W v`; the iteration writes `u` and `v` in place, so that all replicas see it."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(torch.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(torch.mv(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # what backward needs must survive the next iteration
        return weight / torch.dot(u, torch.mv(matrix, v))

    def remove(self, module: Module) -> None:
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        if _hooks_of(module, SpectralNorm, name):
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        normed = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        with no_grad():
            height, width = normed.reshape_weight_to_matrix(weight).size()
            u = F.normalize(weight.new_empty(height).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(width).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # a plain attribute, so that `module.weight` exists before the first call and is no parameter
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(normed)
        module._register_state_dict_hook(SpectralNormStateDictHook(normed))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(normed))
        return normed


# %%
#| into: nn/utils/spectral_norm.py
#| upstream: torch/nn/utils/spectral_norm.py#spectral_norm
#| upstream: torch/nn/utils/spectral_norm.py#remove_spectral_norm
def spectral_norm(
    module: ModuleT,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> ModuleT:
    """Divide the parameter `name` by its largest singular value (Miyato et al. 2018).

    `dim` is the outputs' dimension: 1 for transposed convolutions, else 0.
    """
    SpectralNorm.apply(module, name, n_power_iterations, _outputs_dim(module) if dim is None else dim, eps)
    return module


def remove_spectral_norm(module: ModuleT, name: str = "weight") -> ModuleT:
    """Undo `spectral_norm`. Raises ValueError if it was never applied."""
    _without_hook(module, SpectralNorm, name, f"spectral_norm of '{name}' not found in {module}")
    for hooks in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for number, hook in list(hooks.items()):
            found = getattr(hook, "hook", hook)
            if (
                isinstance(found, SpectralNormStateDictHook | SpectralNormLoadStateDictPreHook)
                and found.fn.name == name
            ):
                del hooks[number]
    return module


# %% [markdown]
# ## Fusing a batch norm into the layer before it
#
# In evaluation a batch norm is an affine map per channel and can be multiplied into the weights.

# %%
#| into: nn/utils/fusion.py
#| imports
from __future__ import annotations

import copy
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.nn.parameter import Parameter


# %%
#| into: nn/utils/fusion.py
#| upstream: torch/nn/utils/fusion.py#fuse_conv_bn_weights
#| upstream: torch/nn/utils/fusion.py#fuse_conv_bn_eval
#| upstream: torch/nn/utils/fusion.py#fuse_linear_bn_eval
def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the one convolution that does the work of convolution and batch norm."""
    bias = torch.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = torch.rsqrt(bn_rv + bn_eps) * (torch.ones_like(bn_rm) if bn_w is None else bn_w)
    shift = torch.zeros_like(bn_rm) if bn_b is None else bn_b
    shape = [1, -1] if transpose else [-1, 1]
    weight = conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2)).to(conv_w.dtype)
    bias = ((bias - bn_rm) * scale + shift).to(bias.dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(
        bias, conv_b.requires_grad if conv_b is not None else False
    )


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of `conv` that gives what `bn(conv(x))` gives. AssertionError if one of them is in training mode."""
    _refuse_training(conv, bn)
    mean, variance = bn.running_mean, bn.running_var
    if mean is None or variance is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused = copy.deepcopy(conv)
    both = fuse_conv_bn_weights(conv.weight, conv.bias, mean, variance, bn.eps, bn.weight, bn.bias, transpose)
    fused.weight, fused.bias = both
    return fused


def _refuse_training(*modules: Any) -> None:
    if any(module.training for module in modules):
        raise AssertionError("Fusion only for eval!")


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the one linear layer that does the work of linear layer and batch norm."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of `linear` that gives what `bn(linear(x))` gives."""
    _refuse_training(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    return fuse_conv_bn_eval(linear, bn)


# %% [markdown]
# ## Skipping initialization

# %%
#| into: nn/utils/init.py
#| imports
from __future__ import annotations

import inspect
from typing import Any

from readtorch.nn.modules.module import Module


# %%
#| into: nn/utils/init.py
#| upstream: torch/nn/utils/init.py#skip_init
def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module without filling its parameters: built on `meta`, then given memory."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)


# %%
#| claim: gradients are clipped by the norm of all of them together
def _(torch):
    a, b = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    a.grad, b.grad = torch.tensor([3.0]), torch.tensor([4.0])
    norm = torch.nn.utils.clip_grad_norm_([a, b], 1.0)
    assert norm == 5
    assert torch.allclose(a.grad, torch.tensor([0.6]), atol=1e-5) and torch.allclose(
        b.grad, torch.tensor([0.8]), atol=1e-5
    )


# %% [markdown]
# One infinite gradient makes the norm infinite and the factor 0: all finite gradients become 0, the infinite one NaN, and the step that follows writes it into the parameter. `error_if_nonfinite=True` raises instead, at the price of a look at the number (a wait, on a GPU). `GradScaler` looks before the step, and skips it.


# %%
#| claim: clipping an infinite gradient gives zeros and NaN; vector_to_parameters makes the parameters views of the vector
#| upstream: torch/nn/utils/clip_grad.py#clip_grad_norm_
def _(torch):
    p = torch.nn.Parameter(torch.zeros(2))
    p.grad = torch.tensor([1.0, float("inf")])
    assert torch.nn.utils.clip_grad_norm_([p], 1.0).isinf() and p.grad[0] == 0 and p.grad[1].isnan()
    vector = torch.ones(2)
    torch.nn.utils.vector_to_parameters(vector, [p])
    vector[0] = 7
    assert p.tolist() == [7, 1]
