# Tangled from chapters/a2_layers/12_utils.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from collections.abc import Iterable

import readtorch as torch
from readtorch._tensor import Tensor


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
