# Tangled from chapters/a2_layers/13_parametrize.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings
from typing import Any


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`torch.func.functional_call`, in the place where it was before 2.0."""
    from readtorch._functorch import functional_call as moved

    warnings.warn(
        "This API is deprecated: `torch.nn.utils.stateless.functional_call` moved to `torch.func.functional_call`",
        FutureWarning,
        stacklevel=2,
    )
    if not hasattr(parameters_and_buffers, "keys"):
        raise AttributeError(
            f"parameters_and_buffers must be a dict: {type(parameters_and_buffers).__name__} has no keys"
        )
    return moved.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
