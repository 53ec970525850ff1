# Tangled from chapters/01_import/d2_simulated_arrays.py — edit there, or here and run `readtorch sync`.
"""How the simulated device does an operation: check, compute, and note what was read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from readtorch.c10.cuda.simulated.memory import Block
from readtorch.c10.cuda.simulated.stream import Stream, current, current_stream, host


class MemoryPointer(NamedTuple):
    """Where an array begins: in which block, and how many bytes from its start."""

    mem: Block
    offset: int

    @property
    def ptr(self) -> int:
        """The address."""
        return self.mem.ptr + self.offset

    @property
    def device_id(self) -> int:
        """The device whose memory it is."""
        return self.mem.device_id


class Copies:
    """How many copies went over the bus, by direction, and how many bytes."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.bytes: dict[str, int] = {}

    def add(self, direction: str, size: int) -> None:
        """Note a copy: "HtoD", "DtoH" or "PtoP"."""
        self.count[direction] = self.count.get(direction, 0) + 1
        self.bytes[direction] = self.bytes.get(direction, 0) + size


copies = Copies()

#: the class of arrays; `ndarray.py` puts it here
array_class: Any = None


def operands(values: Iterable[Any], found: list[Any], what: str) -> tuple[Any, ...]:
    """The arguments with NumPy data in place of arrays, which are added to `found`. TypeError for an array of the host."""
    raw = []
    for value in values:
        kind = value.__class__
        if kind is array_class:
            found.append(value)
            raw.append(value._data)
        elif kind is list or kind is tuple:
            raw.append(kind(operands(value, found, what)))
        elif isinstance(value, np.ndarray):
            raise TypeError(f"{what}: Unsupported type {type(value)}: an array of the host; copy it with asarray first")
        else:
            raw.append(value)
    return tuple(raw)


def launch(
    what: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, writes: Any = None,
    *, refused: bool = False,
) -> Any:  # fmt: skip
    """Run `function` on the data of the arrays among the arguments, on the current stream.

    `writes` is the array that it changes; it is then returned. `refused`: it must not be part of a captured graph.
    """
    stream = current_stream()
    if refused and stream.captured is not None and not current.in_kernel:
        raise NotImplementedError(f"{what}: calling this library during stream capture is currently unsupported")
    found: list[Any] = []
    raw = operands(args, found, what)
    keywords = dict(zip(kwargs, operands(kwargs.values(), found, what), strict=True)) if kwargs else {}
    if writes is None:
        result = function(*raw, **keywords)  # it changes nothing, so that it can be looked at before it is allowed
        if (views := as_views(result, found)) is not None:
            return views
    capture = stream.captured
    if capture is not None:
        return capture.note(what, function, raw, keywords, found, writes, None if writes is not None else result)
    number = stream.tick()
    for array in found:
        array.data.mem.touch(stream, number, False, what)
    if writes is not None:
        writes.data.mem.touch(stream, number, True, what)
        function(*raw, **keywords)
        return writes
    return wrap(result, lambda block: block.touch(stream, number, True, what))


def as_views(result: Any, found: list[Any]) -> Any:
    """The result, if it is nothing but views of the operands' memory, which are to be had without the device; else None."""
    if isinstance(result, np.ndarray):
        owner = owner_of(result)
        for array in found:
            if array.data.mem.memory is owner:
                return array_class._view(array, result if result.flags.writeable else _writeable(result))
        return None
    if result.__class__ in (tuple, list) and result:
        views = [as_views(item, found) for item in result]
        return None if any(view is None for view in views) else type(result)(views)
    return None


def wrap(result: Any, written: Callable[[Block], None]) -> Any:
    """NumPy's result as device arrays, whose memory `written` is told of. What is no array is given as it is."""
    if result.__class__ is tuple or result.__class__ is list:
        return type(result)(wrap(item, written) for item in result)
    if isinstance(result, tuple):  # np.unique and np.linalg return named ones
        return type(result)(*(wrap(item, written) for item in result))
    if isinstance(result, np.generic):
        result = np.asarray(result)
    elif not isinstance(result, np.ndarray):
        return result
    block = Block(owner_of(result))
    written(block)
    return array_class._of(result, block)


def _writeable(view: np.ndarray) -> np.ndarray:
    """The same view: CuPy's can all be written to, those that are stretched too."""
    owner = owner_of(view)
    offset = view.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    memory = owner.reshape(-1, order="A").view(np.uint8)
    return np.ndarray(view.shape, view.dtype, memory, offset, view.strides)


def owner_of(array: Any) -> Any:
    """The NumPy array that owns the memory behind `array`."""
    while (base := array.base) is not None:
        if isinstance(base, np.ndarray):
            array = base
        elif isinstance(getattr(base, "base", None), np.ndarray):  # as_strided puts an object between
            array = base.base
        else:
            break
    return array


def no_capture(stream: Stream, what: str) -> Stream:
    """`stream`. RuntimeError while it is captured: CuPy makes no copies then, and does not even ask CUDA."""
    if stream.captured is not None:
        raise RuntimeError(f"{what}: disallowed, the current stream is capturing")
    return stream


def wait_for(array: Any, what: str) -> None:
    """Stop the host until `array` is complete: its value is wanted there. RuntimeError during capture."""
    stream = no_capture(current_stream(), what)
    array.data.mem.touch(stream, stream.tick(), False, what)
    host.wait(stream.clock, what)
