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
# # Curves on disk
#
# `SummaryWriter` is how many scripts report: a loss, a histogram of weights, a picture each hundred steps. It writes files; TensorBoard, another program, reads them. Upstream leans on the package `tensorboard` for the format. The format is small: records with checksums, each an event in the encoding of protocol buffers, and needs no package.

# %%
import tempfile
from pathlib import Path

import readtorch as torch
from readtorch.literate import live

live()

# %% [markdown]
# ## Messages
#
# A message is a row of fields. Each begins with its number and its kind: 0 a whole number of variable length, seven bits in a byte; 1 and 5 eight and four bytes as they are; 2 a length and so many bytes, for strings and for messages inside.

# %%
#| into: utils/tensorboard/summary.py
"""Events in the encoding that TensorBoard reads (twin of `torch/utils/tensorboard/summary.py`)."""

# %%
#| into: utils/tensorboard/summary.py
#| imports
from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

import readtorch as torch


# %%
#| into: utils/tensorboard/summary.py
#| upstream: torch/utils/tensorboard/summary.py#scalar
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


# %%
#| into: utils/tensorboard/summary.py
#| upstream: torch/utils/tensorboard/summary.py#histogram
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


# %% [markdown]
# A picture is a PNG: a signature and three chunks, each with its checksum; the middle one is the rows, compressed, each after a byte that says *not filtered*.


# %%
#| into: utils/tensorboard/summary.py
#| upstream: torch/utils/tensorboard/summary.py#image
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


# %% [markdown]
# ## Records
#
# A record is its length, a checksum of the length, the event, a checksum of the event. The checksum is the Castagnoli polynomial's, turned and shifted (*masked*), since a checksum of data that contain checksums is weak.

# %%
#| into: utils/tensorboard/writer.py
"""Files of events (twin of `torch/utils/tensorboard/writer.py`)."""

# %%
#| into: utils/tensorboard/writer.py
#| imports
from __future__ import annotations

import os
import socket
import struct
import time
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from readtorch.utils.tensorboard import summary


# %%
#| into: utils/tensorboard/writer.py
#| upstream: torch/utils/tensorboard/writer.py#FileWriter
def _table() -> list[int]:
    entries = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        entries.append(value)
    return entries


_CRC32C = _table()


def _checksum(data: bytes) -> bytes:
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC32C[(value ^ byte) & 255] ^ value >> 8
    value ^= 0xFFFFFFFF
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


class FileWriter:
    """One file of events below `log_dir`, which is made if need be; written when `max_queue` of them wait, or after `flush_secs`."""

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = "") -> None:
        folder = Path(log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        number = FileWriter._made = getattr(FileWriter, "_made", -1) + 1
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{number}{filename_suffix}"
        self._folder, self._max_queue, self._flush_secs = str(log_dir), max_queue, flush_secs
        self._file = (folder / name).open("ab")
        self._waiting, self._flushed = 0, time.monotonic()
        self._record(summary.version(time.time()))
        self.flush()

    _made: int

    def get_logdir(self) -> str:
        """The folder of the file."""
        return self._folder

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        self._file.write(length + _checksum(length) + data + _checksum(data))

    def add(self, value: bytes, step: int | None, walltime: float | None) -> None:
        """Write one value as an event."""
        self._record(summary.event(time.time() if walltime is None else walltime, step, value))
        self._waiting += 1
        if self._waiting >= self._max_queue or time.monotonic() - self._flushed > self._flush_secs:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the operating system."""
        if not self._file.closed:
            self._file.flush()
        self._waiting, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """Flush, and write no more."""
        self._file.close()


# %%
#| into: utils/tensorboard/writer.py
#| upstream: torch/utils/tensorboard/writer.py#SummaryWriter
class SummaryWriter:
    """Curves, histograms, pictures and texts for TensorBoard, below `log_dir` (by default a folder of `runs/` by time and host)."""

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            log_dir = os.path.join(
                "runs", datetime.now().strftime("%b%d_%H-%M-%S") + "_" + socket.gethostname() + comment
            )
        self.log_dir = log_dir
        self.purge_step, self.max_queue, self.flush_secs, self.filename_suffix = (
            purge_step,
            max_queue,
            flush_secs,
            filename_suffix,
        )
        self.default_bins = summary.default_bins()
        self.all_writers: dict[str, FileWriter] = {}
        self._get_file_writer()

    def _get_file_writer(self, folder: Any = None) -> FileWriter:
        place = str(self.log_dir if folder is None else folder)
        if place not in self.all_writers:
            self.all_writers[place] = FileWriter(place, self.max_queue, self.flush_secs, self.filename_suffix)
        return self.all_writers[place]

    def get_logdir(self) -> str:
        """The folder of the files."""
        return str(self.log_dir)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """A point of curve `tag`. The last two options choose other encodings upstream; here it is always a float32."""
        self._get_file_writer().add(summary.scalar(tag, scalar_value), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Points of several curves in one diagram: a folder for each, as that is how TensorBoard tells them apart."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.get_logdir(), main_tag.replace("/", "_") + "_" + tag)
            self._get_file_writer(folder).add(summary.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How values are distributed. `bins`: "tensorflow" for limits that grow by a tenth, or what `numpy.histogram` takes."""
        limits = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._get_file_writer().add(summary.histogram(tag, values, limits, max_bins), global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """A picture."""
        self._get_file_writer().add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Pictures, side by side."""
        self._get_file_writer().add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Markdown."""
        self._get_file_writer().add(summary.text(tag, text_string), global_step, walltime)

    def flush(self) -> None:
        """Hand everything to the operating system."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Flush, and write no more until something is added."""
        for writer in self.all_writers.values():
            writer.close()
        self.all_writers = {}

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# %%
#| into: utils/tensorboard/__init__.py
"""Curves on disk for TensorBoard (twin of `torch/utils/tensorboard/__init__.py`)."""

from readtorch.utils.tensorboard.writer import FileWriter as FileWriter
from readtorch.utils.tensorboard.writer import SummaryWriter as SummaryWriter

# %% [markdown]
# A file begins with the version, and every record of it can be checked.

# %%
#| needs: 02_module
with tempfile.TemporaryDirectory() as folder:
    from readtorch.utils.tensorboard import SummaryWriter

    with SummaryWriter(folder) as writer:
        writer.add_scalar("loss", torch.tensor(0.5), 1)
        writer.add_histogram("weights", torch.nn.Linear(3, 3).weight, 1)
    (file,) = Path(folder).iterdir()
    print(file.stat().st_size, "bytes, of which", file.read_bytes()[23:36].decode())

# %% [markdown]
# ## What upstream does more
#
# `add_figure`, `add_video`, `add_audio`, `add_mesh`, `add_embedding`, `add_pr_curve`, `add_hparams`, `add_graph` and custom layouts; and a thread of its own that writes.
