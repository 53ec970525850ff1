# Tangled from chapters/01_import/d7_torch_cuda.py — edit there, or here and run `readtorch sync`.
"""Numbers of devices (twin of `torch/cuda/_utils.py`)."""

from __future__ import annotations

from typing import Any

from readtorch.c10.core.device import device as Device
from readtorch.c10.cuda import cuda_functions


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number that a device, a string or a number means; -1 for the CPU where that is allowed.

    None, or a device without a number, is the current one where `optional`. ValueError for what is no CUDA device.
    """
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, str):
        device = Device(device)
    if isinstance(device, Device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        raise ValueError(f"Expected a torch.device with an index, or an integer, but got: {device}")
    if not optional:
        raise ValueError(f"Expected a torch.device with an index, or an integer, but got: {device}")
    return cuda_functions.current_device()
