# Tangled from chapters/a2_layers/12b_members_by_path.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

from readtorch.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Any, kinds: Any, memory_format: Any) -> Any:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Give the weights of all `Conv2d` and `ConvTranspose2d` in `module` this order in memory; returns `module`."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Give the weights of all `Conv3d` and `ConvTranspose3d` in `module` this order in memory; returns `module`."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
