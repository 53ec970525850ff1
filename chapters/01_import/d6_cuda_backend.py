# ---
# jupyter:
#   jupytext:
#     cell_metadata_filter: tags,-all
#     comment_magics: false
#     notebook_metadata_filter: jupytext,kernelspec,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Copies, random numbers, and the moment a GPU joins the table
#
# The device can compute. What is missing is the way there and back, numbers drawn at random on it, and the entry in the dispatcher's tables that makes `x.to("cuda")` known.

# %%
import numpy as np

import readtorch as torch
from readtorch.c10.cuda.cuda_functions import simulate
from readtorch.literate import live

live()

# %% [markdown]
# ## Over the bus
#
# A copy from the host begins in *pageable* memory: the operating system may move it while the device reads. So the driver first copies it to memory of its own that stays in place (*pinned*), and the host waits for that. A tensor that
# is pinned to begin with (`pin_memory()`) is read by the device directly, and the host may go on at once: that, and nothing else, is what `non_blocking=True` asks for. From pageable memory the host still waits until the driver has taken the data in.

# %%
#| into: aten/cuda/caching_host_allocator.py
"""Page-locked memory of the host (twin of `aten/src/ATen/cuda/CachingHostAllocator.h`)."""

# %%
#| into: aten/cuda/caching_host_allocator.py
#| imports
from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from readtorch.c10.core.storage_impl import owner_of
from readtorch.c10.cuda.cuda_functions import is_simulated, library

# %%
#| into: aten/cuda/caching_host_allocator.py
#| upstream: aten/src/ATen/cuda/CachingHostAllocator.h#at::cuda::getCachingHostAllocator
_pinned: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()
_in_flight: list[tuple[Any, np.ndarray]] = []


def empty_pinned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Uninitialised page-locked memory as an array of the host."""
    library()
    if is_simulated():
        from readtorch.c10.cuda.simulated.runtime import empty_pinned as simulated

        array = simulated(shape, dtype)
    else:
        import cupyx

        array = cupyx.empty_pinned(shape, dtype)
    owner = owner_of(array)
    _pinned[id(owner)] = owner
    return array


def pin(array: np.ndarray) -> np.ndarray:
    """A copy in page-locked memory; the array itself if it is there."""
    if is_pinned(array):
        return array
    copy = empty_pinned(array.shape, array.dtype)
    copy[...] = array
    return copy


def is_pinned(array: Any) -> bool:
    """Does an array of the host lie in page-locked memory?"""
    if not isinstance(array, np.ndarray):
        return False
    owner = owner_of(array)
    return _pinned.get(id(owner)) is owner


def keep_until(event: Any, array: np.ndarray) -> None:
    """The device may read `array` until `event` comes: hold it that long."""
    _in_flight[:] = [(earlier, held) for earlier, held in _in_flight if not _come(earlier)]
    _in_flight.append((event, array))


def _come(event: Any) -> bool:
    seen = getattr(event, "seen", None)
    return event.done if seen is None else seen


# %% [markdown]
# The elements arrive in the memory order that they left in: a channels-last image stays one. What goes over the bus is one contiguous run of bytes.

# %%
#| into: aten/native/cuda/__init__.py
"""Kernels that only CUDA has (twin of `aten/src/ATen/native/cuda/`)."""

# %%
#| into: aten/native/cuda/copy.py
"""Copies between the host and the devices, and from device to device."""

# %%
#| into: aten/native/cuda/copy.py
#| imports
from __future__ import annotations

import time
from typing import Any

import numpy as np

from readtorch.aten import record_function
from readtorch.aten.cuda.caching_host_allocator import empty_pinned, is_pinned, keep_until
from readtorch.c10.cuda.cuda_functions import host_waits, library, stream_synchronize
from readtorch.c10.cuda.cuda_guard import CUDAGuard, guard_of
from readtorch.c10.cuda.cuda_stream import get_current_stream


# %%
#| into: aten/native/cuda/copy.py
def _memory_order(array: Any) -> tuple[int, ...] | None:
    """The dimensions, the one with the longest step first, if the elements lie without gaps; else None."""
    order = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return order if array.transpose(order).flags.c_contiguous else None


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _restored(array: Any, order: tuple[int, ...] | None) -> Any:
    """`array`, whose dimensions were taken in `order`, with them in their places."""
    return array if order is None or order == tuple(range(array.ndim)) else array.transpose(_inverse(order))


traffic: dict[str, tuple[int, int]] = {}
"""By direction, "HtoD", "DtoH" or "PtoP": how many copies there were, and their bytes."""


def _told(direction: str, size: int, stream: Any, begin: int) -> None:
    copies, total = traffic.get(direction, (0, 0))
    traffic[direction] = copies + 1, total + size
    observer = record_function.observer
    told = getattr(observer, "copy", None)
    if told is not None:
        told(direction, size, stream, begin, time.perf_counter_ns())


def host_to_device(array: np.ndarray, device: int, non_blocking: bool = False) -> Any:
    """A copy on the device. The host waits for it, unless `array` is pinned and it need not."""
    begin = time.perf_counter_ns()
    order = _memory_order(array)
    source = np.ascontiguousarray(array) if order is None else array.transpose(order)
    with CUDAGuard(device):
        result = library().ndarray(source.shape, source.dtype)
        stream = get_current_stream()
        if source.size:
            result.set(source, stream)
            if non_blocking and is_pinned(source):
                keep_until(stream.record(), source)
            else:
                stream_synchronize(stream, "copy to device")
        _told("HtoD", source.nbytes, stream, begin)
        return _restored(result, order)


def device_to_host(array: Any, non_blocking: bool = False) -> np.ndarray:
    """A copy on the host. With `non_blocking` it is in pinned memory, and complete when the stream is."""
    begin = time.perf_counter_ns()
    order = _memory_order(array)
    with guard_of(array):
        stream = get_current_stream()
        source = library().ascontiguousarray(array) if order is None else array.transpose(order)
        if non_blocking and source.size:
            result = empty_pinned(source.shape, source.dtype)
            source.get(stream, out=result, blocking=False)
        else:
            host_waits("copy to host")
            result = source.get(stream)
    _told("DtoH", array.nbytes, stream, begin)
    return _restored(result, order)


def device_to_device(array: Any, device: int) -> Any:
    """A copy on another device. It runs on the source's stream; the target's waits before it and after it."""
    begin = time.perf_counter_ns()
    runtime = library().cuda.runtime
    order = _memory_order(array)
    origin = array.data.device_id
    with guard_of(array):
        source = library().ascontiguousarray(array) if order is None else array.transpose(order)
    with CUDAGuard(device):
        result = library().ndarray(source.shape, source.dtype)
        there = get_current_stream()
        ready = there.record()
    with CUDAGuard(origin):
        here = get_current_stream()
        here.wait_event(ready)
        if source.size:
            runtime.memcpyPeerAsync(result.data.ptr, device, source.data.ptr, origin, source.nbytes, here.ptr)
        done = here.record()
    with CUDAGuard(device):
        there.wait_event(done)
    _told("PtoP", source.nbytes, here, begin)
    return _restored(result, order)


# %%
library = simulate(2)
from readtorch.aten.native.cuda.copy import device_to_device, device_to_host, host_to_device

image = np.arange(12.0).reshape(1, 2, 2, 3).transpose(0, 3, 1, 2)
there = host_to_device(image, 0)
moved = device_to_device(there, 1)
there.strides == image.strides, moved.data.device_id, (device_to_host(moved) == image).all(), library.copies.count

# %% [markdown]
# ## Random numbers that nobody has to hand out
#
# The CPU's generator is a sequence: number 1,000 can be had only after 999. Ten thousand threads cannot take turns. A *counter-based* generator is a function: Philox encrypts the counter, ten rounds of multiplication and exchange, and the result is four random words. Thread *i* asks for the
# *i*-th, and the state is nothing but a key (the seed) and how far one has counted. The counter has 128 bits: the upper half says which *subsequence*, one for every four numbers of a tensor, the lower half is the *offset*, which moves on with every call.

# %%
#| into: aten/core/philox_rng_engine.py
"""Philox-4x32-10: random words as a function of a key and a counter (twin of `aten/src/ATen/core/PhiloxRNGEngine.h`)."""

# %%
#| into: aten/core/philox_rng_engine.py
#| imports
from __future__ import annotations

from typing import Any

import numpy as np

# %%
#| into: aten/core/philox_rng_engine.py
#| upstream: aten/src/ATen/core/PhiloxRNGEngine.h#at::philox_engine
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10


def philox(key: int, offset: int, count: int, first: int = 0) -> Any:
    """Words of the subsequences `first` … `first + count - 1` at one offset: a uint32 array `(count, 4)`. Salmon et al., 2011.

    The counter's upper half numbers the subsequence, its lower half the offset, in units of four words.
    """
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    which = np.arange(count, dtype=np.uint64) + np.uint64(first)
    c2, c3 = which & mask, which >> half
    c0, c1 = np.full_like(c2, offset & 0xFFFFFFFF), np.full_like(c2, offset >> 32)
    k0, k1 = key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF
    for _ in range(_ROUNDS):
        p0, p1 = c0 * np.uint64(_MULTIPLIERS[0]), c2 * np.uint64(_MULTIPLIERS[1])
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ np.uint64(k0), p1 & mask, (p0 >> half) ^ c3 ^ np.uint64(k1), p0 & mask
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


# %%
from readtorch.aten.core.philox_rng_engine import philox

[hex(word) for word in philox(0, 0, 1)[0]], philox(7, 0, 8).mean() / 2**32

# %% [markdown]
# The first four words are the known answer that the authors of Philox publish for key 0 and counter 0.


# %%
#| test
def test_philox_gives_the_published_words():
    assert [int(word) for word in philox(0, 0, 1)[0]] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


# %%
#| into: aten/cuda/cuda_generator_impl.py
"""The generator of a CUDA device (twin of `aten/src/ATen/cuda/CUDAGeneratorImpl.h`)."""

# %%
#| into: aten/cuda/cuda_generator_impl.py
#| imports
from __future__ import annotations

import math
import secrets
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from readtorch.aten import cpu_generator_impl
from readtorch.aten.core.dispatch import dispatcher
from readtorch.aten.core.philox_rng_engine import philox
from readtorch.aten.cpu_generator_impl import DEFAULT_SEED
from readtorch.aten.cuda.instantiate import Maker, specialise
from readtorch.aten.native import distributions
from readtorch.c10.cuda.cuda_functions import current_device
from readtorch.c10.cuda.cuda_stream import get_current_stream

# %%
#| into: aten/cuda/cuda_generator_impl.py
#| upstream: aten/src/ATen/cuda/CUDAGeneratorImpl.h#at::CUDAGeneratorImpl
_STATE = struct.Struct("<QQ")
_MASK = (1 << 64) - 1


class CUDAGeneratorImpl:
    """The engine behind a `torch.Generator` of a CUDA device: a key, and the offset of its next call."""

    __slots__ = ("initial_seed", "offset")

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> None:
        """Start over from `seed`."""
        self.initial_seed = seed & _MASK
        self.offset = 0

    def seed(self) -> int:
        """Start over from a seed of the operating system's, and return it."""
        seed = secrets.randbits(64)
        self.manual_seed(seed)
        return seed

    def random(self, count: int) -> Any:
        """32-bit draws on the current device, as uint32. NotImplementedError in a captured graph: each replay would draw the same."""
        if get_current_stream().is_capturing():
            raise NotImplementedError("random numbers cannot be drawn while a graph is captured here")
        blocks = -(-count // 4)
        words = dispatcher.cuda.maker.run("philox", philox, self.initial_seed, self.offset, blocks)
        self.offset += 1
        return words.reshape(-1)[:count]

    def random64(self, count: int) -> Any:
        """64-bit draws."""
        return self.random(2 * count).view(np.uint64)

    def get_state(self) -> np.ndarray:
        """16 bytes: the seed, and the offset, which counts words as upstream's does."""
        return np.frombuffer(_STATE.pack(self.initial_seed, 4 * self.offset), np.uint8).copy()

    def set_state(self, state: np.ndarray) -> None:
        """Go back to a state that `get_state` returned. RuntimeError on any other size."""
        if state.dtype != np.uint8 or state.size != 16:
            raise RuntimeError("RNG state is wrong size")
        self.initial_seed, offset = _STATE.unpack(state.tobytes())
        self.offset = offset // 4


_default: dict[int, CUDAGeneratorImpl] = {}
_seed = DEFAULT_SEED


def default_generator(device: int) -> CUDAGeneratorImpl:
    """The device's own generator."""
    if device not in _default:
        _default[device] = CUDAGeneratorImpl(_seed)
    return _default[device]


def seed_all(seed: int) -> None:
    """Start the generators of all devices over, of those too that are not in use yet."""
    global _seed
    _seed = seed
    for generator in _default.values():
        generator.manual_seed(seed)


# %% [markdown]
# The kernels of the distributions ask `engine(generator)` for words and make numbers of them. On the device that is another engine, and Box and Muller's method takes all at once.


# %%
#| into: aten/cuda/cuda_generator_impl.py
@specialise(cpu_generator_impl.engine)
def _engine(maker: Maker) -> Callable[..., Any]:
    def engine(generator: Any) -> CUDAGeneratorImpl:
        """The engine of a `torch.Generator` of this device; the device's own for None."""
        if generator is None:
            return default_generator(current_device())
        if not isinstance(generator._engine, CUDAGeneratorImpl):
            raise RuntimeError(f"Expected a 'cuda' device type for generator but found '{generator.device.type}'")
        return generator._engine

    return engine


@specialise(distributions.normal)
def _normal(maker: Maker) -> Callable[..., Any]:
    numpy = maker.numpy
    uniform01 = maker.function(distributions.uniform01)

    def normal(generator: CUDAGeneratorImpl, count: int, dtype: np.dtype, mean: float = 0, std: float = 1) -> Any:
        """Normal numbers: two from two uniform ones."""
        work = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
        pairs = uniform01(generator, 2 * -(-count // 2), work).reshape(2, -1)
        radius = numpy.sqrt(numpy.log(1 - pairs[0]) * work.type(-2))
        angle = pairs[1] * work.type(2 * math.pi)
        values = numpy.concatenate([radius * numpy.cos(angle), radius * numpy.sin(angle)])
        values = values[:count]
        if std != 1 or mean != 0:
            values = values * work.type(std) + work.type(mean)
        return values.astype(dtype)

    return normal


@specialise(distributions.uniform)
def _uniform(maker: Maker) -> Callable[..., Any]:
    uniform01 = maker.function(distributions.uniform01)

    def uniform(generator: CUDAGeneratorImpl, count: int, dtype: np.dtype, low: float, high: float) -> Any:
        """Numbers in [low, high), in the type itself: the CPU's are rounded as one fused operation would."""
        values = uniform01(generator, count, dtype)
        return values if (low, high) == (0, 1) else values * dtype.type(high - low) + dtype.type(low)

    return uniform


@specialise(distributions._one_normal)
def _one_normal(maker: Maker) -> Callable[..., Any]:
    normal = maker.function(distributions.normal)
    return lambda generator: float(normal(generator, 1, np.dtype(np.float64))[0])


@specialise(distributions.permutation)
def _permutation(maker: Maker) -> Callable[..., Any]:
    def permutation(generator: CUDAGeneratorImpl, count: int) -> Any:
        """The order that sorts as many random keys."""
        return maker.numpy.argsort(generator.random64(count)).astype(np.int64)

    return permutation


# %% [markdown]
# ## The entry in the tables
#
# Everything that was left open below is filled in here, by one function, when the first tensor is to go to a GPU: which column the arrays' class belongs to, how to tell their device, how to get there, what makes arrays there.

# %%
#| into: csrc/cuda/__init__.py
"""CUDA for Python (twin of `torch/csrc/cuda/`)."""

# %%
#| into: csrc/cuda/module.py
"""What makes CUDA known to the rest, once (twin of `torch/csrc/cuda/Module.cpp`)."""

# %%
#| into: csrc/cuda/module.py
#| imports
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

# %%
#| into: csrc/cuda/module.py
#| upstream: torch/csrc/cuda/Module.cpp#THCPModule_initExtension
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


# %%
#| into: csrc/cuda/module.py
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
