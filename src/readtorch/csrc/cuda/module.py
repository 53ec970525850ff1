# Tangled from chapters/01_import/d6_cuda_backend.py — edit there, or here and run `readtorch sync`.
"""What makes CUDA known to the rest, once (twin of `torch/csrc/cuda/Module.cpp`)."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np

from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.cuda import caching_host_allocator, specialisations
from readtorch.aten.cuda.cuda_generator_impl import CUDAGeneratorImpl, default_generator, seed_all
from readtorch.aten.cuda.instantiate import Maker
from readtorch.aten.native.cuda.copy import device_to_device, device_to_host, host_to_device
from readtorch.c10.core.device import device
from readtorch.c10.core.device_guard import BACKWARD, CURRENT, GUARDS, NUMBERS, STREAMS, TO_HOST
from readtorch.c10.core.dispatch_key import BACKENDS, DEVICE_OF, DispatchKey
from readtorch.c10.core.tensor_impl import wrap
from readtorch.c10.cuda import cuda_caching_allocator, cuda_functions
from readtorch.c10.cuda.cuda_guard import CUDAGuard, guard_of
from readtorch.c10.cuda.cuda_stream import BackwardGuard, get_current_stream
from readtorch.csrc.generator import ENGINES, SEEDED, Generator, last_seed
from readtorch.csrc.utils.tensor_new import LIBRARIES, PLACERS

_DEVICES = tuple(device("cuda", number) for number in range(64))


class _State:
    initialised: Any = None
    bad_fork = False


def is_in_bad_fork() -> bool:
    """Was this process forked from one that had used CUDA?"""
    return _State.bad_fork


def is_initialised() -> bool:
    """Is CUDA in use in this process?"""
    return _State.initialised is not None and not _State.bad_fork


def initialise() -> None:
    """Make CUDA known to the tables. AssertionError where there is none, RuntimeError after a fork."""
    if _State.bad_fork:
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess: start the process with the 'spawn' start method"
        )
    library = cuda_functions.library()
    if _State.initialised is library:
        return
    if _State.initialised is None:
        os.register_at_fork(after_in_child=_forked)
    kind = library.ndarray
    maker = dispatcher.cuda.maker = Maker(library)
    if find_spec("readtorch.aten.register_cuda") is not None:  # the kernels are a later chapter's
        from readtorch.aten import register_cuda

        if cuda_functions.is_simulated():
            maker.in_cpp = register_cuda.WITHOUT_LIBRARIES
        else:
            register_cuda.register()
    for name in dispatcher.operators:
        dispatcher.cuda.forget(name)
    BACKENDS[kind] = DispatchKey.CUDA
    DEVICE_OF[kind] = lambda array: _DEVICES[array.data.device_id]
    GUARDS[kind] = guard_of
    TO_HOST[kind] = device_to_host
    STREAMS[kind] = lambda array: get_current_stream(array.data.device_id)
    BACKWARD[kind] = BackwardGuard
    NUMBERS[kind] = _number_beside
    CURRENT["cuda"] = cuda_functions.current_device
    PLACERS["cuda"], PLACERS["cpu"] = _to_cuda, _to_cpu
    LIBRARIES["cuda"] = lambda where: (maker.numpy, CUDAGuard(_number(where)))
    ENGINES["cuda"] = lambda where: CUDAGeneratorImpl()
    cuda_caching_allocator.statistics.watch()
    _State.initialised = library


def _number_beside(value: Any, dtype: np.dtype, like: Any) -> Any:
    number = value.item() if isinstance(value, np.ndarray) else value  # an array of the host does not get in
    with guard_of(like):
        return dispatcher.cuda.maker.numpy.full((), number, dtype)


def _forked() -> None:
    _State.bad_fork = True


def _number(where: device) -> int:
    number = cuda_functions.current_device() if where.index is None else where.index
    if number >= cuda_functions.device_count():
        raise RuntimeError("CUDA error: invalid device ordinal")
    return number


def _to_cuda(array: Any, target: device, non_blocking: bool) -> Any:
    if _State.bad_fork:
        initialise()
    number = _number(target)
    if isinstance(array, np.ndarray):
        return host_to_device(array, number, non_blocking)
    return array if array.data.device_id == number else device_to_device(array, number)


def _to_cpu(array: Any, target: device, non_blocking: bool) -> Any:
    return array if isinstance(array, np.ndarray) else device_to_host(array, non_blocking)


def generator(number: int) -> Any:
    """The `torch.Generator` that is a device's own."""
    found = Generator.__new__(Generator)
    found.device, found._engine = _DEVICES[number], default_generator(number)
    return found


def pin_memory(self: Any, device: Any = None) -> Any:
    """This tensor in page-locked memory. RuntimeError where there is no device that could read it."""
    if not cuda_functions.device_count():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if not isinstance(self._array, np.ndarray):
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    initialise()
    pinned = caching_host_allocator.pin(self._array)
    return self if pinned is self._array else wrap(pinned)


def is_pinned(self: Any, device: Any = None) -> bool:
    """Is this tensor in page-locked memory?"""
    return is_initialised() and caching_host_allocator.is_pinned(self._array)


def record_stream(self: Any, stream: Any) -> None:
    """Do not reuse this tensor's memory, once it is freed, before `stream` has done what it is to do by then."""
    if isinstance(self._array, np.ndarray):
        raise RuntimeError("record_stream is for tensors of an accelerator, not of the CPU")
    cuda_caching_allocator.record_stream(self._array, stream._queue, stream._number)


_LOADED = specialisations  # importing it enters them in the table
SEEDED.append(seed_all)
for _last in last_seed:
    seed_all(_last)
