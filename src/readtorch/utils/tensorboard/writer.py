# Tangled from chapters/01_import/8d_event_files.py — edit there, or here and run `readtorch sync`.
"""Files of events (twin of `torch/utils/tensorboard/writer.py`)."""

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
