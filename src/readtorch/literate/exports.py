"""C++ names that a shared library exports, read from its ELF symbol table: proof that a name exists in a release."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path

SOURCE_PATH = re.compile(rb"(?:aten/src/ATen|c10|caffe2/serialize|torch/csrc)/[\w./-]+\.(?:cpp|cc|c)\x00")


def exported_names(library: Path) -> set[tuple[str, ...]]:
    """Qualified names of the functions and objects defined in `library` (64-bit little-endian ELF), C++ names demangled
    as far as their components. ValueError for another kind of file.
    """
    return {parts for symbol in _dynamic_symbols(library) if (parts := components(symbol))}


def components(symbol: str) -> tuple[str, ...]:
    """`_ZN2at6native3addERKNS_6TensorES3_` to ("at", "native", "add"); () for what has no plain name (operators, thunks)."""
    match = re.match(r"_ZN[KVrRO]*(?=\d)|_Z(?=\d)", symbol)
    if match is None:
        return () if symbol.startswith("_") else (symbol,)
    found: list[str] = []
    position = match.end()
    while length := re.compile(r"\d+").match(symbol, position):
        position = length.end() + int(length[0])
        found.append(symbol[length.end() : position])
        if match[0] == "_Z" or symbol[position : position + 1] == "I":
            break
    if match[0] != "_Z" and symbol[position : position + 1] in ("C", "D") and found:
        found.append(("~" if symbol[position] == "D" else "") + found[-1])
    return tuple(found)


def source_paths(library: Path) -> set[str]:
    """Source files whose path the library carries (in checks and log calls)."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        return {match[0][:-1].decode() for match in SOURCE_PATH.finditer(image)}


def _dynamic_symbols(library: Path) -> Iterator[str]:
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        if image[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{library.name} is no 64-bit ELF library")
        offset, size, count = struct.unpack_from("<Q", image, 40)[0], *struct.unpack_from("<HH", image, 58)
        sections = [struct.unpack_from("<IIQQQQIIQQ", image, offset + size * i) for i in range(count)]
        for section in sections:
            if section[1] != 11:  # SHT_DYNSYM
                continue
            strings = sections[section[6]]
            names = bytes(image[strings[4] : strings[4] + strings[5]])
            for name, info, _, shndx in struct.iter_unpack("<IBBH16x", image[section[4] : section[4] + section[5]]):
                if shndx and info & 15 in (1, 2, 10):  # defined: object, function, indirect function
                    yield names[name : names.index(b"\0", name)].decode()
