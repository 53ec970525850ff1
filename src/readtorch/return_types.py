# Tangled from chapters/00_tensor/07b_operators_for_python.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

import readtorch
from readtorch.csrc.utils.structseq import _classes, structseq


def __getattr__(name: str) -> Any:
    """The class of what the operator `name` returns."""
    _ = readtorch.Tensor  # operators name their results when they are registered
    if name == "all_return_types":
        return list(_classes.values())
    plain = _classes.get(name.removesuffix("_out"))
    if name not in _classes and plain is not None:
        return structseq(name, plain.__match_args__)
    if name not in _classes:
        raise AttributeError(f"module 'torch.return_types' has no attribute '{name}'")
    return _classes[name]


def __dir__() -> list[str]:
    return sorted([*_classes, "all_return_types"])
