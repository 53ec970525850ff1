# Tangled from chapters/01_import/d6_cuda_backend.py — edit there, or here and run `readtorch sync`.
"""Philox-4x32-10: random words as a function of a key and a counter (twin of `aten/src/ATen/core/PhiloxRNGEngine.h`)."""

from __future__ import annotations

from typing import Any

import numpy as np

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
