# Tangled from chapters/02_module/7_save_load.py — edit there, or here and run `readtorch sync`.
"""The zip container: aligned, uncompressed records under one folder."""

from __future__ import annotations

import itertools
import os
import struct
import zipfile
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

import numpy as np

from readtorch.csrc.serialize.crc_alt import crc32_combine

ALIGNMENT = 64
"""Records begin at multiples of this many bytes: enough for the widest vector loads."""

#: Four characters, version, flags, method, time, date, CRC, both sizes, the lengths of name and extra field.
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
#: The same with a second version before it, and comment, disk, two attributes and the offset behind it.
_DIRECTORY_ENTRY = struct.Struct("<4s6H3I5H2I")
_DIRECTORY_END = struct.Struct("<4s4H2IH")
_ZIP64_END = struct.Struct("<4sQ2H2I4Q")
_ZIP64_LOCATOR = struct.Struct("<4sIQI")
#: Checksum and both sizes once more, behind a record that is not empty.
_FACTS, _LARGE_FACTS = struct.Struct("<4s3I"), struct.Struct("<4sI2Q")
_UTF8_NAME, _FACTS_BEHIND = 0x800, 8
_NEW_YEAR_1980 = 33
#: What does not fit into four bytes is written as this, and stands in an extra field of eight-byte numbers.
_ELSEWHERE = 0xFFFFFFFF
#: From this size on it pays to compute a checksum in another thread,
_LARGE = 1 << 18
#: in pieces of this size.
_PIECE = 1 << 22
#: Below this size it is cheaper to copy a record behind its header than to call `write` twice.
_SMALL = 1 << 12
_PADDING_ID = b"FB"
#: Stands for a checksum where the writer was told to spare it, or did not have the data.
_NOT_COMPUTED = 0


class PyTorchStreamWriter:
    """Writes records into `stream`, a writable binary file, under the folder `archive_name`; it never seeks."""

    def __init__(
        self, stream: BinaryIO, archive_name: str, compute_crc32: bool = True, alignment: int = ALIGNMENT
    ) -> None:
        self._stream = stream
        self._folder = archive_name
        self._alignment = alignment
        self._compute_crc32 = compute_crc32
        self._position = 0
        self._checksum = 0
        self._directory: dict[str, bytes] = {}

    def _write(self, data: bytes | memoryview) -> None:
        self._stream.write(data)
        self._position += memoryview(data).nbytes

    def write_record(self, name: str, data: bytes | memoryview) -> None:
        """Add a record; ValueError if there is one of that name."""
        size, checksum = memoryview(data).nbytes, zlib.crc32(data) if self._compute_crc32 else _NOT_COMPUTED
        head, tail = self._enter(name, size, checksum)
        if size < _SMALL:
            self._write(b"".join((head, data, tail)))
        else:
            self._write(head)
            self._write(data)
            self._write(tail)

    def write_record_metadata(self, name: str, size: int) -> None:
        """Add a record of `size` bytes that are to be filled in later: zeros, without a checksum."""
        head, tail = self._enter(name, size, _NOT_COMPUTED)
        zeros = memoryview(bytes(min(size, _PIECE)))
        self._write(head)
        for begin in range(0, size, _PIECE):
            self._write(zeros[: size - begin])
        self._write(tail)

    def _enter(self, name: str, size: int, checksum: int) -> tuple[bytes, bytes]:
        """Enter a record that begins here into the directory; what the caller is to write before and behind its data."""
        if name in self._directory:
            raise ValueError(f"record {name!r} was already written")
        path, begin = f"{self._folder}/{name}".encode("utf-8", "surrogateescape"), self._position
        sizes = _numbers_elsewhere(size, size) if size >= _ELSEWHERE else b""
        needed, shown = 45 if sizes else 20, min(size, _ELSEWHERE)
        flags = _UTF8_NAME | _FACTS_BEHIND if size else _UTF8_NAME
        fields = (needed, flags, 0, 0, _NEW_YEAR_1980, checksum, shown, shown, len(path))
        extra = sizes + self._padding(begin + _LOCAL_HEADER.size + len(path) + len(sizes))
        shown = _ELSEWHERE if sizes else 0
        local = (needed, flags, 0, 0, _NEW_YEAR_1980, 0, shown, shown, len(path))
        head = _LOCAL_HEADER.pack(b"PK\x03\x04", *local, len(extra)) + path + extra
        facts = _LARGE_FACTS if max(size, begin) >= _ELSEWHERE else _FACTS
        behind = facts.pack(b"PK\x07\x08", checksum, size, size) if size else b""
        extra = _numbers_elsewhere(*(n for n in (size, size, begin) if n >= _ELSEWHERE))
        tail = (len(extra), 0, 0, 0, 0, min(begin, _ELSEWHERE))
        self._directory[name] = _DIRECTORY_ENTRY.pack(b"PK\x01\x02", 45, *fields, *tail) + path + extra
        self._checksum = zlib.crc32(struct.pack("<I", checksum), self._checksum)
        return head, behind

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


VERSIONS = range(1, 11)
"""Of the format: files of 2.13 say 3, and later ones may hold what no file written from Python holds."""
_LONGEST_NUMBER = 32


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
                "the end of the file, so this checkpoint file is likely corrupted: it was not saved to its end, was cut off "
                "when it was transferred, or was modified after saving"
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
        self._checks: list[tuple[str, list[tuple[memoryview, Future[int]]]]] = []
        self.version = self._read_version()

    def _read_version(self) -> int:
        """The version of the format. RuntimeError if it is missing, no number, or not one that is known here."""
        name = next((name for name in (".data/version", "version") if name in self._records), None)
        if name is None:
            raise RuntimeError(
                'PytorchStreamReader failed reading zip archive: Expected hasRecord("version") to be true'
            )
        text = self.get_record(name).strip() if self.get_record_size(name) <= _LONGEST_NUMBER else b""
        if not text.isdigit():
            raise RuntimeError(f"PytorchStreamReader failed: Couldn't parse the version {text.decode('latin1')!r}")
        version = int(text)
        if version not in VERSIONS:
            raise RuntimeError(
                f"Attempted to read a PyTorch file with version {version}, but the versions supported are {VERSIONS.start} to "
                f"{VERSIONS.stop - 1}. A newer library wrote it, or the file is damaged"
            )
        return version

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

    def get_record_offset_no_read(self, name: str, alignment: int) -> int:
        """The same from the directory alone: a record begins at the first multiple of `alignment` behind its header."""
        info = self._entry(name)
        if max(info.header_offset, info.file_size) >= _ELSEWHERE:
            return self.get_record_offset(name)
        end = info.header_offset + _LOCAL_HEADER.size + len(info.filename.encode()) + 4
        offset = end + -end % alignment
        if offset + info.file_size > self._size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it lies outside the file")
        return offset

    def get_record_size(self, name: str) -> int:
        """Size of a record in bytes."""
        return self._entry(name).file_size

    def _entry(self, name: str) -> zipfile.ZipInfo:
        """What the directory says of a record, where that can be true."""
        info = self._records.get(name)
        if info is None:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it is compressed")
        if not 0 <= info.header_offset <= self._size - _LOCAL_HEADER.size - info.file_size:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it lies outside the file")
        return info

    def _locate(self, name: str) -> tuple[int, int]:
        info = self._entry(name)
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
        """The bytes of a record as a fresh uint8 array. The checksum of a large one is compared by the next `check`."""
        offset, size = self._locate(name)
        data = _empty(size)
        self._stream.seek(offset)
        pieces: list[tuple[memoryview, Future[int]]] = []
        is_checked = self._records[name].CRC != _NOT_COMPUTED
        for begin in range(0, size, _PIECE):
            piece = data.data[begin : begin + _PIECE]
            if _read_into(self._stream, piece) != piece.nbytes:
                raise RuntimeError(f"PytorchStreamReader failed reading file {name}: it ends early")
            if is_checked and size >= _LARGE:
                pieces.append((piece, self._pool.submit(zlib.crc32, piece)))
        if pieces:
            self._checks.append((name, pieces))
        elif is_checked:
            self._compare(name, zlib.crc32(data.data))
        return data

    def check(self) -> None:
        """RuntimeError if a record that was read since the last call does not have its checksum."""
        checks, self._checks = self._checks, []
        for name, pieces in reversed(checks):
            checksum, length = 0, 0
            for piece, future in reversed(pieces):
                before = zlib.crc32(piece) if future.cancel() else future.result()
                checksum = crc32_combine(before, checksum, length)
                length += piece.nbytes
            self._compare(name, checksum)

    def _compare(self, name: str, checksum: int) -> None:
        if checksum != self._records[name].CRC:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: its checksum (CRC-32) does not fit")


def _empty(size: int) -> np.ndarray:
    """Uninitialised bytes that begin at a multiple of the alignment, as PyTorch's tensors do and NumPy's arrays need not."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + size]


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
