"""CUDA sources compiled for a real device by NVRTC, without a device, a driver or CuPy; and what the machine code says of itself.

    for kernel in compiled(source, ["scale<float>"], "sm_90").values():
        print(kernel.registers, kernel.stack, kernel.shared)

NVRTC is NVIDIA's compiler as a library: the wheel `nvidia-cuda-nvrtc`, or that of an installed toolkit.
"""

from __future__ import annotations

import ctypes
import importlib.util
import struct
from collections.abc import Sequence
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


class CompileError(RuntimeError):
    """The compiler's own words, with file and line."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What one thread and one block of a kernel take.

    `stack` counts bytes of a thread's stack: registers spilled, arrays that are indexed at run time. It lies in device memory.
    """

    registers: int
    stack: int
    shared: int


@cache
def library() -> ctypes.CDLL | None:
    """NVRTC from the wheel or the system, None where there is none."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    found = [str(file) for place in places for file in sorted(place.glob("*/lib/libnvrtc.so.*"))]
    for name in (*found, find_library("nvrtc")):
        if name is not None and ".alt." not in name:
            try:
                # its second half is found by name alone, so it is loaded first
                for half in Path(name).parent.glob("libnvrtc-builtins.so.*"):
                    ctypes.CDLL(str(half))
                return ctypes.CDLL(name)
            except OSError:
                continue
    return None


def available() -> bool:
    """Can this machine compile for a GPU?"""
    return library() is not None


def version() -> str:
    """Of NVRTC."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def _call(name: str, *arguments: Any) -> None:
    loaded = library()
    if loaded is None:
        raise RuntimeError("no NVRTC here: pip install nvidia-cuda-nvrtc")
    code = getattr(loaded, name)(*arguments)
    if code:
        words = loaded.nvrtcGetErrorString
        words.restype = ctypes.c_char_p
        raise CompileError(f"{name}: {words(code).decode()}")


def _text(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    _call(f"nvrtcGet{what}", program, buffer)
    return buffer.raw


def cubin(
    source: str, expressions: Sequence[str], architecture: str, *options: str, name: str = "source.cu"
) -> tuple[bytes, dict[str, str]]:
    """The machine code, and each name expression's symbol in it. Raises CompileError."""
    return _compiled("CUBIN", source, expressions, architecture, options, name)


def _compiled(
    what: str, source: str, expressions: Sequence[str], architecture: str, options: Sequence[str], name: str
) -> tuple[bytes, dict[str, str]]:
    program = ctypes.c_void_p()
    _call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
    try:
        for expression in expressions:
            _call("nvrtcAddNameExpression", program, expression.encode())
        given = [f"--gpu-architecture={architecture}", "-std=c++17", *options]
        words = (ctypes.c_char_p * len(given))(*(word.encode() for word in given))
        try:
            _call("nvrtcCompileProgram", program, len(given), words)
        except CompileError as error:
            raise CompileError(_text(program, "ProgramLog").rstrip(b"\0").decode()) from error
        symbols = {}
        for expression in expressions:
            lowered = ctypes.c_char_p()
            _call("nvrtcGetLoweredName", program, expression.encode(), ctypes.byref(lowered))
            symbols[expression] = (lowered.value or b"").decode()
        return _text(program, what), symbols
    finally:
        _call("nvrtcDestroyProgram", ctypes.byref(program))


def ptx(source: str, expressions: Sequence[str], architecture: str, *options: str, name: str = "source.cu") -> str:
    """The assembly text for a virtual architecture such as `compute_90`. Raises CompileError."""
    return _compiled("PTX", source, expressions, architecture, options, name)[0].rstrip(b"\0").decode()


def compiled(
    source: str, expressions: Sequence[str], architecture: str, *options: str, name: str = "source.cu"
) -> dict[str, Resources]:
    """What each kernel takes on that architecture. Raises CompileError."""
    code, symbols = cubin(source, expressions, architecture, *options, name=name)
    found = resources(code)
    return {expression: found[symbol] for expression, symbol in symbols.items()}


# -- reading a cubin -------------------------------------------------------------------------------------------------

_FRAME_SIZE, _REGISTERS = 0x11, 0x2F
"""Attributes of `.nv.info`: four bytes (4, attribute, size), then (symbol, value)."""


def resources(code: bytes) -> dict[str, Resources]:
    """Of every kernel in a cubin, an ELF file, by symbol."""
    sections = _sections(code)
    strings = sections[".strtab"]
    symbols = [_name(strings, struct.unpack_from("<I", row)[0]) for row in _rows(sections[".symtab"], 24)]
    kernels = [name.removeprefix(".text.") for name in sections if name.startswith(".text.")]
    values: dict[int, dict[str, int]] = {_FRAME_SIZE: {}, _REGISTERS: {}}
    info = sections[".nv.info"]
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == 4 and attribute in values:
            symbol, value = struct.unpack_from("<II", info, at + 4)
            values[attribute][symbols[symbol]] = value
        at += 4 + (size if form == 4 else 0)
    return {
        kernel: Resources(
            values[_REGISTERS][kernel],
            values[_FRAME_SIZE].get(kernel, 0),
            len(sections.get(f".nv.shared.{kernel}", b"")),
        )
        for kernel in kernels
    }


def _sections(code: bytes) -> dict[str, bytes]:
    start, entry, count, names = struct.unpack_from("<Q", code, 40)[0], *struct.unpack_from("<HHH", code, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", code, start + entry * number) for number in range(count)]
    strings = code[heads[names][4] :]
    no_bits = 8  # the type of a section that has a size and no content, as shared memory
    return {
        _name(strings, head[0]): bytes(head[5]) if head[1] == no_bits else code[head[4] : head[4] + head[5]]
        for head in heads
    }


def _name(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()


def _rows(table: bytes, size: int) -> list[bytes]:
    return [table[at : at + size] for at in range(0, len(table), size)]
