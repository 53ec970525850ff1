# Tangled from chapters/02_module/7_save_load.py — edit there, or here and run `readtorch sync`.
"""The zip container: aligned, uncompressed records under one folder."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from typing import BinaryIO

import numpy as np

ALIGNMENT = 64
"""Records begin at multiples of this many bytes: enough for the widest vector loads."""

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_ZIP64_EXTRA = 20
#: Checksums are computed while what was read is still in the cache.
_CHUNK = 1 << 18
_PADDING_ID = b"FB"


class PyTorchStreamWriter:
    """Writes records into `stream`, a writable binary file, under the folder `archive_name`."""

    def __init__(self, stream: BinaryIO, archive_name: str, alignment: int = ALIGNMENT) -> None:
        self._zip = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._folder = archive_name
        self._alignment = alignment
        self._checksum = 0
        self._names: list[str] = []

    def write_record(self, name: str, data: bytes | memoryview) -> None:
        """Add a record; ValueError if there is one of that name."""
        if name in self._names:
            raise ValueError(f"record {name!r} was already written")
        self._names.append(name)
        size = memoryview(data).nbytes
        large = size >= 0xFFFFFFFF
        info = zipfile.ZipInfo(f"{self._folder}/{name}", date_time=(1980, 1, 1, 0, 0, 0))
        info.file_size = size
        info.extra = self._padding(len(info.filename.encode()), large)
        with self._zip.open(info, "w", force_zip64=large) as record:
            record.write(data)
        self._checksum = zlib.crc32(struct.pack("<I", info.CRC), self._checksum)

    def _padding(self, name_length: int, large: bool) -> bytes:
        """An extra field that moves the record's first byte to a multiple of the alignment."""
        assert self._zip.fp is not None
        start = self._zip.fp.tell() + _LOCAL_HEADER.size + name_length + 4 + _ZIP64_EXTRA * large
        padding = -start % self._alignment
        return _PADDING_ID + struct.pack("<H", padding) + b"Z" * padding

    def write_end_of_file(self) -> None:
        """Add the version and the id, and finish the archive."""
        self.write_record("version", b"3\n")
        names = zlib.crc32("\n".join(self._names).encode())
        self.write_record(".data/serialization_id", f"{names:020d}{self._checksum:020d}".encode())
        self._zip.close()


class PyTorchStreamReader:
    """Reads records of a file written by `PyTorchStreamWriter` (or by PyTorch). RuntimeError for anything damaged."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = stream.seek(0, os.SEEK_END)
        try:
            infos = zipfile.ZipFile(stream).infolist()
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            struct.error,
            ValueError,
            OverflowError,
            UnicodeError,
        ) as error:
            raise RuntimeError(f"PytorchStreamReader failed reading zip archive: {error}") from None
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
        if info.header_offset + _LOCAL_HEADER.size > self._size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it lies outside the file")
        self._stream.seek(info.header_offset)
        header = _LOCAL_HEADER.unpack(self._stream.read(_LOCAL_HEADER.size))
        offset = info.header_offset + _LOCAL_HEADER.size + header[-2] + header[-1]
        if header[0] != b"PK\x03\x04" or offset + info.file_size > self._size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it lies outside the file")
        return offset, info.file_size

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return self.get_array(name).tobytes()

    def get_array(self, name: str) -> np.ndarray:
        """The bytes of a record as a fresh uint8 array."""
        offset, size = self._locate(name)
        data = np.empty(size, np.uint8)
        self._stream.seek(offset)
        target, checksum = data.data, 0
        for start in range(0, size, _CHUNK):
            part = target[start : start + _CHUNK]
            if _read_into(self._stream, part) != part.nbytes:
                raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it ends early")
            checksum = zlib.crc32(part, checksum)
        if checksum != self._records[name].CRC:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: its checksum (CRC-32) does not fit")
        return data


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
