# Tangled from chapters/a2_layers/12_utils.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import inspect
from typing import Any

from readtorch.nn.modules.module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module without filling its parameters: built on `meta`, then given memory."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)
