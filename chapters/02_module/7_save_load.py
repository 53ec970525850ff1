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
# # A model on disk: what `torch.save` writes, and why `torch.load` refuses
#
# Until 1.6 a checkpoint was a stream of pickles with the tensors' bytes behind it, and it had to be read from front to back. Today a `.pt` file is a zip archive with one pickle in it and, beside the pickle, one member for each storage. The pickle
# holds the structure (dicts, names, shapes, strides); the bytes lie outside it, uncompressed and aligned, where they can be found without reading what stands before them, and mapped into memory. Any zip tool opens it:

# %%
import io
import pickletools
import zipfile
from typing import Any

import readtorch as torch
from readtorch import nn
from readtorch.literate import live

live()

# %%
file = io.BytesIO()
torch.save({"weight": torch.arange(6.0).reshape(2, 3)}, file)
archive = zipfile.ZipFile(file)
for member in archive.infolist():
    print(f"{member.file_size:5d} bytes  {member.filename}")

# %% [markdown]
# Five of the members are one line of text each: the version of the format and of its layout, how its records are aligned, the byte order of the machine that wrote it, an id. `data/0` holds the six floats. And this is the pickle, one instruction a line:

# %%
pickletools.dis(archive.read("archive/data.pkl"))

# %% [markdown]
# Read the middle. Two names are pushed, `torch._utils._rebuild_tensor_v2` and `torch.FloatStorage`, with a tuple that says which record, which device and how many elements; `BINPERSID` turns that tuple into a storage, then come offset, shape, strides and
# `requires_grad`, and `REDUCE` calls the function. No element of the tensor is in here.
#
# This part builds the two ends that any file needs, the container and the machine that runs the pickle. The next two write and read with them.
#
# ## The container
#
# Three properties matter, and the zip format alone gives none of them. Every record is *stored*, not deflated. Its data begin at a multiple of 64, so that a mapped file can be used as an array; the padding hides in the "extra field" that zip allows in each header. And all names lie under one
# folder, called like the file, so that unpacking two checkpoints in one place does not mix them.
#
# The writer never seeks back, so that it can write to a pipe or a socket. A zip header holds the checksum of what follows, or says that it stands behind the data, in 16 bytes of their own; upstream's zip library always does the second. So must we: upstream has an option to *compute* where the records of a file lie, from their sizes, and it counts these bytes.

# %%
#| into: csrc/serialize/__init__.py
"""The container of saved files (twin of `caffe2/serialize/`)."""

# %%
#| into: csrc/serialize/inline_container.py
"""The zip container: aligned, uncompressed records under one folder."""

# %%
#| into: csrc/serialize/inline_container.py
#| imports
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

# %%
#| into: csrc/serialize/inline_container.py
#| upstream: caffe2/serialize/inline_container.h#caffe2::serialize::PyTorchStreamWriter
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


# %% [markdown]
# Two records by hand. The second begins at the next multiple of 64 after its header:

# %%
from readtorch.csrc.serialize.inline_container import PyTorchStreamReader, PyTorchStreamWriter

file = io.BytesIO()
writer = PyTorchStreamWriter(file, "by_hand")
writer.write_record("first", b"x" * 100)
writer.write_record("second", b"y")
writer.write_end_of_file()
[(member.filename, member.header_offset, member.file_size) for member in zipfile.ZipFile(file).infolist()]

# %% [markdown]
# Note where the list of members stands: at the *end*, behind everything else, with a pointer to it in the last 22 bytes. A file that was cut off, by a full disk or a broken download, has all its first records and no directory; that is what `failed finding central directory` means, the most frequent error of them all.
#
# Reading begins with distrust. The directory says how large a record is and where it lies, and whoever made the file could write anything there:
#
# | the directory says | the reader |
# |---|---|
# | a record lies beyond the end, or is larger than the file | compares offset and size with the file before it allocates anything |
# | two records share their bytes (a small file that unpacks to any size) | sorts by offset and refuses overlap |
# | a record is compressed | refuses: it would have to trust the size that it unpacks to |
# | a name leads out of the folder, or comes twice | refuses |
# | a checksum | compares it with the bytes that were read |
#
# The last has a price: a CRC takes longer than reading from the page cache. (Upstream writes checksums and does not compare them when it reads; its zip library is built with that test
# left out.) It need not be paid on the reading thread. A CRC-32 is the remainder of the bytes, taken as one long polynomial over two values, after division by a fixed polynomial $P$ of degree 32, and remainders may be taken piece by piece:
#
# $$\mathrm{crc}(AB) = \bigl(\mathrm{crc}(A) \cdot x^{8|B|} \bmod P\bigr) + \mathrm{crc}(B)$$
#
# So the pieces of a record can be checked by anyone, in any order, and joined at the end. The power of $x$ costs one multiplication of 32-bit polynomials for each bit of the length that is set.


# %%
#| into: csrc/serialize/crc_alt.py
"""The checksum of a whole from the checksums of its parts."""

# %%
#| into: csrc/serialize/crc_alt.py
#| imports
from __future__ import annotations

import functools

# %%
#| into: csrc/serialize/crc_alt.py
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


# %%
import zlib

from readtorch.csrc.serialize.crc_alt import crc32_combine

crc32_combine(zlib.crc32(b"state_"), zlib.crc32(b"dict"), len(b"dict")) == zlib.crc32(b"state_dict")

# %% [markdown]
# A large record is then read in pieces, straight into the array that will be the tensor's memory, and each piece goes to another thread for its checksum while the next one is read. (Both release the interpreter's lock, so they do run side by side.) When everything has been read, the reading thread takes pieces
# back from the end of the queue and helps.


# %%
#| into: csrc/serialize/inline_container.py
#| upstream: caffe2/serialize/inline_container.h#caffe2::serialize::PyTorchStreamReader
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


# %%
damaged = bytearray(file.getvalue())
damaged[damaged.index(b"xxxx")] = ord("z")
for data in (file.getvalue(), bytes(damaged), file.getvalue()[:300]):
    try:
        print(len(PyTorchStreamReader(io.BytesIO(data)).get_record("first")))
    except RuntimeError as error:
        print(error)


# %%
#| claim: a saved file has these records, in this order
def _(torch):
    import io
    import zipfile

    file = io.BytesIO()
    torch.save([torch.ones(1), torch.ones(2)], file)
    names = [name.removeprefix("archive/") for name in zipfile.ZipFile(file).namelist()]
    first = ["data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0", "data/1"]
    assert names == [*first, "version", ".data/serialization_id"]
    read = zipfile.ZipFile(file).read
    assert [read(f"archive/{name}") for name in (".format_version", ".storage_alignment", "version")] == [
        b"1",
        b"64",
        b"3\n",
    ]


# %% [markdown]
# ## Why is loading a pickle dangerous?
#
# A pickle is a program for a small stack machine, and two of its instructions are enough: `GLOBAL` pushes any importable object, `REDUCE` calls it. The file below would run a shell command when unpickled; nobody
# needs to look at what comes out.

# %%
import os
import pickle


class Harmless:
    def __reduce__(self) -> Any:
        return os.system, ("echo this could be anything",)


pickletools.dis(pickle.dumps(Harmless(), protocol=2))

# %% [markdown]
# No scan for suspicious names helps, since any importable function may be the dangerous one, and `getattr` makes every attribute reachable. `weights_only=True`, the default since 2.6, turns it round: the program runs on a machine of its own that knows about a dozen callables, and knows nothing else. The instruction set is
# cut down as well: what `torch.save` never writes is refused.
#
# First the list. It contains nothing that allocates by a number in the file: upstream lets a pickle call `bytearray`, and `bytearray(10**12)` is a valid call; here it must be given bytes.

# %%
#| into: _weights_only_unpickler.py
"""A pickle machine that builds tensors and plain containers, and refuses everything else."""

# %%
#| into: _weights_only_unpickler.py
#| imports
from __future__ import annotations

import codecs
import functools
import struct
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError, decode_long
from typing import Any, BinaryIO

import readtorch as torch

# %%
#| into: _weights_only_unpickler.py
#| upstream: torch/_weights_only_unpickler.py#_get_allowed_globals
_BLOCKED_MODULES = {"sys", "os", "posix", "nt"}


def _bytes_of(text: str, encoding: str = "latin1") -> bytes:
    """`codecs.encode` as protocol 2 uses it for bytes objects, and for nothing else."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise UnpicklingError(f"_codecs.encode is allowed for text in latin1 only, got encoding {encoding!r}")
    return codecs.encode(text, "latin1")


def _rebuild_from_type(function: Callable[..., Any], new_type: type, args: tuple, state: Any) -> Any:
    """`_rebuild_from_type_v2`, which calls what the file names: that must not allocate by a number either."""
    from readtorch import _tensor

    if function in _allocating() or not (isinstance(new_type, type) and issubclass(new_type, torch.Tensor)):
        raise UnpicklingError(f"cannot rebuild a {new_type!r:.80} with {function!r:.80}")
    return _tensor._rebuild_from_type_v2(function, new_type, args, state)


@functools.cache
def _allocating() -> frozenset[Any]:
    """Classes that a file may name and not call: their first argument is a size."""
    from readtorch import storage

    return frozenset({torch.Tensor, storage.UntypedStorage, storage.TypedStorage})


def _bytearray_of(data: Any = b"", encoding: str | None = None) -> bytearray:
    if isinstance(data, str) and encoding is not None:
        return bytearray(_bytes_of(data, encoding))
    if not isinstance(data, bytes):
        raise UnpicklingError(f"bytearray is allowed from bytes only, got {type(data).__name__}")
    return bytearray(data)


#: These copy their argument. A file that calls them again and again on one large object would grow without limit.
_COPYING = (set, OrderedDict, Counter, torch.Size, _bytes_of, _bytearray_of)


@functools.cache
def _allowed_globals() -> dict[str, Any]:
    """What a file may name, under upstream's names."""
    from readtorch import _utils, nn, serialization, storage
    from readtorch.c10.core import scalar_type

    allowed: dict[str, Any] = {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "torch.nn.parameter.Parameter": nn.Parameter,
        "torch.nn.parameter.Buffer": nn.Buffer,
        "torch.serialization._get_layout": serialization._get_layout,
        "torch.Size": torch.Size,
        "torch.device": torch.device,
        "torch.Tensor": torch.Tensor,
        "torch._tensor.Tensor": torch.Tensor,
        "_codecs.encode": _bytes_of,
        "builtins.bytearray": _bytearray_of,
        "__builtin__.bytearray": _bytearray_of,
        "builtins.set": set,
        "__builtin__.set": set,
        "builtins.complex": complex,
        "__builtin__.complex": complex,
        "torch.storage.UntypedStorage": storage.UntypedStorage,
        "torch.storage.TypedStorage": storage.TypedStorage,
    }
    allowed.update({f"torch.{name}": serialization.StorageType(name) for name in storage._storage_type_to_dtype()})
    allowed.update({str(kind): kind for kind in vars(scalar_type).values() if isinstance(kind, torch.dtype)})
    for function in (
        _utils._rebuild_tensor,
        _utils._rebuild_tensor_v2,
        _utils._rebuild_tensor_v3,
        _utils._rebuild_parameter,
        _utils._rebuild_parameter_with_state,
        _utils._rebuild_meta_tensor_no_storage,
        _utils._rebuild_sparse_tensor,
    ):
        allowed[f"torch._utils.{function.__name__}"] = function
    allowed["torch._tensor._rebuild_from_type_v2"] = _rebuild_from_type
    allowed["torch._utils._rebuild_from_type_v2"] = _rebuild_from_type
    return allowed


# %%
#| into: _weights_only_unpickler.py
#| upstream: torch/_weights_only_unpickler.py#_get_user_allowed_globals
_safe_globals: set[Any] = set()
"""What the user has allowed besides: objects, or pairs of an object and the name that files call it by."""


def _user_allowed_globals() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in _safe_globals:
        if isinstance(entry, tuple):
            if len(entry) != 2:
                raise ValueError(
                    f"Expected tuple of length 2 (the object, its full name), but got {len(entry)} entries"
                )
            value, name = entry
            if not isinstance(name, str):
                raise TypeError(f"Expected second item in tuple to be the full name, a str; it is a {type(name)}")
            found[name] = value
        else:
            name = f"{entry.__module__}.{entry.__qualname__}"
            found[name.removeprefix("read") if name.startswith("readtorch.") else name] = entry  # files say torch.…
    return found


# %%
from readtorch import _weights_only_unpickler

(
    sorted(
        name for name in _weights_only_unpickler._allowed_globals() if not name.endswith("Storage") and "torch." in name
    )[:8],
    len(_weights_only_unpickler._allowed_globals()),
)

# %% [markdown]
# ## The machine
#
# One method per instruction, found in a table by its byte. A stack that runs empty raises `IndexError`, as upstream's does; everything else that is wrong with a file is an `UnpicklingError` that says what it asked for.
#
# Refusing code is not enough: a file could also ask for more memory than there is. So the machine holds to one rule, that what it builds is proportional to what it has read. Strings are read in pieces, so that a length of 4 GB in a file of
# 100 bytes allocates nothing; a call that copies its argument is paid for by the bytes read so far; and dictionary keys are looked at before they are hashed, because Python hashes a tuple of tuples by recursion in C, without
# a limit. (A tuple in a tuple, a million times, ends the interpreter with a segmentation fault; forty tuples that each hold the one before twice keep it busy for hours. Upstream's machine has neither check.)
#
# First the loop, then the four instructions that could do harm: `GLOBAL`, `REDUCE`, `NEWOBJ` and `BUILD`.

# %%
#| into: _weights_only_unpickler.py
#| upstream: torch/_weights_only_unpickler.py#Unpickler
_OPCODES: dict[int, Callable[[Unpickler], None]] = {}
#: What Python raises when an instruction meets arguments that no pickler would have written.
_MALFORMED = (TypeError, ValueError, AttributeError, KeyError, OverflowError, RecursionError, MemoryError)
_PIECE = 1 << 20


def _opcode(code: bytes) -> Callable[[Callable], Callable]:
    def enter(method: Callable) -> Callable:
        _OPCODES[code[0]] = method
        return method

    return enter


class Unpickler:
    """Runs one pickle from `file`, which has `read` and `readline`. `persistent_load` turns storage references into storages."""

    def __init__(self, file: BinaryIO, *, encoding: str = "bytes") -> None:
        self._read = file.read
        self._readline = file.readline
        self.encoding = encoding
        self.memo: dict[int, Any] = {}
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []

    def persistent_load(self, pid: Any) -> Any:
        """What a storage's reference stands for: the reader's business, who puts a function in the place of this one."""
        raise UnpicklingError("unsupported persistent id encountered")

    def load(self) -> Any:
        """The object the pickle builds."""
        self.stack, self.marks = [], []
        allowed = {**_allowed_globals(), **_user_allowed_globals()}
        self._allowed = allowed
        self._callable = {id(value) for value in allowed.values()}
        self._spelled, self._copied = 0, 0
        while True:
            code = self._read(1)
            if not code:
                raise EOFError("the pickle ends before its STOP instruction")
            if code == b".":
                return self.stack.pop()
            instruction = _OPCODES.get(code[0])
            if instruction is None:
                raise UnpicklingError(f"Unsupported operand {code[0]}")
            self._spelled += 1
            try:
                instruction(self)
            except _MALFORMED as error:
                if code in b"Q":
                    raise
                raise UnpicklingError(
                    f"instruction {code!r} cannot be carried out: {error or type(error).__name__}"
                ) from error

    def _bytes(self, count: int) -> bytes:
        data = self._read(min(count, _PIECE))
        while len(data) < count:
            piece = self._read(min(count - len(data), max(_PIECE, len(data))))
            if not piece:
                raise UnpicklingError("pickle data was truncated")
            data += piece
        self._spelled += count
        return data

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    @staticmethod
    def _text(data: bytes, encoding: str = "utf-8", errors: str = "strict") -> str:
        try:
            return data.decode(encoding, errors)
        except UnicodeDecodeError as error:
            raise UnpicklingError(f"text in the pickle is not {encoding}: {error.reason}") from None

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last mark; the stack below it comes back."""
        items = self.stack
        self.stack = self.marks.pop()
        return items


# %%
#| into: _weights_only_unpickler.py
class Unpickler(Unpickler):
    @_opcode(b"c")
    def _global(self) -> None:
        module, name = (self._text(self._readline()[:-1]) for _ in range(2))
        path = f"{module}.{name}"
        if module.split(".")[0] in _BLOCKED_MODULES:
            raise UnpicklingError(f"Trying to load unsupported GLOBAL {path} whose module {module} is blocked.")
        if path not in self._allowed:
            short = path.removeprefix("builtins.").removeprefix("__builtin__.")
            raise UnpicklingError(
                f"Unsupported global: GLOBAL {short} was not an allowed global by default. If you trust this class/function, allow it by "
                f"`torch.serialization.add_safe_globals([{short}])`, or by the context manager "
                f"`torch.serialization.safe_globals([{short}])`."
            )
        self.stack.append(self._allowed[path])

    def _check_callable(self, target: Any) -> None:
        if id(target) not in self._callable:
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {target!r}")

    @_opcode(b"R")
    def _reduce(self) -> None:
        arguments = self.stack.pop()
        function = self.stack[-1]
        self._check_callable(function)
        if type(arguments) is not tuple:
            raise UnpicklingError(f"Expected a tuple of arguments, but got {type(arguments)}")
        if isinstance(function, type) and function in _allocating():
            raise UnpicklingError(f"Trying to call {function}, which would allocate by a number in the file")
        if function in _COPYING:
            self._pay_for(arguments)
        self.stack[-1] = function(*arguments)

    def _pay_for(self, arguments: tuple[Any, ...]) -> None:
        for argument in arguments:
            if isinstance(argument, str | bytes | list | tuple | dict | set):
                self._copied += len(argument)
            if isinstance(argument, list | tuple | dict | set):
                for item in argument:
                    _check_key(item)
                    if isinstance(item, list | tuple) and item:
                        _check_key(item[0])
        if self._copied > self._spelled:
            raise UnpicklingError(f"the pickle copies {self._copied} bytes and elements and spells out {self._spelled}")

    @_opcode(b"\x81")
    def _newobj(self) -> None:
        arguments = self.stack.pop()
        cls = self.stack.pop()
        if cls is torch.nn.Parameter:
            self.stack.append(torch.nn.Parameter(*arguments))
            return
        is_class = isinstance(cls, type) and id(cls) in self._callable
        if not is_class or issubclass(cls, torch.Tensor) or cls in _allocating():
            raise UnpicklingError(
                "Can only create new object for nn.Parameter, or for a class named to "
                f"`add_safe_globals`, not for {cls!r}"
            )
        self.stack.append(cls.__new__(cls, *arguments))

    @_opcode(b"b")
    def _build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        kind = type(target)
        if kind is OrderedDict:
            target.__dict__.update(state)
        elif kind is torch.nn.Parameter or (id(kind) in self._callable and hasattr(target, "__setstate__")):
            target.__setstate__(state)
        elif id(kind) in self._callable and not isinstance(target, type):
            state, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
            if state:
                target.__dict__.update(state)
            for name, value in (slots or {}).items():
                setattr(target, name, value)
        else:
            raise UnpicklingError(
                f"Can only build Tensor, Parameter, OrderedDict, or a type named to `add_safe_globals`, not {kind}"
            )

    @_opcode(b"Q")
    def _binpersid(self) -> None:
        reference = self.stack.pop()
        if type(reference) is not tuple or not reference:
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(reference)}")
        self.stack.append(self.persistent_load(reference))


# %% [markdown]
# `GLOBAL` looks a name up in the list and never imports. `REDUCE` asks by *identity* whether what it is to call came from the list, since a file can put together any object that the list's functions return. `NEWOBJ` and `BUILD` create an object and fill its `__dict__`: only for classes that the user has allowed.
#
# The others move values between the stack, a memo and containers. `SETITEM` and its relatives ask for the exact type of what they fill: `target[key] = value` on a *tensor* would write into its memory, at any place the file likes.


# %%
#| into: _weights_only_unpickler.py
class Unpickler(Unpickler):
    @_opcode(b"\x80")
    def _proto(self) -> None:
        protocol = self._bytes(1)[0]
        if protocol != 2:
            warnings.warn(
                f"Detected pickle protocol {protocol} in the checkpoint, which was not the default pickle protocol used by "
                "`torch.load` (2). Instructions that came with it are refused.",
                stacklevel=4,
            )

    @_opcode(b"(")
    def _mark(self) -> None:
        self.marks.append(self.stack)
        self.stack = []

    @_opcode(b"t")
    def _tuple(self) -> None:
        items = self.pop_mark()
        self.stack.append(tuple(items))

    @_opcode(b"\x85")
    def _tuple1(self) -> None:
        self.stack[-1] = (self.stack[-1],)

    @_opcode(b"\x86")
    def _tuple2(self) -> None:
        second, first = self.stack.pop(), self.stack.pop()
        self.stack.append((first, second))

    @_opcode(b"\x87")
    def _tuple3(self) -> None:
        third, second, first = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.stack.append((first, second, third))

    @_opcode(b"a")
    def _append(self) -> None:
        item = self.stack.pop()
        self._target(list).append(item)

    @_opcode(b"e")
    def _appends(self) -> None:
        items = self.pop_mark()
        self._target(list).extend(items)

    @_opcode(b"s")
    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _check_key(key)
        self._target(dict, OrderedDict, Counter)[key] = value

    @_opcode(b"u")
    def _setitems(self) -> None:
        items = self.pop_mark()
        if len(items) % 2:
            raise UnpicklingError("odd number of items for SETITEMS")
        target = self._target(dict, OrderedDict, Counter)
        for position in range(0, len(items), 2):
            _check_key(items[position])
            target[items[position]] = items[position + 1]

    def _target(self, *kinds: type) -> Any:
        target = self.stack[-1]
        if type(target) not in kinds:
            raise UnpicklingError(f"Can only fill {kinds[0].__name__} here, but got {type(target)}")
        return target

    @_opcode(b"h")
    def _binget(self) -> None:
        self._get(self._bytes(1)[0])

    @_opcode(b"j")
    def _long_binget(self) -> None:
        self._get(self._number("<I"))

    def _get(self, number: int) -> None:
        if number not in self.memo:
            raise UnpicklingError(f"Memo value not found at index {number}")
        self.stack.append(self.memo[number])

    @_opcode(b"q")
    def _binput(self) -> None:
        self.memo[self._bytes(1)[0]] = self.stack[-1]

    @_opcode(b"r")
    def _long_binput(self) -> None:
        self.memo[self._number("<I")] = self.stack[-1]


# %%
#| into: _weights_only_unpickler.py
def _check_key(key: Any) -> None:
    """UnpicklingError for a tuple that is too deep, or too large when written out, to be hashed."""
    if type(key) is not tuple:
        return
    level, depth, seen = [key], 0, 0
    while level:
        level = [item for each in level for item in each if isinstance(item, tuple)]
        depth, seen = depth + 1, seen + len(level)
        if depth > 100 or seen > 10_000:
            raise UnpicklingError("a key of nested tuples is too large")


# %%
#| into: _weights_only_unpickler.py
def _constant(code: bytes, make: Callable[[], Any]) -> None:
    _OPCODES[code[0]] = lambda machine: machine.stack.append(make())


def _value(code: bytes, read: Callable[[Unpickler], Any]) -> None:
    _OPCODES[code[0]] = lambda machine: machine.stack.append(read(machine))


# %%
#| into: _weights_only_unpickler.py
_constant(b"N", lambda: None)
_constant(b"\x88", lambda: True)
_constant(b"\x89", lambda: False)
_constant(b")", tuple)
_constant(b"]", list)
_constant(b"}", dict)
_constant(b"\x8f", set)
_value(b"J", lambda machine: machine._number("<i"))
_value(b"K", lambda machine: machine._bytes(1)[0])
_value(b"M", lambda machine: machine._number("<H"))
_value(b"G", lambda machine: machine._number(">d"))
_value(b"\x8a", lambda machine: decode_long(machine._bytes(machine._bytes(1)[0])))
_value(b"X", lambda machine: machine._text(machine._bytes(machine._number("<I")), errors="surrogatepass"))
_value(b"U", lambda machine: _old_text(machine._bytes(machine._bytes(1)[0]), machine.encoding))


def _old_text(data: bytes, encoding: str) -> Any:
    """A Python 2 string: bytes, or text in the encoding that the caller named."""
    return data if encoding == "bytes" else Unpickler._text(data, encoding)


# %% [markdown]
# Step through eleven instructions: two pushes, a tuple, a dictionary, and what is on the stack after each.

# %%
#| trace: torch._weights_only_unpickler layers=calls values=summary title="a dictionary with a tuple in it, on the machine"
machine = _weights_only_unpickler.Unpickler(io.BytesIO(pickle.dumps({"shape": (2, 3)}, protocol=2)))
built = machine.load()

# %%
built

# %% [markdown]
# Whatever else is in the file, it is not reached:

# %%
for program in (
    pickle.dumps(Harmless(), protocol=2),
    pickle.dumps(getattr, protocol=2),
    b"\x80\x02X\xff\xff\xff\xffabc.",
):
    try:
        _weights_only_unpickler.Unpickler(io.BytesIO(program)).load()
    except pickle.UnpicklingError as error:
        print(str(error)[:110])

# %% [markdown]
# > [!NOTE]
# > **Often told otherwise.** "With `weights_only=True` a file cannot hurt." It cannot *call* what is not on the list. The machine itself is a program that reads hostile input, and had faults: until 2.5.1 the path for files older than 0.1.10, tar archives, led around it (CVE-2025-32434); until 2.9
# > `SETITEM` did not ask what it was filling, and a record's size was not compared with the number of elements announced for it, so that a file could corrupt memory (CVE-2026-24747). Both checks are in the code above and in the next part but one. A file from a stranger is best opened in the current version, or as safetensors.


# %%
#| claim: the items of a dict cannot be set on a tensor, and a record must have the size that is announced for its storage
#| source: CVE-2026-24747
def _(torch):
    import io
    import pickle
    import zipfile

    def loads(change):
        file, changed = io.BytesIO(), io.BytesIO()
        torch.save(torch.zeros(2), file)
        with zipfile.ZipFile(file) as source, zipfile.ZipFile(changed, "w") as target:
            for name in source.namelist():
                target.writestr(name, change(name, source.read(name)))
        try:
            torch.load(io.BytesIO(changed.getvalue()), weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, ValueError):
            return False
        return True

    def with_setitem(name, data):
        return data[:-1] + b"K\x00K\x07s." if name.endswith("data.pkl") else data

    assert loads(lambda name, data: data)
    assert not loads(with_setitem)
    assert not loads(lambda name, data: data[:4] if name.endswith("data/0") else data)


# %% [markdown]
# ### What upstream does more
#
# * The container is C++ (`PyTorchStreamWriter`, `PyTorchStreamReader`) over a changed copy of miniz, and is used by TorchScript and by `torch::save` too; its reader can read one record in several chunks with several threads.
# * Its machine knows more types: sparse and quantised tensors, `DTensor`, and what `torch.serialization.add_safe_globals` was given at import.

# %%
#| fact: torch/_weights_only_unpickler.py#Unpickler.load
#| fact: torch/_weights_only_unpickler.py#_get_allowed_globals
#| fact: caffe2/serialize/inline_container.h#caffe2::serialize::PyTorchStreamReader
