# Tangled from chapters/01_import/d1_simulated_streams.py — edit there, or here and run `readtorch sync`.
"""Memory of the simulated device: who wrote and read each block, and what becomes of freed ones."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from readtorch.c10.cuda.simulated.stream import RaceError, Stream, current, current_stream

GRAIN = 512
"""Sizes are rounded up to multiples of this, as both allocators do."""
CAPACITY = 1 << 34
"""Bytes of memory that a simulated device says it has."""


class History:
    """Who wrote and read a piece of a device's memory."""

    __slots__ = ("__weakref__", "device_id", "reads", "written")

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        #: (stream, number) of the last operation that wrote it
        self.written: tuple[int, int] | None = None
        #: by stream: the number of the last operation that read it since
        self.reads: dict[int, int] = {}

    def touch(self, stream: Any, number: int, write: bool, what: str) -> None:
        """Operation `number` of `stream` reads or writes this block. RaceError if nothing orders it after the others."""
        if stream.device_id != self.device_id:
            raise ValueError(
                f"{what}: an array of device {self.device_id} in an operation of device {stream.device_id}; "
                "copy it there first"
            )
        last = self.written
        if last is not None and last[0] != stream.key and stream.clock.get(last[0], 0) < last[1]:
            raise RaceError(
                f"{what}: {stream!r} {'writes' if write else 'reads'} memory that stream {max(last[0], 0)} wrote, "
                "without waiting for it; use wait_stream or wait_event first"
            )
        if not write:
            self.reads[stream.key] = number
            return
        for other, read in self.reads.items():
            if other != stream.key and stream.clock.get(other, 0) < read:
                raise RaceError(
                    f"{what}: {stream!r} overwrites memory that stream {max(other, 0)} may still read; "
                    "let it wait for that stream first"
                )
        self.written = (stream.key, number)
        self.reads = {}


class Block(History):
    """A piece of device memory: `memory` is the NumPy array that stands for it."""

    __slots__ = ("memory", "pool", "ptr", "size", "stream")

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.stream: Stream = current_stream()
        super().__init__(self.stream.device_id)
        self.size = -(-max(int(memory.nbytes), 1) // GRAIN) * GRAIN
        #: the pool of the graph that is being captured; nobody else is ever given memory of it
        self.pool = None if self.stream.captured is None else self.stream.captured.pool
        self.ptr = pool.take(self)

    def __del__(self) -> None:
        if pool is not None:  # at the end of the interpreter it is
            pool.give_back(self)


class Pool:
    """The allocator of all simulated devices. Freed blocks stay with the stream that allocated them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._next = 0x7000_0000_0000
        #: living blocks by address
        self.blocks: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()
        self._free: dict[tuple[int, int, int], list[int]] = {}
        #: by device and stream: what other streams did to blocks that were freed: (name of the doing, stream, number)
        self._doubtful: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        self.used: dict[int, int] = {}
        self.held: dict[int, int] = {}
        self.hooks: list[Any] = []

    def take(self, block: Block) -> int:
        """An address for a new block. RaceError if it may be one that another stream still uses."""
        device, stream, size = block.device_id, block.stream, block.size
        with self._lock:
            if block.pool is None:
                self._check(device, stream)
            if self.used.get(device, 0) + size > CAPACITY:
                raise MemoryError(f"the simulated device {device} has no {size} bytes left")
            free = None if block.pool is not None else self._free.get((device, stream.key, size))
            if free:
                address = free.pop()
            else:
                address = self._next
                self._next += size
                self.held[device] = self.held.get(device, 0) + size
            self.used[device] = self.used.get(device, 0) + size
            self.blocks[address] = block
        for hook in self.hooks:
            hook.malloc_postprocess(device_id=device, size=size, mem_size=size, mem_ptr=address, pmem_id=0)
        return address

    def _check(self, device: int, stream: Stream) -> None:
        left = self._doubtful.pop((device, stream.key), None)
        if left is None:
            return
        stream.tick()
        for what, other, number in left:
            if stream.clock.get(other, 0) < number:
                raise RaceError(
                    f"memory was freed while stream {max(other, 0)} might still {what} it, and {stream!r} allocates: it may be "
                    "given that memory; call record_stream before freeing, or wait for the stream"
                )

    def give_back(self, block: Block) -> None:
        """Take a freed block in."""
        ptr = getattr(block, "ptr", None)
        if ptr is None:  # taking it was refused
            return
        own = block.stream.key
        with self._lock:
            doubtful = [("read", other, number) for other, number in block.reads.items() if other != own]
            if block.written is not None and block.written[0] != own:
                doubtful.append(("write", *block.written))
            if block.pool is not None:
                self.held[block.device_id] -= block.size
            elif doubtful:
                self._doubtful.setdefault((block.device_id, own), []).extend(doubtful)
            if block.pool is None:
                self._free.setdefault((block.device_id, own, block.size), []).append(ptr)
            self.used[block.device_id] -= block.size
        for hook in self.hooks:
            hook.free_postprocess(device_id=block.device_id, mem_size=block.size, mem_ptr=ptr, pmem_id=0)

    def at(self, address: int) -> Block:
        """The block that an address lies in."""
        for start, block in list(self.blocks.items()):
            if start <= address < start + block.size:
                return block
        raise ValueError(f"there is nothing at the address {address:#x}")

    def free_all_blocks(self, stream: Stream | None = None) -> None:
        """Give memory that nobody uses back to the device, which has to stop for it."""
        with self._lock:
            for (device, key, size), addresses in self._free.items():
                if stream is None or key == stream.key:
                    self.held[device] -= size * len(addresses)
                    addresses.clear()
            self._doubtful.clear()

    def used_bytes(self) -> int:
        """Bytes in use on the current device."""
        return self.used.get(current.device, 0)

    def total_bytes(self) -> int:
        """Bytes held on the current device, in use or not."""
        return self.held.get(current.device, 0)


pool = Pool()
