# Tangled from chapters/a2_layers/12_utils.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

import readtorch as torch
from readtorch._tensor import Tensor
from readtorch.autograd.grad_mode import no_grad

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
