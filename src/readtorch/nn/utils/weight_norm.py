# Tangled from chapters/a2_layers/12_utils.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings
from typing import Any, TypeVar

import readtorch as torch
from readtorch.nn.modules.module import Module
from readtorch.nn.parameter import Parameter, UninitializedParameter

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
