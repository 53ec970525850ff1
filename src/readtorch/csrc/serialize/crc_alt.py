# Tangled from chapters/02_module/7_save_load.py — edit there, or here and run `readtorch sync`.
"""The checksum of a whole from the checksums of its parts."""

from __future__ import annotations

import functools

_POLYNOMIAL = 0xEDB88320
"""Of CRC-32, without its term of degree 32. The highest bit is the lowest power, as in the checksum itself."""
_ONE = 1 << 31


def _multiply(a: int, b: int) -> int:
    """The product of two polynomials, modulo the one of CRC-32."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


@functools.cache
def _squared(times: int) -> int:
    """What a whole byte, shifted by, amounts to, squared so many times: x to the power of 8 · 2 ** times."""
    if times == 0:
        return _ONE >> 8
    root = _squared(times - 1)
    return _multiply(root, root)


@functools.lru_cache(1024)
def _shift(length: int) -> int:
    power, bit = _ONE, 0
    while length >> bit:
        if length >> bit & 1:
            power = _multiply(power, _squared(bit))
        bit += 1
    return power


def crc32_combine(first: int, second: int, length: int) -> int:
    """The CRC-32 of two byte strings behind one another, from theirs and the length of the second."""
    return _multiply(_shift(length), first) ^ second
