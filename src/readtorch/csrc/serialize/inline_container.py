# Tangled from chapters/02_module/7_save_load.py — edit there, or here and run `readtorch sync`.
"""The zip container: aligned, uncompressed records under one folder."""

from __future__ import annotations

import itertools
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import BinaryIO

import numpy as np

ALIGNMENT = 64
"""Records begin at multiples of this many bytes: enough for the widest vector loads."""

#: Four characters, version, flags, method, time, date, CRC, both sizes, the lengths of name and extra field.
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
#: The same with a second version before it, and comment, disk, two attributes and the offset behind it.
_DIRECTORY_ENTRY = struct.Struct("<4s6H3I5H2I")
_DIRECTORY_END = struct.Struct("<4s4H2IH")
_ZIP64_END = struct.Struct("<4sQ2H2I4Q")
_ZIP64_LOCATOR = struct.Struct("<4sIQI")
_UTF8_NAME = 0x800
_NEW_YEAR_1980 = 33
#: What does not fit into four bytes is written as this, and stands in an extra field of eight-byte numbers.
_ELSEWHERE = 0xFFFFFFFF
#: From this size on it pays to compute a checksum in another thread, in pieces of this size.
_LARGE = 1 << 20
#: Below this size it is cheaper to copy a record behind its header than to call `write` twice.
_SMALL = 1 << 12
_PADDING_ID = b"FB"


class PyTorchStreamWriter:
    """Writes records into `stream`, a writable binary file, under the folder `archive_name`; it never seeks."""

    def __init__(self, stream: BinaryIO, archive_name: str, alignment: int = ALIGNMENT) -> None:
        self._stream = stream
        self._folder = archive_name
        self._alignment = alignment
        self._position = 0
        self._checksum = 0
        self._directory: dict[str, bytes] = {}

    def _write(self, data: bytes | memoryview) -> None:
        self._stream.write(data)
        self._position += memoryview(data).nbytes

    def write_record(self, name: str, data: bytes | memoryview) -> None:
        """Add a record; ValueError if there is one of that name."""
        if name in self._directory:
            raise ValueError(f"record {name!r} was already written")
        path = f"{self._folder}/{name}".encode("utf-8", "surrogateescape")
        size, checksum, begin = memoryview(data).nbytes, zlib.crc32(data), self._position
        sizes = _numbers_elsewhere(size, size) if size >= _ELSEWHERE else b""
        shown = min(size, _ELSEWHERE)
        fields = (45 if sizes else 20, _UTF8_NAME, 0, 0, _NEW_YEAR_1980, checksum, shown, shown, len(path))
        extra = sizes + self._padding(begin + _LOCAL_HEADER.size + len(path) + len(sizes))
        head = _LOCAL_HEADER.pack(b"PK\x03\x04", *fields, len(extra)) + path + extra
        if size < _SMALL:
            self._write(b"".join((head, data)))
        else:
            self._write(head)
            self._write(data)
        extra = _numbers_elsewhere(*(n for n in (size, size, begin) if n >= _ELSEWHERE))
        tail = (len(extra), 0, 0, 0, 0, min(begin, _ELSEWHERE))
        self._directory[name] = _DIRECTORY_ENTRY.pack(b"PK\x01\x02", 45, *fields, *tail) + path + extra
        self._checksum = zlib.crc32(struct.pack("<I", checksum), self._checksum)

    def _padding(self, end: int) -> bytes:
        """An extra field, written at `end`, that moves the record's first byte to a multiple of the alignment."""
        padding = -(end + 4) % self._alignment
        return _PADDING_ID + struct.pack("<H", padding) + b"Z" * padding

    def write_end_of_file(self) -> None:
        """Add the version, the id and the directory."""
        self.write_record("version", b"3\n")
        names = zlib.crc32("\n".join(self._directory).encode("utf-8", "surrogateescape"))
        self.write_record(".data/serialization_id", f"{names:020d}{self._checksum:020d}".encode())
        begin, count = self._position, len(self._directory)
        self._write(b"".join(self._directory.values()))
        end = self._position
        size = end - begin
        if count >= 0xFFFF or end >= _ELSEWHERE:
            self._write(_ZIP64_END.pack(b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, size, begin))
            self._write(_ZIP64_LOCATOR.pack(b"PK\x06\x07", 0, end, 1))
        count, size, begin = min(count, 0xFFFF), min(size, _ELSEWHERE), min(begin, _ELSEWHERE)
        self._write(_DIRECTORY_END.pack(b"PK\x05\x06", 0, 0, count, count, size, begin, 0))


def _numbers_elsewhere(*numbers: int) -> bytes:
    """The extra field for numbers that are too large for their place; nothing for none."""
    return struct.pack(f"<2H{len(numbers)}Q", 1, 8 * len(numbers), *numbers) if numbers else b""


class PyTorchStreamReader:
    """Reads records of a file written by `PyTorchStreamWriter` (or by PyTorch). RuntimeError for anything damaged."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = stream.seek(0, os.SEEK_END)
        try:
            infos = zipfile.ZipFile(stream).infolist()
        except zipfile.BadZipFile as error:
            raise RuntimeError(
                f"PytorchStreamReader failed reading zip archive: failed finding central directory ({error}). It stands at "
                "the end of the file: was the file cut off while it was written or downloaded?"
            ) from None
        except (
            NotImplementedError,
            struct.error,
            ValueError,
            OverflowError,
            UnicodeError,
            MemoryError,
        ) as error:
            raise RuntimeError(
                f"PytorchStreamReader failed reading zip archive: {error or type(error).__name__}"
            ) from None
        if not infos:
            raise RuntimeError("PytorchStreamReader failed reading zip archive: archive does not contain any files")
        self.archive_name = infos[0].filename.split("/")[0]
        self._records: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            folder, _, name = info.filename.partition("/")
            if folder != self.archive_name or not name or ".." in name.split("/"):
                raise RuntimeError(
                    f"PytorchStreamReader failed reading zip archive: member {info.filename!r} is outside"
                )
            if name in self._records:
                raise RuntimeError(f"PytorchStreamReader failed reading zip archive: two members {info.filename!r}")
            self._records[name] = info
        self._check_overlap(infos)
        self._pool = ThreadPoolExecutor(1)  # starts no thread before the first task
        self._checks: list[tuple[str, Callable[[], int]]] = []

    @staticmethod
    def _check_overlap(infos: list[zipfile.ZipInfo]) -> None:
        """No byte may belong to two records, or a small file could fill any memory."""
        infos = sorted(infos, key=lambda info: info.header_offset)
        for info, following in itertools.pairwise(infos):
            if info.header_offset + _LOCAL_HEADER.size + info.compress_size > following.header_offset:
                raise RuntimeError(
                    f"PytorchStreamReader failed reading zip archive: members {info.filename!r} and "
                    f"{following.filename!r} overlap"
                )

    def has_record(self, name: str) -> bool:
        """Is there a record called `name`?"""
        return name in self._records

    def get_all_records(self) -> list[str]:
        """The names of all records, in file order."""
        return list(self._records)

    def get_record_offset(self, name: str) -> int:
        """Where the data of a record begin, counted from the start of the file."""
        return self._locate(name)[0]

    def get_record_size(self, name: str) -> int:
        """Size of a record in bytes."""
        return self._locate(name)[1]

    def _locate(self, name: str) -> tuple[int, int]:
        info = self._records.get(name)
        if info is None:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it is compressed")
        if not 0 <= info.header_offset <= self._size - _LOCAL_HEADER.size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it lies outside the file")
        self._stream.seek(info.header_offset)
        start = self._stream.read(_LOCAL_HEADER.size)
        if len(start) != _LOCAL_HEADER.size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it ends early")
        header = _LOCAL_HEADER.unpack(start)
        offset = info.header_offset + _LOCAL_HEADER.size + header[-2] + header[-1]
        if header[0] != b"PK\x03\x04" or offset + info.file_size > self._size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it lies outside the file")
        return offset, info.file_size

    def get_record(self, name: str) -> bytes:
        """The bytes of a record, checked."""
        data = self.get_array(name).tobytes()
        self.check()
        return data

    def get_array(self, name: str) -> np.ndarray:
        """The bytes of a record as a fresh uint8 array, whose checksum the next `check` compares."""
        offset, size = self._locate(name)
        data = np.empty(size, np.uint8)
        self._stream.seek(offset)
        if size < _LARGE:
            read = _read_into(self._stream, data.data)
            self._checks.append((name, partial(zlib.crc32, data.data)))
        else:
            read = self._read_large(name, data.data)
        if read != size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it ends early")
        return data

    def _read_large(self, name: str, target: memoryview) -> int:
        """Fill `target` piece by piece; the checksum of a piece is computed while the next one is read."""
        checksum: Callable[[], int] = int  # of nothing: 0
        read = 0
        for begin in range(0, target.nbytes, _LARGE):
            piece = target[begin : begin + _LARGE]
            read += _read_into(self._stream, piece)
            #: One thread takes the pieces in order, so the one before is done when this one begins.
            checksum = self._pool.submit(_crc_after, checksum, piece).result
        self._checks.append((name, checksum))
        return read

    def check(self) -> None:
        """RuntimeError if a record that was read since the last call does not have its checksum."""
        checks, self._checks = self._checks, []
        for name, checksum in checks:
            if checksum() != self._records[name].CRC:
                raise RuntimeError(
                    f"PytorchStreamReader failed reading file {name}: its checksum (CRC-32) does not fit"
                )


def _crc_after(before: Callable[[], int], piece: memoryview) -> int:
    return zlib.crc32(piece, before())


def _read_into(stream: BinaryIO, target: memoryview) -> int:
    """Fill `target`; returns how many bytes there were. Files without `readinto` are read and copied."""
    if not target.nbytes:
        return 0
    if not hasattr(stream, "readinto"):
        data = stream.read(target.nbytes)
        target[: len(data)] = data
        return len(data)
    filled = 0
    while filled < target.nbytes:
        count = stream.readinto(target[filled:])
        if not count:
            break
        filled += count
    return filled
