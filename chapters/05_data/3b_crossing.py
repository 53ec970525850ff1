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
# # How a batch crosses to another process
#
# A queue between processes is a pipe: the sender pickles, the kernel copies 64 KB at a time, the receiver reads and unpickles. For a batch of 3 MB that is four copies and fifty turns of two processes, more work than reading the samples was. So the
# bytes of tensors and arrays go another way, by memory that both processes have mapped, and only what is left of the batch is pickled: its structure, its small parts, and where the large ones lie.

# %%
import pickle

import numpy as np

import readtorch as torch
from readtorch.literate import live

live()

# %%
#| into: multiprocessing/reductions.py
"""Objects on their way to another process: large buffers in shared memory, the rest pickled."""

# %%
#| into: multiprocessing/reductions.py
#| imports
from __future__ import annotations

import io
import mmap
import os
import pickle
import weakref
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import reduction
from typing import Any, NamedTuple, cast

import numpy as np

from readtorch import Tensor, is_grad_enabled
from readtorch.aten.map_allocator import SharedMemory
from readtorch.c10.core.device import cpu
from readtorch.c10.core.scalar_type import to_numpy_dtype
from readtorch.c10.core.storage_impl import data_address, owner_of, storage_of
from readtorch.c10.core.tensor_impl import wrap
from readtorch.nn.parameter import Parameter
from readtorch.storage import TypedStorage, UntypedStorage, _mapping_of
from readtorch.utils.hooks import warn_if_has_hooks

# %% [markdown]
# ## Memory that has no name
#
# `memfd_create` makes a file that lies in memory and in no directory; its descriptor is inherited by a fork, and it is gone when the last process has closed and unmapped it, however that process ended. Files in `/dev/shm`, the older way, outlive a process
# that was killed, and are limited by the size of that mount: 64 MB in a container by default, hence the well-known *bus error* of data loaders in Docker.
#
# The file grows by segments of 256 MB. That is address space; a page becomes memory when it is written. A mapping costs a descriptor and an entry in a table of the kernel, both of which are counted, so a segment is mapped once and not every batch by itself.
#
# One file belongs to one worker, made before it starts. A process that is *spawned* inherits nothing, and `multiprocessing` hands the descriptor on. Where there is no `memfd_create`, on macOS and Windows, everything is pickled.

# %%
#| into: multiprocessing/reductions.py
_SEGMENT = 1 << 28


class SharedFile:
    """Memory that the process which made it and one that it starts both map."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = os.memfd_create("readtorch") if descriptor is None else descriptor
        self._mapped: dict[int, mmap.mmap] = {}

    @classmethod
    def if_possible(cls) -> SharedFile | None:
        """A new one; None where the system has no such files or gives no more."""
        try:
            return cls()
        except (AttributeError, OSError):
            return None

    def segment(self, start: int, stop: int) -> mmap.mmap:
        """The bytes from `start` to `stop`."""
        found = self._mapped.get(start)
        if found is None:
            found = self._mapped[start] = mmap.mmap(self.descriptor, stop - start, offset=start)
        return found

    def close(self) -> None:
        """Let go of the descriptor. What is mapped stays as long as an array needs it."""
        descriptor, self.descriptor = self.descriptor, -1
        self._mapped.clear()
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _inherited, (reduction.DupFd(self.descriptor),)


def _inherited(descriptor: Any) -> SharedFile:
    return SharedFile(descriptor.detach())


# %% [markdown]
# ## Who may write where?
#
# The sender cuts the file into extents. One that was sent is taken until the receiver has said that nobody there looks at it any more; and it is taken as long as an array of the sender itself lies in it, since a dataset may keep what it gave. Both are found out by
# the same means: each user holds an array that is the root of all views, and a finalizer runs when that goes. A free extent is used for something of at least half its size, so that batches of changing length do not eat up the file.

# %%
#| into: multiprocessing/reductions.py
_SMALLEST = 1 << 15
"""Bytes. Less than this is copied through the pipe sooner than it is placed and found."""


class Place(NamedTuple):
    """Bytes in a shared file: the segment, the extent that is in use because of them, and where they begin and end."""

    segment: tuple[int, int]
    extent: int
    start: int
    stop: int


class _Extent:
    __slots__ = ("segment", "size", "start", "users")

    def __init__(self, segment: tuple[int, int], start: int, size: int) -> None:
        self.segment, self.start, self.size, self.users = segment, start, size, 0


class Sender:
    """The writing end of a shared file; `number` says whose, where there are several."""

    def __init__(self, file: SharedFile | None, number: int = 0) -> None:
        self._file = file
        self.number = number
        self._segment, self._next = (0, 0), 0
        self._extents: dict[int, _Extent] = {}
        self._free: list[_Extent] = []
        #: id of a root array that is alive here -> its extent
        self._roots: dict[int, _Extent] = {}

    def empty(self, size: int) -> np.ndarray | None:
        """`size` bytes of shared memory as an array, to be filled and sent; None if they are better sent otherwise."""
        if self._file is None or size < _SMALLEST:
            return None
        try:
            extent = self._take(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
            memory = self._file.segment(*extent.segment)
        except OSError:
            return None
        root = np.frombuffer(memory, np.uint8, extent.size, extent.start - extent.segment[0])
        extent.users = 1
        self._roots[id(root)] = extent
        weakref.finalize(root, self._root_is_gone, id(root)).atexit = False
        return root[:size]

    def _take(self, size: int) -> _Extent:
        fitting = [extent for extent in self._free if size <= extent.size <= 2 * size]
        if fitting:
            best = min(fitting, key=lambda extent: extent.size)
            self._free.remove(best)
            return best
        assert self._file is not None
        if self._segment[1] - self._next < size:
            start = self._segment[1]
            stop = start + max(_SEGMENT, size)
            os.ftruncate(self._file.descriptor, stop)
            self._segment, self._next = (start, stop), start
        extent = self._extents[self._next] = _Extent(self._segment, self._next, size)
        self._next += size
        return extent

    def _root_is_gone(self, root: int) -> None:
        self._let_go(self._roots.pop(root))

    def _let_go(self, extent: _Extent) -> None:
        extent.users -= 1
        if not extent.users:
            self._free.append(extent)

    def released(self, extents: Iterable[int]) -> None:
        """The receiver is done with these."""
        for start in extents:
            self._let_go(self._extents[start])

    def place(self, buffer: pickle.PickleBuffer) -> Place | None:
        """Where the receiver finds these bytes, copied if need be. None for bytes that are to be pickled."""
        with buffer.raw() as raw:
            if raw.nbytes < _SMALLEST:
                return None
            array = np.frombuffer(raw, np.uint8)
            source = memoryview(buffer).obj
            extent = self._roots.get(id(owner_of(source))) if isinstance(source, np.ndarray) else None
            if extent is None:
                memory = self.empty(array.size)
                if memory is None:
                    return None
                memory[:] = array
                array, extent = memory, self._roots[id(memory.base)]
            assert self._file is not None
            segment = np.frombuffer(self._file.segment(*extent.segment), np.uint8)
            start = extent.segment[0] + data_address(array) - data_address(segment)
            extent.users += 1
            return Place(extent.segment, extent.start, start, start + array.size)


# %% [markdown]
# ## Pickle, without the bytes
#
# Pickle's protocol 5 was made for this. An object that consists of bytes gives pickle a `PickleBuffer`, a window onto them, and whoever called pickle may take it aside and hand it in again when the object is loaded. NumPy's arrays do. For tensors the pickler is told here, which
# touches nothing but what is sent this way: a pickled tensor as such is what chapter 0 made it. Tensors in the way of gradients, of subclasses, or in memory with gaps take that form too.


# %%
#| into: multiprocessing/reductions.py
#| upstream: torch/multiprocessing/reductions.py#reduce_tensor
class Message(NamedTuple):
    """A pickled object, and the places of the buffers that were taken out of it. `sender` is the number of who packed it."""

    sender: int
    data: bytes
    places: list[Place]


class _Pickler(reduction.ForkingPickler):
    def reducer_override(self, thing: Any) -> Any:
        if not isinstance(thing, Tensor | UntypedStorage | TypedStorage):
            return NotImplemented
        if type(thing) is not Tensor or thing.requires_grad or thing.__dict__:
            return thing.__reduce_ex__(5)
        array = thing._array
        if array.__class__ is not np.ndarray or not array.flags.carray:
            return thing.__reduce_ex__(5)
        memory: Any = array.reshape(-1).view(np.uint8)
        return _tensor_on, (pickle.PickleBuffer(memory), thing.dtype, array.shape)


def _tensor_on(memory: Any, kind: Any, shape: tuple[int, ...]) -> Tensor:
    if isinstance(memory, np.ndarray):
        return wrap(memory.view(to_numpy_dtype(kind)).reshape(shape))
    return wrap(np.ndarray(shape, to_numpy_dtype(kind), memory))


def pack(thing: Any, sender: Sender) -> Message:
    """`thing` as a message. What pickle raises for things that cannot be pickled is raised here."""
    places: list[Place] = []

    def stays_inside(buffer: pickle.PickleBuffer) -> bool:
        place = sender.place(buffer)
        if place is not None:
            places.append(place)
        return place is None

    stream = io.BytesIO()
    _Pickler(stream, 5, True, stays_inside).dump(thing)
    return Message(sender.number, stream.getvalue(), places)


# %% [markdown]
# The receiver gets arrays on the shared memory itself: the batch that a worker stacked is the one that the training loop reads, and it is never copied. Writing into it disturbs nobody, because the sender waits for the extent.


# %%
#| into: multiprocessing/reductions.py
#| upstream: torch/multiprocessing/reductions.py#rebuild_tensor
class Receiver:
    """The reading end of a shared file."""

    def __init__(self, file: SharedFile | None) -> None:
        self.file = file
        self._released: list[int] = []

    def unpack(self, message: Message) -> Any:
        """What was packed."""
        return pickle.loads(message.data, buffers=[self._array(place) for place in message.places])

    def _array(self, place: Place) -> np.ndarray:
        assert self.file is not None
        memory = self.file.segment(*place.segment)
        root = np.frombuffer(memory, np.uint8, place.stop - place.start, place.start - place.segment[0])
        weakref.finalize(root, self._released.append, place.extent).atexit = False
        return root

    def released(self) -> list[int]:
        """The extents that have been let go of since the last call, for the sender."""
        count = len(self._released)
        gone = self._released[:count]
        del self._released[:count]
        return gone


# %%
from readtorch.multiprocessing.reductions import Receiver, Sender, SharedFile, pack

file = SharedFile()
sender, receiver = Sender(file), Receiver(file)
batch = {"images": torch.randn(64, 3, 64, 64), "labels": torch.arange(64)}
message = pack(batch, sender)
print(
    f"{len(message.data)} bytes are pickled, {[place.stop - place.start for place in message.places]} lie in shared memory"
)
there = receiver.unpack(message)
print(
    there["images"].is_shared(),
    torch.equal(there["images"], batch["images"]),
    torch.equal(there["labels"], batch["labels"]),
)

# %% [markdown]
# When the last view of it is gone the extent is free again, and the next batch lies in the same memory. That is half of the speed: fresh memory has to be cleared by the kernel, page by page, in both processes.

# %%
part = there["images"][0]
del there
print("in use:", receiver.released())
del part
print("free:", receiver.released())

# %% [markdown]
# ## Stacked where it will be read
#
# One copy is left, from the samples into the batch, and it is made straight into shared memory: in a worker `collate` asks the worker's sender for the place. The sender stands in a variable of this module, which is None in every other process.

# %%
#| into: multiprocessing/reductions.py
#| upstream: torch/utils/data/_utils/collate.py#collate_tensor_fn
outgoing: Sender | None = None
"""In a worker process, the end by which its batches leave."""


def stacked(samples: Sequence[Tensor]) -> Tensor | None:
    """Samples of one kind stacked in the memory by which this worker sends; None elsewhere, or if `torch.stack` has to see them."""
    if outgoing is not None and is_grad_enabled() and any(sample.requires_grad for sample in samples):
        raise RuntimeError(
            "stack(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad, and a worker stacks into the memory by which it sends."
        )
    if outgoing is None or any(type(sample) is not Tensor for sample in samples):
        return None
    arrays = [sample._array for sample in samples]
    first = arrays[0]
    if any(a.__class__ is not np.ndarray or a.dtype != first.dtype or a.shape != first.shape for a in arrays):
        return None
    memory = outgoing.empty(first.nbytes * len(arrays))
    if memory is None:
        return None
    return wrap(np.stack(arrays, out=memory.view(first.dtype).reshape(len(arrays), *first.shape)))


# %% [markdown]
# ## Every other queue
#
# A loader knows both ends of its pipe. A tensor may also be an argument of a process that is spawned, or be put into any queue, and there the rule is another one: what arrives is *the same memory*. So sending is not without effect on the sender. The tensor is moved to
# shared memory first, as if by `share_memory_`, and only the descriptor crosses. `multiprocessing` has a table for this, kept by its `ForkingPickler`: how objects are reduced on the way to another process, and only there. `pickle.dumps` and `copy` do not ask it.
#
# A storage that crosses twice has to be one storage on the other side: tied weights, two views, a model that is sent again each round. File descriptors have different numbers everywhere. The file behind them has an identity, device and inode.


# %%
#| into: multiprocessing/reductions.py
#| upstream: torch/multiprocessing/reductions.py#reduce_storage
#| upstream: torch/multiprocessing/reductions.py#rebuild_storage_fd
_crossed: weakref.WeakValueDictionary[tuple[int, int], np.ndarray] = weakref.WeakValueDictionary()
"""Device and inode of memory that was sent or received -> its bytes."""


def _identity(descriptor: int) -> tuple[int, int]:
    file = os.fstat(descriptor)
    return file.st_dev, file.st_ino


def reduce_storage(storage: UntypedStorage) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How a storage goes to another process. RuntimeError for shared memory that only forked processes can have."""
    if storage.device.type != "cpu" or not storage.nbytes():
        return storage.__reduce__()
    memory = _mapping_of(storage.owner)
    if not isinstance(memory, SharedMemory):
        storage.share_memory_()
        memory = _mapping_of(storage.owner)
    if not isinstance(memory, SharedMemory) or memory.descriptor < 0:
        raise RuntimeError(
            "unable to send shared memory: it has no file descriptor, so only processes forked later can have it "
            "(were there too many open files when it was made? see `ulimit -n`)"
        )
    _crossed[_identity(memory.descriptor)] = storage.owner
    return rebuild_storage, (reduction.DupFd(memory.descriptor),)


def rebuild_storage(sent: Any) -> UntypedStorage:
    """The storage on memory that another process has sent."""
    descriptor = sent.detach()
    identity = _identity(descriptor)
    owner = _crossed.get(identity)
    if owner is None:
        owner = _crossed[identity] = np.frombuffer(SharedMemory.behind(descriptor), np.uint8)
    else:
        os.close(descriptor)
    return cast(UntypedStorage, storage_of(owner, cpu))


def reduce_typed_storage(storage: TypedStorage) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The same of a storage that knows a dtype."""
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def rebuild_typed_storage(storage: UntypedStorage, dtype: Any) -> TypedStorage:
    """A storage that knows a dtype."""
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


# %% [markdown]
# The graph behind a tensor consists of objects of this process. A tensor that has one is refused, rather than sent as a leaf that looks as if its gradient went somewhere. `.grad` and hooks stay at home, as they do in every pickle.


# %%
#| into: multiprocessing/reductions.py
#| upstream: torch/multiprocessing/reductions.py#reduce_tensor
#| upstream: torch/multiprocessing/reductions.py#init_reductions
def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """How a tensor goes to another process; it is in shared memory afterwards. RuntimeError for one with a history."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor: its graph cannot follow it to another process. "
            "Send x.detach()"
        )
    warn_if_has_hooks(tensor)
    if tensor.device.type == "cpu":
        tensor.share_memory_()
    return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)


def init_reductions() -> None:
    """Tell `multiprocessing`; done when `torch.multiprocessing` is imported. Without files in memory, tensors are copied."""
    if not hasattr(os, "memfd_create"):
        return
    reduction.ForkingPickler.register(Tensor, reduce_tensor)
    reduction.ForkingPickler.register(Parameter, reduce_tensor)
    reduction.ForkingPickler.register(UntypedStorage, reduce_storage)
    reduction.ForkingPickler.register(TypedStorage, reduce_typed_storage)


# %%
#| into: multiprocessing/__init__.py
from readtorch.multiprocessing import reductions as reductions

reductions.init_reductions()


# %%
#| claim: what is sent to another process is moved to shared memory at home, and what arrives is that memory; two views arrive on one storage
#| upstream: torch/multiprocessing/reductions.py#reduce_tensor
def _(torch):
    import pickle
    from multiprocessing.reduction import ForkingPickler

    assert torch.multiprocessing.get_sharing_strategy() == "file_descriptor"
    x = torch.zeros(4)
    part = x[2:]
    there, there_part = pickle.loads(ForkingPickler.dumps([x, part]))
    assert x.is_shared() and there.is_shared()
    there[2] = 5.0
    assert x[2].item() == 5 and there_part[0].item() == 5


# %%
#| claim: a parameter that is sent twice arrives on one storage; gradients and histories do not cross
#| source: https://docs.pytorch.org/docs/2.13/notes/multiprocessing.html
def _(torch):
    import pickle
    from multiprocessing.reduction import ForkingPickler

    assert torch.multiprocessing.get_sharing_strategy() == "file_descriptor"
    weight = torch.nn.Parameter(torch.ones(2))
    (weight * 2).sum().backward()
    one, two = (pickle.loads(ForkingPickler.dumps(weight)) for _ in range(2))
    assert one is not two and one.requires_grad and one.grad is None
    assert one.data_ptr() == two.data_ptr()
    try:
        ForkingPickler.dumps(weight * 2)
    except RuntimeError as error:
        assert "Cowardly refusing to serialize non-leaf tensor" in str(error)
    else:
        raise AssertionError("sent")


# %% [markdown]
# The receiver gets the descriptor from the sender's process, by a socket, when it unpickles. A sender that has ended by then has nothing to give: *ConnectionRefusedError* or *FileNotFoundError*, seen in the process that did nothing wrong. Keep the sender alive until the
# queue has been read.
#
# ### What upstream does more
#
# `torch.multiprocessing` treats the loader's queues as all others. A batch is then a file for each tensor, its memory is given back to the system when it is no longer used, and the next batch gets fresh pages. CUDA tensors cross by a handle to the device's memory, with a
# counter that keeps it alive; here they are copied. `set_sharing_strategy("file_system")` passes names in `/dev/shm` instead of descriptors; here it changes nothing.
