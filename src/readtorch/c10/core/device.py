# Tangled from chapters/00_tensor/, chapters/a1_operators/ — edit there, or here and run `readtorch sync`.

from __future__ import annotations

from typing import Any

DEVICE_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy", "vulkan",
    "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip


class device:
    """A kind of memory and its ordinal: `device("cuda:1")`, `device("cuda", 1)`, `device(1)` (an accelerator's), `device(dev)`.

    `index` is None where "the current one" is meant. Immutable and hashable. RuntimeError on a string that names no kind.
    As a context manager it sets the device that creation functions use.
    """

    __slots__ = ("_saved", "index", "type")
    type: str
    index: int | None

    def __new__(cls, type: Any = None, index: int | None = None) -> device:
        if isinstance(type, device) and index is None:
            return type
        self = object.__new__(cls)
        kind, number = _parse(type, index)
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", number)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type,) if self.index is None else (self.type, self.index))

    def __enter__(self) -> device:
        stack = _context.devices
        stack.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _context.devices.pop()


#: the types of device that a bare number may mean; a backend adds its own when it is there
ACCELERATORS: list[str] = []

#: what looks for them when one is first meant; a backend adds its own
FINDERS: list[Any] = []


def accelerators() -> list[str]:
    """The kinds of accelerator that this machine has."""
    for find in () if ACCELERATORS else FINDERS:
        find()
    return ACCELERATORS


def _parse(kind: Any, index: int | None) -> tuple[str, int | None]:
    if isinstance(kind, int) and not isinstance(kind, bool):
        if kind < 0:
            raise RuntimeError("Device index must not be negative")
        if not accelerators():
            raise RuntimeError("Cannot access accelerator device when none is available.")
        return (ACCELERATORS[0], kind)
    if not isinstance(kind, str):
        raise TypeError(f"device(): argument 'type' (position 1) must be str, not {kind.__class__.__name__}")
    name, colon, number = kind.partition(":")
    if name not in DEVICE_TYPES:
        if not kind:
            raise RuntimeError("Device string must not be empty")
        if not name.replace("_", "").isalpha():
            raise RuntimeError(f"Invalid device string: '{kind}'")
        kinds = ", ".join(DEVICE_TYPES)
        raise RuntimeError(f"Expected one of {kinds} device type at start of device string: {name}")
    if colon:
        if index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {kind}")
        if not number.isdigit() or (len(number) > 1 and number[0] == "0"):
            raise RuntimeError(f"Invalid device string: '{kind}'")
        index = int(number)
    if index is not None and not isinstance(index, int):
        raise TypeError(f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}")
    if index is not None and index < 0:
        raise RuntimeError("Device index must not be negative")
    return name, index


class _Context:
    """Devices entered with `with device:`, innermost last, below them the one of `set_default_device`."""

    def __init__(self) -> None:
        self.devices: list[device] = []
        self.default: device | None = None


_context = _Context()
cpu = device("cpu")
meta = device("meta")


def current_default_device() -> device:
    """Where creation functions put a tensor when no device is named."""
    return _context.devices[-1] if _context.devices else _context.default or cpu


def set_default_device(where: device | None) -> None:
    """The device below all those entered with `with device:`."""
    _context.default = cpu if where is None else where
