# Tangled from chapters/01_import/d7_torch_cuda.py — edit there, or here and run `readtorch sync`.
"""What is in use of a device's memory (twin of `torch/cuda/memory.py`)."""

from __future__ import annotations

from typing import Any

from readtorch.c10.cuda import cuda_functions
from readtorch.c10.cuda.cuda_guard import CUDAGuard
from readtorch.cuda._utils import _get_device_index

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
]


def _allocator(device: Any) -> tuple[Any, int] | None:
    """The allocator and a device's number; None where CUDA is not in use."""
    from readtorch import cuda

    if not cuda.is_initialized():
        return None
    from readtorch.c10.cuda import cuda_caching_allocator

    return cuda_caching_allocator, _get_device_index(device, optional=True)


def memory_allocated(device: Any = None) -> int:
    """Bytes in use by tensors; 0 while CUDA is not in use."""
    found = _allocator(device)
    return 0 if found is None else found[0].allocated(found[1])


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were in use since the last `reset_peak_memory_stats`."""
    found = _allocator(device)
    return 0 if found is None else found[0].peak(found[1])


def memory_reserved(device: Any = None) -> int:
    """Bytes that the allocator holds, in use or not."""
    found = _allocator(device)
    return 0 if found is None else found[0].reserved(found[1])


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the allocator held; it gives none back before `empty_cache`."""
    return max(memory_reserved(device), max_memory_allocated(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin a new measurement of the most bytes in use."""
    found = _allocator(device)
    if found is not None:
        found[0].reset_peak(found[1])


reset_max_memory_allocated = reset_peak_memory_stats


def memory_stats(device: Any = None) -> dict[str, Any]:
    """The same figures under upstream's names; empty while CUDA is not in use."""
    if _allocator(device) is None:
        return {}
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "allocated_bytes.all.peak": max_memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
        "reserved_bytes.all.peak": max_memory_reserved(device),
    }


def empty_cache() -> None:
    """Give what is held and not in use back to the devices."""
    found = _allocator(0)
    if found is not None:
        found[0].empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device. AssertionError without CUDA."""
    from readtorch import cuda

    cuda._lazy_init()
    with CUDAGuard(_get_device_index(device, optional=True)):
        free, total = cuda_functions.library().cuda.runtime.memGetInfo()
    return int(free), int(total)
