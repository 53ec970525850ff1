# Tangled from chapters/00_tensor/15_storage.py — edit there, or here and run `readtorch sync`.

from __future__ import annotations

import os

import numpy as np


def map_file(filename: str | os.PathLike[str], shared: bool, nbytes: int) -> np.ndarray:
    """The first bytes of a file as an array. Writes reach the file if it is `shared`, which also makes it large enough."""
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < nbytes:
                file.truncate(nbytes)
    if not nbytes:
        return np.empty(0, np.uint8)
    if (have := os.path.getsize(filename)) < nbytes:
        raise RuntimeError(f"file <{filename}> size <{have}> is smaller than the required mapping size <{nbytes}>")
    mapped = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,))
    #: Through a memoryview, the new array's base is no array: it owns its bytes as far as storages are concerned.
    return np.frombuffer(mapped.data, np.uint8)
