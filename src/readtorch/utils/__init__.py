# Tangled from chapters/00_tensor/, chapters/01_import/, chapters/05_data/ — edit there, or here and run `readtorch sync`.
"""What more than one part of the package needs (twin of upstream's `torch/utils/`)."""

import importlib as _importlib
from typing import Any as _Any

_MODULES = ["hooks"]


def __getattr__(name: str) -> _Any:
    """Import the sub-package `name`. AttributeError if there is none."""
    if name not in _MODULES:
        raise AttributeError(f"module 'torch.utils' has no attribute '{name}'")
    return _importlib.import_module(f"readtorch.utils.{name}")


_MODULES += ["dlpack", "model_zoo"]

_MODULES.append("data")
