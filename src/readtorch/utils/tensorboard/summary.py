# Tangled from chapters/01_import/8d_event_files.py — edit there, or here and run `readtorch sync`.
"""Events in the encoding that TensorBoard reads (twin of `torch/utils/tensorboard/summary.py`)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

import readtorch as torch


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _whole(field: int, value: int) -> bytes:
    return _number(field << 3) + _number(value)


def _double(field: int, value: float) -> bytes:
    return _number(field << 3 | 1) + struct.pack("<d", value)


def _block(field: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return _number(field << 3 | 2) + _number(len(data)) + data


def _doubles(field: int, values: Iterable[float]) -> bytes:
    return _block(field, np.asarray(list(values), "<f8").tobytes())


def as_array(value: Any) -> np.ndarray:
    """A NumPy array of a tensor, an array, a number or a list of numbers."""
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def event(wall_time: float, step: int | None, value: bytes) -> bytes:
    """What one record holds: when, at which step, and the value."""
    return _double(1, wall_time) + (b"" if step is None else _whole(2, int(step))) + _block(5, _block(1, value))


def version(wall_time: float) -> bytes:
    """The first record of a file."""
    return _double(1, wall_time) + _block(3, "brain.Event:2")


def scalar(tag: str, value: Any) -> bytes:
    """A point of a curve."""
    array = as_array(value)
    if array.size != 1:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions). Was given size: {array.size} and {array.ndim} dimensions."
        )
    return _block(1, tag) + _number(2 << 3 | 5) + struct.pack("<f", array.item())


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> bytes:
    """Counts between limits. ValueError for no values."""
    flat = as_array(values).reshape(-1).astype(np.float64)
    if not flat.size:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(flat, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        together = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, np.arange(0, len(counts), together))
        limits = np.append(limits[:-1:together], limits[-1])
    held = np.flatnonzero(counts)
    first, last = (held[0], held[-1] + 1) if len(held) else (0, len(counts))
    #: one empty bucket on the left says where the first one begins
    shown = [0, *counts[first:last].tolist()]
    content = (
        _double(1, flat.min())
        + _double(2, flat.max())
        + _double(3, flat.size)
        + _double(4, flat.sum())
        + _double(5, float(flat @ flat))
    )
    return _block(1, tag) + _block(5, content + _doubles(6, limits[first : last + 1]) + _doubles(7, shown))


def default_bins() -> list[float]:
    """Limits that grow by a tenth from 1e-12 on, to both sides of zero."""
    up, value = [], 1e-12
    while value < 1e20:
        up.append(value)
        value *= 1.1
    return [*(-limit for limit in reversed(up)), 0.0, *up]


def _png(pixels: np.ndarray) -> bytes:
    height, width, channels = pixels.shape

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def image(tag: str, value: Any, dataformats: str = "CHW") -> bytes:
    """A picture, or several in a row (N in `dataformats`). Floats are shades from 0 to 1, uint8 as they are."""
    array = as_array(value)
    if array.ndim != len(dataformats):
        raise AssertionError(f"size of tensor and dataformats must match: {array.shape} and {dataformats}")
    scale = 1 if array.dtype == np.uint8 else 255
    named = dict(zip(dataformats.upper(), range(array.ndim), strict=True))
    for missing in set("NCHW") - set(named):
        array = array[..., None]
        named[missing] = array.ndim - 1
    many = array.transpose([named[axis] for axis in "NHWC"])
    if many.shape[-1] == 1:
        many = np.repeat(many, 3, -1)
    row = np.concatenate(list(many), axis=1).astype(np.float32)
    pixels = np.clip(row * scale, 0, 255).astype(np.uint8)
    size = _whole(1, pixels.shape[0]) + _whole(2, pixels.shape[1]) + _whole(3, pixels.shape[2])
    return _block(1, tag) + _block(4, size + _block(4, _png(pixels)))


def text(tag: str, content: str) -> bytes:
    """Markdown, for the plugin that shows texts."""
    tensor = _whole(1, 7) + _block(2, _block(2, _whole(1, 1))) + _block(8, content)
    return _block(1, tag + "/text_summary") + _block(9, _block(1, _block(1, "text"))) + _block(8, tensor)
