# Tangled from chapters/a3_kernels/6_dropout.py — edit there, or here and run `readtorch sync`.
"""What Philox gives to groups of four elements, by NumPy."""

from __future__ import annotations

import numpy as np

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(seed: int, subsequence: np.ndarray, offset: int) -> np.ndarray:
    """Four 32-bit numbers for each entry of `subsequence (n,)`: `(n, 4)`.

    A seed has 2⁶⁴ subsequences of 2⁶⁶ numbers; `offset` counts them in fours.
    """
    which = np.asarray(subsequence, np.uint64)
    counter = [
        np.full(which.shape, offset & 0xFFFFFFFF, np.uint64),
        np.full(which.shape, offset >> 32 & 0xFFFFFFFF, np.uint64),
        which & _LOW,
        which >> _HALF,
    ]
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        one, two = counter[0] * _MULTIPLIERS[0], counter[2] * _MULTIPLIERS[1]
        counter = [
            (two >> _HALF) ^ counter[1] ^ np.uint64(key[0]),
            two & _LOW,
            (one >> _HALF) ^ counter[3] ^ np.uint64(key[1]),
            one & _LOW,
        ]
        key = [(k + w) & 0xFFFFFFFF for k, w in zip(key, _WEYL, strict=True)]
    return np.stack(counter, -1).astype(np.uint32)


def uniform(bits: np.ndarray) -> np.ndarray:
    """32 bits to a float32 in (0, 1]: the middle of one of 2³² steps."""
    return bits.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
