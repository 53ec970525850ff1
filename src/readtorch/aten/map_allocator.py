# Tangled from chapters/00_tensor/15_storage.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import mmap
import os
import weakref

import numpy as np


def map_file(filename: str | os.PathLike[str], shared: bool, nbytes: int) -> np.ndarray:
    """The first bytes of a file as an array. Writes reach the file if it is `shared`, which also makes it large enough."""
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < nbytes:
                file.truncate(nbytes)
    if not nbytes:
        return np.empty(0, np.uint8)
    if not os.path.exists(filename):
        raise RuntimeError(f"unable to open file <{filename}> in read-only mode: No such file or directory (2)")
    if (have := os.path.getsize(filename)) < nbytes:
        raise RuntimeError(f"file <{filename}> size <{have}> is smaller than the required mapping size <{nbytes}>")
    mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,))
    #: Through a memoryview, the new array's base is no array: it owns its bytes as far as storages are concerned.
    return np.frombuffer(mapped.data, np.uint8)


class SharedMemory(mmap.mmap):
    """Memory without a name. Processes forked later share it, and those that are given its descriptor."""

    #: -1 for memory that only forked processes can share
    descriptor = -1

    @classmethod
    def of_size(cls, nbytes: int) -> SharedMemory:
        """New memory, full of zeros."""
        descriptor = -1
        try:
            descriptor = os.memfd_create("readtorch")
            os.ftruncate(descriptor, nbytes)
            return cls.behind(descriptor)
        except (AttributeError, OSError):
            if descriptor >= 0:
                os.close(descriptor)
            return cls(-1, nbytes)

    @classmethod
    def behind(cls, descriptor: int) -> SharedMemory:
        """What a descriptor stands for; it belongs to the mapping from now on."""
        memory = cls(descriptor, 0)
        memory.descriptor = descriptor
        weakref.finalize(memory, os.close, descriptor).atexit = False
        return memory
