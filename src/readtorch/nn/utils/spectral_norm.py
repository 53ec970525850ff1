# Tangled from chapters/a2_layers/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad
from readtorch.nn import functional as F
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter
from readtorch.nn.utils.weight_norm import ModuleT, _hooks_of, _without_hook


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


class SpectralNormStateDictHook:
    """Notes the version of the hook's form in a `state_dict`'s metadata."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        noted, key = local_metadata.setdefault("spectral_norm", {}), f"{self.fn.name}.version"
        if key in noted:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        noted[key] = self.fn._version


class SpectralNormLoadStateDictPreHook:
    """Gives a checkpoint of the first form, with the weight and without `v`, its `v`."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("spectral_norm", {}).get(f"{self.fn.name}.version")
        if version is not None and version >= 1:
            return
        key = prefix + self.fn.name
        whole = all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v"))
        if version is None and whole and key not in state_dict:
            return  # of today's form, by somebody who did not write the metadata
        absent = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if absent:
            missing_keys.extend(absent if strict else [])
            return
        with no_grad():
            weight, original = state_dict.pop(key), state_dict[key + "_orig"]
            matrix, u = self.fn.reshape_weight_to_matrix(original), state_dict[key + "_u"]
            v = torch.linalg.pinv(matrix.t() @ matrix) @ (matrix.t() @ u)
            state_dict[key + "_v"] = v * ((original / weight).mean() / torch.dot(u, matrix @ v))
